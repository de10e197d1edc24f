"""Casts without effect, and pairs of casts whose first one loses nothing."""

from __future__ import annotations

from tinyref.algebra.bounds import dtype_range, value_range
from tinyref.algebra.named_rules import (
    any_node,
    boolean,
    floating,
    integer,
    integer_or_bool,
    match,
    rule,
)
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

x = any_node("x")


def is_lossless(source: DType, target: DType) -> bool:
    """Return True if `target` has every value of `source` exactly, also NaN, infinities and -0."""
    source, target = source.scalar, target.scalar
    if source is target or source.is_bool:
        return True
    if target.is_bool or (source.is_float and target.is_int):
        return False
    if source.is_int and target.is_int:
        low, high = dtype_range(source)
        least, most = dtype_range(target)
        return least <= low and high <= most
    if source.is_int:
        magnitude = source.bits - (not source.is_unsigned)
        return magnitude <= target.mantissa_bits + 1 and target not in dtypes.fp8s
    return (
        target.mantissa_bits >= source.mantissa_bits
        and target.exponent_bits >= source.exponent_bits
    )


@rule("cast-same", match({Ops.CAST, Ops.BITCAST}, x))
def cast_same(node: UOp, x: UOp) -> UOp | None:
    """CAST(x, t) == x and BITCAST(x, t) == x where x has the type t."""
    return x if x.dtype is node.dtype else None


@rule("cast-cast", match(Ops.CAST, match(Ops.CAST, x).named("inner")))
def cast_cast(node: UOp, x: UOp, inner: UOp) -> UOp | None:
    """CAST(CAST(x, s), t) == CAST(x, t) where s has every value of the type of x.

    It does not hold if x is an integer, s a float, and t an integer type that lacks values of x. A
    float out of range is unspecified, but an integer wraps.
    """
    if not is_lossless(x.dtype, inner.dtype):
        return None
    through_float = x.dtype.is_int and inner.dtype.is_float and node.dtype.is_int
    if through_float and not is_lossless(x.dtype, node.dtype):
        return None
    return build.cast(x, node.dtype.scalar)


@rule(
    "cast-cast-wrap",
    match(Ops.CAST, match(Ops.CAST, any_node("x", when=integer)).named("inner")),
    when=integer,
)
def cast_cast_wrap(node: UOp, x: UOp, inner: UOp) -> UOp | None:
    """CAST(CAST(x, s), t) == CAST(x, t) for integers where t is no wider than s: both only wrap."""
    if not inner.dtype.is_int or inner.dtype.bits < node.dtype.bits:
        return None
    # An `index` represents an unbounded integer, so no cast before it may wrap.
    return None if node.dtype.scalar is dtypes.index else build.cast(x, node.dtype.scalar)


@rule(
    "cast-cast-bounds",
    match(Ops.CAST, match(Ops.CAST, any_node("x", when=integer_or_bool)).named("inner")),
    needs_bounds=True,
)
def cast_cast_bounds(node: UOp, x: UOp, inner: UOp) -> UOp | None:
    """CAST(CAST(x, s), t) == CAST(x, t) where the integer type s has every value of x."""
    span = value_range(x)
    if span is None or not inner.dtype.is_int:
        return None
    least, most = dtype_range(inner.dtype)
    return build.cast(x, node.dtype.scalar) if least <= span[0] and span[1] <= most else None


@rule("cast-to-bool", match(Ops.CAST, any_node("x", when=integer)), when=boolean)
def cast_to_bool(x: UOp) -> UOp:
    """CAST(x, bool) == (x != 0)."""
    return build.not_equal(x, 0)


@rule("cast-float-to-bool", match(Ops.CAST, any_node("x", when=floating)), when=boolean)
def cast_float_to_bool(x: UOp) -> UOp | None:
    """CAST(x, bool) == (x != 0.0): true for NaN, false for -0.0.

    The rule skips an x that is itself an exact CAST: cast-cast removes that one.
    """
    if x.op is Ops.CAST and is_lossless(x.src[0].dtype, x.dtype):
        return None
    return build.not_equal(x, 0.0)


@rule("bitcast-bitcast", match(Ops.BITCAST, match(Ops.BITCAST, x)))
def bitcast_bitcast(node: UOp, x: UOp) -> UOp:
    """BITCAST(BITCAST(x, s), t) == BITCAST(x, t)."""
    return build.bitcast(x, node.dtype.scalar)
