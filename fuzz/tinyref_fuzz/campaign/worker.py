"""A worker: opens the device, judges and examines cases, one JSON line in, one JSON line out.

    python -m tinyref_fuzz.campaign.worker

It says which case it begins before it begins it, so a death is pinned to one case.
"""

from __future__ import annotations

from typing import Protocol

from tinyref.device import Device
from tinyref.runtimes.health import Health
from tinyref.runtimes.identity import identity
from tinyref.workers.processes import Message
from tinyref.workers.service import Answer, FatalError, Send, leave_device, serve
from tinyref_fuzz.campaign.cases import kernels_for, result_of
from tinyref_fuzz.campaign.results import CaseResult, code_version
from tinyref_fuzz.campaign.task import PROGRAMS, Examination, Setup, Task
from tinyref_fuzz.judge.caches import forget_case
from tinyref_fuzz.judge.judge import judge_of


def main() -> None:
    """Runs until the parent closes the pipe or tells it to stop."""
    serve(_open_worker)


def _open_worker(configuration: Message, send: Send) -> tuple[object, Answer]:
    worker = Worker(Setup(**configuration), send)
    return worker.open(), worker.work


class Subject(Protocol):
    """What a campaign does with a number."""

    def judge_case(self, number: int, task: Task) -> CaseResult:
        """Makes and judges a case of the task."""

    def examine(self, task: Task, attempt: int) -> Examination:
        """Reduces and blames the case of the task."""


class Kernels:
    """What a campaign of kernels does with a number."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.judge = judge_of(setup.device)
        self.kernels = kernels_for(self.judge, setup.harvested)

    def judge_case(self, number: int, task: Task) -> CaseResult:
        """Makes and judges a case of the task."""
        seed, policy = self.setup.seed, self.setup.policy
        return result_of(self.judge, seed, number, policy, task.guide, self.kernels)

    def examine(self, task: Task, attempt: int) -> Examination:
        """Reduces and blames the case of the task."""
        # Most workers find nothing, and all would wait for the import.
        from tinyref_fuzz.campaign.examination import examine_task

        return examine_task(self.setup, self.judge, self.kernels, task, attempt)


def subject_of(setup: Setup) -> Subject:
    """What the campaign judges: only one of programs imports them, and with them all of Tensor."""
    if setup.subject == PROGRAMS:
        from tinyref_fuzz.campaign.programs import Programs

        return Programs(setup)
    return Kernels(setup)


class Worker:
    """The state of one worker process."""

    def __init__(self, setup: Setup, send: Send) -> None:
        self.setup = setup
        self.send = send

    def open(self) -> dict[str, str]:
        """Opens the device and says what it is."""
        if code_version() != self.setup.code:
            raise FatalError("the sources of tinyref are not those that the campaign is of")
        self.subject = subject_of(self.setup)
        self.health = Health(self.setup.device)
        known = identity(Device[self.setup.device])
        # The judge takes as many on any machine.
        known.pop("capability threads", None)
        return known

    def work(self, message: Message) -> Message:
        """Carries out one task, beginning with the case `from`."""
        task = Task.from_json(message["task"])
        if task.is_examination:
            self.send({"begin": task.first})
            found = self.subject.examine(task, message["again"])
            return {"examined": found.to_json()}
        for number in range(message["from"], task.stop):
            self.send({"begin": number})
            # What is counted is the same wherever a task is cut, as by the death of a worker.
            forget_case()
            result = self.subject.judge_case(number, task)
            self.send({"end": result.to_json()})
            if result.verdict is not None and self.health.problem_since():
                leave_device()
        return {"done": True}


if __name__ == "__main__":
    main()
