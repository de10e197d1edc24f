"""The suite of a run: a catalogue module, `tinyref_spec.catalogue` unless a test names another.

A catalogue has `rows(profile)` and `suite_hash()`. It may also have `clause_sentence(label)` and
`find_row(id)`. A catalogue of libraries, which are no tinyref backends, has `open_device(name)` and
`differences(name)`: the expectations files of what a library defines differently.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tinyref_spec.case import Profile, Row

DEFAULT_CATALOGUE = "tinyref_spec.catalogue"
# The suite of libraries: the level `tensor` alone.
SUBJECTS = "tinyref_spec.subjects.catalogue"


@dataclass(frozen=True)
class Suite:
    """A catalogue by the name of its module, so that workers can import the same one."""

    name: str = DEFAULT_CATALOGUE

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(self.name)

    def rows(self, profile: Profile) -> Iterator[Row]:
        """Yield every row of the profile, in the order of the tables."""
        yield from self.module.rows(profile)

    def rows_with(self, row_id: str, profile: Profile) -> dict[str, Row]:
        """Return rows by id; the row `row_id` is one of them, or the only one if `find_row` exists.

        To list the cases of all rows takes as long as to start a worker.
        """
        find = getattr(self.module, "find_row", None)
        rows = self.rows(profile) if find is None else [find(row_id)]
        return {row.id: row for row in rows}

    def hash(self) -> str:
        """Return a digest of the tables: runs with equal digests asked the same questions."""
        return str(self.module.suite_hash())

    def seed(self) -> int:
        """Return the seed of all generated data."""
        return int(getattr(self.module, "SEED", 0))

    def clause_sentence(self, label: str) -> str:
        """Return the sentence of the clause with this label."""
        own = getattr(self.module, "clause_sentence", None)
        if own is not None:
            return str(own(label))
        from tinyref_spec.clauses import clause

        return clause(label).sentence

    def differences(self, name: str) -> list[Path]:
        """Return the expectations files for a library's own definitions; none for a backend."""
        own = getattr(self.module, "differences", None)
        return [] if own is None else list(own(name))

    def open_device(self, name: str, second: str = "") -> Any:
        """Return the device under test. Raises the error of a device that does not open.

        second: the second device of rows that take two, if it is named.
        """
        opener = getattr(self.module, "open_device", None)
        if opener is not None:
            return opener(name)
        from tinyref_spec.device_under_test import DeviceUnderTest

        return DeviceUnderTest(name, second=second or None)
