"""What views become: merged, moved, one after the other, as expressions; and what is known of them.

The elements that a view shows are those of the evaluator, by the definition alone; a movement moves
the positions of an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.symbolic import product
from tinyref.interpret.view_elements import size_value, view_elements
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.payload import AxisKind, RangeArg, VarArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.judge.expressions.points import Problem
from tinyref_fuzz.judge.oracles.span import Values
from tinyref_spec.kernel_case import Symptom
from tinyref_spec.proofs.known_views import unjoined_views

Bindings = Mapping[str, int]
# Views of more positions are left to kernels.
MAX_POSITIONS = 1 << 12
# What an array has where a view shows nothing.
NOTHING = -1


def view_problems(
    tracker: ShapeTracker, bindings: Bindings, lot: int | None = None
) -> Iterator[Problem]:
    """What is wrong with what the compiler makes of a view, and knows of it.

    lot: which movement is looked at, one of all; every one without it.
    """
    sizes = [size_value(size, bindings) for size in tracker.shape]
    if math.prod(sizes) > MAX_POSITIONS:
        return
    wanted = elements(tracker, bindings)
    merged = tracker.simplify()
    if merged is not tracker and (text := _difference(wanted, elements(merged, bindings))):
        yield Problem("views", f"merged: {text} of {tracker!r}")
    if text := _difference(wanted, _of_expressions(tracker, sizes, bindings)):
        yield Problem("views", f"index: {text} of {tracker!r}")
    yield from _of_facts(tracker, wanted)
    if two := unjoined_views(merged):
        yield Problem("views", two.describe(), Symptom.COST)
    yield from _of_movements(tracker, wanted, bindings, lot)


def elements(tracker: ShapeTracker, bindings: Bindings) -> Values:
    """The element at each position; `NOTHING` where there is none."""
    numbers, valid = view_elements(tracker, bindings)
    return np.where(valid, numbers, NOTHING)


def _difference(wanted: Values, found: Values) -> str:
    if wanted.shape != found.shape:
        return f"the shape {found.shape} instead of {wanted.shape}"
    differs = wanted != found
    if not differs.any():
        return ""
    wrong = np.argwhere(differs)
    at = tuple(map(int, wrong[0]))
    return f"element {found[at]} instead of {wanted[at]} at {at}"


# --- expressions ----------------------------------------------------------------------------------


def _of_expressions(tracker: ShapeTracker, sizes: Sequence[int], bindings: Bindings) -> Values:
    """The elements by the index expression and its condition."""
    counters = [build.counter(size, axis, AxisKind.LOOP) for axis, size in enumerate(tracker.shape)]
    number, valid = tracker.index_and_valid(counters)
    places = np.ix_(*(np.arange(size, dtype=np.int64) for size in sizes))
    leaves: dict[UOp, Values] = {}
    for node in toposort((number, valid)):
        # The extent of a counter may be simplified.
        if isinstance(node.arg, RangeArg):
            leaves[node] = places[node.arg.number]
        elif isinstance(node.arg, VarArg):
            leaves[node] = np.asarray(bindings[node.arg.name], np.int64)
    found = np.where(evaluate_expression(valid, leaves), evaluate_expression(number, leaves), -1)
    return np.broadcast_to(found, tuple(sizes))


# --- facts ----------------------------------------------------------------------------------------


def _of_facts(tracker: ShapeTracker, wanted: Values) -> Iterator[Problem]:
    """What is reached, by which steps, and whether some positions have no element."""
    shown = wanted[wanted != NOTHING]
    reach = tracker.reach()
    if shown.size and (reach is None or reach[0] > shown.min() or reach[1] < shown.max()):
        yield Problem("views", f"reach {reach} of elements {shown.min()} to {shown.max()}")
    if not tracker.is_masked and (wanted == NOTHING).any():
        yield Problem("views", f"{tracker!r} has a mask")
    for axis, stride in enumerate(tracker.real_strides()):
        if not isinstance(stride, int):
            continue
        rows = np.moveaxis(wanted, axis, 0)
        is_pair = (rows[1:] != NOTHING) & (rows[:-1] != NOTHING)
        if (is_pair & (rows[1:] - rows[:-1] != stride)).any():
            yield Problem("views", f"stride {stride} along axis {axis} of {tracker!r}")


# --- movements ------------------------------------------------------------------------------------

# What a movement makes of a tracker, and of an array.
Move = tuple[str, Callable[[], ShapeTracker], Callable[[], Values]]


def _of_movements(
    tracker: ShapeTracker, wanted: Values, bindings: Bindings, lot: int | None
) -> Iterator[Problem]:
    """A movement of the tracker moves its elements so, and so it does after other views."""
    is_fixed = all(isinstance(size, int) for size in tracker.shape)
    for name, move, moved in _chosen(_movements(tracker, wanted, is_fixed), lot):
        yield from _of_moved(f"{name} of {tracker!r}", move(), moved(), bindings)
    if not is_fixed:
        return
    plain = ShapeTracker.from_shape(wanted.shape)
    positions = np.arange(wanted.size).reshape(wanted.shape)
    for name, move, moved in _chosen(_movements(plain, positions, is_fixed), lot):
        places = moved()
        shown = wanted.reshape(-1)[places] if wanted.size else np.full(places.shape, NOTHING)
        shown = np.where(places == NOTHING, NOTHING, shown)
        what = f"{tracker!r} followed by {name}"
        yield from _of_moved(what, tracker.followed_by(move()), shown, bindings)


def _of_moved(
    what: str, found: ShapeTracker, wanted: Values, bindings: Bindings
) -> Iterator[Problem]:
    """A tracker shows the elements that are wanted, and no two views of it are one."""
    if text := _difference(wanted, elements(found, bindings)):
        yield Problem("views", f"{text}: {what}")
    elif two := unjoined_views(found.simplify()):
        yield Problem("views", f"{two.describe()}: {what}", Symptom.COST)


def _chosen(moves: Sequence[Move], lot: int | None) -> Sequence[Move]:
    if lot is None or not moves:
        return moves
    return (moves[lot % len(moves)],)


def _movements(tracker: ShapeTracker, array: Values, is_fixed: bool) -> list[Move]:
    """A movement of each kind; by how much, the elements say themselves."""
    rank = array.ndim
    if not rank:
        return []
    lot = int(array.sum()) % 1009
    axis, turn = lot % rank, lot // rank
    order = tuple((turn + step) % rank for step in (range(rank) if lot % 2 else range(rank, 0, -1)))
    found: list[Move] = [
        ("flip", lambda: tracker.flip((axis,)), lambda: np.flip(array, axis)),
        ("permute", lambda: tracker.permute(order), lambda: array.transpose(order)),
    ]
    around = tuple((turn % 3, turn // 3 % 3) if each == axis else (0, 0) for each in range(rank))
    wide = (*tracker.shape[:axis], 1, *tracker.shape[axis:])
    more = (*tracker.shape[:axis], 2 + turn % 2, *tracker.shape[axis:])
    repeated = (*array.shape[:axis], 2 + turn % 2, *array.shape[axis:])
    found += [
        (
            *("pad", lambda: tracker.pad(around)),
            lambda: np.pad(array, around, constant_values=NOTHING),
        ),
        (
            *("expand", lambda: tracker.reshape(wide).expand(more)),
            lambda: np.broadcast_to(np.expand_dims(array, axis), repeated),
        ),
    ]
    if rank > 1 and array.size:
        joined = (product(tracker.shape[:2]), *tracker.shape[2:])
        one = (array.shape[0] * array.shape[1], *array.shape[2:])
        found.append(
            ("reshape", lambda: tracker.reshape(joined), lambda: array.reshape(one)),
        )
    if not is_fixed:
        return found
    ends = tuple(
        (min(size, (turn + each) % 2), max(min(size, 1), size - turn // 2 % 3))
        for each, size in enumerate(array.shape)
    )
    cut = tuple(slice(*pair) for pair in ends)
    found.append(("shrink", lambda: tracker.shrink(ends), lambda: array[cut]))
    if array.size:
        other = _other_shape(array.size, lot)
        found.append(("reshape", lambda: tracker.reshape(other), lambda: array.reshape(other)))
    return found


def _other_shape(count: int, lot: int) -> tuple[int, ...]:
    """Three axes of so many positions."""
    rows = [size for size in range(1, min(count, 64) + 1) if count % size == 0]
    first = rows[lot % len(rows)]
    columns = [size for size in rows if count // first % size == 0]
    second = columns[lot // 7 % len(columns)]
    return first, second, count // first // second
