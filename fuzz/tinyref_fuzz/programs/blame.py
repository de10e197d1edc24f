"""Blame a stage for a program: turn on one feature after another until the program fails."""

from __future__ import annotations

from dataclasses import replace

from tinyref_fuzz.programs.judge import EVALUATED, ProgramJudge, expected_reads
from tinyref_fuzz.programs.run import PLAIN
from tinyref_fuzz.programs.steps import WRITES, TensorProgram
from tinyref_spec.kernel_case import Blame, KernelVerdict

_LAZY = replace(PLAIN, at_once=False)
# Each way to run adds something to the previous one; the stage is what was added.
_WAYS = (
    (PLAIN, "graph"),
    (_LAZY, "schedule"),
    (replace(_LAZY, plans_memory=True), "memory plan"),
    (replace(_LAZY, replays=True), "replay"),
    (EVALUATED, "memory plan"),
)
_GRADIENTS = frozenset({"gradient", "gradient_weighted", "backward"})
# Operations that compute nothing.
_SILENT = frozenset(
    {"read", "realize", "drop", "data", "bind", "seed", "function", "call", "grad", "zero_grad"}
)


def blame(judge: ProgramJudge, program: TensorProgram, verdict: KernelVerdict) -> Blame:
    """Return the stage that makes the program differ.

    `graph`: it fails even in the plainest way, with evaluated kernels. `schedule`: it fails once
    results are computed lazily. `memory plan` and `replay`: it fails once these are on. `kernel`:
    it fails only if kernels are compiled and run.
    """
    expected = expected_reads(program)
    if expected is None:
        return Blame("", "", "the program has no exact result")
    for way, stage in _WAYS:
        if problem := judge.fails(program, expected, way):
            return Blame(stage, _cause(stage, program), problem)
    return Blame("kernel", "", verdict.detail)


def _cause(stage: str, program: TensorProgram) -> str:
    """Return the part of a stage, from the operations of a reduced program.

    For the graph it is the last operation that computes or writes, or `gradient of flip` if the
    gradient through the last one differs. For the schedule it is fusion, or hazards if a write
    remains.
    """
    ops = [step.op for step in program.all_steps() if step.op not in _SILENT]
    if stage == "schedule":
        return "fusion" if WRITES.isdisjoint(ops) else "hazards"
    if stage != "graph" or not ops:
        return ""
    if ops[-1] not in _GRADIENTS:
        return ops[-1]
    # A sum only reduces several elements to the one that has a gradient.
    through = [op for op in ops if op not in _GRADIENTS and op != "sum"]
    return f"gradient of {through[-1]}" if through else "gradient"
