"""Known failures of a device: one TOML file per device, checked in both directions.

An entry has a query, a phase, a reason and a link (all mandatory) and may expire. It covers each
case of its query that fails in its phase. A case of its query that passes is an UnexpectedPass: the
entry is stale. A query that matches no case of the suite is an error. Cases that hang or harm the
machine belong in the skip list. They are not run, and such a run is no conformance run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tinyref_conformance import queries
from tinyref_conformance.statuses import Status


class Phase(Enum):
    """The phase in which a case fails: before the launch, during it, or in its answer."""

    COMPILE = "compile"
    RUN = "run"
    ACCURACY = "accuracy"


@dataclass(frozen=True)
class Skip:
    """Cases that are not run; from the day `expires` on, the entry has no effect."""

    query: str
    reason: str
    link: str
    expires: datetime.date | None = None

    def is_expired(self, today: datetime.date) -> bool:
        return self.expires is not None and today >= self.expires


@dataclass(frozen=True)
class Expectation(Skip):
    """A known failure: cases that are run, and fail in this phase."""

    phase: Phase = Phase.ACCURACY


@dataclass(frozen=True)
class Expectations:
    """The known failures and skipped cases of one device; empty without a file."""

    device: str
    entries: tuple[Expectation, ...] = ()
    skips: tuple[Skip, ...] = ()

    def skipped(self, case_id: str, today: datetime.date) -> str | None:
        """Return the reason why a case is not run; None if it is run."""
        for skip in self.skips:
            if not skip.is_expired(today) and queries.matches(skip.query, case_id):
                return f"on the skip list: {skip.reason} ({skip.link})"
        return None

    def final(
        self, case_id: str, status: Status, phase: str, today: datetime.date
    ) -> tuple[Status, str]:
        """Return the status after the expectations are applied, and the reason of a change."""
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
        """Return the parts of queries, between commas, that match none of the cases."""
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


# Not run: it is unknown whether the case would still fail.
_UNDECIDED = frozenset({Status.SUPPRESSED, Status.NOT_RUN})


@dataclass(frozen=True)
class Observed:
    """A case of a finished run, before expectations are applied."""

    case_id: str
    row: str
    status: Status
    phase: str


@dataclass(frozen=True)
class Update:
    """A change of expectations: `unchanged` entries of `old`, followed by `new` ones."""

    old: Expectations
    unchanged: tuple[Expectation, ...]
    new: tuple[Expectation, ...]

    @property
    def expectations(self) -> Expectations:
        """Return the expectations after the update."""
        return replace(self.old, entries=(*self.unchanged, *self.new))

    def without(self, parts: Sequence[str]) -> Update:
        """Return an update that also drops the entries with one of these query parts."""
        dropped = set(parts)
        unchanged = (e for e in self.unchanged if dropped.isdisjoint(queries.parts(e.query)))
        return replace(self, unchanged=tuple(unchanged))


def updated_expectations(
    old: Expectations, observed: Sequence[Observed], reason: str, link: str
) -> Update:
    """Return the update after which this run is as expected.

    An entry stays as it is if all its cases still fail, or if the run had none of them. Other
    entries are replaced by entries for those of their cases that fail. New failures get `reason`
    and `link`; a row whose cases all fail in the same phase gets one entry.
    """
    unchanged: list[Expectation] = []
    new: list[Expectation] = []
    covered: set[str] = set()
    for entry in old.entries:
        named = [case for case in observed if queries.matches(entry.query, case.case_id)]
        failing = [
            case for case in named if case.status.is_broken and case.phase == entry.phase.value
        ]
        decided = [case for case in named if case.status not in _UNDECIDED]
        if len(failing) == len(decided):
            unchanged.append(entry)
        else:
            new += [replace(entry, query=query) for query, _ in _queries(failing, observed)]
        covered |= {case.case_id for case in failing}
    uncovered = [case for case in observed if case.status.is_broken and case.case_id not in covered]
    for query, phase in _queries(uncovered, observed):
        new.append(Expectation(query, reason, link, phase=Phase(phase)))
    return Update(old, tuple(unchanged), tuple(new))


def _queries(failing: Sequence[Observed], observed: Sequence[Observed]) -> list[tuple[str, str]]:
    """Return pairs of query and phase that match exactly the failing cases; rows if possible."""
    by_row: dict[tuple[str, str], list[str]] = {}
    for case in failing:
        by_row.setdefault((case.row, case.phase), []).append(case.case_id)
    sizes: dict[str, int] = {}
    for case in observed:
        sizes[case.row] = sizes.get(case.row, 0) + 1
    pairs: list[tuple[str, str]] = []
    for (row, phase), ids in by_row.items():
        whole = len(ids) == sizes[row] and all(queries.matches(row, name) for name in ids)
        if whole and not any(other != row and queries.matches(row, other) for other in sizes):
            pairs.append((row, phase))
        else:
            pairs.extend((name, phase) for name in ids)
    return pairs
