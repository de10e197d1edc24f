"""Which rule is wrong: every firing of a compile, both sides computed at sampled positions.

Rules look at value ranges and linear forms. Where these are wrong for a node of the firing, they
are named and not the rule that believed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra.bounds import value_range
from tinyref.algebra.linear import Linear, exact, modular
from tinyref.algebra.rewrite import listening
from tinyref.dtype import dtypes
from tinyref.formats.text import node_text
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.blame.samples import Samples

Array = npt.NDArray[Any]

BOUNDS = "bounds"
LINEAR = "linear"


@dataclass(frozen=True)
class Firing:
    """One rule at work: what it matched, and what it made of that."""

    rule: str
    node: UOp
    result: UOp

    def __str__(self) -> str:
        return f"{self.rule}: {node_text(self.node)} -> {node_text(self.result)}"


@dataclass(frozen=True)
class Wrong:
    """What is wrong: a rule by its name, or `BOUNDS`, or `LINEAR`; and where that was seen."""

    cause: str
    detail: str


def record_firings(compiles: Callable[[], object]) -> list[Firing]:
    """The firings of `compiles`, in order, each once; errors end it without a word."""
    found: dict[Firing, None] = {}

    def note(rule: str, node: UOp, result: UOp) -> None:
        found[Firing(rule, node, result)] = None

    try:
        with listening(rules=note, afresh=True):
            compiles()
    except Exception:  # whatever the error, the firings before it are what is asked for
        return list(found)
    return list(found)


def first_wrong(
    firings: list[Firing], buffers: Mapping[int, Array], bindings: Mapping[str, int]
) -> Wrong | None:
    """What is wrong with the first firing whose sides differ; None where all are equal."""
    samples = Samples(buffers, bindings)
    for firing in firings:
        problem = difference(samples, firing)
        if problem:
            below = first_wrong_fact([firing.node], samples)
            return below or Wrong(firing.rule, f"{firing}: {problem}")
    return None


def difference(samples: Samples, firing: Firing) -> str:
    """How the two sides of a firing differ; nothing where they agree or nothing is specified."""
    before, after = (_effect(each) for each in (firing.node, firing.result))
    if before is None or after is None or before.dtype is not after.dtype:
        return ""
    value, is_known = samples.of(before)
    made, is_made_known = samples.of(after)
    if samples.is_empty:
        samples.is_empty = False
        return ""
    with np.errstate(all="ignore"):
        differs = (value != made) & ~((value != value) & (made != made))
    differs = differs & is_known & is_made_known
    if not differs.any():
        return ""
    where = tuple(axis[0] for axis in np.nonzero(differs))
    had, got = (np.broadcast_to(each, differs.shape)[where] for each in (value, made))
    return f"{got!s} instead of {had!s}"


def _effect(node: UOp) -> UOp | None:
    """What can be compared of a node; None for one without value."""
    if node.op is Ops.STORE:
        return node.src[1]
    return node if node.dtype is not dtypes.void else None


def first_wrong_fact(roots: list[UOp], samples: Samples) -> Wrong | None:
    """The first node below `roots` whose value range or linear form is wrong; None without one."""
    seen: dict[UOp, None] = {}
    for root in roots:
        samples.of(root)
        seen.update(dict.fromkeys(root.toposort()))
    for node in seen:
        if node.dtype.is_int or node.dtype.is_bool:
            problem = _outside(node, samples)
            if problem:
                return Wrong(BOUNDS, f"{node_text(node)}: {problem}")
    for node in seen:
        if node.dtype.is_int and node.dtype.lanes == 1:
            for kind, form in _forms(node):
                problem = _unequal(node, form, samples, kind == "modular")
                if problem:
                    return Wrong(LINEAR, f"{kind} form of {node_text(node)}: {problem}")
    return None


def _outside(node: UOp, samples: Samples) -> str:
    try:
        span = value_range(node)
    except Exception as error:  # a range that cannot be computed is wrong as well
        return f"{type(error).__name__}: {error}"
    if span is None:
        return ""
    value, is_known = samples.found[node]
    low, high = int(value_range(node)[0]), span[1]  # type: ignore[index]
    outside = is_known & ((value < _in(value, low)) | (value > _in(value, high)))
    if not outside.any():
        return ""
    number = np.broadcast_to(value, outside.shape)[outside].reshape(-1)[0]
    return f"{number!s} is not in the range from {low} to {high}"


def _in(values: Array, bound: int) -> int:
    """A bound that the type of `values` can be compared with."""
    if values.dtype == np.bool_:
        return bound
    limits = np.iinfo(values.dtype)
    return min(max(bound, limits.min), limits.max)


def _forms(node: UOp) -> Iterator[tuple[str, Linear]]:
    for kind, form in (("exact", exact), ("modular", modular)):
        try:
            found = form(node)
        except Exception:  # a form that cannot be had is no form
            continue
        if found is not None and node not in found.terms:
            yield kind, found


def _unequal(node: UOp, form: Linear, samples: Samples, wraps: bool) -> str:
    """Where the sum is not the value of the node; in Python's integers, which never wrap."""
    value, is_known = samples.found[node]
    total = np.full(value.shape, form.constant, object)
    for term, factor in form.terms.items():
        if term not in samples.found:
            samples.of(term)
        part, is_part_known = samples.found[term]
        total = total + part.astype(object) * factor
        is_known = is_known & is_part_known
    excess = np.asarray(total - value.astype(object))
    if wraps and node.dtype.scalar is not dtypes.index:
        excess = excess % (1 << node.dtype.bits)
    differs = np.asarray(excess != 0, np.bool_) & is_known
    return "not the sum of its terms" if differs.any() else ""
