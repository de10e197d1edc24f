"""Test layers and their gradients against torch with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from refusals import check_refusal

from tinyref import Tensor, Variable, nn
from tinyref.errors import UserError
from tinyref.uops.node import toposort

GENERATOR = np.random.default_rng(11)


def images(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def test_batchnorm_tracks_the_unbiased_variance_of_a_symbolic_batch() -> None:
    ours, theirs = nn.BatchNorm(3), torch.nn.BatchNorm2d(3)
    size = Variable("batches", 1, 4)
    values = images(4, 3, 1, 2)
    with Tensor.train():
        for count in (3, 2):
            ours(Tensor(values)[: size.bind(count)]).realize()
            theirs(torch.tensor(values[:count]))
    np.testing.assert_allclose(ours.running_var.numpy(), theirs.running_var.numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_batchnorm_of_narrow_floats_that_lie_far_apart(dtype: str) -> None:
    values = images(4, 3, 2, 2) * 500 + 1000
    narrow = Tensor(values).cast(dtype)
    layer, other = nn.BatchNorm(3), torch.nn.BatchNorm2d(3).double()
    with Tensor.train():
        normed = layer(narrow)
    expected = other(torch.tensor(narrow.cast("float64").numpy())).detach().numpy()
    assert normed.dtype is narrow.dtype
    np.testing.assert_allclose(normed.float().numpy(), expected, atol=0.02)
    np.testing.assert_allclose(layer.running_var.numpy(), other.running_var.numpy(), rtol=1e-4)


def test_initial_weights_lie_within_their_limits() -> None:
    Tensor.manual_seed(3)
    weight = nn.Linear(100, 50).weight.numpy()
    assert np.abs(weight).max() <= 0.1
    assert np.abs(weight).max() > 0.099
    assert nn.Conv2d(4, 2, 5).weight.shape == (2, 4, 5, 5)
    assert np.abs(nn.Conv2d(4, 2, 5).weight.numpy()).max() <= 0.1
    assert np.abs(nn.Embedding(10, 20).weight.numpy()).max() <= (6 / 30) ** 0.5


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "linear_size": (lambda: nn.Linear(0, 3), "Linear: in_features 0, accepted is at least 1"),
    "linear_input": (
        lambda: nn.Linear(4, 3)(Tensor.ones(2, 5)),
        "shapes (2, 5) and (4, 3)",
    ),
    "conv_groups": (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d: 2 groups do not divide"),
    "conv_padding": (lambda: nn.Conv2d(3, 4, 3, padding="full"), "Conv2d: padding 'full'"),
    "conv_same": (lambda: nn.Conv2d(3, 4, 3, 2, "same"), "Conv2d: padding 'same' with stride 2"),
    "conv_kernel": (lambda: nn.Conv2d(3, 4, (1, 1, 1, 1)), "Conv2d: kernel_size"),
    "transpose_groups": (
        lambda: nn.ConvTranspose2d(3, 4, 3, groups=2),
        "ConvTranspose2d: 2 groups do not divide",
    ),
    "batchnorm": (lambda: nn.BatchNorm(3)(Tensor.ones(2, 4, 5)), "BatchNorm: input"),
    "conv_none": (lambda: nn.Conv2d(3, 4, None), "Conv2d: kernel_size: got None"),
    "momentum": (lambda: nn.BatchNorm(3, momentum=None), "BatchNorm: momentum: got None"),
    "momenta": (lambda: nn.BatchNorm(3, momentum=1.5), "BatchNorm: momentum: got 1.5"),
    "layernorm_none": (lambda: nn.LayerNorm(None), "LayerNorm: normalized_shape: got None"),
    "layernorm_empty": (lambda: nn.LayerNorm(()), "LayerNorm: normalized_shape: got none"),
    "groupnorm": (lambda: nn.GroupNorm(4, 6), "GroupNorm: 4 groups do not divide 6 channels"),
    "layernorm": (lambda: nn.LayerNorm((3, 4))(Tensor.ones(2, 4)), "LayerNorm: input"),
    "layernorm2d": (lambda: nn.LayerNorm2d(3)(Tensor.ones(2, 3)), "LayerNorm2d: input"),
    "rmsnorm": (lambda: nn.RMSNorm(3)(Tensor.ones(2, 4)), "RMSNorm: input"),
    "lstm": (lambda: nn.LSTMCell(3, 4)(Tensor.ones(3)), "LSTMCell: input"),
    "lstm_state": (lambda: nn.LSTMCell(3, 4)(Tensor.ones(2, 3), (1, 2)), "LSTMCell: hc"),
    "embedding": (lambda: nn.Embedding(3, 4)(Tensor([0.5])), "Embedding: got float32"),
}


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_wrong_calls_say_what_is_accepted(call: Callable[[], object], words: str) -> None:
    check_refusal([words], call)


@pytest.mark.long
def test_statistics_that_nothing_reads_do_not_pile_up():
    norm = nn.BatchNorm(2)
    values = np.random.default_rng(1).normal(size=(40, 3, 2)).astype(np.float32)
    with Tensor.train():
        for batch in values:
            norm(Tensor(batch))
    below = toposort([norm.num_batches_tracked.node, norm.running_mean.node])
    assert len(below) < 200
    assert norm.num_batches_tracked.item() == 40
    expected = np.zeros(2)
    for batch in values:
        expected = 0.9 * expected + 0.1 * batch.mean(axis=0)
    np.testing.assert_allclose(norm.running_mean.numpy(), expected, atol=1e-5)


LAYERS: dict[str, Callable[[], Any]] = {
    "Linear(3, 4)": lambda: nn.Linear(3, 4),
    "Linear(3, 4, bias=False)": lambda: nn.Linear(3, 4, bias=False),
    "Embedding(5, 2)": lambda: nn.Embedding(5, 2),
    "Conv2d(3, 4, (3, 3), padding=1)": lambda: nn.Conv2d(3, 4, 3, padding=1),
    "Conv2d(2, 4, (3,), stride=2, bias=False)": lambda: nn.Conv1d(2, 4, 3, 2, bias=False),
    "ConvTranspose2d(2, 4, (3, 3))": lambda: nn.ConvTranspose2d(2, 4, 3),
    "BatchNorm(3, affine=False, momentum=0.2)": lambda: nn.BatchNorm(3, affine=False, momentum=0.2),
    "GroupNorm(2, 4)": lambda: nn.GroupNorm(2, 4),
    "InstanceNorm(3, affine=False)": lambda: nn.InstanceNorm(3, affine=False),
    "LayerNorm((3, 4), eps=0.001)": lambda: nn.LayerNorm((3, 4), eps=1e-3),
    "LayerNorm2d((3,))": lambda: nn.LayerNorm2d(3),
    "RMSNorm(4)": lambda: nn.RMSNorm(4),
    "LSTMCell(2, 3, bias=False)": lambda: nn.LSTMCell(2, 3, bias=False),
}


@pytest.mark.parametrize("text", LAYERS)
def test_the_repr_of_a_layer_is_a_call_that_makes_one(text: str) -> None:
    assert repr(LAYERS[text]()) == text
    assert repr(eval(text, vars(nn).copy())) == text


def test_the_repr_of_a_layer_of_ones_own() -> None:
    class Scaled(nn.Linear):
        def __init__(self, size: int, factor: float = 1.0, *, hidden: str = "") -> None:
            super().__init__(size, size)
            self.size, self.factor = size, factor

    assert repr(Scaled(3, 0.5)) == "Scaled(3, factor=0.5)"


@pytest.mark.parametrize("text", LAYERS)
def test_an_input_that_is_no_tensor_is_a_type_error(text: str) -> None:
    for wrong in ([[1.0, 2.0]], np.ones((2, 3), np.float32), None, "x"):
        with pytest.raises(TypeError, match=r"accepted is a Tensor") as raised:
            LAYERS[text]()(wrong)
        assert isinstance(raised.value, UserError)
