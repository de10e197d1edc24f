"""Places of extremes, masks, classes and patterns: what the tables of the spec do not have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinyref import Tensor
from tinyref.dtype import dtypes
from tinyref.errors import UserError

NAN = math.nan


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint64", "float16", "float64"])
def test_the_first_of_equal_extremes(name: str) -> None:
    tensor = Tensor([[2, 5, 5], [1, 1, 3]], dtype=name)
    assert tensor.argmax().item() == 1
    assert tensor.argmin().item() == 3
    assert tensor.argmax(1).tolist() == [1, 2]
    assert tensor.argmin(0, keepdim=True).tolist() == [[1, 1, 1]]
    assert tensor.argmax().dtype is dtypes.int32


def test_extremes_of_the_whole_type() -> None:
    for name in ("int8", "int64", "uint8", "uint64"):
        low, high = np.iinfo(name).min, np.iinfo(name).max
        tensor = Tensor(np.array([low, high, low, high], dtype=name))
        assert (tensor.argmax().item(), tensor.argmin().item()) == (1, 0)
    assert Tensor([-math.inf, -math.inf]).argmax().item() == 0
    assert Tensor([False, True, True]).argmax().item() == 1
    assert Tensor([True, False, False]).argmin().item() == 1


def test_the_first_nan_is_the_extreme() -> None:
    tensor = Tensor([[1.0, NAN, math.inf, NAN], [3.0, 4.0, -1.0, 4.0]])
    assert tensor.argmax(1).tolist() == [1, 1]
    assert tensor.argmin(1).tolist() == [1, 2]
    assert tensor.argmax().item() == 1


def test_extremes_without_axes_and_without_elements() -> None:
    assert Tensor(3).argmax().shape == ()
    assert Tensor(3).argmax(0).item() == 0
    assert Tensor.zeros(2, 3).argmax(keepdim=True).shape == (1, 1)
    assert Tensor.zeros(0, 3).argmax(1).shape == (0,)
    with pytest.raises(UserError, match="at least one"):
        Tensor.zeros(0, 3).argmin(0)


def test_masked_fill_keeps_the_type_and_hides_nan() -> None:
    x = Tensor([1.0, NAN, 3.0], requires_grad=True)
    filled = x.masked_fill(Tensor([False, True, False]), -math.inf)
    assert filled.tolist() == [1.0, -math.inf, 3.0]
    assert filled.exp().sum().gradient(x)[0].tolist() == pytest.approx([math.e, 0, math.e**3])
    small = Tensor([1, 2], dtype="int8").masked_fill(Tensor([True, False]), Tensor(7))
    assert (small.tolist(), small.dtype) == ([7, 2], dtypes.int8)
    with pytest.raises(UserError, match=r"1\.5 has no place in int32"):
        Tensor([1]).masked_fill(Tensor([True]), 1.5)


def test_masked_select() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    chosen = x.masked_select(x > 1.5)
    assert chosen.tolist() == [2.0, 3.0, 4.0]
    assert (chosen * chosen).sum().gradient(x)[0].tolist() == [[0.0, 4.0], [6.0, 8.0]]
    assert Tensor(5).masked_select(Tensor(True)).tolist() == [5]
    assert Tensor(5).masked_select(Tensor([True, False, True])).tolist() == [5, 5]
    assert Tensor([1, 2]).masked_select(Tensor(False)).shape == (0,)


def test_one_hot() -> None:
    assert Tensor([[1], [0]]).one_hot(3).tolist() == [[[0, 1, 0]], [[1, 0, 0]]]
    assert Tensor([2, 0], dtype="uint64").one_hot().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert Tensor([-1, 9, 2**40 + 1], dtype="int64").one_hot(2).tolist() == [[0, 0]] * 3
    assert Tensor(1).one_hot(2).tolist() == [0, 1]
    assert Tensor(np.zeros((0, 2), np.int32)).one_hot(4).shape == (0, 2, 4)


def test_triangles() -> None:
    grid = np.arange(1, 13).reshape(3, 4)
    for diagonal in (-(2**40), -3, -1, 0, 2, 4, 2**40):
        assert (Tensor(grid).tril(diagonal).numpy() == np.tril(grid, diagonal)).all()
        assert (Tensor(grid).triu(diagonal).numpy() == np.triu(grid, diagonal)).all()
    assert Tensor([[True, True], [True, True]]).tril().tolist() == [[True, False], [True, True]]
    assert Tensor([[NAN, NAN], [1.0, NAN]]).tril(-1).tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert Tensor.ones(0, 2, 3).triu().shape == (0, 2, 3)


def test_roll() -> None:
    assert Tensor([1, 2, 3]).roll(1, 0).tolist() == [3, 1, 2]
    assert Tensor([1, 2, 3]).roll((1, 1), (0, 0)).tolist() == [2, 3, 1]
    assert Tensor([1, 2, 3]).roll(-(10**12), 0).tolist() == np.roll([1, 2, 3], -(10**12)).tolist()
    assert Tensor(4).roll(1, 0).item() == 4
    assert Tensor.zeros(0).roll(1, 0).shape == (0,)


def test_repeat_interleave() -> None:
    assert Tensor([[1, 2], [3, 4]]).repeat_interleave(2).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert Tensor([[1, 2]]).repeat_interleave(2, 0).tolist() == [[1, 2], [1, 2]]
    assert Tensor([1, 2]).repeat_interleave(0).shape == (0,)
    assert Tensor(3).repeat_interleave(2).tolist() == [3, 3]


def test_meshgrid() -> None:
    rows, columns = Tensor([1, 2, 3]).meshgrid(Tensor([4, 5]))
    assert rows.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert columns.tolist() == [[4, 5], [4, 5], [4, 5]]
    rows, columns, third = Tensor([1, 2, 3]).meshgrid(Tensor([4, 5]), Tensor(6), indexing="xy")
    assert rows.shape == columns.shape == third.shape == (2, 3, 1)
    assert rows.reshape(2, 3).tolist() == [[1, 2, 3], [1, 2, 3]]
    assert Tensor([1, 2]).meshgrid()[0].tolist() == [1, 2]
