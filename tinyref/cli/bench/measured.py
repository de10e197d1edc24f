"""What a row of `tinyref bench` is, what it gives, and the facts of the machine beside it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tinyref import __version__
from tinyref.errors import TinyrefError
from tinyref.runtimes.host.description import host_machine, processor_name
from tinyref.workers.machine import usable_cores


@dataclass
class Measured:
    """One line of the table. `missing` says what the row needs that is not here.

    goal: what the median should be at most, None where nothing is asked for.
    """

    name: str
    unit: str
    values: list[float] = field(default_factory=list)
    peer_name: str = ""
    peer_values: list[float] = field(default_factory=list)
    note: str = ""
    missing: str = ""
    goal: float | None = None

    @property
    def meets_goal(self) -> bool:
        """Whether the median is what it should be."""
        return self.goal is None or self.median <= self.goal

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def peer_median(self) -> float:
        return statistics.median(self.peer_values)

    @property
    def ratio(self) -> float:
        """Of the medians, this to the peer, both of this run."""
        return self.median / self.peer_median

    def to_json(self) -> dict[str, Any]:
        if self.missing:
            return {"name": self.name, "missing": self.missing}
        found: dict[str, Any] = {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "values": self.values,
        }
        if self.peer_name:
            peer = {"name": self.peer_name, "median": self.peer_median, "values": self.peer_values}
            found |= {"peer": peer, "ratio": self.ratio}
        if self.goal is not None:
            found |= {"goal": self.goal, "meets_goal": self.meets_goal}
        return found | ({"note": self.note} if self.note else {})


@dataclass(frozen=True)
class BenchRow:
    """A name, or the common head of several, and what measures it."""

    name: str
    run: Callable[[int], Iterator[Measured]]


def measure(row: BenchRow, repeats: int) -> Iterator[Measured]:
    """The lines of a row; what the machine lacks is said, not skipped."""
    try:
        yield from row.run(repeats)
    except TinyrefError as error:
        yield Measured(row.name, "", missing=str(error).partition("\n")[0])


def facts() -> dict[str, Any]:
    """Versions and the machine, without which the numbers mean nothing."""
    from tinyref_conformance.certificate import surroundings

    try:
        load = list(os.getloadavg())
    except OSError:
        load = []
    return {
        "tinyref": __version__,
        "surroundings": surroundings(),
        "cores": usable_cores(),
        "processor": processor_name(),
        "machine": host_machine().to_json(),
        "load_average": load,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
