"""The database of a campaign: one SQLite file that survives kill -9 at any moment.

What is done comes in whole tasks, one transaction each, so what a query sees is always the state
after some task. Only one process writes, and holds a lock on the folder while it does.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tinyref.errors import UserError, printable
from tinyref.folders import RemovedError, free_path, is_removed, set_aside
from tinyref.foreign import json_value
from tinyref.runtimes.identity import differences
from tinyref_fuzz.campaign.results import code_version
from tinyref_fuzz.campaign.task import CampaignError, Done, Examination
from tinyref_fuzz.campaign.unexamined import signature
from tinyref_fuzz.lock import FileLock
from tinyref_spec.kernel_case import Verdict
from tinyref_spec.kernel_case.document import verdict_from_json, verdict_to_json
from tinyref_spec.kernel_case.members import read_object

NAME = "campaign.sqlite"
LOCK = "campaign.lock"
VERSION = 2
APPLICATION = int.from_bytes(b"tryf")
_TABLES = """
create table config (key text primary key, value text not null) without rowid;
create table chunks (
    first integer primary key, stop integer not null, judged integer not null, seconds real not null
);
create table coverage (
    epoch integer not null, kind text not null, name text not null, count integer not null,
    primary key (epoch, kind, name)
) without rowid;
create table findings (
    number integer primary key, signature text not null,
    verdict text not null, guide text, bucket text
);
create table buckets (
    key text primary key, number integer not null, examination text not null, file text not null
) without rowid;
create table guides (epoch integer primary key, guide text not null);
create index findings_of_a_signature on findings (signature, number);
"""


class ChangedError(UserError):
    """What is there to resume is of another campaign, or of another state of the device."""


@dataclass(frozen=True)
class StoredFinding:
    """A case that does not agree. bucket: the key of its bucket, None until it is examined."""

    number: int
    signature: str
    verdict: Verdict
    guide: Mapping[str, Any] | None
    bucket: str | None


@dataclass(frozen=True)
class StoredBucket:
    """Findings of one cause: the smallest of its examined cases, and the file that keeps it.

    file: as it is found from the current directory, empty where there is none.
    """

    key: str
    examination: Examination
    file: str
    findings: int


def lock(folder: Path) -> FileLock:
    """Holds a folder for one campaign. Raises `UserError` where another one has it."""
    taken = f"another campaign is running in {folder}: give this one its own --folder"
    return FileLock(folder / LOCK, "folder", taken)


class Database:
    """The stored state of one campaign; the folder is to be locked before."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._file = path.stat()

    @staticmethod
    def create(folder: Path, config: Mapping[str, Any], pages: Sequence[Path] = ()) -> Database:
        """A new one; an earlier campaign and its `pages` are kept beside it, by `set_aside`.

        Raises `UserError` where the folder cannot be written, or holds such a file of something
        else.
        """
        path = folder / NAME
        if path.exists() and not _is_blank(path):
            earlier = Database.open(folder)
            try:
                is_worth_keeping = bool(earlier.chunks())
                earlier.fold()
            finally:
                earlier.close()
            # Where somebody reads it, closing leaves these, and the new database would take them.
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            # One that judged nothing, as where the device did not open, is not to push out another.
            if is_worth_keeping:
                set_aside([path, *pages])
            else:
                path.unlink()
        try:
            connection = _connect(path)
            with connection:
                connection.executescript(
                    f"pragma application_id = {APPLICATION}; pragma user_version = {VERSION};"
                )
                connection.execute("begin")
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                rows = [(key, json.dumps(value)) for key, value in config.items()]
                connection.executemany("insert into config values (?, ?)", rows)
        except sqlite3.Error as error:
            raise UserError(f"folder: cannot write {path}: {error}") from error
        return Database(path, connection)

    @staticmethod
    def open(folder: Path) -> Database:
        """The one that is there. Raises `UserError` where there is none that can be read."""
        path = folder / NAME
        if not path.exists():
            raise UserError(f"folder: there is no campaign in {folder}")
        try:
            connection = _connect(path)
            (application,) = connection.execute("pragma application_id").fetchone()
            (version,) = connection.execute("pragma user_version").fetchone()
            (problem,) = connection.execute("pragma quick_check(1)").fetchone()
            tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        except (sqlite3.Error, ValueError) as error:
            reason = printable(str(error))
            raise UserError(f"folder: {path} is damaged, or no database: {reason}") from error
        found = Database(path, connection)
        refusal = ""
        if application != APPLICATION:
            refusal = "is not of a fuzzing campaign"
        elif not 1 <= version <= VERSION:
            refusal = f"is of version {version}, this tinyref reads 1 to {VERSION}"
        elif problem != "ok":
            refusal = f"is damaged: {problem}"
        elif not {"config", "chunks", "coverage", "findings", "buckets", "guides"} <= tables:
            refusal = "is damaged: it lacks tables"
        if refusal:
            found.close()
            raise UserError(f"folder: {path} {refusal}: choose another --folder, or move it away")
        if version < VERSION:
            found._migrate(version)
        return found

    def _migrate(self, version: int) -> None:
        """Brings what an older version stored to the present one, all of it or nothing."""
        try:
            with self._reading(), self._connection as connection:
                connection.execute("begin immediate")
                for step in range(version, VERSION):
                    STEPS[step](connection)
                connection.execute(f"pragma user_version = {VERSION}")
        except UserError:
            self.close()
            raise

    def fold(self) -> None:
        """Brings all of it into the one file, also where another program has that open.

        Raises `UserError` where that program reads at this moment.
        """
        with self._reading():
            is_busy, *_ = self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_busy:
            raise UserError(
                f"folder: {self.path} is read by another program: end that, or choose another "
                "--folder"
            )

    def check(self) -> None:
        """Raise `RemovedError` if the file is not where it was."""
        if is_removed(self.path, self._file):
            raise RemovedError("folder", self.path)

    def restore(self) -> None:
        """Write all of it to the path again, if the file was removed or moved.

        Raises `UserError` if it cannot be written.
        """
        if not is_removed(self.path, self._file):
            return
        try:
            path = free_path(self.path)
            with contextlib.closing(_connect(path)) as target:
                self._connection.backup(target)
        except (sqlite3.Error, OSError) as error:
            raise UserError(
                f"folder: {self.path} was removed or moved during the run, and cannot be written "
                f"again: {error}"
            ) from error
        if path != self.path:
            raise UserError(
                f"folder: {self.path} was replaced during the run: what was done is in {path}"
            )

    def close(self) -> None:
        """Nothing of it is lost without, but its log is folded into the one file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. Raises `CampaignError` where it cannot be stored; then nothing of it is.

        A full disk is the caller's to mend, and what was stored before stays.
        """
        try:
            with self._connection as connection:
                connection.execute("begin immediate")
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise CampaignError(f"cannot write {self.path}: {error}") from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Raises `UserError` for what no campaign has stored."""
        try:
            yield
        except (sqlite3.Error, ValueError, OverflowError) as error:
            reason = printable(str(error))
            raise UserError(f"folder: {self.path} is damaged: {reason}") from error

    def config(self) -> dict[str, Any]:
        """What the campaign was started with."""
        with self._reading():
            rows = self._connection.execute("select key, value from config")
            return {_text(key): json_value(value) for key, value in rows}

    def remember(self, settings: Mapping[str, Any]) -> None:
        """Adds to what the campaign was started with, or replaces it."""
        with self._writing() as connection:
            _remember(connection, settings)

    def add(
        self, done: Done, epoch: int, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> list[StoredFinding]:
        """Stores a chunk of judged cases, and `settings` as `remember`, all or nothing.

        Returns the findings of the chunk.
        """
        task = done.task
        totals: Counter[tuple[str, str]] = Counter()
        for result in done.results:
            totals.update({("rule", name): count for name, count in result.rules.items()})
            totals.update({("pair", name): count for name, count in result.pairs.items()})
        judged = sum(result.judged for result in done.results)
        seconds = sum(result.seconds for result in done.results)
        guide = json.dumps(task.guide) if task.guide is not None else None
        findings = [
            StoredFinding(
                result.number, signature(result.verdict), result.verdict, task.guide, None
            )
            for result in done.results
            if result.verdict is not None
        ]
        with self._writing() as connection:
            connection.execute(
                "insert into chunks values (?, ?, ?, ?)", (task.first, task.stop, judged, seconds)
            )
            connection.executemany(
                "insert into coverage values (?, ?, ?, ?) "
                "on conflict do update set count = count + excluded.count",
                [(epoch, kind, name, count) for (kind, name), count in totals.items()],
            )
            connection.executemany(
                "insert into findings values (?, ?, ?, ?, null)",
                [
                    (each.number, each.signature, json.dumps(verdict_to_json(each.verdict)), guide)
                    for each in findings
                ],
            )
            _remember(connection, settings)
        return findings

    def keep(self, examination: Examination, file: str) -> None:
        """Stores what came of a finding; of a bucket the smallest case is kept."""
        with self._writing() as connection:
            connection.execute(
                "update findings set bucket = ? where number = ?",
                (examination.bucket, examination.number),
            )
            connection.execute(
                "insert or replace into buckets values (?, ?, ?, ?)",
                (
                    examination.bucket,
                    examination.number,
                    json.dumps(examination.to_json()),
                    stored_path(Path(file), self.path.parent) if file else "",
                ),
            )

    def assign(self, number: int, bucket: str) -> None:
        """The finding is of that bucket, which has a smaller case already."""
        with self._writing() as connection:
            connection.execute("update findings set bucket = ? where number = ?", (bucket, number))

    def keep_guide(self, epoch: int, guide: Mapping[str, Any] | None) -> None:
        """The cases of that epoch are drawn with this guide, after a resume as well."""
        with self._writing() as connection:
            connection.execute("insert into guides values (?, ?)", (epoch, json.dumps(guide)))

    def guides(self) -> dict[int, Mapping[str, Any] | None]:
        """The guides that were settled so far, by epoch."""
        with self._reading():
            rows = self._connection.execute("select epoch, guide from guides")
            return {_count(epoch): _object_or_none(json_value(guide)) for epoch, guide in rows}

    def chunks(self) -> list[tuple[int, int]]:
        """The ranges of numbers that are done, in order."""
        with self._reading():
            rows = self._connection.execute("select first, stop from chunks order by first")
            return [(_count(first), _count(stop)) for first, stop in rows]

    def totals(self) -> tuple[int, int, float]:
        """Cases, optimised programs compared, and seconds of workers."""
        with self._reading():
            row = self._connection.execute(
                "select coalesce(sum(stop - first), 0), coalesce(sum(judged), 0), "
                "coalesce(sum(seconds), 0) from chunks"
            ).fetchone()
            return int(row[0]), int(row[1]), float(row[2])

    def coverage(self, kind: str, before: int | None = None) -> Counter[str]:
        """How often each rule fired (`rule`) or each pair was drawn (`pair`), of the epochs before.

        All of them without `before`.
        """
        with self._reading():
            rows = self._connection.execute(
                "select name, sum(count) from coverage where kind = ? and epoch < ? group by name",
                (kind, before if before is not None else 1 << 60),
            )
            return Counter({_text(name): _count(count) for name, count in rows})

    def findings(self) -> list[StoredFinding]:
        """All of them, by number."""
        with self._reading():
            rows = self._connection.execute(
                "select number, signature, verdict, guide, bucket from findings order by number"
            )
            return [
                StoredFinding(
                    _count(number),
                    _text(name),
                    verdict_from_json(json_value(verdict)),
                    _object_or_none(json_value(guide)) if guide is not None else None,
                    _text(bucket) if bucket is not None else None,
                )
                for number, name, verdict, guide, bucket in rows
            ]

    def buckets(self) -> list[StoredBucket]:
        """All of them, the one that was found first at the front."""
        with self._reading():
            rows = self._connection.execute(
                "select key, examination, file, count(findings.number) from buckets "
                "join findings on findings.bucket = key group by key order by min(findings.number)"
            )
            return [
                StoredBucket(
                    _text(key),
                    Examination.from_json(json_value(examination)),
                    str(self.path.parent / _text(file)) if file else "",
                    count,
                )
                for key, examination, file, count in rows
            ]


def _from_1(connection: sqlite3.Connection) -> None:
    """Verdicts and blames as in a case's file: pairs and symptoms were in capitals, or none."""
    for number, text in connection.execute("select number, verdict from findings").fetchall():
        verdict = read_object(json_value(text), "verdict")
        words = {name: _text(verdict.get(name) or "").lower() for name in ("pair", "symptom")}
        connection.execute(
            "update findings set verdict = ? where number = ?",
            (json.dumps({**verdict, **words}), number),
        )
    for key, text in connection.execute("select key, examination from buckets").fetchall():
        found = read_object(json_value(text), "examination")
        blame = {"stage": found.pop("stage", ""), "cause": found.pop("cause", ""), "detail": ""}
        connection.execute(
            "update buckets set examination = ? where key = ?",
            (json.dumps({**found, "blame": blame}), key),
        )


STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _from_1}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} where a text is expected")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"a {type(value).__name__} where an integer is expected")
    return value


def _object_or_none(value: object) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__} where an object is expected")
    return value


def _remember(connection: sqlite3.Connection, settings: Mapping[str, Any]) -> None:
    rows = [(key, json.dumps(value)) for key, value in settings.items()]
    connection.executemany("insert or replace into config values (?, ?)", rows)


def contradictions(
    config: Mapping[str, Any], device: str | None, seed: int | None, policy: str | None
) -> list[str]:
    """What is given and is not as the campaign of `config` has it: a line each, then -> now.

    The sources must agree too: with others the numbers mean other cases.
    """
    given = {"device": device, "seed": seed, "policy": policy, "code": code_version()}
    then = {key: str(config[key]) for key, value in given.items() if value is not None}
    return differences(then, {key: str(given[key]) for key in then})


def stored_path(path: Path, folder: Path) -> str:
    """The path as the database of a folder has it, which holds in any current directory.

    Relative to the folder where it lies inside, so that the folder may be moved; else absolute.
    `folder / stored_path(path, folder)` is the path again.
    """
    path, folder = path.resolve(), folder.resolve()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _is_blank(path: Path) -> bool:
    """Whether it is what a campaign leaves that is killed before its first table is there."""
    try:
        with contextlib.closing(_connect(path)) as connection:
            return connection.execute("select 1 from sqlite_master").fetchone() is None
    except (sqlite3.Error, UnicodeDecodeError):
        return False


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    # Survives the death of any process; after a power cut the last tasks may be done again.
    connection.execute("pragma synchronous = normal")
    return connection
