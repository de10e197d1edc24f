"""What an expanded kernel does for nothing, by its own nodes alone, and the views that it had.

No value tells that accesses are no longer joined, or that lanes are taken and put together again.
Each law holds for every kernel of a healthy compiler, whatever was optimised. What comes after
`expand` makes other operations for what a device lacks, of which nothing is said.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tinyref.capabilities import Capabilities
from tinyref.dtype import ImageDType
from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec.proofs.known_views import unjoined_views

# The widest access that neighbours are joined into, whatever lanes they are of.
_BYTES = 16
_COUNTERS = frozenset({Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_VAR, Ops.CONST})
_LANES = frozenset({Ops.VECTORIZE, Ops.CONST, Ops.GEP})


@dataclass(frozen=True)
class Waste:
    """What is done for nothing, in words, and the stage of the compiler that is to avoid it."""

    stage: str
    text: str


def waste_of(expanded: UOp, capabilities: Capabilities, ast: UOp | None = None) -> Waste | None:
    """The first waste of a kernel for a device with these capabilities; None without any.

    ast: what was expanded. Of a buffer that it reads, or writes, in several places, neighbours may
    be apart: the lanes of one access are joined. Its views are joined where one shows two.
    """
    nodes = () if ast is None else ast.toposort()
    every = itertools.chain(_unjoined(nodes), _every(expanded, capabilities, _several(nodes)))
    return next(every, None)


def _unjoined(nodes: Sequence[UOp]) -> Iterator[Waste]:
    """Views through views that one view shows, each chain of views looked at once.

    A kernel may have any views: what the compiler joins of them is looked at.
    """
    trackers = (node.arg.tracker for node in nodes if isinstance(node.arg, ViewArg))
    for views in dict.fromkeys(trackers):
        found = unjoined_views(views.simplify()) if isinstance(views, ShapeTracker) else None
        if found is not None:
            yield Waste("lower", found.describe())


def _several(nodes: Sequence[UOp]) -> set[tuple[Ops, int]]:
    """The slots that more than one LOAD, or STORE, of a kernel accesses."""
    counts = Counter(
        (node.op, memory.arg.slot)
        for node in nodes
        if node.op in (Ops.LOAD, Ops.STORE)
        for memory in node.src[0].src
        if isinstance(memory.arg, SlotArg)
    )
    return {access for access, count in counts.items() if count > 1}


def _every(
    expanded: UOp, capabilities: Capabilities, several: set[tuple[Ops, int]]
) -> Iterator[Waste]:
    counted: set[UOp] = set()
    runs: dict[tuple[object, ...], _Run] = {}
    computed: set[tuple[Ops, int]] = set()
    for node in expanded.toposort():
        if node.op in _COUNTERS or (node.op in ALU and counted.issuperset(node.src)):
            counted.add(node)
        if node.op in (Ops.RANGE, Ops.SPECIAL):
            yield from _single(node)
        elif isinstance(node.arg, GepArg):
            yield from _taken(node, node.arg)
        elif node.op is Ops.WHERE and node.src[0].op is Ops.CONST:
            yield Waste("expand", "a choice by a constant")
        elif node.op in ALU and all(source.op is Ops.CONST for source in node.src):
            yield Waste("expand", f"{node.op.name} of constants")
        elif node.op in (Ops.LOAD, Ops.STORE):
            if len(node.src) > 2 and node.src[2].op is Ops.CONST:
                yield Waste("expand", f"a constant gate of a {node.op.name}")
            if not _add(node, counted, runs):
                memory, _ = _memory(node.src[0])
                computed |= (
                    {(node.op, memory.arg.slot)} if isinstance(memory.arg, SlotArg) else set()
                )
    written = {run.memory for run in runs.values() if run.op is Ops.STORE}
    for run in runs.values():
        # The order of other reads of what a kernel writes is not known.
        if run.op is Ops.STORE or run.waits or run.memory not in written:
            yield from run.wastes(capabilities, several, computed)


def _single(counter: UOp) -> Iterator[Waste]:
    extent = counter.src[0].arg
    if isinstance(extent, ConstArg) and extent.value == 1:
        yield Waste("lower", f"a {counter.op.name} of one iteration")


def _taken(node: UOp, arg: GepArg) -> Iterator[Waste]:
    """Lanes that are at hand."""
    (vector,) = node.src
    if vector.dtype.lanes == 1:
        yield Waste("expand", "a lane of a scalar")
    elif vector.op in _LANES:
        yield Waste("expand", f"a lane of {vector.op.name}")
    elif arg.lanes == tuple(range(vector.dtype.lanes)):
        yield Waste("expand", "all lanes of a vector in their order")


@dataclass
class _Run:
    """Accesses of one memory at one base, which `divisor` divides: where, and of how many lanes."""

    op: Ops
    memory: UOp
    waits: tuple[UOp, ...]
    divisor: int
    itemsize: int
    places: list[tuple[int, int]] = field(default_factory=list)

    def wastes(
        self,
        capabilities: Capabilities,
        several: set[tuple[Ops, int]],
        computed: set[tuple[Ops, int]],
    ) -> Iterator[Waste]:
        """What is done for nothing, but for accesses in `several` places and at `computed` ones.

        A place or a gate that is computed may be a known one in some lanes: nobody knew when lanes
        were made.
        """
        self.places.sort()
        name, slot = self.op.name, self.memory.arg
        accessed = (self.op, slot.slot) if isinstance(slot, SlotArg) else None
        if accessed in computed:
            return
        for (place, lanes), (other, _) in zip(self.places, self.places[1:], strict=False):
            if place + lanes > other:
                yield Waste("expand", f"an element that two {name}s have")
        # Elsewhere scalars may be better.
        joins = capabilities.has_grid and 2 in capabilities.vector_lanes
        if not joins or accessed is None or accessed in several:
            return
        if self.divisor % 2 or 2 * self.itemsize > _BYTES:
            return
        alone = {place for place, lanes in self.places if lanes == 1}
        if any(place % 2 == 0 and place + 1 in alone for place in alone):
            yield Waste("expand", f"two {name}s of neighbours")


def _add(access: UOp, counted: set[UOp], runs: dict[tuple[object, ...], _Run]) -> bool:
    """Notes an access whose gate and position are arithmetic of counters: whether both are."""
    value = access if access.op is Ops.LOAD else access.src[1]
    address, gate = skip_after(access.src[0]), access.src[2] if len(access.src) > 2 else None
    if len(address.src) != 2 or isinstance(address.dtype, ImageDType):
        return True
    if address.src[1] not in counted:
        return False
    if gate is not None and gate not in counted:
        return False
    alternative = access.src[1].arg if gate is not None and access.op is Ops.LOAD else None
    if gate is not None and access.op is Ops.LOAD and not isinstance(alternative, ConstArg):
        return True
    base, place = _split(address.src[1])
    memory, waits = _memory(access.src[0])
    key = (access.op, memory, waits, base, gate, alternative)
    if key not in runs:
        size = value.dtype.scalar.itemsize
        runs[key] = _Run(access.op, memory, waits, _divisor(base), size)
    runs[key].places.append((place, value.dtype.lanes))
    return True


def _split(position: UOp) -> tuple[UOp | None, int]:
    """The position without its constant, and that."""
    if isinstance(position.arg, ConstArg):
        return None, int(position.arg.value)
    if position.op is Ops.ADD and isinstance(position.src[1].arg, ConstArg):
        return position.src[0], int(position.src[1].arg.value)
    return position, 0


def _memory(address: UOp) -> tuple[UOp, tuple[UOp, ...]]:
    """What is accessed, and all that is waited for before."""
    waits = []
    while address.op in (Ops.AFTER, Ops.INDEX):
        if address.op is Ops.AFTER:
            waits.append(address)
        address = address.src[0]
    return address, tuple(waits)


def _divisor(base: UOp | None) -> int:
    """A number that divides all values of a sum; 0 for the sum of nothing."""
    if base is None:
        return 0
    if base.op is Ops.ADD:
        return math.gcd(*map(_divisor, base.src))
    if base.op is Ops.MUL and isinstance(base.src[1].arg, ConstArg):
        return int(base.src[1].arg.value)
    return 1
