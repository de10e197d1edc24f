"""Compute the kernels of `corpus/data/models.json`: the networks of the model level.

This command writes the file again:

`tinyref fuzz harvest fuzz/tinyref_fuzz/generate/corpus/models.py --max-nodes 100 --out FILE`

The program trains each network for two steps, then runs layers and functions that no network has.
Batches are so small that the interpreter runs every kernel quickly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from tinyref import Device, Tensor, nn
from tinyref_spec.bits import Array
from tinyref_spec.model import experiments
from tinyref_spec.model.experiments import EXPERIMENTS, TrainingExperiment

# Number of samples in a batch, where it is not `BATCH`.
BATCHES = {"digits_conv": 1}
BATCH = 4
# Arguments of networks that are smaller here than in the experiments.
ARGUMENTS = {
    "transformer_copy": (10, 10, 8, 2, 1),
    "transformer_add": (10, 7, 8, 4, 2),
}
OPTIMISERS: Mapping[str, Callable[[list[Tensor]], nn.optim.Optimizer]] = {
    "digits_mlp": lambda parameters: nn.optim.Adam(parameters, lr=0.01),
    "digits_conv": lambda parameters: nn.optim.SGD(parameters, 0.1, momentum=0.9),
    "residual": lambda parameters: nn.optim.AdamW(parameters, lr=0.01),
    "lstm": lambda parameters: nn.optim.SGD(parameters, 0.1),
    "transformer_copy": lambda parameters: nn.optim.Adam(parameters, lr=0.01),
    "transformer_add": lambda parameters: nn.optim.SGD(parameters, 0.1),
}


def small(experiment: TrainingExperiment) -> TrainingExperiment:
    """Return the same experiment with a few samples."""

    def batch() -> tuple[Array, Array]:
        inputs, targets = experiment.batch()
        # The first axis of the LSTM's input is its steps; it has few samples anyway.
        if experiment.name == "lstm":
            return inputs, targets
        batch_size = BATCHES.get(experiment.name, BATCH)
        return inputs[:batch_size], targets[:batch_size]

    arguments = ARGUMENTS.get(experiment.name, experiment.arguments)
    return dataclasses.replace(experiment, arguments=arguments, batch=batch)


def train(experiment: TrainingExperiment) -> None:
    """Train for two steps: the second uses the optimiser's state from the first."""
    network, state = experiments.make(experiment, Device.canonical(None))
    optimiser = OPTIMISERS[experiment.name](
        [tensor for tensor in state.values() if tensor.requires_grad]
    )
    x, y = (Tensor(part) for part in experiment.batch())
    with Tensor.train():
        for _ in range(2):
            optimiser.zero_grad()
            loss = experiments.loss_of(experiment, network(x), y)
            loss.backward()
            optimiser.step()
            loss.item()
    network(x).realize()


def draw_parameter(*shape: int) -> Tensor:
    """Return a tensor that has a gradient."""
    random = np.random.default_rng(len(shape))
    return Tensor(random.standard_normal(shape).astype(np.float32), requires_grad=True)


def layers() -> None:
    """Run layers and functions that no network has, forward and backward."""
    image, row = draw_parameter(2, 4, 6, 6), draw_parameter(3, 8)
    tokens = Tensor(np.array([[0, 3, 1], [4, 4, 2]], np.int32))
    for result in (
        nn.GroupNorm(2, 4)(image),
        nn.InstanceNorm(4)(image),
        nn.RMSNorm(8)(row),
        nn.ConvTranspose2d(4, 2, 3, stride=2)(image),
        nn.Conv2d(4, 4, 3, padding=1, stride=2, groups=2)(image),
        nn.Conv1d(3, 2, 3, dilation=2)(row.reshape(1, 3, 8)),
        nn.Embedding(5, 4)(tokens),
        image.max_pool2d(2),
        image.avg_pool2d(3, stride=1),
        row.softmax(),
        row.log_softmax(0),
        row.gelu(),
        row.std(1),
        row.cumsum(1),
        draw_parameter(2, 2, 5, 4).scaled_dot_product_attention(
            draw_parameter(2, 2, 5, 4), draw_parameter(2, 2, 5, 4)
        ),
        row.half() @ row.half().T,
    ):
        result.float().square().mean().backward()
        result.realize(*(leaf.grad for leaf in (image, row) if leaf.grad is not None))
        image.grad = row.grad = None
    Tensor.realize(*row.sort(1), row.argmax(1), (row > 0).any(), row.int() % 3)
    Tensor.rand(3, 4).realize()


if __name__ == "__main__":
    for experiment in EXPERIMENTS:
        train(small(experiment))
    layers()
