"""Arithmetic, bits, comparisons, selection, casts: literals."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyref import Tensor, dtypes
from tinyref.errors import UserError

INF, NAN = math.inf, math.nan


INTEGER_TYPES = [dtype.name for dtype in dtypes.all if dtype.is_int]


@pytest.mark.parametrize("shift", [operator.lshift, operator.rshift])
@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_every_count_of_a_shift_has_a_value(dtype: str, shift: Callable[..., Any]) -> None:
    """Keep only the sign for a count that is negative or beyond the width, as torch and numpy."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    width = np.iinfo(dtype).bits
    numbers = np.array([[low], [low + 1], [1], [5], [high]], dtype)
    inside = np.array([0, 1, width // 2, width - 1], dtype)
    beyond = np.array([width, width + 1, 100, high, low or high], dtype)
    assert shift(Tensor(numbers), Tensor(inside)).tolist() == shift(numbers, inside).tolist()
    signs = [-1 if number < 0 and shift is operator.rshift else 0 for number in numbers[:, 0]]
    result = shift(Tensor(numbers), Tensor(beyond))
    assert result.tolist() == [[sign] * 5 for sign in signs]
    assert result.dtype.name == dtype


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_integers_are_raised_to_tensors_modulo_their_width(dtype: str) -> None:
    """Keep 1 and -1 for a negative exponent, by its parity, as torch does."""
    low, width = int(np.iinfo(dtype).min), np.iinfo(dtype).bits
    bases = [0, 1, 3, 10, *([-1, -7] if low else [])]
    exponents = [0, 1, 5, 101, *([-1, -2, low] if low else [])]
    result = Tensor([[base] for base in bases], dtype=dtype) ** Tensor(exponents, dtype=dtype)
    for base, row in zip(bases, result.tolist(), strict=True):
        for exponent, power in zip(exponents, row, strict=True):
            exact = base ** (exponent if exponent >= 0 else exponent % 2) if abs(base) == 1 else 0
            exact = base**exponent if exponent >= 0 else exact
            assert power == (exact - low) % 2**width + low, (base, exponent)
    assert (2 ** Tensor([3, 0], dtype=dtype)).tolist() == [8, 1]
    assert result.dtype.name == dtype


def test_reflected_comparisons_and_hash() -> None:
    tensor = Tensor([1, 3])
    assert (tensor > 2).tolist() == [False, True]
    assert (tensor == 1).tolist() == [True, False]
    assert (tensor == None) is False  # noqa: E711
    assert (tensor != None) is True  # noqa: E711
    with pytest.raises(UserError, match="eq: got a str"):
        tensor == "a"  # noqa: B015
    assert len({tensor, tensor, Tensor([1, 3])}) == 2


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_where_takes_any_condition(device: str) -> None:
    numbers = [0.0, -0.0, 1.0, -2.0, math.nan, math.inf, 1e-40]
    for name in ("float32", "float64"):
        condition = Tensor(numbers, dtype=name, device=device)
        assert condition.where(1, 2).tolist() == [2, 2, 1, 1, 1, 1, 1]
    for name in ("int8", "uint8", "int64"):
        whole = Tensor([0, 1, 2, 64], dtype=name, device=device)
        assert whole.where(1, 2).tolist() == [2, 1, 1, 1]
    x = Tensor([1.0, 0.0, 3.0], device=device, requires_grad=True)
    (slope,) = x.where(x * 2, 5.0).sum().gradient(x)
    assert slope.tolist() == [2.0, 0.0, 2.0]


def test_storage_types_cast_and_move_but_do_not_compute() -> None:
    tensor = Tensor([0.3, -2.0]).cast("fp8e4m3")
    assert tensor.float().tolist() == [0.3125, -2.0]
    assert tensor[::-1].float().tolist() == [-2.0, 0.3125]
    for function in (lambda: tensor + 1, tensor.sum, tensor.exp2, tensor.neg):
        with pytest.raises(UserError, match="fp8e4m3 is for storage"):
            function()
    assert (tensor.half() + tensor.half()).tolist() == [0.625, -4.0]


def test_numpy_numbers_are_weak_and_arrays_are_refused() -> None:
    assert (Tensor([1], dtype="float16") * np.float64(2)).dtype is dtypes.float16
    assert (np.float32(2) * Tensor([1.5])).tolist() == [3.0]
    with pytest.raises(UserError, match=r"ndarray.*Tensor"):
        np.ones(2) + Tensor([1.0, 2.0])


def test_a_constant_joins_any_device() -> None:
    total = Tensor(1.0) + Tensor([1.0], device="PYTHON")
    assert total.device == "PYTHON"
    assert total.tolist() == [2.0]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_an_integer_remainder_by_zero_ends_no_program(device: str) -> None:
    for name in ("int8", "int16", "int32", "int64", "uint8"):
        x = Tensor([7, 1], dtype=name, device=device)
        assert x.fmod(Tensor([0, 0], dtype=name, device=device)).numpy().shape == (2,)
