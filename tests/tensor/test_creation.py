"""Making tensors: data of any kind, constructors, ranges."""

import math

import ml_dtypes
import numpy as np
import pytest

from tinyref import Tensor, dtypes
from tinyref.dtype import numpy_dtype
from tinyref.errors import UserError


def test_a_list_of_tensors_lies_where_they_do() -> None:
    there = Tensor([1, 2], device="PYTHON")
    assert Tensor([there, [3, 4]]).device == "PYTHON"
    assert Tensor([there, there], device="CPU").device == "CPU"
    both = Tensor([there, np.array([3, 4])], device=("CPU:0", "CPU:1"))
    assert (both.device, both.tolist()) == (("CPU", "CPU:1"), [[1, 2], [3, 4]])
    with pytest.raises(UserError, match="PYTHON"):
        Tensor([there, Tensor([1, 2])])


def test_a_list_of_tensors_is_a_leaf() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    made = Tensor([x, x * 2], requires_grad=True)
    made.sum().backward()
    assert made.grad is not None
    assert x.grad is None


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_every_dtype_survives_a_round_trip(dtype: object) -> None:
    array = np.array([0, 1, 0, 1, 1]).astype(numpy_dtype(dtype))
    tensor = Tensor(array)
    assert tensor.dtype is dtype
    assert tensor.numpy().dtype == numpy_dtype(dtype)
    assert tensor.tolist() == [0, 1, 0, 1, 1]
    assert Tensor([0, 1], dtype=dtype).tolist() == [0, 1]
    assert Tensor.full((2,), 1, dtype=dtype).numpy().astype(float).tolist() == [1, 1]


def test_special_floats_keep_their_bits() -> None:
    array = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], dtype=np.float32)
    back = Tensor(array).numpy()
    assert back.view(np.uint32).tolist() == array.view(np.uint32).tolist()


def test_numpy_arrays_of_any_layout() -> None:
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    assert Tensor(array[::-1, ::2]).tolist() == [[8.0, 10.0], [4.0, 6.0], [0.0, 2.0]]
    assert Tensor(array.T).shape == (4, 3)
    assert Tensor(np.asfortranarray(array)).tolist() == array.tolist()
    assert Tensor(np.array(2.5)).shape == ()
    assert Tensor(np.zeros((0, 3))).numpy().shape == (0, 3)


def test_the_tensor_has_a_copy_of_the_array() -> None:
    array = np.array([1.0, 2.0])
    tensor = Tensor(array)
    array[0] = 9
    assert tensor.tolist() == [1.0, 2.0]
    tensor.numpy()[1] = 9
    assert tensor.tolist() == [1.0, 2.0]


def test_lists_are_rounded_once() -> None:
    # Through float32 this value becomes a tie, and rounds to 1.0 instead.
    value = 1.0 + 2**-8 + 2**-30
    assert Tensor([value], dtype="bfloat16").tolist() == [1.0078125]
    assert Tensor([2**64 - 1], dtype="uint64").tolist() == [2**64 - 1]
    assert Tensor([2**24 + 1], dtype="float32").tolist() == [2.0**24]


def test_conversion_of_arrays() -> None:
    assert Tensor(np.array([1.9, -1.9]), dtype="int32").tolist() == [1, -1]
    assert Tensor(np.array([300]), dtype="uint8").tolist() == [44]
    assert Tensor(np.array([0.0, 0.5]), dtype="bool").tolist() == [False, True]
    assert Tensor(np.array([2**63 + 2**39 + 1], np.uint64), dtype="float32").tolist() == [
        float(2**63 + 2**40)
    ]
    assert Tensor(np.array([1.5], ml_dtypes.bfloat16), dtype="float64").tolist() == [1.5]


def test_bytes_as_a_named_type() -> None:
    assert Tensor(b"\x00\x00\x80\x3f", dtype="float32").tolist() == [1.0]
    assert Tensor(bytearray(b"\x01\x00"), dtype="int16").tolist() == [1]
    assert Tensor(b"\x00\x02", dtype="bool").tolist() == [False, True]


def test_a_tensor_of_a_tensor() -> None:
    first = Tensor([1.5, 2.5])
    assert Tensor(first, dtype="int32").tolist() == [1, 2]
    assert Tensor(first, device="PYTHON").device == "PYTHON"
    assert Tensor(first).tolist() == [1.5, 2.5]


def test_constructors_with_a_shape() -> None:
    assert Tensor.zeros((2, 1)).shape == (2, 1)
    assert Tensor.zeros().shape == ()
    assert Tensor.full((1,), np.float64(0.5)).tolist() == [0.5]
    assert Tensor.full(3, math.inf).tolist() == [math.inf] * 3
    assert Tensor.empty(2, dtype="int64").numpy().dtype == np.int64
    assert Tensor.empty(0).tolist() == []
    assert Tensor.eye(3, 2, dtype="int32").tolist() == [[1, 0], [0, 1], [0, 0]]
    assert Tensor([[1, 2]], dtype="int16").full_like(7, dtype="float64").tolist() == [[7.0, 7.0]]


def test_numpy_conversions_are_those_of_the_op_table() -> None:
    """Guards conversions of the host's own, which gave what the machine gives out of range."""
    data = np.array([np.nan, 1e20, -1e20, 300.7, -0.0])
    assert Tensor(data, dtype="int32").tolist() == [0, 2147483647, -2147483648, 300, 0]
    assert Tensor(data, dtype="uint8").tolist() == [0, 255, 0, 255, 0]
    assert Tensor(np.array(3.7), dtype="int8").tolist() == 3
    assert Tensor(np.array([2**53 + 1]), dtype="float32").tolist() == [2.0**53]


def test_requires_grad() -> None:
    assert Tensor([1.0], requires_grad=True).requires_grad
    assert not Tensor([1.0]).requires_grad
    assert Tensor.ones(2, requires_grad=True).requires_grad
    assert Tensor([1.0]).requires_grad_().requires_grad


@pytest.mark.parametrize(
    "data",
    [
        lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
        lambda: np.ma.masked_array([1, 2]),
        lambda: [np.ma.masked_array([1.0, 2.0], mask=[True, False])],
        lambda: np.ma.masked,
    ],
)
def test_masked_arrays_are_refused(data):
    with pytest.raises(TypeError, match=r"masked array.*array\.filled\(value\)"):
        Tensor(data())
    with pytest.raises(TypeError, match="masked array"):
        Tensor([0.0, 0.0])[:] = data()


@pytest.mark.parametrize("bounds", [(-1e308, 1e308, 1e307), (0, 1, 5e-324)])
def test_a_range_of_more_numbers_than_the_floats_is_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="their number is no float"):
        Tensor.arange(*bounds)


def test_ends_are_numbers_of_numpy_too() -> None:
    assert Tensor.linspace(np.int64(0), np.float32(3), 4).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert Tensor.linspace(np.int8(0), np.int64(3), 4, dtype="int32").tolist() == [0, 1, 2, 3]
    assert Tensor.uniform(2, low=np.float32(3), high=np.int64(3)).tolist() == [3.0, 3.0]


# Ranges


def test_a_range_has_the_device_that_was_named():
    numbers = Tensor.arange(4, device="PYTHON")
    assert numbers.device == "PYTHON"
    assert (numbers + Tensor([1, 1, 1, 1], device="PYTHON")).tolist() == [1, 2, 3, 4]


def test_a_range_of_floats_may_ask_for_a_gradient():
    numbers = Tensor.arange(3.0, requires_grad=True)
    (numbers * numbers).sum().backward()
    assert numbers.grad.tolist() == [0.0, 2.0, 4.0]


def test_unwritten_memory_like_a_tensor() -> None:
    x = Tensor([[1, 2]], dtype="int16", device="PYTHON")
    like = x.empty_like()
    assert (like.shape, like.dtype, like.device) == ((1, 2), dtypes.int16, "PYTHON")
    assert x.empty_like(dtype="float16", device="CPU:1").dtype is dtypes.float16
    parts = Tensor.zeros(4, 2).shard(("CPU:1", "CPU:2"), axis=0).empty_like()
    assert parts.device == ("CPU:1", "CPU:2")
    assert Tensor.zeros(0, 3).empty_like().numpy().shape == (0, 3)
    assert x.float().empty_like(requires_grad=True).requires_grad
