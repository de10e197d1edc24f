"""The loop of a run: gives out tasks, stores what comes back, and ends in time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from tinyref.workers.journal import Journal
from tinyref.workers.local import LocalExecutor
from tinyref.workers.progress import Progress, Reporter
from tinyref.workers.tasks import Event, Executor, Job, Task

TICK_SECONDS = 0.1
# The progress is worked out again after this many seconds: that takes as long as a short case.
SHOW_SECONDS = 0.2
# Whether the journal is still where it was is looked at this often.
CHECK_SECONDS = 1.0


class Plan(ABC):
    """The tasks of a run, and what becomes of their results."""

    @abstractmethod
    def next_task(self) -> Task | None:
        """Return the next task; None if there is none, or none may begin now."""

    @abstractmethod
    def take(self, event: Event) -> None:
        """Store what came of a task in the journal; a transaction is open."""

    @abstractmethod
    def progress(self) -> Progress:
        """Return how far the run is."""

    def is_late(self) -> bool:
        """Return True if the time is up: the items under way are the last."""
        return False

    def is_stopped(self) -> bool:
        """Return True if nothing more is of use, not even what is under way."""
        return False


def executor_for(job: Job, jobs: int, cluster: str = "") -> Executor:
    """Return where tasks are done: at most `jobs` processes here, or the cluster at an address."""
    if cluster:
        from tinyref.workers.cluster import ClusterExecutor

        return ClusterExecutor(job, cluster)
    return LocalExecutor(job, jobs)


def run(plan: Plan, executor: Executor, journal: Journal, reporter: Reporter) -> None:
    """Carry out all tasks of a plan, or those that there is time for.

    Whatever ends it early, all that came back before is in the journal. Raises `HarnessError` if
    the executor or the disk cannot go on, and `RemovedError` if the journal was taken away.
    """
    is_ending = False
    next_show = 0.0
    next_check = time.monotonic() + CHECK_SECONDS
    while not plan.is_stopped():
        if not is_ending and plan.is_late():
            is_ending = True
            executor.wind_down()
        while executor.busy < executor.capacity and (task := plan.next_task()) is not None:
            executor.submit(task)
        if not executor.busy:
            break
        if events := executor.events(TICK_SECONDS):
            with journal.writing():
                for event in events:
                    plan.take(event)
        if time.monotonic() >= next_check:
            next_check = time.monotonic() + CHECK_SECONDS
            journal.check()
        if time.monotonic() >= next_show:
            next_show = time.monotonic() + SHOW_SECONDS
            reporter.update(plan.progress())
    reporter.update(plan.progress())
