"""Lists of optimisations for a kernel: legal ones, and what is refused on the way to them.

Most candidates make sense for the axis that they cut; a small share is drawn of everything, those
that no plan accepts too: a refusal must be a `KernelOptError` and must leave the plan as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from tinyref.device import Capabilities
from tinyref.uops.node import UOp
from tinyref.uops.optimise.heuristics import optimised
from tinyref.uops.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.uops.optimise.plan import ITEM_KINDS, LANE_KINDS, Axis, Plan, number_of
from tinyref.uops.payload import AxisKind, SlotArg
from tinyref_fuzz.case import Opts
from tinyref_fuzz.tape import Tape

if TYPE_CHECKING:
    from tinyref_fuzz.policies import Policy

# Those that are legal in many places, such as PADTO, or bar others, as NOLOCALS does, are rarer.
WEIGHTS = {
    OptOp.UPCAST: 8.0,
    OptOp.UNROLL: 8.0,
    OptOp.LOCAL: 8.0,
    OptOp.GROUP: 8.0,
    OptOp.GROUPTOP: 8.0,
    OptOp.SWAP: 3.0,
    OptOp.PADTO: 5.0,
    OptOp.THREAD: 4.0,
    OptOp.PACK: 6.0,
    OptOp.TC: 30.0,
    OptOp.NOLOCALS: 0.7,
}
# Divisors, multiples, 0 for whole axes, and what no op accepts.
AMOUNTS = (2, 4, 3, 8, 0, 16, 5, 7, 32, 6, 12, 13, 64, 1, -1)
CUTS = (2, 4, 3, 8, 16, 5, 32, 7, 6, 13, 64)
PADDINGS = (4, 2, 8, 16, 3, 5, 32, 13, 7)
# Plans of more lanes and copies are legal, but take seconds to compile.
MOST_COPIES = 64
# So many candidates are tried for each optimisation that is wanted.
TRIES = 5
# A list of a case ends after so many failures in a row: little is left that would be legal.
PATIENCE = 4
# Percent of the candidates that are drawn of everything, legal or not.
WILD = 6
LONGEST = 5
# Lists do not depend on how many cores a machine has: where there are threads, there are so many.
THREADS = 4


@dataclass(frozen=True)
class OptList:
    """The optimisations `opts`, which are legal one after the other, and those refused between."""

    plan: Plan
    refused: tuple[tuple[Opt, str], ...]

    @property
    def opts(self) -> tuple[Opt, ...]:
        """What was applied, in order."""
        return self.plan.opts


def settled(capabilities: Capabilities) -> Capabilities:
    """The capabilities with `THREADS` threads where the device runs kernels on those of its host.

    With these a list is legal, and a program the same, on a machine of any number of cores.
    """
    on_host = not capabilities.has_grid and not capabilities.is_interpreted
    return replace(capabilities, threads=THREADS) if on_host else capabilities


def drawn_lists(
    ast: UOp, capabilities: Capabilities, tape: Tape, policy: Policy
) -> tuple[Opts, ...]:
    """Lists for the kernel `ast`, none of them empty or there twice: what the heuristics choose,
    then random ones, as many as the policy wants as far as the kernel has so many.
    """
    wanted = tape.between(*policy.lists)
    if not wanted:
        return ()
    plan = Plan.of(ast, settled(capabilities))
    lists: dict[Opts, None] = {optimised(plan).opts: None}
    weights = {op: weight * policy.opts.get(op, 1) for op, weight in WEIGHTS.items()}
    for _ in range(wanted):
        length = tape.between(1, LONGEST)
        lists[_extended(plan, tape, length, weights).opts] = None
    return tuple(opts for opts in lists if opts)[:wanted]


def mutated_lists(
    ast: UOp, capabilities: Capabilities, tape: Tape, policy: Policy, lists: Sequence[Opts]
) -> tuple[Opts, ...]:
    """`lists` for the kernel `ast`, each with one change, and what is legal of it.

    Where that leaves fewer than the policy wants, there are new ones, as of `drawn_lists`.
    """
    least, most = policy.lists
    if not most:
        return ()
    plan = Plan.of(ast, settled(capabilities))
    weights = {op: weight * policy.opts.get(op, 1) for op, weight in WEIGHTS.items()}
    found: dict[Opts, None] = {}
    for opts in lists[:most]:
        found[legal_part(plan, _changed(plan, opts, tape, weights))] = None
    for _ in range(max(1, least - len(found))):
        found[_extended(plan, tape, tape.between(1, LONGEST), weights).opts] = None
    return tuple(opts for opts in found if opts)[:most]


def legal_part(plan: Plan, opts: Sequence[Opt]) -> Opts:
    """Those of `opts` that are legal one after the other on `plan`, and leave it small enough."""
    for opt in opts:
        reached = plan.legal(opt)
        if reached is not None and copies(reached) <= MOST_COPIES:
            plan = reached
    return plan.opts


def _changed(plan: Plan, opts: Opts, tape: Tape, weights: dict[OptOp, float]) -> list[Opt]:
    """A list with one optimisation more or less, two exchanged, or another amount."""
    changed = list(opts)
    choice = tape.below(5)
    at = tape.below(len(changed)) if changed else 0
    if choice == 1 and changed:
        del changed[at]
    elif choice == 2 and len(changed) > 1:
        other = tape.below(len(changed))
        changed[at], changed[other] = changed[other], changed[at]
    elif choice == 3 and changed:
        changed[at] = replace(changed[at], arg=tape.pick(AMOUNTS))
    elif choice == 4:
        changed.insert(at, draw(plan, tape, _slots(plan), weights))
    return changed


def random_opts(
    ast: UOp, capabilities: Capabilities, tape: Tape, wanted: int, start: Plan | None = None
) -> OptList:
    """Up to `wanted` legal optimisations of the kernel `ast`, drawn from `tape`.

    `start` is the plan to begin with, the one without optimisations if it is not given. Raises
    `AssertionError` where a refusal changes the plan; every error but `KernelOptError` passes
    through.
    """
    plan = Plan.of(ast, settled(capabilities)) if start is None else start
    return _extended(plan, tape, wanted, WEIGHTS, wanted * TRIES)


def _extended(
    plan: Plan, tape: Tape, wanted: int, weights: dict[OptOp, float], patience: int = PATIENCE
) -> OptList:
    """`plan` with up to `wanted` optimisations; after `patience` in a row that fail, no more."""
    slots = _slots(plan)
    failed = 0
    refused: list[tuple[Opt, str]] = []
    for _ in range(wanted * TRIES):
        if len(plan.opts) >= wanted or failed >= patience:
            break
        failed += 1
        opt = draw(plan, tape, slots, weights)
        before = _members(plan)
        try:
            reached = plan.apply(opt)
            if copies(reached) <= MOST_COPIES:
                plan, failed = reached, 0
        except KernelOptError as error:
            if _members(plan) != before:
                raise AssertionError(f"{opt} was refused and changed the plan {plan}") from error
            refused.append((opt, str(error)))
    return OptList(plan, tuple(refused))


def copies(plan: Plan) -> int:
    """How many times the value of a work-item stands in its program."""
    return number_of(axis.extent for axis in plan.axes if axis.kind in LANE_KINDS)


def _members(plan: Plan) -> tuple[object, ...]:
    return tuple(getattr(plan, field.name) for field in fields(plan))


def _slots(plan: Plan) -> int:
    return 1 + max((n.arg.slot for n in plan.nodes if isinstance(n.arg, SlotArg)), default=0)


# --- candidates -----------------------------------------------------------------------------------


def draw(plan: Plan, tape: Tape, slots: int, weights: dict[OptOp, float]) -> Opt:
    """One optimisation that may be legal, now and then one that need not."""
    if tape.chance(WILD):
        return wild(plan, tape, slots)
    axes = _axes_by_op(plan)
    ops = [op for op in WEIGHTS if op in axes]
    if not ops:
        return wild(plan, tape, slots)
    op = tape.pick(ops, [weights[each] for each in ops])
    if op is OptOp.NOLOCALS:
        return Opt(op)
    if op is OptOp.TC:
        return _tile(plan, tape)
    axis = tape.pick(axes[op])
    if op is OptOp.SWAP:
        return Opt(op, axis, tape.pick(axes[op]))
    if op is OptOp.PACK:
        return Opt(op, axis, tape.below(slots))
    return Opt(op, axis, _amount(op, plan.axes[axis], tape))


def _axes_by_op(plan: Plan) -> dict[OptOp, Sequence[int]]:
    """For each optimisation that may be legal the axes that it may be legal on."""
    found: dict[OptOp, Sequence[int]] = {}
    device = plan.capabilities
    outputs = [n for n in plan.of_kind(AxisKind.GLOBAL) if _is_free(plan.axes[n])]
    loops = [n for n in plan.of_kind(AxisKind.REDUCE) if _is_free(plan.axes[n])]
    items = [n for n in plan.of_kind(*ITEM_KINDS) if _is_free(plan.axes[n])]
    cut = {
        OptOp.UPCAST: [*outputs, *(n for n in items if plan.axes[n].kind is AxisKind.LOCAL)],
        OptOp.UNROLL: [*loops, *(n for n in items if plan.axes[n].kind is AxisKind.GROUP_REDUCE)],
        OptOp.PADTO: [*outputs, *loops],
    }
    if device.has_groups and plan.uses_groups:
        cut[OptOp.LOCAL] = outputs
        cut[OptOp.GROUP] = cut[OptOp.GROUPTOP] = loops if device.shared_bytes else []
        if not plan.opts and device.matrix_tiles and len(outputs) > 1 and loops:
            cut[OptOp.TC] = loops
        if not items:
            cut[OptOp.NOLOCALS] = [0]
    elif not device.has_grid and device.threads > 1 and not plan.of_kind(AxisKind.THREAD):
        cut[OptOp.THREAD] = outputs
    if not device.has_groups and device.shared_bytes and loops:
        cut[OptOp.PACK] = outputs
    if len(outputs) > 1:
        cut[OptOp.SWAP] = outputs
    for op, axes in cut.items():
        if axes:
            found[op] = axes
    return found


def _is_free(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and axis.extent > 1 and not axis.is_fixed


def _amount(op: OptOp, axis: Axis, tape: Tape) -> int:
    extent = axis.extent
    assert isinstance(extent, int), "only axes of known extent are candidates"
    if op is OptOp.PADTO:
        return tape.pick([n for n in PADDINGS if extent % n] or PADDINGS)
    most = {OptOp.UPCAST: 16, OptOp.UNROLL: 32, OptOp.THREAD: THREADS}.get(op, 64)
    found = [n for n in CUTS if n <= most and extent % n == 0]
    if op in (OptOp.UPCAST, OptOp.UNROLL) and extent <= most:
        found.append(0)
    elif extent <= most and extent not in found:
        found.append(extent)
    # An amount that leaves something over is refused.
    return tape.pick(found or CUTS)


def _tile(plan: Plan, tape: Tape) -> Opt:
    """Any tile at the level that admits most, or one by its number."""
    tile = -1 if tape.chance(60) else tape.below(len(plan.capabilities.matrix_tiles))
    choice, level, mode = tape.pick((0, 0, 0, 1)), tape.pick((2, 2, 2, 1, 0)), tape.between(1, 3)
    return Opt(OptOp.TC, choice, tile, level, mode)


def wild(plan: Plan, tape: Tape, slots: int) -> Opt:
    """Any optimisation: an axis may be one too far, an amount may not divide."""
    op = tape.pick(tuple(WEIGHTS))
    axis = tape.below(len(plan.axes) + 1)
    if op is OptOp.NOLOCALS:
        return Opt(op)
    if op is OptOp.SWAP:
        return Opt(op, axis, tape.below(len(plan.axes) + 1))
    if op is OptOp.PACK:
        return Opt(op, axis, tape.below(slots + 1))
    if op is OptOp.TC:
        tile = tape.between(-1, len(plan.capabilities.matrix_tiles))
        choice, level, mode = tape.pick((0, 0, 1, 2)), tape.pick((2, 2, 1, 0, 3)), tape.below(4)
        return Opt(op, choice, tile, level, mode)
    return Opt(op, axis, tape.pick(AMOUNTS))


def cramped(capabilities: Capabilities) -> Capabilities:
    """The same device with limits that many plans break: small groups, little shared memory."""
    return replace(
        capabilities,
        group_limit=(8, 4, 2),
        group_size_limit=16,
        shared_bytes=min(capabilities.shared_bytes, 256),
        grid_limit=(7, 5, 40),
        vector_lanes=tuple(lanes for lanes in capabilities.vector_lanes if lanes <= 4),
    )
