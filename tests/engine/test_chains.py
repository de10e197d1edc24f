"""Test chains of thousands of functions: no step visits the whole chain, or recurses.

Two thousand is twice the recursion limit of Python. The thorough lane has longer chains. They would
overflow the C stack, and a step that visits the whole chain would never end.
"""

import gc

import numpy as np
import pytest

from tinyref import Tensor

LENGTH = 10_000
LENGTHS = pytest.mark.parametrize("length", [2_000, pytest.param(LENGTH, marks=pytest.mark.slow)])


def chain(x: Tensor, length: int = LENGTH) -> Tensor:
    for _ in range(length // 2):
        x = -(x * 0.5)
        x = -(x * 2.0)
    return x


@pytest.mark.long
@LENGTHS
def test_a_long_chain_is_computed_shown_derived_and_dropped(length):
    x = Tensor([1.5, -2.0], requires_grad=True)
    end = chain(x, length)
    assert "not computed yet" in repr(end)
    end.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(end.numpy(), [1.5, -2.0])
    del end, x
    gc.collect()


@pytest.mark.long
@LENGTHS
def test_a_chain_that_nobody_computed_is_dropped(length):
    end = chain(Tensor([1.5], requires_grad=True), 4 * length)
    del end
    gc.collect()
