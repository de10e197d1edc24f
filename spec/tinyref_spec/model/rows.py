"""Rows of the level `model`: a small network trains as the same network in float64 does."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest

HIDDEN = 16
RATE = 0.1


def _data() -> tuple[Array, Array]:
    """Two rings that no straight line parts: 32 points and their class."""
    generator = np.random.default_rng(5)
    angle = generator.uniform(0, 2 * np.pi, 32)
    radius = np.where(np.arange(32) % 2 == 0, 0.4, 1.2)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points.astype(np.float32), (np.arange(32) % 2).astype(np.float32).reshape(32, 1)


def _weights() -> list[Array]:
    generator = np.random.default_rng(6)
    shapes = ((2, HIDDEN), (1, HIDDEN), (HIDDEN, 1), (1, 1))
    return [generator.normal(0, 0.5, shape).astype(np.float32) for shape in shapes]


def reference_losses(steps: int) -> list[float]:
    """The loss before every step of the same training in float64, gradients written out."""
    x, y = (part.astype(np.float64) for part in _data())
    a, b, c, d = (part.astype(np.float64) for part in _weights())
    losses = []
    for _ in range(steps):
        hidden = np.tanh(x @ a + b)
        error = hidden @ c + d - y
        losses.append(float((error * error).mean()))
        back = 2 * error / error.size
        inner = (back @ c.T) * (1 - hidden * hidden)
        c, d = c - RATE * hidden.T @ back, d - RATE * back.sum(0, keepdims=True)
        a, b = a - RATE * x.T @ inner, b - RATE * inner.sum(0, keepdims=True)
    return losses


def _train(steps: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Every loss must be near that of float64: training in float32 drifts by a few roundings."""
    from tinyref import Tensor

    x, y = (Tensor(part, device=device.name) for part in _data())
    weights = [Tensor(part, device=device.name) for part in _weights()]
    wanted = reference_losses(steps)
    losses = []
    for _ in range(steps):
        for weight in weights:
            weight.requires_grad_()
        a, b, c, d = weights
        error = (x @ a + b).tanh() @ c + d - y
        loss = (error * error).mean()
        gradients = loss.gradient(*weights)
        losses.append(float(loss.item()))
        weights = [
            (weight - gradient * RATE).detach().realize()
            for weight, gradient in zip(weights, gradients, strict=True)
        ]
    # Every step multiplies what came before by a Jacobian near 1 and adds some 1000 roundings.
    bounds = [1000 * 2.0**-24 * (step + 1) * max(wanted) for step in range(steps)]
    bad = [step for step in range(steps) if not abs(losses[step] - wanted[step]) <= bounds[step]]
    message = f"step {bad[0]}: loss {losses[bad[0]]}, in float64 {wanted[bad[0]]}" if bad else ""
    return Measurement(not bad, message, compared=steps)


def rows() -> Iterator[Row]:
    """Networks that train."""
    yield make_row(
        "model.two_layers.float32",
        "A network of two layers trains by gradient descent as it does in float64.",
        ("model.trains", "tensor.gradient"),
        Rung.MODEL,
        "train",
        "float32",
        "Each loss within 1000 roundings a step of the training in float64.",
        kernel_needs(dtypes.float32, dtypes.bool),
        lambda: [
            Check("steps:10", functools.partial(_train, 10)),
            Check("steps:100", functools.partial(_train, 100), full_only=True),
        ],
    )
