"""Rows of the level `model`: layers, optimisers, and networks that train as in float64."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.model import layers, optim
from tinyref_spec.model.experiments import (
    EXPERIMENTS,
    STEPS,
    TrainingExperiment,
    expected_records,
    loss_of,
    make,
)
from tinyref_spec.model.learning import GENERATION, TASKS, LearningTask, generate, learn, near


def train(
    experiment: TrainingExperiment, steps: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Compare output and gradients before the first step, and every loss, with torch."""
    from tinyref import Tensor
    from tinyref.nn.optim import SGD

    network, state = make(experiment, device.name)
    optimiser = SGD(list(state.values()), experiment.rate)
    x, y = (Tensor(part, device=device.name) for part in experiment.batch())
    expected = expected_records()[experiment.name]
    losses = []
    with Tensor.train():
        for step in range(steps):
            optimiser.zero_grad()
            output = network(x)
            loss = loss_of(experiment, output, y)
            loss.backward()
            if not step:
                first = _first_step(experiment, output, state)
                if not first.passed:
                    return first
            optimiser.step()
            losses.append(loss.item())
    return near("loss", np.array(losses), np.array(expected.losses[:steps]), experiment)


def _first_step(experiment: TrainingExperiment, output: Any, state: dict[str, Any]) -> Measurement:
    expected = expected_records()[experiment.name]
    # Realised together, so that common parts are computed once.
    output.realize(*(tensor.grad for tensor in state.values() if tensor.grad is not None))
    first_values = output.numpy().reshape(-1)[: len(expected.output)]
    measured = near("output", first_values, np.array(expected.output), experiment)
    if not measured.passed:
        return measured
    gradients = [state[name].grad for name in expected.gradients]
    for name, gradient in zip(expected.gradients, gradients, strict=True):
        if gradient is None:
            return Measurement(False, f"no gradient came to {name}", compared=1)
    wide = [gradient.numpy().astype(np.float64) for gradient in gradients]
    norms = [float(np.linalg.norm(values)) for values in wide]
    names = ", ".join(expected.gradients)
    return near(
        f"norms of gradients ({names})",
        np.array(norms),
        np.array([*expected.gradients.values()]),
        experiment,
    )


def rows() -> Iterator[Row]:
    """Yield rows of networks that train, layers and optimisers.

    The longest cases come first, so that all workers of a run end at about the same time.
    """
    for experiment in reversed(EXPERIMENTS):
        yield _experiment_row(experiment)
    yield make_row(
        "model.generate.float32",
        "A transformer run token by token on a cache of keys and values, at a symbolic position, "
        "gives the logits of the whole sequence.",
        clauses=("model.generates",),
        rung=Rung.MODEL,
        op="generate",
        dtype="float32",
        needs=_NEEDS,
        error_rule=_ROUNDINGS.format(GENERATION.roundings),
        checks={"transformer": generate},
    )
    for task in TASKS:
        yield make_row(
            f"model.learns.{task.name}.float32",
            task.sentence,
            clauses=("model.learns", "tensor.gradient"),
            rung=Rung.MODEL,
            op="train",
            dtype="float32",
            needs=_NEEDS,
            error_rule="The share of right answers to questions that were not in the training.",
            checks=functools.partial(_task_checks, task),
        )
    yield from optim.rows()
    yield from layers.rows()


_NEEDS = kernel_needs(dtypes.float32, dtypes.int32, dtypes.uint32, dtypes.bool)
_ROUNDINGS = "Each value within {} float32 roundings of the largest, against torch in float64."


def _task_checks(task: LearningTask) -> list[Check]:
    return [Check("unseen", functools.partial(learn, task), full_only=True)]


def _experiment_row(experiment: TrainingExperiment) -> Row:
    return make_row(
        f"model.{experiment.name}.float32",
        experiment.sentence,
        clauses=("model.trains", "tensor.gradient"),
        rung=Rung.MODEL,
        op="train",
        dtype="float32",
        needs=_NEEDS,
        error_rule=_ROUNDINGS.format(experiment.roundings),
        checks=lambda: [
            Check("steps:2", functools.partial(train, experiment, 2)),
            Check(f"steps:{STEPS}", functools.partial(train, experiment, STEPS), full_only=True),
        ],
    )
