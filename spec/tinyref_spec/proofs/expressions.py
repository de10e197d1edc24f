"""Random expressions of integers and bools, small enough that their values can be compared.

An instance of a law has the form of one rule. In an expression that is drawn without looking at any
law rules meet others' results, and conditions that nobody thought of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind

TYPES = (
    *(dtypes.index, dtypes.index, dtypes.int32, dtypes.int8, dtypes.uint8, dtypes.uint32),
    *(dtypes.int64, dtypes.uint64, dtypes.int16),
)
_SPANS = ((0, 1), (0, 3), (0, 3), (0, 7), (0, 11), (1, 4), (4, 7), (-3, 3), (-8, -1), (-1, 5))
_NUMBERS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16, 24, -1, -1, -2, -3, -4, -8)
_DIVISORS = (1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, -1, -2, -3)
_ARITHMETIC = (
    *(Ops.ADD, Ops.ADD, Ops.ADD, Ops.SUB, Ops.MUL, Ops.MUL, Ops.IDIV, Ops.IDIV, Ops.MOD, Ops.MOD),
    *(Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.NEG, Ops.WHERE, Ops.CAST),
)
# `index` has neither shifts nor bits where it may be negative.
_OF_INDEX = tuple(op for op in _ARITHMETIC if op not in (Ops.AND, Ops.OR, Ops.XOR, Ops.CAST))
# What just wraps is of any width alike.
_WRAPPING = (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32)
_FACTORS = (-2, 2, 3, 16)
# So many operations are made one of the other, each of the last ones most of the time.
_MOST_OPERATIONS = 7


def drawn(seed: str, count: int) -> Iterator[UOp]:
    """`count` expressions of integers, and of comparisons of them, over up to three leaves."""
    source = Random(seed)
    for _ in range(count):
        dtype = source.choice(TYPES)
        names = "xyz"[: source.randrange(1, 4)]
        yield drawn_over([_leaf(source, dtype, name) for name in names], source)


def drawn_over(leaves: Sequence[UOp], source: Random) -> UOp:
    """An expression over integers of one type, or a comparison of such: a bool."""
    return _Expression(leaves, source).draw()


def wrapping(types: Sequence[DType] = _WRAPPING) -> Iterator[UOp]:
    """Quotients, remainders and comparisons of sums of `types` that just wrap, or just do not.

    Their factors are what divides or compares them, so that rules take them apart where they may.
    """
    for dtype in types:
        for factor in _FACTORS if not dtype.is_unsigned else _FACTORS[1:]:
            # The last number of which the multiple does not wrap, with a rest or without, and more.
            last = int(dtype.maximum) // abs(factor)
            spans = [(0, last - 1), (0, last), (0, last + 1)]
            if not dtype.is_unsigned:
                spans.append((-last - 2, 0))  # and at the other end
            if factor < 0:
                spans = [(-high, -low) for low, high in spans]
            for low, high in (*spans, (int(dtype.minimum), int(dtype.maximum))):
                x = build.variable("x", low, high, dtype)
                multiple = UOp(Ops.MUL, dtype, (x, as_number(factor, dtype)))
                rest = build.variable("r", 0, abs(factor) - 1, dtype)
                for total in (multiple, UOp(Ops.ADD, dtype, (multiple, rest))):
                    yield from _taken_apart(total, as_number(abs(factor), dtype), dtype)


def _taken_apart(total: UOp, by: UOp, dtype: DType) -> Iterator[UOp]:
    yield UOp(Ops.IDIV, dtype, (total, by))
    yield UOp(Ops.MOD, dtype, (total, by))
    yield UOp(Ops.CMPLT, dtypes.bool, (total, by))
    yield UOp(Ops.CMPNE, dtypes.bool, (total, by))
    yield UOp(Ops.MAX, dtype, (total, UOp(Ops.ADD, dtype, (total, by))))


def _leaf(source: Random, dtype: DType, name: str) -> UOp:
    """A variable of few values, a counter, or a variable of all values of a type."""
    low, high = source.choice(_SPANS)
    if dtype is dtypes.index:
        if low == 0 and source.randrange(3) == 0:
            return build.counter(high + 1, ord(name), AxisKind.LOOP)
    elif source.randrange(4) == 0:
        low, high = int(dtype.minimum), int(dtype.maximum)
    elif dtype.is_unsigned and low < 0:
        low, high = 0, high - low
    return build.variable(name, low, high, dtype)


class _Expression:
    """Values of one type, and comparisons of them, that are put together."""

    def __init__(self, leaves: Sequence[UOp], source: Random) -> None:
        self.source = source
        self.dtype = leaves[0].dtype
        self.values = list(leaves)
        self.flags: list[UOp] = []
        self.last = 0

    def draw(self) -> UOp:
        for _ in range(self.source.randrange(2, _MOST_OPERATIONS + 1)):
            if self.source.randrange(3):
                self.values.append(self.value())
            else:
                self.flags.append(self.flag())
        return (self.flags if self.flags and self.source.randrange(2) else self.values)[-1]

    def operand(self) -> UOp:
        """One of the values, mostly of the last ones."""
        return self.values[-1 - min(self.source.randrange(4), len(self.values) - 1)]

    def number(self, numbers: tuple[int, ...] = _NUMBERS) -> UOp:
        """A constant, often the one before: rules look for what divides, and for what wraps."""
        if not self.last or self.source.randrange(5) > 1:
            self.last = self.source.choice(numbers)
        number = self.last
        return as_number(abs(number) if self.dtype.is_unsigned else number, self.dtype)

    def other(self) -> UOp:
        return self.number() if self.source.randrange(2) else self.operand()

    def value(self) -> UOp:
        op = self.source.choice(_OF_INDEX if self.dtype is dtypes.index else _ARITHMETIC)
        x = self.operand()
        if op is Ops.NEG:
            return UOp(op, self.dtype, (x,))
        if op is Ops.CAST:
            narrow = self.source.choice((dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.bool))
            return build.cast(build.cast(x, narrow), self.dtype)
        if op is Ops.WHERE:
            flag = self.flags[-1] if self.flags else self.flag()
            return UOp(op, self.dtype, (flag, x, self.other()))
        if op in (Ops.SHL, Ops.SHR):
            return UOp(op, self.dtype, (x, as_number(self.source.randrange(4), self.dtype)))
        if op is Ops.MUL:
            return UOp(op, self.dtype, (x, self.number()))
        if op in (Ops.IDIV, Ops.MOD):
            return UOp(op, self.dtype, (x, self.number(_DIVISORS)))
        return UOp(op, self.dtype, (x, self.other()))

    def flag(self) -> UOp:
        """A comparison, mostly joined to those before, or what is not so before."""
        if self.flags and self.source.randrange(8) == 0:
            return build.logical_not(self.flags[-1])
        op = self.source.choice((Ops.CMPLT, Ops.CMPLT, Ops.CMPNE))
        x = self.values[0] if self.source.randrange(3) == 0 else self.operand()
        compared = UOp(op, dtypes.bool, (x, self.other()))
        if self.source.randrange(2):
            compared = build.logical_not(compared)
        if not self.flags or self.source.randrange(4) == 0:
            return compared
        return UOp(self.source.choice((Ops.AND, Ops.OR)), dtypes.bool, (self.flags[-1], compared))


def as_number(value: int, dtype: DType) -> UOp:
    """A constant that wraps into the type."""
    return build.const(dtype, as_const(value, dtype))
