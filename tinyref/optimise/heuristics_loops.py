"""Heuristics for processors that run a kernel as loops: vectors, register blocks, threads.

Measured on x86 with 512-bit vectors; `tinyref bench --row "quality.*"` shows what they give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Axis, Plan, axes_of, number_of
from tinyref.optimise.strides import Access, accesses, reduce_axes
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import AxisKind

# The widest register that pays, in bytes.
VECTOR_BYTES = 64
# A register block has this many accumulating vectors: more of them spill.
BLOCK_VECTORS = 16
# Loads within a reduce run so much more often than what is outside of it.
REDUCE_WEIGHT = 4
# Loops of so few iterations are unrolled.
SHORT_LOOP = 4
# A kernel of so many nodes is not unrolled any further.
MAX_COPIED = 64
# The copy of a panel pays from so many uses of each element, and for arrays beyond a small cache.
PACK_USES = 16
PACK_BYTES = 32 * 1024
# Of a reduce of so many operations, so many iterations are computed side by side in a heavy kernel.
LONG_CHAIN = 3
CHAINS = 4
HEAVY_WORK = 1 << 24
# Waking threads takes as long as so much work, in elementary operations on elements.
THREAD_WORK = 1 << 19


def optimised_for_loops(plan: Plan) -> Plan:
    """`plan` with lanes, a register block, unrolled short loops and threads, where they pay."""
    plan = _with_lanes(plan)
    plan = _with_block(plan)
    plan = _with_reduce_lanes(plan)
    plan = _with_short_loops(plan)
    return _with_threads(plan)


# --- lanes ----------------------------------------------------------------------------------------


def _lanes(plan: Plan, axis: Axis, found: Iterable[Access]) -> int:
    """The widest vector whose lanes divide the axis; 1 for none."""
    widest = VECTOR_BYTES // max((access.itemsize for access in found), default=VECTOR_BYTES)
    fitting = [n for n in plan.capabilities.vector_lanes if n <= widest and axis.is_divisible(n)]
    return max(fitting, default=1)


def _worth(axis: Axis, found: Sequence[Access]) -> int:
    """How much better than element by element the accesses are as vectors along `axis`."""
    total = 0
    for access in found:
        step = access.step(axis)
        weight = 1 if access.is_store else REDUCE_WEIGHT
        if step == 1:
            total += weight
        elif step != 0:
            total -= weight
    return total


def _with_lanes(plan: Plan) -> Plan:
    """Vectors along the output axis in which most accesses take neighbours."""
    found = accesses(plan)
    ranked = [
        (_worth(plan.axes[number], found), number) for number in plan.of_kind(AxisKind.GLOBAL)
    ]
    worth, number = max(ranked, default=(0, 0))
    if worth <= 0:
        return plan
    lanes = _lanes(plan, plan.axes[number], found)
    return plan.cut_lanes(number, lanes)


def _with_reduce_lanes(plan: Plan) -> Plan:
    """Vectors along a reduced axis, where what is reduced has no lanes yet."""
    for node, axes in list(reduce_axes(plan)):
        if not axes or plan.axes_of(node.src[0], AxisKind.UPCAST, AxisKind.UNROLL):
            continue
        inside = {part for part in node.src[0].toposort() if part.op is Ops.LOAD}
        found = [access for access in accesses(plan) if access.node in inside]
        # Of equally good axes the innermost.
        worth, place = max((_worth(axis, found), place) for place, axis in enumerate(axes))
        lanes = _lanes(plan, axes[place], found)
        if worth > 0 and lanes > 1:
            number = plan.axes.index(axes[place])
            plan = plan.cut_lanes(number, lanes)
            plan = _with_more_sums(plan, node, axes[place].target)
    return plan


def _with_more_sums(plan: Plan, node: UOp, target: int) -> Plan:
    """Several vectors in each iteration of a reduce of much arithmetic, to hide its latency."""
    operations = sum(part.op in ALU for part in node.src[0].toposort())
    if operations < LONG_CHAIN or _work(plan) < HEAVY_WORK:
        return plan
    number = plan.number_along(target, AxisKind.REDUCE)
    return plan if number is None else plan.cut_lanes(number, CHAINS)


# --- register blocks ------------------------------------------------------------------------------


def _with_block(plan: Plan) -> Plan:
    """A block of outputs in registers, for products in which every element is used many times.

    The vectors' axis goes outside, so that the panel of the operand that it needs is packed once
    for all rows. Source of the scheme: Goto and van de Geijn, "Anatomy of high-performance matrix
    multiplication", 2008.
    """
    lanes = [axis for axis in plan.axes if axis.kind is AxisKind.UPCAST]
    depth = number_of(axis.extent for axis in plan.axes if axis.kind is AxisKind.REDUCE)
    loads = [access for access in accesses(plan) if not access.is_store]
    panel = [access for access in loads if lanes and lanes[0].target in access.moves]
    if len(panel) != 1 or len(loads) < 2 or depth == 1:
        return plan
    column = lanes[0].target
    rows = [
        plan.axes[number].target
        for number in plan.of_kind(AxisKind.GLOBAL)
        if plan.axes[number].target != column
        and plan.axes[number].target not in panel[0].moves
        and any(plan.axes[number].target in access.moves for access in loads)
    ]
    if not rows:
        return plan
    bytes_of_column = depth * number_of([lanes[0].extent]) * panel[0].itemsize
    fits = plan.capabilities.shared_bytes >= 4 * bytes_of_column
    vectors = _divisor(_extent(plan, column), (4, 2) if fits else (2,))
    height = _divisor(_extent(plan, rows[-1]), (BLOCK_VECTORS // vectors, 4, 2))
    plan = _upcast(plan, rows[-1], height)
    plan = _upcast(plan, column, vectors)
    uses = _extent(plan, rows[-1])
    if uses < PACK_USES or bytes_of_column * vectors < PACK_BYTES:
        return plan
    return _pack_panel(plan, column, rows[-1], panel[0].slot)


def _pack_panel(plan: Plan, column: int, row: int, slot: int) -> Plan:
    """The panel of a buffer in scratch memory, filled inside the columns and outside the rows."""
    first, second = plan.number_along(row), plan.number_along(column)
    swapped: Plan | None = plan
    if first is not None and second is not None and first < second:
        swapped = plan.legal(Opt(OptOp.SWAP, first, second))
    inner = None if swapped is None else swapped.number_along(row)
    if swapped is None or inner is None:
        return plan
    return swapped.legal(Opt(OptOp.PACK, inner, slot)) or plan


def _extent(plan: Plan, target: int) -> int:
    """The iterations of the global axis of `target`; 1 if there is none, or a symbolic number."""
    number = plan.number_along(target)
    extent = 1 if number is None else plan.axes[number].extent
    return extent if isinstance(extent, int) else 1


def _divisor(extent: int, amounts: Iterable[int]) -> int:
    return next((amount for amount in amounts if extent % amount == 0), 1)


def _upcast(plan: Plan, target: int, amount: int) -> Plan:
    number = plan.number_along(target)
    return plan if number is None else plan.cut_lanes(number, amount)


# --- short loops and threads ----------------------------------------------------------------------


def _with_short_loops(plan: Plan) -> Plan:
    """Innermost loops of few iterations unrolled, while the kernel stays small."""
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
    """Large kernels are shared among threads along their outermost axis that divides."""
    threads = plan.capabilities.threads
    if threads < 2 or _work(plan) < THREAD_WORK:
        return plan
    for amount in range(threads, 1, -1):
        for number in plan.of_kind(AxisKind.GLOBAL):
            if plan.axes[number].is_divisible(amount):
                return plan.apply_if_legal(Opt(OptOp.THREAD, number, amount))
    return plan


def _work(plan: Plan) -> int:
    """Elementary operations on elements, roughly: every node at every position of its shape."""
    total = 0
    for node in plan.nodes:
        if node.op in ALU or node.op in (Ops.LOAD, Ops.STORE):
            shown = node.src[0] if node.op is Ops.STORE else node
            targets = axes_of(shown)
            total += number_of(plan.shape[target] for target in targets)
    return total
