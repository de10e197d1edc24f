"""Random calls of arithmetic, reductions and selections against torch: values and gradients.

Functions that move elements, multiply matrices, slide windows or are losses have rows of many
forms, in `spec/tinyref_spec/tensor`, whose references are compared with torch.

An inexact float must be within a bound of its call. For this bound, torch computes the call in
float64, and again with every result off by one rounding of the tested type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch_calls import OUR_NAMES, TORCH_NAMES, Call, Function, calls
from torch_table import GROUPS

from tinyref import Tensor
from tinyref.dtype import DType
from tinyref.errors import UserError
from tinyref_spec.bits import Array
from tinyref_spec.subjects.torch_library import OUR_DTYPES, from_torch, to_torch

# What torch raises for a call that cannot be meant.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)
ROUNDINGS = 4
"""Roundings of the result, and times the spread, that an element may be off."""
SAMPLES = 4
"""Runs with random rounding for one call."""
UNSHRUNK = settings(max_examples=200, derandomize=True, phases=[Phase.generate])


class Rounding(TorchDispatchMode):
    """Random rounding: every float64 that torch computes is moved one rounding up or down.

    Equal numbers stay equal, so that ties remain ties. Source: Vignes, "A stochastic arithmetic for
    reliable scientific computation", 1993.
    """

    def __init__(self, epsilon: float, seed: int) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.factor = 0x1E3779B97F4A7C15 + 2 * seed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view or func._schema.is_mutable:
            return result
        return tree_map_only(torch.Tensor, self.rounded, result)

    def rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the elements, each moved in a direction that depends on its value alone."""
        if tensor.dtype is not torch.float64:
            return tensor
        bits = tensor.abs().view(torch.int64) * self.factor
        return torch.where(bits < 0, tensor * (1 - self.epsilon), tensor * (1 + self.epsilon))


@dataclass(frozen=True)
class Answer:
    """The answer of one library to a call: arrays by labels, such as `gradient of x`."""

    arrays: dict[str, Array]
    dtypes: dict[str, DType | None]
    targets: tuple[str, ...] = ()
    """The inputs whose gradients are among the arrays."""


def weights(shape: tuple[int, ...]) -> Array:
    """Return what the elements of a result weigh in the gradient: eighths from -1 to 1."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 + 3) % 17 - 8).reshape(shape) / 8.0


def results_of(value: Any) -> Sequence[Any]:
    """Return the tensors of a result, which may be one or several."""
    return value if isinstance(value, (tuple, list)) else (value,)


def torch_answer(
    call: Call, wide: bool = False, seed: int = 0, weigh: Callable[..., Array] = weights
) -> Answer:
    """Compute a call by torch.

    Args:
        wide: Compute in float64.
        seed: If it is not 0, round every result at random.
        weigh: What the elements of a result weigh in the gradient, by its shape.
    """
    mode: AbstractContextManager[object] = nullcontext()
    inputs = {name: to_torch(array) for name, array in call.arrays.items()}
    if seed:
        mode = Rounding(epsilon_of(call), seed)
    for name, part in inputs.items():
        if part.is_floating_point():
            converted = part.double() if wide else part
            inputs[name] = mode.rounded(converted) if isinstance(mode, Rounding) else converted
            inputs[name].requires_grad_()
    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    try:
        with mode:
            results = results_of(eval(call.theirs, TORCH_NAMES, inputs))
            gradients = torch_gradients(call, results, inputs, weigh)
    finally:
        torch.set_default_dtype(torch.float32)
    arrays = {f"value {number}": from_torch(part) for number, part in enumerate(results)}
    dtypes = {f"value {number}": OUR_DTYPES.get(part.dtype) for number, part in enumerate(results)}
    by_label = {f"gradient of {name}": array for name, array in gradients.items()}
    return Answer({**arrays, **by_label}, dtypes, tuple(gradients))


def epsilon_of(call: Call) -> float:
    """Return the distance from 1 to the next number of the widest rounding of the call."""
    floats = [array.dtype for array in call.arrays.values() if array.dtype.kind in "fV"]
    return max(float(ml_dtypes.finfo(dtype).eps) for dtype in floats or [np.float32])


def torch_gradients(
    call: Call,
    results: Sequence[torch.Tensor],
    inputs: dict[str, torch.Tensor],
    weigh: Callable[..., Array],
) -> dict[str, Array]:
    """Return the gradients of the weighted sum of all results."""
    targets = {name: part for name, part in inputs.items() if part.requires_grad}
    losses = [
        (part * to_torch(weigh(tuple(part.shape))).to(part.dtype)).sum()
        for part in results
        if part.requires_grad
    ]
    if not targets or not losses or not call.function.has_gradient:
        return {}
    parts = torch.autograd.grad(losses, list(targets.values()), allow_unused=True)
    return {
        name: from_torch(torch.zeros_like(target) if part is None else part)
        for (name, target), part in zip(targets.items(), parts, strict=True)
    }


def tinyref_answer(call: Call, targets: tuple[str, ...]) -> Answer:
    """Compute a call by tinyref, with the gradients of `targets`."""
    inputs = {name: Tensor(array) for name, array in call.arrays.items()}
    for name in targets:
        inputs[name].requires_grad_()
    results = results_of(eval(call.ours, OUR_NAMES, inputs))
    arrays = {f"value {number}": part.numpy() for number, part in enumerate(results)}
    dtypes = {f"value {number}": part.dtype for number, part in enumerate(results)}
    losses = [
        (part * Tensor(weights(part.shape), dtype=part.dtype)).sum()
        for part in results
        if part.requires_grad
    ]
    if targets and losses:
        asked = [inputs[name] for name in targets]
        parts = sum(losses[1:], losses[0]).gradient(*asked, materialize_grads=True)
        for name, part in zip(targets, parts, strict=True):
            arrays[f"gradient of {name}"] = part.numpy()
    return Answer(arrays, dtypes)


def same(actual: Array, expected: Array, signed: bool) -> Array:
    """Return where elements are equal: NaN to NaN, and zeros with their signs if `signed`."""
    if expected.dtype.kind not in "fV":
        return np.asarray(actual == expected)
    left, right = actual.astype(np.float64), expected.astype(np.float64)
    equal = left == right
    if signed:
        equal &= np.signbit(left) == np.signbit(right)
    return np.asarray(equal | (np.isnan(left) & np.isnan(right)))


def close(actual: Array, theirs: Array, samples: Sequence[Array], size: Array | float) -> Array:
    """Return where elements are within the bound of the call.

    The bound is a few roundings of the result, the spread of the samples, which are rounded at
    random, and twice the error of torch. `size` is the least result whose rounding counts.
    """
    exact, *others = samples
    info = ml_dtypes.finfo(theirs.dtype)
    # A sample may leave the domain of the function.
    spread = np.max([np.nan_to_num(np.abs(other - exact), nan=0.0) for other in others], 0)
    step = np.maximum(np.abs(exact), size) * float(info.eps) + float(info.smallest_subnormal)
    error = np.abs(theirs.astype(np.float64) - exact)
    bound = ROUNDINGS * (step + spread) + 2 * np.where(np.isfinite(error), error, 0)
    near = np.abs(actual.astype(np.float64) - exact) <= bound
    # Where torch itself overflows on the way, the value is open.
    overflows = np.isfinite(exact) & ~np.isfinite(theirs.astype(np.float64))
    return np.asarray(near | overflows)


class Samples:
    """A call in float64, and with random rounding: computed when they are first asked for."""

    def __init__(self, call: Call) -> None:
        self.call = call

    @functools.cached_property
    def answers(self) -> list[Answer]:
        """Return the exact answer, and those that are rounded at random."""
        return [torch_answer(self.call, True, seed) for seed in range(SAMPLES + 1)]

    def size_of(self, label: str) -> Array | float:
        """Return the size of the terms that a gradient sums, which may cancel; 0 for a value."""
        if not label.startswith("gradient"):
            return self.call.function.size
        answer = torch_answer(self.call, True, weigh=lambda shape: np.abs(weights(shape)))
        return np.maximum(np.nan_to_num(np.abs(answer.arrays[label])), self.call.function.size)

    def of(self, label: str) -> list[Array]:
        """Return one array of each answer."""
        return [answer.arrays[label] for answer in self.answers]


def right_elements(call: Call, label: str, actual: Array, theirs: Array, answers: Samples) -> Array:
    """Return where elements of a result are right."""
    function = call.function
    signed = function.exact and function.signed and not label.startswith("gradient")
    right = same(actual, theirs, signed)
    if right.all() or theirs.dtype.kind not in "fV":
        return right
    samples = answers.of(label)
    # Torch rounds some quotients twice.
    right |= same(actual, samples[0].astype(theirs.dtype), signed)
    if label.startswith("gradient"):
        # NaN of torch is open, and so is the gradient of an element that is not finite.
        element = call.arrays[label.removeprefix("gradient of ")]
        right |= np.isnan(theirs) | ~np.isfinite(element)
    elif function.exact:
        return right
    return right | close(actual, theirs, samples, answers.size_of(label))


def problem(call: Call) -> str:
    """Describe how tinyref and torch differ; empty where they agree and where torch refuses."""
    try:
        theirs = torch_answer(call)
    except REFUSALS:
        return ""
    try:
        ours = tinyref_answer(call, theirs.targets)
    except UserError as error:
        return f"refused: {error}"
    with np.errstate(all="ignore"):
        samples = Samples(call)
        differences = (
            difference(call, label, ours, theirs, samples) for label in compared_labels(theirs)
        )
        return next(filter(None, differences), "")


def compared_labels(theirs: Answer) -> list[str]:
    """Return the results to compare: no gradients where a value is NaN."""
    undefined = any(
        array.dtype.kind in "fV" and np.isnan(array).any()
        for label, array in theirs.arrays.items()
        if label.startswith("value")
    )
    return [label for label in theirs.arrays if not (undefined and label.startswith("gradient"))]


def difference(call: Call, label: str, ours: Answer, theirs: Answer, samples: Samples) -> str:
    """Describe how one result differs; empty where it does not."""
    if label not in ours.arrays:
        return f"{label}: none"
    actual, expected = ours.arrays[label], theirs.arrays[label]
    if actual.shape != expected.shape:
        return f"{label}: shape {actual.shape}, torch has {expected.shape}"
    dtype, theirs_dtype = ours.dtypes.get(label), theirs.dtypes.get(label)
    if dtype is not theirs_dtype:
        # Sums and places are 32 bits wide here and 64 there: docs/differences.md.
        if dtype is None or theirs_dtype is None or not (dtype.is_int and theirs_dtype.is_int):
            return f"{label}: {dtype}, torch has {theirs_dtype}"
        expected = expected.astype(actual.dtype)
    right = right_elements(call, label, actual, expected, samples)
    if right.all():
        return ""
    index = tuple(int(number) for number in np.argwhere(~right)[0])
    is_float = expected.dtype.kind in "fV"
    exact = f", in float64 {samples.of(label)[0][index]}" if is_float else ""
    return f"{label} at {index}: {actual[index]}, torch has {expected[index]}{exact}"


LINES = [
    pytest.param(function, id=f"{group} {function.ours}")
    for group, functions in GROUPS.items()
    for function in functions
]
HEALTH = list(HealthCheck)


@pytest.mark.long
@pytest.mark.parametrize("function", LINES)
@settings(max_examples=5, suppress_health_check=HEALTH)
@given(st.data())
def test_each_function_agrees_with_torch(function: Function, data: st.DataObject) -> None:
    for _ in range(function.repeats):
        assert problem(data.draw(calls((function,)))) == ""


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
@settings(max_examples=100, suppress_health_check=HEALTH)
@given(st.data())
def test_many_random_calls(group: str, data: st.DataObject) -> None:
    assert problem(data.draw(calls(tuple(GROUPS[group])))) == ""


@pytest.mark.slow
def test_torch_computes_every_line() -> None:
    refused = []
    for function in (one for group in GROUPS.values() for one in group):
        try:
            find(calls((function,)), is_computed, settings=UNSHRUNK)
        except NoSuchExample:
            refused.append(function.theirs)
    assert refused == []


def is_computed(call: Call) -> bool:
    """Return True if torch does not refuse a call."""
    try:
        torch_answer(call)
    except REFUSALS:
        return False
    return True


# A fault must be found.


TRUE: dict[str, Any] = {name: getattr(Tensor, name) for name in ("exp", "neg", "maximum")}


def _refused(x: Tensor, *arguments: Any) -> Tensor:
    raise UserError("sign: not today")


FAULTS: list[tuple[str, Callable[..., Tensor], str]] = [
    ("exp", lambda x: TRUE["exp"](x) * 1.00001, "value 0 at"),
    ("exp", lambda x: TRUE["exp"](x).detach(), "gradient of x: none"),
    ("maximum", lambda x, y: x.isnan().where(y, TRUE["maximum"](x, y)), "torch has nan"),
    ("neg", lambda x: TRUE["neg"](x).float(), "value 0: dtypes.float32"),
    ("sign", _refused, "refused: sign: not today"),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "fault", "words"), FAULTS, ids=[one[2] for one in FAULTS])
def test_a_fault_is_found(
    name: str, fault: Callable[..., Tensor], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = [one for group in GROUPS.values() for one in group if f".{name}(" in one.ours]
    monkeypatch.setattr(Tensor, name, fault)
    call = find(calls(tuple(functions)), lambda call: problem(call) != "", settings=UNSHRUNK)
    assert words in problem(call)
