"""Train a small convolutional network to read handwritten digits, with a captured step.

The 1,797 images of 8 x 8 pixels come with the suite, so nothing is downloaded. With the files of
MNIST, `nn.datasets.mnist(directory)` returns images and labels of the same form.
`python examples/digits.py` prints how many of the last 397 digits it reads correctly.
"""

from __future__ import annotations

from tinyref import Tensor, TinyJit, nn
from tinyref_spec.model.data import TRAINING_IMAGES, digits

BATCH = 70
EPOCHS = 4


class Network:
    """Two convolutions, a pool, and a linear layer."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.last = nn.Linear(16 * 4 * 4, 10)

    def __call__(self, images: Tensor) -> Tensor:
        x = self.second(self.first(images).relu()).relu().max_pool2d()
        return self.last(x.flatten(1))


def main() -> None:
    """Train on the first 1,400 images, and test on the others."""
    Tensor.manual_seed(1)
    images, labels = digits()
    x, y = Tensor(images).unsqueeze(1).realize(), Tensor(labels).realize()
    network = Network()
    optimiser = nn.optim.Adam(nn.state.get_parameters(network), lr=0.01)

    @TinyJit
    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = network(images).cross_entropy(labels)
        loss.backward()
        optimiser.step()
        return loss.realize()

    with Tensor.train():
        for epoch in range(EPOCHS):
            for start in range(0, TRAINING_IMAGES, BATCH):
                part = slice(start, start + BATCH)
                loss = step(x[part].contiguous(), y[part].contiguous())
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    right = network(x[TRAINING_IMAGES:]).argmax(1).eq(y[TRAINING_IMAGES:]).sum().item()
    print(f"{right} of {len(labels) - TRAINING_IMAGES} right")


if __name__ == "__main__":
    main()
