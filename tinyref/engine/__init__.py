"""Runs schedules: kernels, copies, counters."""

from tinyref.engine.counters import GlobalCounters
from tinyref.engine.runner import Outcome, RealizeError, realize, run, synchronize

__all__ = ["GlobalCounters", "Outcome", "RealizeError", "realize", "run", "synchronize"]
