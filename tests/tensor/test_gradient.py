"""Gradients: conventions at corners, and what the walk over the graph promises.

The slopes of each function are in rows of the suite, whose references are compared with torch.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from tinyref import Tensor, Variable, nn
from tinyref.errors import UserError

Function = Callable[..., Tensor]


def test_detach_and_bits_stop_gradients() -> None:
    x = Tensor([2.0], requires_grad=True)
    (x.detach() * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]
    assert not x.detach().requires_grad
    y = Tensor([2.0])
    bits = y.bitcast("int32").bitcast("float32").sum()
    assert bits.gradient(y, materialize_grads=True)[0].tolist() == [0.0]
    with pytest.raises(UserError, match="target 0"):
        (y > 1).float().sum().gradient(y)


@pytest.mark.parametrize(
    ("function", "at", "slope"),
    [
        (lambda x: x.relu(), [-1.0, 0.0, 2.0], [0.0, 0.0, 1.0]),
        (lambda x: x.abs(), [-1.0, 0.0, 2.0], [-1.0, 0.0, 1.0]),
        (lambda x: x.maximum(0), [-1.0, 0.0, 2.0], [0.0, 0.5, 1.0]),
        (lambda x: x.minimum(0), [-1.0, 0.0, 2.0], [1.0, 0.5, 0.0]),
        (lambda x: x.max(), [3.0, 1.0, 3.0], [0.5, 0.0, 0.5]),
        (lambda x: x.min(), [1.0, 1.0, 1.0], [1 / 3, 1 / 3, 1 / 3]),
        (lambda x: x.sign() * x, [-2.0, 3.0], [-1.0, 1.0]),
        (lambda x: x.div(0.0, rounding_mode="trunc"), [-2.0, 3.0], [0.0, 0.0]),
        (lambda x: x.div(0.0, rounding_mode="floor"), [-2.0, 3.0], [0.0, 0.0]),
        (lambda x: Tensor([2.0, 3.0]).div(x, rounding_mode="trunc"), [0.0, 2.0], [0.0, 0.0]),
        (lambda x: x**0, [0.0, 2.0], [0.0, 0.0]),
        (lambda x: x**-2, [0.0, 2.0, math.inf, 1e10], [-math.inf, -0.25, 0.0, -2e-30]),
        (lambda x: x.std(), [2.0, 2.0], [0.0, 0.0]),
        (lambda x: x.std(correction=0), [2.0], [0.0]),
        (lambda x: x ** Tensor([0.0, 1.0, 2.0]), [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
        (lambda x: x.prod(), [0.0, 0.0, 5.0], [0.0, 0.0, 0.0]),
        (lambda x: x.prod(), [0.0, 4.0, 5.0], [20.0, 0.0, 0.0]),
        (lambda x: x.cast("int32").cast("float32") + x, [1.5, 2.5], [1.0, 1.0]),
        (lambda x: Tensor([True, False]).where(x, math.inf), [1.0, 2.0], [1.0, 0.0]),
        (lambda x: x.sum(()), [1.0, 2.0], [1.0, 1.0]),
        (lambda x: Tensor([0.0, 0.0]).pow(x), [2.0, 0.0], [0.0, 0.0]),
    ],
)
def test_conventions_at_corners(function: Function, at: list[float], slope: list[float]) -> None:
    x = Tensor(at)
    assert np.allclose(function(x).sum().gradient(x)[0].tolist(), slope, atol=1e-33)


def test_empty_and_scalar_tensors() -> None:
    empty = Tensor.zeros(0, 3, requires_grad=True)
    (empty * 2).sum().backward()
    assert empty.grad is not None
    assert empty.grad.shape == (0, 3)
    scalar = Tensor(3.0, requires_grad=True)
    (scalar * scalar).backward()
    assert scalar.grad is not None
    assert scalar.grad.item() == 6.0
    scalar.grad = None
    scalar.backward()
    assert scalar.grad is not None
    assert scalar.grad.item() == 1.0


# The walk


def test_gradients_add_up_over_uses_and_over_calls() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    loss = (x * 2 + x * x).sum()
    assert loss.backward() is loss
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 6.0]
    loss.backward()
    assert x.grad.tolist() == [8.0, 12.0]
    x.grad = None
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def seeded_backward() -> tuple[Tensor, Tensor, Tensor]:
    """Return a seed, and two gradients that have its elements."""
    x, y = (Tensor([0.0, 0.0], requires_grad=True) for _ in range(2))
    seed = Tensor([3.0, 4.0])
    (x + y).backward(seed)
    assert x.grad is not None
    assert y.grad is not None
    return seed, x.grad, y.grad


def seeded_gradient() -> tuple[Tensor, Tensor, Tensor]:
    x, y, seed = Tensor([0.0, 0.0]), Tensor([[0.0], [0.0]]), Tensor([3.0, 4.0])
    first, second = (x + y.reshape(2)).gradient(x, y, gradient=seed)
    return seed, first, second.reshape(2)


def put_number(x: Tensor) -> None:
    x[0] = 9.0


def add_tensor(x: Tensor) -> None:
    x += Tensor([6.0, 0.0])


def test_a_gradient_that_is_the_seed_is_computed_from_it() -> None:
    x, seed = Tensor([0.0, 0.0]), Tensor([3.0, 4.0])
    (first,) = (x + 1).gradient(x, gradient=seed)
    (second,) = (first * Tensor([5.0, 6.0])).sum().gradient(seed)
    assert second.tolist() == [5.0, 6.0]


@pytest.mark.parametrize("write", [put_number, add_tensor, lambda x: x.to_("PYTHON")])
def test_a_leaf_that_was_assigned_to_is_one_target(write: Callable[[Tensor], object]) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    with Tensor.no_grad():
        write(x)
    assert y.sum().gradient(x)[0].tolist() == [3.0, 3.0]
    total = x.to("CPU").sum() + 2 * y.sum()
    (actual,) = total.gradient(x)
    assert (actual.tolist(), actual.device) == ([7.0, 7.0], x.device)
    total.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [7.0, 7.0]


WRITES = [put_number, add_tensor, lambda x: x.assign(Tensor([9.0, 4.0]))]


@pytest.mark.parametrize("write", WRITES, ids=["by index", "operator", "assign"])
@pytest.mark.parametrize("is_computed", [False, True])
@pytest.mark.parametrize("make", [seeded_backward, seeded_gradient])
def test_a_gradient_is_no_view_of_another_nor_of_the_seed(
    make: Callable[[], tuple[Tensor, Tensor, Tensor]],
    is_computed: bool,
    write: Callable[[Tensor], object],
) -> None:
    seed, first, second = make()
    if is_computed:
        Tensor.realize(first, second)
    write(first)
    assert [item.tolist() for item in (first, second, seed)] == [[9, 4], [3, 4], [3, 4]]
    write(seed)
    assert [item.tolist() for item in (first, second, seed)] == [[9, 4], [3, 4], [9, 4]]


def test_a_gradient_that_is_spread_over_its_elements_may_be_written() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    x.sum().backward()
    assert x.grad is not None
    x.grad += 1
    assert x.grad.tolist() == [2, 2]


def test_only_leaves_that_ask_get_a_gradient() -> None:
    x, y = Tensor([1.0], requires_grad=True), Tensor([2.0])
    between = x * y
    assert between.requires_grad
    between.sum().backward()
    assert y.grad is None
    assert between.grad is None
    assert x.grad is not None
    assert not x.grad.requires_grad


def test_gradient_of_intermediate_tensors() -> None:
    x = Tensor([3.0])
    square = x * x
    cube = square * x
    by_square, by_x = cube.sum().gradient(square, x)
    assert (by_square.item(), by_x.item()) == (3.0, 27.0)
    assert cube.sum().gradient(square, x, gradient=Tensor(10.0))[1].item() == 270.0
    assert cube.gradient(x, gradient=Tensor([2.0]))[0].item() == 54.0
    assert cube.sum().gradient() == []


def test_no_grad() -> None:
    x = Tensor([1.0], requires_grad=True)
    assert not Tensor.no_grad
    with Tensor.no_grad():
        assert Tensor.no_grad
        inside = x * 2
        with Tensor.no_grad():
            pass
        assert not (x * 2).requires_grad
    assert not Tensor.no_grad
    assert not inside.requires_grad
    assert (x * 2).requires_grad
    with Tensor.no_grad():
        x -= 0.5
    assert x.requires_grad
    assert x.tolist() == [0.5]


def test_without_gradients_backward_has_nothing_to_do() -> None:
    x = Tensor([2.0], requires_grad=True)
    outside = (x * x).sum()
    with Tensor.test():
        assert not Tensor.training
        (x * x).sum().backward()
        assert x.grad is None
        with Tensor.test(False):
            assert (x * x).requires_grad
        # What was computed with gradients has them here too.
        outside.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0]
    with pytest.raises(UserError, match="computed from no tensor that requires grad"):
        Tensor([1.0]).sum().backward()


def test_functions_without_gradients() -> None:
    x = Tensor([2.0], requires_grad=True)

    def square(depth: int) -> list[bool]:
        return [(x * x).requires_grad] + (decorated(depth - 1) if depth else [])

    for block in (Tensor.no_grad(), Tensor.no_grad, Tensor.test(), Tensor.train()):
        decorated = block(square)
        assert decorated.__name__ == "square"
        assert decorated(2) == [block.name == "train"] * 3
        assert (x * x).requires_grad


def test_a_block_around_what_goes_on_after_its_call_is_refused() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> None: ...

    for function, name in ((numbers, "numbers"), (later, "later")):
        for block in (Tensor.no_grad(), Tensor.test(), Tensor.train()):
            with pytest.raises(UserError, match=f"{block.name}: .*{name} is a generator or a cor"):
                block(function)


def test_gradients_are_switched_off_by_an_attribute() -> None:
    x = Tensor([2.0], requires_grad=True)
    seen: list[bool] = []
    before = Tensor.no_grad
    Tensor.no_grad = True
    try:
        assert Tensor.no_grad
        assert not (x * x).requires_grad
        thread = threading.Thread(target=lambda: seen.append((x * x).requires_grad))
        thread.start()
        thread.join()
        with Tensor.test(False):
            assert (x * x).requires_grad
            Tensor.no_grad = True  # for the rest of the block
            assert not (x * x).requires_grad
        with Tensor.no_grad():
            pass
        inside = Tensor.no_grad
        Tensor.no_grad = False
        assert (x * x).requires_grad
        Tensor.no_grad = inside
        assert not (x * x).requires_grad
    finally:
        Tensor.no_grad = before
    assert seen == [False]
    assert (x * x).requires_grad
    nn.optim.SGD([x], lr=0.5).zero_grad()


def test_assignment_after_the_computation() -> None:
    weight = Tensor([2.0], requires_grad=True)
    loss = (weight * weight).sum()
    weight.assign(Tensor([5.0])).realize()
    # The graph read elements that are gone.
    with pytest.raises(UserError, match=r"MUL.*assigned to since"):
        loss.backward()
    # A sum reads none.
    total = (weight + 1).sum()
    weight.assign(Tensor([6.0])).realize()
    total.backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [1.0]
    assert loss.item() == 4.0


def test_assignment_not_yet_run_leaves_the_past_alone() -> None:
    weight = Tensor([2.0], requires_grad=True)
    loss = (weight * weight * weight).sum()
    loss.backward()
    weight.assign(weight.detach() - 1)
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [24.0]
    assert weight.tolist() == [1.0]


def test_in_place_operators_on_results() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    first = y * y
    y += x
    second = (y * y).sum()
    (first.sum() + second).backward()
    assert x.grad is not None
    # d(4x^2 + 9x^2) = 26x
    assert x.grad.tolist() == [26.0, 52.0]


def test_training_steps_write_in_place() -> None:
    weight = Tensor(np.ones((3, 2), np.float32), requires_grad=True)
    data = Tensor(np.eye(3, dtype=np.float32))
    buffer = None
    for step in range(3):
        weight.grad = None
        loss = (data @ weight).square().sum()
        loss.backward()
        assert weight.grad is not None
        weight.assign(weight.detach() - weight.grad * 0.25)
        weight.realize(loss)
        buffer = weight.node if buffer is None else buffer
        assert weight.node is buffer
        assert loss.item() == 6 * 0.25**step
    assert weight.tolist() == [[0.125, 0.125]] * 3


def test_gradients_through_symbolic_sizes() -> None:
    size = Variable("rows", 1, 4)
    x = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], requires_grad=True)
    part = x.shrink(((0, size.bind(2)), None))
    (part.pad(((1, 0), (0, 0))) * part.mean()).sum().backward()
    assert x.grad is not None
    # The sum, 10, times the mean, 2.5: each of four elements weighs in both.
    assert x.grad.tolist() == [[5.0, 5.0], [5.0, 5.0], [0.0, 0.0], [0.0, 0.0]]


def test_requires_grad_makes_a_leaf() -> None:
    x = Tensor([1.0]) * 2
    x.requires_grad = True
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0]
    x.requires_grad_(False)
    assert not (x * 3).requires_grad


# Gradients of gradients


F = torch.nn.functional
Arrays = dict[str, np.ndarray]
X = np.array([[0.5, -0.75, 0.9], [0.3, 0.75, -0.3]])
POSITIVE = np.abs(X) + 1.25
# Expressions that tinyref and torch share, or one of each.
SAME = (
    "x.sin()",
    "x.tan()",
    "x.asin()",
    "x.atan()",
    "x.tanh()",
    "x.exp2()",
    "x.erf()",
    "x.softmax(1)",
    "x.logsumexp(1)",
    "x ** 3",
    "x.prod(1)",
    "x.cumsum(1)",
    "x.cumprod(1)",
    "x.logcumsumexp(1)",
    "x.var(1)",
    "x @ x.T",
    "x.reciprocal()",
    "x.abs()",
    "x % 0.7",
)
ON_POSITIVE = (
    "x.log2()",
    "x.sqrt()",
    "x ** 2.5",
    "x.acosh()",
    "2.5 ** x",
)
OTHER = (
    ("x.max(1, keepdim=True) * x", "x.amax(1, keepdim=True) * x"),
    ("x.layernorm()", "F.layer_norm(x, (3,))"),
    ("x.cross_entropy(Tensor([1, 0]))", "F.cross_entropy(x, torch.tensor([1, 0]))"),
    ("x.pad((2, 1), mode='reflect')", "F.pad(x, (2, 1), mode='reflect')"),
    ("x.interpolate((5,))", "F.interpolate(x[None], (5,), mode='linear')[0]"),
    ("x.max_pool2d((2,))", "F.max_pool1d(x, 2)"),
    (
        "x.binary_crossentropy_logits(x.full_like(0.3))",
        "F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3))",
    ),
    ("x.softplus(2)", "F.softplus(x, 2)"),
    ("x.maximum(0.2) * x", "x.clamp(min=0.2) * x"),
    ("x.contiguous_backward() * x", "x * x"),
    ("x.lerp(x * x, x)", "torch.lerp(x, x * x, x)"),
    ("x.gelu(approximate='none')", "F.gelu(x)"),
    ("x.logaddexp(x.square())", "torch.logaddexp(x, x.square())"),
    ("x.normalize()", "F.normalize(x)"),
)


def drawn(**shapes: tuple[int, ...]) -> Arrays:
    return {name: np.random.default_rng(len(name)).standard_normal(s) for name, s in shapes.items()}


SEVERAL = (
    (
        "x.conv2d(y, padding=1, stride=2)",
        "F.conv2d(x, y, padding=1, stride=2)",
        drawn(x=(1, 2, 5, 5), y=(3, 2, 3, 3)),
    ),
    (
        "x.conv_transpose2d(y, stride=2)",
        "F.conv_transpose2d(x, y, stride=2)",
        drawn(x=(1, 2, 3, 3), y=(2, 2, 2, 2)),
    ),
    (
        "x.scaled_dot_product_attention(y, z)",
        "(x @ y.mT / 3**0.5).softmax(-1) @ z",
        drawn(x=(2, 3), y=(4, 3), z=(4, 2)),
    ),
    (
        "Tensor.einsum('ii,ij->j', x, y)",
        "torch.einsum('ii,ij->j', x, y)",
        drawn(x=(3, 3), y=(3, 2)),
    ),
)
TABLE = [
    *[(expression, expression, {"x": X}) for expression in SAME],
    *[(expression, expression, {"x": POSITIVE}) for expression in ON_POSITIVE],
    *[(ours, theirs, {"x": X}) for ours, theirs in OTHER],
    *SEVERAL,
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("ours", "theirs", "arrays"), TABLE, ids=[row[0] for row in TABLE])
def test_second_order(ours: str, theirs: str, arrays: Arrays) -> None:
    x = {name: Tensor(array).requires_grad_() for name, array in arrays.items()}
    y = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    result = eval(ours, {"Tensor": Tensor}, x)
    expected = eval(theirs, {"F": F, "torch": torch}, y)
    first = (result * result).sum().gradient(*x.values())
    right = torch.autograd.grad((expected * expected).sum(), y.values(), create_graph=True)
    # The third power keeps every element of the first gradient in the second.
    second = sum((part * part * part).sum() for part in first).gradient(*x.values())
    right = torch.autograd.grad(sum((part**3).sum() for part in right), y.values())
    for part, other in zip(second, right, strict=True):
        np.testing.assert_allclose(part.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "factors",
    [[2.0, 0.0, 3.0, -1.5], [0.0, 0.0, 3.0, 2.0], [0.0, 0.0, 0.0, 2.0], [1.0, 2.0, -3.0, 0.5]],
)
def test_second_order_of_a_product_with_zeros(factors: list[float]) -> None:
    data = np.array([factors, factors[::-1]])
    weights = np.random.default_rng(2).standard_normal(data.shape)
    theirs = torch.tensor(data, requires_grad=True)
    # As products of columns: torch's own prod has no second derivative at two zeros.
    product = theirs[:, 0] * theirs[:, 1] * theirs[:, 2] * theirs[:, 3]
    first = torch.autograd.grad(product.sum(), theirs, create_graph=True)[0]
    expected = torch.autograd.grad(
        (first * torch.tensor(weights)).sum(), theirs, create_graph=True
    )[0]
    third = torch.autograd.grad((expected * torch.tensor(weights)).sum(), theirs)[0]
    x = Tensor(data).requires_grad_()
    slope = x.prod(1).sum().gradient(x)[0]
    actual = (slope * Tensor(weights)).sum().gradient(x)[0]
    assert np.allclose(slope.numpy(), first.detach().numpy())
    assert np.allclose(actual.numpy(), expected.detach().numpy())
    actual = (actual * Tensor(weights)).sum().gradient(x)[0]
    assert np.allclose(actual.numpy(), third.numpy())


@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 1), ((3, 0), 1), ((2, 0, 1), (0, 2))])
def test_the_second_gradient_of_a_product_of_nothing_has_its_shape(shape, axis) -> None:
    x = Tensor.zeros(*shape, requires_grad=True)
    (first,) = x.prod(axis).sum().gradient(x)
    (second,) = first.square().sum().gradient(x)
    assert second.numpy().shape == shape
