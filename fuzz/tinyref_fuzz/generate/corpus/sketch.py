"""What a kernel of the corpus is, and a short way to write one down."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, PtrDType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker

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


@dataclass
class Sketch:
    """A kernel in the making: its outputs have the first slots, each load has a slot of its own."""

    outputs: int = 1
    slots: int = 0
    stores: list[UOp] = field(default_factory=list)

    def buffer(self, slot: int, dtype: DType, tracker: ShapeTracker) -> UOp:
        """A view of a buffer that is as large as the view reaches."""
        memory = build.define_global(slot, dtype, max(1, tracker.real_size()))
        return UOp(Ops.VIEW, memory.dtype, (memory,), ViewArg(tracker))

    def load(self, dtype: DType, tracker: ShapeTracker) -> UOp:
        """A load of a new input."""
        slot = self.outputs + self.slots
        self.slots += 1
        return build.load(self.buffer(slot, dtype, tracker))

    def input(self, dtype: DType, *shape: sint) -> UOp:
        """A load of a new input of this shape, row-major."""
        return self.load(dtype, ShapeTracker.from_shape(shape))

    def previous(self, slot: int, dtype: DType, tracker: ShapeTracker) -> UOp:
        """What an output holds before the kernel."""
        return build.load(self.buffer(slot, dtype, tracker))

    def store(self, value: UOp, *shape: sint) -> None:
        """Stores to the next output, row-major."""
        self.store_to(value, ShapeTracker.from_shape(shape))

    def store_to(self, value: UOp, tracker: ShapeTracker) -> None:
        """Stores to the next output through a view."""
        slot = len(self.stores)
        self.stores.append(build.store(self.buffer(slot, value.dtype, tracker), value))


class Family:
    """Kernels that are written in one module."""

    def __init__(self) -> None:
        self.kernels: list[CorpusKernel] = []

    @contextmanager
    def kernel(
        self, name: str, *tags: str, outputs: int = 1, largest: int = 3, **bindings: int
    ) -> Iterator[Sketch]:
        """Adds the kernel that the block draws on the sketch."""
        sketch = Sketch(outputs)
        yield sketch
        if len(sketch.stores) != outputs:
            raise UserError(f"corpus: {name}: {len(sketch.stores)} stores to {outputs} outputs")
        ast = build.sink(*sketch.stores)
        self.kernels.append(
            CorpusKernel(name, frozenset(tags), ast, MappingProxyType(bindings), largest)
        )


def shaped(*shape: sint) -> ShapeTracker:
    """A buffer seen row-major."""
    return ShapeTracker.from_shape(shape)


def valid(tracker: ShapeTracker) -> UOp:
    """Whether a position of a view is valid."""
    return UOp(Ops.VALID, dtypes.bool, (), ViewArg(tracker))


def numbers(tracker: ShapeTracker) -> UOp:
    """The numbers of elements as a view shows them."""
    return UOp(Ops.IOTA, dtypes.int32, (), ViewArg(tracker))


def total(x: UOp, *axes: int) -> UOp:
    """The sum over axes, which stay as size 1."""
    return build.reduce(Ops.ADD, x, axes)


def product(x: UOp, *axes: int) -> UOp:
    """The product over axes, which stay as size 1."""
    return build.reduce(Ops.MUL, x, axes)


def largest(x: UOp, *axes: int) -> UOp:
    """The maximum over axes, which stay as size 1."""
    return build.reduce(Ops.MAX, x, axes)


def below_diagonal(size: int) -> ShapeTracker:
    """A square view, valid at column < row: a row of both, read at a period of one less."""
    period = 2 * size - 1
    row = shaped(1).expand((size - 1,)).pad(((size, 0),))
    rows = row.reshape((1, period)).expand((size, period)).reshape((size * period,))
    shifted = rows.shrink(((0, size * (period - 1)),)).reshape((size, period - 1))
    return shifted.shrink(((0, size), (0, size)))
