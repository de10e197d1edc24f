"""Which instances of a law count: those to which its own rule has to be applied.

The conditions of the law hold for all values in the ranges of the leaves, nothing wraps, and no
other rule takes away a part of the left side before. That the conditions hold is not asked of the
compiler, which would lose its rules together with what it knows of ranges: all values are tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.simplify import simplify
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref_spec.proofs.instances import is_exact
from tinyref_spec.proofs.law import Equation

# What is always written as a sum, whatever the rule of the law does.
_SUMS = frozenset({Ops.SUB, Ops.NEG})
# What may leave a type.
_WRAPPING = frozenset({Ops.ADD, Ops.MUL, *_SUMS})
_DIVISIONS, _DIVISION = frozenset({Ops.IDIV, Ops.MOD}), 8
# Rules that are for fewer nodes than their laws, and which; elsewhere their left sides may stay.
PARTLY = {
    "int-distribute": "of index alone",
    "int-mulacc": "of index alone",
    "lt-first": "of remainders alone",
    "mod-inner-mod": "inside of another remainder",
    "fold-range": "of operations, not of leaves",
}
# With no more combinations of values than that, all of them are tried.
_MOST_VALUES = 20_000


def operations(node: UOp) -> int:
    """How many operations there are in an expression: a quotient or remainder is as many as eight.

    What is used twice counts once.
    """
    return sum(_DIVISION if each.op in _DIVISIONS else 1 for each in node.toposort() if each.src)


def counts(equation: Equation) -> bool:
    """Whether it is the law's rule that has to be applied, see above."""
    left = equation.left
    nodes = left.toposort()
    parts = [node for node in nodes if node is not left and node.op is not Ops.CONST]
    grids = _all_values(_leaves_of(equation))
    if equation.given and not _holds(equation.given, grids):
        return False
    known = dict(grids or {})
    if any(_has_one_value(part, known) or _is_taken_away(part) for part in parts):
        return False
    return not _may_wrap(left) or _is_exact(equation)


# Leaves with numbers that are known; what is read from memory has none.
_LEAVES = frozenset({Ops.DEFINE_VAR, Ops.RANGE})
Grids = Mapping[UOp, npt.NDArray[np.generic]]


def _leaves_of(equation: Equation) -> list[UOp]:
    every = toposort((equation.left, *equation.given))
    return [node for node in every if node.op in _LEAVES]


def _all_values(leaves: Sequence[UOp]) -> Grids | None:
    """All values of the leaves together; None for too many of them."""
    spans = [_span(leaf) for leaf in leaves]
    if math.prod(high - low + 1 for low, high in spans) > _MOST_VALUES:
        return None
    return _grid([range(low, high + 1) for low, high in spans], leaves)


def _grid(values: Sequence[Sequence[int]], leaves: Sequence[UOp]) -> Grids:
    arrays = (
        np.array(each, numpy_dtype(leaf.dtype)) for leaf, each in zip(leaves, values, strict=True)
    )
    return dict(zip(leaves, np.meshgrid(*arrays, indexing="ij", sparse=True), strict=True))


def _span(leaf: UOp) -> tuple[int, int]:
    if isinstance(leaf.arg, VarArg):
        return int(leaf.arg.minimum), int(leaf.arg.maximum)
    bound = leaf.src[0].arg
    return 0, int(bound.value) - 1 if isinstance(bound, ConstArg) else _MOST_VALUES


def _holds(conditions: Sequence[UOp], grids: Grids | None) -> bool:
    where = _where(conditions, grids)
    return where is not None and bool(np.all(where))


def _where(conditions: Sequence[UOp], grids: Grids | None) -> npt.NDArray[np.bool_] | None:
    """For which values all conditions hold; None where that is not known."""
    if grids is None or not all(_is_expression(each) for each in conditions):
        return None
    holds = np.ones((), np.bool_)
    for each in conditions:
        holds = holds & np.asarray(evaluate_expression(each, grids)).astype(np.bool_)
    return holds


def _is_expression(node: UOp) -> bool:
    return all(each.op in ALU or each.op in (Ops.CONST, *_LEAVES) for each in node.toposort())


def _has_one_value(node: UOp, known: dict[UOp, npt.NDArray[np.generic]]) -> bool:
    """Whether a node is always one number; its values are added to those of its sources."""
    if node.op in _LEAVES:
        low, high = _span(node)
        return low == high
    sources = (source for source in node.src if source.op is not Ops.CONST)
    if node.op not in ALU or not all(source in known for source in sources):
        return False
    values = known[node] = np.asarray(evaluate_expression(node, known))
    return bool(np.all(values == values.flat[0]))


def _is_taken_away(node: UOp) -> bool:
    """Whether another rule makes another operation of a part."""
    return node.op in ALU and node.op not in _SUMS and simplify(node).op is not node.op


def _may_wrap(left: UOp) -> bool:
    nodes = left.toposort()
    has_sum = any(node.op in _WRAPPING and node.dtype is not dtypes.index for node in nodes)
    return has_sum and any(node.dtype.is_int for node in nodes) and _is_expression(left)


def _is_exact(equation: Equation) -> bool:
    # A difference of unsigned numbers is a sum with one that is close to 2**n.
    nodes = equation.left.toposort()
    if any(node.op in _SUMS and node.dtype.is_unsigned for node in nodes):
        return False
    return is_exact(equation.left) and is_exact(equation.right)
