"""Equal accesses between which memory changes are two, on every device and in every form."""

from __future__ import annotations

import numpy as np
import pytest
from elementwise_programs import fill, read

from tinyref.codegen.linearise import linearise
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.formats.json_format import from_json, to_json
from tinyref.formats.text import from_text, to_text
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.payload import MemoryVersionArg
from tinyref.uops.program import Parameter, Program

i32 = dtypes.int32
DEVICES = [name for name in ("PYTHON", "CPU", "CLANG") if Device.availability(name).works]


def subject() -> Program:
    """data[0] is read, raised by 5, read again, set to what it was, and read once more."""
    data, out = build.define_global(0, i32, 1), build.define_global(1, i32, 3)

    def at(memory: UOp, place: int = 0) -> UOp:
        return build.index(memory, build.const(i32, place))

    first = build.load(at(data))
    raised = build.store(at(build.after(data, first)), build.add(first, 5))
    second = build.load(at(build.after(data, raised)))
    reset = build.store(at(build.after(data, second)), first)
    third = build.load(at(build.after(data, reset)))
    stores = [build.store(at(out, place), x) for place, x in enumerate((first, second, third))]
    parameters = (Parameter(0, i32, 1, True, True), Parameter(1, i32, 3, True, False))
    return Program("repeats", linearise(build.sink(*stores)), parameters)


@pytest.mark.parametrize("device", DEVICES)
def test_every_device_loads_again(device: str) -> None:
    buffers = [fill(device, np.array([7]), i32), fill(device, np.zeros(3), i32)]
    compile_program(device, subject())(buffers)
    assert list(read(buffers[1])) == [7, 12, 7]
    assert list(read(buffers[0])) == [7]


def test_text_and_json_keep_them_apart() -> None:
    uops = subject().uops
    versions = [node.arg.number for node in uops if isinstance(node.arg, MemoryVersionArg)]
    assert versions == [1, 2]
    assert "MemoryVersion{number=2}" in to_text(uops)
    assert from_text(to_text(uops)) == uops
    assert from_json(to_json(uops)) == uops
