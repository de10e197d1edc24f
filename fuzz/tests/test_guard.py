"""Guarded memory: forbidden changes are noticed, and poison is never a result."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.judge.guard import GuardedMemory, WrittenElements
from tinyref_spec.kernels.notation import load, shaped, store

FLAT = shaped(4)
EVERY_OTHER = FLAT.reshape((2, 2)).shrink(((0, 2), (0, 1)))


def copy_to(tracker: ShapeTracker, source: int = 1) -> UOp:
    """Return a kernel that copies `source` to slot 0, through `tracker` on both sides."""
    return build.sink(store(0, load(source, dtypes.int32, tracker, 4), tracker, 4))


CONTENTS = (np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32))


def outputs_of(ast: UOp) -> WrittenElements:
    return WrittenElements.of(ast, CONTENTS, {})


@pytest.fixture
def memory() -> GuardedMemory:
    return GuardedMemory(CONTENTS, outputs_of(copy_to(FLAT)))


# --- the layout -----------------------------------------------------------------------------------


def test_a_partly_written_slot_keeps_its_other_elements():
    memory = GuardedMemory(CONTENTS, outputs_of(copy_to(EVERY_OTHER)))
    memory.arrays()[0][::2] = 7
    assert memory.stray() == ""
    assert memory.results()[0].tolist() == [7, 1, 7, 3]
    memory.arrays()[0][3] = 3
    assert memory.stray() == "output b0: element 3 is written, but no store includes it"


# --- what changes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slot", "distance", "words"),
    [
        (0, -1, "the byte 1 before b0 changed from 0x5a to 0x5b"),
        (0, -200, "the byte 200 before b0 changed from 0x5a to 0x5b"),
        (0, 16, "before b1 changed from 0x5a to 0x5b"),
        (1, 16, "the byte 1 after b1 changed from 0x5a to 0x5b"),
        (1, 4, "element 1 of input b1 changed from 0x0b to 0x0c"),
    ],
)
def test_each_byte_that_must_stay_is_watched(memory, slot, distance, words):
    memory.memory[memory.starts[slot] + distance] += 1
    assert words in memory.problem()


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_the_device_has_the_same_layout(memory, device):
    buffers = memory.on_device(device)
    assert [buffer.offset for buffer in buffers] == memory.starts
    assert bytes(buffers[1].copy_out()) == CONTENTS[1].tobytes()
    allocator = Device[device].allocator
    allocator.copy_in(buffers[0].handle, memoryview(np.full(4, 9, np.int32)).cast("B"))
    memory.fetch()
    assert memory.problem() == ""
    assert memory.results()[0].tolist() == [9, 9, 9, 9]
