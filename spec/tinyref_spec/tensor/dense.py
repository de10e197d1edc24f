"""Thousands of inputs for elementwise functions: rows that measure how exact a function is.

A 16-bit type is asked all its values. The reference for float64 is mpmath at 120 bits; narrower
types have the float64 functions of `extremes`, with 29 bits more than float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec import samples
from tinyref_spec.bits import Array, BoolArray, from_bits
from tinyref_spec.error_rules import smallest_normal
from tinyref_spec.oracles import Expected
from tinyref_spec.subjects.protocol import Arrays
from tinyref_spec.tensor.extremes import PAIRS, UNARY, expected_of
from tinyref_spec.tensor.forms import Form

# The end of the ids of these rows.
DENSE = ".dense"
# Inputs of a type that has too many values to ask all of them.
COUNTS: Mapping[DType, int] = {dtypes.float32: 1 << 17, dtypes.float64: 1 << 15}
PRECISION = 120
# By expression: the function, of the module mpmath and its arguments.
PRECISE: Mapping[str, Callable[..., Any]] = {
    "x.exp()": lambda mp, x: mp.exp(x),
    "x.log()": lambda mp, x: mp.log(x),
    "x.log10()": lambda mp, x: mp.log10(x),
    "x.sin()": lambda mp, x: mp.sin(x),
    "x.cos()": lambda mp, x: mp.cos(x),
    "x.tan()": lambda mp, x: mp.tan(x),
    "x.asin()": lambda mp, x: mp.asin(x),
    "x.acos()": lambda mp, x: mp.acos(x),
    "x.atan()": lambda mp, x: mp.atan(x),
    "x.sinh()": lambda mp, x: mp.sinh(x),
    "x.cosh()": lambda mp, x: mp.cosh(x),
    "x.tanh()": lambda mp, x: mp.tanh(x),
    "x.asinh()": lambda mp, x: mp.asinh(x),
    "x.acosh()": lambda mp, x: mp.acosh(x),
    "x.atanh()": lambda mp, x: mp.atanh(x),
    "x.erf()": lambda mp, x: mp.erf(x),
    "x.sqrt()": lambda mp, x: mp.sqrt(x),
    "x.rsqrt()": lambda mp, x: 1 / mp.sqrt(x),
    "x.exp2()": lambda mp, x: mp.power(2, x),
    "x.log2()": lambda mp, x: mp.log(x) / mp.log(2),
    "x.reciprocal()": lambda mp, x: 1 / x,
    "x.sigmoid()": lambda mp, x: 1 / (1 + mp.exp(-x)),
    "x.silu()": lambda mp, x: x / (1 + mp.exp(-x)),
    "x / y": lambda mp, x, y: x / y,
    "x ** y": lambda mp, x, y: mp.exp(y * mp.log(x)) if x > 0 else mp.power(x, y),
}


def dense_values(form: Form, dtype: DType) -> dict[str, Array]:
    """Return the inputs: all values of a 16-bit type for a function of one.

    Else a half has random bits, and a half magnitudes from 2^-12 to 2^8.
    """
    names = [item.name for item in form.inputs]
    if dtype not in COUNTS and len(names) == 1:
        return {names[0]: samples.spaced_patterns(dtype, 1 << dtype.bits)}
    half = COUNTS.get(dtype, COUNTS[dtypes.float32]) // 2
    return {
        name: np.concatenate([samples.random_bits(dtype, half, seed), _common(dtype, half, seed)])
        for seed, name in enumerate(names)
    }


def _common(dtype: DType, count: int, seed: int) -> Array:
    generator = np.random.default_rng([seed, count])
    significand = generator.uniform(1, 2, count) * generator.choice([-1.0, 1.0], count)
    values = np.ldexp(significand, generator.integers(-12, 8, count))
    return np.asarray(values, numpy_dtype(dtype))


def dense_expected(form: Form, dtype: DType, values: Arrays) -> Expected:
    """Return the required results: those where inputs and result are zero or regular."""
    wide = [array.astype(np.float64) for array in values.values()]
    with np.errstate(all="ignore"):
        reference = np.array({**UNARY, **PAIRS}[form.expression](*wide))
        expected = expected_of(form, dtype, values, reference)
        columns = (*wide, expected.values.astype(np.float64))
        specified = np.logical_and.reduce([_is_regular(column, dtype) for column in columns])
        if expected.specified is not None:
            specified &= expected.specified
        if dtype is dtypes.float64:
            rounds = specified & (reference != 0)
            reference[rounds] = _mpmath_values(form, [column[rounds] for column in wide])
            expected = expected_of(form, dtype, values, reference)
    expected.specified = specified
    return expected


def _is_regular(wide: Array, dtype: DType) -> BoolArray:
    """Return where numbers are zero, or from twice the smallest normal to half of the largest.

    Libraries may flush subnormals to zero, and the cosine of Tensors is made of sin(2x).
    """
    largest = float(from_bits([samples.largest_bits(dtype)], dtype).astype(np.float64)[0])
    size = np.abs(wide)
    return np.asarray((size == 0) | ((size >= 2 * smallest_normal(dtype)) & (size <= largest / 2)))


def _mpmath_values(form: Form, columns: list[Array]) -> list[float]:
    import mpmath  # here, as every worker would import it and few cases need it

    function = PRECISE[form.expression]
    with mpmath.workprec(PRECISION):
        rows = zip(*(map(mpmath.mpf, column.tolist()) for column in columns), strict=True)
        return [float(function(mpmath, *row)) for row in rows]
