"""The optimisations that a kernel gets by default, and the candidates of a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tinyref import config
from tinyref.dtype import TEXEL, ImageDType
from tinyref.optimise.heuristics_groups import optimised_for_groups
from tinyref.optimise.heuristics_loops import LIMITS, NO_LIMITS, optimised_for_loops
from tinyref.optimise.normal_form import reused_values
from tinyref.optimise.opt import OPTS, REUSED, Argument, Opt, OptOp, OptSpec
from tinyref.optimise.plan import LANE_KINDS, AxisAccess, Plan, accesses
from tinyref.optimise.tile import exact_tiles
from tinyref.uops.payload import AxisKind


def heuristic_plan(plan: Plan, as_large: bool = False) -> Plan:
    """Return `plan` with the legal optimisations that the heuristics choose for its device.

    With `as_large`, a small kernel gets the optimisations of a large one of its form.
    """
    if not plan.axes:
        return plan
    if plan.capabilities.has_grid:
        return optimised_for_groups(plan)
    return optimised_for_loops(plan, NO_LIMITS if as_large else LIMITS)


# --- texels of images -----------------------------------------------------------------------------


def with_texels(plan: Plan) -> Plan:
    """Return `plan` with an axis of four lanes for every image access that moves by one element.

    This is no choice: `expand` refuses accesses of partial texels. If no axis can be split so, the
    plan does not change.
    """
    if not any(isinstance(node.dtype, ImageDType) for node in plan.nodes):
        return plan
    for access in accesses(plan):
        if not isinstance(access.node.src[0].dtype, ImageDType) or _has_lanes(plan, access):
            continue
        for number in reversed(plan.of_kind(AxisKind.GLOBAL, AxisKind.REDUCE)):
            if access.is_unit(plan.axes[number]):
                plan = plan.cut_lanes(number, TEXEL)
                break
    return plan


def _has_lanes(plan: Plan, access: AxisAccess) -> bool:
    """Return True if existing lanes make whole texels of an access."""
    return any(
        axis.kind in LANE_KINDS and access.is_unit(axis) and axis.is_divisible(TEXEL)
        for axis in plan.axes
    )


# --- candidates of a search -----------------------------------------------------------------------


# A work-item with more copies of its value takes long to compile and is never faster.
MAX_COPIES = 512


def actions(plan: Plan) -> list[Plan]:
    """Return the plans after one legal optimisation; each way of execution occurs once."""
    plans: dict[object, Plan] = {identity(plan): plan}
    for opt in candidates(plan):
        reached = plan.legal(opt)
        if reached is not None and reached.lanes <= MAX_COPIES:
            plans.setdefault(identity(reached), reached)
    return list(plans.values())[1:]


def identity(plan: Plan) -> object:
    """Return what determines the program of a plan, for any order of optimisations."""
    return plan.axes, plan.uses_groups, frozenset(plan.packed), frozenset(plan.copied), plan.tile


def candidates(plan: Plan) -> Iterator[Opt]:
    """Yield the optimisations that may be legal, in a fixed order."""
    for op, spec in OPTS.items():
        if spec.takes is Argument.NOTHING:
            yield Opt(op)
        elif spec.takes is Argument.TILE:
            yield from _tiles(plan, op)
        else:
            numbers = plan.of_kind(*spec.kinds)
            yield from (Opt(op, n, arg) for n in numbers for arg in _arguments(plan, spec, n))


def _arguments(plan: Plan, spec: OptSpec, number: int) -> Iterable[int]:
    """Return the arguments to try for an optimisation of the axis `number`."""
    if spec.takes is Argument.AXIS:
        return [other for other in plan.of_kind(*spec.kinds) if number < other]
    if spec.takes is Argument.SLOT:
        return sorted((*parameter_slots(plan), *([REUSED] if reused_values(plan.form) else [])))
    return spec.amounts


def _tiles(plan: Plan, op: OptOp) -> Iterator[Opt]:
    """Yield each tile that rounds no input, in the mode and level of the flags TC and TC_LEVEL."""
    mode = config.integer("TC")
    if plan.opts or not mode:
        return
    for number in exact_tiles(plan):
        yield Opt(op, 0, number, config.integer("TC_LEVEL"), mode)


def parameter_slots(plan: Plan) -> set[int]:
    """Return the slots of the buffers that the kernel loads from."""
    return {access.slot for access in accesses(plan) if not access.is_store}
