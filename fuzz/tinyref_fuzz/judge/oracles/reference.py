"""The op table against the spec's references, which share nothing with it.

Evaluator, interpreter and folding take what an op means from one table, so that they agree on a
wrong semantics: to ask which of them is alone says nothing. Here each op is looked at by itself, on
a grid of its types.
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

# Operands of a signature on the grid.
GRID = 128


@dataclass(frozen=True)
class OpProblem:
    """What a reference finds wrong: the name of an op, and the problem."""

    cause: str
    detail: str


def signature_of(node: UOp) -> Signature:
    """The op and the scalar types that decide what an ALU node means."""
    return node.op, node.dtype.scalar, tuple(source.dtype.scalar for source in node.src)


def expected(signature: Signature, operands: Sequence[Array]) -> oracles.Expected | None:
    """What flat `operands` owe by the spec's reference; None for what it has no reference for."""
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
    """Why `value` is not what the op owes for `operands`, flat and equally long; "" if it is."""
    op, dtype, _ = signature
    owed = expected(signature, operands)
    if owed is None or not value.size:
        return ""
    found = judge(value, owed, Ulp(ulp_limit(op.name, dtype)))
    if not found.fails:
        return ""
    at = found.first
    given = ", ".join(str(operand[at]) for operand in operands)
    return f"{op.name} of {given} as {dtype.name} is {value[at]!s} instead of {owed.values[at]!s}"


def semantics_fault(nodes: Iterable[UOp]) -> OpProblem | None:
    """The first op among `nodes` whose semantics in the op table are not the reference's."""
    signatures = dict.fromkeys(signature_of(node) for node in nodes if node.op in ALU)
    return next(filter(None, map(_signature_fault, signatures)), None)


@functools.cache
def _signature_fault(signature: Signature) -> OpProblem | None:
    op, dtype, sources = signature
    if dtypes.index in (dtype, *sources):
        # On a grid it would overflow; the same op has other integers in the program.
        return None
    operands = [_grid(source, number) for number, source in enumerate(sources)]
    value = semantics.apply(op, dtype, operands, sources)
    problem = op_problem(signature, operands, value)
    return OpProblem(op.name, problem) if problem else None


def _grid(dtype: DType, number: int) -> Array:
    """Edges, small numbers and ties in turn, in another order for each operand."""
    words = np.random.PCG64(number).random_raw(GRID)
    found = small_integers(dtype, GRID, number, 9)
    for turn, values in enumerate((edges(dtype), ties(dtype))):
        drawn = values[(words % np.uint64(values.size)).astype(np.int64)]
        # Each operand turns at its own pace, so that every kind meets every other.
        found = np.where(np.arange(GRID) // 3**number % 3 == turn, drawn, found)
    return found
