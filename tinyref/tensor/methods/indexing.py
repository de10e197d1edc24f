"""Indexing by integers, slices, None and Ellipsis: reading it, and where it writes."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tinyref.algebra.symbolic import describe_shape
from tinyref.errors import UserError, UserIndexError, UserTypeError
from tinyref.tensor.arguments import Bounds, Shape, broadcast, fixed, integer
from tinyref.tensor.methods.contraction import Contraction
from tinyref.tensor.variable import place_bounds, slice_bounds
from tinyref.uops.node import UOp, sint


@dataclass(frozen=True, slots=True)
class AxisIndex:
    """What an index takes of one axis: from `begin` to before `end`, turned around where
    `is_flipped`, then every `step`-th; an integer takes one element.
    """

    begin: sint
    end: sint
    step: int = 1
    is_flipped: bool = False

    @property
    def count(self) -> sint:
        """How many elements are taken."""
        span = self.end - self.begin
        return span if self.step == 1 else -(-span // self.step)


@dataclass(frozen=True, slots=True)
class Index:
    """A whole index: one entry for each axis of the tensor, and the shape of the result."""

    axes: tuple[AxisIndex, ...]
    shape: Shape

    @property
    def bounds(self) -> Bounds:
        return tuple((axis.begin, axis.end) for axis in self.axes)

    @property
    def flipped_axes(self) -> tuple[int, ...]:
        return tuple(number for number, axis in enumerate(self.axes) if axis.is_flipped)


def parse_index(shape: Shape, key: object) -> Index:
    """`key` of an indexing expression, against a tensor of `shape`.

    Raises `UserError` for more indices than axes, integers out of range, a step of 0, two
    Ellipses, and indices of other types.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    items = list(_without_ellipsis(items, len(shape)))
    axes: list[AxisIndex] = []
    result: list[sint] = []
    for item in items:
        if item is None:
            result.append(1)
            continue
        number = len(axes)
        size = shape[number]
        if isinstance(item, slice):
            axes.append(_slice_index(item, size))
            result.append(axes[-1].count)
        elif isinstance(item, UOp):
            axes.append(AxisIndex(*place_bounds(item, size, number)))
        else:
            axes.append(_integer_index(item, size, number))
    return Index(tuple(axes), tuple(result))


def _without_ellipsis(items: list[object], ndim: int) -> Iterator[object]:
    """The items with the Ellipsis, or the missing end, spelled out as whole slices."""
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    ellipses = sum(1 for item in items if item is Ellipsis)
    if ellipses > 1:
        raise UserIndexError("index: more than one Ellipsis")
    if used > ndim:
        raise UserIndexError(f"index: {used} indices for {ndim} axes")
    rest = [slice(None)] * (ndim - used)
    for item in items:
        if item is Ellipsis:
            yield from rest
        else:
            yield item
    if not ellipses:
        yield from rest


def _slice_index(item: slice, size: sint) -> AxisIndex:
    if isinstance(size, UOp) or isinstance(item.start, UOp) or isinstance(item.stop, UOp):
        return AxisIndex(*slice_bounds(item, size))
    for part in (item.start, item.stop, item.step):
        if part is not None:
            integer(part, "index: a slice")
    if item.step is not None and operator.index(item.step) == 0:
        raise UserError("index: a slice with step 0: accepted is any other integer")
    places = range(*item.indices(size))
    if not len(places):
        return AxisIndex(0, 0)
    if places.step > 0:
        return AxisIndex(places[0], places[-1] + 1, places.step)
    return AxisIndex(places[-1], places[0] + 1, -places.step, is_flipped=True)


def _integer_index(item: object, size: sint, axis: int) -> AxisIndex:
    try:
        # An array of numpy has the method too, and refuses when it is called.
        place = None if isinstance(item, bool | Contraction) else operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        place = None
    if place is None:
        raise UserTypeError(
            f"index: got a {type(item).__name__}: accepted are integers, slices, None, Ellipsis, "
            f"bools, and tensors, arrays or lists of integers or bools"
        )
    if isinstance(size, UOp):
        return AxisIndex(*place_bounds(place, size, axis))
    if not -size <= place < size:
        limits = f"{-size} to {size - 1}" if size else "none: the axis is empty"
        raise UserIndexError(f"index: {place} is outside axis {axis}: accepted are {limits}")
    place %= size
    return AxisIndex(place, place + 1)


class Indexing(Contraction):
    """`tensor[...]` is a tensor of its own; `tensor[...] = value` gives this one new elements."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Self:
        index = parse_index(self.shape, key)
        result = self._shrink(index.bounds)
        if index.flipped_axes:
            result = result._flip(index.flipped_axes)
        for number, axis in enumerate(index.axes):
            result = result._every_element(number, axis.step)
        return result._reshape(index.shape)

    def __iter__(self) -> Iterator[Self]:
        if not self.ndim:
            raise UserTypeError("iteration: a tensor without axes has no elements to go through")
        return (self[place] for place in range(fixed(self.shape[:1], "iteration")[0]))

    def _assignment_target(self, key: object, value: Self) -> tuple[Self, Self | None, Self]:
        """The view that `key` shows, which of its elements are written (None is all), and what
        they get of `value`, which broadcasts to them.
        """
        target = Indexing.__getitem__(self, key)
        return target, None, value._cast(self.dtype)._spread_over(target.shape)

    def _spread_over(self, shape: Shape) -> Self:
        """Broadcast to `shape`; axes of size 1 in front that it does not have are dropped."""
        needless = self.ndim - len(shape)
        fits = self
        if needless > 0 and all(size == 1 for size in self.shape[:needless]):
            fits = self._reshape(self.shape[needless:])
        if broadcast([fits.shape, shape], "assignment by index") != shape:
            raise UserError(
                f"assignment by index: shape {describe_shape(self.shape)} "
                f"does not fit {describe_shape(shape)}"
            )
        return fits._broadcast_to(shape)

    def _spread_elements(self, axis: int, step: int, length: sint) -> Self:
        """The inverse of `_every_element`: `step - 1` zeros after each element, cut to `length`."""
        if step == 1:
            return self
        before, (count, *after) = self.shape[:axis], self.shape[axis:]
        bounds = [(0, 0)] * (self.ndim + 1)
        bounds[axis + 1] = (0, step - 1)
        rows = self._reshape((*before, count, 1, *after))._pad(tuple(bounds))
        total = fixed((count,), "assignment by index")[0] * step
        whole = rows._reshape((*before, total, *after))
        return whole._part(axis, 0, fixed((length,), "assignment by index")[0])
