"""Heuristics for processors that run a kernel as loops: vectors, register blocks, threads.

Estimated times decide what pays: the operations and bytes of a kernel, at the rates of the host
(`tinyref/machine.py`). `tinyref bench --query "op.*"` measures the effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tinyref.dtype import PtrDType
from tinyref.optimise.normal_form import reused_values
from tinyref.optimise.opt import REUSED, Opt, OptOp
from tinyref.optimise.plan import (
    Axis,
    AxisAccess,
    Plan,
    accesses,
    axes_of,
    changes,
    number_of,
    reduce_axes,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, WORK_OF_OP, Ops
from tinyref.uops.payload import AxisKind

# The widest useful register, in bytes.
VECTOR_BYTES = 64
# A register block has at most this many accumulating vectors: more of them spill.
BLOCK_VECTORS = 16
# Vectors along an axis in one block.
BLOCK_COLUMNS = (1, 2, 4)
# Rows of a transposed block.
BLOCK_ROWS = (4, 2)
LEAST_LANES = 4
# The limit of elements in a block that are stored one by one, for all outputs together.
SINGLE_STORES = 256
# The weight of a load in the choice of lanes: gathers cost more than scattered stores.
LOAD_WEIGHT = 4
# Loops with at most this number of iterations are unrolled.
SHORT_LOOP = 4
# A kernel with more nodes than this is not unrolled any further.
MAX_COPIED = 64
# Lanes of a vector for which `Machine.operations_per_ns` counts two operations a cycle.
MACHINE_LANES = 16
# Cycles from the start of an addition to its result, and around each sum.
LATENCY = 4
SUM_CYCLES = 10
# Cycles to copy a single element, to store one far from the others, and to gather one as a lane.
SINGLE_CYCLES = 1.2
STORE_CYCLES = 2.0
LANE_CYCLES = 0.2
# Reduces with at least LONG_CHAIN operations compute CHAINS iterations side by side, if the kernel
# computes for at least HEAVY_NS nanoseconds.
LONG_CHAIN = 3
CHAINS = 4
HEAVY_NS = 1 << 18
# The full iterations of a reduce from which lanes that do not divide it pay.
FULL_ITERATIONS = 2
# Ops that cost more to recompute than to store and reload.
EXPENSIVE = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW})
# Threads pay in kernels that take this multiple of the time to wake threads, which grows if others
# use the machine.
THREADS_PAY = 4


@dataclass(frozen=True)
class CompileLimits:
    """Limits below which the time of a compile counts, which is 70,000 ns for each statement.

    statement: the nanoseconds that each statement of a block must save in every launch.
    tiny: kernels that compute for fewer nanoseconds have no lanes that are loaded or stored one by
        one, or that do not divide.
    """

    statement: float = 1 << 6
    tiny: float = 1 << 9


LIMITS = CompileLimits()
# With these limits, a kernel of any size is optimised like a large one.
NO_LIMITS = CompileLimits(0, 0)


def optimised_for_loops(plan: Plan, limits: CompileLimits) -> Plan:
    """Return `plan` with lanes, a register block, unrolled loops and threads, if they pay."""
    plan = _with_scatter(plan)
    plan = _with_chosen_lanes(plan)
    blocked = _with_block(plan, limits)
    plan = _with_transposed_block(blocked or _with_lanes(plan, limits), limits)
    plan = _with_mirrored_lanes(plan)
    plan = _with_reduce_lanes(plan, limits)
    plan = _with_reused_values(plan)
    plan = _with_short_loops(plan)
    return _with_threads(plan)


def _with_scatter(plan: Plan) -> Plan:
    """Send each term of a reduce to its output, if this is faster than comparing all pairs.

    Without an axis for vectors the terms go one by one, while comparisons always have vectors.
    """
    scatter = plan.legal(Opt(OptOp.SCATTER))
    if scatter is None:
        return plan
    lanes = MACHINE_LANES if _natural_axis(scatter) is None else 1
    return scatter if lanes * operations_of(scatter) < operations_of(plan) else plan


# --- lanes ----------------------------------------------------------------------------------------


def _lanes(plan: Plan, axis: Axis, accessed: Sequence[AxisAccess], limits: CompileLimits) -> int:
    """Return the lanes of the widest vector that divides the axis; 1 for none."""
    vectors = _vectors(plan, accessed)
    lanes = max((lanes for lanes in vectors if axis.is_divisible(lanes)), default=1)
    if computing_ns(plan) < limits.tiny:
        are_whole = all(access.step(axis) in (0, 1) for access in accessed)
        return lanes if are_whole and lanes >= LEAST_LANES else 1
    return lanes


def _padded_lanes(
    plan: Plan, axis: Axis, accessed: Sequence[AxisAccess], limits: CompileLimits
) -> int:
    """Return the lanes of the widest vector that divides the axis, or that fits where padding pays.

    1 for none. The last block is a copy of the kernel, so it takes as long to compile again.
    """
    lanes, extent = _lanes(plan, axis, accessed, limits), axis.extent
    if isinstance(extent, int) and computing_ns(plan) >= limits.tiny:
        fitting = (count for count in _vectors(plan, accessed) if LEAST_LANES <= count <= extent)
        return max(lanes, *fitting, 1)
    return lanes


def _vectors(plan: Plan, accessed: Sequence[AxisAccess]) -> list[int]:
    """Return the lanes of the vectors that pay for elements of these accesses."""
    widest = VECTOR_BYTES // max((access.itemsize for access in accessed), default=VECTOR_BYTES)
    return [lanes for lanes in plan.capabilities.vector_lanes if lanes <= widest]


def _worth(axis: Axis, accessed: Sequence[AxisAccess]) -> int:
    """Return the advantage of vectors along `axis` over single elements."""
    total = 0
    for access in accessed:
        step = access.step(axis)
        weight = 1 if access.is_store else LOAD_WEIGHT
        # A vector that is loaded backwards is reversed in registers.
        if step == 1 or (step == -1 and not access.is_store):
            total += weight
        elif step != 0:
            total -= weight
    return total


def _with_lanes(plan: Plan, limits: CompileLimits) -> Plan:
    """Use vectors along the output axis in which most accesses are contiguous."""
    number = _natural_axis(plan)
    if number is None:
        return plan
    lanes = _padded_lanes(plan, plan.axes[number], accesses(plan), limits)
    return plan.cut_padded_lanes(number, lanes)


def _natural_axis(plan: Plan) -> int | None:
    """Return the number of the output axis in which most accesses are contiguous, if there is one.

    The loads of reduced values run most often: the other accesses only decide between equals.
    """
    accessed = accesses(plan)
    summed = _summed_loads(plan)
    nodes = {access.node for access in summed}
    others = [access for access in accessed if access.node not in nodes]
    ranked = [
        (_worth(plan.axes[number], summed), _worth(plan.axes[number], others), number)
        for number in plan.of_kind(AxisKind.GLOBAL)
    ]
    *worth, number = max(ranked, default=(0, 0, 0))
    return number if worth > [0, 0] or _is_expensive(plan) else None


def _is_expensive(plan: Plan) -> bool:
    """Return True for a kernel that computes longer than it gathers lanes."""
    return not plan.of_kind(AxisKind.REDUCE) and any(node.op in EXPENSIVE for node in plan.nodes)


def _with_reduce_lanes(plan: Plan, limits: CompileLimits) -> Plan:
    """Use vectors along a reduced axis if the reduced value has no lanes yet."""
    for node, axes in list(reduce_axes(plan)):
        if not axes or plan.axes_of(node.src[0], AxisKind.UPCAST, AxisKind.UNROLL):
            continue
        inside = {part for part in node.src[0].toposort() if part.op is Ops.LOAD}
        loads = [access for access in accesses(plan) if access.node in inside]
        # Among equally good axes, use the innermost.
        worth, index = max((_worth(axis, loads), index) for index, axis in enumerate(axes))
        lanes = _lanes_of_reduce(plan, axes[index], loads, limits)
        if worth > 0 and lanes > 1:
            number = plan.axes.index(axes[index])
            plan = plan.cut_padded_lanes(number, lanes)
            plan = _with_more_sums(plan, node, axes[index].target)
    return plan


def _lanes_of_reduce(
    plan: Plan, axis: Axis, loads: Sequence[AxisAccess], limits: CompileLimits
) -> int:
    """Return the lanes along a reduced axis with the fewest iterations; the last may be partial."""
    lanes = _lanes(plan, axis, loads, limits)
    extent = axis.extent
    if not isinstance(extent, int):
        return lanes
    padded = [count for count in _vectors(plan, loads) if extent >= FULL_ITERATIONS * count]
    return max([lanes, *padded])


def _with_more_sums(plan: Plan, node: UOp, target: int) -> Plan:
    """Use several vectors in each iteration of a reduce of much arithmetic, to hide latency."""
    operations = sum(part.op in ALU for part in node.src[0].toposort())
    if operations < LONG_CHAIN or computing_ns(plan) < HEAVY_NS:
        return plan
    number = plan.number_along(target, AxisKind.REDUCE)
    return plan if number is None else plan.cut_lanes(number, CHAINS)


# --- register blocks ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """Outputs in registers: vectors along an operand's axis, at `height` positions of `row`."""

    operand: _Operand
    lanes: int
    vectors: int
    row: int | None
    height: int


def _with_block(plan: Plan, limits: CompileLimits) -> Plan | None:
    """Use the block of outputs that makes the sums of a kernel fastest; None if none has lanes.

    If the panel of an operand is packed, the axis of the vectors goes outside. So the lanes of
    convolutions are output channels, and the lanes of products with a transposed matrix are its
    rows. Sources: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008;
    Zhang, Franchetti and Low, "High performance zero-memory overhead direct convolutions", 2018.
    """
    if number_of(plan.extents(AxisKind.REDUCE)) == 1:
        return None
    timed = [timed for operand in _operands(plan, limits) for timed in operand.timed_blocks()]
    if not timed:
        return None
    nanoseconds, best = min(timed, key=lambda one: one[0])
    if nanoseconds > _nanoseconds_without_lanes(plan):
        return plan
    operand, column = best.operand, best.operand.axis.target
    plan = _upcast(plan, column, best.lanes)
    if best.row is not None:
        plan = _upcast(plan, best.row, best.height)
    plan = _upcast(plan, column, best.vectors)
    return (operand.packs and _pack_panel(plan, operand.rows, operand.loads[0].slot)) or plan


def _operands(plan: Plan, limits: CompileLimits) -> Iterator[_Operand]:
    """Yield the operands along which a block of sums may have vectors, as they are and packed."""
    loads = _summed_loads(plan)
    natural = _natural_axis(plan)
    has_one_sum = len(list(reduce_axes(plan))) == 1
    for number in plan.of_kind(AxisKind.GLOBAL):
        axis = plan.axes[number]
        moving = [load for load in loads if axis.target in load.moves]
        if not moving or not isinstance(axis.extent, int):
            continue
        # Joined operands, such as images of several sources, are loaded one after the other.
        common = set.intersection(*(set(_rows_of(plan, load, loads)) for load in moving))
        rows = tuple(sorted(common))
        if number == natural:
            yield _Operand(plan, limits, axis, moving, rows, False)
        if len(moving) == 1 and rows and has_one_sum and plan.capabilities.shared_bytes:
            yield _Operand(plan, limits, axis, moving, rows, True)


def _nanoseconds_without_lanes(plan: Plan) -> float:
    """Return the time of sums without lanes of outputs; the terms may have lanes then."""
    loads = _summed_loads(plan)
    inner = plan.axes[plan.of_kind(AxisKind.REDUCE)[-1]]
    extent, lanes = inner.extent, 1
    if isinstance(extent, int) and all(load.step(inner) in (0, 1) for load in loads):
        lanes = max((count for count in _vectors(plan, loads) if count <= extent), default=1)
    terms = number_of(plan.extents(AxisKind.REDUCE)) // lanes + 1
    outputs = number_of(plan.extents(AxisKind.GLOBAL))
    return outputs * (terms * LATENCY + lanes * SINGLE_CYCLES) * _cycle_ns(plan)


def _cycle_ns(plan: Plan) -> float:
    """Return the time of a cycle, in which a core starts two operations on vectors."""
    return 2 * MACHINE_LANES / plan.capabilities.machine.operations_per_ns


class _Operand:
    """The loads of sums that move along one output axis, and the time of blocks with vectors there.

    A term takes as long as the slowest of its operations, its loads, and the latency of its
    additions, and a cycle for the loop.

    rows: the axes along which the loads are constant and another load is not.
    packs: whether the loads read a copy, in which the lanes are neighbours.
    """

    def __init__(
        self,
        plan: Plan,
        limits: CompileLimits,
        axis: Axis,
        loads: Sequence[AxisAccess],
        rows: tuple[int, ...],
        packs: bool,
    ) -> None:
        self.plan, self.axis, self.loads, self.rows, self.packs = plan, axis, loads, rows, packs
        self.statement_ns = limits.statement
        self.cycle_ns = _cycle_ns(plan)
        self.extent = _extent(plan, axis.target)
        self.depth = number_of(plan.extents(AxisKind.REDUCE))
        self.outputs = number_of(plan.extents(AxisKind.GLOBAL))
        self.copied = self._reads(loads[0])
        self.elements = self._elements(loads[0])
        self.gathered = 0 if packs else sum(not load.is_unit(axis) for load in loads)
        inner = plan.axes[plan.of_kind(AxisKind.REDUCE)[-1]]
        others = [load for load in _summed_loads(plan) if load not in loads]
        self.scalar_loads = len(others)
        # The bytes of a cache line per term, unless the terms are neighbours in it.
        self.line_cycles = sum(
            self._cycles_of_bytes(VECTOR_BYTES, self._elements(load) * load.itemsize)
            for load in others
            if not load.is_unit(inner)
        )
        stores = [access for access in accesses(plan) if access.is_store]
        self.far_stores = [store for store in stores if not store.is_unit(axis)]
        self.unit_stores = len(stores) - len(self.far_stores)

    def timed_blocks(self) -> Iterator[tuple[float, _Block]]:
        """Yield blocks with their times: each divides the rows, or the last rows are fewer."""
        for row in reversed(self.rows or (None,)):
            rows = 1 if row is None else _extent(self.plan, row)
            axes = [axis for axis in self.plan.axes if axis.target == row]
            single = sum(not any(map(store.is_unit, axes)) for store in self.far_stores)
            far = len(self.far_stores) * SINGLE_CYCLES + single * (STORE_CYCLES - SINGLE_CYCLES)
            for lanes, vectors in self._widths():
                for height in _heights(rows, vectors):
                    if self.packs and lanes * vectors * height * single > SINGLE_STORES:
                        continue
                    block = _Block(self, lanes, vectors, row, height)
                    yield self._nanoseconds(block, rows, far), block

    def _widths(self) -> Iterator[tuple[int, int]]:
        """Yield the lanes to try, each with the numbers of vectors that the axis and memory fit."""
        for lanes in self._lanes():
            for vectors in BLOCK_COLUMNS:
                is_wider = (vectors - 1) * lanes >= self.extent
                if is_wider or not self._fits_scratch(lanes * vectors):
                    break
                yield lanes, vectors

    def _lanes(self) -> set[int]:
        """Return the lanes to try: the most that fit, the most that divide, and the next more."""
        counts = [count for count in _vectors(self.plan, accesses(self.plan)) if count > 1]
        fitting = [count for count in counts if count <= self.extent]
        more = [count for count in counts if LEAST_LANES <= count < 2 * self.extent]
        whole = [count for count in fitting if self.extent % count == 0]
        most = fitting[-1:]
        if most == whole[-1:]:
            return set(most)
        padded = [count for count in (*most, *more[-1:]) if count >= LEAST_LANES]
        return {*padded, *whole[-1:]}

    def _fits_scratch(self, width: int) -> bool:
        """Return whether scratch memory has room for the panel, twice if the last one is padded."""
        panels = 1 if self.extent % width == 0 else 2
        panel = panels * width * self.depth * self.loads[0].itemsize
        return not self.packs or panel <= self.plan.capabilities.shared_bytes

    def _nanoseconds(self, block: _Block, rows: int, far: float) -> float:
        """Return the time of the kernel and of a share of its compile.

        rows: the extent of the row axis.
        far: the cycles to store one element where vectors are not contiguous.
        """
        lanes, width = block.lanes, block.lanes * block.vectors
        panel = self.depth * width if self.packs else self.elements
        of_vector = self._vector_cycles(lanes, panel)
        cycles, statements = 0.0, 0.0
        for column_count, columns in _parts(self.extent, width):
            vectors = -(-columns // lanes)
            partial = columns % lanes
            loading = vectors * of_vector + self.gathered * columns * SINGLE_CYCLES
            if partial and not self.packs:
                # Whole vectors next to a partial one are also loaded lane by lane.
                loading += columns * (LANE_CYCLES if vectors == 1 else SINGLE_CYCLES)
            stored = self.unit_stores * (columns // lanes + partial * SINGLE_CYCLES) + columns * far
            written = self.unit_stores * (vectors + partial) + len(self.far_stores) * columns
            for row_count, height in _parts(rows, block.height):
                of_rows = height * self.scalar_loads / 2 + self.line_cycles
                term = 1 + max(LATENCY, vectors * height / 2, loading + of_rows)
                of_block = self.depth * term + SUM_CYCLES + height * stored
                cycles += column_count * row_count * of_block
                statements += vectors + partial + height * (1 + 2 * vectors + written)
        cycles *= self.outputs / (self.extent * rows)
        if self.packs:
            is_unit = self.loads[0].is_unit(self.axis)
            copying = (1 + self._vector_cycles(lanes, self.elements)) / lanes
            cycles += self.copied * (copying if is_unit else SINGLE_CYCLES)
            statements += 2 * (block.vectors if is_unit else width)
        return cycles * self.cycle_ns + statements * self.statement_ns

    def _vector_cycles(self, lanes: int, elements: int) -> float:
        """Return the cycles to load a vector from this many elements of the operand."""
        itemsize = self.loads[0].itemsize
        return self._cycles_of_bytes(lanes * itemsize, elements * itemsize)

    def _cycles_of_bytes(self, count: int, memory: int) -> float:
        """Return the cycles to load this many bytes from a memory of a size."""
        return count / (self.plan.capabilities.machine.bytes_per_ns(memory) * self.cycle_ns)

    def _reads(self, load: AxisAccess) -> int:
        """Return the number of different positions of a load in the sums."""
        return self.depth * number_of(_extent(self.plan, target) for target in load.moves)

    def _elements(self, load: AxisAccess) -> int:
        """Return the number of elements that a load reads, at most the size of its buffer."""
        memory = load.node.src[0].dtype
        reads = self._reads(load)
        return min(reads, memory.size) if isinstance(memory, PtrDType) else reads


def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """Return the number of whole parts of an axis with their size, then 1 with the rest, if any."""
    parts = [(extent // size, size), (1, extent % size)]
    return [(count, part) for count, part in parts if count and part]


def _heights(extent: int, vectors: int) -> set[int]:
    """Return the heights to try: one, the most, the largest divisor, and the least equal blocks."""
    most = min(extent, BLOCK_VECTORS // vectors)
    divisor = max(height for height in range(1, most + 1) if extent % height == 0)
    return {1, divisor, most, -(-extent // -(-extent // most))}


def _with_transposed_block(plan: Plan, limits: CompileLimits) -> Plan:
    """Use a block of rows where lanes cross the rows of a buffer, as in transposed copies.

    The block is loaded and stored as vectors, and transposed in registers.
    """
    lanes = [axis for axis in plan.axes if axis.kind is AxisKind.UPCAST]
    if len(lanes) != 1 or plan.of_kind(AxisKind.REDUCE):
        return plan
    crossing = [access for access in accesses(plan) if access.step(lanes[0]) not in (0, 1)]
    for number in plan.of_kind(AxisKind.GLOBAL):
        axis = plan.axes[number]
        if any(access.step(axis) == 1 for access in crossing):
            extent, most = _extent(plan, axis.target), BLOCK_ROWS[0]
            pads = extent > most and computing_ns(plan) >= limits.tiny
            return _upcast(plan, axis.target, most if pads else _divisor(extent, BLOCK_ROWS))
    return plan


def _pack_panel(plan: Plan, rows: Collection[int], slot: int) -> Plan | None:
    """Pack the panel of a buffer in scratch memory, filled outside of the loops over `rows`.

    These axes are no part of it, and go inside of all others. Return None if this is illegal.
    """
    while True:
        numbers = plan.of_kind(AxisKind.GLOBAL)
        inside = [number for number in numbers if plan.axes[number].target in rows]
        if not inside:
            return None
        late = [number for number in numbers if number > inside[0] and number not in inside]
        if not late:
            return plan.legal(Opt(OptOp.PACK, inside[-1], slot))
        swapped = plan.legal(Opt(OptOp.SWAP, inside[0], late[-1]))
        if swapped is None:
            return None
        plan = swapped


def _rows_of(plan: Plan, panel: AxisAccess, loads: Sequence[AxisAccess]) -> tuple[int, ...]:
    """Return the output axes along which `panel` is constant and another load is not."""
    targets = (plan.axes[number].target for number in plan.of_kind(AxisKind.GLOBAL))
    return tuple(
        target
        for target in targets
        if target not in panel.moves and any(target in load.moves for load in loads)
    )


def _summed_loads(plan: Plan) -> list[AxisAccess]:
    """Return the loads of reduced values, without the loads of later operations."""
    summed = {part for node, _ in reduce_axes(plan) for part in node.src[0].toposort()}
    return [access for access in accesses(plan) if access.node in summed and not access.is_store]


def _extent(plan: Plan, target: int) -> int:
    """Return the iterations of the global axis of `target`; 1 if it is missing or symbolic."""
    number = plan.number_along(target)
    extent = 1 if number is None else plan.axes[number].extent
    return extent if isinstance(extent, int) else 1


def _divisor(extent: int, amounts: Iterable[int]) -> int:
    return next((amount for amount in amounts if extent % amount == 0), 1)


def _upcast(plan: Plan, target: int, amount: int) -> Plan:
    number = plan.number_along(target)
    return plan if number is None else plan.cut_padded_lanes(number, amount)


def _with_mirrored_lanes(plan: Plan) -> Plan:
    """Unroll short output axes along which a buffer is read in both directions.

    The mirrored lane needs the same loads and operations, as the comparisons of a sorting network.
    """
    loads = [access for access in accesses(plan) if not access.is_store]
    copies = 1
    for number in reversed(plan.of_kind(AxisKind.GLOBAL)):
        axis = plan.axes[number]
        steps = {(access.slot, access.step(axis)) for access in loads}
        is_mirrored = any(step and (slot, -step) in steps for slot, step in steps)
        extent = _extent(plan, axis.target)
        if is_mirrored and extent <= SHORT_LOOP and copies * extent <= BLOCK_VECTORS:
            plan = plan.cut_lanes(number, extent)
            copies *= extent
    return plan


def _with_chosen_lanes(plan: Plan) -> Plan:
    """Unroll short output axes whose counter chooses one of several values, as in a scan.

    Each copy stores one of the values, and the copies share all that the values have in common.
    """
    choices = [changes(node.src[0]) for node in plan.nodes if node.op is Ops.WHERE]
    for number in reversed(plan.of_kind(AxisKind.GLOBAL)):
        axis = plan.axes[number]
        extent = _extent(plan, axis.target)
        if 1 < extent <= min(choices.count(frozenset((axis.target,))) + 1, BLOCK_VECTORS):
            plan = plan.cut_lanes(number, extent)
    return plan


def _with_reused_values(plan: Plan) -> Plan:
    """Store expensive values of reduces that the outputs need again in scratch memory."""
    for value in reused_values(plan.form):
        number = plan.number_along(value.output)
        is_expensive = any(node.op in EXPENSIVE for node in value.inner.toposort())
        if is_expensive and number is not None:
            return plan.apply_if_legal(Opt(OptOp.PACK, number, REUSED))
    return plan


# --- short loops and threads ----------------------------------------------------------------------


def _with_short_loops(plan: Plan) -> Plan:
    """Unroll innermost loops of few iterations while the kernel stays small."""
    copies = plan.lanes
    size = sum(node.op in ALU or node.op is Ops.LOAD for node in plan.nodes)
    while numbers := plan.of_kind(AxisKind.REDUCE):
        extent = plan.axes[numbers[-1]].extent
        if not isinstance(extent, int) or extent > SHORT_LOOP:
            break
        copies *= extent
        if copies * size > MAX_COPIED:
            break
        plan = plan.apply(Opt(OptOp.UNROLL, numbers[-1], 0))
    return plan


def _with_threads(plan: Plan) -> Plan:
    """Distribute large kernels over threads along their outermost axis that divides.

    A padded axis is the last choice: its loop is not peeled if threads share it.
    """
    threads, machine = plan.capabilities.threads, plan.capabilities.machine
    if machine.nanoseconds(operations_of(plan), _bytes(plan)) < THREADS_PAY * machine.thread_ns:
        return plan
    numbers = plan.of_kind(AxisKind.GLOBAL)
    numbers.sort(key=lambda number: plan.is_padded(plan.axes[number].target))
    for amount in range(threads, 1, -1):
        for number in numbers:
            axis = plan.axes[number]
            if axis.is_divisible(amount) and _is_distributed(plan, axis):
                return plan.apply_if_legal(Opt(OptOp.THREAD, number, amount))
    return plan


def _is_distributed(plan: Plan, axis: Axis) -> bool:
    """Return True if threads along `axis` reduce different values: none repeats a reduce."""
    return all(axis.target in changes(node) for node, _ in reduce_axes(plan))


def computing_ns(plan: Plan) -> float:
    """Return the time of the operations of the kernel on one thread, without memory."""
    return plan.capabilities.machine.nanoseconds(operations_of(plan))


def operations_of(plan: Plan) -> int:
    """Return the rough number of operations: the work of every node at every position."""
    # The plans of a kernel share this number, so it is cached with the kernel.
    facts = plan.form.ast.facts
    total: int | None = facts.get(operations_of)
    if total is None:
        total = facts[operations_of] = _operations(plan)
    return total


def _operations(plan: Plan) -> int:
    total = 0
    for node in plan.nodes:
        if node.op in ALU or node.op in (Ops.LOAD, Ops.STORE):
            value = node.src[0] if node.op is Ops.STORE else node
            targets = axes_of(value)
            positions = number_of(plan.shape[target] for target in targets)
            total += WORK_OF_OP.get(node.op, 1) * positions
    return total


def _bytes(plan: Plan) -> int:
    """Return the bytes that the kernel reads and writes, each once."""
    total = 0
    for access in accesses(plan):
        elements = number_of(plan.shape[axis] for axis in access.moves)
        total += elements * access.itemsize
    return total
