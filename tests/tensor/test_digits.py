"""Real data: a network of two layers, written with Tensor alone, learns to read digits."""

import numpy as np
import pytest

from tinyref import Tensor

HIDDEN = 32
STEPS = 100
TRAINING_IMAGES = 1400


def parameters(generator: np.random.Generator) -> list[Tensor]:
    """Weights and biases of both layers, uniform within 1/sqrt(inputs)."""
    sizes = [(64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,)]
    limits = [1 / np.sqrt(64)] * 2 + [1 / np.sqrt(HIDDEN)] * 2
    return [
        Tensor(generator.uniform(-limit, limit, size).astype(np.float32), requires_grad=True)
        for size, limit in zip(sizes, limits, strict=True)
    ]


def network(images: Tensor, weights: list[Tensor]) -> Tensor:
    """Log-probabilities of the ten digits."""
    first, first_bias, second, second_bias = weights
    return images.linear(first, first_bias).relu().linear(second, second_bias).log_softmax()


@pytest.mark.slow
def test_a_network_learns_digits() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn ships the digits")
    digits = datasets.load_digits()
    generator = np.random.default_rng(2024)
    order = generator.permutation(len(digits.target))
    images = (digits.data[order] / 16).astype(np.float32)
    labels = digits.target[order]
    weights = parameters(generator)

    seen = Tensor(images[:TRAINING_IMAGES])
    wanted = Tensor(np.eye(10, dtype=np.float32)[labels[:TRAINING_IMAGES]])
    losses = []
    for _ in range(STEPS):
        loss = -(network(seen, weights) * wanted).sum(1).mean()
        for weight in weights:
            weight.grad = None
        loss.backward()
        for weight in weights:
            assert weight.grad is not None
            weight.assign(weight.detach() - weight.grad)
        losses.append(loss.realize(*weights).item())

    unseen = network(Tensor(images[TRAINING_IMAGES:]), weights).numpy().argmax(1)
    accuracy = float((unseen == labels[TRAINING_IMAGES:]).mean())
    # An untrained network gives each digit about the same probability.
    assert losses[0] == pytest.approx(np.log(10), abs=0.3)
    assert losses[-1] < 0.2
    assert accuracy > 0.9
