"""TinyJit: replays equal plain runs, and Python runs no more."""

from collections import namedtuple

import numpy as np
import pytest
from jit_calls import floats

from tinyref import Context, GlobalCounters, Tensor, TinyJit, Variable
from tinyref.errors import UserError
from tinyref.lazy.shape import name_of
from tinyref.tensor.registry import buffer_numbers


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


def _replayed_once(result):
    reader = TinyJit(lambda: result + 0)
    assert reader().shape == reader().shape
    return reader


@pytest.mark.parametrize("shape", [(3,), (1, 3)])
@pytest.mark.parametrize(
    "use",
    [
        lambda result: result,
        lambda result: result.flip(-1),
        lambda result: result * 2 - result,
        lambda result: result.requires_grad_() * 1,
        _replayed_once,
    ],
    ids=["tensor", "view", "graph", "gradient", "capture"],
)
def test_a_result_in_use_keeps_its_memory(use, shape):
    jitted = TinyJit(lambda x: x + 1)
    users, numbers = [], set()
    for i in range(6):
        result = jitted(Tensor.full(shape, float(i)).contiguous())
        numbers.update(buffer_numbers(result.node))
        users.append(use(result))
    for i, user in enumerate(users):
        tensor = user if isinstance(user, Tensor) else user()
        assert tensor.numpy().ravel().tolist() == [i + 1] * 3
    assert len(numbers) == 6


@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_results_take_turns_in_the_memory_of_two(shape):
    jitted = TinyJit(lambda x: x + 1)
    numbers = []
    for i in range(8):
        result = jitted(Tensor.full(shape, float(i)).contiguous())
        numbers.append(buffer_numbers(result.node))
        assert result.numpy().ravel().tolist() == [i + 1] * 3
    # The first two calls are no replays.
    assert len(set(numbers)) == 4


def test_tensors_come_from_containers_and_results_go_back_in_them():
    Pair = namedtuple("Pair", "first second")

    @TinyJit
    def mix(pair, *, rest):
        total = pair.first + rest["x"][0]
        return {"sum": total, "items": [total * 2, None, 7], "pair": Pair(total - 1, "text")}

    for i in range(4):
        a, b = np.float32([i, 1]), np.float32([2, i])
        actual = mix(Pair(Tensor(a), 3), rest={"x": (Tensor(b),)})
        assert list(actual) == ["sum", "items", "pair"]
        np.testing.assert_array_equal(actual["sum"].numpy(), a + b)
        np.testing.assert_array_equal(actual["items"][0].numpy(), (a + b) * 2)
        assert actual["items"][1:] == [None, 7]
        np.testing.assert_array_equal(actual["pair"].first.numpy(), a + b - 1)
        assert actual["pair"].second == "text"


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
        expected = make(Tensor(floats(4, 5, seed=i))).numpy() + 1
        np.testing.assert_array_equal(jitted(x).numpy(), expected)


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
        expected = array
        for _ in range(6):
            expected = expected + np.float32(1)
        np.testing.assert_array_equal(jitted(Tensor(array)).numpy(), expected * 2)
    assert jitted.captured.unplanned_bytes == 6 * 4000
    assert jitted.captured.arena_bytes == 2 * 4032
    with Context(MEMORY_PLAN=0):
        apart = TinyJit(chain)
        for i in range(3):
            actual = apart(Tensor(floats(1000, seed=i))).numpy()
            np.testing.assert_array_equal(actual, chain(Tensor(floats(1000, seed=i))).numpy())
        assert apart.captured.arena_bytes == 0


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
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["kernel", "kernel"]
    assert "add" in lines[0]
    assert "sum" in lines[1]


def test_empty_tensors_pass():
    jitted = TinyJit(lambda x, y: x.sum() + y)
    for i in range(4):
        assert jitted(Tensor(np.zeros((0, 3), np.float32)), Tensor([float(i)])).item() == i


def test_an_empty_argument_may_be_computed_with_another_that_shares_its_graph():
    empty = Tensor(np.zeros((0, 2), np.float32))
    same = empty.detach()
    turned = same.permute(1, 0)
    jitted = TinyJit(lambda x: turned - turned)
    assert [jitted(x).shape for x in (empty, same, same, empty)] == [(2, 0)] * 4


def test_tensors_on_several_devices_are_inputs_results_and_state():
    devices = ("CPU:1", "CPU:2")
    weight = Tensor(floats(4, 6, seed=9)).shard(devices, axis=0).realize()

    @TinyJit
    def step(x):
        weight.assign(weight + x)
        return weight.sum(0), x + 1

    expected = floats(4, 6, seed=9)
    for i in range(4):
        x = floats(4, 6, seed=i)
        expected = expected + x
        total, more = step(Tensor(x).shard(devices, axis=0))
        np.testing.assert_allclose(total.numpy(), expected.sum(0), rtol=1e-5)
        np.testing.assert_array_equal(more.numpy(), x + 1)
        assert more.device == devices
    np.testing.assert_array_equal(weight.numpy(), expected)
    with pytest.raises(UserError, match=r"captured call had .*CPU:1.*CPU:2"):
        step(Tensor(floats(4, 6)))


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
        actual = [jitted().tolist() for _ in range(5)]
        Tensor.manual_seed(7)
        assert actual == [draw(device).tolist() for _ in range(5)]
    assert jitted.captured is not None


@pytest.mark.parametrize(
    "function",
    [lambda a: a, lambda a: a.clone().realize(), lambda a: a.reshape(1, 2), lambda a: [a.detach()]],
    ids=["itself", "clone", "view", "detached"],
)
def test_a_function_that_only_hands_its_argument_on_is_replayed(function):
    jitted = TinyJit(function)
    for i in range(5):
        actual = jitted(Tensor([i, i + 1]).realize())
        actual = actual[0] if isinstance(actual, list) else actual
        assert actual.flatten().tolist() == [i, i + 1]
    assert jitted.captured is not None


def test_results_that_no_kernel_makes_come_with_every_replay():
    stored = Tensor([7.0]).realize()
    jitted = TinyJit(lambda x: (x + 1, Tensor([1.0, 2.0, 3.0]), stored))
    for i in range(4):
        more, constant, same = jitted(Tensor([float(i)]))
        assert more.item() == i + 1
        assert constant.tolist() == [1.0, 2.0, 3.0]
        assert same.item() == 7.0


@pytest.mark.parametrize("values", [(4, 4, 2), (2, 4, 1), (4, 1, 4, 3)])
def test_a_symbolic_part_of_an_argument_is_a_result_of_each_size(values):
    length = Variable("length", 1, 4)
    jitted = TinyJit(lambda x, n: (x[:n], x.reshape(2, 2)))
    for value in values:
        part, whole = jitted(Tensor([1, 2, 3, 4]), length.bind(value))
        assert part.tolist() == [1, 2, 3, 4][:value]
        assert whole.tolist() == [[1, 2], [3, 4]]


def test_a_constant_result_keeps_a_size_that_was_bound_outside():
    part = Tensor([[1, 2, 3]])[:, : Variable("n", 1, 3).bind(2)]
    jitted = TinyJit(lambda: part < part)
    assert [jitted().tolist() for _ in range(3)] == [[[False, False]]] * 3


@pytest.mark.parametrize("shape", [(4,), (2, 2), ()])
def test_a_result_has_its_shape_and_no_functions_name(shape):
    """Return memory, like a plain call: kernels that read it have names of their computation."""
    jitted = TinyJit(lambda x: x + 1)
    one = Tensor(np.ones(shape, np.float32)).realize()
    for _ in range(4):
        actual = jitted(one)
        assert actual.shape == shape
        np.testing.assert_array_equal(actual.numpy(), np.full(shape, 2, np.float32))
    assert name_of(actual.node) == ""
    (kernel,) = (actual * 3).schedule().kernels
    assert kernel.names == ("mul",)
