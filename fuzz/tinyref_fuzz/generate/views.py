"""Views: movements drawn backward from the shape that a kernel sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tinyref.uops.node import sint
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import Shape

# Views of more elements than this are not padded or cut out of larger ones any further.
MAX_ELEMENTS = 1 << 14
# How often elements are repeated in a row whose positions need more than 32 bits: no round numbers.
MANY_TIMES = (1_000_000_007, 1 << 31, 2_147_483_647)
# Gives the view of a shape that is seen through the rest of the movements.
Rest = Callable[[Shape], ShapeTracker]
Movement = Callable[[Tape, Shape, Rest], ShapeTracker]


def draw_view(tape: Tape, shape: Shape, moves: int) -> ShapeTracker:
    """A view of some buffer that has `shape`, after up to `moves` movements."""
    return draw_chain(tape, shape, tape.below(moves + 1))


def draw_chain(tape: Tape, shape: Shape, moves: int) -> ShapeTracker:
    """A view of some buffer that has `shape`, after so many movements as far as they fit."""
    movements = FIXED if all(isinstance(size, int) for size in shape) else SYMBOLIC
    return _apply_moves(tape, shape, [tape.pick(movements) for _ in range(moves)])


def draw_through(tape: Tape, shape: Shape, moves: int) -> ShapeTracker:
    """A view that has a fixed `shape`, after half of so many movements, through one after the rest.

    The two are put together as they are: what one view shows is left to the compiler to find.
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
    """At most a handful of steps, so the recursion is shallow."""
    if not steps or not shape:
        return ShapeTracker.from_shape(shape)
    return steps[0](tape, shape, lambda inner: _apply_moves(tape, inner, steps[1:]))


def draw_target(tape: Tape, shape: Shape, percent: int) -> ShapeTracker:
    """A view to store `shape` through: no element twice; with masks some not at all."""
    if not shape or not tape.chance(percent):
        return ShapeTracker.from_shape(shape)
    is_fixed = all(isinstance(size, int) for size in shape)
    movements = (permute, flip, cut_out, pad) if is_fixed else (permute, flip)
    steps = [tape.pick(movements) for _ in range(tape.between(1, 2))]
    return _apply_moves(tape, shape, steps)


# --- movements ------------------------------------------------------------------------------------


def repeat(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """The same elements all along an axis."""
    axis = tape.below(len(shape))
    return rest((*shape[:axis], 1, *shape[axis + 1 :])).expand(shape)


def permute(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """The axes in another order."""
    order = list(range(len(shape)))
    for last in range(len(order) - 1, 0, -1):
        other = last - tape.below(last + 1)
        order[last], order[other] = order[other], order[last]
    inner = tuple(shape[order.index(axis)] for axis in range(len(shape)))
    return rest(inner).permute(tuple(order))


def flip(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """An axis that runs backward."""
    return rest(shape).flip((tape.below(len(shape)),))


def cut_out(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """A part of larger axes."""
    edges = [(tape.below(3), tape.below(3)) for _ in shape]
    larger = tuple(n + low + high for n, (low, high) in zip(shape, edges, strict=True))
    if _count(larger) > MAX_ELEMENTS:
        return rest(shape)
    kept = tuple((low, low + n) for n, (low, _) in zip(shape, edges, strict=True))
    return rest(larger).shrink(kept)


def every_other(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Every second or third element of an axis, from some element on."""
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
    """Positions without an element around the others."""
    edges = tuple(_edges(tape, size) for size in shape)
    inner = tuple(n - low - high for n, (low, high) in zip(shape, edges, strict=True))
    return rest(inner).pad(edges)


def _edges(tape: Tape, size: sint) -> tuple[int, int]:
    if not isinstance(size, int):
        return 0, 0
    low = tape.below(min(2, size) + 1)
    return low, tape.below(min(2, size - low) + 1)


def flatten(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """Elements in a row, or in another shape of as many."""
    total = _count(shape)
    divisors = [n for n in range(1, min(total, 32) + 1) if total % n == 0] or [1]
    first = tape.pick(divisors)
    return rest((first, total // first)).reshape(shape)


def tile(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """An axis that is a shorter one several times over: a remainder of its positions."""
    axis = tape.below(len(shape))
    size = shape[axis]
    if not isinstance(size, int) or size < 2:
        return rest(shape)
    period = tape.pick([n for n in range(1, size + 1) if size % n == 0])
    before, after = shape[:axis], shape[axis + 1 :]
    once = rest((*before, period, *after)).reshape((*before, 1, period, *after))
    return once.expand((*before, size // period, period, *after)).reshape(shape)


def wrap_around(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """All elements in a row, moved along by some that come back at the other end or are masked."""
    total = _count(shape)
    shift = tape.between(1, 3)
    if total <= shift:
        return rest(shape)
    row = rest((total,))
    if tape.below(2):
        return row.shrink(((0, total - shift),)).pad(((shift, 0),)).reshape(shape)
    return row.pad(((0, shift),)).shrink(((shift, total + shift),)).reshape(shape)


def sample(tape: Tape, shape: Shape, rest: Rest) -> ShapeTracker:
    """An axis as steps through a row of some elements that is longer than 32 bits count."""
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
# Movements alone, of which two chains meet most often where one view shows both.
PLAIN: tuple[Movement, ...] = (permute, flip, flip, cut_out, pad, pad, repeat, flatten)
SYMBOLIC: tuple[Movement, ...] = (permute, repeat, flip)
