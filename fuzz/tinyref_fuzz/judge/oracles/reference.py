"""Check the op table by the spec's references, which share nothing with it.

Evaluator, interpreter and constant folding use the same op table, so comparing them cannot reveal
wrong semantics. This module checks each op separately, on a grid of values of its types.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref.algebra import semantics
from tinyref.dtype import DType, dtypes
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref_spec import oracles
from tinyref_spec.error_rules import Ulp, ulp_limit
from tinyref_spec.kernel_case import Array
from tinyref_spec.measure import judge
from tinyref_spec.samples import edges, small_integers, ties

Signature = tuple[Ops, DType, tuple[DType, ...]]

# Number of operands of a signature on the grid.
GRID = 128


@dataclass(frozen=True)
class OpProblem:
    """Problem of an op with its reference."""

    cause: str
    """The name of the op."""
    detail: str


def signature_of(node: UOp) -> Signature:
    """Return the op and the scalar types that decide the semantics of an ALU node."""
    return node.op, node.dtype.scalar, tuple(source.dtype.scalar for source in node.src)


def expected(signature: Signature, operands: Sequence[Array]) -> oracles.Expected | None:
    """Return the spec's expected values for flat `operands`; None if it has no reference."""
    op, dtype, sources = signature
    if op is Ops.CAST:
        return oracles.cast(operands[0], sources[0], dtype)
    if op is Ops.BITCAST:
        return oracles.bitcast(operands[0], dtype)
    try:
        return oracles.evaluate(op.name, sources[0] if dtype.is_bool else dtype, operands)
    except KeyError:
        return None


def op_problem(signature: Signature, operands: Sequence[Array], value: Array) -> str:
    """Describe why `value` is wrong for `operands`, flat and of equal length; "" if it is right."""
    op, dtype, _ = signature
    reference = expected(signature, operands)
    if reference is None or not value.size:
        return ""
    judgement = judge(value, reference, Ulp(ulp_limit(op.name, dtype)))
    if not judgement.fails:
        return ""
    at = judgement.first
    operand_text = ", ".join(str(operand[at]) for operand in operands)
    return (
        f"{op.name} of {operand_text} as {dtype.name} is {value[at]!s} "
        f"instead of {reference.values[at]!s}"
    )


def semantics_fault(nodes: Iterable[UOp]) -> OpProblem | None:
    """Return the first op among `nodes` whose semantics contradict the reference."""
    signatures = dict.fromkeys(signature_of(node) for node in nodes if node.op in ALU)
    return next(filter(None, map(_signature_fault, signatures)), None)


@functools.cache
def _signature_fault(signature: Signature) -> OpProblem | None:
    op, dtype, sources = signature
    if dtypes.index in (dtype, *sources):
        # The grid would overflow it. The program has the same op with other integer types.
        return None
    operands = [_grid(source, number) for number, source in enumerate(sources)]
    value = semantics.apply(op, dtype, operands, sources)
    problem = op_problem(signature, operands, value)
    return OpProblem(op.name, problem) if problem else None


def _grid(dtype: DType, number: int) -> Array:
    """Return edges, small numbers and ties in turn, in a different order for each operand."""
    words = np.random.PCG64(number).random_raw(GRID)
    grid = small_integers(dtype, GRID, number, 9)
    for turn, values in enumerate((edges(dtype), ties(dtype))):
        drawn = values[(words % np.uint64(values.size)).astype(np.int64)]
        # Operands change at different rates, so that every kind is combined with every other.
        grid = np.where(np.arange(GRID) // 3**number % 3 == turn, drawn, grid)
    return grid
