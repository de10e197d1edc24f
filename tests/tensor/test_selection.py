"""Lookups, scatters, masks and sorts: what the sweep against torch does not call."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_runs import count_kernels

from tinyref import Tensor, TinyJit
from tinyref.dtype import dtypes
from tinyref.engine import GlobalCounters
from tinyref.errors import UserError, UserStateError
from tinyref_spec.bits import Array

# Gather and scatter


def test_means_of_integers_and_bools() -> None:
    for name in ("int8", "uint8", "int64"):
        x, source = (Tensor(numbers, dtype=name) for numbers in ([3, 1, 2], [5, 2, 4, 4]))
        result = x.scatter_reduce(0, Tensor([0, 0, 2, 2]), source, "mean")
        assert (result.tolist(), result.dtype.name) == ([3, 1, 3], name)
    bools, indices = Tensor([True, False, False]), Tensor([0, 1, 1])
    source = Tensor([False, False, True])
    assert bools.scatter_reduce(0, indices, source, "amax").tolist() == [True, True, False]
    with pytest.raises(UserError, match="mean"):
        bools.scatter_reduce(0, indices, source, "mean")


def test_half_floats_add_up_in_float32() -> None:
    ones = Tensor.ones(300, dtype="float16") * 0.25
    total = Tensor([1024.0], dtype="float16").scatter(
        0, Tensor.zeros(300, dtype="int32"), ones, reduce="add"
    )
    # In float16 a quarter added to 1024 is lost each time.
    assert total.tolist() == [1099.0]


def test_a_lookup_reads_only_what_it_needs() -> None:
    table = Tensor(np.arange(4096 * 8, dtype=np.float32).reshape(4096, 8)).realize()
    rows = Tensor([5, 4095, 5]).realize()
    GlobalCounters.reset()
    actual = table[rows]
    assert count_kernels(actual.realize)[1] == 1
    assert actual.tolist() == [list(range(40, 48)), list(range(32760, 32768)), list(range(40, 48))]
    assert count_kernels(table.gather(0, rows.reshape(3, 1)).realize)[1] == 1
    # A pass over the whole table would take 32768 additions for each row.
    assert GlobalCounters.global_ops < 4096


@pytest.mark.parametrize("dtype", ["float32", "float16", "fp8e5m2"])
def test_the_gradient_of_what_is_chosen_is_the_sum_over_its_places(dtype: str) -> None:
    data = Tensor([[1.0, 2.0], [3.0, -4.0]], dtype=dtype, requires_grad=True)
    chosen = data.gather(0, Tensor([[0, 0], [0, 1], [0, 9]])).cast("float32")
    (actual,) = (chosen * Tensor([[1.0], [2.0], [4.0]])).sum().gradient(data)
    assert actual.dtype.name == dtype
    assert actual.cast("float32").tolist() == [[7.0, 1.0], [0.0, 2.0]]


def test_the_gradient_of_one_place_repeats_nothing() -> None:
    data = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    for index, expected in ((1, [0.0, 4.0, 0.0]), (7, [0.0, 0.0, 0.0])):
        (actual,) = data.gather(0, Tensor([index])).square().sum().gradient(data)
        assert actual.tolist() == expected


# Masks, classes and patterns


def test_masked_fill_keeps_the_type_and_hides_nan() -> None:
    x = Tensor([1.0, math.nan, 3.0], requires_grad=True)
    filled = x.masked_fill(Tensor([False, True, False]), -math.inf)
    assert filled.exp().sum().gradient(x)[0].tolist() == pytest.approx([math.e, 0, math.e**3])
    small = Tensor([1, 2], dtype="int8").masked_fill(Tensor([True, False]), Tensor(7))
    assert (small.tolist(), small.dtype) == ([7, 2], dtypes.int8)


def test_numbers_far_outside() -> None:
    assert Tensor([-1, 9, 2**40 + 1], dtype="int64").one_hot(2).tolist() == [[0, 0]] * 3
    assert Tensor([2, 0], dtype="uint64").one_hot().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert Tensor([1, 2, 3]).roll(-(10**12), 0).tolist() == np.roll([1, 2, 3], -(10**12)).tolist()
    for diagonal in (-(2**40), 2**40):
        assert Tensor([[1, 2]]).tril(diagonal).tolist() == np.tril([[1, 2]], diagonal).tolist()


# Sorting

NAMES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def order_of(values: Array, axis: int, descending: bool) -> Array:
    """Return the stable order by numpy, NaN largest; descending as the order of reversed ranks."""
    if not descending:
        return np.argsort(values, axis=axis, kind="stable")
    turned = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
    return np.asarray(values.shape[axis] - 1 - np.flip(turned, axis))


def check(values: Array, axis: int, descending: bool) -> None:
    actual, indices = Tensor(values).sort(axis, descending)
    order = order_of(values, axis, descending)
    assert indices.dtype.name == "int32"
    assert (indices.numpy() == order).all()
    expected = np.take_along_axis(values, order, axis)
    assert np.array_equal(actual.numpy(), expected, equal_nan=values.dtype.kind == "f")


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


@pytest.mark.parametrize(("device", "size"), [("GPU_EMU", 1024), ("CPU", 128)])
def test_a_short_sort_is_three_kernels_at_most(device: str, size: int) -> None:
    values = np.random.default_rng(8).integers(0, 500, size).astype(np.float32)
    tensor = Tensor(values, device=device).realize()
    before = GlobalCounters.kernel_count
    actual, indices = tensor.sort()
    actual.realize(indices)
    assert GlobalCounters.kernel_count - before <= 3
    assert (actual.numpy() == np.sort(values)).all()
    assert (indices.numpy() == np.argsort(values, kind="stable")).all()


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("descending", [False, True])
def test_the_network_sorts_an_axis_of_odd_length(descending: bool) -> None:
    values = np.random.default_rng(9).integers(0, 300, (2, 2100)).astype(np.float32)
    values[0, 7] = np.nan
    check(values, 1, descending)


@pytest.mark.parametrize("name", ["int8", "int32", "uint64", "float16", "float32", "float64"])
def test_the_network_sorts_many_short_columns(name: str) -> None:
    # Too many comparisons for counting.
    values = np.random.default_rng(10).integers(0, 9, (17, 71)).astype(name)
    if values.dtype.kind == "f":
        values[3, :4] = np.nan, -np.nan, -0.0, np.inf
    check(values, 0, True)


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_a_long_axis(largest: bool) -> None:
    values = np.random.default_rng(11).integers(-50, 50, (2, 2500)).astype(np.float32)
    values[1, 2499] = np.nan
    tensor = Tensor(values).realize()
    actual, indices = tensor.topk(60, largest=largest)
    actual.realize(indices)
    order = order_of(values, 1, largest)[:, :60]
    assert (indices.numpy() == order).all()
    assert np.array_equal(actual.numpy(), np.take_along_axis(values, order, 1), equal_nan=True)


def test_gradients_follow_the_elements() -> None:
    x = Tensor([3.0, 1.0, 2.0], requires_grad=True)
    (first,) = (x.sort()[0] ** 2 * Tensor([1.0, 10.0, 100.0])).sum().gradient(x)
    assert first.tolist() == [600.0, 2.0, 40.0]
    (second,) = first.sum().gradient(x)
    assert second.tolist() == [200.0, 2.0, 20.0]
    (first,) = x.topk(2)[0].sum().gradient(x)
    assert first.tolist() == [1.0, 0.0, 1.0]


def test_places_are_an_index_and_are_read_at_once() -> None:
    x = Tensor([[0, 5], [7, 0]])
    assert x[x.nonzero(as_tuple=True)].tolist() == [5, 7]
    assert Tensor([math.nan, -0.0]).nonzero().tolist() == [[0]]
    assert x.nonzero().dtype is dtypes.int32
    assert Tensor([1], device="PYTHON").nonzero().device == "PYTHON"
    assert Tensor([1, 0, 3], dtype="fp8e5m2").nonzero().tolist() == [[0], [2]]
    replayed = TinyJit(lambda x: x.nonzero())
    with pytest.raises(UserStateError, match="read"):
        list(map(replayed, [Tensor([1.0]).realize() for _ in range(3)]))


# The first few elements are selected up to a quarter of a short axis, and of a long one up to 22.
@pytest.mark.parametrize(("size", "count"), [(1, 1), (9, 2), (9, 3), (1500, 3)])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "int32", "int64", "float16", "float32"]
)
def test_the_first_elements_of_a_sort_are_selected_in_order(
    dtype: str, size: int, count: int
) -> None:
    generator = np.random.default_rng(size)
    if dtype.startswith("float"):
        special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 65504.0, 6e-8]
        data = generator.choice(np.array(special), (2, size)).astype(dtype)
    else:
        ends = [0, 1] if dtype == "bool" else [*_ends(dtype), 0, 1]
        data = generator.choice(np.array(ends, dtype), (2, size))
    x = Tensor(data)
    for largest in (True, False):
        values, indices = x.topk(count, largest=largest)
        expected = [_stable_order(row, largest)[:count] for row in data]
        assert indices.tolist() == expected
        np.testing.assert_array_equal(
            values.numpy(), np.take_along_axis(data, np.array(expected), 1)
        )


def _ends(dtype: str) -> list[int]:
    limits = np.iinfo(dtype)
    return [limits.min, limits.min + 1, limits.max - 1, limits.max]


def _stable_order(row: Array, largest: bool) -> list[int]:
    """Return the indices in order, where NaN is the largest number."""
    sign = -1 if largest else 1

    def key(number: int) -> tuple[int, float]:
        is_nan = bool(row[number] != row[number])
        return sign * is_nan, 0 if is_nan else sign * row[number].item()

    return sorted(range(len(row)), key=key)
