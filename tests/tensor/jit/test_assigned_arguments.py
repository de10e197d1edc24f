"""TinyJit: arguments that the function assigns to."""

import numpy as np
import pytest
from jit_calls import floats
from kernel_runs import count_kernels

from tinyref import Tensor, TinyJit, Variable
from tinyref.errors import UserError


def assign_sum(x, y):
    x.assign(x + y)
    return x * 2


def add_in_place(x, y):
    x += y
    return x * 2


def assign_while_shown(x, y):
    view = x.reshape(x.shape)
    x.assign(x + y)
    return view * 0 + x * 2


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("function", [assign_sum, add_in_place, assign_while_shown])
@pytest.mark.parametrize(
    "make",
    [
        lambda device: Tensor([1.0, 2.0], device=device).realize(),
        lambda device: Tensor([0.0, 1.0], device=device) + 1,
        lambda device: Tensor([9.0, 1.0, 2.0], device=device).realize()[1:],
        lambda device: Tensor([2.0, 1.0], device=device).realize().flip(0),
    ],
    ids=["memory", "pending", "part", "flipped"],
)
def test_an_argument_that_is_assigned_to_has_the_new_elements(function, make, device):
    jitted = TinyJit(function)
    stored = make(device)
    expected = np.array([1.0, 2.0])
    for i in range(6):
        lazy = stored * 10
        actual = jitted(stored, Tensor([i, 1.0], device=device).realize())
        assert lazy.tolist() == (expected * 10).tolist()
        expected = expected + np.array([i, 1.0])
        assert actual.tolist() == (expected * 2).tolist()
        assert stored.tolist() == expected.tolist()
    assert jitted.captured is not None
    other = make(device)
    jitted(other, Tensor([1.0, 1.0], device=device))
    assert other.tolist() == [2.0, 3.0]
    assert stored.tolist() == expected.tolist()


def test_a_constant_argument_that_is_assigned_to_has_the_new_elements():
    jitted = TinyJit(assign_sum)
    for _ in range(5):
        total = Tensor.zeros(2)
        jitted(total, Tensor([1.0, 2.0]))
        assert total.tolist() == [1.0, 2.0]


def test_an_argument_that_is_assigned_to_and_returned_is_itself():
    def step(cache, x):
        cache += x
        return cache

    jitted = TinyJit(step)
    cache = Tensor([0.0]).realize()
    for i in range(5):
        assert jitted(cache, Tensor([1.0]).realize()) is cache
        assert cache.item() == i + 1
    assert count_kernels(jitted, cache, Tensor([1.0]).realize())[1] == 1


def write_at(cache, x, position):
    cache[:, position : position + 1].assign(x.reshape(1, 1, 2))
    return cache.sum()


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("kind", ["state", "argument"])
def test_a_cache_is_written_at_a_place_that_a_variable_says(kind, device, prune):
    cache = Tensor.zeros(1, 6, 2, device=device).contiguous().realize()
    if kind == "state":
        jitted = TinyJit(lambda x, position: write_at(cache, x, position), prune=prune)
    else:
        jitted = TinyJit(lambda x, position: write_at(*x, position), prune=prune)
    position = Variable("position", 0, 5)
    for i in range(6):
        x = Tensor([i + 1, 10.0], device=device).realize()
        total = jitted(x if kind == "state" else (cache, x), position.bind(i))
        assert total.item() == sum(range(i + 2)) + 10.0 * (i + 1)
    assert cache[0].tolist() == [[i + 1, 10.0] for i in range(6)]
    assert jitted.captured is not None


@pytest.mark.parametrize("calls", [1, 2])
def test_an_argument_that_is_assigned_to_has_no_views(calls):
    """Guard views that a replay does not change."""
    jitted = TinyJit(assign_sum)
    one = Tensor([1.0]).realize()
    for _ in range(calls):
        jitted(Tensor([1.0]).realize(), one)
    whole = Tensor([1.0, 2.0]).realize()
    part = whole[1:]
    with pytest.raises(UserError, match=r"argument x, which .* shares its elements with views"):
        jitted(part, one)
    assert (whole.tolist(), part.tolist()) == ([1.0, 2.0], [2.0])


def test_a_sharded_argument_that_is_assigned_to_has_the_new_elements():
    devices = ("CPU:1", "CPU:2")
    jitted = TinyJit(assign_sum)
    stored = Tensor(floats(4, 2)).shard(devices, axis=0).realize()
    for i in range(1, 5):
        jitted(stored, Tensor.ones(4, 2).shard(devices, axis=0))
        np.testing.assert_allclose(stored.numpy(), floats(4, 2) + i, rtol=1e-6)


def test_an_argument_that_is_assigned_to_shares_no_memory_with_another():
    jitted = TinyJit(assign_sum)
    one, other = Tensor([1.0]).realize(), Tensor([2.0]).realize()
    jitted(one, other)
    with pytest.raises(UserError, match="argument x shares memory with another argument"):
        jitted(one, one)
    for _ in range(2):
        jitted(one, other)
    with pytest.raises(UserError, match="argument x shares memory with another argument"):
        jitted(one, one)
    assert (one.item(), other.item()) == (7.0, 2.0)


def test_an_argument_that_is_assigned_to_is_no_state():
    stored = Tensor([1.0]).realize()

    def step(x):
        x.assign(x + stored)
        return x

    jitted = TinyJit(step)
    other = Tensor([1.0]).realize()
    for _ in range(3):
        jitted(other)
    with pytest.raises(
        UserError, match=r"argument x shares memory with .* a tensor that the function uses"
    ):
        jitted(stored)
    assert (other.item(), stored.item()) == (4.0, 1.0)
