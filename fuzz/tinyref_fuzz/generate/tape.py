"""The choice tape: every decision of a generator, drawn from a seed or replayed from a list.

The same choices build the same kernel and the same data on any machine.
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
    """Source of choices, from `seed` or from `choices`; it records what was chosen.

    A replayed tape that is too short continues with zeros, and a choice that is out of range is
    wrapped. So a tape that a reducer cut or edited still builds a case.
    """

    def __init__(self, seed: int | None = None, choices: Sequence[int] | None = None) -> None:
        if (seed is None) == (choices is None):
            raise UserError("tape: give either a seed or a list of choices")
        self._random = Random(seed) if seed is not None else None
        self._replayed = list(choices or ())
        self.choices: list[int] = []

    def below(self, bound: int) -> int:
        """Choose a number from 0 to `bound` - 1. Raises `UserError` if `bound` is below 1."""
        if bound < 1:
            raise UserError(f"tape: there is no choice below {bound}")
        self.choices.append(self._number(bound))
        return self.choices[-1]

    def between(self, low: int, high: int) -> int:
        """Choose a number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """Choose one of `items`; the first is the simplest, which reducers move towards.

        `weights`, one for each item, bias a draw from a seed. An item of weight 0 is drawn only if
        all are 0. The tape records the number of the item, so a replay ignores weights. Raises
        `UserError` if the numbers of weights and items differ.
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
        """Return True in `percent` of 100 draws; the choice 0 means False."""
        return self.below(100) >= 100 - percent

    # The next two provide choices: other sources override them.

    def _number(self, bound: int) -> int:
        if self._random is not None:
            return self._random.randrange(bound)
        position = len(self.choices)
        return self._replayed[position] % bound if position < len(self._replayed) else 0

    @property
    def _fraction(self) -> Callable[[], float] | None:
        """Return the function that draws a number from 0 to 1 for weights; None in a replay."""
        return None if self._random is None else self._random.random
