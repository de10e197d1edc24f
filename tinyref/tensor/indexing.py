"""Indexing (also by tensors), gather and scatter, sorting, selection, interpolation.

A kernel reads and writes only at positions that do not depend on elements. So a lookup selects
among all elements of the axis: the sum of `(0, 1, 2 ... == index).where(element, 0)`. The compiler
turns this sum into one read. In this file, `indices` are the indices of elements along one axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeVar, cast, overload

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import Array, np
from tinyref.dtype import ConstType, DType, DTypeLike, dtypes, numpy_dtype, sum_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy import graph
from tinyref.tensor.arguments import (
    Bounds,
    Shape,
    axis_of,
    broadcast,
    count_of,
    fixed,
    integer,
    inverse_order,
    padding_bounds,
    require_one_of,
    wrong_type,
)
from tinyref.tensor.core import (
    GradientSwitch,
    apart_from,
    apply,
    as_tensor,
    broadcast_to,
    constant_like,
    expand,
    pad,
    reduce_over,
    reshape,
    shrink,
    with_rule,
)
from tinyref.tensor.creation import Creation, _requires_grad, as_leaf, element_dtype
from tinyref.tensor.data import Data
from tinyref.tensor.elementwise import (
    compute_dtype,
    floor_divide,
    require_integer,
    reversed_order,
    spread,
    widened,
)
from tinyref.tensor.gradient import Contributions, GradientStep, gradient_rule
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
from tinyref.tensor.literals import fits_dtype, weak_number
from tinyref.tensor.movement import (
    as_row,
    count_to,
    cut_axis,
    cut_beside,
    cut_negative,
    every_element,
    moved_from_last,
    moved_last,
    pad_with,
)
from tinyref.tensor.reduction import Reduction, elements_at, exactly, looked_up, reduced_last
from tinyref.tensor.sorting import sort_keys, sorted_order
from tinyref.tensor.taps import (
    Indices,
    Taps,
    Weights,
    cubic_indices,
    edge_indices,
    fixed_point,
    linear_indices,
    nearest_indices,
    reads_evenly,
)
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops

T = TypeVar("T", bound="Indexing")

_MODES = ("linear", "nearest", "nearest-exact", "cubic")


ScatterReduce = Literal["multiply", "add"] | None
Reduce = Literal["sum", "prod", "mean", "amax", "amin"]

REDUCES = ("sum", "prod", "mean", "amax", "amin")


def check_axis_size(size: int, name: str) -> int:
    """Return `size`. Raises `UserError` if int32 cannot number that many elements."""
    if size > dtypes.int32.maximum:
        raise UserError(
            f"{name}: {size} elements to choose from: accepted are at most {dtypes.int32.maximum}"
        )
    return size


class Indexing(Reduction, Creation, Data):
    """Functions that read, write, select and sort elements: `tensor[...]`, `tensor[...] = value`.

    Indices are integers of any type. To a negative index, the size of the axis is added once.
    Indices in tensors are not checked: outside of the axis a read gives 0 and a write does nothing,
    where torch raises an error. Indices in lists, ranges and arrays are checked: a wrong one raises
    `UserError`. A mask decides the shape of the result, so its elements are read at once. A uint8
    tensor is an index and no mask. If several values are assigned to one element, the last counts.

    NaN is larger than every number, as in torch and numpy, and -0 equals 0. Index results are
    int32, or int64 if an axis has more elements than int32 can number. Torch always has int64.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Self]:
        if not self.ndim:
            raise UserTypeError("iteration: a tensor without axes cannot be iterated over")
        return (self[number] for number in range(fixed(self.shape[:1], "iteration")[0]))

    def _index_operand(self, index: object, axis: int, name: str) -> Self:
        """Return the argument `index` of a function along `axis`, checked against this tensor."""
        checked = as_tensor(self, index, f"{name}: index")
        require_integer(f"{name}: index", checked.dtype, accept_bool=False)
        if checked.ndim != self.ndim:
            raise UserError(
                f"{name}: index has {checked.ndim} axes, the tensor {self.ndim}: they must be equal"
            )
        have, want = fixed(self.shape, name), fixed(checked.shape, name)
        for number in range(self.ndim):
            if number != axis and want[number] > have[number]:
                raise UserError(
                    f"{name}: index of {describe_shape(want)} is larger than the tensor of "
                    f"{describe_shape(have)} on axis {number}: only axis {axis} may be"
                )
        return checked

    def pad(
        self,
        padding: Sequence[sint] | Sequence[tuple[sint, sint] | None],
        mode: str = "constant",
        value: float = 0.0,
    ) -> Self:
        """Pad with `value` around the elements. Negative amounts cut elements off.

        `padding` has two flat numbers for each axis, starting at the last axis. Or it has one pair
        (before, after) for each axis, starting at the first axis, with None for no padding. The
        other modes pad with elements: "reflect" mirrors them at the edge without repeating it,
        "replicate" repeats the edge, "circular" continues at the other end.

        Examples:
            >>> Tensor([1, 2]).pad((1, 2)).tolist()
            [0, 1, 2, 0, 0]
        """
        bounds = padding_bounds(padding, self.ndim)
        if mode != "constant":
            return self._pad_with_own_elements(bounds, mode)
        number = weak_number(value)
        if number is None:
            raise wrong_type("pad: value", value, "is a number")
        cut = cut_negative(self, bounds)
        grown = tuple((_positive(before), _positive(after)) for before, after in bounds)
        is_default = number == 0 and math.copysign(1, number) > 0
        return pad_with(cut, grown, False if is_default else number)

    def _pad_with_own_elements(self, bounds: Bounds, mode: str) -> Self:
        """Pad with elements of this tensor.

        As in torch, negative amounts cut elements off after the padding. For "circular" they cut
        before it.
        """
        require_one_of(mode, ("constant", "reflect", "replicate", "circular"), "pad: mode")
        is_cut_first = mode == "circular"
        result = cut_negative(self, bounds) if is_cut_first else self
        for axis, pair in enumerate(bounds):
            before, after = (max(amount, 0) for amount in fixed(pair, "pad"))
            if before or after:
                size = fixed((result.shape[axis],), "pad")[0]
                _require_edges(size, before, after, axis, mode)
                result = resample_axis(result, axis, edge_indices(size, before, after, mode))
        return result if is_cut_first else cut_negative(result, bounds)

    def gather(self, dim: int, index: Self) -> Self:
        """Gather elements along axis `dim` by the indices in `index`.

        For `dim` 0, element [i, j, k] of the result is element [index[i, j, k], j, k] of this
        tensor. `index` has integers and the shape of the result: as many axes as this tensor, and
        no larger on axes other than `dim`. An index outside of the axis gives 0.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[1], [0]])).tolist()
            [[2], [3]]
        """
        axis = axis_of(dim, self.ndim, "gather")
        checked = self._index_operand(index, axis, "gather")
        size = fixed(as_row(self).shape, "gather")[axis]
        indices = moved_last(as_indices(as_row(checked), size, "gather"), axis)
        rows = moved_last(cut_beside(as_row(self), axis, as_row(checked).shape), axis).unsqueeze(-2)
        return reshape(moved_from_last(looked_up(rows, indices), axis), checked.shape)

    # Writing

    def _source_operand(self, src: object, index: Self, name: str) -> Self:
        """Return the argument `src`, cut or (for a number) expanded to the shape of `index`."""
        number = weak_number(src)
        if number is not None:
            if not fits_dtype(number, self.dtype):
                raise UserError(f"{name}: src {number!r} does not fit {self.dtype.name}")
            return broadcast_to(constant_like(self, number, self.dtype), index.shape)
        if not isinstance(src, Indexing):
            raise wrong_type(f"{name}: src", src, "are a Tensor and a number")
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
        return shrink(source, tuple((0, size) for size in sizes))

    def _scatter_args(
        self, dim: int, index: object, src: object, name: str
    ) -> tuple[Self, Self, int]:
        """Return (indices, source, axis) of a scatter.

        Both tensors have `axis` last, and the sizes of this tensor on the other axes. Padding has
        the index -1, which selects nothing.
        """
        axis = axis_of(dim, self.ndim, name)
        checked = self._index_operand(index, axis, name)
        source = as_row(self._source_operand(src, checked, name))
        want = fixed(as_row(self).shape, name)
        indices = as_indices(as_row(checked), want[axis], name, mark=True)
        have = fixed(indices.shape, name)
        margins = tuple(
            (0, 0 if number == axis else want[number] - have[number]) for number in range(len(want))
        )
        padded = moved_last(pad_with(indices, margins, -1), axis)
        return padded, moved_last(pad(source, margins), axis), axis

    def scatter(
        self, dim: int, index: Self, src: Self | ConstType, reduce: ScatterReduce = None
    ) -> Self:
        """Return this tensor with elements of `src` written along axis `dim` at `index`.

        For `dim` 0, element [index[i, j, k], j, k] becomes `src[i, j, k]`. With `reduce`, it is
        added to or multiplied by `src[i, j, k]`. `index` has integers, `src` has this tensor's type
        or is a number. If several elements have one index, the last counts (undefined in torch).
        An index outside of the axis is ignored.

        Examples:
            >>> Tensor([0, 0, 0]).scatter(0, Tensor([2, 0]), Tensor([5, 6])).tolist()
            [6, 0, 5]
        """
        require_one_of(reduce, (None, "add", "multiply"), "scatter: reduce")
        indices, source, axis = self._scatter_args(dim, index, src, "scatter")
        rows = moved_last(as_row(self), axis)
        if reduce is None:
            last = last_hits(indices, *fixed((indices.shape[-1], rows.shape[-1]), "scatter"))
            result = last.ge(0).where(looked_up(source.unsqueeze(-2), last), rows)
        else:
            compute_dtype("scatter", self.dtype)
            kind: Reduce = "sum" if reduce == "add" else "prod"
            result = combine_at(rows, kind, indices, source, True)
        return reshape(moved_from_last(result, axis), self.shape)

    def scatter_reduce(
        self, dim: int, index: Self, src: Self, reduce: Reduce, include_self: bool = True
    ) -> Self:
        """Return this tensor with each element reduced with the elements of `src` at its index.

        reduce: "sum", "prod", "mean", "amax" or "amin". Without `include_self`, an element that has
        elements of `src` is not part of their reduction. Sums have this tensor's type; for float16
        and bfloat16 they are rounded once, at the end. The mean of integers rounds down.

        Examples:
            >>> indices, values = Tensor([0, 0, 2]), Tensor([1, 2, 5])
            >>> Tensor([0, 0, 0]).scatter_reduce(0, indices, values, "sum").tolist()
            [3, 0, 5]
        """
        require_one_of(reduce, REDUCES, "scatter_reduce: reduce")
        as_tensor(self, src, "scatter_reduce: src")
        compute_dtype("scatter_reduce", self.dtype)
        indices, source, axis = self._scatter_args(dim, index, src, "scatter_reduce")
        rows = moved_last(as_row(self), axis)
        result = combine_at(rows, reduce, indices, source, include_self)
        return reshape(moved_from_last(result, axis), self.shape)

    def __getitem__(self, key: object) -> Self:
        items = items_of(key)
        if not any(map(is_advanced, items)):
            return basic_part(self, tuple(items))
        parts = split_key(self.shape, key)
        part = self if parts.is_whole else basic_part(self, parts.basic)
        layout = layout_of(part.shape, parts.chosen)
        indices = joined_indices(self, layout, parts.chosen)
        rows = joined_axes(part, layout)
        if not isinstance(indices, Indexing) and reads_evenly(indices, layout.size):
            columns = resample_axis(moved_from_last(rows, 0), 0, indices.reshape(1, -1))
            elements = apart_from(reshape(columns, (*layout.shape, *layout.rest)), self)
        else:
            numbers = as_tensor_of_indices(self, indices, layout.size)
            aligned = reshape(numbers, (*layout.shape, *(1 for _ in layout.rest)))
            elements = looked_up(rows, aligned)
        front = range(len(layout.shape))
        order = list(range(len(layout.shape), elements.ndim))
        order[layout.begin : layout.begin] = front
        return elements.permute(tuple(order))

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """Sort along axis `dim`. Return (values, indices). Equal elements stay in order.

        The indices are int32. `values` is `self.gather(dim, indices)`, and has its gradient.

        Examples:
            >>> values, indices = Tensor([3, 1, 2]).sort()
            >>> values.tolist(), indices.tolist()
            ([1, 2, 3], [1, 2, 0])
        """
        axis = axis_of(dim, self.ndim, "sort")
        return self._sort_axis("sort", axis, fixed(as_row(self).shape, "sort")[axis], descending)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Self:
        """Return the indices that sort the elements along axis `dim`, as int32.

        Equal elements stay in order, with `stable` and without.

        Examples:
            >>> Tensor([3, 1, 2]).argsort().tolist()
            [1, 2, 0]
        """
        axis = axis_of(dim, self.ndim, "argsort")
        size = fixed(as_row(self).shape, "argsort")[axis]
        return self._sort_axis("argsort", axis, size, descending)[1]

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """Return (values, indices) of the `k` largest, or smallest, elements along axis `dim`.

        They are sorted, with `sorted_` and without. The first of equal elements comes first.

        Examples:
            >>> values, indices = Tensor([3, 1, 2]).topk(2)
            >>> values.tolist(), indices.tolist()
            ([3, 2], [0, 2])
        """
        axis = axis_of(dim, self.ndim, "topk")
        size = fixed(as_row(self).shape, "topk")[axis]
        count = count_of(k, "topk: k", 0, size)
        return self._sort_axis("topk", axis, count, largest)

    def _sort_axis(self, name: str, axis: int, count: int, descending: bool) -> tuple[Self, Self]:
        """Return the first `count` values and indices of the sorted axis."""
        compute_dtype(name, self.dtype)
        rows = moved_last(as_row(self), axis)
        size = check_axis_size(fixed(rows.shape, name)[-1], name)
        shape = (*rows.shape[:-1], count)
        if 0 in rows.shape or not count:
            order = broadcast_to(constant_like(self, 0, dtypes.int32), shape)
            values = cut_axis(rows, rows.ndim - 1, 0, count)
        else:
            keys = sort_keys(rows.detach())
            order = sorted_order((keys.bitwise_not() if descending else keys), size, count)
            values = looked_up(rows.unsqueeze(-2), order)
        result = self.shape if not self.ndim else None
        pair = (moved_from_last(part, axis) for part in (values, order))
        first, second = (part if result is None else reshape(part, result) for part in pair)
        return first, second

    # Extremes

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Return the index of the largest element along `axis`, or in the flattened tensor.

        This is the first of equal elements, and the first NaN if there is one. Raises `UserError`
        for an axis without elements.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).argmax(axis=1).tolist()
            [1, 0]
        """
        return place_of_largest(self, axis, keepdim, "argmax")

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Return the index of the smallest element. For the rest see `argmax`.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).argmin(axis=1).tolist()
            [0, 1]
        """
        compute_dtype("argmin", self.dtype)
        return place_of_largest(reversed_order(self), axis, keepdim, "argmin")

    # Masks

    def masked_fill(self, mask: Self, value: Self | ConstType) -> Self:
        """Return this tensor with `value` where `mask` is true.

        `mask` has bools and broadcasts. `value` is a number or a tensor without axes. The result
        has the type of this tensor. Raises `UserError` for a value that does not fit this type.

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
            fits = fits_dtype(number, self.dtype)
            filling = constant_like(self, number, self.dtype) if fits else self
        else:
            raise wrong_type("masked_fill: value", value, "are a Tensor and a number")
        if not fits:
            raise UserError(f"masked_fill: value {value!r} does not fit {self.dtype.name}")
        return chosen.where(filling.cast(self.dtype), self)

    def masked_select(self, mask: Self) -> Self:
        """Return the elements where `mask` is true, in order, on one axis. Both broadcast.

        The mask decides the size of the result, so its elements are read at once.

        Examples:
            >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
            [1, 3]
        """
        chosen, source = spread(self._mask_operand(mask, "masked_select"), "masked_select", self)
        return as_row(source)[as_row(chosen)]

    @overload
    def nonzero(self, as_tuple: Literal[False] = False) -> Self: ...
    @overload
    def nonzero(self, as_tuple: Literal[True]) -> tuple[Self, ...]: ...
    def nonzero(self, as_tuple: bool = False) -> Self | tuple[Self, ...]:
        """Return the indices of the elements that are not 0, one in each row, in order.

        With `as_tuple`, return a tuple with the indices along each axis, which is itself an index.
        The elements decide the size of the result, so they are read at once.

        Examples:
            >>> Tensor([[0, 5], [7, 0]]).nonzero().tolist()
            [[0, 1], [1, 0]]
            >>> [indices.tolist() for indices in Tensor([[0, 5], [7, 0]]).nonzero(as_tuple=True)]
            [[0, 1], [1, 0]]
        """
        if not isinstance(as_tuple, bool):
            raise wrong_type("nonzero: as_tuple", as_tuple, "is a bool")
        tensor = as_row(self) if as_tuple else self
        indices = np.argwhere(tensor.cast(dtypes.bool).numpy()).astype(np.int32)
        if not as_tuple:
            return beside(self, indices)
        return tuple(beside(self, column) for column in indices.T)

    def _mask_operand(self, mask: object, name: str) -> Self:
        if not isinstance(mask, Indexing):
            raise wrong_type(f"{name}: mask", mask, "is a bool Tensor")
        if not mask.dtype.is_bool:
            raise UserTypeError(f"{name}: mask is {mask.dtype.name}, accepted is bool")
        return cast(Self, mask)

    def one_hot(self, num_classes: int = -1) -> Self:
        """Return int32 with a new last axis that has a 1 at the class of the element, else 0.

        The new axis has `num_classes` elements. An element outside of the classes gives only zeros.
        With -1, the number of classes is the largest element plus 1: this reads the elements.

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
                raise UserError("one_hot: a tensor without elements needs num_classes")
            count = max(int(self.max().item()), 0) + 1
        classes = count_to(self, count)
        # Compare in a type that holds both: int32, or the type of 64-bit integers.
        wide = self.cast(dtypes.int32) if self.dtype.itemsize < 4 else self
        return wide.unsqueeze(-1).eq(classes.cast(wide.dtype)).cast(dtypes.int32)

    # Patterns

    def tril(self, diagonal: int = 0) -> Self:
        """Return the lower triangle of the last two axes, with 0 above the diagonal.

        `diagonal` moves the diagonal to the right.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).tril().tolist()
            [[1, 0], [3, 4]]
        """
        return self._triangle(diagonal, "tril", is_lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """Return the upper triangle of the last two axes, with 0 below the diagonal.

        `diagonal` moves the diagonal to the right.

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
        # All diagonals outside of the matrix have the same result.
        moved = max(-rows - 1, min(offset, columns + 1))
        ends, numbers = (
            count_to(self, rows).add(moved).unsqueeze(-1),
            count_to(self, columns),
        )
        is_inside = numbers.le(ends) if is_lower else numbers.ge(ends)
        return is_inside.where(self, constant_like(self, 0, self.dtype))

    def roll(
        self, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None
    ) -> Self:
        """Shift the elements by `shifts` along axis `dims`. The last ones become the first.

        Without `dims`, the tensor is flattened before, and gets its shape back afterwards.

        Examples:
            >>> Tensor([1, 2, 3]).roll(1, 0).tolist()
            [3, 1, 2]
            >>> Tensor([[1, 2], [3, 4]]).roll(1).tolist()
            [[4, 1], [2, 3]]
        """
        if dims is None:
            row = reshape(self, (self.numel(),))
            return apart_from(reshape(row.roll(shifts, 0), self.shape), self)
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
            size = fixed(as_row(self).shape, "roll")[axis]
            if self.ndim and size and shift % size:
                cut = size - shift % size
                front, back = cut_axis(result, axis, cut, size), cut_axis(result, axis, 0, cut)
                result = front.cat(back, dim=axis)
        return apart_from(result, self)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Repeat each element `repeats` times along axis `dim`, or in the flattened tensor.

        Examples:
            >>> Tensor([1, 2]).repeat_interleave(2).tolist()
            [1, 1, 2, 2]
        """
        count = count_of(repeats, "repeat_interleave: repeats", 0)
        if dim is None:
            joined = reshape(self, (self.numel(),))
            return apart_from(joined.repeat_interleave(count, 0), self)
        axis = axis_of(dim, self.ndim, "repeat_interleave")
        rows = as_row(self)
        size = fixed(rows.shape, "repeat_interleave")[axis]
        before, after = rows.shape[:axis], rows.shape[axis + 1 :]
        split = reshape(rows, (*before, size, 1, *after))
        spread = expand(split, (*before, size, count, *after))
        return apart_from(reshape(spread, (*before, size * count, *after)), self)

    def meshgrid(self, *args: Self, indexing: Literal["ij", "xy"] = "ij") -> tuple[Self, ...]:
        """Return the coordinates of a grid: result i has tensor i along axis i, repeated.

        The tensors have one axis or none. With "xy" the first two axes are swapped.

        Examples:
            >>> rows, columns = Tensor([1, 2]).meshgrid(Tensor([3, 4]))
            >>> rows.tolist(), columns.tolist()
            ([[1, 1], [2, 2]], [[3, 4], [3, 4]])
        """
        require_one_of(indexing, ("ij", "xy"), "meshgrid: indexing")
        tensors = (self, *args)
        for number, tensor in enumerate(tensors):
            as_tensor(self, tensor, f"meshgrid: argument {number}")
            if tensor.ndim > 1:
                raise UserError(
                    f"meshgrid: argument {number} has shape {describe_shape(tensor.shape)}: "
                    f"accepted is one axis"
                )
        rows = [as_row(tensor) for tensor in tensors]
        axes = list(range(len(rows)))
        if indexing == "xy" and len(rows) > 1:
            axes[:2] = [1, 0]
        sizes = {axis: row.shape[0] for axis, row in zip(axes, rows, strict=True)}
        shape = tuple(sizes[axis] for axis in range(len(rows)))
        return tuple(
            expand(
                reshape(row, tuple(size if at == axis else 1 for at, size in enumerate(shape))),
                shape,
            )
            for axis, row in zip(axes, rows, strict=True)
        )

    def interpolate(
        self, size: Sequence[int], mode: str = "linear", align_corners: bool = False
    ) -> Self:
        """Resize the last axes to the sizes in `size`.

        mode: "nearest" takes the element at floor(i * old / new), "nearest-exact" the one nearest
        to the middle of the new element. "linear" weights two elements along each axis, "cubic"
        four (Keys 1981, with -0.75). For these two, `align_corners` aligns the middles of the first
        and last elements. Integers have only the nearest modes. The exception is uint8, which is
        rounded after each axis, the last axis first, with the weights of torch.

        Examples:
            >>> Tensor([[[1.0, 3.0]]]).interpolate((4,), mode="nearest").tolist()
            [[[1.0, 1.0, 3.0, 3.0]]]
        """
        if not isinstance(size, list | tuple) or not 0 < len(size) <= self.ndim:
            raise UserTypeError(
                f"interpolate: size {size!r} for shape {describe_shape(self.shape)}: accepted is "
                f"a tuple of sizes for the last axes"
            )
        require_one_of(mode, _MODES, "interpolate: mode")
        if align_corners and mode.startswith("nearest"):
            raise UserError(f"interpolate: align_corners is not defined in mode {mode!r}")
        is_bytes = self.dtype is dtypes.uint8
        if not (mode.startswith("nearest") or self.dtype.is_float or is_bytes):
            raise UserTypeError(
                f"interpolate: {self.dtype.name} in mode {mode!r}: cast to float first"
            )
        sizes = [integer(item, "interpolate: size") for item in size]
        result = self
        if not mode.startswith("nearest"):
            result = self.cast(dtypes.int32) if is_bytes else widened(self, "interpolate")
        lead = self.ndim - len(sizes)
        for axis, new in reversed(tuple(enumerate(sizes, lead))):
            old = fixed((self.shape[axis],), "interpolate")[0]
            if new < 1 or old < 1:
                raise UserError(f"interpolate: size {old} to {new}: accepted are positive sizes")
            check_axis_size(new, "interpolate")
            if mode.startswith("nearest"):
                indices = nearest_indices(old, new, is_exact=mode == "nearest-exact")
                result = resample_axis(result, axis, indices)
            elif new != old:
                find = linear_indices if mode == "linear" else cubic_indices
                resample = resample_bytes if is_bytes else resample_axis
                result = resample(result, axis, *find(old, new, align_corners))
        return apart_from(result.cast(self.dtype), self)

    @classmethod
    def randperm(
        cls, n: int, *, device: str | None = None, dtype: DTypeLike = dtypes.int, **kwargs: Any
    ) -> Self:
        """Return the numbers from 0 to n - 1 in random order, made by sorting random words.

        Examples:
            >>> sorted(Tensor.randperm(5).tolist())
            [0, 1, 2, 3, 4]
        """
        count = count_of(n, "randperm: n", 0)
        target = element_dtype(dtype) or dtypes.default_int
        requires_grad = _requires_grad("randperm", kwargs)
        largest = 1 << target.mantissa_bits + 1 if target.is_float else target.maximum
        if count - 1 > largest:
            raise UserError(f"randperm: {count - 1} does not fit {target.name}")
        with GradientSwitch():
            words = cls._random_words((count,), device).cast(dtypes.uint32)
            return as_leaf(words.sort()[1].cast(target), requires_grad)

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Draw indices with probabilities in proportion to these weights, as int32.

        Shapes: the weights are (n,) or (rows, n), the result (num_samples,) or (rows, num_samples).
        Without `replacement`, no index is drawn twice (Efraimidis and Spirakis, "Weighted random
        sampling with a reservoir", 2006). Weights must be at least 0, with a positive finite sum:
        other weights give -1. The result is also -1 if no index with a positive weight is left.

        Examples:
            >>> Tensor([0.0, 1.0]).multinomial().tolist()
            [1]
        """
        if self.ndim not in (1, 2):
            raise UserError(f"multinomial: weights have {self.ndim} axes, accepted are 1 and 2")
        count = count_of(num_samples, "multinomial: num_samples", 1)
        choices = fixed(self.shape, "multinomial")[-1]
        if not choices:
            raise UserError("multinomial: there are no weights to choose from")
        if not replacement and count > choices:
            raise UserError(
                f"multinomial: num_samples {count} of {choices} choices without replacement: "
                f"accepted are up to {choices}"
            )
        with GradientSwitch():
            weights = widened(self.detach(), "multinomial")
            weights = weights if self.ndim == 2 else weights.unsqueeze(0)
            draw = draw_with_replacement if replacement else draw_without_replacement
            drawn = draw(weights, count)
            total, least = weights.sum(1, keepdim=True), weights.min(1, keepdim=True)
            is_valid = least.ge(0).bitwise_and(total.gt(0)).bitwise_and(total.lt(math.inf))
            rows = is_valid.where(drawn.cast(dtypes.int32), -1)
            return rows if self.ndim == 2 else rows.squeeze(0)

    def allclose(
        self,
        other: Self | ConstType,
        rtol: float = 1e-05,
        atol: float = 1e-08,
        equal_nan: bool = False,
    ) -> bool:
        """Return True if all elements are close to the elements of `other`: see `isclose`.

        This reads the elements: the result is a Python bool, as in torch.

        Examples:
            >>> Tensor([1.0, 2.0]).allclose(Tensor([1.0 + 1e-6, 2.0]))
            True
        """
        return bool(self._isclose(other, rtol, atol, equal_nan, "allclose").all())


# Keys


def basic_part(x: T, key: object) -> T:
    """Return the view that a key of integers, slices, None and Ellipsis selects."""
    index = parse_index(x.shape, key)
    result = shrink(x, index.bounds)
    if index.flipped_axes:
        result = result.flip(index.flipped_axes)
    for number, axis in enumerate(index.axes):
        result = every_element(result, number, axis.step)
    return reshape(result, index.shape)


def joined_indices(x: T, layout: Layout, chosen: Sequence[Chosen]) -> T | Array:
    """Return the indices on the joined axis, in the shape of the layout; an array if all are known.

    If the index along any axis is outside, the result is outside of the joined axis.
    """
    is_joined = len(chosen) > 1
    stride = layout.size
    dtype = graph.counting_dtype(layout.size)
    known: Array | None = None
    total: T | None = None
    outside: T | None = None
    for item, size in zip(chosen, layout.sizes, strict=True):
        stride = stride // size if size else 0
        if not isinstance(item.index, Indexing):
            part = np.asarray(item.index * stride)
            known = part if known is None else np.asarray(known + part)
            continue
        indices = as_indices(cast(T, item.index), size, "index", mark=is_joined)
        if is_joined:
            missed = indices.lt(0)
            outside = missed if outside is None else outside.bitwise_or(missed)
            indices = indices.cast(dtype).mul(stride)
        total = indices if total is None else total.add(indices)
    if total is None:
        assert known is not None, "a lookup has at least one index"
        return np.broadcast_to(known, fixed(layout.shape, "index"))
    if known is not None:
        total = total.add(beside(x, known.astype(numpy_dtype(dtype))))
    if outside is not None:
        total = outside.where(-1, total)
    return broadcast_to(total, layout.shape)


def as_tensor_of_indices(x: T, indices: T | Array, size: int) -> T:
    """Return indices on an axis of `size` as a tensor."""
    if isinstance(indices, Indexing):
        return indices
    return beside(x, indices.astype(numpy_dtype(graph.counting_dtype(size))))


def joined_axes(x: T, layout: Layout) -> T:
    """Join the axes that are looked up to one axis behind all others."""
    ordered = x.permute((*layout.others, *layout.axes))
    return reshape(ordered, (*layout.rest, layout.size))


def separate_axes(x: T, layout: Layout) -> T:
    """Undo `joined_axes`."""
    axes = (*layout.others, *layout.axes)
    back = inverse_order(axes)
    return reshape(x, (*layout.rest, *layout.sizes)).permute(back)


# Assignment by index


def assignment_target(x: T, key: object, value: T) -> tuple[T, T | None, T]:
    """Return the view that `key` selects, a mask of its written elements, and their values."""
    items = items_of(key)
    if not any(map(is_advanced, items)):
        target = basic_part(x, tuple(items))
        return target, None, spread_over(value.cast(x.dtype), target.shape)
    if len(items) == 1 and _is_mask(items[0]) and all(size == 1 for size in value.shape):
        return x, *write_by_mask(x, cast(T, items[0]), value)
    parts = split_key(x.shape, key)
    target = x if parts.is_whole else basic_part(x, parts.basic)
    return target, *write_by_index(x, target.shape, parts.chosen, value.cast(x.dtype))


def write_by_mask(x: T, mask: T, value: T) -> tuple[T, T]:
    """Return mask and values for one value at all true elements, without reading the mask now."""
    check_mask(as_index(mask).shape, x.shape[: mask.ndim])
    aligned = reshape(mask, (*mask.shape, *(1 for _ in x.shape[mask.ndim :])))
    spread = reshape(value, ()).cast(x.dtype)
    return broadcast_to(aligned, x.shape), broadcast_to(spread, x.shape)


def write_by_index(x: T, shape: Shape, chosen: Sequence[Chosen], value: T) -> tuple[T, T]:
    """Return a mask of the chosen elements of a tensor of `shape`, and their values."""
    layout = layout_of(shape, chosen)
    inner = (*layout.rest[: layout.begin], *layout.shape, *layout.rest[layout.begin :])
    spread = spread_over(value, inner)
    # The axes of the indices go to the end, where they are joined.
    ends = range(layout.begin, layout.begin + len(layout.shape))
    order = [axis for axis in range(len(inner)) if axis not in ends]
    source = reshape(spread.permute((*order, *ends)), (*layout.rest, layout.count))
    joined = as_tensor_of_indices(x, joined_indices(x, layout, chosen), layout.size)
    indices = reshape(joined, (layout.count,))
    last = last_hits(indices, layout.count, layout.size)
    whole = (*layout.rest, layout.size)
    aligned = reshape(last, (*(1 for _ in layout.rest), layout.size))
    unaligned = (1,) * len(inner) + value.shape
    if layout.count and all(unaligned[axis - len(inner)] == 1 for axis in ends):
        values = cut_axis(source, len(whole) - 1, 0, 1)  # the same for all indices
    else:
        values = looked_up(source.unsqueeze(-2), aligned)
    hits = broadcast_to(last.ge(0), whole)
    return separate_axes(hits, layout), separate_axes(broadcast_to(values, whole), layout)


def spread_over(x: T, shape: Shape) -> T:
    """Broadcast to `shape`, after dropping additional leading axes of size 1."""
    extra = x.ndim - len(shape)
    fits = x
    if extra > 0 and all(size == 1 for size in x.shape[:extra]):
        fits = reshape(x, x.shape[extra:])
    if broadcast([fits.shape, shape], "assignment by index") != shape:
        raise UserError(
            f"assignment by index: shape {describe_shape(x.shape)} "
            f"does not fit {describe_shape(shape)}"
        )
    return broadcast_to(fits, shape)


def spread_elements(x: T, axis: int, step: int, length: sint) -> T:
    """Undo `every_element`: put `step - 1` zeros after each element, and cut to `length`."""
    if step == 1:
        return x
    before, (count, *after) = x.shape[:axis], x.shape[axis:]
    bounds = [(0, 0)] * (x.ndim + 1)
    bounds[axis + 1] = (0, step - 1)
    rows = pad(reshape(x, (*before, count, 1, *after)), tuple(bounds))
    total = fixed((count,), "assignment by index")[0] * step
    whole = reshape(rows, (*before, total, *after))
    return cut_axis(whole, axis, 0, fixed((length,), "assignment by index")[0])


# Padding


def _require_edges(size: int, before: int, after: int, axis: int, mode: str) -> None:
    """Raise `UserError` if an axis has too few elements for this padding with its own elements."""
    limit = {"reflect": size - 1, "replicate": size and math.inf, "circular": size}[mode]
    if max(before, after) > limit:
        raise UserError(
            f"pad: ({before}, {after}) around {size} elements of axis {axis}: "
            f"mode {mode} has no more than {max(limit, 0)} on a side"
        )


def _positive(amount: sint) -> sint:
    return amount if isinstance(amount, UOp) else max(amount, 0)


# Gather and scatter


def as_indices(x: T, size: int, name: str, mark: bool = False) -> T:
    """Return indices into an axis of `size`, counted from 0, in the type that numbers the axis.

    With `mark`, an index outside of the axis becomes -1; else it is only outside as well.
    """
    require_integer(name, x.dtype, accept_bool=False)
    target = graph.counting_dtype(size)
    if x.dtype.itemsize < target.itemsize:
        return as_indices(x.cast(target), size, name, mark)
    counted = x
    if not x.dtype.is_unsigned:
        counted = x.lt(0).where(x.add(size), x)
    if x.dtype is target and not mark:
        return counted
    inside = counted.lt(size)
    if not x.dtype.is_unsigned:
        inside = inside.bitwise_and(counted.ge(0))
    return inside.where(counted.cast(target), -1)


def matches_of(x: T, size: int) -> T:
    """Compare indices (..., count) with each of `size` positions: bools (..., size, count)."""
    return count_to(x, size).unsqueeze(-1).eq(x.unsqueeze(-2))


def last_hits(x: T, count: int, size: int) -> T:
    """Return (..., size): for each element the number of its last index in `x` (..., count).

    An element without an index gets the lowest number, which is the maximum of no numbers.
    """
    numbers = count_to(x, count)
    lowest = int(numbers.dtype.minimum)
    return reduced_last(matches_of(x, size).where(numbers, lowest), Ops.MAX)


def combine_at(x: T, reduce: Reduce, indices: T, source: T, include_self: bool) -> T:
    """Reduce the elements of `source` (..., count) into this tensor (..., size) at `indices`."""
    if x.dtype.is_bool:
        if reduce == "mean":
            raise UserTypeError("scatter_reduce: bool has no mean: cast to a number type first")
        numbers = x.cast(dtypes.int32), source.cast(dtypes.int32)
        return combine_at(numbers[0], reduce, indices, numbers[1], include_self).cast(dtypes.bool)
    wide = sum_dtype(x.dtype)
    hits = matches_of(indices, fixed(x.shape[-1:], "scatter")[0])
    own, others = x.cast(wide), source.cast(wide)
    if reduce in ("amax", "amin"):
        largest = largest_of if reduce == "amax" else smallest_of
        result = largest(own, hits, others, include_self)
    else:
        result = accumulated_at(own, reduce, hits, others, include_self)
    if not include_self:
        result = reduced_last(hits, Ops.MAX).where(result, own)
    return result.cast(x.dtype)


def accumulated_at(x: T, reduce: Reduce, hits: T, source: T, include_self: bool) -> T:
    """Return sums, products or means. Without any element, the result is undefined."""
    op, identity = (Ops.MUL, 1) if reduce == "prod" else (Ops.ADD, 0)
    result = reduced_last(hits.where(source.unsqueeze(-2), identity), op)
    if include_self:
        result = apply(result, op, x)
    if reduce != "mean":
        return result
    count = reduced_last(hits.cast(dtypes.int32), Ops.ADD)
    count = count.add(1) if include_self else count.maximum(1)
    divide = result.div if x.dtype.is_float else partial(floor_divide, result)
    return divide(count.cast(x.dtype))


def largest_of(x: T, hits: T, source: T, include_self: bool) -> T:
    """Return the largest elements. Equal ones share the gradient evenly, also with `x` itself."""
    lowest = constant_like(x, x.dtype.minimum, x.dtype)
    candidates = hits.where(source.unsqueeze(-2), lowest)
    if include_self:
        candidates = candidates.cat(x.unsqueeze(-1), dim=-1)
    return candidates.max(-1)


def smallest_of(x: T, hits: T, source: T, include_self: bool) -> T:
    """Return the smallest elements, computed as the largest of the reversed order."""
    return reversed_order(largest_of(reversed_order(x), hits, reversed_order(source), include_self))


# Selection


def _kind(tensor: Indexing) -> int:
    """Return the rank of the kind in promotion: 0 for bool, 1 for integers, 2 for floats."""
    return 2 if tensor.dtype.is_float else 1 if tensor.dtype.is_int else 0


def place_of_largest(x: T, axis: int | None, keepdim: bool, name: str) -> T:
    """Return the index of the largest element along an axis, or of all elements."""
    compute_dtype(name, x.dtype)
    sizes = fixed(x.shape, name)
    if axis is None:
        number, shape = 0, tuple(1 for _ in sizes) if keepdim else ()
        rows = reshape(x, (x.numel(),))
    else:
        number = axis_of(axis, x.ndim, name)
        shape = tuple(1 if other == number else size for other, size in enumerate(sizes))
        if not keepdim:
            shape = (*shape[:number], *shape[number + 1 :])
        rows = moved_last(as_row(x), number)
    size = fixed(rows.shape[-1:], name)[0]
    if not size:
        raise UserError(
            f"{name}: shape {describe_shape(sizes)} has no element along the axis: "
            f"accepted is at least one"
        )
    return reshape(first_largest(rows.detach(), size), shape)


def first_largest(x: T, size: int) -> T:
    """Return the index of the first largest element of the last axis. NaN is larger than all."""
    largest = reduce_over(x, Ops.MAX, (x.ndim - 1,))
    # Earlier elements have larger scores. Elements that are not the largest have score 0.
    score = count_to(x, size).cast(graph.counting_dtype(2 * size)).neg().add(size)
    scores = x.eq(largest).where(score, 0)
    if x.dtype.is_float:
        scores = x.isnan().where(score.add(size), scores)
    best = reduced_last(scores, Ops.MAX)
    index = best.gt(size).where(best.neg().add(2 * size), best.neg().add(size))
    return index.cast(graph.counting_dtype(size))


def draw_with_replacement(x: T, count: int) -> T:
    """Draw `count` indices per row: count the running sums of weights below a random point."""
    rows = fixed(x.shape, "multinomial")[0]
    sums = x.cumsum(1)
    points = x.rand(rows, count, device=x.device, dtype=x.dtype)
    passed = points.mul(sums[:, -1:]).unsqueeze(-1).ge(sums.unsqueeze(1))
    # A point that rounds up to the whole sum belongs to the last index with a weight.
    last = sums.lt(sums[:, -1:]).sum(1, keepdim=True)
    return passed.sum(-1).minimum(last)


def draw_without_replacement(x: T, count: int) -> T:
    """Draw the `count` indices with the shortest random waiting times, with weights as rates."""
    chance = x.rand(*x.shape, device=x.device, dtype=x.dtype)
    # Use logarithms: the waiting time of a tiny weight would overflow, as for a weight of 0.
    waits = chance.neg().add(1).log().neg().log().sub(x.log())
    never = x.gt(0).logical_not().where(math.inf, waits)
    waited, indices = never.topk(count, dim=1, largest=False)
    return waited.lt(math.inf).where(indices, -1)


# Reads at known indices


def resample_axis(x: T, axis: int, indices: Indices, weights: Weights | None = None) -> T:
    """Return the sum over rows of weight times element; `indices` and `weights` are (rows, new).

    An index of -1 stands for no element. Without weights, one row moves elements.
    """
    size = fixed((x.shape[axis],), "interpolate")[0]
    if weights is None and len(indices) == 1:
        moved = evenly_spaced(x, axis, indices[0])
        if moved is not None:
            return moved
    taps = Taps(axis, size, indices, weights)
    return with_rule(x, "resampled", lambda x: sum_of_taps(x, taps), arg=taps)


def evenly_spaced(x: T, axis: int, row: Indices) -> T | None:
    """Return elements at equal distances, or all elements repeated; None for other indices."""
    size, new = fixed((x.shape[axis],), "interpolate")[0], len(row)
    if not size or not new:
        return None
    step = int(row[1] - row[0]) if new > 1 else 1
    if row[0] >= 0 and step > 0 and (row == np.arange(new) * step + row[0]).all():
        return every_element(cut_axis(x, axis, int(row[0]), int(row[-1]) + 1), axis, step)
    if new % size or (row != np.arange(new) // (new // size)).any():
        return None
    return x.repeat_interleave(new // size, axis)


def sum_of_taps(x: T, taps: Taps) -> T:
    """Compute `resample_axis` as a sum over the rows."""
    axis, (rows, new) = taps.axis, taps.indices.shape
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    shape = (*(1 for _ in before), new, rows, *(1 for _ in after))
    columns = reshape(x, (*before, taps.size, 1, *after))
    numbers = reshape(column_of(x, taps.indices, graph.counting_dtype(taps.size)), shape)

    def read(columns: T) -> T:
        return elements_at(columns, axis, numbers, "interpolate")

    if taps.weights is None and rows == 1:
        return reshape(exactly(columns, read), (*before, new, *after))
    parts = read(columns)
    if taps.weights is not None:
        parts = parts.mul(reshape(column_of(x, taps.weights, x.dtype), shape))
    return parts.sum(axis + 1)


def column_of(x: T, rows: Array, dtype: DType) -> T:
    """Return the elements of `rows`, column by column, as a tensor on this tensor's device."""
    return beside(x, np.ascontiguousarray(rows.T, numpy_dtype(dtype)))


@gradient_rule("resampled")
def resampled_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Sum for each element the gradients of the new elements that read it, times the weights."""
    assert isinstance(step.arg, Taps), "it carries its table"
    taps = step.arg.transposed()
    source = step.sources[0].dtype

    def for_elements() -> Indexing:
        # Storage-only types have no addition.
        is_stored = source in dtypes.storage_only
        wide = step.gradient.cast(dtypes.float32) if is_stored else step.gradient
        return resample_axis(wide, taps.axis, taps.indices, taps.weights).cast(source)

    return (for_elements,)


def beside(x: T, array: Array) -> T:
    """Return a tensor with the elements of `array` on this tensor's device, or on all of them."""
    devices = x.device
    first = devices if isinstance(devices, str) else devices[0]
    return type(x)(array, device=first).to(devices)


def resample_bytes(x: T, axis: int, indices: Indices, weights: Weights) -> T:
    """Resample integers from 0 to 255, in int32; round to nearest, and a half up."""
    factors, bits = fixed_point(indices, weights)
    sums = resample_axis(x, axis, indices, factors)
    return sums.add(1 << (bits - 1)).rshift(bits).clamp(0, 255)
