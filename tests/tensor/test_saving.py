"""Pickles and deep copies of tensors, layers, optimisers and captured functions."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from kernel_runs import count_kernels

from tinyref import Context, Tensor, TinyJit, Variable, dtypes, nn
from tinyref.errors import UserError, UserStateError


def pickled(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol))


WAYS = [pickled, copy.deepcopy]
NAMES = ["pickle", "deepcopy"]
both_ways = pytest.mark.parametrize("again", WAYS, ids=NAMES)


# --- tensors --------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("dtype", [*dtypes.all, dtypes.bfloat16], ids=lambda dtype: dtype.name)
def test_tensors_of_each_type_keep_their_elements(again, dtype):
    tensor = Tensor([[0, 1], [1, 3]]).cast(dtype)
    restored = again(tensor)
    assert (restored.shape, restored.dtype, restored.device) == ((2, 2), dtype, "CPU")
    assert restored.tolist() == tensor.tolist()


@both_ways
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Tensor([1.0, 2.0]).realize(), [1.0, 2.0]),
        (lambda: Tensor([1.0, 2.0]) * 3 + 1, [4.0, 7.0]),
        (lambda: Tensor([1.0, 2.0, 3.0, 4.0]).realize()[::2], [1.0, 3.0]),
        (lambda: Tensor([1.0, 2.0]).realize().flip(0), [2.0, 1.0]),
        (lambda: Tensor([5.0]).realize().expand(3), [5.0, 5.0, 5.0]),
        (lambda: Tensor.full((2, 2), 7), [[7, 7], [7, 7]]),
        (lambda: Tensor.zeros(0, 3), []),
        (lambda: Tensor(4.5), 4.5),
        (lambda: Tensor.arange(3), [0, 1, 2]),
        (lambda: Tensor([float("inf"), -0.0]).realize(), [float("inf"), -0.0]),
    ],
)
def test_tensors_keep_their_elements_in_memory_of_their_own(again, make, expected):
    tensor = make()
    restored = again(tensor)
    assert restored.tolist() == expected
    assert str(restored.tolist()) == str(expected)
    assert restored.shape == tensor.shape
    restored.assign(restored + 1).realize()
    assert tensor.tolist() == expected


@both_ways
@pytest.mark.parametrize("device", ["CPU:1", "PYTHON"])
def test_tensors_stay_on_their_device(again, device):
    restored = again(Tensor([1, 2], device=device))
    assert restored.device == device
    assert restored.tolist() == [1, 2]


@both_ways
@pytest.mark.parametrize("axis", [0, 1, None])
def test_tensors_on_several_devices_keep_their_layout(again, axis):
    array = np.arange(15, dtype=np.float32).reshape(5, 3)
    tensor = Tensor(array).shard(("CPU:1", "CPU:2"), axis=axis).realize().requires_grad_()
    restored = again(tensor)
    assert repr(restored) == repr(tensor)
    assert restored.requires_grad
    np.testing.assert_array_equal((restored + restored).numpy(), array * 2)


@both_ways
@pytest.mark.parametrize("requires_grad", [True, False, None])
def test_tensors_keep_what_gradients_need(again, requires_grad):
    tensor = Tensor([1.0, 2.0], requires_grad=requires_grad)
    assert again(tensor).requires_grad is tensor.requires_grad
    assert again(tensor).grad is None
    restored = again(tensor)
    if requires_grad is False:
        with pytest.raises(UserError, match="params"):
            nn.optim.SGD([restored])
        return
    restored.requires_grad_()
    (restored * 3).sum().backward()
    assert restored.grad.tolist() == [3.0, 3.0]
    assert again(restored).grad.tolist() == [3.0, 3.0]
    assert again(restored).grad is not restored.grad
    assert tensor.grad is None


@both_ways
def test_what_was_computed_from_tensors_that_require_grad_is_refused(again):
    weight = Tensor([1.0], requires_grad=True)
    with pytest.raises(UserStateError, match=r"pickle: .*require grad.*use detach\(\)"):
        again(weight * 2)
    assert again((weight * 2).detach()).item() == 2.0


@both_ways
def test_tensors_in_files_are_refused(again, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"abcd")
    tensor = Tensor(path)
    with pytest.raises(UserError, match=r"on DISK:.*, which pickles and deep .*to\('CPU'"):
        again(tensor)
    assert again(tensor.to("CPU")).tolist() == [97, 98, 99, 100]


@both_ways
def test_symbolic_sizes_are_those_that_are_bound(again):
    size = Variable("size", 1, 4).bind(2)
    restored = again(Tensor([1.0, 2.0, 3.0, 4.0]).shrink(((0, size),)))
    assert restored.shape == (2,)
    assert restored.tolist() == [1.0, 2.0]


@both_ways
def test_a_tensor_that_comes_twice_is_one(again):
    weight = Tensor([1.0]).realize()
    restored = again({"a": weight, "b": [weight]})
    assert restored["a"] is restored["b"][0]


def test_a_shallow_copy_shares_no_memory():
    tensor = Tensor([1.0, 2.0]).realize()
    restored = copy.copy(tensor)
    restored.assign(restored + 1).realize()
    assert (restored.tolist(), tensor.tolist()) == ([2.0, 3.0], [1.0, 2.0])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_each_protocol_of_pickle_works(protocol):
    tensor = Tensor([1.0, 2.0], requires_grad=True)
    restored = pickled(tensor, protocol)
    assert restored.tolist() == [1.0, 2.0]
    assert restored.requires_grad


def state_of(tensor):
    return tensor.__getstate__()


def damaged(**changes):
    return {**state_of(Tensor([1.0, 2.0]).realize()), **changes}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "it is of version None, accepted is 1"),
        ({}, "it is of version None, accepted is 1"),
        (damaged(version=2), "version 2, accepted is 1"),
        (damaged(parts=(b"1234567",)), "7 bytes for 2 elements of float32"),
        (damaged(device="NOWHERE"), "the tensor was on NOWHERE, which is not here"),
    ],
)
def test_a_state_that_is_none_is_refused(state, message):
    with pytest.raises(UserError, match=message):
        Tensor.__new__(Tensor).__setstate__(state)


# --- layers and optimisers ------------------------------------------------------------------------


class Model:
    def __init__(self):
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 1)
        self.optimiser = nn.optim.Adam(nn.state.get_parameters([self.first, self.second]), lr=0.01)

    def loss(self, x):
        return self.second(self.first(x).relu()).square().mean()

    def step(self, x):
        self.optimiser.zero_grad()
        loss = self.loss(x).backward()
        self.optimiser.step()
        return loss


def inputs(count):
    generator = np.random.default_rng(1)
    return [Tensor(generator.normal(size=(5, 3)).astype(np.float32)) for _ in range(count)]


@both_ways
@pytest.mark.parametrize("name", ["SGD", "LAMB"])
def test_optimisers_go_on_with_the_parameters_that_they_share_with_the_model(again, name):
    model = Model()
    parameters = nn.state.get_parameters([model.first, model.second])
    options = {"momentum": 0.9} if name == "SGD" else {}
    model.optimiser = getattr(nn.optim, name)(parameters, lr=0.1, **options)
    with Tensor.train():
        for x in inputs(2):
            model.step(x)
        restored = again(model)
        assert restored.optimiser.params[0] is restored.first.weight
        for x in inputs(3):
            assert restored.step(x).item() == model.step(x).item()
    for one, other in zip(model.optimiser.params, restored.optimiser.params, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    before = model.first.weight.tolist()
    with Tensor.train():
        restored.step(inputs(1)[0])
    assert model.first.weight.tolist() == before


# --- captured functions ---------------------------------------------------------------------------


def scale(x):
    """Multiply, as a function of this module."""
    return (x * 3 + 1).sum()


KEPT = Tensor([10.0, 20.0])


@TinyJit
def add_kept(x):
    """Add, as a function of this module that a TinyJit replaces."""
    KEPT.assign(KEPT + x)
    return KEPT * 2, x


@both_ways
def test_a_captured_function_replays_at_once(again):
    jitted = TinyJit(scale)
    x = Tensor([1.0, 2.0]).realize()
    for _ in range(3):
        jitted(x)
    restored = again(jitted)
    assert restored.captured == jitted.captured
    result, kernels = count_kernels(restored, Tensor([2.0, 3.0]).realize())
    assert (result.item(), kernels) == (17.0, jitted.captured.kernels)
    with pytest.raises(UserError, match=r"argument x is .*the captured call had"):
        restored(Tensor([1.0]))
    restored.reset()
    assert restored(Tensor([1.0])).item() == 4.0
    assert restored.__name__ == "scale"


@both_ways
def test_a_function_that_was_not_captured_is_captured_later(again):
    jitted = TinyJit(scale)
    jitted(Tensor([1.0]))
    restored = again(jitted)
    assert restored.captured is None
    assert [restored(Tensor([float(i)])).item() for i in range(4)] == [1.0, 4.0, 7.0, 10.0]
    assert restored.captured is not None


@both_ways
def test_state_that_the_function_keeps_is_copied(again):
    add_kept.reset()
    KEPT.assign(Tensor([10.0, 20.0]))
    for _ in range(3):
        add_kept(Tensor([1.0, 1.0]))
    restored = again(add_kept)
    for i in range(3):
        x = Tensor([2.0, 0.0])
        result, same = restored(x)
        assert result.tolist() == [30.0 + 4 * i, 46.0]
        assert same is x
    assert KEPT.tolist() == [13.0, 23.0]
    assert add_kept(Tensor([0.0, 0.0]))[0].tolist() == [26.0, 46.0]


class Stepper(Model):
    """A model with a captured function among its attributes."""

    def __init__(self):
        super().__init__()
        self.jitted = TinyJit(self.captured_step)

    def captured_step(self, x):
        with Tensor.train():
            return self.step(x)

    @TinyJit
    def method(self, x):
        return self.second(self.first(x))


@both_ways
def test_a_model_and_its_captured_step_go_on_together(again):
    model = Stepper()
    for x in inputs(3):
        model.jitted(x)
    restored = again(model)
    assert restored.jitted.captured is not None
    before = model.first.weight.numpy()
    results = [restored.jitted(x).item() for x in inputs(3)]
    np.testing.assert_array_equal(model.first.weight.numpy(), before)
    assert (restored.first.weight.numpy() != before).any()
    assert results == [model.jitted(x).item() for x in inputs(3)]
    np.testing.assert_array_equal(model.first.weight.numpy(), restored.first.weight.numpy())
    restored.jitted.reset()
    for x in inputs(3):
        assert restored.jitted(x).item() == model.jitted(x).item()


@both_ways
@pytest.mark.parametrize("requires_grad", [False, True])
def test_state_stays_shared_with_views_of_it(again, requires_grad):
    """Guard a capture whose view had separate memory from the weight, or that was refused."""
    weight = Tensor([1.0, 2.0], requires_grad=requires_grad)
    view = weight.reshape(2, 1)

    @TinyJit
    def double():
        return weight * 2

    for _ in range(2):
        double()
    loaded, its_weight = again((double, weight))
    its_weight.assign(Tensor([5.0, 7.0]))
    assert (loaded().tolist(), double().tolist()) == ([10.0, 14.0], [2.0, 4.0])
    assert view.tolist() == [[1.0], [2.0]]


@both_ways
def test_random_draws_go_on_in_the_stream_of_the_process(again):
    jitted = TinyJit(draw)
    Tensor.manual_seed(3)
    restored = [jitted(Tensor([0.0, 0.0])).tolist() for _ in range(3)]
    other = again(jitted)
    restored += [other(Tensor([0.0, 0.0])).tolist() for _ in range(2)]
    restored += [jitted(Tensor([0.0, 0.0])).tolist()]
    Tensor.manual_seed(3)
    assert restored == [Tensor.rand(2).tolist() for _ in range(6)]


def draw(x):
    return x + Tensor.rand(2)


def sharded(x, size):
    return [{"sum": (x + 1).sum(0)}, x.shrink((None, (0, size))), 7, (Tensor.ones(2),)]


@both_ways
@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("plan", [0, 1])
def test_variables_devices_and_containers_are_kept(again, prune, plan):
    size = Variable("size", 1, 3)
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    with Context(MEMORY_PLAN=plan):
        jitted = TinyJit(sharded, prune=prune)
        for n in (1, 2, 3):
            jitted(Tensor(array).shard(("CPU:1", "CPU:2"), axis=0), size.bind(n))
        restored = again(jitted)
        for n in (3, 1, 2):
            x = Tensor(array * n).shard(("CPU:1", "CPU:2"), axis=0)
            sums, part, number, (ones,) = restored(x, size.bind(n))
            np.testing.assert_array_equal(sums["sum"].numpy(), (array * n + 1).sum(0))
            np.testing.assert_array_equal(part.numpy(), (array * n)[:, :n])
            assert (number, ones.tolist()) == (7, [1.0, 1.0])
    assert restored.captured == jitted.captured


def test_a_function_that_no_pickle_can_hold_replays_what_was_captured():
    jitted = TinyJit(lambda x: x + 1)
    jitted(Tensor([1.0]))
    with pytest.raises(UserStateError, match="<lambda> is not a function of a module"):
        pickle.dumps(jitted)
    jitted(Tensor([1.0]))
    restored = pickled(jitted)
    assert restored(Tensor([5.0])).item() == 6.0
    restored.reset()
    with pytest.raises(UserStateError, match="the pickle does not hold the function itself"):
        restored(Tensor([5.0]))


@both_ways
def test_state_that_remains_only_as_a_view_is_refused(again):
    view = Tensor([1.0, 2.0]).realize().flip(0)
    jitted = TinyJit(lambda x: x * view.sum())
    for _ in range(3):
        jitted(Tensor([1.0]))
    with pytest.raises(UserStateError, match=r"reads a float32 .* only views of it are left"):
        again(jitted)
    assert jitted(Tensor([2.0])).item() == 6.0


PROGRAM = """
import json, pickle, sys
from tinyref import GlobalCounters, Tensor
tensor, jitted = pickle.load(open(sys.argv[1], "rb"))
results = [jitted(tensor)[0].tolist() for _ in range(2)]
print(json.dumps([tensor.tolist(), results, GlobalCounters.kernel_count]))
"""


@pytest.mark.long
def test_another_process_goes_on(tmp_path):
    total = Tensor([1.0, 2.0]).realize()

    def step(x):
        total.assign(total + x)
        return total * 1, Tensor.rand(1)

    jitted = TinyJit(step)
    x = Tensor([1.0, 0.0]).realize()
    for _ in range(3):
        jitted(x)
    path = tmp_path / "saved"
    path.write_bytes(pickle.dumps((x, jitted)))
    command = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    tensor, results, kernels = json.loads(done.stdout)
    assert tensor == [1.0, 0.0]
    assert results == [[5.0, 2.0], [6.0, 2.0]]
    assert kernels == 2 * jitted.captured.kernels
    assert total.tolist() == [4.0, 2.0]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_function_that_reads_a_tensor_and_a_copy_in_its_memory_is_not_saved(is_read):
    """Refuse it: after an assignment, the loaded function read the tensor for the copy too."""
    weight = Tensor([1.0, 2.0]).realize()
    copy = weight * 1
    jitted = TinyJit(lambda x: x + weight + weight[:1] + (copy if is_read else 0))
    for _ in range(2):
        jitted(Tensor([0.0, 0.0]).realize())
    if is_read:
        with pytest.raises(UserError, match="reads two tensors in the memory of a float32 tensor"):
            pickle.dumps((jitted, weight))
        return
    again, loaded = pickle.loads(pickle.dumps((jitted, weight)))
    loaded.assign(8.0)
    assert again(Tensor([0.0, 0.0]).realize()).tolist() == [16.0, 16.0]
    assert copy.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("see", "result"), [(lambda x: x[::-1], [8, 7]), (lambda x: x[:], [7, 8])])
def test_a_function_that_reads_a_view_is_saved_with_what_it_is_a_view_of(see, result):
    weight = Tensor([1.0, 2.0]).realize()
    view = see(weight)
    jitted = TinyJit(lambda x: x + view)
    for _ in range(2):
        jitted(Tensor([0.0, 0.0]).realize())
    again, loaded = pickle.loads(pickle.dumps((jitted, weight)))
    weight.assign(Tensor([7.0, 8.0]))
    loaded.assign(Tensor([7.0, 8.0]))
    zeros = Tensor([0.0, 0.0]).realize()
    assert again(zeros).tolist() == jitted(zeros).tolist() == result


@pytest.mark.parametrize("state", [None, {}, {"version": 2}])
def test_a_state_that_is_none_of_a_captured_function_is_refused(state):
    with pytest.raises(UserError, match=r"version (None|2), accepted is 1"):
        TinyJit.__new__(TinyJit).__setstate__(state)
