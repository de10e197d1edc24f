"""The copies of every node of a kernel, sources first; vectors and their lanes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.expand.accesses import Accesses, AccessRow, AccessRun, Cell, is_false
from tinyref.codegen.expand.lane_ranges import (
    Dependence,
    Numbering,
    Positions,
    extent_of,
    is_index_arithmetic,
    is_lane_range,
    shift,
)
from tinyref.uops import build
from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, ReduceArg

# A lane of a vector, or lane 0 of a scalar.
Piece = tuple[UOp, int]


def take(vector: UOp, *lanes: int) -> UOp:
    """Return these lanes of `vector`, without a node if they are available."""
    if lanes == tuple(range(vector.dtype.lanes)):
        return vector
    if isinstance(vector.arg, ConstArg):
        return build.const(vector.dtype.scalar.vec(len(lanes)), vector.arg.value)
    if vector.op is Ops.VECTORIZE:
        taken = [vector.src[lane] for lane in lanes]
        return taken[0] if len(taken) == 1 else build.vectorize(*taken)
    if isinstance(vector.arg, GepArg):
        # Reversed lanes of a load that are stored in parts, because the end of a buffer cut them.
        return take(vector.src[0], *(vector.arg.lanes[lane] for lane in lanes))
    return build.gep(vector, *lanes)


def repeat(scalar: UOp, lanes: int) -> UOp:
    """Return a vector that repeats `scalar` in `lanes` lanes."""
    if lanes == 1:
        return scalar
    if isinstance(scalar.arg, ConstArg):
        return build.const(scalar.dtype.vec(lanes), scalar.arg.value)
    return build.vectorize(*(scalar,) * lanes)


def join(pieces: Sequence[Piece]) -> UOp:
    """Return the vector of these lanes (or the scalar), with few nodes."""
    first, _ = pieces[0]
    if all(vector is first for vector, _ in pieces):
        if first.dtype.lanes == 1:
            return repeat(first, len(pieces))
        return take(first, *(lane for _, lane in pieces))
    return build.vectorize(*(take(vector, lane) for vector, lane in pieces))


def tidy(node: UOp) -> UOp:
    """Return `node` simplified if constants decide it; more would cost more than it saves."""
    if node.op is Ops.WHERE and isinstance(node.src[0].arg, ConstArg):
        return node.src[1] if node.src[0].arg.value else node.src[2]
    if node.op in ALU and all(source.op is Ops.CONST for source in node.src):
        return simplify(node)
    return node


def _of_two(op: Ops, x: UOp, y: UOp) -> UOp:
    return tidy(UOp(op, x.dtype, (x, y)))


def combine(op: Ops, values: Sequence[UOp]) -> UOp:
    """Combine at least one value by `op`, as a balanced tree in their order.

    A maximum uses equal values once.
    """
    if op is Ops.MAX:
        values = tuple(dict.fromkeys(values))
    if op is Ops.ADD and all(map(_is_product, values)):
        return _summed_products(values)
    while len(values) > 1:
        paired = [_of_two(op, x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = [*paired, values[-1]] if len(values) % 2 else paired
    return values[0]


def _is_product(value: UOp) -> bool:
    """Return True for the product of a matrix tile that is added to 0."""
    if value.op is not Ops.WMMA or not isinstance(value.src[2].arg, ConstArg):
        return False
    return value.src[2].arg.value == 0


def _summed_products(values: Sequence[UOp]) -> UOp:
    """Return the sum of tile products: each adds the previous one, as its C."""
    total = values[0]
    for value in values[1:]:
        total = value.replace(src=(*value.src[:2], total))
    return total


def combine_lanes(op: Ops, vector: UOp, widths: Collection[int]) -> UOp:
    """Combine the lanes of `vector` by `op`: half with half, if the device has such vectors."""
    while vector.dtype.lanes > 1:
        lanes = range(vector.dtype.lanes)
        half = len(lanes) // 2
        if half not in widths:
            return combine(op, [take(vector, lane) for lane in lanes])
        halves = take(vector, *lanes[:half]), take(vector, *lanes[half:])
        vector = _of_two(op, *halves)
    return vector


Copies = list[UOp]


class Expansion:
    """The expansion of one kernel: the replacement of each node, copy by copy.

    The masks of `dependence` and the `numbering` say how values are copied. If a mask has a vector
    range, a copy is a vector. Index arithmetic is different: it stays scalar, is computed for each
    lane on request, and is joined if a vector needs it.
    """

    def __init__(
        self,
        order: Sequence[UOp],
        dependence: Dependence,
        numbering: Numbering,
        capabilities: Capabilities,
    ) -> None:
        self.order = order
        self.masks = dependence.masks
        self.dependence = dependence
        self.numbering = numbering
        self.widths = {1, *capabilities.vector_lanes}
        self.positions = Positions(dependence, numbering)
        self.accesses = Accesses(order, dependence, numbering, self.positions, capabilities)
        # The copies of each node; a STORE may become any number of STOREs.
        self.done: dict[UOp, Copies] = {}
        # The vector that was loaded from each window of a run.
        self.loaded: dict[tuple[AccessRun, int], UOp] = {}

    def root(self) -> UOp:
        """Return the expanded kernel."""
        for node in self.order:
            if is_index_arithmetic(node) or skip_after(node).op is Ops.INDEX:
                # These are computed on request.
                continue
            self.done[node] = _ARMS.get(node.op, Expansion._elementwise)(self, node)
        return self.done[self.order[-1]][0]

    # Access to copies

    def _lanes(self, node: UOp) -> int:
        return self.numbering.lanes(self.masks[node])

    def _value(self, node: UOp, copy: int, lanes: int) -> UOp:
        """Return a copy of `node`, as a vector if `lanes` is not 1."""
        if is_index_arithmetic(node):
            if self._lanes(node) == 1:
                return repeat(self.positions.at(node, copy, 0), lanes)
            return join([(self.positions.at(node, copy, lane), 0) for lane in range(lanes)])
        value = self.done[node][copy]
        return value if self._lanes(node) == lanes else repeat(value, lanes)

    def _piece(self, node: UOp, copy: int, lane: int) -> Piece:
        """Return a lane of a copy of `node`."""
        if is_index_arithmetic(node):
            return self.positions.at(node, copy, lane), 0
        value = self.done[node][copy]
        return (value, 0) if self._lanes(node) == 1 else (value, lane)

    def _scalar(self, user: UOp, node: UOp, copy: int, lane: int) -> UOp:
        """Return a lane of the copy of `node` that belongs to a copy of `user`."""
        vector, lane = self._piece(node, self.accesses.source_copy(user, node, copy), lane)
        return take(vector, lane) if self._lanes(node) > 1 else vector

    def _column(self, node: UOp, mask: int, lanes: int) -> list[UOp]:
        """Return `node` as the source of each copy of a node that depends on `mask`."""
        numbers = self.numbering.projection(mask, self.masks[node])
        copies = {number: self._value(node, number, lanes) for number in set(numbers)}
        return [copies[number] for number in numbers]

    def _all_copies(self, sources: Sequence[UOp]) -> tuple[UOp, ...]:
        """Return all nodes that must precede a node that waits for `sources`, once each."""
        nodes: dict[UOp, None] = {}
        for source in sources:
            if source in self.done:
                nodes.update(dict.fromkeys(self.done[source]))
            elif source.op is Ops.RANGE:
                nodes[source] = None
        return tuple(nodes)

    # Values

    def _elementwise(self, node: UOp) -> Copies:
        mask = self.masks[node]
        lanes = self.numbering.lanes(mask)
        dtype = node.dtype if lanes == 1 else node.dtype.vec(lanes)
        if not node.src:
            return [node]
        columns = [self._column(source, mask, lanes) for source in node.src]
        copies = []
        for src in zip(*columns, strict=True):
            copy = UOp(node.op, dtype, src, node.arg)
            copies.append(tidy(copy) if src[0].op is Ops.CONST else copy)
        return copies

    def _reduce(self, node: UOp) -> Copies:
        value, *ranges = node.src
        assert isinstance(node.arg, ReduceArg), "a REDUCE has its payload"
        op = node.arg.op
        loops = [node_range for node_range in ranges if not is_lane_range(node_range)]
        mask, reduced = self.masks[value], self.dependence.union(ranges)
        lanes = self.numbering.lanes(mask)
        whole = mask | reduced
        # Every lane of a vector range repeats a value that does not depend on the range.
        times = self.numbering.lanes(reduced & ~mask)
        iterations: list[list[UOp]] = [[] for _ in self.numbering.assignments(self.masks[node])]
        copies = self._column(value, whole, lanes)
        for number, copy in zip(
            self.numbering.projection(whole, self.masks[node]), copies, strict=True
        ):
            iterations[number] += [copy] * times
        goes_over_lanes = self._lanes(node) < lanes
        totals = []
        for values in iterations:
            total = combine(op, values)
            is_loop = bool(loops) or not reduced
            if is_loop:
                total = UOp(Ops.REDUCE, total.dtype, (total, *loops), node.arg)
            if goes_over_lanes:
                total = combine_lanes(op, total, self.widths)
            totals.append(total if is_loop else tidy(build.reduce_single(op, total)))
        return totals

    def _lane_at(self, node: UOp) -> Copies:
        """Copy a GEP; if it has ranges, their values select the lane."""
        vector, *ranges = node.src
        if not ranges:
            return self._elementwise(node)
        mask = self.masks[node]
        lanes = node.arg.lanes if isinstance(node.arg, GepArg) else ()
        vector_copies = self.numbering.projection(mask, self.masks[vector])
        copies = []
        for copy, vector_copy in enumerate(vector_copies):
            pieces = []
            for lane in range(self.numbering.lanes(mask)):
                values = self.numbering.counters(mask, copy, lane)
                number = 0
                for lane_range in ranges:
                    number = number * extent_of(lane_range) + values[lane_range]
                pieces.append((self.done[vector][vector_copy], lanes[number]))
            copies.append(join(pieces) if len(pieces) > 1 else take(*pieces[0]))
        return copies

    # Order

    def _wait(self, node: UOp) -> Copies:
        return [node.replace(src=self._all_copies(node.src))]

    def _after(self, node: UOp) -> Copies:
        waits = self._all_copies(node.src[1:])
        copies = self._column(node.src[0], self.masks[node], self._lanes(node))
        return [build.after(copy, *waits) for copy in copies]

    # Memory

    def _made(self, node: UOp) -> UOp:
        """Return the base or the gate of a site, with the copies of its values."""
        if is_index_arithmetic(node):
            return node
        if node in self.done:
            return self.done[node][0]
        return node.replace(src=tuple(map(self._made, node.src)))

    def _address(self, address: UOp, position: UOp) -> UOp:
        """Return the address at another position, after everything that it waits for."""
        if address.op is Ops.INDEX:
            return build.index(self.done[address.src[0]][0], position)
        inner = self._address(address.src[0], position)
        return build.after(inner, *self._all_copies(address.src[1:]))

    def _load(self, node: UOp) -> Copies:
        rows = self.accesses.rows.get(node)
        if rows is not None:
            return [self._load_row(node, row) for row in rows]
        lanes = range(self._lanes(node))
        copies = range(self.numbering.count(self.masks[node]))
        return [join([(self._load_alone(node, i, lane), 0) for lane in lanes]) for i in copies]

    def _load_row(self, node: UOp, row: AccessRow) -> UOp:
        if row.is_window:
            return self._load_cell(node, row.cells[0])[0]
        return join([self._load_cell(node, cell) for cell in row.cells])

    def _load_cell(self, node: UOp, cell: Cell) -> Piece:
        if cell is None:
            return node.src[1], 0
        run, distance = cell
        start, width = run.windows[distance]
        vector = self.loaded.get((run, start))
        if vector is None:
            site = run.site
            address = self._address(node.src[0], shift(self._made(site.base), start))
            alternative = 0 if site.alternative is None else site.alternative.value
            gate = None if site.gate is None else self._made(site.gate)
            vector = build.load(address, gate, alternative, width)
            self.loaded[run, start] = vector
        return vector, distance - start

    def _load_alone(self, node: UOp, copy: int, lane: int) -> UOp:
        """Load a single element, because its position or gate differs between lanes."""
        position = self._scalar(node, skip_after(node.src[0]).src[1], copy, lane)
        address = self._address(node.src[0], position)
        gate = self._gate_alone(node, copy, lane)
        if gate is None:
            return build.load(address)
        alternative = self._scalar(node, node.src[1], copy, lane)
        return alternative if is_false(gate) else build.load(address, gate, alternative)

    def _gate_alone(self, node: UOp, copy: int, lane: int) -> UOp | None:
        """Return the gate of a single element: None if it is always open."""
        if len(node.src) < 3:
            return None
        gate = self._scalar(node, node.src[2], copy, lane)
        return None if isinstance(gate.arg, ConstArg) and gate.arg.value else gate

    def _store(self, node: UOp) -> Copies:
        rows = self.accesses.rows.get(node)
        if rows is not None:
            return self._store_rows(node, rows)
        mask = self.masks[node]
        stores = []
        for copy in range(self.numbering.count(mask)):
            for lane in range(self.numbering.lanes(mask)):
                gate = self._gate_alone(node, copy, lane)
                if is_false(gate):
                    continue
                position = self._scalar(node, skip_after(node.src[0]).src[1], copy, lane)
                value = self._scalar(node, node.src[1], copy, lane)
                stores.append(build.store(self._address(node.src[0], position), value, gate))
        return stores

    def _store_rows(self, node: UOp, rows: Sequence[AccessRow]) -> Copies:
        value = node.src[1]
        # The value of each element: an element that is written twice gets the last value.
        vectors: dict[tuple[AccessRun, int], UOp] = {}
        pieces: dict[tuple[AccessRun, int], Piece] = {}
        for copy, row in enumerate(rows):
            of_value = self.accesses.source_copy(node, value, copy)
            first = row.cells[0]
            if row.is_window and first is not None:
                vectors[first] = self._value(value, of_value, len(row.cells))
                continue
            for lane, cell in enumerate(row.cells):
                if cell is not None:
                    pieces[cell] = self._piece(value, of_value, lane)
        for run, distance in pieces:
            start, width = run.windows[distance]
            if (run, start) not in vectors:
                vectors[run, start] = join([pieces[run, start + lane] for lane in range(width)])
        stores = []
        for (run, start), vector in vectors.items():
            address = self._address(node.src[0], shift(self._made(run.site.base), start))
            gate = None if run.site.gate is None else self._made(run.site.gate)
            stores.append(build.store(address, vector, gate))
        return stores


_ARMS: dict[Ops, Callable[[Expansion, UOp], Copies]] = {
    Ops.REDUCE: Expansion._reduce,
    Ops.GEP: Expansion._lane_at,
    Ops.BARRIER: Expansion._wait,
    Ops.SINK: Expansion._wait,
    Ops.AFTER: Expansion._after,
    Ops.LOAD: Expansion._load,
    Ops.STORE: Expansion._store,
}
