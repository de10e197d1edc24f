"""A device without caches, of any capabilities: what is wrong with the compiler shows at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import numpy_dtype
from tinyref.interpret import run_program
from tinyref.runtimes.red_zones import POISONS
from tinyref_spec.bits import Array
from tinyref_spec.device_under_test import DeviceUnderTest, Inputs, Optimised, Runnable, slots_of


class SimulatedDevice(DeviceUnderTest):
    """A device with any capabilities, played by the interpreter; it keeps no kernel."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__("PYTHON")
        self.declared = capabilities

    @property
    def capabilities(self) -> Capabilities:
        return self.declared

    def run_optimised(
        self,
        kernel: Optimised,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        program = compile_kernel(kernel.ast, self.declared, opts=kernel.opts)
        slots = slots_of(kernel.ast)
        buffers = []
        for slot in slots:
            data = inputs[slot.number]
            raw = np.full(slot.size * slot.dtype.itemsize, poison, np.uint8)
            buffers.append(raw.view(numpy_dtype(slot.dtype)) if data is None else data.copy())
        run_program(program, buffers, bindings)
        return [buffers[slot.number] for slot in slots if slot.is_written]

    def source(self, kernel: Runnable) -> str:
        return ""

    def forms(self, kernel: Runnable) -> tuple[str, ...]:
        return ()
