"""Kernels whose axes matter more than their values: launches, texels, copies, empty reduces."""

from __future__ import annotations

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.arithmetic import convert
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.values import Shape, Value, most

OUTER = (4, 5, 2, 3, 8, 6, 7)
INNER = (4, 6, 8, 12, 16, 5, 3, 7, 9)
# Of a launch: axes that do not merge or do not fit, and totals that no small number divides.
MANY = (2, 3, 4, 1, 5)
LARGE = (143, 64, 100, 41, 61, 77, 121, 200)
# Beside axes that are read in both directions, and these where they are no pairs.
VECTORS = (8, 4, 16, 6, 3)
MIRRORED = (4, 3, 2, 5)
# Of rows that whole texels make.
TEXELS = (8, 4, 12, 16, 20)


def launch(draw: Expressions) -> Value:
    """Many axes that do not merge, or a few that are large: every position is written once."""
    kernel = draw.kernel
    if draw.tape.below(2):
        axes = _axes(draw, draw.tape.between(4, 6), MANY, outer=True)
    else:
        axes = _axes(draw, 1, LARGE, outer=True) + _axes(draw, draw.tape.below(3), MANY, outer=True)
    kernel.make_symbolic()
    shape = kernel.shape(axes)
    # The order of the elements is another one than that of the positions, so nothing merges.
    order = tuple(reversed(range(len(shape))))
    backward = ShapeTracker.from_shape(tuple(shape[axis] for axis in order)).permute(order)
    x = kernel.load_through(backward, kernel.number())
    return draw.join(x, kernel.load(shape, x.dtype, 1))


def texels(draw: Expressions) -> Value:
    """Rows of whole texels: what a device with images reads four elements at a time."""
    kernel = draw.kernel
    types = [dtype for dtype in (dtypes.float32, dtypes.float16) if kernel.has(dtype)]
    dtype = draw.tape.pick(types) if types else kernel.number()
    (row,) = _axes(draw, 1, MANY, outer=True)
    (column,) = _axes(draw, 1, TEXELS, outer=True)
    shape = kernel.shape((row, column))
    x = _texels(draw, shape, dtype)
    if draw.tape.chance(40):
        x = draw.apply(Ops.MUL, x, _texels(draw, shape, dtype)) or x
    if draw.tape.chance(40):
        x = draw.reduce(x, (draw.tape.pick((row, column)),), Ops.ADD)
    return x


def exchange(draw: Expressions) -> Value:
    """Steps of a sorting network: on axes of two elements the smaller one goes first.

    So a buffer is read in both directions along them; or along one axis, which may be longer.
    """
    kernel = draw.kernel
    twos = draw.tape.between(1, 3)
    (beside,) = _axes(draw, 1, VECTORS, outer=True)
    short = (2,) if twos > 1 or draw.tape.below(2) else MIRRORED
    axes = tuple(_axes(draw, 1, short, outer=True)[0] for _ in range(twos))
    shape = kernel.shape((beside, *axes))
    plain = ShapeTracker.from_shape(shape)
    last_first = (len(shape) - 1, *range(len(shape) - 1))
    moved = ShapeTracker.from_shape((*shape[1:], shape[0])).permute(last_first)
    tracker = draw.tape.pick((plain, moved))
    x = kernel.load_through(tracker, kernel.number())
    if any(size != 2 for size in (shape[axis] for axis in axes)):
        backward = build.view(x.node.src[0].src[0], tracker.flip(axes))
        return draw.join(x, kernel.value_of_load(backward, shape, False))
    node = _exchanged(x.node.src[0].src[0], tracker, axes, frozenset())
    return Value(node, shape, x.low, x.high, x.bound)


def _exchanged(
    buffer: UOp, tracker: ShapeTracker, axes: tuple[int, ...], flips: frozenset[int]
) -> UOp:
    """The elements after a step on each of `axes`, read backward along `flips`."""
    if not axes:
        return build.load(build.view(buffer, tracker.flip(tuple(sorted(flips)))))
    *before, axis = axes
    mine, other = (
        _exchanged(buffer, tracker, tuple(before), each) for each in (flips, flips ^ {axis})
    )
    ones = tuple(2 if each == axis else 1 for each in range(len(tracker.shape)))
    numbers = ShapeTracker.from_shape(ones).flip((axis,) if axis in flips else ())
    is_second = build.not_equal(build.iota(numbers.expand(tracker.shape)), 0)
    keeps = build.not_equal(build.less(mine, other), is_second)
    return build.where(keeps, mine, other)


def _texels(draw: Expressions, shape: Shape, dtype: DType) -> Value:
    """A load of rows as they are, backward, turned, or with whole texels masked; as float32."""
    backward = tuple(reversed(shape))
    plain = ShapeTracker.from_shape(shape)
    fewer = tuple(size - 4 if size == max(map(most, shape)) else size for size in map(most, shape))
    edges = tuple(
        (0, 4) if size < most(n) else (0, 0) for size, n in zip(fewer, shape, strict=True)
    )
    trackers = (
        *(plain, plain.flip((0,))),
        ShapeTracker.from_shape(backward).permute(tuple(reversed(range(len(shape))))),
        ShapeTracker.from_shape(fewer).pad(edges),
    )
    found = draw.kernel.load_through(draw.tape.pick(trackers, (4, 2, 2, 2)), dtype)
    wide = convert(draw, found, dtypes.float32) if draw.kernel.has(dtypes.float32) else None
    return wide or found


def _axes(draw: Expressions, count: int, sizes: tuple[int, ...], *, outer: bool) -> tuple[int, ...]:
    return draw.kernel.add_axes([draw.tape.pick(sizes) for _ in range(count)], outer=outer)


# --- reduces --------------------------------------------------------------------------------------


def copies(draw: Expressions) -> Value:
    """A reduce of what is read again along some axes: elements that are worth a copy."""
    kernel = draw.kernel
    i, j = (_axes(draw, 1, OUTER, outer=True)[0] for _ in range(2))
    (k,) = _axes(draw, 1, INNER, outer=False)
    dtype = kernel.number()
    pairs = (((i,), (j, k)), ((i, k), (j, k)), ((i, k), (j,)), ((k,), (i, j)))
    whole = kernel.shape((i, j, k))
    parts = []
    for axes in draw.tape.pick(pairs):
        once = ShapeTracker.from_shape(kernel.shape(axes))
        parts.append(kernel.load_through(once.expand(whole), dtype))
    x, y = parts if draw.tape.below(2) else parts[::-1]
    op = draw.tape.pick((Ops.ADD, Ops.MUL, Ops.SUB), (3, 2, 1))
    return draw.reduce(draw.apply(op, x, y) or x, (k,), Ops.ADD)


def empty(draw: Expressions) -> Value:
    """The reduce of nothing at all, perhaps as a term of another one, or beside it."""
    kernel = draw.kernel
    outer = _axes(draw, draw.tape.between(1, 2), OUTER, outer=True)
    inner = kernel.add_axes([0], outer=False)
    structure = draw.tape.below(4)
    dtype = kernel.number()
    if structure == 0:
        return draw.reduce(kernel.load(kernel.shape((*outer, *inner)), dtype), inner)
    over = _axes(draw, 1, INNER, outer=False)
    if structure == 3:
        beside = draw.reduce(kernel.load(kernel.shape((*outer, *over)), dtype), over)
        nothing = draw.reduce(kernel.load(kernel.shape((*outer, *inner)), dtype), inner)
        return draw.join(beside, convert(draw, nothing, beside.dtype) or beside)
    x = draw.reduce(kernel.load(kernel.shape((*over, *inner)), dtype), inner)
    if draw.tape.below(3):
        x = draw.join(x, kernel.load(kernel.shape(outer), x.dtype))
    return draw.reduce(x, over)
