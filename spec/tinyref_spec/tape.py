"""Gradients of bounded values, derived from how each part of a reference passes them back.

Reverse mode over what the values remember (`Value.parents` and `Value.pull`). The gradients are
bounded values too: their bounds hold for a device that computes the same parts backwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref_spec import bounded
from tinyref_spec.bounded import Value


def gradients(result: Value, g: Value, targets: Sequence[Value]) -> tuple[Value, ...]:
    """Return the gradients of sum(result * g) for the targets; exact zeros if independent."""
    gradient_of = {id(result): g}
    for value in reversed(_history(result)):
        gradient = gradient_of.get(id(value))
        if gradient is None or value.pull is None:
            continue
        for parent, part in zip(value.parents, value.pull(gradient), strict=True):
            if part is not None:
                before = gradient_of.get(id(parent))
                gradient_of[id(parent)] = part if before is None else before + part
    return tuple(
        gradient_of.get(id(target), bounded.zeros(target.shape, target.dtype)) for target in targets
    )


def _history(result: Value) -> list[Value]:
    """Return everything that the result was computed from, operands first."""
    order: list[Value] = []
    seen: set[int] = set()
    stack = [(result, False)]
    while stack:
        value, is_done = stack.pop()
        if is_done:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack += [(parent, False) for parent in value.parents]
    return order
