"""Tensor functions: forward and backward against float64 references with derived bounds."""
