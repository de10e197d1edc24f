"""Peeling: a loop over a padded axis becomes a loop without gates and one last iteration.

Only the last iteration reaches positions that padding has added. Its counter is a constant, so
`simplify` decides each of its gates: what is beyond the end is neither loaded nor stored, nor a
term of a reduce. Source of the idea: index set splitting, Wolfe, "High Performance Compilers for
Parallel Computing", 1996.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from tinyref.dtype import PtrDType
from tinyref.optimise.plan import LANE_KINDS, Axis, Plan
from tinyref.uops import build
from tinyref.uops.build import range_number, skip_after
from tinyref.uops.node import UOp, rebuild, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, LocalArg, RangeArg, ReduceArg

# The nodes that end loops, which are their sources after the first.
_ENDS = frozenset({Ops.REDUCE, Ops.AFTER})


def peeled(plan: Plan, root: UOp, loops: Sequence[tuple[Axis, UOp]]) -> UOp:
    """Return the indexed kernel with each loop over a padded axis peeled.

    loops: the RANGEs of loops over outputs, of reduces and of copies to scratch memory, each with
    its axis of the plan.
    """
    # An outer loop is copied with the loops in it, so the inner ones are peeled first.
    for axis, counter in sorted(loops, key=lambda loop: range_number(loop[1]), reverse=True):
        size = plan.shape[axis.target]
        if not isinstance(size, int) or not _has_all_blocks(plan, axis):
            continue
        full, rest = divmod(size, axis.stride)
        if axis.kind is AxisKind.REDUCE:
            root = _peeled_reduces(root, counter, full, rest > 0)
            continue
        copied = _peeled_loop(root, counter, full, rest > 0)
        if _scratch_bytes(copied) <= plan.capabilities.shared_bytes:
            root = copied
    return root


def _has_all_blocks(plan: Plan, axis: Axis) -> bool:
    """Return whether an axis counts all blocks of a padded axis."""
    # Threads may share the blocks; then each of them has a loop over its own.
    is_outermost = axis.extent * axis.stride == plan.covered(axis.target)
    return plan.is_padded(axis.target) and is_outermost


# --- reduces and copies to scratch memory ---------------------------------------------------------


def _peeled_reduces(root: UOp, counter: UOp, full: int, has_rest: bool) -> UOp:
    """Return the kernel with each REDUCE over a loop in two parts, or the AFTER of a copy.

    The parts are the loop of `full` iterations and the last one, if there is one.
    """
    order = root.toposort()
    ends = {node for node in order if node.op in _ENDS and counter in node.src[1:]}
    if not ends or any(map(_fills_memory, ends)):
        return root
    alone = [0] * (full == 1) + [full] * has_rest
    first = _free_number(order)
    loop = counter.replace(src=(build.const(counter.dtype, full),))

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if node not in ends:
            return None
        parts = [node.with_sources(src)] if full > 1 else []
        parts += [_iteration(node, counter, number, (number + 1) * first) for number in alone]
        return _joined(parts)

    return rebuild(root, change, {counter: loop})


def _iteration(end: UOp, counter: UOp, number: int, first: int) -> UOp:
    """Return a copy of a REDUCE or AFTER for one iteration; the other loops of it are its own.

    first: what is added to the numbers of these loops.
    """
    order = end.toposort()
    values = _own_loops(order, _loops(end), first)
    values[counter] = build.const(counter.dtype, number)
    copy = substitute(end, values)
    ended = [node for node in copy.src[1:] if node is not values[counter]]
    return copy.replace(src=(copy.src[0], *ended))


def _joined(parts: Sequence[UOp]) -> UOp:
    """Return the REDUCE, or the AFTER, of all parts."""
    arg = parts[0].arg
    if not isinstance(arg, ReduceArg):
        return build.after(parts[0].src[0], *(node for part in parts for node in part.src[1:]))
    values = [part if len(part.src) > 1 else part.src[0] for part in parts]
    if len(parts) == 1 and len(parts[0].src) == 1:
        return build.reduce_single(arg.op, values[0])
    op = arg.op
    return functools.reduce(lambda x, y: UOp(op, x.dtype, (x, y)), values)


def _loops(node: UOp) -> list[UOp]:
    """Return the loops that a REDUCE or AFTER ends; none for other nodes."""
    return list(filter(_is_loop, node.src[1:])) if node.op in _ENDS else []


def _fills_memory(end: UOp) -> bool:
    """Return whether an iteration fills scratch memory that another one fills again."""
    order = end.toposort()
    dependent = _dependent(order, *_loops(end))
    return any(node.op is Ops.AFTER and node in dependent for node in order[:-1])


# --- loops over outputs ---------------------------------------------------------------------------


def _peeled_loop(root: UOp, counter: UOp, full: int, has_rest: bool) -> UOp:
    order = root.toposort()
    dependent = _dependent(order, counter)
    stores = [store for store in root.src if store in dependent]
    others = [store for store in root.src if store not in dependent]
    last = _last_iteration(order, stores, counter, full) if has_rest and stores else ()
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
    ended = {loop for node in order for loop in _loops(node)}
    loops = [node for node in order if _is_loop(node) and node not in ended]
    inside = [loop for loop in loops if range_number(loop) >= range_number(counter)]
    first = _free_number(order)
    values = _own_loops(order, inside, first)
    for node in _dependent(order, *inside):
        if node.op is Ops.AFTER:
            memory = skip_after(node)
            if isinstance(memory.arg, LocalArg):
                values[memory] = memory.replace(arg=LocalArg(f"{memory.arg.name}_{first}"))
    values[counter] = build.const(counter.dtype, number)
    return substitute(build.sink(*stores), values).src


# --- nodes ----------------------------------------------------------------------------------------


def _own_loops(order: Sequence[UOp], loops: Sequence[UOp], first: int) -> dict[UOp, UOp]:
    """Return other RANGEs for loops and for all loops in them: `first` is added to their numbers.

    A REDUCE that does not depend on these loops is shared.
    """
    dependent = _dependent(order, *loops)
    inside = [loop for node in order if node in dependent for loop in _loops(node)]
    return {loop: _numbered(loop, first) for loop in (*loops, *inside)}


def _is_loop(node: UOp) -> bool:
    """Return whether a node is a RANGE that is not of lanes."""
    return isinstance(node.arg, RangeArg) and node.arg.kind not in LANE_KINDS


def _numbered(loop: UOp, first: int) -> UOp:
    """Return a RANGE with `first` added to its number."""
    assert isinstance(loop.arg, RangeArg), "a RANGE has its payload"
    return loop.replace(arg=replace(loop.arg, number=first + loop.arg.number))


def _free_number(order: Sequence[UOp]) -> int:
    """Return a number above those of all RANGEs."""
    return 1 + max(range_number(node) for node in order if node.op is Ops.RANGE)


def _dependent(order: Sequence[UOp], *counters: UOp) -> set[UOp]:
    """Return the counters, and the nodes that depend on one of them."""
    dependent = set(counters)
    for node in order:
        if not dependent.isdisjoint(node.src):
            dependent.add(node)
    return dependent


def _scratch_bytes(root: UOp) -> int:
    memories = {node for node in root.toposort() if node.op is Ops.DEFINE_LOCAL}
    types = [memory.dtype for memory in memories]
    return sum(dtype.size * dtype.base.itemsize for dtype in types if isinstance(dtype, PtrDType))
