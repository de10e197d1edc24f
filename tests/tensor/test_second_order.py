"""Gradients of gradients of windows, norms, losses and sums of products, against torch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from tinyref import Tensor


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


CLASSES = np.array([1, 0, 3], np.int32)
CASES = {
    "softmax": (lambda x: x.softmax(), lambda x: x.softmax(-1), [(3, 4)]),
    "layernorm": (lambda x: x.layernorm(), lambda x: functional.layer_norm(x, (4,)), [(3, 4)]),
    "conv2d": (
        lambda x, w: x.conv2d(w, padding=1, stride=2),
        lambda x, w: functional.conv2d(x, w, padding=1, stride=2),
        [(1, 2, 5, 5), (3, 2, 3, 3)],
    ),
    "conv_transpose2d": (
        lambda x, w: x.conv_transpose2d(w, stride=2),
        lambda x, w: functional.conv_transpose2d(x, w, stride=2),
        [(1, 2, 3, 3), (2, 2, 2, 2)],
    ),
    "log_softmax": (lambda x: x.log_softmax(), lambda x: x.log_softmax(-1), [(3, 4)]),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v),
        lambda q, k, v: (q @ k.mT / 3**0.5).softmax(-1) @ v,
        [(2, 3), (4, 3), (4, 2)],
    ),
    "cross_entropy": (
        lambda x: x.cross_entropy(Tensor(CLASSES)),
        lambda x: functional.cross_entropy(x, torch.tensor(CLASSES).long()),
        [(3, 4)],
    ),
    "binary_crossentropy_logits": (
        lambda x: x.binary_crossentropy_logits(Tensor(np.full(3, 0.3))),
        lambda x: functional.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3)),
        [(3,)],
    ),
    "interpolate": (
        lambda x: x.interpolate((5,)).square(),
        lambda x: functional.interpolate(x, (5,), mode="linear").square(),
        [(1, 1, 3)],
    ),
    "einsum": (
        lambda x, y: Tensor.einsum("ii,ij->j", x, y),
        lambda x, y: torch.einsum("ii,ij->j", x, y),
        [(3, 3), (3, 2)],
    ),
    "avg_pool2d": (
        lambda x: x.avg_pool2d((2,), ceil_mode=True).square(),
        lambda x: functional.avg_pool1d(x, 2, ceil_mode=True).square(),
        [(1, 1, 5)],
    ),
    "max_pool2d": (
        lambda x: x.max_pool2d((2,)).square(),
        lambda x: functional.max_pool1d(x, 2).square(),
        [(1, 1, 5)],
    ),
    "pad": (
        lambda x: x.pad((2, 1), mode="reflect").square(),
        lambda x: functional.pad(x, (2, 1), mode="reflect").square(),
        [(1, 1, 5)],
    ),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", CASES)
def test_second_order_agrees_with_torch(name: str) -> None:
    ours: Callable[..., Tensor]
    ours, theirs, shapes = CASES[name]
    arrays = [numbers(*shape) for shape in shapes]
    x = [Tensor(array, requires_grad=True) for array in arrays]
    y = [torch.tensor(array, requires_grad=True) for array in arrays]
    first = ours(*x).square().sum().gradient(*x)
    wanted = torch.autograd.grad(theirs(*y).square().sum(), y, create_graph=True)
    # The third power keeps every element of the first gradient in the second.
    found = sum((part * part * part).sum() for part in first).gradient(*x)
    for part, whole in zip(
        found, torch.autograd.grad(sum((part**3).sum() for part in wanted), y), strict=True
    ):
        assert np.allclose(part.numpy(), whole.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 1), ((3, 0), 1), ((2, 0, 1), (0, 2))])
def test_the_second_gradient_of_a_product_of_nothing_has_its_shape(shape, axis) -> None:
    x = Tensor.zeros(*shape, requires_grad=True)
    (first,) = x.prod(axis).sum().gradient(x)
    (second,) = first.square().sum().gradient(x)
    assert second.numpy().shape == shape
