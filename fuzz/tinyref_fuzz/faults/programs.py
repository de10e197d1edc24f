"""Faults outside of kernels, which only tensor programs reveal.

Their stages are defined in `tinyref_fuzz.programs.blame`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tinyref.tensor.gradient import GradientRule
from tinyref.uops.ops import Ops
from tinyref_fuzz.faults.fault import fault
from tinyref_fuzz.faults.seams import entry, function

_GRADIENTS = "tinyref.tensor.gradient:RULES"
_VERSIONS = "tinyref.schedule.ordering:Versions"
_BOUND_KERNEL = "tinyref.runtimes.kernel:BoundKernel"

_fault = partial(fault, is_of_programs=True)


@_fault("gradient", entry(_GRADIENTS, Ops.FLIP), "graph")
def flip_gradient_not_flipped(right: GradientRule) -> GradientRule:
    """Return the gradient of a reversed view without reversing it."""
    return replace(right, contributions=lambda step: (lambda: step.gradient,))


@_fault("assignment", function("tinyref.tensor.tensor:Tensor.__setitem__"), "graph")
def set_item_forgets_flip(right: Callable[..., None]) -> Callable[..., None]:
    """Write to a slice of negative step from its first element on."""

    def forwards(key: Any, size: int) -> Any:
        if not isinstance(key, slice) or key.step is None or key.step >= 0:
            return key
        elements = range(*key.indices(size))[::-1]
        return slice(elements.start, elements.stop, elements.step)

    def set_item(self: Any, key: Any, value: Any) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        if all(isinstance(item, (int, slice)) for item in keys):
            key = tuple(forwards(item, size) for item, size in zip(keys, self.shape, strict=False))
        right(self, key, value)

    return set_item


@_fault("order", function(f"{_VERSIONS}.next"), "schedule", causes=["hazards"])
def write_before_read(right: object) -> Callable[..., None]:
    """Forget that an assignment must wait for earlier reads of its buffer."""
    return lambda self, buffer, version: None


@_fault("memory", function("tinyref.schedule.items:spans"), "memory plan")
def arena_reuses_what_is_read_last(right: Callable[..., Any]) -> Callable[..., Any]:
    """Reuse memory as soon as it is written."""

    def spans(uses: Any) -> dict[Any, tuple[int, int]]:
        return {key: (first, first) for key, (first, _) in right(uses).items()}

    return spans


@_fault("replay", function(f"{_BOUND_KERNEL}.rebind"), "replay")
def replay_keeps_old_argument(right: object) -> Callable[..., None]:
    """Replay on the tensors of an earlier call."""
    return lambda self, slot, buffer: None


@_fault("replay", function(f"{_BOUND_KERNEL}.vary"), "replay")
def replay_keeps_old_size(right: object) -> Callable[..., None]:
    """Replay with the sizes of an earlier call."""
    return lambda self, bindings: None


@_fault("devices", function("tinyref.lazy.multi:all_reduce"), "graph")
def third_part_left_out(right: Callable[..., Any]) -> Callable[..., Any]:
    """Combine only the parts of two devices."""
    return lambda op, parts, devices: right(op, parts[:2], devices)


@_fault("gradient", function("tinyref.tensor.gradient_rules:_product_of_others"), "graph")
def second_zero_ignored(right: Callable[..., Any]) -> Callable[..., Any]:
    """Give each factor of 0 the product of the factors that are not 0."""
    return lambda x, axes: (x == 0).where((x == 0).where(1, x).prod(axes, True), right(x, axes))
