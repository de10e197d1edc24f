"""Mutants of the kernel optimiser: what is legal, how axes are cut, and what a plan takes."""

from __future__ import annotations

from tinyref_fuzz.mutants.mutant import Mutant

_MOVES = "tinyref.optimise.moves"
_PLAN = "tinyref.optimise.plan"
_ZERO = "tinyref.optimise.padding"
_LIMITS = "tinyref.optimise.limits"

# A plan shows what it means only where it is lowered.
_STAGES = ("optimise", "lower")

PADDING = (
    Mutant(
        name="padto-max",
        kind="PADTO over what zeros change",
        module=_ZERO,
        old="reduce.arg.op is not Ops.ADD:",
        new="reduce.arg.op not in (Ops.ADD, Ops.MAX):",
        resembles="a maximum of negative numbers is padded with zeros, which then are the largest",
        stages=_STAGES,
        causes=("PADTO",),
    ),
    Mutant(
        name="padto-any-operand",
        kind="PADTO over what zeros change",
        module=_ZERO,
        old="    return all(sources)\n",
        new="    return any(sources)\n",
        resembles="x + 1 was taken for zero where x is padded, as x * 1 is",
        stages=_STAGES,
        causes=("PADTO",),
    ),
    Mutant(
        name="padto-exp2",
        kind="PADTO over what zeros change",
        module=_ZERO,
        old="(Ops.NEG, Ops.SQRT, Ops.SIN, Ops.TRUNC, Ops.CAST)",
        new="(Ops.NEG, Ops.SQRT, Ops.SIN, Ops.TRUNC, Ops.CAST, Ops.EXP2)",
        resembles="a list of functions that keep zero had exp2 in it, and softmax sums grew",
        stages=_STAGES,
        causes=("PADTO",),
    ),
    Mutant(
        name="padto-choice",
        kind="PADTO over what zeros change",
        module=_ZERO,
        old="    return sources[2] and (sources[0] or sources[1])",
        new="    return sources[1] and (sources[0] or sources[2])",
        resembles="the two values of a choice were distinguished the wrong way round",
        stages=_STAGES,
        causes=("PADTO",),
    ),
    Mutant(
        name="padto-reciprocal",
        kind="PADTO over what zeros change",
        module=_ZERO,
        old="    Ops.AND: _any,\n",
        new="    Ops.AND: _any,\n    Ops.RECIP: _all,\n",
        resembles="the reciprocal of padding is infinite, but was let through as zero",
        stages=_STAGES,
        causes=("PADTO",),
    ),
    Mutant(
        name="padto-inner-part",
        kind="PADTO of a cut axis",
        module=_MOVES,
        old="    if any(other.target == axis.target and other.stride > axis.stride "
        "for other in plan.axes):",
        new="    if any(other.target == axis.target and other.stride > axis.stride "
        "for other in plan.axes[:0]):",
        resembles="padding after a split: the inner part goes over positions of its neighbour",
        stages=_STAGES,
        causes=("PADTO",),
    ),
)

CUTS = (
    Mutant(
        name="divisibility-of-wrong-shape",
        kind="divisibility checked on the wrong shape",
        module=_MOVES,
        old="    if amount < 2 or axis.extent % amount:",
        new="    if amount < 2 or (axis.extent % amount and plan.shape[axis.target] % amount):",
        resembles="the amount was checked against the size before earlier optimisations",
        stages=_STAGES,
        causes=("UPCAST", "UNROLL", "LOCAL", "GROUP", "GROUPTOP"),
    ),
    Mutant(
        name="second-cut-forgets-stride",
        kind="wrong strides of a cut",
        module=_MOVES,
        old="        left = replace(axis, extent=rest, stride=inner * amount)",
        new="        left = replace(axis, extent=rest, stride=amount)",
        resembles="an axis that was cut twice moved as if it were cut once",
        stages=_STAGES,
        causes=("UPCAST", "UNROLL", "LOCAL", "GROUP"),
    ),
    Mutant(
        name="cut-from-outside-forgets-stride",
        kind="wrong strides of a cut",
        module=_MOVES,
        old="        cut = replace(axis, kind=kind, extent=amount, stride=inner * rest)",
        new="        cut = replace(axis, kind=kind, extent=amount, stride=rest)",
        resembles="GROUPTOP of what had been cut already took neighbours for its parts",
        stages=_STAGES,
        causes=("GROUPTOP",),
    ),
    Mutant(
        name="full-unroll-keeps-axis",
        kind="wrong local count on a full unroll",
        module=_MOVES,
        old="    others[opt.axis] = left\n",
        new=(
            "    is_whole = rest == 1 and axis.kind is AxisKind.GROUP_REDUCE\n"
            "    others[opt.axis] = axis if is_whole else left\n"
        ),
        resembles="a group axis that was unrolled wholly still counted among the work-items",
        stages=_STAGES,
        causes=("UNROLL",),
    ),
    Mutant(
        name="thread-drops-remainder",
        kind="remainder dropped",
        module=_MOVES,
        old="    if amount < 2 or axis.extent % amount:",
        new=(
            "    if amount < 2 or axis.extent < amount or "
            "(axis.extent % amount and kind is not AxisKind.THREAD):"
        ),
        resembles="a row shared among threads lost what the number of threads does not divide",
        stages=_STAGES,
        causes=("THREAD",),
        device="CPU",
    ),
    Mutant(
        name="local-drops-remainder",
        kind="remainder dropped",
        module=_MOVES,
        old="    if amount < 2 or axis.extent % amount:",
        new=(
            "    if amount < 2 or axis.extent < amount or "
            "(axis.extent % amount and kind is not AxisKind.LOCAL):"
        ),
        resembles="a local size that does not divide the grid left the last elements out",
        stages=_STAGES,
        causes=("LOCAL",),
    ),
)

LIMITS = (
    Mutant(
        name="shared-memory-unchecked",
        kind="shared-memory limit unchecked",
        module=_LIMITS,
        old="    if needed > capabilities.shared_bytes:",
        new="    if needed > capabilities.shared_bytes * 1024:",
        resembles="a grouped reduce with many lanes took more shared memory than there is",
        stages=_STAGES,
        causes=("GROUP", "GROUPTOP"),
        device="tinyref_fuzz.judge.devices:Cramped",
    ),
    Mutant(
        name="shared-memory-of-one-lane",
        kind="shared-memory limit unchecked",
        module=_PLAN,
        old="            total += self.group_size * lanes * node.dtype.itemsize",
        new="            total += self.group_size * min(lanes, 1) * node.dtype.itemsize",
        resembles="shared memory was counted before an upcast, which multiplies it",
        stages=_STAGES,
        causes=("UPCAST", "GROUP", "GROUPTOP"),
        device="tinyref_fuzz.judge.devices:Cramped",
    ),
    Mutant(
        name="group-size-unchecked",
        kind="limits of a launch",
        module=_LIMITS,
        old="    if size > capabilities.group_size_limit:",
        new="    if size > capabilities.group_size_limit * 4:",
        resembles="each dimension of a group was checked, but not their product",
        stages=_STAGES,
        causes=("LOCAL", "GROUP", "GROUPTOP"),
        device="tinyref_fuzz.judge.devices:Cramped",
    ),
    Mutant(
        name="nolocals-lost",
        kind="lost NOLOCALS",
        module=_MOVES,
        old="    return replace(plan, uses_groups=False)",
        new="    return replace(plan, uses_groups=True)",
        resembles="the flag was reset when the optimiser copied its kernel",
        stages=_STAGES,
        causes=("NOLOCALS",),
    ),
)

FACTS = (
    Mutant(
        name="in-place-group",
        kind="a write before others have read",
        module=_MOVES,
        old="    if any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src):",
        new="    if any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src[:0]):",
        resembles="one work-item wrote what the others of its group were still to read",
        stages=_STAGES,
        causes=("GROUP", "GROUPTOP"),
        is_race=True,
    ),
    Mutant(
        name="padding-does-not-vary",
        kind="scratch memory too small",
        module=_PLAN,
        old="        targets = changes(node) | padded\n",
        new="        targets = changes(node)\n",
        resembles="a repeated value was kept once, though padding gates it along the axis",
        stages=_STAGES,
        causes=("PADTO", "GROUP", "GROUPTOP", "UPCAST", "PACK"),
    ),
    Mutant(
        name="mask-does-not-vary",
        kind="scratch memory too small",
        module=_PLAN,
        old="            stride == 0 and (view.mask is None or view.mask[axis] == "
        "(0, view.shape[axis]))",
        new="            stride == 0",
        resembles="an axis of stride 0 was taken for repeated though a mask hides part of it",
        stages=_STAGES,
        causes=("GROUP", "GROUPTOP", "UPCAST", "PACK"),
    ),
)

TILES = (
    Mutant(
        name="tile-operands-swapped",
        kind="permuted matrix operands",
        module="tinyref.optimise.tile",
        old="opt.mode, product.reduce, product.a, product.b, product.targets)",
        new="opt.mode, product.reduce, product.b, product.a, product.targets)",
        resembles="the operands of a matrix instruction changed places with their axes left behind",
        stages=_STAGES,
        causes=("TC",),
    ),
    Mutant(
        name="tile-drops-remainder",
        kind="remainder dropped",
        module="tinyref.optimise.tile",
        old="axes[number] = replace(axes[number], extent=padded // size, stride=size)",
        new="axes[number] = replace(axes[number], extent=max(extent // size, 1), stride=size)",
        resembles="rows beyond the last whole tile were left out",
        stages=_STAGES,
        causes=("TC",),
    ),
    Mutant(
        name="tile-pads-any-sum",
        kind="PADTO over what zeros change",
        module="tinyref.optimise.tile",
        old="        if problem is not None:\n            return problem\n    return None",
        new="        if problem is not None and plan.reduces_over(target)[0] is not reduce:\n"
        "            return problem\n    return None",
        resembles="an axis was padded for a matrix tile without asking what is summed over it",
        stages=_STAGES,
        causes=("TC",),
    ),
    Mutant(
        name="tile-lanes-in-wrong-order",
        kind="wrong lane layout of a tile",
        module="tinyref.optimise.tile",
        old="            for bit in reversed(bits)\n",
        new="            for bit in (reversed(bits) if kind is AxisKind.LOCAL else bits)\n",
        resembles="the registers of a result were numbered from the wrong end",
        stages=_STAGES,
        causes=("TC",),
    ),
    Mutant(
        name="tile-threads-not-neighbours",
        kind="wrong lane layout of a tile",
        module=_PLAN,
        old="(KIND_ORDER.index(axis.kind), axis.is_fixed))",
        new="(KIND_ORDER.index(axis.kind), not axis.is_fixed))",
        resembles="a local axis after a matrix tile tore the threads of a run apart",
        stages=_STAGES,
        causes=("TC", "LOCAL"),
    ),
)

MUTANTS = (*PADDING, *CUTS, *LIMITS, *FACTS, *TILES)
