"""Running sums, products, maxima: long axes, special values, types, kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tinyref import Tensor
from tinyref.engine import GlobalCounters
from tinyref.errors import UserError

GENERATOR = np.random.default_rng(4)
INF, NAN = math.inf, math.nan


@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", [0, 1, 2, 63, 64, 65, 1024, 1025])
def test_sums_of_integers_are_exact(length: int) -> None:
    values = GENERATOR.integers(-9, 10, length).astype(np.int32)
    assert (Tensor(values).cumsum().numpy() == np.cumsum(values)).all()


def test_a_long_sum_takes_few_kernels_and_little_work() -> None:
    values = GENERATOR.integers(-9, 10, 10_000).astype(np.int32)
    tensor = Tensor(values).realize()
    GlobalCounters.reset()
    total = tensor.cumsum().realize()
    assert GlobalCounters.kernel_count <= 4
    assert GlobalCounters.global_ops < 10_000 * 100
    assert (total.numpy() == np.cumsum(values)).all()


@pytest.mark.slow
def test_three_levels_of_blocks() -> None:
    values = GENERATOR.integers(-9, 10, 40_000).astype(np.int32)
    assert (Tensor(values).cumsum().numpy() == np.cumsum(values)).all()


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("axis", [1, 0, 2, -1])
def test_every_axis_and_blocks(axis: int) -> None:
    values = GENERATOR.standard_normal((3, 150, 2))
    tensor = Tensor(values)
    assert np.allclose(tensor.cumsum(axis).numpy(), np.cumsum(values, axis), rtol=1e-12)
    largest = np.maximum.accumulate(values, axis)
    assert (tensor.cummax(axis).numpy() == largest).all()
    logs = np.logaddexp.accumulate(values, axis)
    assert np.allclose(tensor.logcumsumexp(axis).numpy(), logs, rtol=1e-12)
    factors = 1 + values / 100
    assert np.allclose(Tensor(factors).cumprod(axis).numpy(), np.cumprod(factors, axis))


@pytest.mark.long
def test_gradients_go_through_blocks() -> None:
    values = GENERATOR.standard_normal(140)
    weights = GENERATOR.standard_normal(140)
    x = Tensor(values, requires_grad=True)
    (slope,) = x.cumsum().gradient(x, gradient=Tensor(weights))
    assert np.allclose(slope.numpy(), np.cumsum(weights[::-1])[::-1])
    (slope,) = x.logcumsumexp().gradient(x, gradient=Tensor(weights))
    # d(log sum_j e^xj)/dxi is e^(xi - result) for all results at i and behind.
    shares = np.exp(values[None, :] - np.logaddexp.accumulate(values)[:, None])
    assert np.allclose(slope.numpy(), (np.tril(shares) * weights[:, None]).sum(0))
    (slope,) = x.cummax().gradient(x, gradient=Tensor(weights))
    winners = [int(np.argmax(values[: end + 1])) for end in range(140)]
    assert np.allclose(slope.numpy(), np.bincount(winners, weights, 140))


def test_second_gradients() -> None:
    x = Tensor([2.0, 3.0, 4.0], dtype="float64", requires_grad=True)
    (first,) = x.cumprod(0).sum().gradient(x)
    # x0 + x0 x1 + x0 x1 x2
    assert first.tolist() == [1 + 3 + 12, 2 + 8, 6]
    (second,) = first[0].gradient(x)
    assert second.tolist() == [0.0, 5.0, 3.0]


def test_special_values() -> None:
    x = Tensor([-INF, -INF, 1.0, INF, 2.0, NAN, 3.0])
    expected = {
        "cumsum": [-INF, -INF, -INF, NAN, NAN, NAN, NAN],
        "cumprod": [-INF, INF, INF, INF, INF, NAN, NAN],
        "cummax": [-INF, -INF, 1.0, INF, INF, NAN, NAN],
        "logcumsumexp": [-INF, -INF, 1.0, INF, INF, NAN, NAN],
    }
    for name, values in expected.items():
        assert np.array_equal(getattr(x, name)(0).numpy(), values, equal_nan=True), name
    # e ** 1000 is infinite, its logarithm is not.
    assert Tensor([1000.0, 1000.0]).logcumsumexp().tolist() == pytest.approx(
        [1000.0, 1000.0 + math.log(2)]
    )


def test_types() -> None:
    assert Tensor([True, True]).cumsum().dtype.name == "int32"
    assert Tensor([200, 100], dtype="uint8").cumsum().tolist() == [200, 300]
    assert Tensor([100, 100], dtype="int8").cumprod(0).tolist() == [100, 10000]
    assert Tensor([True, False]).cummax().tolist() == [True, True]
    assert Tensor([1, 2], dtype="int16").cummax().dtype.name == "int16"
    assert Tensor([1, 2]).logcumsumexp().dtype.name == "float32"
    assert Tensor([1.0], dtype="bfloat16").cumsum().dtype.name == "bfloat16"


def test_without_axes_and_empty() -> None:
    for name in ("cumsum", "cumprod", "cummax", "logcumsumexp"):
        assert getattr(Tensor(3.0), name)(0).item() == pytest.approx(3.0)
        assert getattr(Tensor.zeros(2, 0), name)(-1).shape == (2, 0)
        assert getattr(Tensor.zeros(0, 2), name)(1).shape == (0, 2)


def test_errors() -> None:
    with pytest.raises(UserError, match="axis 1 is outside -1 to 0"):
        Tensor([1.0]).cumsum(1)
    with pytest.raises(UserError, match="storage"):
        Tensor([1.0]).cast("fp8e5m2").cummax()


@pytest.mark.parametrize("length", [1, 7, 64, 65, 300])
def test_last_of_equal_maxima_gets_the_gradient(length: int) -> None:
    generator = np.random.default_rng(length)
    # Ties in every row, within and between the blocks of a long one.
    numbers, weights = generator.integers(0, 4, (2, 2, length)).astype(np.float32)
    ours, theirs = Tensor(numbers, requires_grad=True), torch.tensor(numbers, requires_grad=True)
    torch.cummax(theirs, 1)[0].backward(torch.tensor(weights))
    assert theirs.grad is not None
    slopes = ours.cummax(1).gradient(ours, gradient=Tensor(weights))[0].numpy()
    np.testing.assert_array_equal(slopes, theirs.grad.numpy())
