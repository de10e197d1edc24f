"""Draw computed positions: loads at them, and reduces that select one of their terms."""

from __future__ import annotations

from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.arithmetic import choose
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.values import (
    DrawnValue,
    Shape,
    most,
    value_in_range,
)

shaped = ShapeTracker.from_shape

# Percentages of selections along two axes, and of those with one more operation on each term.
TWO_AXES = 25
GROWN = 20


def draw_position(draw: Expressions, shape: Shape, size: int, dtype: DType) -> DrawnValue | None:
    """Draw positions on an axis of `size`: most lie inside it, some outside."""
    x = draw.kernel.reused_load(shape, dtype)
    if x.is_rough:
        return None
    beyond = draw.tape.pick((0, 1, 2), (1, 3, 2))
    divisor = max(1, min(size + beyond, int(dtype.maximum)))
    node = build.mod(x.node, divisor)
    low = 0 if x.low >= 0 else 1 - divisor
    if draw.tape.chance(60) and not dtype.is_unsigned:
        # MOD has the sign of the dividend; this makes it the floored one.
        shifted = build.add(node, build.where(build.less(node, 0), build.const(dtype, divisor), 0))
        node, low = shifted, 0
    return value_in_range(draw.kernel.mode, node, x.shape, low, divisor - 1)


def gather(draw: Expressions) -> DrawnValue:
    """Draw a load at a position computed from another load; outside the axis it is 0."""
    kernel = draw.kernel
    outer = kernel.add_outer(1, 3)
    inner = kernel.add_inner(kernel.extent()) if draw.tape.chance(30) else ()
    shape = kernel.shape((*outer, *inner))
    sizes = [draw.tape.between(1, 9) for _ in range(draw.tape.between(1, 2))]
    computed = []
    for size in sizes:
        varying = shape if draw.tape.chance(70) else kernel.shape(outer[:1])
        position = draw_position(draw, varying, size, kernel.integer())
        if position is not None:
            computed.append((size, position))
    if not computed:
        return draw.reduce(draw.load(shape, kernel.number()), inner)
    # The axes of the kernel; their size is 1 where the table does not vary.
    own = tuple(size if draw.tape.chance(40) else 1 for size in shape)
    table = (*own, *(size for size, _ in computed))
    tracker = shaped(table)
    if draw.tape.chance(40):
        tracker = tracker.flip((draw.tape.below(len(table)),))
    if draw.tape.chance(30):
        tracker = tracker.pad((*((0, 0) for _ in table[:-1]), (1, 1)))
    dtype = kernel.dtype()
    buffer = kernel.buffer(dtype, max(1, tracker.real_size()), kernel.content_range(dtype))
    address = build.view(buffer, tracker, *(position.node for _, position in computed))
    value = kernel.value_of_load(address, shape, True)
    return draw.reduce(draw.grow(value), inner)


# --- reduces that select --------------------------------------------------------------------------


def choose_by_count(draw: Expressions) -> DrawnValue:
    """Reduce over i the terms x[i] where i is a loaded position: one load at that position."""
    kernel = draw.kernel
    outer = kernel.add_outer(0, 2)
    count = 2 if draw.tape.chance(TWO_AXES) else 1
    inner = kernel.add_inner(*(max(1, kernel.extent()) for _ in range(count)))
    shape = kernel.shape((*outer, *inner))
    table = draw.load(shape, kernel.number())
    if draw.tape.chance(GROWN):
        table = draw.grow(table)
    is_selected: UOp | None = None
    for axis in inner:
        is_equal = _compare_counter(draw, shape, axis, kernel.shape(outer))
        if is_equal is not None:
            is_selected = is_equal if is_selected is None else build.both(is_selected, is_equal)
    if is_selected is None:
        return draw.reduce(table, inner)
    zero = draw.zero(table.dtype)
    chosen = choose(draw, DrawnValue(is_selected, shape, 0, 1, 1), table, zero)
    return draw.reduce(chosen or table, inner, Ops.ADD)


def scatter(draw: Expressions) -> DrawnValue:
    """Reduce over i the terms x[i] whose loaded positions are the output: each goes to one."""
    kernel = draw.kernel
    outer = kernel.add_outer(0, 2)
    (row,) = kernel.add_axes([max(2, kernel.extent())], outer=True)
    inner = kernel.add_inner(max(1, kernel.extent()))
    table = draw.load(kernel.shape((*outer, *inner)), kernel.number())
    if draw.tape.chance(GROWN):
        table = draw.grow(table)
    shape = kernel.shape((*outer, row, *inner))
    moving = inner if draw.tape.below(2) else (*outer, *inner)
    is_equal = _compare_counter(draw, shape, row, kernel.shape(moving))
    if is_equal is None:
        return draw.reduce(table, inner)
    is_output = DrawnValue(is_equal, shape, 0, 1, 1)
    chosen = choose(draw, is_output, table, draw.zero(table.dtype))
    return draw.reduce(chosen or table, inner, Ops.ADD)


def _compare_counter(
    draw: Expressions, shape: Shape, axis: int, position_shape: Shape
) -> UOp | None:
    """Compare a counter along an axis, perhaps with an offset, with a loaded position."""
    tape, dtype = draw.tape, draw.kernel.integer()
    position = draw_position(draw, position_shape, most(draw.kernel.space[axis]), dtype)
    if position is None:
        return None
    ones = tuple(size if other == axis else 1 for other, size in enumerate(shape))
    tracker = shaped(ones).expand(shape)
    numbers = build.cast(
        build.iota(tracker.flip((axis,)) if tape.below(3) == 2 else tracker), dtype
    )
    if tape.below(2):
        numbers = build.add(numbers, tape.below(3))
    sides = (numbers, position.node) if tape.below(2) else (position.node, numbers)
    return build.equal(*sides)
