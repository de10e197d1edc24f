"""Decide which cases come next, and which findings to examine, by their numbers alone.

So a campaign gives the same result with any number of workers, in any order of their answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tinyref_fuzz.campaign.database import StoredFinding
from tinyref_fuzz.campaign.task import CHUNK

# Number of similar findings to examine; after these, each whose rank is a power of two.
EXAMINED_ALIKE = 4

Range = tuple[int, int]


def gaps(done: Sequence[Range], limit: int | None) -> Iterator[Range]:
    """Yield the remaining ranges below `limit` in order, none across a multiple of `CHUNK`.

    `done` must be sorted and disjoint. Without a limit the ranges never end.
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
    """Number below which every case is done; chunks arrive in any order."""

    number: int = 0
    _ahead: dict[int, int] = field(default_factory=dict)

    def add(self, first: int, stop: int) -> None:
        """Add a range that is done."""
        self._ahead[first] = stop
        while self.number in self._ahead:
            self.number = self._ahead.pop(self.number)


@dataclass
class Triage:
    """Choice of findings to examine, by their rank among similar findings."""

    _ranks: Counter[str] = field(default_factory=Counter)
    _unranked: list[StoredFinding] = field(default_factory=list)

    def add(self, finding: StoredFinding) -> None:
        """Add a finding of any number."""
        self._unranked.append(finding)

    def due(self, before: int | None) -> list[StoredFinding]:
        """Return the findings below `before` to examine, each once; all findings for None."""
        ready: list[StoredFinding] = []
        waiting: list[StoredFinding] = []
        for finding in self._unranked:
            is_ready = before is None or finding.number < before
            (ready if is_ready else waiting).append(finding)
        self._unranked = waiting
        chosen = []
        for finding in sorted(ready, key=lambda item: item.number):
            self._ranks[finding.signature] += 1
            rank = self._ranks[finding.signature]
            if rank <= EXAMINED_ALIKE or rank & (rank - 1) == 0:
                chosen.append(finding)
        return chosen
