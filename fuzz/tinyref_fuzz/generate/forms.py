"""What kernels are built around: for each of `FORMS` a builder that gives the value to store.

Each form is there for what a stage of the compiler must get right: tiles and their padding,
grouped reduces inside of loops, folds over positions, division and remainder of positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.generate.arithmetic import choose, convert, product
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.gathers import choose_by_count, gather
from tinyref_fuzz.generate.structures import copies, empty, exchange, launch, texels
from tinyref_fuzz.generate.values import Shape, Value, most, value_in_range
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


def tree(draw: Expressions) -> Value:
    """Operations over loads."""
    axes = draw.kernel.add_outer(0, 4)
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
        inner = list(draw.kernel.add_inner(kernel.extent()))
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
        inner = draw.kernel.add_inner(length)
        kernel.add_axes(sizes, outer=True)
    else:
        kernel.add_axes(sizes, outer=True)
        inner = draw.kernel.add_inner(length)
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
    (k,) = draw.kernel.add_inner(draw.tape.pick(TILE_DEPTHS))
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
    axes = draw.kernel.add_outer(1, 3)
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
    outer = draw.kernel.add_outer(0, 2)
    inner = draw.kernel.add_inner(*(kernel.extent() for _ in range(draw.tape.between(1, 2))))
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
    outer = draw.kernel.add_outer(0, 2)
    first, second = draw.kernel.add_inner(kernel.extent(), kernel.extent((2, 3, 4, 8, 5, 16, 32)))
    kernel.make_symbolic()
    dtype = kernel.number()
    x = draw.tree((*outer, first, second), dtype, 1)
    x = draw.reduce(x, (second,))
    if draw.tape.chance(70):
        axes = (*outer, first) if draw.tape.chance(70) else (*outer, first, second)
        x = _join(draw, x, draw.load(kernel.shape(axes), x.dtype))
    return draw.reduce(x, (first, second))


def running(draw: Expressions) -> Value:
    """A sum or maximum over what lies before each position: a mask below the diagonal."""
    kernel = draw.kernel
    size = max(2, kernel.extent())
    outer = draw.kernel.add_outer(0, 1)
    (row,) = kernel.add_axes([size], outer=True)
    (column,) = draw.kernel.add_inner(size)
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
    axes = draw.kernel.add_outer(1, 4)
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
    axes = draw.kernel.add_outer(1, 3)
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
    outer = draw.kernel.add_outer(0, 1)
    (place,) = kernel.add_axes([places], outer=True)
    (tap,) = draw.kernel.add_inner(taps)
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
    (tap,) = draw.kernel.add_inner(draw.tape.between(1, 3))
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


def random(draw: Expressions) -> Value:
    """Random bits of a counter and a key, or 64-bit arithmetic where there are no such bits."""
    kernel = draw.kernel
    axes = draw.kernel.add_outer(1, 3)
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
    "random": random,
    "empty": empty,
    "copies": copies,
    "launch": launch,
    "texels": texels,
    "exchange": exchange,
}
