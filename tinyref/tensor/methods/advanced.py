"""Indexing by tensors, lists, ranges and arrays of integers or bools, mixed with slices.

The parts of a key that are no tensors go first, as one view; then one lookup serves all tensors:
their axes are joined to one, and so are their places on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias, cast

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import Array, np
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError, UserIndexError, UserTypeError
from tinyref.lazy import graph
from tinyref.tensor import literals
from tinyref.tensor.arguments import Shape, broadcast, fixed
from tinyref.tensor.methods.lookup import Lookup
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops

IntegerIndex: TypeAlias = "Lookup | Array"
WHOLE = slice(None)


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
    return isinstance(item, Lookup | list | tuple | range | bool | np.bool_)


def items_of(key: object) -> list[object]:
    """The items of a key: a tuple has one for each axis, anything else is one item.

    A list that holds a tensor, a slice, None or an Ellipsis is a tuple, as in torch.
    """
    if isinstance(key, list) and any(map(_is_item, key)):
        return key
    return list(key) if isinstance(key, tuple) else [key]


def _is_item(part: object) -> bool:
    """Return True if `part` of a list makes that list a tuple of items."""
    return part is None or part is Ellipsis or isinstance(part, Lookup | slice)


def as_index(item: object) -> IntegerIndex:
    """A tensor as it is, anything else as an array. Raises `UserError` for other element types."""
    if isinstance(item, Lookup):
        dtype = item.dtype
        found: IntegerIndex = item
    elif isinstance(item, np.ndarray):
        found, dtype = literals.from_numpy(item, None)
    elif literals.holds(item, Lookup):
        tensor = next(part for part in literals.leaves(item) if isinstance(part, Lookup))
        return as_index(type(tensor)(item))
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
        if isinstance(item, Lookup | np.ndarray):
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
    if isinstance(item, Lookup):
        return item.ndim if item.dtype.is_bool else 1
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype == np.bool_ else 1
    return 1


def _places_of_mask(item: IntegerIndex, shape: Shape, place: int) -> Sequence[IntegerIndex]:
    """The indices of the true elements, one for each axis of a mask; integers as they are.

    A mask without axes gives one array: of the place 0, or empty.
    """
    is_mask = item.dtype.is_bool if isinstance(item, Lookup) else item.dtype == np.bool_
    if not is_mask:
        return [item]
    check_mask(item.shape, shape[place : place + item.ndim])
    elements = item.numpy() if isinstance(item, Lookup) else item
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
    if isinstance(index, Lookup):
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


class AdvancedIndexing(Lookup):
    """`tensor[indices]` and `tensor[indices] = value`.

    The rules are those of `Lookup`: negative places count from the end, places outside read 0 and
    write nothing; those in lists, ranges and arrays are known, and refused with a `UserError`. A
    mask decides the shape of the result, so its elements are read at once. uint8 tensors are
    integers, no masks. Where a place is assigned to several times the last value counts.
    """

    __slots__ = ()

    def __getitem__(self, key: object) -> Self:
        items = items_of(key)
        if not any(map(is_advanced, items)):
            return super().__getitem__(tuple(items))
        parts = split_key(self.shape, key)
        part = self if parts.is_whole else super().__getitem__(parts.basic)
        layout = layout_of(part.shape, parts.chosen)
        places = self._joined_places(layout, parts.chosen)
        aligned = places._reshape((*layout.shape, *(1 for _ in layout.rest)))
        found = part._joined_axes(layout)._looked_up(aligned)
        front = range(len(layout.shape))
        order = list(range(len(layout.shape), found.ndim))
        order[layout.begin : layout.begin] = front
        return found._permute(tuple(order))

    def _joined_axes(self, layout: Layout) -> Self:
        """The axes that are looked up as one, behind all others."""
        ordered = self._permute((*layout.others, *layout.axes))
        return ordered._reshape((*layout.rest, layout.size))

    def _joined_places(self, layout: Layout, chosen: Sequence[Chosen]) -> Self:
        """The places on the joined axis, in the shape of the layout; outside of it for none."""
        is_joined = len(chosen) > 1
        stride = layout.size
        dtype = graph.counting_dtype(layout.size)
        known: Array | None = None
        total: Self | None = None
        outside: Self | None = None
        for item, size in zip(chosen, layout.sizes, strict=True):
            stride = stride // size if size else 0
            if not isinstance(item.index, Lookup):
                part = np.asarray(item.index * stride)
                known = part if known is None else np.asarray(known + part)
                continue
            places = cast(Self, item.index)._as_places(size, "index", mark=is_joined)
            if is_joined:
                missed = places.lt(0)
                outside = missed if outside is None else outside.bitwise_or(missed)
                places = places._cast(dtype).mul(stride)
            total = places if total is None else total.add(places)
        if known is not None:
            numbers = self._beside(known.astype(numpy_dtype(dtype)))
            total = numbers if total is None else total.add(numbers)
        assert total is not None, "a lookup has at least one index"
        if outside is not None:
            total = outside.where(-1, total)
        return total._broadcast_to(layout.shape)

    def _assignment_target(self, key: object, value: Self) -> tuple[Self, Self | None, Self]:
        items = items_of(key)
        if not any(map(is_advanced, items)):
            return super()._assignment_target(tuple(items), value)
        if len(items) == 1 and _is_mask(items[0]) and all(size == 1 for size in value.shape):
            return self, *self._aimed_by_mask(cast(Self, items[0]), value)
        parts = split_key(self.shape, key)
        target = self if parts.is_whole else super().__getitem__(parts.basic)
        # The kernel that writes this tensor's memory may not read it at other places.
        own = value.contiguous() if _reads_memory_of(self.node, value.node) else value
        return target, *self._looked_up_at(target.shape, parts.chosen, own._cast(self.dtype))

    def _aimed_by_mask(self, mask: Self, value: Self) -> tuple[Self, Self]:
        """One value for all places of a mask: the elements of the mask need not be read now."""
        check_mask(as_index(mask).shape, self.shape[: mask.ndim])
        aligned = mask._reshape((*mask.shape, *(1 for _ in self.shape[mask.ndim :])))
        spread = value._reshape(())._cast(self.dtype)
        return aligned._broadcast_to(self.shape), spread._broadcast_to(self.shape)

    def _looked_up_at(
        self, shape: Shape, chosen: Sequence[Chosen], value: Self
    ) -> tuple[Self, Self]:
        """Which elements of a tensor of `shape` are chosen, and what they get of `value`."""
        layout = layout_of(shape, chosen)
        inner = (*layout.rest[: layout.begin], *layout.shape, *layout.rest[layout.begin :])
        spread = value._spread_over(inner)
        # The axes of the places go to the end, where they are joined.
        ends = range(layout.begin, layout.begin + len(layout.shape))
        order = [axis for axis in range(len(inner)) if axis not in ends]
        source = spread._permute((*order, *ends))._reshape((*layout.rest, layout.count))
        places = self._joined_places(layout, chosen)._reshape((layout.count,))
        last = places._last_hits(layout.count, layout.size)
        whole = (*layout.rest, layout.size)
        aligned = last._reshape((*(1 for _ in layout.rest), layout.size))
        unaligned = (1,) * len(inner) + value.shape
        if layout.count and all(unaligned[axis - len(inner)] == 1 for axis in ends):
            found = source._part(len(whole) - 1, 0, 1)  # the same for all places
        else:
            found = source.unsqueeze(-2)._looked_up(aligned)
        hits = last.ge(0)._broadcast_to(whole)
        return hits._separate_axes(layout), found._broadcast_to(whole)._separate_axes(layout)

    def _separate_axes(self, layout: Layout) -> Self:
        """The inverse of `_joined_axes`."""
        axes = (*layout.others, *layout.axes)
        back = tuple(sorted(range(len(axes)), key=axes.__getitem__))
        return self._reshape((*layout.rest, *layout.sizes))._permute(back)


def _reads_memory_of(node: UOp, value: UOp) -> bool:
    """True where `value` is computed from a buffer that `node` shows."""
    shown = {source for source in toposort([node]) if source.op is Ops.BUFFER}
    return not shown.isdisjoint(toposort([value]))


def _is_mask(item: object) -> bool:
    return isinstance(item, Lookup) and item.dtype.is_bool
