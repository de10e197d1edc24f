"""Keys of `tensor[key]`: integers, slices, None, Ellipsis, and indices in tensors.

The parts of a key that are no tensors are applied first, as one view. Then one lookup does all
indices in tensors: their axes are joined to one axis, and so are the indices.
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
from tinyref.tensor.variable import bounds_of_index, slice_bounds
from tinyref.uops.node import UOp, sint

IntegerIndex: TypeAlias = "Data | Array"
WHOLE = slice(None)


@dataclass(frozen=True, slots=True)
class AxisIndex:
    """The elements of one axis that a slice selects: from `begin` to before `end`.

    With `is_flipped` they are reversed, then every `step`-th is taken. An integer is a slice of one
    element.
    """

    begin: sint
    end: sint
    step: int = 1
    is_flipped: bool = False

    @property
    def count(self) -> sint:
        """Return the number of selected elements."""
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
    """Return the index that `key` is for a tensor of `shape`.

    Raises `UserError` for more indices than axes, an integer out of range, a step of 0, two
    Ellipses, and an index of another type.
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
            axes.append(AxisIndex(*bounds_of_index(item, size, number)))
        else:
            axes.append(_integer_index(item, size, number))
    return Index(tuple(axes), tuple(result))


def _without_ellipsis(items: list[object], ndim: int) -> Iterator[object]:
    """Yield the items, with whole slices for the Ellipsis or for missing items at the end."""
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
    positions = range(*item.indices(size))
    if not len(positions):
        return AxisIndex(0, 0)
    if positions.step > 0:
        return AxisIndex(positions[0], positions[-1] + 1, positions.step)
    return AxisIndex(positions[-1], positions[0] + 1, -positions.step, is_flipped=True)


def _integer_index(item: object, size: sint, axis: int) -> AxisIndex:
    try:
        # A numpy array has `__index__` too, which raises an error if the array has axes.
        index = None if isinstance(item, bool | Data) else operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        index = None
    if index is None:
        raise UserTypeError(
            f"index: got a {type(item).__name__}: accepted are integers, slices, None, Ellipsis, "
            f"bools, and tensors, arrays or lists of integers or bools"
        )
    if isinstance(size, UOp):
        return AxisIndex(*bounds_of_index(index, size, axis))
    _check_range(index, size, axis)
    index %= size
    return AxisIndex(index, index + 1)


def _check_range(index: int, size: int, axis: int) -> None:
    if not -size <= index < size:
        limits = f"{-size} to {size - 1}" if size else "none: the axis is empty"
        raise UserIndexError(f"index: {index} is outside axis {axis}: accepted are {limits}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """An axis of the tensor after the basic part of the key, and the indices into it.

    Like an integer, an index tensor without axes removes its axis.
    """

    axis: int
    index: IntegerIndex

    @property
    def removes_axis(self) -> bool:
        return self.index.ndim == 0


@dataclass(frozen=True, slots=True)
class AdvancedKey:
    """A key in two parts: a basic part, which is a view, and indices to look up after it."""

    basic: tuple[object, ...]
    chosen: tuple[Chosen, ...]

    @property
    def is_whole(self) -> bool:
        """Return True if the basic part changes nothing."""
        return all(isinstance(item, slice) and item == WHOLE for item in self.basic)


def is_advanced(item: object) -> bool:
    """Return True for an item that needs a lookup: tensors, arrays, lists, tuples, ranges, bools.

    A numpy array of one integer without axes counts as a number.
    """
    if isinstance(item, np.ndarray):
        return item.ndim > 0 or item.dtype == np.bool_
    return isinstance(item, Data | list | tuple | range | bool | np.bool_)


def items_of(key: object) -> list[object]:
    """Return the items of a key. A tuple has several items, anything else is one item.

    As in torch, a list counts as a tuple if it has a tensor, a slice, None or an Ellipsis.
    """
    if isinstance(key, list) and any(map(_is_item, key)):
        return key
    return list(key) if isinstance(key, tuple) else [key]


def _is_item(part: object) -> bool:
    """Return True if `part` of a list makes that list count as a tuple of items."""
    return part is None or part is Ellipsis or isinstance(part, Data | slice)


def as_index(item: object) -> IntegerIndex:
    """Return a tensor unchanged, and other items as an array. Raises `UserError` for floats."""
    if isinstance(item, Data):
        dtype = item.dtype
        index: IntegerIndex = item
    elif isinstance(item, np.ndarray):
        index, dtype = literals.from_numpy(item, None)
    elif literals.holds(item, Data):
        tensor = next(part for part in literals.leaves(item) if isinstance(part, Data))
        maker: Any = type(tensor)
        return as_index(maker(item))
    else:
        listed = list(item) if isinstance(item, range) else item
        try:
            is_whole = all(type(number) is int for number in literals.leaves(listed))
            index, dtype = literals.from_list(listed, dtypes.int64 if is_whole else None)
        except UserError as error:
            raise UserError(f"index: {error}") from None
        if not index.size:
            index, dtype = index.astype(np.int32), dtypes.int32
    if not (dtype.is_int or dtype.is_bool):
        raise UserTypeError(f"index: got {dtype.name} elements: accepted are integers and bools")
    return index


def split_key(shape: Shape, key: object) -> AdvancedKey:
    """Split `key` for a tensor of `shape`. This reads the elements of masks.

    Raises `UserError` for too many indices, and for a mask or an index that does not fit.
    """
    items = [as_index(item) if is_advanced(item) else item for item in items_of(key)]
    taken = sum(_axes_taken(item) for item in items)
    if taken > len(shape):
        raise UserIndexError(f"index: {taken} indices for {len(shape)} axes")
    basic: list[object] = []
    chosen: list[Chosen] = []
    old_axis = 0  # the axis of the tensor
    axis = 0  # the axis after the basic part
    for item in items:
        if isinstance(item, Data | np.ndarray):
            arrays = _places_of_mask(item, shape, old_axis)
            count = _axes_taken(item)
            # A bool without axes is the mask of a new axis of size 1.
            sizes = fixed(shape[old_axis : old_axis + count], "index") if count else (1,)
            for offset, array in enumerate(arrays):
                chosen.append(
                    Chosen(axis + offset, _check_index(array, sizes[offset], old_axis + offset))
                )
            basic += [WHOLE] * count if count else [None]
            old_axis += count
            axis += len(arrays)
            continue
        basic.append(item)
        step = len(shape) - taken if item is Ellipsis else _axes_taken(item)
        old_axis += step
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


def _places_of_mask(item: IntegerIndex, shape: Shape, axis: int) -> Sequence[IntegerIndex]:
    """Return the indices of the true elements for each axis of a mask; integers unchanged.

    A mask without axes gives one array, which has the index 0 or is empty.
    """
    is_mask = item.dtype.is_bool if isinstance(item, Data) else item.dtype == np.bool_
    if not is_mask:
        return [item]
    check_mask(item.shape, shape[axis : axis + item.ndim])
    elements = item.numpy() if isinstance(item, Data) else item
    return [places.astype(np.int32) for places in np.nonzero(np.atleast_1d(elements))]


def check_mask(shape: Shape, covered: Shape) -> None:
    """Raise `UserError` unless a mask has the shape of the axes that it covers."""
    if tuple(shape) != tuple(covered):
        raise UserIndexError(
            f"index: a mask of {describe_shape(shape)} "
            f"for axes of {describe_shape(covered)}: they must be equal"
        )


def _check_index(index: IntegerIndex, size: int, axis: int) -> IntegerIndex:
    """Return indices counted from 0. Indices in an array are checked now, in a tensor never."""
    if isinstance(index, Data):
        return index
    # Compare as Python integers: a numpy type could overflow.
    for end in (int(index.min()), int(index.max())) if index.size else ():
        _check_range(end, size, axis)
    wide = index.astype(np.int64)
    return np.where(wide < 0, wide + size, wide)


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of a lookup in a tensor, and of its result."""

    axes: tuple[int, ...]  # The axes that are looked up.
    sizes: tuple[int, ...]  # Their sizes.
    others: tuple[int, ...]  # The other axes.
    rest: Shape  # Their sizes.
    shape: Shape  # The shape of the indices.
    begin: int  # The axis of the result at which the axes of the indices begin.

    @property
    def size(self) -> int:
        """Return the number of elements to choose from."""
        return math.prod(self.sizes)

    @property
    def count(self) -> int:
        """Return the number of indices. Raises `UserError` if it is symbolic."""
        return math.prod(fixed(self.shape, "assignment by index"))


def layout_of(shape: Shape, chosen: Sequence[Chosen]) -> Layout:
    """Return the layout of a lookup. If the indices are adjacent, the result axes are there too.

    Otherwise they go to the front. An axis that is removed does not count in between, as in torch;
    in numpy it counts.
    """
    axes = tuple(item.axis for item in chosen)
    sizes = fixed(tuple(shape[axis] for axis in axes), "index")
    index_shape = broadcast([tuple(item.index.shape) for item in chosen], "index")
    removed = {item.axis for item in chosen if item.removes_axis}
    left = [axis for axis in range(len(shape)) if axis not in removed]
    taken = [number for number, axis in enumerate(left) if axis in axes]
    is_adjacent = bool(taken) and taken == list(range(taken[0], taken[-1] + 1))
    others = tuple(axis for axis in range(len(shape)) if axis not in axes)
    rest = tuple(shape[axis] for axis in others)
    return Layout(axes, sizes, others, rest, index_shape, taken[0] if is_adjacent else 0)


def _is_mask(item: object) -> bool:
    return isinstance(item, Data) and item.dtype.is_bool
