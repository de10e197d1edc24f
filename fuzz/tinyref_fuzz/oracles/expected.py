"""The oracle of a case: the evaluator where nothing rounds, else derived bounds."""

from __future__ import annotations

from tinyref.uops.evaluate import evaluate
from tinyref_fuzz.case import Case
from tinyref_fuzz.oracles.oracle import Allowed, Oracle


def expected(case: Case) -> Oracle:
    """What the written slots of `case` may hold; errors as of `evaluate`."""
    values = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    return Oracle({slot: Allowed(value, value, value) for slot, value in values.items()})
