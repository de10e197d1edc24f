"""The rows `memory.*` and `start.*` of `tinyref bench`."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tinyref.cli.bench import fresh
from tinyref.cli.bench.speed import peer_of
from tinyref.cli.bench.system import LiveStorages, peak_of_step, torch_peak_of_step
from tinyref.cli.bench.works import SMALL_MODELS
from tinyref.errors import UserError

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


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what was resident")
def test_a_process_says_how_much_it_had_resident() -> None:
    """LLVM alone takes 30 MiB and more."""
    assert 30 < fresh.resident_after(shapes=2) < 250
    with pytest.raises(UserError, match="invalid literal for int"):
        fresh.resident_after(shapes="none")  # type: ignore[arg-type]


@pytest.mark.long
def test_a_fresh_process_is_timed() -> None:
    started = fresh.milliseconds_of("pass")
    assert 0 < started < fresh.milliseconds_of("sum(range(20_000_000))")
