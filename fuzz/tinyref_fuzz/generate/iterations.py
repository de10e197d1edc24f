"""How long a kernel takes: its reduces, and those inside of others, multiply."""

from __future__ import annotations

from tinyref.algebra.shapes import kernel_shape, reduced_sizes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.values import positions

# More than these take the interpreter seconds for each of the programs of a case.
MAX_ITERATIONS = 1 << 16


def is_moderate(ast: UOp) -> bool:
    """Whether a case with this kernel is judged in little time."""
    return iterations(ast) <= MAX_ITERATIONS


def iterations(ast: UOp) -> int:
    """How often a kernel computes the value that it computes most often.

    A reduce is done for each position of the outputs, and one inside of it for each of its terms.
    """
    done: dict[UOp, int] = {}
    for node in reversed(ast.toposort()):
        times = done.get(node, 1)
        if node.op is Ops.STORE:
            times = positions(kernel_shape(node.src[0]))
        elif node.op is Ops.REDUCE:
            times *= positions(reduced_sizes(node))
        for source in node.src:
            done[source] = max(done.get(source, 1), times)
    return max(done.values(), default=0)
