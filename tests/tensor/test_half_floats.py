"""Functions of float16 and bfloat16 are computed in float32 and rounded once: all 65,536 inputs."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tinyref import Tensor

Function = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def below_zero(x: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, below)


# In float64, by numpy and the mathematical definition.
REFERENCES: dict[str, Function] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "gelu": gelu,
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "leaky_relu": lambda x: below_zero(x, 0.01 * x),
    "elu": lambda x: below_zero(x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: below_zero(x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: 1.0507 * below_zero(x, 1.67326 * np.expm1(np.minimum(x, 0))),
}
POWERS = (-4, -3, -2, 3, 4)


def errors(result: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distances in units of the last place of the type of `result`; 0 where both are NaN."""
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
@pytest.mark.parametrize("name", REFERENCES)
def test_function_is_rounded_once(name: str, dtype: str) -> None:
    numbers = every(dtype)
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](numbers.astype(np.float64))
        is_finite = np.isfinite(numbers.astype(np.float64))
    result = getattr(Tensor(numbers[is_finite]), name)()
    check(result, expected[is_finite], dtype)


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
