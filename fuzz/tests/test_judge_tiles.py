"""Roundings that a device may use in a matrix tile, and faults that it may not have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tinyref_fuzz.judge.trial as judging
from tinyref.dtype import dtypes
from tinyref.optimise.opt import parse_opts
from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.judge.oracles import STRICT, Arithmetic, oracle_for
from tinyref_spec.bits import Array
from tinyref_spec.kernel_case import KernelCase, Mode, Pair
from tinyref_spec.kernels.named import matmul

TILES = Arithmetic(multiplies_tiles=True)
# Values of the last element, 1 * X + 3 * Y, if float64 rounds once or twice.
X, Y = 1.8572722664554366, 5.884108673321867
FUSED, ROUNDED = 19.50959828642104, 19.509598286421035


def product(mode: Mode = Mode.FLOAT) -> KernelCase:
    """Return a matrix product for the tile of float64, whose last element sums two products."""
    left, right = np.zeros((8, 4)), np.zeros((4, 8))
    left[7, 2:] = (1.0, 3.0)
    right[2:, 7] = (X, Y) if mode is Mode.FLOAT else (2.0, 5.0)
    buffers = (np.zeros(64), left.reshape(-1), right.reshape(-1))
    tile = parse_opts("TC(0, 3, level 2, mode 1)")
    return KernelCase(matmul(8, 8, 4, dtypes.float64), buffers, opts=(tile,), mode=mode)


def last(value: float) -> Array:
    """Return the product whose last element is `value`."""
    return np.append(np.zeros(63), value)


@pytest.mark.parametrize(
    ("arithmetic", "value", "is_right"),
    [
        (STRICT, ROUNDED, True),
        (TILES, ROUNDED, True),
        (TILES, FUSED, True),
        # Both additions truncate instead of rounding.
        (TILES, ROUNDED - 2**-48, True),
        (TILES, ROUNDED - 2**-40, False),
        (TILES, X, False),
        (TILES, 3 * Y, False),
        (TILES, np.nan, False),
    ],
)
def test_products_may_be_exact_and_sums_cut_off(
    arithmetic: Arithmetic, value: float, is_right: bool
) -> None:
    problem = oracle_for(product(), arithmetic).difference(0, last(value))
    assert (problem == "") is is_right


@pytest.mark.parametrize(
    ("mode", "change", "is_right"),
    [
        (Mode.FLOAT, 0.0, True),
        (Mode.FLOAT, FUSED - ROUNDED, True),
        (Mode.FLOAT, 2**-40, False),
        # If every value is exact, nothing is rounded.
        (Mode.EXACT, 0.0, True),
        (Mode.EXACT, 2**-45, False),
    ],
)
def test_only_tiles_may_round_differently(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, change: float, is_right: bool
) -> None:
    """Check that only programs with tiles may differ: other differences are faults."""
    launch = judging.launch

    def changed(kernel, memory, bindings) -> Mapping[int, Array]:  # type: ignore[no-untyped-def]
        results: Mapping[int, Array] = launch(kernel, memory, bindings)
        if any(node.op.name == "WMMA" for node in kernel.program.uops):
            results[0][63] += change
        return results

    monkeypatch.setattr(judging, "launch", changed)
    verdict = Judge("GPU_EMU").verdict(product(mode), thorough=False)
    assert verdict.judged == 1 or not is_right
    assert verdict.pair is (None if is_right else Pair.DEVICE)
