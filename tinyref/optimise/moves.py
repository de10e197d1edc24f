"""What each optimisation does to a plan, and where it is refused.

The conditions are those that `opt.OPTS` tells in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinyref.algebra.kernel_shape import positions_of
from tinyref.algebra.symbolic import describe
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.optimise.launch import launch_axes
from tinyref.optimise.limits import limit_problem
from tinyref.optimise.opt import MAX_UNROLL, MAX_UPCAST, REUSED, KernelOptError, Opt, OptOp
from tinyref.optimise.padding import axis_padding_problem
from tinyref.optimise.plan import ITEM_KINDS, Plan, changes
from tinyref.optimise.reused import reused_values
from tinyref.optimise.tile import with_tile
from tinyref.uops.build import slot_of
from tinyref.uops.payload import AxisKind, ViewArg
from tinyref.views.build import tracker_of

# Gives the new plan, or the reason for a refusal.
Move = Callable[[Plan, Opt], Plan | str]


def apply_opt(plan: Plan, opt: Opt) -> Plan:
    """`plan` with `opt`. Raises `KernelOptError` naming the optimisation and the reason."""
    found = try_opt(plan, opt)
    if isinstance(found, Plan):
        return found
    raise KernelOptError(f"{opt}: {found}, in a plan of {plan}")


def try_opt(plan: Plan, opt: Opt) -> Plan | str:
    """`plan` with `opt`, or the reason why that is refused."""
    found = _move(plan, opt)
    if not isinstance(found, Plan):
        return found
    problem = limit_problem(found)
    return replace(found, opts=(*plan.opts, opt)) if problem is None else problem


def _move(plan: Plan, opt: Opt) -> Plan | str:
    if opt.spec.has_axis and not 0 <= opt.axis < len(plan.axes):
        return _no_axis(plan, opt.axis)
    return MOVES[opt.op](plan, opt)


def _no_axis(plan: Plan, number: int) -> str:
    accepted = f"accepted are 0 to {len(plan.axes) - 1}" if plan.axes else "the plan has no axes"
    return f"there is no axis {number}: {accepted}"


# --- cutting axes ---------------------------------------------------------------------------------


def _split(plan: Plan, opt: Opt, kind: AxisKind, from_outside: bool = False) -> Plan | str:
    """Cuts `opt.arg` positions off an axis, as an axis of another kind."""
    axis = plan.axes[opt.axis]
    if axis.is_fixed:
        return f"axis {opt.axis} is a lane of the matrix tile"
    if not isinstance(axis.extent, int):
        return f"axis {opt.axis} has the symbolic extent {describe(axis.extent)}"
    amount = opt.arg
    if amount < 2 or axis.extent % amount:
        return f"{amount} is no amount that divides {axis.extent}: accepted are divisors from 2"
    rest = axis.extent // amount
    inner = axis.stride
    if from_outside:
        cut = replace(axis, kind=kind, extent=amount, stride=inner * rest)
        left = replace(axis, extent=rest)
    else:
        cut = replace(axis, kind=kind, extent=amount)
        left = replace(axis, extent=rest, stride=inner * amount)
    others = list(plan.axes)
    others[opt.axis] = left
    return plan.with_axes([*others, cut])


def _kind_problem(plan: Plan, opt: Opt) -> str | None:
    kind = plan.axes[opt.axis].kind
    if kind in opt.spec.kinds:
        return None
    names = " and ".join(each.value for each in opt.spec.kinds)
    return f"axis {opt.axis} is {kind.value}: accepted are {names} axes"


def _whole(plan: Plan, opt: Opt) -> Opt:
    """The amount 0 stands for the whole axis."""
    extent = plan.axes[opt.axis].extent
    return replace(opt, arg=extent) if opt.arg == 0 and isinstance(extent, int) else opt


def _upcast(plan: Plan, opt: Opt) -> Plan | str:
    problem = _kind_problem(plan, opt)
    if problem:
        return problem
    opt = _whole(plan, opt)
    if opt.arg > MAX_UPCAST:
        return f"{opt.arg} lanes: accepted are at most {MAX_UPCAST}"
    return _split(plan, opt, AxisKind.UPCAST)


def _unroll(plan: Plan, opt: Opt) -> Plan | str:
    if plan.axes[opt.axis].kind is AxisKind.UNROLL:
        return f"axis {opt.axis} is unrolled already"
    problem = _kind_problem(plan, opt)
    if problem:
        return problem
    opt = _whole(plan, opt)
    if opt.arg > MAX_UNROLL:
        return f"{opt.arg} copies: accepted are at most {MAX_UNROLL}"
    return _split(plan, opt, AxisKind.UNROLL)


def _group_problem(plan: Plan) -> str | None:
    if not plan.capabilities.has_groups:
        return "the device has no groups of work-items"
    return None if plan.uses_groups else "NOLOCALS has switched groups off"


def _local(plan: Plan, opt: Opt) -> Plan | str:
    problem = _group_problem(plan) or _kind_problem(plan, opt)
    return problem or _split(plan, opt, AxisKind.LOCAL)


def _group(plan: Plan, opt: Opt) -> Plan | str:
    problem = _group_problem(plan) or _kind_problem(plan, opt)
    if problem:
        return problem
    if not plan.capabilities.shared_bytes:
        return "the device has no shared memory"
    reduces = plan.reduces_over(plan.axes[opt.axis].target)
    if len(reduces) > 1:
        return f"{len(reduces)} reduces go over axis {opt.axis}: accepted is one"
    if any(axis.is_fixed for axis in plan.axes):
        return "a matrix tile is active"
    if any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src):
        return "the kernel reads what it writes: one work-item would write before another reads"
    return _split(plan, opt, AxisKind.GROUP_REDUCE, opt.op is OptOp.GROUPTOP)


def _no_locals(plan: Plan, opt: Opt) -> Plan | str:
    if not plan.capabilities.has_groups:
        return "the device has no groups of work-items to do without"
    if plan.of_kind(*ITEM_KINDS):
        return "groups are used already"
    if not plan.uses_groups:
        return "groups are switched off already"
    return replace(plan, uses_groups=False)


def _thread(plan: Plan, opt: Opt) -> Plan | str:
    if plan.capabilities.has_grid:
        return "the device has launch indices of its own"
    problem = _kind_problem(plan, opt)
    if problem:
        return problem
    if plan.of_kind(AxisKind.THREAD):
        return "the kernel is shared among threads already"
    limit = plan.capabilities.threads
    if opt.arg > limit:
        return f"{opt.arg} threads: accepted are at most {limit}"
    return _split(plan, opt, AxisKind.THREAD, from_outside=True)


# --- order, padding, packing ----------------------------------------------------------------------


def _swap(plan: Plan, opt: Opt) -> Plan | str:
    if not 0 <= opt.arg < len(plan.axes):
        return _no_axis(plan, opt.arg)
    first, second = plan.axes[opt.axis], plan.axes[opt.arg]
    for number, axis in ((opt.axis, first), (opt.arg, second)):
        if axis.kind is not AxisKind.GLOBAL:
            return f"axis {number} is {axis.kind.value}: accepted are two global axes"
    if opt.axis == opt.arg:
        return "an axis cannot change places with itself"
    axes = list(plan.axes)
    axes[opt.axis], axes[opt.arg] = second, first
    return plan.with_axes(axes)


def _pad_to(plan: Plan, opt: Opt) -> Plan | str:
    axis = plan.axes[opt.axis]
    if axis.is_fixed:
        return f"axis {opt.axis} is a lane of the matrix tile"
    if axis.kind in (AxisKind.UPCAST, AxisKind.UNROLL):
        return f"axis {opt.axis} is unrolled into lanes"
    problem = _kind_problem(plan, opt)
    if problem:
        return problem
    if not isinstance(axis.extent, int):
        return f"axis {opt.axis} has the symbolic extent {describe(axis.extent)}"
    if opt.arg < 2:
        return f"{opt.arg} is no multiple to pad to: accepted are integers from 2"
    if any(other.target == axis.target and other.stride > axis.stride for other in plan.axes):
        return f"axis {opt.axis} is the inner part of a cut: more iterations would repeat positions"
    padded = -(-axis.extent // opt.arg) * opt.arg
    if padded == axis.extent:
        return f"there is nothing to pad: {axis.extent} is a multiple of {opt.arg}"
    axes = list(plan.axes)
    axes[opt.axis] = replace(axis, extent=padded)
    found = plan.with_axes(axes)
    for value in reused_values(plan.form) if REUSED in plan.packed else ():
        if axis.target in (value.reduced, value.output):
            return f"axis {opt.axis} is one of a value in scratch memory"
    problem = axis_padding_problem(plan, axis.target, found.covered(axis.target))
    return problem or _grid_problem(found) or _long_index_problem(found) or found


def _long_index_problem(plan: Plan) -> str | None:
    """Where padding makes an index so long that only int64, which the device lacks, holds it."""
    if dtypes.int64 in plan.capabilities.dtypes:
        return None
    for node in plan.nodes:
        if not isinstance(node.arg, ViewArg):
            continue
        view = tracker_of(node).views[-1]
        reach = sum(
            abs(stride) * (covered - 1)
            for axis, stride in enumerate(view.strides[: len(plan.shape)])
            if isinstance(stride, int) and isinstance(covered := plan.covered(axis), int)
        )
        if reach > dtypes.int32.maximum:
            return f"an index of {reach} would need int64, which the device lacks"
    return None


def _grid_problem(plan: Plan) -> str | None:
    """Padding alone makes a launch larger."""
    capabilities = plan.capabilities
    if not capabilities.has_grid:
        return None
    extents = plan.extents(AxisKind.GLOBAL)
    try:
        launch_axes(extents, capabilities.grid_limit)
    except UserError:
        return f"a grid of {extents} does not fit the limits {capabilities.grid_limit}"
    return None


def _pack(plan: Plan, opt: Opt) -> Plan | str:
    """Scratch memory holds what the loads of a slot touch inside the loop over `opt.axis`."""
    capabilities = plan.capabilities
    if capabilities.has_groups or not capabilities.shared_bytes:
        return "the device has no scratch memory of a single work-item"
    problem = _kind_problem(plan, opt)
    if problem:
        return problem
    if opt.arg in plan.packed:
        return f"slot {opt.arg} is packed already"
    if opt.arg == REUSED:
        return _pack_reused(plan, opt)
    loads = plan.loads_of(opt.arg)
    if len(loads) != 1:
        return f"{len(loads)} loads of slot {opt.arg}: accepted is one"
    (load,) = loads
    if any(slot_of(store) == opt.arg for store in plan.form.ast.src):
        return f"the kernel writes to slot {opt.arg}"
    if plan.axes[opt.axis].target in changes(load):
        return f"the loads of slot {opt.arg} use each element once along axis {opt.axis}"
    if positions_of(load.src[0]):
        return f"the loads of slot {opt.arg} are at positions that the kernel computes"
    inside = plan.axes_of(load, AxisKind.REDUCE, AxisKind.UNROLL)
    if not inside:
        return f"the loads of slot {opt.arg} stand in no reduce"
    if not all(isinstance(axis.extent, int) for axis in inside):
        return f"the loads of slot {opt.arg} go over a symbolic extent"
    return replace(plan, packed=(*plan.packed, opt.arg))


def _pack_reused(plan: Plan, opt: Opt) -> Plan | str:
    """Scratch memory holds what reduces go over and the outputs along `opt.axis` need again."""
    values = reused_values(plan.form)
    target = plan.axes[opt.axis].target
    if target not in {value.output for value in values}:
        return f"no value of a reduce is needed again along axis {opt.axis}"
    for value in values:
        if plan.is_padded(value.reduced) or plan.is_padded(value.output):
            return "an axis of a value that is needed again is padded"
    return replace(plan, packed=(*plan.packed, REUSED))


MOVES: dict[OptOp, Move] = {
    OptOp.TC: with_tile,
    OptOp.UPCAST: _upcast,
    OptOp.UNROLL: _unroll,
    OptOp.LOCAL: _local,
    OptOp.GROUP: _group,
    OptOp.GROUPTOP: _group,
    OptOp.NOLOCALS: _no_locals,
    OptOp.SWAP: _swap,
    OptOp.PADTO: _pad_to,
    OptOp.THREAD: _thread,
    OptOp.PACK: _pack,
}
