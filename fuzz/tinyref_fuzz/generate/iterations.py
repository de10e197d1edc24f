"""Estimate how long a kernel takes: nested reduces multiply."""

from __future__ import annotations

from tinyref.algebra.shapes import kernel_shape, reduced_sizes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.values import positions

# With more iterations the interpreter takes seconds for each program of a case.
MAX_ITERATIONS = 1 << 16


def is_moderate(ast: UOp) -> bool:
    """Return True if a case with this kernel is judged quickly."""
    return iterations(ast) <= MAX_ITERATIONS


def iterations(ast: UOp) -> int:
    """Return how often a kernel computes the value that it computes most often.

    A reduce runs for each position of the outputs, and a nested one for each term of the outer.
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
