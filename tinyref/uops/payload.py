"""Typed payloads: the fourth member of a node, after its op, dtype and sources."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from tinyref.dtype import ConstType
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import MatrixTile

if TYPE_CHECKING:
    from tinyref.uops.node import UOp


class ConstArg:
    """A constant, which equals only a constant of the same Python type with the same bits.

    So -0.0 differs from 0.0, True differs from 1, and a NaN equals itself.
    """

    __slots__ = ("_hash", "_key", "value")

    value: ConstType

    def __init__(self, value: ConstType) -> None:
        self.value = value
        bits = struct.pack("<d", value) if isinstance(value, float) else value
        self._key = (type(value), bits)
        # Constants are looked up so often that computing the hash once saves time.
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstArg) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"ConstArg({self.value!r})"


@dataclass(frozen=True, slots=True)
class VarArg:
    """A symbolic variable and its inclusive bounds."""

    name: str
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class BufferArg:
    """A buffer of the tensor graph: `size` elements on `device`; `number` identifies it."""

    device: str
    size: int
    number: int

    def __hash__(self) -> int:
        return self.number


@dataclass(frozen=True, slots=True)
class CopyArg:
    """The device that a copy goes to."""

    device: str


@dataclass(frozen=True, slots=True)
class ShardArg:
    """MULTI: the devices of the sources, one device per source, in this order.

    The sources are consecutive parts along `axis`, and `sizes` are their lengths. If `axis` is
    None, each source is the whole tensor and `sizes` is empty.
    """

    devices: tuple[str, ...]
    axis: int | None = None
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeArg:
    """The shape of an IOTA, or the result shape of RESHAPE and EXPAND; a size may be symbolic."""

    shape: tuple[int | UOp, ...]


@dataclass(frozen=True, slots=True)
class PermuteArg:
    """PERMUTE: output axis i is input axis order[i]."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoundsArg:
    """PAD: (before, after) elements to add per axis. SHRINK: (begin, end) to keep per axis."""

    bounds: tuple[tuple[int | UOp, int | UOp], ...]


@dataclass(frozen=True, slots=True)
class FlipArg:
    """FLIP: the axes to reverse, in rising order."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReduceArg:
    """REDUCE by ADD, MUL or MAX over `axes`, which stay as size 1.

    In the indexed dialect `axes` is empty: the ranges to reduce over are sources after the value.
    """

    op: Ops
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SlotArg:
    """DEFINE_GLOBAL: the position of the buffer among the kernel's arguments, outputs first."""

    slot: int


@dataclass(frozen=True, slots=True)
class LocalArg:
    """DEFINE_LOCAL and DEFINE_ACC: a name that is unique in the kernel."""

    name: str


class Tracker(Protocol):
    """Interface of `ShapeTracker` for the rooms below `tinyref.views`."""

    @property
    def shape(self) -> tuple[int | UOp, ...]:
        """Return the extent of each axis."""
        ...

    def reach(self) -> tuple[int, int] | None:
        """Return the first and last element for any values of variables; None if none is valid."""
        ...


@dataclass(frozen=True, slots=True)
class ViewArg:
    """VIEW and VALID: the `ShapeTracker` that maps axes of the kernel to elements of the buffer."""

    tracker: Tracker


class AxisKind(Enum):
    """Ways to execute an axis of a kernel; kernel-opts.md has the table."""

    __hash__ = object.__hash__

    GLOBAL = "global"
    LOCAL = "local"
    GROUP_REDUCE = "group_reduce"
    REDUCE = "reduce"
    UNROLL = "unroll"
    UPCAST = "upcast"
    LOOP = "loop"
    THREAD = "thread"


@dataclass(frozen=True, slots=True)
class RangeArg:
    """RANGE: counts from 0 to its source minus 1; `number` is unique in the kernel."""

    number: int
    kind: AxisKind


@dataclass(frozen=True, slots=True)
class SpecialArg:
    """SPECIAL: a launch index, of the group in the grid or of the work-item in its group.

    `scope` is "group" or "item", `dim` 0 to 2; the source of the node is the extent.
    """

    scope: str
    dim: int


@dataclass(frozen=True, slots=True)
class GepArg:
    """GEP: the lanes to take from the source vector, in this order."""

    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TileArg:
    """WMMA: the tile with its layouts, which need not be a tile of `tiles.TILES`."""

    tile: MatrixTile


@dataclass(frozen=True, slots=True)
class MemoryVersionArg:
    """LOAD and STORE of a program: the number of earlier accesses that are equal otherwise.

    The first access has no payload. Memory may change between two accesses, so they must be
    different nodes.
    """

    number: int


Payload = (
    ConstArg
    | VarArg
    | BufferArg
    | CopyArg
    | ShardArg
    | ShapeArg
    | PermuteArg
    | BoundsArg
    | FlipArg
    | ReduceArg
    | SlotArg
    | LocalArg
    | ViewArg
    | RangeArg
    | SpecialArg
    | GepArg
    | TileArg
    | MemoryVersionArg
    | None
)
