"""What is given to workers, and what comes back: plain JSON both ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tinyref.foreign import dataclass_from
from tinyref_fuzz.campaign.results import CaseResult, Guide, code_version
from tinyref_spec.kernel_case import Blame, Verdict
from tinyref_spec.kernel_case.document import (
    blame_from_json,
    blame_to_json,
    verdict_from_json,
    verdict_to_json,
)
from tinyref_spec.kernel_case.members import read_object

# Long enough that a round trip does not count, short enough that little is lost with a worker.
CHUNK = 20
# Cases between two milestones: the guide of an epoch knows what was covered before the last one.
EPOCH = 1000
# What has taken so long when the time is up may be a hang: the summary says that it was cut.
SUSPICIOUS_SECONDS = 3.0
# What the cases of a campaign are.
KERNELS = "kernels"
PROGRAMS = "programs"


@dataclass(frozen=True)
class Setup:
    """What every worker of a campaign is given once.

    timeout: seconds a case may take. memory: bytes a worker may hold, a fair share of the machine
    that it is on where it is None. examine_seconds: what a finding may take to be reduced and
    blamed. harvested: the text of a collection of kernels, to draw from instead of those that come
    with the fuzzer. code: the sources that the campaign is of. subject: what the cases are.
    compiled_every: one program in so many is compiled, as the device has it by default for 0.
    """

    device: str
    seed: int
    policy: str = "all"
    timeout: float = 30.0
    memory: int | None = None
    examine_seconds: float = 10.0
    harvested: str = ""
    code: str = field(default_factory=code_version)
    subject: str = KERNELS
    compiled_every: int = 0

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Task:
    """The cases from `first` to before `stop` to judge; or, with a verdict, one to examine.

    guide: what the generator is swayed by, the same for all runs of the campaign.
    """

    first: int
    stop: int
    guide: Guide | None = None
    verdict: Verdict | None = None

    @property
    def is_examination(self) -> bool:
        return self.verdict is not None

    def to_json(self) -> dict[str, Any]:
        verdict = verdict_to_json(self.verdict) if self.verdict is not None else None
        return {"first": self.first, "stop": self.stop, "guide": self.guide, "verdict": verdict}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Task:
        verdict = verdict_from_json(data["verdict"]) if data["verdict"] is not None else None
        return Task(data["first"], data["stop"], data["guide"], verdict)


@dataclass(frozen=True)
class Examination:
    """What is known of a finding after it was reduced and blamed.

    bucket: the key under which findings of one cause meet. detail: of the verdict. case: the
    reduced case as JSON, None where there is none to give; nodes, opts: its size. lines: fault,
    kernel, optimisations and data in a line each. problem: why it could not be reduced or blamed,
    empty if it could.
    """

    number: int
    bucket: str
    blame: Blame
    detail: str
    case: Mapping[str, Any] | None = None
    nodes: int = 0
    opts: int = 0
    lines: tuple[str, ...] = ()
    seconds: float = 0.0
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "blame": blame_to_json(self.blame)}

    @staticmethod
    def from_json(data: object) -> Examination:
        """Raises `ValueError` for what `to_json` does not give."""
        members = read_object(data, "examination")
        return dataclass_from(
            Examination, {**members, "blame": blame_from_json(members.get("blame"))}
        )


@dataclass(frozen=True)
class Done:
    """A task with what came of it: a result for each case, or one examination."""

    task: Task
    results: tuple[CaseResult, ...] = ()
    examination: Examination | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task.to_json(),
            "results": [result.to_json() for result in self.results],
            "examination": self.examination.to_json() if self.examination else None,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Done:
        examination = data["examination"]
        return Done(
            Task.from_json(data["task"]),
            tuple(CaseResult.from_json(result) for result in data["results"]),
            Examination.from_json(examination) if examination is not None else None,
        )


class CampaignError(Exception):
    """The campaign cannot go on, though it was asked for rightly: what is stored stays."""


class Executor(ABC):
    """Where tasks are carried out. Raises `CampaignError` where none can be any more.

    identity: what the device is, known at the latest with the first task that is done. is_awaited:
    whether others start its workers, so that the clock of a campaign stands until they are there.
    """

    identity: Mapping[str, str] | None = None
    is_awaited = False

    def __init__(self) -> None:
        # The cases that `cut` ended, with the seconds that each had taken.
        self.unfinished: dict[int, float] = {}

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many tasks keep it busy."""

    @property
    @abstractmethod
    def busy(self) -> int:
        """How many tasks it has now."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether anybody is there to work."""

    def open(self) -> None:
        """Opens the device before there is a task, where it is of this machine."""
        return

    @property
    def cases_under_way(self) -> int:
        """How many cases are judged of tasks that are not done, as far as that is known."""
        return 0

    @property
    def suspicious_cases(self) -> dict[int, float]:
        """Those of `unfinished` that had taken so long that they may hang."""
        found = self.unfinished.items()
        return {number: took for number, took in found if took >= SUSPICIOUS_SECONDS}

    @abstractmethod
    def recall(self) -> list[Task]:
        """Takes back tasks that nobody has begun, as far as that is known.

        Of those that are begun the case under way is the last: they come back shorter.
        """

    def cut(self) -> list[Task]:
        """Ends the cases under way at once, as far as that can be done, and no examination.

        What their tasks have come to is done; tasks of which no case is judged come back.
        """
        return []

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Takes a task."""

    @abstractmethod
    def finished_tasks(self, seconds: float) -> list[Done]:
        """The tasks that are done, after waiting at most `seconds` for the first."""

    @abstractmethod
    def close(self) -> None:
        """Stops everything; tasks that are not done are dropped."""
