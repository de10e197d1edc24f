"""Sums, products, extremes and scans: accumulators, empty axes, long axes, kernels."""

import math

import numpy as np
import pytest
import torch

from tinyref import GlobalCounters, Tensor, Variable, dtypes

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "elements"),
    [("sum", 0.0), ("prod", 1.0), ("max", -INF), ("min", INF), ("any", False), ("all", True)],
)
def test_a_reduction_of_nothing_gives_the_identity(name: str, elements: float) -> None:
    assert getattr(Tensor.zeros(0), name)().item() == elements
    assert getattr(Tensor.zeros(2, 0), name)(1).tolist() == [elements] * 2
    assert getattr(Tensor.zeros(2, 0), name)(0).shape == (0,)


def test_reductions_of_nothing_that_have_no_identity() -> None:
    assert math.isnan(Tensor.zeros(0).mean().item())
    assert math.isnan(Tensor([1.0]).var().item())
    assert Tensor([], dtype="int8").max().item() == -128
    assert Tensor([], dtype="uint8").min().item() == 255


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize(
    ("dtype", "end"), [("float32", 126), ("float64", 1022), ("bfloat16", 126), ("float16", 14)]
)
def test_spread_near_the_ends_of_a_type(dtype: str, end: int, correction: int) -> None:
    numbers = torch.tensor([[-1.0, 1, 0.5, 0.25], [1, 1.5, 1.25, 1], [1, -1, 1, -1], [1, 1, 1, 1]])
    exact = numbers.double()
    for exponent in (end, end // 2 + 3, 7, 0, -end // 2 - 3, 8 - end):
        tensor = Tensor((exact * 2.0**exponent).numpy()).cast(dtype).requires_grad_()
        deviation = tensor.std(1, correction=correction)
        expected = (exact.std(1, correction=correction) * 2.0**exponent).numpy()
        precision = 2.0 ** -min(tensor.dtype.mantissa_bits, 50)
        np.testing.assert_allclose(deviation.cast("float64").numpy(), expected, rtol=2 * precision)
        # The variance is rounded to the type, where it may be infinite or zero.
        with np.errstate(over="ignore", under="ignore"):
            variance = exact.var(1, correction=correction).numpy() * 2.0**exponent * 2.0**exponent
            rounded = Tensor(variance).cast(dtype).cast("float64").numpy()
        limit = float(np.ldexp(1.0, -end - tensor.dtype.mantissa_bits))
        result = tensor.var(1, correction=correction).cast("float64").numpy()
        np.testing.assert_allclose(result, rounded, rtol=2 * precision, atol=2 * limit)
        # The slopes of a deviation do not depend on the unit; for equal elements it is 0 here.
        theirs = exact.clone().requires_grad_()
        theirs.std(1, correction=correction)[:3].sum().backward()
        assert theirs.grad is not None
        slopes = deviation.sum().gradient(tensor)[0].cast("float64").numpy()
        np.testing.assert_allclose(slopes, theirs.grad.numpy(), rtol=4 * precision, atol=precision)


@pytest.mark.parametrize("scale", [2.0**100, 2.0**70, 1.0, 2.0**-100])
@pytest.mark.parametrize("correction", [0, 1])
def test_slopes_of_a_variance_that_is_no_float(scale: float, correction: int) -> None:
    tensor = (Tensor([[1.0, 2.0, 6.0], [3.0, 3.0, 3.0]]) * scale).realize().requires_grad_()
    slopes = tensor.var(1, correction=correction).sum().gradient(tensor)[0]
    # 2 (x - mean) / (3 - correction), with the means 3.
    expected = np.array([[-2.0, -1.0, 3.0], [0.0, 0.0, 0.0]]) * 2 / (3 - correction)
    np.testing.assert_allclose(slopes.numpy() / scale, expected, rtol=1e-6)
    second = (slopes * Tensor([1.0, 0.0, 0.0])).sum().gradient(tensor)[0]
    expected = np.array([2.0, -1.0, -1.0]) / 3 * 2 / (3 - correction)
    np.testing.assert_allclose(second.numpy(), [expected, expected], rtol=1e-6)


def test_variance_of_a_sum_that_overflows() -> None:
    assert Tensor([3e38, 3e38]).std().item() == 0.0
    assert Tensor([2.0**127 * 1.5, 2.0**127 * 0.5]).std(correction=0).item() == 2.0**126
    # One element is far away: its square overflows, the mean of the squares does not.
    far = Tensor([2.0**66] + [0.0] * 255)
    assert abs(far.var(correction=0).item() / (2.0**124 * 255 / 256) - 1) < 1e-5
    for shape in ((0,), (0, 3)):
        assert np.isnan(Tensor.zeros(*shape).std(0).numpy()).all()
    assert np.isnan(Tensor(2.0).var().item())
    assert Tensor(2.0).std(correction=0).item() == 0.0
    assert np.isnan(Tensor([1.0, np.inf]).std().item())
    assert Tensor([1, 2, 4]).var().dtype is dtypes.float32
    rows = Variable("rows", 1, 8).bind(3)
    symbolic = Tensor(np.array([[1e30], [3e30], [5e30], [7e30]], np.float32))[:rows]
    np.testing.assert_allclose(symbolic.std(0).numpy(), [2e30], rtol=1e-6)


# Running sums, products and extremes

GENERATOR = np.random.default_rng(4)


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
    # Three levels of blocks: 625, 39 and 1.
    assert GlobalCounters.kernel_count <= 6
    assert GlobalCounters.global_ops < 10_000 * 80
    assert (total.numpy() == np.cumsum(values)).all()


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


@pytest.mark.parametrize("length", [1, 7, 65, 300])
def test_last_of_equal_maxima_gets_the_gradient(length: int) -> None:
    generator = np.random.default_rng(length)
    # Ties in every row, within and between the blocks of a long one.
    numbers, weights = generator.integers(0, 4, (2, 2, length)).astype(np.float32)
    ours, theirs = Tensor(numbers, requires_grad=True), torch.tensor(numbers, requires_grad=True)
    torch.cummax(theirs, 1)[0].backward(torch.tensor(weights))
    assert theirs.grad is not None
    slopes = ours.cummax(1).gradient(ours, gradient=Tensor(weights))[0].numpy()
    np.testing.assert_array_equal(slopes, theirs.grad.numpy())


# Matrix products and sums of products


def products(x: Tensor) -> dict[str, Tensor]:
    """Return the sum of squares of a row of two, by each function that multiplies and adds."""
    flat = x.reshape(2)
    return {
        "@": x @ x.T,
        "dot": flat.dot(flat),
        "linear": x.linear(x.T),
        "einsum": Tensor.einsum("i,i->", flat, flat),
        "conv2d": x.reshape(1, 2, 1, 1).conv2d(x.reshape(1, 2, 1, 1)),
        "conv_transpose2d": x.reshape(1, 2, 1, 1).conv_transpose2d(x.reshape(2, 1, 1, 1)),
    }


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_products_of_integers_are_of_their_type(device: str) -> None:
    """20,000 is 32 modulo 256, and 5,000,000,000 is 705,032,704 modulo 2**32."""
    for name, actual in products(Tensor([[100, 100]], dtype="int8", device=device)).items():
        assert (name, actual.dtype, actual.item()) == (name, dtypes.int8, 32)
    for name, actual in products(Tensor([[100, 100]], dtype="uint8", device=device)).items():
        assert (name, actual.dtype, actual.item()) == (name, dtypes.uint8, 32)
    for name, actual in products(Tensor([[50_000, 50_000]], device=device)).items():
        assert (name, actual.dtype, actual.item()) == (name, dtypes.int32, 705_032_704)
    for name, actual in products(Tensor([[True, True]], device=device)).items():
        assert (name, actual.dtype, actual.item()) == (name, dtypes.bool, True)
    mixed = Tensor([[100]], dtype="int8") @ Tensor([[200]], dtype="uint8")
    assert (mixed.dtype, mixed.item()) == (dtypes.int16, 20_000)


def test_einsum_multiplies_the_smallest_products_first() -> None:
    """(1, 50) (50, 50) (50, 1): 2,600 products by pairs of neighbours, 125,000 all at once."""
    ones = [Tensor(np.ones(shape, np.float32)) for shape in ((1, 50), (50, 50), (50, 1))]
    kernels, operations = GlobalCounters.kernel_count, GlobalCounters.global_ops
    assert Tensor.einsum("ij,jk,kl->il", *ones).item() == 2500
    assert GlobalCounters.kernel_count - kernels == 2
    assert GlobalCounters.global_ops - operations < 10_000
