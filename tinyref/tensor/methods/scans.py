"""Running sums, products, maxima and logarithms of sums along one axis.

A long axis is cut into blocks: each block is scanned by itself, then the results of whole blocks
are scanned and brought to the blocks behind (the two-level scan of Blelloch, "Prefix Sums and
Their Applications", 1990). A block of n elements takes n * n steps, all at once, in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from tinyref.dtype import ConstType, sum_dtype
from tinyref.tensor.arguments import axis_of, fixed
from tinyref.tensor.methods.advanced import AdvancedIndexing
from tinyref.tensor.methods.elementwise import compute_dtype
from tinyref.uops.ops import Ops

# Elements of a block: the work for each element, against the number of kernels.
BLOCK = 16
# An axis that is no longer is one block: n * n steps take less time than further launches.
SINGLE_BLOCK = 64

_T = TypeVar("_T", bound="Scans")


class Scans(AdvancedIndexing):
    """Element i of a result stands for the elements 0 to i of the axis."""

    __slots__ = ()

    def _scan_last_axis(
        self,
        identity: ConstType,
        within: Callable[[Self], Self],
        join: Callable[[Self, Self], Self],
    ) -> Self:
        """The scan of the last axis: `within` scans a short one, `join` is the operation."""
        length = fixed(self.shape[-1:], "scan")[0]
        if length <= SINGLE_BLOCK:
            return within(self)
        count = -(-length // BLOCK)
        rows, last = self.shape[:-1], self.ndim - 1
        margins = (*((0, 0) for _ in rows), (0, count * BLOCK - length))
        blocks = self._pad_with_value(margins, identity)._reshape((*rows, count, BLOCK))
        inner = within(blocks)
        totals = inner._part(last + 1, BLOCK - 1, BLOCK)._reshape((*rows, count))
        # What is before a block is the scan of all whole blocks up to there.
        scanned = totals._part(last, 0, count - 1)._scan_last_axis(identity, within, join)
        first = (*((0, 0) for _ in rows), (1, 0))
        before = scanned._pad_with_value(first, identity).unsqueeze(-1)._expand(inner.shape)
        return join(before, inner)._reshape((*rows, count * BLOCK))._part(last, 0, length)

    def _prefixes(self, fill: ConstType) -> Self:
        """Row i of the two last axes: the elements 0 to i of the last axis, then `fill`."""
        length = self.shape[-1]
        numbers = self._count_to(length)
        reached = numbers.unsqueeze(-1).ge(numbers)
        return reached.where(self.unsqueeze(-2), self._constant(fill, self.dtype))

    def _reduced_scan(self, op: Ops, identity: ConstType) -> Self:
        """The scan of the last axis by an op that reduces."""
        return self._scan_last_axis(
            identity,
            lambda block: block._prefixes(identity)._reduced_last(op),
            lambda before, inner: before._apply(op, inner),
        )

    def _along(self, axis: int, name: str, scan: Callable[[Self], Self]) -> Self:
        """`scan` of the last axis, done along `axis`; a single element is its own scan."""
        number = axis_of(axis, self.ndim, name)
        compute_dtype(name, self.dtype)
        if not self.ndim or 0 in self.shape:
            return scan(self._row())._reshape(self.shape)
        return scan(self._moved_last(number))._moved_from_last(number)

    def cumsum(self, axis: int = 0) -> Self:
        """Running sums along `axis`, in the types of `sum`: narrow integers and bool widen.

        Examples:
            >>> Tensor([1, 2, 3]).cumsum().tolist()
            [1, 3, 6]
        """
        wide = self._cast(sum_dtype(self.dtype))
        total = wide._along(axis, "cumsum", lambda row: row._reduced_scan(Ops.ADD, 0))
        return total._cast(self.dtype) if self.dtype.is_float else total

    def cumprod(self, axis: int) -> Self:
        """Running products along `axis`, in the types of `sum`.

        Examples:
            >>> Tensor([2, 3, 4]).cumprod(0).tolist()
            [2, 6, 24]
        """
        wide = self._cast(sum_dtype(self.dtype))
        total = wide._along(axis, "cumprod", lambda row: row._reduced_scan(Ops.MUL, 1))
        return total._cast(self.dtype) if self.dtype.is_float else total

    def cummax(self, axis: int = 0) -> Self:
        """Return the running maxima along `axis`; from the first NaN on they are NaN.

        The last of equal maxima gets the gradient, as in torch.

        Examples:
            >>> Tensor([1, 3, 2]).cummax().tolist()
            [1, 3, 3]
        """
        return self._running_maximum(axis, "cummax")

    def cummin(self, axis: int = 0) -> Self:
        """Return running minima along `axis`; from the first NaN on they are NaN.

        Examples:
            >>> Tensor([3, 1, 2]).cummin().tolist()
            [3, 1, 1]
        """
        compute_dtype("cummin", self.dtype)
        return self._reverse_order()._running_maximum(axis, "cummin")._reverse_order()

    def _running_maximum(self, axis: int, name: str) -> Self:
        return self._along(axis, name, lambda row: row._with_rule("cummax", _running_maxima))

    def _places_of_maxima(self, maxima: Self) -> Self:
        """The last place up to each element of the last axis where its running maximum is."""
        is_new = self.eq(maxima)
        if self.dtype.is_float:
            is_new = is_new.bitwise_or(self.isnan())
        return is_new.where(self._count_to(self.shape[-1]), 0).cummax(-1)

    def logcumsumexp(self, axis: int = 0) -> Self:
        """log(e ** x0 + e ** x1 + ...) along `axis`, without overflow; integers give float32.

        Examples:
            >>> [round(x, 4) for x in Tensor([0.0, 0.0]).logcumsumexp().tolist()]
            [0.0, 0.6931]
        """
        wide = self._wide("logcumsumexp")
        result = wide._along(axis, "logcumsumexp", lambda row: row._log_sums())
        return result._cast(self._result_dtype())

    def _log_sums(self) -> Self:
        lowest = self.dtype.minimum
        return self._scan_last_axis(
            lowest,
            lambda block: block._prefixes(lowest).logsumexp(-1),
            lambda before, inner: before.logaddexp(inner),
        )


def _running_maxima(row: _T) -> _T:
    lowest = row.dtype.minimum
    return row._scan_last_axis(
        lowest,
        lambda block: block._prefixes(lowest).max(-1),
        lambda before, inner: before.maximum(inner),
    )
