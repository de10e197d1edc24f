"""Kernels of many small outputs over shared inputs: in each another instance of a rule, expression,
chain of views, question or operation.

What stands alone is not diluted: nothing after it takes its bits away, and one kernel tries as many
as it has outputs. The types of loads meet in casts, and the data are of the whole range. Of numbers
whose range a compiler can tell it is asked what only the ends of that range decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.arithmetic import convert
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.free import free_expression
from tinyref_fuzz.generate.rule_instances import instance_of
from tinyref_fuzz.generate.values import Shape, Value, value_in_range
from tinyref_fuzz.generate.views import draw_chain, draw_through

# Of each output: enough elements for some to be an extreme of their type, and axes whose counters
# are of several ranges.
SHAPES = ((48,), (64,), (30,), (17,), (8, 6), (3, 4, 5))
SHAPE_WEIGHTS = (3, 3, 2, 2, 1, 1)
LEAST, MOST = 20, 32
# Of an instance so many leaves in 100 are earlier instances, those of not too many nodes.
NESTED = 25
LARGEST_NESTED = 16
# Of the loads through chains so many in 100 are of a buffer that is large enough.
SHARED = 80
SHAPES_OF_CHAINS = ((3, 4, 5), (8, 6), (2, 7, 4), (30,), (2, 3, 2, 4), (5, 9))
MIN_CHAINS, MAX_CHAINS = 10, 18
MIN_MOVES, MAX_MOVES = 3, 6
# So many kernels in 100 have outputs of nothing as well: over an empty axis, next to one of terms.
EMPTIES = 12
NOTHING = (3, 0)
# The numbers of elements modulo this are small enough for every type.
NUMBERS = 29
# Draws a value of a shape, or None; of use are the instances that are there already.
Kind = Callable[[Expressions, Shape, list[Value]], Value | None]
# What joins two numbers of a known range.
JOINED = (Ops.MUL, Ops.ADD, Ops.SUB, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)
WEIGHTS = (4, 2, 2, 2, 4, 1, 1)


def several(draw: Expressions) -> list[Value]:
    """The values of the outputs, each over the axes of the kernel."""
    kernel = draw.kernel
    axes = kernel.add_axes(draw.tape.pick(SHAPES, SHAPE_WEIGHTS), outer=True)
    inner = kernel.add_axes(NOTHING, outer=False) if draw.tape.chance(EMPTIES) else ()
    kernel.make_symbolic()
    values = _of_nothing(draw, axes, inner) if inner else []
    shape = kernel.shape(axes)
    instances: list[Value] = []
    kinds, weights = zip(*KINDS, strict=True)
    for _ in range(_count(draw, LEAST, MOST)):
        found = draw.tape.pick(kinds, weights)(draw, shape, instances)
        values.append(found or operation(draw, shape))
    return values


def chains(draw: Expressions) -> list[Value]:
    """Outputs over the axes of the kernel, each seen through several movements."""
    kernel = draw.kernel
    axes = kernel.add_axes(draw.tape.pick(SHAPES_OF_CHAINS), outer=True)
    kernel.make_symbolic()
    count = _count(draw, MIN_CHAINS, MAX_CHAINS)
    return [chain_of(draw, kernel.shape(axes)) for _ in range(count)]


def _count(draw: Expressions, least: int, most: int) -> int:
    """How many outputs there are: a device of few buffers needs half of them for inputs."""
    most = max(1, min(most, draw.kernel.buffers // 2))
    return draw.tape.between(min(least, most), most)


def _of_nothing(draw: Expressions, axes: tuple[int, ...], inner: tuple[int, ...]) -> list[Value]:
    """A reduce of nothing next to a load, perhaps inside of another reduce; and an empty output."""
    kernel = draw.kernel
    over, nothing = inner[:1], inner[1:]
    x = kernel.load(kernel.shape((*over, *nothing)), kernel.number(), 0)
    x = draw.join(draw.reduce(x, nothing), kernel.load(kernel.shape(axes), x.dtype))
    if draw.tape.chance(60):
        x = draw.reduce(x, over)
    return [x, kernel.load(kernel.shape((*axes, *nothing)), x.dtype, 0)]


def _instance(draw: Expressions, shape: Shape, earlier: list[Value]) -> Value | None:
    """An instance of a rule, now and then of what is itself one: `earlier` gets it too."""

    def leaf(dtype: DType) -> Value:
        fitting = [value for value in earlier if value.dtype is dtype]
        is_nested = fitting and draw.tape.chance(NESTED)
        return draw.tape.pick(fitting) if is_nested else _leaf(draw, shape, dtype)

    found = instance_of(draw, leaf)
    if found is not None and len(found.node.toposort()) <= LARGEST_NESTED:
        earlier.append(found)
    return found


def chain_of(draw: Expressions, shape: Shape) -> Value:
    """A load through several movements, or where these leave elements, or the numbers of those."""
    kernel, tape = draw.kernel, draw.tape
    is_fixed = all(isinstance(size, int) for size in shape)
    drawn = draw_through if is_fixed and tape.below(2) else draw_chain
    tracker = drawn(tape, shape, tape.between(MIN_MOVES, MAX_MOVES))
    choice = tape.below(8)
    if choice == 0:
        return Value(build.valid(tracker), shape, 0, 1, 1)
    if choice == 1:
        numbers = build.mod(build.iota(tracker), NUMBERS)
        return Value(build.cast(numbers, kernel.integer()), shape, 0, NUMBERS, NUMBERS)
    size = tracker.real_size()
    large = [slot for slot, content in kernel.inputs.items() if content.size >= size]
    if large and tape.chance(SHARED):
        slot = tape.pick(large)
        content = kernel.inputs[slot]
        buffer = build.define_global(slot, content.dtype, content.size)
        return kernel.load_through(tracker, content.dtype, buffer)
    return kernel.load_through(tracker, kernel.dtype())


def _leaf(draw: Expressions, shape: Shape, dtype: DType) -> Value:
    """A load, mostly of a buffer that is loaded already."""
    found = draw.kernel.existing_load(shape, dtype) if draw.tape.chance(70) else None
    return found or draw.kernel.load(shape, dtype, 0)


def operation(draw: Expressions, shape: Shape) -> Value:
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


# What an output is, and how often; an operation where it cannot be that.
KINDS: tuple[tuple[Kind, int], ...] = (
    (_instance, 60),
    (lambda draw, shape, _: free_expression(draw, shape), 20),
    (lambda draw, shape, _: _question(draw, shape), 8),
    (lambda draw, shape, _: operation(draw, shape), 12),
)

# The forms of kernels of many outputs.
SEVERAL: Mapping[str, Callable[[Expressions], list[Value]]] = MappingProxyType(
    {"several": several, "chains": chains}
)
