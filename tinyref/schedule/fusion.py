"""Which nodes get memory of their own; everything else is computed inside the kernel that reads it.

Elementwise operations fuse, up to what is costly to compute again (see `materialise`). A REDUCE
fuses with the elementwise operations that follow it, up to where its result is repeated, read by
several kernels, or met by another reduce that loops differently; there, or at the last narrow value
before, its result is stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from tinyref.algebra.shapes import reduced_axes
from tinyref.lazy.graph import backing
from tinyref.lazy.shape import shape_of
from tinyref.optimise.one_hot import is_one_hot_reduce
from tinyref.schedule.materialise import bases_to_materialise, values_to_materialise
from tinyref.schedule.prepare import peel
from tinyref.uops.node import UOp, sint, toposort
from tinyref.uops.ops import ALU, Ops

Axes = tuple[sint, ...]

ALWAYS_STORED = frozenset({Ops.ASSIGN, Ops.CONTIGUOUS, Ops.COPY})


def reduce_axes(node: UOp) -> Axes:
    """The sizes of the axes that a REDUCE loops over, without those of size 1."""
    shape = shape_of(node.src[0])
    return tuple(shape[axis] for axis in reduced_axes(node) if shape[axis] != 1)


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
        self._holders: dict[UOp, UOp] = {}
        self.stored |= bases_to_materialise(self.order, self.stored)
        for node in self.order:
            if node.op is Ops.REDUCE and not is_one_hot_reduce(node):
                self._place(node)
        self.stored |= values_to_materialise(self.order, self.consumers, self.stored)

    # --- where a reduce is stored ---------------------------------------------------------------

    def _place(self, node: UOp) -> None:
        """Finds the node in whose kernel REDUCE `node` runs, and stores that node."""
        axes = reduce_axes(node)
        region = _Region(self, node, axes)
        self.stored.add(region.best)
        for member in region.members_up_to_best():
            self._claims[member] = axes
            self._holders[member] = region.best

    def holder(self, node: UOp) -> UOp | None:
        """Where the reduce is stored that was given `node` as part of its kernel."""
        return self._holders.get(node)

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

    def members_up_to_best(self) -> Sequence[UOp]:
        """The nodes from the REDUCE to `best`, or to where another REDUCE went on to it."""
        if self.best not in self.members:
            return self.members
        return self.members[: self.members.index(self.best) + 1]

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
            holder = self.fusion.holder(node) if alone else None
            if holder is not None:
                # From here on the way is the same, and it ends at what is stored.
                self.best = holder
                return
            self.members.append(node)
            is_stored = node in self.fusion.stored
            if alone and (is_stored or not self._takes_more_memory(node)):
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

    def _takes_more_memory(self, node: UOp) -> bool:
        """Whether storing `node` would take more memory than a node before it."""
        if node.op is Ops.CAST:
            self._has_widened |= node.dtype.itemsize > node.src[0].dtype.itemsize
        return self._has_widened
