"""Fold a reduce that selects one position of an axis into a load at that position.

`sum over i of (x[i] where i == k[j] else 0)` becomes x[k[j]], a VIEW of x. Its last axis is not an
axis of the kernel, but takes its position from a value, here the LOAD of k. If k[j] is no position
on the axis, the load is masked: it accesses nothing and gives 0, and the result is the identity.

Only the position replaces the counter, so the reduced value may have any loads and conditions. A
term that is not selected is not computed, so its NaN has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.algebra import semantics
from tinyref.algebra.rewrite import listeners, takes_step
from tinyref.algebra.shapes import Shape, is_one, kernel_shape, positions_of, reduced_axes
from tinyref.dtype import ConstType, ImageDType, as_const, dtypes
from tinyref.optimise.one_hot import Mask, OneHot, find_one_hots, repeats
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild, sint
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of


def fold_ranges(ast: UOp) -> UOp:
    """Fold every one-hot REDUCE of a kernel AST; the values do not change.

    Folded axes stay, with size 1. A VIEW, VALID or IOTA with positions as further sources has
    their axes last in its view, and the kernel does not loop over them.
    """
    if listeners().steps is not None:
        result = _rebuilt(ast)
        return result if result is not ast and takes_step("pass", "fold_ranges") else ast
    if fold_ranges not in ast.facts:
        result = _rebuilt(ast)
        # The node itself is not stored: it would keep itself alive.
        ast.facts[fold_ranges] = None if result is ast else result
    folded: UOp | None = ast.facts[fold_ranges]
    return ast if folded is None else folded


def _rebuilt(ast: UOp) -> UOp:
    if not any(node.op is Ops.IOTA for node in ast.toposort()):
        return ast
    return rebuild(ast, _change)


def _change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
    return (
        _fold_reduce(node.with_sources(src), node.arg) if isinstance(node.arg, ReduceArg) else None
    )


def _fold_reduce(reduce: UOp, arg: ReduceArg) -> UOp:
    value = reduce.src[0]
    identity = build.const(reduce.dtype, semantics.reduce_identity(arg.op, reduce.dtype))
    one_hots = [] if _shows_image(value) else find_one_hots(reduce)
    one_hots = [one_hot for one_hot in one_hots if _is_idle_outside(value, one_hot, identity)]
    if not one_hots:
        return reduce
    sizes = kernel_shape(value)
    guards: list[UOp] = []
    for one_hot in one_hots:
        position = one_hot.position()
        for other in one_hots:
            # The position does not change along the axis, so any position of the axis will do.
            position = at_position(position, other, build.const(dtypes.int32, 0))
        value = at_position(value, one_hot, position)
        guards.append(_guard(len(sizes), sizes[one_hot.axis], position))
    folded = {one_hot.axis for one_hot in one_hots}
    rest = tuple(axis for axis in arg.axes if axis not in folded)
    shape = tuple(1 if axis in folded else size for axis, size in enumerate(sizes))
    result = value
    for guard in guards:
        result = _where(guard, result, identity)
    result = in_shape(result, shape, identity)
    return build.reduce(arg.op, result, rest) if rest else build.reduce_single(arg.op, result)


def in_shape(value: UOp, shape: Shape, unused: UOp) -> UOp:
    """Return `value` with the axes of `shape`, which a constant lacks.

    A condition that is true at every position preserves the shape; `unused` is its other value.
    """
    if kernel_shape(value) == shape:
        return value
    everywhere = build.valid(ShapeTracker.from_shape(shape))
    return UOp(Ops.WHERE, value.dtype, (everywhere, value, unused))


def _shows_image(value: UOp) -> bool:
    """Return True if an image is read: its lanes must be lanes of a plan."""
    return any(
        isinstance(node.dtype, ImageDType) and isinstance(node.arg, ViewArg)
        for node in value.toposort()
    )


def _is_idle_outside(root: UOp, one_hot: OneHot, identity: UOp) -> bool:
    """Return True if `root` is the identity where a mask makes the counter 0, selected or not.

    This holds if all its parts are 0 there: padding has put a mask around all of them.
    """
    if not one_hot.mask:
        return True
    natural: dict[UOp, ConstArg | None] = {}
    forced: dict[UOp, ConstArg | None] = {}
    for node in root.toposort():
        if isinstance(node.arg, ConstArg):
            natural[node] = forced[node] = node.arg
        elif isinstance(node.arg, ViewArg):
            is_hidden = _hides(tracker_of(node), one_hot.mask)
            natural[node] = forced[node] = _zero(node) if is_hidden else None
        elif node.op is Ops.LOAD:
            is_hidden = natural[node.src[0]] is not None
            natural[node] = forced[node] = _zero(node) if is_hidden else None
        else:
            for known in (natural, forced):
                known[node] = fold_known(node, [known.get(source) for source in node.src])
        if node is one_hot.equality:
            forced[node] = ConstArg(False)
    return natural[root] == identity.arg and forced[root] == identity.arg


def _zero(node: UOp) -> ConstArg:
    return ConstArg(as_const(0, node.dtype if node.op is not Ops.VIEW else dtypes.int32))


def _hides(tracker: ShapeTracker, mask: Mask) -> bool:
    """Return True if a view shows nothing where `mask` hides the counter."""
    view = tracker.views[-1]
    return all(
        view.mask is not None and not is_one(view.shape[axis]) and view.mask[axis] == ends
        for axis, ends in mask
    )


def fold_known(node: UOp, sources: Sequence[ConstArg | None]) -> ConstArg | None:
    """Return the value of an operation on known values.

    None if a source is not known, or a device may give another value than the op table.
    """
    values = [source.value for source in sources if source is not None]
    if node.op not in ALU or len(values) < len(node.src) or not _is_specified(node, values):
        return None
    types = [source.dtype for source in node.src]
    return ConstArg(semantics.fold(node.op, node.dtype, values, types))


def _is_specified(node: UOp, values: Sequence[ConstType]) -> bool:
    """Return True if every device gives the value of the op table."""
    if node.op in (Ops.IDIV, Ops.MOD):
        return values[1] not in (0, -1)
    if node.op is Ops.CAST and not node.dtype.is_float:
        return 0 <= values[0] < 128
    return True


def _guard(rank: int, size: sint, position: UOp) -> UOp:
    """Return a node that is true if `position` is on an axis of `size`."""
    tracker = ShapeTracker.from_shape((*(1,) * rank, size))
    return UOp(Ops.VALID, dtypes.bool, (position,), ViewArg(tracker))


def _where(guard: UOp, value: UOp, identity: UOp) -> UOp:
    """Return `value` where `guard` is true; a load that is masked there needs no condition."""
    loaded = value
    while loaded.op is Ops.CAST:
        loaded = loaded.src[0]
    is_masked = loaded.op is Ops.LOAD and guard.src[0] in positions_of(loaded.src[0])
    if is_masked and identity.arg == build.const(value.dtype, 0).arg:
        return value
    return UOp(Ops.WHERE, value.dtype, (guard, value, identity))


def at_position(root: UOp, one_hot: OneHot, position: UOp) -> UOp:
    """Return `root` at the selected position of the axis, which becomes an axis of size 1."""
    axis = one_hot.axis
    # An inner REDUCE over the same axis has its own counter.
    done = {node: node for node in root.toposort() if axis in reduced_axes(node)}
    done[one_hot.equality] = build.const(dtypes.bool, False)

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if isinstance(node.arg, ViewArg):
            return place_axis(node, tracker_of(node), src, axis, position)
        return _decide_condition(node.with_sources(src))

    return rebuild(root, change, done)


def _decide_condition(node: UOp) -> UOp:
    """Simplify a condition or a WHERE that the selected position decides."""
    if node.op is Ops.WHERE and isinstance(node.src[0].arg, ConstArg):
        return node.src[1] if node.src[0].arg.value else node.src[2]
    if node.op is Ops.AND and node.dtype.is_bool:
        for first, second in (node.src, node.src[::-1]):
            if first.arg == ConstArg(True):
                return second
    if node.op in ALU and all(isinstance(s.arg, ConstArg) for s in node.src):
        values = [source.arg.value for source in node.src if isinstance(source.arg, ConstArg)]
        folded = semantics.fold(node.op, node.dtype, values, [s.dtype for s in node.src])
        return build.const(node.dtype, folded)
    return node


def place_axis(
    node: UOp, tracker: ShapeTracker, src: tuple[UOp, ...], axis: int, position: UOp
) -> UOp:
    """Let an axis of a VIEW, VALID or IOTA take `position`; this axis becomes the last one."""
    shape = tracker.shape
    if is_one(shape[axis]):
        return node.with_sources(src)
    ones = (*shape[:axis], 1, *shape[axis + 1 :])
    if repeats(tracker, axis):
        cut = tracker.shrink(tuple((0, size) for size in ones))
        return node.replace(src=src, arg=ViewArg(cut))
    order = [other for other in range(len(shape)) if other != axis]
    placed = tracker.permute((*order, axis)).reshape((*ones, shape[axis]))
    return node.replace(src=(*src, position), arg=ViewArg(placed))
