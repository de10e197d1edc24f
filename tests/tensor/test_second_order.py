"""Gradients of gradients against torch, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tinyref import Tensor

F = torch.nn.functional
Arrays = dict[str, np.ndarray]
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
    "x.softmax(1)",
    "x.logsumexp(1)",
    "x ** 3",
    "x.prod(1)",
    "x.cumsum(1)",
    "x.cumprod(1)",
    "x.logcumsumexp(1)",
    "x.var(1)",
    "x.std(0)",
    "x @ x.T",
    "x.reciprocal()",
    "x * x.sin()",
    "x.abs()",
    "x.sum(0) * x",
    "x % 0.7",
)
ON_POSITIVE = (
    "x.log10()",
    "x.log2()",
    "x.sqrt()",
    "x.rsqrt()",
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
    ("x.avg_pool2d((2,), ceil_mode=True)", "F.avg_pool1d(x, 2, ceil_mode=True)"),
    (
        "x.binary_crossentropy_logits(x.full_like(0.3))",
        "F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3))",
    ),
    ("x.softplus(2)", "F.softplus(x, 2)"),
    ("x.celu(2.0)", "F.celu(x, 2.0)"),
    ("x.relu() * x", "x.relu() * x"),
    ("x.maximum(0.2) * x", "x.clamp(min=0.2) * x"),
    ("x.contiguous_backward() * x", "x * x"),
    ("x.lerp(x * x, x)", "torch.lerp(x, x * x, x)"),
    ("x.gelu(approximate='none')", "F.gelu(x)"),
    ("x.logaddexp(x.square())", "torch.logaddexp(x, x.square())"),
    ("x.normalize()", "F.normalize(x)"),
    ("x.fmod(0.7) * x", "x.fmod(0.7) * x"),
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
    wanted = torch.autograd.grad((expected * expected).sum(), y.values(), create_graph=True)
    # The third power keeps every element of the first gradient in the second.
    second = sum((part * part * part).sum() for part in first).gradient(*x.values())
    wanted = torch.autograd.grad(sum((part**3).sum() for part in wanted), y.values())
    for part, other in zip(second, wanted, strict=True):
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


@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 1), ((3, 0), 1), ((2, 0, 1), (0, 2))])
def test_the_second_gradient_of_a_product_of_nothing_has_its_shape(shape, axis) -> None:
    x = Tensor.zeros(*shape, requires_grad=True)
    (first,) = x.prod(axis).sum().gradient(x)
    (second,) = first.square().sum().gradient(x)
    assert second.numpy().shape == shape
