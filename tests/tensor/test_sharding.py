"""Tensors on several devices: what they compute is what they compute on one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import check_refusal

from tinyref import Context, GlobalCounters, Tensor, TinyJit, Variable, dtypes, nn
from tinyref.errors import UserError
from tinyref.lazy.multi import RULES, _each
from tinyref.nn.optim import SGD, Adam
from tinyref.nn.state import get_parameters, get_state_dict, load_state_dict
from tinyref.tensor.core import from_node
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ShardArg

TWO = ("CPU:0", "CPU:1")
FOUR = ("CPU:0", "CPU:1", "CPU:2", "CPU:3")
NAMES = ("CPU", "CPU:1", "CPU:2", "CPU:3")
INTEGERS = np.arange(-20, 22, dtype=np.int32).reshape(7, 6) * 5 % 17 - 8


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layout(tensor: Tensor) -> ShardArg:
    assert isinstance(tensor.node.arg, ShardArg)
    return tensor.node.arg


def parts(tensor: Tensor) -> list[np.ndarray]:
    """What each device holds."""
    pairs = zip(tensor.node.src, layout(tensor).devices, strict=True)
    return [from_node(Tensor, part, device).numpy() for part, device in pairs]


# --- where the elements lie ----------------------------------------------------------------------


def test_each_device_holds_a_part() -> None:
    tensor = Tensor(np.arange(8)).shard(FOUR, 0)
    assert tensor.device == NAMES
    assert [part.tolist() for part in parts(tensor)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert tensor.shape == (8,)
    assert tensor.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_each_device_holds_the_whole() -> None:
    tensor = Tensor([1, 2]).shard(FOUR)
    assert [part.tolist() for part in parts(tensor)] == [[1, 2]] * 4
    assert tensor.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("size", "sizes"), [(7, (2, 2, 2, 1)), (5, (2, 1, 1, 1)), (3, (1, 1, 1, 0)), (0, (0, 0, 0, 0))]
)
def test_parts_differ_by_one(size: int, sizes: tuple[int, ...]) -> None:
    array = np.arange(2 * size).reshape(2, size)
    tensor = Tensor(array).shard(FOUR, -1)
    assert layout(tensor) == ShardArg(NAMES, 1, sizes)
    assert np.array_equal(tensor.numpy(), array)
    assert (tensor + 1).sum().item() == int((array + 1).sum())
    assert tensor.sum(1).tolist() == array.sum(1).tolist()


def test_moving_between_places() -> None:
    tensor = Tensor(INTEGERS)
    for there in (tensor.shard(TWO, 1), tensor.to(FOUR), tensor.shard(FOUR, 0).shard(TWO, 0)):
        for back in (there.to("CPU:3"), there.to(None), there.shard(("PYTHON", "CPU:2"), 0)):
            assert np.array_equal(back.numpy(), INTEGERS)
    sharded = tensor.shard(TWO, 0)
    assert sharded.to(sharded.device) is sharded
    assert sharded.shard(TWO, 0) is sharded
    assert tensor.to("CPU") is tensor


def test_devices_are_a_tuple_or_a_list() -> None:
    tensor = Tensor(INTEGERS)
    for there in (
        tensor.to(list(TWO)),
        tensor.shard(list(TWO)),
        Tensor(INTEGERS, device=list(TWO)),
        Tensor(INTEGERS).to_(list(TWO)),
    ):
        assert there.device == ("CPU", "CPU:1")
        assert layout(there) == ShardArg(("CPU", "CPU:1"))
        assert np.array_equal(there.numpy(), INTEGERS)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.full_like(3),
        lambda x: x.zeros_like(),
        lambda x: x.ones_like(dtype="int8"),
        lambda x: x.rand_like(),
        lambda x: x.randn_like(),
        lambda x: x.rand_like(contiguous=False),
    ],
)
def test_a_tensor_like_one_in_parts_is_in_parts(make: Callable[[Tensor], Tensor]) -> None:
    whole = Tensor(floats(5, 3))
    sharded = whole.shard(TWO, 0)
    Tensor.manual_seed(7)
    wanted = make(whole).numpy()
    Tensor.manual_seed(7)
    found = make(sharded)
    assert layout(found) == ShardArg(("CPU", "CPU:1"), 0, (3, 2))
    assert [part.shape for part in parts(found)] == [(3, 3), (2, 3)]
    assert np.array_equal(found.numpy(), wanted)
    assert layout(make(whole.shard(TWO))) == ShardArg(("CPU", "CPU:1"))


def test_a_tensor_like_one_in_parts_is_a_leaf() -> None:
    sharded = Tensor(floats(4)).shard(TWO, 0)
    for leaf in (sharded.rand_like(requires_grad=True), sharded.full_like(2, requires_grad=True)):
        (leaf * 3).sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.tolist() == [3.0] * 4
    assert sharded.zeros_like(device="CPU").device == "CPU"


def test_moving_in_place() -> None:
    tensor = Tensor(INTEGERS)
    assert tensor.shard_(TWO, 1) is tensor
    assert tensor.device == NAMES[:2]
    assert tensor.to_(FOUR) is tensor
    assert layout(tensor) == ShardArg(NAMES)
    assert tensor.to_("CPU:1") is tensor
    assert tensor.device == "CPU:1"
    assert np.array_equal(tensor.numpy(), INTEGERS)


def test_it_says_where_it_is() -> None:
    tensor = Tensor(INTEGERS).shard(TWO, 1)
    assert "(CPU, CPU:1), axis 1 in (3, 3)" in repr(tensor)
    assert "not computed yet" in repr(tensor)
    assert "not computed yet" not in repr(tensor.realize())
    assert "on (CPU, CPU:1), constant" in repr(Tensor.zeros(2, device=TWO))


def test_constructors_put_the_whole_on_each_device() -> None:
    made = [
        Tensor([1, 2], device=TWO),
        Tensor.full((2,), 3, device=TWO),
        Tensor.arange(1, 3, device=TWO),
        Tensor.ones(2, device=TWO, dtype=dtypes.int32).contiguous(),
        Tensor.eye(2, device=TWO, dtype=dtypes.int32),
    ]
    expected = [[1, 2], [3, 3], [1, 2], [1, 1], [[1, 0], [0, 1]]]
    for tensor, values in zip(made, expected, strict=True):
        assert tensor.device == NAMES[:2]
        assert [part.tolist() for part in parts(tensor.realize())] == [values, values]
    assert Tensor.empty(2, 3, device=TWO).realize().device == NAMES[:2]
    assert Tensor.zeros(4).shard(TWO, 0).zeros_like().device == NAMES[:2]


# --- what they compute ---------------------------------------------------------------------------

Function = Callable[[Tensor], Tensor]
OPERATIONS: dict[str, Function] = {
    "add": lambda x: x + 3,
    "mixed with a whole": lambda x: x * Tensor(INTEGERS[:1] + 9, device=x.device),
    "with its sum": lambda x: x - x.sum(0),
    "with itself turned": lambda x: x[:6] + x[:6].T,
    "compare": lambda x: (x > 2).where(x, -x),
    "cast": lambda x: x.cast(dtypes.int8).cast(dtypes.int64),
    "sum": lambda x: x.sum(),
    "sum 0": lambda x: x.sum(0),
    "sum 1": lambda x: x.sum(1, keepdim=True),
    "max": lambda x: x.max(),
    "min 0": lambda x: x.min(0),
    "prod 1": lambda x: x.prod(1),
    "any": lambda x: (x > 7).any(0),
    "all": lambda x: (x > -9).all(1),
    "argmax": lambda x: x.argmax(0),
    "flat": lambda x: x.reshape(-1),
    "split axis": lambda x: x.reshape(7, 2, 3),
    "merged with a new axis": lambda x: x.reshape(1, 7, 1, 6, 1),
    "transpose": lambda x: x.T,
    "expand": lambda x: x.unsqueeze(1).expand(7, 2, 6),
    "flip": lambda x: x.flip(0, 1),
    "pad": lambda x: x.pad(((1, 2), (3, 0))),
    "slice": lambda x: x[2:5, 1:],
    "one row": lambda x: x[3],
    "last column": lambda x: x[:, -1],
    "every other": lambda x: x[::2, ::-3],
    "roll": lambda x: x.cat(x, dim=0)[3:10],
    "cat 1": lambda x: x.cat(x + 1, dim=1),
    "stack": lambda x: x.stack(x + 1, dim=1),
    "matmul": lambda x: x @ x.T,
    "of a whole": lambda x: x @ Tensor(INTEGERS.T.copy(), device=x.device),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(0)[0],
    "index": lambda x: x[Tensor([[1, 2], [6, 0]], device=x.device)],
    "gather": lambda x: x.gather(0, Tensor([[1, 2, 0, 3, 4, 6]], device=x.device)),
    "one hot": lambda x: (x + 8).one_hot(17).cast(dtypes.int32),
    "contiguous": lambda x: (x + 1).contiguous() * 2,
    "detach": lambda x: x.detach() + 1,
}
LAYOUTS = [(TWO, None), (TWO, 0), (FOUR, 0), (FOUR, 1)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("devices", "axis"), LAYOUTS)
def test_operations(name: str, devices: tuple[str, ...], axis: int | None) -> None:
    function = OPERATIONS[name]
    expected = function(Tensor(INTEGERS))
    found = function(Tensor(INTEGERS).shard(devices, axis))
    assert found.device == NAMES[: len(devices)]
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(found.numpy(), expected.numpy())
    wholes = parts(found) if layout(found).axis is None else []
    for whole in wholes[1:]:
        assert np.array_equal(whole, wholes[0])


@pytest.mark.parametrize("first", [None, 0, 1])
@pytest.mark.parametrize("second", [None, 0, 1])
def test_operands_in_different_layouts(first: int | None, second: int | None) -> None:
    x, y = Tensor(INTEGERS).shard(FOUR, first), Tensor(INTEGERS * 2).shard(FOUR, second)
    assert np.array_equal((x + y).numpy(), INTEGERS * 3)
    assert np.array_equal((x @ y.T).numpy(), INTEGERS @ INTEGERS.T * 2)


def test_what_is_cut_off_stays_where_it_is() -> None:
    """Neither a slice nor padding along the axis moves anything between devices."""
    x = Tensor(INTEGERS).shard(FOUR, 0).realize()
    assert layout(x[1:5]).sizes == (1, 2, 1, 0)
    assert layout(x.pad(((3, 4), (0, 0)))).sizes == (5, 2, 2, 5)
    assert layout(x.reshape(7, 2, 3)) == ShardArg(NAMES, 0, (2, 2, 2, 1))
    assert layout(x.reshape(42)) == ShardArg(NAMES, 0, (12, 12, 12, 6))
    assert layout(x.T) == ShardArg(NAMES, 1, (2, 2, 2, 1))
    assert layout(x.sum(1)) == ShardArg(NAMES, 0, (2, 2, 2, 1))
    assert layout(x.sum(0)) == ShardArg(NAMES)
    assert layout(x.T.reshape(42)) == ShardArg(NAMES)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_symbolic_sizes(axis: int | None) -> None:
    n = Variable("n", 1, 7)
    x = Tensor(INTEGERS).shard(TWO, axis).realize()
    for count in (2, 5):
        part = x[: n.bind(count)]
        assert np.array_equal(part.sum(0).numpy(), INTEGERS[:count].sum(0))
        assert np.array_equal((part + 1).numpy(), INTEGERS[:count] + 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "op"), [("sum", Ops.ADD), ("prod", Ops.MUL), ("max", Ops.MAX)])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_all_reduce(name: str, op: Ops, count: int) -> None:
    array = floats(8, 5, seed=count)
    expected = {"sum": array.sum(0), "prod": array.prod(0), "max": array.max(0)}[name]
    for ring in (0, 2):
        with Context(RING=ring):
            result = getattr(Tensor(array).shard(FOUR[:count], 0), name)(0).realize()
        wholes = parts(result)
        for whole in wholes:
            assert whole.tobytes() == wholes[0].tobytes()
        assert np.allclose(wholes[0], expected, rtol=1e-5, atol=1e-6)


def copies_of(ring: int, size: int) -> int:
    """The elements that go from one device to another in an all-reduce over four."""
    with Context(RING=ring):
        result = Tensor(np.ones((4, size), np.float32)).shard(FOUR, 0).realize().sum(0)
    copies = [node for node in result.node.toposort() if node.op is Ops.COPY]
    return sum(np.prod(from_node(Tensor, node, "CPU").shape, dtype=int) for node in copies)


def test_a_ring_moves_less() -> None:
    """Naive: each of 4 devices gets the parts of 3. Ring: 2 * 3 times the size in all."""
    assert copies_of(0, 40) == 4 * 3 * 40
    assert copies_of(2, 40) == 2 * 3 * 40
    assert copies_of(1, 40) == copies_of(0, 40)
    assert copies_of(1, 1 << 18) == 2 * 3 << 18


def test_realising_is_remembered() -> None:
    x = Tensor(INTEGERS).shard(TWO, 0)
    shared = x * 3
    user = shared + 1
    shared.realize()
    before = GlobalCounters.kernel_count
    assert np.array_equal(user.numpy(), INTEGERS * 3 + 1)
    assert GlobalCounters.kernel_count == before + 2
    assert np.array_equal(shared.numpy(), INTEGERS * 3)
    assert GlobalCounters.kernel_count == before + 2


def buffers(tensor: Tensor) -> list[UOp]:
    """The memory of each device."""
    return [node for node in tensor.node.toposort() if node.op is Ops.BUFFER]


# --- assignment ----------------------------------------------------------------------------------


def test_assigning_writes_into_the_memory_of_each_device() -> None:
    target = Tensor(INTEGERS).shard(FOUR, 0).contiguous().realize()
    memory = buffers(target)
    target.assign(target * 2).realize()
    target += 1
    assert np.array_equal(target.numpy(), INTEGERS * 2 + 1)
    assert buffers(target) == memory


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_assigning_in_another_layout(axis: int | None) -> None:
    target = Tensor(INTEGERS).shard(FOUR, 0).contiguous().realize()
    target.assign(Tensor(INTEGERS * 3).shard(FOUR, axis))
    assert layout(target) == ShardArg(NAMES, 0, (2, 2, 2, 1))
    assert np.array_equal(target.numpy(), INTEGERS * 3)
    target.assign(7)
    assert target.min().item() == target.max().item() == 7
    target.assign(INTEGERS)
    assert np.array_equal(target.numpy(), INTEGERS)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("other", [None, 0, 1])
def test_assigning_what_was_computed_in_another_layout(axis: int | None, other: int | None) -> None:
    target = Tensor(INTEGERS).shard(FOUR, axis).contiguous().realize()
    target.assign(Tensor(INTEGERS).shard(FOUR, other) + target * 2).realize()
    assert np.array_equal(target.numpy(), INTEGERS * 3)
    assert layout(target).axis == axis


def test_a_tensor_that_shares_memory_keeps_it() -> None:
    original = Tensor(INTEGERS).realize()
    sharded = original.shard(TWO).realize()
    sharded.assign(sharded + 1).realize()
    assert np.array_equal(sharded.numpy(), INTEGERS + 1)
    assert np.array_equal(original.numpy(), INTEGERS)


def test_writing_by_index() -> None:
    tensor = Tensor(INTEGERS).shard(TWO, 0).contiguous().realize()
    tensor[2:5, 1] = 9
    expected = INTEGERS.copy()
    expected[2:5, 1] = 9
    assert np.array_equal(tensor.numpy(), expected)


# --- gradients and training ----------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_gradients_lie_as_their_tensors(axis: int | None) -> None:
    array = floats(7, 6)
    x = Tensor(array).shard(FOUR, axis).requires_grad_()
    (x * x + x[1:3].sum() + x.flip(0)).sum().backward()
    assert x.grad is not None
    assert layout(x.grad) == layout(x)
    expected = 2 * array + 1
    expected[1:3] += 42
    assert np.allclose(x.grad.numpy(), expected, rtol=1e-6)
    (gradient,) = x.sum().gradient(x)
    assert layout(gradient) == layout(x)


def test_gradients_go_through_moves() -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x.shard(TWO, 0) * Tensor([2.0, 3.0, 4.0], device=TWO)).to("CPU:2").sum().backward()
    assert x.grad is not None
    assert x.grad.device == "CPU"
    assert x.grad.tolist() == [2.0, 3.0, 4.0]


def steps(
    forward: Callable[..., Tensor], inputs: list[Tensor], weights: list[Tensor]
) -> list[float]:
    """The losses of three steps of gradient descent."""
    losses = []
    for _ in range(3):
        for weight in weights:
            weight.grad = None
        loss = forward(*inputs, *weights).square().mean()
        loss.backward()
        with Tensor.no_grad():
            for weight in weights:
                assert weight.grad is not None
                weight.assign(weight - weight.grad * 0.05)
        Tensor.realize(loss, *weights)
        losses.append(loss.item())
    return losses


def mlp(x: Tensor, y: Tensor, first: Tensor, bias: Tensor, second: Tensor) -> Tensor:
    return (x @ first + bias).relu() @ second - y


def network(x: Tensor, kernel: Tensor, bias: Tensor, last: Tensor) -> Tensor:
    return x.conv2d(kernel, bias, padding=1).relu().max_pool2d(2).flatten(1) @ last


Layouts = tuple[int | None, ...]
TRAINING: dict[str, tuple[Callable[..., Tensor], list[np.ndarray], int, Layouts]] = {
    "data": (
        mlp,
        [floats(8, 5), floats(8, 2), floats(5, 6), floats(6), floats(6, 2)],
        2,
        (0, 0, None, None, None),
    ),
    "uneven data": (
        mlp,
        [floats(7, 5), floats(7, 2), floats(5, 6), floats(6), floats(6, 2)],
        2,
        (0, 0, None, None, None),
    ),
    "tensor": (
        mlp,
        [floats(8, 5), floats(8, 2), floats(5, 6), floats(6), floats(6, 2)],
        2,
        (None, None, 1, 0, 0),
    ),
    "tensor, other axes": (
        mlp,
        [floats(8, 5), floats(8, 2), floats(5, 6), floats(6), floats(6, 2)],
        2,
        (1, None, 0, None, 1),
    ),
    "parts of all": (
        mlp,
        [floats(8, 5), floats(8, 2), floats(5, 6), floats(6), floats(6, 2)],
        2,
        (0, 0, 0, 0, 0),
    ),
    "convolution": (
        network,
        [floats(4, 2, 4, 4), floats(3, 2, 3, 3), floats(3), floats(12, 2)],
        1,
        (0, None, None, None),
    ),
    "channels": (
        network,
        [floats(4, 2, 4, 4), floats(3, 2, 3, 3), floats(3), floats(12, 2)],
        1,
        (None, 0, 0, 0),
    ),
}


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TRAINING)
def test_training_is_that_on_one_device(name: str) -> None:
    forward, arrays, inputs, axes = TRAINING[name]
    single = [Tensor(array) for array in arrays]
    several = [Tensor(array).shard(FOUR, axis) for array, axis in zip(arrays, axes, strict=True)]
    for tensors in (single, several):
        for weight in tensors[inputs:]:
            weight.requires_grad_().realize()
    expected = steps(forward, single[:inputs], single[inputs:])
    found = steps(forward, several[:inputs], several[inputs:])
    assert np.allclose(found, expected, rtol=1e-5)
    for one, many, axis in zip(single[inputs:], several[inputs:], axes[inputs:], strict=True):
        assert layout(many).axis == axis
        assert np.allclose(many.numpy(), one.numpy(), rtol=1e-4, atol=1e-6)
        if axis is None:
            wholes = parts(many)
            assert all(whole.tobytes() == wholes[0].tobytes() for whole in wholes)


class Model:
    """Words to scores: an embedding, two layers and a norm between them."""

    def __init__(self) -> None:
        self.words = nn.Embedding(10, 8)
        self.first = nn.Linear(8, 6)
        self.norm = nn.LayerNorm(6)
        self.second = nn.Linear(6, 4)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.norm(self.first(self.words(x)).relu()).dropout(0.1))


def learned(cut: tuple[str, ...] | None, jit: bool, optimiser: str) -> tuple[list[float], Model]:
    """The losses of four steps; the batch is cut, and the weights that are named, along axis 0."""
    Tensor.manual_seed(7)
    model = Model()
    if cut is not None:
        for name, weight in get_state_dict(model).items():
            weight.shard_(FOUR, 0 if name in cut else None)
    rule = {"sgd": lambda p: SGD(p, lr=0.1, momentum=0.9), "adam": lambda p: Adam(p, lr=0.01)}
    optim = rule[optimiser](get_parameters(model))

    def step(x: Tensor, y: Tensor) -> Tensor:
        with Tensor.train():
            optim.zero_grad()
            loss = model(x).sparse_categorical_crossentropy(y).backward()
            optim.step()
            return loss.realize()

    run = TinyJit(step) if jit else step
    random = np.random.default_rng(0)
    losses = []
    for _ in range(4):
        batch = [Tensor(random.integers(0, high, 8)) for high in (10, 4)]
        if cut is not None:
            batch = [tensor.shard(FOUR, 0) for tensor in batch]
        losses.append(run(*(tensor.realize() for tensor in batch)).item())
    return losses, model


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("jit", [True, False], ids=["captured", "plain"])
@pytest.mark.parametrize("cut", [(), ("words.weight", "first.weight")], ids=["data", "both"])
def test_models_learn_as_on_one_device(cut: tuple[str, ...], jit: bool, optimiser: str) -> None:
    expected, single = learned(None, False, optimiser)
    found, several = learned(cut, jit, optimiser)
    assert np.allclose(found, expected, rtol=1e-5)
    wanted, weights = get_state_dict(single), get_state_dict(several)
    for name, weight in weights.items():
        assert layout(weight).axis == (0 if name in cut else None)
        assert np.allclose(weight.numpy(), wanted[name].numpy(), rtol=1e-4, atol=1e-6)


def test_states_are_loaded_into_parts() -> None:
    model = Model()
    weights = get_state_dict(model)
    for weight in weights.values():
        weight.shard_(FOUR, 0)
    before = {name: layout(weight) for name, weight in weights.items()}
    state = {name: Tensor(floats(*weight.shape)) for name, weight in weights.items()}
    load_state_dict(model, dict(state))
    for name, weight in get_state_dict(model).items():
        assert layout(weight) == before[name]
        assert np.array_equal(weight.numpy(), state[name].numpy())


@pytest.mark.long
def test_random_numbers_are_those_of_one_device() -> None:
    def draw(place: Callable[[Tensor], Tensor], **device: object) -> list[np.ndarray]:
        Tensor.manual_seed(5)
        made = [Tensor.rand(7, 2, **device), Tensor.randn(7, **device), Tensor.rand(4, **device)]
        return [place(tensor).numpy() for tensor in made]

    expected = draw(lambda x: x)
    for found in (
        draw(lambda x: x.shard(FOUR, 0)),
        draw(lambda x: x, device=FOUR),
        draw(lambda x: x.shard(FOUR, 0), device=FOUR),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    Tensor.manual_seed(6)
    with Tensor.train():
        kept = Tensor.ones(40).dropout(0.5).numpy()
        Tensor.manual_seed(6)
        assert np.array_equal(Tensor.ones(40).shard(TWO, 0).dropout(0.5).numpy(), kept)


def test_a_capture_knows_the_layout_of_its_arguments() -> None:
    weight = Tensor(INTEGERS.T.copy()).shard(TWO).contiguous().realize()

    @TinyJit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        weight.assign(weight + 1).realize()
        return x @ weight, x.sum(0)

    for number in range(4):
        x = Tensor(INTEGERS + number).shard(TWO, 0).realize()
        product, total = step(x)
        assert np.array_equal(product.numpy(), (INTEGERS + number) @ (INTEGERS.T + number + 1))
        assert np.array_equal(total.numpy(), (INTEGERS + number).sum(0))
        assert layout(product) == ShardArg(NAMES[:2], 0, (4, 3))
    for other in (Tensor(INTEGERS).shard(TWO), Tensor(INTEGERS), Tensor(INTEGERS).shard(FOUR, 0)):
        with pytest.raises(UserError, match="captured was"):
            step(other)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: x.shard("CPU"), ["shard", "'CPU'", "tuple"]),
        (lambda x: x.shard(()), ["devices", "none"]),
        (lambda x: x.shard((1, 2)), ["devices", "1"]),
        (lambda x: x.shard(("CPU", "CPU:0"), 0), ["CPU", "twice"]),
        (lambda x: x.shard(("CPU", "NOSUCH"), 0), ["NOSUCH"]),
        (lambda x: x.shard(TWO, 2), ["shard", "2"]),
        (lambda x: x.shard(TWO, -3), ["shard", "-3"]),
        (lambda x: x.shard(TWO, 0) + x, ["add", "CPU", "(CPU, CPU:1)", ".to"]),
        (lambda x: x.shard(TWO, 0) + x.shard(FOUR, 0), ["add", "(CPU, CPU:1)", "CPU:3"]),
        (
            lambda x: x.shard(TWO, 0) + x.shard(TWO[::-1], 0),
            ["add", "(CPU, CPU:1)", "(CPU:1, CPU)"],
        ),
        (lambda x: x.shard(TWO, 0).realize().assign(x), ["assign", "CPU", "(CPU, CPU:1)"]),
        (lambda x: x.realize().assign(x.shard(TWO, 0)), ["assign", "CPU", "(CPU, CPU:1)"]),
        (lambda x: x.to(("CPU", "CPU")), ["CPU", "twice"]),
    ],
)
def test_errors_say_what_is_accepted(make: Callable[[Tensor], object], words: list[str]) -> None:
    check_refusal(words, make, Tensor(INTEGERS))


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "op", [Ops.RESHAPE, Ops.PERMUTE, Ops.PAD, Ops.SHRINK, Ops.FLIP, Ops.REDUCE]
)
def test_a_rule_that_only_looks_at_the_parts_is_noticed(
    op: Ops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, op, lambda node, arg: _each(node, op, arg))

    def is_wrong(function: Callable[[Tensor], Tensor]) -> bool:
        try:
            found = function(Tensor(INTEGERS).shard(TWO, 0)).numpy()
        except Exception:
            return True
        return not np.array_equal(found, function(Tensor(INTEGERS)).numpy())

    assert any(map(is_wrong, OPERATIONS.values()))
