"""The check that each rule does what its laws say: rules are fired on instances of their laws.

An instance of a law has numbers for the constants, and variables of known ranges for the other
leaves. If the rule fires, its result must equal the left side for all values in the ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

import numpy as np

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression, value_of
from tinyref.algebra.rewrite import RuleSet, rewrite
from tinyref.algebra.rules.folding import fold_constants
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import AxisKind
from tinyref_spec.proofs.law import Law
from tinyref_spec.proofs.patterns import ranges
from tinyref_spec.proofs.prover import ProofResult, claim
from tinyref_spec.proofs.semantics import Bits, Integers, Semantics

EFFORT = 3_000_000
# Up to this many combinations of values, all of them are tried.
MAX_VALUES = 200_000
FOLD = RuleSet([fold_constants], "fold")
CONSTANTS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12, 15, 16, -1, -2, -3, -7)
SPANS = (
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 6),
    (1, 5),
    (0, 13),
    (3, 3),
    (4, 7),
    (9, 16),
    (20, 40),
    (-3, 4),
    (-9, -1),
    (-20, 20),
)
# Share of leaves that may have any value of their type.
WIDEST = 0.1
# Share of constants that violate the law: a rule that does not check them is then wrong.
VIOLATED = 0.25
BITWISE = frozenset({Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.BITCAST})

# Returns the replacement of a node: a `Rule`, or a wrong variant of one.
Applied: TypeAlias = Callable[[UOp], UOp | None]


def firings(
    rule: Applied, law: Law, dtype: DType, seed: int, count: int
) -> Iterator[tuple[UOp, UOp]]:
    """Yield those of `count` random instances of `law` on which the rule fires, with its result."""
    source = Random(f"{seed} {law.label} {dtype.name}")
    for _ in range(count):
        try:
            node = instance(law, dtype, source)
        except UserError:
            # A constant that the type does not hold.
            continue
        result = rule(node)
        if result is not None:
            yield node, result


def instance(law: Law, dtype: DType, source: Random) -> UOp:
    """Return the left side at random constants and ranges, with its sums in place of the leaves.

    Raises `UserError` for constants that `dtype` cannot hold.
    """
    sums = {leaf for leaf, _ in law.equation(dtype).reads}
    leaves = {}
    for name, leaf in zip(law.names, law.leaves(dtype), strict=True):
        if leaf in sums:
            leaves[name] = leaf
        elif name in law.constants:
            leaves[name] = _constant(dtype, source)
        else:
            leaves[name] = leaf if dtype.is_bool else _variable(name, dtype, source)
    equation = law.function(**leaves)
    known: dict[UOp, UOp] = {}
    for leaf, total in equation.reads:
        known[leaf] = _computed(substitute(total, known))
        if known[leaf].op is Ops.CONST and source.random() < VIOLATED:
            known[leaf] = _constant(dtype, source)
    return rewrite(substitute(equation.left, known), FOLD)


def _computed(total: UOp) -> UOp:
    """Return a sum of constants as a constant, any other one as it is."""
    if any(not node.src and node.op is not Ops.CONST for node in total.toposort()):
        return total
    return build.const(total.dtype, value_of(total, {}))


def _constant(dtype: DType, source: Random) -> UOp:
    return build.const(dtype, source.choice((False, True) if dtype.is_bool else CONSTANTS))


def _variable(name: str, dtype: DType, source: Random) -> UOp:
    low, high = source.choice(SPANS)
    if dtype.is_unsigned and low < 0:
        low, high = 0, high - low
    if low == 0 and dtype is dtypes.index and source.random() < 0.2:
        return build.counter(high + 1, len(name) + ord(name[0]), AxisKind.LOOP)
    if source.random() < WIDEST and dtype is not dtypes.index:
        low, high = int(dtype.minimum), int(dtype.maximum)
    return build.variable(name, low, high, dtype)


def same_value(left: UOp, right: UOp) -> tuple[ProofResult, str]:
    """Return whether both nodes are equal for all values in the ranges of their leaves.

    If there are few values, all are tried; else the solver answers.
    """
    nodes = toposort((left, right))
    leaves = [node for node in nodes if node.op in (Ops.DEFINE_VAR, Ops.RANGE)]
    count = 1
    for low, high in map(bounds, leaves):
        count *= high - low + 1
    is_expression = all(node in leaves or node.op in ALU | {Ops.CONST} for node in nodes)
    if count > MAX_VALUES or not is_expression:
        return _by_solver(left, right)
    spans = [np.arange(low, high + 1) for low, high in map(bounds, leaves)]
    grids = np.meshgrid(*spans, indexing="ij")
    values = {
        leaf: grid.astype(numpy_dtype(leaf.dtype)) for leaf, grid in zip(leaves, grids, strict=True)
    }
    sides = [evaluate_expression(node, values) for node in (left, right)]
    return (
        ProofResult.PROVED if np.all(sides[0] == sides[1]) else ProofResult.REFUTED
    ), "by its values"


def _by_solver(left: UOp, right: UOp) -> tuple[ProofResult, str]:
    nodes = toposort((left, right))
    divides = any(node.op in (Ops.IDIV, Ops.MOD) for node in nodes)
    is_index = any(node.dtype is dtypes.index for node in nodes)
    has_bits = any(node.op in BITWISE and node.dtype.is_int for node in nodes)
    by_integers = (divides or is_index) and not has_bits
    terms: Semantics = Integers(wraps=True) if by_integers else Bits()
    known = [terms.term(node) for node in ranges(left, right)]
    goal = terms.term(left) == terms.term(right)
    return claim([*known, *terms.definitions], goal, EFFORT)
