"""How fast a host computes and reads memory: by it the heuristics for loops estimate times.

`tinyref bench --machine` measures the host and keeps its description in the cache folder; until
then, and with the flag MACHINE=0, it is taken for `FIXED`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinyref.foreign import dataclass_from

# A memory that is read at less than this part of the rate of the fastest is no small cache.
_SLOWER = 0.85


@dataclass(frozen=True)
class MemoryLevel:
    """What `size` bytes that are used again and again are read at, in bytes a nanosecond."""

    size: int
    bytes_per_ns: float


@dataclass(frozen=True)
class Machine:
    """One thread of a host, and what it takes to wake others.

    origin: "fixed", or of what and when it was measured. operations_per_ns: elementary operations
    on elements of float32, as vectors, in a nanosecond. levels: the memory, small caches first;
    what is larger than the last is read as that. thread_ns: nanoseconds until threads are awake.
    """

    origin: str
    operations_per_ns: float
    levels: tuple[MemoryLevel, ...]
    thread_ns: float

    def bytes_per_ns(self, size: int) -> float:
        """The rate at which `size` bytes are read that do not fit in a smaller memory."""
        fitting = (level for level in self.levels if size <= level.size)
        return next(fitting, self.levels[-1]).bytes_per_ns

    def nanoseconds(self, operations: float, size: int = 0) -> float:
        """An estimate of the time of so many operations that touch `size` bytes, each once."""
        return operations / self.operations_per_ns + size / self.bytes_per_ns(size)

    @property
    def small_cache(self) -> int:
        """The bytes of the largest memory that is about as fast as the smallest."""
        fastest = self.levels[0].bytes_per_ns
        found = self.levels[0].size
        for level in self.levels:
            if level.bytes_per_ns < _SLOWER * fastest:
                break
            found = level.size
        return found

    def to_json(self) -> dict[str, Any]:
        """In a form that sorts and compares."""
        found = dataclasses.asdict(self)
        return found | {"levels": list(found["levels"])}

    @classmethod
    def from_json(cls, data: object) -> Machine:
        """The machine again. Raises `ValueError` for what is none."""
        if not isinstance(data, Mapping):
            raise ValueError(f"a {type(data).__name__}, expected is an object")
        levels = data.get("levels")
        if not isinstance(levels, list):
            raise ValueError("levels is no list")
        read = [dataclass_from(MemoryLevel, level) for level in levels]
        found = dataclass_from(cls, {**data, "levels": read})
        problem = problem_of(found)
        if problem is not None:
            raise ValueError(problem)
        return found


def problem_of(machine: Machine) -> str | None:
    """What cannot be meant: the member, its value and what is accepted; None where nothing is."""
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
