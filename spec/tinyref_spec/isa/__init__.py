"""Primitive operations: special cases as literals, sample batches, exhaustive small types."""
