"""TinyJit: replays equal plain runs, state goes on, and what cannot be replayed is refused."""

import threading
from collections import namedtuple

import numpy as np
import pytest
from kernel_runs import count_kernels

from tinyref import Context, GlobalCounters, Tensor, TinyJit, Variable
from tinyref.errors import UserError


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def calls(function, arguments):
    """What a function returns for each of the arguments, as numpy arrays."""
    return [function(argument).numpy() for argument in arguments]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_replays_compute_from_the_tensors_that_they_are_given(device):
    count = 0

    @TinyJit
    def double_sum(x):
        nonlocal count
        count += 1
        return (x * 2).sum(1)

    inputs = [floats(3, 4, seed=i) for i in range(5)]
    for array in inputs:
        found = double_sum(Tensor(array, device=device)).numpy()
        np.testing.assert_allclose(found, (array * 2).sum(1), rtol=1e-6)
    assert count == 2


def test_a_capture_says_what_it_holds():
    jitted = TinyJit(lambda x: (x + 1).contiguous().sum())
    assert jitted.captured is None
    for i in range(2):
        jitted(Tensor(floats(4, seed=i)))
    assert jitted.captured.kernels == 2
    assert jitted.captured.inputs == ("x: a float32 tensor of shape (4,) on CPU",)
    jitted.reset()
    assert jitted.captured is None


def test_results_keep_their_values_when_the_function_is_called_again():
    jitted = TinyJit(lambda x: x + 1)
    results = [jitted(Tensor([float(i)])) for i in range(6)]
    assert [result.item() for result in results] == [1, 2, 3, 4, 5, 6]
    lazy = Tensor([0.0])
    for i in range(5):
        lazy = lazy + jitted(Tensor([float(i)]))
    assert lazy.item() == 15


def test_state_that_is_assigned_to_advances():
    weight = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def step(x):
        weight.assign(weight * 2)
        return (weight * x).sum()

    wanted = [2 * 2.0**i * 3 for i in range(5)]
    assert [step(Tensor([1.0, 1.0])).item() for _ in range(5)] == wanted
    assert weight.tolist() == [32.0, 64.0]


def test_an_assignment_that_nobody_computes_runs_in_every_call():
    count = Tensor([0]).realize()

    @TinyJit
    def step(x):
        count.assign(count + 1)
        return x + 1

    for _ in range(5):
        step(Tensor([1.0]))
    assert count.tolist() == [5]


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


def test_tensors_come_from_containers_and_results_go_back_in_them():
    Pair = namedtuple("Pair", "first second")

    @TinyJit
    def mix(pair, *, rest):
        total = pair.first + rest["x"][0]
        return {"sum": total, "items": [total * 2, None, 7], "pair": Pair(total - 1, "text")}

    for i in range(4):
        a, b = np.float32([i, 1]), np.float32([2, i])
        found = mix(Pair(Tensor(a), 3), rest={"x": (Tensor(b),)})
        assert list(found) == ["sum", "items", "pair"]
        np.testing.assert_array_equal(found["sum"].numpy(), a + b)
        np.testing.assert_array_equal(found["items"][0].numpy(), (a + b) * 2)
        assert found["items"][1:] == [None, 7]
        np.testing.assert_array_equal(found["pair"].first.numpy(), a + b - 1)
        assert found["pair"].second == "text"


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[1:3],
        lambda x: x.T,
        lambda x: x.flip(0),
        lambda x: x * 1.5,
        lambda x: x[0].expand(3, 5),
        lambda x: Tensor.ones(2, 5),
    ],
    ids=["part", "transposed", "flipped", "lazy", "expanded", "constant"],
)
def test_inputs_that_are_not_whole_buffers_are_copied(make):
    jitted = TinyJit(lambda x: x + 1)
    for i in range(4):
        x = make(Tensor(floats(4, 5, seed=i)).realize())
        wanted = make(Tensor(floats(4, 5, seed=i))).numpy() + 1
        np.testing.assert_array_equal(jitted(x).numpy(), wanted)


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


def test_each_instance_of_a_class_has_a_capture_of_its_own():
    class Scale:
        def __init__(self, factor):
            self.factor = Tensor([factor]).realize()

        @TinyJit
        def apply(self, x):
            return x * self.factor

    two, three = Scale(2.0), Scale(3.0)
    for i in range(4):
        assert two.apply(Tensor([float(i)])).item() == 2 * i
        assert three.apply(Tensor([float(i)])).item() == 3 * i
    assert two.apply.captured.kernels == 1
    two.apply.reset()
    assert two.apply.captured is None
    assert three.apply.captured is not None


def test_a_replay_runs_no_python_and_the_flag_turns_it_off():
    count = 0

    def add(x):
        nonlocal count
        count += 1
        return x + 1

    jitted = TinyJit(add)
    for i in range(5):
        jitted(Tensor([i]))
    assert count == 2
    with Context(JIT=0):
        assert jitted(Tensor([1.0, 2.0])).tolist() == [2.0, 3.0]
    assert count == 3


def test_a_capture_within_a_capture_is_part_of_it():
    inner = TinyJit(lambda x: x * 2)
    outer = TinyJit(lambda x: inner(x + 1) + 1)
    assert [outer(Tensor([i])).item() for i in range(5)] == [3, 5, 7, 9, 11]


def test_kernels_that_read_intermediate_results_share_an_arena():
    def chain(x):
        for _ in range(6):
            x = (x + 1).contiguous().realize()
        return x * 2

    jitted = TinyJit(chain)
    for i in range(4):
        array = floats(1000, seed=i)
        wanted = array
        for _ in range(6):
            wanted = wanted + np.float32(1)
        np.testing.assert_array_equal(jitted(Tensor(array)).numpy(), wanted * 2)
    assert jitted.captured.unplanned_bytes == 6 * 4000
    assert jitted.captured.arena_bytes == 2 * 4032
    with Context(MEMORY_PLAN=0):
        apart = TinyJit(chain)
        for i in range(3):
            found = apart(Tensor(floats(1000, seed=i))).numpy()
            np.testing.assert_array_equal(found, chain(Tensor(floats(1000, seed=i))).numpy())
        assert apart.captured.arena_bytes == 0


def test_copies_between_devices_are_replayed():
    jitted = TinyJit(lambda x: (x.to("CPU:1") * 2).to("CPU") + 1)
    for i in range(4):
        assert jitted(Tensor([float(i)])).item() == 2 * i + 1
    assert jitted.captured.copies == 2


def test_variables_may_change_from_call_to_call():
    length = Variable("length", 1, 8)
    jitted = TinyJit(lambda x, size: x.shrink(((0, size),)).sum())
    x = Tensor(np.arange(8, dtype=np.float32)).realize()
    for size in (3, 5, 8, 1, 4):
        assert jitted(x, length.bind(size)).item() == sum(range(size))
    with pytest.raises(UserError, match="variable length: accepted are 1 to 8"):
        jitted(x, length.bind(9))


def test_tensors_of_symbolic_shapes_are_inputs_and_results():
    length = Variable("length", 1, 8)
    jitted = TinyJit(lambda part: part * 2)
    whole = np.arange(8, dtype=np.float32)
    for size in (3, 5, 8, 1, 4):
        part = Tensor(whole).shrink(((0, length.bind(size)),))
        result = jitted(part)
        np.testing.assert_array_equal(result.numpy(), whole[:size] * 2)


def test_one_variable_has_one_value():
    length = Variable("length", 1, 8)
    jitted = TinyJit(lambda a, b: a.sum() + b.sum())
    a, b = (Tensor.ones(8).contiguous().shrink(((0, length.bind(n)),)) for n in (3, 4))
    with pytest.raises(UserError, match="variable length is 4 here and 3"):
        jitted(a, b)


GOOD = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((Tensor(np.ones((3, 3), np.float32)), 1), r"argument x is .*\(3, 3\).*captured.*\(2, 3\)"),
        ((Tensor(np.ones((2, 3), np.int32)), 1), r"argument x is a int32 tensor"),
        ((Tensor(GOOD, device="CPU:1"), 1), r"argument x is .* on CPU:1"),
        ((Tensor(GOOD), 2), r"argument scale is 2, captured was 1"),
        ((Tensor(GOOD), 1.0), r"argument scale is 1.0, captured was 1"),
        ((Tensor(GOOD), Tensor([1])), r"argument scale is a int32 tensor"),
        (([Tensor(GOOD)], 1), r"argument x is a list of 1 items"),
        ((Tensor(GOOD),), r"argument scale is missing"),
        ((Tensor(GOOD), 1, 3), r"argument more was not there"),
    ],
)
def test_calls_that_do_not_fit_are_refused(args, message):
    jitted = TinyJit(lambda x, scale=1, more=3: x * scale + 1)
    for _ in range(2):
        jitted(Tensor(GOOD), 1)
    with pytest.raises(UserError, match=message):
        jitted(*args)
    assert jitted(Tensor(GOOD), 1).tolist() == (GOOD + 1).tolist()


def read_inside(x):
    return x * (x.sum().item() + 1)


def replace_argument(x):
    x.replace((x * 2).sum(0), allow_shape_mismatch=True)
    return x + 1


def nothing(x):
    return 3


def return_object(x):
    return object()


def grad_of_argument(x):
    x.requires_grad_()
    (x * x).sum().backward()
    return x * 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (read_inside, "elements are read within the function"),
        (replace_argument, r"argument x becomes float32 tensor of shape \(3,\)"),
        (nothing, "ran no kernel"),
        (return_object, "the result is a object: accepted are Tensors"),
        (grad_of_argument, "argument x gets a grad"),
    ],
)
def test_functions_that_cannot_be_replayed_are_refused(function, message):
    jitted = TinyJit(function)

    def call_twice():
        for _ in range(2):
            jitted(Tensor(GOOD).realize())

    with pytest.raises(UserError, match=message):
        call_twice()
    assert jitted.captured is None


def test_state_that_is_replaced_is_refused():
    class Model:
        hidden = Tensor([1.0]).realize()

        def step(self, x):
            self.hidden = (self.hidden + x).realize()
            return self.hidden * 2

    jitted = TinyJit(Model().step)
    jitted(Tensor([1.0]))
    with pytest.raises(UserError, match=r"float32 tensor of shape \(1,\).*was replaced.*assign"):
        jitted(Tensor([1.0]))


def test_gradients_that_add_up_are_refused():
    weight = Tensor([2.0]).requires_grad_()

    @TinyJit
    def step(x):
        (weight * x).sum().backward()
        return weight.grad * 1

    step(Tensor([1.0]))
    with pytest.raises(UserError, match="was replaced"):
        step(Tensor([1.0]))


def test_gradients_that_are_set_anew_are_those_of_the_last_call():
    weight = Tensor([2.0]).requires_grad_()

    @TinyJit
    def step(x):
        weight.grad = None
        loss = (weight * x * x).sum()
        loss.backward()
        return loss

    for i in range(5):
        assert step(Tensor([float(i)])).item() == 2 * i * i
        assert weight.grad.item() == i * i


def test_arguments_with_a_history_of_gradients_are_refused():
    weight = Tensor([2.0]).requires_grad_()
    jitted = TinyJit(lambda x: x * 2)
    jitted(weight * 3)
    with pytest.raises(UserError, match=r"x\.detach\(\)"):
        jitted(weight * 3)


def test_results_have_no_gradients():
    weight = Tensor([2.0]).requires_grad_()
    jitted = TinyJit(lambda x: weight * x)
    for _ in range(4):
        assert not jitted(Tensor([1.0])).requires_grad


@pytest.mark.parametrize("value", [np.ones(3), {1, 2}, bytearray(b"x")])
def test_mutable_arguments_are_refused(value):
    jitted = TinyJit(lambda x, value: x)
    with pytest.raises(UserError, match=r"argument value is a .*pass a Tensor"):
        jitted(Tensor([1.0]), value)


def test_what_is_no_function_is_refused():
    with pytest.raises(UserError, match="got a int, accepted is a function"):
        TinyJit(3)


def test_an_exception_during_the_capture_leaves_it_to_the_next_call():
    fails = False

    @TinyJit
    def add(x):
        if fails:
            raise ZeroDivisionError
        return x + 1

    add(Tensor([1]))
    fails = True
    with pytest.raises(ZeroDivisionError):
        add(Tensor([1]))
    fails = False
    assert [add(Tensor([i])).item() for i in range(3)] == [1, 2, 3]


def test_threads_take_turns():
    total = Tensor([0]).realize()

    @TinyJit
    def step(x):
        total.assign(total + x)
        return total * 1

    def work():
        for _ in range(10):
            step(Tensor([1]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.item() == 40


def test_replays_count_as_their_kernels_do(capsys):
    jitted = TinyJit(lambda x: (x + 1).contiguous().sum())
    x = Tensor(floats(64)).realize()
    plain = []
    for _ in range(4):
        GlobalCounters.reset()
        jitted(x)
        plain.append((GlobalCounters.kernel_count, GlobalCounters.global_ops))
    assert len(set(plain)) == 1
    with Context(DEBUG=2):
        jitted(x)
    assert capsys.readouterr().err.count("kernel ") == 2


def test_empty_tensors_pass():
    jitted = TinyJit(lambda x, y: x.sum() + y)
    for i in range(4):
        assert jitted(Tensor(np.zeros((0, 3), np.float32)), Tensor([float(i)])).item() == i


def test_tensors_on_several_devices_are_inputs_results_and_state():
    devices = ("CPU:1", "CPU:2")
    weight = Tensor(floats(4, 6, seed=9)).shard(devices, axis=0).realize()

    @TinyJit
    def step(x):
        weight.assign(weight + x)
        return weight.sum(0), x + 1

    wanted = floats(4, 6, seed=9)
    for i in range(4):
        x = floats(4, 6, seed=i)
        wanted = wanted + x
        total, more = step(Tensor(x).shard(devices, axis=0))
        np.testing.assert_allclose(total.numpy(), wanted.sum(0), rtol=1e-5)
        np.testing.assert_array_equal(more.numpy(), x + 1)
        assert more.device == devices
    np.testing.assert_array_equal(weight.numpy(), wanted)
    with pytest.raises(UserError, match=r"captured was .*CPU:1.*CPU:2"):
        step(Tensor(floats(4, 6)))


def test_random_numbers_are_those_of_plain_calls():
    jitted = TinyJit(lambda x: x + Tensor.rand(3))
    x = Tensor([0.0, 0.0, 0.0])
    Tensor.manual_seed(1)
    found = [jitted(x).tolist() for _ in range(5)]
    Tensor.manual_seed(1)
    assert found == [(x + Tensor.rand(3)).tolist() for _ in range(5)]
    assert len({tuple(numbers) for numbers in found}) == 5


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize(
    "draw",
    [
        lambda device: Tensor.rand(1, device=device),
        lambda device: Tensor.randn(1, device=device),
        lambda device: Tensor.randint(1, high=1 << 30, device=device),
        lambda device: Tensor.rand(device=device),
        lambda device: Tensor.rand(1, 1, device=device) + Tensor.rand(1, device=device),
        lambda device: Tensor.ones(1, device=device).dropout(0.5),
        lambda device: Tensor([1.0, 2.0], device=device).multinomial(),
    ],
    ids=["rand", "randn", "randint", "no axes", "two", "dropout", "multinomial"],
)
def test_random_draws_of_one_element_are_those_of_plain_calls(draw, device):
    with Tensor.train():
        jitted = TinyJit(lambda: draw(device))
        Tensor.manual_seed(7)
        found = [jitted().tolist() for _ in range(5)]
        Tensor.manual_seed(7)
        assert found == [draw(device).tolist() for _ in range(5)]
    assert jitted.captured is not None


def test_a_stream_that_opens_within_the_capture_goes_on_in_replays():
    calls = 0

    def draw(x):
        nonlocal calls
        calls += 1
        return x + Tensor.rand(1, device="CPU:5") if calls == 2 else x + 0.0

    jitted = TinyJit(draw)
    x = Tensor([0.0], device="CPU:5").realize()
    found = [jitted(x).item() for _ in range(5)][1:]
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    "function",
    [lambda a: a, lambda a: a.clone().realize(), lambda a: a.reshape(1, 2), lambda a: [a.detach()]],
    ids=["itself", "clone", "view", "detached"],
)
def test_a_function_that_only_hands_its_argument_on_is_replayed(function):
    jitted = TinyJit(function)
    for i in range(5):
        found = jitted(Tensor([i, i + 1]).realize())
        found = found[0] if isinstance(found, list) else found
        assert found.flatten().tolist() == [i, i + 1]
    assert jitted.captured is not None


# --- what a capture leaves alone ------------------------------------------------------------------


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


def test_tensors_outside_that_share_a_graph_with_the_function_keep_their_elements():
    weight = Tensor([1.0, 2.0]).realize()
    same, more = weight * 10, (weight * 10).contiguous() + 1
    jitted = TinyJit(lambda x: x + (weight * 10).contiguous())
    for _ in range(3):
        assert jitted(Tensor([0.0, 0.0])).tolist() == [10.0, 20.0]
    weight.assign(Tensor([5.0, 6.0]))
    assert jitted(Tensor([0.0, 0.0])).tolist() == [50.0, 60.0]
    assert same.tolist() == [10.0, 20.0]
    assert more.tolist() == [11.0, 21.0]


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


def test_a_result_that_was_pending_outside_is_read_anew_by_replays():
    kept = Tensor([1.0]).realize() + 1
    jitted = TinyJit(lambda x: (x + 1, kept))
    for _ in range(3):
        assert jitted(Tensor([0.0]))[1].item() == 2.0
    kept.assign(Tensor([9.0]))
    assert jitted(Tensor([0.0]))[1].item() == 9.0


# --- kernels that run once ------------------------------------------------------------------------


def test_pruned_kernels_run_with_the_capture_alone():
    weight = Tensor(floats(4, 4)).realize()
    plain = TinyJit(lambda x: (x @ (weight * 2 + 1).contiguous()).relu())
    pruned = TinyJit(lambda x: (x @ (weight * 2 + 1).contiguous()).relu(), prune=True)
    for i in range(5):
        x = floats(2, 4, seed=i)
        wanted = np.maximum(x @ (floats(4, 4) * 2 + 1), 0)
        np.testing.assert_allclose(plain(Tensor(x)).numpy(), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(pruned(Tensor(x)).numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert plain.captured.kernels == pruned.captured.kernels + 1
    x = Tensor(floats(2, 4)).realize()
    assert count_kernels(pruned, x)[1] == pruned.captured.kernels == 1


def test_pruned_captures_replay_random_draws_assignments_and_results():
    count = Tensor([0]).realize()
    weight = Tensor([3.0]).realize()

    def step(x):
        count.assign(count + 1)
        scaled = (weight * 2).contiguous()
        drawn = Tensor.rand(2)
        return x + scaled, drawn, (weight + 1).contiguous()

    jitted = TinyJit(step, prune=True)
    Tensor.manual_seed(3)
    found = [jitted(Tensor([float(i)])) for i in range(5)]
    Tensor.manual_seed(3)
    assert [drawn.tolist() for _, drawn, _ in found] == [Tensor.rand(2).tolist() for _ in range(5)]
    assert [total.item() for total, _, _ in found] == [6.0, 7.0, 8.0, 9.0, 10.0]
    assert [same.item() for _, _, same in found] == [4.0] * 5
    assert count.item() == 5


def test_pruned_captures_replay_what_depends_on_a_variable():
    length = Variable("length", 1, 4)
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    jitted = TinyJit(lambda n: x.shrink(((0, n),)).sum(), prune=True)
    assert [jitted(length.bind(n)).item() for n in (1, 2, 3, 4, 2)] == [1, 3, 6, 10, 3]


def test_methods_are_pruned_too():
    class Scale:
        def __init__(self):
            self.factor = Tensor([2.0, 3.0]).realize()

        def plain(self, x):
            return x * (self.factor + 1).contiguous()

        apply = TinyJit(plain, prune=True)

    scale = Scale()
    for i in range(4):
        assert scale.apply(Tensor([i, i])).tolist() == [3.0 * i, 4.0 * i]
    assert scale.apply.captured.kernels == 1


# --- arguments that are assigned to ---------------------------------------------------------------


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


def test_a_function_that_waits_for_another_thread_can_be_captured():
    def add(x):
        results = []
        thread = threading.Thread(target=lambda: results.append(Tensor([2.0]).exp2().item()))
        thread.start()
        thread.join()
        return x + results[0]

    jitted = TinyJit(add)
    assert [jitted(Tensor([float(i)])).item() for i in range(4)] == [4, 5, 6, 7]


def test_results_that_no_kernel_makes_come_with_every_replay():
    kept = Tensor([7.0]).realize()
    jitted = TinyJit(lambda x: (x + 1, Tensor([1.0, 2.0, 3.0]), kept))
    for i in range(4):
        more, constant, same = jitted(Tensor([float(i)]))
        assert more.item() == i + 1
        assert constant.tolist() == [1.0, 2.0, 3.0]
        assert same.item() == 7.0


def test_a_result_that_is_taken_from_a_list_is_refused():
    queue = [Tensor([float(i)]).realize() for i in range(3)]
    jitted = TinyJit(lambda x: (x + 1, queue.pop()))
    jitted(Tensor([0.0]))
    with pytest.raises(UserError, match="was replaced"):
        jitted(Tensor([0.0]))


def test_state_that_the_function_assigns_to_is_no_argument():
    weight = Tensor([1.0, 2.0]).realize()

    def step(x):
        weight.assign(weight + 1)
        return weight + x

    jitted = TinyJit(step)
    jitted(weight)
    with pytest.raises(UserError, match="argument x is a tensor that the function assigns to"):
        jitted(weight)
    jitted.reset()
    for _ in range(2):
        jitted(Tensor([0.0, 0.0]))
    with pytest.raises(UserError, match="argument x is a tensor that the function assigns to"):
        jitted(weight)
    assert weight.tolist() == [5.0, 6.0]
    assert jitted(weight + 0).tolist() == [11.0, 13.0]


# --- tensors outside that are not in memory when a function is captured ---------------------------


@pytest.mark.parametrize("make", [lambda: Tensor(3.0), lambda: Tensor([1.0, 1.0]).sum() + 1])
def test_state_that_is_no_memory_yet_goes_on(make):
    total = make()
    wanted = 3.0

    @TinyJit
    def add(x):
        total.assign(total + x.sum())
        return x * 2

    for number in range(5):
        add(Tensor([number, 1.0]))
        wanted += number + 1.0
    assert total.item() == wanted


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
        wanted = np.array([1.0, number]) * scale.numpy()
        np.testing.assert_array_equal(scaled(Tensor([1.0, number])).numpy(), wanted)


@pytest.mark.parametrize("make", [lambda n: Tensor.full((2,), n), lambda n: Tensor([n, 2.0]) + 1])
def test_a_tensor_outside_that_was_replaced_is_refused(make):
    kept = {"scale": make(0.0)}
    scaled = TinyJit(lambda x: x * kept["scale"])
    scaled(Tensor([1.0, 2.0]))
    scaled(Tensor([1.0, 2.0]))
    kept["scale"] = make(3.0)
    with pytest.raises(UserError, match="is gone"):
        scaled(Tensor([1.0, 2.0]))
