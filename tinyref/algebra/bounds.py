"""Value ranges: the least and the largest value that an integer, bool or index node can take.

A range is a pair of inclusive bounds. It contains every value that the semantics of the op can
return, including values that the semantics leave unspecified. It may be too wide. The range of a
vector covers all its lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from tinyref.algebra.op_table import OP_TABLE, Range, RangeRule
from tinyref.algebra.semantics import truncating_division
from tinyref.dtype import ConstType, DType, dtypes
from tinyref.errors import UserError
from tinyref.uops.node import UOp, node_fact
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, VarArg, ViewArg

# Computes the range of an op from the ranges of its sources, which all have one.
IntervalRule = Callable[..., Range]

BOOL_RANGE: Range = (0, 1)


def dtype_range(dtype: DType) -> Range:
    """Return the range of an integer or bool type; `index` counts as int64."""
    return int(dtype.minimum), int(dtype.maximum)


def wrap_range(dtype: DType, low: int, high: int) -> Range:
    """Return the range of `low` to `high` after they wrap into `dtype`; `index` never wraps."""
    if dtype.scalar is dtypes.index:
        return low, high
    minimum, maximum = dtype_range(dtype)
    if minimum <= low and high <= maximum:
        return low, high
    turns = (low - minimum) >> dtype.bits
    if turns != (high - minimum) >> dtype.bits:
        return minimum, maximum
    offset = turns << dtype.bits
    return low - offset, high - offset


def full(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of the type of the node."""
    dtype = node.dtype
    return dtype_range(dtype) if dtype.is_int or dtype.is_bool else None


def constant(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of a CONST: its value."""
    if not isinstance(node.arg, ConstArg) or node.dtype.is_float:
        return None
    value: ConstType = node.arg.value
    return int(value), int(value)


def variable(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the bounds of a DEFINE_VAR."""
    return (node.arg.minimum, node.arg.maximum) if isinstance(node.arg, VarArg) else None


def numbering(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of the positions that an IOTA of a kernel counts."""
    if not isinstance(node.arg, ViewArg):
        return full(node, sources)
    reach = node.arg.tracker.reach()
    return (0, 0) if reach is None else (min(reach[0], 0), max(reach[1], 0))


def counter(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range from 0 to the extent minus 1; the source is the extent."""
    extent = sources[0]
    return full(node, sources) if extent is None else (0, max(extent[1] - 1, 0))


def first(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of the first source."""
    return sources[0]


def union(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the smallest range that contains the ranges of all sources."""
    known = [source for source in sources if source is not None]
    if len(known) != len(sources):
        return full(node, sources)
    return min(low for low, _ in known), max(high for _, high in known)


def interval(rule: IntervalRule) -> RangeRule:
    """Decorate a rule over source ranges: the result wraps into the type of the node."""

    def range_rule(node: UOp, sources: Sequence[Range | None]) -> Range | None:
        if None in sources or not (node.dtype.is_int or node.dtype.is_bool):
            return full(node, sources)
        low, high = rule(*sources)
        return wrap_range(node.dtype, low, high)

    return range_rule


@interval
def negate(x: Range) -> Range:
    """Return the range of -x."""
    return -x[1], -x[0]


@interval
def add(x: Range, y: Range) -> Range:
    """Return the range of x + y."""
    return x[0] + y[0], x[1] + y[1]


@interval
def subtract(x: Range, y: Range) -> Range:
    """Return the range of x - y."""
    return x[0] - y[1], x[1] - y[0]


@interval
def multiply(x: Range, y: Range) -> Range:
    """Return the range of x * y."""
    products = (x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1])
    return min(products), max(products)


@interval
def divide(x: Range, y: Range) -> Range:
    """Return the range of x / y towards zero; x / 0 is 0."""
    # The quotient is largest in size at the divisors nearest to zero, smallest at the farthest.
    divisors = {y[0], y[1], *(near for near in (-1, 0, 1) if y[0] <= near <= y[1])}
    quotients = [truncating_division(value, divisor) for value in x for divisor in divisors]
    return min(quotients), max(quotients)


@interval
def remainder(x: Range, y: Range) -> Range:
    """Return the range of the remainder of `divide`."""
    if y[0] == y[1] and y[0] != 0:
        quotient = truncating_division(x[0], y[0])
        if quotient == truncating_division(x[1], y[0]):
            return x[0] - quotient * y[0], x[1] - quotient * y[0]
    largest = max(abs(y[0]), abs(y[1]), 1) - 1
    low = 0 if x[0] >= 0 else max(x[0], -largest)
    high = 0 if x[1] <= 0 else min(x[1], largest)
    return low, high


@interval
def maximum(x: Range, y: Range) -> Range:
    """Return the range of the larger of x and y."""
    return max(x[0], y[0]), max(x[1], y[1])


def bitwise(exact: Callable[[int, int], int]) -> Callable[[IntervalRule], RangeRule]:
    """Decorate the rule of a bitwise op: the range is exact if both sides are constants."""

    def decorate(rule: IntervalRule) -> RangeRule:
        def ends(x: Range, y: Range) -> Range:
            if x[0] == x[1] and y[0] == y[1]:
                value = exact(x[0], y[0])
                return value, value
            return rule(x, y)

        return interval(ends)

    return decorate


def _ones(*values: int) -> int:
    """Return the least 2**k - 1 whose k bits hold each value, or the complement if negative."""
    return (1 << max((value if value >= 0 else ~value).bit_length() for value in values)) - 1


@bitwise(int.__and__)
def bit_and(x: Range, y: Range) -> Range:
    """Return the range of the conjunction of bits."""
    return _conjunction(x, y)


def _conjunction(x: Range, y: Range) -> Range:
    natural = [high for low, high in (x, y) if low >= 0]
    if natural:
        return 0, min(natural)
    lows, highs = zip(x, y, strict=True)
    return ~_ones(*lows), min(highs) if max(highs) < 0 else max(highs)


@bitwise(int.__or__)
def bit_or(x: Range, y: Range) -> Range:
    """Return the range of the disjunction of bits: x | y == ~(~x & ~y)."""
    return _complement(_conjunction(_complement(x), _complement(y)))


def _complement(x: Range) -> Range:
    return ~x[1], ~x[0]


@bitwise(int.__xor__)
def bit_xor(x: Range, y: Range) -> Range:
    """Return the range of the exclusive disjunction of bits."""
    ones = _ones(*x, *y)
    return (0 if x[0] >= 0 and y[0] >= 0 else ~ones), ones


def shift_left(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of x << count; all values of the type if the count may be out of range."""
    value, count = sources
    if value is None or count is None or count[0] < 0 or count[1] >= node.dtype.bits:
        return full(node, sources)
    return multiply(node, [value, (1 << count[0], 1 << count[1])])


def shift_right(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of x >> count; a count out of range leaves all or nothing of x."""
    value, count = sources
    if value is None or count is None:
        return full(node, sources)
    if count[0] < 0 or count[1] >= node.dtype.bits:
        return min(value[0], 0), max(value[1], 0)
    shifted = [end >> by for end in value for by in count]
    return min(shifted), max(shifted)


@interval
def less(x: Range, y: Range) -> Range:
    """Return the range of x < y: it is certain if the ranges do not overlap."""
    if x[1] < y[0]:
        return 1, 1
    return (0, 0) if x[0] >= y[1] else BOOL_RANGE


@interval
def not_equal(x: Range, y: Range) -> Range:
    """Return the range of x != y: it is certain if the ranges are disjoint or one value."""
    if x[1] < y[0] or y[1] < x[0]:
        return 1, 1
    return (0, 0) if x[0] == x[1] == y[0] == y[1] else BOOL_RANGE


def where(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of both sides; the condition narrows the range of the first one."""
    condition, chosen, other = sources
    if condition == (1, 1):
        return chosen
    if condition == (0, 0):
        return other
    if chosen is None:
        return None
    return union(node, [_under(node.src[0], node.src[1], chosen), other])


def _under(condition: UOp, value: UOp, whole: Range) -> Range:
    """Narrow `whole`, the range of `value`, by comparisons of it or of its cast source."""
    limits = _limits(condition)
    inside: list[DType] = []
    while True:
        if value in limits:
            known = value_range(value) or whole
            low = int(max(known[0], limits[value][0]))
            high = int(min(known[1], limits[value][1]))
            if low <= high and all(wrap_range(kind, low, high) == (low, high) for kind in inside):
                return max(low, whole[0]), min(high, whole[1])
        if value.op is not Ops.CAST or not (value.dtype.is_int and value.src[0].dtype.is_int):
            return whole
        inside.append(value.dtype)
        value = value.src[0]


# The number of nodes of a condition that `_limits` visits.
_MAX_CONDITIONS = 16


def _limits(condition: UOp) -> dict[UOp, tuple[int | float, int | float]]:
    """Return the limits on integers that a conjunction of comparisons implies."""
    limits: dict[UOp, tuple[int | float, int | float]] = {}
    stack = [(condition, True)]
    for _ in range(_MAX_CONDITIONS):
        if not stack:
            break
        node, holds = stack.pop()
        if node.op is Ops.AND and holds and node.dtype.is_bool:
            stack += [(source, True) for source in node.src]
        elif node.op is Ops.CMPNE and value_range(node.src[1]) == (1, 1) and _is_truth(node):
            stack.append((node.src[0], not holds))
        elif node.op is Ops.CMPLT and node.src[0].dtype.is_int:
            for side, (least, most) in _limits_of_less(node, holds):
                low, high = limits.get(side, (-math.inf, math.inf))
                limits[side] = max(low, least), min(high, most)
    return limits


def _is_truth(node: UOp) -> bool:
    return node.src[0].dtype.is_bool


def _limits_of_less(
    node: UOp, holds: bool
) -> Iterator[tuple[UOp, tuple[int | float, int | float]]]:
    """Yield the limits of both sides that x < y implies, or its negation if `holds` is False."""
    x, y = node.src
    left, right = value_range(x), value_range(y)
    if right is not None:
        yield x, (-math.inf, right[1] - 1) if holds else (right[0], math.inf)
    if left is not None:
        yield y, (left[0] + 1, math.inf) if holds else (-math.inf, left[1])


def multiply_accumulate(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the range of x * y + z."""
    x, y, z = sources
    return add(node, [multiply(node, [x, y]), z])


def cast(node: UOp, sources: Sequence[Range | None]) -> Range | None:
    """Return the source range wrapped into the type of the node; a bool is true if not 0."""
    source = sources[0]
    if source is None or node.dtype.is_float:
        return full(node, sources)
    if not node.dtype.is_bool:
        return wrap_range(node.dtype, *source)
    holds_zero = source[0] <= 0 <= source[1]
    return (0 if holds_zero else 1), (0 if source == (0, 0) else 1)


@node_fact
def value_range(node: UOp) -> Range | None:
    """Return the inclusive range of an integer, bool or index node; None for any other node."""
    return OP_TABLE[node.op].value_range(node, [value_range(source) for source in node.src])


def bounds(node: UOp) -> Range:
    """Return the least and the largest value of an integer, bool or index node.

    The result is exact for CONST, DEFINE_VAR, RANGE and SPECIAL with a constant extent. Raises
    `UserError` for a node of any other type.
    """
    span = value_range(node)
    if span is None:
        raise UserError(f"bounds: {node.op.name} of {node.dtype.name} has no integer range")
    return span


def is_constant(node: UOp) -> bool:
    """Return True for an integer or bool node that can take one value only."""
    span = value_range(node)
    return span is not None and span[0] == span[1]
