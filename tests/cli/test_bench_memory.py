"""The row `memory.step` of `tinyref bench`."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.cli.bench.speed import peer_of
from tinyref.cli.bench.system import LiveStorages, peak_of_step, torch_peak_of_step
from tinyref.cli.bench.works import SMALL_MODELS

# 206 weights, each with its gradient and two means of Adam; 100 pixels and 4 labels.
LEAST_OF_MLP = (4 * 206 + 104) * 4


def test_the_peak_of_a_step_holds_weights_and_means() -> None:
    """What is between is at most as much again for so small a network."""
    peak = peak_of_step(SMALL_MODELS[0]) * 2**20
    assert LEAST_OF_MLP <= peak <= 2 * LEAST_OF_MLP


@pytest.mark.long
def test_the_peak_of_torch_is_that_of_its_storages() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    live = LiveStorages()
    with live.watched(torch):
        start = torch.from_numpy(np.zeros(1000, np.float32))
        view = (start + 1).view(10, 100)
        again = view * 2
        del view
        assert (live.now, live.peak) == (8000, 12_000)
        del start, again
    assert live.now == 0
    peak = torch_peak_of_step(SMALL_MODELS[0], peer_of("CPU")) * 2**20
    assert LEAST_OF_MLP <= peak <= 2 * LEAST_OF_MLP
