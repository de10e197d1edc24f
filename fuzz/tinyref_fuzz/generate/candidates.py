"""Optimisations that a plan may accept, drawn so that most make sense for the axis that they cut.

A small share is drawn of everything, those that no plan accepts too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyref.optimise.moves import open_axes
from tinyref.optimise.opt import OPTS, REUSED, Argument, Opt, OptOp
from tinyref.optimise.plan import LANE_KINDS, Axis, Plan, changes, number_of
from tinyref.optimise.reused import reused_values
from tinyref.optimise.tile import TileMode
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SlotArg
from tinyref_fuzz.generate.tape import Tape

WEIGHT = 8.0
# Those that are legal in many places, such as PADTO, or bar others, as NOLOCALS does, are rarer.
_OTHER_WEIGHTS = {
    OptOp.SWAP: 3.0,
    OptOp.PADTO: 5.0,
    OptOp.THREAD: 4.0,
    OptOp.PACK: 6.0,
    OptOp.TC: 30.0,
    OptOp.NOLOCALS: 0.7,
}
WEIGHTS = {op: _OTHER_WEIGHTS.get(op, WEIGHT) for op in OptOp}
# Divisors, multiples, 0 for whole axes, and what no op accepts.
AMOUNTS = (2, 4, 3, 8, 0, 16, 5, 7, 32, 6, 12, 13, 64, 1, -1)
CUTS = (2, 4, 3, 8, 16, 5, 32, 7, 6, 13, 64)
PADDINGS = (4, 2, 8, 16, 3, 5, 32, 13, 7)
_OPERATIONS = ALU | {Ops.LOAD, Ops.STORE, Ops.REDUCE}
# Percent of the candidates that are drawn of everything, legal or not.
WILD = 6
# Lists do not depend on how many cores a machine has: where there are threads, there are so many.
THREADS = 4
# Plans of more copies, or of more operations in all of them, are legal, but take seconds to
# compile: a tenth of the lists would take half of the time. Every kernel may have a few copies.
MAX_COPIES = 64
MAX_OPERATIONS = 384
FEW_COPIES = 4
# What one operation becomes that the device lacks, or that is of a type that it lacks.
EMULATION = 12


def copies(plan: Plan) -> int:
    """How many times the value of a work-item stands in its program.

    The lanes of a tile that is one instruction of the device are no copies.
    """
    is_whole = plan.tile is not None and plan.tile.mode == TileMode.INSTRUCTION
    lanes = [axis for axis in plan.axes if axis.kind in LANE_KINDS]
    return number_of(axis.extent for axis in lanes if not (is_whole and axis.is_fixed))


def operations(plan: Plan) -> int:
    """About how many operations the program of `plan` has: each as often as its operands change."""
    lanes: dict[int, list[sint]] = {}
    for axis in plan.axes:
        if axis.kind in LANE_KINDS:
            lanes.setdefault(axis.target, []).append(axis.extent)
    total = 0
    for node in plan.nodes:
        if node.op in _OPERATIONS:
            # A reduce has an operation for each of its terms.
            targets = changes(node.src[0] if node.op is Ops.REDUCE else node)
            times = math.prod(number_of(lanes.get(target, ())) for target in targets)
            total += times * (EMULATION if _is_emulated(node, plan) else 1)
    return total


def _is_emulated(node: UOp, plan: Plan) -> bool:
    device = plan.capabilities
    if node.op in ALU and node.op.name not in device.ops:
        return True
    lacking = device.emulated - device.dtypes
    return any(each.dtype in lacking for each in (node, *node.src))


def is_small(plan: Plan) -> bool:
    """Whether the program of `plan` is small enough to be compiled and run in little time."""
    number = copies(plan)
    if number <= FEW_COPIES:
        return True
    return number <= MAX_COPIES and operations(plan) <= MAX_OPERATIONS


def slots_of(plan: Plan) -> int:
    """How many slots the kernel has."""
    return 1 + max((n.arg.slot for n in plan.nodes if isinstance(n.arg, SlotArg)), default=0)


def draw(plan: Plan, tape: Tape, slots: int, weights: dict[OptOp, float]) -> Opt:
    """One optimisation that may be legal, now and then one that need not."""
    if tape.chance(WILD):
        return wild(plan, tape, slots)
    axes = axes_by_op(plan)
    ops = [op for op in WEIGHTS if op in axes]
    if not ops:
        return wild(plan, tape, slots)
    op = tape.pick(ops, [weights[each] for each in ops])
    takes = OPTS[op].takes
    if takes is Argument.NOTHING:
        return Opt(op)
    if takes is Argument.TILE:
        return any_tile(plan, tape)
    axis = tape.pick(axes[op])
    if takes is Argument.AXIS:
        return Opt(op, axis, tape.pick(axes[op]))
    if takes is Argument.SLOT:
        reused = reused_values(plan.form)
        return Opt(op, axis, REUSED if reused and tape.below(2) else tape.below(slots))
    return Opt(op, axis, amount(op, plan.axes[axis], tape))


def axes_by_op(plan: Plan) -> dict[OptOp, Sequence[int]]:
    """For each optimisation that may be legal the axes that it may be legal on."""
    found: dict[OptOp, Sequence[int]] = {}
    for op, spec in OPTS.items():
        axes = open_axes(plan, op)
        if spec.has_axis:
            axes = [number for number in axes if is_free(plan.axes[number])]
        if axes:
            found[op] = axes
    return found


def is_free(axis: Axis) -> bool:
    """Whether an axis may be cut."""
    return isinstance(axis.extent, int) and axis.extent > 1 and not axis.is_fixed


def amount(op: OptOp, axis: Axis, tape: Tape) -> int:
    """A divisor of a cut axis, or the multiple that an axis is padded to."""
    extent = axis.extent
    assert isinstance(extent, int), "only axes of known extent are candidates"
    spec = OPTS[op]
    if spec.takes is Argument.MULTIPLE:
        return tape.pick([n for n in PADDINGS if extent % n] or PADDINGS)
    most = THREADS if op is OptOp.THREAD else spec.max_amount or 64
    found = [n for n in CUTS if n <= most and extent % n == 0]
    if spec.may_be_whole and extent <= most:
        found.append(0)
    elif extent <= most and extent not in found:
        found.append(extent)
    # An amount that leaves something over is refused.
    return tape.pick(found or CUTS)


def any_tile(plan: Plan, tape: Tape) -> Opt:
    """Any tile at the level that admits most, or one by its number."""
    tile = -1 if tape.chance(60) else tape.below(len(plan.capabilities.matrix_tiles))
    choice, level, mode = tape.pick((0, 0, 0, 1)), tape.pick((2, 2, 2, 1, 0)), tape.between(1, 3)
    return Opt(OptOp.TC, choice, tile, level, mode)


def wild(plan: Plan, tape: Tape, slots: int) -> Opt:
    """Any optimisation: an axis may be one too far, an amount may not divide."""
    op = tape.pick(tuple(WEIGHTS))
    axis = tape.below(len(plan.axes) + 1)
    takes = OPTS[op].takes
    if takes is Argument.NOTHING:
        return Opt(op)
    if takes is Argument.AXIS:
        return Opt(op, axis, tape.below(len(plan.axes) + 1))
    if takes is Argument.SLOT:
        return Opt(op, axis, tape.below(slots + 1))
    if takes is Argument.TILE:
        tile = tape.between(-1, len(plan.capabilities.matrix_tiles))
        choice, level, mode = tape.pick((0, 0, 1, 2)), tape.pick((2, 2, 1, 0, 3)), tape.below(4)
        return Opt(op, choice, tile, level, mode)
    return Opt(op, axis, tape.pick(AMOUNTS))
