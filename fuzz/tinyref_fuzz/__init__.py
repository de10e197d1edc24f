"""Differential fuzzing of kernels: generators, oracles, and a fixed-seed lane for CI."""
