"""Which stage is to blame for a program: switches are put back one by one until it fails."""

from __future__ import annotations

from dataclasses import replace

from tinyref_fuzz.programs.judge import EVALUATED, ProgramJudge, wanted_reads
from tinyref_fuzz.programs.run import PLAIN, Way
from tinyref_fuzz.programs.script import Computing
from tinyref_fuzz.programs.steps import WRITES, Program
from tinyref_spec.bits import Array
from tinyref_spec.kernel_case import Blame, Verdict

GRAPH = "graph"
SCHEDULE = "schedule"
MEMORY = "memory plan"
REPLAY = "replay"
KERNEL = "kernel"
STAGES = (GRAPH, SCHEDULE, MEMORY, REPLAY, KERNEL)
# Inside the schedule.
FUSION = "fusion"
HAZARDS = "hazards"
ORDER = "order"
_GRADIENTS = frozenset({"gradient", "gradient_weighted", "backward"})
# What computes nothing.
_SILENT = frozenset(
    {
        *("read", "realize", "drop", "data", "bind", "seed", "function", "call"),
        *("grad", "has_grad", "zero_grad"),
    }
)
_LAZY = replace(PLAIN, computing=Computing.LAZY)


def blame(judge: ProgramJudge, program: Program, verdict: Verdict) -> Blame:
    """The stage that makes the program differ.

    graph: it differs however plainly it is computed, by kernels that are evaluated. schedule: it
    does once results wait for each other; memory plan, replay: once that is switched on.
    kernel: only where kernels are compiled and run.
    """
    wanted = wanted_reads(program)
    if wanted is None:
        return Blame("", "", "the program has no exact result")

    def fails(way: Way) -> str:
        return judge.fails(program, wanted, way)

    if seen := fails(PLAIN):
        return Blame(GRAPH, _operation(program), seen)
    if seen := fails(_LAZY):
        return Blame(SCHEDULE, _part_of_schedule(judge, program, wanted), seen)
    if seen := fails(replace(_LAZY, plans_memory=True)):
        return Blame(MEMORY, "", seen)
    if seen := fails(replace(_LAZY, replays=True)):
        return Blame(REPLAY, "", seen)
    if seen := fails(EVALUATED):
        return Blame(MEMORY, "of a replay", seen)
    return Blame(KERNEL, "", verdict.detail)


def _part_of_schedule(judge: ProgramJudge, program: Program, wanted: list[Array]) -> str:
    """Fusion, where it is right once each result has memory of its own; else hazards of writes.

    Nothing where operations take several steps, of which only the last has memory of its own.
    """
    if not judge.fails(program, wanted, replace(_LAZY, computing=Computing.STORED)):
        return FUSION
    ops = {step.op for step in program.all_steps()}
    if ops & WRITES:
        return HAZARDS
    return "" if ops & {*_GRADIENTS, "cumsum"} else ORDER


def _operation(program: Program) -> str:
    """The last operation that computes or writes, of a program that is reduced.

    `gradient of flip` where the gradient through the last one differs.
    """
    ops = [step.op for step in program.all_steps() if step.op not in _SILENT]
    if not ops or ops[-1] not in _GRADIENTS:
        return ops[-1] if ops else ""
    # A sum makes of several elements the one that has a gradient.
    through = [op for op in ops if op not in _GRADIENTS and op != "sum"]
    return f"gradient of {through[-1]}" if through else "gradient"
