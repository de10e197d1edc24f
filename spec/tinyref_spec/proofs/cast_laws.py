"""Laws of casts, for every pair and triple of bool and integer types to which a rule applies.

Casts from, to and through floats are checked in `float_laws`.
"""

from __future__ import annotations

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.build import at_least, both, cast, not_equal
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs.law import INTEGERS, Equation, law

NUMBERS = (*INTEGERS, dtypes.bool)


def holds_all(source: DType, target: DType) -> bool:
    """True where `target` has every value of `source`."""
    if target.is_bool:
        return source.is_bool
    return target.minimum <= source.minimum and source.maximum <= target.maximum


def _pair_laws(source: DType, target: DType) -> None:
    """Casts of `source` to `target`, or bit casts."""
    if source is target:

        @law("cast-same", over=(source,))
        def same(x: UOp) -> Equation:
            """CAST(x, t) == x and BITCAST(x, t) == x where x has the type t."""
            return Equation(UOp(Ops.CAST, target, (x,)), x)

    if target.is_bool and source.is_int:

        @law("cast-to-bool", over=(source,))
        def to_bool(x: UOp) -> Equation:
            """CAST(x, bool) == (x != 0)."""
            return Equation(cast(x, target), not_equal(x, 0))

    if source.is_int and target.is_int and source.bits == target.bits:

        @law("bitcast-bitcast", over=(source,))
        def bits_again(x: UOp) -> Equation:
            """BITCAST(BITCAST(x, s), t) == BITCAST(x, t)."""
            between = build.bitcast(x, target)
            return Equation(UOp(Ops.BITCAST, source, (between,)), x)


def _triple_laws(source: DType, between: DType, target: DType) -> None:
    """CAST(CAST(x, between), target) of an x of `source`."""
    if holds_all(source, between):

        @law("cast-cast", over=(source,))
        def lossless(x: UOp) -> Equation:
            """CAST(CAST(x, s), t) == CAST(x, t) where s has every value of the type of x."""
            return Equation(_twice(x, between, target), _once(x, target))

    if source.is_int and between.is_int and between.bits >= target.bits and target.is_int:
        if target is dtypes.index:
            return

        @law("cast-cast-wrap", over=(source,))
        def wrapped(x: UOp) -> Equation:
            """CAST(CAST(x, s), t) == CAST(x, t) for integers where t is no wider than s."""
            return Equation(_twice(x, between, target), _once(x, target))

    if between.is_int and not holds_all(source, between):

        @law("cast-cast-bounds", over=(source,))
        def bounded(x: UOp) -> Equation:
            """CAST(CAST(x, s), t) == CAST(x, t) where x is within the range of s."""
            least = max(int(source.minimum), int(between.minimum))
            most = min(int(source.maximum), int(between.maximum))
            given = both(at_least(x, least), at_least(build.const(source, most), x))
            return Equation(_twice(x, between, target), _once(x, target), given=(given,))


def _once(x: UOp, target: DType) -> UOp:
    return cast(x, target)


def _twice(x: UOp, between: DType, target: DType) -> UOp:
    """Both casts as nodes, also where they change nothing."""
    inner = UOp(Ops.CAST, between, (x,))
    return UOp(Ops.CAST, target, (inner,))


for _source in NUMBERS:
    for _target in NUMBERS:
        _pair_laws(_source, _target)
        for _between in NUMBERS:
            _triple_laws(_source, _between, _target)
