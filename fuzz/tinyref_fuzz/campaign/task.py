"""The messages between a campaign and its workers, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tinyref.foreign import dataclass_from
from tinyref.workers.tasks import Task
from tinyref_fuzz.campaign.results import code_version
from tinyref_fuzz.judge.deaths import EXAMINATION_GRACE
from tinyref_spec.kernel_case import Blame, KernelVerdict
from tinyref_spec.kernel_case.document import (
    blame_from_json,
    blame_to_json,
    verdict_from_json,
    verdict_to_json,
)
from tinyref_spec.kernel_case.members import read_object
from tinyref_spec.subjects.name import is_subject, parse_subject

# Large enough to hide a round trip, and small enough to lose little with a worker.
CHUNK = 20
# The compiler may work on five sizes of batches. Each is limited to the time of a case, or six
# times that by the clock.
COMPILER_WAITS = 30
VERDICT = "verdict"
# The subjects of a campaign.
KERNELS = "kernels"
PROGRAMS = "programs"


@dataclass(frozen=True)
class Setup:
    """Configuration that every worker of a campaign receives once; see `CampaignRequest`."""

    device: str
    seed: int
    policy: str = "all"
    timeout: float = 30.0
    examine_seconds: float = 10.0
    """The time limit for reducing and blaming a finding."""
    harvested: str = ""
    code: str = field(default_factory=code_version)
    """The version of the campaign's sources."""
    subject: str = KERNELS
    compiled_every: int = 0
    """0 for the device's default."""
    known: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @property
    def item_seconds(self) -> float:
        """Return the time limit of a worker; the compiler of a library stops earlier.

        By the clock, a worker waits for the compiler, and again for each half of a batch.
        """
        if not is_subject(self.device):
            return self.timeout
        from tinyref_fuzz.programs.library.spelling import spelling_of

        waits_for_compiler = spelling_of(parse_subject(self.device)).together > 1
        return self.timeout * (COMPILER_WAITS if waits_for_compiler else 1)


@dataclass(frozen=True)
class Examination:
    """The result of reducing and blaming a finding."""

    number: int
    bucket: str
    """The key of findings with one cause."""
    blame: Blame
    detail: str
    """The detail of the verdict."""
    case: Mapping[str, Any] | None = None
    """The reduced case as JSON, if there is one; `nodes` and `opts` are its size."""
    nodes: int = 0
    opts: int = 0
    lines: tuple[str, ...] = ()
    """Fault, kernel, optimisations and data, for the terminal."""
    seconds: float = 0.0
    problem: str = ""
    """Why it could not be reduced or blamed; empty if it could."""
    script: str = ""
    """A script that does not need tinyref; empty if there is none."""

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "blame": blame_to_json(self.blame)}

    @staticmethod
    def from_json(data: object) -> Examination:
        """Return the examination. Raises `ValueError` for data that `to_json` does not write."""
        members = read_object(data, "examination")
        return dataclass_from(
            Examination, {**members, "blame": blame_from_json(members.get("blame"))}
        )


def judging_task(first: int, stop: int) -> Task:
    """Return the task to judge the cases from `first` to before `stop`."""
    return Task(range(first, stop))


def examination_task(setup: Setup, number: int, verdict: KernelVerdict, attempt: int = 1) -> Task:
    """Return the task to examine a finding, which may continue after the campaign's time.

    `attempt` is above 1 after an examination that ended its worker.
    """
    request = {VERDICT: verdict_to_json(verdict), "examination": attempt}
    seconds = setup.timeout + setup.examine_seconds + EXAMINATION_GRACE
    return Task((number,), request, seconds=seconds, is_last=True)


def verdict_to_examine(request: Mapping[str, Any]) -> KernelVerdict | None:
    """Return the verdict in the request of an examination; None for cases to judge."""
    return verdict_from_json(request[VERDICT]) if VERDICT in request else None
