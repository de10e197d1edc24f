"""Lists of optimisations that are drawn for a purpose: recipes, and what must be refused.

A recipe is a sequence of optimisations that meet in the compiler: two cuts of one axis, a padded
axis that is unrolled, a matrix tile with more work-items around it. What must be refused is tried
as well: it costs nothing while it is, and a compiler that accepts it is found out by the result.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyref.optimise.opt import OPTS, REUSED, Argument, Opt, OptOp, opts_text
from tinyref.optimise.plan import ITEM_KINDS, Axis, Plan
from tinyref.optimise.reused import reused_values
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ReduceArg, SlotArg
from tinyref.uops.tiles import MatrixTile, Operand
from tinyref_fuzz.generate.candidates import (
    CUTS,
    PADDINGS,
    THREADS,
    amount,
    axes_by_op,
    is_free,
    is_small,
)
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Opts

# Sequences, and how often each is drawn where its first optimisation fits.
RECIPES: tuple[tuple[tuple[OptOp, ...], float], ...] = (
    ((OptOp.TC,), 14),
    ((OptOp.TC, OptOp.LOCAL), 14),
    ((OptOp.TC, OptOp.UPCAST), 14),
    ((OptOp.TC, OptOp.UNROLL), 24),
    ((OptOp.TC, OptOp.LOCAL, OptOp.UPCAST, OptOp.UNROLL), 8),
    ((OptOp.GROUP,), 4),
    ((OptOp.GROUPTOP,), 3),
    ((OptOp.GROUP, OptOp.GROUPTOP), 4),
    ((OptOp.GROUP, OptOp.UPCAST), 7),
    ((OptOp.GROUP, OptOp.UNROLL), 4),
    ((OptOp.UNROLL, OptOp.GROUPTOP), 4),
    ((OptOp.GROUP, OptOp.LOCAL), 4),
    ((OptOp.GROUP, OptOp.UPCAST, OptOp.UPCAST), 2),
    ((OptOp.PADTO, OptOp.GROUP, OptOp.UPCAST), 6),
    ((OptOp.PADTO, OptOp.UPCAST), 3),
    ((OptOp.PADTO, OptOp.UNROLL), 3),
    ((OptOp.PADTO, OptOp.LOCAL), 3),
    ((OptOp.PADTO, OptOp.PACK), 12),
    ((OptOp.UPCAST, OptOp.PACK), 3),
    ((OptOp.PACK,), 6),
    ((OptOp.THREAD, OptOp.UPCAST), 2),
    ((OptOp.LOCAL, OptOp.UPCAST), 3),
    ((OptOp.LOCAL, OptOp.LOCAL), 3),
    ((OptOp.UPCAST, OptOp.UPCAST), 3),
    ((OptOp.UNROLL,), 6),
    ((OptOp.NOLOCALS,), 1),
)
# Of tiles: their instruction, most of the time, or only their shape, or all of it by local memory.
MODES = (1, 2, 3), (4, 1, 1)
# Of threads that hold the same elements one alone writes them to local memory.
REPEATED = (1, 2, 3), (2, 1, 3)
# So many axes and amounts are tried for each optimisation of a recipe.
TRIES = 3
# Where an optimisation fits the axis of the one before it, it goes there in so many of 100.
SAME_AXIS = 60
# What is unrolled after another optimisation is by two in so many of 100.
HALVED = 30
# No amount that is to be refused is larger than this.
ODD_AMOUNTS = (2, 3, 4, 5, 7, 8)


class BrokenPlanError(Exception):
    """An optimisation that is neither applied nor refused: the list `opts` ends with it."""

    def __init__(self, opts: Opts) -> None:
        self.opts = opts
        super().__init__(f"{opts_text(opts)} is neither applied nor refused")


def legal_plan(plan: Plan, opt: Opt) -> Plan | None:
    """The plan with `opt`, or None where that is refused. Raises `BrokenPlanError` for neither."""
    try:
        return plan.legal(opt)
    except Exception as error:
        raise BrokenPlanError((*plan.opts, opt)) from error


def fitting_recipes(plan: Plan) -> tuple[list[tuple[OptOp, ...]], list[float]]:
    """The recipes whose optimisations `plan` may accept, and their weights."""
    there = axes_by_op(plan)
    has_tile = OptOp.TC in there and legal_plan(plan, Opt(OptOp.TC, 0, -1, 2, 1)) is not None
    packs = list(_packs(plan)) if OptOp.PACK in there else []
    found, weights = [], []
    for ops, weight in RECIPES:
        if (OptOp.TC in ops and not has_tile) or (OptOp.PACK in ops and not packs):
            continue
        if all(op in there for op in ops):
            found.append(ops)
            weights.append(weight)
    return found, weights


def apply_recipe(plan: Plan, tape: Tape, ops: tuple[OptOp, ...]) -> Plan:
    """`plan` with as many optimisations of a recipe as are accepted."""
    target = -1
    start = plan
    for op in ops:
        for _ in range(TRIES):
            opt = _ingredient(plan, tape, op, target, start)
            reached = legal_plan(plan, opt) if opt is not None else None
            if opt is not None and reached is not None and is_small(reached):
                target = plan.axes[opt.axis].target if opt.spec.has_axis else -1
                plan = reached
                break
    return plan


def _ingredient(plan: Plan, tape: Tape, op: OptOp, target: int, start: Plan) -> Opt | None:
    """An optimisation of this kind, mostly on the axis of the AST that was cut before.

    Of copies mostly those that `start`, the plan at the beginning, does not admit.
    """
    if op is OptOp.NOLOCALS:
        return Opt(op)
    if op is OptOp.TC:
        tiles = _tiles(plan)
        if not tiles:
            return None
        tile = tape.pick(tiles)
        shares = REPEATED if _repeats(plan.capabilities.matrix_tiles[tile]) else MODES
        return Opt(op, 0, tile, 2, tape.pick(*shares))
    if op is OptOp.PACK:
        packs = list(_packs(plan))
        before = list(_packs(start)) if plan is not start else []
        new = [opt for opt in packs if opt not in before]
        packs = new if new and tape.chance(SAME_AXIS) else packs
        return tape.pick(packs) if packs else None
    axes = list(axes_by_op(plan).get(op, ()))
    if op is OptOp.PADTO and tape.chance(SAME_AXIS):
        # Padding of a reduce has to give nothing; that of outputs is only not stored.
        axes = [axis for axis in axes if plan.axes[axis].kind is AxisKind.REDUCE] or axes
    again = [axis for axis in axes if plan.axes[axis].target == target]
    if again and tape.chance(SAME_AXIS):
        axes = again
    if not axes:
        return None
    axis = tape.pick(axes)
    if op is OptOp.UNROLL and plan is not start and tape.chance(HALVED):
        # A loop stays around what is unrolled.
        return Opt(op, axis, 2)
    return Opt(op, axis, amount(op, plan.axes[axis], tape))


def _tiles(plan: Plan) -> list[int]:
    """The matrix tiles that take the kernel."""
    tiles = range(len(plan.capabilities.matrix_tiles))
    return [tile for tile in tiles if legal_plan(plan, Opt(OptOp.TC, 0, tile, 2, 1)) is not None]


def _repeats(tile: MatrixTile) -> bool:
    return any(tile.layout(operand).copies > 1 for operand in Operand)


def _packs(plan: Plan) -> Iterator[Opt]:
    """Each copy into scratch memory that `plan` accepts."""
    slots = {node.arg.slot for node in plan.nodes if isinstance(node.arg, SlotArg)}
    slots |= {REUSED} if reused_values(plan.form) else set()
    for axis in plan.of_kind(AxisKind.GLOBAL):
        for slot in sorted(slots):
            opt = Opt(OptOp.PACK, axis, slot)
            if legal_plan(plan, opt) is not None:
                yield opt


# --- what must be refused -------------------------------------------------------------------------


def accepted_probes(plan: Plan, tape: Tape) -> list[Opts]:
    """`plan` with an optimisation that is to be refused, and is accepted or ends otherwise.

    One at most that pads, which some sums admit, and one of all others.
    """
    found: dict[bool, Opts] = {}
    for opt in doubtful(plan, tape):
        pads = opt.op is OptOp.PADTO
        if pads in found:
            continue
        try:
            reached = plan.legal(opt)
        except Exception:  # the judge reports it
            found[pads] = (*plan.opts, opt)
            continue
        if reached is not None and is_small(reached):
            found[pads] = reached.opts
    return list(found.values())


def doubtful(plan: Plan, tape: Tape) -> Iterator[Opt]:
    """What no plan like this one may accept, as of `docs/optimiser.md`, and padding of sums."""
    for number, axis in enumerate(plan.axes):
        if not is_free(axis):
            continue
        yield from _odd_cuts(plan, number, axis, tape)
        yield from _of_other_kinds(plan, number, axis, tape)
        yield from _too_large(plan, number, axis)
        if _is_doubtful_padding(plan, axis):
            yield Opt(OptOp.PADTO, number, _padding(axis, tape))
    if plan.capabilities.has_groups:
        yield from _unfit_groups(plan)


def _odd_cuts(plan: Plan, number: int, axis: Axis, tape: Tape) -> Iterator[Opt]:
    """Amounts that do not divide."""
    size = axis.extent if isinstance(axis.extent, int) else 1
    whole = plan.shape[axis.target]
    odd = [n for n in ODD_AMOUNTS if size % n]
    # What divides the axis as it was before it was cut.
    before = [n for n in odd if isinstance(whole, int) and whole % n == 0]
    smaller = [n for n in odd if n < size]
    for amounts in (before, smaller):
        if amounts:
            chosen = tape.pick(amounts)
            yield from (
                Opt(op, number, chosen)
                for op in _cuts_of(plan, axis)
                if op is not OptOp.THREAD or chosen <= THREADS
            )


def _of_other_kinds(plan: Plan, number: int, axis: Axis, tape: Tape) -> Iterator[Opt]:
    """What cuts axes of other kinds alone, by an amount that divides."""
    amounts = [n for n in CUTS if isinstance(axis.extent, int) and axis.extent % n == 0]
    if amounts:
        chosen = tape.pick(amounts)
        for op, spec in OPTS.items():
            if spec.takes is Argument.AMOUNT and axis.kind not in spec.kinds:
                yield Opt(op, number, chosen)


def _cuts_of(plan: Plan, axis: Axis) -> tuple[OptOp, ...]:
    """What cuts an axis of this kind."""
    device = plan.capabilities
    if axis.kind is AxisKind.GLOBAL:
        on_host = not device.has_grid and device.threads > 1
        others = (OptOp.LOCAL,) if device.has_groups else (OptOp.THREAD,) if on_host else ()
        return (OptOp.UPCAST, *others)
    if axis.kind is AxisKind.LOCAL:
        return (OptOp.UPCAST,)
    if axis.kind is AxisKind.REDUCE:
        return (OptOp.UNROLL, OptOp.GROUP) if device.has_groups else (OptOp.UNROLL,)
    return (OptOp.UNROLL,) if axis.kind is AxisKind.GROUP_REDUCE else ()


def _too_large(plan: Plan, number: int, axis: Axis) -> Iterator[Opt]:
    """Divisors with which a group has more work-items than the device can have."""
    device = plan.capabilities
    if not device.has_groups or not isinstance(axis.extent, int):
        return
    op = {AxisKind.GLOBAL: OptOp.LOCAL, AxisKind.REDUCE: OptOp.GROUP}.get(axis.kind)
    for size in CUTS:
        if op and axis.extent % size == 0 and plan.group_size * size > device.group_size_limit:
            yield Opt(op, number, size)
            return


def _is_doubtful_padding(plan: Plan, axis: Axis) -> bool:
    """Whether more iterations may change a result, or go over positions of a neighbour."""
    if axis.kind not in (AxisKind.GLOBAL, AxisKind.REDUCE):
        return False
    if any(each.target == axis.target and each.stride > axis.stride for each in plan.axes):
        return True
    return any(not _is_sum_of_loads(reduce) for reduce in plan.reduces_over(axis.target))


def _is_sum_of_loads(reduce: UOp) -> bool:
    """A sum of what is surely 0 where the loads are: what is harmless may be no more than this."""
    if not isinstance(reduce.arg, ReduceArg) or reduce.arg.op is not Ops.ADD:
        return False
    harmless = (Ops.LOAD, Ops.CAST, Ops.MUL, Ops.NEG)
    term = reduce.src[0]
    while term.op in harmless and term.op is not Ops.LOAD:
        term = term.src[0]
    return term.op is Ops.LOAD


def _padding(axis: Axis, tape: Tape) -> int:
    size = axis.extent if isinstance(axis.extent, int) else 1
    return tape.pick([n for n in PADDINGS if size % n and n < 4 * size] or PADDINGS)


def _unfit_groups(plan: Plan) -> Iterator[Opt]:
    """Groups after NOLOCALS, in kernels that read what they write, and of shared axes."""
    written = {store.src[0].src[0] for store in plan.form.ast.src}
    loads = [node for node in plan.nodes if node.op is Ops.LOAD]
    is_in_place = any(load.src[0].src[0] in written for load in loads)
    for number, axis in enumerate(plan.axes):
        if not is_free(axis) or not isinstance(axis.extent, int):
            continue
        sizes = [n for n in CUTS[:4] if axis.extent % n == 0]
        if not sizes:
            continue
        if axis.kind is AxisKind.GLOBAL and not plan.uses_groups:
            yield Opt(OptOp.LOCAL, number, sizes[0])
        if axis.kind is not AxisKind.REDUCE:
            continue
        is_shared = len(plan.reduces_over(axis.target)) > 1
        if is_in_place or is_shared or not plan.uses_groups:
            yield Opt(OptOp.GROUP, number, sizes[0])
    if plan.uses_groups and plan.of_kind(*ITEM_KINDS):
        yield Opt(OptOp.NOLOCALS)
