"""Run a worker: open the device, and judge and examine cases, by messages in JSON lines.

python -m tinyref_fuzz.campaign.worker

It announces each case before it begins, so that a death is attributed to one case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tinyref.device import Device, Health
from tinyref.runtimes.identity import identity
from tinyref.workers.processes import Message
from tinyref.workers.service import Answer, FatalError, Send, leave_device, serve
from tinyref_fuzz.campaign.cases import kernels_for, result_of
from tinyref_fuzz.campaign.results import CampaignCase, code_version
from tinyref_fuzz.campaign.task import PROGRAMS, Examination, Setup, verdict_to_examine
from tinyref_fuzz.judge.caches import forget_case
from tinyref_fuzz.judge.judge import judge_of
from tinyref_spec.kernel_case import KernelVerdict
from tinyref_spec.subjects.name import is_subject


def main() -> None:
    """Run until the parent closes the pipe or asks it to stop."""
    serve(_open_worker)


def _open_worker(configuration: Message, send: Send) -> tuple[object, Answer]:
    worker = CampaignWorker(Setup(**configuration), send)
    return worker.open(), worker.work


class CampaignSubject(Protocol):
    """The work of a campaign on a number."""

    def judge_case(self, number: int) -> CampaignCase:
        """Generate and judge a case."""

    def examine(self, number: int, verdict: KernelVerdict, attempt: int) -> Examination:
        """Reduce and blame a case that does not agree."""


class KernelCases:
    """The cases of a campaign of kernels."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.judge = judge_of(setup.device)
        self.kernels = kernels_for(self.judge, setup.harvested)

    def judge_case(self, number: int) -> CampaignCase:
        """Generate and judge a case."""
        return result_of(self.judge, self.setup.seed, number, self.setup.policy, self.kernels)

    def examine(self, number: int, verdict: KernelVerdict, attempt: int) -> Examination:
        """Reduce and blame a case that does not agree."""
        # Most workers find nothing, and would all wait for the import.
        from tinyref_fuzz.campaign.examination import examine_case

        return examine_case(self.setup, self.judge, self.kernels, number, verdict, attempt)


def subject_of(setup: Setup) -> CampaignSubject:
    """Return the subject of the campaign; only programs import all of Tensor."""
    if setup.subject == PROGRAMS:
        from tinyref_fuzz.campaign.programs import Programs

        return Programs(setup)
    return KernelCases(setup)


class CampaignWorker:
    """The state of one worker process; `health` is None for a library."""

    subject: CampaignSubject
    health: Health | None = None

    def __init__(self, setup: Setup, send: Send) -> None:
        self.setup = setup
        self.send = send

    def open(self) -> dict[str, Any]:
        """Open the device, and return its identity."""
        if code_version() != self.setup.code:
            raise FatalError("the sources of tinyref have changed since the campaign began")
        if is_subject(self.setup.device):
            from tinyref_fuzz.campaign.libraries import LibraryPrograms

            programs = LibraryPrograms(self.setup)
            self.subject = programs
            return {"identity": programs.identity}
        self.subject = subject_of(self.setup)
        self.health = Health(self.setup.device)
        known = identity(Device[self.setup.device])
        # The judge uses the same number of threads on any machine.
        known.pop("capability threads", None)
        return {"identity": known}

    def work(self, message: Message) -> Message:
        """Carry out one task."""
        task = message["task"]
        verdict = verdict_to_examine(task)
        for number in task["items"]:
            self.send({"begin": number})
            if verdict is not None:
                self._examine(task, number, verdict)
                continue
            # A case must not depend on where a task is cut, for example by the death of a worker.
            forget_case()
            result = self.subject.judge_case(number)
            self.send({"end": number, "result": result.to_json()})
            if result.verdict is not None and self.health and self.health.problem_since():
                leave_device()
        return {"done": True}

    def _examine(self, task: Mapping[str, Any], number: int, verdict: KernelVerdict) -> None:
        attempt = max(task["examination"], task["attempt"])
        examination = self.subject.examine(number, verdict, attempt)
        self.send({"end": number, "result": examination.to_json()})


if __name__ == "__main__":
    main()
