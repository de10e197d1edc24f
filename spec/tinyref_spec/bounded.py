"""Values with error bounds: how the rules of composite functions are derived from their parts.

A `Bounded value` is a float64 reference and a bound on how far a computation in a given float
type may be from it (running error analysis: Wilkinson, "Rounding Errors in Algebraic Processes",
1963; Higham, "Accuracy and Stability", section 3.3). Every operation passes the bounds of its
operands on and adds its own: u times the result for a correctly rounded one, (2L + 1) u for one
that may be L ULP off, n u times the sum of magnitudes for a sum of n.

So softmax(x) = exp(x - max x) / sum(exp(x - max x)) is written once, in these values, and that is
both its reference and its rule. What an implementation may order otherwise (exp as 2 ** (x log2 e)
or the terms of a gradient) is covered by `SLACK`, a constant factor for a constant number of
further roundings. It is never a tolerance on the data: where nothing rounds, the bound is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec.bits import Array
from tinyref_spec.error_rules import smallest_subnormal, ulp_limit, unit_roundoff
from tinyref_spec.oracles import Expected, round_to

SLACK = 4.0
Axes = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A reference and a bound on the error of its computation in `dtype`."""

    value: Array
    error: Array
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def unit(self) -> float:
        return unit_roundoff(self.dtype)

    def _rounded(self, value: Array, error: Array, roundings: float = 1.0) -> Value:
        tiny = smallest_subnormal(self.dtype)
        with np.errstate(all="ignore"):
            own = roundings * (self.unit * (np.abs(value) + error) + tiny)
        return Value(value, error + own, self.dtype)

    def _other(self, other: Value | float) -> Value:
        return other if isinstance(other, Value) else constant(other, self.dtype)

    def __add__(self, other: Value | float) -> Value:
        right = self._other(other)
        return self._rounded(self.value + right.value, self.error + right.error)

    def __sub__(self, other: Value | float) -> Value:
        right = self._other(other)
        return self._rounded(self.value - right.value, self.error + right.error)

    def __mul__(self, other: Value | float) -> Value:
        right = self._other(other)
        error = (
            np.abs(self.value) * right.error
            + np.abs(right.value) * self.error
            + self.error * right.error
        )
        return self._rounded(self.value * right.value, error)

    def __truediv__(self, other: Value | float) -> Value:
        right = self._other(other)
        with np.errstate(all="ignore"):
            value = self.value / right.value
            left = np.abs(right.value) - right.error
            error = np.where(left > 0, (self.error + np.abs(value) * right.error) / left, np.inf)
        return self._rounded(value, error, 2 * ulp_limit("FDIV", self.dtype, False) + 1)

    def __neg__(self) -> Value:
        return Value(-self.value, self.error, self.dtype)

    def reshape(self, *shape: int) -> Value:
        """The same elements in another shape."""
        return Value(self.value.reshape(shape), self.error.reshape(shape), self.dtype)

    def sum(self, axes: Axes | None = None, keepdims: bool = False) -> Value:
        """A sum in any order: n u times the sum of magnitudes."""
        where = tuple(range(self.value.ndim)) if axes is None else axes
        length = math.prod(self.value.shape[axis] for axis in where)
        value = self.value.sum(axis=where, keepdims=keepdims)
        magnitude = (np.abs(self.value) + self.error).sum(axis=where, keepdims=keepdims)
        error = self.error.sum(axis=where, keepdims=keepdims) + length * self.unit * magnitude
        return Value(np.asarray(value), np.asarray(error), self.dtype)

    def to(self, dtype: DType) -> Value:
        """Rounded once more, into a type that rounds more; a wider one adds nothing."""
        if unit_roundoff(dtype) <= self.unit:
            return Value(self.value, self.error, dtype)
        found = Value(self.value, self.error, dtype)
        return found._rounded(self.value, self.error)

    def unbroadcast(self, shape: Sequence[int]) -> Value:
        """Summed over the axes that broadcasting added or grew: the gradient of a broadcast."""
        extra = tuple(range(self.value.ndim - len(shape)))
        found = self.sum(extra) if extra else self
        grown = tuple(
            axis
            for axis, extent in enumerate(shape)
            if extent == 1 and found.value.shape[axis] != 1
        )
        return found.sum(grown, keepdims=True) if grown else found


def exact(values: Array, dtype: DType) -> Value:
    """Inputs: they are what they are."""
    wide = values.astype(np.float64)
    return Value(wide, np.zeros_like(wide), dtype)


def constant(value: float, dtype: DType) -> Value:
    """A constant rounded to `dtype`; of integers, the integer."""
    if not dtype.is_float:
        return Value(np.array(float(value)), np.array(0.0), dtype)
    wide = np.array(float(value))
    rounded = round_to(wide.reshape(1), dtype).astype(np.float64)[0]
    return Value(wide, np.array(abs(float(rounded) - float(value))), dtype)


def _function(x: Value, op: str, value: Array, passed: Array) -> Value:
    return x._rounded(value, passed, 2 * ulp_limit(op, x.dtype, False) + 1)


def exp2(x: Value) -> Value:
    """2 ** x: an absolute error of x is a relative one of the result."""
    value = np.exp2(x.value)
    return _function(x, "EXP2", value, value * np.expm1(x.error * math.log(2)))


def exp(x: Value) -> Value:
    """e ** x by way of 2 ** (x log2 e)."""
    return exp2(x * (1 / math.log(2)))


def log2(x: Value) -> Value:
    """The logarithm to base 2: a relative error of x is an absolute one of the result."""
    with np.errstate(all="ignore"):
        value = np.log2(x.value)
        passed = -np.log1p(-np.minimum(x.error / np.abs(x.value), 1)) / math.log(2)
    return _function(x, "LOG2", value, passed)


def log(x: Value) -> Value:
    """The natural logarithm by way of log2(x) ln 2."""
    return log2(x) * math.log(2)


def sin(x: Value) -> Value:
    """The sine; its slope is at most 1."""
    return _function(x, "SIN", np.sin(x.value), x.error)


def cos(x: Value) -> Value:
    """The cosine as sin(pi/2 - x)."""
    return sin(-x + math.pi / 2)


def sqrt(x: Value) -> Value:
    """The square root."""
    with np.errstate(all="ignore"):
        value = np.sqrt(x.value)
        passed = np.where(x.error > 0, x.error / value, 0)
    return _function(x, "SQRT", value, passed)


def power(x: Value, y: Value) -> Value:
    """x ** y for positive x."""
    value = np.power(x.value, y.value)
    relative = np.abs(y.value) * x.error / np.abs(x.value) + y.error * np.abs(np.log(x.value))
    return _function(x, "POW", value, np.abs(value) * np.expm1(relative))


def largest(x: Value, axes: Axes, keepdims: bool = True) -> Value:
    """The maximum over axes: no further off than the worst operand."""
    return Value(
        np.asarray(x.value.max(axis=axes, keepdims=keepdims)),
        np.asarray(x.error.max(axis=axes, keepdims=keepdims)),
        x.dtype,
    )


def choose(condition: Array, first: Value, second: Value) -> Value:
    """The first where the condition holds, else the second."""
    return Value(
        np.where(condition, first.value, second.value),
        np.where(condition, first.error, second.error),
        first.dtype,
    )


def zeros(shape: Sequence[int], dtype: DType) -> Value:
    """Exact zeros."""
    return exact(np.zeros(tuple(shape)), dtype)


def product(x: Value, axis: int) -> Value:
    """The product over one axis, factor by factor."""
    found = Value(np.take(x.value, 0, axis), np.take(x.error, 0, axis), x.dtype)
    for number in range(1, x.value.shape[axis]):
        factor = Value(np.take(x.value, number, axis), np.take(x.error, number, axis), x.dtype)
        found = found * factor
    return found


def matmul(x: Value, y: Value) -> Value:
    """x @ y for matrices (2-D or batches)."""
    value = x.value @ y.value
    length = x.value.shape[-1]
    magnitude = (np.abs(x.value) + x.error) @ (np.abs(y.value) + y.error)
    passed = np.abs(x.value) @ y.error + x.error @ (np.abs(y.value) + y.error)
    return Value(value, passed + (length + 1) * x.unit * magnitude, x.dtype)


def transposed(x: Value) -> Value:
    """The last two axes exchanged."""
    return Value(np.swapaxes(x.value, -1, -2), np.swapaxes(x.error, -1, -2), x.dtype)


def expected(value: Value, output: DType) -> Expected:
    """What a device owes: within SLACK times the bound, and one rounding to the output."""
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
