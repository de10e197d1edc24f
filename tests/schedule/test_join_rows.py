"""Test that a row reduction and the work along rows are one kernel on devices with loops."""

import numpy as np
import pytest

from tinyref.schedule.join import MAX_ROW
from tinyref.tensor import Tensor, Variable


def rows(*shape, seed=1, dtype=np.float32):
    drawn = np.random.default_rng(seed).integers(-4, 5, shape)
    return drawn.astype(dtype)


def count(*outputs):
    return len(outputs[0].schedule(*outputs[1:]).kernels)


def centred(x):
    """Subtract the largest element of each row, then the sum of the row."""
    above = x - x.max(-1, keepdim=True)
    return above - above.sum(-1, keepdim=True)


def expected_of_centred(x):
    above = x - x.max(-1, keepdims=True)
    return above - above.sum(-1, keepdims=True, dtype=x.dtype)


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 7), (5, 1), (3, 5), (4, 16), (2, 3, 33), (64, 100), (7,)]
)
def test_rows_of_any_shape(shape):
    data = rows(*shape)
    for name in ("CPU", "PYTHON"):
        actual = centred(Tensor(data, device=name)).numpy()
        np.testing.assert_array_equal(actual, expected_of_centred(data))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float64])
def test_rows_of_any_type(dtype):
    data = rows(6, 12, dtype=dtype)
    with np.errstate(over="ignore"):
        expected = expected_of_centred(data)
    above = Tensor(data, device="CPU")
    above = above - above.max(-1, keepdim=True)
    result = above - above.sum(-1, keepdim=True, dtype=above.dtype)
    assert count(result) == 1
    np.testing.assert_array_equal(result.numpy(), expected)


def test_softmax_is_one_kernel_of_loops_and_two_of_a_grid():
    data = np.log2(np.array([[1, 2, 4, 1], [3, 3, 1, 1]], np.float32)) * np.float32(np.log(2))
    for name, kernels in (("CPU", 1), ("PYTHON", 2)):
        result = Tensor(data, device=name).softmax(-1)
        assert count(result) == kernels
        want = np.array([[0.125, 0.25, 0.5, 0.125], [0.375, 0.375, 0.125, 0.125]])
        np.testing.assert_allclose(result.numpy(), want, rtol=1e-6)


def test_a_column_is_no_row():
    x = Tensor(rows(8, 16), device="CPU")
    assert count(x - x.max(0, keepdim=True)) == 2


def test_a_row_too_long_for_a_cache_is_read_by_two_kernels():
    for length, kernels in ((MAX_ROW, 1), (MAX_ROW + 1, 2)):
        x = Tensor(rows(1, length, dtype=np.int8), device="CPU")
        assert count(x - x.max(-1, keepdim=True)) == kernels


def test_what_others_read_is_stored():
    data = rows(3, 8)
    x = Tensor(data, device="CPU")
    largest = x.max(-1, keepdim=True)
    rest = x - largest
    assert count(rest, largest) == 2
    Tensor.realize(rest, largest)
    np.testing.assert_array_equal(largest.numpy(), data.max(-1, keepdims=True))
    np.testing.assert_array_equal(rest.numpy(), data - data.max(-1, keepdims=True))


def test_a_row_that_is_overwritten_is_reduced_first():
    # In one kernel, the loops would reduce elements that they have overwritten.
    data = rows(3, 8)
    x = Tensor(data, device="CPU").contiguous().realize()
    x.assign(centred(x))
    x.realize()
    np.testing.assert_array_equal(x.numpy(), expected_of_centred(data))


def test_products_are_not_computed_in_each_loop_over_a_row():
    x, y = (Tensor(rows(8, 8, seed=seed), device="CPU") for seed in (1, 2))
    assert count((x @ y).softmax(-1)) == 2


def test_two_reduces_of_different_rows():
    first, second = rows(4, 8, seed=1), rows(4, 8, seed=2)
    x, y = Tensor(first, device="CPU"), Tensor(second, device="CPU")
    result = x - y.max(-1, keepdim=True) * x.sum(-1, keepdim=True)
    want = first - second.max(-1, keepdims=True) * first.sum(-1, keepdims=True)
    assert count(result) == 1
    np.testing.assert_array_equal(result.numpy(), want)


def test_rows_of_a_symbolic_number():
    data = rows(6, 8)
    n = Variable("n", 1, 6).bind(4)
    x = Tensor(data, device="CPU").realize()[:n]
    result = centred(x).realize()
    np.testing.assert_array_equal(result.numpy(), expected_of_centred(data[:4]))


def test_a_reduce_of_a_reduce_that_another_row_kernel_holds_keeps_its_axis():
    """Guard against a value that replaced a load but lacked its axis: one of two terms was lost."""
    data = Tensor([1.0, 1.0]).realize()
    spread = data.sum().reshape(1).expand(2).pad(((1, 0),))
    assert ((spread + 1)[1:].sum() * data).tolist() == [6.0, 6.0]


def test_a_reduce_of_a_constant_that_is_stored_too_keeps_its_axis():
    """Guard against a constant in the place of a load: it has no axes with sizes."""
    number = Tensor(np.ones((), np.float32)).realize()
    number.assign(3.0)
    power = number.expand((2, 1)).prod(0)
    Tensor.realize(power, number)
    assert (power.tolist(), number.tolist()) == ([9.0], 3.0)
