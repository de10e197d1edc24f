"""What broken devices have in common: the PYTHON device with wrong semantics or memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy.typing as npt

from tinyref.algebra import semantics
from tinyref.dtype import DType
from tinyref.interpret import Hooks, Interpreter
from tinyref.interpret.translate import Override
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program

Array = npt.NDArray[Any]


class BrokenKernel(InterpretedKernel):
    """A program whose interpreter is tampered with."""

    def __init__(
        self,
        device: str,
        program: Program,
        wrong: Mapping[Ops, Override],
        hooks: Hooks,
    ) -> None:
        super().__init__(device, program)
        self.interpreter = Interpreter(program, wrong, hooks)


class BrokenBackend(TextBackend):
    """A device with one fault: subclasses give `wrong` semantics of ops, or `hooks` on memory."""

    wrong: ClassVar[Mapping[Ops, Override]] = {}

    @property
    def hooks(self) -> Hooks:
        """How memory is tampered with; not at all unless a subclass says so."""
        return Hooks()

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return BrokenKernel(self.name, healthy.program, self.wrong, self.hooks)


def right(op: Ops, dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    """What the op table says."""
    return semantics.apply(op, dtype, operands, sources)
