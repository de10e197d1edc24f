"""Direct programs of field faults: Tensors, kernels and programs, run without the suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_conformance.faulty.device import Array
from tinyref_conformance.faulty.field.fault import DirectProgram
from tinyref_spec.device_under_test import DeviceUnderTest, Runnable
from tinyref_spec.kernel.programs import INT, at, item_index, program, subtract


def compute(expression: Callable[[str], Tensor], *expected: float) -> DirectProgram:
    """Return the program that computes a Tensor; `expression` takes the name of the device."""
    return DirectProgram(lambda device: _numbers(expression(device).numpy()), expected)


def launch(
    kernel: Runnable, inputs: Sequence[Array | None], *expected: float, take: slice = slice(None)
) -> DirectProgram:
    """Return the program that launches `kernel` once and reads `take` of its first output.

    inputs: an array for each slot, None for an output.
    """

    def values(device: str) -> list[float]:
        return _numbers(DeviceUnderTest(device).run(kernel, inputs)[0][take])

    return DirectProgram(values, expected)


def reversed_in_group(size: int) -> tuple[Program, list[Array | None]]:
    """Return a program that reverses 0 .. size - 1 through shared memory, and its inputs."""
    out, data = build.define_global(0, INT, size), build.define_global(1, INT, size)
    shared, item = build.define_local("shared", INT, size), item_index(size)
    put = build.store(at(shared, item), build.load(at(data, item)))
    took = build.load(at(shared, subtract(size - 1, item)))
    kernel = program(
        "reverse", put, build.barrier(), build.store(at(out, item), took), group=(size, 1, 1)
    )
    return kernel, [None, np.arange(size, dtype=np.int32)]


def _numbers(array: Array) -> list[float]:
    return [float(number) for number in np.asarray(array).reshape(-1)]
