"""Choose the nodes with memory of their own; kernels that read other nodes compute them.

Elementwise operations fuse, unless they are costly to compute again. A REDUCE fuses with the
elementwise operations after it. It stops where its result is repeated, is read by several kernels,
or meets another reduce with different loops. There, or at the last narrow value before, its result
is stored. On devices that run loops, a large product of matrices also stops at another one.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from tinyref.algebra.shapes import reduced_axes
from tinyref.algebra.symbolic import product
from tinyref.device import Device
from tinyref.lazy.graph import backing
from tinyref.lazy.shape import device_of, shape_of
from tinyref.optimise.one_hot import is_one_hot_reduce
from tinyref.schedule.prepare import is_scatter, peel
from tinyref.uops.node import UOp, sint, toposort
from tinyref.uops.ops import ALU, MOVEMENT, WORK_OF_OP, Ops
from tinyref.uops.payload import BoundsArg

Axes = tuple[sint, ...]

ALWAYS_STORED = frozenset({Ops.ASSIGN, Ops.CONTIGUOUS, Ops.COPY})


def reduce_axes(node: UOp) -> Axes:
    """Return the sizes of the axes that a REDUCE loops over, without those of size 1."""
    shape = shape_of(node.src[0])
    return tuple(shape[axis] for axis in reduced_axes(node) if shape[axis] != 1)


def content(node: UOp) -> UOp:
    """Return the node whose value the kernel that stores `node` computes."""
    if node.op is Ops.ASSIGN:
        return node.src[1]
    return node.src[0] if node.op is Ops.CONTIGUOUS else node


_ONE_WAY_ON = frozenset({Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.ASSIGN, Ops.CONTIGUOUS})


class Fusion:
    """The decision for one graph.

    stored: the nodes with memory of their own.
    alone: the stored nodes whose kernels are never joined with others.
    products: the stored nodes whose kernels compute a large product of matrices. A kernel has at
        most one, because a block of registers holds one.
    """

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
        self.alone: set[UOp] = set()
        self.products: set[UOp] = set()
        self._claims: dict[UOp, Axes] = {}
        self._holders: dict[UOp, UOp] = {}
        self.stored |= paddings_to_materialise(self.order)
        self.stored |= bases_to_materialise(self.order, self.stored)
        for node in self.order:
            if node.op is Ops.REDUCE and not is_one_hot_reduce(node):
                self._store_reduce(node)
        self.stored |= values_to_materialise(self.order, self.consumers, self.stored)

    # --- the nodes that store reduces -----------------------------------------------------------

    def _store_reduce(self, node: UOp) -> None:
        """Find the node in whose kernel the REDUCE `node` runs, and store that node."""
        axes = reduce_axes(node)
        region = _Region(self, node, axes)
        self.stored.add(region.best)
        if region.is_scatter:
            self.alone.add(region.best)
        if region.is_product:
            self.products.add(region.best)
        for member in region.members_up_to_best():
            self._claims[member] = axes
            self._holders[member] = region.best

    def holder(self, node: UOp) -> UOp | None:
        """Return the node that stores the reduce whose kernel computes `node`."""
        return self._holders.get(node)

    def accepts(self, node: UOp, axes: Axes) -> bool:
        """Return True if a reduce over `axes` may run in the kernel that computes `node`."""
        return self._claims.get(node, axes) == axes


class _Region:
    """The nodes after a REDUCE that can share its kernel; one consumer is added at a time.

    A node on every path from the REDUCE may store the result. `best` is the last such node that is
    stored in any case, or that precedes a cast to a wider type.

    is_scatter: loops compute the REDUCE as a scatter, which computes nothing after it.
    is_product: loops compute the REDUCE as a large product of matrices.
    """

    def __init__(self, fusion: Fusion, start: UOp, axes: Axes) -> None:
        self.fusion = fusion
        self.axes = axes
        self.is_scatter = is_scatter(start)
        self.is_product = _is_product(start)
        self.members = [start]
        self.best = start
        self._open: list[tuple[int, UOp]] = []
        self._waiting: set[UOp] = set()
        self._has_widened = False
        if start not in fusion.stored:
            self._leave(start)
            self._grow()

    def members_up_to_best(self) -> Sequence[UOp]:
        """Return the nodes from the REDUCE to `best`, or to a node of another REDUCE with it."""
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
                if self.is_product and holder in self.fusion.products:
                    return
                # From here on the path is shared, and it ends at a stored node.
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
        if node.op in ALU and self.is_scatter:
            # Its terms are added to outputs in memory.
            return False
        if node.op in ALU or node.op is Ops.RESHAPE:
            return True
        # Other movement is safe only on the single path: then nothing is computed twice.
        return alone and node.op in _ONE_WAY_ON

    def _takes_more_memory(self, node: UOp) -> bool:
        """Return True if `node` takes more memory than a node before it."""
        if node.op is Ops.CAST:
            self._has_widened |= node.dtype.itemsize > node.src[0].dtype.itemsize
        return self._has_widened


# --- values that cost more to compute again than to store and load --------------------------------


# The work for an element that is cheaper to repeat for every copy than to store and load.
CHEAP = 12
# The copies of an element from which a join of padded tensors is stored: every use of an element
# loads from all of them.
MANY_COPIES = 64
# The work for an element, loads included, that a second kernel may repeat.
CHEAP_AGAIN = 24
# The same for values that are computed only from constants.
CHEAP_CONSTANT = 64
LOAD_WORK = 1
# A set of this many sites is not extended: it already means "several".
SEVERAL = 2

Parts = frozenset[UOp]


class ElementWork:
    """The work to compute one element of a node from stored values, as a set of nodes.

    None means more than any limit, so each step takes the same time in any graph.
    """

    def __init__(self, stored: Collection[UOp]) -> None:
        self.stored = stored
        self._parts: dict[UOp, Parts | None] = {}

    def add(self, node: UOp) -> None:
        """Compute the work of `node`, whose sources were added before."""
        self._parts[node] = self._work_of(node)

    def _work_of(self, node: UOp) -> Parts | None:
        # A REDUCE, or a value after it, gets memory in any case, so it counts as a load.
        is_reduced = node.op is Ops.REDUCE and not is_one_hot_reduce(node)
        if node.op is Ops.BUFFER or is_reduced or node in self.stored:
            return frozenset((node,))
        parts = self._together(node.src)
        if parts is None or node.op not in ALU:
            return parts
        parts |= {node}
        return parts if self._sum(parts) <= CHEAP_CONSTANT else None

    def _together(self, sources: Sequence[UOp]) -> Parts | None:
        result: Parts = frozenset()
        for source in sources:
            parts = self._parts[source]
            if parts is None:
                return None
            result = result | parts if result else parts
        return result

    def exceeds(self, node: UOp, limit: int, *, loads: int = LOAD_WORK) -> bool:
        """Return True if an element of `node` takes more than `limit`; a load counts as `loads`."""
        parts = self._parts[node]
        return parts is None or self._sum(parts, loads) > limit

    def _sum(self, parts: Parts, loads: int = LOAD_WORK) -> int:
        return sum(
            WORK_OF_OP.get(part.op, 1) if part.op in ALU and part not in self.stored else loads
            for part in parts
        )


def values_to_materialise(
    order: Sequence[UOp], consumers: Mapping[UOp, Sequence[UOp]], stored: Set[UOp]
) -> set[UOp]:
    """Return the nodes to store in addition to `stored`; `order` has sources before users.

    Every kernel that reads a value computes it, unless it has memory. This is right for cheap
    values. A costly value is stored if several kernels need it, or one kernel at several sites. So
    no value grows without limit from kernel to kernel.
    """
    sites = _sites(order, consumers, stored)
    chosen = set(stored)
    work = ElementWork(chosen)
    for node in order:
        work.add(node)
        if node in chosen or node.op not in ALU or len(sites[node]) < SEVERAL:
            continue
        if not _is_parting(node, consumers):
            continue
        if work.exceeds(node, CHEAP_CONSTANT if device_of(node) is None else CHEAP_AGAIN):
            chosen.add(node)
            work.add(node)
    return chosen - stored


def _is_parting(node: UOp, consumers: Mapping[UOp, Sequence[UOp]]) -> bool:
    """Return True if paths separate at `node`: the last value of a common path is stored."""
    users = consumers[node]
    while len(users) == 1 and users[0].op in MOVEMENT and users[0].op is not Ops.EXPAND:
        users = consumers[users[0]]
    return len(users) != 1 or users[0].op in (Ops.EXPAND, Ops.REDUCE)


def bases_to_materialise(order: Sequence[UOp], stored: Set[UOp]) -> set[UOp]:
    """Return the values that an EXPAND repeats and that are better computed once."""
    chosen = set(stored)
    work = ElementWork(chosen)
    copies: dict[UOp, int] = {}
    for node in order:
        if node.op is Ops.EXPAND:
            base = _base(node)
            # The windows of a convolution are one EXPAND, its output channels another.
            copies[base] = copies.get(base, 1) * _copies_of(node)
    for node in order:
        work.add(node)
        if node not in copies or node in chosen or node.op not in ALU or device_of(node) is None:
            continue
        is_many = copies[node] >= MANY_COPIES and _is_join(node)
        if is_many or work.exceeds(node, CHEAP, loads=0):
            chosen.add(node)
            work.add(node)
    return chosen - stored


def _copies_of(expand: UOp) -> int:
    """Return the copies of each element that an EXPAND makes; 1 if its size is symbolic."""
    size, source_size = product(shape_of(expand)), product(shape_of(expand.src[0]))
    if not isinstance(size, int) or not isinstance(source_size, int) or source_size == 0:
        return 1
    return size // source_size


def _is_join(node: UOp) -> bool:
    """Return True if an element of `node` comes from one of several padded values, as in a cat."""
    values = node.src[1:] if node.op is Ops.WHERE else node.src
    return len(values) == 2 and all(_is_padded(value) or _is_join(value) for value in values)


def _is_padded(node: UOp) -> bool:
    while node.op in MOVEMENT and node.op is not Ops.PAD:
        node = node.src[0]
    return node.op is Ops.PAD


def _base(expand: UOp) -> UOp:
    base = expand.src[0]
    while base.op in MOVEMENT:
        base = base.src[0]
    return base


# --- products -------------------------------------------------------------------------------------


# A product has at least this number of terms, and reads each element of both factors this often.
MANY_TERMS = 1 << 20
READS_OF_FACTOR = 16


def _is_product(node: UOp) -> bool:
    """Return True if loops compute a REDUCE as a large product, such as a convolution."""
    terms = product(shape_of(node.src[0]))
    factors = _factors(node.src[0])
    if not factors or not isinstance(terms, int) or terms < MANY_TERMS:
        return False
    sizes = [product(shape_of(_moved(factor)[0])) for factor in factors]
    if not all(isinstance(size, int) and terms >= READS_OF_FACTOR * size for size in sizes):
        return False
    return Device.runs_loops(device_of(node) or Device.default)


# --- padding --------------------------------------------------------------------------------------


# A padded operand that a reduce reads from this number of times, and this often for each element,
# is stored: its reads then need no masks, so they are vectors.
MANY_READS = 1 << 15
READS_OF_ELEMENT = 4


def paddings_to_materialise(order: Sequence[UOp]) -> set[UOp]:
    """Return the PADs that products read often, as in convolutions, on devices that run loops."""
    chosen: set[UOp] = set()
    for node in order:
        reads = product(shape_of(node.src[0])) if node.op is Ops.REDUCE else 0
        if not isinstance(reads, int) or reads < MANY_READS:
            continue
        for _, padding in map(_moved, _factors(node.src[0])):
            if padding is None or not Device.runs_loops(device_of(padding) or Device.default):
                continue
            size = product(shape_of(padding))
            if isinstance(size, int) and reads >= READS_OF_ELEMENT * size:
                chosen.add(padding)
    return chosen


def _factors(term: UOp) -> Sequence[UOp]:
    """Return the factors of a summed product, which a condition may replace by a constant."""
    if term.op is Ops.WHERE:
        term = term.src[1]
    return term.src if term.op is Ops.MUL else ()


def _moved(node: UOp) -> tuple[UOp, UOp | None]:
    """Return the value whose elements `node` moves, and the PAD next to it if there is one."""
    padding = None
    while node.op in MOVEMENT or node.op is Ops.CAST:
        if node.op is Ops.PAD:
            padding = node
        node = node.src[0]
    return node, padding


# --- sites ----------------------------------------------------------------------------------------


def _sites(
    order: Sequence[UOp], consumers: Mapping[UOp, Sequence[UOp]], stored: Set[UOp]
) -> dict[UOp, Parts]:
    """Return the sites at which each node is computed: kernels, or movements of elements.

    A set with `SEVERAL` sites is not extended.
    """
    sites: dict[UOp, Parts] = {}
    for node in reversed(order):
        result: Parts = frozenset()
        for consumer in _without_disjoint_cuts(consumers[node]):
            result |= _sites_through(consumer, sites, stored)
            if len(result) >= SEVERAL:
                break
        sites[node] = result
    return sites


def _sites_through(consumer: UOp, sites: Mapping[UOp, Parts], stored: Set[UOp]) -> Parts:
    if consumer in stored:
        return frozenset((consumer,))
    if consumer.op in MOVEMENT and consumer.op is not Ops.RESHAPE and len(sites[consumer]) == 1:
        return frozenset((consumer,))
    return sites[consumer]


def _without_disjoint_cuts(consumers: Sequence[UOp]) -> Sequence[UOp]:
    """Return `consumers`, with only the first of several SHRINKs without common elements."""
    cuts = [node for node in consumers if node.op is Ops.SHRINK]
    if len(cuts) < SEVERAL or not _are_disjoint(cuts):
        return consumers
    return [cuts[0], *(node for node in consumers if node.op is not Ops.SHRINK)]


def _are_disjoint(cuts: Sequence[UOp]) -> bool:
    """Return True if the SHRINKs have separate ranges along one axis."""
    for axis in range(len(shape_of(cuts[0]))):
        bounds = [cut.arg.bounds[axis] for cut in cuts if isinstance(cut.arg, BoundsArg)]
        numbers = [(a, b) for a, b in bounds if isinstance(a, int) and isinstance(b, int)]
        if len(numbers) < len(bounds):
            continue
        numbers.sort()
        if all(before[1] <= after[0] for before, after in itertools.pairwise(numbers)):
            return True
    return False
