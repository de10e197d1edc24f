"""Which cases come next, and which findings are worth an examination: decided by numbers alone.

So a campaign gives the same with any number of workers, in any order in which they answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tinyref_fuzz.campaign.database import StoredFinding
from tinyref_fuzz.campaign.task import CHUNK

# Of the findings that look alike so many are examined, and then each whose rank is a power of two.
EXAMINED_ALIKE = 4

Range = tuple[int, int]


def gaps(done: Sequence[Range], limit: int | None) -> Iterator[Range]:
    """The ranges that are left, in order, none across a multiple of `CHUNK`, below `limit`.

    done: sorted and disjoint. Without a limit they go on for ever.
    """
    ranges = iter(done)
    following = next(ranges, None)
    number = 0
    while limit is None or number < limit:
        if following is not None and number >= following[0]:
            number = max(number, following[1])
            following = next(ranges, None)
            continue
        stop = (number // CHUNK + 1) * CHUNK
        if following is not None:
            stop = min(stop, following[0])
        if limit is not None:
            stop = min(stop, limit)
        yield number, stop
        number = stop


@dataclass
class Frontier:
    """The number below which every case is done; chunks come in any order."""

    number: int = 0
    _ahead: dict[int, int] = field(default_factory=dict)

    def add(self, first: int, stop: int) -> None:
        """That range is done too."""
        self._ahead[first] = stop
        while self.number in self._ahead:
            self.number = self._ahead.pop(self.number)


@dataclass
class Triage:
    """Chooses findings to examine: rank counts the earlier ones that look alike."""

    _ranks: Counter[str] = field(default_factory=Counter)
    _unranked: list[StoredFinding] = field(default_factory=list)

    def add(self, finding: StoredFinding) -> None:
        """One more, of any number."""
        self._unranked.append(finding)

    def due(self, before: int | None) -> list[StoredFinding]:
        """Those to examine of the numbers below `before`, all of them without; each once."""
        ready: list[StoredFinding] = []
        waiting: list[StoredFinding] = []
        for finding in self._unranked:
            is_ready = before is None or finding.number < before
            (ready if is_ready else waiting).append(finding)
        self._unranked = waiting
        chosen = []
        for finding in sorted(ready, key=lambda each: each.number):
            self._ranks[finding.signature] += 1
            rank = self._ranks[finding.signature]
            if rank <= EXAMINED_ALIKE or rank & (rank - 1) == 0:
                chosen.append(finding)
        return chosen
