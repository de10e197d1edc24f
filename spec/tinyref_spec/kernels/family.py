"""Kernels of the corpus, and families of those that are written in one module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref_spec.bits import Array
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.device_under_test import slots_of
from tinyref_spec.kernels.notation import Sketch


@dataclass(frozen=True)
class CorpusKernel:
    """One kernel with exact results; `bindings` has a value for each of its variables."""

    name: str
    ast: UOp
    bindings: Mapping[str, int] = field(default_factory=dict)

    def buffers(self) -> tuple[Array, ...]:
        """Return the contents of each buffer by slot: integers of any size, small floats."""
        return tuple(
            small_and_extreme(slot.dtype, slot.size, slot.number + 1) for slot in slots_of(self.ast)
        )


class KernelFamily:
    """Kernels that are written in one module."""

    def __init__(self) -> None:
        self.kernels: list[CorpusKernel] = []

    @contextmanager
    def kernel(self, name: str, outputs: int = 1, **bindings: int) -> Iterator[Sketch]:
        """Add the kernel that the block writes."""
        sketch = Sketch(outputs)
        yield sketch
        self.add(name, build.sink(*sketch.stores), **bindings)

    def add(self, name: str, ast: UOp, **bindings: int) -> None:
        """Add a kernel that has a name in the library."""
        self.kernels.append(CorpusKernel(name, ast, MappingProxyType(bindings)))
