"""The score of a sample of mechanical mutants: each takes every lane until its first kill there.

It is a scoring as any other one: a process a run, a file that is rewritten after each and gone on
with by --resume. A lane counts where the healthy compiler passes it on that device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.workers.processes import Death
from tinyref_fuzz.mutants.mechanical import MechanicalMutant, all_mutants, sample
from tinyref_fuzz.mutants.mechanical_summary import KILLED, LIVES, Outcome, Rate, Summary
from tinyref_fuzz.mutants.records import Run, Subject
from tinyref_fuzz.mutants.score import FUZZES, HEALTHY, ScoreProcess, Scoring, Settings, Task
from tinyref_fuzz.mutants.trial import is_program

SAMPLE = 600
# A task that judges one case without a mutant.
_CONFIRMS = "confirm"
# The one of the repository; another one shows that nothing was made for these 600.
SEED = 18
# Of the fuzzer's cases every so manieth is a tensor program.
PROGRAM_EVERY = 2
LANES = ("conformance", "fuzz", "room-tests", "tests")
# The device that runs what a module makes: that of the longest beginning of its name. The
# interpreter has every op, type, group and tile, and checks accesses and races.
_JUDGES = "tinyref_fuzz.judge.devices"
_EMULATED = "tinyref.runtimes.emulated"
DEVICES: Mapping[str, str] = {
    "tinyref": "PYTHON",
    "tinyref.codegen.decompose": f"{_JUDGES}:Core",
    "tinyref.codegen.decompose.constant_division": f"{_JUDGES}:SlowDivision",
    "tinyref.codegen.decompose.quotient": f"{_JUDGES}:SlowDivision",
    "tinyref.codegen.decompose.products": f"{_JUDGES}:SlowDivision",
    "tinyref.codegen.decompose.small_integers": "WEBGPU",
    "tinyref.codegen.decompose.word_storage": "WEBGPU",
    "tinyref.optimise.images": "GPU_EMU",
    "tinyref.renderers": "CLANG",
    "tinyref.renderers.llvm": "CPU",
    "tinyref.renderers.llvm_gpu": "GPU_EMU",
    "tinyref.renderers.opencl": "OPENCL",
    "tinyref.renderers.wgsl": "WEBGPU",
    "tinyref.renderers.cuda": f"{_EMULATED}.cuda_emu:CudaEmuBackend",
    "tinyref.renderers.cuda_tiles": f"{_EMULATED}.cuda_emu:CudaEmuBackend",
    "tinyref.renderers.metal": f"{_EMULATED}.metal_emu:MetalEmuBackend",
    "tinyref.renderers.hip": f"{_EMULATED}.hip_emu:HipEmuBackend",
    "tinyref.renderers.ptx": "PTX",
}


def device_of(module: str) -> str:
    """The device on which a fault of the module can show."""
    names = [name for name in DEVICES if module == name or module.startswith(f"{name}.")]
    return DEVICES[max(names, key=len)]


def subject_of(mutant: MechanicalMutant, lane: str) -> Subject:
    """A mutant in a lane."""
    device = "PYTHON" if lane.endswith("tests") else device_of(mutant.module)
    name = mutant.name if lane == "fuzz" else f"{mutant.name}@{lane}"
    # No kernel goes through the scheduler.
    every = 1 if mutant.room == "schedule" else PROGRAM_EVERY
    return Subject(
        *(name, mutant.operator, mutant.name, device, ()), lane=lane, program_every=every
    )


def healthy(lane: str, device: str) -> Subject:
    """The compiler without a mutant, in a lane."""
    name = f"{HEALTHY}@{lane}@{device}"
    return Subject(name, HEALTHY, "", device, (), lane=lane, program_every=PROGRAM_EVERY)


def parse_lanes(text: str) -> tuple[str, ...]:
    """The lanes that a text names, by commas. Raises `UserError` for one that there is not."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in found or (text,):
        if name not in LANES:
            raise UserError(f"lanes: {name!r}: accepted are {', '.join(LANES)}")
    return found


@dataclass(frozen=True)
class Sample:
    """Which mutants, and in which lanes.

    only: names, or the starts of names with *, by commas: all of these instead of a sample.
    """

    size: int = SAMPLE
    seed: int = SEED
    lanes: tuple[str, ...] = ("conformance", "fuzz", "tests")
    only: str = ""

    def mutants(self) -> list[MechanicalMutant]:
        """Each beginning of a sample is one too. Raises `UserError` where `only` names none."""
        if not self.only:
            return sample(self.size, self.seed)
        words = [part.strip() for part in self.only.split(",") if part.strip()]
        found = [each for each in all_mutants() if any(_is_named(each, word) for word in words)]
        if not found:
            raise UserError(f"mutants: {self.only!r} names none: accepted are names and NAME*")
        return found


def _is_named(mutant: MechanicalMutant, word: str) -> bool:
    return mutant.name == word or (word.endswith("*") and mutant.name.startswith(word[:-1]))


def subjects_of(mutants: Sequence[MechanicalMutant], lanes: Sequence[str]) -> list[Subject]:
    """Each mutant in every lane; before the first of a lane and device, the healthy compiler."""
    found: dict[str, Subject] = {}
    for mutant in mutants:
        for lane in lanes:
            subject = subject_of(mutant, lane)
            check = healthy(lane, subject.device)
            found.setdefault(check.name, check)
            found[subject.name] = subject
    return list(found.values())


class MechanicalScoring(Scoring):
    """One scoring of a sample on its way; findings are not examined."""

    def __init__(
        self, chosen: Sample, settings: Settings, file: Path | None, report: Callable[[str], None]
    ) -> None:
        self.sample = chosen
        # By device: cases that the healthy compiler passes, and those that it fails.
        self.passed: defaultdict[str, set[int]] = defaultdict(set)
        self.failed: defaultdict[str, set[int]] = defaultdict(set)
        # Of a mutant that was taken back, the seconds that it may still live.
        self.left: dict[str, float] = {}
        self.mutants = chosen.mutants()
        super().__init__(subjects_of(self.mutants, chosen.lanes), settings, file, report)

    def known(self) -> list[Subject]:
        """All lanes, whichever are chosen now."""
        return subjects_of(self.mutants, LANES)

    def end_process(self, process: ScoreProcess, death: Death) -> None:
        """Takes a kill by a tensor program back where the healthy compiler fails it too.

        Such a case is a bug that is not fixed yet, and is left out from then on.
        """
        task = process.task
        assert task is not None, "every process has a task"
        if task.what == _CONFIRMS:
            self._confirm(process, task)
            return
        super().end_process(process, death)
        killed = process.first("killed")
        if task.what != FUZZES or killed is None or task.subject.lane != "fuzz":
            return
        number, device = int(killed["killed"]), task.subject.device
        if not is_program(number, task.subject.program_every) or number in self.passed[device]:
            return
        check = replace(task.subject, name=task.subject.name, mutant="", kind=HEALTHY)
        extra = {"start": number, "count": 1, "skip": []}
        self.waiting.appendleft(Task(check, task.seed, _CONFIRMS, extra))

    def _confirm(self, process: ScoreProcess, task: Task) -> None:
        number, device = int(task.extra["start"]), task.subject.device
        if process.first("killed") is None:
            self.passed[device].add(number)
            return
        self.failed[device].add(number)
        self.report(f"score: {device}: program {number} fails without a mutant: left out")
        run = self.runs.pop((task.subject.name, task.seed))
        self._save()
        subject = next(each for each in self.chosen if each.name == task.subject.name)
        # The cases before it agree: what is left of the time goes into those after it.
        left = self.left.get(subject.name, self.settings.seconds) - run.seconds
        self.left[subject.name] = max(left, 1.0)
        extra = {"start": number + 1, "seconds": self.left[subject.name]}
        self.waiting.appendleft(Task(subject, task.seed, FUZZES, extra))

    def request_of(self, task: Task) -> dict[str, Any]:
        """Without the cases that are known to fail."""
        return {"skip": sorted(self.failed[task.subject.device]), **super().request_of(task)}

    def summary(self) -> Summary:
        """What became of the mutants so far."""
        by_name = {each.name: each for each in self.subjects}
        runs = [(by_name[run.subject], run) for run in self.runs.values()]
        sound = {
            (subject.lane, subject.device)
            for subject, run in runs
            if not subject.mutant and not run.killed and not run.problem
        }
        edits = {each.name: each.describe() for each in self.mutants}
        outcomes = [
            outcome_of(subject, run, edits.get(subject.mutant, ""))
            for subject, run in runs
            if subject.mutant and not run.problem and (subject.lane, subject.device) in sound
        ]
        kept = self.settings
        return Summary(self.code, self.sample.seed, self.sample.size, outcomes, kept.seconds)

    def problems(self) -> list[str]:
        """What the healthy compiler fails: mutants count in no such lane."""
        return [
            f"{run.subject}: {run.problem or run.detail}"
            for run in self.runs.values()
            if run.subject.startswith(f"{HEALTHY}@") and (run.killed or run.problem)
        ]


def outcome_of(subject: Subject, run: Run, edit: str) -> Outcome:
    """What is kept of a run."""
    is_compared = subject.lane == "fuzz" and not run.killed and is_seen_in_programs(subject.mutant)
    return Outcome(
        mutant=subject.mutant,
        edit=edit,
        lane=subject.lane,
        outcome=KILLED if run.killed else LIVES,
        seconds=round(run.seconds, 1),
        wall=round(run.wall, 1),
        differs=run.triggered if is_compared else None,
        traced=run.traced if is_compared else 0,
        how=f"{run.pair} {run.symptom}".strip(),
        cases=run.cases,
    )


# What changes values though no program of a kernel differs: what runs and what orders them.
_BEYOND_PROGRAMS = ("schedule", "interpret", "algebra.semantics", "algebra.op_rows", "algebra.eval")


def is_seen_in_programs(mutant: str) -> bool:
    """Whether a mutant that changes any value changes the program of some kernel."""
    return not mutant.startswith(_BEYOND_PROGRAMS)


def is_good(rates: Sequence[Rate]) -> bool:
    """Whether every goal is met."""
    return bool(rates) and all((rate.value or 0) >= rate.goal for rate in rates)
