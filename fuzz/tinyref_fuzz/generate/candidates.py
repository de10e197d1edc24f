"""Draw optimisations that a plan may accept; most fit the axis that they split."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.capabilities import Capabilities
from tinyref.optimise.moves import open_axes
from tinyref.optimise.normal_form import reused_values
from tinyref.optimise.opt import OPTS, REUSED, Argument, Opt, OptOp, opts_text
from tinyref.optimise.plan import LANE_KINDS, Axis, Plan, number_of
from tinyref.optimise.tile import TileMode
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import AxisKind, SlotArg
from tinyref.uops.tiles import Operand
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Opts

WEIGHT = 8.0
# Optimisations that fit many plans, such as PADTO, or exclude others, as NOLOCALS does, are rarer.
_OTHER_WEIGHTS = {
    OptOp.SWAP: 3.0,
    OptOp.PADTO: 5.0,
    OptOp.THREAD: 4.0,
    OptOp.PACK: 6.0,
    OptOp.TC: 30.0,
    OptOp.NOLOCALS: 0.7,
}
WEIGHTS = {op: _OTHER_WEIGHTS.get(op, WEIGHT) for op in OptOp}
CUTS = (2, 4, 3, 8, 16, 5, 32, 7, 6, 13, 64)
# Further sizes of groups: around the sizes of subgroups, and up to what devices declare.
GROUP_CUTS = (*CUTS, 15, 17, 31, 33, 63, 65, 127, 128, 129, 192, 255, 256, 257, 512, 513, 1024)
# Percentage of group sizes that exceed the other cuts, where the axis allows one.
LARGE_GROUPS = 50
GROUP_OPS = (OptOp.LOCAL, OptOp.GROUP, OptOp.GROUPTOP)
PADDINGS = (4, 2, 8, 16, 3, 5, 32, 13, 7)
_OPERATIONS = ALU | {Ops.LOAD, Ops.STORE, Ops.REDUCE}
# Modes of tiles and their weights. Most tiles are one instruction; the others are only a shape, or
# use local memory. If several threads hold the same elements, only one writes them there.
MODES = (1, 2, 3), (4, 1, 1)
REPEATED = (1, 2, 3), (2, 1, 3)
# Percentage of optimisations that apply to the axis of the previous one.
SAME_AXIS = 60
# Percentage of unrolls, after another optimisation, that unroll by two.
HALVED = 30
# Number of threads on every machine: lists must not depend on its number of cores.
THREADS = 4
# Larger plans are legal, but take seconds to compile: a tenth of the lists would take half of the
# time. Every kernel may have a few copies.
MAX_COPIES = 64
MAX_OPERATIONS = 512
FEW_COPIES = 4
# Number of operations that emulate one that the device lacks, or whose type it lacks.
EMULATION = 12


class BrokenPlanError(Exception):
    """Failure of an optimisation, neither applied nor refused: it is the last one of `opts`."""

    def __init__(self, opts: Opts) -> None:
        self.opts = opts
        super().__init__(f"{opts_text(opts)} is neither applied nor refused")


def copies(plan: Plan) -> int:
    """Return the number of copies of a work-item's value in its program.

    The lanes of a tile that is one instruction of the device do not count.
    """
    is_whole = plan.tile is not None and plan.tile.mode == TileMode.INSTRUCTION
    lanes = [axis for axis in plan.axes if axis.kind in LANE_KINDS]
    return number_of(axis.extent for axis in lanes if not (is_whole and axis.is_fixed))


def operations(plan: Plan) -> int:
    """Return the number of operations of one copy of the value of a work-item."""
    nodes = [node for node in plan.nodes if node.op in _OPERATIONS]
    return sum(EMULATION if _is_emulated(node, plan) else 1 for node in nodes)


def _is_emulated(node: UOp, plan: Plan) -> bool:
    device = plan.capabilities
    if node.op in ALU and node.op.name not in device.ops:
        return True
    lacking = device.emulated - device.dtypes
    return any(value.dtype in lacking for value in (node, *node.src))


def is_small(plan: Plan) -> bool:
    """Return True if the program of `plan` is small enough to compile and run quickly."""
    number = copies(plan)
    if number <= FEW_COPIES:
        return True
    return number <= MAX_COPIES and number * operations(plan) <= MAX_OPERATIONS


def legal_plan(plan: Plan, opt: Opt) -> Plan | None:
    """Return the plan with `opt`, or None if it is refused or its program is too large.

    Raises `BrokenPlanError` for an optimisation that is neither applied nor refused.
    """
    try:
        reached = plan.legal(opt)
    except Exception as error:
        raise BrokenPlanError((*plan.opts, opt)) from error
    return reached if reached is not None and is_small(reached) else None


def draw(plan: Plan, tape: Tape, op: OptOp, target: int = -1) -> Opt | None:
    """Draw an optimisation of one kind that may be legal, or None if the plan has no axis for it.

    Args:
        target: The axis of the AST that was split before; most draws split it again.
    """
    if OPTS[op].takes is Argument.NOTHING:
        return Opt(op)
    if op is OptOp.TC:
        return _tile(plan, tape)
    if op is OptOp.PACK:
        packs = _packs(plan)
        return tape.pick(packs) if packs else None
    axes = axes_for(plan, op)
    if op is OptOp.PADTO and tape.chance(SAME_AXIS):
        # Padding of a reduce must contribute nothing. Padding of an output is simply not stored.
        axes = [axis for axis in axes if plan.axes[axis].kind is AxisKind.REDUCE] or axes
    again = [axis for axis in axes if plan.axes[axis].target == target]
    if again and tape.chance(SAME_AXIS):
        axes = again
    if not axes:
        return None
    axis = tape.pick(axes)
    if OPTS[op].takes is Argument.AXIS:
        return Opt(op, axis, tape.pick(axes))
    if op is OptOp.UNROLL and plan.opts and tape.chance(HALVED):
        # Part of the loop remains around what is unrolled.
        return Opt(op, axis, 2)
    return Opt(op, axis, amount(op, plan.axes[axis], tape, plan.capabilities))


def _tile(plan: Plan, tape: Tape) -> Opt | None:
    """Draw a matrix tile that takes the kernel."""
    tiles = range(len(plan.capabilities.matrix_tiles))
    fitting = [tile for tile in tiles if legal_plan(plan, Opt(OptOp.TC, 0, tile, 2, 1)) is not None]
    if not fitting:
        return None
    tile = tape.pick(fitting)
    layouts = plan.capabilities.matrix_tiles[tile].layout
    repeats = any(layouts(operand).copies > 1 for operand in Operand)
    return Opt(OptOp.TC, 0, tile, 2, tape.pick(*(REPEATED if repeats else MODES)))


def _packs(plan: Plan) -> list[Opt]:
    """List the copies into scratch memory that `plan` accepts."""
    if not axes_for(plan, OptOp.PACK):
        return []
    slots = {node.arg.slot for node in plan.nodes if isinstance(node.arg, SlotArg)}
    slots |= {REUSED} if reused_values(plan.form) else set()
    opts = [
        Opt(OptOp.PACK, axis, slot)
        for axis in plan.of_kind(AxisKind.GLOBAL)
        for slot in sorted(slots)
    ]
    return [opt for opt in opts if legal_plan(plan, opt) is not None]


def axes_by_op(plan: Plan) -> dict[OptOp, Sequence[int]]:
    """Return the axes on which each optimisation may be legal."""
    return {op: axes for op in OPTS if (axes := axes_for(plan, op))}


def axes_for(plan: Plan, op: OptOp) -> list[int]:
    """Return the axes on which `op` may be legal."""
    axes = open_axes(plan, op)
    return [n for n in axes if is_free(plan.axes[n])] if OPTS[op].has_axis else axes


def is_free(axis: Axis) -> bool:
    """Return True if an axis may be split."""
    return isinstance(axis.extent, int) and axis.extent > 1 and not axis.is_fixed


def amount(op: OptOp, axis: Axis, tape: Tape, capabilities: Capabilities) -> int:
    """Draw a divisor for a split axis, or the multiple that an axis is padded to."""
    extent = axis.extent
    assert isinstance(extent, int), "only axes of known extent are candidates"
    spec = OPTS[op]
    if spec.takes is Argument.MULTIPLE:
        return tape.pick([n for n in PADDINGS if extent % n] or PADDINGS)
    cuts = GROUP_CUTS if op in GROUP_OPS else CUTS
    most = THREADS if op is OptOp.THREAD else spec.max_amount or capabilities.group_size_limit
    divisors = [n for n in cuts if n <= most and extent % n == 0]
    if spec.may_be_whole and extent <= most:
        divisors.append(0)
    elif extent <= most and extent not in divisors:
        divisors.append(extent)
    large = [n for n in divisors if (n or extent) > CUTS[-1]]
    if large and tape.chance(LARGE_GROUPS):
        return tape.pick(large)
    # A plan refuses an amount that does not divide the axis.
    return tape.pick(divisors or CUTS)
