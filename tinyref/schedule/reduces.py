"""The first pass over reduces: each takes the form that computes best.

A reduce of a constant is a constant, one over repeated elements is arithmetic, one that is all that
reads another becomes one with it, and a long one with few results becomes two.
"""

from __future__ import annotations

import math

from tinyref.algebra import semantics
from tinyref.algebra.symbolic import product
from tinyref.dtype import as_const, dtypes
from tinyref.lazy import graph
from tinyref.lazy.folding import fold_reduce, full, uniform_value
from tinyref.lazy.shape import shape_of
from tinyref.optimise.one_hot import is_one_hot_reduce, one_hot_axes
from tinyref.uops.node import UOp, node_fact, sint
from tinyref.uops.ops import ALU, MOVEMENT, Ops
from tinyref.uops.payload import BoundsArg, FlipArg, PermuteArg, ReduceArg, ShapeArg

Shape = tuple[sint, ...]

# Movement that keeps every element just once.
_IN_ORDER = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP})

# A reduce of so many elements into at most so many results is split in two.
LONG_REDUCE = 32768
FEW_RESULTS = 256
MAX_PARTS = 256
# Fewer parts than this are not worth a kernel: the axis is padded to give more.
FEW_PARTS = 32
# A reduce of a reduce is done at once where that reads at most so many times as many elements.
MAX_GROWTH = 2


def simplify_reduce(node: UOp, *, stacked: bool = False) -> UOp:
    """REDUCE `node` in its best form; `stacked` says that a reduce below is read by it alone."""
    argument = node.arg
    if not isinstance(argument, ReduceArg):
        return node
    source = node.src[0]
    value = uniform_value(source)
    count = product(shape_of(source)[axis] for axis in argument.axes)
    if value is not None and isinstance(count, int):
        return _reduce_constant(node, argument.op, value, count)
    repeated = _reduce_repeated(node, argument)
    if repeated is not None:
        return repeated
    if one_hot_axes(node):
        return _reduce_chosen(node, argument)
    together = _reduce_at_once(node, argument) if stacked else None
    reduced = split_long_reduce(node if together is None else together)
    return graph.reshape(reduced, shape_of(node))


# --- constants and repeated elements ------------------------------------------------------------


def _reduce_constant(node: UOp, op: Ops, value: bool | int | float, count: int) -> UOp:
    """The reduce of a constant: where rounding shows, which the builder leaves, rounded once here.

    No builder has seen a node of which a source became a constant when that was computed.
    """
    exact = fold_reduce(op, value, count, node.dtype)
    if exact is not None:
        return full(shape_of(node), exact, node.dtype)
    if op is Ops.ADD:
        return full(shape_of(node), as_const(value * count, node.dtype), node.dtype)
    try:
        power = math.pow(value, count)
    except OverflowError:
        power = -math.inf if value < 0 and count % 2 else math.inf
    return full(shape_of(node), as_const(power, node.dtype), node.dtype)


def _reduce_repeated(node: UOp, argument: ReduceArg) -> UOp | None:
    """A reduce over axes along which all elements are equal: x + x + x is 3 * x."""
    source = node.src[0]
    shape = shape_of(source)
    axes = [axis for axis in argument.axes if axis in repeated_axes(source) and shape[axis] != 1]
    count = product(shape[axis] for axis in axes)
    if not axes or not isinstance(count, int):
        return None
    once = graph.shrink(
        source, [(0, 1 if axis in axes else size) for axis, size in enumerate(shape)]
    )
    if argument.op is not Ops.MAX and not node.dtype.is_bool:
        factor = as_const(count, node.dtype)
        # A product would need a power, which rounds; and an infinite factor makes NaN of zero.
        if argument.op is not Ops.ADD or not math.isfinite(factor):
            return None
        once = graph.alu(Ops.MUL, once, graph.constant(factor, node.dtype))
    rest = [axis for axis in argument.axes if axis not in axes]
    return graph.reduce(argument.op, once, rest)


@node_fact
def repeated_axes(node: UOp) -> frozenset[int]:
    """The axes along which the graph shows that all elements are equal, those of size 1 too."""
    shape = shape_of(node)
    every = frozenset(range(len(shape)))
    single = frozenset(axis for axis in every if shape[axis] == 1)
    if uniform_value(node) is not None:
        return every
    match node.arg:
        case ShapeArg() if node.op is Ops.EXPAND:
            below = shape_of(node.src[0])
            return repeated_axes(node.src[0]) | {axis for axis in every if below[axis] == 1}
        case PermuteArg(order):
            below_axes = repeated_axes(node.src[0])
            return frozenset(axis for axis in every if order[axis] in below_axes)
        case BoundsArg(bounds) if node.op is Ops.PAD:
            kept = (axis for axis in repeated_axes(node.src[0]) if bounds[axis] == (0, 0))
            return single.union(kept)
    if node.op in (Ops.SHRINK, Ops.FLIP, Ops.REDUCE):
        return single | repeated_axes(node.src[0])
    if node.op in ALU:
        return every.intersection(*(repeated_axes(source) for source in node.src))
    return single


def _reduce_chosen(node: UOp, argument: ReduceArg) -> UOp:
    """A REDUCE that chooses along some of its axes, which are no loops, apart from the others."""
    if is_one_hot_reduce(node):
        return node
    chosen = one_hot_axes(node)
    rest = tuple(axis for axis in argument.axes if axis not in chosen)
    inner = UOp(Ops.REDUCE, node.dtype, node.src, ReduceArg(argument.op, chosen))
    outer = UOp(Ops.REDUCE, node.dtype, (inner,), ReduceArg(argument.op, rest))
    return split_long_reduce(outer)


# --- a reduce of a reduce -----------------------------------------------------------------------


def _reduce_at_once(node: UOp, argument: ReduceArg) -> UOp | None:
    """One REDUCE for two of the same kind with movement between; None where that is no gain.

    The axes that the inner one reduces go last, and the movement leaves them alone. The result has
    the elements of `node` in order.
    """
    steps: list[UOp] = []
    inner = node.src[0]
    while inner.op in MOVEMENT:
        steps.append(inner)
        inner = inner.src[0]
    if not isinstance(inner.arg, ReduceArg) or inner.arg.op is not argument.op:
        return None
    if is_one_hot_reduce(inner):
        return None
    moved = product(shape_of(node.src[0]))
    made = product(shape_of(inner))
    if not isinstance(moved, int) or not isinstance(made, int) or moved > MAX_GROWTH * made:
        return None
    source = inner.src[0]
    if _is_costly_to_reduce(source) and not all(step.op in _IN_ORDER for step in steps):
        return None
    shape = shape_of(source)
    axes = inner.arg.axes
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    last = tuple(shape[axis] for axis in axes)
    value = graph.permute(source, [*kept, *axes])
    value = graph.reshape(value, (*shape_of(inner), *last))
    for step in reversed(steps):
        value = _move_blocks(value, step, last)
    rank = len(shape_of(node))
    return graph.reduce(argument.op, value, [*argument.axes, *range(rank, rank + len(last))])


def _is_costly_to_reduce(source: UOp) -> bool:
    """Whether a reduce of `source` does more than add up: a product, say, as in a convolution.

    Such a loop is the work of the program: it is better without the gates and the arithmetic of
    places that movement after it would bring in.
    """
    while source.op in MOVEMENT:
        source = source.src[0]
    return source.op in ALU


def _move_blocks(value: UOp, step: UOp, last: Shape) -> UOp:
    """A movement of elements as one of blocks of shape `last`."""
    rank = len(shape_of(step.src[0]))
    match step.arg:
        case ShapeArg(shape):
            build = graph.reshape if step.op is Ops.RESHAPE else graph.expand
            return build(value, (*shape, *last))
        case PermuteArg(order):
            return graph.permute(value, [*order, *range(rank, rank + len(last))])
        case FlipArg(axes):
            return graph.flip(value, axes)
        case BoundsArg(bounds) if step.op is Ops.PAD:
            return graph.pad(value, [*bounds, *((0, 0) for _ in last)])
        case BoundsArg(bounds):
            return graph.shrink(value, [*bounds, *((0, size) for size in last)])
    raise TypeError(f"{step.op.name} is no movement")


# --- long reduces -------------------------------------------------------------------------------


def split_long_reduce(node: UOp) -> UOp:
    """A REDUCE of at least `LONG_REDUCE` elements into few results, as two reduces.

    The first gives up to `MAX_PARTS` partial results, the second reduces those; any other node
    is returned as it is. Sums keep their dtype, so only the order of additions changes.
    """
    argument = node.arg
    if not isinstance(argument, ReduceArg):
        return node
    shape = shape_of(node.src[0])
    results = product(shape_of(node))
    sizes = {axis: size for axis, size in enumerate(shape) if isinstance(size, int)}
    if not isinstance(results, int) or not sizes.keys() >= set(argument.axes):
        return node
    length = math.prod(sizes[axis] for axis in argument.axes)
    if length < LONG_REDUCE or results > FEW_RESULTS:
        return node
    axis = max(argument.axes, key=lambda axis: (_possible_parts(sizes[axis]), -axis))
    parts = _possible_parts(sizes[axis])
    if parts == 1:
        return node
    source = _pad_axis(node.src[0], axis, -sizes[axis] % parts, argument.op)
    divided = (parts, -(-sizes[axis] // parts))
    apart = graph.reshape(source, (*shape[:axis], *divided, *shape[axis + 1 :]))
    inner_axes = tuple(other + (other >= axis) for other in argument.axes)
    inner = UOp(Ops.REDUCE, node.dtype, (apart,), ReduceArg(argument.op, inner_axes))
    stored = UOp(Ops.CONTIGUOUS, node.dtype, (inner,))
    outer = UOp(Ops.REDUCE, node.dtype, (stored,), ReduceArg(argument.op, (axis,)))
    return graph.reshape(outer, shape_of(node))


def _possible_parts(size: int) -> int:
    """Into how many equal parts an axis is divided, padded where that gives many more."""
    parts = max(count for count in range(1, MAX_PARTS + 1) if size % count == 0)
    is_padded = parts < FEW_PARTS and size >= FEW_PARTS * MAX_PARTS
    return MAX_PARTS if is_padded else parts


def _pad_axis(source: UOp, axis: int, missing: int, op: Ops) -> UOp:
    """`source` with so many more elements along an axis, which change no result of `op`."""
    shape = shape_of(source)
    bounds = [(0, missing if other == axis else 0) for other in range(len(shape))]
    padded = graph.pad(source, bounds)
    if op is Ops.ADD:
        return padded
    is_there = graph.pad(full(shape, True, dtypes.bool), bounds)
    identity = full(shape_of(padded), semantics.reduce_identity(op, source.dtype), source.dtype)
    return graph.where(is_there, padded, identity)
