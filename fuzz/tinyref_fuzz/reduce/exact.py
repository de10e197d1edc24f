"""Whether every operation of a kernel is exact on its data, in whatever order it is computed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, dtypes
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ReduceArg
from tinyref_fuzz.reduce.kernel import VALUES, values_of
from tinyref_spec.kernel_case import Array, Case

Wide = npt.NDArray[np.longdouble]

# What they give is one of their operands, or a truth value.
_CHOOSING = frozenset({Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.WHERE, Ops.NEG, Ops.BITCAST, Ops.TRUNC})


def is_exact(case: Case) -> bool:
    """Whether no float operation rounds, no sum depends on its order, and no value is unspecified.

    Every operation is repeated in a wider type and must give the same. A sum is exact in any order
    where the absolute values of its terms add up to an integer, in units of the last place of the
    smallest, that the type holds.
    """
    nodes = [node for node in case.ast.toposort() if node.op in VALUES]
    values = values_of(case, nodes)
    with np.errstate(all="ignore"):
        return all(_is_exact(node, values) for node in nodes if node.dtype is not dtypes.index)


def _is_exact(node: UOp, values: dict[UOp, Array]) -> bool:
    value = values[node]
    if node.dtype.is_float and np.isnan(_wide(value)).any():
        return False
    sources = [values[source] for source in node.src] if node.op in ALU else []
    if isinstance(node.arg, ReduceArg):
        (source,) = node.src
        return not node.dtype.is_float or _reduces_exactly(node.arg, values[source], node.dtype)
    if node.op in (Ops.IDIV, Ops.MOD):
        return _divides(node.dtype, *sources)
    if node.op in (Ops.SHL, Ops.SHR):
        count = _wide(sources[1])
        return bool(((count >= 0) & (count < node.dtype.itemsize * 8)).all())
    if node.op is Ops.CAST:
        return _casts(node, value, sources[0])
    if not node.dtype.is_float or node.op not in ALU or node.op in _CHOOSING:
        return True
    return bool((_in_wide_type(node.op, *map(_wide, sources)) == _wide(value)).all())


def _wide(value: Array) -> Wide:
    # ml_dtypes know float64, and it holds all of theirs.
    narrow = value.astype(np.float64) if value.dtype.kind == "V" else value
    return narrow.astype(np.longdouble)


def _divides(dtype: DType, x: Array, y: Array) -> bool:
    if (y == 0).any():
        return False
    return dtype.is_unsigned or not ((x == dtype.minimum) & (y == -1)).any()


def _casts(node: UOp, value: Array, source: Array) -> bool:
    """Integers may wrap; from and to floats the number must stay, but for a fraction cut off."""
    old, new = node.src[0].dtype, node.dtype
    if new.is_bool or not (old.is_float or new.is_float):
        return True
    before = _wide(source)
    return bool(((np.trunc(before) if new.is_int else before) == _wide(value)).all())


def _in_wide_type(op: Ops, *x: Wide) -> Wide:
    """The operation in a type that holds the exact result of small operands."""
    functions = {
        Ops.ADD: np.add,
        Ops.SUB: np.subtract,
        Ops.MUL: np.multiply,
        Ops.FDIV: np.divide,
        Ops.RECIP: np.reciprocal,
        Ops.SQRT: np.sqrt,
        Ops.EXP2: np.exp2,
        Ops.LOG2: np.log2,
        Ops.SIN: np.sin,
        Ops.POW: np.power,
    }
    if op is Ops.MULACC:
        return np.asarray(x[0] * x[1] + x[2])
    return np.asarray(functions[op](*x))


def _reduces_exactly(arg: ReduceArg, source: Array, dtype: DType) -> bool:
    if arg.op is Ops.MAX or not source.size:
        return True
    terms = np.abs(_wide(source))
    if not np.isfinite(terms).all():
        return False
    mantissa, exponent = np.frexp(terms)
    precision = dtype.mantissa_bits + 1
    if arg.op is Ops.MUL:
        factors = np.maximum(terms, 1)
        is_integer = bool((np.trunc(terms) == terms).all())
        return is_integer and bool((np.prod(factors, axis=arg.axes) <= 2.0**precision).all())
    # The last bit of each term: how often it halves before it is odd.
    scaled = (mantissa * 2.0**64).astype(np.uint64)
    trailing = np.where(scaled == 0, 0, np.log2((scaled & (~scaled + np.uint64(1))).astype(float)))
    last = np.where(scaled == 0, 2**14, exponent - 64 + trailing)
    unit = np.exp2(last.min().astype(np.longdouble))
    return bool((terms.sum(axis=arg.axes) <= unit * 2.0**precision).all())
