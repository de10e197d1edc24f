"""Tensors on several devices: what they compute is what they compute on one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinyref import Context, Tensor, TinyJit, Variable
from tinyref.errors import UserError
from tinyref.lazy.shape import shape_of
from tinyref.tensor.core import from_node
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
    """Return the elements on each device."""
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
    expected = make(whole).numpy()
    Tensor.manual_seed(7)
    actual = make(sharded)
    assert layout(actual) == ShardArg(("CPU", "CPU:1"), 0, (3, 2))
    assert [part.shape for part in parts(actual)] == [(3, 3), (2, 3)]
    assert np.array_equal(actual.numpy(), expected)
    assert layout(make(whole.shard(TWO))) == ShardArg(("CPU", "CPU:1"))


# --- what they compute ---------------------------------------------------------------------------

# Expressions of a tensor x of 7 by 6 integers; `on` puts an array on its devices.
OPERATIONS = (
    "x + 3",
    "x * on(INTEGERS[:1] + 9)",
    "x - x.sum(0)",
    "x[:6] + x[:6].T",
    "(x > 2).where(x, -x)",
    "x.cast('int8').cast('int64')",
    "x.sum(0)",
    "x.sum(1, keepdim=True)",
    "x.prod(1)",
    "(x > 7).any(0)",
    "x.argmax(0)",
    "x.reshape(-1)",
    "x.reshape(7, 2, 3)",
    "x.reshape(1, 7, 1, 6, 1)",
    "x.T",
    "x.unsqueeze(1).expand(7, 2, 6)",
    "x.flip(0, 1)",
    "x.pad(((1, 2), (3, 0)))",
    "x[2:5, 1:]",
    "x[::2, ::-3]",
    "x.cat(x, dim=0)[3:10]",
    "x.cat(x + 1, dim=1)",
    "x @ x.T",
    "x @ on(INTEGERS.T.copy())",
    "x.cumsum(0)",
    "x[on([[1, 2], [6, 0]])]",
    "x.gather(0, on([[1, 2, 0, 3, 4, 6]]))",
    "(x + 1).contiguous() * 2",
)
LAYOUTS = [(TWO, None), (TWO, 0), (FOUR, 0), (FOUR, 1)]


def computed(expression: str, x: Tensor) -> Tensor:
    names = {"x": x, "INTEGERS": INTEGERS, "on": lambda array: Tensor(array, device=x.device)}
    result = eval(expression, names)
    assert isinstance(result, Tensor)
    return result


@pytest.mark.sampled(5)
@pytest.mark.parametrize("expression", OPERATIONS)
@pytest.mark.parametrize(("devices", "axis"), LAYOUTS)
def test_operations(expression: str, devices: tuple[str, ...], axis: int | None) -> None:
    expected = computed(expression, Tensor(INTEGERS))
    actual = computed(expression, Tensor(INTEGERS).shard(devices, axis))
    assert actual.device == NAMES[: len(devices)]
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(actual.numpy(), expected.numpy())
    wholes = parts(actual) if layout(actual).axis is None else []
    for whole in wholes[1:]:
        assert np.array_equal(whole, wholes[0])


def test_what_is_cut_off_stays_where_it_is() -> None:
    """Neither a slice nor padding along the axis moves anything between devices."""
    x = Tensor(INTEGERS).shard(FOUR, 0).realize()
    assert layout(x[1:5]).sizes == (1, 2, 1, 0)
    assert layout(x[5:]).sizes == (0, 0, 1, 1)
    assert np.array_equal(x[5:].numpy(), INTEGERS[5:])
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


def copies_of(ring: int, size: int) -> int:
    """Return the number of elements that an all-reduce over four devices copies."""
    with Context(RING=ring):
        result = Tensor(np.ones((4, size), np.float32)).shard(FOUR, 0).realize().sum(0)
    copies = [node for node in result.node.toposort() if node.op is Ops.COPY]
    return sum(np.prod(shape_of(node), dtype=int) for node in copies)


def test_a_ring_moves_less() -> None:
    """Naive: each of 4 devices gets the parts of 3. Ring: 2 * 3 times the size in all."""
    assert copies_of(0, 40) == 4 * 3 * 40
    assert copies_of(2, 40) == 2 * 3 * 40
    assert copies_of(1, 40) == copies_of(0, 40)
    assert copies_of(1, 1 << 18) == 2 * 3 << 18


# --- assignment ----------------------------------------------------------------------------------


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
    """Return the losses of three steps of gradient descent."""
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
LAYERS = [floats(5, 6), floats(6), floats(6, 2)]
FILTERS = [floats(4, 2, 4, 4), floats(3, 2, 3, 3), floats(3), floats(12, 2)]
TRAINING: dict[str, tuple[Callable[..., Tensor], list[np.ndarray], int, Layouts]] = {
    "data": (mlp, [floats(8, 5), floats(8, 2), *LAYERS], 2, (0, 0, None, None, None)),
    "tensor": (mlp, [floats(8, 5), floats(8, 2), *LAYERS], 2, (None, None, 1, 0, 0)),
    "parts of all": (mlp, [floats(8, 5), floats(8, 2), *LAYERS], 2, (0, 0, 0, 0, 0)),
    "convolution": (network, FILTERS, 1, (0, None, None, None)),
    "channels": (network, FILTERS, 1, (None, 0, 0, 0)),
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
    actual = steps(forward, several[:inputs], several[inputs:])
    assert np.allclose(actual, expected, rtol=1e-5)
    for one, many, axis in zip(single[inputs:], several[inputs:], axes[inputs:], strict=True):
        assert layout(many).axis == axis
        assert np.allclose(many.numpy(), one.numpy(), rtol=1e-4, atol=1e-6)
        if axis is None:
            wholes = parts(many)
            assert all(whole.tobytes() == wholes[0].tobytes() for whole in wholes)


@pytest.mark.long
def test_random_numbers_are_those_of_one_device() -> None:
    def draw(place: Callable[[Tensor], Tensor], **device: object) -> list[np.ndarray]:
        Tensor.manual_seed(5)
        made = [Tensor.rand(7, 2, **device), Tensor.randn(7, **device), Tensor.rand(4, **device)]
        return [place(tensor).numpy() for tensor in made]

    expected = draw(lambda x: x)
    for actual in (
        draw(lambda x: x.shard(FOUR, 0)),
        draw(lambda x: x, device=FOUR),
        draw(lambda x: x.shard(FOUR, 0), device=FOUR),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(actual, expected, strict=True))
    Tensor.manual_seed(6)
    with Tensor.train():
        stored = Tensor.ones(40).dropout(0.5).numpy()
        Tensor.manual_seed(6)
        assert np.array_equal(Tensor.ones(40).shard(TWO, 0).dropout(0.5).numpy(), stored)


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
        with pytest.raises(UserError, match="the captured call had"):
            step(other)
