"""The plan of a run: its rows and cases, filtered, sharded and in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tinyref.errors import UserError
from tinyref.garbage import collection_paused
from tinyref_conformance import queries
from tinyref_conformance.suite import Suite
from tinyref_spec.case import Case, Profile, Row, Rung

# Letters of a query in a report: --case-list may have thousands of ids.
MAX_SHOWN = 200
# Weight of a case without a known time, in seconds, when shards are formed.
UNTIMED_SECONDS = 0.01


@dataclass(frozen=True)
class Shard:
    """The part `number` of `count` (from 1) of a run that is spread over machines."""

    number: int
    count: int

    @staticmethod
    def parse(text: str) -> Shard:
        """Return the shard of a text such as "2/4". Raises `UserError` with what is accepted."""
        number, slash, count = text.partition("/")
        if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return Shard(int(number), int(count))
        raise UserError(f"shard: got {text!r}, accepted is i/n with 1 <= i <= n, such as 2/4")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass(frozen=True)
class PlannedRow:
    """A row, and the cases of it that the run covers."""

    row: Row
    cases: tuple[Case, ...]

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def rung(self) -> Rung:
        return self.row.rung


@dataclass(frozen=True)
class Plan:
    """All cases of a run, lowest rung first.

    asked: number of cases that match the query, in all shards. total: cases of the profile.
    """

    profile: Profile
    query: str
    shard: Shard | None
    rows: tuple[PlannedRow, ...]
    asked: int
    total: int
    suite_hash: str

    @property
    def count(self) -> int:
        return sum(len(row.cases) for row in self.rows)

    def worker_configuration(self, catalogue: str, device: str, second: str) -> dict[str, str]:
        """Return the configuration of a worker that runs cases of the plan."""
        return {
            "catalogue": catalogue,
            "suite_hash": self.suite_hash,
            "profile": self.profile.value,
            "device": device,
            "second": second,
        }

    @property
    def reductions(self) -> list[str]:
        """Return the reasons why this is not the whole suite of its profile; empty if it is."""
        reasons = []
        if self.query != queries.EVERYTHING:
            query = self.query if len(self.query) <= MAX_SHOWN else f"{self.query[:MAX_SHOWN]}..."
            reasons.append(f"only the cases of --query {query}")
        if self.shard is not None:
            reasons.append(shard_reduction(str(self.shard)))
        return reasons


def parse_profile(text: str) -> Profile:
    """Return the profile with this name. Raises `UserError` with what is accepted."""
    try:
        return Profile(text)
    except ValueError as error:
        accepted = ", ".join(profile.value for profile in Profile)
        raise UserError(f"profile: got {text!r}, accepted are {accepted}") from error


def shard_reduction(shard: str) -> str:
    """Return the reason why a run of one shard is not the whole suite."""
    return f"only shard {shard}"


@collection_paused()
def make_plan(
    suite: Suite,
    profile: Profile,
    query: str = queries.EVERYTHING,
    shard: Shard | None = None,
    timings: Mapping[str, float] | None = None,
) -> Plan:
    """Return the plan of a run; `timings` are seconds by case id, from an earlier run.

    Raises `UserError` for a query, or a part of one, that matches no case, and for invalid tables.
    """
    total = 0
    suite_hash = suite.hash()
    rows: list[PlannedRow] = []
    seen: set[str] = set()
    for row in suite.rows(profile):
        cases = row.cases(profile)
        total += len(cases)
        _check_row(row, cases, seen)
        whole = queries.matches(query, row.rung.query)
        chosen = tuple(case for case in cases if whole or queries.matches(query, case.id))
        if chosen:
            rows.append(PlannedRow(row, chosen))
    unmatched = queries.unmatched_parts(query, {*seen, *(planned.rung.query for planned in rows)})
    if unmatched:
        raise UserError(
            f"query: no case of profile {profile.value} matches {unmatched[0]!r}: "
            "accepted are an id, a prefix of ids, a glob or rung:NAME; tinyref spec list shows them"
        )
    rows.sort(key=lambda planned: planned.rung)
    asked = sum(len(planned.cases) for planned in rows)
    if shard is not None:
        rows = shard_of(rows, shard, timings or {})
    return Plan(profile, query, shard, tuple(rows), asked, total, suite_hash)


def _check_row(row: Row, cases: Sequence[Case], seen: set[str]) -> None:
    for case in cases:
        if case.id in seen:
            raise UserError(f"suite: case id {case.id!r} appears twice")
        if case.row != row.id:
            raise UserError(f"suite: case {case.id!r} says row {case.row!r}, not {row.id!r}")
        if row.id in case.depends_on:
            raise UserError(f"suite: row {row.id!r} depends on itself")
        seen.add(case.id)


def shard_of(
    rows: Iterable[PlannedRow], shard: Shard, timings: Mapping[str, float]
) -> list[PlannedRow]:
    """Return the rows of one shard: the heaviest rows go first to the lightest shard.

    The same rows and timings give the same shards everywhere; every row is in exactly one.
    """
    rows = list(rows)
    weights = {
        planned.id: sum(timings.get(case.id, UNTIMED_SECONDS) for case in planned.cases)
        for planned in rows
    }
    loads = [0.0] * shard.count
    mine: set[str] = set()
    for planned in sorted(rows, key=lambda planned: (-weights[planned.id], planned.id)):
        lightest = loads.index(min(loads))
        loads[lightest] += weights[planned.id]
        if lightest == shard.number - 1:
            mine.add(planned.id)
    return [planned for planned in rows if planned.id in mine]
