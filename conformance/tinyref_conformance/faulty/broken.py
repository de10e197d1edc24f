"""What broken devices have in common: the PYTHON device with wrong semantics or memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy.typing as npt

from tinyref import config
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


class UncheckedKernel(BrokenKernel):
    """Runs without the sanitizer, which would report the fault before the suite could."""

    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        with config.Context(SANITIZE=0):
            return super().__call__(*arguments, **named)


class BrokenBackend(TextBackend):
    """A device with one fault: subclasses give `wrong` semantics of ops, `hooks` or a `kernel`."""

    wrong: ClassVar[Mapping[Ops, Override]] = {}
    hooks: ClassVar[Hooks] = Hooks()
    kernel: ClassVar[type[BrokenKernel]] = BrokenKernel

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return self.kernel(self.name, healthy.program, self.wrong, self.hooks)


def right(op: Ops, dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    """What the op table says."""
    return semantics.apply(op, dtype, operands, sources)
