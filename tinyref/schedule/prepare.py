"""The first pass: rewrite a tensor graph to the form that the later passes read.

DETACH is removed. Bound variables lose their values, which `variables` collects. Reduces get the
form that computes fastest, and the sources of COPYs get memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from tinyref.algebra import semantics
from tinyref.algebra.sizes import is_certain
from tinyref.algebra.symbolic import highest, lift, lower, normalise, product
from tinyref.device import Device
from tinyref.dtype import as_const, dtypes
from tinyref.lazy import graph
from tinyref.lazy.buffers import assigned_buffer, shown_buffer
from tinyref.lazy.folding import fold_reduce, full, uniform_value
from tinyref.lazy.multi import build_node
from tinyref.lazy.shape import device_of, keep_name, shape_of
from tinyref.optimise.one_hot import is_one_hot_reduce, one_hot_axes, scatter_axis
from tinyref.schedule.variables import Variables
from tinyref.uops.node import UOp, node_fact, rebuild, sint, substitute, toposort
from tinyref.uops.ops import ALU, MOVEMENT, Ops
from tinyref.uops.payload import (
    BoundsArg,
    CopyArg,
    FlipArg,
    Payload,
    PermuteArg,
    ReduceArg,
    ShapeArg,
)


class Prepared:
    """The rewritten graph: `new` maps each node of the original graph to its replacement."""

    def __init__(self) -> None:
        self.new: dict[UOp, UOp] = {}
        self.variables = Variables()
        self._users: Counter[UOp] = Counter()

    def add(self, roots: Sequence[UOp]) -> None:
        """Rewrite everything that `roots` need; each call walks all, so pass them together.

        If these graphs allow a variable fewer values, earlier rewrites are repeated.
        """
        order = toposort(roots)
        if self.variables.add(order):
            self.new.clear()
        self._users = Counter(roots)
        for node in order:
            self._users.update(dict.fromkeys(node.src, 1))
        for root in roots:
            rebuild(root, self._change, self.new)

    def _change(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        new = self._rewrite(node, src)
        keep_name(node, new)
        if node.op is Ops.REDUCE:
            # Two sums that became one are under a reshape.
            keep_name(node, peel(new))
        return new

    def _rewrite(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op is Ops.BIND:
            return self.variables.number(node)
        if node.op is Ops.DETACH:
            return src[0]
        if node.op is Ops.COPY:
            return _copy(node, src[0])
        stacked = node.op is Ops.REDUCE and self._is_stacked(node)
        argument = self._unbound_payload(node.arg)
        if node.op is Ops.RESHAPE and not is_certain(node) and isinstance(argument, ShapeArg):
            return _reshape_symbolic(src[0], argument.shape)
        if src != node.src or argument != node.arg:
            node = _rebuild(node, src, argument)
        if node.op is Ops.REDUCE:
            return simplify_reduce(node, stacked=stacked)
        return _copy_own_elements(node) if node.op is Ops.ASSIGN else node

    def _unbound_payload(self, argument: Payload) -> Payload:
        size = self.variables.size
        if isinstance(argument, ShapeArg):
            return ShapeArg(tuple(map(size, argument.shape)))
        if isinstance(argument, BoundsArg):
            return BoundsArg(tuple((size(a), size(b)) for a, b in argument.bounds))
        return argument

    def _is_stacked(self, node: UOp) -> bool:
        """Return True if a REDUCE is the only reader of another one, across movement."""
        below = node.src[0]
        while self._users[below] == 1 and (below.op in MOVEMENT or below.op is Ops.DETACH):
            below = below.src[0]
        return below.op is Ops.REDUCE and self._users[below] == 1


def _copy_own_elements(assign: UOp) -> UOp:
    """Return `assign` with its value in memory of its own, if that shows the memory written to."""
    target, value = assign.src
    memory = value if value.op is Ops.BUFFER else shown_buffer(value)
    if memory is not assigned_buffer(assign) or peel(value) is peel(target):
        return assign
    return assign.replace(src=(target, UOp(Ops.CONTIGUOUS, value.dtype, (value,))))


def _reshape_symbolic(node: UOp, shape: Sequence[sint]) -> UOp:
    """Return `node` in a shape with equal size now, but not for all values of the variables."""
    have, want = lift(product(shape_of(node))), lift(product(shape))
    room = max(highest(have), highest(want))
    flat = graph.reshape(node, (lower(have),))
    flat = graph.pad(flat, ((0, lower(room - have)),))
    return graph.reshape(graph.shrink(flat, ((0, lower(want)),)), shape)


def unbound(size: sint) -> sint:
    """Replace each bound variable in `size` by the variable."""
    if isinstance(size, int):
        return size
    bound = {part: part.src[0] for part in size.toposort() if part.op is Ops.BIND}
    return normalise(substitute(size, bound))


def _copy(node: UOp, source: UOp) -> UOp:
    """Return a COPY; it moves whole buffers, so computed sources and parts are stored first."""
    if not isinstance(node.arg, CopyArg):
        return source
    if device_of(source) is None and Device.runs_kernels(node.arg.device):
        return source
    base = peel(source)
    if base.op not in (Ops.BUFFER, Ops.COPY, Ops.CONTIGUOUS):
        base = UOp(Ops.CONTIGUOUS, base.dtype, (base,))
    moved = UOp(Ops.COPY, base.dtype, (base,), node.arg)
    return graph.reshape(moved, shape_of(source))


def peel(node: UOp) -> UOp:
    """Return the node under reshapes: its elements are the same, in the same order."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node


def _rebuild(node: UOp, src: tuple[UOp, ...], argument: Payload) -> UOp:
    """Return `node` with other sources, from its builder, which removes no-ops.

    A CONTIGUOUS stays: its purpose may be to read memory before it is overwritten.
    """
    if node.op is Ops.CONTIGUOUS:
        return node.replace(src=src)
    result = build_node(node.op, argument, node.dtype, src)
    return node.replace(src=src, arg=argument) if result is None else result


# --- the best form of a reduce --------------------------------------------------------------------


Shape = tuple[sint, ...]

# Movement that uses every element exactly once.
_IN_ORDER = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP})

# A reduce of at least this number of elements to at most this number of results is split in two.
LONG_REDUCE = 32768
FEW_RESULTS = 256
MAX_PARTS = 256
# Fewer parts than this do not pay for a kernel: the axis is padded to give more.
FEW_PARTS = 32
# The pairs of terms and results from which a scatter is worth a kernel that does nothing else.
MANY_PAIRS = 1 << 14
# Two reduces become one if this multiplies the number of elements to read at most by this factor.
MAX_GROWTH = 2


def simplify_reduce(node: UOp, *, stacked: bool = False) -> UOp:
    """Return REDUCE `node` in its best form; `stacked`: it alone reads another REDUCE."""
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
    if is_scatter(node):
        return _rows_first(node)
    single = _reduce_at_once(node, argument) if stacked else None
    reduced = split_long_reduce(node if single is None else single)
    return graph.reshape(reduced, shape_of(node))


# --- scatters -------------------------------------------------------------------------------------


def is_scatter(node: UOp) -> bool:
    """Return True if a device computes a REDUCE as a scatter, as devices with loops do."""
    pairs = product(shape_of(node.src[0]))
    is_small = not isinstance(pairs, int) or pairs < MANY_PAIRS
    if is_small or scatter_axis(node) is None:
        return False
    return Device.runs_loops(device_of(node) or Device.default)


def _rows_first(node: UOp) -> UOp:
    """Return a scatter whose outermost axis in memory is the axis that an index chooses.

    So a term adds neighbours to neighbours. A scatter with another index for each element of a row
    stays as it is.
    """
    one_hot = scatter_axis(node)
    axes = [axis for axis, size in enumerate(shape_of(node)) if size != 1]
    if one_hot is None or one_hot.axis == axes[0] or any(map(one_hot.depends_on, axes)):
        return node
    others = [axis for axis in range(len(shape_of(node))) if axis != one_hot.axis]
    order = (one_hot.axis, *others)
    rows = graph.permute(node, order)
    stored = UOp(Ops.CONTIGUOUS, rows.dtype, (rows,))
    return graph.permute(stored, tuple(map(order.index, range(len(order)))))


# --- constants and repeated elements ------------------------------------------------------------


def _reduce_constant(node: UOp, op: Ops, value: bool | int | float, count: int) -> UOp:
    """Return the reduce of a constant; here a result that is not exact is rounded, once.

    The builder leaves such reduces, and has not seen sources that became constants later.
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
    """Reduce over axes along which all elements are equal: x + x + x is 3 * x."""
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
        # A product would need a power, which rounds. An infinite factor times zero would be NaN.
        if argument.op is not Ops.ADD or not math.isfinite(factor):
            return None
        once = graph.alu(Ops.MUL, once, graph.constant(factor, node.dtype))
    rest = [axis for axis in argument.axes if axis not in axes]
    return graph.reduce(argument.op, once, rest)


@node_fact
def repeated_axes(node: UOp) -> frozenset[int]:
    """Return the axes along which the graph shows equal elements, and the axes of size 1."""
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
            unpadded = (axis for axis in repeated_axes(node.src[0]) if bounds[axis] == (0, 0))
            return single.union(unpadded)
    if node.op in (Ops.SHRINK, Ops.FLIP, Ops.REDUCE):
        return single | repeated_axes(node.src[0])
    if node.op in ALU:
        return every.intersection(*(repeated_axes(source) for source in node.src))
    return single


def _reduce_chosen(node: UOp, argument: ReduceArg) -> UOp:
    """Separate the one-hot axes of a REDUCE, which are no loops, from its other axes."""
    if is_one_hot_reduce(node):
        return node
    chosen = one_hot_axes(node)
    rest = tuple(axis for axis in argument.axes if axis not in chosen)
    inner = UOp(Ops.REDUCE, node.dtype, node.src, ReduceArg(argument.op, chosen))
    outer = UOp(Ops.REDUCE, node.dtype, (inner,), ReduceArg(argument.op, rest))
    return split_long_reduce(outer)


# --- a reduce of a reduce -----------------------------------------------------------------------


def _reduce_at_once(node: UOp, argument: ReduceArg) -> UOp | None:
    """Return one REDUCE for two of the same op with movement between; None if it is slower.

    The axes of the inner REDUCE go last, and the movement does not change them. The result has the
    elements of `node` in order.
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
    others = [axis for axis in range(len(shape)) if axis not in axes]
    last = tuple(shape[axis] for axis in axes)
    value = graph.permute(source, [*others, *axes])
    value = graph.reshape(value, (*shape_of(inner), *last))
    for step in reversed(steps):
        value = _move_blocks(value, step, last)
    rank = len(shape_of(node))
    return graph.reduce(argument.op, value, [*argument.axes, *range(rank, rank + len(last))])


def _is_costly_to_reduce(source: UOp) -> bool:
    """Return True if a reduce of `source` does more than add: a convolution has products.

    Such a loop is the main work of the program. Movement after it would add gates and arithmetic of
    positions to the loop.
    """
    while source.op in MOVEMENT:
        source = source.src[0]
    return source.op in ALU


def _move_blocks(value: UOp, step: UOp, last: Shape) -> UOp:
    """Apply a movement of elements to blocks of shape `last`."""
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
    """Split a REDUCE of at least `LONG_REDUCE` elements to few results into two reduces.

    The first one gives up to `MAX_PARTS` partial results, and the second one reduces these. Any
    other node is returned unchanged. Sums keep their dtype, so only the order of additions changes.
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
    blocks = graph.reshape(source, (*shape[:axis], *divided, *shape[axis + 1 :]))
    inner_axes = tuple(other + (other >= axis) for other in argument.axes)
    inner = UOp(Ops.REDUCE, node.dtype, (blocks,), ReduceArg(argument.op, inner_axes))
    stored = UOp(Ops.CONTIGUOUS, node.dtype, (inner,))
    outer = UOp(Ops.REDUCE, node.dtype, (stored,), ReduceArg(argument.op, (axis,)))
    return graph.reshape(outer, shape_of(node))


def _possible_parts(size: int) -> int:
    """Return the number of equal parts of an axis, padded if this gives many more."""
    parts = max(count for count in range(1, MAX_PARTS + 1) if size % count == 0)
    is_padded = parts < FEW_PARTS and size >= FEW_PARTS * MAX_PARTS
    return MAX_PARTS if is_padded else parts


def _pad_axis(source: UOp, axis: int, missing: int, op: Ops) -> UOp:
    """Pad an axis of `source` by `missing` elements that change no result of `op`."""
    shape = shape_of(source)
    bounds = [(0, missing if other == axis else 0) for other in range(len(shape))]
    padded = graph.pad(source, bounds)
    if op is Ops.ADD:
        return padded
    is_there = graph.pad(full(shape, True, dtypes.bool), bounds)
    identity = full(shape_of(padded), semantics.reduce_identity(op, source.dtype), source.dtype)
    return graph.where(is_there, padded, identity)
