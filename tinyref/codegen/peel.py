"""Peeling: a loop over a padded axis becomes a loop without gates and one last iteration.

Only the last iteration reaches positions that padding has added. Its counter is a constant, so
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
    # An outer loop is copied with the loops in it, so the inner ones are peeled first.
    for axis in reversed(plan.axes):
        if _is_padded_loop(plan, axis, counters):
            copied = _peeled_loop(plan, root, axis, counters[axis])
            if _scratch_bytes(copied) <= plan.capabilities.shared_bytes:
                root = copied
    return root


def _is_padded_loop(plan: Plan, axis: Axis, counters: Counters) -> bool:
    """Return whether an axis is a loop over all blocks of a padded axis whose size is known."""
    if counters[axis].op is not Ops.RANGE or not plan.is_padded(axis.target):
        return False
    # Threads may share the blocks; then each of them has a loop over its own.
    is_outermost = axis.extent * axis.stride == plan.covered(axis.target)
    return axis.kind is AxisKind.GLOBAL and is_outermost


def _peeled_loop(plan: Plan, root: UOp, axis: Axis, counter: UOp) -> UOp:
    size = plan.shape[axis.target]
    assert isinstance(size, int), "an axis of unknown size cannot be padded"
    full, rest = divmod(size, axis.stride)
    order = root.toposort()
    dependent = _dependent(order, counter)
    stores = [store for store in root.src if store in dependent]
    others = [store for store in root.src if store not in dependent]
    last = _last_iteration(order, stores, counter, full) if rest and stores else ()
    if not full:
        return build.sink(*others, *last)
    loop = build.counter(full, range_number(counter), AxisKind.LOOP)
    return build.sink(*substitute(root, {counter: loop}).src, *last)


def _last_iteration(
    order: Sequence[UOp], stores: Sequence[UOp], counter: UOp, number: int
) -> tuple[UOp, ...]:
    """Return copies of the stores in a loop, with its counter at `number`.

    The loops in it, and the scratch memory that they fill, are their own. The loops around it, and
    the memory that is filled before it, are those of the kernel.

    order: the nodes of the kernel, sources first.
    """
    dependent = _dependent(order, counter)
    shared = {node: node for node in order if node.op is Ops.AFTER and node not in dependent}
    first = 1 + max(range_number(node) for node in order if node.op is Ops.RANGE)

    def copied(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if isinstance(node.arg, RangeArg) and node.arg.number > range_number(counter):
            arg = replace(node.arg, number=first + node.arg.number)
            return UOp(node.op, node.dtype, src, arg)
        if node.op is Ops.DEFINE_LOCAL and isinstance(node.arg, LocalArg):
            return UOp(node.op, node.dtype, src, LocalArg(f"{node.arg.name}_{first}"))
        return None

    root = build.sink(*stores)
    return rebuild(root, copied, {counter: build.const(counter.dtype, number), **shared}).src


def _dependent(order: Sequence[UOp], counter: UOp) -> set[UOp]:
    """Return the nodes that depend on a counter."""
    dependent = {counter}
    for node in order:
        if not dependent.isdisjoint(node.src):
            dependent.add(node)
    return dependent


def _scratch_bytes(root: UOp) -> int:
    memories = {node for node in root.toposort() if node.op is Ops.DEFINE_LOCAL}
    types = [memory.dtype for memory in memories]
    return sum(dtype.size * dtype.base.itemsize for dtype in types if isinstance(dtype, PtrDType))
