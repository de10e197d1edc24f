"""A worker: opens the device, judges and examines cases, one JSON line in, one JSON line out.

    python -m tinyref_fuzz.campaign.worker

It says which case it begins before it begins it, so a death is pinned to one case.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tinyref.device import Device
from tinyref.errors import explained
from tinyref.processes import Line
from tinyref.runtimes.identity import identity
from tinyref_fuzz.campaign.cases import (
    code_version,
    judge_of,
    kernels_for,
    result_of,
)
from tinyref_fuzz.campaign.examination import examined
from tinyref_fuzz.campaign.task import Setup, Task
from tinyref_fuzz.judge.caches import forget

EXIT_CHANGED = 4


def main() -> None:
    """Runs until the parent closes the pipe or says to stop."""
    line = Line()
    worker = Worker(Setup(**line.hear()), line)
    worker.open()
    while True:
        message = line.hear()
        if message.get("stop"):
            # Threads of a device must not keep the process.
            os._exit(0)
        worker.work(message)


class Worker:
    """The state of one worker process."""

    def __init__(self, setup: Setup, line: Line) -> None:
        self.setup = setup
        self.say = line.say

    def open(self) -> None:
        """Opens the device and says what it is, or why it does not open."""
        if code_version() != self.setup.code:
            self.say({"fatal": "the sources of tinyref are not those that the campaign is of"})
            os._exit(EXIT_CHANGED)
        try:
            self.judge = judge_of(self.setup.device)
            self.kernels = kernels_for(self.judge, self.setup.harvested)
            found = identity(Device[self.setup.device])
            # The judge takes as many on any machine.
            found.pop("capability threads", None)
        except (Exception, SystemExit) as error:  # anything: the campaign is to say what it was
            self.say({"refused": explained(error)})
        else:
            self.say({"opened": found})

    def work(self, message: Mapping[str, Any]) -> None:
        """Carries out one task, beginning with the case `from`."""
        task = Task.from_json(message["task"])
        if task.is_examination:
            self.say({"begin": task.first})
            found = examined(self.setup, self.judge, self.kernels, task, message["again"])
            self.say({"examined": found.to_json()})
            return
        for number in range(message["from"], task.stop):
            self.say({"begin": number})
            # What is counted is the same wherever a task is cut, as by the death of a worker.
            forget()
            seed, policy = self.setup.seed, self.setup.policy
            result = result_of(self.judge, seed, number, policy, task.guide, self.kernels)
            self.say({"end": result.to_json()})
        self.say({"done": True})


if __name__ == "__main__":
    main()
