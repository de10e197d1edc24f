"""Runs schedules: kernels, copies, counters."""

from tinyref.engine.counters import GlobalCounters
from tinyref.engine.runner import RealizeError, realize, run, synchronize

__all__ = ["GlobalCounters", "RealizeError", "realize", "run", "synchronize"]
