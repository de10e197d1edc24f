"""What a kernel of the corpus is, and families of them that are written in one module."""

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
        """Contents of each buffer by slot, outputs too: integers of any size, small floats."""
        return tuple(
            small_and_extreme(slot.dtype, slot.size, slot.number + 1) for slot in slots_of(self.ast)
        )


class KernelFamily:
    """Kernels that are written in one module."""

    def __init__(self) -> None:
        self.kernels: list[CorpusKernel] = []

    @contextmanager
    def kernel(self, name: str, outputs: int = 1, **bindings: int) -> Iterator[Sketch]:
        """Adds the kernel that the block writes."""
        sketch = Sketch(outputs)
        yield sketch
        self.add(name, build.sink(*sketch.stores), **bindings)

    def add(self, name: str, ast: UOp, **bindings: int) -> None:
        """Adds a kernel that has a name in the library."""
        self.kernels.append(CorpusKernel(name, ast, MappingProxyType(bindings)))
