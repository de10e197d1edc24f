"""The database of a campaign: findings, buckets, and paths of their files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.campaign.results import CampaignCase
from tinyref_fuzz.campaign.task import Examination
from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair, Symptom

WRONG = KernelVerdict(Pair.DEVICE, Symptom.VALUE, "element 3 of 8 is 1 instead of 2", 0, 2)
CONFIG = {"seed": 5, "device": "PYTHON"}


def filled(folder: Path) -> Database:
    database = Database.create(folder, CONFIG)
    for first, stop in ((0, 20), (1000, 1010)):
        for number in range(first, stop):
            verdict = WRONG if number in (3, 1007, 1009) else None
            finding = database.add(CampaignCase(number, 0.5, 2, verdict), first)
            assert (finding is None) is (verdict is None)
    return database


def test_a_database_is_complete_after_reopening(tmp_path: Path):
    database = filled(tmp_path)
    case = tmp_path / "cases" / "case.json"
    database.keep(Examination(3, "bucket", Blame("device"), "x", {"ast": []}, 8, 2), str(case))
    database.assign(1009, "bucket")
    database.close()
    again = Database.open(tmp_path)
    assert again.config() == CONFIG
    assert again.spans() == [(0, 20), (1000, 1010)]
    assert again.totals() == (30, 60, 15.0)
    rows = [(finding.number, finding.signature, finding.bucket) for finding in again.findings()]
    assert rows == [
        (3, "DEVICE VALUE", "bucket"),
        (1007, "DEVICE VALUE", None),
        (1009, "DEVICE VALUE", "bucket"),
    ]
    (bucket,) = again.buckets()
    assert (bucket.key, bucket.findings, bucket.file) == ("bucket", 2, str(case))
    assert (bucket.examination.nodes, again.findings()[0].verdict) == (8, WRONG)
    again.close()


def test_a_file_is_found_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "night" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "night")
    database = filled(Path("here"))
    for number, file in ((3, "here/cases/a.json"), (1007, "shared/b.json"), (1009, "")):
        database.keep(Examination(number, str(number), Blame("device"), "x"), file)
    shared = str(tmp_path / "night/shared/b.json")
    assert [bucket.file for bucket in database.buckets()] == ["here/cases/a.json", shared, ""]
    database.close()
    monkeypatch.chdir(tmp_path)
    # The folder's own cases move with it; a shared corpus does not.
    (tmp_path / "night/here").rename("there")
    database = Database.open(Path("there"))
    assert [bucket.file for bucket in database.buckets()] == ["there/cases/a.json", shared, ""]
    database.close()


def read_all(folder: Path) -> None:
    with closing(Database.open(folder)) as database:
        database.config()
        database.spans()
        database.totals()
        database.findings()
        database.buckets()


def whole(folder: Path) -> bytes:
    """Return the bytes of a database with something in each table."""
    database = filled(folder)
    database.keep(Examination(3, "bucket", Blame("device"), "x", {"ast": []}, 8, 2), "case.json")
    database.close()
    return (folder / Database.NAME).read_bytes()


@pytest.mark.parametrize(
    ("table", "column", "foreign"),
    [
        ("config", "value", "["),
        ("findings", "verdict", '{"pair": "NO"}'),
        ("buckets", "examination", '{"number": 1}'),
    ],
)
def test_json_that_no_campaign_wrote_is_refused(
    tmp_path: Path, table: str, column: str, foreign: str
):
    whole(tmp_path)
    for value in ("[" * 100_000, "9" * 100_000, b"\xff", "{", foreign):
        with closing(sqlite3.connect(tmp_path / Database.NAME)) as connection, connection:
            connection.execute(f"update {table} set {column} = ?", (value,))
        with pytest.raises(UserError, match="is damaged"):
            read_all(tmp_path)
