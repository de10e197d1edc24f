"""Which stage is to blame for a program: switches are put back one by one until it fails."""

from __future__ import annotations

from dataclasses import replace

from tinyref_fuzz.programs.judge import EVALUATED, ProgramJudge, wanted_reads
from tinyref_fuzz.programs.run import PLAIN
from tinyref_fuzz.programs.steps import WRITES, TensorProgram
from tinyref_spec.kernel_case import Blame, KernelVerdict

_LAZY = replace(PLAIN, at_once=False)
# Each way with what it has more than the one before it, and the stage to which that belongs.
_WAYS = (
    (PLAIN, "graph"),
    (_LAZY, "schedule"),
    (replace(_LAZY, plans_memory=True), "memory plan"),
    (replace(_LAZY, replays=True), "replay"),
    (EVALUATED, "memory plan"),
)
_GRADIENTS = frozenset({"gradient", "gradient_weighted", "backward"})
# What computes nothing.
_SILENT = frozenset(
    {"read", "realize", "drop", "data", "bind", "seed", "function", "call", "grad", "zero_grad"}
)


def blame(judge: ProgramJudge, program: TensorProgram, verdict: KernelVerdict) -> Blame:
    """The stage that makes the program differ.

    graph: it differs however plainly it is computed, by kernels that are evaluated. schedule: it
    does once results wait for each other; memory plan, replay: once that is switched on.
    kernel: only where kernels are compiled and run.
    """
    wanted = wanted_reads(program)
    if wanted is None:
        return Blame("", "", "the program has no exact result")
    for way, stage in _WAYS:
        if seen := judge.fails(program, wanted, way):
            return Blame(stage, _cause(stage, program), seen)
    return Blame("kernel", "", verdict.detail)


def _cause(stage: str, program: TensorProgram) -> str:
    """The part of a stage, from the operations of a program that is reduced.

    Of the graph the last one that computes or writes: `gradient of flip` where the gradient through
    the last one differs. Of the schedule fusion, or hazards where a write is left.
    """
    ops = [step.op for step in program.all_steps() if step.op not in _SILENT]
    if stage == "schedule":
        return "fusion" if WRITES.isdisjoint(ops) else "hazards"
    if stage != "graph" or not ops:
        return ""
    if ops[-1] not in _GRADIENTS:
        return ops[-1]
    # A sum makes of several elements the one that has a gradient.
    through = [op for op in ops if op not in _GRADIENTS and op != "sum"]
    return f"gradient of {through[-1]}" if through else "gradient"
