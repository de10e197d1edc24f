"""Tensor.arange: values in every type, counts, refusals, and that it takes no memory."""

import numpy as np
import pytest
import torch

from tinyref import Tensor
from tinyref.dtype import dtypes
from tinyref.errors import UserError

WHOLE = [
    ((5,), [0, 1, 2, 3, 4]),
    ((2, 5), [2, 3, 4]),
    ((5, 0, -2), [5, 3, 1]),
    ((0, 5, 2), [0, 2, 4]),
    ((1,), [0]),
    ((7, 8), [7]),
    ((0,), []),
    ((3, 3), []),
    ((5, 2), []),
    ((2, 5, -1), []),
    ((-3, 4, 3), [-3, 0, 3]),
    ((True,), [0]),
]


@pytest.mark.parametrize(("bounds", "expected"), WHOLE)
def test_whole_numbers_are_int32(bounds, expected):
    got = Tensor.arange(*bounds)
    assert got.dtype is dtypes.int32
    assert got.shape == (len(expected),)
    assert got.tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "bounds", "expected"),
    [
        (dtypes.uint8, (250, 256), [250, 251, 252, 253, 254, 255]),
        (dtypes.uint8, (255, 250, -2), [255, 253, 251]),
        (dtypes.int8, (-128, 128, 51), [-128, -77, -26, 25, 76, 127]),
        (dtypes.int64, (2**62, 2**62 + 3), [2**62, 2**62 + 1, 2**62 + 2]),
        (dtypes.int64, (0, 2**62, 2**61), [0, 2**61]),
        (dtypes.uint64, (2**64 - 2, 2**64), [2**64 - 2, 2**64 - 1]),
        (dtypes.float32, (3,), [0.0, 1.0, 2.0]),
        (dtypes.float64, (2**52, 2**52 + 2), [2.0**52, 2.0**52 + 1]),
        (dtypes.float16, (2046, 2052), [2046, 2047, 2048, 2048, 2050, 2052]),
        (dtypes.bool, (2,), [False, True]),
    ],
)
def test_integers_are_exact_in_every_type(dtype, bounds, expected):
    got = Tensor.arange(*bounds, dtype=dtype)
    assert got.dtype is dtype
    assert got.tolist() == expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0.0, 1.0, 0.25), [0.0, 0.25, 0.5, 0.75]),
        ((1.5,), [0.0, 1.0]),
        ((1.0, 0.0, -0.5), [1.0, 0.5]),
        ((0, 1, 0.5), [0.0, 0.5]),
        ((0.0,), []),
        ((1.0, 0.0), []),
    ],
)
def test_a_float_bound_makes_floats(bounds, expected):
    got = Tensor.arange(*bounds)
    assert got.dtype is dtypes.float32
    assert got.tolist() == expected


@pytest.mark.parametrize("bounds", [(0.0, 1.0, 0.1), (1.0, 3.0, 0.7), (-1.0, 1.0, 1 / 3), (0.3,)])
def test_counts_and_values_are_those_of_torch(bounds):
    got = Tensor.arange(*bounds)
    want = torch.arange(*bounds)
    assert got.shape == tuple(want.shape)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=3e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("bounds", "settings", "problem"),
    [
        ((0, 5, 0), {}, "step is 0"),
        ((0.0, 5.0, 0.0), {}, "step is 0"),
        ((float("inf"),), {}, "stop is inf"),
        ((float("nan"), 1), {}, "start is nan"),
        (("a",), {}, "stop is 'a'"),
        ((300,), {"dtype": "uint8"}, "299 does not fit uint8"),
        ((-1, 1), {"dtype": "uint8"}, "-1 does not fit uint8"),
        ((2**31 + 5, 2**31 + 7), {}, "does not fit int32"),
        ((2**64,), {"dtype": "uint64"}, "iota"),
    ],
)
def test_what_cannot_be_meant_is_refused(bounds, settings, problem):
    with pytest.raises(UserError, match=problem):
        Tensor.arange(*bounds, **settings)


def test_it_has_the_device_that_was_named_and_no_memory():
    numbers = Tensor.arange(4, device="PYTHON")
    assert numbers.device == "PYTHON"
    assert (numbers + Tensor([1, 1, 1, 1], device="PYTHON")).tolist() == [1, 2, 3, 4]


def test_a_range_of_floats_may_ask_for_a_gradient():
    numbers = Tensor.arange(3.0, requires_grad=True)
    (numbers * numbers).sum().backward()
    assert numbers.grad.tolist() == [0.0, 2.0, 4.0]


FAR = 3_000_000_000


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Tensor.arange(FAR, dtype="int64")[-2:], [FAR - 2, FAR - 1]),
        (lambda: Tensor.arange(0, -FAR, -1, dtype="int64")[-2:], [2 - FAR, 1 - FAR]),
        (lambda: Tensor.arange(FAR, dtype="uint32")[-1:], [FAR - 1]),
        (lambda: Tensor.arange(5, 2**62, dtype="int64")[-1:], [2**62 - 1]),
        (lambda: Tensor.arange(FAR, dtype="int64").flip(0)[:2], [FAR - 1, FAR - 2]),
        (lambda: Tensor.arange(FAR, dtype="float64")[-1:], [FAR - 1.0]),
        (lambda: Tensor.arange(FAR / 1.0)[-1:], [3e9]),
        (lambda: Tensor.linspace(0, FAR - 1, FAR, dtype="int64")[-2:], [FAR - 2, FAR - 1]),
        (lambda: Tensor.linspace(0, FAR - 1, FAR, dtype="float64")[-2:], [FAR - 2.0, FAR - 1.0]),
        (lambda: Tensor.eye(FAR)[-2:, -1], [0.0, 1.0]),
        (lambda: Tensor.eye(3, FAR)[-1, :4], [0.0, 0.0, 1.0, 0.0]),
        (lambda: Tensor.ones(2**16, 2**16).tril()[-2, -2:], [1.0, 0.0]),
    ],
)
def test_ranges_of_more_elements_than_int32_numbers(make, expected):
    assert make().tolist() == expected
