"""The journal of a conformance run: every result on disk before it is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.foreign import json_value
from tinyref.workers import journal
from tinyref.workers.tasks import ChangedError, differences
from tinyref_conformance.records import Record

BINDING = "binding"


class CaseJournal(journal.Journal):
    """The results of cases, attempt by attempt, in the order in which they came."""

    NAME = "journal.sqlite"
    APPLICATION = int.from_bytes(b"tryc")
    TABLES = {
        "results": "number integer primary key, case_id text not null, attempt integer not null, "
        "record text not null, unique (case_id, attempt)"
    }

    @classmethod
    def start(
        cls, folder: Path, binding: Mapping[str, Any], resume: bool, pages: Sequence[str] = ()
    ) -> CaseJournal:
        """Return the journal for a run: a new one, or with `resume` the existing one.

        `binding` describes the run. Raises `UserError` if there is none to resume, or it cannot be
        read, and `ChangedError` if it belongs to another run.
        """
        if not resume:
            return cls.create(folder, {BINDING: dict(binding)}, pages)
        if not (folder / cls.NAME).exists():
            raise UserError(f"resume: there is no interrupted run in {folder}")
        opened = cls.open(folder)
        try:
            opened._check(binding)
        except UserError:
            opened.close()
            raise
        return opened

    def _check(self, binding: Mapping[str, Any]) -> None:
        before = self.config().get(BINDING)
        if not isinstance(before, dict):
            raise ChangedError(f"the journal in {self.path.parent} does not describe its run")
        then = {key: before.get(key) for key in binding}
        if changes := differences(then, binding):
            raise ChangedError(
                f"the run in {self.path.parent} is another one (then -> now): {'; '.join(changes)}"
            )

    def add(self, record: Record) -> None:
        """Store a result; a second result of the same attempt is ignored."""
        row = (record.case, record.attempt, json.dumps(record.to_json(), allow_nan=False))
        with self.writing() as connection:
            connection.execute(
                "insert or ignore into results (case_id, attempt, record) values (?, ?, ?)", row
            )

    def records(self) -> list[Record]:
        """Return all results, the oldest first."""
        with self.reading() as connection:
            rows = connection.execute("select record from results order by number")
            return [Record.from_json(json_value(text)) for (text,) in rows]
