"""Test laws of shape trackers on random chains of movements, against numpy.

Two views instead of one cost a division and a remainder for each access, and values do not reveal
it. So the test tries whether one view has the elements of two neighbours. It does not ask the
compiler, which joins views.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from tinyref.algebra.evaluate import evaluate_expression
from tinyref.interpret.evaluate import view_elements
from tinyref.uops import build
from tinyref.uops.payload import AxisKind
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View

Elements = npt.NDArray[np.int64]
Shape = tuple[int, ...]
Span = tuple[int, int]

# Views with more positions than this are not tried.
MOST_POSITIONS = 1 << 14
# Shapes with more positions are not made larger.
_MANY = 300
_MOST_MOVES = 4
_SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 5, 6)


def unjoined_views(tracker: ShapeTracker) -> str | None:
    """Describe two neighbours that one view could replace; None if there are none."""
    for inner, outer in itertools.pairwise(tracker.views):
        if not all(_is_small(view) for view in (inner, outer)):
            continue
        one = one_view(elements_of(ShapeTracker((inner, outer))))
        if one is not None and _is_straight(inner, outer):
            return f"views stay two, {inner} and {outer}, where one shows the same: {one}"
    return None


def wrong_view(tracker: ShapeTracker, elements: Elements) -> str | None:
    """Describe the error of a tracker that must have `elements`; None if it is right."""
    if tracker.shape != elements.shape or not np.array_equal(elements_of(tracker), elements):
        return "the elements are other ones"
    indices, valid = view_elements(tracker, {})
    if not np.array_equal(np.where(valid, indices, -1), elements):
        return "the evaluator reads other elements"
    if elements.size and not np.array_equal(_shown_by_index(tracker, elements.shape), elements):
        return "the index gives other elements"
    if not elements.size and tracker is not ShapeTracker.from_shape(tracker.shape):
        return "without elements it is not the plain view"
    if elements.size and len(tracker.views) == 1 and tracker.views[0] != one_view(elements):
        return f"it is {tracker.views[0]}, not {one_view(elements)}"
    touched = elements[elements >= 0]
    reach = tracker.reach()
    if touched.size and not _is_reach(tracker, reach, (int(touched.min()), int(touched.max()))):
        return f"it reaches {touched.min()} to {touched.max()}, not {reach}"
    for axis, stride in enumerate(tracker.real_strides()):
        steps = _steps(elements, axis)
        if not (steps <= {stride} or (stride is None and len(tracker.views) > 1)):
            return f"axis {axis} has the steps {steps}, not {stride}"
    return unjoined_views(tracker)


def _is_reach(tracker: ShapeTracker, reach: Span | None, exact: Span) -> bool:
    """Return True if the reach is exact for one view, or no less for several."""
    if reach is None or len(tracker.views) == 1:
        return reach == exact
    return reach[0] <= exact[0] and exact[1] <= reach[1]


def _steps(elements: Elements, axis: int) -> set[int]:
    """Return the steps between neighbours along an axis, where both elements exist."""
    along = np.moveaxis(elements, axis, 0)
    before, after = along[:-1], along[1:]
    return set((after - before)[(before >= 0) & (after >= 0)].tolist())


def _shown_by_index(tracker: ShapeTracker, shape: Shape) -> Elements:
    """Return `elements_of` by the expressions that kernels get."""
    counters = [build.counter(size, axis, AxisKind.LOOP) for axis, size in enumerate(shape)]
    positions = np.ix_(*map(np.arange, shape))
    leaves = dict(zip(counters, positions, strict=True))
    index, valid = (evaluate_expression(e, leaves) for e in tracker.index_and_valid(counters))
    return np.broadcast_to(np.where(valid, index, -1), shape)


def _is_small(view: View) -> bool:
    is_fixed = all(isinstance(number, int) for number in view.numbers())
    return is_fixed and math.prod(_fixed(view.shape)) <= MOST_POSITIONS


def elements_of(tracker: ShapeTracker) -> Elements:
    """Return the element at each position of a tracker of fixed sizes, -1 where there is none."""
    elements, valid = tracker.numpy_indices()
    return np.where(valid, elements, -1)


def one_view(elements: Elements) -> View | None:
    """Return the view with these elements, found by trial, or None."""
    shape, rank = elements.shape, elements.ndim
    where = np.argwhere(elements >= 0)
    if not rank:
        return View((), (), int(elements)) if elements >= 0 else None
    if not where.size:
        return View(shape, (0,) * rank, 0, ((0, 0),) * rank)
    low, high = where.min(0), where.max(0) + 1
    box = elements[tuple(itertools.starmap(slice, zip(low, high, strict=True)))]
    if (box < 0).any():
        return None
    corner = int(box[(0,) * rank])
    strides = [
        int(np.moveaxis(box, axis, 0)[(1, *(0,) * (rank - 1))]) - corner if size > 1 else 0
        for axis, size in enumerate(box.shape)
    ]
    mask = tuple((int(begin), int(end)) for begin, end in zip(low, high, strict=True))
    offset = corner - int(np.dot(low, strides))
    view = View(shape, tuple(strides), offset, mask)
    return view if np.array_equal(elements_of(ShapeTracker((view,))), elements) else None


def _is_straight(inner: View, outer: View) -> bool:
    """Return True if `outer` walks through `inner` in steps, also where a mask hides elements.

    A mask may hide all but one of the elements of a crooked walk, so hidden elements count. Axes
    that repeat elements count as well, because a walk over one may have equal steps by chance.
    """
    flat, valid = outer.numpy_indices({})
    if not valid.any():
        return True
    inside = np.where(valid, flat, 0)
    positions = np.unravel_index(inside, _fixed(inner.shape)) if inner.shape else ()
    elements = inner.numpy_indices_at(positions, {})[0]
    walks = [elements - elements[valid].min(), *_masked_runs(inner, positions)]
    walks += _runs_between_repeats(inner, positions)
    return all(one_view(np.where(valid, walk, -1)) is not None for walk in walks)


def _masked_runs(view: View, positions: Sequence[Elements]) -> Iterator[Elements]:
    """Yield the position along each axis that a mask cuts, with the whole axes after it."""
    run: Elements | None = None
    sizes = _fixed(view.shape)
    for position, size, (_, _, bounds) in zip(positions, sizes, view.axes(), strict=True):
        if bounds != (0, size):
            if run is not None:
                yield run
            run = position
        elif run is not None:
            run = run * size + position
    if run is not None:
        yield run


def _runs_between_repeats(view: View, positions: Sequence[Elements]) -> Iterator[Elements]:
    """Yield the position along the axes between two that repeat elements, if any does."""
    run: Elements | None = None
    has_repeats = False
    sizes = _fixed(view.shape)
    for position, size, (_, stride, _) in zip(positions, sizes, view.axes(), strict=True):
        if stride == 0 and size > 1:
            has_repeats = True
            if run is not None:
                yield run
            run = None
        else:
            run = position if run is None else run * size + position
    if run is not None and has_repeats:
        yield run


def _fixed(shape: Sequence[object]) -> Shape:
    return tuple(size for size in shape if isinstance(size, int))


# --- drawn chains ---------------------------------------------------------------------------------


def drawn(seed: str, count: int) -> Iterator[tuple[ShapeTracker, Elements]]:
    """Yield random trackers, most of several views, and their elements by numpy."""
    source = Random(seed)
    for _ in range(count):
        shape = tuple(source.randrange(1, 6) for _ in range(source.randrange(1, 4)))
        tracker, elements = _moved(source, shape)
        views = tracker.views
        for _ in range(source.randrange(3)):
            second, indices = _moved(source, elements.shape)
            views += second.views
            if elements.size:
                elements = np.where(indices < 0, -1, elements.reshape(-1)[np.maximum(indices, 0)])
            else:
                elements = indices
        tracker = ShapeTracker(views).simplify()
        yield tracker, elements


def _moved(source: Random, shape: Shape) -> tuple[ShapeTracker, Elements]:
    tracker = ShapeTracker.from_shape(shape)
    elements: Elements = np.arange(int(np.prod(shape))).reshape(shape)
    for _ in range(source.randrange(1, _MOST_MOVES + 1)):
        tracker, elements = source.choice(_MOVES)(source, tracker, elements)
    return tracker, elements


Moved = tuple[ShapeTracker, Elements]


def _reshape(source: Random, tracker: ShapeTracker, elements: Elements) -> Moved:
    shape: list[int] = []
    rest = elements.size
    while rest > 1 and len(shape) < 3:
        shape.append(source.choice([size for size in range(2, rest + 1) if rest % size == 0]))
        rest //= shape[-1]
    shape += [rest] * (rest != 1) + [1] * source.randrange(2)
    source.shuffle(shape)
    return tracker.reshape(shape), elements.reshape(shape)


def _permute(source: Random, tracker: ShapeTracker, elements: Elements) -> Moved:
    order = list(range(elements.ndim))
    source.shuffle(order)
    return tracker.permute(order), elements.transpose(order)


def _pad(source: Random, tracker: ShapeTracker, elements: Elements) -> Moved:
    if elements.size > _MANY or not elements.ndim:
        return tracker, elements
    edges = [
        (source.randrange(3), source.randrange(3)) if source.randrange(2) else (0, 0)
        for _ in elements.shape
    ]
    return tracker.pad(edges), np.pad(elements, edges, constant_values=-1)


def _shrink(source: Random, tracker: ShapeTracker, elements: Elements) -> Moved:
    bounds = []
    for size in elements.shape:
        if source.randrange(2):
            bounds.append((0, size))
            continue
        begin = source.randrange(min(size, 3) or 1)
        is_emptied = source.randrange(20) == 0
        end = size - source.randrange(min(size - begin, 3) or 1)
        bounds.append((begin, begin if is_emptied else end))
    return tracker.shrink(bounds), elements[tuple(slice(*pair) for pair in bounds)]


def _flip(source: Random, tracker: ShapeTracker, elements: Elements) -> Moved:
    axes = [axis for axis in range(elements.ndim) if source.randrange(2)]
    return tracker.flip(axes), np.flip(elements, tuple(axes))


def _expand(source: Random, tracker: ShapeTracker, elements: Elements) -> Moved:
    is_small = elements.size <= _MANY
    shape = [source.randrange(1, 4) if n == 1 and is_small else n for n in elements.shape]
    return tracker.expand(shape), np.broadcast_to(elements, shape)


_MOVES = (_reshape, _permute, _pad, _shrink, _flip, _expand)


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param("few", 240, marks=pytest.mark.long),
        pytest.param("many", 5000, marks=pytest.mark.slow),
    ],
)
def test_chains_of_movements_and_views_through_views(seed: str, count: int) -> None:
    for tracker, elements in drawn(seed, count):
        assert wrong_view(tracker, elements) is None, tracker
