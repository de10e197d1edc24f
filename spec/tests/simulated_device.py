"""A device without caches, of any capabilities: what is wrong with the compiler shows at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import numpy_dtype
from tinyref.interpret import run_program
from tinyref.runtimes.red_zones import POISONS
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_spec.bits import Array
from tinyref_spec.device_under_test import DeviceUnderTest, Inputs, Optimised, Runnable, slots_of


class SimulatedDevice(DeviceUnderTest):
    """A device with any capabilities, played by the interpreter; it keeps no kernel."""

    def __init__(self, capabilities: Capabilities, is_sanitized: bool = True) -> None:
        super().__init__("PYTHON")
        self.declared = capabilities
        self.is_sanitized = is_sanitized

    @property
    def capabilities(self) -> Capabilities:
        return self.declared

    def run_ast(
        self,
        ast: UOp,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        return self._run(compile_kernel(ast, self.declared), ast, inputs, bindings, poison)

    def run_optimised(
        self,
        kernel: Optimised,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        program = compile_kernel(kernel.ast, self.declared, opts=kernel.opts)
        return self._run(program, kernel.ast, inputs, bindings, poison)

    def _run(
        self,
        program: Program,
        ast: UOp,
        inputs: Inputs,
        bindings: Mapping[str, int] | None,
        poison: int,
    ) -> list[Array]:
        slots = slots_of(ast)
        buffers = []
        for slot in slots:
            data = inputs[slot.number]
            raw = np.full(slot.size * slot.dtype.itemsize, poison, np.uint8)
            buffers.append(raw.view(numpy_dtype(slot.dtype)) if data is None else data.copy())
        run_program(program, buffers, bindings, sanitize=self.is_sanitized)
        return [buffers[slot.number] for slot in slots if slot.is_written]

    def source(self, kernel: Runnable) -> str:
        return ""

    def forms(self, kernel: Runnable) -> tuple[str, ...]:
        return ()
