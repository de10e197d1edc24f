"""Reductions over some axes or all (sums, products, extremes, means, norms), and scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, Self, TypeVar

from tinyref.algebra.symbolic import product
from tinyref.arrays import np
from tinyref.dtype import ConstType, DType, DTypeLike, dtypes, sum_dtype, to_dtype
from tinyref.errors import UserTypeError
from tinyref.lazy import graph
from tinyref.tensor.arguments import axes_of, axis_of, fixed, integer
from tinyref.tensor.core import (
    apart_from,
    apply,
    broadcast_to,
    choose,
    constant_like,
    expand,
    from_node,
    reduce_over,
    reshape,
    with_rule,
)
from tinyref.tensor.elementwise import (
    composite,
    compute_dtype,
    result_dtype,
    reversed_order,
    widened,
)
from tinyref.tensor.functions import Functions, _require_numbers
from tinyref.tensor.gradient import Contributions, GradientStep, gradient_rule
from tinyref.tensor.movement import (
    Movement,
    as_row,
    bits_as,
    count_to,
    cut_axis,
    moved_from_last,
    moved_last,
    pad_with,
    word_of,
)
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg

T = TypeVar("T", bound="Reduction")


# The limit of elements of a block: a kernel has an operation for each.
BLOCK = 16
# Up to this number of steps, the length of the axis for each element, all prefixes are reduced.
# This takes less time than more launches, or than the longer graph of a scan step by step.
FEW_STEPS = 1 << 14
# The same limits if an operation is costly.
COSTLY_BLOCK = 8
COSTLY_STEPS = 1 << 10


Axes = int | Sequence[int] | None


@dataclass(frozen=True)
class Scan(Generic[T]):
    """The functions of one kind of scan.

    identity: the total of no elements.
    total: reduces an axis and removes it.
    join: returns the total of two totals.
    running: returns the totals of the first element, of the first two, and so on; by default by
        `join`.
    block: the limit of elements of a block.
    few_steps: up to this number of steps, all prefixes are reduced.
    """

    identity: ConstType
    total: Callable[[T, int], T]
    join: Callable[[T, T], T]
    running: Callable[[Iterable[T]], Iterable[T]] | None = None
    block: int = BLOCK
    few_steps: int = FEW_STEPS

    def has_few_steps(self, x: T, axis: int) -> bool:
        """Return True if all prefixes along `axis` have few elements together."""
        length = fixed((x.shape[axis],), "scan")[0]
        sizes = (size for size in x.shape if isinstance(size, int))
        return length * math.prod(sizes) <= self.few_steps

    def totals(self, elements: Iterable[T]) -> Iterable[T]:
        """Return the totals of the first element, of the first two, and so on."""
        return self.running(elements) if self.running else accumulate(elements, self.join)


class Reduction(Functions, Movement):
    """Functions that reduce over axes, and scans such as running sums.

    `axis` is one axis, several, or None for all; `()` reduces nothing. With `keepdim` the reduced
    axes stay with size 1, otherwise they are removed. A reduction over no elements is the identity:
    0 for sums, 1 for products, and for max and min the lowest and highest value of the type.

    Element i of a running sum is the sum of the elements 0 to i. A long axis is split into blocks.
    The totals of the blocks are scanned first. Then each block is scanned, on the total of all
    earlier blocks. This is the two-level scan of Blelloch, "Prefix Sums and Their Applications",
    1990.
    """

    __slots__ = ()

    def _accumulate(
        self, op: Ops, axis: Axes, keepdim: bool, dtype: DTypeLike | None, name: str
    ) -> Self:
        """Return a sum or product in the accumulator's type. 16-bit floats round once, at last."""
        axes = axes_of(axis, self.ndim, name)
        compute_dtype(name, self.dtype)
        if dtype is not None:
            accumulator, _ = accumulator_dtype(self.dtype, dtype, name)
            terms = self.cast(accumulator)
            if accumulator.is_bool:
                return terms.any(axes, keepdim) if op is Ops.ADD else terms.all(axes, keepdim)
            return apart_from(reduce_axes(terms, op, axes, keepdim), self)
        wide = reduce_axes(self.cast(sum_dtype(self.dtype)), op, axes, keepdim)
        return apart_from((wide.cast(self.dtype) if self.dtype.is_float else wide), self)

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the sum.

        The sum of narrow integers and bools is int32 or uint32. float16 and bfloat16 are summed in
        float32 and then rounded back. `dtype` sets another type; in bool, the sum is `any`.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
            [4, 6]
        """
        return self._accumulate(Ops.ADD, axis, keepdim, dtype, "sum")

    def prod(
        self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """Return the product, in the types of `sum`. With `dtype` bool, the product is `all`.

        Examples:
            >>> Tensor([2, 3, 4]).prod().item()
            24
        """
        return self._accumulate(Ops.MUL, axis, keepdim, dtype, "prod")

    def max(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Return the largest element, or NaN if there is one. Ties share the gradient evenly.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).max(axis=1).tolist()
            [5, 7]
        """
        axes = axes_of(axis, self.ndim, "max")
        compute_dtype("max", self.dtype)
        return apart_from(without_axes(maximum_over(self, axes), () if keepdim else axes), self)

    def min(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Return the smallest element, or NaN if there is one. Ties share the gradient evenly.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).min(axis=0).tolist()
            [1, 3]
        """
        axes = axes_of(axis, self.ndim, "min")
        compute_dtype("min", self.dtype)
        return reversed_order(
            without_axes(maximum_over(reversed_order(self), axes), () if keepdim else axes)
        )

    def any(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Return True if any element is not zero.

        Examples:
            >>> Tensor([[0, 0], [1, 0]]).any(axis=1).tolist()
            [False, True]
        """
        return self.cast(dtypes.bool).max(axis, keepdim)

    def all(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Return True if no element is zero.

        Examples:
            >>> Tensor([[1, 0], [1, 1]]).all(axis=1).tolist()
            [False, True]
        """
        return self.logical_not().any(axis, keepdim).logical_not()

    def mean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Return the mean: NaN without elements. For integers and bool it is the default float.

        Examples:
            >>> Tensor([[1.0, 2.0], [3.0, 6.0]]).mean(axis=1).tolist()
            [1.5, 4.5]
        """
        axes = axes_of(axis, self.ndim, "mean")
        compute_dtype("mean", self.dtype)
        result = self.dtype if self.dtype.is_float else dtypes.default_float
        accumulator = sum_dtype(result)
        total = reduce_axes(self.cast(accumulator), Ops.ADD, axes, keepdim)
        return total.div(count_along(self, axes, accumulator)).cast(result)

    def var(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """Return the variance: the sum of squared distances from the mean, over a divisor.

        The divisor is the number of elements minus `correction`. If it is 0 or less, the variance
        is NaN.

        Examples:
            >>> Tensor([1.0, 2.0, 3.0]).var().item()
            1.0
        """
        axes, wide, divisor = self._variance_operands("var", axis, correction)

        def compute(x: Self, divisor: Self) -> Self:
            variance, unit = scaled_variance(x, axes, divisor)
            # Multiply twice, as the square of the unit may overflow.
            return variance.mul(unit).mul(unit)

        variance = with_rule(wide, "variance", compute, divisor, arg=ReduceArg(Ops.ADD, axes))
        return without_axes(variance, () if keepdim else axes).cast(result_dtype(self))

    def _variance_operands(
        self, name: str, axis: Axes, correction: int
    ) -> tuple[tuple[int, ...], Self, Self]:
        """Return the axes, the elements in the type of computations, and the divisor."""
        axes = axes_of(axis, self.ndim, name)
        wide = widened(self, name)
        less = integer(correction, f"{name}: correction")
        return axes, wide, count_along(self, axes, wide.dtype).sub(less).maximum(0)

    def std(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """Return the square root of the variance. Its gradient at equal elements is 0.

        Examples:
            >>> Tensor([1.0, 2.0, 3.0]).std().item()
            1.0
        """
        axes, wide, divisor = self._variance_operands("std", axis, correction)
        variance, unit = scaled_variance(wide, axes, divisor)
        is_constant = variance.eq(0)
        # At 0 the slope of the root is infinite, and infinity times 0 is NaN.
        root = is_constant.where(1, variance).sqrt()
        deviation = is_constant.where(0, root).mul(unit)
        return without_axes(deviation, () if keepdim else axes).cast(result_dtype(self))

    def std_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """Return `std` and `mean` of the same axes.

        Examples:
            >>> std, mean = Tensor([1.0, 2.0, 3.0]).std_mean()
            >>> std.item(), mean.item()
            (1.0, 2.0)
        """
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def var_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """Return `var` and `mean` of the same axes.

        Examples:
            >>> var, mean = Tensor([1.0, 2.0, 3.0]).var_mean()
            >>> var.item(), mean.item()
            (1.0, 2.0)
        """
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def _below_max(
        self, axis: int, name: str, dtype: DTypeLike | None, negated: bool = False
    ) -> tuple[Self, DType, int]:
        """Return the distances from the largest element along `axis`, the result's type, the axis.

        The largest element counts as a constant: the functions below do not depend on it. With
        `negated`, all elements are negated first.
        """
        number = axis_of(axis, self.ndim, name)
        axes = (number,) if self.ndim else ()
        target = result_dtype(self) if dtype is None else to_dtype(dtype, name)
        if not compute_dtype(name, target).is_float:
            raise UserTypeError(f"{name}: dtype {target.name}, accepted are float types")
        wide = widened(self.cast(target), name)
        wide = wide.neg() if negated else wide
        return wide.sub(reduce_over(wide.detach(), Ops.MAX, axes)), target, number

    def softmax(
        self, axis: int = -1, dtype: DTypeLike | None = None, _single_kernel: int = 0
    ) -> Self:
        """Return e ** self, scaled to sum to 1 along `axis`. `dtype` is the type of the result.

        `_single_kernel` has no effect: the scheduler decides the number of kernels.

        Examples:
            >>> Tensor([1.0, 1.0]).softmax().tolist()
            [0.5, 0.5]
        """
        return self._softmax(axis, "softmax", dtype)

    def softmin(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """Return e ** -self, scaled to sum to 1 along `axis`. `dtype` is the type of the result.

        Examples:
            >>> Tensor([1.0, 1.0]).softmin().tolist()
            [0.5, 0.5]
        """
        return self._softmax(axis, "softmin", dtype, negated=True)

    def _softmax(
        self, axis: int, name: str, dtype: DTypeLike | None, negated: bool = False
    ) -> Self:
        shifted, target, number = self._below_max(axis, name, dtype, negated)
        powers = shifted.exp()
        axes = (number,) if self.ndim else ()
        return powers.div(powers.sum(axes, keepdim=True)).cast(target)

    def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """Return the logarithm of `softmax`, without underflow.

        Examples:
            >>> round(Tensor([0.0, 0.0]).log_softmax().numpy()[0].item(), 4)
            -0.6931
        """
        shifted, target, number = self._below_max(axis, "log_softmax", dtype)
        axes = (number,) if self.ndim else ()
        return shifted.sub(shifted.exp().sum(axes, keepdim=True).log()).cast(target)

    @composite
    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Return log(sum(e ** self)) without overflow. If all elements are -inf, it is -inf.

        Examples:
            >>> round(Tensor([0.0, 0.0]).logsumexp().item(), 4)
            0.6931
        """
        axes = axes_of(axis, self.ndim, "logsumexp")
        # MAX may drop a NaN, but the sum below does not.
        largest = reduce_over(self.detach(), Ops.MAX, axes)
        # Infinity minus itself is NaN. With the largest finite number instead, the result is still
        # infinite, and no power of a finite element overflows.
        limit = float(np.finfo(self.dtype.name).max)
        base = largest.clamp(-limit, limit)
        result = self.sub(base).exp().sum(axes, keepdim=True).log().add(base)
        return without_axes(result, () if keepdim else axes)

    @composite
    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """Divide each vector along axis `dim` by its p-norm, or by `eps` if that is larger.

        Examples:
            >>> Tensor([[3.0, 4.0]]).normalize().tolist()
            [[0.6000000238418579, 0.800000011920929]]
        """
        _require_numbers("normalize", p=p, eps=eps)
        axes = axes_of(axis_of(dim, self.ndim, "normalize"), self.ndim, "normalize")
        norm = self._norm(float(p), axes)
        return self.div(norm.clamp(min_=float(eps)))

    def _norm(self, p: float, axes: tuple[int, ...]) -> Self:
        """Return the p-norm over `axes`, which stay with size 1. Its gradient at 0 is 0."""
        magnitude = self.abs()
        if math.isinf(p):
            extreme = magnitude.max if p > 0 else magnitude.min
            return extreme(axes, keepdim=True)
        if p == 0:
            return magnitude.ne(0).cast(self.dtype).sum(axes, keepdim=True)
        # Scale the elements to at most 1, so that their powers do not overflow.
        largest = reduce_over(magnitude.detach(), Ops.MAX, axes)
        unit = largest.gt(0).bitwise_and(largest.isfinite()).where(largest, 1)
        powers = power_above_zero(magnitude.div(unit), p, 0 if p > 0 else math.inf)
        return power_above_zero(powers.sum(axes, keepdim=True), 1 / p, 0).mul(unit)

    def cumsum(self, axis: int = 0) -> Self:
        """Return running sums along `axis`, in the types of `sum`: narrow integers and bool widen.

        Examples:
            >>> Tensor([1, 2, 3]).cumsum().tolist()
            [1, 3, 6]
        """
        wide = self.cast(sum_dtype(self.dtype))
        total = scan_by_op(wide, axis, "cumsum", Ops.ADD, 0)
        return total.cast(self.dtype) if self.dtype.is_float else total

    def cumprod(self, axis: int) -> Self:
        """Return running products along `axis`, in the types of `sum`.

        Examples:
            >>> Tensor([2, 3, 4]).cumprod(0).tolist()
            [2, 6, 24]
        """
        wide = self.cast(sum_dtype(self.dtype))
        total = scan_by_op(wide, axis, "cumprod", Ops.MUL, 1)
        return total.cast(self.dtype) if self.dtype.is_float else total

    def cummax(self, axis: int = 0) -> Self:
        """Return running maxima along `axis`. From the first NaN on they are NaN.

        The last of equal maxima gets the gradient, as in torch.

        Examples:
            >>> Tensor([1, 3, 2]).cummax().tolist()
            [1, 3, 3]
        """
        return running_maximum(self, axis, "cummax")

    def cummin(self, axis: int = 0) -> Self:
        """Return running minima along `axis`. From the first NaN on they are NaN.

        Examples:
            >>> Tensor([3, 1, 2]).cummin().tolist()
            [3, 1, 1]
        """
        compute_dtype("cummin", self.dtype)
        return reversed_order(running_maximum(reversed_order(self), axis, "cummin"))

    def logcumsumexp(self, axis: int = 0) -> Self:
        """Return log(e ** x0 + e ** x1 + ...) along `axis` without overflow. Integers give float32.

        Examples:
            >>> [round(x, 4) for x in Tensor([0.0, 0.0]).logcumsumexp().tolist()]
            [0.0, 0.6931]
        """
        wide = widened(self, "logcumsumexp")
        scan = Scan[Self](
            wide.dtype.minimum,
            lambda block, number: block.logsumexp(number),
            lambda before, inner: before.logaddexp(inner),
            running_logarithms,
            COSTLY_BLOCK,
            COSTLY_STEPS,
        )
        scanned = scan_along(wide, axis, "logcumsumexp", scan)
        return scanned.cast(result_dtype(self))


def _unit_of(x: T, axes: tuple[int, ...]) -> tuple[T, T]:
    """Return a power of two near the largest magnitude over `axes`, and its inverse.

    Both are 1 if squares of the elements, and their sums, cannot overflow or underflow.
    """
    integers = dtypes.int64 if x.dtype is dtypes.float64 else dtypes.int32
    bits = x.dtype.mantissa_bits
    bias = (1 << x.dtype.bits - 2 - bits) - 1
    # As integers, the bits of magnitudes have the order of the numbers.
    magnitudes = apply(x, Ops.BITCAST, dtype=integers).bitwise_and(integers.maximum)
    exponent = reduce_over(magnitudes, Ops.MAX, axes).rshift(bits).clamp(1, 2 * bias - 1)
    distance = exponent.sub(bias)
    distance = distance.abs().le(bias // 4).where(0, distance)
    unit, inverse = (
        apply(item.add(bias).lshift(bits), Ops.BITCAST, dtype=x.dtype)
        for item in (distance, distance.neg())
    )
    return unit, inverse


def accumulator_dtype(operands: DType, dtype: DTypeLike | None, name: str) -> tuple[DType, DType]:
    """Return the types of accumulator and result for a sum of products of type `operands`.

    If the caller sets `dtype`, it is both: in bool, a sum is OR and a product AND. Otherwise the
    accumulator is wide, as in `Tensor.sum`, and the result has the type of the operands. Floats
    are rounded, integers wrap, bool is "not 0".
    """
    compute_dtype(name, operands)
    if dtype is not None:
        chosen = compute_dtype(name, to_dtype(dtype, name))
        return chosen, chosen
    return sum_dtype(operands), operands


def reduce_axes(x: T, op: Ops, axes: tuple[int, ...], keepdim: bool) -> T:
    """Reduce over `axes`, and remove them unless `keepdim`."""
    return without_axes(reduce_over(x, op, axes), () if keepdim else axes)


def without_axes(x: T, axes: tuple[int, ...]) -> T:
    """Remove these axes, which must have size 1."""
    left = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    return reshape(x, left)


def maximum_over(tensor: T, axes: tuple[int, ...]) -> T:
    """Return the largest element over `axes`, which stay with size 1.

    A reduce by MAX may drop a NaN, so a second reduce in the same loop detects it.
    """
    if not (tensor.dtype.is_float and axes):
        return reduce_over(tensor, Ops.MAX, axes)

    def compute(x: T) -> T:
        return reduce_over(x.isnan(), Ops.MAX, axes).where(math.nan, reduce_over(x, Ops.MAX, axes))

    return with_rule(tensor, Ops.REDUCE, compute, arg=ReduceArg(Ops.MAX, axes))


def scaled_variance(x: T, axes: tuple[int, ...], divisor: T) -> tuple[T, T]:
    """Return the variance in squared units, and the unit: see `scaled_distances`."""
    distance, unit = scaled_distances(x, axes)
    return reduce_over(distance.square(), Ops.ADD, axes).div(divisor), unit


def scaled_distances(x: T, axes: tuple[int, ...]) -> tuple[T, T]:
    """Return the distances from the mean in units, and the unit.

    The unit is a power of two near the largest magnitude, so that no square overflows or
    underflows. It is 1 if none can.
    """
    unit, inverse = _unit_of(x.detach(), axes)
    # If the sum may overflow, compute the mean from smaller elements.
    small = 2.0 ** -(x.dtype.bits // 2)
    is_large = unit.gt(1)
    small_total = reduce_over(x.mul(small), Ops.ADD, axes)
    total = is_large.where(small_total, reduce_over(x, Ops.ADD, axes))
    mean = total.div(count_along(x, axes, x.dtype))
    mean = mean.mul(is_large.where(inverse.mul(1 / small), inverse))
    return x.mul(inverse).sub(mean), unit


def reduced_last(x: T, op: Ops) -> T:
    """Reduce over the last axis and remove it, in this tensor's own type."""
    last = x.ndim - 1
    return without_axes(reduce_over(x, op, (last,)), (last,))


def power_above_zero(x: T, exponent: float, at_zero: float) -> T:
    """Return x ** exponent, but the constant `at_zero` for 0, where the slope may be infinite."""
    is_zero = x.eq(0)
    safe = is_zero.where(1, x)
    return is_zero.where(at_zero, safe.sqrt() if exponent == 0.5 else safe.pow(exponent))


def scan_axis(x: T, axis: int, scan: Scan[T]) -> T:
    """Scan an axis block by block."""
    length = fixed((x.shape[axis],), "scan")[0]
    if length <= scan.block or scan.has_few_steps(x, axis):
        return scan_block(x, axis, scan)
    balanced = -(-length // -(-length // scan.block))
    sizes = range(scan.block // 2, scan.block + 1)
    size = max((size for size in sizes if length % size == 0), default=balanced)
    count = -(-length // size)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    whole = pad_with(x, margins_of(x, axis, 0, count * size - length), scan.identity)
    blocks = reshape(whole, (*before, count, size, *after))
    totals = cut_axis(scan.total(blocks, axis + 1), axis, 0, count - 1)
    # The total before a block is the scan of the totals of all earlier blocks.
    scanned = scan_axis(totals, axis, scan)
    earlier = pad_with(scanned, margins_of(x, axis, 1, 0), scan.identity).unsqueeze(axis + 1)
    result = scan_block(blocks, axis + 1, scan, earlier)
    return cut_axis(reshape(result, whole.shape), axis, 0, length)


def scan_block(x: T, axis: int, scan: Scan[T], earlier: T | None = None) -> T:
    """Scan a short axis step by step, after the total of `earlier` elements.

    Its gradient is the gradient of the totals of all prefixes, which few steps compute directly.
    """
    length = fixed((x.shape[axis],), "scan")[0]
    by_prefixes = scan.total(prefixes_of(x, axis, scan.identity), axis + 1)
    if earlier is not None:
        by_prefixes = scan.join(expand(earlier, x.shape), by_prefixes)
    if scan.has_few_steps(x, axis):
        return by_prefixes

    def compute(_: T) -> T:
        elements = [cut_axis(x, axis, number, number + 1) for number in range(length)]
        if earlier is not None:
            elements.insert(0, earlier)
        totals = [*scan.totals(expand(element, x.shape) for element in elements)]
        result, *others = totals[-length:]
        # The counter of the axis chooses the total. Parts of one tensor are the conditions.
        has_total = reshape(
            count_to(x, 2 * length).ge(length), (2 * length, *(1,) * (x.ndim - axis - 1))
        )
        has_total = broadcast_to(has_total, (*x.shape[:axis], 2 * length, *x.shape[axis + 1 :]))
        for number, total in enumerate(others, 1):
            begin = length - number
            result = choose(cut_axis(has_total, axis, begin, begin + length), total, result)
        return result.contiguous()

    return with_rule(by_prefixes, Ops.CONTIGUOUS, compute)


def margins_of(x: T, axis: int, begin: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return amounts to pad one axis by."""
    return tuple((begin, end) if other == axis else (0, 0) for other in range(x.ndim))


def prefixes_of(x: T, axis: int, fill: ConstType) -> T:
    """Return a new axis before `axis`: its index i has the elements 0 to i, then `fill`."""
    length, after = x.shape[axis], x.ndim - axis - 1
    numbers = reshape(count_to(x, length), (length, *(1,) * after))
    reached = numbers.unsqueeze(0).le(numbers.unsqueeze(1))
    return reached.where(x.unsqueeze(axis), constant_like(x, fill, x.dtype))


def scan_along(x: T, axis: int, name: str, scan: Scan[T]) -> T:
    """Scan along `axis`; see `scan_axis`. No axes count as one element."""
    number = axis_of(axis, x.ndim, name)
    compute_dtype(name, x.dtype)
    if not x.ndim or 0 in x.shape:
        return reshape(as_row(x), x.shape)
    if math.prod(size for size in x.shape[number + 1 :] if isinstance(size, int)) >= BLOCK:
        return scan_axis(x, number, scan)
    # The lanes are along the axes after the scanned one, or, if these are short, along its blocks.
    scanned = scan_axis(moved_last(x, number), x.ndim - 1, scan)
    return moved_from_last(scanned, number)


def scan_by_op(x: T, axis: int, name: str, op: Ops, identity: ConstType) -> T:
    """Scan along `axis` with an op of a reduction."""
    scan = Scan[T](
        identity,
        lambda block, number: reduce_axes(block, op, (number,), False),
        lambda before, inner: apply(before, op, inner),
    )
    return scan_along(x, axis, name, scan)


def running_logarithms(elements: Iterable[T]) -> Iterator[T]:
    """Yield the logarithm of the sum of the powers of e so far: each takes one more power.

    The sum is relative to the power of the largest element.
    """
    largest: T | None = None
    for x in elements:
        if largest is None:
            largest, total = x, constant_like(x, 1, x.dtype)
        else:
            # Infinity minus itself is NaN.
            distance = x.eq(largest).where(0, x.sub(largest))
            is_larger = largest.lt(x)
            power = is_larger.where(distance.neg(), distance).exp()
            total = is_larger.where(total.mul(power).add(1), total.add(power))
            largest = largest.maximum(x)
        yield largest.add(total.log())


def indices_of_maxima(x: T, maxima: T) -> T:
    """Return for each element the index of the last element that equals its running maximum."""
    is_new = x.eq(maxima)
    if x.dtype.is_float:
        is_new = is_new.bitwise_or(x.isnan())
    return is_new.where(count_to(x, x.shape[-1]), 0).cummax(-1)


def count_along(x: T, axes: tuple[int, ...], dtype: DType) -> T:
    """Return the number of elements along `axes` as a tensor without axes."""
    count = product(x.shape[axis] for axis in axes)
    if isinstance(count, int):
        return constant_like(x, count, dtype)
    return from_node(type(x), graph.cast(count, dtype), x.device)


def running_maximum(x: T, axis: int, name: str) -> T:
    """Return the running maxima along an axis."""

    def compute(x: T) -> T:
        return scan_along(x, number, name, scan)

    scan = Scan[T](
        x.dtype.minimum,
        lambda block, axis: block.max(axis),
        lambda before, inner: before.maximum(inner),
    )
    number = axis_of(axis, x.ndim, name)
    return with_rule(x, "cummax", compute, arg=ReduceArg(Ops.MAX, (number,)))


@gradient_rule("variance", reads_sources=True)
def variance_gradient(step: GradientStep[Reduction]) -> Contributions:
    """Multiply by twice the distance from the mean over the divisor, without squaring the unit."""
    x, divisor = step.sources

    def for_elements() -> Reduction:
        assert isinstance(step.arg, ReduceArg), "it carries its axes"
        distance, unit = scaled_distances(x, step.arg.axes)
        return step.gradient * (2 / divisor) * (distance * unit)

    return (for_elements, None)


@gradient_rule("cummax", reads_sources=True, reads_output=True)
def cummax_gradient(step: GradientStep[Reduction]) -> Contributions:
    """Pass the gradient to the last of the equal maxima."""
    assert isinstance(step.arg, ReduceArg), "it carries its axis"
    (axis,) = step.arg.axes

    def for_elements() -> Reduction:
        if not step.output.ndim:
            return step.gradient
        row, maxima, gradient = (
            moved_last(tensor, axis) for tensor in (step.sources[0], step.output, step.gradient)
        )
        indices = indices_of_maxima(row, maxima)
        spread = select_at(row, indices, gradient.unsqueeze(-1)).sum(-2)
        return moved_from_last(spread, axis)

    return (for_elements,)


def select_at(x: T, indices: T, values: T) -> T:
    """Return (..., indices, x): in each row `values` at its index, else 0.

    The last axis of the result is the last axis of `x`, the axis before it is the one of `indices`.
    """
    here = count_to(x, x.shape[-1]).eq(indices.unsqueeze(-1))
    # A product with 0 would be wrong: elements that are not selected may be NaN.
    return here.where(values, False if values.dtype.is_bool else 0)


def looked_up(x: T, indices: T) -> T:
    """Return the elements of the last axis at `indices`; 0 for an index outside.

    The other axes broadcast with the axes of `indices`.
    """
    return with_rule(
        x, "looked_up", lambda x, numbers: exactly(x, lambda y: sum_at(y, numbers)), indices
    )


def exactly(x: T, read: Callable[[T], T]) -> T:
    """Return `read(x)`, for floats by their bits: a sum of floats would lose the sign of a zero."""
    if not x.dtype.is_float:
        return read(x)
    if x.dtype is dtypes.float64:
        # Devices with 64-bit integers made of two words cannot read the bits of a float64.
        is_negative = x.eq(0).bitwise_and(x.reciprocal().lt(0))
        return read(is_negative).where(-0.0, read(x))
    return bits_as(read(bits_as(x, word_of(x.dtype.itemsize))), x.dtype)


def sum_at(x: T, indices: T) -> T:
    """Return the elements of the last axis at `indices`, as sums with one term that is not 0."""
    chosen = select_at(x, indices, x)
    return reduced_last(chosen, Ops.MAX if x.dtype.is_bool else Ops.ADD)


def elements_at(x: T, axis: int, index: T, name: str) -> T:
    """Return the elements at `index` along an axis; 0 for an index outside of it.

    `index` has as many axes as this tensor. All axes except `axis` broadcast to this tensor's. The
    result is a sum over the axis in which one term is not 0, so a kernel may read only that term.
    """
    size = fixed((x.shape[axis],), name)[0]
    numbers = reshape(count_to(x, size), (size, *(1,) * (x.ndim - axis - 1)))
    hits = numbers.eq(index.unsqueeze(axis + 1))
    chosen = hits.where(x.unsqueeze(axis), constant_like(x, 0, x.dtype))
    return reduce_axes(chosen, Ops.MAX if x.dtype.is_bool else Ops.ADD, (axis + 1,), False)


@gradient_rule("looked_up", reads_sources=True)
def looked_up_gradient(step: GradientStep[Reduction]) -> Contributions:
    """Sum the gradient of each element over all lookups of it."""
    rows, indices = step.sources
    gradient = step.gradient

    def of_rows() -> Reduction:
        # Storage-only types have no addition.
        is_stored = rows.dtype in dtypes.storage_only
        wide = gradient.cast(dtypes.float32) if is_stored else gradient
        spread = select_at(rows, indices, wide.unsqueeze(-1))
        beyond = spread.ndim - rows.ndim
        repeated = tuple(
            axis
            for axis, size in enumerate(spread.shape)
            if axis < beyond or rows.shape[axis - beyond] != size
        )
        return reshape(spread.sum(repeated, keepdim=True), rows.shape).cast(rows.dtype)

    return (of_rows, None)
