"""Test which tensors become scatters, and compare their elements with numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.config import Context
from tinyref.device import Device
from tinyref.optimise.choices import heuristic_plan
from tinyref.optimise.opt import OptOp
from tinyref.optimise.plan import Plan
from tinyref.schedule import prepare
from tinyref.tensor import Tensor


def opts_of(result: Tensor) -> list[tuple[OptOp, ...]]:
    """Return the optimisations of each kernel of a tensor on CPU."""
    capabilities = Device["CPU"].capabilities
    plans = [heuristic_plan(Plan.of(item.ast, capabilities)) for item in result.schedule().kernels]
    return [tuple(opt.op for opt in plan.opts) for plan in plans]


def numbers_below(limit: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(5).integers(-limit, limit, shape).astype(np.int32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64"])
def test_added_elements_are_a_scatter(dtype: str) -> None:
    index, own = numbers_below(300, 40, 8), numbers_below(50, 300, 8).astype(dtype)
    added = numbers_below(9, 40, 8).astype(dtype)
    expected = own.copy()
    np.add.at(expected, (index % 300, np.arange(8)), added)
    with Context(DEVICE="CPU"):
        x, terms = Tensor(own), Tensor(added)
        result = x.scatter_reduce(0, Tensor(index), terms, "sum")
        assert [OptOp.SCATTER in opts for opts in opts_of(result)] == [True, False]
        np.testing.assert_array_equal(result.numpy(), expected)


def test_the_last_of_several_elements_counts() -> None:
    index, own, new = numbers_below(300, 40), numbers_below(50, 300, 8), numbers_below(9, 40, 8)
    expected = own.copy()
    for position, row in zip(index, new, strict=True):
        expected[position] = row
    with Context(DEVICE="CPU"):
        x = Tensor(own).contiguous()
        x[Tensor(index)] = Tensor(new)
        assert any(OptOp.SCATTER in opts for opts in opts_of(x))
        np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("shape", [(5, 8), (40,), (1,), (0,)])
def test_the_gradient_of_rows_adds_rows(shape: tuple[int, ...]) -> None:
    index = numbers_below(1000, *shape)
    weights = np.random.default_rng(6).standard_normal((*shape, 24)).astype(np.float32)
    expected = np.zeros((1000, 24), np.float32)
    np.add.at(expected, index.reshape(-1) % 1000, weights.reshape(-1, 24))
    with Context(DEVICE="CPU", THREADS=4):
        x = Tensor.ones(1000, 24).contiguous()
        (slope,) = (x[Tensor(index)] * Tensor(weights)).sum().gradient(x)
        np.testing.assert_array_equal(slope.numpy(), expected)


@pytest.mark.parametrize("seed", range(40))
def test_small_scatters_along_any_axis(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "MANY_PAIRS", 1)
    draw = np.random.default_rng(seed)
    shape = tuple(draw.integers(1, 9, draw.integers(1, 4)).tolist())
    axis = int(draw.integers(len(shape)))
    counts = [int(draw.integers(0, size + 1)) for size in shape]
    counts[axis] = int(draw.integers(0, 20))
    dtype = draw.choice(["float32", "int8", "int64", "float16", "uint32"])
    own, added = draw.integers(0, 5, shape).astype(dtype), draw.integers(0, 5, counts).astype(dtype)
    index = draw.integers(-shape[axis] - 1, shape[axis] + 1, counts)
    expected = own.copy()
    for position in np.ndindex(*counts):
        if -shape[axis] <= index[position] < shape[axis]:
            expected[(*position[:axis], index[position], *position[axis + 1 :])] += added[position]
    with Context(DEVICE="CPU"):
        result = Tensor(own).scatter_reduce(axis, Tensor(index), Tensor(added), "sum")
        np.testing.assert_array_equal(result.numpy(), expected)
        x = Tensor(own.astype(np.float32))
        inside = np.clip(index, -shape[axis], shape[axis] - 1)
        (slope,) = x.gather(axis, Tensor(inside)).sum().gradient(x)
    reads = np.zeros(shape, np.float32)
    for position in np.ndindex(*counts):
        reads[(*position[:axis], inside[position], *position[axis + 1 :])] += 1
    np.testing.assert_array_equal(slope.numpy(), reads)
