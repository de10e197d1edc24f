"""Draw lists of optimisations that are legal for a kernel: recipes, and random lists.

A recipe is a sequence of optimisations that interact in the compiler. Examples: two splits of one
padded axis that is unrolled, a matrix tile with more work-items around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinyref.capabilities import Capabilities
from tinyref.machine import FIXED
from tinyref.optimise.choices import heuristic_plan
from tinyref.optimise.opt import OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref_fuzz.generate.candidates import (
    THREADS,
    WEIGHTS,
    BrokenPlanError,
    axes_by_op,
    draw,
    legal_plan,
)
from tinyref_fuzz.generate.policies import Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Opts

# Sequences that random lists seldom contain, and their weights.
RECIPES: tuple[tuple[tuple[OptOp, ...], float], ...] = (
    ((OptOp.TC,), 14),
    ((OptOp.TC, OptOp.LOCAL), 14),
    ((OptOp.TC, OptOp.UPCAST), 14),
    ((OptOp.TC, OptOp.UNROLL), 24),
    ((OptOp.TC, OptOp.LOCAL, OptOp.UPCAST, OptOp.UNROLL), 8),
    ((OptOp.GROUP, OptOp.GROUPTOP), 6),
    ((OptOp.GROUP, OptOp.UPCAST), 9),
    ((OptOp.GROUP, OptOp.UNROLL), 6),
    ((OptOp.UNROLL, OptOp.GROUPTOP), 6),
    ((OptOp.PADTO, OptOp.GROUP, OptOp.UPCAST), 6),
    ((OptOp.PADTO, OptOp.UNROLL), 5),
    ((OptOp.PADTO, OptOp.PACK), 12),
    ((OptOp.PACK,), 6),
    ((OptOp.SCATTER,), 12),
    ((OptOp.SCATTER, OptOp.UPCAST), 24),
    ((OptOp.SCATTER, OptOp.THREAD, OptOp.UPCAST), 12),
)
# Percentage of lists that are recipes.
RECIPE_SHARE = 45
# Number of candidates to try for each optimisation.
TRIES = 3
# A list ends after this many failures in a row: few legal optimisations remain.
PATIENCE = 4
LONGEST = 5


def on_fixed_machine(capabilities: Capabilities) -> Capabilities:
    """Return the capabilities on a machine that is the same everywhere.

    It has `THREADS` threads if the device runs kernels on its host's threads. With these
    capabilities the legal lists and the programs do not depend on the machine's speed and cores.
    """
    on_host = not capabilities.has_grid and not capabilities.is_interpreted
    threads = THREADS if on_host else capabilities.threads
    fixed = replace(capabilities, threads=threads, machine=FIXED)
    return capabilities if fixed == capabilities else fixed


def draw_lists(
    ast: UOp, capabilities: Capabilities, tape: Tape, policy: Policy
) -> tuple[Opts, ...]:
    """Draw lists for the kernel `ast`, none of them empty or repeated.

    The first is what the heuristics choose for large kernels of this form. If the compiler cannot
    plan the kernel, there are no lists. A list on which the compiler fails is the last one.
    """
    count = tape.between(*policy.lists)
    if not count:
        return ()
    lists: dict[Opts, None] = {}
    weights = {op: weight * policy.opts.get(op, 1) for op, weight in WEIGHTS.items()}
    try:
        plan = Plan.of(ast, on_fixed_machine(capabilities))
        lists[heuristic_plan(plan, as_large=True).opts] = None
        recipes, shares = fitting_recipes(plan)
        for _ in range(count - 1):
            if recipes and tape.chance(RECIPE_SHARE):
                reached = apply_recipe(plan, tape, tape.pick(recipes, shares))
            else:
                reached = _extend(plan, tape, tape.between(1, LONGEST), weights)
            lists[reached.opts] = None
    except BrokenPlanError as broken:
        lists[broken.opts] = None
    except Exception:
        # The compiler cannot even plan this kernel: the judge notices that by itself.
        return ()
    return tuple(opts for opts in lists if opts)


def fitting_recipes(plan: Plan) -> tuple[list[tuple[OptOp, ...]], list[float]]:
    """Return the recipes whose optimisations `plan` may accept, and their weights."""
    available = set(axes_by_op(plan))
    # Tiles and copies are tried once: few kernels accept them.
    for op in (OptOp.TC, OptOp.PACK):
        if op in available and draw(plan, Tape(choices=()), op) is None:
            available.remove(op)
    fitting = [(ops, weight) for ops, weight in RECIPES if available.issuperset(ops)]
    return [ops for ops, _ in fitting], [weight for _, weight in fitting]


def apply_recipe(plan: Plan, tape: Tape, ops: tuple[OptOp, ...]) -> Plan:
    """Return `plan` with as many optimisations of a recipe as are accepted."""
    target = -1
    for op in ops:
        for _ in range(TRIES):
            opt = draw(plan, tape, op, target)
            reached = legal_plan(plan, opt) if opt is not None else None
            if opt is not None and reached is not None:
                target = plan.axes[opt.axis].target if opt.spec.has_axis else -1
                plan = reached
                break
    return plan


def random_opts(ast: UOp, capabilities: Capabilities, tape: Tape, count: int) -> Plan:
    """Return a plan of the kernel `ast` with up to `count` optimisations drawn from `tape`.

    Every error except `KernelOptError` passes through.
    """
    plan = Plan.of(ast, on_fixed_machine(capabilities))
    try:
        return _extend(plan, tape, count, WEIGHTS, count * TRIES)
    except BrokenPlanError as broken:
        raise (broken.__cause__ or broken) from None


def _extend(
    plan: Plan, tape: Tape, count: int, weights: Mapping[OptOp, float], patience: int = PATIENCE
) -> Plan:
    """Return `plan` with up to `count` more optimisations.

    Stops after `patience` failures in a row. Raises `BrokenPlanError`.
    """
    failed = 0
    while count and failed < patience:
        axes = axes_by_op(plan)
        ops = [op for op in WEIGHTS if op in axes]
        if not ops:
            break
        opt = draw(plan, tape, tape.pick(ops, [weights[op] for op in ops]))
        reached = legal_plan(plan, opt) if opt is not None else None
        if reached is None:
            failed += 1
        else:
            plan, count, failed = reached, count - 1, 0
    return plan
