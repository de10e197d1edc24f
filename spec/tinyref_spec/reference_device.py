"""A device that evaluates kernel ASTs directly: what the tables themselves are tested with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.runtimes.red_zones import POISONS
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU
from tinyref.uops.program import Program
from tinyref_spec.bits import Array
from tinyref_spec.device_under_test import (
    DeviceUnderTest,
    Inputs,
    Optimised,
    Runnable,
    slots_of,
)


class ReferenceDevice(DeviceUnderTest):
    """Runs ASTs by the AST evaluator, in host memory; it has no programs and no memory of its own.

    Against it the tables check themselves: it must pass every case that is an AST.
    """

    def __init__(self) -> None:
        super().__init__("PYTHON")

    @property
    def capabilities(self) -> Capabilities:
        """Every dtype and every op."""
        names = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
        return Capabilities(frozenset(dtypes.all), names, vector_lanes=(1, 2, 4, 8, 16))

    def run_ast(
        self,
        ast: UOp,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        """The written slots by the evaluator; what it does not write keeps the poison."""
        slots = slots_of(ast)
        buffers = {}
        for slot in slots:
            data = inputs[slot.number]
            raw = np.full(slot.size * slot.dtype.itemsize, poison, dtype=np.uint8)
            buffers[slot.number] = (
                raw.view(numpy_dtype(slot.dtype)) if data is None else data.reshape(-1).copy()
            )
        written = evaluate(ast, buffers, bindings or {})
        return [written[slot.number] for slot in slots if slot.is_written]

    def run_optimised(
        self,
        kernel: Optimised,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        """The value of the AST, which no optimisation may change."""
        return self.run_ast(kernel.ast, inputs, bindings, poison)

    def run_program(
        self,
        program: Program,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        """Refused: a program is not an AST."""
        raise UserError("reference device: runs kernel ASTs only")

    def source(self, kernel: Runnable) -> str:
        """It compiles nothing."""
        return ""
