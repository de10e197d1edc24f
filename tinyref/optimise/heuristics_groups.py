"""Heuristics for devices with launch indices: groups, vectors, unrolled reduces, work-items."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref import config
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Axis, Plan, number_of
from tinyref.optimise.strides import Access, accesses
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ReduceArg

# A reduce is shared out in a group where there are fewer outputs than this to keep a device busy.
FEW_OUTPUTS = 2048
# It must be so long to be worth the way through shared memory; groups are tried in this order.
LONG_REDUCE = 256
GROUP_AMOUNTS = (256, 64, 16)
# Elements of one wide access.
ACCESS_LANES = 4
# Unrolled copies of a work-item's value: registers are few.
MAX_LANES = 64
# Outputs that must be left to work-items while an axis is upcast for re-use of what is loaded.
ENOUGH_OUTPUTS = 1024
# A masked axis of so few iterations is unrolled, so that its masks become constants.
SMALL_AXIS = 7
MAX_UNROLLED = 32
MAX_ITEMS = 128
ITEM_AMOUNTS = (32, 16, 8, 4, 3, 2)
# Matrix times vector: items that share a row, rows of a group, rows of an item.
MATVEC = (8, 4, 4)
# Tiles along one axis that a subgroup computes, to use each fragment so often.
TILES_OF_RUN = (4, 2)


def optimised_for_groups(plan: Plan) -> Plan:
    """`plan` for a device with a grid; groups only where it has them."""
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


def _all_of(plan: Plan, opts: Sequence[Opt]) -> Plan | None:
    """`plan` with all the optimisations, or None if one of them is refused."""
    found: Plan | None = plan
    for opt in opts:
        found = None if found is None else found.legal(opt)
    return found


# --- matrix tiles ---------------------------------------------------------------------------------


def _on_tile(plan: Plan) -> Plan | None:
    """The first tile of the device that fits, several of them for each subgroup."""
    mode = config.integer("TC")
    if not mode or not plan.capabilities.tiles_pay:
        return None
    found = plan.legal(Opt(OptOp.TC, 0, -1, config.integer("TC_LEVEL"), mode))
    if found is None or found.tile is None:
        return None
    for target in found.tile.targets[:2]:
        number = found.number_along(target)
        if number is None:
            continue
        axis = found.axes[number]
        amount = next((each for each in TILES_OF_RUN if axis.is_divisible(each)), 0)
        if amount:
            found = found.cut_lanes(number, amount)
    return found


# --- reduces --------------------------------------------------------------------------------------


def _matvec(plan: Plan) -> Plan | None:
    """Sums of products along contiguous rows, where the other operand is the same in all rows."""
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
    """The first long reduce is shared out where few outputs would leave the device idle."""
    if _outputs(plan) > FEW_OUTPUTS:
        return plan
    for number in plan.of_kind(AxisKind.REDUCE):
        axis = plan.axes[number]
        if not isinstance(axis.extent, int) or axis.extent < LONG_REDUCE:
            continue
        for amount in GROUP_AMOUNTS:
            found = plan.legal(Opt(OptOp.GROUPTOP, number, amount))
            if found is not None:
                return found
    return plan


def _with_unrolled_reduce(plan: Plan) -> Plan:
    """The last loop: wholly if it is short, else by 4 where that divides."""
    numbers = plan.of_kind(AxisKind.REDUCE)
    if not numbers:
        return plan
    extent = plan.axes[numbers[-1]].extent
    if not isinstance(extent, int):
        return plan
    room = MAX_LANES // plan.lanes
    if extent <= min(MAX_UNROLLED, room):
        return plan.cut_lanes(numbers[-1], 0)
    if room >= ACCESS_LANES and not plan.of_kind(AxisKind.UNROLL):
        return plan.cut_lanes(numbers[-1], ACCESS_LANES)
    return plan


# --- lanes ----------------------------------------------------------------------------------------


def _with_wide_accesses(plan: Plan) -> Plan:
    """Four neighbours at once, along each axis in which an access takes neighbours."""
    if ACCESS_LANES not in plan.capabilities.vector_lanes:
        return plan
    for access in accesses(plan):
        units = [
            number
            for number in plan.of_kind(AxisKind.GLOBAL, AxisKind.REDUCE)
            if access.is_unit(plan.axes[number])
        ]
        if not units or access.is_masked or plan.lanes * ACCESS_LANES > MAX_LANES:
            continue
        plan = plan.cut_lanes(units[-1], ACCESS_LANES)
    return plan


def _with_masked_axes(plan: Plan) -> Plan:
    """Small output axes that a mask cuts: their masks are constants in every copy."""
    masked = frozenset[int]().union(*(a.moves for a in accesses(plan) if a.is_masked))
    for number in reversed(plan.of_kind(AxisKind.GLOBAL)):
        axis = plan.axes[number]
        if axis.target not in masked or not isinstance(axis.extent, int):
            continue
        if axis.extent <= SMALL_AXIS and axis.extent * plan.lanes <= MAX_LANES:
            plan = plan.cut_lanes(number, 0)
    return plan


def _with_reuse(plan: Plan) -> Plan:
    """Output axes along which some operand stays the same: it is loaded once for several lanes."""
    if not plan.of_kind(AxisKind.REDUCE):
        return plan
    found = accesses(plan)
    upcast = {axis.target for axis in plan.axes if axis.kind is AxisKind.UPCAST}
    for amount in (4, 3):
        for number in reversed(plan.of_kind(AxisKind.GLOBAL)):
            if number >= len(plan.axes) or plan.axes[number].kind is not AxisKind.GLOBAL:
                continue
            axis = plan.axes[number]
            is_new = axis.target not in upcast and axis.is_divisible(amount)
            if not is_new or not _is_reused(axis, found):
                continue
            if _outputs(plan) // amount < ENOUGH_OUTPUTS or plan.lanes * amount > MAX_LANES:
                continue
            plan = plan.cut_lanes(number, amount)
            upcast.add(axis.target)
    return plan


def _is_reused(axis: Axis, found: Sequence[Access]) -> bool:
    loads = [access.step(axis) for access in found if not access.is_store]
    return 0 in loads and any(step != 0 for step in loads)


# --- work-items -----------------------------------------------------------------------------------


def _with_items(plan: Plan) -> Plan:
    """Axes as work-items of a group: first those along which operands stay the same."""
    if not plan.capabilities.has_groups or not plan.uses_groups:
        return plan
    found = accesses(plan)
    numbers = plan.of_kind(AxisKind.GLOBAL)
    # Among equals the last axis comes first: its neighbours are neighbours in memory.
    numbers.sort(key=lambda number: (not _is_reused(plan.axes[number], found), -number))
    for target in [plan.axes[number].target for number in numbers]:
        room = MAX_ITEMS // plan.group_size
        number = plan.number_along(target)
        if number is None:
            continue
        axis = plan.axes[number]
        amounts = (each for each in ITEM_AMOUNTS if each <= room and axis.is_divisible(each))
        amount = next(amounts, 1)
        if amount > 1:
            plan = plan.apply_if_legal(Opt(OptOp.LOCAL, number, amount))
    return plan
