"""Draw views: movements drawn backward from the shape that a kernel sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tinyref.uops.node import sint
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import Shape

# Views of more elements are not padded or cut out of larger ones.
MAX_ELEMENTS = 1 << 14
# Numbers of repetitions that need more than 32 bits for positions, and are not round.
MANY_TIMES = (1_000_000_007, 1 << 31, 2_147_483_647)
# Returns a view of this shape, seen through the remaining movements.
Rest = Callable[[Shape], ShapeTracker]
Movement = Callable[[Tape, Shape, Rest], ShapeTracker]


def draw_view(tape: Tape, shape: Shape, moves: int) -> ShapeTracker:
    """Draw a view that has `shape`, after up to `moves` movements."""
    return draw_chain(tape, shape, tape.below(moves + 1))


def draw_chain(tape: Tape, shape: Shape, moves: int) -> ShapeTracker:
    """Draw a view that has `shape`, after `moves` movements where they fit."""
    movements = FIXED if all(isinstance(size, int) for size in shape) else SYMBOLIC
    return _apply_moves(tape, shape, [tape.pick(movements) for _ in range(moves)])


def draw_through(tape: Tape, shape: Shape, moves: int) -> ShapeTracker:
    """Draw a view of a fixed `shape`: two chains of half of the movements, one through the other.

    The two views are not merged: the compiler must find what the outer one exposes.
    """

    def part(shape: Shape, count: int) -> ShapeTracker:
        return _apply_moves(tape, shape, [tape.pick(PLAIN) for _ in range(count)])

    outer = part(shape, moves // 2)
    size = outer.real_size()
    if not 0 < size <= MAX_ELEMENTS:
        return outer
    rows = tape.pick([n for n in range(1, min(size, 32) + 1) if size % n == 0])
    inner = part((rows, size // rows), moves - moves // 2)
    return ShapeTracker((*inner.views, *outer.views))


def _apply_moves(tape: Tape, shape: Shape, steps: Sequence[Movement]) -> ShapeTracker:
    """Apply the movements in turn; there are few, so the recursion is shallow."""
    if not steps or not shape:
        return ShapeTracker.from_shape(shape)
    return steps[0](tape, shape, lambda inner: _apply_moves(tape, inner, steps[1:]))


def draw_target(tape: Tape, shape: Shape, percent: int) -> ShapeTracker:
    """Draw a view to store `shape` through: no element twice, and if masked, some not at all."""
    if not shape or not tape.chance(percent):
        return ShapeTracker.from_shape(shape)
    is_fixed = all(isinstance(size, int) for size in shape)
    movements = (permute, flip, cut_out, pad) if is_fixed else (permute, flip)
    steps = [tape.pick(movements) for _ in range(tape.between(1, 2))]
    return _apply_moves(tape, shape, steps)


# --- movements ------------------------------------------------------------------------------------


def repeat(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Repeat the same elements along an axis."""
    axis = tape.below(len(shape))
    return rest((*shape[:axis], 1, *shape[axis + 1 :])).expand(shape)


def permute(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Permute the axes."""
    order = list(range(len(shape)))
    for last in range(len(order) - 1, 0, -1):
        other = last - tape.below(last + 1)
        order[last], order[other] = order[other], order[last]
    inner = tuple(shape[order.index(axis)] for axis in range(len(shape)))
    return rest(inner).permute(tuple(order))


def flip(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Reverse an axis."""
    return rest(shape).flip((tape.below(len(shape)),))


def cut_out(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Cut a part out of larger axes."""
    edges = [(tape.below(3), tape.below(3)) for _ in shape]
    larger = tuple(n + low + high for n, (low, high) in zip(shape, edges, strict=True))
    if _count(larger) > MAX_ELEMENTS:
        return rest(shape)
    bounds = tuple((low, low + n) for n, (low, _) in zip(shape, edges, strict=True))
    return rest(larger).shrink(bounds)


def every_other(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Take every second or third element of an axis, from a drawn start."""
    axis, step = tape.below(len(shape)), tape.between(2, 3)
    start = tape.below(step)
    larger = (*shape[:axis], shape[axis] * step, *shape[axis + 1 :])
    if _count(larger) > MAX_ELEMENTS:
        return rest(shape)
    rows = rest(larger).reshape((*shape[: axis + 1], step, *shape[axis + 1 :]))
    ends: list[tuple[sint, sint]] = [(0, size) for size in shape]
    ends.insert(axis + 1, (start, start + 1))
    return rows.shrink(tuple(ends)).reshape(shape)


def pad(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Add positions without an element around the others."""
    edges = tuple(_edges(tape, size) for size in shape)
    inner = tuple(n - low - high for n, (low, high) in zip(shape, edges, strict=True))
    return rest(inner).pad(edges)


def _edges(tape: Tape, size: sint) -> tuple[int, int]:
    if not isinstance(size, int):
        return 0, 0
    low = tape.below(min(2, size) + 1)
    return low, tape.below(min(2, size - low) + 1)


def flatten(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Reshape elements to two axes of another size."""
    total = _count(shape)
    divisors = [n for n in range(1, min(total, 32) + 1) if total % n == 0] or [1]
    first = tape.pick(divisors)
    return rest((first, total // first)).reshape(shape)


def tile(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Tile an axis with a shorter one: its positions are taken modulo a period."""
    axis = tape.below(len(shape))
    size = shape[axis]
    if not isinstance(size, int) or size < 2:
        return rest(shape)
    period = tape.pick([n for n in range(1, size + 1) if size % n == 0])
    before, after = shape[:axis], shape[axis + 1 :]
    once = rest((*before, period, *after)).reshape((*before, 1, period, *after))
    return once.expand((*before, size // period, period, *after)).reshape(shape)


def wrap_around(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Shift all elements in a row; those that leave it wrap around or are masked."""
    total = _count(shape)
    shift = tape.between(1, 3)
    if total <= shift:
        return rest(shape)
    row = rest((total,))
    if tape.below(2):
        return row.shrink(((0, total - shift),)).pad(((shift, 0),)).reshape(shape)
    return row.pad(((0, shift),)).shrink(((shift, total + shift),)).reshape(shape)


def sample(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Sample a row of repeated elements that is too long for 32-bit positions."""
    axis = tape.below(len(shape))
    size = shape[axis]
    if not isinstance(size, int) or size < 2:
        return rest(shape)
    blocks, block = tape.between(2, 4), tape.between(1, 3)
    times = tape.pick(MANY_TIMES)
    before, after = shape[:axis], shape[axis + 1 :]
    row = rest((*before, blocks, 1, block, *after)).expand((*before, blocks, times, block, *after))
    total = blocks * times * block
    step = total // size
    ends: list[tuple[sint, sint]] = [(0, n) for n in shape]
    ends[axis] = (0, size * step)
    steps = row.reshape((*before, total, *after)).shrink(tuple(ends))
    first = [*ends, (0, 1)]
    first[axis], first[axis + 1 :] = (0, size), [(0, 1), *ends[axis + 1 :]]
    return steps.reshape((*before, size, step, *after)).shrink(tuple(first)).reshape(shape)


def _count(shape: Shape) -> int:
    return math.prod(size for size in shape if isinstance(size, int))


FIXED: tuple[Movement, ...] = (
    permute,
    repeat,
    flip,
    cut_out,
    pad,
    flatten,
    every_other,
    tile,
    wrap_around,
    permute,
    sample,
)
# Plain movements, with those weighted more often that two chains combine.
PLAIN: tuple[Movement, ...] = (permute, flip, flip, cut_out, pad, pad, repeat, flatten)
SYMBOLIC: tuple[Movement, ...] = (permute, repeat, flip)
