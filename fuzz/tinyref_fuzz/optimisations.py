"""Random lists of optimisations for a kernel: legal ones by trying, refused ones on the way.

Every op, axis and amount is drawn, those that no plan accepts too: a refusal must be a
`KernelOptError` and must leave the plan as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tinyref.device import Capabilities
from tinyref.uops.node import UOp
from tinyref.uops.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.uops.optimise.plan import LANE_KINDS, Plan, number_of
from tinyref.uops.payload import SlotArg
from tinyref_fuzz.tape import Tape

# Those that are legal in many places, such as PADTO, or bar others, as NOLOCALS does, are rarer.
WEIGHTS = {
    OptOp.UPCAST: 8,
    OptOp.UNROLL: 8,
    OptOp.LOCAL: 8,
    OptOp.GROUP: 8,
    OptOp.GROUPTOP: 8,
    OptOp.SWAP: 3,
    OptOp.PADTO: 3,
    OptOp.THREAD: 3,
    OptOp.PACK: 3,
    OptOp.TC: 1,
    OptOp.NOLOCALS: 1,
}
OPS = tuple(op for op, weight in WEIGHTS.items() for _ in range(weight))
# Divisors, multiples, 0 for whole axes, and what no op accepts.
AMOUNTS = (2, 4, 3, 8, 0, 16, 5, 7, 32, 6, 12, 13, 64, 1, -1)
# A tile can only come first: of the first optimisations that are tried, one in so many is one.
TILE_SHARE = 2
# Plans of more lanes and copies are legal, but take seconds to compile.
MOST_COPIES = 128
# So many optimisations are tried for each one that is wanted.
TRIES = 60


@dataclass(frozen=True)
class OptList:
    """The optimisations `opts`, which are legal one after the other, and those refused between."""

    plan: Plan
    refused: tuple[tuple[Opt, str], ...]

    @property
    def opts(self) -> tuple[Opt, ...]:
        """What was applied, in order."""
        return self.plan.opts


def random_opts(
    ast: UOp, capabilities: Capabilities, tape: Tape, wanted: int, start: Plan | None = None
) -> OptList:
    """Up to `wanted` legal optimisations of the kernel `ast`, drawn from `tape`.

    `start` is the plan to begin with, the one without optimisations if it is not given. Raises
    `AssertionError` where a refusal changes the plan; every error but `KernelOptError` passes
    through.
    """
    plan = Plan.of(ast, capabilities) if start is None else start
    slots = 1 + max((arg.slot for arg in map(_arg, ast.toposort()) if arg is not None), default=0)
    refused: list[tuple[Opt, str]] = []
    for _ in range(wanted * TRIES):
        if len(plan.opts) == wanted:
            break
        opt = draw(plan, tape, slots)
        before = _members(plan)
        try:
            reached = plan.apply(opt)
            plan = reached if _copies(reached) <= MOST_COPIES else plan
        except KernelOptError as error:
            if _members(plan) != before:
                raise AssertionError(f"{opt} was refused and changed the plan {plan}") from error
            refused.append((opt, str(error)))
    return OptList(plan, tuple(refused))


def _copies(plan: Plan) -> int:
    return number_of(axis.extent for axis in plan.axes if axis.kind in LANE_KINDS)


def _members(plan: Plan) -> tuple[object, ...]:
    return tuple(getattr(plan, field.name) for field in fields(plan))


def _arg(node: UOp) -> SlotArg | None:
    return node.arg if isinstance(node.arg, SlotArg) else None


def draw(plan: Plan, tape: Tape, slots: int) -> Opt:
    """One optimisation, legal or not: an axis may be one too far, an amount may not divide."""
    is_tile_next = not plan.opts and tape.below(TILE_SHARE) == 0
    op = OptOp.TC if is_tile_next else tape.pick(OPS)
    axis = tape.below(len(plan.axes) + 1)
    if op is OptOp.NOLOCALS:
        return Opt(op)
    if op is OptOp.SWAP:
        return Opt(op, axis, tape.below(len(plan.axes) + 1))
    if op is OptOp.PACK:
        return Opt(op, axis, tape.below(slots + 1))
    if op is OptOp.TC:
        # Any tile and padding admit the most kernels; a wrong number is drawn of everything.
        tile = -1 if tape.below(2) else tape.between(-1, len(plan.capabilities.matrix_tiles))
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
