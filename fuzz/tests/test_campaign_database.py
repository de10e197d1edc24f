"""The database of a campaign: all or nothing, and nothing else than its own kind."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.campaign import database as databases
from tinyref_fuzz.campaign.database import NAME, Database, lock
from tinyref_fuzz.campaign.results import CaseResult
from tinyref_fuzz.campaign.task import CampaignError, Done, Examination, Task
from tinyref_spec.kernel_case import Blame, Pair, Symptom, Verdict

WRONG = Verdict(Pair.DEVICE, Symptom.VALUE, "element 3 of 8 is 1 instead of 2", 0, 2)
VERSIONS = Path(__file__).parent / "versions"
PREVIOUS = "campaign.previous.sqlite"
CONFIG = {"seed": 5, "device": "PYTHON"}


def chunk(first: int, *wrong: int, guide: dict[str, int] | None = None) -> Done:
    results = [
        CaseResult(n, 0.5, 2, {"int-sum": 3}, {"A B": 1}, WRONG if n in wrong else None)
        for n in range(first, first + 20)
    ]
    return Done(Task(first, first + 20, guide), tuple(results))


def filled(folder: Path) -> Database:
    database = Database.create(folder, CONFIG)
    database.add(chunk(0, 3), 0)
    database.add(chunk(1000, 1007, 1009, guide={"x": 1}), 1)
    return database


def test_what_is_stored_is_there_when_it_is_opened_again(tmp_path: Path):
    database = filled(tmp_path)
    case = tmp_path / "cases" / "case.json"
    database.keep(Examination(3, "bucket", Blame("device"), "x", {"ast": []}, 8, 2), str(case))
    database.assign(1009, "bucket")
    database.close()
    again = Database.open(tmp_path)
    assert again.config() == CONFIG
    assert again.chunks() == [(0, 20), (1000, 1020)]
    assert again.totals() == (40, 80, 20.0)
    assert again.coverage("rule") == {"int-sum": 120}
    assert again.coverage("rule", before=1) == {"int-sum": 60}
    assert again.coverage("pair") == {"A B": 40}
    assert [(each.number, each.bucket, each.guide) for each in again.findings()] == [
        (3, "bucket", None),
        (1007, None, {"x": 1}),
        (1009, "bucket", {"x": 1}),
    ]
    (bucket,) = again.buckets()
    assert (bucket.key, bucket.findings, bucket.file) == ("bucket", 2, str(case))
    assert bucket.examination.nodes == 8


def test_there_is_a_sample_and_a_step_for_each_older_version():
    assert sorted(databases.STEPS) == list(range(1, databases.VERSION))
    samples = {path.stem for path in VERSIONS.glob("campaign-*.sql")}
    assert samples == {f"campaign-{version}" for version in databases.STEPS}


def written_by_version_1(folder: Path) -> Path:
    """The database that tinyref wrote before verdicts and blames were those of case files."""
    path = folder / NAME
    connection = sqlite3.connect(path)
    connection.executescript((VERSIONS / "campaign-1.sql").read_text())
    connection.close()
    return path


def test_a_database_of_version_1_reads_as_it_was_meant(tmp_path: Path):
    path = written_by_version_1(tmp_path)
    for _ in range(2):
        database = Database.open(tmp_path)
        value = "slot 0: element 3 is 4 instead of 5"
        first, second = database.findings()
        assert first.verdict == Verdict(Pair.OPTIMISED, Symptom.VALUE, value, 1, 4)
        assert (first.number, first.bucket) == (3, "optimise/PADTO")
        zone = "the byte 1 after slot 0 changed"
        assert second.verdict == Verdict(Pair.DEVICE, Symptom.RED_ZONE, zone, -1, 2)
        assert (second.number, second.bucket, second.guide) == (9, None, {"opts": {"UPCAST": 2.0}})
        (bucket,) = database.buckets()
        assert bucket.examination.blame == Blame("optimise", "PADTO")
        assert (bucket.examination.detail, bucket.examination.nodes) == (value, 4)
        assert database.config() == {
            "device": "CPU",
            "seed": 7,
            "policy": "all",
            "code": "0.1-abc",
        }
        assert database.totals() == (20, 6, 0.75)
        database.close()
    connection = sqlite3.connect(path)
    assert connection.execute("pragma user_version").fetchone() == (2,)
    connection.close()


@pytest.mark.parametrize("words", ['{"pair": 1}', "[]", "{", '{"pair": "NO", "symptom": "VALUE"}'])
def test_a_damaged_database_of_version_1_is_refused_and_stays(tmp_path: Path, words: str):
    path = written_by_version_1(tmp_path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update findings set verdict = ? where number = 9", (words,))
    connection.close()
    with pytest.raises(UserError, match="is damaged"):
        Database.open(tmp_path).findings()


def test_a_file_is_found_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "night" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "night")
    database = filled(Path("here"))
    for number, file in ((3, "here/cases/a.json"), (1007, "shared/b.json"), (1009, "")):
        database.keep(Examination(number, str(number), Blame("device"), "x"), file)
    assert [bucket.file for bucket in database.buckets()] == [
        *("here/cases/a.json", str(tmp_path / "night/shared/b.json"), ""),
    ]
    database.close()
    monkeypatch.chdir(tmp_path)
    # With the folder its own cases move, and the corpus that others share does not.
    (tmp_path / "night/here").rename("there")
    assert [bucket.file for bucket in Database.open(Path("there")).buckets()] == [
        *("there/cases/a.json", str(tmp_path / "night/shared/b.json"), ""),
    ]


def test_a_setting_is_replaced_and_the_others_stay(tmp_path: Path):
    database = filled(tmp_path)
    database.remember({"used": 1.5})
    database.remember({"used": 2.5, "corpus": None})
    database.close()
    assert Database.open(tmp_path).config() == {**CONFIG, "used": 2.5, "corpus": None}


def test_a_chunk_is_stored_whole_or_not_at_all(tmp_path: Path):
    database = filled(tmp_path)
    with pytest.raises(CampaignError, match="UNIQUE constraint"):
        database.add(chunk(0, 4), 0)
    assert database.totals() == (40, 80, 20.0)
    assert database.coverage("rule") == {"int-sum": 120}
    assert [each.number for each in database.findings()] == [3, 1007, 1009]


def test_a_database_of_which_the_error_is_no_text_is_refused(tmp_path: Path):
    filled(tmp_path).close()
    content = (tmp_path / NAME).read_bytes()
    assert b"CREATE TABLE chunks" in content
    (tmp_path / NAME).write_bytes(
        content.replace(b"CREATE TABLE chunks", b"CREATE TABL\xff chunks")
    )
    with pytest.raises(UserError, match="is damaged, or no database"):
        Database.create(tmp_path, CONFIG)


def test_a_campaign_that_another_program_has_open_is_kept_whole(tmp_path: Path):
    filled(tmp_path).close()
    earlier = Database.open(tmp_path)
    reader = sqlite3.connect(tmp_path / NAME)
    assert reader.execute("select count(*) from chunks").fetchone() == (2,)
    earlier.add(chunk(2000), 1)
    earlier.close()
    again = Database.create(tmp_path, CONFIG)
    assert again.chunks() == []
    again.add(chunk(0), 0)
    # The reader has what it had.
    assert reader.execute("select count(*) from chunks").fetchone() == (3,)
    reader.close()
    again.close()
    for name, chunks in ((PREVIOUS, 3), (NAME, 1)):
        found = sqlite3.connect(tmp_path / name)
        assert found.execute("select count(*) from chunks").fetchone() == (chunks,)
        assert found.execute("pragma integrity_check").fetchone() == ("ok",)
        found.close()


def test_a_campaign_that_is_being_read_is_not_moved_away(tmp_path: Path, monkeypatch):
    filled(tmp_path).close()
    connect = databases._connect

    def impatient(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("pragma busy_timeout = 50")
        return connection

    monkeypatch.setattr(databases, "_connect", impatient)
    reader = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    reader.execute("begin")
    assert reader.execute("select count(*) from chunks").fetchone() == (2,)
    earlier = Database.open(tmp_path)
    earlier.add(chunk(2000), 1)
    earlier.close()
    with pytest.raises(UserError, match=r"campaign\.sqlite is read by another program: end that"):
        Database.create(tmp_path, CONFIG)
    reader.close()
    found = Database.open(tmp_path)
    assert found.chunks() == [(0, 20), (1000, 1020), (2000, 2020)]
    found.close()


def test_an_earlier_campaign_is_kept_beside_a_new_one(tmp_path: Path):
    filled(tmp_path).close()
    database = Database.create(tmp_path, {"seed": 6})
    assert database.config() == {"seed": 6}
    assert database.chunks() == []
    previous = sqlite3.connect(tmp_path / PREVIOUS)
    assert previous.execute("select count(*) from chunks").fetchone() == (2,)


def test_no_earlier_campaign_is_overwritten(tmp_path: Path):
    for _ in range(3):
        filled(tmp_path).close()
    kept = sorted(path.name for path in tmp_path.glob("campaign.previous*.sqlite"))
    assert kept == ["campaign.previous.sqlite", "campaign.previous1.sqlite"]


def test_one_that_judged_nothing_does_not_push_out_another(tmp_path: Path):
    filled(tmp_path).close()
    for seed in (6, 7, 8):
        Database.create(tmp_path, {"seed": seed}).close()
    assert Database.open(tmp_path).config() == {"seed": 8}
    previous = sqlite3.connect(tmp_path / PREVIOUS)
    assert previous.execute("select count(*) from chunks").fetchone() == (2,)


def test_a_folder_in_the_place_of_the_database_is_refused(tmp_path: Path):
    (tmp_path / NAME).mkdir()
    for begin in (Database.open, lambda folder: Database.create(folder, CONFIG)):
        with pytest.raises(UserError, match="unable to open database file"):
            begin(tmp_path)


def test_a_campaign_that_was_killed_before_it_began_is_in_nobodys_way(tmp_path: Path):
    (tmp_path / NAME).touch()
    database = Database.create(tmp_path, CONFIG)
    assert database.config() == CONFIG
    database.close()
    assert not (tmp_path / PREVIOUS).exists()


@pytest.mark.parametrize("how", ["truncated", "garbage", "foreign", "newer", "lacking", "missing"])
def test_what_is_not_a_whole_database_of_ours_is_refused(tmp_path: Path, how: str):
    filled(tmp_path).close()
    path = tmp_path / NAME
    if how == "truncated":
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
    elif how == "garbage":
        path.write_bytes(b"not a database at all" * 100)
    elif how == "missing":
        path.unlink()
    else:
        statement = {
            "foreign": "pragma application_id = 7",
            "newer": "pragma user_version = 99",
            "lacking": "drop table findings",
        }[how]
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
    message = {
        "truncated": "damaged",
        "garbage": "damaged, or no database: file is not a database",
        "foreign": "is not of a fuzzing campaign",
        "newer": "is of version 99, this tinyref reads 1 to 2",
        "lacking": "it lacks tables",
        "missing": "there is no campaign in",
    }[how]
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(UserError, match=message):
        Database.open(tmp_path)
    if how != "missing":
        # Nor is it thrown away by a campaign that starts anew.
        with pytest.raises(UserError, match=message):
            Database.create(tmp_path, CONFIG)
        assert path.read_bytes() == before


def test_a_full_disk_is_reported_and_what_was_stored_stays(tmp_path: Path):
    database = filled(tmp_path)
    pages = database._connection.execute("pragma page_count").fetchone()[0]
    # As a full disk does, the limit stops the file from growing.
    database._connection.execute(f"pragma max_page_count = {pages}")
    rules = {f"rule-{number}": 1 for number in range(5000)}
    large = Done(Task(20, 21), (CaseResult(20, 0.5, 2, rules),))
    with pytest.raises(CampaignError, match="database or disk is full"):
        database.add(large, 0)
    database.close()
    assert Database.open(tmp_path).totals() == (40, 80, 20.0)


def test_a_folder_has_one_campaign_at_a_time(tmp_path: Path):
    held = lock(tmp_path)
    with pytest.raises(UserError, match="another campaign is running in"):
        lock(tmp_path)
    held.release()
    lock(tmp_path).release()


@pytest.mark.long
def test_a_writer_that_is_killed_leaves_the_chunks_that_it_finished(tmp_path: Path):
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_campaign_database import *
database = filled(Path({str(tmp_path)!r}))
connection = database._connection
connection.execute("begin immediate")
connection.execute("insert into chunks values (40, 60, 1, 1.0)")
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL
    assert Database.open(tmp_path).chunks() == [(0, 20), (1000, 1020)]


FOREIGN = (None, -1, 1.5, "", "\x1b[2J", b"\xff\xfe", "[" * 100_000, "9" * 100_000, "{}", "[null]")
COLUMNS = {
    "config": ("key", "value"),
    "chunks": ("first", "stop", "judged", "seconds"),
    "coverage": ("epoch", "kind", "name", "count"),
    "findings": ("number", "signature", "verdict", "guide", "bucket"),
    "guides": ("epoch", "guide"),
    "buckets": ("key", "number", "examination", "file"),
}


def read_all(folder: Path) -> None:
    database = Database.open(folder)
    try:
        database.config()
        database.chunks()
        database.totals()
        database.coverage("rule")
        database.findings()
        database.buckets()
        database.guides()
    finally:
        database.close()


def whole(folder: Path) -> bytes:
    """A database with something in each table."""
    database = filled(folder)
    database.keep(Examination(3, "bucket", Blame("device"), "x", {"ast": []}, 8, 2), "case.json")
    database.keep_guide(0, {"x": 1})
    database.close()
    return (folder / NAME).read_bytes()


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table, columns in COLUMNS.items() for column in columns],
)
def test_foreign_values_are_one_class_of_error(tmp_path: Path, table: str, column: str):
    good = whole(tmp_path)
    for value in FOREIGN:
        (tmp_path / NAME).write_bytes(good)
        with sqlite3.connect(tmp_path / NAME) as connection, suppress(sqlite3.IntegrityError):
            row = f"rowid = (select min(rowid) from {table})"
            with suppress(sqlite3.OperationalError):
                connection.execute(f"update {table} set {column} = ? where {row}", (value,))
        connection.close()
        with suppress(UserError):
            read_all(tmp_path)


@pytest.mark.parametrize(
    ("table", "column", "foreign"),
    [
        ("config", "value", "["),
        ("findings", "verdict", '{"pair": "NO"}'),
        ("findings", "guide", "[]"),
        ("buckets", "examination", '{"number": 1}'),
        ("guides", "guide", "5"),
    ],
)
def test_json_that_no_campaign_wrote_is_refused(
    tmp_path: Path, table: str, column: str, foreign: str
):
    whole(tmp_path)
    for value in ("[" * 100_000, "9" * 100_000, b"\xff", "{", foreign):
        with sqlite3.connect(tmp_path / NAME) as connection:
            connection.execute(f"update {table} set {column} = ?", (value,))
        connection.close()
        with pytest.raises(UserError, match="is damaged"):
            read_all(tmp_path)


def test_damaged_bytes_are_one_class_of_error(tmp_path: Path):
    good = whole(tmp_path)
    generator = random.Random(5)
    for _ in range(40):
        data = bytearray(good)
        for _ in range(generator.randrange(1, 30)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        (tmp_path / NAME).write_bytes(data)
        with suppress(UserError):
            read_all(tmp_path)
