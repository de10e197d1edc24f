"""Lists of optimisations for a kernel: legal ones, and what is refused on the way to them.

Most candidates make sense for the axis that they cut; a small share is drawn of everything, those
that no plan accepts too: a refusal must be a `KernelOptError` and must leave the plan as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from tinyref.capabilities import Capabilities
from tinyref.machine import FIXED
from tinyref.optimise.heuristics import heuristic_plan
from tinyref.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref_fuzz.generate.candidates import (
    AMOUNTS,
    THREADS,
    WEIGHTS,
    draw,
    is_small,
    slots_of,
)
from tinyref_fuzz.generate.policies import Policy
from tinyref_fuzz.generate.probes import (
    BrokenPlanError,
    accepted_probes,
    apply_recipe,
    fitting_recipes,
)
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Opts

# So many candidates are tried for each optimisation that is wanted.
TRIES = 5
# A list of a case ends after so many failures in a row: little is left that would be legal.
PATIENCE = 4
LONGEST = 5
# Of the lists so many in 100 are recipes.
RECIPE_SHARE = 55


@dataclass(frozen=True)
class OptList:
    """The optimisations `opts`, which are legal one after the other, and those refused between."""

    plan: Plan
    refused: tuple[tuple[Opt, str], ...]

    @property
    def opts(self) -> tuple[Opt, ...]:
        """What was applied, in order."""
        return self.plan.opts


def on_fixed_machine(capabilities: Capabilities) -> Capabilities:
    """The capabilities on a machine that is the same everywhere.

    It has `THREADS` threads where the device runs kernels on those of its host. With these a list
    is legal, and a program the same, on a machine of any speed and cores.
    """
    on_host = not capabilities.has_grid and not capabilities.is_interpreted
    threads = THREADS if on_host else capabilities.threads
    fixed = replace(capabilities, threads=threads, machine=FIXED)
    return capabilities if fixed == capabilities else fixed


def draw_lists(
    ast: UOp, capabilities: Capabilities, tape: Tape, policy: Policy
) -> tuple[Opts, ...]:
    """Lists for the kernel `ast`, none of them empty or there twice.

    First what the heuristics choose for large kernels of this form, then recipes and random ones,
    as many as the policy wants as far as the kernel has so many; last what ought to be refused and
    is not. A kernel of which the compiler makes no plan has no lists, and one with an optimisation
    that it fails at has that.
    """
    wanted = tape.between(*policy.lists)
    if not wanted:
        return ()
    drawn = _Drawn(ast, on_fixed_machine(capabilities), tape, policy)
    try:
        drawn.draw(wanted)
    except BrokenPlanError as broken:
        drawn.lists[broken.opts] = None
    except AssertionError:
        raise
    except Exception:
        # The compiler does not even plan this kernel: the judge sees that by itself.
        return ()
    return tuple(drawn.lists)


class _Drawn:
    """The lists of one kernel, as far as they are drawn."""

    def __init__(self, ast: UOp, capabilities: Capabilities, tape: Tape, policy: Policy) -> None:
        self.ast = ast
        self.capabilities = capabilities
        self.tape = tape
        self.policy = policy
        self.lists: dict[Opts, None] = {}

    def draw(self, wanted: int) -> None:
        """What is accepted though it is doubtful comes on top of the `wanted` lists."""
        tape = self.tape
        plan = Plan.of(self.ast, self.capabilities)
        plans = [heuristic_plan(plan, as_large=True)]
        self._keep(plans[0])
        weights = {op: weight * self.policy.opts.get(op, 1) for op, weight in WEIGHTS.items()}
        recipes, shares = fitting_recipes(plan)
        for _ in range(wanted - 1):
            if recipes and tape.chance(RECIPE_SHARE):
                reached = apply_recipe(plan, tape, tape.pick(recipes, shares))
            else:
                reached = _extend(plan, tape, tape.between(1, LONGEST), weights).plan
            plans.append(reached)
            self._keep(reached)
        for each in (plan, *plans[1:]):
            for opts in accepted_probes(each, tape):
                self.lists[opts] = None

    def _keep(self, plan: Plan) -> None:
        if plan.opts:
            self.lists[plan.opts] = None


def mutate_lists(
    ast: UOp, capabilities: Capabilities, tape: Tape, policy: Policy, lists: Sequence[Opts]
) -> tuple[Opts, ...]:
    """`lists` for the kernel `ast`, each with one change, and what is legal of it.

    Where that leaves fewer than the policy wants, there are new ones, as of `draw_lists`.
    """
    least, most = policy.lists
    if not most:
        return ()
    plan = Plan.of(ast, on_fixed_machine(capabilities))
    weights = {op: weight * policy.opts.get(op, 1) for op, weight in WEIGHTS.items()}
    found: dict[Opts, None] = {}
    for opts in lists[:most]:
        found[legal_part(plan, _change_list(plan, opts, tape, weights))] = None
    for _ in range(max(1, least - len(found))):
        found[_extend(plan, tape, tape.between(1, LONGEST), weights).opts] = None
    return tuple(opts for opts in found if opts)[:most]


def legal_part(plan: Plan, opts: Sequence[Opt]) -> Opts:
    """Those of `opts` that are legal one after the other on `plan`, and leave it small enough."""
    for opt in opts:
        reached = plan.legal(opt)
        if reached is not None and is_small(reached):
            plan = reached
    return plan.opts


def _change_list(plan: Plan, opts: Opts, tape: Tape, weights: dict[OptOp, float]) -> list[Opt]:
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
        changed.insert(at, draw(plan, tape, slots_of(plan), weights))
    return changed


def random_opts(
    ast: UOp, capabilities: Capabilities, tape: Tape, wanted: int, start: Plan | None = None
) -> OptList:
    """Up to `wanted` legal optimisations of the kernel `ast`, drawn from `tape`.

    `start` is the plan to begin with, the one without optimisations if it is not given. Raises
    `AssertionError` where a refusal changes the plan; every error but `KernelOptError` passes
    through.
    """
    plan = Plan.of(ast, on_fixed_machine(capabilities)) if start is None else start
    try:
        return _extend(plan, tape, wanted, WEIGHTS, wanted * TRIES)
    except BrokenPlanError as broken:
        raise (broken.__cause__ or broken) from None


def _extend(
    plan: Plan, tape: Tape, wanted: int, weights: dict[OptOp, float], patience: int = PATIENCE
) -> OptList:
    """`plan` with up to `wanted` optimisations; after `patience` in a row that fail, no more.

    Raises `BrokenPlanError` for an optimisation that is neither applied nor refused.
    """
    slots = slots_of(plan)
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
            if is_small(reached):
                plan, failed = reached, 0
        except KernelOptError as error:
            if _members(plan) != before:
                raise AssertionError(f"{opt} was refused and changed the plan {plan}") from error
            refused.append((opt, str(error)))
        except Exception as error:
            raise BrokenPlanError((*plan.opts, opt)) from error
    return OptList(plan, tuple(refused))


def _members(plan: Plan) -> tuple[object, ...]:
    return tuple(getattr(plan, field.name) for field in fields(plan))


def with_small_limits(capabilities: Capabilities) -> Capabilities:
    """The same device with limits that many plans break: small groups, little shared memory."""
    return replace(
        capabilities,
        group_limit=(8, 4, 2),
        group_size_limit=16,
        shared_bytes=min(capabilities.shared_bytes, 256),
        grid_limit=(7, 5, 40),
        vector_lanes=tuple(lanes for lanes in capabilities.vector_lanes if lanes <= 4),
    )
