"""Cores and memory that this process may use, by affinity and control groups.

Control groups of both versions are read as Linux presents them; other systems have none.
"""

from __future__ import annotations

import functools
import math
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# Share of the memory that all workers together may use.
MEMORY_SHARE = 0.8
# A worker holds a Python with numpy, a compiler and the buffers of a case.
LEAST_WORKER_BYTES = 512 << 20
# `gc.set_threshold` of our processes: they make many lasting objects and few cycles. With Python's
# defaults a quarter of their start is spent searching for cycles.
GARBAGE_THRESHOLD = (10_000, 20, 20)
_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return how many processors this process may keep busy."""
    return int(max(1, min(_processors(), _core_limit())))


@functools.cache
def _core_limit() -> float:
    """Return how many processors the control groups grant; read once, as every launch asks."""
    limits = (_quota(folder) for folder in _folders("cpu"))
    granted = (math.ceil(quota / period) for quota, period in limits if quota and period)
    return min(granted, default=math.inf)


def usable_memory() -> int:
    """Return how many bytes the workers of this process may hold together."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in _folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(_read(folder / name))
            if limit > 0:
                most = min(most, limit)
    return int(most * MEMORY_SHARE)


def share_of_memory(limit: int | None, workers: int, most: int | None = None) -> int:
    """Return the bytes that one worker may hold: `limit`, or its share of the machine.

    most: bytes that all workers may hold together, if less than the machine has.
    """
    if limit is not None:
        return limit
    usable = usable_memory()
    return (usable if most is None else min(usable, most)) // workers


def bounded_jobs(asked: int, worker_bytes: int | None = None) -> int:
    """Return how many of the requested workers fit; 0 requests one a core."""
    fitting = usable_memory() // (worker_bytes or LEAST_WORKER_BYTES)
    return max(1, min(asked or usable_cores(), fitting))


def memory_kills() -> int:
    """Return how many processes the system ended for lack of memory, of our group if known."""
    for folder in _folders("memory"):
        for name in ("memory.events", "memory.oom_control"):
            kills = _field(_read(folder / name), "oom_kill")
            if kills is not None:
                return kills
    return _field(_read(Path("/proc/vmstat")), "oom_kill") or 0


def seconds_without_processor() -> float:
    """Return how long this thread waited for a processor that others used; 0 if unknown."""
    fields = _read(Path("/proc/thread-self/schedstat")).split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def processor_seconds() -> dict[int, float]:
    """Return the processor time of each session: of its processes and their ended children.

    The key of a session is the process that started it. Empty if the system does not tell.
    """
    ticks: Counter[int] = Counter()
    for path in Path("/proc").glob("[0-9]*/stat"):
        # The program name is in parentheses and may contain spaces and parentheses.
        fields = _read(path).rpartition(")")[2].split()
        if len(fields) > 14:
            ticks[int(fields[3])] += sum(map(int, fields[11:15]))
    rate = os.sysconf("SC_CLK_TCK")
    return {session: count / rate for session, count in ticks.items()}


def seconds_of_children() -> float:
    """Return the processor time of all ended processes that this one started."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _processors() -> int:
    # Python 3.13 respects PYTHON_CPU_COUNT; before that, affinity must do.
    count = getattr(os, "process_cpu_count", None)
    if count is not None:
        return count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _folders(controller: str) -> Iterator[Path]:
    """Yield the folders of our group under a controller, then of its parents, innermost first."""
    for line in _read(_MEMBERSHIP).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            tops = [_GROUPS, _GROUPS / "unified"]
        elif controller in controllers.split(","):
            tops = [_GROUPS / controllers, _GROUPS / controller]
        else:
            continue
        inner = Path(path.lstrip("/"))
        for top in tops:
            # In a container the path may be the host's: then only the top exists.
            yield from (top / group for group in (inner, *inner.parents))


def _quota(folder: Path) -> tuple[int, int]:
    """Return microseconds of processor per period, and the period; 0 if there is no limit."""
    words = _read(folder / "cpu.max").split()
    if len(words) == 2:
        return _number(words[0]), _number(words[1])
    quota = _number(_read(folder / "cpu.cfs_quota_us"))
    return quota, _number(_read(folder / "cpu.cfs_period_us"))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _number(text: str) -> int:
    """Return the number in a file; 0 for "max", -1, and anything that is not a number."""
    word = text.strip()
    return int(word) if word.isdecimal() else 0


def _field(text: str, name: str) -> int | None:
    """Return the number after a name, in a file with one name and number a line."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdecimal():
            return int(value)
    return None
