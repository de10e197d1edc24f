"""Devices without caches: what is wrong with the compiler or the evaluator shows at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.runtimes.red_zones import POISONS
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU
from tinyref.uops.program import Program
from tinyref_spec.bits import Array
from tinyref_spec.device_under_test import DeviceUnderTest, Inputs, Optimised, Runnable, slots_of


class UncachedDevice(DeviceUnderTest):
    """A device with any capabilities in host memory; `compute` says what a kernel gives."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__("PYTHON")
        self.declared = capabilities

    @property
    def capabilities(self) -> Capabilities:
        return self.declared

    def run(
        self,
        kernel: Runnable,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        slots = slots_of(kernel)
        buffers = {}
        for slot in slots:
            data = inputs[slot.number]
            raw = np.full(slot.size * slot.dtype.itemsize, poison, np.uint8)
            poisoned = raw.view(numpy_dtype(slot.dtype))
            buffers[slot.number] = poisoned if data is None else data.reshape(-1).copy()
        written = self.compute(kernel, buffers, bindings or {})
        return [written[slot.number] for slot in slots if slot.is_written]

    def compute(
        self, kernel: Runnable, buffers: dict[int, Array], bindings: Mapping[str, int]
    ) -> Mapping[int, Array]:
        """Return the buffers that a kernel writes, by slot; it may write in place."""
        raise NotImplementedError

    def source(self, kernel: Runnable) -> str:
        return ""

    def forms(self, kernel: Runnable) -> tuple[str, ...]:
        return ()


class SimulatedDevice(UncachedDevice):
    """A device of any capabilities, played by the interpreter."""

    def __init__(self, capabilities: Capabilities, is_sanitized: bool = True) -> None:
        super().__init__(capabilities)
        self.is_sanitized = is_sanitized

    def compute(
        self, kernel: Runnable, buffers: dict[int, Array], bindings: Mapping[str, int]
    ) -> Mapping[int, Array]:
        program = kernel if isinstance(kernel, Program) else self._compiled(kernel)
        run_program(program, list(buffers.values()), bindings, sanitize=self.is_sanitized)
        return buffers

    def _compiled(self, kernel: UOp | Optimised) -> Program:
        if isinstance(kernel, Optimised):
            return compile_kernel(kernel.ast, self.declared, opts=kernel.opts)
        return compile_kernel(kernel, self.declared)


class ReferenceDevice(UncachedDevice):
    """Runs ASTs by the AST evaluator: it must pass every case that is an AST, of any type and op.

    What a kernel does not write keeps the poison.
    """

    def __init__(self) -> None:
        names = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
        lanes = (1, 2, 4, 8, 16)
        super().__init__(Capabilities(frozenset(dtypes.all), names, vector_lanes=lanes))

    def compute(
        self, kernel: Runnable, buffers: dict[int, Array], bindings: Mapping[str, int]
    ) -> Mapping[int, Array]:
        if isinstance(kernel, Program):
            raise UserError("reference device: runs kernel ASTs only")
        return evaluate(kernel.ast if isinstance(kernel, Optimised) else kernel, buffers, bindings)
