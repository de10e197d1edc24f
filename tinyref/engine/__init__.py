"""Runs schedules: kernels, copies, counters."""
