"""Peeling: a loop over a padded axis becomes a loop without gates and one last iteration.

Only the last iteration reaches the positions that padding has added. Its counter is a constant, so
`simplify` decides each of its gates: what is beyond the end is neither loaded nor stored. Source
of the idea: index set splitting, Wolfe, "High Performance Compilers for Parallel Computing", 1996.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyref.dtype import PtrDType
from tinyref.optimise.launch_axes import Counters
from tinyref.optimise.plan import Axis, Plan
from tinyref.uops import build
from tinyref.uops.build import range_number
from tinyref.uops.node import UOp, rebuild, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, LocalArg, RangeArg


def peeled(plan: Plan, root: UOp, counters: Counters) -> UOp:
    """Return the indexed kernel with each loop over a padded output axis peeled.

    counters: the launch index or RANGE of each axis of the plan.
    """
    for axis in plan.axes:
        counter = counters[axis]
        if axis.kind is AxisKind.GLOBAL and counter.op is Ops.RANGE:
            full = full_iterations(plan, axis)
            if full:
                root = _peeled_loop(plan, root, counter, full)
    return root


def full_iterations(plan: Plan, axis: Axis) -> int:
    """Return how many iterations of a padded axis reach no added position; 0: do not peel it."""
    size = plan.shape[axis.target]
    if not plan.is_padded(axis.target) or not isinstance(size, int):
        return 0
    full = size // axis.stride
    return full if axis.extent == full + 1 else 0


def _peeled_loop(plan: Plan, root: UOp, counter: UOp, full: int) -> UOp:
    nodes = root.toposort()
    if 2 * _scratch_bytes(nodes) > plan.capabilities.shared_bytes:
        return root
    loop = build.counter(full, range_number(counter), AxisKind.LOOP)
    last = build.const(counter.dtype, full)
    first = 1 + max(range_number(node) for node in nodes if node.op is Ops.RANGE)

    def copied(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        """Return a node of the last iteration, whose loops and scratch memory are its own."""
        if isinstance(node.arg, RangeArg):
            number = first + node.arg.number
            return UOp(node.op, node.dtype, src, replace(node.arg, number=number))
        if node.op is Ops.DEFINE_LOCAL and isinstance(node.arg, LocalArg):
            return UOp(node.op, node.dtype, src, LocalArg(f"{node.arg.name}_last"))
        return None

    stores = substitute(root, {counter: loop}).src
    return build.sink(*stores, *rebuild(root, copied, {counter: last}).src)


def _scratch_bytes(nodes: Sequence[UOp]) -> int:
    memories = (node.dtype for node in nodes if node.op is Ops.DEFINE_LOCAL)
    return sum(
        memory.size * memory.base.itemsize for memory in memories if isinstance(memory, PtrDType)
    )
