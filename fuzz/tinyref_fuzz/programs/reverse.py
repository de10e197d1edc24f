"""Compute gradients by central differences of each operation, chained backwards.

They share nothing with the rules of tinyref. Every operation is linear or quadratic in each
element, so that differences are exact. Gradients are computed in float64. `InexactError` is raised
if one is not exact in the type of its tensor.

If an operation has no slope, the gradient is the documented one: equal elements of a maximum share
it equally, and relu passes nothing at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref_fuzz.programs.arithmetic import (
    COMPUTE,
    Elements,
    Operands,
    UndefinedError,
    check_sum,
)
from tinyref_fuzz.programs.steps import Value

# A matrix for each source: rows are elements of the result, columns elements of the source.
Slopes = Callable[[], Sequence[Elements | None]]
# Half of a difference. Elements are multiples of it, so that no step crosses a kink.
STEP = 1 / 256
# Operations whose partial results may exceed float16.
_WIDE = frozenset({"prod", "cumsum", "matmul"})
_WITHOUT_RULE = frozenset({"idiv_number", "mod_number"})


@dataclass(eq=False)
class GradientRecord:
    """Record of how elements were computed; gradients flow back through it."""

    shape: tuple[int, ...]
    dtype: str
    sources: tuple[GradientRecord, ...] = ()
    """The records that it was computed from; none for a leaf."""
    slopes: Slopes | None = None
    """The slope for each source, None for one without gradient; None without a rule."""
    is_marked: bool = False
    """True for a leaf whose gradient is requested."""

    def __post_init__(self) -> None:
        # True if gradients may flow to a marked leaf.
        self.requires_grad: bool = self.is_marked or any(
            source.requires_grad for source in self.sources
        )
        # The result of a replay has no gradient, although the function computed it with one.
        is_known = self.slopes is not None and any(source.is_certain for source in self.sources)
        # True if gradients certainly flow to a marked leaf.
        self.is_certain: bool = self.is_marked or is_known

    @property
    def is_leaf(self) -> bool:
        """Return True if `backward` ends here."""
        return self.requires_grad and not self.sources

    @property
    def is_blocked(self) -> bool:
        """Return True if the oracle does not know the gradients of its sources."""
        return bool(self.sources) and self.slopes is None

    def history(self) -> list[GradientRecord]:
        """Return all records that it was computed from, and itself last; sources first."""
        done: dict[int, GradientRecord] = {}

        def visit(record: GradientRecord) -> None:
            if id(record) not in done:
                for source in record.sources:
                    visit(source)
                done[id(record)] = record

        visit(self)
        return list(done.values())


def gradients(
    loss: GradientRecord, weights: Elements, targets: Sequence[GradientRecord]
) -> list[Elements | None]:
    """Return d(loss)/d(target) for each target; None if the loss does not depend on it.

    The loss is the sum of its elements times `weights`. Raises `UndefinedError` if the oracle does
    not know the gradient, and `InexactError` if it rounds.
    """
    history = loss.history()
    relevant = {id(target) for target in targets}
    for record in history:
        if any(id(source) in relevant for source in record.sources):
            relevant.add(id(record))
    parts: dict[int, list[Elements]] = {id(loss): [weights.astype(np.float64)]}
    results: dict[int, Elements] = {}
    for record in reversed(history):
        if id(record) not in parts or id(record) not in relevant:
            continue
        terms = np.stack(parts[id(record)])
        check_sum(terms, (0,), record.dtype)
        gradient = results[id(record)] = terms.sum(axis=0)
        if any(id(source) in relevant for source in record.sources):
            for source, part in zip(record.sources, _passed_back(record, gradient), strict=True):
                if part is not None and id(source) in relevant:
                    parts.setdefault(id(source), []).append(part)
    return [
        results[id(target)].astype(target.dtype) if id(target) in results else None
        for target in targets
    ]


def _passed_back(record: GradientRecord, gradient: Elements) -> Iterator[Elements | None]:
    """Yield the gradient of each source, or None."""
    if record.slopes is None:
        raise UndefinedError("gradient: the oracle has no rule for an operation")
    for source, slope in zip(record.sources, record.slopes(), strict=True):
        if slope is None:
            yield None
            continue
        terms = gradient.reshape(-1, 1) * slope
        check_sum(terms, (0,), record.dtype)
        yield terms.sum(axis=0).reshape(source.shape)


# --- slopes --------------------------------------------------------------------------------------


def one_hot(positions: Elements, size: int) -> Elements:
    """Return the slope of a view: each row has a 1 at the position that it selects."""
    return np.eye(size)[positions.reshape(-1)]


def slopes_of(op: str, operands: Operands, values: Sequence[Value]) -> Slopes | None:
    """Return the slopes of `op` at these operands; None if there is no rule."""
    is_half = any(operand.dtype == np.float16 for operand in operands)
    if op in _WITHOUT_RULE or (is_half and op in _WIDE):
        return None
    wide = [
        operand.astype(np.float64) if operand.dtype.kind == "f" else operand for operand in operands
    ]
    return lambda: [
        _slope(op, wide, at, values) if operand.dtype.kind == "f" else None
        for at, operand in enumerate(wide)
    ]


def _slope(op: str, operands: Operands, at: int, values: Sequence[Value]) -> Elements:
    x = operands[at]
    if op == "cast":
        return np.eye(x.size)
    if op == "relu":
        return np.diag((x > 0).reshape(-1).astype(np.float64))
    columns = [
        _moved(op, operands, at, index, values, STEP)
        - _moved(op, operands, at, index, values, -STEP)
        for index in np.ndindex(x.shape)
    ]
    size = COMPUTE[op][1](operands, values).size
    slope = np.array(columns).reshape(x.size, size).T / (2 * STEP)
    # Moved upwards, each of several equal maxima becomes the only one.
    return slope / slope.sum(axis=1, keepdims=True) if op == "max" else slope


def _moved(
    op: str,
    operands: Operands,
    at: int,
    index: tuple[int, ...],
    values: Sequence[Value],
    by: float,
) -> Elements:
    """Return all results after one element of one operand moved by `by`."""
    moved = np.array(operands[at])
    moved[index] += by
    changed = [*operands[:at], moved, *operands[at + 1 :]]
    return COMPUTE[op][1](changed, values).astype(np.float64).reshape(-1)
