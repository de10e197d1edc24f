"""Runs schedules: kernels, copies, counters."""

from tinyref.engine.counters import GlobalCounters
from tinyref.engine.runner import realize, run, synchronize

__all__ = ["GlobalCounters", "realize", "run", "synchronize"]
