"""Heuristics for processors that run a kernel as loops: vectors, register blocks, threads.

Estimated times decide what pays: the operations and bytes of a kernel, at the rates of the host
(`tinyref/machine.py`). `tinyref bench --query "op.*"` measures the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

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
# A register block has this many accumulating vectors: more of them spill.
BLOCK_VECTORS = 16
# The same in kernels of little work, and the fewest lanes that tiny ones have.
SMALL_BLOCK = 4
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
# A copy of a panel pays from this number of uses of each element, and beyond a small cache.
PACK_USES = 16
# The terms of a sum from which a copy for padded lanes pays.
PADDED_DEPTH = 32
# Rows of a block whose lanes are packed: each takes a register for its sums.
BLOCK_HEIGHTS = (8, 7, 6, 9, 10, 5, 4, 12, 11, 3, 2)
# From this height on, a block computes as fast as a higher one.
HIGH = 6
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
    """Limits in nanoseconds of computing, below which the time of a compile counts.

    A compile takes 70,000 for each statement.
    small: shorter kernels have a small block.
    padded: shorter products have no blocks that do not divide an axis.
    tiny: shorter kernels have no lanes that are loaded or stored one by one, or that do not divide,
        and no sums of several vectors of columns.
    """

    small: float = 1 << 16
    padded: float = 1 << 13
    tiny: float = 1 << 9


LIMITS = CompileLimits()
# With these limits, a kernel of any size is optimised like a large one.
NO_LIMITS = CompileLimits(0, 0, 0)


# The number of lanes along an axis.
LaneChoice = Callable[[Plan, Axis, Sequence[AxisAccess], CompileLimits], int]


def optimised_for_loops(plan: Plan, limits: CompileLimits) -> Plan:
    """Return `plan` with lanes, a register block, unrolled loops and threads, if they pay."""
    plan = _with_chosen_lanes(plan)
    whole = _with_lanes(plan, limits, _lanes)
    packed = _with_packed_lanes(plan, whole.lanes, limits)
    if packed is None:
        natural = _with_lanes(plan, limits, _padded_lanes) if _pads(plan, limits) else whole
        packed = _with_block(natural, limits)
    plan = _with_transposed_block(packed, limits)
    plan = _with_mirrored_lanes(plan)
    plan = _with_reduce_lanes(plan, limits)
    plan = _with_reused_values(plan)
    plan = _with_short_loops(plan)
    return _with_threads(plan)


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

    1 for none.
    """
    lanes, extent = _lanes(plan, axis, accessed, limits), axis.extent
    if isinstance(extent, int) and _pads(plan, limits):
        fitting = (count for count in _vectors(plan, accessed) if LEAST_LANES <= count <= extent)
        return max(lanes, *fitting, 1)
    return lanes


def _vectors(plan: Plan, accessed: Sequence[AxisAccess]) -> list[int]:
    """Return the lanes of the vectors that pay for elements of these accesses."""
    widest = VECTOR_BYTES // max((access.itemsize for access in accessed), default=VECTOR_BYTES)
    return [lanes for lanes in plan.capabilities.vector_lanes if lanes <= widest]


def _pads(plan: Plan, limits: CompileLimits) -> bool:
    """Return whether blocks that do not divide an output axis pay: in kernels of enough work.

    The last block is a copy of the kernel, so it takes as long to compile again. The block of a
    product is large.
    """
    is_product = len({load.slot for load in _summed_loads(plan)}) > 1
    return computing_ns(plan) >= (limits.padded if is_product else limits.tiny)


def _worth(axis: Axis, accessed: Sequence[AxisAccess]) -> int:
    """Return the advantage of vectors along `axis` over single elements."""
    total = 0
    for access in accessed:
        step = access.step(axis)
        weight = 1 if access.is_store else LOAD_WEIGHT
        if step == 1:
            total += weight
        elif step != 0:
            total -= weight
    return total


def _with_lanes(plan: Plan, limits: CompileLimits, lanes_of: LaneChoice) -> Plan:
    """Use vectors along the output axis in which most accesses are contiguous.

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
    if worth <= [0, 0] and not _is_expensive(plan):
        return plan
    lanes = lanes_of(plan, plan.axes[number], accessed, limits)
    return plan.cut_padded_lanes(number, lanes)


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


def _with_block(plan: Plan, limits: CompileLimits) -> Plan:
    """Use a block of outputs in registers, for products that use every element many times.

    The axis of the vectors goes outside, so its panel of the operand is packed once for all rows.
    Source of the scheme: Goto and van de Geijn, "Anatomy of high-performance matrix
    multiplication", 2008.
    """
    lanes = [axis for axis in plan.axes if axis.kind is AxisKind.UPCAST]
    depth = number_of(axis.extent for axis in plan.axes if axis.kind is AxisKind.REDUCE)
    loads = _summed_loads(plan)
    panel = [access for access in loads if lanes and lanes[0].target in access.moves]
    if not panel or depth == 1:
        return plan
    if len(loads) == len(panel) and computing_ns(plan) < limits.tiny:
        return plan
    column = lanes[0].target
    # Joined operands, such as images of several sources, are loaded one after the other.
    common = set.intersection(*(set(_rows_of(plan, load, loads)) for load in panel))
    rows = tuple(sorted(common))
    if not rows:
        # No element is used twice, but several sums side by side hide the latency of additions.
        return _upcast(plan, column, _divisor(_extent(plan, column), (4, 2)))
    bytes_of_column = depth * number_of([lanes[0].extent]) * panel[0].itemsize
    fits = plan.capabilities.shared_bytes >= 4 * bytes_of_column
    vectors = _divisor(_extent(plan, column), (4, 2) if fits else (2,))
    block = BLOCK_VECTORS if computing_ns(plan) >= limits.small else SMALL_BLOCK
    heights = [height for height in (block // vectors, 4, 2) if height <= block // vectors]
    plan = _upcast(plan, rows[-1], _block(plan, rows[-1], heights, limits))
    plan = _upcast(plan, column, vectors)
    uses = _extent(plan, rows[-1])
    is_large = bytes_of_column * vectors >= plan.capabilities.machine.small_cache
    if len(panel) > 1 or uses < PACK_USES or not is_large:
        return plan
    return _pack_panel(plan, rows, panel[0].slot) or plan


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
            return _upcast(plan, axis.target, _block(plan, axis.target, BLOCK_ROWS, limits))
    return plan


@dataclass(frozen=True, order=True)
class _Panel:
    """A load that is copied, so that `lanes` along the axis of `column` are neighbours.

    is_whole: whether the lanes divide the axis.
    stores: the number of stores that are contiguous there in any case.
    uses: the number of loads of each element of the copy.
    rows: the axes that are no part of it. Better panels compare as greater.
    """

    lanes: int
    is_whole: bool
    stores: int
    uses: int
    column: int
    slot: int
    rows: tuple[int, ...]


def _with_packed_lanes(plan: Plan, natural: int, limits: CompileLimits) -> Plan | None:
    """Use lanes along an axis of one operand of a product, whatever its stride: pack the operand.

    Return None if no such axis has more lanes than `natural`. So the lanes of convolutions are
    output channels, and the lanes of products with a transposed matrix are its rows. Source: Zhang,
    Franchetti and Low, "High performance zero-memory overhead direct convolutions", 2018.
    """
    panel = max(_panels(plan, limits), default=None)
    if panel is None or panel.lanes <= natural:
        return None
    number = plan.number_along(panel.column)
    if number is None:
        return None
    heights = {row: _height(plan, panel, row, limits) for row in panel.rows}
    # Among blocks that are high enough, use the one along the innermost axis: its rows are near.
    row = max(panel.rows, key=lambda axis: (min(heights[axis], HIGH), axis))
    plan = _upcast(plan.cut_padded_lanes(number, panel.lanes), row, heights[row])
    return _pack_panel(plan, panel.rows, panel.slot)


def _height(plan: Plan, panel: _Panel, row: int, limits: CompileLimits) -> int:
    """Return the number of positions of `row` in a block of the lanes of `panel`."""
    stores = [access for access in accesses(plan) if access.is_store]
    axes = [plan.axes[number] for number in plan.of_kind(AxisKind.GLOBAL)]
    block = [axis for axis in axes if axis.target in (panel.column, row)]
    single = sum(not any(map(store.is_unit, block)) for store in stores)
    fitting = [height for height in BLOCK_HEIGHTS if panel.lanes * height * single <= SINGLE_STORES]
    return _block(plan, row, fitting, limits)


def _block(plan: Plan, target: int, amounts: Sequence[int], limits: CompileLimits) -> int:
    """Return the first of `amounts` that divides an output axis, 1 if none does.

    Where padding pays, the first of them instead if the others are less than half of it.
    """
    number, extent = plan.number_along(target), _extent(plan, target)
    divisor = _divisor(extent, amounts)
    if number is None or 2 * divisor > amounts[0]:
        return divisor
    fitting = [amount for amount in amounts if amount < extent]
    return fitting[0] if fitting and _pads(plan, limits) else divisor


def _panels(plan: Plan, limits: CompileLimits) -> Iterator[_Panel]:
    """Yield the operands of the only sum of the kernel that may be packed, with their lanes."""
    reduces = list(reduce_axes(plan))
    loads = _summed_loads(plan)
    if len(reduces) != 1 or len(loads) < 2:
        return
    depth = number_of(axis.extent for axis in reduces[0][1])
    for number in plan.of_kind(AxisKind.GLOBAL):
        axis = plan.axes[number]
        moving = [load for load in loads if axis.target in load.moves]
        if len(moving) != 1:
            continue
        (load,) = moving
        lanes = _packed_lanes(plan, axis, depth, load.itemsize, limits)
        stores = sum(access.is_store and access.is_unit(axis) for access in accesses(plan))
        rows = _rows_of(plan, load, loads)
        uses = number_of(_extent(plan, row) for row in rows)
        if rows and uses >= PACK_USES and lanes:
            is_whole = axis.is_divisible(lanes)
            yield _Panel(lanes, is_whole, stores, uses, axis.target, load.slot, rows)


def _packed_lanes(plan: Plan, axis: Axis, depth: int, itemsize: int, limits: CompileLimits) -> int:
    """Return the most lanes along an axis whose copy fits in half the scratch memory; 0 for none.

    depth: the number of terms that the copy has for each lane.
    """
    most = plan.capabilities.shared_bytes // (2 * depth * itemsize)
    choice = _padded_lanes if depth >= PADDED_DEPTH else _lanes
    lanes = choice(plan, axis, accesses(plan), limits)
    return min(lanes, 1 << most.bit_length() - 1) if most else 0


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
