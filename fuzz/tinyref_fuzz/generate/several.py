"""Kernels of many small outputs: one operation or one instance of a rule each, over shared
inputs.

What stands alone is not diluted: nothing after it takes its bits away, and one kernel tries as many
as it has outputs. The types of loads meet in casts, and the data are of the whole range. Of numbers
whose range a compiler can tell it is asked what only the ends of that range decide.
"""

from __future__ import annotations

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.arithmetic import convert
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.rule_instances import instance_of
from tinyref_fuzz.generate.values import Shape, Value, value_in_range

# Elements of each output, enough for some to be an extreme of their type.
LENGTHS = (48, 64, 30, 17)
LEAST, MOST = 20, 32
# Of the outputs this many in 100 are instances of rules, of the others so many questions about the
# range of a number; the rest are operations.
INSTANCES = 60
QUESTIONS = 35
# So many kernels in 100 have outputs of nothing as well: over an empty axis, next to one of terms.
EMPTIES = 12
NOTHING = (3, 0)
# What joins two numbers of a known range.
JOINED = (Ops.MUL, Ops.ADD, Ops.SUB, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)
WEIGHTS = (4, 2, 2, 2, 4, 1, 1)


def several(draw: Expressions) -> list[Value]:
    """The values of the outputs, each over the one axis of the kernel."""
    kernel = draw.kernel
    axes = kernel.add_axes([draw.tape.pick(LENGTHS)], outer=True)
    inner = kernel.add_axes(NOTHING, outer=False) if draw.tape.chance(EMPTIES) else ()
    kernel.make_symbolic()
    shape = kernel.shape(axes)
    values = _of_nothing(draw, axes, inner) if inner else []
    # A device of few buffers needs some of them for inputs.
    most = max(1, min(MOST, kernel.buffers // 2))
    for _ in range(draw.tape.between(min(LEAST, most), most)):
        is_instance = draw.tape.chance(INSTANCES)
        found = instance_of(draw, lambda dtype: _leaf(draw, shape, dtype)) if is_instance else None
        if found is None and draw.tape.chance(QUESTIONS):
            found = _question(draw, shape)
        values.append(found or _operation(draw, shape))
    return values


def _of_nothing(draw: Expressions, axes: tuple[int, ...], inner: tuple[int, ...]) -> list[Value]:
    """A reduce of nothing next to a load, perhaps inside of another reduce; and an empty output."""
    kernel = draw.kernel
    over, nothing = inner[:1], inner[1:]
    x = kernel.load(kernel.shape((*over, *nothing)), kernel.number(), 0)
    x = draw.join(draw.reduce(x, nothing), kernel.load(kernel.shape(axes), x.dtype))
    if draw.tape.chance(60):
        x = draw.reduce(x, over)
    return [x, kernel.load(kernel.shape((*axes, *nothing)), x.dtype, 0)]


def _leaf(draw: Expressions, shape: Shape, dtype: DType) -> Value:
    """A load, mostly of a buffer that is loaded already."""
    found = draw.kernel.existing_load(shape, dtype) if draw.tape.chance(70) else None
    return found or draw.kernel.load(shape, dtype, 0)


def _operation(draw: Expressions, shape: Shape) -> Value:
    """An operation on a load, or a load as another type, and as one more."""
    kernel = draw.kernel
    weights = [draw.policy.dtypes.get(dtype, 1) for dtype in kernel.dtypes]
    x = _leaf(draw, shape, draw.tape.pick(kernel.dtypes, weights))
    if draw.tape.chance(30):
        found = convert(draw, x, draw.tape.pick(kernel.dtypes))
        if found is not None:
            again = convert(draw, found, draw.tape.pick(kernel.dtypes))
            return again if again is not None and draw.tape.chance(50) else found
    return draw.grow(x)


# --- ranges ---------------------------------------------------------------------------------------


def _question(draw: Expressions, shape: Shape) -> Value | None:
    """A comparison, quotient or remainder that is decided only at the ends of a number's range."""
    tape, mode = draw.tape, draw.kernel.mode
    signed = [each for each in draw.kernel.dtypes if each in dtypes.ints and not each.is_unsigned]
    if not signed:
        return None
    dtype = tape.pick(signed)
    x = _narrow(draw, shape, dtype)
    if tape.chance(70):
        y = _narrow(draw, shape, dtype)
        op = tape.pick(JOINED, WEIGHTS)
        node = build.binary(op, x.node, y.node)
        ends = _ends(op, x, y)
    else:
        node, ends = x.node, [int(x.low), int(x.high)]
    least, most = int(dtype.minimum), int(dtype.maximum)
    end = max(least, min(most, tape.pick(ends) + tape.between(-1, 1)))
    choice = tape.below(4)
    if choice < 2 or not end or end == least:
        sides = (node, build.const(dtype, end))
        answer = build.less(*(sides if choice else sides[::-1]))
        return value_in_range(mode, answer, shape, 0, 1)
    op = Ops.IDIV if choice == 2 else Ops.MOD
    return value_in_range(
        mode, build.binary(op, node, build.const(dtype, abs(end))), shape, least, most
    )


def _ends(op: Ops, x: Value, y: Value) -> list[int]:
    """Where the range of what `op` joins may end."""
    x_low, x_high, y_low, y_high = (int(each) for each in (x.low, x.high, y.low, y.high))
    if op is Ops.MUL:
        return [a * b for a in (x_low, x_high) for b in (y_low, y_high)]
    if op is Ops.ADD:
        return [x_low + y_low, x_high + y_high]
    if op is Ops.SUB:
        return [x_low - y_high, x_high - y_low]
    if op is Ops.MAX:
        return [x_low, x_high, y_low, y_high]
    # Of bits mostly one side decides.
    return [x_high, y_high, x_high, y_high, x_low, y_low]


def _narrow(draw: Expressions, shape: Shape, dtype: DType) -> Value:
    """A number of a range that its operations tell: a remainder, some bits, a mask, a position."""
    tape, kernel = draw.tape, draw.kernel
    x = _leaf(draw, shape, dtype)
    size = tape.pick((2, 3, 5, 7))
    choice = tape.below(4)
    if choice == 0:
        found = Value(build.mod(x.node, size), x.shape, 1 - size, size - 1, size)
    elif choice == 1:
        found = Value(build.both(x.node, size), x.shape, 0, size, size)
    elif choice == 2:
        found = kernel.valid(shape, dtype)
    else:
        found = kernel.element_numbers(shape, dtype)
    shift = tape.pick((0, 0, 1, size, -size))
    node = build.add(found.node, shift) if shift else found.node
    return Value(node, found.shape, found.low + shift, found.high + shift, found.bound + abs(shift))
