"""The score of a sample of mechanical mutants: each takes every lane until its first kill there.

It is a scoring as any other one: a process a run, a file that is rewritten after each and gone on
with by --resume. A lane counts where the healthy compiler passes it on that device.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.folders import prepare_folder
from tinyref.workers.processes import (
    UNLIMITED,
    Cause,
    Death,
    Limits,
    Message,
    Pool,
    describe_exit,
)
from tinyref_fuzz.mutants.edit_class import class_of
from tinyref_fuzz.mutants.mechanical import MechanicalMutant, all_mutants, sample, source_of
from tinyref_fuzz.mutants.mechanical_summary import KILLED, LIVES, Outcome, Summary
from tinyref_fuzz.mutants.reach import Table
from tinyref_fuzz.mutants.records import Run, Subject
from tinyref_fuzz.mutants.score import (
    FUZZES,
    HEALTHY,
    MEMORY_BYTES,
    ScoreProcess,
    Scoring,
    Settings,
    Task,
)
from tinyref_fuzz.mutants.template import WALL_SECONDS

SAMPLE = 600
# A task that runs one unit without a mutant, and one that no fork can do.
_CONFIRMS, _ALONE = "confirm", "alone"
# What lives for so long in a lane on a device of which nothing is recorded waits for its record,
# which costs about as much as one mutant that lives, and makes all further ones cheap.
PROBED_SECONDS = 5.0
# A device that fails more units than that without a mutant does not conform: no mutant counts.
MAX_FAILING = 8
# The one of the repository; another one shows that nothing was made for these 600.
SEED = 18
# Of the fuzzer's cases every so manieth is a tensor program.
PROGRAM_EVERY = 2
LANES = ("conformance", "fuzz", "room-tests", "tests")
# The lane of those that live: it tells whether some program of a kernel differs.
PROGRAMS = "programs"
# The device that runs what a module or a function makes: that of the longest beginning of the name
# of the edit. The interpreter has every op, type, group and tile, and checks accesses and races.
_JUDGES = "tinyref_fuzz.judge.devices"
_CUDA = "tinyref.runtimes.emulated.cuda_emu:CudaEmuBackend"
_METAL = "tinyref.runtimes.emulated.metal_emu:MetalEmuBackend"
_HIP = "tinyref.runtimes.emulated.hip_emu:HipEmuBackend"
DEVICES: Mapping[str, str] = {
    "tinyref": "PYTHON",
    "tinyref.codegen.decompose": f"{_JUDGES}:Core",
    # It has float16 and holds it in words.
    "tinyref.codegen.decompose/_has_bits_of_halves": f"{_JUDGES}:Shader",
    "tinyref.codegen.decompose.constant_division": f"{_JUDGES}:SlowDivision",
    # Parts of floats that are exact are of no use where sums are taken in another order.
    "tinyref.codegen.decompose.exponential/_power_by_bits": f"{_JUDGES}:Relaxed",
    "tinyref.codegen.decompose.sine/_reduced_below_two": f"{_JUDGES}:Relaxed",
    "tinyref.codegen.decompose.small_integers": f"{_JUDGES}:Words",
    "tinyref.codegen.decompose.word_storage": f"{_JUDGES}:Words",
    # Loops that fill scratch memory are waited for, which a device with groups has not.
    "tinyref.codegen.expand.copies/Expansion._all_copies": f"{_JUDGES}:Host",
    # Copies and values that are kept in scratch memory, which a device with groups has not.
    "tinyref.codegen.lower/Lowering._packed": f"{_JUDGES}:Host",
    "tinyref.codegen.lower/Lowering._kept": f"{_JUDGES}:Host",
    "tinyref.codegen.lower/Lowering._fill": f"{_JUDGES}:Host",
    "tinyref.codegen.lower/Lowering._place_of": f"{_JUDGES}:Host",
    # Iterations that run at once are those of a device without a grid.
    "tinyref.interpret.loops/all_at_once": f"{_JUDGES}:Host",
    "tinyref.interpret.machine/Machine.privatise": f"{_JUDGES}:Host",
    "tinyref.interpret.machine/Memory.private": f"{_JUDGES}:Host",
    "tinyref.interpret.translate/Translation._loop": f"{_JUDGES}:Host",
    # Parts of a word are stored, and buffers end within one, where memory is words.
    "tinyref.interpret.machine/Memory._write": f"{_JUDGES}:Words",
    "tinyref.interpret.run/Interpreter._words_of": f"{_JUDGES}:Words",
    "tinyref.optimise.heuristics_loops": "CPU",
    "tinyref.optimise.images": "GPU_EMU",
    # Scratch memory of a single work-item, which devices with groups do not have.
    "tinyref.optimise.reused": "CPU",
    # Grids of the interpreter hold any kernel as it is.
    "tinyref.optimise.launch": f"{_JUDGES}:Narrow",
    # Refused where there is no int64.
    "tinyref.optimise.moves/_long_index_problem": f"{_JUDGES}:Core",
    "tinyref.optimise.moves/_pack": "CPU",
    "tinyref.optimise.moves/_pack_reused": "CPU",
    "tinyref.optimise.moves/_thread": f"{_JUDGES}:Host",
    "tinyref.optimise.plan/Plan.shared_bytes": f"{_JUDGES}:Host",
    "tinyref.optimise.plan/Plan.lanes_of_reused": "CPU",
    "tinyref.optimise.plan/Plan._bytes_reused": "CPU",
    "tinyref.renderers": "CLANG",
    # What C says otherwise, or has not: what languages with groups of work-items make of it.
    "tinyref.renderers.c_language/CStyleLanguage.make_vector": "OPENCL",
    "tinyref.renderers.c_language/CStyleLanguage.vector_type": _METAL,
    "tinyref.renderers.c_language/CStyleLanguage.call": _METAL,
    "tinyref.renderers.c_language/CStyleLanguage.lane": _HIP,
    "tinyref.renderers.c_language/CStyleLanguage.declare_local": _HIP,
    "tinyref.renderers.c_language/CStyleLanguage.vector_load": _HIP,
    "tinyref.renderers.c_language/CStyleLanguage.vector_store": _HIP,
    "tinyref.renderers.c_language/CStyleLanguage.vector_operation": _HIP,
    "tinyref.renderers.c_language/CStyleLanguage.function_head": _CUDA,
    "tinyref.renderers.c_language/CStyleLanguage.bind_buffer": _CUDA,
    "tinyref.renderers.c_language/CStyleLanguage.bind_variable": _CUDA,
    "tinyref.renderers.c_style/CStyleRenderer._barrier": _CUDA,
    "tinyref.renderers.llvm": "CPU",
    # Work-items that alone do something are those of a group.
    "tinyref.renderers.llvm/LlvmFunction.open_if": "GPU_EMU",
    "tinyref.renderers.llvm/LlvmFunction.close_if": "GPU_EMU",
    # The processor's own elementary functions are made of other operations.
    "tinyref.renderers.llvm/LlvmFunction.library": f"{_JUDGES}:Library",
    "tinyref.renderers.llvm/LlvmFunction.call_library": f"{_JUDGES}:Library",
    "tinyref.renderers.llvm_gpu": "GPU_EMU",
    "tinyref.renderers.opencl": "OPENCL",
    "tinyref.renderers.wgsl": "WEBGPU",
    "tinyref.renderers.cuda": _CUDA,
    # Its instructions are of real GPUs: the emulated one has tiles of its own in their place.
    "tinyref.renderers.cuda_tiles": "CUDA",
    "tinyref.renderers.metal": _METAL,
    "tinyref.renderers.hip": _HIP,
    "tinyref.renderers.ptx": "PTX",
}


def device_of(place: str) -> str:
    """The device on which a fault can show: of MODULE, or of MODULE/FUNCTION and what follows."""
    names = [
        name for name in DEVICES if place == name or place.startswith((f"{name}.", f"{name}/"))
    ]
    return DEVICES[max(names, key=len)]


def subject_of(mutant: MechanicalMutant, lane: str) -> Subject:
    """A mutant in a lane."""
    device = "PYTHON" if lane.endswith("tests") else device_of(f"tinyref.{mutant.name}")
    name = mutant.name if lane == "fuzz" else f"{mutant.name}@{lane}"
    return Subject(
        *(name, mutant.operator, mutant.name, device, ()), lane=lane, program_every=PROGRAM_EVERY
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
    """Each mutant in every lane, then the healthy compiler in each lane and on each device."""
    found = [subject_of(mutant, lane) for mutant in mutants for lane in lanes]
    places = dict.fromkeys(place_of(subject) for subject in found)
    return [*found, *(healthy(*place) for place in places)]


# A lane and a device.
Place = tuple[str, str]


def place_of(subject: Subject) -> Place:
    """Where a subject runs."""
    return subject.lane, subject.device


def _has_own_process(task: Task) -> bool:
    """Whether no fork of a prepared process does it."""
    return task.what not in (FUZZES, _CONFIRMS)


def _unit_of(process: ScoreProcess) -> str:
    """The unit that killed a mutant, or in which the process ended."""
    killed = process.first("killed")
    named = [message for message in process.messages if "unit" in message]
    return str((killed or (named or [{}])[-1]).get("unit", ""))


class MechanicalScoring(Scoring):
    """One scoring of a sample on its way; findings are not examined.

    A process prepares a lane once, and does each mutant in a fork; see `Template`. A kill counts
    where the healthy compiler passes the same unit.
    """

    def __init__(
        self, chosen: Sample, settings: Settings, file: Path | None, report: Callable[[str], None]
    ) -> None:
        self.sample = chosen
        # Units that the healthy compiler passes, and those that it fails.
        self.passed: defaultdict[Place, set[str]] = defaultdict(set)
        self.failed: defaultdict[Place, set[str]] = defaultdict(set)
        self.mutants = chosen.mutants()
        # Of a unit that is being confirmed, the mutants that it killed.
        self.unconfirmed: defaultdict[tuple[Place, str], list[Task]] = defaultdict(list)
        # By lane.
        self.prepared: dict[str, ScoreProcess] = {}
        self._scratch = tempfile.TemporaryDirectory(prefix="tinyref-reach-")
        lanes = (*chosen.lanes, PROGRAMS)
        super().__init__(subjects_of(self.mutants, lanes), settings, file, report)

    def known(self) -> list[Subject]:
        """All lanes, whichever are chosen now."""
        return subjects_of(self.mutants, (*LANES, PROGRAMS))

    def resume(self, restart: bool = False) -> None:
        """As for any score; a lane whose record is gone is recorded again."""
        super().resume(restart)
        for subject in self.chosen:
            place = place_of(subject)
            if not subject.mutant and not self._has_table(place):
                self.runs = {key: run for key, run in self.runs.items() if key[0] != subject.name}

    # What reaches what

    def table_of(self, place: Place) -> Path:
        """Where the record of a lane and device is."""
        folder = Path(self._scratch.name)
        if self.file is not None:
            folder = self.file.with_suffix(".reach")
        prepare_folder(folder, "score")
        return folder / f"{place[0]}-{place[1].rpartition(':')[2]}.npz"

    def _has_table(self, place: Place) -> bool:
        file = self.table_of(place)
        return file.is_file() and Table.load(file).code == self.code

    def _passing(self, place: Place) -> set[str]:
        """The units that the healthy compiler passes, as far as that is known."""
        if not self.passed[place] and self._has_table(place):
            self.passed[place].update(Table.load(self.table_of(place)).names)
        return self.passed[place]

    def _check_of(self, place: Place) -> Run | None:
        """What became of the healthy compiler in a lane and on a device."""
        return self.runs.get((healthy(*place).name, self.settings.first))

    def _does_not_conform(self, place: Place) -> bool:
        check = self._check_of(place)
        return check is not None and check.killed

    def to_go(self) -> list[Task]:
        """The mutants that had no turn; records are made where one lives, see `PROBED_SECONDS`."""
        return [
            task
            for task in super().to_go()
            if task.subject.mutant
            and task.subject.lane != PROGRAMS
            and not self._does_not_conform(place_of(task.subject))
        ]

    def _traces(self) -> list[Task]:
        """Those that live in every lane, after the records of their devices.

        What no program shows is not compared: it says nothing of such a mutant.
        """
        living = {each.mutant for each in self.chosen if each.mutant}
        for each in self.chosen:
            run = self.runs.get((each.name, self.settings.first))
            if each.lane != PROGRAMS and (run is None or run.killed or run.problem):
                living.discard(each.mutant)
        tasks = [
            Task(each, self.settings.first)
            for each in self.chosen
            if each.lane == PROGRAMS
            and each.mutant in living
            and is_seen_in_programs(each.mutant)
            and (each.name, self.settings.first) not in self.runs
        ]
        places = dict.fromkeys(place_of(task.subject) for task in tasks)
        records = [
            Task(healthy(*place), self.settings.first)
            for place in places
            if not self._has_table(place) or self._traced(place) < self.settings.traced
        ]
        return [*records, *tasks]

    # Processes

    def next_task(self, pool: Pool[ScoreProcess]) -> Task | None:
        """The first one whose prepared process is free, or that needs none."""
        free = [
            task
            for task in self.waiting
            if _has_own_process(task) or self._is_free(task.subject.lane, pool)
        ]
        if free:
            self.waiting.remove(free[0])
        return free[0] if free else None

    def _is_free(self, lane: str, pool: Pool[ScoreProcess]) -> bool:
        process = self.prepared.get(lane)
        return process is None or process.task is None or process not in pool.workers

    def process_for(self, task: Task, pool: Pool[ScoreProcess], scratch: Path) -> ScoreProcess:
        """That which is prepared for the lane; a new one where no fork can do it."""
        if _has_own_process(task):
            return pool.start()
        lane = task.subject.lane
        if self.prepared.get(lane) not in pool.workers:
            folder = tempfile.mkdtemp(dir=scratch)
            self.prepared[lane] = process = pool.start()
            request = {**super().request_of(task), "mutant": "", "folder": folder, "serves": True}
            process.send(request)
        return self.prepared[lane]

    def request_of(self, task: Task) -> dict[str, Any]:
        """Without the units that the healthy compiler fails; with what is recorded."""
        place = place_of(task.subject)
        found = {**super().request_of(task), "code": self.code, "skip": sorted(self.failed[place])}
        found["by_units"] = task.what in (FUZZES, _ALONE)
        found["trace"] = self.settings.traced if place[0] == PROGRAMS else 0
        is_recording = not task.subject.mutant and task.what == FUZZES
        has_table = bool(task.subject.mutant) and self._has_table(place)
        if is_recording or has_table:
            found["table"] = str(self.table_of(place))
        elif task.subject.mutant and self._check_of(place) is None and place[0] != PROGRAMS:
            found["probe"] = PROBED_SECONDS
        return {**found, "seconds": self.settings.seconds}

    def on_message(self, process: ScoreProcess, message: Message) -> None:
        """A fork has ended: its process waits for the next mutant."""
        if "ended" not in message or process.task is None:
            process.limit(Limits(WALL_SECONDS, MEMORY_BYTES))
            return
        task = process.task
        if process.first("cold") is not None:
            self.waiting.appendleft(replace(task, what=_ALONE))
        else:
            cause = Cause.TIMEOUT if message["hung"] else Cause.EXIT
            self.end_process(process, Death(cause, describe_exit(int(message["code"]))))
        process.task = None
        process.limit(UNLIMITED)

    def end_process(self, process: ScoreProcess, death: Death) -> None:
        """Takes a kill back where the healthy compiler fails that unit too.

        Such a unit is a bug that is not fixed yet, and is left out from then on.
        """
        task = process.task
        assert task is not None, "every process has a task"
        if task.what == _CONFIRMS:
            self._confirm(process, task)
            return
        place, unit = place_of(task.subject), _unit_of(process)
        if place[0] == PROGRAMS:
            super().end_process(process, death)
            self._count_programs(task)
            return
        if process.first("unfinished") is not None:
            self._record_before(task)
            return
        super().end_process(process, death)
        run = self.runs.get((task.subject.name, task.seed))
        if not task.subject.mutant and run is not None:
            self._judge_record(process, run, place)
        elif run is not None and run.killed and unit and unit not in self._passing(place):
            check = healthy(*place)
            self.waiting.appendleft(Task(check, task.seed, _CONFIRMS, {"units": [unit]}))
            # If it is taken back, it goes on with the unit after: those before have passed.
            extra = {**task.extra, "start": run.cases}
            self.unconfirmed[place, unit].append(replace(task, extra=extra))

    def _count_programs(self, task: Task) -> None:
        """Notes of how many kernels the programs were compared, those that miss the edit too."""
        run = self.runs[task.subject.name, task.seed]
        self.runs[run.subject, run.seed] = replace(run, traced=self._traced(place_of(task.subject)))
        self._save()

    def _traced(self, place: Place) -> int:
        return len(Table.load(self.table_of(place)).names)

    def _record_before(self, task: Task) -> None:
        """Records the lane on the device, then does the task with what is recorded."""
        record = Task(healthy(*place_of(task.subject)), task.seed)
        self.waiting.appendleft(replace(task, what=FUZZES))
        if record in self.waiting:
            self.waiting.remove(record)
        if self._check_of(place_of(task.subject)) is None:
            self.waiting.appendleft(record)

    def _judge_record(self, process: ScoreProcess, run: Run, place: Place) -> None:
        """Leaves out what fails without a mutant; a device where much does is no subject."""
        failing = (process.first("left_out") or {"left_out": []})["left_out"]
        for words in failing:
            self.report(f"score: {run.subject}: fails without a mutant, left out: {words}")
        # Tests choose their devices themselves; those of drivers that do not fork fail here.
        if len(failing) <= MAX_FAILING or place[0].endswith("tests"):
            return
        detail = f"the device does not conform: {len(failing)} units fail without a mutant"
        self.runs[run.subject, run.seed] = replace(run, killed=True, detail=detail)
        self.report(f"score: {run.subject}: {detail}: no mutant counts there")
        for each in [each for each in self.waiting if place_of(each.subject) == place]:
            self.waiting.remove(each)
        self._save()

    def _confirm(self, process: ScoreProcess, task: Task) -> None:
        place, (unit,) = place_of(task.subject), task.extra["units"]
        if process.first("done") is not None and process.first("killed") is None:
            self.passed[place].add(unit)
            return
        self.failed[place].add(unit)
        self.report(f"score: {task.subject.name}: {unit} fails without a mutant: left out")
        for again in self.unconfirmed.pop((place, unit)):
            self.runs.pop((again.subject.name, again.seed))
            self.waiting.appendleft(again)
        self._save()

    def summary(self) -> Summary:
        """What became of the mutants so far."""
        by_name = {each.name: each for each in self.subjects}
        compared = {
            by_name[run.subject].mutant: run
            for run in self.runs.values()
            if by_name[run.subject].lane == PROGRAMS and not run.problem
        }
        runs = [(by_name[run.subject], run) for run in self.runs.values()]
        unsound = {
            place_of(subject)
            for subject, run in runs
            if not subject.mutant and (run.killed or run.problem)
        }
        known = {each.name: each for each in self.mutants}
        outcomes = [
            outcome_of(
                subject, with_programs(run, compared.get(subject.mutant)), known[subject.mutant]
            )
            for subject, run in runs
            if subject.mutant in known
            and subject.lane != PROGRAMS
            and not run.problem
            and place_of(subject) not in unsound
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


def with_programs(run: Run, compared: Run | None) -> Run:
    """A run, with whether some program of the mutant differs, and of how many."""
    if compared is None or run.killed:
        return run
    return replace(run, triggered=compared.killed, traced=compared.traced)


def outcome_of(subject: Subject, run: Run, mutant: MechanicalMutant) -> Outcome:
    """What is kept of a run."""
    is_compared = subject.lane == "fuzz" and not run.killed and is_seen_in_programs(subject.mutant)
    return Outcome(
        mutant=subject.mutant,
        edit=mutant.describe(),
        lane=subject.lane,
        outcome=KILLED if run.killed else LIVES,
        seconds=round(run.seconds, 1),
        wall=round(run.wall, 1),
        differs=run.triggered if is_compared else None,
        traced=run.traced if is_compared else 0,
        how=f"{run.pair} {run.symptom}".strip(),
        cases=run.cases,
        edit_class=class_of(mutant, source_of(mutant.module)),
    )


# What changes values though no program of a kernel differs: what runs and what orders them.
_BEYOND_PROGRAMS = ("schedule", "interpret", "algebra.semantics", "algebra.op_rows", "algebra.eval")


def is_seen_in_programs(mutant: str) -> bool:
    """Whether a mutant that changes any value changes the program of some kernel."""
    return not mutant.startswith(_BEYOND_PROGRAMS)
