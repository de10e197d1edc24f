"""Apply EXP2, LOG2, SIN and POW to spans: within the limits of semantics.md; specials exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyref.algebra.semantics import kernel_for
from tinyref.dtype import DType, dtypes
from tinyref.uops.ops import Ops
from tinyref_fuzz.judge.oracles.span import Span, Values, any_unknown, either, is_nan, span, widen
from tinyref_spec.bits import BoolArray
from tinyref_spec.error_rules import ulp_limit

# A span wider than this reaches every value of the sine.
TURN = 6.0


def elementary(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply an elementary function; the result is unknown if an operand is too uncertain."""
    is_open = spans[0].open() if len(spans) == 1 else spans[0].open() | spans[1].open()
    unknown = any_unknown(spans)
    for operand in spans:
        far = ~np.isfinite(operand.low) | ~np.isfinite(operand.high)
        unknown = either(unknown, operand.open() & far)
    kernel = kernel_for(op, dtype, sources)
    if op is Ops.SIN:
        low, high = _sine(spans[0])
    elif op is Ops.POW:
        x, y = spans
        unknown = either(unknown, is_open & (~(x.low > 0) | is_nan(y.low)))
        corners = [kernel(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    else:
        low = kernel(spans[0].low)
        high = low if spans[0].is_point else kernel(spans[0].high)
    result = span(low, high, unknown, is_open)
    # The reference itself is not correctly rounded everywhere: allow one more unit.
    return widen(result, ulp_limit(op.name, dtype) + 1, _is_special(op, dtype, spans, result))


def _sine(x: Span) -> tuple[Values, Values]:
    """Return the sine of the middle, plus and minus half of the width: the slope is at most 1."""
    kernel = kernel_for(Ops.SIN, dtypes.float64, (dtypes.float64,))
    low, high = x.low.astype(np.float64), x.high.astype(np.float64)
    if x.is_point:
        value = kernel(low).astype(x.low.dtype)
        return value, value
    half = np.where(x.open(), (high - low) / 2, 0.0)
    # For a wide span, whose middle may overflow, any number will do.
    middle = kernel(np.where(x.open(), np.where(half > TURN, 0.0, low + half), low))
    # The middle is rounded too, in float64. A certain value stays as it is.
    reach = np.where(x.open(), half * (1 + 1e-12) + np.spacing(np.abs(low) + half), 0.0)
    reach = np.where(reach > TURN, 2.0, reach)
    ends = np.clip(middle - reach, -1, 1), np.clip(middle + reach, -1, 1)
    return ends[0].astype(x.low.dtype), ends[1].astype(x.low.dtype)


def _is_special(op: Ops, dtype: DType, spans: Sequence[Span], result: Span) -> BoolArray:
    """Return where the result is exact: for NaN, infinities, zeros, and the specials of POW."""
    x = spans[0]
    special = ~np.isfinite(x.low) | is_nan(result.low)
    if op is Ops.EXP2:
        # So large that rounding cannot change the result: infinity, or zero.
        far = 2.0**dtype.exponent_bits
        return special | (x.low >= far) | (x.high <= -far) | x.is_number(0)
    if op in (Ops.SIN, Ops.LOG2):
        return special | x.is_number(0)
    y = spans[1]
    special = special | ~np.isfinite(y.low) | x.is_number(0) | x.is_number(1)
    return special | y.is_number(0)
