"""Forms of kernels: each has a builder that returns the value to store.

Each form exercises a stage of the compiler: tiles and their padding, grouped reduces inside loops,
folds over positions, and division and remainder of positions.
"""

from __future__ import annotations

from collections.abc import Callable

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.generate.arithmetic import choose, convert, product
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.gathers import choose_by_count, gather
from tinyref_fuzz.generate.values import DrawnValue, Shape, most

Form = Callable[[Expressions], DrawnValue]
shaped = ShapeTracker.from_shape

# Numbers of terms of the reduces that groups of work-items share.
LONG = (64, 128, 96, 256, 100, 512, 127, 192, 65, 33, 129, 255, 257, 513, 1024)
# Percentage of reduces with one such axis and few others.
LONG_SHARE = 30
# Multiples of the sides of matrix tiles, and nearby sizes.
TILE_SIDES = (16, 8, 32, 16, 8, 7, 9, 15, 17, 12, 24, 20, 5)
# Sizes of the reduced axis: mostly several tiles, which are summed.
TILE_DEPTHS = (*TILE_SIDES, 32, 32, 32, 32, 32, 24, 48, 48, 64, 64, 64)
# Axes of a launch that do not merge or do not fit, and totals without small divisors.
MANY = (2, 3, 4, 1, 5)
LARGE = (143, 64, 100, 41, 61, 77, 121, 200, 31, 33, 127, 192, 256, 257, 512, 513, 1024)
# Sizes of rows that consist of whole texels.
TEXELS = (8, 4, 12, 16, 20)
# Types of the operands and of the sum of a matrix product, and their weights. No tile accepts the
# last ones.
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


def tree(draw: Expressions) -> DrawnValue:
    """Draw operations over loads."""
    axes = draw.kernel.add_outer(0, 4)
    draw.kernel.make_symbolic()
    return draw.tree(axes, draw.kernel.dtype())


def reduce(draw: Expressions) -> DrawnValue:
    """Draw a reduce over one or more axes, among or around the axes of the output."""
    kernel = draw.kernel
    is_long = draw.tape.chance(LONG_SHARE)
    count = draw.tape.between(0 if is_long else 1, 2 if is_long else 4)
    long_axis = draw.tape.below(count + 1) if is_long else -1
    inner: list[int] = []
    for number in range(count + is_long):
        if number == long_axis:
            inner += kernel.add_inner(draw.tape.pick(LONG))
        elif draw.tape.chance(50):
            inner += kernel.add_inner(kernel.extent())
        else:
            kernel.add_axes([kernel.extent()], outer=True)
    inner = inner or list(kernel.add_inner(kernel.extent()))
    kernel.make_symbolic()
    dtype = kernel.number() if draw.tape.chance(90) else kernel.dtype()
    return draw.reduce(draw.tree((*kernel.outer, *inner), dtype), inner)


def matmul(draw: Expressions) -> DrawnValue:
    """Draw a matrix product: one matrix is repeated along n, the other along m."""
    kernel = draw.kernel
    fitting = [types for types in TILE_TYPES if kernel.has(*types)] or [(kernel.number(),) * 2]
    source, result = draw.tape.pick(fitting, [TILE_TYPES.get(types, 1.0) for types in fitting])
    batch = [draw.tape.between(1, 3)] if draw.tape.chance(20) else []
    outer = kernel.add_axes(batch, outer=True)
    m, n = kernel.add_axes([draw.tape.pick(TILE_SIDES) for _ in range(2)], outer=True)
    (k,) = draw.kernel.add_inner(draw.tape.pick(TILE_DEPTHS))
    kernel.make_symbolic()
    factors = []
    # A factor whose load is 0 must not be 0 in such a product, so that no axis may be padded.
    is_moved = draw.tape.chance(15) and source not in dtypes.storage_only
    for axes in ((*outer, m, k), (*outer, n, k)):
        factor = kernel.load(kernel.shape(axes), source, 1)
        if is_moved:
            one = build.const(source, 1.0 if source.is_float else 1)
            shape = (1,) * len(factor.shape)
            factor = draw.apply(Ops.ADD, factor, DrawnValue(one, shape, 1, 1, 1)) or factor
        elif draw.tape.chance(20):
            factor = draw.grow(factor)
        factors.append(convert(draw, factor, result) or kernel.load(kernel.shape(axes), result))
    if draw.tape.chance(30):
        factors = factors[::-1]
    terms = product(draw, *factors)
    if terms is None:
        return draw.reduce(factors[0], (k,))
    return draw.reduce(terms, (k,), Ops.ADD)


def softmax(draw: Expressions) -> DrawnValue:
    """Combine x with its own maximum or sum over an axis: the axis is both reduced and kept."""
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


def _join(draw: Expressions, x: DrawnValue, y: DrawnValue) -> DrawnValue:
    """Join two values, converted to one type, by a difference, product, comparison or other op."""
    y = convert(draw, y, x.dtype) or x
    return draw.join(x, y)


def siblings(draw: Expressions) -> DrawnValue:
    """Draw two or three reduces of the same loads, over the same or different axes."""
    kernel = draw.kernel
    outer = draw.kernel.add_outer(0, 2)
    inner = draw.kernel.add_inner(*(kernel.extent() for _ in range(draw.tape.between(1, 2))))
    kernel.make_symbolic()
    dtype = kernel.number()
    joined = None
    for _ in range(draw.tape.between(2, 3)):
        over = inner if draw.tape.chance(70) else inner[-1:]
        reused = kernel.existing_load(kernel.shape((*outer, *over)), dtype)
        x = reused if reused and draw.tape.below(2) else draw.tree((*outer, *over), dtype, 1)
        part = draw.reduce(x, over)
        joined = part if joined is None else _join(draw, joined, part)
    assert joined is not None, "there are at least two reduces"
    return joined


def nested_reduces(draw: Expressions) -> DrawnValue:
    """Draw a reduce of a value with a reduce in it, perhaps of both axes of the same loads."""
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


def running(draw: Expressions) -> DrawnValue:
    """Draw a sum or maximum over all positions before each one: a mask below the diagonal."""
    kernel = draw.kernel
    size = max(2, kernel.extent())
    outer = draw.kernel.add_outer(0, 1)
    (row,) = kernel.add_axes([size], outer=True)
    (column,) = draw.kernel.add_inner(size)
    if kernel.space[column] != kernel.space[row]:
        return draw.reduce(draw.tree((*outer, row, column), kernel.number(), 1), (column,))
    triangle = _triangle(size).reshape((*(1 for _ in outer), size, size))
    shape = kernel.shape((*outer, row, column))
    below = DrawnValue(build.valid(triangle), triangle.shape, 0, 1, 1)
    dtype = kernel.number()
    if draw.tape.below(3) == 0:
        count = convert(draw, below, dtype)
        return draw.reduce(count or below, (column,))
    x = draw.load(kernel.shape((*outer, column)), dtype)
    chosen = choose(draw, below, x, draw.constant(dtype))
    return draw.reduce(chosen or draw.load(shape, dtype), (column,))


def _triangle(size: int) -> ShapeTracker:
    """Return a square view that is valid where column < row: rows read at a period less by one."""
    period = 2 * size - 1
    row = shaped((1,)).expand((size - 1,)).pad(((size, 0),))
    rows = row.reshape((1, period)).expand((size, period)).reshape((size * period,))
    moved = rows.shrink(((0, size * (period - 1)),)).reshape((size, period - 1))
    return moved.shrink(((0, size), (0, size)))


# --- windows --------------------------------------------------------------------------------------


def convolution(draw: Expressions) -> DrawnValue:
    """Draw a convolution: overlapping windows times the same taps everywhere."""
    kernel = draw.kernel
    windows, taps, step = (
        draw.tape.pick((8, 5, 12, 16)),
        draw.tape.between(2, 5),
        draw.tape.between(1, 2),
    )
    outer = draw.kernel.add_outer(0, 1)
    (window,) = kernel.add_axes([windows], outer=True)
    (tap,) = draw.kernel.add_inner(taps)
    shape = kernel.shape((window, tap))
    windows, taps = most(kernel.space[window]), most(kernel.space[tap])
    dtype = kernel.number()
    strides = _strides(shape, {window: step, tap: 1})
    tracker = ShapeTracker((View(shape, strides),))
    if draw.tape.chance(40):
        flat = windows * step + taps
        tracker = ShapeTracker((View((flat,), (1,)).pad(((1, 1),)), View(shape, strides)))
    x = kernel.load_through(tracker, dtype)
    weights = kernel.load(kernel.shape((*outer, tap)), dtype, 1)
    return draw.reduce(product(draw, x, weights) or x, (tap,), Ops.ADD)


def _strides(shape: Shape, by_axis: dict[int, int]) -> tuple[int, ...]:
    """Return the strides of a view whose other axes repeat."""
    return tuple(by_axis.get(axis, 0) for axis in range(len(shape)))


# --- axes that matter more than values ------------------------------------------------------------


def launch(draw: Expressions) -> DrawnValue:
    """Draw many axes that do not merge, or a few large ones: each position is written once."""
    kernel = draw.kernel
    if draw.tape.below(2):
        axes = kernel.add_axes(
            [draw.tape.pick(MANY) for _ in range(draw.tape.between(4, 6))], outer=True
        )
    else:
        large = draw.tape.pick(LARGE)
        others = [draw.tape.pick(MANY) for _ in range(draw.tape.below(3))]
        axes = kernel.add_axes([large, *others], outer=True)
    kernel.make_symbolic()
    shape = kernel.shape(axes)
    # Elements and positions are in different orders, so that no axes merge.
    order = tuple(reversed(range(len(shape))))
    backward = shaped(tuple(shape[axis] for axis in order)).permute(order)
    x = kernel.load_through(backward, kernel.number())
    return draw.join(x, kernel.load(shape, x.dtype, 1))


def texels(draw: Expressions) -> DrawnValue:
    """Draw rows of whole texels: a device with images reads four elements at a time."""
    kernel = draw.kernel
    types = [dtype for dtype in (dtypes.float32, dtypes.float16) if kernel.has(dtype)]
    dtype = draw.tape.pick(types) if types else kernel.number()
    row, column = kernel.add_axes([draw.tape.pick(MANY), draw.tape.pick(TEXELS)], outer=True)
    shape = kernel.shape((row, column))
    x = _texels(draw, shape, dtype)
    if draw.tape.chance(40):
        x = draw.apply(Ops.MUL, x, _texels(draw, shape, dtype)) or x
    if draw.tape.chance(40):
        x = draw.reduce(x, (draw.tape.pick((row, column)),), Ops.ADD)
    return x


def _texels(draw: Expressions, shape: Shape, dtype: DType) -> DrawnValue:
    """Load rows as they are, reversed, transposed or with masked texels; as float32 if possible."""
    backward = tuple(reversed(shape))
    plain = shaped(shape)
    fewer = tuple(size - 4 if size == max(map(most, shape)) else size for size in map(most, shape))
    edges = tuple(
        (0, 4) if size < most(n) else (0, 0) for size, n in zip(fewer, shape, strict=True)
    )
    trackers = (
        plain,
        plain.flip((0,)),
        shaped(backward).permute(tuple(reversed(range(len(shape))))),
        shaped(fewer).pad(edges),
    )
    value = draw.kernel.load_through(draw.tape.pick(trackers, (4, 2, 2, 2)), dtype)
    wide = convert(draw, value, dtypes.float32) if draw.kernel.has(dtypes.float32) else None
    return wide or value


BUILDERS: dict[str, Form] = {
    "tree": tree,
    "reduce": reduce,
    "matmul": matmul,
    "softmax": softmax,
    "siblings": siblings,
    "nested": nested_reduces,
    "gather": gather,
    "choose": choose_by_count,
    "running": running,
    "convolution": convolution,
    "launch": launch,
    "texels": texels,
}
