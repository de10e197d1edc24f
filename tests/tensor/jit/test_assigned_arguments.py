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


def replace_by_sum(x, y):
    x.replace(x + y)
    return x * 2


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("function", [assign_sum, add_in_place, assign_while_shown, replace_by_sum])
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
    kept = make(device)
    wanted = np.array([1.0, 2.0])
    for i in range(6):
        lazy = kept * 10
        found = jitted(kept, Tensor([i, 1.0], device=device).realize())
        assert lazy.tolist() == (wanted * 10).tolist()
        wanted = wanted + np.array([i, 1.0])
        assert found.tolist() == (wanted * 2).tolist()
        assert kept.tolist() == wanted.tolist()
    assert jitted.captured is not None
    other = make(device)
    jitted(other, Tensor([1.0, 1.0], device=device))
    assert other.tolist() == [2.0, 3.0]
    assert kept.tolist() == wanted.tolist()


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


def write_at(cache, x, place):
    cache[:, place : place + 1].assign(x.reshape(1, 1, 2))
    return cache.sum()


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("kind", ["state", "argument", "part"])
def test_a_cache_is_written_at_a_place_that_a_variable_says(kind, device, prune):
    whole = Tensor.zeros(2, 1, 6, 2, device=device).contiguous().realize()
    cache = whole[1] if kind == "part" else whole[1].clone().realize()
    if kind == "state":
        jitted = TinyJit(lambda x, place: write_at(cache, x, place), prune=prune)
    else:
        jitted = TinyJit(lambda x, place: write_at(*x, place), prune=prune)
    place = Variable("place", 0, 5)
    for i in range(6):
        x = Tensor([i + 1, 10.0], device=device).realize()
        total = jitted(x if kind == "state" else (cache, x), place.bind(i))
        assert total.item() == sum(range(i + 2)) + 10.0 * (i + 1)
    assert cache[0].tolist() == [[i + 1, 10.0] for i in range(6)]
    assert whole[1].tolist() == (cache.tolist() if kind == "part" else [[[0.0, 0.0]] * 6])
    assert whole[0].tolist() == [[[0.0, 0.0]] * 6]
    assert jitted.captured is not None


def test_a_sharded_argument_that_is_assigned_to_has_the_new_elements():
    devices = ("CPU:1", "CPU:2")
    jitted = TinyJit(assign_sum)
    kept = Tensor(floats(4, 2)).shard(devices, axis=0).realize()
    for i in range(1, 5):
        jitted(kept, Tensor.ones(4, 2).shard(devices, axis=0))
        np.testing.assert_allclose(kept.numpy(), floats(4, 2) + i, rtol=1e-6)


def test_an_argument_that_is_assigned_to_shares_no_memory_with_another():
    jitted = TinyJit(assign_sum)
    one, other = Tensor([1.0]).realize(), Tensor([2.0]).realize()
    jitted(one, other)
    with pytest.raises(UserError, match=r"argument x, which .* shares memory with argument y"):
        jitted(one, one)
    for _ in range(2):
        jitted(one, other)
    with pytest.raises(UserError, match=r"argument x, which .* shares memory with argument y"):
        jitted(one, one)
    assert (one.item(), other.item()) == (7.0, 2.0)


def test_an_argument_that_is_assigned_to_is_no_state():
    kept = Tensor([1.0]).realize()

    def step(x):
        x.assign(x + kept)
        return x

    jitted = TinyJit(step)
    other = Tensor([1.0]).realize()
    for _ in range(3):
        jitted(other)
    with pytest.raises(UserError, match="argument x is a tensor that the function"):
        jitted(kept)
    assert (other.item(), kept.item()) == (4.0, 1.0)


@pytest.mark.parametrize("computes", [True, False])
def test_a_function_that_raises_while_it_is_captured_has_assigned_to_its_argument(computes):
    """As in a plain call: the argument kept the elements from before."""
    fails = [False, True, False, False]

    @TinyJit
    def add_one(x):
        x.assign(x + 1)
        if computes:
            x.realize()
        if fails.pop(0):
            raise KeyError("the last batch")
        return x * 2

    x = Tensor([1.0, 2.0]).realize()
    assert add_one(x).tolist() == [4.0, 6.0]
    with pytest.raises(KeyError, match="the last batch"):
        add_one(x)
    assert x.tolist() == [3.0, 4.0]
    assert [add_one(x).tolist() for _ in range(2)] == [[8.0, 10.0], [10.0, 12.0]]
    assert x.tolist() == [5.0, 6.0]


@pytest.mark.parametrize("computes", [True, False])
def test_what_a_function_raises_while_it_is_captured_is_raised(computes):
    """What it made until then may be too large to compute, and a plain call does not."""
    fails = [False, True]

    @TinyJit
    def add_one(x):
        x.assign(x + 1)
        if computes:
            x.realize()
        large = (Tensor.ones(10**6, 10**6) * x.sum()).contiguous()
        if fails.pop(0):
            raise KeyError(str(large.shape))
        return x * 2

    x = Tensor([1.0, 2.0]).realize()
    assert add_one(x).tolist() == [4.0, 6.0]
    with pytest.raises(KeyError, match="1000000") as raised:
        add_one(x)
    (note,) = raised.value.__notes__
    assert note.startswith("TinyJit: not all that it had made was computed: ")
    assert x.tolist() == [3.0, 4.0]
