"""The first pass: a tensor graph rewritten into the form that the rest of scheduling reads.

DETACH disappears, bound variables lose their values (which `bound_values` collects), a reduce over
repeated elements becomes arithmetic, a long reduce becomes two, and what a COPY copies gets memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

from tinyref.dtype import as_const
from tinyref.errors import UserError
from tinyref.lazy import graph
from tinyref.lazy.folding import full, uniform_value
from tinyref.lazy.shape import device_of, shape_of
from tinyref.uops.node import UOp, node_fact, sint, substitute, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import (
    BoundsArg,
    ConstArg,
    CopyArg,
    FlipArg,
    Payload,
    PermuteArg,
    ReduceArg,
    ShapeArg,
    VarArg,
)
from tinyref.uops.symbolic import normalise, product

# A reduce of so many elements into at most so many results is split in two.
LONG_REDUCE = 32768
FEW_RESULTS = 256
MOST_PARTS = 256


class Prepared:
    """The rewritten graph: `new` maps each node of the original to its successor."""

    def __init__(self) -> None:
        self.new: dict[UOp, UOp] = {}

    def add(self, roots: Iterable[UOp]) -> None:
        """Rewrites everything that `roots` need: give them together, as each call walks all."""
        for node in toposort(roots):
            if node not in self.new:
                self.new[node] = self._rewrite(node)

    def _rewrite(self, node: UOp) -> UOp:
        if node.op is Ops.BIND:
            return node.src[0]
        src = tuple(self.new[source] for source in node.src)
        if node.op is Ops.DETACH:
            return src[0]
        if node.op is Ops.COPY:
            return _copy(node, src[0])
        argument = _unbound_payload(node.arg)
        if src != node.src or argument != node.arg:
            node = _rebuild(node, src, argument)
        if node.op is Ops.REDUCE and isinstance(node.arg, ReduceArg):
            return _reduce(node, node.arg)
        return node


def _unbound_payload(argument: Payload) -> Payload:
    if isinstance(argument, ShapeArg):
        return ShapeArg(tuple(unbound(size) for size in argument.shape))
    if isinstance(argument, BoundsArg):
        return BoundsArg(tuple((unbound(a), unbound(b)) for a, b in argument.bounds))
    return argument


def unbound(size: sint) -> sint:
    """`size` with each bound variable in it replaced by the variable."""
    if isinstance(size, int):
        return size
    bound = {part: part.src[0] for part in size.toposort() if part.op is Ops.BIND}
    return normalise(substitute(size, bound)) if bound else size


def bound_values(roots: Iterable[UOp]) -> dict[str, int]:
    """The value of each variable that the graphs of `roots`, not yet prepared, bind.

    Raises `UserError` where two of them bind one variable to different values.
    """
    sizes: dict[UOp, None] = {}
    nodes = toposort(roots)
    for node in nodes:
        if isinstance(node.arg, ShapeArg):
            sizes.update((size, None) for size in node.arg.shape if isinstance(size, UOp))
        elif isinstance(node.arg, BoundsArg):
            pairs = itertools.chain.from_iterable(node.arg.bounds)
            sizes.update((size, None) for size in pairs if isinstance(size, UOp))
    values: dict[str, int] = {}
    for node in (*nodes, *toposort(sizes)):
        if node.op is not Ops.BIND:
            continue
        variable, value = (source.arg for source in node.src)
        if isinstance(variable, VarArg) and isinstance(value, ConstArg):
            number = int(value.value)
            if values.setdefault(variable.name, number) != number:
                raise UserError(
                    f"variable {variable.name}: bound to {values[variable.name]} and to {number} "
                    "in one graph: accepted is one value"
                )
    return values


def _copy(node: UOp, source: UOp) -> UOp:
    """COPY moves whole buffers, so a computed source or a part of a buffer is stored first."""
    if device_of(source) is None or not isinstance(node.arg, CopyArg):
        return source
    base = peel(source)
    if base.op not in (Ops.BUFFER, Ops.COPY, Ops.CONTIGUOUS):
        base = UOp(Ops.CONTIGUOUS, base.dtype, (base,))
    moved = UOp(Ops.COPY, base.dtype, (base,), node.arg)
    return graph.reshape(moved, shape_of(source))


def peel(node: UOp) -> UOp:
    """The node under reshapes: its elements are the same, in the same order."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node


_BUILDERS: dict[Ops, Callable[..., UOp]] = {
    Ops.CAST: graph.cast,
    Ops.BITCAST: graph.bitcast,
    Ops.CONTIGUOUS: graph.contiguous,
    Ops.ASSIGN: graph.assign,
}


def _rebuild(node: UOp, src: tuple[UOp, ...], argument: Payload) -> UOp:
    """`node` with other sources, through its builder, so that what became a no-op goes."""
    if node.op is Ops.IOTA and isinstance(argument, ShapeArg):
        return graph.iota(argument.shape[0])
    if isinstance(argument, ShapeArg):
        build = graph.reshape if node.op is Ops.RESHAPE else graph.expand
        return build(src[0], argument.shape)
    if isinstance(argument, PermuteArg):
        return graph.permute(src[0], argument.order)
    if isinstance(argument, BoundsArg):
        build_bounds = graph.pad if node.op is Ops.PAD else graph.shrink
        return build_bounds(src[0], argument.bounds)
    if isinstance(argument, FlipArg):
        return graph.flip(src[0], argument.axes)
    if isinstance(argument, ReduceArg):
        return graph.reduce(argument.op, src[0], argument.axes)
    if isinstance(argument, CopyArg):
        return graph.copy(src[0], argument.device)
    if node.op in (Ops.CAST, Ops.BITCAST):
        return _BUILDERS[node.op](src[0], node.dtype)
    if node.op in _BUILDERS:
        return _BUILDERS[node.op](*src)
    if node.op in ALU:
        return graph.alu(node.op, *src)
    return node.replace(src=src, arg=argument)


# --- reduces ------------------------------------------------------------------------------------


def _reduce(node: UOp, argument: ReduceArg) -> UOp:
    source = node.src[0]
    value = uniform_value(source)
    count = product(shape_of(source)[axis] for axis in argument.axes)
    if value is not None and isinstance(count, int):
        return _reduce_constant(node, argument.op, value, count)
    repeated = _reduce_repeated(node, argument)
    if repeated is not None:
        return repeated
    return split_long_reduce(node)


def _reduce_constant(node: UOp, op: Ops, value: bool | int | float, count: int) -> UOp:
    """The reduce of a constant that the builder left because rounding shows: rounded once here."""
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


def split_long_reduce(node: UOp) -> UOp:
    """A REDUCE of at least `LONG_REDUCE` elements into few results, as two reduces.

    The first gives up to `MOST_PARTS` partial results, the second reduces those; any other node
    is returned as it is. Sums keep their dtype, so only the order of additions changes.
    """
    argument = node.arg
    if node.op is not Ops.REDUCE or not isinstance(argument, ReduceArg):
        return node
    shape = shape_of(node.src[0])
    results = product(shape_of(node))
    length = product(shape[axis] for axis in argument.axes)
    if not isinstance(results, int) or not isinstance(length, int):
        return node
    if length < LONG_REDUCE or results > FEW_RESULTS:
        return node
    best = max((_parts(shape[axis]), -axis) for axis in argument.axes)
    parts, axis = best[0], -best[1]
    size = shape[axis]
    if parts == 1 or not isinstance(size, int):
        return node
    apart = graph.reshape(node.src[0], (*shape[:axis], parts, size // parts, *shape[axis + 1 :]))
    inner_axes = tuple(other + (other >= axis) for other in argument.axes)
    inner = UOp(Ops.REDUCE, node.dtype, (apart,), ReduceArg(argument.op, inner_axes))
    stored = UOp(Ops.CONTIGUOUS, node.dtype, (inner,))
    outer = UOp(Ops.REDUCE, node.dtype, (stored,), ReduceArg(argument.op, (axis,)))
    return graph.reshape(outer, shape_of(node))


def _parts(size: sint) -> int:
    """The most equal parts, up to the limit, that an axis divides into."""
    if not isinstance(size, int):
        return 1
    return max(count for count in range(1, MOST_PARTS + 1) if size % count == 0)
