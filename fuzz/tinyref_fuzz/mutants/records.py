"""What is known of a mutant: its runs, a row for it, and the totals against the targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "tinyref-fuzz-score"
VERSION = 2


@dataclass(frozen=True)
class Subject:
    """What is scored: a mutant of the compiler, or a broken device.

    kind: the class of bugs. mutant: the name of the edit, empty for a device. device: what is
    fuzzed. stages, causes, is_race: what a right blame names, and whether the order of work-items
    is broken, as of `Mutant`. lane: what is to find it, one of `lanes.LANES`.
    program_every: which of the fuzzer's cases are tensor programs, one in so many; 0 for none.
    """

    name: str
    kind: str
    mutant: str
    device: str
    stages: tuple[str, ...]
    causes: tuple[str, ...] = ()
    is_race: bool = False
    lane: str = "fuzz"
    program_every: int = 0

    def is_stage_right(self, found: ExaminedFinding) -> bool:
        """Whether the blamed stage is one of those that may be named."""
        return found.stage in self.stages

    def is_cause_right(self, found: ExaminedFinding) -> bool | None:
        """Whether the blamed cause is a right one; None where none is asked for."""
        if not self.causes:
            return None
        return any(cause in found.cause for cause in self.causes)


@dataclass(frozen=True)
class ExaminedFinding:
    """One examined finding: what was blamed, how small the case is, and in which bucket it is.

    problem: why there is no more to say, empty where there is.
    """

    stage: str = ""
    cause: str = ""
    bucket: str = ""
    nodes: int = 0
    opts: int = 0
    seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Run:
    """One subject under one seed.

    reached: how often the edited code ran. triggered: whether some program differs from that of
    the healthy compiler, None where that was not looked at; traced: of how many cases. seconds: of
    the processor, until the kill, else until the run ended, both without the start of the process;
    wall: the same by the clock on the wall, to which all that runs on the machine adds. problem:
    why it is no run at all.
    """

    subject: str
    seed: int
    reached: int = 0
    triggered: bool | None = None
    killed: bool = False
    seconds: float = 0.0
    wall: float = 0.0
    cases: int = 0
    pair: str = ""
    symptom: str = ""
    detail: str = ""
    problem: str = ""
    found: tuple[ExaminedFinding, ...] = ()
    traced: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "found": [vars(each) for each in self.found]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Run:
        return Run(**{**data, "found": tuple(ExaminedFinding(**each) for each in data["found"])})


@dataclass(frozen=True)
class Row:
    """All runs of one subject; shares are of 1, None where there is nothing to count."""

    subject: Subject
    runs: tuple[Run, ...]

    @property
    def kills(self) -> int:
        return sum(run.killed for run in self.runs)

    @property
    def is_killed(self) -> bool:
        """Killed under every seed."""
        return bool(self.runs) and self.kills == len(self.runs)

    @property
    def is_reached(self) -> bool:
        return any(run.reached for run in self.runs) or not self.subject.mutant

    @property
    def is_triggered(self) -> bool | None:
        known = [run.triggered for run in self.runs if run.triggered is not None]
        return any(known) if known else None

    @property
    def seconds(self) -> float | None:
        """The median of the processor's seconds to a kill."""
        return _median(run.seconds for run in self.runs if run.killed)

    @property
    def wall(self) -> float | None:
        """The same by the clock on the wall."""
        return _median(run.wall for run in self.runs if run.killed)

    @property
    def found(self) -> list[ExaminedFinding]:
        """The first finding of each run, where it was examined to its end."""
        return [run.found[0] for run in self.runs if run.found and not run.found[0].problem]

    @property
    def stages_right(self) -> int:
        return sum(map(self.subject.is_stage_right, self.found))

    @property
    def causes_right(self) -> int | None:
        known = [
            right for right in map(self.subject.is_cause_right, self.found) if right is not None
        ]
        return sum(known) if known else None

    @property
    def nodes(self) -> float | None:
        return _median(found.nodes for found in self.found)

    @property
    def opts(self) -> float | None:
        return _median(found.opts for found in self.found)

    @property
    def examination(self) -> float | None:
        return _median(found.seconds for found in self.found)

    @property
    def buckets(self) -> int:
        """How many different buckets all findings of all seeds are in."""
        return len({found.bucket for run in self.runs for found in run.found if found.bucket})

    def to_json(self) -> dict[str, Any]:
        subject = self.subject
        return {
            "name": subject.name,
            "kind": subject.kind,
            "device": subject.device,
            "stages": list(subject.stages),
            "causes": list(subject.causes),
            "race": subject.is_race,
            "reached": self.is_reached,
            "triggered": self.is_triggered,
            "kills": self.kills,
            "seeds": len(self.runs),
            "seconds": self.seconds,
            "wall_seconds": self.wall,
            "examined": len(self.found),
            "stage_right": self.stages_right,
            "cause_right": self.causes_right,
            "nodes": self.nodes,
            "opts": self.opts,
            "examination_seconds": self.examination,
            "buckets": self.buckets,
        }


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.median(found) if found else None


@dataclass(frozen=True)
class Total:
    """One number of the whole catalogue against its target; `value` is None where unknown."""

    what: str
    value: float | None
    target: float
    is_at_least: bool

    @property
    def is_met(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.target if self.is_at_least else self.value <= self.target

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "is_met": self.is_met}


def totals(rows: Sequence[Row], seconds: float, examines: bool) -> list[Total]:
    """What the catalogue comes to: mutants killed in `seconds`, and if asked, what was found."""
    # 95 % within a minute, every mutant within ten.
    wanted = 1.0 if seconds >= 600 else 0.95
    killed = sum(row.is_killed for row in rows)
    found = [
        Total("mutants killed under every seed", killed / max(len(rows), 1), wanted, True),
        Total("median processor seconds to kill", _median(_kill_seconds(rows)), 5.0, False),
    ]
    races = [row for row in rows if row.subject.is_race]
    if races:
        share = sum(row.is_killed for row in races) / len(races)
        found.append(Total("barrier and race mutants killed", share, 1.0, True))
    return found + (_examined_totals(rows) if examines else [])


def _kill_seconds(rows: Sequence[Row]) -> list[float]:
    return [run.seconds for row in rows for run in row.runs if run.killed]


def _examined_totals(rows: Sequence[Row]) -> list[Total]:
    # A kill whose examination came to no end has neither blame nor size: it counts as wrong.
    kills = sum(row.kills for row in rows)
    ended = [found for row in rows for found in row.found]
    right = sum(row.stages_right for row in rows)
    bucketed = [row.buckets for row in rows if row.buckets]
    return [
        Total("blamed stage right", right / kills if kills else None, 0.9, True),
        Total("median nodes of a reproducer", _median(f.nodes for f in ended), 8, False),
        Total("median optimisations of a reproducer", _median(f.opts for f in ended), 2, False),
        Total("median seconds of examination", _median(f.seconds for f in ended), 10, False),
        Total(
            "buckets per mutant",
            statistics.mean(bucketed) if bucketed else None,
            1.2,
            False,
        ),
    ]


@dataclass
class Score:
    """All rows, in the order of the catalogue, and how they were found.

    surroundings: the flags and the versions of libraries with which they were.
    """

    settings: Mapping[str, Any]
    code: str
    rows: list[Row] = field(default_factory=list)
    surroundings: Mapping[str, str] = field(default_factory=dict)

    @property
    def totals(self) -> list[Total]:
        return totals(self.rows, self.settings["seconds"], self.settings["examine"] > 0)

    @property
    def missing(self) -> int:
        """How many runs there are not yet."""
        return sum(self.settings["seeds"] - len(row.runs) for row in self.rows)

    @property
    def is_good(self) -> bool:
        """Whether every target is met, no run is missing, and every run was one."""
        has_problem = any(run.problem for row in self.rows for run in row.runs)
        is_complete = self.missing == 0 and not has_problem
        return is_complete and all(total.is_met for total in self.totals)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "code": self.code,
            "settings": dict(self.settings),
            "surroundings": dict(self.surroundings),
            "totals": [total.to_json() for total in self.totals],
            "mutants": [row.to_json() for row in self.rows],
            "runs": [run.to_json() for row in self.rows for run in row.runs],
        }
