"""Run kernel ASTs by the evaluator and on each kind of device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU

OPS = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
LOOPS = Capabilities(frozenset(dtypes.all), OPS)
GRID = replace(LOOPS, has_grid=True, has_groups=True)
# Limits that nearly every kernel exceeds, so axes are merged, split and padded.
SMALL_GRID = replace(GRID, grid_limit=(7, 5, 40))
DEVICES = {"loops": LOOPS, "grid": GRID, "small grid": SMALL_GRID}


def run_everywhere(
    ast: UOp,
    buffers: Mapping[int, Any],
    bindings: Mapping[str, int] | None = None,
) -> list[dict[int, np.ndarray]]:
    """Return the buffers that the kernel writes: by the AST evaluator, then by each device."""
    arrays = {slot: np.asarray(value) for slot, value in buffers.items()}
    results = [evaluate(ast, arrays, bindings)]
    for capabilities in DEVICES.values():
        program = compile_kernel(ast, capabilities)
        copies = [arrays[slot].copy() for slot in range(len(arrays))]
        run_program(program, copies, bindings)
        results.append({slot: copies[slot] for slot in results[0]})
    return results


def agree(
    ast: UOp,
    buffers: Mapping[int, Any],
    expected: Mapping[int, Sequence[Any]] | None = None,
    bindings: Mapping[str, int] | None = None,
    tolerance: float = 0.0,
) -> None:
    """Assert that all results are the same, and are `expected` if it is passed."""
    first, *others = run_everywhere(ast, buffers, bindings)
    for slot, values in (expected or {}).items():
        same(first[slot], np.asarray(values, first[slot].dtype), tolerance, "evaluator")
    for name, other in zip(DEVICES, others, strict=True):
        for slot, values in first.items():
            same(other[slot], values, tolerance, name)


def same(actual: np.ndarray, expected: np.ndarray, tolerance: float, where: str) -> None:
    assert actual.dtype == expected.dtype, where
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=where)
        return
    wide = actual.astype(np.float64)
    np.testing.assert_allclose(
        wide, expected.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=where
    )


def ramp(count: int, dtype: DType = dtypes.float32, start: int = 1) -> np.ndarray:
    """Return start, start + 1, ... as an array of `dtype`."""
    return np.arange(start, start + count).astype(numpy_dtype(dtype))
