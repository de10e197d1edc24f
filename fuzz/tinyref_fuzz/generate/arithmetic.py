"""Draw one more operation on a value: how each op is built, and when its result is exact.

A maker returns None if the op would round in EXACT mode, or leave the moderate range in FLOAT mode,
or if its result is unspecified. In EDGE mode it is only kept out of decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.kernel import DrawnKernel
from tinyref_fuzz.generate.policies import Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import (
    DrawnValue,
    Number,
    Shape,
    broadcast,
    corners,
    full_range,
    magnitude,
    value_in_range,
)
from tinyref_spec.kernel_case import Mode


class OperandDraw(Protocol):
    """Source of operands, implemented by `tinyref_fuzz.generate.expressions.Expressions`."""

    kernel: DrawnKernel
    tape: Tape
    policy: Policy

    def operand(self, x: DrawnValue) -> DrawnValue:
        """Draw another value of the type of `x`."""

    def condition(self, shape: Shape) -> DrawnValue | None:
        """Draw a bool of this shape."""

    def grow(self, x: DrawnValue) -> DrawnValue:
        """Draw one more operation on `x`."""


Maker = Callable[[OperandDraw, DrawnValue], DrawnValue | None]


def is_unspecified(*values: DrawnValue) -> bool:
    """Return True if a decision by these values could fall either way."""
    return any(value.is_rough for value in values)


def _rounds(draw: OperandDraw, dtype: DType) -> bool:
    """Return True if arithmetic on this type may round, so that the order of operations matters."""
    return dtype.is_float and draw.kernel.mode is Mode.FLOAT


def _arithmetic(
    draw: OperandDraw,
    op: Ops,
    x: DrawnValue,
    y: DrawnValue,
    low: Number,
    high: Number,
    bound: Number,
) -> DrawnValue | None:
    """Return a binary op, which wraps for integers and rounds for floats."""
    rough = x.is_rough or y.is_rough or _rounds(draw, x.dtype)
    shape = broadcast(x.shape, y.shape)
    node = build.binary(op, x.node, y.node)
    return value_in_range(draw.kernel.mode, node, shape, low, high, bound=bound, is_rough=rough)


def add(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return x + y."""
    y = draw.operand(x)
    return _arithmetic(draw, Ops.ADD, x, y, x.low + y.low, x.high + y.high, x.bound + y.bound)


def subtract(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return x - y, or y - x."""
    y = draw.operand(x)
    if draw.tape.below(2):
        x, y = y, x
    return _arithmetic(draw, Ops.SUB, x, y, x.low - y.high, x.high - y.low, x.bound + y.bound)


def multiply(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return x * y."""
    y = draw.operand(x)
    return product(draw, x, y)


def product(draw: OperandDraw, x: DrawnValue, y: DrawnValue) -> DrawnValue | None:
    """Return the product of two values of one type."""
    bound = 0 if not x.bound or not y.bound else x.bound * y.bound
    return _arithmetic(draw, Ops.MUL, x, y, *corners(x, y), bound)


def negate(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return -x."""
    node = build.unary(Ops.NEG, x.node)
    mode = draw.kernel.mode
    return value_in_range(mode, node, x.shape, -x.high, -x.low, bound=x.bound, is_rough=x.is_rough)


def maximum(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return the larger of x and y; with a NaN, in EDGE mode, it is unspecified which."""
    y = draw.operand(x)
    rough = x.is_rough or y.is_rough or (draw.kernel.mode is Mode.EDGE and x.dtype.is_float)
    node = build.maximum(x.node, y.node)
    low, high, bound = max(x.low, y.low), max(x.high, y.high), max(x.bound, y.bound)
    shape = broadcast(x.shape, y.shape)
    return value_in_range(draw.kernel.mode, node, shape, low, high, bound=bound, is_rough=rough)


def multiply_accumulate(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return x * y + z, which may round once or twice."""
    y, z = draw.operand(x), draw.operand(x)
    low, high = corners(x, y)
    bound = z.bound + (0 if not x.bound or not y.bound else x.bound * y.bound)
    node = UOp(Ops.MULACC, x.dtype, (x.node, y.node, z.node))
    rough = any(value.is_rough for value in (x, y, z))
    if x.dtype.is_float and draw.kernel.mode is not Mode.EXACT:
        rough = True
    shape = broadcast(x.shape, y.shape, z.shape)
    return value_in_range(
        draw.kernel.mode, node, shape, low + z.low, high + z.high, bound=bound, is_rough=rough
    )


# --- integers -------------------------------------------------------------------------------------

DIVISORS = (2, 3, 4, 5, 1, 7, 8, 16, 13, 100, 64)


def divide(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return the quotient or the remainder of x by a constant, or by a value that is not 0."""
    op = draw.tape.pick((Ops.IDIV, Ops.MOD))
    if draw.tape.chance(60):
        # The quotient of MIN and -1 is unspecified.
        least = 1 if x.low > x.dtype.minimum else 2
        divisor = draw.tape.pick([divisor for divisor in DIVISORS if divisor >= least])
        if not x.dtype.is_unsigned and draw.tape.chance(30):
            divisor = -divisor
        return _of_bits(draw, build.binary(op, x.node, divisor), x)
    y = draw.operand(x)
    if draw.kernel.mode is Mode.EDGE and draw.tape.chance(60):
        # The results of x / 0 and MIN / -1 are unspecified, but they must not trap.
        return _of_bits(draw, build.binary(op, x.node, y.node), x, y, is_rough=True)
    mask = draw.tape.pick((7, 3, 15, 63))
    divisor_node = build.add(build.both(y.node, mask), 1)
    return _of_bits(draw, build.binary(op, x.node, divisor_node), x, y)


def _of_bits(
    draw: OperandDraw, node: UOp, *operands: DrawnValue, is_rough: bool = False
) -> DrawnValue | None:
    """Return the value of an integer or bool node: any value of its type."""
    shape = broadcast(*(operand.shape for operand in operands))
    rough = is_rough or is_unspecified(*operands)
    return value_in_range(draw.kernel.mode, node, shape, *full_range(node.dtype), is_rough=rough)


def shift(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Shift x left or right by a count below its width; in EDGE mode by any count."""
    op = draw.tape.pick((Ops.SHL, Ops.SHR))
    bits = x.dtype.bits
    if draw.tape.chance(50):
        return _of_bits(draw, build.binary(op, x.node, draw.tape.below(bits)), x)
    y = draw.operand(x)
    if draw.kernel.mode is Mode.EDGE and draw.tape.chance(30):
        return _of_bits(draw, build.binary(op, x.node, y.node), x, y, is_rough=True)
    return _of_bits(draw, build.binary(op, x.node, build.both(y.node, bits - 1)), x, y)


def bitwise(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return AND, OR or XOR of two values."""
    op = draw.tape.pick((Ops.AND, Ops.OR, Ops.XOR))
    y = draw.operand(x)
    return _of_bits(draw, build.binary(op, x.node, y.node), x, y)


def threefry(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return the random number of a counter and a key."""
    y = draw.operand(x)
    return _of_bits(draw, build.binary(Ops.THREEFRY, x.node, y.node), x, y)


# --- choices --------------------------------------------------------------------------------------


def compare(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return a comparison as 0 or 1, or a choice that it decides."""
    y = draw.operand(x)
    if is_unspecified(x, y):
        return None
    op = draw.tape.pick((Ops.CMPLT, Ops.CMPNE))
    left, right = (x, y) if draw.tape.below(2) else (y, x)
    condition = build.binary(op, left.node, right.node)
    shape = broadcast(x.shape, y.shape)
    if draw.tape.chance(25) or x.dtype.is_bool:
        return DrawnValue(build.cast(condition, x.dtype), shape, 0, 1, 1)
    return choose(draw, DrawnValue(condition, shape, 0, 1, 1), x, y)


def where(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return x where a condition holds, else y."""
    condition = draw.condition(x.shape)
    return choose(draw, condition, x, draw.operand(x)) if condition is not None else None


def choose(
    draw: OperandDraw, condition: DrawnValue, x: DrawnValue, y: DrawnValue
) -> DrawnValue | None:
    """Return x where `condition` holds, else y."""
    node = build.where(condition.node, x.node, y.node)
    shape = broadcast(condition.shape, x.shape, y.shape)
    rough = x.is_rough or y.is_rough
    low, high, bound = min(x.low, y.low), max(x.high, y.high), max(x.bound, y.bound)
    return value_in_range(draw.kernel.mode, node, shape, low, high, bound=bound, is_rough=rough)


# --- casts ----------------------------------------------------------------------------------------


def through(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Cast x to another type, perhaps apply an operation there, and cast back."""
    others = [dtype for dtype in draw.kernel.dtypes if dtype is not x.dtype]
    if not others:
        return None
    target = draw.tape.pick(others, [draw.policy.dtypes.get(dtype, 1) for dtype in others])
    there = convert(draw, x, target)
    if there is None:
        return None
    if draw.tape.below(2) and target not in dtypes.storage_only:
        there = draw.grow(there)
    return convert(draw, there, x.dtype)


def convert(draw: OperandDraw, x: DrawnValue, target: DType) -> DrawnValue | None:
    """Cast x to `target`; return None if that is neither exact nor one rounding of a float."""
    source, mode = x.dtype, draw.kernel.mode
    if source is target:
        return x
    if target not in draw.kernel.dtypes:
        return None
    node = build.cast(x.node, target)
    if target.is_bool:
        return None if x.is_rough else DrawnValue(node, x.shape, 0, 1, 1)
    if target.is_int and source.is_float:
        low, high = full_range(target)
        fits = low <= x.low and x.high <= high
        if mode is Mode.EDGE:
            return value_in_range(mode, node, x.shape, low, high, is_rough=True)
        if x.is_rough or not fits:
            return None
        return value_in_range(mode, node, x.shape, math.floor(x.low), math.ceil(x.high))
    if target.is_int:
        return value_in_range(mode, node, x.shape, x.low, x.high, is_rough=x.is_rough)
    # A wider float holds every value of a narrower one if both its parts are as wide.
    holds = source.is_bool or (
        source.is_float
        and source.mantissa_bits <= target.mantissa_bits
        and source.exponent_bits <= target.exponent_bits
    )
    rough = x.is_rough or (mode is Mode.FLOAT and not holds)
    return value_in_range(mode, node, x.shape, x.low, x.high, bound=x.bound, is_rough=rough)


def reinterpret(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Reinterpret the bits of x as another type of its size, change them, and go back."""
    others = [
        dtype
        for dtype in draw.kernel.dtypes
        if dtype.itemsize == x.dtype.itemsize and dtype is not x.dtype and not dtype.is_bool
    ]
    if x.is_rough or not others:
        return None
    if x.dtype.is_float:
        return _sign_bits(draw, x)
    integers = [dtype for dtype in others if dtype.is_int]
    if not integers:
        return None
    target = draw.tape.pick(integers)
    there = value_in_range(
        draw.kernel.mode, build.bitcast(x.node, target), x.shape, *_same_bits(x, target)
    )
    return None if there is None else convert(draw, draw.grow(there), x.dtype)


def _same_bits(x: DrawnValue, target: DType) -> tuple[Number, Number]:
    low, high = full_range(target)
    return (x.low, x.high) if low <= x.low and x.high <= high else (low, high)


def _sign_bits(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return -x or |x| by the sign bit; x must not be rough: its zero could have either sign."""
    words = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
    word = next(dtype for dtype in words if dtype.itemsize == x.dtype.itemsize)
    if word not in draw.kernel.dtypes:
        return None
    sign = 1 << (word.bits - 1)
    bits = build.bitcast(x.node, word)
    if draw.tape.below(2):
        node = build.bitcast(build.binary(Ops.XOR, bits, sign), x.dtype)
        low, high = -x.high, -x.low
    else:
        node = build.bitcast(build.both(bits, sign - 1), x.dtype)
        low, high = 0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high)), magnitude(x)
    return value_in_range(draw.kernel.mode, node, x.shape, low, high, bound=x.bound)


# --- floats ---------------------------------------------------------------------------------------

LEAST_POSITIVE = 0.25


def _positive(draw: OperandDraw, x: DrawnValue) -> DrawnValue:
    """Return x, or the larger of x and 0.25: roots, logarithms and quotients are moderate there."""
    if x.low >= LEAST_POSITIVE or draw.kernel.mode is Mode.EDGE:
        return x
    node = build.maximum(x.node, LEAST_POSITIVE)
    high = max(x.high, LEAST_POSITIVE)
    return DrawnValue(node, x.shape, LEAST_POSITIVE, high, max(x.bound, high), x.is_rough)


def _function(
    op: Ops, function: Callable[[float], float], is_tame: bool = False, largest: float = math.inf
) -> Maker:
    """Return the maker of a monotonic function, whose last places are unspecified.

    With `is_tame` its operand is made positive; `largest` is the largest operand it accepts.
    """

    def make(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
        x = _positive(draw, x) if is_tame else x
        node, mode = build.unary(op, x.node), draw.kernel.mode
        if mode is Mode.EDGE:
            return value_in_range(mode, node, x.shape, 0, 0, is_rough=True)
        if magnitude(x) > largest:
            return None
        ends = function(x.low), function(x.high)
        return value_in_range(mode, node, x.shape, min(ends), max(ends), is_rough=True)

    return make


def sine(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return the sine of x."""
    if draw.kernel.mode is not Mode.EDGE and magnitude(x) > 30:
        return None
    node = build.unary(Ops.SIN, x.node)
    return value_in_range(draw.kernel.mode, node, x.shape, -1.0, 1.0, is_rough=True)


def quotient(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return x / y."""
    y = _positive(draw, draw.operand(x))
    node = build.binary(Ops.FDIV, x.node, y.node)
    shape = broadcast(x.shape, y.shape)
    if draw.kernel.mode is Mode.EDGE:
        return value_in_range(draw.kernel.mode, node, shape, 0, 0, is_rough=True)
    largest = magnitude(x) / y.low
    return value_in_range(draw.kernel.mode, node, shape, -largest, largest, is_rough=True)


def power(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return x to the power y."""
    x, y = _positive(draw, x), draw.operand(x)
    node = build.binary(Ops.POW, x.node, y.node)
    shape = broadcast(x.shape, y.shape)
    if draw.kernel.mode is Mode.EDGE:
        return value_in_range(draw.kernel.mode, node, shape, 0, 0, is_rough=True)
    if magnitude(y) > 4:
        return None
    largest = max(x.high, 1 / x.low) ** magnitude(y)
    return value_in_range(draw.kernel.mode, node, shape, 0.0, largest, is_rough=True)


def truncate(draw: OperandDraw, x: DrawnValue) -> DrawnValue | None:
    """Return the integer part of x / 4 in EXACT mode, else the integer part of x."""
    mode = draw.kernel.mode
    if x.is_rough:
        return None
    if mode is not Mode.EXACT:
        node = build.unary(Ops.TRUNC, x.node)
        return value_in_range(mode, node, x.shape, x.low, x.high, bound=x.bound)
    # If x * 4 is still exact, so is x / 4.
    if value_in_range(mode, x.node, x.shape, x.low, x.high, bound=x.bound * 4) is None:
        return None
    quarter = build.mul(x.node, 0.25)
    low, high = math.trunc(x.low / 4), math.trunc(x.high / 4)
    return value_in_range(mode, build.unary(Ops.TRUNC, quarter), x.shape, low, high)


# --- which op on which type -----------------------------------------------------------------------

MAKERS: dict[Ops, Maker] = {
    Ops.ADD: add,
    Ops.MUL: multiply,
    Ops.SUB: subtract,
    Ops.MAX: maximum,
    Ops.WHERE: where,
    Ops.CMPLT: compare,
    Ops.CAST: through,
    Ops.NEG: negate,
    Ops.MULACC: multiply_accumulate,
    Ops.IDIV: divide,
    Ops.XOR: bitwise,
    Ops.SHL: shift,
    Ops.BITCAST: reinterpret,
    Ops.THREEFRY: threefry,
    Ops.TRUNC: truncate,
    Ops.SQRT: _function(Ops.SQRT, math.sqrt, is_tame=True),
    Ops.EXP2: _function(Ops.EXP2, lambda end: 2.0**end, largest=8),
    Ops.LOG2: _function(Ops.LOG2, math.log2, is_tame=True),
    Ops.SIN: sine,
    Ops.POW: power,
    Ops.RECIP: _function(Ops.RECIP, lambda end: 1 / end, is_tame=True),
    Ops.FDIV: quotient,
}
# Other ops that a maker may build: their weights in a policy count too.
ALSO = {
    Ops.IDIV: (Ops.MOD,),
    Ops.CMPLT: (Ops.CMPNE,),
    Ops.SHL: (Ops.SHR,),
    Ops.XOR: (Ops.AND, Ops.OR),
}
_ROUNDING = (Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.RECIP, Ops.FDIV)
_OF_NUMBERS = (Ops.ADD, Ops.MUL, Ops.SUB, Ops.NEG, Ops.MULACC)
_OF_ALL = (Ops.MAX, Ops.WHERE, Ops.CMPLT, Ops.CAST)
_BASE = {Ops.ADD: 3.0, Ops.MUL: 3.0, Ops.SUB: 2.0, Ops.MAX: 1.5, Ops.NEG: 0.7, Ops.CAST: 2.0}


def makers(dtype: DType, mode: Mode) -> tuple[Ops, ...]:
    """Return the ops of `MAKERS` that accept this type in this mode, the simplest first."""
    if dtype in dtypes.storage_only:
        return (Ops.WHERE, Ops.CAST)
    if dtype.is_bool:
        return (*_OF_ALL, Ops.XOR, Ops.BITCAST)
    if dtype.is_int:
        words = (Ops.THREEFRY,) if dtype is dtypes.uint64 else ()
        return (*_OF_NUMBERS, *_OF_ALL, Ops.IDIV, Ops.XOR, Ops.SHL, Ops.BITCAST, *words)
    rounding = () if mode is Mode.EXACT else _ROUNDING
    return (*_OF_NUMBERS, *_OF_ALL, Ops.BITCAST, Ops.TRUNC, *rounding)


def weight(op: Ops, weights: Mapping[Ops, float]) -> float:
    """Return the weight with which a maker is drawn."""
    return _BASE.get(op, 1.0) * max(weights.get(other, 1) for other in (op, *ALSO.get(op, ())))
