"""What a kernel of the corpus is, and families of them that are written in one module."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyref.dtype import PtrDType, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.payload import SlotArg
from tinyref_spec.kernels.notation import Sketch

Array = npt.NDArray[np.generic]

TAGS = frozenset(
    {
        "elementwise",
        "broadcast",
        "transpose",
        "stride",
        "mask",
        "multi-view",
        "odd",
        "size-1",
        "size-0",
        "symbolic",
        "sum",
        "product",
        "maximum",
        "two-axes",
        "sibling",
        "nested",
        "reused",
        "outputs",
        "in-place",
        "matmul",
        "convolution",
        "count",
        "gather",
        "float",
        "bool",
        "cast",
        "wide",
        "narrow",
    }
)

# One in so many integers of the data is an extreme of its type.
EXTREME = 6


@dataclass(frozen=True)
class CorpusKernel:
    """One kernel with exact results.

    tags: what it is there for, of `TAGS`. bindings: a value for each of its variables. largest:
    the bound of the integers in its float buffers, at which no operation rounds.
    """

    name: str
    tags: frozenset[str]
    ast: UOp
    bindings: Mapping[str, int] = field(default_factory=dict)
    largest: int = 3

    def buffers(self, seed: int = 0) -> tuple[Array, ...]:
        """Contents of each buffer by slot, outputs too: integers of any size, small floats."""
        nodes = (node for node in self.ast.toposort() if isinstance(node.arg, SlotArg))
        by_slot = {node.arg.slot: node for node in nodes if isinstance(node.arg, SlotArg)}
        random = np.random.default_rng((zlib.crc32(self.name.encode()), seed))
        return tuple(self._content(by_slot[slot], random) for slot in sorted(by_slot))

    def _content(self, buffer: UOp, random: np.random.Generator) -> Array:
        if not isinstance(buffer.dtype, PtrDType):
            raise UserError(f"corpus: {self.name}: {buffer.dtype.name} is not a buffer")
        dtype, size = buffer.dtype.base, buffer.dtype.size
        target = numpy_dtype(dtype)
        if dtype.is_bool:
            return random.integers(0, 2, size).astype(target)
        if dtype.is_float:
            return random.integers(-self.largest, self.largest, size, endpoint=True).astype(target)
        low, high = int(dtype.minimum), int(dtype.maximum)
        values = random.integers(low, high, size, dtype=target.type, endpoint=True)
        extremes = np.array([low, low + 1, 0, 1, high - 1, high], dtype=target)
        is_extreme = random.integers(0, EXTREME, size) == 0
        return np.where(is_extreme, random.choice(extremes, size), values).astype(target)


class Family:
    """Kernels that are written in one module."""

    def __init__(self) -> None:
        self.kernels: list[CorpusKernel] = []

    @contextmanager
    def kernel(
        self, name: str, *tags: str, outputs: int = 1, largest: int = 3, **bindings: int
    ) -> Iterator[Sketch]:
        """Adds the kernel that the block writes."""
        sketch = Sketch(outputs)
        yield sketch
        if len(sketch.stores) != outputs:
            raise UserError(f"corpus: {name}: {len(sketch.stores)} stores to {outputs} outputs")
        self.add(name, build.sink(*sketch.stores), *tags, largest=largest, **bindings)

    def add(self, name: str, ast: UOp, *tags: str, largest: int = 3, **bindings: int) -> None:
        """Adds a kernel that has a name in the library."""
        self.kernels.append(
            CorpusKernel(name, frozenset(tags), ast, MappingProxyType(bindings), largest)
        )
