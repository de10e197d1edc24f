"""Which refusals of tinyref a program lets one expect, from the operations before it.

A refusal of a program that tinyref ought to run hides faults, so every other one is a finding.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyref_fuzz.programs.arithmetic import VIEWS
from tinyref_fuzz.programs.steps import WRITES, TensorProgram

# After which several tensors may be in one memory, so that a write moves one of them.
_SHARING = VIEWS | {"clone", "contiguous", "to", "add_number", "mul_number", "full"}
# A part of what tinyref says, and the operations of which a program needs one for it.
REASONS: Mapping[str, frozenset[str]] = {
    # A captured function: its state has other memory than it had when it was captured.
    "has other memory by now": _SHARING,
    "replays would read": _SHARING,
    "from outside to other memory": _SHARING,
    "in the same memory, as after clone()": _SHARING,
    "and one of them is assigned to": WRITES,
    "shares its elements with views": VIEWS,
    # Two parts of one variable with two values, of which one overwrites what the other reads.
    "call realize() on the tensors that it is computed from": frozenset({"set_part"}),
}


def is_foreseen(program: TensorProgram, number: int, refusal: str) -> bool:
    """Return whether step `number` may be refused with this text of `REASONS`."""
    before = program.with_steps(program.steps[:number])
    ops = {step.op for step in before.all_steps()}
    return bool(ops & WRITES) and bool(ops & REASONS[refusal])
