"""Shape trackers: a chain of views that maps a shape to a flat buffer."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn
from weakref import WeakValueDictionary

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.linear import LinearForm, modular, to_node
from tinyref.algebra.rewrite import uncached
from tinyref.algebra.simplify import simplify
from tinyref.algebra.symbolic import (
    Extent,
    Polynomial,
    as_node,
    describe,
    describe_shape,
    is_known,
    lift,
    lower,
    variables_of,
)
from tinyref.arrays import np, npt
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import (
    AxisKind,
    BoundsArg,
    FlipArg,
    Payload,
    PermuteArg,
    ShapeArg,
    ViewArg,
)
from tinyref.views.composition import compose, reshape
from tinyref.views.view import CACHE, Shape, View

_interned: WeakValueDictionary[tuple[View, ...], ShapeTracker] = WeakValueDictionary()


class ShapeTracker:
    """Chain of views: the last one has the shape, the first one maps to elements of the buffer.

    Each view maps a position to a row-major position of the view before it. A position is valid
    if the masks of all views admit it; an invalid position reads as 0. Trackers are immutable and
    interned. Raises `UserError` if a view reaches outside the view before it.
    """

    __slots__ = ("__weakref__", "views")

    views: tuple[View, ...]

    def __new__(cls, views: tuple[View, ...]) -> ShapeTracker:
        existing = _interned.get(views)
        if existing is not None:
            return existing
        _check_chain(views)
        tracker = object.__new__(cls)
        tracker.views = views
        return _interned.setdefault(views, tracker)

    def __repr__(self) -> str:
        return f"ShapeTracker({', '.join(map(repr, self.views))})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ShapeTracker: trackers do not pickle; serialise the node that holds it")

    @staticmethod
    def from_shape(shape: Sequence[sint]) -> ShapeTracker:
        """Return the tracker of a buffer in row-major order from its first element."""
        return ShapeTracker((View.contiguous(tuple(shape)),))

    @property
    def shape(self) -> Shape:
        """Return the shape of the last view."""
        return self.views[-1].shape

    @property
    def is_masked(self) -> bool:
        """Return True if a view has a mask."""
        return any(view.mask is not None for view in self.views)

    # --- movement -------------------------------------------------------------------------------

    def _with_last(self, view: View) -> ShapeTracker:
        if len(self.views) == 1:
            return ShapeTracker((view,))
        return ShapeTracker((*self.views[:-1], view)).simplify()

    def reshape(self, shape: Sequence[sint]) -> ShapeTracker:
        """Give the positions another shape, in row-major order. Raises `UserError` on sizes."""
        merged = reshape(self.views[-1], tuple(shape))
        if merged is not None:
            return self._with_last(merged)
        return ShapeTracker((*self.views, View.contiguous(tuple(shape)))).simplify()

    def permute(self, order: Sequence[int]) -> ShapeTracker:
        """Make axis `order[i]` axis i of the result. Raises `UserError` if not a permutation."""
        return self._with_last(self.views[-1].permute(order))

    def expand(self, shape: Sequence[sint]) -> ShapeTracker:
        """Repeat axes of size 1 up to `shape`. Raises `UserError` for other axes."""
        return self._with_last(self.views[-1].expand(shape))

    def pad(self, bounds: Sequence[tuple[sint, sint]]) -> ShapeTracker:
        """Add (before, after) invalid positions to each axis. Raises `UserError` below 0."""
        return self._with_last(self.views[-1].pad(bounds))

    def shrink(self, bounds: Sequence[tuple[sint, sint]]) -> ShapeTracker:
        """Keep positions begin to end, end excluded, of each axis. Raises `UserError` outside."""
        return self._with_last(self.views[-1].shrink(bounds))

    def flip(self, axes: Iterable[int]) -> ShapeTracker:
        """Reverse these axes. Raises `UserError` for an axis that does not exist."""
        return self._with_last(self.views[-1].flip(axes))

    # --- laws -----------------------------------------------------------------------------------

    def followed_by(self, second: ShapeTracker) -> ShapeTracker:
        """Return the tracker that maps a position through `second` and then through this one.

        Elements of `second` are row-major positions of this tracker. Raises `UserError` if `second`
        reaches outside this tracker's size.
        """
        return ShapeTracker((*self.views, *second.views)).simplify()

    def simplify(self) -> ShapeTracker:
        """Merge neighbouring views where one view can replace both; the mapping is the same."""
        return self if len(self.views) == 1 else _simplify(self)

    # --- facts ----------------------------------------------------------------------------------

    def real_strides(self) -> tuple[sint | None, ...]:
        """Return how many elements a step along each axis moves in the buffer; None if it varies.

        Only valid positions count. An axis of size 1 has stride 0.
        """
        return self.views[0].strides if len(self.views) == 1 else uncached(_real_strides)(self)

    def reach(self) -> tuple[int, int] | None:
        """Return the lowest and highest element of the buffer that is accessed; None if none is.

        The result is exact for one view of integer sizes, else it is bounds.
        """
        return _reach(self)

    def real_size(self) -> int:
        """Return the highest element of the buffer that may be accessed plus one; 0 for none."""
        reach = self.reach()
        return 0 if reach is None else reach[1] + 1

    def index_and_valid(self, positions: Sequence[UOp] | None = None) -> tuple[UOp, UOp]:
        """Return the element's number (dtype index) and its validity (dtype bool), simplified.

        `positions` are `index` nodes, one per axis; by default RANGE i of kind LOOP counts axis i.
        The number has a meaning only where the second node is true. Raises `UserError` for another
        count of positions.
        """
        if positions is None:
            positions = _counters(self.shape)
        if len(positions) != len(self.shape):
            raise UserError(
                f"index: {len(positions)} positions for shape {describe_shape(self.shape)}"
            )
        return uncached(_index_and_valid)(self, tuple(positions))

    def numpy_indices(
        self, bindings: Mapping[str, int] | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return element number (0 where invalid) and validity, both arrays of this shape.

        `bindings` has values of symbolic variables by name. Raises `UserError` if one is missing.
        This function is independent of `index_and_valid`.
        """
        values = {} if bindings is None else bindings
        indices, valid = self.views[-1].numpy_indices(values)
        for view in self.views[-2::-1]:
            shape = tuple(value_of(size, values) for size in view.shape)
            if not valid.any():
                break
            positions = np.unravel_index(np.where(valid, indices, 0), shape) if shape else ()
            elements, inner_valid = view.numpy_indices_at(positions, values)
            indices, valid = np.broadcast_to(elements, valid.shape), valid & inner_valid
        return np.where(valid, indices, 0), np.array(valid)

    def variables(self) -> tuple[UOp, ...]:
        """Return the symbolic variables in any size, in the order of their names."""
        numbers = [number for view in self.views for number in view.numbers()]
        return tuple(sorted(variables_of(numbers), key=lambda node: str(node.arg)))

    def substitute(self, mapping: Mapping[UOp, UOp]) -> ShapeTracker:
        """Replace nodes of the symbolic sizes, and simplify the result."""
        return ShapeTracker(tuple(view.substitute(mapping) for view in self.views)).simplify()


def _check_chain(views: tuple[View, ...]) -> None:
    if not views:
        raise UserError("tracker: got no view, accepted is one or more")
    for number, (inner, outer) in enumerate(itertools.pairwise(views), start=1):
        if outer.is_contiguous and outer.size == inner.size:
            continue
        ends = outer.ends()
        if ends is None:
            continue
        low, high = ends
        # If symbolic ends cannot be compared, the verifier checks the bounds of the expression.
        if is_known(0, low) is False or is_known(high + 1, lift(inner.size)) is False:
            raise UserError(
                f"tracker: view {number} reaches elements {describe(lower(low))} to "
                f"{describe(lower(high))} of the {describe(inner.size)} of the view before it"
            )


@functools.lru_cache(maxsize=CACHE)
def _simplify(tracker: ShapeTracker) -> ShapeTracker:
    views = list(tracker.views)
    # One merge can make another one possible, so the loop ends after a pass without a merge.
    merged = True
    while merged and len(views) > 1:
        merged = False
        for number in range(len(views) - 1, 0, -1):
            composed = compose(views[number], views[number - 1])
            if composed is not None:
                views[number - 1 : number + 1] = [composed]
                merged = True
                break
    return ShapeTracker(tuple(views))


@functools.lru_cache(maxsize=CACHE)
def _index_and_valid(tracker: ShapeTracker, positions: tuple[UOp, ...]) -> tuple[UOp, UOp]:
    conditions: list[UOp] = []
    index = _flat(tracker.views[-1], positions, conditions)
    for view in tracker.views[-2::-1]:
        index = _flat(view, _unflatten(index, view.shape), conditions)
    valid = build.const(dtypes.bool, True)
    for condition in conditions:
        valid = condition if valid.op is Ops.CONST else build.both(valid, condition)
    return simplify(index), simplify(valid)


def _counters(shape: Shape) -> list[UOp]:
    """Return a RANGE for each axis that counts its positions."""
    return [build.counter(size, axis, AxisKind.LOOP) for axis, size in enumerate(shape)]


def _flat(view: View, positions: Sequence[UOp], conditions: list[UOp]) -> UOp:
    """Return the element of `view` at `positions`; append its mask as nodes to `conditions`."""
    if view.touches_nothing:
        conditions.append(build.const(dtypes.bool, False))
        return build.const(dtypes.index, 0)
    total = _element_number(positions, view.strides, view.offset)
    for position, size, bounds in zip(positions, view.shape, view.mask or (), strict=False):
        if bounds[0] != 0:
            conditions.append(build.at_least(position, as_node(bounds[0])))
        if bounds[1] != size:
            conditions.append(build.less(position, as_node(bounds[1])))
    return total


def _element_number(positions: Sequence[UOp], strides: Shape, offset: sint) -> UOp:
    """Return the sum of positions times strides plus the offset; its known part in normal form."""
    known = LinearForm({}, 0)
    others: list[UOp] = []
    for position, stride in zip(positions, strides, strict=True):
        if stride == 0:
            continue
        if isinstance(stride, int):
            known = known.plus(modular(position), stride)
        else:
            others.append(build.mul(position, as_node(stride)))
    if isinstance(offset, int):
        known = known.plus(LinearForm({}, offset))
    else:
        others.append(as_node(offset))
    return functools.reduce(build.add, others, to_node(dtypes.index, known))


def _unflatten(index: UOp, shape: Shape) -> list[UOp]:
    """Split the row-major position `index` into a position on each axis of `shape`."""
    positions: list[UOp] = []
    for size in reversed(shape[1:]):
        if size == 1:
            positions.append(build.const(dtypes.index, 0))
            continue
        positions.append(build.mod(index, as_node(size)))
        index = build.idiv(index, as_node(size))
    if shape:
        positions.append(build.const(dtypes.index, 0) if shape[0] == 1 else index)
    return positions[::-1]


@functools.lru_cache(maxsize=CACHE)
def _real_strides(tracker: ShapeTracker) -> tuple[sint | None, ...]:
    if any(view.touches_nothing for view in tracker.views):
        return (0,) * len(tracker.shape)
    counters = _counters(tracker.shape)
    index = lift(tracker.index_and_valid(counters)[0])
    terms = index.terms if isinstance(index, Polynomial) else {}
    strides: list[sint | None] = []
    for size, counter in zip(tracker.shape, counters, strict=True):
        stride = 0 if size == 1 else lift(0)
        for monomial, coefficient in terms.items():
            if size == 1 or not any(counter in atom.toposort() for atom in monomial):
                continue
            rest = list(monomial)
            if counter in rest:
                rest.remove(counter)
            if any(counter in atom.toposort() for atom in rest):
                strides.append(None)
                break
            stride = stride + _monomial(rest, coefficient)
        else:
            strides.append(lower(stride))
    return tuple(strides)


def _monomial(atoms: list[UOp], coefficient: int) -> Extent:
    return functools.reduce(lambda total, atom: total * lift(atom), atoms, lift(coefficient))


@functools.lru_cache(maxsize=CACHE)
def _reach(tracker: ShapeTracker) -> tuple[int, int] | None:
    if any(view.touches_nothing for view in tracker.views):
        return None
    return tracker.simplify().views[0].reach()


# --- movement ops -------------------------------------------------------------------------------

_MOVES: dict[Ops, Callable[[ShapeTracker, Payload], ShapeTracker | None]] = {
    Ops.RESHAPE: lambda t, arg: t.reshape(arg.shape) if isinstance(arg, ShapeArg) else None,
    Ops.EXPAND: lambda t, arg: t.expand(arg.shape) if isinstance(arg, ShapeArg) else None,
    Ops.PERMUTE: lambda t, arg: t.permute(arg.order) if isinstance(arg, PermuteArg) else None,
    Ops.PAD: lambda t, arg: t.pad(arg.bounds) if isinstance(arg, BoundsArg) else None,
    Ops.SHRINK: lambda t, arg: t.shrink(arg.bounds) if isinstance(arg, BoundsArg) else None,
    Ops.FLIP: lambda t, arg: t.flip(arg.axes) if isinstance(arg, FlipArg) else None,
}


def apply_movement(tracker: ShapeTracker, op: Ops, payload: Payload) -> ShapeTracker:
    """Apply an op of `ops.MOVEMENT` with its payload to `tracker`.

    Raises `UserError` for another op or payload, and if the movement refuses its argument.
    """
    move = _MOVES.get(op)
    moved = move(tracker, payload) if move is not None else None
    if moved is None:
        raise UserError(f"movement: cannot move by {op.name} with payload {payload!r}")
    return moved


def tracker_of(view: UOp | Payload) -> ShapeTracker:
    """Return the tracker of a VIEW, VALID or IOTA, or of its payload."""
    payload = view.arg if isinstance(view, UOp) else view
    if isinstance(payload, ViewArg) and isinstance(payload.tracker, ShapeTracker):
        return payload.tracker
    raise TypeError(f"{view!r} has no view")
