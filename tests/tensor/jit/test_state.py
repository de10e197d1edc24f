"""TinyJit: tensors outside that the function assigns to go on from replay to replay."""

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, Variable
from tinyref.errors import UserError


def test_an_assignment_from_before_the_capture_runs_once():
    count = Tensor([0]).realize()
    jitted = TinyJit(lambda x: x + count)
    jitted(Tensor([0]))
    count.assign(count + 10)
    assert [jitted(Tensor([i])).item() for i in range(4)] == [10, 11, 12, 13]
    count.assign(count + 10)
    assert [jitted(Tensor([i])).item() for i in range(2)] == [20, 21]


@pytest.mark.long
def test_a_training_step_equals_the_plain_one():
    def train(steps, jit):
        generator = np.random.default_rng(3)
        weights = [
            Tensor(generator.normal(0, 0.5, shape).astype(np.float32)).requires_grad_()
            for shape in ((4, 8), (8, 1))
        ]

        def step(x, y):
            for weight in weights:
                weight.grad = None
            loss = (((x @ weights[0]).relu() @ weights[1] - y) ** 2).mean()
            loss.backward()
            with Tensor.no_grad():
                for weight in weights:
                    weight.assign(weight.detach() - weight.grad * 0.1)
            return loss.realize(*weights)

        run = TinyJit(step) if jit else step
        losses = []
        for _ in range(steps):
            x = generator.normal(size=(16, 4)).astype(np.float32)
            losses.append(run(Tensor(x), Tensor(x[:, :1] * 2)).item())
        return losses, [weight.numpy() for weight in weights]

    plain, jitted = train(6, False), train(6, True)
    assert plain[0] == jitted[0]
    for one, other in zip(plain[1], jitted[1], strict=True):
        np.testing.assert_array_equal(one, other)
    assert plain[0][-1] < plain[0][0]


def test_one_tensor_may_come_twice_and_be_the_state_as_well():
    weight = Tensor([1.0, 2.0]).realize()
    jitted = TinyJit(lambda x, y: x * 10 + y + weight)
    jitted(weight, weight)
    assert jitted(weight, weight).tolist() == [12.0, 24.0]
    other = Tensor([5.0, 6.0])
    assert jitted(other, other).tolist() == [56.0, 68.0]
    assert jitted(weight, other).tolist() == [16.0, 28.0]


def test_an_input_that_is_returned_is_the_one_of_this_call():
    jitted = TinyJit(lambda x: (x, x + 1, x.reshape(2, 1)))
    for i in range(4):
        same, more, column = jitted(Tensor([i, i]))
        assert same.tolist() == [i, i]
        assert more.tolist() == [i + 1, i + 1]
        assert column.tolist() == [[i], [i]]


def test_state_that_is_returned_comes_as_a_copy():
    weight = Tensor([1.0]).realize()

    @TinyJit
    def step(x):
        weight.assign(weight + x)
        return weight

    results = [step(Tensor([1.0])) for _ in range(5)]
    assert [result.item() for result in results] == [2, 3, 4, 5, 6]
    assert weight.item() == 6


def test_what_was_computed_from_old_state_keeps_it():
    weight = Tensor([1.0]).realize()

    @TinyJit
    def step(x):
        weight.assign(weight + x)
        return x * 2

    for _ in range(3):
        step(Tensor([1.0]))
    lazy, clone, view = weight * 10, weight.clone(), weight.detach()
    step(Tensor([1.0]))
    assert (lazy.item(), clone.item(), view.item(), weight.item()) == (40.0, 4.0, 5.0, 5.0)
    step(Tensor([1.0]))
    assert (lazy.item(), clone.item(), view.item(), weight.item()) == (40.0, 4.0, 6.0, 6.0)


@pytest.mark.parametrize("copied", [lambda w: w * 1, lambda w: w.contiguous(), lambda w: w + 0])
def test_a_copy_of_state_that_was_just_assigned_to_keeps_its_elements(copied):
    """Guard copies that were computed with the assignment, and then mistaken for the state."""
    weight = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def step(x):
        weight.assign(weight + x)
        return x * 2

    for _ in range(3):
        step(Tensor([1.0]))
    weight.assign(weight * 10)
    copy = copied(weight)
    step(Tensor([1.0]))
    assert (copy.tolist(), weight.tolist()) == ([40.0, 50.0], [41.0, 51.0])


def test_state_may_be_assigned_to_in_place_between_replays():
    weight = Tensor([1.0]).realize()
    jitted = TinyJit(lambda x: x * weight)
    for _ in range(3):
        jitted(Tensor([2.0]))
    weight.assign(Tensor([7.0]))
    assert jitted(Tensor([2.0])).item() == 14.0
    weight.replace(Tensor([9.0]))
    with pytest.raises(UserError, match=r"float32 tensor of shape \(1,\) .* other memory"):
        jitted(Tensor([2.0]))
    jitted.reset()
    assert jitted(Tensor([2.0])).item() == 18.0


def test_views_of_state_that_were_computed_apart_go_on_with_it():
    whole = Tensor.zeros(2, 2).contiguous().realize()
    row, flat = whole[1], whole.reshape(4)

    @TinyJit
    def step(x):
        whole.assign(whole + x)
        return whole.sum()

    for _ in range(3):
        step(Tensor([1.0]))
    assert (row.tolist(), flat.tolist()) == ([3.0, 3.0], [3.0] * 4)
    whole.assign(whole * 2)
    assert row.realize().tolist() == [6.0, 6.0]
    step(Tensor([1.0]))
    assert (row.tolist(), flat.tolist(), whole[0].tolist()) == ([7.0, 7.0], [7.0] * 4, [7.0, 7.0])
    row.assign(row + 100)
    row.realize()
    assert step(Tensor([1.0])).item() == 8 + 8 + 108 + 108
    assert (row.tolist(), flat.tolist()) == ([108.0, 108.0], [8.0, 8.0, 108.0, 108.0])


def test_state_that_the_function_assigns_to_is_no_argument():
    weight = Tensor([1.0, 2.0]).realize()

    def step(x):
        weight.assign(weight + 1)
        return weight + x

    jitted = TinyJit(step)
    jitted(weight)
    with pytest.raises(
        UserError, match=r"argument x shares memory with .* and one of them is assigned to"
    ):
        jitted(weight)
    jitted.reset()
    for _ in range(2):
        jitted(Tensor([0.0, 0.0]))
    with pytest.raises(
        UserError, match=r"argument x shares memory with .* and one of them is assigned to"
    ):
        jitted(weight)
    assert weight.tolist() == [5.0, 6.0]
    assert jitted(weight + 0).tolist() == [11.0, 13.0]


def test_state_that_a_plain_call_left_in_the_memory_of_its_argument_advances():
    state, operands = Tensor([1]) - Tensor([1]), Tensor([1])

    @TinyJit
    def step(x):
        state.assign(x)
        return x * 0

    # The first call leaves both in one memory: only elements that nobody writes are shared.
    for value in (operands, Tensor([2]), Tensor([3]), Tensor([4])):
        step(value)
    assert (state.tolist(), operands.tolist()) == ([4], [1])


def test_state_that_the_function_copies_advances():
    state = Tensor([1.0]).realize()

    @TinyJit
    def step(x):
        before = state.clone().realize()
        state.assign(state + x)
        return before * 1

    assert [step(Tensor([1.0])).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert state.item() == 5.0


def test_state_in_the_memory_of_a_tensor_that_is_read_as_well_is_refused():
    state = Tensor([1])
    other = state.clone()

    @TinyJit
    def step(x):
        differs = other != state
        state.assign(x)
        return differs

    step(other)
    with pytest.raises(UserError, match="in the same memory, as after clone"):
        step(other)
    state.assign(Tensor(state.numpy()))
    for value in ([7], [8]):
        step(Tensor(value))
    assert (state.tolist(), other.tolist()) == ([8], [1])


@pytest.mark.parametrize("alias", [lambda x: x & x, Tensor.clone])
def test_a_tensor_that_shared_its_memory_and_left_it_is_refused(alias):
    """Refuse it: another view of the memory has the old elements, which a replay would read."""
    x = Tensor([1]).realize()
    doubled = TinyJit(lambda: x * 2)
    doubled()
    other = alias(x)
    assert doubled().tolist() == [2]
    x[:] = 5
    with pytest.raises(UserError, match=r"int32 tensor of shape \(1,\) .* other memory"):
        doubled()
    assert (other.tolist(), x.tolist()) == ([1], [5])
    doubled.reset()
    assert [doubled().tolist() for _ in range(3)] == [[10]] * 3


def in_memory():
    return Tensor([1.0, 2.0]).realize()


def assigned_to(x):
    x.assign(in_memory().detach() * 1)
    return x


@pytest.mark.parametrize(
    "make",
    [
        in_memory,
        lambda: in_memory().detach(),
        lambda: assigned_to(in_memory()),
        lambda: Tensor([1.0, 2.0], requires_grad=True),
    ],
    ids=["in memory", "detached", "assigned to", "a leaf"],
)
@pytest.mark.parametrize("factor", [1, 2])
def test_a_tensor_that_is_assigned_what_is_computed_from_it_detached(make, factor):
    """Guard a product with 1, which is no computation: its tensor was not a whole buffer."""
    weight = make()

    @TinyJit
    def step():
        weight.assign(weight.detach() * factor)
        return weight.detach() + 1

    expected = [[factor**i + 1.0, 2.0 * factor**i + 1] for i in range(1, 6)]
    assert [step().tolist() for _ in range(5)] == expected
    assert weight.tolist() == [factor**5, 2 * factor**5]
    weight.assign(weight.detach() + 1)
    assert step().tolist() == [factor * (factor**5 + 1) + 1, factor * (2 * factor**5 + 1) + 1]


def test_a_part_of_memory_that_is_read_and_then_assigned_to_is_refused():
    """Read its elements where the capture did; the assignment needs memory for each."""
    weight = Tensor([1.0]).realize().expand(2)
    step = TinyJit(lambda: weight.assign(weight.detach() * 1) is None)
    step()
    with pytest.raises(
        UserError, match=r"float32 tensor of shape \(2,\): replays would read the old one"
    ):
        step()
    weight.replace(weight.contiguous().realize())
    for _ in range(3):
        step()
    assert weight.tolist() == [1.0, 1.0]


def test_what_a_function_keeps_of_state_does_not_hide_that_the_state_is_replaced():
    """Guard replays that read the memory of the copy, and so always returned the same sum."""
    weight, stored = Tensor([1.0, 2.0]).realize(), []

    @TinyJit
    def step(x):
        stored.append(weight * 1)
        weight.replace(weight * 2)
        return stored[-1] + x

    assert step(Tensor([0.0])).tolist() == [1.0, 2.0]
    with pytest.raises(UserError, match="replays would read the old one"):
        step(Tensor([0.0]))


def test_a_part_that_may_be_outside_for_other_numbers_follows_what_replays_write():
    base = Tensor(np.arange(1, 5, dtype=np.int32)).realize()
    part, other = base[: Variable("n", 0, 9).bind(2)], base[1:]

    @TinyJit
    def add(x):
        base.assign(base + x)
        return other + 0

    for count in range(1, 6):
        assert add(Tensor([10])).tolist() == [2 + 10 * count, 3 + 10 * count, 4 + 10 * count]
        assert part.tolist() == [1 + 10 * count, 2 + 10 * count]


@pytest.mark.parametrize("is_computed", [True, False])
def test_what_turns_out_to_have_the_elements_of_state_keeps_them(is_computed):
    """Select between a tensor and its detached self: only the computation shows they are equal."""
    state = Tensor([1.0, 2.0]) * 2
    if is_computed:
        state.realize()

    @TinyJit
    def add(x):
        state.assign(state + x)
        return state * 1

    one = Tensor([1.0]).realize()
    for call in range(4):
        stored = state.maximum(state.detach())
        chosen = (state < 3).where(state.detach(), state)
        assert add(one).tolist() == [3.0 + call, 5.0 + call]
        assert stored.tolist() == chosen.tolist() == [2.0 + call, 4.0 + call]


def test_what_is_padded_with_state_that_a_replay_overwrites_keeps_its_elements():
    base = Tensor(np.array([2], np.int32)).realize()
    stored = []

    @TinyJit
    def step():
        base.assign(base + 1)
        return base * 1

    for expected in range(3, 8):
        stored.append(base.pad(((1, 0),)))
        assert step().tolist() == [expected]
    assert [item.tolist() for item in stored] == [[0, number] for number in range(2, 7)]


@pytest.mark.parametrize("is_called", [True, False])
def test_state_in_another_order_of_the_same_memory_is_refused(is_called):
    """Guard a replay that read the elements in the order of the capture."""
    state = Tensor([1, 2])
    same = state * 1

    @TinyJit
    def add():
        return same + state

    assert [add().tolist() for _ in range(2 + is_called)][-1] == [2, 4]
    # `same` has that memory too, so `state` shows it reversed.
    state.assign(state.flip(0))
    assert (same + state).tolist() == [3, 3]
    with pytest.raises(UserError, match="has other memory by now"):
        add()


def test_what_turns_out_to_have_the_elements_of_an_argument_keeps_them():
    @TinyJit
    def add_one(x):
        x.assign(x + 1)
        return x * 1

    x = Tensor([1.0, 2.0]).realize()
    for call in range(4):
        stored = x.maximum(x.detach())
        add_one(x)
        assert stored.tolist() == [1.0 + call, 2.0 + call]
