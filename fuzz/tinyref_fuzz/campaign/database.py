"""Database of a campaign: judged numbers, findings, and buckets of findings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tinyref.foreign import json_value
from tinyref.workers.journal import Journal, count, text
from tinyref_fuzz.campaign.results import CampaignCase
from tinyref_fuzz.campaign.task import Examination
from tinyref_fuzz.campaign.unexamined import signature
from tinyref_spec.kernel_case import KernelVerdict
from tinyref_spec.kernel_case.document import verdict_from_json, verdict_to_json

_VERDICT = "number integer primary key, signature text not null, verdict text not null, bucket text"
_BUCKET = (
    "key text primary key, number integer not null, examination text not null, file text not null"
)


@dataclass(frozen=True)
class StoredFinding:
    """A case that does not agree; `bucket` is None until it is examined."""

    number: int
    signature: str
    verdict: KernelVerdict
    bucket: str | None


@dataclass(frozen=True)
class StoredBucket:
    """Findings with one cause: the smallest examined case, and its file.

    `file` is relative to the current directory, and empty if there is none.
    """

    key: str
    examination: Examination
    file: str
    findings: int


class Database(Journal):
    """The stored state of one campaign."""

    NAME = "campaign.sqlite"
    APPLICATION = int.from_bytes(b"tryf")
    NOUN = "campaign"
    TABLES = {
        "spans": "first integer primary key, stop integer not null, judged integer not null, "
        "seconds real not null",
        "findings": _VERDICT,
        "buckets": _BUCKET,
    }

    def add(self, result: CampaignCase, first: int) -> StoredFinding | None:
        """Store a judged case, at the end of the span that begins with `first`.

        Returns the finding if the case does not agree. An earlier result of the case is replaced.
        """
        number, verdict = result.number, result.verdict
        finding = None
        with self.writing() as connection:
            if verdict is not None:
                finding = StoredFinding(number, signature(verdict), verdict, None)
                connection.execute(
                    "insert or replace into findings values (?, ?, ?, null)",
                    (number, finding.signature, json.dumps(verdict_to_json(verdict))),
                )
            connection.execute(
                "insert into spans values (?, ?, ?, ?) on conflict do update set "
                "stop = excluded.stop, judged = judged + excluded.judged, "
                "seconds = seconds + excluded.seconds",
                (first, number + 1, result.judged, result.seconds),
            )
        return finding

    def keep(self, examination: Examination, file: str) -> None:
        """Store an examination; its bucket is replaced."""
        stored = stored_path(Path(file), self.path.parent) if file else ""
        content = json.dumps(examination.to_json())
        with self.writing() as connection:
            self.assign(examination.number, examination.bucket)
            connection.execute(
                "insert or replace into buckets values (?, ?, ?, ?)",
                (examination.bucket, examination.number, content, stored),
            )

    def assign(self, number: int, bucket: str) -> None:
        """Store the bucket of a finding."""
        with self.writing() as connection:
            connection.execute("update findings set bucket = ? where number = ?", (bucket, number))

    def spans(self) -> list[tuple[int, int]]:
        """Return the ranges of numbers that are done, in order."""
        with self.reading() as connection:
            rows = connection.execute("select first, stop from spans order by first")
            return [(count(first), count(stop)) for first, stop in rows]

    def totals(self) -> tuple[int, int, float]:
        """Return the numbers of cases and of compared programs, and the workers' seconds."""
        with self.reading() as connection:
            row = connection.execute(
                "select coalesce(sum(stop - first), 0), coalesce(sum(judged), 0), "
                "coalesce(sum(seconds), 0) from spans"
            ).fetchone()
            return int(row[0]), int(row[1]), float(row[2])

    def findings(self) -> list[StoredFinding]:
        """Return all findings, by number."""
        with self.reading() as connection:
            rows = connection.execute(
                "select number, signature, verdict, bucket from findings order by number"
            )
            return [
                StoredFinding(
                    count(number),
                    text(name),
                    verdict_from_json(json_value(verdict)),
                    text(bucket) if bucket is not None else None,
                )
                for number, name, verdict, bucket in rows
            ]

    def buckets(self) -> list[StoredBucket]:
        """Return all buckets, in the order of their first finding."""
        with self.reading() as connection:
            rows = connection.execute(
                "select key, examination, file, count(findings.number) from buckets "
                "join findings on findings.bucket = key group by key order by min(findings.number)"
            )
            return [
                StoredBucket(
                    text(key),
                    Examination.from_json(json_value(examination)),
                    str(self.path.parent / text(file)) if file else "",
                    findings,
                )
                for key, examination, file, findings in rows
            ]


def stored_path(path: Path, folder: Path) -> str:
    """Return the path that the database of a folder stores; it holds in any current directory.

    A path inside the folder is relative, so that the folder may be moved; others are absolute.
    `folder / stored_path(path, folder)` is the path again.
    """
    path, folder = path.resolve(), folder.resolve()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
