"""The score of the fuzzer: every mutant under several seeds, each in a process of its own."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.processes import Message, Pool, WorkerProcess, death_in_words
from tinyref_fuzz.mutants.records import SCHEMA, VERSION, Found, Row, Run, Score, Subject

_MODULE = "tinyref_fuzz.mutants.trial"
# A process that starts, or one case, may take so long; more is a hang.
SILENCE_SECONDS = 60.0
MEMORY_BYTES = 3 * 2**30
# Programs of so many cases are compared for a mutant that lives.
TRACED_CASES = 60
_FUZZES, _TRACES = "fuzz", "trace"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How to score.

    seeds: how many, from `first` on. seconds: what a mutant may live, of the processor. jobs:
    processes at a time. further: seconds of the processor for more findings. examine:
    seconds of a reduction; 0 does without reduction, blame and buckets.
    """

    seeds: int = 5
    seconds: float = 60.0
    jobs: int = 2
    further: float = 5.0
    examine: float = 10.0
    first: int = 0

    @property
    def numbers(self) -> range:
        """The seeds."""
        return range(self.first, self.first + self.seeds)

    def kept(self) -> dict[str, Any]:
        """What a result depends on."""
        return {key: value for key, value in asdict(self).items() if key != "jobs"}


@dataclass(frozen=True)
class _Task:
    subject: Subject
    seed: int
    what: str = _FUZZES


@dataclass
class _Process(WorkerProcess):
    """A process at work on one task, and what it has said so far."""

    task: _Task | None = None
    started: float = field(default_factory=time.monotonic)
    ready_at: float | None = None
    messages: list[Message] = field(default_factory=list)
    is_done: bool = False

    def hear(self, message: Message) -> None:
        """Keeps what it said."""
        self.heard()
        self.messages.append(message)
        if self.ready_at is None and "ready" in message:
            self.ready_at = time.monotonic()

    def first(self, key: str) -> Message | None:
        """The first message with this key."""
        return next((message for message in self.messages if key in message), None)


class Scoring:
    """One scoring on its way; `file` is rewritten after each run, so that nothing is lost."""

    def __init__(
        self, chosen: Sequence[Subject], settings: Settings, file: Path | None, say: Say
    ) -> None:
        self.chosen = list(chosen)
        self.settings = settings
        self.file = file
        self.say = say
        self.code = code_version()
        self.runs: dict[tuple[str, int], Run] = {}
        self.digests: dict[tuple[str, str, int], list[str]] = {}

    def resume(self) -> None:
        """Takes over what the file has. Raises `UserError` where that is of other settings."""
        if self.file is None or not self.file.exists():
            return
        data = read_score(self.file)
        if data["code"] != self.code or data["settings"] != self.settings.kept():
            raise UserError(
                f"score: {self.file} is of other sources or settings: accepted is the same again"
            )
        for run in map(Run.from_json, data["runs"]):
            self.runs[run.subject, run.seed] = run

    def run(self) -> Score:
        """Scores what is not known yet, then looks at those that live."""
        tasks = [
            _Task(subject, seed)
            for seed in self.settings.numbers
            for subject in self.chosen
            if (subject.name, seed) not in self.runs
        ]
        self._work(tasks)
        self._work(self._traces())
        self._compare()
        return self.score()

    def score(self) -> Score:
        """What is known now."""
        rows = []
        for subject in self.chosen:
            runs = [self.runs.get((subject.name, seed)) for seed in self.settings.numbers]
            rows.append(Row(subject, tuple(run for run in runs if run is not None)))
        return Score(self.settings.kept(), self.code, rows)

    # Processes

    def _work(self, tasks: Sequence[_Task]) -> None:
        waiting = deque(tasks)
        kept = self.settings
        common = {"seconds": kept.seconds, "further": kept.further, "examine": kept.examine}
        pool: Pool[_Process] = Pool(_MODULE, common, _Process)
        try:
            while waiting or pool.workers:
                while waiting and len(pool.workers) < self.settings.jobs:
                    process = pool.start()
                    process.task = waiting.popleft()
                    process.send(_request(process.task))
                for process, message in pool.said(1.0):
                    if message is None:
                        self._ended(pool, process)
                    else:
                        process.hear(message)
                for process in pool.workers:
                    _check(process, self.settings)
        finally:
            pool.close()

    def _ended(self, pool: Pool[_Process], process: _Process) -> None:
        ended = time.monotonic()
        killed_for, tail = process.killed_for, process.log_tail()
        code = pool.remove(process)
        assert process.task is not None, "every process has a task"
        death = killed_for or death_in_words(code)
        if process.task.what == _TRACES:
            self._traced(process, process.task)
            return
        run = _run_of(process, process.task, death, tail, ended)
        self.runs[run.subject, run.seed] = run
        self._save()
        left = len(self.chosen) * self.settings.seeds - len(self.runs)
        self.say(f"{describe(run)}; {left} to go")

    def _save(self) -> None:
        if self.file is not None:
            write_score(self.file, self.score())

    # Survivors

    def _traces(self) -> list[_Task]:
        """For every mutant that lives under a seed: its programs, and those without it."""
        tasks: dict[tuple[str, str, int], _Task] = {}
        for run in self.runs.values():
            if run.killed or run.problem or run.triggered is not None:
                continue
            subject = next((each for each in self.chosen if each.name == run.subject), None)
            if subject is None or not subject.mutant:
                continue
            healthy = replace(subject, name="healthy", mutant="")
            for each in (subject, healthy):
                tasks[each.mutant, each.device, run.seed] = _Task(each, run.seed, _TRACES)
        return list(tasks.values())

    def _traced(self, process: _Process, task: _Task) -> None:
        digests = [message["digest"] for message in process.messages if "digest" in message]
        self.digests[task.subject.mutant, task.subject.device, task.seed] = digests

    def _compare(self) -> None:
        for (mutant, device, seed), digests in self.digests.items():
            run = self.runs.get((mutant, seed))
            if not mutant or run is None:
                continue
            healthy = self.digests.get(("", device, seed), [])
            self.runs[mutant, seed] = replace(run, triggered=digests != healthy)
        self._save()


def _request(task: _Task) -> dict[str, Any]:
    return {
        "mutant": task.subject.mutant,
        "device": task.subject.device,
        "seed": task.seed,
        "trace": TRACED_CASES if task.what == _TRACES else 0,
    }


def _check(process: _Process, settings: Settings) -> None:
    """Kills what says nothing for too long, and what takes too much memory."""
    # Examinations are not told of while they go on.
    patience = SILENCE_SECONDS + (3 * settings.examine if process.first("judged") else 0)
    if process.silence() > patience:
        process.kill(f"silent for {patience:g} s")
    elif process.memory_bytes() > MEMORY_BYTES:
        process.kill(f"took more than {MEMORY_BYTES >> 30} GiB of memory")


def _run_of(process: _Process, task: _Task, death: str, tail: str, ended: float) -> Run:
    """What became of one mutant under one seed, from all that its process said."""
    run = Run(task.subject.name, task.seed)
    refused, broken = process.first("refused"), process.first("broken")
    if refused is not None:
        return replace(run, problem=str(refused["refused"]))
    if broken is not None:
        # Nothing starts with it: nobody could miss that.
        detail = str(broken["broken"])
        return replace(run, killed=True, reached=1, triggered=True, symptom="ERROR", detail=detail)
    killed, judged = process.first("killed"), process.first("judged")
    found = tuple(_found(message) for message in process.messages if "bucket" in message)
    if judged is not None:
        run = replace(
            run,
            cases=judged["judged"],
            reached=judged["reached"],
            seconds=judged["seconds"],
            wall=judged["wall"],
            found=found,
        )
    if killed is not None:
        if process.first("done") is None:
            problem = Found(problem=f"the examination ended: {death}")
            run = replace(run, found=(*found, problem))
        return replace(
            run,
            killed=True,
            triggered=True,
            reached=max(run.reached, 1),
            cases=killed["killed"] + 1,
            seconds=killed["seconds"],
            wall=killed["wall"],
            pair=killed["pair"],
            symptom=killed["symptom"],
            detail=killed["detail"],
        )
    if process.first("done") is not None:
        return run
    if process.ready_at is None:
        return replace(run, problem=f"did not start: {death}: {tail[-400:]}")
    # A crash or a hang gives a mutant away like a wrong value; isolation makes it cost one case.
    is_hang = death.startswith("silent")
    alive = [message["seconds"] for message in process.messages if "at" in message]
    return replace(
        run,
        killed=True,
        triggered=True,
        reached=1,
        # A hang is noticed after the silence, whatever the process does in it.
        seconds=max(alive, default=0.0) + (SILENCE_SECONDS if is_hang else 0.0),
        wall=ended - process.ready_at,
        symptom="HANG" if is_hang else "CRASH",
        detail=f"{death}: {tail[-200:]}",
    )


def _found(message: Message) -> Found:
    return Found(**message)


def describe(run: Run) -> str:
    """A run in one line."""
    if run.problem:
        return f"{run.subject} under seed {run.seed}: NO RUN: {run.problem}"
    if not run.killed:
        return f"{run.subject} under seed {run.seed}: LIVES after {run.cases} cases"
    how = f"{run.pair} {run.symptom}".strip()
    return f"{run.subject} under seed {run.seed}: killed in {run.seconds:.1f} s by {how}"


def code_version() -> str:
    """What the result is of; another version may give another one."""
    from tinyref_fuzz.campaign.cases import code_version as version

    return version()


def read_score(file: Path) -> Mapping[str, Any]:
    """A score as it was written. Raises `UserError` for anything else."""
    try:
        data: Mapping[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"score: cannot read {file}: {error}") from error
    known = isinstance(data, dict) and data.get("schema") == SCHEMA
    if not known or data.get("version") != VERSION:
        raise UserError(f"score: {file} is no {SCHEMA} of version {VERSION}")
    return data


def write_score(file: Path, score: Score) -> None:
    """Writes the whole file or, where that is interrupted, leaves the one that was there."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(json.dumps(score.to_json(), indent=1) + "\n")
    os.replace(partial, file)
