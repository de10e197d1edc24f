"""Positions that are values: loads at computed places, and reduces that choose one of their terms.

A sum over i of x[i] where i == k is x[k].
"""

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

# Percent of the choices along two axes, and of the choices with one more operation on each term.
TWO_AXES = 25
GROWN = 20


def place_on_axis(draw: Expressions, shape: Shape, size: int, dtype: DType) -> DrawnValue | None:
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


def gather(draw: Expressions) -> DrawnValue:
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
        tracker = tracker.pad((*((0, 0) for _ in table[:-1]), (1, 1)))
    dtype = kernel.dtype()
    buffer = kernel.buffer(dtype, max(1, tracker.real_size()), kernel.content_range(dtype))
    address = build.view(buffer, tracker, *(place.node for _, place in places))
    found = kernel.value_of_load(address, shape, True)
    return draw.reduce(draw.grow(found), inner)


# --- reduces that choose --------------------------------------------------------------------------


def choose_by_count(draw: Expressions) -> DrawnValue:
    """Reduce over i the terms x[i] where i is a place that is loaded: one load at that place."""
    kernel = draw.kernel
    outer = kernel.add_outer(0, 2)
    count = 2 if draw.tape.chance(TWO_AXES) else 1
    inner = kernel.add_inner(*(max(1, kernel.extent()) for _ in range(count)))
    shape = kernel.shape((*outer, *inner))
    table = draw.load(shape, kernel.number())
    if draw.tape.chance(GROWN):
        table = draw.grow(table)
    here: UOp | None = None
    for axis in inner:
        is_here = _is_place(draw, shape, axis, kernel.shape(outer))
        if is_here is not None:
            here = is_here if here is None else build.both(here, is_here)
    if here is None:
        return draw.reduce(table, inner)
    zero = draw.zero(table.dtype)
    chosen = choose(draw, DrawnValue(here, shape, 0, 1, 1), table, zero)
    return draw.reduce(chosen or table, inner, Ops.ADD)


def _is_place(draw: Expressions, shape: Shape, axis: int, places: Shape) -> UOp | None:
    """Compare a counter along an axis, perhaps from an offset on, with a place that is loaded."""
    tape, dtype = draw.tape, draw.kernel.integer()
    place = place_on_axis(draw, places, most(draw.kernel.space[axis]), dtype)
    if place is None:
        return None
    ones = tuple(size if other == axis else 1 for other, size in enumerate(shape))
    tracker = shaped(ones).expand(shape)
    numbers = build.cast(
        build.iota(tracker.flip((axis,)) if tape.below(3) == 2 else tracker), dtype
    )
    if tape.below(2):
        numbers = build.add(numbers, tape.below(3))
    sides = (numbers, place.node) if tape.below(2) else (place.node, numbers)
    return build.equal(*sides)
