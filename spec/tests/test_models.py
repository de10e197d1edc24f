"""The record of the model level is what torch computes in float64 with the same weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  its usual name
import torch_networks

from tinyref import Tensor
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.model import data, experiments
from tinyref_spec.model import rows as model_rows
from tinyref_spec.model.experiments import EXPERIMENTS, STEPS, TrainingExperiment
from tinyref_spec.model.networks import weights

RECORD = Path(experiments.__file__).with_name("expected.json")


def trained(experiment: TrainingExperiment) -> experiments.TorchResults:
    network = getattr(torch_networks, experiment.network)(*experiment.arguments).double()
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    drawn = {name: torch.tensor(value) for name, value in weights(shapes).items()}
    network.load_state_dict(drawn)
    x, y = (torch.tensor(part) for part in experiment.batch())
    x, y = (part.double() if part.is_floating_point() else part.long() for part in (x, y))
    optimiser = torch.optim.SGD(network.parameters(), experiment.rate)
    outputs, losses = [], []
    gradients: dict[str, float] = {}
    for _ in range(STEPS):
        output = network(x)
        if experiment.loss == "squares":
            loss = (output - y).square().mean()
        else:
            loss = F.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1))
        optimiser.zero_grad()
        loss.backward()
        if not losses:
            outputs = output.detach().flatten()[:64].tolist()
            gradients = {
                name: float(parameter.grad.norm()) for name, parameter in network.named_parameters()
            }
        optimiser.step()
        losses.append(loss.item())
    return experiments.TorchResults(outputs, gradients, losses)


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda item: item.name)
def test_the_record_is_what_torch_gives(experiment: TrainingExperiment) -> None:
    losses, recorded = trained(experiment), experiments.expected_records()[experiment.name]
    np.testing.assert_allclose(losses.output, recorded.output, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(losses.losses, recorded.losses, rtol=1e-9)
    assert losses.gradients.keys() == recorded.gradients.keys()
    for name, norm in losses.gradients.items():
        assert norm == pytest.approx(recorded.gradients[name], rel=1e-9, abs=1e-12)
    # It is a training: the loss falls.
    assert recorded.losses[-1] < 0.97 * recorded.losses[0]


@pytest.mark.slow
def test_the_digits_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn ships the digits")
    theirs = datasets.load_digits()
    images, labels = data.digits()
    order = np.random.default_rng(2024).permutation(1797)
    np.testing.assert_array_equal(images * 16, theirs.images[order])
    np.testing.assert_array_equal(labels, theirs.target[order])


BROKEN = {
    "gelu": ("transformer_copy", "gelu", lambda x: x.relu()),
    "norm": ("transformer_copy", "layernorm", lambda x, *_: x - x.mean(-1, keepdim=True)),
    "pool": ("digits_conv", "max_pool2d", lambda x: x.avg_pool2d()),
    "gate": ("lstm", "sigmoid", lambda x: x.tanh()),
}


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BROKEN)
def test_a_network_that_is_built_wrongly_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch, cpu: DeviceUnderTest
) -> None:
    network, method, wrong = BROKEN[name]
    experiment = next(item for item in EXPERIMENTS if item.name == network)
    monkeypatch.setattr(Tensor, method, wrong)
    assert not model_rows.train(experiment, 1, name, cpu).passed


if __name__ == "__main__":
    record = {item.name: vars(trained(item)) for item in EXPERIMENTS}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
