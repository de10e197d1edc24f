"""Exponential, logarithm, activations and normalisations against values computed wider."""

import math

import numpy as np
import pytest

from tinyref import Tensor

INF, NAN = math.inf, math.nan
WIDE = np.concatenate(
    [np.linspace(-100, 100, 401), np.linspace(-1, 1, 101), [1e-30, -1e-30, 1e-8, 0.0]]
)


def relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    found = found.astype(np.float64)
    return float(np.max(np.abs(found - exact) / np.maximum(np.abs(exact), 1e-38)))


def test_exp() -> None:
    x = np.linspace(-80, 80, 641)
    single = Tensor(x.astype(np.float32)).exp().numpy()
    # The rounding of x * log2(e), up to 116, moves the exponent by up to 2^-18.
    assert relative_error(single, np.exp(x.astype(np.float32).astype(np.float64))) < 1e-5
    assert relative_error(Tensor(x).exp().numpy(), np.exp(x)) < 1e-13
    assert Tensor([-INF, INF, 0.0, -200.0, 200.0]).exp().tolist() == [0.0, INF, 1.0, 0.0, INF]


def test_log() -> None:
    x = np.array([1e-30, 0.5, 1.0, 2.0, math.e, 1e30])
    assert relative_error(Tensor(x).log().numpy(), np.log(x)) < 1e-14
    found = Tensor([0.0, INF, 1.0, -1.0]).log().tolist()
    assert found[:3] == [-INF, INF, 0.0]
    assert math.isnan(found[3])


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 4e-7), ("float64", 1e-15)])
def test_tanh_is_accurate_everywhere(dtype: str, limit: float) -> None:
    x = WIDE.astype(dtype)
    exact = np.tanh(x.astype(np.float64))
    assert relative_error(Tensor(x).tanh().numpy(), exact) < limit
    assert Tensor([INF, -INF], dtype=dtype).tanh().tolist() == [1.0, -1.0]
    assert math.copysign(1, Tensor([-0.0], dtype=dtype).tanh().item()) == -1
    assert math.isnan(Tensor([NAN], dtype=dtype).tanh().item())
    assert Tensor([1e-40], dtype="float32").tanh().item() == np.float32(1e-40)


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 2e-5), ("float64", 1e-13)])
def test_sigmoid_is_accurate_everywhere(dtype: str, limit: float) -> None:
    x = np.linspace(-80, 80, 641).astype(dtype)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert relative_error(Tensor(x).sigmoid().numpy(), exact) < limit
    assert Tensor([INF, -INF, 0.0], dtype=dtype).sigmoid().tolist() == [1.0, 0.0, 0.5]
    assert math.isnan(Tensor([NAN], dtype=dtype).sigmoid().item())


@pytest.mark.parametrize("name", ["exp", "log", "sigmoid", "tanh", "silu"])
@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_half_floats_are_rounded_once(name: str, dtype: str, unit: float) -> None:
    given = Tensor(np.linspace(0.5, 5, 50)).cast(dtype)
    found = getattr(given, name)()
    assert found.dtype.name == dtype
    exact = getattr(given.cast("float64"), name)().numpy()
    assert np.max(np.abs(found.cast("float64").numpy() - exact) / np.abs(exact)) <= unit * 1.01


def test_integers_give_floats() -> None:
    assert Tensor([0, 1]).exp().dtype.name == "float32"
    assert Tensor([0]).sigmoid().tolist() == [0.5]
    assert Tensor([1, 1]).softmax().tolist() == [0.5, 0.5]


def test_softmax() -> None:
    x = np.random.default_rng(0).normal(size=(4, 7)) * 10
    powers = np.exp(x - x.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True)
    assert np.allclose(Tensor(x).softmax().numpy(), expected, rtol=1e-13)
    assert np.allclose(Tensor(x.T.copy()).softmax(0).numpy(), expected.T, rtol=1e-13)
    assert np.allclose(Tensor(x).log_softmax(1).numpy(), np.log(expected), rtol=1e-12)
    assert Tensor([1000.0, 1000.0]).softmax().tolist() == [0.5, 0.5]
    assert Tensor([0.0, -INF]).softmax().tolist() == [1.0, 0.0]
    assert Tensor([0.0, -2000.0]).log_softmax().tolist() == [0.0, -2000.0]
    assert Tensor(3.0).softmax().item() == 1.0
    assert Tensor([1, 2], dtype="float16").softmax().dtype.name == "float16"
    assert Tensor([1, 2], dtype="float16").softmax(dtype="float32").dtype.name == "float32"
    assert Tensor([1, 2]).log_softmax(dtype="float64").dtype.name == "float64"


def test_logsumexp() -> None:
    assert Tensor([1000.0, 1000.0]).logsumexp().item() == pytest.approx(1000 + math.log(2))
    assert Tensor([-INF, -INF]).logsumexp().item() == -INF
    assert Tensor([INF, 0.0]).logsumexp().item() == INF
    assert Tensor([[0.0, 0.0], [1.0, 1.0]]).logsumexp(1, keepdim=True).shape == (2, 1)
    assert Tensor([[0.0, 0.0], [1.0, 1.0]]).logsumexp((0, 1)).shape == ()
    # The power of 100 alone would overflow, and infinity divided by itself is NaN.
    x = Tensor([INF, 100.0, -INF])
    assert x.logsumexp().gradient(x)[0].tolist()[1:] == [0.0, 0.0]


@pytest.mark.parametrize("beta", [2.0, -2.0])
def test_softplus_where_its_product_overflows(beta: float) -> None:
    largest = 3.0e38
    x = Tensor([largest, -largest], requires_grad=True)
    result = x.softplus(beta)
    expected = [largest, 0.0] if beta > 0 else [0.0, -largest]
    assert result.tolist() == pytest.approx(expected)
    slopes = [1.0, 0.0] if beta > 0 else [0.0, 1.0]
    assert result.sum().gradient(x)[0].tolist() == slopes
