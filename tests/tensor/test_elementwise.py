"""Arithmetic, bits, comparisons, selection, casts: literals."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, dtypes
from tinyref.errors import UserError, UserStateError

INF, NAN = math.inf, math.nan


INTEGER_TYPES = [dtype.name for dtype in dtypes.all if dtype.is_int]


@pytest.mark.parametrize("shift", [operator.lshift, operator.rshift])
@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_every_count_of_a_shift_has_a_value(dtype: str, shift: Callable[..., Any]) -> None:
    """A count that is negative or beyond the width leaves the sign alone, as in torch and numpy."""
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
    """A negative exponent leaves 1 and -1 as they are, by its parity, as in torch."""
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


def test_comparisons_with_numbers_that_the_type_cannot_hold() -> None:
    small = Tensor([0, 255], dtype="uint8")
    assert (small < 300).tolist() == [True, True]
    assert (small >= -1).tolist() == [True, True]
    assert (small == 256).tolist() == [False, False]
    assert (Tensor([-1]) < 2**40).tolist() == [True]
    assert (Tensor([True, False]) == 2**40).tolist() == [False, False]
    assert (Tensor([True, False]) < 2**31).tolist() == [True, True]
    assert Tensor([-56], dtype="int8").isclose(200).tolist() == [False]
    for number in (2**63, 2**64 - 1, 2**70):
        with pytest.raises(UserError, match=f"no 64-bit integer type holds {number} and all of"):
            Tensor([-1]) == number  # noqa: B015


def test_a_number_divides_integers_as_it_is() -> None:
    small = Tensor([64, 192], dtype="uint8")
    assert (small / 256).tolist() == [0.25, 0.75]
    assert (small / -1).tolist() == [-64.0, -192.0]
    assert (384 / small).tolist() == [6.0, 2.0]
    assert (small / np.int64(256)).tolist() == [0.25, 0.75]
    assert (Tensor([-128, 64], dtype="int8") / 128).tolist() == [-1.0, 0.5]
    assert (Tensor([True, False]) / 2**31).tolist() == [2.0**-31, 0.0]


@pytest.mark.table
@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod, Tensor.idiv])
def test_a_divisor_that_wraps_to_zero_is_refused(divide: Callable[..., Tensor]) -> None:
    small = Tensor([64, 192], dtype="uint8")
    with pytest.raises(UserError, match="the divisor 256 is 0 in uint8"):
        divide(small, 256)
    assert divide(small, 257).tolist() == divide(small, 1).tolist()  # numbers wrap
    with pytest.raises(UserError, match="the divisor 4294967296 is 0 in int32"):
        divide(Tensor([True, False]), 2**32)


def test_a_bound_that_the_type_cannot_hold_bounds_nothing_or_is_refused() -> None:
    small, signed = Tensor([1, 200], dtype="uint8"), Tensor([-5, 100], dtype="int8")
    assert small.maximum(-1).tolist() == [1, 200]
    assert small.clamp(-1, 256).tolist() == [1, 200]
    assert signed.minimum(128).tolist() == signed.clamp(max_=128).tolist() == [-5, 100]
    bools = Tensor([True, False])  # beside an integer they are int32
    assert bools.minimum(2**32).tolist() == bools.clamp(-(2**40), 2**40).tolist() == [1, 0]
    for name, call in {
        "maximum": lambda: signed.maximum(200),
        "minimum": lambda: small.minimum(-1),
        "clamp: min_": lambda: small.clamp(300),
    }.items():
        with pytest.raises(UserError, match=f"{name}: -?[0-9]+ does not fit"):
            call()
    with pytest.raises(UserError, match="maximum: 4294967296 does not fit int32"):
        bools.maximum(2**32)


@pytest.mark.table
@pytest.mark.parametrize(
    "put",
    [
        lambda x: (x > 5).where(x, 300),
        lambda x: x.masked_fill(x > 5, 300),
        lambda x: x.pad((1, 1), value=-1),
        lambda x: x.scatter(0, Tensor([0]), 300),
        lambda x: x.clone().assign(300),
    ],
)
def test_an_element_that_the_type_cannot_hold_is_refused(put: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(UserError, match=r"300|-1"):
        put(Tensor([1, 200], dtype="uint8"))


def test_reflected_comparisons_and_hash() -> None:
    tensor = Tensor([1, 3])
    assert (tensor > 2).tolist() == [False, True]
    assert (tensor == 1).tolist() == [True, False]
    assert (tensor == None) is False  # noqa: E711
    assert (tensor != None) is True  # noqa: E711
    with pytest.raises(UserError, match="eq: got a str"):
        tensor == "a"  # noqa: B015
    assert len({tensor, tensor, Tensor([1, 3])}) == 2


def test_isinf_of_one_sign() -> None:
    tensor = Tensor([INF, -INF, 0.0])
    assert tensor.isinf(detect_negative=False).tolist() == [True, False, False]
    assert tensor.isinf(detect_positive=False).tolist() == [False, True, False]
    assert tensor.isinf(False, False).tolist() == [False, False, False]


def test_numbers_choose_the_type_of_where() -> None:
    condition = Tensor([True, False])
    assert condition.where(1, 0.5).dtype is dtypes.float32
    assert condition.where(Tensor([1, 2], dtype="int8"), 7).dtype is dtypes.int8
    assert condition.where(7, Tensor([[1], [2]])).tolist() == [[7, 1], [7, 2]]


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


@pytest.mark.parametrize(
    ("found", "gives"),
    [
        (lambda x: x.masked_fill(Tensor([True, False]), np.int8(3)), [3, 2]),
        (lambda x: x.scatter(0, Tensor([1]), np.uint8(3)), [1, 3]),
        (lambda x: x ** np.int16(3), [1, 8]),
        (lambda x: x.float().elu(np.float32(2)), [1.0, 2.0]),
        (lambda x: x.float().dropout(np.float32(0.5)), [1.0, 2.0]),
        (lambda x: x.isclose(x + 1, atol=np.float16(1)), [True, True]),
        (lambda x: x.assign(np.int64(7)), [7, 7]),
    ],
)
def test_numpy_numbers_are_numbers_everywhere(
    found: Callable[[Tensor], Tensor], gives: list[float]
) -> None:
    assert found(Tensor([1, 2])).tolist() == gives


def test_numpy_numbers_must_fit() -> None:
    small = Tensor([1, 2], dtype="int8")
    stores: dict[str, Callable[[], object]] = {
        "masked_fill": lambda: small.masked_fill(Tensor([True, False]), np.int32(300)),
        "scatter": lambda: small.scatter(0, Tensor([1]), np.uint8(200)),
        "assign": lambda: small.assign(np.int64(300)),
        "data": lambda: small.__setitem__(0, np.int64(300)),
    }
    for name, store in stores.items():
        with pytest.raises(UserError, match=f"{name}.*(300|200)"):
            store()
    with pytest.raises(UserError, match="complex64"):
        small.masked_fill(Tensor([True, False]), np.complex64(1))


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_times_of_numpy_are_no_numbers(unit: str) -> None:
    for time in (np.timedelta64(5, unit), np.datetime64(5, unit)):
        name = type(time).__name__
        uses: list[Callable[[], object]] = [
            lambda time=time: Tensor([1]) + time,  # type: ignore[misc]
            lambda time=time: Tensor([time]),  # type: ignore[misc]
            lambda time=time: Tensor(time, dtype="int64"),  # type: ignore[misc]
            lambda time=time: Tensor.full((2,), time),  # type: ignore[misc]
        ]
        for use in uses:
            with pytest.raises(UserError, match=name):
                use()


def test_a_constant_joins_any_device() -> None:
    total = Tensor(1.0) + Tensor([1.0], device="PYTHON")
    assert total.device == "PYTHON"
    assert total.tolist() == [2.0]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_an_integer_remainder_by_zero_ends_no_program(device: str) -> None:
    for name in ("int8", "int16", "int32", "int64", "uint8"):
        x = Tensor([7, 1], dtype=name, device=device)
        assert x.fmod(Tensor([0, 0], dtype=name, device=device)).numpy().shape == (2,)


def test_closeness_is_a_bool_of_python() -> None:
    x = Tensor([1.0, 2.0])
    assert x.allclose(x + 1e-7) is True
    assert x.allclose(Tensor([1.0, 2.1]), atol=0.2) is True
    assert x.allclose(Tensor([1.0, 2.1])) is False
    assert x.allclose(Tensor([1.0, NAN])) is False
    assert Tensor([]).allclose(Tensor([])) is True
    assert Tensor([1.0]).allclose(1) is True
    assert Tensor([[1], [1]]).allclose(Tensor([1, 1])) is True
    replayed = TinyJit(lambda x: Tensor.ones(1) if x.allclose(1) else x)
    with pytest.raises(UserStateError, match="read"):
        list(map(replayed, [Tensor([1.0]).realize() for _ in range(3)]))
