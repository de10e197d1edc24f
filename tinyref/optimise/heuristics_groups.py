"""Heuristics for devices with launch indices: groups, vectors, unrolled reduces, work-items."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyref import config
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Axis, AxisAccess, Plan, accesses, changes, number_of, reduce_axes
from tinyref.uops.ops import ALU, WORK_OF_OP, Ops
from tinyref.uops.payload import AxisKind, ReduceArg

# A reduce is distributed over a group if fewer outputs than this cannot keep a device busy.
FEW_OUTPUTS = 2048
# Shorter reduces are not worth the detour through shared memory. Groups are tried in this order.
LONG_REDUCE = 256
GROUP_AMOUNTS = (256, 128, 64, 32, 16)
# In the end each work-item reads the parts of all. The square of their number is at most this
# multiple of the length.
PARTS_OF_LENGTH = 4
# For many outputs: the numbers of work-items that read one row.
ROW_AMOUNTS = (32, 16)
# The elements of a wide access.
ACCESS_LANES = 4
# The limits of unrolled copies of a value of a work-item, and of their bytes: registers are few.
MAX_LANES = 64
MAX_LANE_BYTES = 256
# The limit of the work (`WORK_OF_OP`) of all copies of a value, times the bytes of an element.
# The compiler of lavapipe took 66 s for 20 copies of a binary cross entropy of float64, 1 s for 4.
MAX_COPIED_WORK = 4096
# The outputs that work-items must retain when an axis is upcast to reuse loaded values.
ENOUGH_OUTPUTS = 1024
# A masked axis with at most this number of iterations is unrolled: its masks become constants.
SMALL_AXIS = 7
MAX_UNROLLED = 32
MAX_ITEMS = 128
ITEM_AMOUNTS = (32, 16, 8, 4, 3, 2)
# Work-items that run together. If no axis fits a part of them, one of many outputs is padded.
SUBGROUP = 32
MANY_OUTPUTS = 1024
# Matrix times vector: the items that share a row, the rows of a group, the rows of an item.
MATVEC = (8, 4, 4)
# The number of tiles along an axis that a subgroup computes: the reuse of each fragment.
TILES_OF_RUN = (4, 2)


def optimised_for_groups(plan: Plan) -> Plan:
    """Return the optimised `plan` for a device with a grid; groups only if it has them."""
    on_tile = _on_tile(plan)
    if on_tile is not None:
        return on_tile
    matrix_times_vector = _matvec(plan)
    if matrix_times_vector is not None:
        return matrix_times_vector
    plan = _with_grouped_reduce(plan)
    plan = _with_wide_accesses(plan)
    plan = _with_masked_axes(plan)
    if not plan.of_kind(AxisKind.GROUP_REDUCE):
        plan = _with_reuse(plan)
    plan = _with_unrolled_reduce(plan)
    return _with_items(plan)


def _outputs(plan: Plan) -> int:
    return number_of(plan.extents(AxisKind.GLOBAL))


def _max_lanes(plan: Plan) -> int:
    """Return the highest number of copies of its widest value that a work-item may have."""
    computed = [node for node in plan.nodes if node.op in ALU]
    widest = max((node.dtype.itemsize for node in computed), default=4)
    work = sum(WORK_OF_OP.get(node.op, 1) for node in computed)
    return min(MAX_LANES, MAX_LANE_BYTES // widest, MAX_COPIED_WORK // max(work * widest, 1))


def _all_of(plan: Plan, opts: Sequence[Opt]) -> Plan | None:
    """Return `plan` with all these optimisations, or None if one of them is refused."""
    result: Plan | None = plan
    for opt in opts:
        result = None if result is None else result.legal(opt)
    return result


# --- matrix tiles ---------------------------------------------------------------------------------


def _on_tile(plan: Plan) -> Plan | None:
    """Return the plan on the first tile of the device that fits, several for each subgroup."""
    mode = config.integer("TC")
    if not mode or not plan.capabilities.tiles_pay:
        return None
    tiled = plan.legal(Opt(OptOp.TC, 0, -1, config.integer("TC_LEVEL"), mode))
    if tiled is None or tiled.tile is None:
        return None
    for target in tiled.tile.targets[:2]:
        number = tiled.number_along(target)
        if number is None:
            continue
        axis = tiled.axes[number]
        amount = next((count for count in TILES_OF_RUN if axis.is_divisible(count)), 0)
        if amount:
            tiled = tiled.cut_lanes(number, amount)
    return tiled


# --- reduces --------------------------------------------------------------------------------------


def _matvec(plan: Plan) -> Plan | None:
    """Optimise sums of products along contiguous rows that all use the same other operand."""
    sums = [node for node in plan.nodes if isinstance(node.arg, ReduceArg)]
    reduces = plan.of_kind(AxisKind.REDUCE)
    outputs = plan.of_kind(AxisKind.GLOBAL)
    if len(sums) != 1 or len(reduces) != 1 or not outputs or sums[0].src[0].op is not Ops.MUL:
        return None
    inner, rows = plan.axes[reduces[0]], plan.axes[outputs[-1]]
    loads = [access for access in accesses(plan) if not access.is_store]
    matrices = [a for a in loads if a.is_unit(inner) and a.step(rows) not in (0, None)]
    vectors = [a for a in loads if a.is_unit(inner) and a.step(rows) == 0]
    share, group_rows, item_rows = MATVEC
    if len(loads) != 2 or len(matrices) != 1 or len(vectors) != 1 or _outputs(plan) > FEW_OUTPUTS:
        return None
    if not inner.is_divisible(share) or not rows.is_divisible(group_rows * item_rows):
        return None
    opts = (
        Opt(OptOp.GROUP, reduces[0], share),
        Opt(OptOp.LOCAL, outputs[-1], group_rows),
        Opt(OptOp.UPCAST, outputs[-1], item_rows),
    )
    return _all_of(plan, opts)


def _with_grouped_reduce(plan: Plan) -> Plan:
    """Distribute long reduces over groups if few outputs would leave the device idle.

    With many outputs too, if neighbours in memory are neighbours along the reduce and nothing is
    loaded twice. Otherwise, work-items with an output each would read far from each other.
    """
    is_idle = _outputs(plan) <= FEW_OUTPUTS
    if not is_idle and not _reads_rows(plan):
        return plan
    for amount in GROUP_AMOUNTS if is_idle else ROW_AMOUNTS:
        grouped = _shared_out(plan, amount)
        if grouped is not None:
            return grouped
    return plan


def _reads_rows(plan: Plan) -> bool:
    """Return True if all loads are contiguous along a long reduce and serve one output each."""
    loads = [access for access in accesses(plan) if not access.is_store]
    outputs = [plan.axes[number] for number in plan.of_kind(AxisKind.GLOBAL)]
    inner = [plan.axes[number] for number in plan.of_kind(AxisKind.REDUCE)]
    return bool(loads) and all(
        any(_is_long(axis) and access.is_unit(axis) for axis in inner)
        and not any(access.step(axis) == 0 for axis in outputs)
        for access in loads
    )


def _is_long(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and axis.extent >= LONG_REDUCE


def _shared_out(plan: Plan, amount: int) -> Plan | None:
    """Return the plan with all long reduces distributed over the same `amount` work-items, or None.

    Otherwise, every work-item would repeat the whole reduce. A reduce inside the terms of another
    one does not count, because the terms of each work-item differ.
    """
    result: Plan | None = None
    grouped: set[int] = set()
    for node, axes in reversed(list(reduce_axes(plan))):
        long = [axis for axis in axes if _is_long(axis)]
        if not long or not grouped.isdisjoint(changes(node)):
            continue
        target, extent = long[0].target, long[0].extent
        if isinstance(extent, int) and amount * amount > PARTS_OF_LENGTH * extent:
            return None
        result = _along_neighbours(result or plan, target, amount)
        if result is None:
            return None
        grouped.add(target)
    return result if result is not None and result.group_size == amount else None


def _along_neighbours(plan: Plan, target: int, amount: int) -> Plan | None:
    """Distribute a reduce so that neighbouring work-items read neighbours, four if possible."""
    number = plan.number_along(target, AxisKind.REDUCE)
    if number is None:
        return None
    axis = plan.axes[number]
    is_unit = any(access.is_unit(axis) for access in accesses(plan) if not access.is_masked)
    has_lanes = ACCESS_LANES in plan.capabilities.vector_lanes
    if is_unit and has_lanes and axis.is_divisible(ACCESS_LANES * amount):
        wide = _all_of(
            plan, (Opt(OptOp.UNROLL, number, ACCESS_LANES), Opt(OptOp.GROUP, number, amount))
        )
        if wide is not None:
            return wide
    return plan.legal(Opt(OptOp.GROUP, number, amount))


def _with_unrolled_reduce(plan: Plan) -> Plan:
    """Unroll the last loop: completely if it is short, else by 4 if this divides it."""
    numbers = plan.of_kind(AxisKind.REDUCE)
    if not numbers:
        return plan
    extent = plan.axes[numbers[-1]].extent
    if not isinstance(extent, int):
        return plan
    room = _max_lanes(plan) // plan.lanes
    if extent <= min(MAX_UNROLLED, room):
        return plan.cut_lanes(numbers[-1], 0)
    if room >= ACCESS_LANES and not plan.of_kind(AxisKind.UNROLL):
        return plan.cut_lanes(numbers[-1], ACCESS_LANES)
    return plan


# --- lanes ----------------------------------------------------------------------------------------


def _with_wide_accesses(plan: Plan) -> Plan:
    """Use vectors of four along each axis in which an access is contiguous."""
    if ACCESS_LANES not in plan.capabilities.vector_lanes:
        return plan
    for access in accesses(plan):
        units = [
            number
            for number in plan.of_kind(AxisKind.GLOBAL, AxisKind.REDUCE)
            if access.is_unit(plan.axes[number])
        ]
        if not units or access.is_masked or plan.lanes * ACCESS_LANES > _max_lanes(plan):
            continue
        if access.is_store and _leaves_idle(plan):
            continue
        plan = plan.cut_lanes(units[-1], ACCESS_LANES)
    return plan


def _leaves_idle(plan: Plan) -> bool:
    """Return True if wide stores of a reduce would leave too few outputs at a time.

    This is always true for a grouped reduce: its lanes would be in shared banks of neighbours.
    """
    if plan.of_kind(AxisKind.GROUP_REDUCE):
        return True
    is_reduce = bool(plan.of_kind(AxisKind.REDUCE))
    return is_reduce and _outputs(plan) < ACCESS_LANES * ENOUGH_OUTPUTS


def _with_masked_axes(plan: Plan) -> Plan:
    """Unroll small output axes that a mask cuts: their masks are constants in every copy."""
    masked = frozenset[int]().union(*(a.moves for a in accesses(plan) if a.is_masked))
    for number in reversed(plan.of_kind(AxisKind.GLOBAL)):
        axis = plan.axes[number]
        if axis.target not in masked or not isinstance(axis.extent, int):
            continue
        if axis.extent <= SMALL_AXIS and axis.extent * plan.lanes <= _max_lanes(plan):
            plan = plan.cut_lanes(number, 0)
    return plan


def _with_reuse(plan: Plan) -> Plan:
    """Upcast output axes along which an operand is constant: it is loaded once for all lanes."""
    if not plan.of_kind(AxisKind.REDUCE):
        return plan
    accessed = accesses(plan)
    upcast = {axis.target for axis in plan.axes if axis.kind is AxisKind.UPCAST}
    for amount in (4, 3):
        for number in reversed(plan.of_kind(AxisKind.GLOBAL)):
            axis = plan.axes[number]
            is_new = axis.target not in upcast and axis.is_divisible(amount)
            if not is_new or not _is_reused(axis, accessed):
                continue
            if _outputs(plan) // amount < ENOUGH_OUTPUTS or plan.lanes * amount > _max_lanes(plan):
                continue
            plan = plan.cut_lanes(number, amount)
            upcast.add(axis.target)
    return plan


def _is_reused(axis: Axis, accessed: Sequence[AxisAccess]) -> bool:
    loads = [access.step(axis) for access in accessed if not access.is_store]
    return 0 in loads and any(step != 0 for step in loads)


# --- work-items -----------------------------------------------------------------------------------


def _with_items(plan: Plan) -> Plan:
    """Use axes as work-items of a group: first axes along which accesses are contiguous.

    Then come axes along which operands do not change. The first axis counts fastest, so work-items
    that run together read together.
    """
    if not plan.capabilities.has_groups or not plan.uses_groups:
        return plan
    plan = _with_padded_items(plan)
    accessed = accesses(plan)
    numbers = plan.of_kind(AxisKind.GLOBAL)

    def rank(number: int) -> tuple[bool, bool, int]:
        # Among equals the last axis comes first.
        axis = plan.axes[number]
        return not _is_contiguous(axis, accessed), not _is_reused(axis, accessed), -number

    room = MAX_ITEMS // plan.group_size
    chosen = []
    for number in sorted(numbers, key=rank):
        axis = plan.axes[number]
        amounts = (count for count in ITEM_AMOUNTS if count <= room and axis.is_divisible(count))
        amount = next(amounts, 1)
        if amount > 1 and plan.legal(Opt(OptOp.LOCAL, number, amount)) is not None:
            chosen.append((axis.target, amount))
            room //= amount
    # The last part that is split off counts fastest. If accesses are contiguous along several
    # axes, this is the smallest, so work-items that run together are neighbours along each.
    contiguous = [number for number in numbers if _is_contiguous(plan.axes[number], accessed)]
    for target, amount in chosen if len(contiguous) > 1 else reversed(chosen):
        number_now = plan.number_along(target)
        if number_now is not None:
            plan = plan.apply_if_legal(Opt(OptOp.LOCAL, number_now, amount))
    return plan


def _is_contiguous(axis: Axis, accessed: Sequence[AxisAccess]) -> bool:
    """Return True if an access is contiguous along the axis, or between all its lanes."""
    return any(access.step(axis) == axis.stride for access in accessed)


def _with_padded_items(plan: Plan) -> Plan:
    """Pad the last output axis if no axis is divisible into a subgroup of work-items."""
    numbers = plan.of_kind(AxisKind.GLOBAL)
    sizes = [plan.axes[number].extent for number in numbers]
    if not sizes or plan.group_size > 1 or plan.tile is not None:
        return plan
    if number_of(sizes) < MANY_OUTPUTS or not isinstance(sizes[-1], int) or sizes[-1] < SUBGROUP:
        return plan
    divisors = [math.gcd(size, SUBGROUP) for size in sizes if isinstance(size, int)]
    if math.prod(divisors) >= SUBGROUP // 2:
        return plan
    return plan.apply_if_legal(Opt(OptOp.PADTO, numbers[-1], SUBGROUP))
