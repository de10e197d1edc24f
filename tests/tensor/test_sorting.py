"""Sorting: against numpy with ties, NaN and odd sizes, and the network on long axes."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref import Tensor
from tinyref.engine import GlobalCounters
from tinyref.errors import UserError
from tinyref_spec.bits import Array

NAMES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def order_of(values: Array, axis: int, descending: bool) -> Array:
    """The stable order by numpy, NaN largest; descending as the stable order of ranks turned."""
    if not descending:
        return np.argsort(values, axis=axis, kind="stable")
    turned = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
    return np.asarray(values.shape[axis] - 1 - np.flip(turned, axis))


def check(values: Array, axis: int, descending: bool) -> None:
    found, places = Tensor(values).sort(axis, descending)
    order = order_of(values, axis, descending)
    assert places.dtype.name == "int32"
    assert (places.numpy() == order).all()
    expected = np.take_along_axis(values, order, axis)
    assert np.array_equal(found.numpy(), expected, equal_nan=values.dtype.kind == "f")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", [*NAMES, *FLOATS])
def test_ties_and_extremes_of_every_type(name: str, descending: bool) -> None:
    dtype = np.dtype(name)
    if dtype.kind == "f":
        limits = [-np.inf, np.inf, np.nan, -0.0, 0.0, -np.nan, np.finfo(dtype).max]
    else:
        limits = [np.iinfo(dtype).min, np.iinfo(dtype).max, 1, 1, 0, 0]
    values = np.array([3, 1, 2, *limits, 1, 3, *limits], dtype=dtype)
    check(values, 0, descending)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (0,), (3, 4), (2, 3, 5), (2, 0), (0, 3)])
def test_shapes_and_axes(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(7).integers(0, 4, shape).astype(np.int32)
    for axis in range(-len(shape), len(shape)):
        check(values, axis, axis % 2 == 0)


def test_without_axes() -> None:
    values, places = Tensor(2.5).sort()
    assert (values.item(), places.item()) == (2.5, 0)
    values, places = Tensor(2.5).topk(1)
    assert (values.item(), places.item()) == (2.5, 0)


def test_a_sort_of_1024_is_three_kernels_at_most() -> None:
    values = np.random.default_rng(8).integers(0, 500, 1024).astype(np.float32)
    tensor = Tensor(values).realize()
    before = GlobalCounters.kernel_count
    found, places = tensor.sort()
    found.realize(places)
    assert GlobalCounters.kernel_count - before <= 3
    assert (found.numpy() == np.sort(values)).all()
    assert (places.numpy() == np.argsort(values, kind="stable")).all()


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("descending", [False, True])
def test_the_network_sorts_an_axis_of_odd_length(descending: bool) -> None:
    values = np.random.default_rng(9).integers(0, 300, (2, 2100)).astype(np.float32)
    values[0, 7] = np.nan
    check(values, 1, descending)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int64", "uint32", "float64", "uint8"])
def test_the_network_sorts_every_width(name: str) -> None:
    values = np.random.default_rng(10).integers(0, 200, 5000).astype(name)
    check(values, 0, False)
    check(values, 0, True)


def test_topk() -> None:
    values = Tensor([[3, 1, 2, 3], [0, 5, 4, 5]])
    largest, places = values.topk(2)
    assert (largest.tolist(), places.tolist()) == ([[3, 3], [5, 5]], [[0, 3], [1, 3]])
    smallest, places = values.topk(1, dim=0, largest=False)
    assert (smallest.tolist(), places.tolist()) == ([[0, 1, 2, 3]], [[1, 0, 0, 0]])
    assert values.topk(0)[0].shape == (2, 0)
    assert values.topk(3, sorted_=False)[0].tolist() == [[3, 3, 2], [5, 5, 4]]
    assert Tensor([1.0, float("nan"), 2.0]).topk(2)[1].tolist() == [1, 2]


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_a_long_axis_leaves_out_what_cannot_be_among_them(largest: bool) -> None:
    values = np.random.default_rng(11).integers(-50, 50, (2, 2500)).astype(np.float32)
    values[1, 2499] = np.nan
    tensor = Tensor(values).realize()
    before = GlobalCounters.kernel_count
    found, places = tensor.topk(60, largest=largest)
    found.realize(places)
    assert GlobalCounters.kernel_count - before <= 6
    order = order_of(values, 1, largest)[:, :60]
    assert (places.numpy() == order).all()
    assert np.array_equal(found.numpy(), np.take_along_axis(values, order, 1), equal_nan=True)


def test_gradients_follow_the_elements() -> None:
    x = Tensor([3.0, 1.0, 2.0], requires_grad=True)
    (first,) = (x.sort()[0] ** 2 * Tensor([1.0, 10.0, 100.0])).sum().gradient(x)
    assert first.tolist() == [600.0, 2.0, 40.0]
    (second,) = first.sum().gradient(x)
    assert second.tolist() == [200.0, 2.0, 20.0]
    (first,) = x.topk(2)[0].sum().gradient(x)
    assert first.tolist() == [1.0, 0.0, 1.0]


def test_errors() -> None:
    with pytest.raises(UserError, match="k 4, accepted is 0 to 3"):
        Tensor([1, 2, 3]).topk(4)
    with pytest.raises(UserError, match="axis 1 is outside"):
        Tensor([1, 2, 3]).sort(1)
    with pytest.raises(UserError, match="storage"):
        Tensor([1.0]).cast("fp8e4m3").sort()
