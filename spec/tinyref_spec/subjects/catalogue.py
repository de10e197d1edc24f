"""The rows of the level `tensor` for libraries, and the device that represents a library."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tinyref.capabilities import CORE_OPS, Capabilities
from tinyref.folders import file_name
from tinyref_spec.case import Case, Measurement, NotOfferedError, Profile, Row, Rung
from tinyref_spec.catalogue import all_rows
from tinyref_spec.catalogue import suite_hash as suite_hash  # of all rows, including these
from tinyref_spec.device_under_test import Announce
from tinyref_spec.subjects import open_subject
from tinyref_spec.subjects.name import parse_subject

# Rows and cases that do not run on libraries, with the reasons.
_TINYREF = "it is about how tinyref"
_ORDER = "left open by IEEE 754 and the array API: the order and the start of a sum"
NOT_ASKED: dict[str, str] = {
    "tensor.refuse.literal": f"{_TINYREF} words its errors",
    "tensor.special.literal.constants_sum_rounded": _ORDER,
    "tensor.special.literal.sum_of_zeros": _ORDER,
    "tensor.special.literal.multinomial_of_nothing": f"{_TINYREF} draws from nothing",
    "tensor.special.literal.empty_max": "left open by the array API: the largest of no elements",
}


class SubjectDevice:
    """A library as a device for rows: it has types and versions, and no kernels."""

    environment: tuple[str, ...] = ()

    def __init__(self, text: str) -> None:
        self.name = text
        self.subject = open_subject(text)
        self.announce: Announce = lambda describe: None

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        """Return the types of the library; sums of floats may have any order."""
        return Capabilities(self.subject.dtypes, CORE_OPS, is_single=True)

    @property
    def compiler(self) -> SubjectDevice:
        """Return the object whose key decides the results, for `--resume`."""
        return self

    @property
    def key(self) -> str:
        return " ".join(f"{name} {version}" for name, version in self.versions().items())

    def versions(self) -> dict[str, str]:
        return dict(self.subject.versions())

    @property
    def batch_rows(self) -> int:
        """Return the number of rows whose cases are compiled together; 0 if they are not."""
        return getattr(self.subject, "batch_rows", 0)

    def prepare(self, cases: Sequence[Case]) -> int:
        """Let the library compile cases together; return how many it compiled."""
        announce, self.announce = self.announce, lambda describe: None
        # The rows of this level accept a library as a device.
        device: Any = self
        try:
            runs = (functools.partial(case.run, device) for case in cases)
            return int(self.subject.prepare(runs))
        finally:
            self.announce = announce

    def on_rung(self, rung: Rung, all_unaligned: bool = False) -> SubjectDevice:
        """Return the device itself: it has no kernels to simplify."""
        return self


def rows(profile: Profile) -> Iterator[Row]:
    """Yield the rows of the level `tensor` with their ids, as they run on a library."""
    for row in all_rows():
        if row.level == "tensor" and row.cases(profile):
            yield dataclasses.replace(row, make_cases=functools.partial(_cases, row))


def _cases(row: Row, profile: Profile) -> list[Case]:
    """Return the cases without the types of our kernels; skip those in `NOT_ASKED`."""
    cases = []
    for case in row.cases(profile):
        own = frozenset(dtype for dtype in case.needs.dtypes if dtype.name == row.dtype)
        needs = dataclasses.replace(case.needs, dtypes=own)
        reason = NOT_ASKED.get(case.row) or NOT_ASKED.get(case.id)
        run = functools.partial(_refuse, reason) if reason else case.run
        cases.append(dataclasses.replace(case, needs=needs, run=run))
    return cases


def _refuse(reason: str, device: Any) -> Measurement:
    raise NotOfferedError(reason)


def open_device(name: str) -> SubjectDevice:
    """Open the named library. Raises its error if it is missing."""
    return SubjectDevice(name)


def differences(name: str) -> list[Path]:
    """Return the expectations files of the library's documented differences, general and local."""
    stems = (parse_subject(name).differences, file_name(name))
    paths = (Path(__file__).parent / f"{stem}.toml" for stem in stems)
    return [path for path in paths if path.exists()]
