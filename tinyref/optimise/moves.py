"""The effect of each optimisation on a plan, and the checks of the conditions in `opt.OPTS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tinyref.algebra.shapes import positions_of
from tinyref.algebra.symbolic import describe
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.optimise.launch_axes import launch_axes
from tinyref.optimise.legality import limit_problem, work_problem
from tinyref.optimise.normal_form import reused_values
from tinyref.optimise.opt import REUSED, Condition, KernelOptError, Opt, OptOp
from tinyref.optimise.plan import ITEM_KINDS, Axis, Plan
from tinyref.optimise.scatter import with_scatter
from tinyref.optimise.tile import tile_number_problem, with_tile
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind, ViewArg
from tinyref.views.shape_tracker import tracker_of

# It returns the new plan, or, for a tile, the reason why none fits.
Move = Callable[[Plan, Opt], Plan | str]
# It returns why a condition is violated; None if it is not.
Check = Callable[[Plan, Opt], str | None]


@dataclass(frozen=True, slots=True)
class OptRefusal:
    """The reason of a refusal: the condition (None: there is no such axis), and words."""

    condition: Condition | None
    reason: str


def apply_opt(plan: Plan, opt: Opt) -> Plan:
    """Return `plan` with `opt`. Raises `KernelOptError` with the optimisation and the reason."""
    result = try_opt(plan, opt)
    if isinstance(result, Plan):
        return result
    raise KernelOptError(f"{opt}: {result.reason}, in a plan of {plan}", result.condition)


def try_opt(plan: Plan, opt: Opt) -> Plan | OptRefusal:
    """Return `plan` with `opt`, or the reason of a refusal."""
    spec = opt.spec
    if spec.has_axis and not 0 <= opt.axis < len(plan.axes):
        return OptRefusal(None, _no_axis(plan, opt.axis))
    for condition in (*spec.axis_conditions, *spec.argument_conditions):
        reason = CHECKS[condition](plan, opt)
        if reason is not None:
            return OptRefusal(condition, reason)
    reached = MOVES[opt.op](plan, opt)
    if isinstance(reached, str):
        return OptRefusal(Condition.TILE_FITS, reached)
    problem = limit_problem(reached)
    if problem is not None:
        return OptRefusal(Condition.LIMITS, problem)
    return replace(reached, opts=(*plan.opts, opt))


def open_axes(plan: Plan, op: OptOp) -> list[int]:
    """Return the axes on which `op` may be legal, if its argument is legal.

    If the optimisation takes no axis, 0 stands for the plan.
    """
    spec = Opt(op).spec
    opts = [Opt(op, number) for number in (range(len(plan.axes)) if spec.has_axis else [0])]
    return [
        opt.axis
        for opt in opts
        if all(CHECKS[name](plan, opt) is None for name in spec.axis_conditions)
    ]


def _no_axis(plan: Plan, number: int) -> str:
    accepted = f"accepted are 0 to {len(plan.axes) - 1}" if plan.axes else "the plan has no axes"
    return f"there is no axis {number}: {accepted}"


# --- conditions of the device and the plan --------------------------------------------------------


def _groups(plan: Plan, opt: Opt) -> str | None:
    if not plan.capabilities.has_groups:
        return "the device has no groups of work-items"
    return None if plan.uses_groups else "NOLOCALS has switched groups off"


def _shared_memory(plan: Plan, opt: Opt) -> str | None:
    return None if plan.capabilities.shared_bytes else "the device has no shared memory"


def _threads(plan: Plan, opt: Opt) -> str | None:
    if plan.of_kind(AxisKind.THREAD):
        return "the kernel is shared among threads already"
    return _loops(plan, opt)


def _scratch(plan: Plan, opt: Opt) -> str | None:
    if plan.capabilities.has_groups or not plan.capabilities.shared_bytes:
        return "the device has no scratch memory of a single work-item"
    return None


def _loops(plan: Plan, opt: Opt) -> str | None:
    return "the device has launch indices of its own" if plan.capabilities.has_grid else None


def _tiles(plan: Plan, opt: Opt) -> str | None:
    if not plan.capabilities.matrix_tiles:
        return "the device declares no matrix tile"
    if not plan.capabilities.has_groups:
        return "the device has no groups of work-items to share a tile"
    return None


def _first(plan: Plan, opt: Opt) -> str | None:
    return f"{opt.op.value} comes before all other optimisations" if plan.opts else None


def _no_items(plan: Plan, opt: Opt) -> str | None:
    return "groups are used already" if plan.of_kind(*ITEM_KINDS) else None


# --- conditions of the axis -----------------------------------------------------------------------


def _kind(plan: Plan, opt: Opt) -> str | None:
    kind = plan.axes[opt.axis].kind
    if kind in opt.spec.kinds:
        return None
    names = " and ".join(accepted.value for accepted in opt.spec.kinds)
    return f"axis {opt.axis} is {kind.value}: accepted are {names} axes"


def _no_lane(plan: Plan, opt: Opt) -> str | None:
    is_fixed = plan.axes[opt.axis].is_fixed
    return f"axis {opt.axis} is a lane of the matrix tile" if is_fixed else None


def _known_extent(plan: Plan, opt: Opt) -> str | None:
    extent = plan.axes[opt.axis].extent
    if isinstance(extent, int):
        return None
    return f"axis {opt.axis} has the symbolic extent {describe(extent)}"


def _outer_part(plan: Plan, opt: Opt) -> str | None:
    axis = plan.axes[opt.axis]
    if any(other.target == axis.target and other.stride > axis.stride for other in plan.axes):
        return f"axis {opt.axis} is the inner part of a cut: more iterations would repeat positions"
    return None


def _single_reduce(plan: Plan, opt: Opt) -> str | None:
    count = len(plan.reduces_over(plan.axes[opt.axis].target))
    return f"{count} reduces loop over axis {opt.axis}: accepted is one" if count > 1 else None


def _no_tile(plan: Plan, opt: Opt) -> str | None:
    is_active = any(axis.is_fixed for axis in plan.axes)
    return "a matrix tile is active" if is_active else None


def _not_in_place(plan: Plan, opt: Opt) -> str | None:
    if any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src):
        return (
            "the kernel reads a buffer that it writes: one work-item may write before others read"
        )
    return None


def _one_output(plan: Plan, opt: Opt) -> str | None:
    scattered = with_scatter(plan)
    return scattered if isinstance(scattered, str) else None


# --- conditions of the argument -------------------------------------------------------------------


def _amount(plan: Plan, opt: Opt) -> int:
    """Return the amount; 0 may mean the whole axis."""
    return _extent(plan, opt) if opt.arg == 0 and opt.spec.may_be_whole else opt.arg


def _extent(plan: Plan, opt: Opt) -> int:
    """Return the extent of the axis, which was checked to be known."""
    extent = plan.axes[opt.axis].extent
    assert isinstance(extent, int)
    return extent


def _most(plan: Plan, opt: Opt) -> str | None:
    amount, most = _amount(plan, opt), opt.spec.max_amount
    is_more = most is not None and amount > most
    what = "lanes" if opt.op is OptOp.UPCAST else "copies"
    return f"{amount} {what}: accepted are at most {most}" if is_more else None


def _divisor(plan: Plan, opt: Opt) -> str | None:
    amount, extent = _amount(plan, opt), _extent(plan, opt)
    if amount < 2 or extent % amount:
        return f"{amount} is no amount that divides {extent}: accepted are divisors from 2"
    return None


def _other_axis(plan: Plan, opt: Opt) -> str | None:
    if not 0 <= opt.arg < len(plan.axes):
        return _no_axis(plan, opt.arg)
    if opt.axis == opt.arg:
        return "an axis cannot be exchanged with itself"
    return _kind(plan, replace(opt, axis=opt.arg))


def _thread_count(plan: Plan, opt: Opt) -> str | None:
    limit = plan.capabilities.threads
    return f"{opt.arg} threads: accepted are at most {limit}" if opt.arg > limit else None


def _multiple(plan: Plan, opt: Opt) -> str | None:
    extent = _extent(plan, opt)
    if opt.arg < 2:
        return f"{opt.arg} is no multiple to pad to: accepted are integers from 2"
    if extent % opt.arg == 0:
        return f"there is nothing to pad: {extent} is a multiple of {opt.arg}"
    return None


def _work(plan: Plan, opt: Opt) -> str | None:
    target = plan.axes[opt.axis].target
    return work_problem(plan, target, _padded(plan, opt).covered(target))


def _grid(plan: Plan, opt: Opt) -> str | None:
    """Check the grid; only padding makes a launch larger."""
    capabilities = plan.capabilities
    if not capabilities.has_grid:
        return None
    extents = _padded(plan, opt).extents(AxisKind.GLOBAL)
    try:
        launch_axes(extents, capabilities.grid_limit)
    except UserError:
        return f"a grid of {extents} does not fit the limits {capabilities.grid_limit}"
    return None


def _index_size(plan: Plan, opt: Opt) -> str | None:
    """Check the type of indices; padding may make one so long that it needs int64."""
    if dtypes.int64 in plan.capabilities.dtypes:
        return None
    padded = _padded(plan, opt)
    for node in padded.nodes:
        if not isinstance(node.arg, ViewArg):
            continue
        view = tracker_of(node).views[-1]
        reach = sum(
            abs(stride) * (covered - 1)
            for axis, stride in enumerate(view.strides[: len(padded.shape)])
            if isinstance(stride, int) and isinstance(covered := padded.covered(axis), int)
        )
        if reach > dtypes.int32.maximum:
            return f"an index of {reach} would need int64, which the device lacks"
    return None


def _new_slot(plan: Plan, opt: Opt) -> str | None:
    return f"slot {opt.arg} is packed already" if opt.arg in plan.packed else None


def _single_load(plan: Plan, opt: Opt) -> str | None:
    count = len(plan.loads_of(opt.arg))
    repeated = len(_repeated_loads(plan, opt))
    if opt.arg == REUSED or (count and repeated < 2):
        return None
    return (
        f"{repeated} loads of slot {opt.arg} repeat elements along axis {opt.axis}: accepted is one"
    )


def _repeated_loads(plan: Plan, opt: Opt) -> list[UOp]:
    """Return the loads that a PACK may copy."""
    return plan.repeated_loads(opt.arg, plan.axes[opt.axis].target)


def _pack(plan: Plan, opt: Opt) -> Plan:
    copied = _repeated_loads(plan, opt)
    return replace(plan, packed=(*plan.packed, opt.arg), copied=(*plan.copied, *copied))


def _read_only(plan: Plan, opt: Opt) -> str | None:
    is_written = any(slot_of(store) == opt.arg for store in plan.form.ast.src)
    return f"the kernel writes to slot {opt.arg}" if is_written else None


def _used_again(plan: Plan, opt: Opt) -> str | None:
    target = plan.axes[opt.axis].target
    if opt.arg == REUSED:
        is_used_again = target in {value.output for value in reused_values(plan.form)}
        text = f"no value of a reduce is needed again along axis {opt.axis}"
        return None if is_used_again else text
    if not _repeated_loads(plan, opt):
        return f"the loads of slot {opt.arg} use each element once along axis {opt.axis}"
    return None


def _plain_positions(plan: Plan, opt: Opt) -> str | None:
    if any(positions_of(load.src[0]) for load in _repeated_loads(plan, opt)):
        return f"the loads of slot {opt.arg} are at positions that the kernel computes"
    return None


def _in_reduce(plan: Plan, opt: Opt) -> str | None:
    for load in _repeated_loads(plan, opt):
        inside = plan.axes_of(load, AxisKind.REDUCE, AxisKind.UNROLL)
        if not inside:
            return f"the loads of slot {opt.arg} are in no reduce"
        if not all(isinstance(axis.extent, int) for axis in inside):
            return f"the loads of slot {opt.arg} loop over a symbolic extent"
    return None


CHECKS: dict[Condition, Check] = {
    Condition.GROUPS: _groups,
    Condition.SHARED_MEMORY: _shared_memory,
    Condition.THREADS: _threads,
    Condition.SCRATCH: _scratch,
    Condition.LOOPS: _loops,
    Condition.TILES: _tiles,
    Condition.FIRST: _first,
    Condition.NO_ITEMS: _no_items,
    Condition.KIND: _kind,
    Condition.NO_LANE: _no_lane,
    Condition.KNOWN_EXTENT: _known_extent,
    Condition.OUTER_PART: _outer_part,
    Condition.SINGLE_REDUCE: _single_reduce,
    Condition.NO_TILE: _no_tile,
    Condition.NOT_IN_PLACE: _not_in_place,
    Condition.MOST: _most,
    Condition.DIVISOR: _divisor,
    Condition.OTHER_AXIS: _other_axis,
    Condition.THREAD_COUNT: _thread_count,
    Condition.MULTIPLE: _multiple,
    Condition.WORK: _work,
    Condition.GRID: _grid,
    Condition.INDEX_SIZE: _index_size,
    Condition.NEW_SLOT: _new_slot,
    Condition.SINGLE_LOAD: _single_load,
    Condition.READ_ONLY: _read_only,
    Condition.USED_AGAIN: _used_again,
    Condition.PLAIN_POSITIONS: _plain_positions,
    Condition.IN_REDUCE: _in_reduce,
    Condition.TILE_NUMBERS: tile_number_problem,
    # `with_tile` chooses a tile that fits, and splits the axes.
    Condition.TILE_FITS: lambda plan, opt: None,
    Condition.ONE_OUTPUT: _one_output,
}


# --- effects --------------------------------------------------------------------------------------


def _split(plan: Plan, opt: Opt, kind: AxisKind, from_outside: bool = False) -> Plan:
    """Split the amount of positions off an axis, as an axis of another kind."""
    axis, amount = plan.axes[opt.axis], _amount(plan, opt)
    rest = _extent(plan, opt) // amount
    inner = axis.stride
    if from_outside:
        cut = replace(axis, kind=kind, extent=amount, stride=inner * rest)
        left = replace(axis, extent=rest)
    else:
        cut = replace(axis, kind=kind, extent=amount)
        left = replace(axis, extent=rest, stride=inner * amount)
    return plan.with_axes([*_with_axis(plan, opt.axis, left), cut])


def _with_axis(plan: Plan, number: int, axis: Axis) -> list[Axis]:
    return [axis if other == number else old for other, old in enumerate(plan.axes)]


def _swap(plan: Plan, opt: Opt) -> Plan:
    axes = list(plan.axes)
    axes[opt.axis], axes[opt.arg] = plan.axes[opt.arg], plan.axes[opt.axis]
    return plan.with_axes(axes)


def _padded(plan: Plan, opt: Opt) -> Plan:
    extent = -(-_extent(plan, opt) // opt.arg) * opt.arg
    return plan.with_axes(_with_axis(plan, opt.axis, replace(plan.axes[opt.axis], extent=extent)))


MOVES: dict[OptOp, Move] = {
    OptOp.TC: with_tile,
    OptOp.UPCAST: lambda plan, opt: _split(plan, opt, AxisKind.UPCAST),
    OptOp.UNROLL: lambda plan, opt: _split(plan, opt, AxisKind.UNROLL),
    OptOp.LOCAL: lambda plan, opt: _split(plan, opt, AxisKind.LOCAL),
    OptOp.GROUP: lambda plan, opt: _split(plan, opt, AxisKind.GROUP_REDUCE),
    OptOp.GROUPTOP: lambda plan, opt: _split(plan, opt, AxisKind.GROUP_REDUCE, from_outside=True),
    OptOp.NOLOCALS: lambda plan, opt: replace(plan, uses_groups=False),
    OptOp.SWAP: _swap,
    OptOp.PADTO: _padded,
    OptOp.THREAD: lambda plan, opt: _split(plan, opt, AxisKind.THREAD, from_outside=True),
    OptOp.PACK: _pack,
    OptOp.SCATTER: lambda plan, opt: with_scatter(plan),
}
