"""Reads at known indices: interpolation, lookups by lists. Gradients by the literal definition."""

import numpy as np
import pytest

from tinyref import GlobalCounters, Tensor

MODES = [("nearest", False), ("nearest-exact", False), ("linear", False), ("linear", True)]


def resized(x: Tensor, size: tuple[int, ...], mode: str, corners: bool) -> Tensor:
    return x.interpolate(size, mode, corners)


@pytest.mark.parametrize(("mode", "corners"), [*MODES, ("cubic", False), ("cubic", True)])
def test_the_gradient_is_the_transposed_matrix(mode: str, corners: bool) -> None:
    rng = np.random.default_rng(len(mode) + corners)
    for old, new in [((5,), (5,)), ((1, 4), (3, 1)), *rng.integers(1, 14, (6, 2, 3)).tolist()]:
        x = Tensor(rng.standard_normal((2, *old)), dtype="float64", requires_grad=True)
        weights = rng.standard_normal((2, *new))
        (gradient,) = resized(x, tuple(new), mode, corners).gradient(x, gradient=Tensor(weights))
        expected = weights
        for axis, (size, count) in enumerate(zip(old, new, strict=True), 1):
            # Row i is the share of element i in each new element.
            matrix = resized(Tensor.eye(size, dtype="float64"), (count,), mode, corners).numpy()
            expected = np.moveaxis(np.tensordot(matrix, expected, (1, axis)), 0, axis)
        np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_gradient_of_a_lookup_adds_what_is_read_twice(dtype: str) -> None:
    rows = [[2, 0, -1], [2, 2, 3]]
    x = Tensor(np.zeros((4, 2)), dtype=dtype, requires_grad=True)
    values = np.arange(12.0).reshape(2, 3, 2)
    values[0, 2] = np.nan, np.inf
    expected = np.zeros((4, 2))
    np.add.at(expected, np.array(rows), values)
    (gradient,) = x[rows].gradient(x, gradient=Tensor(values, dtype=dtype))
    np.testing.assert_array_equal(gradient.numpy(), expected)
    # The second derivative reads again.
    seed = Tensor(values, dtype=dtype, requires_grad=True)
    (first,) = x[rows].gradient(x, gradient=seed)
    numbers = np.arange(8).reshape(4, 2)
    (second,) = first.gradient(seed, gradient=Tensor(numbers, dtype=dtype))
    np.testing.assert_array_equal(second.numpy(), numbers[np.array(rows)])


def test_zeros_keep_their_sign_and_copies_are_apart() -> None:
    x = Tensor([-0.0, 1.0, 2.0, -0.0])
    for size, expected in [(6, "[-0.0, -0.0, 1.0, 2.0, 2.0, -0.0]"), (2, "[-0.0, 2.0]")]:
        assert str(x.interpolate((size,), "nearest").tolist()) == expected
    part = x[[0, 2]]
    part += 1
    assert (x.tolist(), part.tolist()) == ([0.0, 1.0, 2.0, 0.0], [1.0, 3.0])
    # One element read by all: a table of readers would be as large as a matrix.
    row = Tensor(np.ones(300, np.float32), requires_grad=True)
    (gradient,) = row[[7] * 300].gradient(row, gradient=Tensor.arange(300.0))
    assert (gradient.sum().item(), gradient[7].item()) == (44850.0, 44850.0)


def test_the_work_of_a_gradient_grows_with_the_elements() -> None:
    def operations(extent: int) -> int:
        x = Tensor(np.ones((extent, extent), np.float32), requires_grad=True)
        size = (extent * 3 // 2,) * 2
        weights = Tensor(np.ones(size, np.float32))
        (gradient,) = x.interpolate(size, "nearest").gradient(x, gradient=weights)
        before = GlobalCounters.global_ops
        gradient.realize()
        return GlobalCounters.global_ops - before

    assert operations(64) < 5 * operations(32)
