"""CUDA_EMU: the text of CUDA on the host, with what an A100 declares."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref import Tensor, dtypes
from tinyref.device import Device
from tinyref.runtimes.cuda_compilers import capabilities_of


@pytest.fixture(autouse=True)
def _has_compiler() -> None:
    available = Device.availability("CUDA_EMU")
    if not available.works:
        pytest.skip(f"CUDA_EMU: {available.reason}")


def test_it_is_compiled_for_what_cuda_is() -> None:
    """Compile the text of the device CUDA: types, vectors, alignment and tiles are the same."""
    declared, real = Device["CUDA_EMU"].capabilities, capabilities_of((8, 0))
    assert {dtypes.float16, dtypes.bfloat16, dtypes.float64} <= declared.dtypes
    assert declared.dtypes == real.dtypes
    assert declared.vector_lanes == real.vector_lanes
    assert declared.view_alignment == real.view_alignment == 16
    assert [tile.name for tile in declared.matrix_tiles][:2] == [
        "nvidia_m16n8k16_float16_float32",
        "nvidia_m16n8k16_float16_float16",
    ]


def test_devices_are_numbered_and_copy_to_each_other() -> None:
    operands = np.arange(6, dtype=np.float32)
    moved = (Tensor(operands, device="CUDA_EMU:1") * 2).to("CUDA_EMU") + 1
    assert moved.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
