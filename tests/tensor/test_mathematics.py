"""Functions of one element: accurate everywhere (against mpmath), special values, exact steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import torch
from torch_calls import TORCH_NAMES, Function
from torch_table import ELEMENTARY, X

from tinyref import Tensor

INF, NAN = math.inf, math.nan
ARC = np.concatenate([np.linspace(-1, 1, 41), [1 - 1e-6, -1 + 1e-7, 0.5, 0.50001, 1e-10]])
# Where the cosine of a float32 is 0.001: twice this angle is nearly the largest number.
STEEP = float.fromhex("0x1.e9e33ap+126")
LARGE = [1e4, -3.3e7, 2.5e22, 1e37, 1e-20, STEEP]
ANGLES = np.concatenate([np.linspace(-9, 9, 31), np.arange(1, 25) * np.pi / 2, LARGE])
REAL = np.concatenate([np.linspace(-5, 5, 41), 10.0 ** np.arange(-12, 13, 3)])
# Name of the function, which mpmath has too -> arguments, ULP that the result may be off.
ACCURATE: dict[str, tuple[np.ndarray, float]] = {
    **dict.fromkeys(("sin", "cos", "tan"), (ANGLES, 4)),
    **dict.fromkeys(("asin", "acos"), (ARC, 3)),
    **dict.fromkeys(("tanh", "asinh", "erf"), (REAL, 4)),
    "atan": (REAL, 3),
    "atanh": (ARC[1:40], 4),
    "acosh": (np.concatenate([1 + 10.0 ** np.arange(-6, 7), [1e20, 1e37]]), 4),
    # The rounding of an exponent of n bits is n roundings of the power.
    **dict.fromkeys(("sinh", "cosh", "exp"), (np.linspace(-6, 6, 61), 12)),
    "sigmoid": (np.linspace(-16, 16, 81), 26),
    "log": (np.concatenate([10.0 ** np.arange(-30, 31, 5), [0.5, math.e]]), 3),
}


def exact_value(name: str, x: float) -> mpmath.mpf:
    if name == "sigmoid":
        return 1 / (1 + mpmath.exp(-x))
    return getattr(mpmath, name)(mpmath.mpf(x))


def ulp_off(result: np.ndarray, x: np.ndarray, name: str) -> float:
    """Return the largest distance from the true value, in ULP of it."""
    distances = []
    with mpmath.workprec(300):
        for value, argument in zip(result.tolist(), x.tolist(), strict=True):
            truth = exact_value(name, argument)
            unit = float(np.spacing(np.abs(result.dtype.type(float(truth)))))
            distances.append(float(abs(value - truth) / unit))
    return max(distances)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ACCURATE)
def test_accuracy(name: str, dtype: type[np.floating]) -> None:
    arguments, limit = ACCURATE[name]
    x = arguments.astype(dtype)
    assert ulp_off(getattr(Tensor(x), name)().numpy(), x, name) <= limit


ODD = ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "sign")
# Elements whose results have signs that the sweep does not compare, and ties of rounding.
SPECIAL: list[tuple[str, list[float], list[float]]] = [
    *((name, [-0.0, 0.0, NAN], [-0.0, 0.0, NAN]) for name in ODD),
    ("cos", [INF, -INF, NAN, 0.0, -0.0], [NAN, NAN, NAN, 1.0, 1.0]),
    ("acosh", [INF, 1.0, 0.5, -INF, -1e10], [INF, 0.0, NAN, NAN, NAN]),
    ("elu", [INF, -INF, NAN, -0.0], [INF, -1.0, NAN, -0.0]),
    ("round", [0.5, 1.5, 2.5, -0.5, -1.5, -0.2], [0.0, 2.0, 2.0, -0.0, -2.0, -0.0]),
    ("round", [INF, -INF, NAN, 8388609.0, 2.0**30], [INF, -INF, NAN, 8388609.0, 2.0**30]),
    ("rsqrt", [0.0, 4.0, -1.0, INF], [INF, 0.5, NAN, 0.0]),
]


@pytest.mark.parametrize(("name", "values", "expected"), SPECIAL)
def test_special_values(name: str, values: list[float], expected: list[float]) -> None:
    for dtype in (np.float32, np.float64, np.float16):
        if dtype is np.float16 and max(map(abs, values)) > 1e6:
            continue
        result = getattr(Tensor(np.array(values, dtype)), name)().numpy().astype(np.float64)
        np.testing.assert_array_equal(result, expected)
        is_number = ~np.isnan(expected)
        assert (np.signbit(result) == np.signbit(expected))[is_number].all(), dtype


def test_the_error_function_is_1_at_the_end_of_its_polynomial_and_never_more() -> None:
    for dtype, end in ((np.float32, 4), (np.float64, 6)):
        ends = np.array([end, np.nextafter(dtype(end), dtype(end + 1)), end + 1, 1e30], dtype)
        assert Tensor(ends).erf().tolist() == [1.0] * 4
        assert Tensor(-ends).erf().tolist() == [-1.0] * 4
        x = np.linspace(0, end, 10_001, dtype=dtype)
        actual = Tensor(x).erf().numpy()
        assert actual.max() == 1
        # Where one polynomial takes over from the other, there is no step back.
        near_one = np.linspace(0.999, 1.001, 4001, dtype=dtype)
        steps = np.diff(Tensor(near_one).erf().numpy())
        assert steps.min() >= -2 * np.finfo(dtype).eps


@pytest.mark.parametrize("device", ["CPU", "CLANG", "PYTHON"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_remainder_is_exact_for_any_two_floats(
    dtype: type[np.floating], device: str, needs_device: Callable[[str], None]
) -> None:
    needs_device(device)
    generator = np.random.default_rng(11)
    words = generator.integers(0, 1 << 16, (2, 500, np.dtype(dtype).itemsize // 2), np.uint16)
    limits = np.finfo(dtype)
    special = [0, -0.0, INF, -INF, NAN, 1, -3, limits.smallest_subnormal, limits.tiny, limits.max]
    pairs = np.array(list(itertools.product(special, special)), dtype)
    x, y = np.concatenate([words.view(dtype)[..., 0], pairs.T], axis=1)
    with np.errstate(all="ignore"):
        # numpy calls fmod of C, which is exact, and adds the divisor where the signs differ.
        expected = np.remainder(x, y)
    result = (Tensor(x, device=device) % Tensor(y, device=device)).numpy()
    np.testing.assert_array_equal(result, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[is_number]), np.signbit(expected[is_number]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotient_is_rounded_down(dtype: type[np.floating]) -> None:
    bits = np.finfo(dtype).nmant
    generator = np.random.default_rng(12)
    quotients = 2.0 ** generator.uniform(-3, bits + 1, 2000) * generator.choice([-1, 1], 2000)
    y = (generator.uniform(0.5, 8, 2000) * generator.choice([-1, 1], 2000)).astype(dtype)
    x = (quotients * y).astype(dtype)
    # Just below and above 2^(bits + 1), from where on not every integer is a float.
    x[:2], y[:2] = (2.0 ** (bits + 2) - 2, 2.0**bits * 1.5 + 0.5), (2.0 + 2.0 ** (1 - bits), 0.75)
    fractions = (Fraction(a) / Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True))
    expected = np.array([math.floor(fraction) for fraction in fractions], np.float64)
    result = (Tensor(x) // Tensor(y)).numpy()
    is_exact = np.abs(expected) <= 2.0 ** (bits + 1)
    assert is_exact.sum() > 1900
    np.testing.assert_array_equal(result[is_exact], expected[is_exact])
    assert np.isnan((Tensor([math.inf]) // 3).numpy()).all()
    by_zero = Tensor([math.inf, math.inf, -math.inf, 1.0]) // Tensor([0.0, -0.0, 0.0, -0.0])
    assert by_zero.tolist() == [math.inf, -math.inf, -math.inf, -math.inf]


def test_sums_of_powers_do_not_overflow() -> None:
    assert Tensor([0.0, -2000.0]).log_softmax().tolist() == [0.0, -2000.0]
    assert Tensor([1000.0, 1000.0]).logsumexp().item() == pytest.approx(1000 + math.log(2))
    # The power of 100 alone would overflow, and infinity divided by itself is NaN.
    x = Tensor([INF, 100.0, -INF])
    assert x.logsumexp().gradient(x)[0].tolist()[1:] == [0.0, 0.0]


@pytest.mark.parametrize("beta", [2.0, -2.0])
def test_softplus_where_its_product_overflows(beta: float) -> None:
    largest = 3.0e38
    x = Tensor([largest, -largest], requires_grad=True)
    result = x.softplus(beta)
    expected = [largest, 0.0] if beta > 0 else [0.0, -largest]
    assert result.tolist() == pytest.approx(expected)
    slopes = [1.0, 0.0] if beta > 0 else [0.0, 1.0]
    assert result.sum().gradient(x)[0].tolist() == slopes


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_logarithms_of_powers_of_ten_are_integers(dtype: str) -> None:
    largest = {"float16": 4, "float64": 308}.get(dtype, 37)
    exponents = list(range(-largest + (dtype == "float64"), largest + 1))
    powers = Tensor(np.array([float(f"1e{exponent}") for exponent in exponents])).cast(dtype)
    assert powers.log10().tolist() == exponents


# Halves are computed in float32 and rounded once: all of them


# Ops of the device, which may compute in the type itself, and a formula that cancels.
DIRECT = ("x.exp2()", "x.log2()", "x.sin()", "x.gelu('none')")
# Lines of the sweep: functions of one tensor that are computed in float32.
LINES = [line for line in ELEMENTARY if line.inputs is X and line.ours not in DIRECT]
POWERS = (-4, -3, -2, 3, 4)


def errors(result: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return distances in units of the last place of `result`'s type; 0 if both are NaN."""
    limits = ml_dtypes.finfo(result.dtype)
    values = result.astype(np.float64)
    scale = np.maximum(np.abs(expected), float(limits.smallest_normal))
    ulp = 2.0 ** (np.floor(np.log2(scale)) - limits.nmant)
    # Beyond the largest number lies one more place of the same size, which is infinite.
    beyond = float(limits.max) + 2.0 ** (limits.maxexp - 1 - limits.nmant)
    ends = np.clip(values, -beyond, beyond), np.clip(expected, -beyond, beyond)
    distance = np.abs(ends[0] - ends[1]) / ulp
    is_same = (values == expected) | (np.isnan(values) & np.isnan(expected))
    return np.where(is_same, 0, distance)


def every(dtype: str) -> np.ndarray:
    numbers = np.arange(1 << 16, dtype=np.uint16)
    return numbers.view(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)


def check(result: Tensor, expected: np.ndarray, dtype: str) -> None:
    assert result.dtype.name == dtype
    # Half a unit, and the error of the computation in float32.
    np.testing.assert_array_less(errors(result.numpy(), expected), 0.51)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("line", LINES, ids=[line.ours for line in LINES])
def test_function_is_rounded_once(line: Function, dtype: str) -> None:
    numbers = every(dtype)
    with np.errstate(invalid="ignore"):
        numbers = numbers[np.isfinite(numbers.astype(np.float64))]
    x = torch.tensor(numbers.astype(np.float64))
    expected = eval(line.theirs, {**TORCH_NAMES, "x": x}).numpy()
    check(eval(line.ours, {"x": Tensor(numbers)}), expected, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("exponent", POWERS)
def test_small_power_is_rounded_once(exponent: int, dtype: str) -> None:
    numbers = every(dtype)
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float64) ** exponent
    check(Tensor(numbers) ** exponent, expected, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_functions_of_several_tensors_are_rounded_once(dtype: str) -> None:
    generator = np.random.default_rng(5)
    drawn = (generator.uniform(0.125, end, 4096) for end in (1, 8, 0.875))
    x, y, weight = (Tensor(values).cast(dtype) for values in drawn)
    a, b, w = (tensor.numpy().astype(np.float64) for tensor in (x, y, weight))
    check(x.lerp(y, weight), a + (b - a) * w, dtype)
    quotient = (y / x).numpy().astype(np.float64)
    # Some quotients are rounded to the next integer, which truncation must not see.
    assert (np.trunc(quotient) != np.trunc(b / a)).any()
    check(y.div(x, rounding_mode="trunc"), np.trunc(b / a), dtype)
    with Tensor.train():
        dropped = x.dropout(0.3).numpy().astype(np.float64)
    is_kept = dropped != 0
    check(Tensor(dropped[is_kept]).cast(dtype), a[is_kept] / 0.7, dtype)


def test_closeness_of_half_floats() -> None:
    # 2 ** -8 is within 1e-2 / 2 of 1, except for the rounding of the bound in bfloat16.
    x = Tensor([1.0078125], dtype="bfloat16")
    assert x.isclose(x.full_like(1), rtol=0, atol=0.00781).tolist() == [False]
    assert x.isclose(x.full_like(1), rtol=0, atol=0.00782).tolist() == [True]
    assert not x.isclose(Tensor([1.0], dtype="bfloat16"), rtol=0.0078, atol=0).item()
