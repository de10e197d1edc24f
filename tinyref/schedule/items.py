"""What a schedule is made of, and the memory that its intermediate results share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from tinyref.algebra.sizes import Constraint
from tinyref.arrays import np, npt
from tinyref.codegen.compile import kernel_name
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg


@dataclass(frozen=True)
class KernelItem:
    """A kernel to run on `device`: `buffers` are BUFFER nodes by slot, the outputs first.

    `completes` are the nodes whose result is there once the kernel has run, `names` the functions
    of the user that it computes: softmax, linear, backward relu; `lines` from where they were
    called, as FILE:LINE, while lines are noted.
    """

    ast: UOp
    buffers: tuple[UOp, ...]
    device: str
    completes: tuple[UOp, ...] = ()
    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = kernel_name(self.ast)
        return f"kernel {self.device} {name}, {len(self.buffers)} buffers: {', '.join(self.names)}"


@dataclass(frozen=True)
class CopyItem:
    """All bytes of one BUFFER to one of equal size on another device.

    `completes` are the nodes whose result is there once the copy is done.
    """

    target: UOp
    source: UOp
    completes: tuple[UOp, ...] = ()

    def __str__(self) -> str:
        return f"copy {self.source.arg} -> {self.target.arg}"


Item = KernelItem | CopyItem


@dataclass
class Schedule:
    """Items in order; `results` maps each requested or stored node to a view of its BUFFER.

    A constant maps to itself: it needs no memory. `bindings` are the values of the symbolic
    variables, by name; `constraints` is what other values of theirs must satisfy.
    """

    items: list[Item]
    results: dict[UOp, UOp] = field(default_factory=dict)
    bindings: Mapping[str, int] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{number}. {item}" for number, item in enumerate(self.items, 1))

    @property
    def kernels(self) -> list[KernelItem]:
        """The kernels alone, in order."""
        return [item for item in self.items if isinstance(item, KernelItem)]


# --- memory ---------------------------------------------------------------------------------------


# Where a buffer may start: a cache line, and what devices ask of a whole allocation's parts.
ALIGNMENT = 64

Key = TypeVar("Key", bound=Hashable)
Integers: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class Lifetime:
    """`nbytes` that are in use from item number `first` to item `last`, both included.

    So what an item writes never shares memory with what it reads.
    """

    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are in use at one time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """Memory of `nbytes` in which each buffer has its offset."""

    nbytes: int
    offsets: tuple[int, ...]


def plan_arena(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> Arena:
    """Offsets at which no two buffers that are in use together overlap, in the order given.

    Each, the largest first, goes into the smallest gap that is free for as long as it is in use:
    "greedy by size" of Y. Pisarchyk and J. Lee, "Efficient Memory Management for Deep Neural Net
    Inference", 2020 (arXiv:2001.03288). Offsets are multiples of `ALIGNMENT` and of `alignment`, a
    power of two.
    """
    step = max(alignment, ALIGNMENT)
    count = len(lifetimes)
    sizes = np.array([_align_up(life.nbytes, step) for life in lifetimes], np.int64)
    first = np.array([life.first for life in lifetimes], np.int64)
    last = np.array([life.last for life in lifetimes], np.int64)
    offsets = np.zeros(count, np.int64)
    is_placed = np.zeros(count, np.bool_)
    for number in _largest_first(sizes, first):
        meets = is_placed & (first <= last[number]) & (first[number] <= last)
        offsets[number] = _smallest_gap(offsets[meets], sizes[meets], int(sizes[number]))
        is_placed[number] = True
    nbytes = int((offsets + sizes).max()) if count else 0
    return Arena(nbytes, tuple(int(offset) for offset in offsets))


def _largest_first(sizes: Integers, first: Integers) -> Integers:
    """The order in which buffers get their places: any is right, this one leaves few gaps.

    Of equal sizes the first in use goes first, so that the plan does not depend on the sort.
    """
    return np.lexsort((first, -sizes))


def _align_up(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment


def _smallest_gap(offsets: Integers, sizes: Integers, wanted: int) -> int:
    """The start of the smallest gap between the given pieces that holds `wanted`, or their end."""
    if not offsets.size:
        return 0
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    ends = np.maximum.accumulate(starts + sizes[order])
    gap_starts = np.concatenate(([0], ends[:-1]))
    gaps = starts - gap_starts
    fits = np.flatnonzero(gaps >= wanted)
    if not fits.size:
        return int(ends[-1])
    return int(gap_starts[fits[np.argmin(gaps[fits])]])


def spans(uses: Iterable[Iterable[Key]]) -> dict[Key, tuple[int, int]]:
    """The number of the first and of the last of `uses` in which each key occurs."""
    found: dict[Key, tuple[int, int]] = {}
    for number, keys in enumerate(uses):
        for key in keys:
            found[key] = (found[key][0] if key in found else number, number)
    return found


def buffers_of(item: Item) -> tuple[UOp, ...]:
    """The BUFFER nodes that an item touches, those that it writes first."""
    return (item.target, item.source) if isinstance(item, CopyItem) else item.buffers


def written_by(item: Item) -> tuple[UOp, ...]:
    """The BUFFER nodes that an item writes."""
    if isinstance(item, CopyItem):
        return (item.target,)
    return item.buffers[: len(item.ast.src)]


def temporaries(items: Sequence[Item], results: Mapping[UOp, UOp]) -> dict[UOp, Lifetime]:
    """The BUFFERs that nobody sees but `items`: each is written before it is read, and no result.

    `results` are those of the `Schedule`. What holds no bytes is left out.
    """
    kept = {node for node in toposort(results.values()) if node.op is Ops.BUFFER}
    begun: set[UOp] = set()
    for item in items:
        written = set(written_by(item))
        kept.update(node for node in buffers_of(item) if node not in begun | written)
        begun |= written
    return {
        node: Lifetime(nbytes_of(node), *span)
        for node, span in spans(map(buffers_of, items)).items()
        if node not in kept and nbytes_of(node)
    }


def nbytes_of(node: UOp) -> int:
    """What the memory of a BUFFER node takes."""
    assert isinstance(node.arg, BufferArg), "a BUFFER has its payload"
    return node.arg.size * node.dtype.itemsize
