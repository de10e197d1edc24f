"""Test the journal of a run: it is atomic, loses nothing, and opens only its own kind."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from state_machines import run_machine

from tinyref.errors import UserError
from tinyref.folders import RemovedError
from tinyref.workers import journal as journals
from tinyref.workers.journal import Journal
from tinyref.workers.tasks import ChangedError, HarnessError, differences

CONFIG = {"seed": 5, "device": "PYTHON"}


class Notes(Journal):
    NAME = "notes.sqlite"
    APPLICATION = 77
    NOUN = "walk"
    TABLES = {"notes": "number integer primary key, words text not null"}

    def add(self, words: str) -> None:
        with self.writing() as connection:
            connection.execute("insert into notes (words) values (?)", (words,))

    def notes(self) -> list[str]:
        with self.reading() as connection:
            rows = connection.execute("select words from notes order by number")
            return [journals.text(words) for (words,) in rows]


PREVIOUS = "notes.previous.sqlite"


def filled(folder: Path) -> Notes:
    notes = Notes.create(folder, CONFIG)
    notes.add("a")
    notes.add("b")
    return notes


def read(folder: Path) -> tuple[dict[str, Any], list[str]]:
    with closing(Notes.open(folder)) as notes:
        return notes.config(), notes.notes()


def add_then(notes: Notes, error: BaseException) -> None:
    with notes.writing():
        notes.add("c")
        raise error


def test_a_transaction_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    notes = filled(tmp_path)
    with pytest.raises(HarnessError, match=r"cannot write .*: disk I/O error"):
        add_then(notes, sqlite3.OperationalError("disk I/O error"))
    assert notes.notes() == ["a", "b"]
    # Ctrl-C does not spoil earlier entries.
    with pytest.raises(KeyboardInterrupt):
        add_then(notes, KeyboardInterrupt())
    notes.close()
    assert read(tmp_path)[1] == ["a", "b", "c"]


def test_a_full_disk_is_reported_and_what_was_stored_stays(tmp_path: Path) -> None:
    notes = filled(tmp_path)
    (pages,) = notes._connection.execute("pragma page_count").fetchone()
    # Like a full disk, the limit stops the file from growing.
    notes._connection.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(HarnessError, match="database or disk is full"):
        notes.add("x" * 100_000)
    notes.close()
    assert read(tmp_path)[1] == ["a", "b"]


@pytest.mark.long
def test_a_writer_that_is_killed_leaves_what_it_finished(tmp_path: Path) -> None:
    code = f"""
import os, signal, sys
sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
from pathlib import Path
from test_journal import filled
notes = filled(Path({str(tmp_path)!r}))
with notes.writing():
    notes.add("c")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert read(tmp_path) == (CONFIG, ["a", "b"])


def test_a_folder_has_one_run_at_a_time(tmp_path: Path) -> None:
    held = Notes.lock(tmp_path)
    with pytest.raises(UserError, match=r"out: another walk is writing to .*its own --out"):
        Notes.lock(tmp_path)
    held.release()
    Notes.lock(tmp_path).release()


@pytest.mark.parametrize("how", ["truncated", "garbage", "foreign", "newer", "lacking", "missing"])
def test_what_is_not_a_whole_journal_of_ours_is_refused(tmp_path: Path, how: str) -> None:
    filled(tmp_path).close()
    path = tmp_path / Notes.NAME
    if how == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif how == "garbage":
        path.write_bytes(b"not a database at all" * 100)
    elif how == "missing":
        path.unlink()
    else:
        statement = {
            "foreign": "pragma application_id = 7",
            "newer": "pragma user_version = 99",
            "lacking": "drop table notes",
        }[how]
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
    message = {
        "truncated": "damaged",
        "garbage": "damaged or not a journal: file is not a database",
        "foreign": "is not of a walk: choose another --out, or move it away",
        "newer": "is of version 99, this tinyref reads 1",
        "lacking": "it lacks tables",
        "missing": "there is no walk in",
    }[how]
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(UserError, match=message):
        Notes.open(tmp_path)
    if how != "missing":
        # A new run does not delete it either.
        with pytest.raises(UserError, match=message):
            Notes.create(tmp_path, CONFIG)
        assert path.read_bytes() == before


def test_a_folder_in_the_place_of_the_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / Notes.NAME).mkdir()
    for begin in (Notes.open, lambda folder: Notes.create(folder, CONFIG)):
        with pytest.raises(UserError, match="unable to open database file"):
            begin(tmp_path)


def test_damaged_bytes_and_foreign_values_are_one_class_of_error(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = tmp_path / Notes.NAME
    good = path.read_bytes()
    generator = random.Random(5)
    for _ in range(40):
        data = bytearray(good)
        for _ in range(generator.randrange(1, 30)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        with suppress(UserError):
            read(tmp_path)
    for value in ("[", "[" * 100_000, "9" * 100_000, b"\xff", ""):
        path.write_bytes(good)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("update config set value = ?", (value,))
        with pytest.raises(UserError, match="is damaged"):
            read(tmp_path)


def test_an_earlier_run_is_kept_with_its_pages(tmp_path: Path) -> None:
    filled(tmp_path).close()
    (tmp_path / "page.html").write_text("of the first")
    (tmp_path / "page.previous.html").write_text("mine")
    notes = Notes.create(tmp_path, {"seed": 6}, ["page.html", "no.html"])
    assert (notes.config(), notes.notes()) == ({"seed": 6}, [])
    notes.close()
    assert (tmp_path / "page.previous.html").read_text() == "mine"
    assert (tmp_path / "page.previous1.html").read_text() == "of the first"
    # An entry without a result does not replace another.
    Notes.create(tmp_path, {"seed": 7}).close()
    filled(tmp_path).close()
    Notes.create(tmp_path, {"seed": 8}).close()
    names = sorted(path.name for path in tmp_path.glob("notes.previous*"))
    assert names == [PREVIOUS, "notes.previous1.sqlite"]


def test_one_that_was_killed_before_it_began_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / Notes.NAME).touch()
    Notes.create(tmp_path, CONFIG).close()
    assert read(tmp_path) == (CONFIG, [])
    assert not (tmp_path / PREVIOUS).exists()


def test_one_that_another_program_has_open_is_kept_whole(tmp_path: Path) -> None:
    filled(tmp_path).close()
    earlier = Notes.open(tmp_path)
    with closing(sqlite3.connect(tmp_path / Notes.NAME)) as reader:
        assert reader.execute("select count(*) from notes").fetchone() == (2,)
        earlier.add("c")
        earlier.close()
        again = Notes.create(tmp_path, CONFIG)
        assert again.notes() == []
        # The reader has its old state.
        assert reader.execute("select count(*) from notes").fetchone() == (3,)
    again.close()
    with closing(sqlite3.connect(tmp_path / PREVIOUS)) as previous:
        assert previous.execute("select count(*) from notes").fetchone() == (3,)
        assert previous.execute("pragma integrity_check").fetchone() == ("ok",)


def test_one_that_is_being_read_is_not_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path).close()
    connect = journals.connect

    def impatient(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("pragma busy_timeout = 50")
        return connection

    monkeypatch.setattr(journals, "connect", impatient)
    with closing(sqlite3.connect(tmp_path / Notes.NAME, isolation_level=None)) as reader:
        reader.execute("begin")
        assert reader.execute("select count(*) from notes").fetchone() == (2,)
        with closing(Notes.open(tmp_path)) as notes:
            notes.add("c")
        with pytest.raises(UserError, match="is read by another program: end that, or choose"):
            Notes.create(tmp_path, CONFIG)
    assert read(tmp_path)[1] == ["a", "b", "c"]


def test_a_journal_that_is_taken_away_ends_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    notes = filled(folder)
    notes.check()
    folder.rename(tmp_path / "moved")
    with pytest.raises(RemovedError, match="was removed or moved during the run, which ends"):
        notes.check()
    notes.close()
    assert read(tmp_path / "moved")[1] == ["a", "b"]


def test_the_device_of_a_run_stays_the_same(tmp_path: Path) -> None:
    notes = Notes.create(tmp_path, CONFIG)
    notes.bind_device({"version": "1"})
    notes.bind_device({"version": "1"})
    with pytest.raises(ChangedError, match=r"of another state .* now\): version: 1 -> 2"):
        notes.bind_device({"version": "2"})
    notes.close()
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ChangedError, match="does not name its device"):
        filled(other).bind_device({"version": "1"})


def test_differences_name_what_changed() -> None:
    assert differences({"a": "1", "b": "2"}, {"b": "3", "c": None}) == [
        "a: 1 -> (none)",
        "b: 2 -> 3",
        "c: (none) -> None",
    ]


class Walks(RuleBasedStateMachine):
    """One journal against a list and a dictionary, in any order of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.journal = Notes.create(self.folder, CONFIG)
        self.config: dict[str, object] = dict(CONFIG)
        self.written: list[str] = []

    def teardown(self) -> None:
        self.journal.close()
        shutil.rmtree(self.folder)

    @rule(words=st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=3))
    def add(self, words: list[str]) -> None:
        with self.journal.writing():
            for word in words:
                self.journal.add(word)
        self.written += words

    @rule(value=st.integers(0, 9))
    def remember(self, value: int) -> None:
        self.journal.remember({"setting": value})
        self.config["setting"] = value

    @rule(is_killed=st.booleans())
    def open_again(self, is_killed: bool) -> None:
        if not is_killed:
            self.journal.close()
        self.journal = Notes.open(self.folder)

    @rule()
    def begin_another(self) -> None:
        before = len(list(self.folder.glob("notes.previous*.sqlite")))
        self.journal.close()
        self.journal = Notes.create(self.folder, CONFIG)
        after = len(list(self.folder.glob("notes.previous*.sqlite")))
        assert after == before + bool(self.written)
        self.config, self.written = dict(CONFIG), []

    @invariant()
    def all_is_stored(self) -> None:
        assert self.journal.notes() == self.written
        assert self.journal.config() == self.config


@pytest.mark.hypothesis
@pytest.mark.long
def test_a_journal_has_what_was_stored() -> None:
    run_machine(Walks, 12, 12)
