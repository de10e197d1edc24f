"""Delta debugging: a shorter list that still shows what a longer one shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], attempt: Callable[[Sequence[T]], Sequence[T] | None]) -> Sequence[T]:
    """A list of which no single item can be left out, as far as `attempt` says.

    attempt: takes a shorter list and gives the one that shows it, which may be shorter still, or
    None where it does not show. The algorithm ddmin of Zeller and Hildebrandt, "Simplifying and
    Isolating Failure-Inducing Input", 2002: parts alone, then all but one part, then smaller parts.
    """
    parts = 2
    while items:
        parts = min(parts, len(items))
        size = -(-len(items) // parts)
        places = range(0, len(items), size)
        chunks = [items[at : at + size] for at in places] if len(places) > 1 else []
        rests = [[*items[:at], *items[at + size :]] for at in places]
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
    """The fewest of what came before that make something fail; None where all of it does not.

    fails: whether it does after a sequence. The last ones come first, as many as it takes: the
    first of those is needed, and of the others `ddmin` leaves what is. Where `is_late` it is the
    shortest so far.
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
    """The end of a list that does it, as short as doubling and halving find."""
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
    """What the first candidate comes to that shows it."""
    found = (attempt(candidate) for candidate in candidates)
    return next((shorter for shorter in found if shorter is not None), None)
