"""Simplification of expressions to a fixed point of all rules, also under conditions.

The rules add no op that a device may lack: a simplified expression of core ops (see semantics.md)
consists of core ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinyref.algebra.bounds import bounds
from tinyref.algebra.linear import LinearForm, exact, to_node
from tinyref.algebra.named_rules import rules_of
from tinyref.algebra.op_table import Range
from tinyref.algebra.rewrite import RuleSet, rewrite
from tinyref.algebra.rules import (
    boolean,
    casts,
    comparison,
    division,
    floats,
    folding,
    integer,
    select,
)
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute, toposort
from tinyref.uops.ops import Ops

ALL_RULES = RuleSet(
    rules_of(boolean, casts, comparison, division, floats, folding, integer, select), "simplify"
)

# Each round narrows the terms of a condition by the ranges that other conditions imply.
NARROWING_ROUNDS = 3


def simplify(node: UOp) -> UOp:
    """Return the simplest known node with the value of `node`; the result is stored with it."""
    return rewrite(node, ALL_RULES)


def simplify_with(node: UOp, conditions: Iterable[UOp]) -> UOp:
    """Return the simplest known node with the value of `node` where all `conditions` are true.

    Elsewhere the value may differ: this is for values behind a gate. If the conditions contradict
    each other, any value is correct.
    """
    root = simplify(node)
    facts = _facts(conditions)
    root = simplify(substitute(root, _truths(facts)))
    constraints = [constraint for fact in facts for constraint in _constraints(fact)]
    ranges = _narrow(constraints)
    if ranges is None:
        return root
    leaves = _stand_ins(ranges)
    best = _through(root, leaves, _back(leaves))
    for constraint in constraints:
        if len(constraint.terms) > 1:
            best = _through_sum(best, constraint, constraints, leaves)
    return best


def _facts(conditions: Iterable[UOp]) -> list[UOp]:
    """Return the parts of the conjunction of `conditions`, without constants."""
    facts: dict[UOp, None] = {}
    for condition in conditions:
        simple = simplify(condition)
        for part in boolean.parts_of(Ops.AND, simple) or [simple]:
            if part.op is not Ops.CONST and part.dtype.lanes == 1:
                facts[part] = None
    return list(facts)


def _truths(facts: Sequence[UOp]) -> dict[UOp, UOp]:
    """Map the facts to constants: p is True; if the fact is not p, p is False."""
    known = {}
    for fact in facts:
        inner = boolean.operand_of_not(fact)
        known[fact] = build.const(fact.dtype, True)
        if inner is not None:
            known[inner] = build.const(fact.dtype, False)
    return known


def _constraints(fact: UOp) -> list[LinearForm]:
    """Return exact sums that are at most 0 if the bool `fact` is true."""
    inner = boolean.operand_of_not(fact)
    comparison_node = fact if inner is None else inner
    if comparison_node.op not in (Ops.CMPLT, Ops.CMPNE):
        return []
    if not comparison_node.src[0].dtype.is_int:
        return []
    left, right = map(exact, comparison_node.src)
    if comparison_node.op is Ops.CMPNE:
        return [] if inner is None else [left.plus(right, -1), right.plus(left, -1)]
    if inner is not None:
        return [right.plus(left, -1)]
    return [left.plus(right, -1).plus(LinearForm({}, 1))]


def _narrow(constraints: Sequence[LinearForm]) -> dict[UOp, Range] | None:
    """Return the range of each term that the constraints narrow; None if they contradict."""
    natural = {term: bounds(term) for constraint in constraints for term in constraint.terms}
    ranges = dict(natural)
    for _ in range(NARROWING_ROUNDS):
        for constraint in constraints:
            least = {
                term: min(end * k for end in ranges[term]) for term, k in constraint.terms.items()
            }
            total = sum(least.values()) + constraint.constant
            for term, factor in constraint.terms.items():
                room = least[term] - total
                low, high = ranges[term]
                if factor > 0:
                    high = min(high, room // factor)
                else:
                    low = max(low, -(room // -factor))
                if low > high:
                    return None
                ranges[term] = (low, high)
    return {term: span for term, span in ranges.items() if span != natural[term]}


def _stand_in(number: int, like: UOp, span: Range) -> UOp:
    return build.variable(f"~{number}", span[0], span[1], like.dtype)


def _stand_ins(ranges: dict[UOp, Range]) -> dict[UOp, UOp]:
    """Return a variable of the narrower range for each term, or a constant for a single value."""
    return {
        term: (
            build.const(term.dtype, span[0])
            if span[0] == span[1]
            else _stand_in(number, term, span)
        )
        for number, (term, span) in enumerate(ranges.items())
        if term.dtype.lanes == 1
    }


def _back(leaves: dict[UOp, UOp]) -> dict[UOp, UOp]:
    return {variable: term for term, variable in leaves.items() if variable.op is Ops.DEFINE_VAR}


def _through(node: UOp, there: dict[UOp, UOp], back: dict[UOp, UOp]) -> UOp:
    """Simplify `node` with the replacements `there`, which `back` undoes, if this shrinks it."""
    if not there:
        return node
    result = simplify(substitute(simplify(substitute(node, there)), back))
    return result if _size(result) < _size(node) else node


def _size(node: UOp) -> int:
    return sum(part.op is not Ops.CONST for part in toposort((node,)))


def _through_sum(
    node: UOp, constraint: LinearForm, constraints: Sequence[LinearForm], leaves: dict[UOp, UOp]
) -> UOp:
    """Simplify `node` with the whole sum of `constraint` as one variable of its narrow range.

    A term of coefficient 1 or -1 is replaced by this variable minus the other terms.
    """
    key = next((term for term, k in constraint.terms.items() if abs(k) == 1), None)
    if key is None or key.dtype.lanes != 1:
        return node
    total = LinearForm({}, 0).plus(LinearForm(constraint.terms, 0), constraint.terms[key])
    low, high = _range_of_sum(total, constraints)
    if low > high or not total.fits(key.dtype):
        return node
    stand_in = _stand_in(len(leaves), key, (low, high))
    others = LinearForm({term: k for term, k in total.terms.items() if term is not key}, 0)
    solved = substitute(to_node(key.dtype, LinearForm({stand_in: 1}, 0).plus(others, -1)), leaves)
    back = _back(leaves)
    back[stand_in] = to_node(key.dtype, total)
    return _through(node, {**leaves, key: solved}, back)


def _range_of_sum(total: LinearForm, constraints: Sequence[LinearForm]) -> Range:
    """Return the range of `total` without its constant, from its terms and equal constraints."""
    low, high = total.range
    negative = LinearForm({}, 0).plus(total, -1)
    for constraint in constraints:
        if constraint.terms == total.terms:
            high = min(high, -constraint.constant)
        elif constraint.terms == negative.terms:
            low = max(low, constraint.constant)
    return low, high
