"""Decide which refusals of tinyref a program makes foreseeable; any other one is a finding."""

from __future__ import annotations

from collections.abc import Mapping

from tinyref_fuzz.programs.arithmetic import VIEWS
from tinyref_fuzz.programs.steps import WRITES, TensorProgram

# After these, several tensors may share memory, so that a write moves one of them.
_SHARING = VIEWS | {"clone", "contiguous", "to", "add_number", "mul_number", "full"}
# A part of tinyref's message; a program needs one of the operations for it.
REASONS: Mapping[str, frozenset[str]] = {
    # A captured function: its state has moved to other memory since the capture.
    "has other memory by now": _SHARING,
    "replays would read": _SHARING,
    "from outside to other memory": _SHARING,
    "in the same memory, as after clone()": _SHARING,
    "and one of them is assigned to": WRITES,
    "shares its elements with views": VIEWS,
    # Two parts with one variable and two values; one overwrites what the other reads.
    "call realize() on the tensors that it is computed from": frozenset({"set_part"}),
}


def is_foreseen(program: TensorProgram, number: int, refusal: str) -> bool:
    """Return True if step `number` may be refused with this text of `REASONS`."""
    before = program.with_steps(program.steps[:number])
    ops = {step.op for step in before.all_steps()}
    return bool(ops & WRITES) and bool(ops & REASONS[refusal])
