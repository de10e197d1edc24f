"""Indexing, gather and scatter, sorting, masks and scans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, cast, overload

from tinyref.algebra.symbolic import describe_shape, product
from tinyref.arrays import Array, np, npt
from tinyref.dtype import ConstType, DTypeLike, dtypes, numpy_dtype, sum_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy import graph
from tinyref.tensor.arguments import Shape, axis_of, broadcast, fixed, integer
from tinyref.tensor.contraction import Contraction
from tinyref.tensor.core import GradientSwitch
from tinyref.tensor.creation import _requires_grad, element_dtype
from tinyref.tensor.data import Data
from tinyref.tensor.elementwise import compute_dtype, require_integer
from tinyref.tensor.index_keys import (
    Chosen,
    Layout,
    _is_mask,
    as_index,
    check_mask,
    is_advanced,
    items_of,
    layout_of,
    parse_index,
    split_key,
)
from tinyref.tensor.literals import has_place, weak_number
from tinyref.tensor.movement import word_of
from tinyref.uops.node import UOp, sint, toposort
from tinyref.uops.ops import Ops

ScatterReduce = Literal["multiply", "add"] | None
Reduce = Literal["sum", "prod", "mean", "amax", "amin"]

REDUCES = ("sum", "prod", "mean", "amax", "amin")


def check_axis_size(size: int, name: str) -> int:
    """`size`, refused where the result numbers that many elements, in int32."""
    if size > dtypes.int32.maximum:
        raise UserError(
            f"{name}: {size} elements to choose from: accepted are at most {dtypes.int32.maximum}"
        )
    return size


# Steps of one kernel: 2 ** 3 elements are exchanged in registers.
STEPS = 3
# At least so many bits of the position are high ones, for vectors in kernels of low ones.
HIGH_BITS = 4
KEY_BITS = 32


@dataclass(frozen=True)
class Merge:
    """Steps of one kernel within the merge of blocks of 2 ** `stage`: on bits first to last."""

    stage: int
    first: int
    last: int


def merges(bits: int, low: int) -> list[Merge]:
    """All steps for 2 ** `bits` elements, of which `low` bits are low."""
    found = []
    for stage in range(1, bits + 1):
        first = stage - 1
        while first >= 0:
            last = low + (first - low) // STEPS * STEPS if first >= low else first // STEPS * STEPS
            found.append(Merge(stage, first, last))
            first = last - 1
    return found


# Up to here n * n comparisons in one kernel take less time than the launches of a network.
COUNTED = 1024


Places: TypeAlias = "npt.NDArray[np.int64]"
Weights: TypeAlias = "npt.NDArray[np.float64]"

# The free parameter of Keys, "Cubic Convolution Interpolation", 1981, as most image tools set it.
_CUBIC = -0.75
_MODES = ("linear", "nearest", "nearest-exact", "cubic")


class Indexing(Contraction, Data):
    """`tensor[...]` is a tensor of its own; `tensor[...] = value` gives this one new elements.

    Places are integers of any type; a negative one counts from the end of the axis, once.

    Elements are not read to check places: outside of the axis a read gives 0 and a write does
    nothing, where torch raises an error.

    `tensor[indices]` and `tensor[indices] = value`.

    The rules are those of `Indexing`: negative places count from the end, places outside read 0 and
    write nothing; those in lists, ranges and arrays are known, and refused with a `UserError`. A
    mask decides the shape of the result, so its elements are read at once. uint8 tensors are
    integers, no masks. Where a place is assigned to several times the last value counts.

    Element i of a result stands for the elements 0 to i of the axis.

    Orders of keys.

    NaN is larger than every number, as with torch and numpy; -0 and 0 are equal.

    Indices of results are int32, and int64 where an axis has more elements; torch has int64.

    Every result is a tensor of its own: changing one later never changes the other.
    """

    __slots__ = ()

    def _basic_part(self, key: object) -> Self:
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

    def _beside(self, array: Array) -> Self:
        """The elements of `array` on this tensor's device, or on each of its devices."""
        place = self.device
        first = place if isinstance(place, str) else place[0]
        return type(self)(array, device=first).to(place)

    def _as_places(self, size: int, name: str, mark: bool = False) -> Self:
        """These indices into an axis of `size` from 0 on, as the type that numbers it; with `mark`
        all that are outside become -1, else they only stay outside.
        """
        require_integer(name, self.dtype, accept_bool=False)
        target = graph.counting_dtype(size)
        if self.dtype.itemsize < target.itemsize:
            return self._cast(target)._as_places(size, name, mark)
        counted = self
        if not self.dtype.is_unsigned:
            counted = self.lt(0).where(self.add(size), self)
        if self.dtype is target and not mark:
            return counted
        inside = counted.lt(size)
        if not self.dtype.is_unsigned:
            inside = inside.bitwise_and(counted.ge(0))
        return inside.where(counted._cast(target), -1)

    def _looked_up(self, places: Self) -> Self:
        """The elements of the last axis at `places`, and 0 for places that are outside.

        The other axes broadcast against those of `places`; the result has them.
        """
        if self.dtype.is_float:
            return self._with_rule("looked_up", lambda rows, at: rows._floats_at(at), places)
        return self._sum_at(places)

    def _floats_at(self, places: Self) -> Self:
        """As `_looked_up`, of floats: a sum of them would lose the sign of a zero."""
        if self.dtype is dtypes.float64:
            # Devices whose 64-bit integers are pairs of words have no bits of float64.
            is_negative = self.eq(0).bitwise_and(self.reciprocal().lt(0))
            return is_negative._sum_at(places).where(-0.0, self._sum_at(places))
        bits = self._bits_as(word_of(self.dtype.itemsize))
        return bits._sum_at(places)._bits_as(self.dtype)

    def _sum_at(self, places: Self) -> Self:
        chosen = self._shown_at(places, self)
        return chosen._reduced_last(Ops.MAX if self.dtype.is_bool else Ops.ADD)

    def _shown_at(self, places: Self, shown: Self) -> Self:
        """`shown` where an element of the last axis is at one of `places`, 0 elsewhere.

        The last axis is that of this tensor, the one before it that of `places`.
        """
        here = self._count_to(self.shape[-1]).eq(places.unsqueeze(-1))
        # The elements that are not chosen may be NaN: a product with 0 would let them through.
        return here.where(shown, False if shown.dtype.is_bool else 0)

    def _index_operand(self, index: object, axis: int, name: str) -> Self:
        """The argument `index` of a function along `axis`, checked against this tensor."""
        if not isinstance(index, Indexing):
            raise UserTypeError(f"{name}: index is a {type(index).__name__}, accepted is a Tensor")
        found = cast(Self, index)
        require_integer(f"{name}: index", found.dtype, accept_bool=False)
        if found.ndim != self.ndim:
            raise UserError(
                f"{name}: index has {found.ndim} axes, the tensor {self.ndim}: they must be equal"
            )
        have, want = fixed(self.shape, name), fixed(found.shape, name)
        for number in range(self.ndim):
            if number != axis and want[number] > have[number]:
                raise UserError(
                    f"{name}: index of {describe_shape(want)} is larger than the tensor of "
                    f"{describe_shape(have)} on axis {number}: only axis {axis} may be"
                )
        return found

    def gather(self, dim: int, index: Self) -> Self:
        """Element [i, j, k] of the result is element [index[i, j, k], j, k], for `dim` 0.

        index: integers, with as many axes as this tensor and no larger on the others than `dim`;
        its shape is that of the result. Places that are outside give 0.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[1], [0]])).tolist()
            [[2], [3]]
        """
        axis = axis_of(dim, self.ndim, "gather")
        found = self._index_operand(index, axis, "gather")
        size = fixed(self._row().shape, "gather")[axis]
        places = found._row()._as_places(size, "gather")._moved_last(axis)
        rows = self._row()._cut_beside(axis, found._row().shape)._moved_last(axis).unsqueeze(-2)
        return rows._looked_up(places)._moved_from_last(axis)._reshape(found.shape)

    # Writing

    def _source_operand(self, src: object, index: Self, name: str) -> Self:
        """The argument `src`, cut to the shape of `index`; a number stands for all of it."""
        number = weak_number(src)
        if number is not None:
            if not has_place(number, self.dtype):
                raise UserError(f"{name}: src {number!r} has no place in {self.dtype.name}")
            return self._constant(number, self.dtype)._broadcast_to(index.shape)
        if not isinstance(src, Indexing):
            kind = type(src).__name__
            raise UserTypeError(f"{name}: src is a {kind}, accepted are a Tensor and a number")
        source = cast(Self, src)
        if source.dtype is not self.dtype:
            raise UserTypeError(
                f"{name}: src is {source.dtype.name}, the tensor {self.dtype.name}: cast one first"
            )
        sizes = fixed(index.shape, name)
        if source.ndim != index.ndim or any(
            have < want for have, want in zip(fixed(source.shape, name), sizes, strict=True)
        ):
            raise UserError(
                f"{name}: src of {describe_shape(source.shape)} is smaller than the index of "
                f"{describe_shape(sizes)}: accepted is the same size or larger, axis by axis"
            )
        return source._shrink(tuple((0, size) for size in sizes))

    def _scatter_args(
        self, dim: int, index: object, src: object, name: str
    ) -> tuple[Self, Self, int]:
        """(places, source, axis) of a scatter; both with `axis` last, and else as this tensor.

        What was added to make the shapes equal has place -1, which is nowhere.
        """
        axis = axis_of(dim, self.ndim, name)
        found = self._index_operand(index, axis, name)
        source = self._source_operand(src, found, name)._row()
        want = fixed(self._row().shape, name)
        places = found._row()._as_places(want[axis], name, mark=True)
        have = fixed(places.shape, name)
        margins = tuple(
            (0, 0 if number == axis else want[number] - have[number]) for number in range(len(want))
        )
        padded = places._pad_with_value(margins, -1)._moved_last(axis)
        return padded, source._pad(margins)._moved_last(axis), axis

    def _matches(self, size: int) -> Self:
        """Which of these places (..., count) are which of `size` elements: (..., size, count)."""
        return self._count_to(size).unsqueeze(-1).eq(self.unsqueeze(-2))

    def _last_hits(self, count: int, size: int) -> Self:
        """Of these places (..., count) the number of the last one that hits each of `size`
        elements: (..., size), -1 for none.
        """
        return self._matches(size).where(self._count_to(count), -1)._reduced_last(Ops.MAX)

    def scatter(
        self, dim: int, index: Self, src: Self | ConstType, reduce: ScatterReduce = None
    ) -> Self:
        """This tensor with element [index[i, j, k], j, k] replaced by `src[i, j, k]`, for `dim` 0.

        With `reduce` the element is added to, or multiplied by it. index: integers; src: this
        tensor's type, or a number. Of several elements for one place the last counts, where torch
        leaves it open; places that are outside are passed over.

        Examples:
            >>> Tensor([0, 0, 0]).scatter(0, Tensor([2, 0]), Tensor([5, 6])).tolist()
            [6, 0, 5]
        """
        if reduce not in (None, "add", "multiply"):
            raise UserError(f"scatter: reduce {reduce!r}: accepted are None, 'add' and 'multiply'")
        places, source, axis = self._scatter_args(dim, index, src, "scatter")
        rows = self._row()._moved_last(axis)
        if reduce is None:
            last = places._last_hits(*fixed((places.shape[-1], rows.shape[-1]), "scatter"))
            result = last.ge(0).where(source.unsqueeze(-2)._looked_up(last), rows)
        else:
            compute_dtype("scatter", self.dtype)
            kind: Reduce = "sum" if reduce == "add" else "prod"
            result = rows._combine_at(kind, places, source, True)
        return result._moved_from_last(axis)._reshape(self.shape)

    def scatter_reduce(
        self, dim: int, index: Self, src: Self, reduce: Reduce, include_self: bool = True
    ) -> Self:
        """Each element meets those of `src` whose `index` along `dim` names it.

        reduce: "sum", "prod", "mean", "amax" or "amin". Without `include_self` an element that is
        named is not part of it. Sums are those of this tensor's own type, rounded once at the end
        for float16 and bfloat16; the mean of integers rounds down.

        Examples:
            >>> places, values = Tensor([0, 0, 2]), Tensor([1, 2, 5])
            >>> Tensor([0, 0, 0]).scatter_reduce(0, places, values, "sum").tolist()
            [3, 0, 5]
        """
        if reduce not in REDUCES:
            raise UserError(f"scatter_reduce: reduce {reduce!r}: accepted are {', '.join(REDUCES)}")
        if not isinstance(src, Indexing):
            kind = type(src).__name__
            raise UserTypeError(f"scatter_reduce: src is a {kind}, accepted is a Tensor")
        compute_dtype("scatter_reduce", self.dtype)
        places, source, axis = self._scatter_args(dim, index, src, "scatter_reduce")
        rows = self._row()._moved_last(axis)
        met = rows._combine_at(reduce, places, source, include_self)
        return met._moved_from_last(axis)._reshape(self.shape)

    def _combine_at(self, reduce: Reduce, places: Self, source: Self, include_self: bool) -> Self:
        """This tensor (..., size) and `source` (..., count), brought together at `places`."""
        if self.dtype.is_bool:
            if reduce == "mean":
                raise UserTypeError("scatter_reduce: bool has no mean: cast to a number type first")
            numbers = self._cast(dtypes.int32), source._cast(dtypes.int32)
            return (
                numbers[0]._combine_at(reduce, places, numbers[1], include_self)._cast(dtypes.bool)
            )
        wide = sum_dtype(self.dtype)
        hits = places._matches(fixed(self.shape[-1:], "scatter")[0])
        own, others = self._cast(wide), source._cast(wide)
        if reduce in ("amax", "amin"):
            largest = own._largest if reduce == "amax" else own._smallest
            result = largest(hits, others, include_self)
        else:
            result = own._accumulated_at(reduce, hits, others, include_self)
        if not include_self:
            result = hits._reduced_last(Ops.MAX).where(result, own)
        return result._cast(self.dtype)

    def _accumulated_at(self, reduce: Reduce, hits: Self, source: Self, include_self: bool) -> Self:
        """Sums, products or means; those of no element are not defined."""
        op, identity = (Ops.MUL, 1) if reduce == "prod" else (Ops.ADD, 0)
        result = hits.where(source.unsqueeze(-2), identity)._reduced_last(op)
        if include_self:
            result = result._apply(op, self)
        if reduce != "mean":
            return result
        count = hits._cast(dtypes.int32)._reduced_last(Ops.ADD)
        count = count.add(1) if include_self else count.maximum(1)
        divide = result.div if self.dtype.is_float else result._floor_divide
        return divide(count._cast(self.dtype))

    def _largest(self, hits: Self, source: Self, include_self: bool) -> Self:
        """The largest; equal ones share the gradient evenly, this tensor's own element too."""
        lowest = self._constant(self.dtype.minimum, self.dtype)
        candidates = hits.where(source.unsqueeze(-2), lowest)
        if include_self:
            candidates = candidates.cat(self.unsqueeze(-1), dim=-1)
        return candidates.max(-1)

    def _smallest(self, hits: Self, source: Self, include_self: bool) -> Self:
        """The smallest, as the largest of the reversed order."""
        return (
            self._reverse_order()
            ._largest(hits, source._reverse_order(), include_self)
            ._reverse_order()
        )

    def __getitem__(self, key: object) -> Self:
        items = items_of(key)
        if not any(map(is_advanced, items)):
            return self._basic_part(tuple(items))
        parts = split_key(self.shape, key)
        part = self if parts.is_whole else self._basic_part(parts.basic)
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
            if not isinstance(item.index, Indexing):
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
            target = self._basic_part(tuple(items))
            return target, None, value._cast(self.dtype)._spread_over(target.shape)
        if len(items) == 1 and _is_mask(items[0]) and all(size == 1 for size in value.shape):
            return self, *self._aimed_by_mask(cast(Self, items[0]), value)
        parts = split_key(self.shape, key)
        target = self if parts.is_whole else self._basic_part(parts.basic)
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

    def _network_order(self, size: int) -> Self:
        """The places (rows, size) of the sorted keys (rows, size), int32, equal ones in order.

        Keys of 64 bits are sorted by their lower halves, then by the upper ones.
        """
        halves = self._key_halves()
        order = halves[0]._order_of_words(size)
        for half in halves[1:]:
            after = half.unsqueeze(-2)._looked_up(order)._order_of_words(size)
            order = order.unsqueeze(-2)._looked_up(after)
        return order

    def _key_halves(self) -> list[Self]:
        """The keys as int64 in the range of int32, of 64 bits the lower half first."""
        half = 1 << (KEY_BITS - 1)
        if self.dtype.itemsize == 4:
            wide = self._cast(dtypes.int64)
            return [wide if self.dtype is dtypes.int32 else wide.sub(half)]
        lower = self.bitwise_and((1 << KEY_BITS) - 1)._cast(dtypes.int64).sub(half)
        upper = self.rshift(KEY_BITS)._cast(dtypes.int64)
        return [lower, upper if self.dtype is dtypes.int64 else upper.sub(half)]

    def _order_of_words(self, size: int) -> Self:
        rows = fixed(self.shape, "sort")[0]
        bits = max((size - 1).bit_length(), HIGH_BITS + 1)
        total = 1 << bits
        low = (bits - HIGH_BITS) // STEPS * STEPS or bits - HIGH_BITS
        high_size, low_size = total >> low, 1 << low
        # What fills the row comes last: no key is larger, and no number.
        keys = self._pad_with_value(((0, 0), (0, total - size)), (1 << (KEY_BITS - 1)) - 1)
        words = keys.lshift(KEY_BITS).bitwise_or(self._count_to(total)._cast(dtypes.int64))
        words = words._reshape((rows, high_size, low_size))._permute((0, 2, 1)).contiguous()
        steps = merges(bits, low)
        for place, merge in enumerate(steps):
            after = steps[place + 1].first < low if place + 1 < len(steps) else False
            words = words._merged(merge, bits, low, turned=after != (merge.first < low))
        numbers = words.bitwise_and((1 << KEY_BITS) - 1)._reshape((rows, total))
        return numbers._part(1, 0, size)._cast(dtypes.int32)

    def _merged(self, merge: Merge, bits: int, low: int, *, turned: bool) -> Self:
        """Words (rows, low, high), of steps on high bits (rows, high, low), after the steps.

        `turned`: the two axes are exchanged in the result.
        """
        rows, outer, inner = fixed(self.shape, "sort")
        offset = 0 if merge.first < low else low
        first, last = merge.first - offset, merge.last - offset
        lead = outer >> (first + 1)
        twos = first - last + 1
        words = self._reshape((rows, lead, *(2,) * twos, 1 << last, inner))
        is_second = self._count_to(2).ne(0)
        if merge.first == merge.stage - 1:
            was_falling = is_second._reshape((2, *(1,) * (twos + 1)))
            is_falling = self._is_falling(merge, low, lead, inner)
            if merge.stage == 1:
                turns = is_falling
            elif merge.stage == bits:
                turns = was_falling
            else:
                turns = was_falling.ne(is_falling)
            words = words.bitwise_xor(turns.where(-1, self._constant(0, self.dtype)))
        for axis in range(2, 2 + twos):
            other = words._flip((axis,))
            is_later = is_second._reshape((2, *(1,) * (twos - axis + 3)))
            words = words.lt(other).ne(is_later).where(words, other)
        # Stored before its axes are joined: those of size 2 remain axes of the kernel.
        if not turned:
            return words.contiguous()._reshape((rows, outer, inner))
        order = (0, 4 + twos - 1, *range(1, 4 + twos - 1))
        return words._permute(order).contiguous()._reshape((rows, inner, outer))

    def _is_falling(self, merge: Merge, low: int, lead: int, inner: int) -> Self:
        """Whether a block is merged in falling order, so that with the next it is bitonic."""
        if merge.first < low <= merge.stage:
            return self._bit(inner, merge.stage - low)
        ones = (lead, *(1,) * (merge.first - merge.last + 3))
        return self._bit(lead, merge.stage - merge.first - 1)._reshape(ones)

    def _bit(self, size: int, bit: int) -> Self:
        """Whether the bit is set, of the numbers up to `size`."""
        return self._count_to(size).bitwise_and(1 << bit).ne(0)

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """(values, indices) along axis `dim`; equal elements stay in order.

        The indices are int32: `values` is `self.gather(dim, indices)`, and has its gradient.

        Examples:
            >>> values, places = Tensor([3, 1, 2]).sort()
            >>> values.tolist(), places.tolist()
            ([1, 2, 3], [1, 2, 0])
        """
        axis = axis_of(dim, self.ndim, "sort")
        return self._sort_axis("sort", axis, fixed(self._row().shape, "sort")[axis], descending)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Self:
        """Return the places of the elements in sorted order along axis `dim`, as int32.

        Equal elements stay in order, whether `stable` asks for it or not.

        Examples:
            >>> Tensor([3, 1, 2]).argsort().tolist()
            [1, 2, 0]
        """
        axis = axis_of(dim, self.ndim, "argsort")
        size = fixed(self._row().shape, "argsort")[axis]
        return self._sort_axis("argsort", axis, size, descending)[1]

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """(values, indices) of the `k` largest, or smallest, elements along axis `dim`.

        They come in order whether `sorted_` asks for it or not, the first of equal ones first.

        Examples:
            >>> values, places = Tensor([3, 1, 2]).topk(2)
            >>> values.tolist(), places.tolist()
            ([3, 2], [0, 2])
        """
        axis = axis_of(dim, self.ndim, "topk")
        size = fixed(self._row().shape, "topk")[axis]
        count = integer(k, "topk: k")
        if not 0 <= count <= size:
            raise UserError(f"topk: k is {count}, accepted is 0 to {size}, the size of axis {dim}")
        return self._sort_axis("topk", axis, count, largest)

    def _sort_axis(self, name: str, axis: int, count: int, descending: bool) -> tuple[Self, Self]:
        """The first `count` values and indices of the sorted axis."""
        compute_dtype(name, self.dtype)
        rows = self._row()._moved_last(axis)
        size = check_axis_size(fixed(rows.shape, name)[-1], name)
        shape = (*rows.shape[:-1], count)
        if 0 in rows.shape or not count:
            order = self._constant(0, dtypes.int32)._broadcast_to(shape)
            values = rows._part(rows.ndim - 1, 0, count)
        else:
            keys = rows.detach()._sort_keys()
            order = (keys.bitwise_not() if descending else keys)._order(size, count)
            values = rows.unsqueeze(-2)._looked_up(order)
        result = self.shape if not self.ndim else None
        pair = (part._moved_from_last(axis) for part in (values, order))
        first, second = (part if result is None else part._reshape(result) for part in pair)
        return first, second

    def _sort_keys(self) -> Self:
        """Integers of 32 or 64 bits that are in the same order as the elements."""
        if self.dtype.itemsize < 4:
            wide = dtypes.float32 if self.dtype.is_float else dtypes.int32
            return self._cast(wide)._sort_keys()
        if not self.dtype.is_float:
            return self
        word = dtypes.int32 if self.dtype is dtypes.float32 else dtypes.int64
        # As integers floats of one sign are in order already, the negative ones in reverse.
        words = self.eq(0).where(0, self)._bits_as(word)
        ordered = words.lt(0).where(words.bitwise_xor(word.maximum), words)
        return self.isnan().where(word.maximum, ordered)

    def _order(self, size: int, count: int) -> Self:
        """The places of the first `count` of the sorted keys (..., size), as int32."""
        if size <= COUNTED:
            return self._counted_order(size, count)
        if 2 * count <= COUNTED:
            return self._order_of_best(size, count)
        shape = self.shape[:-1]
        order = self._reshape((product(shape), size))._network_order(size)
        return order._part(1, 0, count)._reshape((*shape, count))

    def _order_of_best(self, size: int, count: int) -> Self:
        """Only the first `count` elements of a block can be among the first of all."""
        blocks = -(-size // COUNTED)
        keys, numbers = self._sorted_blocks(size, blocks, count)
        left = blocks * count
        joined = (*self.shape[:-1], left)
        order = keys._reshape(joined).contiguous()._order(left, count)
        return numbers._reshape(joined).unsqueeze(-2)._looked_up(order)

    def _sorted_blocks(self, size: int, blocks: int, count: int) -> tuple[Self, Self]:
        """The first `count` keys and places of each of `blocks` blocks, in order.

        What fills the last block comes last: no key is larger, and no place.
        """
        rows = self.shape[:-1]
        margins = (*((0, 0) for _ in rows), (0, blocks * COUNTED - size))
        parts = self._pad_with_value(margins, self.dtype.maximum)._reshape((*rows, blocks, COUNTED))
        within = parts._counted_order(COUNTED, count).contiguous()
        numbers = within.add(self._count_to(blocks).mul(COUNTED).unsqueeze(-1))
        return parts.unsqueeze(-2)._looked_up(within), numbers

    def _counted_order(self, size: int, count: int) -> Self:
        """By rank: the number of keys that are smaller, or equal and before."""
        numbers = self._count_to(size)
        mine, other = self.unsqueeze(-1), self.unsqueeze(-2)
        is_before = numbers.lt(numbers.unsqueeze(-1))
        precedes = other.lt(mine).bitwise_or(other.eq(mine).bitwise_and(is_before))
        rank = precedes._cast(dtypes.int32)._reduced_last(Ops.ADD)
        has_rank = self._count_to(count).unsqueeze(-1).eq(rank.unsqueeze(-2))
        return has_rank.where(numbers, 0)._reduced_last(Ops.ADD)

    # Extremes

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The place of the largest element along `axis`, or in all elements laid end to end.

        The first of equal ones, and the first NaN where there is one. Raises `UserError` for an
        axis without elements.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).argmax(axis=1).tolist()
            [1, 0]
        """
        return self._place_of_largest(axis, keepdim, "argmax")

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The place of the smallest element; else as `argmax`.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).argmin(axis=1).tolist()
            [0, 1]
        """
        compute_dtype("argmin", self.dtype)
        return self._reverse_order()._place_of_largest(axis, keepdim, "argmin")

    def _place_of_largest(self, axis: int | None, keepdim: bool, name: str) -> Self:
        compute_dtype(name, self.dtype)
        sizes = fixed(self.shape, name)
        if axis is None:
            number, shape = 0, tuple(1 for _ in sizes) if keepdim else ()
            rows = self._reshape((self.numel(),))
        else:
            number = axis_of(axis, self.ndim, name)
            shape = tuple(1 if place == number else size for place, size in enumerate(sizes))
            if not keepdim:
                shape = (*shape[:number], *shape[number + 1 :])
            rows = self._row()._moved_last(number)
        size = fixed(rows.shape[-1:], name)[0]
        if not size:
            raise UserError(
                f"{name}: shape {describe_shape(sizes)} has no element along the axis: "
                f"accepted is at least one"
            )
        return rows.detach()._first_largest(size)._reshape(shape)

    def _first_largest(self, size: int) -> Self:
        """The first place of the largest element of the last axis; a NaN is larger than all."""
        largest = self._reduce(Ops.MAX, (self.ndim - 1,))
        # The earlier a place, the larger its score; what is not the largest has score 0.
        score = self._count_to(size)._cast(graph.counting_dtype(2 * size)).neg().add(size)
        found = self.eq(largest).where(score, 0)
        if self.dtype.is_float:
            found = self.isnan().where(score.add(size), found)
        best = found._reduced_last(Ops.MAX)
        index = best.gt(size).where(best.neg().add(2 * size), best.neg().add(size))
        return index._cast(graph.counting_dtype(size))

    # Masks

    def masked_fill(self, mask: Self, value: Self | ConstType) -> Self:
        """`value` where `mask` is true, else this tensor, whose type the result has.

        mask: bool, broadcasts; value: a number or a tensor without axes. Raises `UserError` where
        the type has no place for the value.

        Examples:
            >>> Tensor([1, 2, 3]).masked_fill(Tensor([False, True, False]), 0).tolist()
            [1, 0, 3]
        """
        chosen = self._mask_operand(mask, "masked_fill")
        if isinstance(value, Indexing):
            filling = value
            if filling.ndim:
                raise UserError(
                    f"masked_fill: value has shape {describe_shape(filling.shape)}: accepted are "
                    f"a number and a tensor without axes"
                )
            fits = _kind(filling) <= _kind(self)
        elif (number := weak_number(value)) is not None:
            fits = has_place(number, self.dtype)
            filling = self._constant(number, self.dtype) if fits else self
        else:
            kind = type(value).__name__
            raise UserTypeError(
                f"masked_fill: value is a {kind}, accepted are a Tensor and a number"
            )
        if not fits:
            raise UserError(f"masked_fill: value {value!r} has no place in {self.dtype.name}")
        return chosen.where(filling._cast(self.dtype), self)

    def masked_select(self, mask: Self) -> Self:
        """The elements where `mask` is true, in order, along one axis; both broadcast.

        The mask decides the size of the result, so its elements are read at once.

        Examples:
            >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
            [1, 3]
        """
        chosen, source = self._mask_operand(mask, "masked_select")._spread("masked_select", self)
        return source._row()[chosen._row()]

    @overload
    def nonzero(self, as_tuple: Literal[False] = False) -> Self: ...
    @overload
    def nonzero(self, as_tuple: Literal[True]) -> tuple[Self, ...]: ...
    def nonzero(self, as_tuple: bool = False) -> Self | tuple[Self, ...]:
        """Return the places of the elements that are not 0, one in a row, in order.

        With `as_tuple` the result is a tensor for each axis, which together are an index. The
        elements decide the size of the result, so they are read at once.

        Examples:
            >>> Tensor([[0, 5], [7, 0]]).nonzero().tolist()
            [[0, 1], [1, 0]]
            >>> [places.tolist() for places in Tensor([[0, 5], [7, 0]]).nonzero(as_tuple=True)]
            [[0, 1], [1, 0]]
        """
        if not isinstance(as_tuple, bool):
            kind = type(as_tuple).__name__
            raise UserTypeError(f"nonzero: as_tuple is a {kind}, accepted is a bool")
        tensor = self._row() if as_tuple else self
        places = np.argwhere(tensor._cast(dtypes.bool).numpy()).astype(np.int32)
        if not as_tuple:
            return self._beside(places)
        return tuple(self._beside(column) for column in places.T)

    def _mask_operand(self, mask: object, name: str) -> Self:
        if not isinstance(mask, Indexing):
            raise UserTypeError(
                f"{name}: mask is a {type(mask).__name__}, accepted is a bool Tensor"
            )
        if not mask.dtype.is_bool:
            raise UserTypeError(f"{name}: mask is {mask.dtype.name}, accepted is bool")
        return cast(Self, mask)

    def one_hot(self, num_classes: int = -1) -> Self:
        """A new last axis of `num_classes` with 1 at the place that the element names, else 0.

        The type is int32; an element outside of the classes names none. -1 stands for one class
        more than the largest element, which is read at once.

        Examples:
            >>> Tensor([2, 0]).one_hot(3).tolist()
            [[0, 0, 1], [1, 0, 0]]
        """
        require_integer("one_hot", self.dtype, accept_bool=False)
        count = integer(num_classes, "one_hot: num_classes")
        if count < -1 or count == 0:
            raise UserError(f"one_hot: num_classes {count}, accepted are -1 and at least 1")
        if count == -1:
            if not self.numel():
                raise UserError("one_hot: no element names a class: num_classes must be given")
            count = max(int(self.max().item()), 0) + 1
        classes = self._count_to(count)
        # In one type that holds both: an integer of 64 bits keeps its own.
        named = self._cast(dtypes.int32) if self.dtype.itemsize < 4 else self
        return named.unsqueeze(-1).eq(classes._cast(named.dtype))._cast(dtypes.int32)

    # Patterns

    def tril(self, diagonal: int = 0) -> Self:
        """The last two axes with 0 above the diagonal, which `diagonal` moves to the right.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).tril().tolist()
            [[1, 0], [3, 4]]
        """
        return self._triangle(diagonal, "tril", is_lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """The last two axes with 0 below the diagonal, which `diagonal` moves to the right.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).triu().tolist()
            [[1, 2], [0, 4]]
        """
        return self._triangle(diagonal, "triu", is_lower=False)

    def _triangle(self, diagonal: int, name: str, is_lower: bool) -> Self:
        offset = integer(diagonal, f"{name}: diagonal")
        if self.ndim < 2:
            raise UserError(
                f"{name}: shape {describe_shape(self.shape)}: accepted are at least two axes"
            )
        rows, columns = fixed(self.shape[-2:], name)
        # Further out than the matrix is large all diagonals are the same.
        moved = max(-rows - 1, min(offset, columns + 1))
        ends, numbers = (
            self._count_to(rows).add(moved).unsqueeze(-1),
            self._count_to(columns),
        )
        kept = numbers.le(ends) if is_lower else numbers.ge(ends)
        return kept.where(self, self._constant(0, self.dtype))

    def roll(
        self, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None
    ) -> Self:
        """Each element `shifts` places further along axis `dims`; the last ones come first.

        Without `dims` all elements are laid end to end, and get their shape back afterwards.

        Examples:
            >>> Tensor([1, 2, 3]).roll(1, 0).tolist()
            [3, 1, 2]
            >>> Tensor([[1, 2], [3, 4]]).roll(1).tolist()
            [[4, 1], [2, 3]]
        """
        if dims is None:
            row = self._reshape((self.numel(),))
            return row.roll(shifts, 0)._reshape(self.shape)._apart_from(self)
        amounts = shifts if isinstance(shifts, list | tuple) else (shifts,)
        axes = dims if isinstance(dims, list | tuple) else (dims,)
        if len(amounts) != len(axes):
            raise UserError(
                f"roll: {len(amounts)} shifts for {len(axes)} dims: accepted is one each"
            )
        result = self
        for amount, dim in zip(amounts, axes, strict=True):
            axis = axis_of(dim, self.ndim, "roll")
            shift = integer(amount, "roll: shifts")
            size = fixed(self._row().shape, "roll")[axis]
            if self.ndim and size and shift % size:
                cut = size - shift % size
                front, back = result._part(axis, cut, size), result._part(axis, 0, cut)
                result = front.cat(back, dim=axis)
        return result._apart_from(self)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Each element `repeats` times in a row along axis `dim`, or in all laid end to end.

        Examples:
            >>> Tensor([1, 2]).repeat_interleave(2).tolist()
            [1, 1, 2, 2]
        """
        count = integer(repeats, "repeat_interleave: repeats")
        if count < 0:
            raise UserError(f"repeat_interleave: repeats {count}, accepted is at least 0")
        if dim is None:
            joined = self._reshape((self.numel(),))
            return joined.repeat_interleave(count, 0)._apart_from(self)
        axis = axis_of(dim, self.ndim, "repeat_interleave")
        rows = self._row()
        size = fixed(rows.shape, "repeat_interleave")[axis]
        before, after = rows.shape[:axis], rows.shape[axis + 1 :]
        split = rows._reshape((*before, size, 1, *after))
        spread = split._expand((*before, size, count, *after))
        return spread._reshape((*before, size * count, *after))._apart_from(self)

    def meshgrid(self, *args: Self, indexing: Literal["ij", "xy"] = "ij") -> tuple[Self, ...]:
        """Each of the tensors spread over the grid of all: the result i varies along axis i.

        The tensors have one axis, or none. With "xy" the first two axes are swapped.

        Examples:
            >>> rows, columns = Tensor([1, 2]).meshgrid(Tensor([3, 4]))
            >>> rows.tolist(), columns.tolist()
            ([[1, 1], [2, 2]], [[3, 4], [3, 4]])
        """
        if indexing not in ("ij", "xy"):
            raise UserError(f"meshgrid: indexing {indexing!r}: accepted are 'ij' and 'xy'")
        tensors = (self, *args)
        for place, tensor in enumerate(tensors):
            if not isinstance(tensor, Indexing):
                kind = type(tensor).__name__
                raise UserTypeError(f"meshgrid: argument {place} is a {kind}, accepted are Tensors")
            if tensor.ndim > 1:
                raise UserError(
                    f"meshgrid: argument {place} has shape {describe_shape(tensor.shape)}: "
                    f"accepted is one axis"
                )
        rows = [tensor._row() for tensor in tensors]
        axes = list(range(len(rows)))
        if indexing == "xy" and len(rows) > 1:
            axes[:2] = [1, 0]
        sizes = {axis: row.shape[0] for axis, row in zip(axes, rows, strict=True)}
        shape = tuple(sizes[axis] for axis in range(len(rows)))
        return tuple(
            row._reshape(tuple(size if at == axis else 1 for at, size in enumerate(shape)))._expand(
                shape
            )
            for axis, row in zip(axes, rows, strict=True)
        )

    def _elements_at(self, axis: int, index: Self, name: str) -> Self:
        """The elements at the places `index` along an axis, 0 for a place outside of it.

        `index` has as many axes as this tensor; all but `axis` broadcast to this one's. It is a
        sum over the axis of which one term is not 0, so that a kernel may read that term alone.
        """
        size = fixed((self.shape[axis],), name)[0]
        numbers = self._count_to(size)._reshape((size, *(1,) * (self.ndim - axis - 1)))
        hits = numbers.eq(index.unsqueeze(axis + 1))
        chosen = hits.where(self.unsqueeze(axis), self._constant(0, self.dtype))
        return chosen._reduce_axes(Ops.MAX if self.dtype.is_bool else Ops.ADD, (axis + 1,), False)

    def interpolate(
        self, size: Sequence[int], mode: str = "linear", align_corners: bool = False
    ) -> Self:
        """The last axes in other sizes, `size` naming one for each.

        mode: "nearest" takes the element at floor(i * old / new), "nearest-exact" the one nearest
        to the middle of the new element, "linear" weighs two along each axis, "cubic" four (Keys
        1981, with -0.75). `align_corners` lets the middles of the first and last elements stay
        where they are, for the last two modes. Integers have the nearest modes alone, except
        uint8: it is rounded after each axis, the last one first, with the weights of torch.

        Examples:
            >>> Tensor([[[1.0, 3.0]]]).interpolate((4,), mode="nearest").tolist()
            [[[1.0, 1.0, 3.0, 3.0]]]
        """
        if not isinstance(size, list | tuple) or not 0 < len(size) <= self.ndim:
            raise UserTypeError(
                f"interpolate: size {size!r} for shape {describe_shape(self.shape)}: accepted is "
                f"a tuple of sizes for the last axes"
            )
        if mode not in _MODES:
            raise UserError(f"interpolate: mode {mode!r}: accepted are {', '.join(_MODES)}")
        if align_corners and mode.startswith("nearest"):
            raise UserError(f"interpolate: align_corners is not defined in mode {mode!r}")
        is_bytes = self.dtype is dtypes.uint8
        if not (mode.startswith("nearest") or self.dtype.is_float or is_bytes):
            raise UserTypeError(
                f"interpolate: {self.dtype.name} in mode {mode!r}: cast to float first"
            )
        wanted = [integer(item, "interpolate: size") for item in size]
        result = self
        if not mode.startswith("nearest"):
            result = self._cast(dtypes.int32) if is_bytes else self._wide("interpolate")
        lead = self.ndim - len(wanted)
        for place, new in reversed(tuple(enumerate(wanted))):
            old = fixed((self.shape[lead + place],), "interpolate")[0]
            if new < 1 or old < 1:
                raise UserError(f"interpolate: size {old} to {new}: accepted are positive sizes")
            check_axis_size(new, "interpolate")
            if mode.startswith("nearest"):
                places = nearest_places(old, new, is_exact=mode == "nearest-exact")
                result = result._resample_axis(lead + place, places, np.ones((1, new)))
            elif new != old:
                find = linear_places if mode == "linear" else cubic_places
                resample = result._resample_bytes if is_bytes else result._resample_axis
                result = resample(lead + place, *find(old, new, align_corners))
        return result._cast(self.dtype)._apart_from(self)

    def _resample_axis(self, axis: int, places: Places, weights: Weights | Places) -> Self:
        """The sum over the rows of weight times the element at the place; both (rows, new)."""
        rest = (1,) * (self.ndim - axis - 1)
        result: Self | None = None
        for row, weight in zip(places, weights, strict=True):
            numbers = type(self)(row.astype(np.int32), self.device)
            numbers = numbers._reshape((*(1,) * axis, len(row), *rest))
            part = self._elements_at(axis, numbers, "interpolate")
            if len(places) > 1:
                factor = type(self)(weight, self.device)._cast(self.dtype)
                part = part.mul(factor._reshape((len(row), *rest)))
            result = part if result is None else result.add(part)
        assert result is not None, "there is at least one row"
        return result

    def _resample_bytes(self, axis: int, places: Places, weights: Weights) -> Self:
        """Resample integers from 0 to 255, in int32; round to nearest, and a half up."""
        factors, bits = fixed_point(places, weights)
        sums = self._resample_axis(axis, places, factors)
        return sums.add(1 << (bits - 1)).rshift(bits).clamp(0, 255)

    @classmethod
    def randperm(
        cls, n: int, *, device: str | None = None, dtype: DTypeLike = dtypes.int, **kwargs: Any
    ) -> Self:
        """The numbers from 0 to n - 1 in random order, by sorting random words.

        Examples:
            >>> sorted(Tensor.randperm(5).tolist())
            [0, 1, 2, 3, 4]
        """
        count = integer(n, "randperm: n")
        target = element_dtype(dtype) or dtypes.default_int
        if count < 0:
            raise UserError(f"randperm: n {count} is negative, accepted is at least 0")
        wanted = _requires_grad("randperm", kwargs)
        largest = 1 << target.mantissa_bits + 1 if target.is_float else target.maximum
        if count - 1 > largest:
            raise UserError(f"randperm: {count - 1} does not fit {target.name}")
        with GradientSwitch():
            words = cls._random_words((count,), device)._cast(dtypes.uint32)
            return words.sort()[1]._cast(target)._as_leaf(wanted)

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Numbers of places, each drawn with a likelihood in proportion to its weight, as int32.

        Shapes: weights (n,) or (rows, n); the result (num_samples,) or (rows, num_samples).
        Without `replacement` no place comes twice (Efraimidis and Spirakis, "Weighted random
        sampling with a reservoir", 2006). Weights are at least 0, with a sum above 0 that is
        finite; -1 is drawn from others, and where no place with a weight above 0 is left.

        Examples:
            >>> Tensor([0.0, 1.0]).multinomial().tolist()
            [1]
        """
        if self.ndim not in (1, 2):
            raise UserError(f"multinomial: weights have {self.ndim} axes, accepted are 1 and 2")
        count = integer(num_samples, "multinomial: num_samples")
        places = fixed(self.shape, "multinomial")[-1]
        if not places:
            raise UserError("multinomial: there are no weights to choose from")
        if count < 1:
            raise UserError(f"multinomial: num_samples {count}, accepted is at least 1")
        if not replacement and count > places:
            raise UserError(
                f"multinomial: num_samples {count} of {places} places without replacement: "
                f"accepted are up to {places}"
            )
        with GradientSwitch():
            weights = self.detach()._wide("multinomial")
            weights = weights if self.ndim == 2 else weights.unsqueeze(0)
            found = weights._drawn_again(count) if replacement else weights._drawn_once(count)
            total, least = weights.sum(1, keepdim=True), weights.min(1, keepdim=True)
            is_valid = least.ge(0).bitwise_and(total.gt(0)).bitwise_and(total.lt(math.inf))
            rows = is_valid.where(found._cast(dtypes.int32), -1)
            return rows if self.ndim == 2 else rows.squeeze(0)

    def _drawn_again(self, count: int) -> Self:
        """For each row and sample the number of places whose running sum a point has passed."""
        rows = fixed(self.shape, "multinomial")[0]
        sums = self.cumsum(1)
        points = self.rand(rows, count, device=self.device, dtype=self.dtype)
        passed = points.mul(sums[:, -1:]).unsqueeze(-1).ge(sums.unsqueeze(1))
        # A point that rounds up to the whole sum belongs to the last place with a weight.
        last = sums.lt(sums[:, -1:]).sum(1, keepdim=True)
        return passed.sum(-1).minimum(last)

    def _drawn_once(self, count: int) -> Self:
        """The places that come first, if each waits for a time with its weight as rate."""
        chance = self.rand(*self.shape, device=self.device, dtype=self.dtype)
        # In logarithms: the wait for a tiny weight would overflow, as if it were 0.
        waits = chance.neg().add(1).log().neg().log().sub(self.log())
        never = self.gt(0).logical_not().where(math.inf, waits)
        waited, places = never.topk(count, dim=1, largest=False)
        return waited.lt(math.inf).where(places, -1)

    def allclose(
        self,
        other: Self | ConstType,
        rtol: float = 1e-05,
        atol: float = 1e-08,
        equal_nan: bool = False,
    ) -> bool:
        """Return True if all elements are close to those of `other`, as `isclose` says.

        The elements are read at once: the result is a bool of Python, as in torch.

        Examples:
            >>> Tensor([1.0, 2.0]).allclose(Tensor([1.0 + 1e-6, 2.0]))
            True
        """
        return bool(self._isclose(other, rtol, atol, equal_nan, "allclose").all())


def _reads_memory_of(node: UOp, value: UOp) -> bool:
    """True where `value` is computed from a buffer that `node` shows."""
    shown = {source for source in toposort([node]) if source.op is Ops.BUFFER}
    return not shown.isdisjoint(toposort([value]))


def _kind(tensor: Indexing) -> int:
    """Bool, integers and floats in the order of promotion."""
    return 2 if tensor.dtype.is_float else 1 if tensor.dtype.is_int else 0


def nearest_places(old: int, new: int, is_exact: bool) -> Places:
    """(1, new): the element that each new one takes.

    Rounded to float32, as torch does it: where a quotient is nearly whole, that decides. (Torch may
    fuse a multiplication with an addition, so that a few sizes from 2 to 41 on still differ.)
    """
    scale = np.float32(old) / np.float32(new)
    numbers = np.arange(new, dtype=np.float32) + np.float32(0.5 if is_exact else 0)
    places = np.floor(numbers * scale).astype(np.int64)
    return np.asarray(np.minimum(places, old - 1)[None])


def _sources(old: int, new: int, align_corners: bool) -> Weights:
    """Where the middle of each new element lies, in numbers of old ones."""
    numbers = np.arange(new, dtype=np.float64)
    if align_corners:
        return numbers * ((old - 1) / (new - 1) if new > 1 else 0.0)
    return (numbers + 0.5) * (old / new) - 0.5


def linear_places(old: int, new: int, align_corners: bool) -> tuple[Places, Weights]:
    """(2, new): the two elements around each new one, and their weights."""
    sources = np.maximum(_sources(old, new, align_corners), 0)
    below = np.minimum(np.floor(sources).astype(np.int64), old - 1)
    after = sources - below
    return np.stack([below, np.minimum(below + 1, old - 1)]), np.stack([1 - after, after])


def cubic_places(old: int, new: int, align_corners: bool) -> tuple[Places, Weights]:
    """(4, new): the four elements around each new one, those at the edge repeated; their weights.

    Keys' kernel: (a + 2) d^3 - (a + 3) d^2 + 1 up to a distance of 1, a d^3 - 5 a d^2 + 8 a d - 4 a
    up to 2.
    """
    sources = _sources(old, new, align_corners)
    below = np.floor(sources).astype(np.int64)
    places = below + np.arange(-1, 3)[:, None]
    distance = np.abs(sources - places)
    near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * _CUBIC - 4 * _CUBIC
    return np.clip(places, 0, old - 1), np.where(distance <= 1, near, far)


def fixed_point(places: Places, weights: Weights) -> tuple[Places, int]:
    """Return (weights * 2**bits as integers, bits), with the most bits that fit int16.

    If several rows name one place, the first row gets the sum of their weights: torch adds them
    before it rounds.
    """
    joined = weights.copy()
    for row, column in np.ndindex(places.shape):
        first = int(np.argmax(places[:, column] == places[row, column]))
        if first < row:
            joined[first, column] += joined[row, column]
            joined[row, column] = 0
    largest = float(joined.max())
    bits = 1
    while bits < 22 and int(0.5 + largest * (2 << bits)) < 1 << 15:
        bits += 1
    scaled = joined * (1 << bits)
    return np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64), bits
