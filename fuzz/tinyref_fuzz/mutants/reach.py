"""Which units of a lane reach which blocks: recorded once of the healthy compiler.

A unit that does not reach an edited block runs the same code with the mutant as without, and cannot
find it. So a mutant takes those that reach it, and a lane that has none lets it live at no cost.
What a unit gets from a cache that another one filled is not seen where no cache of tinyref is: such
a kill is missed, never made up. A block that runs before the first unit may change any of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tinyref_fuzz.mutants.blocks import Block, Marks

if TYPE_CHECKING:
    from tinyref_fuzz.mutants.lanes import Lane
    from tinyref_fuzz.mutants.trial import Request


@dataclass
class Table:
    """The units that the healthy compiler passes, in their order, and the blocks of each.

    code: the sources. seconds: of each unit, of the processor. blocks: the numbers of those that it
    reaches. prepared: of those that ran before any unit. failing: what the others showed, by name.
    """

    code: str
    names: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    blocks: list[list[int]] = field(default_factory=list)
    prepared: frozenset[int] = frozenset()
    failing: dict[str, str] = field(default_factory=dict)

    def reaching(self, number: int) -> set[str]:
        """The units that reach a block."""
        found = zip(self.names, self.blocks, strict=True)
        return {name for name, blocks in found if number in blocks}

    def select(self, block: Block | None, room: str) -> list[str]:
        """The units that can find an edit in a block, first those that will do so soonest.

        Of each group the first come before the seconds; quick ones, and tests of the room, before
        others. None as the block is an edit that works at import.
        """
        reaching = self.reaching(block.number) if block is not None else set()
        is_early = block is None or block.number in self.prepared
        chosen = [name for name in self.names if is_early or name in reaching]
        seconds = dict(zip(self.names, self.seconds, strict=True))
        chosen.sort(key=lambda name: (name not in reaching, seconds[name]))
        return in_turns(chosen, lambda name: (name not in reaching, not _is_of(name, room)))

    def save(self, file: Path) -> None:
        """Writes it whole or not at all."""
        counts = np.array([len(each) for each in self.blocks], np.int64)
        words = json.dumps({"code": self.code, "names": self.names, "failing": self.failing})
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial.npz")
        np.savez_compressed(
            partial,
            words=np.array(words),
            seconds=np.array(self.seconds),
            counts=counts,
            blocks=np.array([number for each in self.blocks for number in each], np.uint32),
            prepared=np.array(sorted(self.prepared), np.uint32),
        )
        partial.replace(file)

    @staticmethod
    def load(file: Path) -> Table:
        """As `save` wrote it."""
        with np.load(file) as data:
            words = json.loads(str(data["words"]))
            ends = np.cumsum(data["counts"])
            parts = np.split(data["blocks"], ends[:-1]) if len(ends) else []
            return Table(
                words["code"],
                words["names"],
                data["seconds"].tolist(),
                [part.tolist() for part in parts],
                frozenset(data["prepared"].tolist()),
                words["failing"],
            )


def _is_of(name: str, room: str) -> bool:
    return name.startswith(f"tests/{room}/")


def group_of(name: str) -> str:
    """The units that are like this one: tests of a file, cases of a row."""
    if "::" in name:
        return name.partition("::")[0]
    return name.rpartition(":")[0] or name


def in_turns(
    names: Sequence[str], key: Callable[[str], tuple[bool, ...]] = lambda name: ()
) -> list[str]:
    """The first of every group, then the second ones; before that by a key."""
    ranks: Counter[str] = Counter()
    keys = {}
    for name in names:
        group = group_of(name)
        keys[name] = (*key(name)[:1], ranks[group], *key(name)[1:])
        ranks[group] += 1
    return sorted(names, key=keys.__getitem__)


def record(
    lane: Lane,
    request: Request,
    marks: Marks,
    table: Table,
    limit: float,
    beat: Callable[[str, int], None],
) -> None:
    """Fills a table: runs each unit with empty caches, until their seconds are `limit`."""
    from tinyref_fuzz.judge.caches import forget
    from tinyref_fuzz.mutants.trial import Clock

    lane.begin(request)
    total = 0.0
    for number, name in enumerate(lane.names()):
        if total >= limit:
            break
        beat(name, number)
        forget()
        marks.take()
        clock = Clock()
        failure = lane.run(name)
        seconds = clock.processor
        total += seconds
        if failure is not None:
            table.failing[name] = failure.detail
            continue
        table.names.append(lane.recorded(name))
        table.seconds.append(seconds)
        table.blocks.append(marks.take())
