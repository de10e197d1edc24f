"""The items of a schedule, and the memory that its intermediate results share."""

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
    """A kernel to run on `device`.

    buffers: BUFFER nodes by slot, the outputs first.
    completes: the nodes whose result exists after the kernel.
    names: the functions of the user that it computes: softmax, linear, backward relu.
    lines: the lines of their calls, as FILE:LINE, while lines are noted.
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
    """A copy of all bytes of a BUFFER to a BUFFER of equal size on another device.

    completes: the nodes whose result exists after the copy.
    """

    target: UOp
    source: UOp
    completes: tuple[UOp, ...] = ()

    def __str__(self) -> str:
        return f"copy {self.source.arg} -> {self.target.arg}"


Item = KernelItem | CopyItem


@dataclass
class Schedule:
    """Items in order.

    results: maps each requested or stored node to a view of its BUFFER, and a constant to itself.
    bindings: the values of the symbolic variables, by name.
    constraints: the conditions that other values of the variables must satisfy.
    """

    items: list[Item]
    results: dict[UOp, UOp] = field(default_factory=dict)
    bindings: Mapping[str, int] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{number}. {item}" for number, item in enumerate(self.items, 1))

    @property
    def kernels(self) -> list[KernelItem]:
        """Return the kernels, in order."""
        return [item for item in self.items if isinstance(item, KernelItem)]


# --- memory ---------------------------------------------------------------------------------------


# Buffers start at multiples of this: a cache line, and the alignment that devices require.
ALIGNMENT = 64

Key = TypeVar("Key", bound=Hashable)
Integers: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class Lifetime:
    """Memory of `nbytes` that is in use from item number `first` to item `last`, both included.

    So the results of an item never share memory with its sources.
    """

    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Return True if both are in use at the same time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """Memory of `nbytes` in which each buffer has its offset."""

    nbytes: int
    offsets: tuple[int, ...]


def plan_arena(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> Arena:
    """Return offsets, in the order of `lifetimes`, at which no buffers in use together overlap.

    Each buffer, the largest first, gets the smallest gap that is free during its lifetime: "greedy
    by size" of Y. Pisarchyk and J. Lee, "Efficient Memory Management for Deep Neural Net
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
    """Return the order in which buffers get offsets: any is right, this one leaves few gaps.

    Among equal sizes, the first in use comes first, so the plan does not depend on the sort.
    """
    return np.lexsort((first, -sizes))


def _align_up(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment


def _smallest_gap(offsets: Integers, sizes: Integers, size: int) -> int:
    """Return the start of the smallest gap of `size` bytes between the pieces, or their end."""
    if not offsets.size:
        return 0
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    ends = np.maximum.accumulate(starts + sizes[order])
    gap_starts = np.concatenate(([0], ends[:-1]))
    gaps = starts - gap_starts
    fits = np.flatnonzero(gaps >= size)
    if not fits.size:
        return int(ends[-1])
    return int(gap_starts[fits[np.argmin(gaps[fits])]])


def spans(uses: Iterable[Iterable[Key]]) -> dict[Key, tuple[int, int]]:
    """Return the numbers of the first and the last of `uses` in which each key occurs."""
    result: dict[Key, tuple[int, int]] = {}
    for number, keys in enumerate(uses):
        for key in keys:
            result[key] = (result[key][0] if key in result else number, number)
    return result


def buffers_of(item: Item) -> tuple[UOp, ...]:
    """Return the BUFFER nodes that an item accesses, those that it writes first."""
    return (item.target, item.source) if isinstance(item, CopyItem) else item.buffers


def written_by(item: Item) -> tuple[UOp, ...]:
    """Return the BUFFER nodes that an item writes."""
    if isinstance(item, CopyItem):
        return (item.target,)
    return item.buffers[: len(item.ast.src)]


def temporaries(items: Sequence[Item], results: Mapping[UOp, UOp]) -> dict[UOp, Lifetime]:
    """Return the BUFFERs that only `items` use: written before they are read, and no results.

    `results` are the results of the `Schedule`. BUFFERs of no bytes are left out.
    """
    shared = {node for node in toposort(results.values()) if node.op is Ops.BUFFER}
    begun: set[UOp] = set()
    for item in items:
        written = set(written_by(item))
        shared.update(node for node in buffers_of(item) if node not in begun | written)
        begun |= written
    return {
        node: Lifetime(nbytes_of(node), *span)
        for node, span in spans(map(buffers_of, items)).items()
        if node not in shared and nbytes_of(node)
    }


def nbytes_of(node: UOp) -> int:
    """Return the size in bytes of the memory of a BUFFER node."""
    assert isinstance(node.arg, BufferArg), "a BUFFER has its payload"
    return node.arg.size * node.dtype.itemsize
