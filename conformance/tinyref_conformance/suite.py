"""The suite that is run: a catalogue module, `tinyref_spec.catalogue` unless a test names another.

A catalogue has `rows(profile)` and `suite_hash()`; one may have `open_device(name)`, for what is no
tinyref backend, `differences(name)`, the file of what such a one defines otherwise,
`clause_sentence(label)`, and `find_row(id)`.
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
# That of libraries: the level `tensor` alone.
SUBJECTS = "tinyref_spec.subjects.catalogue"


@dataclass(frozen=True)
class Suite:
    """A catalogue by the name of its module, so that workers can import the same one."""

    name: str = DEFAULT_CATALOGUE

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(self.name)

    def rows(self, profile: Profile) -> Iterator[Row]:
        """Every row of the profile, in the order of the tables."""
        yield from self.module.rows(profile)

    def rows_with(self, row_id: str, profile: Profile) -> dict[str, Row]:
        """Rows by id, the named one among them: it alone where the catalogue can find it.

        To list the cases of all rows takes as long as the start of a worker.
        """
        find = getattr(self.module, "find_row", None)
        found = self.rows(profile) if find is None else [find(row_id)]
        return {row.id: row for row in found}

    def hash(self) -> str:
        """A digest of the tables: two runs with the same one asked the same questions."""
        return str(self.module.suite_hash())

    def seed(self) -> int:
        """The seed of all generated data."""
        return int(getattr(self.module, "SEED", 0))

    def clause_sentence(self, label: str) -> str:
        """What the clause with this label says."""
        own = getattr(self.module, "clause_sentence", None)
        if own is not None:
            return str(own(label))
        from tinyref_spec.clauses import clause

        return clause(label).sentence

    def differences(self, name: str) -> list[Path]:
        """The expectations files of what is defined otherwise there; none for a backend."""
        own = getattr(self.module, "differences", None)
        return [] if own is None else list(own(name))

    def open_device(self, name: str, second: str = "") -> Any:
        """The device under test; lets out the error of a device that does not open.

        second: the other one of rows that take two, where it is named.
        """
        opener = getattr(self.module, "open_device", None)
        if opener is not None:
            return opener(name)
        from tinyref_spec.device_under_test import DeviceUnderTest

        return DeviceUnderTest(name, second=second or None)
