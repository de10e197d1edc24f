"""What each arithmetic op makes of spans, and where it leaves the value unspecified.

One function per family of ops, in the order of the semantics. The value of an op on numbers comes
from the op table, which is the one source of semantics; what is uncertain is decided here.
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

# The result type, the types of the operands, and what they may be.
Rule = Callable[[Ops, DType, Sequence[DType], Sequence[Span]], Span]
# For each end of the result, the ends of the operands that give it: 0 low, 1 high.
RISING = ((0,), (1,))
FALLING = ((1,), (0,))
SUM = ((0, 0), (1, 1))
DIFFERENCE = ((0, 1), (1, 0))
ALL_PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1))


def apply(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """What `op` gives; `dtype` and `sources` as of `semantics.apply`."""
    rule = RULES.get(op, float_arithmetic if dtype.is_float else plain)
    return rule(op, dtype, sources, spans)


def _ends(
    op: Ops,
    dtype: DType,
    sources: Sequence[DType],
    spans: Sequence[Span],
    chosen: Sequence[Sequence[int]],
) -> list[Values]:
    """What `op` gives for each choice of ends."""
    kernel = kernel_for(op, dtype, sources)
    pairs = [(each.low, each.high) for each in spans]
    return [
        np.asarray(kernel(*(pair[end] for pair, end in zip(pairs, ends, strict=True))))
        for ends in chosen
    ]


def plain(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """Integers and bools: one value, unknown where an operand is."""
    value = kernel_for(op, dtype, sources)(*(each.low for each in spans))
    return point(value, any_unknown(spans))


def float_arithmetic(
    op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]
) -> Span:
    """Ops that are rounded correctly: the ends of the operands give those of the result.

    An operand that may be infinite but need not makes the result unknown, for a NaN may be among
    what it can be. An operand that is certainly a NaN makes it a NaN.
    """
    unknown = any_unknown(spans)
    if all(each.is_point for each in spans):
        value = _ends(op, dtype, sources, spans, ((0,) * len(spans),))[0]
        if unknown is None:
            return point(value)
        return point(value, unknown & ~_certain_nan(spans))
    is_open = _any(each.open() for each in spans)
    for each in spans:
        ends_far = ~np.isfinite(each.low) | ~np.isfinite(each.high)
        unknown = either(unknown, each.open() & ends_far)
    unknown = either(unknown, _passes_zero(op, spans))
    found = _ends(op, dtype, sources, spans, CHOICES[op])
    low, high = found[0], found[-1]
    if len(found) > 2:
        # Zero by zero at one corner says nothing of the others.
        some_nan = _any(map(is_nan, found)) & ~_all(map(is_nan, found))
        unknown = either(unknown, some_nan)
        low, high = np.minimum.reduce(found), np.maximum.reduce(found)
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
    found: BoolArray = np.zeros((), np.bool_)
    for mask in masks:
        found = found | mask
    return found


def _all(masks: Iterable[BoolArray]) -> BoolArray:
    found: BoolArray = np.ones((), np.bool_)
    for mask in masks:
        found = found & mask
    return found


def _certain_nan(spans: Sequence[Span]) -> BoolArray:
    return _any([each.is_certain_nan() for each in spans])


def _passes_zero(op: Ops, spans: Sequence[Span]) -> BoolArray | None:
    """Where ends decide nothing: a divisor that may be zero, zero times infinity between them."""
    if op in (Ops.FDIV, Ops.RECIP):
        divisor = spans[-1]
        return divisor.open() & divisor.may_be_zero()
    if op is not Ops.MUL:
        return None
    first, second = spans
    unknown = first.open() & first.may_be_zero() & ~np.isfinite(second.low)
    return unknown | (second.open() & second.may_be_zero() & ~np.isfinite(first.low))


def within_limit(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """FDIV, RECIP and SQRT: correctly rounded, or within the limit; special cases exact."""
    found = float_arithmetic(op, dtype, sources, spans)
    limit = ulp_limit(op.name, dtype, config.integer("STRICT_FLOAT") != 0)
    if not limit:
        return found
    is_special = _any([~np.isfinite(each.low) | (each.low == 0) for each in spans])
    return widen(found, limit, is_special)


def without_rounding(op: Ops, found: Span, spans: Sequence[Span]) -> Span:
    """A sum, difference, product or conversion whose rounding a compiler may leave out.

    The exact value lies next to the rounded one. A sum that rounds to zero is zero, and so is a
    product by zero; infinities and NaNs stay.
    """
    has_zero = _any([each.low == 0 for each in spans]) if op in (Ops.MUL, Ops.CAST) else np.True_
    return widen(found, 1, ~np.isfinite(found.low) | ((found.low == 0) & has_zero))


def negation(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """NEG, which changes the sign of a float and nothing else."""
    (x,) = spans
    if not dtype.is_float or x.is_point:
        return plain(op, dtype, sources, spans)
    return Span(np.negative(x.high), np.negative(x.low), x.unknown)


def multiplication(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """MUL: zero times an unspecified integer is zero."""
    if dtype.is_float:
        return float_arithmetic(op, dtype, sources, spans)
    return _absorbing(plain(op, dtype, sources, spans), spans, 0)


def conjunction(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """AND: zero, or false, whatever the other one is."""
    return _absorbing(plain(op, dtype, sources, spans), spans, 0)


def disjunction(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """OR: all bits set, or true, whatever the other one is."""
    ones = -1 if dtype.kind is Kind.SIGNED else dtype.maximum
    return _absorbing(plain(op, dtype, sources, spans), spans, int(ones))


def _absorbing(found: Span, spans: Sequence[Span], absorber: int) -> Span:
    """A known operand of this value is the result."""
    if found.unknown is None:
        return found
    certain = _any([each.is_number(absorber) for each in spans])
    value = np.where(certain, np.array(absorber, found.low.dtype), found.low)
    return point(value, found.unknown & ~certain)


def division_of_integers(
    op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]
) -> Span:
    """IDIV and MOD: unspecified by 0, and of MIN by -1."""
    found = plain(op, dtype, sources, spans)
    left, right = (each.low for each in spans)
    undefined = np.asarray(right == 0)
    if dtype.kind is Kind.SIGNED:
        undefined = undefined | ((right == -1) & (left == dtype.minimum))
    return point(found.low, either(found.unknown, undefined))


def shift(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """SHL and SHR: unspecified unless 0 <= count < width."""
    found = plain(op, dtype, sources, spans)
    count = spans[1].low
    undefined = np.asarray((count < 0) | (count >= dtype.bits))
    return point(found.low, either(found.unknown, undefined))


def maximum(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """MAX: with one NaN either operand, of two zeros either sign."""
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
    """CMPLT: known where the spans do not overlap, or touch on the right side."""
    first, second = spans
    if first.is_point and second.is_point:
        return plain(op, dtype, sources, spans)
    always = np.asarray(first.high < second.low)
    # A comparison with a NaN is false, and NaNs come as both ends or make the value unknown.
    maybe = np.asarray(first.low < second.high)
    return point(always, either(any_unknown(spans), maybe & ~always))


def not_equal(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """CMPNE: known where the spans do not overlap, or each is the same number."""
    first, second = spans
    if first.is_point and second.is_point:
        return plain(op, dtype, sources, spans)
    overlap = (first.low <= second.high) & (second.low <= first.high)
    same = (first.low == first.high) & (second.low == second.high) & overlap
    return point(~overlap, either(any_unknown(spans), overlap & ~same))


def select(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """WHERE: the chosen side alone counts; where the condition is unknown, either."""
    condition, first, second = spans
    found = _choice(condition.low, first, second)
    return found if condition.unknown is None else _choice(~condition.unknown, found, _hull(spans))


def _choice(condition: Values, first: Span, second: Span) -> Span:
    low = np.where(condition, first.low, second.low)
    is_point = first.is_point and second.is_point
    high = low if is_point else np.where(condition, first.high, second.high)
    if first.unknown is None and second.unknown is None:
        return Span(low, high)
    unknown = np.where(condition, mask_of(first), mask_of(second))
    return Span(low, high, unknown if unknown.any() else None)


def _hull(spans: Sequence[Span]) -> Span:
    """The last two of `spans` as one: from the lower to the higher of their ends."""
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
    """MULACC: a product and a sum, each rounded in strict mode, else one or both."""
    product = apply(Ops.MUL, dtype, sources[:2], spans[:2])
    if dtype.is_float and not config.integer("STRICT_FLOAT"):
        product = without_rounding(Ops.MUL, product, spans[:2])
    return apply(Ops.ADD, dtype, (dtype, dtype), (product, spans[2]))


def convert(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """CAST: monotone but for integers that wrap; out of range and NaN to integer unspecified."""
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
    """Where truncation gives no integer of `dtype`; a NaN gives none."""
    whole = np.trunc(values.astype(np.float64))
    # The largest 64-bit integers are no float64, but one more is.
    return ~((whole >= float(dtype.minimum)) & (whole < float(int(dtype.maximum) + 1)))


def reinterpret(op: Ops, dtype: DType, sources: Sequence[DType], spans: Sequence[Span]) -> Span:
    """BITCAST: the bits of a NaN are unspecified, and so are those of a zero of either sign."""
    (x,) = spans
    found = plain(op, dtype, sources, spans)
    if not sources[0].is_float:
        return found
    return point(found.low, either(x.unknown, is_nan(x.low) | x.open()))


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
