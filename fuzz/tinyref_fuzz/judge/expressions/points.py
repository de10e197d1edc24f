"""The values of a kernel's expressions at all of its points, and of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyref.algebra.semantics import kernel_for
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.judge.oracles.analysis import ELEMENTARY, Analysis
from tinyref_fuzz.judge.oracles.oracle import Allowed, Oracle
from tinyref_fuzz.judge.oracles.span import Span, point, widen
from tinyref_spec.bits import BoolArray
from tinyref_spec.kernel_case import Array, Case, Symptom

# Decompositions of EXP2, LOG2, SIN and POW come so close, in ULPs; what devices do need not. One
# more is for the reference, which is not rounded correctly everywhere.
OWED_ULPS = 2
_STRUCTURE = frozenset({Ops.SINK, Ops.STORE, Ops.DEFINE_GLOBAL, Ops.VIEW})


@dataclass(frozen=True)
class Problem:
    """What is wrong with an output: which service of the compiler, and what it makes of which node.

    symptom: another value, an error in its place, or what is done for nothing.
    """

    column: str
    text: str
    symptom: Symptom = Symptom.VALUE

    def __str__(self) -> str:
        return f"{self.column}: {self.text}"


class Points(Analysis):
    """The spans of all nodes of a kernel, and of further nodes over its loads; errors as of it."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.ast, case.buffers, case.bindings)

    def _span(self, node: UOp) -> Span:
        """As of kernels; of elementary functions of numbers, what decompositions owe."""
        found = super()._span(node)
        if node.op not in ELEMENTARY or not all(self.spans[each].is_point for each in node.src):
            return found
        kernel = kernel_for(node.op, node.dtype, [source.dtype for source in node.src])
        value = np.asarray(kernel(*(self.spans[source].low for source in node.src)))
        # Special results are exact, of some zeros the sign is open.
        is_special = ~(found.low < found.high)
        owed = widen(point(value), OWED_ULPS + 1, is_special)
        low = np.where(is_special, found.low, np.maximum(found.low, owed.low))
        high = np.where(is_special, found.high, np.minimum(found.high, owed.high))
        return replace(found, low=low, high=high)

    def _store(self, node: UOp) -> None:
        """What buffers may hold is asked of few kernels: see `oracle`."""

    def oracle(self, stores: Sequence[UOp]) -> Oracle:
        """What the slots that these write may hold."""
        for store in stores:
            if slot_of(store) not in self.allowed:
                super()._store(store)
        return Oracle({slot_of(store): self.allowed[slot_of(store)] for store in stores})

    def span(self, root: UOp) -> Span:
        """What the elements of a node may be, which need not be one of the kernel."""
        if root not in self.spans:
            with np.errstate(all="ignore"):
                for node in root.toposort():
                    if node not in self.spans and node.op not in _STRUCTURE:
                        self._visit(node)
        return self.spans[root]

    def known(self, node: UOp) -> Array | None:
        """The elements of an integer or bool that are specified; None where none is."""
        found = self.span(node)
        values = found.low if found.unknown is None else found.low[~found.unknown]
        return values if values.size else None

    def difference(self, wanted: UOp, found: UOp, where: BoolArray | None = None) -> str:
        """Where `found` has elements that `wanted` may not have: a sentence, "" for nowhere.

        where: the elements that count; all without it.
        """
        if wanted is found:
            return ""
        actual = self.span(found)
        ends = (actual.low,) if actual.is_point else (actual.low, actual.high)
        for end in ends:
            problem = difference(self.span(wanted), end, actual.unknown, where)
            if problem:
                return problem
        return ""


def difference(
    wanted: Span, actual: Array, unknown: BoolArray | None = None, where: BoolArray | None = None
) -> str:
    """Where `actual` is not among what `wanted` admits, or unspecified though that is not."""
    arrays = [wanted.low, wanted.high, actual]
    masks = [mask for mask in (wanted.unknown, unknown, where) if mask is not None]
    shape = np.broadcast_shapes(*(each.shape for each in (*arrays, *masks)))
    low, high, values = (np.broadcast_to(each, shape) for each in arrays)
    if wanted.is_point:
        high = low
    allowed = Allowed(low, high)
    if actual.dtype != low.dtype:
        return f"it is of {actual.dtype} instead of {low.dtype}"
    wrong = allowed.rejected_places(values)
    if unknown is not None:
        wrong = wrong | unknown
    if wanted.unknown is not None:
        wrong = wrong & ~wanted.unknown
    if where is not None:
        wrong = wrong & where
    if not wrong.any():
        return ""
    number = int(np.flatnonzero(wrong)[0])
    flat = Allowed(low.reshape(-1), low.reshape(-1) if wanted.is_point else high.reshape(-1))
    return flat.sentence(number, values.reshape(-1))
