"""Small kernels for the optimiser: reduces in loops, repeated and masked terms, odd launches.

Their values are simple and their axes short, so that what counts is how the axes are cut: many
lists of optimisations are judged on each.
"""

from __future__ import annotations

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.arithmetic import MAKERS, choose, convert
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.values import Shape, Value, is_one, most
from tinyref_spec.kernel_case import Mode

OUTER = (4, 5, 2, 3, 8, 6, 7)
INNER = (4, 6, 8, 12, 16, 5, 3, 7, 9)
# Of both signs, negative, positive: a maximum of negative numbers is not 0.
SIGNS = (3, 2, 1)
FLOAT_SIGNS = (3, 1, 4)
# Of a launch: axes that do not merge or do not fit, and totals that no small number divides.
MANY = (2, 3, 4, 1, 5)
LARGE = (143, 64, 100, 41, 61, 77, 121, 200)
# Beside axes that are read in both directions, and these where they are no pairs.
VECTORS = (8, 4, 16, 6, 3)
MIRRORED = (4, 3, 2, 5)
# Of rows that whole texels make.
TEXELS = (8, 4, 12, 16, 20)


def loop_nest(draw: Expressions) -> Value:
    """One reduce or two: side by side, one in the loop of the other, or next to its own terms."""
    kernel = draw.kernel
    kernel.signs = FLOAT_SIGNS if kernel.mode is Mode.FLOAT else SIGNS
    outer = _axes(draw, draw.tape.between(1, 2), OUTER, outer=True)
    structures = (
        _single,
        _nested_reduce,
        _siblings,
        _terms_beside_reduce,
        _empty,
        _reduce_of_copies,
    )
    weights = (6, 5, 5, 3, 3, 20 if kernel.packs else 2)
    return draw.tape.pick(structures, weights)(draw, outer)


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


# --- structures -----------------------------------------------------------------------------------


def _single(draw: Expressions, outer: tuple[int, ...]) -> Value:
    """One reduce, over an axis or two."""
    inner = _axes(draw, draw.tape.pick((1, 2), (3, 2)), INNER, outer=False)
    return draw.reduce(_term(draw, outer, inner), inner)


def _nested_reduce(draw: Expressions, outer: tuple[int, ...]) -> Value:
    """A reduce inside of the loop of another one."""
    first, second = _axes(draw, 2, INNER, outer=False)
    x = draw.reduce(_term(draw, (*outer, first), (second,)), (second,))
    if draw.tape.chance(40):
        x = draw.join(x, draw.load(draw.kernel.shape((*outer, first)), x.dtype))
    return draw.reduce(x, (first,))


def _siblings(draw: Expressions, outer: tuple[int, ...]) -> Value:
    """Two reduces over the same axis, or over one each."""
    inner = _axes(draw, draw.tape.between(1, 2), INNER, outer=False)
    first, last = inner[:1], inner[-1:]
    x = draw.reduce(_term(draw, outer, first), first)
    if draw.tape.chance(35):
        # As often as the other terms, but each time the same: a part of a sum that does not vary.
        once = ShapeTracker.from_shape(draw.kernel.shape(outer))
        terms = draw.kernel.load_through(once.expand(draw.kernel.shape((*outer, *last))), x.dtype)
    else:
        terms = _term(draw, outer, last)
    y = draw.reduce(terms, last)
    return draw.join(x, convert(draw, y, x.dtype) or x)


def _terms_beside_reduce(draw: Expressions, outer: tuple[int, ...]) -> Value:
    """Terms next to their own reduce, as in softmax."""
    axis = draw.tape.pick(outer)
    others = tuple(other for other in outer if other != axis)
    x = _term(draw, others, (axis,))
    total = draw.reduce(x, (axis,))
    return draw.join(x, convert(draw, total, x.dtype) or x)


def _reduce_of_copies(draw: Expressions, outer: tuple[int, ...]) -> Value:
    """A reduce of what is read again along some axes: elements that are worth a copy."""
    if len(outer) < 2:
        outer = (*outer, *_axes(draw, 1, OUTER, outer=True))
    i, j = outer
    (k,) = _axes(draw, 1, INNER, outer=False)
    dtype = draw.kernel.number()
    kept = draw.tape.pick((((i,), (j, k)), ((i, k), (j, k)), ((i, k), (j,)), ((k,), (i, j))))
    parts = []
    for axes in kept:
        once = ShapeTracker.from_shape(draw.kernel.shape(axes))
        whole = draw.kernel.shape((i, j, k))
        parts.append(draw.kernel.load_through(once.expand(whole), dtype))
    x, y = parts if draw.tape.below(2) else parts[::-1]
    op = draw.tape.pick((Ops.ADD, Ops.MUL, Ops.SUB), (3, 2, 1))
    return draw.reduce(draw.apply(op, x, y) or x, (k,), Ops.ADD)


def _empty(draw: Expressions, outer: tuple[int, ...]) -> Value:
    """The reduce of nothing at all, perhaps as a term of another one, or beside it."""
    inner = draw.kernel.add_axes([0], outer=False)
    structure = draw.tape.below(4)
    if structure == 0:
        return draw.reduce(_load(draw, draw.kernel.shape((*outer, *inner))), inner)
    over = _axes(draw, 1, INNER, outer=False)
    if structure == 3:
        beside = draw.reduce(_term(draw, outer, over), over)
        nothing = draw.reduce(_load(draw, draw.kernel.shape((*outer, *inner))), inner)
        return draw.join(beside, convert(draw, nothing, beside.dtype) or beside)
    x = draw.reduce(_load(draw, draw.kernel.shape((*over, *inner))), inner)
    if draw.tape.below(3):
        x = draw.join(x, draw.kernel.load(draw.kernel.shape(outer), x.dtype))
    return draw.reduce(x, over)


# --- terms ----------------------------------------------------------------------------------------


def _term(draw: Expressions, outer: tuple[int, ...], inner: tuple[int, ...]) -> Value:
    """A load, perhaps repeated along an axis or masked there, and an operation on it."""
    x = _load(draw, draw.kernel.shape((*outer, *inner)), outer, inner)
    functions = 24 if draw.kernel.mode is Mode.FLOAT else 2
    weights = (6, 3, 4, functions, 3, 3)
    wrapped = draw.tape.pick(
        (None, _plus_one, _mask_value, _function, _product, _add_positions), weights
    )
    return x if wrapped is None else wrapped(draw, x) or x


def _load(
    draw: Expressions, shape: Shape, outer: tuple[int, ...] = (), inner: tuple[int, ...] = ()
) -> Value:
    kernel = draw.kernel
    choice = draw.tape.pick((0, 1, 2, 3, 4), (5, 3, 3, 2, 1))
    axes = outer if choice in (1, 2) else inner
    is_rough = kernel.mode is Mode.FLOAT and draw.tape.chance(80)
    dtype = kernel.dtype(dtypes.floats) if is_rough else kernel.number()
    if not choice or not axes:
        return kernel.load(shape, dtype, 0)
    if choice == 4:
        return kernel.load(shape, dtype, 2)
    axis = draw.tape.pick(axes)
    size = most(shape[axis])
    if choice != 2 or size < 3:
        once = (*shape[:axis], 1, *shape[axis + 1 :])
        return kernel.load_through(ShapeTracker.from_shape(once).expand(shape), dtype)
    return kernel.load_through(_repeated_between(draw, shape, axis, size), dtype)


def _repeated_between(draw: Expressions, shape: Shape, axis: int, size: int) -> ShapeTracker:
    """The same elements all along an axis but for its ends, where there are none."""
    low = draw.tape.between(0, 2)
    high = draw.tape.between(0 if low else 1, max(1, min(2, size - low - 1)))
    fewer = (*shape[:axis], size - low - high, *shape[axis + 1 :])
    once = (*shape[:axis], 1, *shape[axis + 1 :])
    edges = tuple((low, high) if other == axis else (0, 0) for other in range(len(shape)))
    return ShapeTracker.from_shape(once).expand(fewer).pad(edges)


def _plus_one(draw: Expressions, x: Value) -> Value | None:
    """What is not 0 where its load is."""
    one = build.const(x.dtype, 1.0 if x.dtype.is_float else 1)
    op = draw.tape.pick((Ops.ADD, Ops.SUB, Ops.MAX))
    return draw.apply(op, x, Value(one, (1,) * len(x.shape), 1, 1, 1))


def _mask_value(draw: Expressions, x: Value) -> Value | None:
    """x or a constant, by a mask, a comparison or a bool that is loaded."""
    condition = draw.condition(x.shape)
    if condition is None:
        return None
    other = draw.constant(x.dtype)
    pair = (x, other) if draw.tape.below(2) else (other, x)
    return choose(draw, condition, *pair)


def _function(draw: Expressions, x: Value) -> Value | None:
    """A function of which 0 is not 0."""
    is_float = x.dtype.is_float and draw.kernel.mode is Mode.FLOAT
    if not is_float:
        return MAKERS[draw.tape.pick((Ops.CMPLT, Ops.NEG, Ops.CAST))](draw, x)
    # What is positive has a reciprocal as it is, but is 0 beyond its end.
    weights = (1, 3, 1) if x.low > 0 else (3, 1, 1)
    return MAKERS[draw.tape.pick((Ops.EXP2, Ops.RECIP, Ops.FDIV), weights)](draw, x)


def _product(draw: Expressions, x: Value) -> Value | None:
    """A product with another load, which is read again where the first one is repeated."""
    return draw.apply(Ops.MUL, x, draw.kernel.load(x.shape, x.dtype, 1))


def _add_positions(draw: Expressions, x: Value) -> Value | None:
    """x and the numbers of elements, which are 0 where there are none."""
    axes = [axis for axis, size in enumerate(x.shape) if not is_one(size) and most(size) > 2]
    if not axes or any(not isinstance(size, int) for size in x.shape):
        return None
    axis = draw.tape.pick(axes)
    edges = tuple((1, 1) if other == axis else (0, 0) for other in range(len(x.shape)))
    inner = tuple(size - 2 if other == axis else size for other, size in enumerate(x.shape))
    tracker = ShapeTracker.from_shape(inner).pad(edges)
    numbers = build.add(build.iota(tracker), draw.tape.below(2))
    high = tracker.real_size()
    value = convert(draw, Value(numbers, x.shape, 0, high, high), x.dtype)
    return None if value is None else draw.apply(Ops.ADD, x, value)
