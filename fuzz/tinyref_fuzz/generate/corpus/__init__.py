"""Harvest kernels from programs, and read and write collections of them."""
