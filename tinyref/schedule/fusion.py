"""Which nodes get memory of their own; everything else is computed inside the kernel that reads it.

Elementwise operations always fuse. A REDUCE fuses with the elementwise operations that follow it,
up to where its result is repeated, read by several kernels, or met by another reduce that loops
differently; there, or at the last narrow value before, its result is stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from tinyref.lazy.graph import backing
from tinyref.lazy.shape import device_of, shape_of
from tinyref.schedule.prepare import peel
from tinyref.uops.node import UOp, sint, toposort
from tinyref.uops.ops import ALU, MOVEMENT, Ops
from tinyref.uops.payload import ReduceArg

Axes = tuple[sint, ...]

# Work for each element that is cheaper to repeat than to store and load again.
CHEAP = 12
WORK = {
    Ops.EXP2: 16,
    Ops.LOG2: 16,
    Ops.SIN: 16,
    Ops.POW: 32,
    Ops.THREEFRY: 64,
    Ops.FDIV: 4,
    Ops.RECIP: 4,
    Ops.SQRT: 4,
    Ops.IDIV: 4,
    Ops.MOD: 4,
}
ALWAYS_STORED = frozenset({Ops.ASSIGN, Ops.CONTIGUOUS, Ops.COPY})


def reduce_axes(node: UOp) -> Axes:
    """The sizes of the axes that a REDUCE loops over, without those of size 1."""
    shape = shape_of(node.src[0])
    axes = node.arg.axes if isinstance(node.arg, ReduceArg) else ()
    return tuple(shape[axis] for axis in axes if shape[axis] != 1)


def content(node: UOp) -> UOp:
    """What the kernel that stores `node` computes."""
    if node.op is Ops.ASSIGN:
        return node.src[1]
    return node.src[0] if node.op is Ops.CONTIGUOUS else node


_ONE_WAY_ON = frozenset({Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.ASSIGN, Ops.CONTIGUOUS})


class Fusion:
    """The decision for one graph: `stored` are the nodes with memory of their own."""

    def __init__(self, outputs: Iterable[UOp]) -> None:
        self.roots = [peel(output) for output in outputs]
        self.order = toposort(self.roots)
        self.position = {node: number for number, node in enumerate(self.order)}
        self.consumers: dict[UOp, list[UOp]] = {node: [] for node in self.order}
        for node in self.order:
            for source in dict.fromkeys(node.src):
                self.consumers[source].append(node)
        self.stored: set[UOp] = {node for node in self.order if node.op in ALWAYS_STORED}
        self.stored.update(root for root in self.roots if backing(root) is None)
        self._claims: dict[UOp, Axes] = {}
        self._store_costly()
        for node in self.order:
            if node.op is Ops.REDUCE:
                self._place(node)

    # --- what is costly to repeat ---------------------------------------------------------------

    def _store_costly(self) -> None:
        """Stores an expensive value that an EXPAND repeats, so that it is computed once."""
        for node in self.order:
            if node.op is not Ops.EXPAND:
                continue
            base = node.src[0]
            while base.op in MOVEMENT and base.op is not Ops.PAD:
                base = base.src[0]
            if base.op in ALU and device_of(base) is not None and self._work(base) > CHEAP:
                self.stored.add(base)

    def _work(self, root: UOp) -> int:
        total = 0
        seen = {root}
        stack = [root]
        while stack and total <= CHEAP:
            node = stack.pop()
            if node in self.stored or node.op is Ops.REDUCE:
                continue
            total += WORK.get(node.op, 1) if node.op in ALU else 0
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        return total

    # --- where a reduce is stored ---------------------------------------------------------------

    def _place(self, node: UOp) -> None:
        """Finds the node in whose kernel REDUCE `node` runs, and stores that node."""
        axes = reduce_axes(node)
        region = _Region(self, node, axes)
        self.stored.add(region.best)
        for member in region.members_up_to(region.best):
            self._claims[member] = axes

    def accepts(self, node: UOp, axes: Axes) -> bool:
        """Whether a reduce over `axes` may run in the kernel that computes `node`."""
        return self._claims.get(node, axes) == axes


class _Region:
    """The nodes after a REDUCE that can share its kernel, grown one consumer at a time.

    A node through which every path from the REDUCE leads may hold the result: `best` is the last
    such node that is stored anyway, or that comes before a cast to a wider type.
    """

    def __init__(self, fusion: Fusion, start: UOp, axes: Axes) -> None:
        self.fusion = fusion
        self.axes = axes
        self.members = [start]
        self.best = start
        self._open: list[tuple[int, UOp]] = []
        self._waiting: set[UOp] = set()
        self._has_widened = False
        if start not in fusion.stored:
            self._leave(start)
            self._grow()

    def members_up_to(self, last: UOp) -> Sequence[UOp]:
        """The nodes from the REDUCE to `last`."""
        return self.members[: self.members.index(last) + 1]

    def _leave(self, node: UOp) -> None:
        for consumer in self.fusion.consumers[node]:
            if consumer not in self._waiting:
                self._waiting.add(consumer)
                heapq.heappush(self._open, (self.fusion.position[consumer], consumer))

    def _grow(self) -> None:
        while self._open:
            node = heapq.heappop(self._open)[1]
            alone = not self._open
            if not self._may_join(node, alone):
                return
            self.members.append(node)
            is_stored = node in self.fusion.stored
            if alone and (is_stored or not self._widens(node)):
                self.best = node
            if is_stored:
                return
            self._leave(node)

    def _may_join(self, node: UOp, alone: bool) -> bool:
        if not self.fusion.accepts(node, self.axes):
            return False
        if node in self.fusion.stored and not alone:
            return False
        if node.op in ALU or node.op is Ops.RESHAPE:
            return True
        # Other movement computes nothing twice only where it is the one way on.
        return alone and node.op in _ONE_WAY_ON

    def _widens(self, node: UOp) -> bool:
        """Whether storing `node` would take more memory than a node before it."""
        if node.op is Ops.CAST:
            self._has_widened |= node.dtype.itemsize > node.src[0].dtype.itemsize
        return self._has_widened
