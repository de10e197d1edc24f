"""Decide whether a step of a compile is wrong by its rule, or by a range that the rule used.

Both sides of a rule are computed for drawn values of their leaves, where every value is specified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinyref.algebra.bounds import value_range
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.rewrite import OptionalStep
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref_fuzz.judge.oracles.arithmetic import apply
from tinyref_fuzz.judge.oracles.span import Span, is_nan, mask_of, point
from tinyref_spec.kernel_case import Array
from tinyref_spec.samples import edges, small_integers, ties

BOUNDS = "bounds"
DRAWN = 1024


def guilty_rule(step: OptionalStep, bindings: Mapping[str, int]) -> str:
    """Return the rule of a step, or `BOUNDS`; "" if both sides are equal."""
    if step.node is None or step.result is None:
        return step.name
    try:
        spans = _spans((step.node, step.result), bindings)
    except Exception:  # the nodes come from a faulty compiler
        return step.name
    if step.node.op in ALU and _is_equal(spans[step.node], spans[step.result]):
        return ""
    is_misled = any(
        _is_out_of_range(node, spans[node]) for node in toposort([step.node], _operands)
    )
    return BOUNDS if is_misled else step.name


def _spans(roots: Sequence[UOp], bindings: Mapping[str, int]) -> dict[UOp, Span]:
    """Return the values of the roots and of their operands; leaves are drawn."""
    spans: dict[UOp, Span] = {}
    with np.errstate(all="ignore"):
        for number, node in enumerate(toposort(roots, _operands)):
            if isinstance(node.arg, ConstArg):
                spans[node] = point(np.full(DRAWN, node.arg.value, numpy_dtype(node.dtype.scalar)))
            elif node.op in ALU:
                sources = [spans[source] for source in node.src]
                types = [source.dtype.scalar for source in node.src]
                spans[node] = apply(node.op, node.dtype.scalar, types, sources)
            else:
                spans[node] = point(_drawn(node, number, bindings))
    return spans


def _operands(node: UOp) -> tuple[UOp, ...]:
    return node.src if node.op in ALU else ()


def _drawn(node: UOp, number: int, bindings: Mapping[str, int]) -> Array:
    """Draw values that a leaf may have."""
    dtype = node.dtype.scalar
    if dtype is dtypes.void:
        return np.zeros(DRAWN, np.int64)
    if node.op in (Ops.RANGE, Ops.SPECIAL):
        pool = np.arange(max(1, min(value_of(node.src[0], bindings), DRAWN)))
    elif isinstance(node.arg, VarArg):
        pool = np.linspace(node.arg.minimum, node.arg.maximum, 9).astype(np.int64)
    else:
        pool = np.concatenate([small_integers(dtype, DRAWN, number, 9), edges(dtype), ties(dtype)])
    chosen = np.random.default_rng(number).integers(0, pool.size, DRAWN)
    return np.asarray(pool[chosen]).astype(numpy_dtype(dtype))


def _is_equal(first: Span, second: Span) -> bool:
    both_nan = is_nan(first.low) & is_nan(second.low)
    overlap = (first.low <= second.high) & (second.low <= first.high)
    return bool((both_nan | overlap | mask_of(first) | mask_of(second)).all())


def _is_out_of_range(node: UOp, values: Span) -> bool:
    """Return True if the known range of a value does not contain it."""
    if not (node.dtype.is_int or node.dtype.is_bool):
        return False
    known = value_range(node)
    if known is None:
        return False
    exact = values.low.astype(object)
    outside = np.asarray((exact < known[0]) | (exact > known[1]), np.bool_)
    return bool((outside & ~mask_of(values)).any())
