"""Runs schedules: kernels, copies, counters."""

from tinyref.engine.accounting import GlobalCounters
from tinyref.engine.runner import realize, synchronize

__all__ = ["GlobalCounters", "realize", "synchronize"]
