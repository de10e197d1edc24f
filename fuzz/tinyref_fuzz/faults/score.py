"""Score the fuzzer: every named fault under several seeds, each in its own process."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.folders import prepare_folder, set_aside
from tinyref.workers.processes import Cause, Death, Limits, Pool, WorkerProcess
from tinyref_fuzz.campaign.results import code_version
from tinyref_fuzz.faults import FAULTS
from tinyref_fuzz.faults.fault import NamedFault
from tinyref_spec.kernel_case.files import read_json, write_text

SCHEMA, VERSION = "tinyref-fuzz-score", 1
# Seconds that the start of a process, or one case, may take; more is a hang.
START_SECONDS, SILENCE_SECONDS = 600.0, 60.0
MEMORY_BYTES = 3 * 2**30


@dataclass(frozen=True)
class ScoreSettings:
    """Options of the score; `seeds` is their number, from `first` on."""

    seeds: int = 5
    seconds: float = 60.0
    """The processor time after which a fault counts as not found."""
    jobs: int = 2
    further: float = 5.0
    """The seconds for more findings after the first."""
    examine: float = 10.0
    """The seconds for reducing a finding; 0 turns off reduction, blame and buckets."""
    first: int = 0

    @property
    def affecting(self) -> dict[str, Any]:
        """Return the options that affect the result of a run."""
        return {name: getattr(self, name) for name in ("seconds", "further", "examine")}


@dataclass(frozen=True)
class FaultRun:
    """One fault under one seed; `stage`, `cause` and `nodes` describe the first finding."""

    fault: str
    seed: int
    is_found: bool = False
    seconds: float = 0.0
    """The processor time until the fault was found, or until the run ended."""
    cases: int = 0
    """The number of cases that were judged until then."""
    detail: str = ""
    stage: str = ""
    cause: str = ""
    nodes: int = 0
    buckets: Sequence[str] = ()
    """The buckets of all findings."""
    problem: str = ""
    """Why the run is invalid; empty if it is valid."""

    @property
    def is_blamed(self) -> bool:
        """Return True if the right stage and cause were blamed."""
        return self.is_found and FAULTS[self.fault].is_blamed(self.stage, self.cause)

    def __str__(self) -> str:
        about = f"{self.fault} under seed {self.seed}"
        if self.problem:
            return f"{about}: NO RUN: {self.problem}"
        if not self.is_found:
            return f"{about}: NOT FOUND in {self.cases} cases"
        blamed = f", blamed on {self.stage} {self.cause}".rstrip() if self.stage else ""
        return f"{about}: found in {self.seconds:.1f} s{blamed}"


@dataclass(frozen=True)
class FaultScore:
    """All runs of one fault. A median is None if there is nothing to count."""

    fault: NamedFault
    runs: Sequence[FaultRun]

    @property
    def finds(self) -> list[FaultRun]:
        """Return the runs that found it."""
        return [run for run in self.runs if run.is_found]

    @property
    def is_found(self) -> bool:
        """Return True if every seed found it."""
        return bool(self.runs) and len(self.finds) == len(self.runs)

    @property
    def seconds(self) -> float | None:
        """Return the median seconds until it was found."""
        return _median(run.seconds for run in self.finds)

    @property
    def nodes(self) -> float | None:
        """Return the median size of the reduced case."""
        return _median(run.nodes for run in self.finds if run.stage)

    @property
    def blamed(self) -> int:
        """Return the number of runs that blame it rightly."""
        return sum(run.is_blamed for run in self.runs)

    @property
    def buckets(self) -> int:
        """Return the number of different buckets of all findings."""
        return len({bucket for run in self.runs for bucket in run.buckets})


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.median(known) if known else None


@dataclass(frozen=True)
class Goal:
    """One statistic of all faults and its goal; `value` is None if unknown."""

    name: str
    value: float | None
    goal: float
    is_least: bool = False

    @property
    def is_met(self) -> bool:
        """Return True if the value is known and good enough."""
        if self.value is None:
            return False
        return self.value >= self.goal if self.is_least else self.value <= self.goal


def goals(rows: Sequence[FaultScore], examines: bool) -> list[Goal]:
    """Return the statistics of all faults; blame is included only if findings are examined."""
    finds = [run for row in rows for run in row.finds]
    share = sum(row.is_found for row in rows) / max(len(rows), 1)
    results = [
        Goal("faults found under every seed", share, 0.95, is_least=True),
        Goal("median seconds until found", _median(run.seconds for run in finds), 5),
    ]
    if not examines:
        return results
    right = sum(run.is_blamed for run in finds)
    buckets = [row.buckets for row in rows if row.buckets]
    return [
        *results,
        Goal("blamed rightly", right / len(finds) if finds else None, 0.9, is_least=True),
        Goal("median nodes", _median(run.nodes for run in finds if run.stage), 5),
        Goal("buckets of a fault", statistics.mean(buckets) if buckets else None, 1.2),
    ]


@dataclass
class TrialProcess(WorkerProcess):
    """Process that works on one fault under one seed, and the fields of its `FaultRun` so far."""

    fault: str = ""
    seed: int = 0
    known: dict[str, Any] = field(default_factory=dict)

    def begin(self, fault: str, seed: int, folder: str) -> None:
        """Give the process its task."""
        self.fault, self.seed = fault, seed
        self.limit(Limits(START_SECONDS, MEMORY_BYTES))
        self.send({"fault": fault, "seed": seed, "folder": folder})

    def run(self, death: Death) -> FaultRun:
        """Return the run of the fault. A process that dies in a case also reveals the fault."""
        known = dict(self.known)
        run = FaultRun(self.fault, self.seed)
        if not known:
            return replace(run, problem=f"the process did not start: {death.detail[-400:]}")
        is_complete = known.pop("is_complete", False)
        if not is_complete and not known.get("is_found"):
            if death.cause is Cause.OTHERS:
                return replace(run, problem=f"{death.words}, not by the score")
            known |= {"is_found": True, "detail": death.detail[:300]}
        return replace(run, **known)


class Scoring:
    """One scoring; `file` is rewritten after each run, so that nothing is lost."""

    def __init__(
        self,
        faults: Sequence[NamedFault],
        settings: ScoreSettings,
        file: Path | None,
        report: Callable[[str], None],
    ) -> None:
        self.faults = list(faults)
        self.settings = settings
        self.file = file
        self.report = report
        self.about = {"sources": code_version(), "settings": settings.affecting}
        self.runs: dict[tuple[str, int], FaultRun] = {}

    def resume(self) -> None:
        """Load the runs of the file; invalid ones are repeated.

        Raises `UserError` if the file is damaged, or has other sources or settings.
        """
        if self.file is None or not self.file.exists():
            return
        data = read_json(self.file)
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise UserError(f"score: {self.file} is not a {SCHEMA} file of version {VERSION}")
        for name, now in self.about.items():
            if data.get(name) != now:
                raise UserError(
                    f"score: {self.file} has other {name} ({data.get(name)}, now {now}): "
                    "run without --resume to start again"
                )
        try:
            runs = [FaultRun(**run) for run in data["runs"]]
        except (KeyError, TypeError) as error:
            raise UserError(f"score: {self.file} is damaged: {error!r}") from error
        self.runs = {(run.fault, run.seed): run for run in runs if not run.problem}

    def run(self) -> None:
        """Run what is not known yet. Raises `UserError` if the file cannot be written."""
        if self.file is not None:
            prepare_folder(self.file.resolve().parent, "score")
            if self.file.exists() and not self.runs:
                self.report(f"score: the old {self.file} is renamed to {set_aside([self.file])[0]}")
        waiting = self.waiting()
        with (
            tempfile.TemporaryDirectory(prefix="tinyref-score-") as scratch,
            Pool("tinyref_fuzz.faults.trial", self.settings.affecting, TrialProcess) as pool,
        ):
            while waiting or pool.workers:
                while waiting and len(pool.workers) < self.settings.jobs:
                    pool.start().begin(*waiting.pop(0), tempfile.mkdtemp(dir=scratch))
                for process, event in pool.events(1.0):
                    if isinstance(event, Death):
                        self._keep(process.run(event), len(waiting))
                        continue
                    process.known |= event
                    # A process is silent while it reduces and blames a finding.
                    more = 3 * self.settings.examine if event.get("is_found") else 0.0
                    process.limit(Limits(SILENCE_SECONDS + more, MEMORY_BYTES))

    def waiting(self) -> list[tuple[str, int]]:
        """Return the faults and seeds that have no run yet, ordered by seed."""
        seeds = range(self.settings.first, self.settings.first + self.settings.seeds)
        pairs = [(fault.name, seed) for seed in seeds for fault in self.faults]
        return [pair for pair in pairs if pair not in self.runs]

    def rows(self) -> list[FaultScore]:
        """Return all faults with the runs that are known so far."""
        runs = sorted(self.runs.values(), key=lambda run: run.seed)
        return [
            FaultScore(fault, [run for run in runs if run.fault == fault.name])
            for fault in self.faults
        ]

    def _keep(self, run: FaultRun, waiting: int) -> None:
        self.runs[run.fault, run.seed] = run
        self.report(f"{run}; {waiting} to go")
        if self.file is not None:
            runs = [asdict(known) for known in self.runs.values()]
            data = {"schema": SCHEMA, "version": VERSION, **self.about, "runs": runs}
            write_text(self.file, json.dumps(data, indent=1) + "\n")
