"""Making tensors: data of any kind, constructors, ranges."""

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
    with pytest.raises(UserError, match="their count is not finite"):
        Tensor.arange(*bounds)


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
