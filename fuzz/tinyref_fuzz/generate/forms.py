"""What kernels are built around: for each of `FORMS` a builder that gives the value to store.

Each form is there for what a stage of the compiler must get right: tiles and their padding,
grouped reduces inside of loops, folds over positions, division and remainder of positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tinyref.dtype import DType, dtypes, sum_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.generate.arithmetic import choose, convert, product
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.structures import exchange, launch, loop_nest, texels
from tinyref_fuzz.generate.values import Shape, Value, full_range, most, value_in_range
from tinyref_spec.kernel_case import Mode

Form = Callable[[Expressions], Value]
shaped = ShapeTracker.from_shape

LONG = (64, 128, 96, 256, 100, 512, 127, 192, 65)
SHORT = (2, 3, 4, 5, 1, 8)
# Multiples of the sides of matrix tiles, and sizes next to them.
TILE_SIDES = (16, 8, 32, 16, 8, 7, 9, 15, 17, 12, 24, 20, 5)
# Of the sum mostly several tiles, one on top of the other.
TILE_DEPTHS = (*TILE_SIDES, 32, 32, 32, 32, 32, 24, 48, 48, 64, 64, 64)
# So many convolutions in 100 are transposed ones.
RESIDUES = 25
# So many choices by a count in 100 are in rows of which some are padding.
IN_PADDING = 30
# What a tile takes and gives, the type of the operands and of the sum, and how often it is drawn;
# the last ones no tile takes.
TILE_TYPES = {
    (dtypes.float32, dtypes.float32): 3.0,
    (dtypes.float16, dtypes.float32): 4.0,
    (dtypes.int8, dtypes.int32): 3.0,
    (dtypes.bfloat16, dtypes.float32): 3.0,
    (dtypes.float16, dtypes.float16): 2.0,
    (dtypes.float64, dtypes.float64): 1.0,
    (dtypes.int32, dtypes.int32): 1.0,
    (dtypes.uint8, dtypes.int32): 0.5,
    (dtypes.int64, dtypes.int64): 0.5,
    (dtypes.fp8e4m3, dtypes.float32): 0.5,
}


def _outer(draw: Expressions, least: int, most: int) -> tuple[int, ...]:
    """Axes of the outputs."""
    count = draw.tape.between(least, most)
    return draw.kernel.add_axes([draw.kernel.extent() for _ in range(count)], outer=True)


def _inner(draw: Expressions, *sizes: int) -> tuple[int, ...]:
    """Axes that only reduces go over."""
    return draw.kernel.add_axes(sizes, outer=False)


def tree(draw: Expressions) -> Value:
    """Operations over loads."""
    axes = _outer(draw, 0, 4)
    draw.kernel.make_symbolic()
    return draw.tree(axes, draw.kernel.dtype())


def reduce(draw: Expressions) -> Value:
    """A reduce over one axis or several, in the midst of or around the axes of the output."""
    kernel = draw.kernel
    count = draw.tape.between(1, 4)
    axes: list[int] = []
    for _ in range(count):
        is_inner = draw.tape.chance(50)
        axes += kernel.add_axes([kernel.extent()], outer=not is_inner)
    inner = [axis for axis in axes if axis not in kernel.outer]
    if not inner:
        inner = list(_inner(draw, kernel.extent()))
    kernel.make_symbolic()
    x = draw.tree(
        (*kernel.outer, *inner), kernel.number() if draw.tape.chance(90) else kernel.dtype()
    )
    return draw.reduce(x, inner)


def long(draw: Expressions) -> Value:
    """A long reduce with few outputs: one that groups of work-items share out."""
    kernel = draw.kernel
    length = draw.tape.pick(LONG)
    sizes = [draw.tape.pick(SHORT) for _ in range(draw.tape.below(3))]
    if draw.tape.below(2):
        inner = _inner(draw, length)
        kernel.add_axes(sizes, outer=True)
    else:
        kernel.add_axes(sizes, outer=True)
        inner = _inner(draw, length)
    kernel.make_symbolic()
    x = draw.tree((*kernel.outer, *inner), kernel.number(), min(1, draw.policy.depth))
    return draw.reduce(x, inner)


def matmul(draw: Expressions) -> Value:
    """A sum of products of a matrix that n repeats and one that m repeats."""
    kernel = draw.kernel
    fitting = [types for types in TILE_TYPES if kernel.has(*types)] or [(kernel.number(),) * 2]
    source, result = draw.tape.pick(fitting, [TILE_TYPES.get(types, 1.0) for types in fitting])
    batch = [draw.tape.between(1, 3)] if draw.tape.chance(20) else []
    outer = kernel.add_axes(batch, outer=True)
    m, n = kernel.add_axes([draw.tape.pick(TILE_SIDES) for _ in range(2)], outer=True)
    (k,) = _inner(draw, draw.tape.pick(TILE_DEPTHS))
    kernel.make_symbolic()
    factors = []
    # Of such a product no factor is 0 where its load is, so that nothing may be padded.
    is_moved = draw.tape.chance(15) and source not in dtypes.storage_only
    for axes in ((*outer, m, k), (*outer, n, k)):
        factor = kernel.load(kernel.shape(axes), source, 1)
        if is_moved:
            one = build.const(source, 1.0 if source.is_float else 1)
            shape = (1,) * len(factor.shape)
            factor = draw.apply(Ops.ADD, factor, Value(one, shape, 1, 1, 1)) or factor
        elif draw.tape.chance(20):
            factor = draw.grow(factor)
        factors.append(convert(draw, factor, result) or kernel.load(kernel.shape(axes), result))
    if draw.tape.chance(30):
        factors = factors[::-1]
    terms = product(draw, *factors)
    if terms is None:
        return draw.reduce(factors[0], (k,))
    return draw.reduce(terms, (k,), Ops.ADD)


def softmax(draw: Expressions) -> Value:
    """x with its own maximum or sum over an axis: the same axis is reduced and kept."""
    kernel = draw.kernel
    axes = _outer(draw, 1, 3)
    kernel.make_symbolic()
    over = [draw.tape.pick(axes)]
    x = draw.tree(axes, kernel.number(), min(1, draw.policy.depth))
    largest = draw.reduce(x, over, draw.tape.pick((Ops.MAX, Ops.ADD)))
    shifted = _join(draw, x, largest)
    if draw.tape.chance(50):
        total = draw.reduce(shifted, over)
        if draw.tape.below(2):
            return total
        shifted = _join(draw, shifted, total)
    return shifted


def _join(draw: Expressions, x: Value, y: Value) -> Value:
    """A difference, product, comparison or other of two values, in a type that both fit."""
    y = convert(draw, y, x.dtype) or x
    return draw.join(x, y)


def siblings(draw: Expressions) -> Value:
    """Two or three reduces side by side, over the same axis or others, of the same loads."""
    kernel = draw.kernel
    outer = _outer(draw, 0, 2)
    inner = _inner(draw, *(kernel.extent() for _ in range(draw.tape.between(1, 2))))
    kernel.make_symbolic()
    dtype = kernel.number()
    found = None
    for _ in range(draw.tape.between(2, 3)):
        over = inner if draw.tape.chance(70) else inner[-1:]
        reused = kernel.existing_load(kernel.shape((*outer, *over)), dtype)
        x = reused if reused and draw.tape.below(2) else draw.tree((*outer, *over), dtype, 1)
        part = draw.reduce(x, over)
        found = part if found is None else _join(draw, found, part)
    assert found is not None, "there are two at least"
    return found


def nested_reduces(draw: Expressions) -> Value:
    """A reduce of what has a reduce in it, perhaps of both axes of the same loads."""
    kernel = draw.kernel
    outer = _outer(draw, 0, 2)
    first, second = _inner(draw, kernel.extent(), kernel.extent((2, 3, 4, 8, 5, 16, 32)))
    kernel.make_symbolic()
    dtype = kernel.number()
    x = draw.tree((*outer, first, second), dtype, 1)
    x = draw.reduce(x, (second,))
    if draw.tape.chance(70):
        axes = (*outer, first) if draw.tape.chance(70) else (*outer, first, second)
        x = _join(draw, x, draw.load(kernel.shape(axes), x.dtype))
    return draw.reduce(x, (first, second))


# --- positions that are values --------------------------------------------------------------------


def _place(draw: Expressions, shape: Shape, size: int, dtype: DType) -> Value | None:
    """Positions on an axis of `size`: most of them inside of it, some not."""
    x = draw.kernel.existing_load(shape, dtype) or draw.kernel.load(shape, dtype)
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


def choose_by_count(draw: Expressions) -> Value:
    """A sum over i of x[i] where i is a place that is loaded: one load at that place."""
    if draw.tape.chance(IN_PADDING):
        return _choose_in_padding(draw)
    kernel = draw.kernel
    outer = _outer(draw, 0, 2)
    size = max(1, kernel.extent())
    (axis,) = _inner(draw, size)
    there = kernel.space[axis]
    dtype = kernel.integer()
    shape = kernel.shape((*outer, axis))
    place = _place(draw, kernel.shape(outer), most(there), dtype)
    numbers = build.iota(_along(shape, axis))
    table = draw.load(shape, kernel.number())
    if place is None:
        return draw.reduce(table, (axis,))
    here = build.equal(build.cast(numbers, dtype), place.node)
    return _reduce_chosen(draw, here, table, axis)


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
    return _reduce_chosen(draw, build.equal(build.cast(numbers, dtype), place.node), table, axis)


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


def _reduce_chosen(draw: Expressions, here: UOp, table: Value, axis: int) -> Value:
    """The reduce of `table` along the axis over where `here` holds; nothing counts elsewhere."""
    kernel = draw.kernel
    op, idle = _idle(draw, table.dtype)
    zero = build.const(table.dtype, float(idle) if table.dtype.is_float else idle)
    chosen = choose(
        draw,
        Value(here, table.shape, 0, 1, 1),
        table,
        Value(zero, table.shape, idle, idle, abs(idle)),
    )
    # One term alone is not idle, so that even long sums of floats are as large as it.
    node = build.reduce(op, (chosen or table).node, (axis,))
    kernel.reduces += 1
    over = tuple(1 if each == axis else size for each, size in enumerate(table.shape))
    if kernel.mode is Mode.EDGE and table.dtype.is_float:
        return Value(node, over, table.low, table.high, table.bound, True)
    low, high = min(idle, table.low), max(idle, table.high)
    if chosen is None:
        low, high = full_range(table.dtype)
    return Value(node, over, low, high, max(abs(low), abs(high)), table.is_rough)


def _idle(draw: Expressions, dtype: DType) -> tuple[Ops, int]:
    """What is reduced by, and the value that changes nothing in it."""
    ops = (Ops.ADD, Ops.MAX, Ops.MUL) if dtype.is_int else (Ops.ADD,)
    op = draw.tape.pick(ops, (3, 4, 2)[: len(ops)])
    return op, {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: int(dtype.minimum) if dtype.is_int else 0}[op]


def _along(shape: Shape, axis: int) -> ShapeTracker:
    ones = tuple(size if other == axis else 1 for other, size in enumerate(shape))
    return shaped(ones).expand(shape)


def gather(draw: Expressions) -> Value:
    """A load at a place that is computed from another load; outside of the axis it is 0."""
    kernel = draw.kernel
    outer = _outer(draw, 1, 3)
    inner = _inner(draw, kernel.extent()) if draw.tape.chance(30) else ()
    shape = kernel.shape((*outer, *inner))
    sizes = [draw.tape.between(1, 9) for _ in range(draw.tape.between(1, 2))]
    places = []
    for size in sizes:
        kept = shape if draw.tape.chance(70) else kernel.shape(outer[:1])
        place = _place(draw, kept, size, kernel.integer())
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


def running(draw: Expressions) -> Value:
    """A sum or maximum over what lies before each position: a mask below the diagonal."""
    kernel = draw.kernel
    size = max(2, kernel.extent())
    outer = _outer(draw, 0, 1)
    (row,) = kernel.add_axes([size], outer=True)
    (column,) = _inner(draw, size)
    if kernel.space[column] != kernel.space[row]:
        return draw.reduce(draw.tree((*outer, row, column), kernel.number(), 1), (column,))
    triangle = _triangle(size).reshape((*(1 for _ in outer), size, size))
    shape = kernel.shape((*outer, row, column))
    below = Value(build.valid(triangle), triangle.shape, 0, 1, 1)
    dtype = kernel.number()
    if draw.tape.below(3) == 0:
        count = convert(draw, below, dtype)
        return draw.reduce(count or below, (column,))
    x = draw.load(kernel.shape((*outer, column)), dtype)
    chosen = choose(draw, below, x, draw.constant(dtype))
    return draw.reduce(chosen or draw.load(shape, dtype), (column,))


def _triangle(size: int) -> ShapeTracker:
    """A square view, valid at column < row: a row of both, read at a period of one less."""
    period = 2 * size - 1
    row = shaped((1,)).expand((size - 1,)).pad(((size, 0),))
    rows = row.reshape((1, period)).expand((size, period)).reshape((size * period,))
    moved = rows.shrink(((0, size * (period - 1)),)).reshape((size, period - 1))
    return moved.shrink(((0, size), (0, size)))


# --- movement -------------------------------------------------------------------------------------


def movement(draw: Expressions) -> Value:
    """Loads through several views: quotients and remainders of positions."""
    kernel = draw.kernel
    axes = _outer(draw, 1, 4)
    moves = max(3, draw.policy.moves)
    dtype = kernel.dtype()
    x = kernel.load(kernel.shape(axes), dtype, moves)
    if draw.tape.chance(60):
        x = draw.join(x, kernel.load(kernel.shape(axes), dtype, moves))
    if draw.tape.chance(30):
        x = draw.reduce(x, [draw.tape.pick(axes)])
    return x


def concatenate(draw: Expressions) -> Value:
    """Two or three buffers end to end: sums of loads that are masked, or choices by a mask."""
    kernel = draw.kernel
    axes = _outer(draw, 1, 3)
    shape = kernel.shape(axes)
    axis = draw.tape.pick(axes)
    size = kernel.space[axis]
    assert isinstance(size, int), "there is no variable yet"
    if size < 2:
        return draw.tree(axes, kernel.number())
    ends = sorted({0, size, draw.tape.below(size), draw.tape.below(size)})
    dtype = kernel.number()
    found = None
    for begin, end in itertools.pairwise(ends):
        part = tuple(end - begin if a == axis else n for a, n in enumerate(shape))
        edges = tuple((begin, size - end) if a == axis else (0, 0) for a in range(len(shape)))
        tracker = shaped(part).pad(edges)
        value = kernel.load_through(tracker, dtype)
        if found is None:
            found = value
        elif draw.tape.below(2):
            there = build.valid(tracker)
            found = choose(draw, Value(there, shape, 0, 1, 1), value, found) or found
        else:
            node = build.add(found.node, value.node)
            low, high = min(found.low, value.low), max(found.high, value.high)
            rough = kernel.mode is Mode.FLOAT and dtype.is_float
            bound = max(found.bound, value.bound)
            found = (
                value_in_range(kernel.mode, node, shape, low, high, bound=bound, is_rough=rough)
                or found
            )
    return found if found is not None else draw.tree(axes, dtype)


def convolution(draw: Expressions) -> Value:
    """Windows that overlap, times taps that are the same everywhere."""
    kernel = draw.kernel
    if draw.tape.chance(RESIDUES):
        return _residues(draw)
    places, taps, step = (
        draw.tape.pick((8, 5, 12, 16)),
        draw.tape.between(2, 5),
        draw.tape.between(1, 2),
    )
    outer = _outer(draw, 0, 1)
    (place,) = kernel.add_axes([places], outer=True)
    (tap,) = _inner(draw, taps)
    shape = kernel.shape((place, tap))
    places, taps = most(kernel.space[place]), most(kernel.space[tap])
    dtype = kernel.number()
    strides = _strides(shape, {place: step, tap: 1})
    windows = ShapeTracker((View(shape, strides),))
    if draw.tape.chance(40):
        flat = places * step + taps
        windows = ShapeTracker((View((flat,), (1,)).pad(((1, 1),)), View(shape, strides)))
    x = kernel.load_through(windows, dtype)
    weights = kernel.load(kernel.shape((*outer, tap)), dtype, 1)
    return draw.reduce(product(draw, x, weights) or x, (tap,), Ops.ADD)


def _residues(draw: Expressions) -> Value:
    """A transposed convolution with a stride: windows backward, taps by residues of the stride."""
    kernel = draw.kernel
    sizes = draw.tape.between(2, 3), draw.tape.pick((8, 5, 12, 16))
    residue, place = kernel.add_axes(sizes, outer=True)
    (tap,) = _inner(draw, draw.tape.between(1, 3))
    shape = kernel.shape((residue, place, tap))
    places, taps, stride = (most(shape[axis]) for axis in (place, tap, residue))
    row = View((places,), (1,)).pad(((taps - 1, 0),))
    backward = _strides(shape, {place: 1, tap: -1})
    dtype = kernel.number()
    x = kernel.load_through(ShapeTracker((row, View(shape, backward, taps - 1))), dtype)
    kernels = ShapeTracker((View(shape, _strides(shape, {residue: 1, tap: stride})),))
    weights = kernel.load_through(kernels, dtype)
    return draw.reduce(product(draw, x, weights) or x, (tap,), Ops.ADD)


def _strides(shape: Shape, by_axis: dict[int, int]) -> tuple[int, ...]:
    """Those of the axes that move; the others repeat."""
    return tuple(by_axis.get(axis, 0) for axis in range(len(shape)))


# --- others ---------------------------------------------------------------------------------------


def products(draw: Expressions) -> Value:
    """A product of many factors."""
    kernel = draw.kernel
    outer = _outer(draw, 0, 2)
    inner = _inner(draw, draw.tape.pick((3, 4, 8, 5, 9)))
    kernel.make_symbolic()
    x = draw.tree((*outer, *inner), kernel.number(), 1)
    return draw.reduce(x, inner, Ops.MUL)


def count(draw: Expressions) -> Value:
    """How many elements fulfil a condition, or whether any does."""
    kernel = draw.kernel
    outer = _outer(draw, 0, 2)
    inner = _inner(draw, *(kernel.extent() for _ in range(draw.tape.between(1, 2))))
    kernel.make_symbolic()
    shape = kernel.shape((*outer, *inner))
    found = draw.condition(shape) or kernel.load(shape, kernel.number())
    if draw.tape.chance(30):
        return draw.reduce(found, inner, Ops.MAX)
    dtype = kernel.number()
    return draw.reduce(convert(draw, found, sum_dtype(dtype)) or found, inner, Ops.ADD)


def random(draw: Expressions) -> Value:
    """Random bits of a counter and a key, or 64-bit arithmetic where there are no such bits."""
    kernel = draw.kernel
    axes = _outer(draw, 1, 3)
    if not kernel.has(dtypes.uint64):
        return draw.tree(axes, kernel.integer())
    shape = kernel.shape(axes)
    counter = draw.grow(kernel.leaf(shape, dtypes.uint64))
    key = kernel.load(shape, dtypes.uint64)
    node = build.binary(Ops.THREEFRY, counter.node, key.node)
    bits = Value(node, shape, 0, dtypes.uint64.maximum, dtypes.uint64.maximum, counter.is_rough)
    word = convert(draw, bits, kernel.integer()) or bits
    return draw.grow(word)


BUILDERS: dict[str, Form] = {
    "tree": tree,
    "reduce": reduce,
    "long": long,
    "matmul": matmul,
    "softmax": softmax,
    "siblings": siblings,
    "nested": nested_reduces,
    "gather": gather,
    "choose": choose_by_count,
    "running": running,
    "movement": movement,
    "concatenate": concatenate,
    "convolution": convolution,
    "product": products,
    "count": count,
    "random": random,
    "looped": loop_nest,
    "launch": launch,
    "texels": texels,
    "exchange": exchange,
}
