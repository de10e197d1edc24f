"""What a device is known to get wrong: one TOML file per device, strict in both directions.

An entry has a query, a phase, a reason and a link (all mandatory) and may expire. Of the cases that
it names it covers each that fails in its phase, and each that passes is an UnexpectedPass: stale. A
query that names no case of the suite is an error. What hangs or harms the machine is on the list of
skips: it is not run, which is no conformance run then.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tinyref_conformance import queries
from tinyref_conformance.statuses import Status


class Phase(Enum):
    """When a case goes wrong: before the launch, during it, or in its answer."""

    COMPILE = "compile"
    RUN = "run"
    ACCURACY = "accuracy"


@dataclass(frozen=True)
class Skip:
    """Cases that are not to be run; `expires` is the first day on which it no longer counts."""

    query: str
    reason: str
    link: str
    expires: datetime.date | None = None

    def is_expired(self, today: datetime.date) -> bool:
        return self.expires is not None and today >= self.expires


@dataclass(frozen=True)
class Expectation(Skip):
    """One known failure: cases that are run, and fail in this phase."""

    phase: Phase = Phase.ACCURACY


@dataclass(frozen=True)
class Expectations:
    """The entries for one device, and what is not run there; empty where there is no file."""

    device: str
    entries: tuple[Expectation, ...] = ()
    skips: tuple[Skip, ...] = ()

    def skipped(self, case_id: str, today: datetime.date) -> str | None:
        """Why a case is not to be run; None where it is."""
        for skip in self.skips:
            if not skip.is_expired(today) and queries.matches(skip.query, case_id):
                return f"on the list of skips: {skip.reason} ({skip.link})"
        return None

    def final(
        self, case_id: str, status: Status, phase: str, today: datetime.date
    ) -> tuple[Status, str]:
        """The status with the expectations applied, and the sentence that explains a change."""
        entries = [entry for entry in self.entries if queries.matches(entry.query, case_id)]
        if status.is_broken:
            return _final_of_failure(status, phase, entries, today)
        live = [entry for entry in entries if not entry.is_expired(today)]
        if status in (Status.PASS, Status.UNSUPPORTED) and live:
            stale = live[0]
            words = f"the entry for {stale.query!r} is stale here: {stale.reason} ({stale.link})"
            return Status.UNEXPECTED_PASS, words
        return status, ""

    def unmatched(self, case_ids: Iterable[str]) -> list[str]:
        """The queries, or parts of them between commas, that name none of the cases."""
        ids = list(case_ids)
        named = [entry.query for entry in self.entries] + [skip.query for skip in self.skips]
        return [part for query in named for part in queries.unmatched_parts(query, ids)]


def _final_of_failure(
    status: Status, phase: str, entries: Sequence[Expectation], today: datetime.date
) -> tuple[Status, str]:
    covering = [entry for entry in entries if entry.phase.value == phase]
    for entry in covering:
        if not entry.is_expired(today):
            return Status.EXPECTED_FAIL, f"expected: {entry.reason} ({entry.link})"
    if covering:
        return status, f"its expectation expired on {covering[0].expires}: {covering[0].reason}"
    if entries:
        return status, f"expected to fail in phase {entries[0].phase.value}, not in {phase}"
    return status, ""


# Not run: nobody knows whether it would still fail.
_UNDECIDED = frozenset({Status.SUPPRESSED, Status.NOT_RUN})


@dataclass(frozen=True)
class Observed:
    """A case of a finished run as the update sees it: before expectations were applied."""

    case_id: str
    row: str
    status: Status
    phase: str


@dataclass(frozen=True)
class Update:
    """The entries of `old` that stay as they are, and the new ones that come behind them."""

    old: Expectations
    kept: tuple[Expectation, ...]
    new: tuple[Expectation, ...]

    @property
    def expectations(self) -> Expectations:
        """The expectations after it."""
        return replace(self.old, entries=(*self.kept, *self.new))

    def without(self, parts: Sequence[str]) -> Update:
        """The update that drops the entries with one of these parts of queries too."""
        kept = tuple(each for each in self.kept if not set(queries.parts(each.query)) & set(parts))
        return replace(self, kept=kept)


def updated_expectations(
    old: Expectations, observed: Sequence[Observed], reason: str, link: str
) -> Update:
    """What makes this run come out as expected, in one pass.

    An entry stays as it is if all its cases still fail, or if none of them was part of the run.
    Entries for the cases that fail replace every other one. New failures get `reason` and `link`;
    a row whose cases all fail in the same phase gets one entry.
    """
    kept: list[Expectation] = []
    new: list[Expectation] = []
    covered: set[str] = set()
    for entry in old.entries:
        named = [case for case in observed if queries.matches(entry.query, case.case_id)]
        failing = [
            case for case in named if case.status.is_broken and case.phase == entry.phase.value
        ]
        decided = [case for case in named if case.status not in _UNDECIDED]
        if len(failing) == len(decided):
            kept.append(entry)
        else:
            new += [replace(entry, query=query) for query, _ in _queries(failing, observed)]
        covered |= {case.case_id for case in failing}
    uncovered = [case for case in observed if case.status.is_broken and case.case_id not in covered]
    for query, phase in _queries(uncovered, observed):
        new.append(Expectation(query, reason, link, phase=Phase(phase)))
    return Update(old, tuple(kept), tuple(new))


def _queries(failing: Sequence[Observed], observed: Sequence[Observed]) -> list[tuple[str, str]]:
    """Queries with phases that name exactly the failing cases, whole rows by their id."""
    by_row: dict[tuple[str, str], list[str]] = {}
    for case in failing:
        by_row.setdefault((case.row, case.phase), []).append(case.case_id)
    sizes: dict[str, int] = {}
    for case in observed:
        sizes[case.row] = sizes.get(case.row, 0) + 1
    found: list[tuple[str, str]] = []
    for (row, phase), ids in by_row.items():
        whole = len(ids) == sizes[row] and all(queries.matches(row, name) for name in ids)
        if whole and not any(other != row and queries.matches(row, other) for other in sizes):
            found.append((row, phase))
        else:
            found.extend((name, phase) for name in ids)
    return found
