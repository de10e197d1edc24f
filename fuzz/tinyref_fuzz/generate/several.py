"""Draw kernels of many small outputs over shared inputs: expressions, operations, views.

An expression that is stored directly loses no bits to later operations, and one kernel tests as
many expressions as it has outputs. The ranges of counters and of masked values are known exactly.
So quotients, remainders and comparisons are tested at the ends of ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.arithmetic import convert
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.values import DrawnValue, Shape, full_range, value_in_range
from tinyref_fuzz.generate.views import draw_chain, draw_through

# Shapes of the outputs: with enough elements for extremes of their type, and with axes whose
# counters have several ranges.
SHAPES = ((48,), (64,), (30,), (17,), (8, 6), (3, 4, 5))
SHAPE_WEIGHTS = (3, 3, 2, 2, 1, 1)
LEAST, MOST = 24, 40
SHAPES_OF_CHAINS = ((3, 4, 5), (8, 6), (2, 7, 4), (30,), (2, 3, 2, 4), (5, 9))
MIN_CHAINS, MAX_CHAINS = 10, 18
MIN_MOVES, MAX_MOVES = 3, 6
# Percentage of outputs that are integer expressions.
INTEGERS = 75
# Percentage of leaves that are an earlier output of their type.
NESTED = 15
# Percentage of loads through chains that share a buffer.
SHARED = 80
# Element numbers modulo this fit every type.
NUMBERS = 29

MAX_LEAVES = 3
MAX_OPERATIONS = 5
# Percentage of integer expressions whose leaves are counters.
COUNTERS = 40
# Offsets that are added to a counter.
OFFSETS = (0, 0, 0, 1, 4, -1, -3, -8)
# First and last number of a narrow range.
SPANS = ((0, 1), (0, 3), (0, 7), (0, 11), (1, 4), (4, 7), (-3, 3), (-8, -1), (-4, -1), (-1, 5))
SMALL_NUMBERS = (1, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16, 24, -1, -1, -2, -3, -4, -8)
DIVISORS = (2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 100, 1, -2, -3)
# Numbers to compare with: the range of most quotients and remainders ends near them.
LIMITS = (0, 1, -1, 2, 3, -2, 4, 7, -3, 8)
# Percent of the numbers at which products of two begin to wrap, or a type ends.
WIDE_NUMBERS = 20
_OPERATIONS = (
    Ops.ADD,
    Ops.ADD,
    Ops.ADD,
    Ops.SUB,
    Ops.MUL,
    Ops.MUL,
    Ops.IDIV,
    Ops.IDIV,
    Ops.IDIV,
    Ops.MOD,
    Ops.MOD,
    Ops.MOD,
    Ops.MAX,
    Ops.AND,
    Ops.OR,
    Ops.XOR,
    Ops.SHL,
    Ops.SHR,
    Ops.NEG,
    Ops.WHERE,
    Ops.CAST,
)


def several(draw: Expressions) -> list[DrawnValue]:
    """Draw the values of the outputs, each over all axes of the kernel."""
    kernel = draw.kernel
    axes = kernel.add_axes(draw.tape.pick(SHAPES, SHAPE_WEIGHTS), outer=True)
    kernel.make_symbolic()
    shape = kernel.shape(axes)
    values: list[DrawnValue] = []
    for _ in range(_count(draw, LEAST, MOST)):
        is_integer = draw.tape.chance(INTEGERS)
        expression = integer_expression(draw, shape, values) if is_integer else None
        values.append(expression or operation(draw, shape))
    return values


def chains(draw: Expressions) -> list[DrawnValue]:
    """Draw outputs over the axes of the kernel, each seen through several movements."""
    kernel = draw.kernel
    axes = kernel.add_axes(draw.tape.pick(SHAPES_OF_CHAINS), outer=True)
    kernel.make_symbolic()
    count = _count(draw, MIN_CHAINS, MAX_CHAINS)
    return [chain_of(draw, kernel.shape(axes)) for _ in range(count)]


def _count(draw: Expressions, least: int, most: int) -> int:
    """Draw the number of outputs; a device of few buffers needs half of them for inputs."""
    most = max(1, min(most, draw.kernel.buffers // 2))
    return draw.tape.between(min(least, most), most)


def chain_of(draw: Expressions, shape: Shape) -> DrawnValue:
    """Draw a load through several movements, its mask, or the numbers of its elements."""
    kernel, tape = draw.kernel, draw.tape
    is_fixed = all(isinstance(size, int) for size in shape)
    drawn = draw_through if is_fixed and tape.below(2) else draw_chain
    tracker = drawn(tape, shape, tape.between(MIN_MOVES, MAX_MOVES))
    choice = tape.below(8)
    if choice == 0:
        return DrawnValue(build.valid(tracker), shape, 0, 1, 1)
    if choice == 1:
        numbers = build.mod(build.iota(tracker), NUMBERS)
        return DrawnValue(build.cast(numbers, kernel.integer()), shape, 0, NUMBERS, NUMBERS)
    size = tracker.real_size()
    large = [slot for slot, content in kernel.inputs.items() if content.size >= size]
    if large and tape.chance(SHARED):
        slot = tape.pick(large)
        content = kernel.inputs[slot]
        buffer = build.define_global(slot, content.dtype, content.size)
        return kernel.load_through(tracker, content.dtype, buffer)
    return kernel.load_through(tracker, kernel.dtype())


def operation(draw: Expressions, shape: Shape) -> DrawnValue:
    """Draw an operation on a load, or a load cast once or twice."""
    kernel = draw.kernel
    weights = [draw.policy.dtypes.get(dtype, 1) for dtype in kernel.dtypes]
    dtype = draw.tape.pick(kernel.dtypes, weights)
    existing = kernel.existing_load(shape, dtype) if draw.tape.chance(70) else None
    x = existing or kernel.load(shape, dtype, 0)
    if draw.tape.chance(30):
        once = convert(draw, x, draw.tape.pick(kernel.dtypes))
        if once is not None:
            twice = convert(draw, once, draw.tape.pick(kernel.dtypes))
            return twice if twice is not None and draw.tape.chance(50) else once
    return draw.grow(x)


# --- integer expressions --------------------------------------------------------------------------


def integer_expression(
    draw: Expressions, shape: Shape, earlier: Sequence[DrawnValue]
) -> DrawnValue | None:
    """Draw an expression over up to three leaves of one type; None on a device without integers.

    Counters along axes, which are int32, need axes of known sizes.
    """
    kernel, tape = draw.kernel, draw.tape
    if not any(dtype in dtypes.ints for dtype in kernel.dtypes):
        return None
    is_fixed = all(isinstance(size, int) for size in shape)
    counts = is_fixed and kernel.has(dtypes.int32) and tape.chance(COUNTERS)
    dtype = dtypes.int32 if counts else kernel.integer()
    count = tape.between(1, MAX_LEAVES)
    if counts:
        leaves = [_moved(draw, counter(draw, shape)) for _ in range(count)]
    else:
        leaves = [_leaf(draw, shape, dtype, earlier) for _ in range(count)]
    node = _Expression(draw, leaves).draw()
    return value_in_range(kernel.mode, node, shape, *full_range(node.dtype))


class _Expression:
    """Values of one integer type, and comparisons of them, that are put together.

    Operands are mostly the last values, and constants are often the constant before: the rules of a
    compiler look for what divides, for what wraps, and for conditions that meet.
    """

    def __init__(self, draw: Expressions, leaves: Sequence[UOp]) -> None:
        self.tape = draw.tape
        self.types = [dtype for dtype in draw.kernel.dtypes if dtype in dtypes.ints]
        self.dtype = leaves[0].dtype
        self.values = list(leaves)
        self.flags: list[UOp] = []
        self.last = 0

    def draw(self) -> UOp:
        node = self.values[0]
        for _ in range(self.tape.between(2, MAX_OPERATIONS)):
            if self.tape.below(3):
                node = self._value()
                self.values.append(node)
            else:
                node = self._flag()
                self.flags.append(node)
        return node

    def _operand(self) -> UOp:
        return self.values[-1] if self.tape.below(3) else self.tape.pick(self.values)

    def _number(self, numbers: Sequence[int] = SMALL_NUMBERS) -> UOp:
        if not self.last or self.tape.below(5) > 1:
            wide = 1 << self.dtype.bits // 2
            most = int(self.dtype.maximum)
            edges = (wide, wide - 1, 3 * wide // 2, most, most // 2 + 1, most // 3)
            self.last = self.tape.pick(edges if self.tape.chance(WIDE_NUMBERS) else numbers)
        number = abs(self.last) if self.dtype.is_unsigned else self.last
        return build.const(self.dtype, as_const(number, self.dtype))

    def _divisor(self) -> UOp:
        """Return a constant by which every dividend has a quotient: neither 0 nor -1."""
        if self.last in (0, -1):
            self.last = self.tape.pick(DIVISORS)
        return self._number(DIVISORS)

    def _other(self) -> UOp:
        return self._number() if self.tape.below(2) else self._operand()

    def _value(self) -> UOp:
        op, x = self.tape.pick(_OPERATIONS), self._operand()
        if op is Ops.NEG:
            return build.unary(op, x)
        if op is Ops.CAST:
            # Rules look at two casts and at the ranges between them.
            for _ in range(self.tape.between(1, 2)):
                x = build.cast(x, self.tape.pick(self.types))
            return build.cast(x, self.dtype)
        if op is Ops.WHERE:
            flag = self.flags[-1] if self.flags else self._flag()
            return build.where(flag, x, self._other())
        if op in (Ops.SHL, Ops.SHR):
            half = self.dtype.bits // 2
            return build.binary(op, x, self.tape.pick((1, 2, 3, half, half + 1, 2 * half - 1)))
        if op in (Ops.IDIV, Ops.MOD):
            return build.binary(op, x, self._divisor())
        return build.binary(op, x, self._number() if op is Ops.MUL else self._other())

    def _flag(self) -> UOp:
        """Draw a comparison, mostly joined to the one before, or the opposite of that."""
        if self.flags and self.tape.below(8) == 7:
            return build.logical_not(self.flags[-1])
        x = self.values[0] if self.tape.below(3) == 2 else self._operand()
        if self.tape.below(3) == 2:
            x = build.binary(self.tape.pick((Ops.IDIV, Ops.MOD)), x, self._divisor())
        limit = self._operand()
        if self.tape.below(3):
            number = self.tape.pick(LIMITS) if self.tape.below(3) else self.last
            limit = build.const(self.dtype, as_const(number, self.dtype))
        compared = build.binary(self.tape.pick((Ops.CMPLT, Ops.CMPLT, Ops.CMPNE)), x, limit)
        if self.tape.below(2):
            compared = build.logical_not(compared)
        if not self.flags or self.tape.below(4) == 3:
            return compared
        return build.binary(self.tape.pick((Ops.AND, Ops.OR)), self.flags[-1], compared)


def _leaf(draw: Expressions, shape: Shape, dtype: DType, earlier: Sequence[DrawnValue]) -> UOp:
    """Draw a counter, an earlier output, any value, or a value in a narrow range."""
    tape = draw.tape
    choice = tape.below(5)
    if choice == 0 and all(isinstance(size, int) for size in shape):
        return build.cast(counter(draw, shape), dtype)
    alike = [value for value in earlier[-4:] if value.dtype is dtype and not value.is_rough]
    if alike and tape.chance(NESTED):
        return tape.pick(alike).node
    x = draw.kernel.reused_load(shape, dtype, 0).node
    if choice < 2:
        return x
    low, high = tape.pick([span for span in SPANS if span[0] >= 0 or not dtype.is_unsigned])
    return build.mod(x, high + 1) if low == -high else _in_range(x, low, high)


def _in_range(x: UOp, low: int, high: int) -> UOp:
    """Map `x` to the numbers `low` to `high`, by a mask or a remainder."""
    size, most = high - low + 1, int(x.dtype.maximum)
    if size & (size - 1):
        number = build.mod(build.both(x, as_const(most, x.dtype)), size)
    else:
        number = build.both(x, as_const(size - 1, x.dtype))
    return build.add(number, as_const(low, x.dtype)) if low else number


def _moved(draw: Expressions, x: UOp) -> UOp:
    """Add a drawn offset to `x`."""
    offset = draw.tape.pick(OFFSETS)
    return build.add(x, as_const(offset, x.dtype)) if offset else x


def counter(draw: Expressions, shape: Shape) -> UOp:
    """Number the positions along an axis of fixed size, or along one of two parts of it."""
    sizes = [int(size) for size in shape if isinstance(size, int)]
    axis = draw.tape.below(len(sizes))
    size = sizes[axis]
    after = draw.tape.pick([n for n in (1, 1, 2, 3, 4, 6, 8) if size % n == 0])
    parts = (*sizes[:axis], size // after, after, *sizes[axis + 1 :])
    counted = axis + draw.tape.below(2)
    ones = tuple(n if number == counted else 1 for number, n in enumerate(parts))
    return build.iota(ShapeTracker.from_shape(ones).expand(parts).reshape(shape))


# The forms of kernels of many outputs.
SEVERAL: Mapping[str, Callable[[Expressions], list[DrawnValue]]] = MappingProxyType(
    {"several": several, "chains": chains}
)
