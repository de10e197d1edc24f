"""The extremes of Tensor functions: every line is asked, and its reference is right there."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tinyref.dtype import dtype_from_name, dtypes
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.tensor import dense, extremes, run
from tinyref_spec.tensor.rows import FUNCTIONS

INF, NAN = math.inf, math.nan


def test_every_line_belongs_to_a_form() -> None:
    asked = {
        form.expression
        for function in FUNCTIONS
        for form in function.forms
        for dtype in function.dtypes
        if extremes.extremes_of(form, dtype, True) is not None
    }
    tables = (extremes.UNARY, extremes.PAIRS, extremes.EXACT, extremes.QUESTIONS)
    assert asked == {expression for table in tables for expression in table}


@pytest.mark.parametrize(
    ("expression", "x", "expected"),
    [
        ("x.sigmoid()", [-INF, -5000.0, 5000.0, INF, NAN], [0.0, 0.0, 1.0, 1.0, NAN]),
        ("x.softplus()", [-INF, 1e30, INF], [0.0, 1e30, INF]),
        ("x.softplus(3)", [1.7976931348623157e308], [1.7976931348623157e308]),
        ("x.tanh()", [-INF, -0.0, 1e-8, 1e20], [-1.0, -0.0, 1e-8, 1.0]),
        ("x.silu()", [-1e30, 1e30, INF, NAN], [0.0, 1e30, INF, NAN]),
        ("x.acosh()", [0.5, 1.0, INF], [NAN, 0.0, INF]),
        ("x.atanh()", [-1.0, 1.0, 2.0], [-INF, INF, NAN]),
        ("x.elu()", [-INF, -1e-8, 1e30], [-1.0, -1e-8, 1e30]),
    ],
)
def test_references_at_extremes(expression: str, x: list[float], expected: list[float]) -> None:
    with np.errstate(all="ignore"):
        values = extremes.UNARY[expression](np.array(x))
    np.testing.assert_allclose(values, expected, rtol=1e-7)


@pytest.mark.parametrize("name", ["tanh", "asinh", "atan", "erf", "sinh", "log10", "tan", "cos"])
def test_references_against_mpmath(name: str) -> None:
    x = np.array([1e-20, 1e-8, 0.5, 16.7, 5000.0 if name != "sinh" else 700.0])
    with mpmath.workprec(200):
        expected = [float(getattr(mpmath, name)(mpmath.mpf(value))) for value in x.tolist()]
    np.testing.assert_allclose(extremes.UNARY[f"x.{name}()"](x), expected, rtol=1e-14)


def test_nothing_is_owed_of_subnormals_where_a_device_flushes_them() -> None:
    form = next(
        form for function in FUNCTIONS for form in function.forms if form.expression == "-x"
    )
    extreme = extremes.extremes_of(form, dtypes.float32, False)
    assert extreme is not None
    x = extreme.values["x"].reshape(-1)
    is_subnormal = (np.abs(x) < 2.0**-126) & (x != 0)
    assert is_subnormal.any()
    specified = extreme.expected.specified
    assert specified is not None
    assert not specified[is_subnormal].any()
    assert specified[np.isnan(x) | np.isinf(x)].all()


def test_a_wrong_value_at_an_extreme_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    form = next(f for function in FUNCTIONS for f in function.forms if f.expression == "x.tanh()")
    device = DeviceUnderTest("PYTHON")
    assert run.run_forward(form, dtypes.float32, 0, "case", device).passed
    monkeypatch.setitem(
        extremes.UNARY, "x.tanh()", lambda x: np.tanh(np.clip(x, -40, 40)) * (x < 1e4)
    )
    assert not run.run_forward(form, dtypes.float32, 0, "case", device).passed


def test_dense_references_are_of_functions_with_forms() -> None:
    asked = {
        form.expression
        for function in FUNCTIONS
        for form in function.forms
        if form.expression in dense.PRECISE
    }
    assert asked == dense.PRECISE.keys()
    for expression, precise in dense.PRECISE.items():
        count = 1 + (expression in extremes.PAIRS)
        x = 1.5 if expression == "x.acosh()" else 0.375
        reference = {**extremes.UNARY, **extremes.PAIRS}[expression](*[np.array([x])] * count)
        value = precise(mpmath, *[mpmath.mpf(x)] * count)
        np.testing.assert_allclose(float(value), reference, rtol=1e-14)


@pytest.mark.parametrize(
    ("dtype", "x", "exponential"),
    [
        ("float64", [0.5, -700.0], ["0x1.a61298e1e069cp+0", "0x1.14f2b0fb9307fp-1010"]),
        ("float32", [0.5, -80.0], ["0x1.a61298p+0", "0x1.7fd974p-116"]),
    ],
)
def test_dense_references_are_rounded_correctly(
    dtype: str, x: list[float], exponential: list[str]
) -> None:
    form = next(f for function in FUNCTIONS for f in function.forms if f.expression == "x.exp()")
    values = {"x": np.array(x, dtype)}
    expected = dense.dense_expected(form, dtype_from_name(dtype), values)
    assert expected.values.tolist() == [float.fromhex(text) for text in exponential]


def test_dense_values_are_all_values_of_16_bits() -> None:
    (sine,) = (f for function in FUNCTIONS for f in function.forms if f.expression == "x.sin()")
    for dtype, count, ends in (
        (dtypes.float16, 63487, (2.0**-13, 32752.0)),
        (dtypes.bfloat16, 65279, (2.0**-125, 255 * 2.0**119)),
    ):
        (values,) = dense.dense_values(sine, dtype).values()
        x = values.astype(np.float64)
        # Zeros of both signs are equal.
        assert np.unique(x[np.isfinite(x)]).size == count
        expected = dense.dense_expected(sine, dtype, {"x": values})
        assert expected.specified is not None
        asked = np.abs(x[expected.specified & (x != 0)])
        assert (asked.min(), asked.max()) == ends
