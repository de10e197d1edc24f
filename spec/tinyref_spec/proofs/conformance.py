"""Whether each rule does what its laws say: rules are fired on instances of their laws.

An instance of a law has constants in the place of the constants, and variables of known ranges in
the place of the other leaves. Where the rule fires, what it gives must equal the left side for all
values in the ranges, and the right side of the law where its conditions hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import z3

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.linear import constant_of
from tinyref.algebra.rewrite import Rule
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref_spec.proofs import instances
from tinyref_spec.proofs.law import Equation, Law
from tinyref_spec.proofs.prover import Answer, claim
from tinyref_spec.proofs.semantics import Bits, Integers, Semantics

EFFORT = 3_000_000
# How often constants violate what a law says of them: a rule that does not look is wrong there.
VIOLATED = 0.25
# With no more combinations of values than that, all of them are tried.
MAX_VALUES = 200_000
_BITWISE = frozenset({Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.BITCAST})
_DIVISIONS = frozenset({Ops.IDIV, Ops.MOD})

# What a rule makes of a node: a `Rule`, or a wrong variant of one.
Applied = Callable[[UOp], UOp | None]


@dataclass(frozen=True)
class Finding:
    """One instance: what the rule made of it (None where it refused) and whether that is right."""

    node: UOp
    result: UOp | None
    answer: Answer
    detail: str = ""


def findings(
    rule: Rule | Applied, law: Law, dtype: DType, seed: int, count: int
) -> Iterator[Finding]:
    """The findings on `count` random instances of `law` at `dtype`."""
    source = random.Random(f"{seed} {law.label} {dtype.name}")
    for _ in range(count):
        equation = instances.folded_instance(law, dtype, source, violated=VIOLATED)
        if equation is not None:
            yield judge(rule, equation)


def judge(rule: Rule | Applied, equation: Equation) -> Finding:
    """Fires the rule on the left side and compares what it gives with both sides."""
    try:
        result = rule(equation.left)
    except UserError as error:
        return Finding(equation.left, None, Answer.REFUTED, f"the rule raises {error}")
    if result is None:
        return Finding(equation.left, None, Answer.PROVED)
    answer, detail = same_value(equation.left, result)
    if answer is Answer.REFUTED:
        return Finding(equation.left, result, answer, detail)
    # Where all conditions hold, the law itself says that the left side is the right one.
    is_lawful = all(constant_of(condition) == 1 for condition in equation.given)
    if answer is Answer.PROVED or is_lawful:
        answer, detail = same_value(equation.right, result, equation.given)
    return Finding(equation.left, result, answer, detail)


def same_value(left: UOp, right: UOp, given: tuple[UOp, ...] = ()) -> tuple[Answer, str]:
    """Whether both nodes are equal for all values in the ranges of their leaves, by two ways.

    By all values and the semantics of the op table where there are not too many, and by the solver.
    """
    if left is right:
        return Answer.PROVED, ""
    tried = _by_values(left, right, given)
    if tried is False:
        return Answer.REFUTED, "by its values"
    answer, detail = _by_solver(left, right, given)
    if answer is Answer.UNKNOWN and tried is True:
        return Answer.PROVED, ""
    return answer, detail


def _leaves(*roots: UOp) -> list[UOp]:
    return [node for node in toposort(roots) if node.op in (Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL)]


def _by_values(left: UOp, right: UOp, given: tuple[UOp, ...]) -> bool | None:
    """None where there are too many values, or nodes that are no expressions."""
    nodes = toposort((left, right, *given))
    if any(node.op not in ALU | {Ops.CONST, Ops.DEFINE_VAR, Ops.RANGE} for node in nodes):
        return None
    leaves = _leaves(left, right, *given)
    spans = [bounds(leaf) for leaf in leaves]
    total = 1
    for low, high in spans:
        total *= high - low + 1
    if total > MAX_VALUES:
        return None
    every = [
        np.arange(low, high + 1).astype(numpy_dtype(leaf.dtype))
        for leaf, (low, high) in zip(leaves, spans, strict=True)
    ]
    grids = dict(zip(leaves, np.meshgrid(*every, indexing="ij"), strict=True))
    holds = np.broadcast_to(np.True_, (total,))
    for condition in given:
        found = np.broadcast_to(evaluate_expression(condition, grids), _shape(every))
        holds = holds & found.ravel()
    values = [
        np.broadcast_to(evaluate_expression(node, grids), _shape(every)).ravel()
        for node in (left, right)
    ]
    return bool(np.all(values[0][holds] == values[1][holds]))


def _shape(every: Sequence[npt.NDArray[np.generic]]) -> tuple[int, ...]:
    return tuple(len(values) for values in every)


def _by_solver(left: UOp, right: UOp, given: tuple[UOp, ...]) -> tuple[Answer, str]:
    roots = (left, right, *given)
    nodes = toposort(roots)
    divides = any(node.op in _DIVISIONS for node in nodes)
    is_index = any(node.dtype is dtypes.index for node in nodes)
    has_bits = any(node.op in _BITWISE and node.dtype.is_int for node in nodes)
    by_integers = (divides or is_index) and not has_bits
    terms: Semantics = Integers(wraps=True) if by_integers else Bits()
    known = [terms.term(node) for node in given]
    sides = [terms.term(node) for node in (left, right)]
    for leaf in _leaves(*roots):
        if leaf.dtype.is_bool:
            continue
        low, high = bounds(leaf)
        term = terms.term(leaf)
        if by_integers or not leaf.dtype.is_unsigned:
            known += [low <= term, term <= high]
        else:
            known += [z3.UGE(term, low), z3.ULE(term, high)]
    return claim([*known, *terms.definitions], sides[0] == sides[1], EFFORT)


# Rules whose laws are about other things than nodes on which they fire: the order of nodes, or
# ranges. `tests/algebra/test_rules.py` has nodes on which each of them fires.
NEVER_FIRES = frozenset(
    {
        *("fold-range", "gep-const", "div-symbolic", "mod-symbolic"),
        *("lt-first", "mod-inner-mod"),
    }
)
