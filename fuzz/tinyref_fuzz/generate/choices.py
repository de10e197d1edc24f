"""Positions that are values: loads at computed places, and reduces that choose one of their terms.

A sum over i of x[i] where i == k is x[k]. The compiler finds that k in whatever the comparison and
the choice by it are written as, so that they are written in many ways here.
"""

from __future__ import annotations

from dataclasses import replace

from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.arithmetic import choose
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.values import (
    Shape,
    Value,
    float_limit,
    full_range,
    most,
    positions,
    value_in_range,
)
from tinyref_spec.kernel_case import Mode

shaped = ShapeTracker.from_shape

# So many choices by a count in 100 are in rows of which some are padding, and so many by a counter
# that more is done to.
IN_PADDING = 20
COUNTED = 60
# Of integers that are chosen so many go through one more operation before the reduce.
GOES_ON = 20
# Of both so many have a place for each position of the axis: that is no choice of one.
OWN_PLACES = 15
# Of choices along two axes so many have places on one for each position on the other.
FOLLOW = 30
# What is done to a counter, and how many times.
STEPS = (Ops.ADD, Ops.SUB, Ops.NEG)
TIMES = (1, 2, 3, 0), (4, 5, 3, 1)
# How numbers go along an axis: forward, backward, by steps of two, along another axis as well.
COUNTS = ("forward", "backward", "by two", "along both"), (8, 4, 1, 1)
# How many places are loaded, in so many of 100 another one for each of the outputs.
ROWS = (8, 6, 12, 5)
EACH = 90
# Of a number that is loaded and added to a counter.
LARGEST_OFFSET = 3


def place_on_axis(draw: Expressions, shape: Shape, size: int, dtype: DType) -> Value | None:
    """Positions on an axis of `size`: most of them inside of it, some not."""
    x = draw.kernel.reused_load(shape, dtype)
    if x.is_rough:
        return None
    beyond = draw.tape.pick((0, 1, 2), (1, 3, 2))
    divisor = max(1, min(size + beyond, int(dtype.maximum)))
    node = build.mod(x.node, divisor)
    low = 0 if x.low >= 0 else 1 - divisor
    if draw.tape.chance(60) and not dtype.is_unsigned:
        # MOD has the sign of the dividend; so this is the floored one.
        shifted = build.add(node, build.where(build.less(node, 0), build.const(dtype, divisor), 0))
        node, low = shifted, 0
    return value_in_range(draw.kernel.mode, node, x.shape, low, divisor - 1)


def gather(draw: Expressions) -> Value:
    """A load at a place that is computed from another load; outside of the axis it is 0."""
    kernel = draw.kernel
    outer = kernel.add_outer(1, 3)
    inner = kernel.add_inner(kernel.extent()) if draw.tape.chance(30) else ()
    shape = kernel.shape((*outer, *inner))
    sizes = [draw.tape.between(1, 9) for _ in range(draw.tape.between(1, 2))]
    places = []
    for size in sizes:
        kept = shape if draw.tape.chance(70) else kernel.shape(outer[:1])
        place = place_on_axis(draw, kept, size, kernel.integer())
        if place is not None:
            places.append((size, place))
    if not places:
        return draw.reduce(draw.load(shape, kernel.number()), inner)
    # The kernel's own axes: all of them, or 1 where the table does not vary.
    own = tuple(size if draw.tape.chance(40) else 1 for size in shape)
    table = (*own, *(size for size, _ in places))
    tracker = shaped(table)
    if draw.tape.chance(40):
        tracker = tracker.flip((draw.tape.below(len(table)),))
    if draw.tape.chance(30):
        tracker = _padded_last(tracker)
    dtype = kernel.dtype()
    buffer = kernel.buffer(dtype, max(1, tracker.real_size()), kernel.content_range(dtype))
    address = build.view(buffer, tracker, *(place.node for _, place in places))
    found = kernel.value_of_load(address, shape, True)
    return draw.reduce(draw.grow(found), inner)


def _padded_last(tracker: ShapeTracker) -> ShapeTracker:
    return tracker.pad((*((0, 0) for _ in tracker.shape[:-1]), (1, 1)))


# --- reduces that choose --------------------------------------------------------------------------


def choose_by_count(draw: Expressions) -> Value:
    """A reduce over i of x[i] where i is a place that is loaded: one load at that place."""
    if draw.tape.chance(IN_PADDING):
        return _choose_in_padding(draw)
    if draw.tape.chance(COUNTED):
        return _choose_by_counter(draw)
    kernel = draw.kernel
    outer = kernel.add_outer(0, 2)
    (axis,) = kernel.add_inner(max(1, kernel.extent()))
    dtype = kernel.integer()
    shape = kernel.shape((*outer, axis))
    # A place for each position chooses several of them, or none.
    own = draw.tape.chance(OWN_PLACES)
    places = shape if own else kernel.shape(outer)
    place = place_on_axis(draw, places, most(kernel.space[axis]), dtype)
    numbers = build.iota(_along(shape, axis))
    table = draw.load(shape, kernel.number())
    if place is None:
        return draw.reduce(table, (axis,))
    here = build.equal(build.cast(numbers, dtype), place.node)
    return _reduce_chosen(draw, here, table, (axis,), (axis,) if own else ())


def _along(shape: Shape, axis: int) -> ShapeTracker:
    ones = tuple(size if other == axis else 1 for other, size in enumerate(shape))
    return shaped(ones).expand(shape)


def _choose_in_padding(draw: Expressions) -> Value:
    """The same where the count is padded: what is chosen is padded alike, or by fewer rows.

    In a row of padding every number is 0, so that a place of 0 takes all that is not padded there.
    """
    kernel = draw.kernel
    (row,) = kernel.add_axes([draw.tape.pick((4, 3, 5, 6))], outer=True)
    (axis,) = kernel.add_axes([max(1, kernel.extent())], outer=False)
    shape = kernel.shape((row, axis))
    dtype = kernel.integer()
    around = (1, 1) if most(shape[row]) > 2 else (0, 0)
    others = ((1, 1), (1, 0), (0, 1), (0, 0)) if around[0] else ((0, 0),)
    edges = draw.tape.pick(others, (3, 2, 2, 1)[: len(others)])
    numbers = build.iota(_padded_rows(shape, row, around, (axis,)))
    tracker = _padded_rows(shape, row, edges, (row,))
    places = kernel.buffer(dtype, max(1, tracker.real_size()), (0, most(shape[axis])))
    place = kernel.value_of_load(build.view(places, tracker), shape, True)
    axes = draw.tape.pick(((axis,), (row, axis)))
    table = kernel.load_through(_padded_rows(shape, row, edges, axes), kernel.number())
    here = build.equal(build.cast(numbers, dtype), place.node)
    return _reduce_chosen(draw, here, table, (axis,))


def _padded_rows(
    shape: Shape, row: int, edges: tuple[int, int], axes: tuple[int, ...]
) -> ShapeTracker:
    """A view that varies along `axes`, with so many rows of nothing before and after the others."""
    fewer = tuple(
        most(size) - sum(edges) if axis == row else size for axis, size in enumerate(shape)
    )
    ones = tuple(size if axis in axes else 1 for axis, size in enumerate(fewer))
    pads = tuple(edges if axis == row else (0, 0) for axis in range(len(shape)))
    return shaped(ones).expand(fewer).pad(pads)


def _choose_by_counter(draw: Expressions) -> Value:
    """A choice by c - i, i + t, -i and the like, along an axis or two, perhaps beside another one.

    c is a constant, t a load that does not change along the axis.
    """
    kernel, tape = draw.kernel, draw.tape
    # Of many places some are on the axis and some beside it.
    outer = kernel.add_axes([tape.pick(ROWS)], outer=True)
    outer += kernel.add_axes([tape.pick((2, 3))], outer=True) if tape.chance(25) else ()
    chosen = kernel.add_inner(*(max(2, kernel.extent()) for _ in range(tape.pick((1, 2), (3, 1)))))
    beside = kernel.add_inner(max(2, kernel.extent((2, 3, 4)))) if tape.chance(30) else ()
    whole = kernel.shape((*outer, *chosen, *beside))
    here: UOp | None = None
    own = tape.chance(OWN_PLACES)
    following = tape.pick(chosen) if len(chosen) > 1 and tape.chance(FOLLOW) else None
    for axis in chosen:
        along = outer
        if own:
            along = (*outer, *chosen)
        elif axis == following:
            along = (*outer, *(each for each in chosen if each != axis))
        is_there = _is_counted_place(draw, whole, axis, along)
        here = is_there if here is None else build.both(here, is_there)
    assert here is not None, "an axis is chosen along"
    # What is chosen may vary along fewer axes than the numbers do.
    axes = whole if tape.chance(70) else kernel.shape(chosen)
    table = kernel.load(axes, kernel.number())
    condition = draw.condition(whole) if tape.chance(25) else None
    if condition is not None:
        here = build.both(*tape.pick(((here, condition.node), (condition.node, here))))
    several = (*chosen, *beside) if own else beside
    return _reduce_chosen(draw, here, replace(table, shape=whole), (*chosen, *beside), several)


def _is_counted_place(draw: Expressions, whole: Shape, axis: int, outer: tuple[int, ...]) -> UOp:
    """Whether a counter along the axis, after some steps, is a place that is loaded."""
    kernel, tape = draw.kernel, draw.tape
    dtype = kernel.integer()
    numbers, last = _numbers(draw, whole, axis)
    kept = tuple(each for each in outer if tape.chance(EACH))
    # Where places differ along the axis, what is added to the counter may as well.
    varies = axis in kept and tape.below(2)
    added = kept if varies else tuple(each for each in kept if each != axis)
    counted, low, high = _after_steps(draw, numbers, last, dtype, kernel.shape(added))
    least, largest = (int(end) for end in full_range(dtype))
    span = max(low - 1, least), min(high + 1, largest)
    if span[0] > span[1]:
        # Of an unsigned type all that is counted has wrapped.
        span = least, largest
    tracker = shaped(kernel.shape(kept))
    place = kernel.load_through(
        tracker, dtype, kernel.buffer(dtype, max(1, tracker.real_size()), span)
    )
    sides = (counted, place.node) if tape.below(2) else (place.node, counted)
    return build.equal(*sides)


def _numbers(draw: Expressions, whole: Shape, axis: int) -> tuple[UOp, int]:
    """Numbers along an axis, each another one, and the largest of them."""
    size = most(whole[axis])
    way = draw.tape.pick(*COUNTS)
    others = [each for each, extent in enumerate(whole) if each != axis and most(extent) > 1]
    if way == "backward":
        return build.iota(_along(whole, axis).flip((axis,))), size - 1
    if way == "by two":
        pairs = shaped((size, 2)).shrink(((0, size), (0, 1))).reshape((size,))
        ones = tuple(size if other == axis else 1 for other in range(len(whole)))
        return build.iota(pairs.reshape(ones).expand(whole)), 2 * size - 2
    if way == "along both" and others:
        both = draw.kernel.shape((axis, others[0]))
        return build.iota(shaped(both).expand(whole)), size * most(whole[others[0]]) - 1
    return build.iota(_along(whole, axis)), size - 1


def _after_steps(
    draw: Expressions, node: UOp, high: int, dtype: DType, shape: Shape
) -> tuple[UOp, int, int]:
    """A counter from 0 to `high` as `dtype`, negated, or with numbers added or subtracted."""
    tape, low = draw.tape, 0
    times = tape.pick(*TIMES)
    at = tape.below(times + 1)
    for step in range(times + 1):
        if step == at:
            node = build.cast(node, dtype)
        if step == times:
            break
        op = tape.pick(STEPS)
        if op is Ops.NEG:
            node, low, high = build.unary(Ops.NEG, node), -high, -low
            continue
        other, least, largest = _offset(draw, node.dtype, max(abs(low), abs(high)), shape)
        if op is Ops.ADD:
            sides = (node, other) if tape.below(2) else (other, node)
            node, low, high = build.binary(op, *sides), low + least, high + largest
        elif tape.chance(65):
            node, low, high = build.binary(op, other, node), least - high, largest - low
        else:
            node, low, high = build.binary(op, node, other), low - largest, high - least
    return node, low, high


def _offset(draw: Expressions, dtype: DType, reach: int, shape: Shape) -> tuple[UOp, int, int]:
    """A constant, or a load that does not change along the axes of a reduce, and its range."""
    kernel = draw.kernel
    if draw.tape.chance(50) or dtype not in kernel.dtypes:
        # Numbers without a sign do not wrap where they are subtracted from this.
        least = reach if dtype.is_unsigned else -1
        number = min(draw.tape.between(least, reach + 1), int(dtype.maximum))
        return build.const(dtype, number), number, number
    tracker = shaped(shape)
    buffer = kernel.buffer(dtype, max(1, tracker.real_size()), (0, LARGEST_OFFSET))
    return kernel.load_through(tracker, dtype, buffer).node, 0, LARGEST_OFFSET


def _reduce_chosen(
    draw: Expressions, here: UOp, table: Value, axes: tuple[int, ...], beside: tuple[int, ...] = ()
) -> Value:
    """The reduce of `table` along `axes` over where `here` holds; nothing counts elsewhere.

    It holds once at most, but for each position along those `beside` the others.
    """
    kernel = draw.kernel
    times = positions([table.shape[axis] for axis in beside])
    if table.dtype.is_float and table.bound * times > float_limit(kernel.mode, table.dtype):
        alone = tuple(axis for axis in axes if axis not in beside)
        return draw.reduce(_reduce_chosen(draw, here, table, alone), beside)
    op, idle = _idle(draw, table.dtype)
    chosen = _where_here(draw, here, table, op, idle)
    goes_on = table.dtype.is_int and draw.tape.chance(GOES_ON)
    if chosen is not None and goes_on:
        chosen = _with_another(draw, chosen)
    # One term alone is not idle, so that even long sums of floats are as large as it.
    node = build.reduce(op, (chosen or table).node, axes)
    kernel.reduces += 1
    over = tuple(1 if each in axes else size for each, size in enumerate(table.shape))
    if kernel.mode is Mode.EDGE and table.dtype.is_float:
        return Value(node, over, table.low, table.high, table.bound, True)
    low, high = min(idle, table.low * times), max(idle, table.high * times)
    if chosen is None or goes_on or (op is Ops.MUL and beside):
        low, high = full_range(table.dtype)
    is_rough = table.is_rough or (table.dtype.is_float and kernel.mode is Mode.FLOAT and times > 1)
    return Value(node, over, low, high, max(abs(low), abs(high)), is_rough)


def _where_here(draw: Expressions, here: UOp, table: Value, op: Ops, idle: int) -> Value | None:
    """`table` where `here` holds, elsewhere what changes nothing: by a choice or a product."""
    dtype = table.dtype
    way = draw.tape.pick(("choice", "other way", "product"), (5, 3, 3))
    if way == "product" and dtype.is_int and not idle:
        node = build.mul(table.node, build.cast(here, dtype))
        return Value(node, table.shape, min(0, table.low), max(0, table.high), table.bound)
    zero = build.const(dtype, float(idle) if dtype.is_float else idle)
    pair = (table, Value(zero, table.shape, idle, idle, abs(idle)))
    if way == "other way":
        return choose(
            draw, Value(build.not_equal(here, True), table.shape, 0, 1, 1), *reversed(pair)
        )
    return choose(draw, Value(here, table.shape, 0, 1, 1), *pair)


def _with_another(draw: Expressions, chosen: Value) -> Value:
    """What is chosen, in one more operation: what changes nothing before it may do so after it."""
    other = draw.kernel.load(chosen.shape, chosen.dtype)
    sides = (chosen.node, other.node) if draw.tape.below(2) else (other.node, chosen.node)
    node = build.binary(draw.tape.pick((Ops.MUL, Ops.AND, Ops.OR, Ops.ADD, Ops.MAX)), *sides)
    return replace(chosen, node=node)


def _idle(draw: Expressions, dtype: DType) -> tuple[Ops, int]:
    """What is reduced by, and the value that changes nothing in it."""
    ops = (Ops.ADD, Ops.MAX, Ops.MUL) if dtype.is_int else (Ops.ADD,)
    op = draw.tape.pick(ops, (3, 4, 2)[: len(ops)])
    return op, {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: int(dtype.minimum) if dtype.is_int else 0}[op]
