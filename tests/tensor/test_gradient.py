"""Gradients: every rule against central differences in float64, then what the walk promises."""

import math
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from refusals import check_refusal

from tinyref import Tensor, Variable, dtypes, nn
from tinyref.errors import UserError
from tinyref.lazy import graph
from tinyref.tensor.core import apply
from tinyref.tensor.gradient import RULES, history
from tinyref.uops.ops import Ops

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.75, -0.3]])
Y = np.array([[1.1, 0.4, -0.7], [0.9, -2.5, 1.3]])
POSITIVE = np.abs(X) + 0.1
FACTORS = np.array([[2.0, 0.0, 3.0], [0.5, -1.5, 4.0]])
Function = Callable[..., Tensor]

# For each op of the gradient table, functions whose graphs contain it, and where to check them.
CASES: dict[Ops, list[tuple[str, Function, tuple[np.ndarray, ...]]]] = {
    Ops.COPY: [("to", lambda x: (x * 2).to("PYTHON") * x.to("PYTHON"), (X,))],
    Ops.MULTI: [
        ("shard", lambda x: (x * 2).shard(("CPU", "CPU:1"), 1) * x.shard(("CPU", "CPU:1")), (X,)),
        ("shard and gather", lambda x: x.shard(("CPU:1", "CPU:2"), 0).square().to("CPU") * x, (X,)),
    ],
    Ops.CONTIGUOUS: [("contiguous", lambda x: (x * x).contiguous() * x, (X,))],
    Ops.DETACH: [],
    Ops.RESHAPE: [("reshape", lambda x: x.reshape(3, 2) * Tensor(Y.reshape(3, 2)), (X,))],
    Ops.PERMUTE: [
        ("T", lambda x: x.T * Tensor(Y.T.copy()), (X,)),
        ("permute", lambda x: x.reshape(1, 2, 3).permute(2, 0, 1).square(), (X,)),
    ],
    Ops.EXPAND: [
        (
            "expand",
            lambda x: x.reshape(2, 1, 3).expand(2, 4, 3) * Tensor(np.arange(4.0)[:, None]),
            (X,),
        ),
        ("broadcast", lambda x, y: x * y[:, :1], (X, Y)),
    ],
    Ops.PAD: [
        ("pad", lambda x: x.pad(((1, 0), (2, 1))).square(), (X,)),
        ("pad value", lambda x: x.pad((1, 1), value=3.0).square(), (X,)),
    ],
    Ops.SHRINK: [
        ("shrink", lambda x: x.shrink(((1, 2), (0, 2))).square(), (X,)),
        ("index", lambda x: x[0, ::2] * x[1, ::-2], (X,)),
    ],
    Ops.FLIP: [("flip", lambda x: x.flip(1) * x, (X,))],
    Ops.NEG: [("neg", lambda x: -x * x, (X,))],
    Ops.RECIP: [("reciprocal", lambda x: x.reciprocal(), (X,))],
    Ops.SQRT: [
        ("sqrt", lambda x: x.sqrt(), (POSITIVE,)),
        ("rsqrt", lambda x: x.rsqrt(), (POSITIVE,)),
    ],
    Ops.EXP2: [("exp2", lambda x: x.exp2(), (X,)), ("exp", lambda x: x.exp(), (X,))],
    Ops.LOG2: [("log2", lambda x: x.log2(), (POSITIVE,)), ("log", lambda x: x.log(), (POSITIVE,))],
    Ops.SIN: [("sin", lambda x: x.sin(), (X,))],
    Ops.TRUNC: [
        ("trunc", lambda x: x.trunc() * x, (Y,)),
        ("floor", lambda x: x.floor() * x, (Y,)),
    ],
    Ops.ADD: [("add", lambda x, y: (x + y) * x, (X, Y))],
    Ops.SUB: [("sub", lambda x, y: (x - y) * x, (X, Y)), ("rsub", lambda x: 2 - x, (X,))],
    Ops.MUL: [("mul", lambda x, y: x * y, (X, Y)), ("cube", lambda x: x**3, (X,))],
    Ops.FDIV: [("div", lambda x, y: x / y, (X, Y)), ("rdiv", lambda x: 2 / x, (X,))],
    Ops.POW: [
        ("pow", lambda x, y: x.pow(y), (POSITIVE, Y)),
        ("to a number", lambda x: x**2.5, (POSITIVE,)),
        ("of a number", lambda x: 2.5**x, (X,)),
    ],
    Ops.MAX: [
        ("maximum", lambda x, y: x.maximum(y), (X, Y)),
        ("minimum", lambda x, y: x.minimum(y), (X, Y)),
    ],
    Ops.WHERE: [
        ("where", lambda x, y: (x > 0).where(x * y, y - x), (X, Y)),
        ("relu", lambda x: x.relu(), (X,)),
        ("cat", lambda x, y: x.cat(y, dim=1).square(), (X, Y)),
        ("stack", lambda x, y: x.stack(y, x).square(), (X, Y)),
    ],
    Ops.MULACC: [],
    Ops.CAST: [("cast", lambda x: x.cast("float32").cast("float64") * x, (np.round(X * 4) / 4,))],
    Ops.BITCAST: [],
    Ops.REDUCE: [
        ("sum", lambda x: x.sum(0).square(), (X,)),
        ("mean", lambda x: x.mean(1).square(), (X,)),
        ("max", lambda x: x.max(1) * 3, (X,)),
        ("min", lambda x: x.min(0) * 3, (X,)),
        ("prod", lambda x: x.prod(1), (X,)),
        ("prod with a zero", lambda x: x.prod(1), (FACTORS,)),
        ("prod with two zeros", lambda x: x.prod(), (FACTORS * (X > 0),)),
        ("var", lambda x: x.var(1), (X,)),
        ("std", lambda x: x.std(), (X,)),
        ("sigmoid", lambda x: x.sigmoid(), (X,)),
        ("tanh", lambda x: x.tanh(), (X,)),
        ("silu", lambda x: x.silu(), (X,)),
        ("softmax", lambda x: x.softmax(1), (X,)),
        ("log_softmax", lambda x: x.log_softmax(0), (X,)),
        ("logsumexp", lambda x: x.logsumexp(1), (X,)),
        ("matmul", lambda x, y: x @ y.T, (X, Y)),
        ("vector", lambda x, y: x @ y[0], (X, Y)),
        ("linear", lambda x, y: x.linear(y.T, y[:, 0]), (X, Y)),
        ("batched", lambda x, y: x.reshape(1, 2, 3) @ y.reshape(2, 3, 1), (X, Y)),
        (
            "conv2d",
            lambda x, y: x.reshape(1, 1, 2, 3).conv2d(
                y.reshape(1, 1, 2, 3)[..., :2], y[0, :1], padding=1, stride=(1, 2)
            ),
            (X, Y),
        ),
        ("max_pool2d", lambda x: x.reshape(1, 2, 3).max_pool2d(2, stride=1), (X,)),
        ("avg_pool2d", lambda x: x.reshape(1, 2, 3).avg_pool2d(2, padding=1), (X,)),
    ],
}
# Of these functions the gradient is not that of their ops.
BY_NAME: list[tuple[str, str, Function, tuple[np.ndarray, ...]]] = [
    ("mod", "mod", lambda x: x % 0.7, (X,)),
    ("steps", "abs", lambda x: x.abs(), (X,)),
]
PLAIN = [
    pytest.param(op, function, arrays, id=f"{op.name} {name}")
    for op, cases in CASES.items()
    for name, function, arrays in cases
] + [
    pytest.param(rule, function, arrays, id=f"{rule} {name}")
    for rule, name, function, arrays in BY_NAME
]


def weigh(result: Tensor) -> Tensor:
    """A sum in which every element counts differently."""
    weights = np.linspace(0.5, 1.7, result.numel()).reshape(result.shape)
    return (result * Tensor(weights, device=result.device)).sum()


def differences(function: Function, arrays: tuple[np.ndarray, ...], place: int) -> np.ndarray:
    """Central differences of `weigh(function(...))` in the elements of one argument."""
    step = 1e-5
    slopes = np.zeros(arrays[place].size)
    for element in range(slopes.size):
        ends = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[place].reshape(-1)[element] += sign * step
            ends.append(weigh(function(*(Tensor(array) for array in moved))).item())
        slopes[element] = (ends[0] - ends[1]) / (2 * step)
    return slopes.reshape(arrays[place].shape)


@pytest.mark.sampled(11)
@pytest.mark.parametrize(("op", "function", "arrays"), PLAIN)
def test_every_rule_agrees_with_differences(
    op: Ops | str, function: Function, arrays: tuple[np.ndarray, ...]
) -> None:
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    loss = weigh(function(*tensors))
    used = {value.record.rule for value in history(loss) if value.record is not None}
    assert op in used
    loss.backward()
    for place, tensor in enumerate(tensors):
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape
        # Through float32 a difference has fewer digits.
        if op is Ops.CAST:
            expected = 2 * arrays[place] * np.linspace(0.5, 1.7, 6).reshape(2, 3)
        else:
            expected = differences(function, arrays, place)
        assert np.allclose(tensor.grad.numpy(), expected, rtol=1e-6, atol=1e-8)


def test_the_table_has_a_case_for_every_rule() -> None:
    assert set(CASES) == {key for key in RULES if isinstance(key, Ops)}
    without = {op for op, cases in CASES.items() if not cases}
    # DETACH and BITCAST stop gradients, MULACC is built by no Tensor function: tests below.
    assert without == {Ops.DETACH, Ops.BITCAST, Ops.MULACC}


def test_the_rule_of_mulacc() -> None:
    x, y, z = (Tensor([value]) for value in (2.0, 3.0, 4.0))
    fused = apply(x, Ops.MULACC, y, z)
    assert fused.item() == 10.0
    assert [part.item() for part in fused.sum().gradient(x, y, z)] == [3.0, 2.0, 1.0]


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


SMOOTH: list[tuple[str, Function, np.ndarray]] = [
    ("cube", lambda x: x * x * x, X),
    ("exp", lambda x: x.exp(), X),
    ("log", lambda x: x.log(), POSITIVE),
    ("sqrt", lambda x: x.sqrt(), POSITIVE),
    ("sin", lambda x: x.sin(), X),
    ("div", lambda x: 1 / x, X),
    ("pow", lambda x: x**2.5, POSITIVE),
    ("sigmoid", lambda x: x.sigmoid(), X),
    ("softmax", lambda x: x.softmax(1), X),
    ("prod", lambda x: x.prod(1), X),
    ("matmul", lambda x: x @ x.T, X),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "function", "array"), SMOOTH, ids=[case[0] for case in SMOOTH])
def test_second_order(name: str, function: Function, array: np.ndarray) -> None:
    def slope(x: Tensor) -> Tensor:
        return weigh(function(x)).gradient(x)[0]

    tensor = Tensor(array)
    second = weigh(slope(tensor)).gradient(tensor)[0]
    assert np.allclose(second.numpy(), differences(slope, (array,), 0), rtol=1e-5, atol=1e-7)


def test_tanh_has_the_right_slope_on_both_branches() -> None:
    x = Tensor([-30.0, -1.0, -0.5, 0.0, 1e-3, 0.7, 40.0, math.inf], dtype="float64")
    found = x.tanh().sum().gradient(x)[0].numpy()
    assert np.allclose(found, 1 - np.tanh(x.numpy()) ** 2, rtol=1e-12, atol=1e-15)


def test_slopes_far_out_are_finite() -> None:
    x = Tensor([-200.0, 200.0])
    for name in ("sigmoid", "tanh", "silu", "softmax", "log_softmax", "logsumexp"):
        found = getattr(x, name)().sum().gradient(x)[0].numpy()
        assert np.isfinite(found).all(), name


@pytest.mark.parametrize(
    ("function", "given", "slope"),
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
    ],
)
def test_conventions_at_corners(function: Function, given: list[float], slope: list[float]) -> None:
    x = Tensor(given)
    assert np.allclose(function(x).sum().gradient(x)[0].tolist(), slope, atol=1e-33)


def test_the_slope_of_zero_to_a_power() -> None:
    x, y = Tensor([0.0, 0.0]), Tensor([2.0, 0.0])
    assert x.pow(y).sum().gradient(y)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_gradients_have_the_type_of_their_tensor(dtype: str) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    (x @ x + x.exp().softmax() + x.float()).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype.name == dtype


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
    """A seed, and two gradients that have its elements."""
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
    (found,) = total.gradient(x)
    assert (found.tolist(), found.device) == ([7.0, 7.0], x.device)
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
    assert [each.tolist() for each in (first, second, seed)] == [[9, 4], [3, 4], [3, 4]]
    write(seed)
    assert [each.tolist() for each in (first, second, seed)] == [[9, 4], [3, 4], [9, 4]]


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


def test_backward_after_realising_parts() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    hidden = (x * x).realize()
    loss = (hidden * hidden).sum().realize()
    assert loss.item() == 17.0
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 32.0]


def test_gradient_of_intermediate_tensors() -> None:
    x = Tensor([3.0])
    square = x * x
    cube = square * x
    by_square, by_x = cube.sum().gradient(square, x)
    assert (by_square.item(), by_x.item()) == (3.0, 27.0)
    assert cube.sum().gradient(square, x, gradient=Tensor(10.0))[1].item() == 270.0
    assert cube.gradient(x, gradient=Tensor([2.0]))[0].item() == 54.0
    assert cube.sum().gradient() == []


def test_backward_with_a_given_gradient() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).backward(gradient=Tensor([1, 10]))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 40.0]


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
    with pytest.raises(UserError, match="nothing that this tensor was computed from"):
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


@pytest.mark.long
def test_deep_graphs_need_no_recursion() -> None:
    x = Tensor(1.0, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + x
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 3001.0


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tensor([1.0], requires_grad=True).backward(), ["backward", "(1,)", "gradient="]),
        (lambda: Tensor(1.0).backward(), ["backward", "requires grad"]),
        (lambda: Tensor(1).backward(), ["backward", "int32"]),
        (
            lambda: (Tensor([1.0], requires_grad=True) * 2).backward(Tensor([1.0, 2.0])),
            ["backward", "(2,)", "(1,)"],
        ),
        (lambda: Tensor(1.0).gradient(Tensor(2.0)), ["gradient", "target 0", "materialize_grads"]),
        (lambda: Tensor([1]).sum().gradient(Tensor(2.0)), ["gradient", "int32"]),
        (lambda: Tensor([1.0]).requires_grad_().int().requires_grad_(), ["requires_grad", "int32"]),
        (lambda: Tensor(1.0).gradient("x"), ["gradient", "target 0", "str", "Tensors"]),
        (lambda: Tensor(1.0).gradient(gradient=1.0), ["gradient", "float", "Tensor of ()"]),
        (lambda: setattr(Tensor([1.0]), "grad", [1.0]), ["grad", "list", "Tensor"]),
        (lambda: setattr(Tensor([1.0]), "grad", Tensor([1.0, 2.0])), ["grad", "(2,)", "(1,)"]),
    ],
)
def test_errors_name_the_argument(make: Callable[[], object], words: list[str]) -> None:
    check_refusal(words, make)


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
    assert dtypes.float32 is x.dtype
    assert graph.device_of(x.node) == "CPU"
