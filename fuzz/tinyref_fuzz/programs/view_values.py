"""What a view shows: keys for brackets, orders of axes, bounds; drawn so that something changes."""

from __future__ import annotations

from collections.abc import Callable

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.steps import Value


def draw_key(tape: Tape, shape: tuple[int, ...], lists: bool = False) -> tuple[Value, ...]:
    """A key for brackets: numbers, slices with steps of both signs, and perhaps places."""
    key: list[Value] = []
    for size in shape[: tape.between(1, len(shape))]:
        kinds = ("slice", "number", "step", "all", "places")
        kind = tape.pick(kinds, (3, 2, 4, 2, 1 if lists and not key else 0))
        if not size or kind == "all":
            key.append((None, None, None))
        elif kind == "number":
            key.append(tape.between(-size, size - 1))
        elif kind == "places":
            first = tape.below(size)
            key.append(("places", tuple(dict.fromkeys((first, tape.below(size))))))
            break
        else:
            key.append(_slice(tape, size, kind == "step"))
    return tuple(key)


def _slice(tape: Tape, size: int, has_step: bool) -> Value:
    low = tape.below(size)
    high = tape.between(low + 1, size)
    if not has_step:
        return (low, high, None)
    step = tape.pick((-1, 2, -2, 3, -3))
    if step > 0:
        return (low, high, step)
    return (high - 1, low - 1 if low else None, step)


def _index_values(tape: Tape, array: Array) -> tuple[Value, ...] | None:
    return (draw_key(tape, array.shape),) if array.shape else None


def _permute_values(tape: Tape, array: Array) -> tuple[Value, ...] | None:
    rank = array.places.ndim
    if rank < 2:
        return None
    by = tape.between(1, rank - 1)
    order = tuple((axis + by) % rank for axis in range(rank))
    return (order,)


def _flip_values(tape: Tape, array: Array) -> tuple[Value, ...] | None:
    axes = tuple(axis for axis in range(array.places.ndim) if tape.chance(50))
    return (axes,) if any(array.shape[axis] > 1 for axis in axes) else None


def _reshape_values(tape: Tape, array: Array) -> tuple[Value, ...] | None:
    count = array.places.size
    pairs = [(d, count // d) for d in range(2, count) if count % d == 0]
    choices: list[tuple[int, ...]] = [(count,), (1, *array.shape), (*array.shape, 1), *pairs]
    found = tape.pick(choices)
    return (found,) if found != array.shape else None


def _shrink_values(tape: Tape, array: Array) -> tuple[Value, ...] | None:
    bounds = []
    for size in array.shape:
        low = tape.below(size) if size else 0
        bounds.append((low, tape.between(low + 1, size) if size else 0))
    is_whole = all(pair == (0, size) for pair, size in zip(bounds, array.shape, strict=True))
    return None if is_whole else (tuple(bounds),)


def _expand_values(tape: Tape, array: Array) -> tuple[Value, ...] | None:
    ones = [axis for axis, size in enumerate(array.shape) if size == 1]
    if not ones:
        return None
    axis = tape.pick(ones)
    return ((*array.shape[:axis], tape.between(2, 3), *array.shape[axis + 1 :]),)


def _bitcast_values(tape: Tape, array: Array) -> tuple[Value, ...] | None:
    other = {"int32": "uint32", "uint32": "int32"}.get(array.dtype)
    return None if other is None else (other,)


VIEW_VALUES: dict[str, Callable[[Tape, Array], tuple[Value, ...] | None]] = {
    "index": _index_values,
    "permute": _permute_values,
    "flip": _flip_values,
    "reshape": _reshape_values,
    "shrink": _shrink_values,
    "expand": _expand_values,
    "bitcast": _bitcast_values,
    "detach": lambda tape, array: (),
}
