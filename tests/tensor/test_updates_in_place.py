"""A tensor is given elements computed from its own, at whatever places the value reads them.

The values are those of torch, which computes a value before it is copied.
"""

import functools

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d

from tinyref import Tensor, TinyJit, Variable

TWO = ("CPU", "CPU:1")
M = np.array([[3, -1, 4, 1], [-5, 9, 2, -6], [5, 3, -5, 8], [9, 7, -9, 3]], np.float32)
WEIGHT = np.array([[0, 1, 0, 2], [1, 0, 0, 0], [0, 0, 3, 1], [1, 1, 1, 0]], np.float32)
ORDER = [2, 0, 3, 1]


def tensor_like(x, array):
    """Return `array` as a tensor of the library of `x`, on its device."""
    is_torch = isinstance(x, torch.Tensor)
    return torch.tensor(array) if is_torch else Tensor(array, device=x.device)


def convolved(x):
    image, weight = x.reshape(1, 1, 4, 4), tensor_like(x, WEIGHT[:3, :3].reshape(1, 1, 3, 3).copy())
    function = conv2d if isinstance(x, torch.Tensor) else Tensor.conv2d
    return function(image, weight, padding=1).reshape(4, 4)


def joined(x, y):
    return torch.cat((x, y)) if isinstance(x, torch.Tensor) else x.cat(y)


# The same words compute in torch.
VALUES = {
    "matmul": lambda x: x @ tensor_like(x, WEIGHT),
    "index": lambda x: x[tensor_like(x, np.array(ORDER))],
    "transposed": lambda x: x.T,
    "sort": lambda x: x.sort(1)[0],
    "gather": lambda x: x.gather(0, tensor_like(x, np.array([ORDER] * 4))),
    "flip": lambda x: x.flip(0),
    "cumsum": lambda x: x.cumsum(0),
    "with cumsum": lambda x: x * 2 + x.cumsum(1),
    "convolution": convolved,
    "cat": lambda x: joined(x[1:], x[:1]),
    "row repeated": lambda x: x * x[1:2],
    "row and column sums": lambda x: x - x.sum(0) + x.T.sum(0),
    "softmax": lambda x: x.softmax(1),
    "in place": lambda x: x * 3 + 1,
}


def memory(array, **options):
    return Tensor(np.ascontiguousarray(array), **options).realize()


MADE = {
    "realised": lambda: memory(M),
    "pending": lambda: memory(M - 1) + 1,
    "reshaped, realised": lambda: memory(M.reshape(-1)).reshape(4, 4).realize(),
    "transposed": lambda: memory(M.T).T,
    "part": lambda: memory(np.pad(M, 1))[1:5, 1:5],
    "other bits": lambda: memory(M.view(np.int32)).bitcast("float32"),
    "assigned": lambda: Tensor.empty(4, 4).assign(M),
    "copied": lambda: memory(M).clone(),
    "sharded by row": lambda: memory(M).shard(TWO, 0).realize(),
    "sharded by column, pending": lambda: memory(M - 1).shard(TWO, 1) + 1,
    "on each": lambda: memory(M).to(TWO).realize(),
    "on PYTHON": lambda: memory(M, device="PYTHON"),
}
WRITES = {
    "assign": lambda x, value: x.assign(value(x)),
    "assign, computed": lambda x, value: x.assign(value(x)).realize(),
    "index": lambda x, value: x.__setitem__(..., value(x)),
    "add in place": lambda x, value: x.__iadd__(value(x) - x * 1),
}


@functools.cache
def result(name):
    return VALUES[name](torch.tensor(M)).numpy()


@pytest.mark.sampled(17)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("value", VALUES)
def test_the_value_is_computed_from_the_old_elements(value, made, write):
    x = MADE[made]()
    before, total = x.clone(), x.sum()
    WRITES[write](x, VALUES[value])
    np.testing.assert_allclose(x.numpy(), result(value), 1e-5, 1e-5)
    assert (before.numpy() == M).all()
    assert total.item() == 28
    x.assign(x.T)
    np.testing.assert_allclose(x.numpy(), result(value).T, 1e-5, 1e-5)


@pytest.mark.parametrize("value", VALUES)
def test_a_captured_function_updates_in_place(value):
    x, expected = memory(M), torch.tensor(M)
    step = TinyJit(lambda scale: x.assign(VALUES[value](x) * scale).sum())
    for _ in range(4):
        total = step(memory(np.float32(0.25)))
        expected = VALUES[value](expected) * 0.25
        np.testing.assert_allclose(total.item(), expected.sum().item(), 1e-4, 1e-4)
    np.testing.assert_allclose(x.numpy(), expected.numpy(), 1e-4, 1e-5)


def test_only_what_reads_other_elements_takes_a_temporary():
    x = memory(M)
    x.assign(x * 3 + x.exp2())
    (kernel,) = x.schedule().kernels
    assert len(kernel.buffers) == 1
    x.realize()
    x.assign(x @ memory(WEIGHT))
    assert len(x.schedule().kernels) == 2


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (7,), (3, 5), (2, 1, 3)])
def test_of_any_type_and_size(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2
    x = Tensor(array.tolist(), dtype=dtype).reshape(shape).realize()
    x.assign(x.flip(tuple(range(len(shape)))))
    assert x.cast("int32").tolist() == np.flip(array).tolist()


def test_parts_of_symbolic_size():
    size = Variable("n", 1, 6)
    for number in (2, 5, 6):
        x = memory(np.arange(1, 7))
        part = x[: size.bind(number)]
        part.assign(part * part.sum())
        expected = np.arange(1, 7)
        expected[:number] *= expected[:number].sum()
        assert x.tolist() == expected.tolist()
        x.assign(x.flip(0) + x[: size.bind(number)].sum())
        assert x.tolist() == (expected[::-1] + expected[:number].sum()).tolist()


def test_special_numbers_keep_their_bits():
    bits = np.array([0x80000000, 0x7FC00001, 0x7F800000, 0x00000001], np.uint32)
    x = memory(bits.view(np.float32))
    x.assign(x.flip(0))
    assert x.bitcast("uint32").tolist() == bits[::-1].tolist()


def test_a_refused_assignment_leaves_the_tensor_as_it_was():
    x = memory(np.arange(6))
    view = x.reshape(2, 3)
    for value in (Tensor([1]), Tensor([1.0, 2.0]), x.shard(TWO, 0), Tensor.zeros(2, 6)):
        with pytest.raises(ValueError, match="assign: "):
            x.assign(value)
    assert (x.tolist(), view.tolist()) == ([0, 1, 2, 3, 4, 5], [[0, 1, 2], [3, 4, 5]])
    x.assign(x.flip(0))
    assert view.tolist() == [[5, 4, 3], [2, 1, 0]]
