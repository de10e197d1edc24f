"""Values with error bounds, from which the rules of composite functions are derived.

A `Value` is a float64 reference and a bound on the error of its computation in a given float type.
This is running error analysis (Wilkinson, "Rounding Errors in Algebraic Processes", 1963; Higham,
"Accuracy and Stability", section 3.3). Every operation passes the bounds of its operands on and
adds its own. That is u times a correctly rounded result, or (2L + 1) u times one that may be L ULP
off. For a sum of n, it is n u times the sum of magnitudes.

So softmax(x) = exp(x - max x) / sum(exp(x - max x)) is written once, in these values. That is both
its reference and its rule. An implementation may order things differently (exp as 2 ** (x log2 e),
or the terms of a gradient). `SLACK`, a constant factor, covers such further roundings. It is never
a tolerance on the data: if nothing rounds, the bound is zero.

Every value remembers its operands and how to pass a gradient back to them. So `tape.py` derives the
gradient of a reference, with its bound, from the reference itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec.bits import Array
from tinyref_spec.error_rules import smallest_subnormal, ulp_limit, unit_roundoff
from tinyref_spec.oracles import Expected, round_to

SLACK = 4.0
Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Value:
    """A reference and a bound on the error of its computation in `dtype`.

    parents: the values that it was computed from. pull: maps the gradient of this value to those of
    its parents (None for no gradient).
    """

    value: Array
    error: Array
    dtype: DType
    parents: tuple[Value, ...] = field(default=(), repr=False)
    pull: Pull | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def unit(self) -> float:
        return unit_roundoff(self.dtype)

    def made(self, value: Array, error: Array, parents: tuple[Value, ...], pull: Pull) -> Value:
        """Return a value of this type computed from `parents` without a further rounding."""
        return Value(np.asarray(value), np.asarray(error), self.dtype, parents, pull)

    def rounded(
        self,
        value: Array,
        error: Array,
        parents: tuple[Value, ...],
        pull: Pull,
        roundings: float | Array = 1.0,
    ) -> Value:
        """Return a value of this type: `error` comes from the operands; its own is added."""
        tiny = smallest_subnormal(self.dtype)
        with np.errstate(all="ignore"):
            own = roundings * (self.unit * (np.abs(value) + error) + tiny)
        return self.made(value, error + own, parents, pull)

    def _other(self, other: Value | float) -> Value:
        return other if isinstance(other, Value) else constant(other, self.dtype)

    def __add__(self, other: Value | float) -> Value:
        right = self._other(other)

        def pull(g: Value) -> Gradients:
            return g.unbroadcast(self.shape), g.unbroadcast(right.shape)

        error = self.error + right.error
        return self.rounded(self.value + right.value, error, (self, right), pull)

    def __sub__(self, other: Value | float) -> Value:
        right = self._other(other)

        def pull(g: Value) -> Gradients:
            return g.unbroadcast(self.shape), (-g).unbroadcast(right.shape)

        error = self.error + right.error
        return self.rounded(self.value - right.value, error, (self, right), pull)

    def __mul__(self, other: Value | float) -> Value:
        right = self._other(other)

        def pull(g: Value) -> Gradients:
            return (g * right).unbroadcast(self.shape), (g * self).unbroadcast(right.shape)

        with np.errstate(all="ignore"):
            error = (
                np.abs(self.value) * right.error
                + np.abs(right.value) * self.error
                + self.error * right.error
            )
            return self.rounded(self.value * right.value, error, (self, right), pull)

    def __truediv__(self, other: Value | float) -> Value:
        right = self._other(other)

        def pull(g: Value) -> Gradients:
            left = (g / right).unbroadcast(self.shape)
            return left, (-(g * (self / right)) / right).unbroadcast(right.shape)

        with np.errstate(all="ignore"):
            value = self.value / right.value
            left = np.abs(right.value) - right.error
            error = np.where(left > 0, (self.error + np.abs(value) * right.error) / left, np.inf)
        roundings = 2 * ulp_limit("FDIV", self.dtype, False) + 1
        return self.rounded(value, error, (self, right), pull, roundings)

    def __neg__(self) -> Value:
        return self.made(-self.value, self.error, (self,), lambda g: (-g,))

    def reshape(self, *shape: int) -> Value:
        """Return the same elements in another shape."""
        return self.made(
            self.value.reshape(shape),
            self.error.reshape(shape),
            (self,),
            lambda g: (g.reshape(*self.shape),),
        )

    def spread(self, shape: Sequence[int]) -> Value:
        """Return the value repeated to `shape`, as by broadcasting."""
        return self.made(
            np.broadcast_to(self.value, tuple(shape)),
            np.broadcast_to(self.error, tuple(shape)),
            (self,),
            lambda g: (g.unbroadcast(self.shape),),
        )

    def sum(self, axes: Axes | None = None, keepdims: bool = False) -> Value:
        """Return a sum in any order: its bound is n u times the sum of magnitudes."""
        where = tuple(range(self.value.ndim)) if axes is None else self._counted(axes)
        length = math.prod(self.value.shape[axis] for axis in where)
        value = self.value.sum(axis=where, keepdims=keepdims)
        magnitude = (np.abs(self.value) + self.error).sum(axis=where, keepdims=keepdims)
        error = self.error.sum(axis=where, keepdims=keepdims) + length * self.unit * magnitude
        return self.made(value, error, (self,), lambda g: (g.restored(where, self.shape),))

    def _counted(self, axes: Axes) -> Axes:
        """Return axes counted from the front."""
        return tuple(axis % self.value.ndim for axis in axes)

    def restored(self, axes: Axes, shape: tuple[int, ...]) -> Value:
        """Return the result of a reduction over `axes` of `shape`, repeated along them."""
        reduced = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        return self.reshape(*reduced).spread(shape)

    def to(self, dtype: DType) -> Value:
        """Return the value rounded once more; a wider type adds no error."""

        def pull(g: Value) -> Gradients:
            return (g.to(self.dtype),)

        if unit_roundoff(dtype) <= self.unit:
            return Value(self.value, self.error, dtype, (self,), pull)
        value = Value(self.value, self.error, dtype)
        return value.rounded(self.value, self.error, (self,), pull)

    def unbroadcast(self, shape: Sequence[int]) -> Value:
        """Return the sum over the axes that broadcasting added or grew: the gradient of it."""
        extra = tuple(range(self.value.ndim - len(shape)))
        total = self.sum(extra) if extra else self
        grown = tuple(
            axis
            for axis, extent in enumerate(shape)
            if extent == 1 and total.value.shape[axis] != 1
        )
        return total.sum(grown, keepdims=True) if grown else total


Gradients = tuple[Value | None, ...]
Pull = Callable[[Value], Gradients]


# Values without operands


def exact(values: Array, dtype: DType) -> Value:
    """Return an input, which has no error."""
    wide = np.asarray(values).astype(np.float64)
    return Value(wide, np.zeros_like(wide), dtype)


def constant(value: float, dtype: DType) -> Value:
    """Return a constant rounded to `dtype`; of integers, the integer."""
    if not dtype.is_float:
        return Value(np.array(float(value)), np.array(0.0), dtype)
    wide = np.array(float(value))
    rounded = round_to(wide.reshape(1), dtype).astype(np.float64)[0]
    with np.errstate(all="ignore"):
        error = 0.0 if math.isinf(value) else abs(float(rounded) - float(value))
    return Value(wide, np.array(error), dtype)


def zeros(shape: Sequence[int], dtype: DType) -> Value:
    """Return exact zeros."""
    return exact(np.zeros(tuple(shape)), dtype)


def ones(shape: Sequence[int], dtype: DType) -> Value:
    """Return exact ones."""
    return exact(np.ones(tuple(shape)), dtype)


def detached(x: Value) -> Value:
    """Return the same value, through which no gradient goes back."""
    return Value(x.value, x.error, x.dtype)


# Functions of one operand


def function(x: Value, op: str, value: Array, passed: Array, pull: Pull) -> Value:
    """Return the result of a primitive op; `passed` is the error due to the error of x."""
    return x.rounded(value, passed, (x,), pull, 2 * ulp_limit(op, x.dtype, False) + 1)


def exp2(x: Value) -> Value:
    """Return 2 ** x: an absolute error of x is a relative one of the result."""
    value = np.exp2(x.value)
    passed = value * np.expm1(x.error * math.log(2))
    return function(x, "EXP2", value, passed, lambda g: (g * exp2(x) * math.log(2),))


def exp(x: Value) -> Value:
    """Return e ** x, computed as 2 ** (x log2 e)."""
    return exp2(x * (1 / math.log(2)))


def log2(x: Value) -> Value:
    """Return the logarithm to base 2: a relative error of x is an absolute one of the result."""
    with np.errstate(all="ignore"):
        value = np.log2(x.value)
        passed = -np.log1p(-np.minimum(x.error / np.abs(x.value), 1)) / math.log(2)
        passed = np.where(x.error > 0, passed, 0)
    return function(x, "LOG2", value, passed, lambda g: (g / (x * math.log(2)),))


def log(x: Value) -> Value:
    """Return the natural logarithm, computed as log2(x) ln 2."""
    return log2(x) * math.log(2)


def sin(x: Value) -> Value:
    """Return the sine; its slope is at most 1."""
    return function(x, "SIN", np.sin(x.value), x.error, lambda g: (g * cos(x),))


def cos(x: Value) -> Value:
    """Return the cosine: from sines of x, 2x and x/2, each with the relative error of SIN."""
    passed = x.error + 2 * ulp_limit("SIN", x.dtype, False) * x.unit * np.abs(np.cos(x.value))
    return function(x, "SIN", np.cos(x.value), passed, lambda g: (-(g * sin(x)),))


def sqrt(x: Value) -> Value:
    """Return the square root."""
    with np.errstate(all="ignore"):
        value = np.sqrt(x.value)
        passed = np.where(x.error > 0, x.error / value, 0)
    return function(x, "SQRT", value, passed, lambda g: (g / (sqrt(x) * 2.0),))


def smooth(x: Value, value: Array, slope: Callable[[Value], Value], ulp: float = 2.0) -> Value:
    """Return a function that is computed to within `ulp` ULP; `slope` is its derivative."""
    with np.errstate(all="ignore"):
        passed = np.where(x.error > 0, np.abs(slope(detached(x)).value) * x.error, 0)
    return x.rounded(value, passed, (x,), lambda g: (g * slope(x),), 2 * ulp + 1)


def absolute(x: Value) -> Value:
    """Return the magnitude; its slope at 0 is 0."""
    sign = exact(np.sign(x.value), x.dtype)
    return x.made(np.abs(x.value), x.error, (x,), lambda g: (g * sign,))


def stepwise(x: Value, value: Array) -> Value:
    """Return an exact function that is constant between its steps: its slope is 0."""
    zero = zeros(x.shape, x.dtype)
    return x.made(np.asarray(value, np.float64), np.zeros(x.shape), (x,), lambda g: (zero,))


# Functions of two operands and more


def power(x: Value, y: Value) -> Value:
    """Return x ** y for positive x."""

    def pull(g: Value) -> Gradients:
        for_base = g * (y * power(x, y - 1.0))
        for_exponent = g * (power(x, y) * log(x))
        return for_base.unbroadcast(x.shape), for_exponent.unbroadcast(y.shape)

    value = np.power(x.value, y.value)
    relative = np.abs(y.value) * x.error / np.abs(x.value) + y.error * np.abs(np.log(x.value))
    roundings = 2 * ulp_limit("POW", x.dtype, False) + 1
    passed = np.abs(value) * np.expm1(relative)
    return x.rounded(value, passed, (x, y), pull, roundings)


def maximum(x: Value, y: Value) -> Value:
    """Return the larger one; equal ones share the gradient evenly."""
    wins = x.value > y.value
    share = np.where(wins, 1.0, np.where(x.value == y.value, 0.5, 0.0))

    def pull(g: Value) -> Gradients:
        mine, other = exact(share, g.dtype), exact(1 - share, g.dtype)
        return (g * mine).unbroadcast(x.shape), (g * other).unbroadcast(y.shape)

    value = np.maximum(x.value, y.value)
    return x.made(value, np.maximum(x.error, y.error), (x, y), pull)


def minimum(x: Value, y: Value) -> Value:
    """Return the smaller one; equal ones share the gradient evenly."""
    return -maximum(-x, -y)


def choose(condition: Array, first: Value, second: Value) -> Value:
    """Return the first value if the condition is true, else the second."""
    condition = np.asarray(condition, dtype=np.bool_)

    def pull(g: Value) -> Gradients:
        zero = zeros(g.shape, g.dtype)
        mine, other = choose(condition, g, zero), choose(condition, zero, g)
        return mine.unbroadcast(first.shape), other.unbroadcast(second.shape)

    value = np.where(condition, first.value, second.value)
    error = np.where(condition, first.error, second.error)
    return first.made(value, error, (first, second), pull)


def matmul(x: Value, y: Value) -> Value:
    """Return x @ y for matrices (2-D or batches); each product may underflow."""

    def pull(g: Value) -> Gradients:
        left = matmul(g, transposed(y)).unbroadcast(x.shape)
        return left, matmul(transposed(x), g).unbroadcast(y.shape)

    value = x.value @ y.value
    length = x.value.shape[-1]
    magnitude = (np.abs(x.value) + x.error) @ (np.abs(y.value) + y.error)
    passed = np.abs(x.value) @ y.error + x.error @ (np.abs(y.value) + y.error)
    own = (length + 1) * x.unit * magnitude + length * smallest_subnormal(x.dtype)
    return x.made(value, passed + own, (x, y), pull)


# Over axes


def largest(x: Value, axes: Axes, keepdims: bool = True) -> Value:
    """Return the maximum over axes, with the largest error of an operand; ties share."""
    where = tuple(axis % x.value.ndim for axis in axes)
    value = np.asarray(x.value.max(axis=where, keepdims=keepdims))
    best = x.value == x.value.max(axis=where, keepdims=True)
    share = best / best.sum(axis=where, keepdims=True)

    def pull(g: Value) -> Gradients:
        return (g.restored(where, x.shape) * exact(share, g.dtype),)

    return x.made(value, x.error.max(axis=where, keepdims=keepdims), (x,), pull)


def smallest(x: Value, axes: Axes, keepdims: bool = True) -> Value:
    """Return the minimum over axes; ties share the gradient."""
    return -largest(-x, axes, keepdims)


def product(x: Value, axis: int) -> Value:
    """Return the product over one axis, factor by factor."""
    result = take(x, 0, axis)
    for number in range(1, x.value.shape[axis]):
        result = result * take(x, number, axis)
    return result


def cumsum(x: Value, axis: int) -> Value:
    """Return running sums along an axis: the i-th is a sum of i + 1 terms in any order."""
    magnitude = np.cumsum(np.abs(x.value) + x.error, axis)
    terms = np.arange(1, x.value.shape[axis] + 1)
    shape = [1] * x.value.ndim
    shape[axis] = -1
    error = np.cumsum(x.error, axis) + terms.reshape(shape) * x.unit * magnitude

    def pull(g: Value) -> Gradients:
        return (flipped(cumsum(flipped(g, axis), axis), axis),)

    return x.made(np.cumsum(x.value, axis), error, (x,), pull)


# Movement


def gather(x: Value, numbers: Array) -> Value:
    """Return any movement: element numbers from 1 on, in C order; 0 is padding.

    The gradient of an element is the sum over all its copies.
    """
    indices = np.asarray(numbers)
    values = np.concatenate([[0.0], x.value.reshape(-1)])
    errors = np.concatenate([[0.0], x.error.reshape(-1)])
    return x.made(
        values[indices], errors[indices], (x,), lambda g: (scatter_add(g, indices, x.shape),)
    )


def scatter_add(g: Value, numbers: Array, shape: tuple[int, ...]) -> Value:
    """Return the transpose of `gather`: every element of g is added to zeros at its number.

    An element with no addend, or one, is exact.
    """
    size = math.prod(shape)
    flat = np.asarray(numbers).reshape(-1)
    counts = np.bincount(flat, minlength=size + 1)
    total, error, magnitude = np.zeros(size + 1), np.zeros(size + 1), np.zeros(size + 1)
    np.add.at(total, flat, g.value.reshape(-1))
    np.add.at(error, flat, g.error.reshape(-1))
    np.add.at(magnitude, flat, np.abs(g.value.reshape(-1)) + g.error.reshape(-1))
    error += np.where(counts > 1, counts * g.unit * magnitude, 0)
    return g.made(
        total[1:].reshape(shape),
        error[1:].reshape(shape),
        (g,),
        lambda h: (gather(h, np.asarray(numbers)),),
    )


def move_elements(x: Value, move: Callable[[Array], Array]) -> Value:
    """Return `gather` by a numpy function that moves elements, such as a slice or a transpose."""
    return gather(x, move(np.arange(1, x.value.size + 1).reshape(x.shape)))


def transposed(x: Value) -> Value:
    """Return the value with the last two axes exchanged."""
    return move_elements(x, lambda numbers: np.swapaxes(numbers, -1, -2))


def flipped(x: Value, axis: int) -> Value:
    """Return the value with an axis in reverse order."""
    return move_elements(x, lambda numbers: np.flip(numbers, axis))


def take(x: Value, number: int, axis: int) -> Value:
    """Return one slice of an axis, without the axis."""
    return move_elements(x, lambda numbers: np.take(numbers, number, axis))


def cut(x: Value, low: int, high: int, axis: int) -> Value:
    """Return the part of an axis from `low` to before `high`."""
    return move_elements(x, lambda numbers: np.take(numbers, range(low, high), axis))


def concatenated(values: Sequence[Value], axis: int = 0) -> Value:
    """Return values one after another along an axis."""
    ends = np.cumsum([0, *(value.shape[axis] for value in values)])

    def pull(g: Value) -> Gradients:
        return tuple(cut(g, low, high, axis) for low, high in pairwise(ends))

    return values[0].made(
        np.concatenate([value.value for value in values], axis),
        np.concatenate([value.error for value in values], axis),
        tuple(values),
        pull,
    )


def expected_of(value: Value, output: DType) -> Expected:
    """Return what a device must give: within SLACK times the bound, and rounded once."""
    if not output.is_float:
        return Expected(value.value.astype(numpy_dtype(output)).reshape(-1))
    wide = value.value.reshape(-1)
    error = SLACK * value.error.reshape(-1)
    if output is not value.dtype:
        error = error + unit_roundoff(output) * (np.abs(wide) + error)
        error = error + smallest_subnormal(output)
    if output is dtypes.float64:
        # The reference itself is computed in float64.
        error = 2 * error
    return Expected(round_to(wide, output), tolerance=error, wide=wide)
