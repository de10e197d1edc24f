"""One view: maps positions of a shape to elements of a buffer by strides, offset and mask."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn
from weakref import WeakValueDictionary

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.symbolic import (
    Extent,
    as_size,
    at_most,
    describe,
    describe_shape,
    highest,
    is_known,
    largest,
    lift,
    lower,
    lowest,
    normalise,
    product,
    smallest,
)
from tinyref.arrays import np, npt
from tinyref.errors import UserError
from tinyref.uops.node import UOp, sint, substitute

Shape = tuple[sint, ...]
# Half-open (begin, end) per axis: the positions that have an element.
Mask = tuple[tuple[sint, sint], ...]

_interned: WeakValueDictionary[tuple[object, ...], View] = WeakValueDictionary()
CACHE = 1 << 12


class View:
    """Map of position p to element `offset + sum(p[i] * strides[i])` if p lies within `mask`.

    Views are immutable and interned (equal views are one object). They are in normal form: an axis
    with one valid position has stride 0, and a mask that excludes nothing is None. A view without
    any valid position has offset 0 and strides 0. Sizes are ints or `index` nodes. Raises
    `UserError` for negative sizes, masks outside the shape, and members that differ in rank.
    """

    __slots__ = ("__weakref__", "is_contiguous", "mask", "offset", "shape", "strides")

    shape: Shape
    strides: Shape
    offset: sint
    mask: Mask | None
    is_contiguous: bool

    def __new__(
        cls, shape: Shape, strides: Shape, offset: sint = 0, mask: Mask | None = None
    ) -> View:
        existing = _interned.get((shape, strides, offset, mask))
        if existing is not None:
            return existing
        members = _normal_form(*_check_members(shape, strides, offset, mask))
        existing = _interned.get(members)
        if existing is not None:
            return existing
        view = object.__new__(cls)
        view.shape, view.strides, view.offset, view.mask = members
        view.is_contiguous = (
            view.mask is None
            and view.offset == 0
            and view.strides == contiguous_strides(view.shape)
        )
        return _interned.setdefault(members, view)

    def __repr__(self) -> str:
        mask = "None" if self.mask is None else describe_bounds(self.mask)
        strides = describe_shape(self.strides)
        shape = describe_shape(self.shape)
        return f"View({shape}, {strides}, {describe(self.offset)}, {mask})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("View: views do not pickle; save them with tinyref.formats.text")

    @staticmethod
    def contiguous(shape: Shape) -> View:
        """Return the row-major view of `shape`, from element 0 on."""
        return _contiguous(sizes_of("shape", shape))

    @property
    def size(self) -> sint:
        """Return the number of positions."""
        return product(self.shape)

    @property
    def touches_nothing(self) -> bool:
        """Return True if certainly no position is valid."""
        if any(size == 0 for size in self.shape):
            return True
        return self.mask is not None and any(
            begin is end or begin == end for begin, end in self.mask
        )

    def reach(self) -> tuple[int, int] | None:
        """Return the lowest and highest element of all valid positions; None if none is valid.

        For symbolic sizes these are bounds over all values of the variables.
        """
        ends = self.ends()
        return None if ends is None else (lowest(ends[0]), highest(ends[1]))

    def ends(self) -> tuple[Extent, Extent] | None:
        """Return the lowest and highest element as expressions; None if no position is valid."""
        if self.touches_nothing:
            return None
        low = high = lift(self.offset)
        for size, stride, bounds in self.axes():
            step = lift(stride)
            ends = (step * lift(bounds[0]), step * (lift(bounds[1]) - 1))
            if lowest(step) >= 0:
                low, high = low + ends[0], high + ends[1]
            elif highest(step) <= 0:
                low, high = low + ends[1], high + ends[0]
            else:
                steepest = max(abs(lowest(step)), abs(highest(step))) * highest(lift(size))
                low, high = low - steepest, high + steepest
        return low, high

    def axes(self) -> list[tuple[sint, sint, tuple[sint, sint]]]:
        """Return size, stride and mask of each axis; the mask is (0, size) where there is none."""
        mask = full_mask(self.shape) if self.mask is None else self.mask
        return list(zip(self.shape, self.strides, mask, strict=True))

    def numbers(self) -> list[sint]:
        """Return all sizes, strides and bounds, which may have symbolic variables."""
        bounds = () if self.mask is None else [end for pair in self.mask for end in pair]
        return [*self.shape, *self.strides, self.offset, *bounds]

    def substitute(self, mapping: Mapping[UOp, UOp]) -> View:
        """Replace nodes in the symbolic sizes of the view."""

        def new(value: sint) -> sint:
            return value if isinstance(value, int) else normalise(substitute(value, mapping))

        mask = None
        if self.mask is not None:
            mask = tuple((new(begin), new(end)) for begin, end in self.mask)
        return View(
            tuple(map(new, self.shape)), tuple(map(new, self.strides)), new(self.offset), mask
        )

    def numpy_indices(
        self, bindings: Mapping[str, int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return element number and validity of every position, both of the view's shape."""
        shape = tuple(value_of(size, bindings) for size in self.shape)
        indices, valid = self.numpy_indices_at(np.ix_(*map(np.arange, shape)), bindings)
        return np.broadcast_to(indices, shape), np.broadcast_to(valid, shape)

    def numpy_indices_at(
        self, positions: Sequence[npt.NDArray[np.int64]], bindings: Mapping[str, int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return element number and validity at `positions`, an array of positions per axis.

        The arrays broadcast together. No larger array is made, because a view may have more
        positions than fit in memory.
        """
        indices = np.array(value_of(self.offset, bindings), dtype=np.int64)
        valid = np.array(True)
        for along, (_, stride, (begin, end)) in zip(positions, self.axes(), strict=True):
            indices = indices + along * value_of(stride, bindings)
            if self.mask is not None:
                low, high = value_of(begin, bindings), value_of(end, bindings)
                valid = valid & (along >= low) & (along < high)
        return indices, valid

    # --- movement -------------------------------------------------------------------------------

    def permute(self, order: Sequence[int]) -> View:
        """Make axis `order[i]` axis i of the result."""
        return _permute(self, axes_of("permute", order))

    def expand(self, shape: Sequence[sint]) -> View:
        """Repeat axes of size 1 up to the sizes in `shape`."""
        return _expand(self, sizes_of("expand", shape))

    def pad(self, bounds: Sequence[tuple[sint, sint]]) -> View:
        """Add (before, after) positions without an element to each axis."""
        return _pad(self, _pairs("pad", self, bounds))

    def shrink(self, bounds: Sequence[tuple[sint, sint]]) -> View:
        """Keep the positions of each axis from begin to end, end excluded."""
        return _shrink(self, _pairs("shrink", self, bounds))

    def flip(self, axes: Iterable[int]) -> View:
        """Reverse these axes."""
        return _flip(self, axes_of("flip", axes))


def describe_bounds(bounds: Iterable[tuple[sint, sint]]) -> str:
    """Return bounds as the text of a tuple of pairs: `((0, 3), (1, n))`."""
    pairs = [f"({describe(begin)}, {describe(end)})" for begin, end in bounds]
    return f"({pairs[0]},)" if len(pairs) == 1 else f"({', '.join(pairs)})"


def contiguous_strides(shape: Shape) -> Shape:
    """Return row-major strides; 0 for axes of size 1, and for all axes if a size is 0."""
    if any(size == 0 for size in shape):
        return (0,) * len(shape)
    strides: list[sint] = []
    step: Extent = 1
    for size in reversed(shape):
        strides.append(0 if size == 1 else lower(step))
        step = step * lift(size)
    return tuple(reversed(strides))


def full_mask(shape: Shape) -> Mask:
    """Return the mask that excludes nothing."""
    return tuple((0, size) for size in shape)


@functools.lru_cache(maxsize=CACHE)
def _contiguous(shape: Shape) -> View:
    return View(shape, contiguous_strides(shape))


def nowhere(shape: Shape) -> View | None:
    """Return the view of `shape` without any valid position; None for rank 0, which has no mask."""
    rank = len(shape)
    return View(shape, (0,) * rank, 0, ((0, 0),) * rank) if rank else None


def _check_members(
    shape: Shape, strides: Shape, offset: sint, mask: Mask | None
) -> tuple[Shape, Shape, sint, Mask]:
    sizes = tuple(as_size(size, "view shape") for size in shape)
    steps = tuple(as_size(stride, "view strides") for stride in strides)
    if len(steps) != len(sizes):
        raise UserError(f"view: {len(sizes)} sizes against {len(steps)} strides")
    check_sizes("view", sizes)
    bounds = full_mask(sizes)
    if mask is not None:
        bounds = tuple(
            (as_size(begin, "view mask"), as_size(end, "view mask")) for begin, end in mask
        )
    if len(bounds) != len(sizes):
        raise UserError(f"view: {len(sizes)} sizes against {len(bounds)} bounds in the mask")
    for size, (begin, end) in zip(sizes, bounds, strict=True):
        low, high = lift(begin), lift(end)
        if is_known(0, low) is False or is_known(high, lift(size)) is False:
            text = f"{describe_bounds(bounds)} is not inside shape {describe_shape(sizes)}"
            raise UserError(f"view: mask {text}")
    return sizes, steps, as_size(offset, "view offset"), bounds


def check_sizes(what: str, shape: Shape) -> None:
    """Raise `UserError` that names the first negative size."""
    for axis, size in enumerate(shape):
        if lowest(lift(size)) < 0:
            text = describe(size)
            raise UserError(f"{what}: axis {axis} has size {text}, accepted are sizes from 0 up")


def _normal_form(
    shape: Shape, strides: Shape, offset: sint, mask: Mask
) -> tuple[Shape, Shape, sint, Mask | None]:
    rank = len(shape)
    if any(size == 0 for size in shape):
        return shape, (0,) * rank, 0, None
    if any(at_most(lift(end), lift(begin)) for begin, end in mask):
        return shape, (0,) * rank, 0, ((0, 0),) * rank
    start = lift(offset)
    steps: list[sint] = []
    for stride, (begin, end) in zip(strides, mask, strict=True):
        if stride != 0 and lift(end) - lift(begin) == 1:
            start = start + lift(stride) * lift(begin)
            stride = 0
        steps.append(stride)
    return shape, tuple(steps), lower(start), None if mask == full_mask(shape) else mask


# --- movement, cached by view and argument -------------------------------------------------------
#
# True, 1 and 1.0 are the same key of a cache, so sizes and axes are checked before the cache.


def sizes_of(rule: str, shape: Sequence[sint]) -> Shape:
    """Return sizes as integers or index nodes in normal form. Raises `UserError` for others."""
    return tuple(as_size(size, rule) for size in shape)


def axes_of(rule: str, axes: Iterable[int]) -> tuple[int, ...]:
    """Return axes as integers. Raises `UserError` for anything else, also for a bool."""
    axes = tuple(axes)
    if any(isinstance(axis, bool) or not hasattr(axis, "__index__") for axis in axes):
        raise UserError(f"{rule}: axes are integers, got {axes!r}")
    return tuple(operator.index(axis) for axis in axes)


def _pairs(
    rule: str, view: View, bounds: Sequence[tuple[sint, sint]]
) -> tuple[tuple[sint, sint], ...]:
    _same_rank(rule, view, len(bounds))
    for pair in bounds:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UserError(f"{rule}: bounds are pairs, got {pair!r}")
    return tuple((as_size(first, rule), as_size(second, rule)) for first, second in bounds)


def _same_rank(rule: str, view: View, got: int) -> None:
    if got != len(view.shape):
        raise UserError(
            f"{rule}: {got} entries for shape {describe_shape(view.shape)}, "
            f"accepted is one per axis, {len(view.shape)}"
        )


@functools.lru_cache(maxsize=CACHE)
def _permute(view: View, order: tuple[int, ...]) -> View:
    rank = len(view.shape)
    if sorted(order) != list(range(rank)):
        raise UserError(f"permute: order {order} is not a permutation of the {rank} axes")
    return View(
        tuple(view.shape[axis] for axis in order),
        tuple(view.strides[axis] for axis in order),
        view.offset,
        None if view.mask is None else tuple(view.mask[axis] for axis in order),
    )


@functools.lru_cache(maxsize=CACHE)
def _expand(view: View, shape: Shape) -> View:
    _same_rank("expand", view, len(shape))
    check_sizes("expand", shape)
    mask: list[tuple[sint, sint]] = []
    for axis, (have, want) in enumerate(zip(view.shape, shape, strict=True)):
        bounds = (0, have) if view.mask is None else view.mask[axis]
        if have != want:
            if have != 1:
                raise UserError(
                    f"expand: cannot grow axis {axis} from {describe(have)} to {describe(want)}: "
                    "only axes of size 1 expand"
                )
            bounds = (0, want) if bounds == (0, 1) else (0, 0)
        mask.append(bounds)
    return View(shape, view.strides, view.offset, tuple(mask))


@functools.lru_cache(maxsize=CACHE)
def _pad(view: View, bounds: tuple[tuple[sint, sint], ...]) -> View:
    offset = lift(view.offset)
    shape: list[sint] = []
    mask: list[tuple[sint, sint]] = []
    for axis, (size, stride, (begin, end)) in enumerate(view.axes()):
        before, after = (lift(bound) for bound in bounds[axis])
        if lowest(before) < 0 or lowest(after) < 0:
            raise UserError(
                f"pad: axis {axis} has bounds ({describe(lower(before))}, "
                f"{describe(lower(after))}), accepted are bounds from 0 up"
            )
        shape.append(lower(lift(size) + before + after))
        offset = offset - before * lift(stride)
        mask.append((lower(lift(begin) + before), lower(lift(end) + before)))
    return View(tuple(shape), view.strides, lower(offset), tuple(mask))


@functools.lru_cache(maxsize=CACHE)
def _shrink(view: View, bounds: tuple[tuple[sint, sint], ...]) -> View:
    offset = lift(view.offset)
    shape: list[sint] = []
    mask: list[tuple[sint, sint]] = []
    for axis, (size, stride, held) in enumerate(view.axes()):
        begin, end = (lift(bound) for bound in bounds[axis])
        inside = lowest(begin) >= 0 and at_most(begin, end) and at_most(end, lift(size))
        if not inside:
            raise UserError(
                f"shrink: axis {axis} of size {describe(size)} cannot keep "
                f"({describe(lower(begin))}, {describe(lower(end))}), "
                f"accepted is 0 <= begin <= end <= {describe(size)}"
            )
        length = end - begin
        first = smallest(largest(lift(held[0]) - begin, 0), length)
        last = smallest(largest(lift(held[1]) - begin, 0), length)
        shape.append(lower(length))
        offset = offset + begin * lift(stride)
        mask.append((lower(first), lower(last)))
    return View(tuple(shape), view.strides, lower(offset), tuple(mask))


@functools.lru_cache(maxsize=CACHE)
def _flip(view: View, axes: tuple[int, ...]) -> View:
    rank = len(view.shape)
    if len(set(axes)) != len(axes) or not all(axis in range(rank) for axis in axes):
        raise UserError(f"flip: axes {axes} of {rank}, accepted are different axes from 0 up")
    offset = lift(view.offset)
    strides = list(view.strides)
    mask = list(full_mask(view.shape) if view.mask is None else view.mask)
    for axis in axes:
        size = lift(view.shape[axis])
        begin, end = mask[axis]
        offset = offset + (size - 1) * lift(strides[axis])
        strides[axis] = lower(-lift(strides[axis]))
        mask[axis] = (lower(size - lift(end)), lower(size - lift(begin)))
    return View(view.shape, tuple(strides), lower(offset), tuple(mask))
