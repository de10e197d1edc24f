"""The score of the fuzzer: every mutant under several seeds, each in a process of its own."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.folders import prepare_folder, set_aside
from tinyref.probe import probe
from tinyref.runtimes.identity import surroundings
from tinyref.workers.changes import differences
from tinyref.workers.lock import FileLock
from tinyref.workers.processes import Cause, Death, Limits, Message, Pool, WorkerProcess
from tinyref_fuzz.judge.deaths import SYMPTOMS
from tinyref_fuzz.mutants.records import SCHEMA, VERSION, ExaminedFinding, Row, Run, Score, Subject
from tinyref_fuzz.mutants.subjects import subjects
from tinyref_spec.kernel_case import Symptom
from tinyref_spec.kernel_case.files import read_json, write_text

_MODULE = "tinyref_fuzz.mutants.trial"
# A process that starts, or one case, may take so long; more is a hang.
SILENCE_SECONDS = 60.0
START_SECONDS = 600.0
MEMORY_BYTES = 3 * 2**30
# The kind of a subject without a fault, and how long it is fuzzed at most.
HEALTHY = "healthy"
HEALTHY_SECONDS = 15.0
# Of what is left out for the same reason so many are named.
MAX_NAMED = 8
FUZZES, _TRACES = "fuzz", "trace"
# Settings that say how fast and how far, not what comes out.
_HOW_MUCH = ("jobs", "traced", "minutes")

Report = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How to score.

    seeds: how many, from `first` on. seconds: what a mutant may live, of the processor. jobs:
    processes at a time. further: seconds of the processor for more findings. examine:
    seconds of a reduction; 0 does without reduction, blame and buckets. traced: programs of so many
    cases are compared for a mutant that lives. minutes: after so many nothing more is begun.
    """

    seeds: int = 5
    seconds: float = 60.0
    jobs: int = 2
    further: float = 5.0
    examine: float = 10.0
    first: int = 0
    traced: int = 60
    minutes: float = math.inf

    @property
    def numbers(self) -> range:
        """The seeds."""
        return range(self.first, self.first + self.seeds)

    def result_settings(self) -> dict[str, Any]:
        """What a result depends on."""
        return {key: value for key, value in asdict(self).items() if key not in _HOW_MUCH}


@dataclass(frozen=True)
class Task:
    """What one process is to do. extra: more of its `Request`."""

    subject: Subject
    seed: int
    what: str = FUZZES
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class ScoreProcess(WorkerProcess):
    """A process at work on one task, and the messages that it has sent so far."""

    task: Task | None = None
    started: float = field(default_factory=time.monotonic)
    ready_at: float | None = None
    messages: list[Message] = field(default_factory=list)
    folder: Path = Path()

    def begin(self, task: Task, folder: Path, request: Mapping[str, Any]) -> None:
        """Gives the process its task, and a folder of its own."""
        self.task = task
        self.folder = folder
        self.started = time.monotonic()
        self.ready_at = None
        self.messages = []
        self.limit(Limits(START_SECONDS, MEMORY_BYTES))
        self.send({**request, "folder": str(folder)})

    def add(self, message: Message, settings: Settings) -> None:
        """Keeps what it sent."""
        self.messages.append(message)
        # Nothing is sent of examinations while they go on.
        more = 3 * settings.examine if self.first("judged") else 0.0
        self.limit(Limits(SILENCE_SECONDS + more, MEMORY_BYTES))
        if self.ready_at is None and "ready" in message:
            self.ready_at = time.monotonic()

    def first(self, key: str) -> Message | None:
        """The first message with this key."""
        return next((message for message in self.messages if key in message), None)


class Scoring:
    """One scoring on its way; `file` is rewritten after each run, so that nothing is lost,
    and only one scoring writes to it at a time.

    chosen: what is run. subjects: what the file and the summary are of, which is more where a file
    that is gone on with has more.
    """

    def __init__(
        self, chosen: Sequence[Subject], settings: Settings, file: Path | None, report: Report
    ) -> None:
        self.chosen = list(chosen)
        self.subjects = self.chosen
        self.settings = settings
        self.file = file
        self.report = report
        self.code = code_version()
        self.surroundings = surroundings()
        self.runs: dict[tuple[str, int], Run] = {}
        self.digests: dict[tuple[str, str, int], list[str]] = {}
        self.is_resumed = False
        self.until = math.inf
        self.waiting: deque[Task] = deque()
        self._lock: FileLock | None = None

    def resume(self, restart: bool = False) -> None:
        """Takes over what the file has, also of subjects that are not chosen.

        A run that was none is left out, so that it is tried again. Raises `UserError` where the
        file is damaged, and where it is of other sources, settings, flags or libraries; with
        `restart`, the score begins anew there, and the file is kept.
        """
        if self.file is None:
            return
        self.is_resumed = True
        if not os.path.exists(self.file):
            self.report(f"score: there is no {self.file} yet: nothing to go on with")
            return
        self._hold(self.file)
        try:
            self._take_over(self.file, restart)
        except UserError:
            self._release()
            raise

    def _take_over(self, file: Path, restart: bool) -> None:
        data = read_score(file)
        if changes := differences(_binding(data), _binding(self.score().to_json())):
            if restart:
                self.is_resumed = False
                return
            raise UserError(
                f"score: {file} is another one (then -> now): {'; '.join(changes)}: go on "
                "with --resume --restart to begin anew, which keeps that file beside"
            )
        names, runs = names_and_runs(file, data)
        self.subjects = _with_those_of(file, self.known(), self.chosen, names)
        self.runs = {(run.subject, run.seed): run for run in runs if not run.problem}
        if more := len(self.subjects) - len(self.chosen):
            self.report(f"score: {file} keeps {more} more, not chosen; the summary counts them too")

    def run(self) -> Score:
        """Scores what is not known yet, then looks at those that live.

        A score that the file has, and that is not gone on with, is kept beside it. Raises
        `UserError`, before anything runs, where the file cannot be written or is something else.
        """
        if self.file is not None:
            _prepare(self.file)
            self._hold(self.file)
            if not self.is_resumed and (previous := _set_aside(self.file)):
                self.report(f"score: {self.file} was there: kept as {previous}")
        try:
            self._leave_out_unavailable()
            self.until = time.monotonic() + 60 * self.settings.minutes
            self._work(self.to_go())
            self.until = math.inf
            self._work(self._traces())
            self._compare()
        finally:
            self._release()
        return self.score()

    def _hold(self, file: Path) -> None:
        """Keeps the file for this scoring, until it has run: each writes all that it knows.

        Raises `UserError` where another one has it.
        """
        if self._lock is not None:
            return
        target = Path(os.path.realpath(file))
        self._lock = FileLock(
            target.with_name(f".{target.name[:32]}.lock"),
            "score",
            f"another score is writing to {file}: give this one its own --json",
        )

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def known(self) -> list[Subject]:
        """All that a file may have runs of."""
        return subjects()

    def to_go(self) -> list[Task]:
        """What is to be run yet."""
        return [
            Task(subject, seed)
            for seed in self.settings.numbers
            for subject in self.chosen
            if (subject.name, seed) not in self.runs
        ]

    def score(self) -> Score:
        """What is known now."""
        rows = []
        for subject in self.subjects:
            runs = [self.runs.get((subject.name, seed)) for seed in self.settings.numbers]
            rows.append(Row(subject, tuple(run for run in runs if run is not None)))
        return Score(self.settings.result_settings(), self.code, rows, self.surroundings)

    def _leave_out_unavailable(self) -> None:
        """Gives those without a device here a run that is none: that they fail is no kill."""
        devices = list({subject.device: None for subject in self.chosen})
        for device, found in zip(devices, probe(devices), strict=True):
            if found.works:
                continue
            problem = f"{device} is not available here: {found.reason}"
            tasks = [task for task in self.to_go() if task.subject.device == device]
            for task in tasks:
                run = Run(task.subject.name, task.seed, problem=problem)
                self.runs[run.subject, run.seed] = run
            if tasks:
                names = list({task.subject.name: None for task in tasks})
                more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
                shown = ", ".join(names[:MAX_NAMED])
                self.report(f"score: {problem}: left out are {shown}{more}")

    # Processes

    def _work(self, tasks: Sequence[Task]) -> None:
        waiting = self.waiting = deque(tasks)
        kept = self.settings
        common = {"further": kept.further, "examine": kept.examine}
        with (
            tempfile.TemporaryDirectory(prefix="tinyref-score-") as scratch,
            Pool(_MODULE, common, ScoreProcess) as pool,
        ):
            while waiting or any(process.task for process in pool.workers):
                if time.monotonic() > self.until:
                    waiting.clear()
                while self._has_place(pool) and (task := self.next_task(pool)) is not None:
                    folder = Path(tempfile.mkdtemp(dir=scratch))
                    process = self.process_for(task, pool, Path(scratch))
                    process.begin(task, folder, self.request_of(task))
                for process, event in pool.events(1.0):
                    if not isinstance(event, Death):
                        process.add(event, self.settings)
                        self.on_message(process, event)
                    elif process.task is not None:
                        self.end_process(process, event)

    def _has_place(self, pool: Pool[ScoreProcess]) -> bool:
        at_work = sum(process.task is not None for process in pool.workers)
        return bool(self.waiting) and at_work < self.settings.jobs

    def next_task(self, pool: Pool[ScoreProcess]) -> Task | None:
        """What is begun next; None where all that waits has to wait for what is at work."""
        return self.waiting.popleft()

    def process_for(self, task: Task, pool: Pool[ScoreProcess], scratch: Path) -> ScoreProcess:
        """The process that is to do a task: a new one."""
        return pool.start()

    def on_message(self, process: ScoreProcess, message: Message) -> None:
        """A process has sent something, which it keeps."""

    def end_process(self, process: ScoreProcess, death: Death) -> None:
        ended = time.monotonic()
        # Nothing that a mutant compiled is left for another one.
        shutil.rmtree(process.folder, ignore_errors=True)
        assert process.task is not None, "every process has a task"
        if process.task.what == _TRACES:
            self._trace_digests(process, process.task)
            return
        run = _run_of(process, process.task, death, ended)
        self.runs[run.subject, run.seed] = run
        self._save()
        self.report(f"{describe(run)}; {len(self.to_go())} to go")

    def request_of(self, task: Task) -> dict[str, Any]:
        """What the process of a task is asked for."""
        return _request(task, self.settings)

    def _save(self) -> None:
        if self.file is not None:
            write_score(self.file, self.score())

    # Survivors

    def _traces(self) -> list[Task]:
        """For every mutant that lives under a seed: its programs, and those without it."""
        tasks: dict[tuple[str, str, int], Task] = {}
        for run in self.runs.values():
            is_known = run.triggered or run.traced >= self.settings.traced
            if run.killed or run.problem or is_known:
                continue
            subject = next((each for each in self.chosen if each.name == run.subject), None)
            if subject is None or not subject.mutant or subject.lane != "fuzz":
                continue
            healthy = replace(subject, name="healthy", mutant="")
            for each in (subject, healthy):
                tasks[each.mutant, each.device, run.seed] = Task(each, run.seed, _TRACES)
        return list(tasks.values())

    def _trace_digests(self, process: ScoreProcess, task: Task) -> None:
        # A mutant may end its process, which is a difference; the healthy compiler may not.
        if process.first("done") is None and not task.subject.mutant:
            return
        digests = [message["digest"] for message in process.messages if "digest" in message]
        self.digests[task.subject.mutant, task.subject.device, task.seed] = digests

    def _compare(self) -> None:
        for (mutant, device, seed), digests in self.digests.items():
            run = self.runs.get((mutant, seed))
            healthy = self.digests.get(("", device, seed))
            if mutant and run is not None and healthy is not None:
                self.runs[mutant, seed] = replace(
                    run, triggered=digests != healthy, traced=len(healthy)
                )
        self._save()


def _request(task: Task, settings: Settings) -> dict[str, Any]:
    # That it passes is known of longer runs: here it shows that the device works as it should.
    is_healthy = task.subject.kind == HEALTHY
    seconds = min(settings.seconds, HEALTHY_SECONDS) if is_healthy else settings.seconds
    return {
        "seconds": seconds,
        "mutant": task.subject.mutant,
        "device": task.subject.device,
        "lane": task.subject.lane,
        "program_every": task.subject.program_every,
        "seed": task.seed,
        "trace": settings.traced if task.what == _TRACES else 0,
        **task.extra,
    }


def _run_of(process: ScoreProcess, task: Task, death: Death, ended: float) -> Run:
    """What became of one mutant under one seed, from all messages of its process."""
    run = Run(task.subject.name, task.seed)
    refused, broken = process.first("refused"), process.first("broken")
    killed, judged = process.first("killed"), process.first("judged")
    if refused is not None:
        return replace(run, problem=str(refused["refused"]))
    if broken is not None:
        # Nothing starts with it: nobody could miss that.
        detail = str(broken["broken"])
        return replace(run, killed=True, reached=1, triggered=True, symptom="ERROR", detail=detail)
    if judged is not None:
        run = _run_of_survivor(run, judged, process)
    if killed is not None:
        return _run_of_kill(run, killed, "" if process.first("done") is not None else death.words)
    if process.first("done") is not None:
        return run
    if process.first("begun") is None:
        return replace(run, problem=f"did not start: {death.words}: {death.log[-400:]}")
    if death.cause is Cause.OTHERS:
        # Somebody's kill, or memory short for another's sake, says nothing about the mutant.
        return replace(run, problem=f"{death.words}, not by the score")
    return _run_of_death(run, process, death, ended)


def _run_of_survivor(run: Run, judged: Message, process: ScoreProcess) -> Run:
    """A run whose process came to the end of its cases."""
    return replace(
        run,
        cases=judged["judged"],
        reached=judged["reached"],
        seconds=judged["seconds"],
        wall=judged["wall"],
        found=tuple(_finding_of(message) for message in process.messages if "bucket" in message),
    )


def _run_of_kill(run: Run, killed: Message, death: str) -> Run:
    """A run in which a case failed; `death` is what ended the examination, empty for its end."""
    problems = (ExaminedFinding(problem=f"the examination ended: {death}"),) if death else ()
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
        found=(*run.found, *problems),
    )


def _run_of_death(run: Run, process: ScoreProcess, death: Death, ended: float) -> Run:
    """A run whose process ended in a case, or as it imported the compiler.

    That gives a mutant away like a wrong value; isolation makes it cost one case.
    """
    symptom = SYMPTOMS.get(death.cause, Symptom.CRASH)
    alive = [message["seconds"] for message in process.messages if "at" in message]
    cases = [message["at"] + 1 for message in process.messages if "at" in message]
    began = process.started if process.ready_at is None else process.ready_at
    return replace(
        run,
        killed=True,
        triggered=True,
        reached=1,
        # The case under way; one that is not said to begin, as heartbeats are rare, is not counted.
        cases=max(cases, default=0),
        # A hang is noticed after the silence, whatever the process does in it.
        seconds=max(alive, default=0.0) + (SILENCE_SECONDS if symptom is Symptom.HANG else 0.0),
        wall=ended - began,
        symptom=symptom.name,
        detail=f"{death.words}: {death.log[-200:]}",
    )


def _finding_of(message: Message) -> ExaminedFinding:
    return ExaminedFinding(**message)


def describe(run: Run) -> str:
    """A run in one line."""
    if run.problem:
        return f"{run.subject} under seed {run.seed}: NO RUN: {run.problem}"
    if not run.killed:
        return f"{run.subject} under seed {run.seed}: LIVES after {run.cases} cases"
    how = f"{run.pair} {run.symptom}".strip()
    return f"{run.subject} under seed {run.seed}: killed in {run.seconds:.1f} s by {how}"


def _binding(data: Mapping[str, Any]) -> dict[str, str]:
    """What a score is of, by name; of a damaged one as far as it says."""
    found = {"sources": str(data.get("code"))}
    for part in ("settings", "surroundings"):
        members = data.get(part)
        if isinstance(members, dict):
            found |= {str(name): str(value) for name, value in members.items()}
    return found


def code_version() -> str:
    """What the result is of; another version may give another one."""
    from tinyref_fuzz.campaign.results import code_version as version

    return version()


def read_score(file: Path) -> Mapping[str, Any]:
    """A score as it was written. Raises `UserError` for anything else."""
    data = read_json(file)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or data.get("version") != VERSION:
        raise UserError(f"score: {file} is no {SCHEMA} of version {VERSION}")
    return data


def names_and_runs(file: Path, data: Mapping[str, Any]) -> tuple[set[str], list[Run]]:
    """The subjects and the runs of a score. Raises `UserError` where they are damaged."""
    try:
        names = {str(row["name"]) for row in data["mutants"]}
        runs = [Run.from_json(run) for run in data["runs"]]
    except (KeyError, TypeError) as error:
        raise UserError(f"score: {file} is damaged: {type(error).__name__}: {error}") from error
    return names | {run.subject for run in runs}, runs


def _with_those_of(
    file: Path, catalogue: Sequence[Subject], chosen: Sequence[Subject], names: Collection[str]
) -> list[Subject]:
    """`chosen` and those with these names, in the order of the catalogue.

    Raises `UserError` for a name that is not in it, such as of a device that is not installed.
    """
    known = {each.name: each for each in (*catalogue, *chosen)}
    if lost := sorted(set(names) - known.keys()):
        raise UserError(f"score: {file} has {', '.join(lost)}, which is not in --list")
    kept = {*names, *(each.name for each in chosen)}
    return [each for name, each in known.items() if name in kept]


def _prepare(file: Path) -> None:
    """Hours of scoring must not end in an error that was there before; makes the folder."""
    # A link stays, and what it points to is replaced.
    target = Path(os.path.realpath(file))
    prepare_folder(target.parent, "score")
    if target.exists() and not target.is_file():
        raise UserError(f"score: cannot write to {file}: it is no file")


def _set_aside(file: Path) -> Path | None:
    """Where the score that `file` has is kept from now on; None where it came to nothing."""
    target = Path(os.path.realpath(file))
    if not target.exists() or not target.stat().st_size:
        return None
    try:
        _, runs = names_and_runs(file, read_score(file))
    except UserError as error:
        raise UserError(f"{error}: move it away, or name another file") from error
    if all(run.problem for run in runs):
        return None
    (previous,) = set_aside([target])
    return previous


def write_score(file: Path, score: Score) -> None:
    """Writes the whole file or, where that fails, leaves the one that was there; `UserError`."""
    write_text(file, json.dumps(score.to_json(), indent=1) + "\n")
