"""Trainings that run until a task is learned, and a network that runs token by token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.model import experiments
from tinyref_spec.model.data import TRAINING_IMAGES, digits, sums

if TYPE_CHECKING:
    from tinyref import Tensor


@dataclass(frozen=True)
class LearningTask:
    """A task that a network must learn.

    network, arguments: as for an `Experiment`. training, testing: inputs and targets. batch:
    samples a step. rate: of Adam. steps: at most; a tenth of them on an interpreted device.
    required: share of right answers in the end; `required_early` on an interpreted device.
    """

    name: str
    sentence: str
    network: str
    arguments: tuple[int, ...]
    training: Callable[[], tuple[Array, Array]]
    testing: Callable[[], tuple[Array, Array]]
    batch: int
    rate: float
    steps: int
    required: float
    required_early: float


def _digits(part: slice) -> tuple[Array, Array]:
    images, labels = digits()
    return images[part], labels[part]


def _answers(rows: Array, start: int) -> tuple[Array, Array]:
    """Return tokens and the next ones; targets before `start` are -1, which do not count."""
    targets = rows[:, 1:].copy()
    targets[:, : start - 1] = -1
    return rows[:, :-1], targets


_SEEN, _UNSEEN = slice(0, TRAINING_IMAGES), slice(TRAINING_IMAGES, None)

TASKS = (
    LearningTask(
        "digits_conv",
        "A network of two convolutions reads digits that it has not seen: 97 % of them.",
        "DigitsConv",
        (),
        lambda: _digits(_SEEN),
        lambda: _digits(_UNSEEN),
        100,
        0.005,
        300,
        0.97,
        0.6,
    ),
    LearningTask(
        "add",
        "A transformer of two blocks learns to add numbers of two digits.",
        "Transformer",
        (10, 7, 32, 4, 2),
        lambda: _answers(sums(1, 4096), 4),
        lambda: _answers(sums(2, 200), 4),
        64,
        0.004,
        700,
        0.95,
        0.1,
    ),
)


def learn(task: LearningTask, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Train with Adam and a captured step, and count the right answers to unseen questions."""
    network = _network(task, device.name)
    slow = device.capabilities.is_interpreted
    steps = task.steps // 10 if slow else task.steps
    _train(network, task, steps, device.name)
    required = task.required_early if slow else task.required
    share, count = _share_right(network, task, device.name)
    message = "" if share >= required else f"{share:.1%} of answers are right, not {required:.0%}"
    return Measurement(not message, message, compared=count, observed=f"{share:.1%} right")


def _network(task: LearningTask, device: str) -> Any:
    how = experiments.TrainingExperiment(
        task.name, "", task.network, task.arguments, task.training, "classes", task.rate
    )
    return experiments.make(how, device)[0]


def _train(network: Any, task: LearningTask, steps: int, device: str) -> None:
    from tinyref import Tensor, TinyJit, nn

    optimiser = nn.optim.Adam(nn.state.get_parameters(network), lr=task.rate)
    inputs, targets = task.training()
    order = np.random.default_rng(7)

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimiser.zero_grad()
        output = network(x)
        logits = output.reshape(-1, output.shape[-1])
        loss: Tensor = logits.sparse_categorical_crossentropy(y.reshape(-1), ignore_index=-1)
        loss.backward()
        optimiser.step()
        return loss.realize()

    with Tensor.train():
        for _ in range(steps):
            chosen = order.integers(0, len(inputs), task.batch)
            x, y = (Tensor(part[chosen], device=device) for part in (inputs, targets))
            step(x, y)


def _share_right(network: Any, task: LearningTask, device: str) -> tuple[float, int]:
    """Return the share of right answers to the unseen questions, and their number."""
    from tinyref import Tensor

    inputs, targets = task.testing()
    answers = network(Tensor(inputs, device=device)).numpy().argmax(-1)
    asked = targets >= 0
    right = (answers == targets)[asked]
    return float(right.mean()), int(right.size)


GENERATION = next(item for item in experiments.EXPERIMENTS if item.name == "transformer_add")


def generate(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run every position alone on a cache of keys and values, and compare with torch on all.

    The position is a bound variable: the kernels of the second token serve all that follow.
    """
    from tinyref import Tensor, Variable

    network, _ = experiments.make(GENERATION, device.name)
    _, positions, width, heads, blocks = GENERATION.arguments
    shape = (1, heads, positions, width // heads)
    caches = [
        tuple(Tensor.zeros(*shape, device=device.name).contiguous().realize() for _ in range(2))
        for _ in range(blocks)
    ]
    sequence = GENERATION.batch()[0][0]
    position = Variable("place", 0, positions - 1)
    rows = []
    with Tensor.no_grad():
        for number, token in enumerate(sequence):
            last = Tensor([[int(token)]], device=device.name)
            rows.append(network.next(last, caches, position.bind(number)).numpy())
    expected = np.array(experiments.expected_records()[GENERATION.name].output)
    logits = np.concatenate(rows).reshape(-1)
    return near("logits", logits, expected[: logits.size], GENERATION)


def near(
    what: str, actual: Array, expected: Array, how: experiments.TrainingExperiment
) -> Measurement:
    """Check that each value is within `how.roundings` roundings of the largest one."""
    bound = how.roundings * 2.0**-24 * float(np.abs(expected).max())
    wrong = np.flatnonzero(~(np.abs(actual - expected) <= bound))
    message = ""
    if wrong.size:
        at = int(wrong[0])
        message = f"{what}[{at}]: expected {expected[at]}, got {actual[at]}, within {bound:g}"
    return Measurement(not message, message, compared=int(expected.size))
