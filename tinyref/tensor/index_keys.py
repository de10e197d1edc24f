"""Keys of `tensor[key]`: integers, slices, None, Ellipsis, and what is looked up.

The parts of a key that are no tensors go first, as one view; then one lookup serves all tensors:
their axes are joined to one, and so are their places on it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import Array, np
from tinyref.dtype import dtypes
from tinyref.errors import UserError, UserIndexError, UserTypeError
from tinyref.tensor import literals
from tinyref.tensor.arguments import Bounds, Shape, broadcast, fixed, integer
from tinyref.tensor.data import Data
from tinyref.tensor.variable import place_bounds, slice_bounds
from tinyref.uops.node import UOp, sint

IntegerIndex: TypeAlias = "Data | Array"
WHOLE = slice(None)


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
        place = None if isinstance(item, bool | Data) else operator.index(item)  # type: ignore[arg-type]
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """An axis, of the tensor as the basic part of the key leaves it, and the places taken of it.

    A tensor without axes takes its axis away, as an integer does.
    """

    axis: int
    index: IntegerIndex

    @property
    def takes_axis_away(self) -> bool:
        return self.index.ndim == 0


@dataclass(frozen=True, slots=True)
class AdvancedKey:
    """A key in two parts: what views do, and what has to be looked up after that."""

    basic: tuple[object, ...]
    chosen: tuple[Chosen, ...]

    @property
    def is_whole(self) -> bool:
        """True where the basic part changes nothing."""
        return all(isinstance(item, slice) and item == WHOLE for item in self.basic)


def is_advanced(item: object) -> bool:
    """True for what numpy would make an array of: tensors, arrays, lists, tuples, ranges, bools.

    An integer array of numpy without axes is a number.
    """
    if isinstance(item, np.ndarray):
        return item.ndim > 0 or item.dtype == np.bool_
    return isinstance(item, Data | list | tuple | range | bool | np.bool_)


def items_of(key: object) -> list[object]:
    """The items of a key: a tuple has one for each axis, anything else is one item.

    A list that holds a tensor, a slice, None or an Ellipsis is a tuple, as in torch.
    """
    if isinstance(key, list) and any(map(_is_item, key)):
        return key
    return list(key) if isinstance(key, tuple) else [key]


def _is_item(part: object) -> bool:
    """Return True if `part` of a list makes that list a tuple of items."""
    return part is None or part is Ellipsis or isinstance(part, Data | slice)


def as_index(item: object) -> IntegerIndex:
    """A tensor as it is, anything else as an array. Raises `UserError` for other element types."""
    if isinstance(item, Data):
        dtype = item.dtype
        found: IntegerIndex = item
    elif isinstance(item, np.ndarray):
        found, dtype = literals.from_numpy(item, None)
    elif literals.holds(item, Data):
        tensor = next(part for part in literals.leaves(item) if isinstance(part, Data))
        maker: Any = type(tensor)
        return as_index(maker(item))
    else:
        listed = list(item) if isinstance(item, range) else item
        try:
            is_whole = all(type(number) is int for number in literals.leaves(listed))
            found, dtype = literals.from_list(listed, dtypes.int64 if is_whole else None)
        except UserError as error:
            raise UserError(f"index: {error}") from None
        if not found.size:
            found, dtype = found.astype(np.int32), dtypes.int32
    if not (dtype.is_int or dtype.is_bool):
        raise UserTypeError(f"index: got {dtype.name} elements: accepted are integers and bools")
    return found


def split_key(shape: Shape, key: object) -> AdvancedKey:
    """`key` against a tensor of `shape`. Reads the elements of masks.

    Raises `UserError` for too many indices, and masks and places that do not fit.
    """
    items = [as_index(item) if is_advanced(item) else item for item in items_of(key)]
    taken = sum(_axes_taken(item) for item in items)
    if taken > len(shape):
        raise UserIndexError(f"index: {taken} indices for {len(shape)} axes")
    basic: list[object] = []
    chosen: list[Chosen] = []
    place = 0  # the axis of the tensor
    axis = 0  # the axis after the basic part
    for item in items:
        if isinstance(item, Data | np.ndarray):
            arrays = _places_of_mask(item, shape, place)
            count = _axes_taken(item)
            # A bool without axes is the mask of a new axis of size 1.
            sizes = fixed(shape[place : place + count], "index") if count else (1,)
            for offset, array in enumerate(arrays):
                chosen.append(
                    Chosen(axis + offset, _check_index(array, sizes[offset], place + offset))
                )
            basic += [WHOLE] * count if count else [None]
            place += count
            axis += len(arrays)
            continue
        basic.append(item)
        step = len(shape) - taken if item is Ellipsis else _axes_taken(item)
        place += step
        axis += step if item is Ellipsis or isinstance(item, slice) else int(item is None)
    return AdvancedKey(tuple(basic), tuple(chosen))


def _axes_taken(item: object) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Data):
        return item.ndim if item.dtype.is_bool else 1
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype == np.bool_ else 1
    return 1


def _places_of_mask(item: IntegerIndex, shape: Shape, place: int) -> Sequence[IntegerIndex]:
    """The indices of the true elements, one for each axis of a mask; integers as they are.

    A mask without axes gives one array: of the place 0, or empty.
    """
    is_mask = item.dtype.is_bool if isinstance(item, Data) else item.dtype == np.bool_
    if not is_mask:
        return [item]
    check_mask(item.shape, shape[place : place + item.ndim])
    elements = item.numpy() if isinstance(item, Data) else item
    return [places.astype(np.int32) for places in np.nonzero(np.atleast_1d(elements))]


def check_mask(shape: Shape, covered: Shape) -> None:
    """Raises `UserError` unless a mask has the shape of the axes that it stands for."""
    if tuple(shape) != tuple(covered):
        raise UserIndexError(
            f"index: a mask of {describe_shape(shape)} "
            f"for axes of {describe_shape(covered)}: they must be equal"
        )


def _check_index(index: IntegerIndex, size: int, axis: int) -> IntegerIndex:
    """Places that are known are checked now, and counted from 0."""
    if isinstance(index, Data):
        return index
    # As integers of Python, which no type of numpy wraps.
    ends = (int(index.min()), int(index.max())) if index.size else ()
    for place in ends:
        if not -size <= place < size:
            limits = f"{-size} to {size - 1}" if size else "none: the axis is empty"
            raise UserIndexError(f"index: {place} is outside axis {axis}: accepted are {limits}")
    wide = index.astype(np.int64)
    return np.where(wide < 0, wide + size, wide)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a lookup in a tensor goes, and where the axes of its result are.

    axes: those that are looked up, of `sizes`; others: the axes beside, of the sizes `rest`;
    shape: of the places, which is in the result's shape from axis `begin` on.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    others: tuple[int, ...]
    rest: Shape
    shape: Shape
    begin: int

    @property
    def size(self) -> int:
        """The number of elements to choose from."""
        return math.prod(self.sizes)

    @property
    def count(self) -> int:
        """The number of places. Raises `UserError` where it is symbolic."""
        return math.prod(fixed(self.shape, "assignment by index"))


def layout_of(shape: Shape, chosen: Sequence[Chosen]) -> Layout:
    """Indices next to each other leave their result in place; others move it to the front.

    An axis that is taken away does not count, as with torch; with numpy it does.
    """
    axes = tuple(item.axis for item in chosen)
    sizes = fixed(tuple(shape[axis] for axis in axes), "index")
    places = broadcast([tuple(item.index.shape) for item in chosen], "index")
    away = {item.axis for item in chosen if item.takes_axis_away}
    left = [axis for axis in range(len(shape)) if axis not in away]
    taken = [number for number, axis in enumerate(left) if axis in axes]
    is_adjacent = bool(taken) and taken == list(range(taken[0], taken[-1] + 1))
    others = tuple(axis for axis in range(len(shape)) if axis not in axes)
    rest = tuple(shape[axis] for axis in others)
    return Layout(axes, sizes, others, rest, places, taken[0] if is_adjacent else 0)


def _is_mask(item: object) -> bool:
    return isinstance(item, Data) and item.dtype.is_bool
