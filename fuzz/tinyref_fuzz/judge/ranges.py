"""What the compiler knows of the ranges of a kernel's integers, against the values that they have.

A range that leaves a value out makes a wrong program where a rule decides by it. Which rule that is
does not matter here: every operation of every kernel asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tinyref.algebra.bounds import bounds
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref_spec.kernel_case import Array
from tinyref_spec.proofs.known_ranges import WrongRange

# How a verdict begins that is about a range.
RANGES = "simplify: "
_OPS = ALU | {Ops.IOTA}


def wrong_range(
    ast: UOp,
    buffers: Sequence[Array],
    bindings: Mapping[str, int],
    known: Mapping[UOp, Array] = MappingProxyType({}),
) -> WrongRange | None:
    """The first integer or bool that has values out of its range; None where all hold theirs.

    All values are to be specified. known: those that the oracle computed; the kernel is evaluated
    where it lacks one that is asked for. Errors as of `evaluate`.
    """
    asked = [
        node
        for node in ast.toposort()
        if node.op in _OPS and (node.dtype.is_int or node.dtype.is_bool)
    ]
    values = known
    if any(node not in known for node in asked):
        evaluated: dict[UOp, Array] = {}
        evaluate(ast, dict(enumerate(buffers)), bindings, evaluated)
        values = evaluated
    for node in asked:
        found = values[node]
        if not found.size:
            continue
        low, high = bounds(node)
        least, most = int(found.min()), int(found.max())
        if least < low or most > high:
            return WrongRange(node, (int(low), int(high)), (least, most))
    return None
