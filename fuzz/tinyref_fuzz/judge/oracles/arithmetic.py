"""Apply each arithmetic op to spans, and decide where its value is unspecified.

There is one function per family of ops, in the order of the semantics. The value of an op on
numbers comes from the op table, the only source of semantics. This module decides what is
uncertain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tinyref import config
from tinyref.algebra.semantics import kernel_for
from tinyref.dtype import DType, Kind, from_numpy_dtype
from tinyref.uops.ops import Ops
from tinyref_fuzz.judge.oracles.elementary import elementary
from tinyref_fuzz.judge.oracles.span import (
    Span,
    Values,
    any_unknown,
    either,
    is_nan,
    mask_of,
    point,
    span,
    widen,
)
from tinyref_spec.bits import BoolArray
from tinyref_spec.error_rules import ulp_limit

# Arguments: the op, the result type, the operand types, and the spans of the operands.
Rule = Callable[[Ops, DType, Sequence[DType], Sequence[Span]], Span]
# For each end of the result, the ends of the operands that produce it: 0 low, 1 high.
RISING = ((0,), (1,))
FALLING = ((1,), (0,))
SUM = ((0, 0), (1, 1))
DIFFERENCE = ((0, 1), (1, 0))
ALL_PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1))


def apply(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Return the span of `op`; `dtype` and `sources` are those of `semantics.apply`."""
    rule = RULES.get(op, float_arithmetic if dtype.is_float else plain)
    return rule(op, dtype, sources, spans)


def _ends(
    op: Ops,
    dtype: DType,
    sources: Sequence[DType],
    spans: Sequence[Span],
    chosen: Sequence[Sequence[int]],
) -> list[Values]:
    """Return the value of `op` for each choice of ends."""
    kernel = kernel_for(op, dtype, sources)
    pairs = [(operand.low, operand.high) for operand in spans]
    return [
        np.asarray(kernel(*(pair[end] for pair, end in zip(pairs, ends, strict=True))))
        for ends in chosen
    ]


def plain(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply an op of integers or bools: one value, unknown if an operand is."""
    value = kernel_for(op, dtype, sources)(*(operand.low for operand in spans))
    return point(value, any_unknown(spans))


def float_arithmetic(
    op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]
) -> Span:
    """Apply a correctly rounded op: the ends of the operands give the ends of the result.

    If an operand may be infinite but also finite, the result is unknown, because it may be a NaN.
    If an operand is certainly a NaN, so is the result.
    """
    unknown = any_unknown(spans)
    if all(operand.is_point for operand in spans):
        value = _ends(op, dtype, sources, spans, ((0,) * len(spans),))[0]
        if unknown is None:
            return point(value)
        return point(value, unknown & ~_certain_nan(spans))
    is_open = _any(operand.open() for operand in spans)
    for operand in spans:
        ends_far = ~np.isfinite(operand.low) | ~np.isfinite(operand.high)
        unknown = either(unknown, operand.open() & ends_far)
    unknown = either(unknown, _passes_zero(op, spans))
    values = _ends(op, dtype, sources, spans, CHOICES[op])
    low, high = values[0], values[-1]
    if len(values) > 2:
        # A NaN at one corner, 0 / 0, says nothing about the others.
        some_nan = _any(map(is_nan, values)) & ~_all(map(is_nan, values))
        unknown = either(unknown, some_nan)
        low, high = np.minimum.reduce(values), np.maximum.reduce(values)
    result = span(low, high, unknown, is_open)
    if result.unknown is None:
        return result
    certain = _certain_nan(spans)
    if not certain.any():
        return result
    nan = np.array(np.nan, low.dtype)
    ends = np.where(certain, nan, result.low), np.where(certain, nan, result.high)
    return Span(*ends, result.unknown & ~certain)


CHOICES = {
    Ops.NEG: FALLING,
    Ops.SQRT: RISING,
    Ops.TRUNC: RISING,
    Ops.ADD: SUM,
    Ops.SUB: DIFFERENCE,
    Ops.MUL: ALL_PAIRS,
    Ops.FDIV: ALL_PAIRS,
    Ops.RECIP: FALLING,
}


def _any(masks: Iterable[BoolArray]) -> BoolArray:
    result: BoolArray = np.zeros((), np.bool_)
    for mask in masks:
        result = result | mask
    return result


def _all(masks: Iterable[BoolArray]) -> BoolArray:
    result: BoolArray = np.ones((), np.bool_)
    for mask in masks:
        result = result & mask
    return result


def _certain_nan(spans: Sequence[Span]) -> BoolArray:
    return _any([operand.is_certain_nan() for operand in spans])


def _passes_zero(op: Ops, spans: Sequence[Span]) -> BoolArray | None:
    """Return where the ends decide nothing: a divisor may be zero, or 0 * inf lies between them."""
    if op in (Ops.FDIV, Ops.RECIP):
        divisor = spans[-1]
        return divisor.open() & divisor.may_be_zero()
    if op is not Ops.MUL:
        return None
    first, second = spans
    unknown = first.open() & first.may_be_zero() & ~np.isfinite(second.low)
    return unknown | (second.open() & second.may_be_zero() & ~np.isfinite(first.low))


def within_limit(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply FDIV, RECIP or SQRT: correctly rounded, or within the limit; specials are exact."""
    result = float_arithmetic(op, dtype, sources, spans)
    limit = ulp_limit(op.name, dtype, config.integer("STRICT_FLOAT") != 0)
    if not limit:
        return result
    is_special = _any([~np.isfinite(operand.low) | (operand.low == 0) for operand in spans])
    return widen(result, limit, is_special)


def without_rounding(op: Ops, result: Span, spans: Sequence[Span]) -> Span:
    """Widen a sum, difference, product or conversion whose rounding a compiler may omit.

    The exact value is next to the rounded one. A sum that rounds to zero is zero, and so is a
    product by zero; infinities and NaNs stay.
    """
    needs_zero = op in (Ops.MUL, Ops.CAST)
    has_zero = _any([operand.low == 0 for operand in spans]) if needs_zero else np.True_
    return widen(result, 1, ~np.isfinite(result.low) | ((result.low == 0) & has_zero))


def negation(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply NEG, which only changes the sign of a float."""
    (x,) = spans
    if not dtype.is_float or x.is_point:
        return plain(op, dtype, sources, spans)
    return Span(np.negative(x.high), np.negative(x.low), x.unknown)


def multiplication(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply MUL: zero times an unspecified integer is zero."""
    if dtype.is_float:
        return float_arithmetic(op, dtype, sources, spans)
    return _absorbing(plain(op, dtype, sources, spans), spans, 0)


def conjunction(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply AND: a zero or false operand decides."""
    return _absorbing(plain(op, dtype, sources, spans), spans, 0)


def disjunction(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply OR: an operand that is true, or has all bits set, decides."""
    ones = -1 if dtype.kind is Kind.SIGNED else dtype.maximum
    return _absorbing(plain(op, dtype, sources, spans), spans, int(ones))


def _absorbing(result: Span, spans: Sequence[Span], absorber: int) -> Span:
    """Use an operand with the known value `absorber` as the result."""
    if result.unknown is None:
        return result
    certain = _any([operand.is_number(absorber) for operand in spans])
    value = np.where(certain, np.array(absorber, result.low.dtype), result.low)
    return point(value, result.unknown & ~certain)


def division_of_integers(
    op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]
) -> Span:
    """Apply IDIV or MOD: unspecified for a divisor of 0, and for MIN by -1."""
    result = plain(op, dtype, sources, spans)
    left, right = (operand.low for operand in spans)
    undefined = np.asarray(right == 0)
    if dtype.kind is Kind.SIGNED:
        undefined = undefined | ((right == -1) & (left == dtype.minimum))
    return point(result.low, either(result.unknown, undefined))


def shift(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply SHL or SHR: unspecified unless 0 <= count < width."""
    result = plain(op, dtype, sources, spans)
    count = spans[1].low
    undefined = np.asarray((count < 0) | (count >= dtype.bits))
    return point(result.low, either(result.unknown, undefined))


def maximum(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply MAX: with one NaN either operand is allowed, and with two zeros either sign."""
    if not dtype.is_float:
        return plain(op, dtype, sources, spans)
    first, second = spans
    half_nan = is_nan(first.low) != is_nan(second.low)
    unknown = either(any_unknown(spans), half_nan)
    low = np.maximum(first.low, second.low)
    both_zero = (first.low == 0) & (second.low == 0)
    zeros = both_zero & (np.signbit(first.low) != np.signbit(second.low))
    if first.is_point and second.is_point and not zeros.any():
        return point(low, unknown)
    high = np.maximum(first.high, second.high)
    return span(low, high, unknown, zeros | first.open() | second.open())


def less(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply CMPLT: known if the spans do not overlap, or only touch at the right end."""
    first, second = spans
    if first.is_point and second.is_point:
        return plain(op, dtype, sources, spans)
    always = np.asarray(first.high < second.low)
    # A comparison with a NaN is false. A NaN is at both ends, or the value is unknown.
    maybe = np.asarray(first.low < second.high)
    return point(always, either(any_unknown(spans), maybe & ~always))


def not_equal(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply CMPNE: known if the spans do not overlap, or both are the same number."""
    first, second = spans
    if first.is_point and second.is_point:
        return plain(op, dtype, sources, spans)
    overlap = (first.low <= second.high) & (second.low <= first.high)
    same = (first.low == first.high) & (second.low == second.high) & overlap
    return point(~overlap, either(any_unknown(spans), overlap & ~same))


def select(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply WHERE: only the chosen side counts; if the condition is unknown, both do."""
    condition, first, second = spans
    result = _choice(condition.low, first, second)
    if condition.unknown is None:
        return result
    return _choice(~condition.unknown, result, _hull(spans))


def _choice(condition: Values, first: Span, second: Span) -> Span:
    low = np.where(condition, first.low, second.low)
    is_point = first.is_point and second.is_point
    high = low if is_point else np.where(condition, first.high, second.high)
    if first.unknown is None and second.unknown is None:
        return Span(low, high)
    unknown = np.where(condition, mask_of(first), mask_of(second))
    return Span(low, high, unknown if unknown.any() else None)


def _hull(spans: Sequence[Span]) -> Span:
    """Join the last two of `spans`: from their lowest to their highest end."""
    _, first, second = spans
    differ = np.asarray(first.low != second.low)
    unknown = any_unknown((first, second))
    if not from_numpy_dtype(first.low.dtype).is_float:
        return point(np.where(differ, second.low, first.low), either(unknown, differ))
    differ &= ~(is_nan(first.low) & is_nan(second.low))
    is_open = differ | first.open() | second.open()
    is_open |= np.signbit(first.low) != np.signbit(second.low)
    low, high = np.minimum(first.low, second.low), np.maximum(first.high, second.high)
    return span(low, high, either(unknown, is_nan(first.low) != is_nan(second.low)), is_open)


def multiply_accumulate(
    op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]
) -> Span:
    """Apply MULACC: in strict mode product and sum are rounded; otherwise one may be exact."""
    product = apply(Ops.MUL, dtype, sources[:2], spans[:2])
    if dtype.is_float and not config.integer("STRICT_FLOAT"):
        product = without_rounding(Ops.MUL, product, spans[:2])
    return apply(Ops.ADD, dtype, (dtype, dtype), (product, spans[2]))


def convert(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply CAST: monotonic except for wrapping; float to integer out of range is unspecified."""
    (source,), (x,) = sources, spans
    if not source.is_float:
        return plain(op, dtype, sources, spans)
    if dtype.is_bool:
        zero = np.zeros((), x.low.dtype)
        return not_equal(Ops.CMPNE, dtype, (source, source), (x, point(zero)))
    if dtype.is_float:
        if x.is_point:
            return plain(op, dtype, sources, spans)
        low, high = _ends(op, dtype, sources, spans, RISING)
        return span(low, high, x.unknown, x.open())
    low, high = _ends(op, dtype, sources, spans, RISING)
    unknown = _out_of_range(x.low, dtype) | _out_of_range(x.high, dtype) | (low != high)
    return point(low, either(x.unknown, unknown))


def _out_of_range(values: Values, dtype: DType) -> BoolArray:
    """Return where truncation does not give an integer of `dtype`, as for a NaN."""
    whole = np.trunc(values.astype(np.float64))
    # The largest 64-bit integers are not exact in float64, but one more is.
    return ~((whole >= float(dtype.minimum)) & (whole < float(int(dtype.maximum) + 1)))


def reinterpret(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Apply BITCAST: the bits of a NaN, and of a zero of either sign, are unspecified."""
    (x,) = spans
    result = plain(op, dtype, sources, spans)
    if not sources[0].is_float:
        return result
    return point(result.low, either(x.unknown, is_nan(x.low) | x.open()))


RULES: dict[Ops, Rule] = {
    Ops.NEG: negation,
    Ops.RECIP: within_limit,
    Ops.SQRT: within_limit,
    Ops.EXP2: elementary,
    Ops.LOG2: elementary,
    Ops.SIN: elementary,
    Ops.MUL: multiplication,
    Ops.FDIV: within_limit,
    Ops.IDIV: division_of_integers,
    Ops.MOD: division_of_integers,
    Ops.POW: elementary,
    Ops.MAX: maximum,
    Ops.CMPLT: less,
    Ops.CMPNE: not_equal,
    Ops.AND: conjunction,
    Ops.OR: disjunction,
    Ops.XOR: plain,
    Ops.SHL: shift,
    Ops.SHR: shift,
    Ops.THREEFRY: plain,
    Ops.WHERE: select,
    Ops.MULACC: multiply_accumulate,
    Ops.CAST: convert,
    Ops.BITCAST: reinterpret,
}
