"""Speed of a host's computation and memory, from which the loop heuristics estimate times.

`tinyref bench --machine` measures the host and stores its description in the cache folder. Before
that, and with the flag MACHINE=0, the description is `FIXED`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinyref.foreign import dataclass_from

# A memory slower than this fraction of the fastest does not count as a small cache.
_SLOWER = 0.85


@dataclass(frozen=True)
class MemoryLevel:
    """A memory of `size` bytes and the rate at which reading it again and again proceeds."""

    size: int
    bytes_per_ns: float


@dataclass(frozen=True)
class Machine:
    """One thread of a host, and the time to wake other threads.

    origin: "fixed", or what was measured and when.
    operations_per_ns: elementary float32 operations, in vectors, per nanosecond.
    levels: the memory, small caches first; larger data are read at the rate of the last.
    thread_ns: nanoseconds until threads are awake.
    """

    origin: str
    operations_per_ns: float
    levels: tuple[MemoryLevel, ...]
    thread_ns: float

    def bytes_per_ns(self, size: int) -> float:
        """Return the rate for `size` bytes: of the smallest memory that they fit in."""
        fitting = (level for level in self.levels if size <= level.size)
        return next(fitting, self.levels[-1]).bytes_per_ns

    def nanoseconds(self, operations: float, size: int = 0) -> float:
        """Estimate the time of this many operations that access `size` bytes once."""
        return operations / self.operations_per_ns + size / self.bytes_per_ns(size)

    @property
    def small_cache(self) -> int:
        """Return the bytes of the largest memory that is about as fast as the smallest."""
        fastest = self.levels[0].bytes_per_ns
        size = self.levels[0].size
        for level in self.levels:
            if level.bytes_per_ns < _SLOWER * fastest:
                break
            size = level.size
        return size

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, in a form that sorts and compares."""
        members = dataclasses.asdict(self)
        return members | {"levels": list(members["levels"])}

    @classmethod
    def from_json(cls, data: object) -> Machine:
        """Read the output of `to_json`. Raises `ValueError` if it is not valid."""
        if not isinstance(data, Mapping):
            raise ValueError(f"a {type(data).__name__}, expected is an object")
        levels = data.get("levels")
        if not isinstance(levels, list):
            raise ValueError("levels is not a list")
        read = [dataclass_from(MemoryLevel, level) for level in levels]
        machine = dataclass_from(cls, {**data, "levels": read})
        problem = problem_of(machine)
        if problem is not None:
            raise ValueError(problem)
        return machine


def problem_of(machine: Machine) -> str | None:
    """Return the first invalid member: its name, value and what is accepted; None if all fit."""
    if not machine.levels:
        return "levels is empty: accepted is at least one"
    numbers = {
        "operations_per_ns": machine.operations_per_ns,
        "thread_ns": machine.thread_ns,
        **{f"bytes_per_ns of {level.size} bytes": level.bytes_per_ns for level in machine.levels},
    }
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            return f"{name} is {value!r}: accepted are finite numbers above 0"
    sizes = [level.size for level in machine.levels]
    if min(sizes) < 1 or sorted(set(sizes)) != sizes:
        return f"the sizes of levels are {sizes}: accepted are rising ones from 1"
    return None


# A core with vectors of 64 bytes and caches of 32 KiB, 1 MiB and 32 MiB, in round numbers.
FIXED = Machine(
    origin="fixed",
    operations_per_ns=64.0,
    levels=(
        MemoryLevel(32 << 10, 128.0),
        MemoryLevel(1 << 20, 64.0),
        MemoryLevel(32 << 20, 32.0),
        MemoryLevel(1 << 30, 16.0),
    ),
    thread_ns=32768.0,
)
