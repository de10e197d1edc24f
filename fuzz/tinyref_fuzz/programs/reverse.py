"""Gradients by central differences of each operation, chained backwards.

They share nothing with the rules of tinyref. Every operation is linear or square in each single
element around it, so that differences are exact. Gradients are taken in float64, and are refused
with `InexactError` if one is not exact in the type of its tensor.

If an operation has no slope, the gradient is the documented one: equal elements of a maximum get
equal shares, and relu passes nothing at 0.
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

# A matrix for each source: a row for each element of the result, a column for each of the source.
Slopes = Callable[[], Sequence[Elements | None]]
# Half of a difference: elements are multiples of it, so that no step crosses a kink.
STEP = 1 / 256
# Those whose partial results may be larger than float16 holds.
_WIDE = frozenset({"prod", "cumsum", "matmul"})
_WITHOUT_RULE = frozenset({"idiv_number", "mod_number"})


@dataclass(eq=False)
class GradientRecord:
    """How elements were computed, as they were at one time: gradients go back through it.

    sources: what from; none of a leaf. slopes: how it changes with each source, None for one
    without gradient; None where the oracle has no rule. is_marked: a leaf that gradients are asked
    for. requires_grad: gradients may flow to such a leaf; is_certain: they do.
    """

    shape: tuple[int, ...]
    dtype: str
    sources: tuple[GradientRecord, ...] = ()
    slopes: Slopes | None = None
    is_marked: bool = False

    def __post_init__(self) -> None:
        self.requires_grad: bool = self.is_marked or any(
            each.requires_grad for each in self.sources
        )
        # What a replay gives has no gradient, though the function computed it with one.
        is_known = self.slopes is not None and any(each.is_certain for each in self.sources)
        self.is_certain: bool = self.is_marked or is_known

    @property
    def is_leaf(self) -> bool:
        """Whether `backward` ends here."""
        return self.requires_grad and not self.sources

    @property
    def is_blocked(self) -> bool:
        """Whether the oracle does not know the gradients of its sources."""
        return bool(self.sources) and self.slopes is None

    def history(self) -> list[GradientRecord]:
        """All that it is computed from, and itself last; sources first."""
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
    """d(loss)/d(target), of weighted elements, for each; None where the loss does not depend on it.

    Raises `UndefinedError` where the oracle does not know, `InexactError` for what rounds.
    """
    history = loss.history()
    wanted = {id(target) for target in targets}
    for record in history:
        if any(id(source) in wanted for source in record.sources):
            wanted.add(id(record))
    parts: dict[int, list[Elements]] = {id(loss): [weights.astype(np.float64)]}
    found: dict[int, Elements] = {}
    for record in reversed(history):
        if id(record) not in parts or id(record) not in wanted:
            continue
        terms = np.stack(parts[id(record)])
        check_sum(terms, (0,), record.dtype)
        gradient = found[id(record)] = terms.sum(axis=0)
        if any(id(source) in wanted for source in record.sources):
            for source, part in zip(record.sources, _passed_back(record, gradient), strict=True):
                if part is not None and id(source) in wanted:
                    parts.setdefault(id(source), []).append(part)
    return [
        found[id(target)].astype(target.dtype) if id(target) in found else None
        for target in targets
    ]


def _passed_back(record: GradientRecord, gradient: Elements) -> Iterator[Elements | None]:
    """Yield the part of each source, None for one without."""
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


def one_hot(places: Elements, size: int) -> Elements:
    """Return the slope of a view: each row has a 1 at the place that it shows."""
    return np.eye(size)[places.reshape(-1)]


def slopes_of(op: str, operands: Operands, values: Sequence[Value]) -> Slopes | None:
    """Return the slopes of `op` at these operands, None where there is no rule."""
    is_half = any(each.dtype == np.float16 for each in operands)
    if op in _WITHOUT_RULE or (is_half and op in _WIDE):
        return None
    wide = [each.astype(np.float64) if each.dtype.kind == "f" else each for each in operands]
    return lambda: [
        _slope(op, wide, at, values) if each.dtype.kind == "f" else None
        for at, each in enumerate(wide)
    ]


def _slope(op: str, operands: Operands, at: int, values: Sequence[Value]) -> Elements:
    x = operands[at]
    if op == "cast":
        return np.eye(x.size)
    if op == "relu":
        return np.diag((x > 0).reshape(-1).astype(np.float64))
    columns = [
        _moved(op, operands, at, place, values, STEP)
        - _moved(op, operands, at, place, values, -STEP)
        for place in np.ndindex(x.shape)
    ]
    size = COMPUTE[op][1](operands, values).size
    slope = np.array(columns).reshape(x.size, size).T / (2 * STEP)
    # Moved upwards, each of several equal maxima is the only one.
    return slope / slope.sum(axis=1, keepdims=True) if op == "max" else slope


def _moved(
    op: str,
    operands: Operands,
    at: int,
    place: tuple[int, ...],
    values: Sequence[Value],
    by: float,
) -> Elements:
    """Return all results if one element of one operand is another."""
    moved = np.array(operands[at])
    moved[place] += by
    changed = [*operands[:at], moved, *operands[at + 1 :]]
    return COMPUTE[op][1](changed, values).astype(np.float64).reshape(-1)
