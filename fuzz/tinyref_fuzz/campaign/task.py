"""What a campaign gives to workers, and what comes back: plain JSON both ways."""

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

# Long enough that a round trip does not count, short enough that little is lost with a worker.
CHUNK = 20
# Five sizes of batches, each within the seconds of a case, which may be six times as many of the
# clock.
COMPILER_WAITS = 30
VERDICT = "verdict"
# What the cases of a campaign are.
KERNELS = "kernels"
PROGRAMS = "programs"


@dataclass(frozen=True)
class Setup:
    """What every worker of a campaign is given once.

    timeout: seconds a case may take. examine_seconds: what a finding may take to be reduced and
    blamed. harvested: the text of a collection of kernels, to draw from instead of those that come
    with the fuzzer. code: the sources that the campaign is of. subject: what the cases are.
    compiled_every: one program in so many is compiled, as the device has it by default for 0.
    known: queries of the functions of a library with known faults, joined by commas.
    """

    device: str
    seed: int
    policy: str = "all"
    timeout: float = 30.0
    examine_seconds: float = 10.0
    harvested: str = ""
    code: str = field(default_factory=code_version)
    subject: str = KERNELS
    compiled_every: int = 0
    known: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @property
    def item_seconds(self) -> float:
        """Seconds after which a worker is ended; the compiler of a library ends before.

        A worker waits for the compiler, by the clock, and once more for each half of a batch.
        """
        if not is_subject(self.device):
            return self.timeout
        from tinyref_fuzz.programs.library.spelling import spelling_of

        waits_for_compiler = spelling_of(parse_subject(self.device)).together > 1
        return self.timeout * (COMPILER_WAITS if waits_for_compiler else 1)


@dataclass(frozen=True)
class Examination:
    """What is known of a finding after it was reduced and blamed.

    bucket: the key under which findings of one cause meet. detail: of the verdict. case: the
    reduced case as JSON, None where there is none to give; nodes, opts: its size. lines: fault,
    kernel, optimisations and data in a line each. problem: why it could not be reduced or blamed,
    empty if it could. script: a script that needs nothing of tinyref, empty if there is none.
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
    script: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "blame": blame_to_json(self.blame)}

    @staticmethod
    def from_json(data: object) -> Examination:
        """Raises `ValueError` for what `to_json` does not give."""
        members = read_object(data, "examination")
        return dataclass_from(
            Examination, {**members, "blame": blame_from_json(members.get("blame"))}
        )


def judging_task(first: int, stop: int) -> Task:
    """Return the task to judge the cases from `first` to before `stop`."""
    return Task(range(first, stop))


def examination_task(setup: Setup, number: int, verdict: KernelVerdict, attempt: int = 1) -> Task:
    """Return the task to examine a finding, which goes on when the time of a campaign is up.

    attempt: more than 1 after an examination that ended its worker.
    """
    request = {VERDICT: verdict_to_json(verdict), "examination": attempt}
    seconds = setup.timeout + setup.examine_seconds + EXAMINATION_GRACE
    return Task((number,), request, seconds=seconds, is_last=True)


def verdict_to_examine(request: Mapping[str, Any]) -> KernelVerdict | None:
    """Return the verdict in the request of an examination; None for cases to judge."""
    return verdict_from_json(request[VERDICT]) if VERDICT in request else None
