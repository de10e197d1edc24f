"""The level `system`: replay, symbolic shapes, memory, transfers, many kernels."""
