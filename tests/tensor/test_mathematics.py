"""Functions of one element: accurate everywhere (against mpmath), special values, exact steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tinyref import GlobalCounters, Tensor, dtypes
from tinyref.tensor import elementary as tables

INF, NAN = math.inf, math.nan
ARC = np.concatenate([np.linspace(-1, 1, 41), [1 - 1e-6, -1 + 1e-7, 0.5, 0.50001, 1e-10]])
ANGLES = np.concatenate(
    [np.linspace(-9, 9, 31), np.arange(1, 25) * np.pi / 2, [1e4, -3.3e7, 2.5e22, 1e37, 1e-20]]
)
REAL = np.concatenate([np.linspace(-5, 5, 41), 10.0 ** np.arange(-12, 13, 3)])
# name -> (arguments, ULP that it may be off; mpmath has the same name)
ACCURATE: dict[str, tuple[np.ndarray, float]] = {
    "sin": (ANGLES, 4),
    "cos": (ANGLES, 4),
    "tan": (ANGLES, 4),
    "asin": (ARC, 3),
    "acos": (ARC, 3),
    "atan": (REAL, 3),
    "sinh": (np.linspace(-6, 6, 61), 12),
    "cosh": (np.linspace(-6, 6, 61), 12),
    "tanh": (REAL, 4),
    "asinh": (REAL, 4),
    "acosh": (np.concatenate([1 + 10.0 ** np.arange(-6, 7), [1e20, 1e37]]), 4),
    "atanh": (ARC[1:40], 4),
    "erf": (REAL, 4),
}


def ulp_off(found: np.ndarray, x: np.ndarray, name: str) -> float:
    """The largest distance from the true value, in ULP of it."""
    worst = 0.0
    with mpmath.workprec(300):
        for value, argument in zip(found, x, strict=True):
            truth = getattr(mpmath, name)(mpmath.mpf(float(argument)))
            unit = np.spacing(np.abs(found.dtype.type(float(truth))))
            worst = max(
                worst, float(abs(mpmath.mpf(float(value)) - truth) / mpmath.mpf(float(unit)))
            )
    return worst


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ACCURATE)
def test_accuracy(name: str, dtype: type[np.floating]) -> None:
    arguments, limit = ACCURATE[name]
    x = arguments.astype(dtype)
    assert ulp_off(getattr(Tensor(x), name)().numpy(), x, name) <= limit


@pytest.mark.parametrize("name", ["ATAN", "ASIN", "ERF", "ERFC", "SINH"])
@pytest.mark.parametrize(("suffix", "precision"), [("FLOAT32", 24), ("FLOAT64", 53)])
def test_the_polynomials_by_themselves(name: str, suffix: str, precision: int) -> None:
    """In exact arithmetic each is within half an ULP of the result that it is a part of."""
    coefficients = [mpmath.mpf(value) for value in getattr(tables, f"{name}_{suffix}")]
    ends = {"ATAN": (0, "0.4142"), "ASIN": (0, 0.5), "ERF": (0, 1), "SINH": (0, 1)}
    ends["ERFC"] = (1, {24: 4, 53: 6}[precision])
    first, last = ends[name]
    with mpmath.workprec(300):
        for number in range(101):
            x = first + (mpmath.mpf(last) - first) * number / 100
            z = x * x
            if name == "ERFC":
                approximate = 1 - mpmath.polyval(coefficients, x - 1) ** 8
                true = mpmath.erf(x)
            else:
                # What is added to x begins with its cube, but in erf.
                factor = x if name == "ERF" else x * z
                approximate = x + factor * mpmath.polyval(coefficients, z)
                true = getattr(mpmath, name.lower())(x)
            assert abs(approximate - true) <= abs(true) * mpmath.mpf(2) ** -precision


SPECIAL: list[tuple[str, list[float], list[float]]] = [
    ("cos", [INF, -INF, NAN, 0.0, -0.0], [NAN, NAN, NAN, 1.0, 1.0]),
    ("tan", [INF, NAN, -0.0, 0.0], [NAN, NAN, -0.0, 0.0]),
    ("asin", [1.5, -2.0, NAN, -0.0], [NAN, NAN, NAN, -0.0]),
    ("acos", [1.5, 1.0, NAN], [NAN, 0.0, NAN]),
    ("atan", [0.0, -0.0, NAN], [0.0, -0.0, NAN]),
    ("sinh", [INF, -INF, NAN, -0.0, 1000.0], [INF, -INF, NAN, -0.0, INF]),
    ("cosh", [INF, -INF, NAN, 0.0, -1000.0], [INF, INF, NAN, 1.0, INF]),
    ("asinh", [INF, -INF, NAN, -0.0], [INF, -INF, NAN, -0.0]),
    ("acosh", [INF, 1.0, 0.5, -INF, NAN], [INF, 0.0, NAN, NAN, NAN]),
    ("acosh", [-1.0, -100.0, -1e10], [NAN, NAN, NAN]),
    ("atanh", [1.0, -1.0, 1.5, NAN, -0.0], [INF, -INF, NAN, NAN, -0.0]),
    ("erf", [INF, -INF, NAN, -0.0, 30.0], [1.0, -1.0, NAN, -0.0, 1.0]),
    ("gelu", [INF, NAN, 0.0], [INF, NAN, 0.0]),
    ("softplus", [INF, -INF, NAN, 1000.0, -1000.0], [INF, 0.0, NAN, 1000.0, 0.0]),
    ("elu", [INF, -INF, NAN, -0.0], [INF, -1.0, NAN, -0.0]),
    ("relu6", [INF, -INF, NAN, 6.5], [6.0, 0.0, NAN, 6.0]),
    ("mish", [INF, NAN], [INF, NAN]),
    ("round", [0.5, 1.5, 2.5, -0.5, -1.5, -0.2], [0.0, 2.0, 2.0, -0.0, -2.0, -0.0]),
    ("round", [INF, -INF, NAN, 8388609.0, 2.0**30], [INF, -INF, NAN, 8388609.0, 2.0**30]),
    ("sign", [-2.5, -0.0, 0.0, NAN, INF], [-1.0, -0.0, 0.0, NAN, 1.0]),
    ("rsqrt", [0.0, 4.0, -1.0, INF], [INF, 0.5, NAN, 0.0]),
]


@pytest.mark.parametrize(("name", "given", "wanted"), SPECIAL)
def test_special_values(name: str, given: list[float], wanted: list[float]) -> None:
    for dtype in (dtypes.float32, dtypes.float64, dtypes.float16):
        scaled = (
            [INF if value > 1e9 else value for value in given] if dtype is dtypes.float16 else given
        )
        if dtype is dtypes.float16 and 8388609.0 in given:
            continue
        found = getattr(Tensor(scaled, dtype=dtype), name)().numpy().astype(np.float64)
        assert np.array_equal(found, wanted, equal_nan=True), dtype.name
        assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all(), dtype.name


def test_the_error_function_is_1_at_the_end_of_its_polynomial_and_never_more() -> None:
    for dtype, end in ((np.float32, 4), (np.float64, 6)):
        ends = np.array([end, np.nextafter(dtype(end), dtype(end + 1)), end + 1, 1e30], dtype)
        assert Tensor(ends).erf().tolist() == [1.0] * 4
        assert Tensor(-ends).erf().tolist() == [-1.0] * 4
        x = np.linspace(0, end, 10_001, dtype=dtype)
        found = Tensor(x).erf().numpy()
        assert found.max() == 1
        # Where one polynomial takes over from the other, there is no step back.
        near_one = np.linspace(0.999, 1.001, 4001, dtype=dtype)
        steps = np.diff(Tensor(near_one).erf().numpy())
        assert steps.min() >= -2 * np.finfo(dtype).eps


def test_the_error_function_is_accurate_where_its_polynomials_meet() -> None:
    x = np.linspace(0.9, 1.2, 20_000, dtype=np.float32)
    true = np.array([math.erf(value) for value in x.tolist()])
    # Its ULP is that of the numbers from a half to 1.
    errors = np.abs(Tensor(x).erf().numpy().astype(np.float64) - true) * 2.0**24
    assert 1 < errors.max() <= 2.5


def test_halves_of_pi_are_right_to_the_last_bit() -> None:
    x = np.array([1.0, -1.0, 0.0], np.float32)
    assert np.array_equal(
        Tensor(x).asin().numpy(), np.arcsin(x.astype(np.float64)).astype(np.float32)
    )
    assert np.array_equal(
        Tensor(x).acos().numpy(), np.arccos(x.astype(np.float64)).astype(np.float32)
    )
    ends = np.array([INF, -INF], np.float32)
    assert np.array_equal(
        Tensor(ends).atan().numpy(), np.arctan(ends.astype(np.float64)).astype(np.float32)
    )


# Remainders


def remainders(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By Python's exact fmod, with the sign of the divisor."""
    found = []
    for a, b in zip(x.astype(float).tolist(), y.astype(float).tolist(), strict=True):
        rest = math.fmod(a, b) if b and math.isfinite(a) else NAN
        found.append(rest + b if rest and (rest < 0) != (b < 0) else rest)
    return np.array(found).astype(x.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_remainders_are_exact(dtype: type[np.floating]) -> None:
    generator = np.random.default_rng(4)
    x = (generator.standard_normal(2000) * 50).astype(dtype)
    y = generator.uniform(0.05, 5, 2000).astype(dtype) * generator.choice([-1, 1], 2000).astype(
        dtype
    )
    # Quotients that round up to a whole number, and exact ones.
    x[:4], y[:4] = [1.0, 0.3, -0.9, 6.0], [0.1, 0.1, 0.3, 1.5]
    assert np.array_equal((Tensor(x) % Tensor(y)).numpy(), remainders(x, y))
    whole = np.floor((x.astype(float) - remainders(x, y).astype(float)) / y.astype(float) + 0.5)
    assert np.array_equal((Tensor(x) // Tensor(y)).numpy(), whole.astype(dtype))


@pytest.mark.long
def test_remainders_of_special_values() -> None:
    x = Tensor([5.0, -5.0, 5.0, INF, 1.0, NAN, 0.0])
    y = Tensor([INF, INF, -INF, 2.0, 0.0, 2.0, 3.0])
    assert np.array_equal(
        (x % y).numpy(), np.array([5.0, INF, -INF, NAN, NAN, NAN, 0.0], np.float32), equal_nan=True
    )
    assert np.array_equal((x // y).numpy()[:3], np.array([0.0, -1.0, -1.0], np.float32))
    assert (Tensor([7, -7, 7, -7]) % Tensor([3, 3, -3, -3])).tolist() == [1, 2, -2, -1]
    assert (7.5 % Tensor([2.0])).tolist() == [1.5]
    # Divisors near the largest number.
    huge = np.array([3e38, -3e38, 3e38, 1.5], np.float32)
    small = np.array([0.5, 0.5, -0.0, -0.5], np.float32)
    assert np.array_equal((Tensor(small) % Tensor(huge)).numpy(), remainders(small, huge))
    assert (Tensor(small) // Tensor(huge)).tolist() == [0.0, -1.0, 0.0, -1.0]


# NaN


@pytest.mark.parametrize("device", ["CPU", "CLANG", "PYTHON"])
def test_a_nan_always_shows_in_an_extreme(device: str, needs_device: Callable[[str], None]) -> None:
    needs_device(device)
    x = Tensor([[1.0, NAN, 3.0], [NAN, 2.0, 1.0], [1.0, 2.0, 3.0]], device=device)
    wanted = [NAN, NAN, 3.0]
    assert np.array_equal(x.max(1).numpy(), np.array(wanted, np.float32), equal_nan=True)
    assert np.array_equal(x.min(1).numpy()[:2], np.array([NAN, NAN], np.float32), equal_nan=True)
    assert math.isnan(x.max().item())
    flat, other = x.reshape(-1), Tensor([2.0] * 9, device=device)
    for found in (
        flat.maximum(other),
        other.maximum(flat),
        flat.minimum(other),
        other.minimum(flat),
    ):
        assert np.array_equal(np.isnan(found.numpy()), np.isnan(flat.numpy()))
    assert math.isnan(x.softmax(1)[0, 0].item())


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.max(1),
        lambda x: x.min(),
        lambda x: x.maximum(x.flip(0)),
        lambda x: x.cos(),
        lambda x: x.erf(),
        lambda x: x.mish(),
        lambda x: x % 2.5,
        lambda x: x.round(),
    ],
)
def test_one_kernel(compute: Callable[[Tensor], Tensor]) -> None:
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).realize()
    GlobalCounters.reset()
    compute(x).realize()
    assert GlobalCounters.kernel_count == 1


# Shapes and types


def test_types() -> None:
    for name in ("cos", "erf", "gelu", "asinh", "softplus", "hardswish"):
        assert getattr(Tensor([1, 2]), name)().dtype is dtypes.float32
        assert getattr(Tensor([1.0], dtype=dtypes.bfloat16), name)().dtype is dtypes.bfloat16
        assert getattr(Tensor.zeros(0, 3), name)().numpy().shape == (0, 3)
        assert getattr(Tensor(0.5), name)().shape == ()
    assert Tensor([3, 4]).round().dtype is dtypes.int32
    assert Tensor([1, 2]).copysign(-1).dtype is dtypes.float32
    assert Tensor([1.0]).lerp(Tensor([3.0]), 0.25).tolist() == [1.5]


def test_signs_of_zeros_are_copied() -> None:
    found = Tensor([1.0, -2.0, 0.0, 3.0]).copysign(Tensor([-0.0, 0.0, -1.0, 1e-40])).numpy()
    assert found.tolist() == [-1.0, 2.0, -0.0, 3.0]
    assert np.signbit(found).tolist() == [True, False, True, False]


def test_close() -> None:
    x = Tensor([1.0, INF, INF, NAN, 1.0])
    y = Tensor([1.0 + 1e-6, INF, -INF, NAN, INF])
    assert x.isclose(y).tolist() == [True, True, False, False, False]
    assert x.isclose(y, equal_nan=True).tolist() == [True, True, False, True, False]
    assert Tensor([3, 5]).isclose(Tensor([3, 6])).tolist() == [True, False]


def test_even_distances() -> None:
    assert Tensor.linspace(0, 1, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    found = Tensor.linspace(-0.1, 0.7, 1000).numpy()
    assert found[0] == np.float32(-0.1)
    assert found[-1] == np.float32(0.7)
    assert np.allclose(found, np.linspace(-0.1, 0.7, 1000), rtol=0, atol=1e-7)
    assert Tensor.linspace(0, 10, 4, dtype=dtypes.int32).tolist() == [0, 3, 6, 10]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_remainders_of_large_quotients_are_exact(dtype):
    generator = np.random.default_rng(3)
    spread = 4 if dtype is np.float16 else 30
    x = (generator.standard_normal(500) * 2.0 ** generator.uniform(-8, spread, 500)).astype(dtype)
    y = generator.uniform(0.1, 9, 500).astype(dtype) * generator.choice([-1, 1], 500).astype(dtype)
    wanted = [float(a) % float(b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal((Tensor(x) % Tensor(y)).numpy(), np.array(wanted).astype(dtype))


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
