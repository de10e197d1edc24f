"""Chains of thousands of functions: no step looks at the whole chain, or goes into it by calls.

Two thousand are twice what Python allows of calls in calls; the thorough lane has chains of which
the C stack would be full, and where a step that looks at the whole would never end.
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
    found = chain(x, length)
    assert "not computed yet" in repr(found)
    found.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(found.numpy(), [1.5, -2.0])
    del found, x
    gc.collect()


@pytest.mark.long
@LENGTHS
def test_a_chain_that_nobody_computed_is_dropped(length):
    found = chain(Tensor([1.5], requires_grad=True), 4 * length)
    del found
    gc.collect()
