"""The kernel optimiser: how the iteration space of a kernel is cut, ordered and executed."""
