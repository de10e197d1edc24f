"""Every optimisation that a search may try next on a plan."""

from __future__ import annotations

from collections.abc import Iterator

from tinyref import config
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import LANE_KINDS, Plan, number_of
from tinyref.optimise.strides import accesses
from tinyref.optimise.tile import exact_tiles
from tinyref.uops.payload import AxisKind

# The amounts that are tried of each optimisation that cuts an axis; 0 is the whole axis.
AMOUNTS: dict[OptOp, tuple[int, ...]] = {
    OptOp.UPCAST: (0, 2, 3, 4, 5, 7, 8, 16),
    OptOp.UNROLL: (0, 2, 4, 7, 8, 16),
    OptOp.LOCAL: (2, 3, 4, 8, 13, 16, 29, 32, 64),
    OptOp.GROUP: (4, 8, 16),
    OptOp.GROUPTOP: (8, 13, 16, 28, 29, 32, 49, 64, 256),
    OptOp.THREAD: (2, 3, 4, 6, 8, 12, 16, 24, 32, 64),
}
PADDINGS = (2, 4, 8, 16, 32)
_CUT_KINDS: dict[OptOp, tuple[AxisKind, ...]] = {
    OptOp.UPCAST: (AxisKind.GLOBAL, AxisKind.LOCAL),
    OptOp.UNROLL: (AxisKind.REDUCE, AxisKind.GROUP_REDUCE),
    OptOp.LOCAL: (AxisKind.GLOBAL,),
    OptOp.GROUP: (AxisKind.REDUCE,),
    OptOp.GROUPTOP: (AxisKind.REDUCE,),
    OptOp.THREAD: (AxisKind.GLOBAL,),
}
# A work-item with more copies of its value than this takes long to compile and never pays.
MAX_COPIES = 512


def actions(plan: Plan) -> list[Plan]:
    """The plans that one legal optimisation leads to, each way of executing the kernel once."""
    found: dict[object, Plan] = {identity(plan): plan}
    for opt in candidates(plan):
        reached = plan.legal(opt)
        if reached is None:
            continue
        copies = number_of(axis.extent for axis in reached.axes if axis.kind in LANE_KINDS)
        if copies <= MAX_COPIES:
            found.setdefault(identity(reached), reached)
    return list(found.values())[1:]


def identity(plan: Plan) -> object:
    """What decides the program of a plan, whichever way it was reached."""
    return plan.axes, plan.uses_groups, frozenset(plan.packed), plan.tile


def candidates(plan: Plan) -> Iterator[Opt]:
    """The optimisations that may be legal, in a fixed order."""
    yield from _tiles(plan)
    for op, amounts in AMOUNTS.items():
        for number in plan.of_kind(*_CUT_KINDS[op]):
            yield from (Opt(op, number, amount) for amount in amounts)
    outputs = plan.of_kind(AxisKind.GLOBAL)
    yield from (Opt(OptOp.SWAP, a, b) for a in outputs for b in outputs if a < b)
    for number in plan.of_kind(AxisKind.GLOBAL, AxisKind.REDUCE):
        yield from (Opt(OptOp.PADTO, number, multiple) for multiple in PADDINGS)
    slots = sorted(parameter_slots(plan))
    yield from (Opt(OptOp.PACK, number, slot) for number in outputs for slot in slots)
    yield Opt(OptOp.NOLOCALS)


def _tiles(plan: Plan) -> Iterator[Opt]:
    """Each tile that rounds no input, in the mode and at the level of the flags TC and TC_LEVEL."""
    mode = config.integer("TC")
    if plan.opts or not mode:
        return
    for number in exact_tiles(plan):
        yield Opt(OptOp.TC, 0, number, config.integer("TC_LEVEL"), mode)


def parameter_slots(plan: Plan) -> set[int]:
    """The slots of the buffers that the kernel loads from."""
    return {access.slot for access in accesses(plan) if not access.is_store}
