"""Sorting: by counting what comes before on a short axis, by a network on a long one.

Both find the order of the elements, and keep equal ones in theirs; the elements are then read in
that order.
"""

from __future__ import annotations

from typing import Self

from tinyref.algebra.symbolic import product
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.tensor.arguments import axis_of, fixed, integer
from tinyref.tensor.methods.elementwise import compute_dtype
from tinyref.tensor.methods.lookup import check_axis_size
from tinyref.tensor.methods.sorting_network import SortingNetwork
from tinyref.uops.ops import Ops

# Up to here n * n comparisons in one kernel take less time than the launches of a network.
COUNTED = 1024


class Sorting(SortingNetwork):
    """NaN is larger than every number, as with torch and numpy; -0 and 0 are equal."""

    __slots__ = ()

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
