"""Kernels from programs: the harvest of them, collections of them on file, and one that ships."""
