"""Reading elements at computed places, and writing them there: gather, scatter, scatter_reduce.

A place is the number of an element along one axis. Devices only have reads and writes at places
that are known when a kernel is made, so a lookup is a choice among all elements of the axis:
`(0, 1, 2 ... == place).where(element, 0)` added up, which the compiler turns into one read.
"""

from __future__ import annotations

from typing import Literal, Self, cast

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import Array
from tinyref.dtype import ConstType, dtypes, sum_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy import graph
from tinyref.tensor.arguments import axis_of, fixed
from tinyref.tensor.literals import has_place, weak_number
from tinyref.tensor.methods.assignment import Assignment
from tinyref.tensor.methods.elementwise import compute_dtype, require_integer
from tinyref.tensor.methods.movement import word_of
from tinyref.uops.node import sint
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


class Lookup(Assignment):
    """Places are integers of any type; a negative one counts from the end of the axis, once.

    Elements are not read to check places: outside of the axis a read gives 0 and a write does
    nothing, where torch raises an error.
    """

    __slots__ = ()

    def _count_to(self, size: sint) -> Self:
        """0, 1, 2 ... up to before `size`, on this tensor's device: int32, or int64 for more."""
        return self._from_node(graph.iota(size), self._device)

    def _beside(self, array: Array) -> Self:
        """The elements of `array` on this tensor's device, or on each of its devices."""
        place = self.device
        first = place if isinstance(place, str) else place[0]
        return type(self)(array, device=first).to(place)

    def _reduced_last(self, op: Ops) -> Self:
        """Reduced over the last axis, which goes, in this tensor's own type."""
        last = self.ndim - 1
        return self._reduce(op, (last,))._without((last,))

    def _moved_last(self, axis: int) -> Self:
        """With `axis` as the last axis, the others in their order."""
        order = [number for number in range(self.ndim) if number != axis]
        return self if axis == self.ndim - 1 else self._permute((*order, axis))

    def _moved_from_last(self, axis: int) -> Self:
        """The inverse of `_moved_last`."""
        order = list(range(self.ndim - 1))
        order.insert(axis, self.ndim - 1)
        return self if axis == self.ndim - 1 else self._permute(tuple(order))

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
        if not isinstance(index, Lookup):
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

    def _row(self) -> Self:
        """A tensor without axes as one with a single element along its only axis."""
        return self if self.ndim else self._reshape((1,))

    def _cut_beside(self, axis: int, shape: tuple[sint, ...]) -> Self:
        """The first elements of each axis, as many as `shape` has; `axis` stays whole."""
        kept: list[tuple[sint, sint]] = [(0, size) for size in shape]
        kept[axis] = (0, self.shape[axis])
        return self._shrink(tuple(kept))

    # Writing

    def _source_operand(self, src: object, index: Self, name: str) -> Self:
        """The argument `src`, cut to the shape of `index`; a number stands for all of it."""
        number = weak_number(src)
        if number is not None:
            if not has_place(number, self.dtype):
                raise UserError(f"{name}: src {number!r} has no place in {self.dtype.name}")
            return self._constant(number, self.dtype)._broadcast_to(index.shape)
        if not isinstance(src, Lookup):
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
        if not isinstance(src, Lookup):
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
