"""Sums, products, extremes, means: literals, accumulators, empty axes."""

import math

import numpy as np
import pytest
import torch

from tinyref import Tensor, Variable, dtypes

INF, NAN = math.inf, math.nan
GRID = [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("result", "elements"),
    [
        (lambda: Tensor(GRID).sum(), 21),
        (lambda: Tensor(GRID).sum(0), [5, 7, 9]),
        (lambda: Tensor(GRID).sum(-1), [6, 15]),
        (lambda: Tensor(GRID).sum((0, 1)), 21),
        (lambda: Tensor(GRID).sum([0]), [5, 7, 9]),
        (lambda: Tensor(GRID).sum(1, keepdim=True), [[6], [15]]),
        (lambda: Tensor(GRID).sum(keepdim=True), [[21]]),
        (lambda: Tensor(GRID).sum(()), GRID),
        (lambda: Tensor(5).sum(), 5),
        (lambda: Tensor(5).sum(0), 5),
        (lambda: Tensor(GRID).prod(), 720),
        (lambda: Tensor(GRID).prod(0), [4, 10, 18]),
        (lambda: Tensor(GRID).max(), 6),
        (lambda: Tensor(GRID).max(1), [3, 6]),
        (lambda: Tensor(GRID).min(0), [1, 2, 3]),
        (lambda: Tensor([-128, 5], dtype="int8").min(), -128),
        (lambda: Tensor([0, 255], dtype="uint8").min(), 0),
        (lambda: Tensor([-2.5, -1.5]).max(), -1.5),
        (lambda: Tensor([-INF, -INF]).max(), -INF),
        (lambda: Tensor([True, False]).max(), True),
        (lambda: Tensor([True, False]).min(), False),
        (lambda: Tensor([0, 2]).any(), True),
        (lambda: Tensor([0, 2]).all(), False),
        (lambda: Tensor([[1, 0], [1, 1]]).all(1), [False, True]),
        (lambda: Tensor(GRID).mean(), 3.5),
        (lambda: Tensor(GRID).mean(0), [2.5, 3.5, 4.5]),
        (lambda: Tensor([True, False]).mean(), 0.5),
        (lambda: Tensor([1.0, 2.0, 3.0, 4.0]).var(), 5 / 3),
        (lambda: Tensor([1.0, 2.0, 3.0, 4.0]).var(correction=0), 1.25),
        (lambda: Tensor([1, 3]).std(correction=0), 1.0),
        (lambda: Tensor([[0.5, 0.0], [0.0, 0.0]]).sum(1, dtype="bool"), [True, False]),
        (lambda: Tensor([[0.5, 2.0], [0.5, 0.0]]).prod(1, dtype="bool"), [True, False]),
        (lambda: Tensor([128, 128], dtype="uint8").sum(dtype="bool"), True),
        (lambda: Tensor([]).sum(dtype="bool"), False),
        (lambda: Tensor([]).prod(dtype="bool"), True),
    ],
)
def test_reductions(result: object, elements: object) -> None:
    assert np.allclose(result().tolist(), elements, rtol=1e-6)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "elements"),
    [("sum", 0.0), ("prod", 1.0), ("max", -INF), ("min", INF), ("any", False), ("all", True)],
)
def test_a_reduction_of_nothing_gives_the_identity(name: str, elements: float) -> None:
    assert getattr(Tensor.zeros(0), name)().item() == elements
    assert getattr(Tensor.zeros(2, 0), name)(1).tolist() == [elements] * 2
    assert getattr(Tensor.zeros(2, 0), name)(0).shape == (0,)


def test_the_mean_of_nothing_is_nan() -> None:
    assert math.isnan(Tensor.zeros(0).mean().item())
    assert math.isnan(Tensor([1.0]).var().item())


def test_integer_extremes_of_nothing() -> None:
    assert Tensor([], dtype="int8").max().item() == -128
    assert Tensor([], dtype="uint8").min().item() == 255


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("bool", "int32"),
        ("int8", "int32"),
        ("uint8", "uint32"),
        ("int16", "int32"),
        ("int64", "int64"),
        ("uint64", "uint64"),
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float64", "float64"),
    ],
)
def test_sums_widen(given: str, result: str) -> None:
    assert Tensor([1, 1], dtype=given).sum().dtype.name == result
    assert Tensor([1, 1], dtype=given).prod().dtype.name == result
    assert Tensor([1, 1], dtype=given).max().dtype.name == given


def test_sums_do_not_overflow_on_the_way() -> None:
    assert Tensor.full((300,), 200, dtype="uint8").sum().item() == 60000
    # In float16 this stops at 2048, in bfloat16 at 256.
    ones = Tensor(np.ones(4096, np.float16))
    assert ones.sum().item() == 4096.0
    assert ones.cast("bfloat16").sum().item() == 4096.0
    assert Tensor(np.full(4, 60000, np.float16)).mean().item() == 60000.0
    assert ones.sum(dtype="float32").dtype is dtypes.float32


def test_a_named_dtype_is_the_accumulator() -> None:
    assert Tensor([200, 100], dtype="uint8").sum(dtype="uint8").item() == 44
    assert Tensor([1, 2]).sum(dtype="float64").dtype is dtypes.float64
    assert Tensor([True, True]).sum(dtype="int64").item() == 2


def test_nan_spreads_through_sums() -> None:
    assert math.isnan(Tensor([NAN, 1.0]).sum().item())
    assert math.isnan(Tensor([INF, -INF]).sum().item())
    assert math.isnan(Tensor([NAN, 1.0]).mean().item())


@pytest.mark.long
def test_several_axes_agree_with_numpy() -> None:
    array = np.arange(120, dtype=np.float64).reshape(2, 3, 4, 5)
    for axes in [(0,), (1, 3), (0, 2), (-1, 0), (0, 1, 2, 3)]:
        assert (Tensor(array).sum(axes).numpy() == array.sum(axes)).all()
        assert (
            Tensor(array).max(axes, keepdim=True).numpy() == array.max(axes, keepdims=True)
        ).all()
        assert np.allclose(Tensor(array).var(axes).numpy(), array.var(axes, ddof=1))


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
        # The slopes of a deviation do not depend on the unit. That of equal elements is 0 here.
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
