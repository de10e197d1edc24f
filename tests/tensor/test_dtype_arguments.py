"""A type that a caller names is the type of the result, whatever else the caller names."""

import inspect
import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tinyref import Tensor, Variable
from tinyref.errors import UserError

FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = (*FLOATS, "int8", "uint8", "int16", "int32", "uint64")
ANY = (*NUMBERS, "bool")


def whole(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(np.arange(np.prod(shape)).reshape(shape) % 3, dtype=dtype)


def matrix() -> Tensor:
    return whole(2, 2)


def vector() -> Tensor:
    return whole(2)


def bias() -> Tensor:
    return whole(2, dtype="float64")


def convolve(dtype: str, has_bias: bool, **settings: int) -> Tensor:
    kernel = whole(2, 2 // settings.get("groups", 1), 2, 2)
    return whole(1, 2, 3, 3).conv2d(kernel, bias() if has_bias else None, **settings, dtype=dtype)


SETTINGS: list[dict[str, int]] = [{}, {"groups": 2}, {"stride": 2}, {"dilation": 2}, {"padding": 1}]

# For each function that accepts `dtype`: the types that it accepts, and calls that name one.
CALLS: dict[str, tuple[tuple[str, ...], list[Callable[[str], Tensor]]]] = {
    "bitcast": (("uint32", "int32"), [lambda dtype: matrix().bitcast(dtype)]),
    "cast": (ANY, [lambda dtype: matrix().cast(dtype)]),
    "arange": (
        NUMBERS,
        [
            lambda dtype: Tensor.arange(3, dtype=dtype),
            lambda dtype: Tensor.arange(1, 7, 2, dtype=dtype),
            lambda dtype: Tensor.arange(0.0, 2.0, 0.5, dtype=dtype),
            lambda dtype: Tensor.arange(Variable("n", 1, 9).bind(3), dtype=dtype),
            lambda dtype: Tensor.arange(1, Variable("n", 1, 9).bind(3), dtype=dtype),
        ],
    ),
    "sum": (
        NUMBERS,
        [
            lambda dtype: matrix().sum(dtype=dtype),
            lambda dtype: matrix().sum(0, keepdim=True, dtype=dtype),
            lambda dtype: matrix().sum((), dtype=dtype),
        ],
    ),
    "prod": (
        NUMBERS,
        [
            lambda dtype: matrix().prod(dtype=dtype),
            lambda dtype: matrix().prod(0, keepdim=True, dtype=dtype),
        ],
    ),
    "softmax": (FLOATS, [lambda dtype: matrix().softmax(0, dtype=dtype)]),
    "softmin": (FLOATS, [lambda dtype: matrix().softmin(0, dtype=dtype)]),
    "log_softmax": (FLOATS, [lambda dtype: matrix().log_softmax(0, dtype=dtype)]),
    "dot": (
        NUMBERS,
        [
            lambda dtype: vector().dot(vector(), dtype=dtype),
            lambda dtype: matrix().dot(bias(), dtype=dtype),
        ],
    ),
    "matmul": (
        NUMBERS,
        [
            lambda dtype: matrix().matmul(bias(), dtype=dtype),
            lambda dtype: matrix().matmul(bias(), reverse=True, dtype=dtype),
        ],
    ),
    "einsum": (
        NUMBERS,
        [
            lambda dtype: Tensor.einsum("ij->i", matrix(), dtype=dtype),
            lambda dtype: Tensor.einsum("ij,j->i", matrix(), bias(), dtype=dtype),
            lambda dtype: Tensor.einsum("ij,jk,k", matrix(), matrix(), bias(), dtype=dtype),
        ],
    ),
    "linear": (
        NUMBERS,
        [
            lambda dtype: matrix().linear(matrix(), dtype=dtype),
            lambda dtype: matrix().linear(matrix(), bias(), dtype=dtype),
            lambda dtype: matrix().linear(vector(), dtype=dtype),
            lambda dtype: matrix().linear(vector(), bias(), dtype=dtype),
        ],
    ),
    "conv2d": (
        NUMBERS,
        [
            partial(convolve, has_bias=has_bias, **settings)
            for has_bias, settings in itertools.product((False, True), SETTINGS)
        ],
    ),
    "empty": (ANY, [lambda dtype: Tensor.empty(2, dtype=dtype)]),
    "empty_like": (ANY, [lambda dtype: matrix().empty_like(dtype=dtype)]),
    "full": (ANY, [lambda dtype: Tensor.full((2,), 1, dtype=dtype)]),
    "zeros": (ANY, [lambda dtype: Tensor.zeros(2, dtype=dtype, device="CPU")]),
    "ones": (ANY, [lambda dtype: Tensor.ones(2, dtype=dtype, device="CPU")]),
    "eye": (
        ANY,
        [lambda dtype: Tensor.eye(2, dtype=dtype), lambda dtype: Tensor.eye(2, 3, dtype=dtype)],
    ),
    "linspace": (NUMBERS, [lambda dtype: Tensor.linspace(0, 1, 2, dtype=dtype)]),
    "rand": (
        FLOATS,
        [
            lambda dtype: Tensor.rand(2, dtype=dtype),
            lambda dtype: Tensor.rand(2, dtype=dtype, contiguous=False, requires_grad=True),
        ],
    ),
    "randn": (
        FLOATS,
        [
            lambda dtype: Tensor.randn(2, dtype=dtype),
            lambda dtype: Tensor.randn(2, dtype=dtype, contiguous=False, requires_grad=True),
        ],
    ),
    "randint": (NUMBERS[4:], [lambda dtype: Tensor.randint(2, low=1, high=5, dtype=dtype)]),
    "randperm": (NUMBERS, [lambda dtype: Tensor.randperm(3, dtype=dtype)]),
    "normal": (FLOATS, [lambda dtype: Tensor.normal(2, mean=1.0, std=2.0, dtype=dtype)]),
    "uniform": (FLOATS, [lambda dtype: Tensor.uniform(2, low=-1.0, high=2.0, dtype=dtype)]),
    "scaled_uniform": (FLOATS, [lambda dtype: Tensor.scaled_uniform(2, dtype=dtype)]),
    "glorot_uniform": (FLOATS, [lambda dtype: Tensor.glorot_uniform(2, 2, dtype=dtype)]),
    "kaiming_uniform": (FLOATS, [lambda dtype: Tensor.kaiming_uniform(2, 2, a=0.5, dtype=dtype)]),
    "kaiming_normal": (FLOATS, [lambda dtype: Tensor.kaiming_normal(2, 2, a=0.5, dtype=dtype)]),
    "rand_like": (FLOATS, [lambda dtype: matrix().rand_like(dtype=dtype)]),
    "randn_like": (FLOATS, [lambda dtype: matrix().randn_like(dtype=dtype)]),
    "full_like": (ANY, [lambda dtype: matrix().full_like(1, dtype=dtype)]),
    "zeros_like": (ANY, [lambda dtype: matrix().zeros_like(dtype=dtype, device="CPU")]),
    "ones_like": (ANY, [lambda dtype: matrix().ones_like(dtype=dtype, device=None)]),
}
# Functions whose keywords are something else.
WITHOUT_TYPE = {"no_grad", "rearrange"}


def accepts_dtype(name: str) -> bool:
    parameters = inspect.signature(getattr(Tensor, name)).parameters
    return "dtype" in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def test_every_function_with_a_type_is_called() -> None:
    functions = (name for name in dir(Tensor) if not name.startswith("_"))
    methods = {name for name in functions if inspect.isroutine(getattr(Tensor, name))}
    assert {name for name in methods - WITHOUT_TYPE if accepts_dtype(name)} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_result_has_the_named_type(name: str) -> None:
    accepted, calls = CALLS[name]
    for call, dtype in itertools.product(calls, accepted):
        assert call(dtype).dtype.name == dtype


def test_bias_in_the_named_type() -> None:
    numbers = Tensor([[2.0**24 + 2]], dtype="float64")
    one = Tensor([[1]], dtype="int32")
    # Floats would round the sum, or cut it towards zero after the bias.
    assert numbers.linear(one, Tensor([1.9]), dtype="int32").tolist() == [[2**24 + 3]]
    assert (-numbers).linear(one[0], Tensor([0.9]), dtype="int32").tolist() == [[-(2**24) - 2]]
    # (1 + 2^-7)^2 + 2^-8 is above the middle of two numbers, which a rounded product is not.
    factor, bias = (Tensor([[x]], dtype="bfloat16") for x in (1 + 2**-7, 2**-8))
    assert factor.linear(factor[0], bias[0]).tolist() == [[1 + 2**-6 + 2**-7]]
    assert factor.linear(factor, bias[0]).tolist() == [[1 + 2**-6 + 2**-7]]


def test_type_none_is_that_of_the_tensor() -> None:
    numbers = Tensor([1.0], dtype="float64")
    makers = [numbers.zeros_like, numbers.ones_like, numbers.rand_like, numbers.randn_like]
    for make in makers:
        assert make(dtype=None).dtype.name == "float64"
        assert make(device=None).device == numbers.device
    assert numbers.full_like(1, dtype=None).dtype.name == "float64"


def test_permutation_in_a_type_without_its_numbers() -> None:
    assert Tensor.randperm(2049, dtype="float16").max().item() == 2048.0
    with pytest.raises(UserError, match="2049 does not fit float16"):
        Tensor.randperm(2050, dtype="float16")
