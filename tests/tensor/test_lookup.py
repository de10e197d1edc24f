"""Gather and scatter: what the tables of the spec do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from kernel_runs import count_kernels
from refusals import check_refusal

from tinyref import Tensor
from tinyref.dtype import dtypes
from tinyref.engine import GlobalCounters
from tinyref.errors import UserError
from tinyref.tensor.indexing import Reduce


def test_gather_of_a_tensor_without_axes() -> None:
    assert Tensor(5).gather(0, Tensor(0)).item() == 5
    assert Tensor(5).scatter(0, Tensor(0), Tensor(7)).item() == 7
    assert Tensor(5).scatter_reduce(0, Tensor(0), Tensor(7), "sum").item() == 12


def test_gather_of_nothing() -> None:
    assert Tensor.zeros(3, 0).gather(0, Tensor.zeros(2, 0, dtype="int32")).shape == (2, 0)
    assert Tensor([1, 2]).gather(0, Tensor([], dtype="int32")).shape == (0,)
    assert Tensor([], dtype="int32").gather(0, Tensor([0, 1])).tolist() == [0, 0]


def test_scatter_of_nothing() -> None:
    none = Tensor([], dtype="int32")
    assert Tensor([1, 2]).scatter(0, none, none).tolist() == [1, 2]
    assert Tensor([1, 2]).scatter(0, none, none, "add").tolist() == [1, 2]
    kept = Tensor([1, 2]).scatter_reduce(0, none, none, "amax", include_self=False)
    assert kept.tolist() == [1, 2]


def test_negative_places_count_from_the_end_and_places_outside_are_passed_over() -> None:
    tensor, places = Tensor([1, 2, 3]), Tensor([-1, 3, 0, -4])
    assert tensor.gather(0, places).tolist() == [3, 0, 1, 0]
    assert tensor.scatter(0, places, Tensor([7, 8, 9, 10])).tolist() == [9, 2, 7]
    assert tensor.scatter(0, places, 10, reduce="add").tolist() == [11, 2, 13]


def test_elements_that_are_not_chosen_do_not_leak() -> None:
    tensor = Tensor([float("nan"), 1.0, float("inf")])
    assert tensor.gather(0, Tensor([1, 1])).tolist() == [1.0, 1.0]
    sums = Tensor([0.0, 0.0]).scatter(0, Tensor([0, 1, 5]), Tensor([2.0, 3.0, float("nan")]), "add")
    assert sums.tolist() == [2.0, 3.0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("name", ["int8", "uint8", "int64", "uint32"])
def test_reductions_of_integers(name: str, reduce: str) -> None:
    start, source = np.array([3, 1, 2]), np.array([5, 2, 4, 4])
    tensor, places = Tensor(start, dtype=name), Tensor([0, 0, 2, 2])
    found = tensor.scatter_reduce(0, places, Tensor(source, dtype=name), cast(Reduce, reduce))
    expected = {
        "sum": [10, 1, 10],
        "prod": [30, 1, 32],
        "mean": [3, 1, 3],
        "amax": [5, 1, 4],
        "amin": [2, 1, 2],
    }
    assert found.tolist() == expected[reduce]
    assert found.dtype.name == name


def test_reductions_of_bools() -> None:
    tensor, places = Tensor([True, False, False]), Tensor([0, 1, 1])
    source = Tensor([False, False, True])
    assert tensor.scatter_reduce(0, places, source, "amax").tolist() == [True, True, False]
    assert tensor.scatter_reduce(0, places, source, "prod").tolist() == [False, False, False]
    with pytest.raises(UserError, match="mean"):
        tensor.scatter_reduce(0, places, source, "mean")


def test_equal_extremes_share_the_gradient_with_the_element_itself() -> None:
    x = Tensor([2.0, 0.0], requires_grad=True)
    v = Tensor([2.0, 2.0, 1.0], requires_grad=True)
    x.scatter_reduce(0, Tensor([0, 0, 0]), v, "amax").sum().backward()
    assert x.grad is not None
    assert v.grad is not None
    assert np.allclose(x.grad.numpy(), [1 / 3, 1.0])
    assert np.allclose(v.grad.numpy(), [1 / 3, 1 / 3, 0.0])


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
    found = table[rows]
    assert count_kernels(found.realize)[1] == 1
    assert found.tolist() == [list(range(40, 48)), list(range(32760, 32768)), list(range(40, 48))]
    assert count_kernels(table.gather(0, rows.reshape(3, 1)).realize)[1] == 1
    # A pass over the whole table would take 32768 additions for each row.
    assert GlobalCounters.global_ops < 4096


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, i: x.gather(1, i), ["axis 1", "-1 to 0"]),
        (lambda x, i: x.gather(0, x), ["gather: index", "float32", "integers"]),
        (lambda x, i: x.gather(0, [0]), ["list", "Tensor"]),
        (lambda x, i: x.gather(0, i.reshape(2, 1)), ["2 axes", "1"]),
        (lambda x, i: x.scatter(0, i, x.cast("int32")), ["int32", "float32", "cast"]),
        (lambda x, i: x.scatter(0, i, x[:1]), ["(1,)", "(2,)"]),
        (lambda x, i: x.scatter(0, i, x, "sum"), ["'sum'", "'add'", "'multiply'"]),
        (lambda x, i: i.scatter(0, i, 1.5), ["1.5", "int32"]),
        (lambda x, i: x.scatter(0, i, None), ["NoneType", "Tensor", "number"]),
        (lambda x, i: x.scatter_reduce(0, i, x, "max"), ["'max'", "amax"]),
        (lambda x, i: x.scatter_reduce(0, i, 1.0, "sum"), ["float", "Tensor"]),
    ],
)
def test_errors_name_the_argument(call: Callable[..., object], words: list[str]) -> None:
    check_refusal(words, call, Tensor([1.0, 2.0, 3.0]), Tensor([0, 1]))


def test_types_for_storage_have_no_sums() -> None:
    eights = Tensor([1.0, 2.0]).cast(dtypes.fp8e4m3)
    assert eights.gather(0, Tensor([1])).cast("float32").tolist() == [2.0]
    with pytest.raises(UserError, match="storage"):
        eights.scatter(0, Tensor([1]), eights, reduce="add")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "fp8e4m3"])
def test_a_zero_that_is_chosen_keeps_its_sign(dtype: str) -> None:
    data = Tensor([-0.0, 1.0], dtype=dtype).realize()
    chosen = [
        data.gather(0, Tensor([0, 1])),
        data[Tensor([0, 1])],
        *([data.sort()[0]] if dtype != "fp8e4m3" else []),
    ]
    assert [repr(each.cast("float32").tolist()) for each in chosen] == ["[-0.0, 1.0]"] * len(chosen)
    # What is not there is +0.
    assert repr(data.gather(0, Tensor([7])).cast("float32").tolist()) == "[0.0]"


@pytest.mark.parametrize("dtype", ["float32", "float16", "fp8e5m2"])
def test_the_gradient_of_what_is_chosen_is_the_sum_over_its_places(dtype: str) -> None:
    data = Tensor([[1.0, 2.0], [3.0, -4.0]], dtype=dtype, requires_grad=True)
    chosen = data.gather(0, Tensor([[0, 0], [0, 1], [0, 9]])).cast("float32")
    (found,) = (chosen * Tensor([[1.0], [2.0], [4.0]])).sum().gradient(data)
    assert found.dtype.name == dtype
    assert found.cast("float32").tolist() == [[7.0, 1.0], [0.0, 2.0]]


def test_the_gradient_of_one_place_repeats_nothing() -> None:
    data = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    for index, wanted in ((1, [0.0, 4.0, 0.0]), (7, [0.0, 0.0, 0.0])):
        (found,) = data.gather(0, Tensor([index])).square().sum().gradient(data)
        assert found.tolist() == wanted
