"""Delta debugging: a shorter list that still shows what a longer one shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], attempt: Callable[[Sequence[T]], Sequence[T] | None]) -> Sequence[T]:
    """Return a list from which no single item can be left out, according to `attempt`.

    attempt: takes a shorter list and returns one that still shows the fault, maybe shorter still,
    or None. The algorithm is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating
    Failure-Inducing Input", 2002: parts alone, then all but one part, then smaller parts.
    """
    parts = 2
    while items:
        parts = min(parts, len(items))
        size = -(-len(items) // parts)
        starts = range(0, len(items), size)
        chunks = [items[at : at + size] for at in starts] if len(starts) > 1 else []
        rests = [[*items[:at], *items[at + size :]] for at in starts]
        shorter = _first(chunks, attempt)
        if shorter is not None:
            items, parts = shorter, 2
            continue
        shorter = _first(rests, attempt)
        if shorter is not None:
            items, parts = shorter, max(parts - 1, 2)
            continue
        if size == 1:
            break
        parts *= 2
    return items


def shortest_ending(
    before: Sequence[T],
    fails: Callable[[Sequence[T]], bool],
    is_late: Callable[[], bool] = lambda: False,
) -> Sequence[T] | None:
    """Return the fewest earlier items that make something fail; None if all of them do not.

    fails: returns True if it fails after a sequence. The shortest failing end of `before` is found
    first; its first item is needed, and `ddmin` shortens the rest. If `is_late`, the shortest so
    far is returned.
    """
    last = _failing_end(before, fails, is_late)
    if last is None:
        return None
    first, rest = last[:1], last[1:]

    def attempt(chosen: Sequence[T]) -> Sequence[T] | None:
        return chosen if fails([*first, *chosen]) else None

    return first if attempt([]) is not None else [*first, *ddmin(rest, attempt)]


def _failing_end(
    before: Sequence[T], fails: Callable[[Sequence[T]], bool], is_late: Callable[[], bool]
) -> Sequence[T] | None:
    """Return a short end of the list that fails, found by doubling and halving."""
    passing, failing = 0, 1
    while not fails(before[-failing:]):
        if failing >= len(before) or is_late():
            return None
        passing, failing = failing, min(2 * failing, len(before))
    while failing - passing > 1 and not is_late():
        middle = (failing + passing) // 2
        if fails(before[-middle:]):
            failing = middle
        else:
            passing = middle
    return before[-failing:]


def _first(
    candidates: Sequence[Sequence[T]], attempt: Callable[[Sequence[T]], Sequence[T] | None]
) -> Sequence[T] | None:
    """Return the first result of `attempt` that is not None."""
    results = (attempt(candidate) for candidate in candidates)
    return next((shorter for shorter in results if shorter is not None), None)
