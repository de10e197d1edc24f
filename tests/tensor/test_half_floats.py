"""Functions of float16 and bfloat16 are computed in float32 and rounded once: all 65,536 inputs."""

import ml_dtypes
import numpy as np
import pytest
import torch
from torch_calls import TORCH_NAMES, Function
from torch_table import ELEMENTARY, X

from tinyref import Tensor

# Ops of the device, which may compute in the type itself, and a formula that cancels.
DIRECT = ("x.exp2()", "x.log2()", "x.sin()", "x.gelu('none')")
# Lines of the sweep: functions of one tensor that are computed in float32.
LINES = [line for line in ELEMENTARY if line.inputs is X and line.ours not in DIRECT]
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
