"""Rows of `nn.optim`: five steps on two parameters, compared with the papers.

The references are in bounded values: float64, with the bound of the same computation in float32.
One parameter starts as zeros, so rates that follow norms have nothing to follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Bounded
from tinyref_spec.measure import judge
from tinyref_spec.tensor import rows as tensor_rows
from tinyref_spec.tensor.run import evaluate

if TYPE_CHECKING:
    from tinyref import Tensor

STEPS = 5
SHAPES = ((3, 4), (3,))
Path = Callable[[Value, Sequence[Value]], "list[Value]"]


@dataclass(frozen=True)
class Descent:
    """An optimiser over `params`, and for each of them the values after every step.

    expression: over the list `params` and `nn`. paths: from the start and the slopes of all steps.
    torch: the same optimiser of torch.optim; empty if there is none.
    """

    expression: str
    paths: tuple[Path, Path]
    torch: str = ""


def starts() -> list[Array]:
    """Return the parameters before the first step."""
    return [np.linspace(-1.5, 2, 12).reshape(SHAPES[0]).astype(np.float32), np.zeros(3, np.float32)]


def slopes() -> list[list[Array]]:
    """Return the gradient of each parameter for each step."""
    generator = np.random.default_rng(7)
    return [
        [(generator.standard_normal(shape) * (step + 1)).astype(np.float32) for shape in SHAPES]
        for step in range(STEPS)
    ]


# Definitions from the papers


def _norm(x: Value) -> Value:
    return bounded.sqrt((x * x).sum())


def _ratio(weight: Value, step: Value, factor: float = 1.0, decay: float = 0.0) -> Value | float:
    """Return factor |weight| / (|step| + decay |weight|), and 1 if a norm is 0."""
    if not weight.value.any() or not step.value.any():
        return 1.0
    length = _norm(weight)
    return length * factor / (_norm(step) + length * decay)


def descent(
    rate: float,
    momentum: float = 0.0,
    decay: float = 0.0,
    nesterov: bool = False,
    classic: bool = False,
    trust: float = 0.0,
) -> Path:
    """Return gradient descent with momentum, and LARS with `trust`.

    The velocity adds up gradients; with `classic` it adds up steps, gradients times the rate.
    """

    def path(w: Value, gradients: Sequence[Value]) -> list[Value]:
        path_values = []
        velocity = bounded.zeros(w.shape, w.dtype)
        for g in gradients:
            pace = bounded.constant(rate, w.dtype)
            if trust:
                pace = pace * _ratio(w, g, trust, decay)
            g = g + w * decay
            g = g * pace if classic else g
            velocity = velocity * momentum + g
            move = g + velocity * momentum if nesterov else velocity
            w = w - (move if classic else move * pace)
            path_values.append(w)
        return path_values

    return path


def moments(
    rate: float,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.0,
    is_scaled: bool = False,
) -> Path:
    """Return Adam, AdamW with `decay`, or LAMB, where |w| / |step| also scales a step."""

    def path(w: Value, gradients: Sequence[Value]) -> list[Value]:
        path_values = []
        m = v = bounded.zeros(w.shape, w.dtype)
        # 1 - b ** t, the average of t ones, computed in the type of the rate.
        first = second = bounded.zeros((1,), dtypes.float32)
        for g in gradients:
            m, first = m * b1 + g * (1 - b1), first * b1 + (1 - b1)
            v, second = v * b2 + g * g * (1 - b2), second * b2 + (1 - b2)
            step = m / first / (bounded.sqrt(v / second) + eps) + w * decay
            pace = bounded.constant(rate, w.dtype)
            w = w - step * (pace * _ratio(w, step) if is_scaled else pace)
            path_values.append(w)
        return path_values

    return path


def _both(expression: str, path: Path, torch: str = "") -> Descent:
    """Return an optimiser that treats both parameters alike."""
    return Descent(expression, (path, path), torch)


DESCENTS: dict[str, tuple[Descent, ...]] = {
    "SGD": (
        _both(
            "nn.optim.SGD(params, 0.1, momentum=0.9, weight_decay=0.05, nesterov=True)",
            descent(0.1, 0.9, 0.05, nesterov=True),
            "torch.optim.SGD(params, 0.1, 0.9, weight_decay=0.05, nesterov=True)",
        ),
        _both(
            "nn.optim.SGD(params, 0.1, momentum=0.9, classic=True)",
            descent(0.1, 0.9, classic=True),
            "torch.optim.SGD(params, 0.1, 0.9)",
        ),
    ),
    "LARS": (
        _both(
            "nn.optim.LARS(params, 0.1, 0.8, 0.01, nesterov=True, classic=False, tcoef=0.1)",
            descent(0.1, 0.8, 0.01, nesterov=True, trust=0.1),
        ),
        _both("nn.optim.LARS(params, 0.1)", descent(0.1, 0.9, 1e-4, classic=True, trust=0.001)),
    ),
    "Adam": (
        _both(
            "nn.optim.Adam(params, 0.1, b1=0.5, b2=0.8, eps=0.01)",
            moments(0.1, 0.5, 0.8, 0.01),
            "torch.optim.Adam(params, 0.1, (0.5, 0.8), 0.01)",
        ),
    ),
    "AdamW": (
        _both(
            "nn.optim.AdamW(params, 0.1, 0.5, 0.8, weight_decay=0.2)",
            moments(0.1, 0.5, 0.8, decay=0.2),
            "torch.optim.AdamW(params, 0.1, (0.5, 0.8), weight_decay=0.2)",
        ),
    ),
    "LAMB": (
        _both(
            "nn.optim.LAMB(params, 0.1, 0.5, 0.8, weight_decay=0.2)",
            moments(0.1, 0.5, 0.8, 1e-6, 0.2, is_scaled=True),
        ),
    ),
    "OptimizerGroup": (
        Descent(
            "nn.optim.OptimizerGroup(nn.optim.SGD(params[:1], 0.1), nn.optim.Adam(params[1:]))",
            (descent(0.1), moments(0.001)),
        ),
    ),
}
SENTENCES = {
    "SGD": "gradient descent, with momentum or without",
    "LARS": "gradient descent with momentum at a rate that follows the norms",
    "Adam": "steps by the averages of gradients and of their squares",
    "AdamW": "Adam, with a decay of weights that is not part of the gradient",
    "LAMB": "AdamW at a rate that follows the norms",
    "OptimizerGroup": "several optimisers that step together",
    "Optimizer": "the common part of all optimisers",
}


# The runs


def references(item: Descent) -> list[list[Value]]:
    """Return for each parameter its values after every step."""
    return [
        path(
            bounded.exact(start, dtypes.float32),
            [bounded.exact(step[number], dtypes.float32) for step in slopes()],
        )
        for number, (path, start) in enumerate(zip(item.paths, starts(), strict=True))
    ]


def _tensors(device: str) -> list[Tensor]:
    from tinyref import Tensor

    return [Tensor(start, device=device, requires_grad=True) for start in starts()]


def _step(optimiser: Any, params: Sequence[Tensor], gradients: Sequence[Array]) -> list[Array]:
    """Return the parameters after a step with gradients from `backward`."""
    from tinyref import Tensor

    optimiser.zero_grad()
    for param, slope in zip(params, gradients, strict=True):
        (param * Tensor(slope, device=param.device)).sum().backward()
    optimiser.step()
    return [param.numpy() for param in params]


def run(item: Descent, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that both parameters after every step are within the bounds of their references."""
    params = _tensors(device.name)
    optimiser = evaluate(item.expression, {"params": params})
    paths = references(item)
    compared = 0
    for step, gradients in enumerate(slopes()):
        for number, values in enumerate(_step(optimiser, params, gradients)):
            expected = bounded.expected_of(paths[number][step], dtypes.float32)
            judged = judge(values.reshape(-1), expected, Bounded())
            compared += judged.compared
            if judged.fails:
                first = judged.first
                return Measurement(
                    False,
                    f"{item.expression}: step {step}, parameter {number}: element {first}: "
                    f"expected {expected.values[first]}, got {values.reshape(-1)[first]}",
                    compared,
                )
    return Measurement(True, compared=compared)


def run_shared(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check frozen tensors and integers, a changed rate, and gradients that count in one step."""
    from tinyref import Tensor, nn

    moving = Tensor(np.ones(4, np.float32), device=device.name)
    still = Tensor(np.ones(4, np.float32), device=device.name, requires_grad=False)
    numbers = Tensor(np.ones(4, np.int32), device=device.name)
    optimiser = nn.optim.SGD([moving, still, numbers, moving], 0.5)
    values = [float(len(optimiser.params))]
    (moving * still * numbers).sum().backward()
    optimiser.step()
    values += [moving.numpy()[0], still.numpy()[1], float(numbers.numpy()[2])]
    optimiser.zero_grad()
    values.append(float(moving.grad is None))
    optimiser.lr.assign(Tensor([0.25], device=device.name))
    (moving * still).sum().backward()
    optimiser.step()
    values += [moving.numpy()[3], still.numpy()[0]]
    expected = [1.0, 0.5, 1.0, 1.0, 1.0, 0.25, 1.0]
    message = "" if values == expected else f"expected {expected}, got {values}"
    return Measurement(not message, message, compared=len(expected))


def _checks(name: str) -> list[Check]:
    if name == "Optimizer":
        return [Check("shared", run_shared)]
    return [
        Check(f"steps:{number}", functools.partial(run, item))
        for number, item in enumerate(DESCENTS[name])
    ]


NAMES = ("Optimizer", *DESCENTS)


def rows() -> Iterator[Row]:
    """Yield a row for every optimiser: its steps."""
    needs = kernel_needs(dtypes.float32, dtypes.int32, dtypes.bool)
    for name in NAMES:
        label = f"model.optim.{name.lower()}"
        is_exact = name == "Optimizer"
        yield make_row(
            f"{label}.float32",
            f"{name}: {SENTENCES[name]}.",
            clauses=("model.optim", "tensor.assign"),
            rung=Rung.MODEL,
            op=f"nn.optim.{name}",
            dtype="float32",
            needs=needs,
            error_rule="Equal in every bit: powers of two." if is_exact else tensor_rows.DERIVED,
            checks=functools.partial(_checks, name),
        )
