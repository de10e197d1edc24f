"""The settings of a run, and the configuration of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tinyref.workers.machine import bounded_jobs, share_of_memory
from tinyref.workers.run import executor_for
from tinyref.workers.tasks import Executor, Job
from tinyref_conformance.plan import Plan
from tinyref_conformance.suite import DEFAULT_CATALOGUE


@dataclass(frozen=True)
class RunSettings:
    """The options of a run, except its cases, which are in the `Plan`.

    folder: for journal and reports. timeout: seconds a case may take. memory_limit: bytes a worker
    may use, None for a fair share of the machine. budget: seconds the whole run may take, None for
    no limit (see `budget.telling_order`). restart: begin again if the run to resume was of another
    plan or device. keep_going: also run cases that depend on a broken one. second: the second
    device of rows that take two; empty for the next one of the same kind. rerun_seconds: processor
    time for running failures again, alone, and for finding what those that then pass depend on.
    sequence: the cases of the plan in their order, if one worker is to run them all. cluster: the
    address of a Dask scheduler, empty for this machine.

    Examples:
        >>> from pathlib import Path
        >>> from tinyref_conformance.settings import RunSettings
        >>> RunSettings("CPU", Path("report"), jobs=2).workers
        2
    """

    device: str
    folder: Path
    second: str = ""
    jobs: int = 0
    cluster: str = ""
    timeout: float = 30.0
    memory_limit: int | None = None
    budget: float | None = None
    resume: bool = False
    restart: bool = False
    rerun_seconds: float = 0.0
    sequence: tuple[str, ...] = ()
    fail_fast: bool = False
    keep_going: bool = False
    catalogue: str = DEFAULT_CATALOGUE

    @property
    def workers(self) -> int:
        return 1 if self.sequence else bounded_jobs(self.jobs, self.memory_limit)

    @property
    def memory_bytes(self) -> int:
        return share_of_memory(self.memory_limit, self.workers)


def worker_configuration(settings: RunSettings, plan: Plan) -> dict[str, str]:
    """Return what a worker of a run is started with."""
    return plan.worker_configuration(settings.catalogue, settings.device, settings.second)


def executor_of(settings: RunSettings, plan: Plan) -> Executor:
    """Return the executor that runs the cases."""
    job = Job(
        "tinyref_conformance.worker",
        worker_configuration(settings, plan),
        settings.timeout,
        settings.memory_limit,
    )
    return executor_for(job, settings.workers, settings.cluster)
