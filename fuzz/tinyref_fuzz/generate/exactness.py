"""Whether no float operation of a kernel rounds on its data, whatever the order of its reduces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tinyref.algebra.bounds import bounds
from tinyref.algebra.kernel_shape import reduced_sizes
from tinyref.dtype import DType
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ReduceArg, SlotArg
from tinyref_fuzz.generate.values import exact_bound, full_range, positions
from tinyref_spec.kernel_case import Array

INEXACT = math.inf
# No type of the data holds an integer of so many bits exactly.
_MAX_BITS = 64
# What the bounds of the sources make of a float.
_COMBINES: dict[Ops, Callable[..., float]] = {
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x + y,
    Ops.MUL: lambda x, y: x * y,
    Ops.MAX: max,
    Ops.NEG: lambda x: x,
    Ops.TRUNC: lambda x: x,
    Ops.MULACC: lambda x, y, z: x * y + z,
    Ops.WHERE: lambda condition, x, y: max(x, y),
}


def is_exact(ast: UOp, buffers: Sequence[Array]) -> bool:
    """Whether every float of the kernel `ast` is an integer that its type holds.

    True of a kernel without floats. False may be said of a kernel that is exact for another reason.
    """
    found: dict[UOp, float] = {}
    for node in ast.toposort():
        found[node] = _bound_of(node, found, buffers)
        if found[node] == INEXACT:
            return False
    return True


def _bound_of(node: UOp, found: dict[UOp, float], buffers: Sequence[Array]) -> float:
    """The bound of the absolute value of the elements of a float, 0 for what is no float."""
    dtype = node.dtype
    if not dtype.is_float:
        return _decision(node, found)
    if node.op in (Ops.DEFINE_GLOBAL, Ops.VIEW):
        return 0.0
    bound = _float_bound(node, found, buffers)
    return bound if bound <= exact_bound(dtype) else INEXACT


def _decision(node: UOp, found: dict[UOp, float]) -> float:
    """Integers and bools of floats: a cast must fit, and bits show the sign of a zero."""
    sources = [source for source in node.src if source.dtype.is_float]
    if node.op is Ops.BITCAST and sources:
        return INEXACT
    if node.op is Ops.CAST and sources and node.dtype.is_int:
        low, high = full_range(node.dtype)
        bound = found[node.src[0]]
        return 0.0 if bound <= high and (low < 0 or bound == 0) else INEXACT
    return 0.0


def _float_bound(node: UOp, found: dict[UOp, float], buffers: Sequence[Array]) -> float:
    if isinstance(node.arg, ConstArg):
        return _largest(np.array([node.arg.value], np.float64))
    if node.op is Ops.LOAD:
        slot = node.src[0].src[0].arg
        return _largest(buffers[slot.slot]) if isinstance(slot, SlotArg) else INEXACT
    if node.op is Ops.CAST:
        source = node.src[0]
        return found[source] if source.dtype.is_float else _integer_bound(source)
    if isinstance(node.arg, ReduceArg):
        return _bound_of_reduce(node.arg.op, found[node.src[0]], positions(reduced_sizes(node)))
    combine = _COMBINES.get(node.op)
    return float(combine(*(found[source] for source in node.src))) if combine else INEXACT


def _bound_of_reduce(op: Ops, bound: float, count: int) -> float:
    if op is Ops.ADD:
        return bound * count
    if op is Ops.MAX:
        # The largest of nothing is -inf.
        return bound if count else INEXACT
    bound = max(1.0, bound)
    return bound**count if count * math.log2(bound) < _MAX_BITS else INEXACT


def _largest(values: Array) -> float:
    """The largest absolute value, where all are integers."""
    wide = values.astype(np.float64)
    if not wide.size:
        return 0.0
    if not np.all(np.isfinite(wide)) or np.any(wide != np.trunc(wide)):
        return INEXACT
    return float(np.max(np.abs(wide)))


def _integer_bound(node: UOp) -> float:
    dtype: DType = node.dtype
    if dtype.is_bool:
        return 1.0
    low, high = bounds(node)
    return float(max(abs(low), abs(high)))
