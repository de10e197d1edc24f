"""The rules of functions that several ops compute, by the names with which they are recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from tinyref.dtype import dtypes
from tinyref.tensor.core import reshape
from tinyref.tensor.gradient.rules import Contribution, Step, gradient_rule
from tinyref.tensor.indexing import Indexing, shown_at
from tinyref.tensor.reduction import places_of_maxima, scaled_distances
from tinyref.tensor.windows import Windows, gradient_of_data, gradient_of_kernels, number_of_largest
from tinyref.uops.payload import ReduceArg


@gradient_rule("contiguous_backward")
def contiguous_backward_gradient(step: Step) -> tuple[Contribution, ...]:
    """The gradient itself, in memory of its own."""
    return (step.gradient.contiguous,)


@gradient_rule("steps")
def steps_gradient(step: Step) -> tuple[Contribution, ...]:
    """Constant between the steps: the slope is 0, also where a step is."""
    return tuple(step.gradient.zeros_like for _ in step.sources)


@gradient_rule("mod", reads_sources=True)
def mod_gradient(step: Step) -> tuple[Contribution, ...]:
    """x - floor(x / y) y has the slopes 1 and -floor(x / y)."""
    x, y = step.sources
    return (lambda: step.gradient, lambda: -step.gradient * x.div(y, rounding_mode="floor"))


@gradient_rule("fmod", reads_sources=True)
def fmod_gradient(step: Step) -> tuple[Contribution, ...]:
    """x - trunc(x / y) y has the slopes 1 and -trunc(x / y)."""
    x, y = step.sources

    def of_divisor() -> Indexing:
        quotient = x.abs().div(y.abs(), rounding_mode="floor")
        return step.gradient * x.lt(0).ne(y.lt(0)).where(quotient, -quotient)

    return (lambda: step.gradient, of_divisor)


@gradient_rule("logaddexp", reads_sources=True)
def logaddexp_gradient(step: Step) -> tuple[Contribution, ...]:
    """log(e ** x + e ** y) has the slopes sigmoid(x - y) and sigmoid(y - x)."""
    x, y = step.sources
    return (lambda: step.gradient * (x - y).sigmoid(), lambda: step.gradient * (y - x).sigmoid())


@gradient_rule("copysign", reads_sources=True, reads_output=True)
def copysign_gradient(step: Step) -> tuple[Contribution, ...]:
    """1 where the sign stays and -1 where it turns; 0 at 0. The sign's source has no slope."""
    x = step.sources[0]
    return (
        lambda: step.gradient * x.sign() * step.output.sign(),
        step.gradient.zeros_like,
    )


@gradient_rule("softplus", reads_sources=True)
def softplus_gradient(step: Step) -> tuple[Contribution, ...]:
    """d(softplus x) = sigmoid(x) dx."""
    return (lambda: step.gradient * step.sources[0].sigmoid(),)


@gradient_rule("variance", reads_sources=True)
def variance_gradient(step: Step) -> tuple[Contribution, ...]:
    """Twice the distances from the mean over the divisor, without the square of their unit."""
    x, divisor = cast(tuple[Windows, ...], step.sources)

    def for_elements() -> Indexing:
        assert isinstance(step.arg, ReduceArg), "it carries its axes"
        distance, unit = scaled_distances(x, step.arg.axes)
        return step.gradient * (2 / divisor) * (distance * unit)

    return (for_elements, None)


@gradient_rule("max_pool", reads_sources=True, reads_output=True)
def max_pool_gradient(step: Step) -> tuple[Contribution, ...]:
    """To the first of the largest elements of each window, which is never padding."""
    windows, numbers = cast(tuple[Windows, ...], step.sources)
    largest, gradient = cast(Windows, step.output), cast(Windows, step.gradient)

    def for_windows() -> Indexing:
        return (numbers == number_of_largest(windows, numbers, largest)).where(gradient, 0)

    return (for_windows, None)


@gradient_rule("cummax", reads_sources=True, reads_output=True)
def cummax_gradient(step: Step) -> tuple[Contribution, ...]:
    """To the last of the equal maxima."""
    row, maxima, gradient = cast(tuple[Windows, ...], (step.sources[0], step.output, step.gradient))

    def for_row() -> Indexing:
        places = places_of_maxima(row, maxima)
        return shown_at(row, places, gradient.unsqueeze(-1)).sum(-2)

    return (for_row,)


@gradient_rule("looked_up", reads_sources=True)
def looked_up_gradient(step: Step) -> tuple[Contribution, ...]:
    """The gradient of each element is the sum over the places that chose it."""
    rows, places = cast(tuple[Windows, ...], step.sources)
    gradient = cast(Windows, step.gradient)

    def of_rows() -> Indexing:
        # Types that are for storage alone are not added.
        is_stored = rows.dtype in dtypes.storage_only
        given = gradient.cast(dtypes.float32) if is_stored else gradient
        spread = shown_at(rows, places, given.unsqueeze(-1))
        beyond = spread.ndim - rows.ndim
        repeated = tuple(
            axis
            for axis, size in enumerate(spread.shape)
            if axis < beyond or rows.shape[axis - beyond] != size
        )
        return reshape(spread.sum(repeated, keepdim=True), rows.shape).cast(rows.dtype)

    return (of_rows, None)


@gradient_rule("correlate", reads_sources=True)
def correlate_gradient(step: Step) -> tuple[Contribution, ...]:
    """Correlations of the gradient: with the kernels turned round, and with the data."""
    # Rules are given tensors of one class, that of the user.
    gradient, data, weight, *presence = cast(tuple[Windows, ...], (step.gradient, *step.sources))
    written = presence[0] if presence else None
    return (
        lambda: gradient_of_data(gradient, weight, data),
        lambda: gradient_of_kernels(gradient, weight, data, written),
        *(None for _ in presence),
    )


# Functions y of one tensor x: the gradient times the slope. Some slopes read y.
_SLOPES: dict[str, Callable[[Indexing, Indexing], Indexing]] = {
    "cos": lambda x, y: -x.sin(),
    "tan": lambda x, y: y * y + 1,
    # (1 - x) (1 + x) is more accurate than 1 - x^2 near 1.
    "asin": lambda x, y: ((1 - x) * (1 + x)).rsqrt(),
    "acos": lambda x, y: -((1 - x) * (1 + x)).rsqrt(),
    "atan": lambda x, y: 1 / (x * x + 1),
    "sinh": lambda x, y: x.cosh(),
    "cosh": lambda x, y: x.sinh(),
    "asinh": lambda x, y: (x * x + 1).rsqrt(),
    "acosh": lambda x, y: ((x - 1) * (x + 1)).rsqrt(),
    "atanh": lambda x, y: 1 / ((1 - x) * (1 + x)),
    "erf": lambda x, y: (-(x * x)).exp() * (2 / math.sqrt(math.pi)),
    "expm1": lambda x, y: x.exp(),
    "log10": lambda x, y: 1 / (x * math.log(10)),
}


def _enter_slope(name: str, slope: Callable[[Indexing, Indexing], Indexing]) -> None:
    @gradient_rule(name, reads_sources=True, reads_output=True)
    def contributions(step: Step) -> tuple[Contribution, ...]:
        return (lambda: step.gradient * slope(step.sources[0], step.output),)


for _name, _slope in _SLOPES.items():
    _enter_slope(_name, _slope)
