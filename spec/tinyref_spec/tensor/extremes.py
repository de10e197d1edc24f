"""Elementwise Tensor functions at extremes: NaN, infinities, zeros, huge and tiny values, poles.

Forms of this table get these elements in addition to ordinary ones. The reference is a formula in
float64 that neither overflows nor cancels there. The bound is derived from the form, as elsewhere.
If a partial result may overflow or underflow, the absolute error of a flush is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, numpy_dtype
from tinyref_spec import bounded, samples
from tinyref_spec.bits import Array, from_bits
from tinyref_spec.error_rules import smallest_normal, unit_roundoff
from tinyref_spec.literals import is_subnormal
from tinyref_spec.oracles import Expected
from tinyref_spec.subjects.protocol import Arrays
from tinyref_spec.tensor.forms import Form

Reference = Callable[..., Array]


def _sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, power) / (1.0 + power)


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(0, x))


def _elu(x: Array, alpha: float = 1.0, width: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x / width))


def _gelu(x: Array) -> Array:
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_erf = np.vectorize(math.erf, otypes=[np.float64])


# By expression: functions of float64.
UNARY: Mapping[str, Reference] = {
    "x.reciprocal()": lambda x: 1 / x,
    "x.sqrt()": np.sqrt,
    "x.rsqrt()": lambda x: 1 / np.sqrt(x),
    "x.exp2()": np.exp2,
    "x.log2()": np.log2,
    "x.log10()": np.log10,
    "x.exp()": np.exp,
    "x.log()": np.log,
    "x.sin()": np.sin,
    "x.cos()": np.cos,
    "x.tan()": np.tan,
    "x.asin()": np.arcsin,
    "x.acos()": np.arccos,
    "x.atan()": np.arctan,
    "x.sinh()": np.sinh,
    "x.cosh()": np.cosh,
    "x.tanh()": np.tanh,
    "x.asinh()": np.arcsinh,
    "x.acosh()": np.arccosh,
    "x.atanh()": np.arctanh,
    "x.erf()": _erf,
    "x.sigmoid()": _sigmoid,
    "x.abs()": np.abs,
    "x.square()": np.square,
    "x ** 2": np.square,
    "x ** 3": lambda x: x * x * x,
    "-x": np.negative,
    "x.relu()": lambda x: np.maximum(x, 0),
    "x.celu()": _elu,
    "x.celu(2.0)": lambda x: _elu(x, 2.0, 2.0),
    "x.elu()": _elu,
    "x.elu(alpha=0.5)": lambda x: _elu(x, 0.5),
    "x.selu()": lambda x: 1.0507 * _elu(x, 1.67326),
    "x.gelu()": _gelu,
    "x.gelu(approximate='none')": lambda x: x * 0.5 * _erfc(-x * math.sqrt(0.5)),
    "x.quick_gelu()": lambda x: x * _sigmoid(1.702 * x),
    "x.silu()": lambda x: x * _sigmoid(x),
    "x.swish()": lambda x: x * _sigmoid(x),
    "x.mish()": lambda x: x * np.tanh(_softplus(x)),
    "x.softplus()": _softplus,
    "x.softplus(3)": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-3 * np.abs(x))) / 3,
    "x.logsigmoid()": lambda x: -_softplus(-x),
    "x.softsign()": lambda x: x / (1 + np.abs(x)),
    "x.hardsigmoid()": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "x.hardsigmoid(0.2, 0.4)": lambda x: np.clip(0.2 * x + 0.4, 0, 1),
    "x.hardswish()": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "x.hardtanh()": lambda x: np.clip(x, -1, 1),
    "x.hardtanh(-2, 3)": lambda x: np.clip(x, -2, 3),
    "x.relu6()": lambda x: np.clip(x, 0, 6),
    "x.leaky_relu()": lambda x: np.where(x > 0, x, 0.01 * x),
    "x.leaky_relu(0.3)": lambda x: np.where(x > 0, x, 0.3 * x),
    "x.clamp(-1, 2)": lambda x: np.clip(x, -1, 2),
    "x.clamp(min_=0.5)": lambda x: np.clip(x, 0.5, None),
    "x.clip(max_=0.5)": lambda x: np.clip(x, None, 0.5),
}
PAIRS: Mapping[str, Reference] = {
    "x + y": np.add,
    "x - y": np.subtract,
    "x * y": np.multiply,
    "x / y": np.divide,
    "x ** y": np.power,
}
# Exact functions of elements in their own type: their own reference is right for extremes too.
EXACT = frozenset(
    {
        *(f"x.{name}()" for name in ("round", "floor", "ceil", "trunc", "sign")),
        *(f"x {sign} y" for sign in ("<", ">", "<=", ">=", "==", "!=", "&", "|", "^")),
        "x.maximum(y)",
        "x.minimum(y)",
        "c.where(x, y)",
        "x.fmod(y)",
        "~x",
        "x << 2",
        "x >> 1",
    }
)
# Questions whose references in the tables are only for small integers.
QUESTIONS: Mapping[str, Reference] = {
    "(x / x).isnan()": lambda x: np.isnan(x / x),
    "(1 / x).isinf()": lambda x: np.isinf((1 / x).astype(x.dtype)),
    "(x / 0).isinf(detect_negative=False)": lambda x: x > 0,
    "(1 / x).isfinite()": lambda x: np.isfinite((1 / x).astype(x.dtype)),
    "x.logical_not()": lambda x: x == 0,
}

# Far from 0, near it, at overflow of powers, near poles and zeros of functions.
_NUMBERS = (1e20, 1e30, 5000.0, 1e-8, 1e-20, 88.9, 103.0, 710.0, 16.7, math.pi / 2, math.pi, 0.5)
# Every library is given these where the result is finite.
_PLAIN = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0)


def singles(dtype: DType) -> Array:
    """Return the extremes of a type: 46 floats, or the edges of an integer."""
    if not dtype.is_float:
        return samples.edges(dtype)
    one = samples.bias(dtype) << dtype.mantissa_bits
    least, largest = 1 << dtype.mantissa_bits, samples.largest_bits(dtype)
    infinity, nan = samples.inf_bits(dtype), samples.quiet_nan_bits(dtype)
    bits = [0, 1, least - 1, least, one - 1, one, one + 1, largest - 1, largest, infinity, nan]
    with np.errstate(over="ignore"):
        numbers = np.array(_NUMBERS).astype(numpy_dtype(dtype))
    positive = np.concatenate([from_bits(bits, dtype), numbers])
    return np.concatenate([positive, -positive])


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Return all pairs of a few extremes."""
    few = singles(dtype)
    if dtype.is_float:
        sign = len(few) // 2
        chosen = [0, 1, 3, 5, 8, 9, 10, 11, 13]
        few = few[[*chosen, *(sign + index for index in chosen)]]
    return np.repeat(few, len(few)), np.tile(few, len(few))


@dataclass(frozen=True)
class Extremes:
    """Further inputs of a form, by name, and the expected results."""

    values: Arrays
    expected: Expected


def extremes_of(
    form: Form, dtype: DType, keeps_subnormals: bool, is_plain: bool = False
) -> Extremes | None:
    """Return the extremes of a form; None if it has none, in this type or at all.

    is_plain: return a few small numbers and zeros instead.
    """
    if is_plain and not dtype.is_float:
        return None
    known = form.expression in EXACT | QUESTIONS.keys()
    if not known and not (dtype.is_float and form.expression in UNARY.keys() | PAIRS.keys()):
        return None
    shapes = {item.shape for item in form.inputs}
    if len(shapes) != 1 or dtype.is_bool:
        return None
    values = _inputs(form, dtype, shapes.pop()[1:], is_plain)
    with np.errstate(all="ignore"):
        expected = _expected(form, dtype, values)
    if is_plain:
        expected.specified = np.isfinite(expected.values)
    elif not keeps_subnormals:
        expected.specified = _without_subnormals(form, dtype, values, expected)
    return Extremes(values, expected)


def _inputs(form: Form, dtype: DType, row: tuple[int, ...], is_plain: bool) -> dict[str, Array]:
    """Return whole rows of extremes for every input."""
    own = [item for item in form.inputs if item.dtype is None]
    if is_plain:
        plain = np.array(_PLAIN, numpy_dtype(dtype))
        columns = (
            [plain] if len(own) == 1 else [plain.repeat(plain.size), np.tile(plain, plain.size)]
        )
    else:
        columns = [singles(dtype)] if len(own) == 1 else [*pairs(dtype)]
    count = -(-columns[0].size // math.prod(row))
    columns_by_name = {
        item.name: np.resize(column, (count, *row))
        for item, column in zip(own, columns, strict=True)
    }
    for item in form.inputs:
        if item.dtype is not None:
            columns_by_name[item.name] = np.resize([True, False, False], (count, *row))
    return {item.name: columns_by_name[item.name] for item in form.inputs}


def _expected(form: Form, dtype: DType, values: Arrays) -> Expected:
    output = form.output(dtype)
    if form.expression in QUESTIONS:
        return Expected(QUESTIONS[form.expression](*values.values()).reshape(-1))
    if form.exact is not None:
        exact = np.asarray(form.exact(*values.values())).astype(numpy_dtype(output))
        return Expected(exact.reshape(-1))
    wide = [array.astype(np.float64) for array in values.values()]
    return expected_of(form, dtype, values, {**UNARY, **PAIRS}[form.expression](*wide))


def expected_of(form: Form, dtype: DType, values: Arrays, reference: Array) -> Expected:
    """Return what a form owes for any inputs: `reference`, within a bound derived from the form."""
    assert form.forward is not None, "a form has a forward or an exact reference"
    compute, output = form.compute_dtype(dtype), form.output(dtype)
    wide = next(iter(values.values())).astype(np.float64)
    bound = form.forward(*[bounded.exact(array, compute) for array in values.values()]).error
    # If a partial result of the bound is NaN, so is the bound.
    usual = 64 * unit_roundoff(compute) * np.abs(reference)
    bound = np.where(np.isfinite(bound), bound, usual)
    bound = bound + smallest_normal(compute) * np.clip(np.nan_to_num(np.abs(wide)), 1, 1024)
    value = bounded.Value(np.asarray(reference), np.asarray(bound), compute)
    expected = bounded.expected_of(value, output)
    # Near the largest value the result may round to infinity, or not.
    largest = float(from_bits([samples.largest_bits(output)], output).astype(np.float64)[0])
    distance = np.abs(np.abs(reference) - largest)
    margin = 4 * bounded.SLACK * bound + 4 * unit_roundoff(output) * largest
    is_near = np.isfinite(reference) & (distance <= margin)
    expected.specified = ~is_near.reshape(-1)
    return expected


def _without_subnormals(form: Form, dtype: DType, values: Arrays, expected: Expected) -> Array:
    specified = np.ones(expected.values.size, np.bool_)
    if expected.specified is not None:
        specified &= expected.specified
    for item in form.inputs:
        if item.dtype is None:
            specified &= ~is_subnormal(values[item.name].reshape(-1), dtype)
    return specified & ~is_subnormal(expected.values, form.output(dtype))


def joined(first: Expected, second: Expected) -> Expected:
    """Return both, one after another; either both have a tolerance or neither."""

    def both(name: str) -> Array | None:
        parts = [getattr(first, name), getattr(second, name)]
        return None if parts[0] is None or parts[1] is None else np.concatenate(parts)

    masks = [
        np.ones(part.values.size, np.bool_) if part.specified is None else part.specified
        for part in (first, second)
    ]
    return Expected(
        np.concatenate([first.values, second.values]),
        np.concatenate(masks),
        tolerance=both("tolerance"),
        wide=both("wide"),
    )
