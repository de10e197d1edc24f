"""Choosing elements by their value or by a pattern: extremes, masks, triangles, repetitions."""

from __future__ import annotations

from typing import Literal, Self, cast, overload

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import np
from tinyref.dtype import ConstType, dtypes
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy import graph
from tinyref.tensor.arguments import axis_of, fixed, integer
from tinyref.tensor.literals import has_place, weak_number
from tinyref.tensor.methods.elementwise import compute_dtype, require_integer
from tinyref.tensor.methods.sorting import Sorting
from tinyref.uops.ops import Ops


class Selection(Sorting):
    """Indices of results are int32, and int64 where an axis has more elements; torch has int64."""

    __slots__ = ()

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
        if isinstance(value, Sorting):
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
        if not isinstance(mask, Sorting):
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
            if not isinstance(tensor, Sorting):
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


def _kind(tensor: Sorting) -> int:
    """Bool, integers and floats in the order of promotion."""
    return 2 if tensor.dtype.is_float else 1 if tensor.dtype.is_int else 0
