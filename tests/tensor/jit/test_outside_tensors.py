"""TinyJit: what a capture leaves alone, and tensors outside that are not in memory yet."""

import numpy as np
import pytest
from jit_calls import floats
from kernel_runs import count_kernels

from tinyref import Tensor, TinyJit
from tinyref.errors import UserError


def test_a_capture_computes_nothing_that_it_does_not_need():
    unrelated = Tensor(floats(3, 3)).realize() @ Tensor(floats(3, 3)).realize()
    constant = Tensor.full((3,), 2.0)
    view = Tensor(floats(3, 3)).realize()[1:]
    jitted = TinyJit(lambda x: x + 1)
    arguments = [Tensor([float(i)]).realize() for i in range(4)]
    assert [count_kernels(jitted, argument)[1] for argument in arguments] == [1, 1, 1, 1]
    assert "not computed yet" in repr(unrelated)
    assert "constant" in repr(constant)
    np.testing.assert_allclose(unrelated.numpy(), floats(3, 3) @ floats(3, 3), rtol=1e-5)
    np.testing.assert_array_equal(view.numpy(), floats(3, 3)[1:])


def test_a_capture_computes_its_pending_arguments_and_what_it_reads():
    scale = Tensor([2.0]).realize() + 1
    unread = Tensor([2.0]).realize() + 2
    jitted = TinyJit(lambda x: x * scale)
    for i in range(4):
        assert jitted(Tensor([float(i)]).realize() + 1).item() == 3.0 * (i + 1)
    assert "in memory" in repr(scale)
    assert "not computed yet" in repr(unread)


def test_a_pending_tensor_that_reads_what_the_function_overwrites_keeps_its_elements():
    weight = Tensor([1.0]).realize()

    @TinyJit
    def step(x):
        weight.assign(weight + x)
        return x * 2

    step(Tensor([1.0]))
    lazy = weight * 10
    step(Tensor([1.0]))
    step(Tensor([1.0]))
    assert (lazy.item(), weight.item()) == (20.0, 4.0)
    assert step.captured.kernels == 1


@pytest.mark.parametrize("make", [lambda: Tensor(3.0), lambda: Tensor([1.0, 1.0]).sum() + 1])
def test_state_that_is_no_memory_yet_goes_on(make):
    total = make()
    expected = 3.0

    @TinyJit
    def add(x):
        total.assign(total + x.sum())
        return x * 2

    for number in range(5):
        add(Tensor([number, 1.0]))
        expected += number + 1.0
    assert total.item() == expected


def test_a_constant_that_the_function_counts_up_goes_on():
    count = Tensor(0)

    @TinyJit
    def step(x):
        nonlocal count
        count += 1
        return x * 2

    for _ in range(5):
        step(Tensor([1.0]))
    assert count.item() == 5


@pytest.mark.parametrize("make", [lambda: Tensor.full((2,), 3.0), lambda: Tensor([1.0, 2.0]) + 1])
def test_what_is_assigned_outside_after_the_capture_is_seen(make):
    scale = make()
    scaled = TinyJit(lambda x: x * scale)
    for number in range(5):
        if number >= 2:
            scale.assign(Tensor([number, 1.0]) * 2)
        expected = np.array([1.0, number]) * scale.numpy()
        np.testing.assert_array_equal(scaled(Tensor([1.0, number])).numpy(), expected)


@pytest.mark.parametrize("make", [lambda n: Tensor.full((2,), n), lambda n: Tensor([n, 2.0]) + 1])
def test_a_tensor_outside_that_was_replaced_is_refused(make):
    stored = {"scale": make(0.0)}
    scaled = TinyJit(lambda x: x * stored["scale"])
    scaled(Tensor([1.0, 2.0]))
    scaled(Tensor([1.0, 2.0]))
    stored["scale"] = make(3.0)
    with pytest.raises(UserError, match="is gone"):
        scaled(Tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("make", "left"),
    [
        # Equal to its operand; after the first call it shows one element of an argument four times.
        (lambda whole: whole & whole, [1, 2, 3, 4]),
        (lambda whole: whole.clone(), [1, 2, 3, 4]),
        # A view: what it shows is written.
        (lambda whole: whole.reshape(2, 2).transpose().reshape(4), [40] * 4),
    ],
    ids=["same", "clone", "moved"],
)
def test_a_replay_writes_what_stands_for_no_whole_buffer(make, left):
    whole = Tensor([1, 2, 3, 4]).realize()
    target = make(whole)
    jitted = TinyJit(lambda x: target.assign(x[:1].expand(4)) + 0)
    for number in (10, 20, 30, 40):
        result = jitted(Tensor([number, 7]).realize())
        assert result.tolist() == [number] * 4
        assert target.tolist() == [number] * 4
    assert whole.tolist() == left


@pytest.mark.parametrize(
    "returned",
    [
        lambda x: (x, x.detach()),
        lambda x: (x.detach(), x.contiguous(), x.clone()),
        lambda x: (x, x.detach(), x, x.detach().detach()),
    ],
    ids=["detached", "copied", "four"],
)
def test_results_that_come_to_the_same_elements_have_each_its_memory(returned) -> None:
    outside = Tensor([0, 0]).contiguous().realize()
    jitted = TinyJit(lambda: returned(outside))
    for number in range(5):
        outside.assign([number, number + 1]).realize()
        results = jitted()
        assert [item.tolist() for item in results] == [[number, number + 1]] * len(results)
    results[0].assign([7, 7])
    assert results[1].tolist() == [4, 5]


def _gives(tensor, how, x):
    if how == "argument":
        tensor.replace(x)
    elif how == "data":
        tensor.replace(Tensor([3.0, 4.0]))
    elif how == "constant":
        tensor.replace(Tensor.full((2,), 5.0))
    else:
        tensor[:] = x


@pytest.mark.parametrize(
    ("how", "requires_grad"),
    [("argument", False), ("data", False), ("constant", False), ("elements", True)],
)
def test_a_tensor_outside_that_gets_other_memory_is_refused(how, requires_grad):
    """Refuse it: replays would leave it the argument of the second call, from the capture."""
    leaf = Tensor([1.0, 2.0], requires_grad=requires_grad)
    tensor = leaf.clone().realize()

    @TinyJit
    def function(x):
        _gives(tensor, how, x)
        return x + 1

    function(Tensor([7.0, 8.0]).realize())
    with pytest.raises(UserError, match="moves a float32 tensor of shape \\(2,\\) from outside"):
        function(Tensor([9.0, 9.0]).realize())


def test_a_tensor_outside_may_be_replaced_by_what_each_call_computes_or_by_itself():
    computed, itself = Tensor([0.0]).realize(), Tensor([6.0]).realize()

    @TinyJit
    def function(x):
        computed.replace(x * 2)
        itself.replace(itself)
        return x + itself

    for i in range(4):
        assert function(Tensor([float(i)]).realize()).item() == i + 6
        assert (computed.item(), itself.item()) == (2 * i, 6)


def test_what_is_pending_is_looked_at_again_for_another_argument_that_is_assigned_to():
    @TinyJit
    def step(x):
        x.assign(x + 1)
        return x * 2

    first, second = Tensor([1.0]).realize(), Tensor([5.0]).realize()
    for _ in range(2):
        step(first)
    lazy = second * 10
    step(first)
    step(first)
    step(second)
    assert (lazy.item(), first.item(), second.item()) == (50.0, 5.0, 6.0)


def test_a_tensor_that_another_capture_gives_other_memory_is_seen():
    """Keep the memory to which the other function assigns."""
    weight, other = Tensor([1.0]).realize(), Tensor([0.0]).realize()
    double = TinyJit(lambda: weight * 2)
    add = TinyJit(lambda x: other.assign(other + x) * 1)
    for _ in range(2):
        double()
    add(Tensor([1.0]))
    other.replace(weight.clone())
    assert add(Tensor([4.0])).tolist() == [5.0]
    with pytest.raises(UserError, match="has other memory by now"):
        double()
    assert weight.tolist() == [1.0]


def test_a_tensor_that_is_gone_is_refused_though_a_view_of_it_is_left():
    """Guard replays that silently read the old elements through the view."""
    stored = {"scale": Tensor([1.0, 2.0]).realize()}
    view = stored["scale"].reshape(2, 1)
    scaled = TinyJit(lambda x: x * stored["scale"])
    one = Tensor([1.0, 1.0]).realize()
    for _ in range(3):
        scaled(one)
    stored["scale"] = Tensor([5.0, 6.0]).realize()
    with pytest.raises(UserError, match="is gone"):
        scaled(one)
    assert view.tolist() == [[1.0], [2.0]]
