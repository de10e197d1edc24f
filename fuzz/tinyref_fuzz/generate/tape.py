"""The choice tape: every decision of a generator, drawn from a seed or replayed from a list.

A case is its tape: the same choices build the same kernel and the same data on any machine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

from tinyref.errors import UserError

T = TypeVar("T")


class Tape:
    """Draws choices from `seed`, or replays `choices`; both record what was chosen.

    A replayed tape that is too short goes on with zeros, and a choice that is out of range is
    brought into it, so that a tape cut or edited by a reducer still builds a case.
    """

    def __init__(self, seed: int | None = None, choices: Sequence[int] | None = None) -> None:
        if (seed is None) == (choices is None):
            raise UserError("tape: give a seed or a list of choices, and not both")
        self._random = Random(seed) if seed is not None else None
        self._given = list(choices or ())
        self.choices: list[int] = []

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1. Raises `UserError` when there is none."""
        if bound < 1:
            raise UserError(f"tape: nothing to choose from below {bound}")
        self.choices.append(self._number(bound))
        return self.choices[-1]

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """One of `items`; the first is the simplest, which reducers move towards.

        `weights`, one each, sway a draw from a seed: those of 0 are not drawn, unless all are 0.
        What is recorded is the number of the item, so that a replay does not need them. Raises
        `UserError` for another number of weights.
        """
        fraction = None if weights is None else self._fraction
        if weights is None or fraction is None:
            return items[self.below(len(items))]
        if len(weights) != len(items):
            raise UserError(f"tape: {len(weights)} weights for {len(items)} items")
        ends = list(accumulate(weights))
        if not ends or ends[-1] <= 0:
            return items[self.below(len(items))]
        chosen = bisect_right(ends, fraction() * ends[-1])
        self.choices.append(min(chosen, len(items) - 1))
        return items[self.choices[-1]]

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 draws; the choice 0 means False."""
        return self.below(100) >= 100 - percent

    # Where choices come from: another source overrides these two.

    def _number(self, bound: int) -> int:
        if self._random is not None:
            return self._random.randrange(bound)
        place = len(self.choices)
        return self._given[place] % bound if place < len(self._given) else 0

    @property
    def _fraction(self) -> Callable[[], float] | None:
        """Draws a number from 0 up to 1, by which weights sway; None where choices are given."""
        return None if self._random is None else self._random.random
