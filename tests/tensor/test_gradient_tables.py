"""Gradients of gradients against torch, in float64; gradients of every table by differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tinyref import Tensor, dtypes
from tinyref_spec.tensor.forms import Form
from tinyref_spec.tensor.rows import FUNCTIONS
from tinyref_spec.tensor.run import evaluate, inputs_of, names_of

F = torch.nn.functional
X = np.array([[0.5, -0.75, 0.9], [0.3, 0.75, -0.3]])
POSITIVE = np.abs(X) + 1.25
# Expressions that tinyref and torch share, or one of each.
SAME = (
    "x.sin()",
    "x.cos()",
    "x.tan()",
    "x.asin()",
    "x.acos()",
    "x.atan()",
    "x.sinh()",
    "x.cosh()",
    "x.asinh()",
    "x.atanh()",
    "x.tanh()",
    "x.exp()",
    "x.exp2()",
    "x.erf()",
    "x.sigmoid()",
    "x.softmax(1)",
    "x.log_softmax(1)",
    "x.logsumexp(1)",
    "x.square()",
    "x ** 3",
    "x.prod(1)",
    "x.var(1)",
    "x.std(0)",
    "x @ x.T",
    "x.mean(0)",
    "x.reciprocal()",
    "x * x.sin()",
    "1 / x",
    "x.max(1, keepdim=True) * x",
    "x.reshape(3, 2).T * x",
    "x.abs()",
    "x.sum(0) * x",
    "x % 0.7",
)
ON_POSITIVE = (
    "x.log()",
    "x.log10()",
    "x.log2()",
    "x.sqrt()",
    "x.rsqrt()",
    "x ** 2.5",
    "x.acosh()",
    "2.5 ** x",
)
OTHER = (
    ("x.gelu()", "F.gelu(x, approximate='tanh')"),
    ("x.quick_gelu()", "x * torch.sigmoid(1.702 * x)"),
    ("x.silu()", "F.silu(x)"),
    ("x.mish()", "F.mish(x)"),
    ("x.softplus(2)", "F.softplus(x, 2)"),
    ("x.elu(0.5)", "F.elu(x, 0.5)"),
    ("x.celu(2.0)", "F.celu(x, 2.0)"),
    ("x.selu()", "1.0507 * F.elu(x, 1.67326)"),
    ("x.softsign()", "F.softsign(x)"),
    ("x.hardswish()", "F.hardswish(x)"),
    ("x.leaky_relu()", "F.leaky_relu(x)"),
    ("x.relu() * x", "x.relu() * x"),
    ("x.maximum(0.2) * x", "x.clamp(min=0.2) * x"),
    ("x.contiguous_backward() * x", "x * x"),
    ("x.lerp(x * x, x)", "torch.lerp(x, x * x, x)"),
    ("x.gelu(approximate='none')", "F.gelu(x)"),
    ("x.logsigmoid()", "F.logsigmoid(x)"),
    ("x.logaddexp(x.square())", "torch.logaddexp(x, x.square())"),
    ("x.normalize()", "F.normalize(x)"),
    ("x.fmod(0.7) * x", "x.fmod(0.7) * x"),
)
TABLE = [
    *[(expression, expression, X) for expression in SAME],
    *[(expression, expression, POSITIVE) for expression in ON_POSITIVE],
    *[(ours, theirs, X) for ours, theirs in OTHER],
]


def second_order_of_torch(expression: str, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    x = torch.tensor(data, requires_grad=True)
    y = eval(expression, {"F": F, "torch": torch}, {"x": x})
    y = (
        y[0]
        if isinstance(y, tuple)
        else y.values
        if hasattr(y, "values") and not callable(y.values)
        else y
    )
    first = torch.autograd.grad((y * y).sum(), x, create_graph=True)[0]
    return torch.autograd.grad((first * torch.tensor(weights)).sum(), x)[0].numpy()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("ours", "theirs", "data"), TABLE, ids=[row[0] for row in TABLE])
def test_second_order(ours: str, theirs: str, data: np.ndarray) -> None:
    weights = np.random.default_rng(1).standard_normal(data.shape)
    theirs = theirs.replace("x.max(1, keepdim=True)", "x.amax(1, keepdim=True)")
    wanted = second_order_of_torch(theirs, data, weights)
    x = Tensor(data).requires_grad_()
    y = eval(ours, {}, {"x": x})
    first = (y * y).sum().gradient(x)[0]
    found = (first * Tensor(weights)).sum().gradient(x)[0].numpy()
    assert np.allclose(found, wanted, rtol=1e-10, atol=1e-10)


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
    wanted = torch.autograd.grad((first * torch.tensor(weights)).sum(), theirs, create_graph=True)[
        0
    ]
    third = torch.autograd.grad((wanted * torch.tensor(weights)).sum(), theirs)[0]
    x = Tensor(data).requires_grad_()
    slope = x.prod(1).sum().gradient(x)[0]
    found = (slope * Tensor(weights)).sum().gradient(x)[0]
    assert np.allclose(slope.numpy(), first.detach().numpy())
    assert np.allclose(found.numpy(), wanted.detach().numpy())
    found = (found * Tensor(weights)).sum().gradient(x)[0]
    assert np.allclose(found.numpy(), third.numpy())


def test_second_order_of_a_product_over_two_axes() -> None:
    data = np.array([[[1.0, 0.0], [2.0, 3.0]], [[0.5, 4.0], [0.0, 0.0]]])
    x, theirs = Tensor(data).requires_grad_(), torch.tensor(data, requires_grad=True)
    product = theirs[:, :, 0] * theirs[:, :, 1]
    first = torch.autograd.grad((product[0] * product[1]).sum(), theirs, create_graph=True)[0]
    wanted = torch.autograd.grad((first * first.detach() + first).sum(), theirs)[0]
    slope = x.prod((0, 2)).sum().gradient(x)[0]
    found = (slope * slope.detach() + slope).sum().gradient(x)[0]
    assert np.allclose(found.numpy(), wanted.numpy())


# The tables by central differences

STEP = 1e-5
DIFFERENTIABLE = [
    pytest.param(form, id=f"{function.name}-{number}")
    for function in FUNCTIONS
    if dtypes.float64 in function.dtypes
    for number, form in enumerate(function.forms)
    if form.has_gradient and form.output(dtypes.float64) is dtypes.float64
    # Small integers are for ties, where there is no slope.
    if all(item.kind != "small" and 0 not in item.shape for item in form.inputs)
]


def slopes(compute: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Differences of `compute` for each element; half of the elements of a large array."""
    found = np.full(at.shape, np.nan)
    for place, index in enumerate(np.ndindex(at.shape)):
        if place % max(1, at.size // 8):
            continue
        sides = []
        for step in (STEP, -STEP):
            moved = at.copy()
            moved[index] += step
            sides.append(compute(moved))
        found[index] = (sides[0] - sides[1]) / (2 * STEP)
    return found


@pytest.mark.sampled(40)
@pytest.mark.parametrize("form", DIFFERENTIABLE)
def test_gradients_are_slopes(form: Form) -> None:
    arrays = inputs_of(form, dtypes.float64, 3)
    names = names_of(arrays, dtypes.float64, "CPU")
    asked = [item.name for item in form.inputs if item.is_differentiable]
    for name in asked:
        names[name].requires_grad_()
    result = evaluate(form.expression, names)
    weights = np.random.default_rng(4).standard_normal(result.shape)
    gradients = result.gradient(*[names[name] for name in asked], gradient=Tensor(weights))
    for name, gradient in zip(asked, gradients, strict=True):

        def total(moved: np.ndarray, name: str = name) -> float:
            given = names_of({**arrays, name: moved}, dtypes.float64, "CPU")
            for each in asked:
                given[each].requires_grad_()
            return float((evaluate(form.expression, given).numpy() * weights).sum())

        wanted = slopes(total, arrays[name])
        known = ~np.isnan(wanted)
        assert known.any()
        assert np.allclose(gradient.numpy()[known], wanted[known], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("length", [5000])
def test_a_long_chain(length: int) -> None:
    x = Tensor([1.0, 2.0], dtype=dtypes.float64).requires_grad_()
    y = x
    for number in range(length):
        y = y + 0.001 if number % 2 else y * 1.0001
    y.sum().backward()
    assert x.grad is not None
    assert np.allclose(x.grad.numpy(), 1.0001 ** (length // 2), rtol=1e-9)
