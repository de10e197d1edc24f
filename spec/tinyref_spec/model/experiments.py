"""Short trainings with known losses: the same network in torch, in float64.

`expected.json` holds the results of torch; a test computes them again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyref_spec.bits import Array
from tinyref_spec.model.data import copies, digits, sums

if TYPE_CHECKING:
    from tinyref import Tensor

STEPS = 10


@dataclass(frozen=True)
class TrainingExperiment:
    """A network, the batch that it learns, and how.

    network: the name of its class in `networks`, also of its torch version. arguments: of that
    class. batch: input and target. loss: "classes" (cross entropy over the last axis, or axis 1 of
    two) or "squares" (their mean). rate: of gradient descent. roundings: allowed error in roundings
    of the largest value, for the output and for the loss after each step.
    """

    name: str
    sentence: str
    network: str
    arguments: tuple[int, ...]
    batch: Callable[[], tuple[Array, Array]]
    loss: str
    rate: float
    roundings: int = 1000


@dataclass(frozen=True)
class TorchResults:
    """Results of torch: the first output values, the norm of each gradient, the losses."""

    output: list[float]
    gradients: Mapping[str, float]
    losses: list[float]


@functools.cache
def expected_records() -> dict[str, TorchResults]:
    """Return the records by the name of the experiment."""
    text = (resources.files("tinyref_spec.model") / "expected.json").read_text()
    return {name: TorchResults(**entry) for name, entry in json.loads(text).items()}


def _digit_batch() -> tuple[Array, Array]:
    images, labels = digits()
    return images[:32], labels[:32]


def _noise(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def _image_batch() -> tuple[Array, Array]:
    return _noise(4, 4, 6, 6), np.abs(_noise(4, 4, 6, 6))


def _sequence_batch() -> tuple[Array, Array]:
    return _noise(5, 4, 3), _noise(4, 2)


def _next_tokens(rows: Array) -> tuple[Array, Array]:
    return rows[:, :-1], rows[:, 1:]


EXPERIMENTS = (
    TrainingExperiment(
        "digits_mlp",
        "A network of two layers learns digits as it does in float64.",
        "DigitsMlp",
        (),
        _digit_batch,
        "classes",
        0.5,
    ),
    TrainingExperiment(
        "digits_conv",
        "A network of two convolutions learns digits as it does in float64.",
        "DigitsConv",
        (),
        _digit_batch,
        "classes",
        0.2,
    ),
    TrainingExperiment(
        "residual",
        "A residual block with batch norms learns as it does in float64.",
        "ResidualBlock",
        (4,),
        _image_batch,
        "squares",
        0.5,
        10_000,
    ),
    TrainingExperiment(
        "lstm",
        "An LSTM over five steps learns as it does in float64.",
        "Lstm",
        (3, 6, 2),
        _sequence_batch,
        "squares",
        0.5,
    ),
    TrainingExperiment(
        "transformer_copy",
        "A transformer learns to copy as it does in float64.",
        "Transformer",
        (10, 10, 16, 2, 1),
        lambda: _next_tokens(copies(0, 8)),
        "classes",
        0.2,
        10_000,
    ),
    TrainingExperiment(
        "transformer_add",
        "A transformer of two blocks learns to add as it does in float64.",
        "Transformer",
        (10, 7, 16, 4, 2),
        lambda: _next_tokens(sums(0, 8)),
        "classes",
        0.2,
        10_000,
    ),
)


def make(experiment: TrainingExperiment, device: str) -> tuple[Any, dict[str, Tensor]]:
    """Return the network on `device` with the experiment's weights, and its state by name."""
    from tinyref import Tensor
    from tinyref.nn.state import get_state_dict
    from tinyref_spec.model import networks

    network = getattr(networks, experiment.network)(*experiment.arguments)
    state = get_state_dict(network)
    values = networks.weights({name: tensor.shape for name, tensor in state.items()})
    for name, tensor in state.items():
        drawn = Tensor(values[name], device=device, dtype=tensor.dtype)
        tensor.replace(drawn).requires_grad_(tensor.dtype.is_float and "running" not in name)
    return network, state


def loss_of(experiment: TrainingExperiment, output: Tensor, target: Tensor) -> Tensor:
    """Return the loss of an output."""
    if experiment.loss == "squares":
        return (output - target).square().mean()
    return output.reshape(-1, output.shape[-1]).cross_entropy(target.reshape(-1))
