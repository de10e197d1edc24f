"""Mutants of the kernel optimiser: what is legal, how axes are cut, and what a plan takes."""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_MOVES = "tinyref.optimise.moves"
_PLAN = "tinyref.optimise.plan"
_ZERO = "tinyref.optimise.padding"
_LIMITS = "tinyref.optimise.limits"

# A plan shows what it means only where it is lowered.
_STAGES = ("optimise", "lower")

_padding = functools.partial(
    Mutant, kind="PADTO over what zeros change", module=_ZERO, stages=_STAGES, causes=("PADTO",)
)
PADDING = (
    _padding(
        name="padto-max",
        old="reduce.arg.op is not Ops.ADD:",
        new="reduce.arg.op not in (Ops.ADD, Ops.MAX):",
        resembles="a maximum of negative numbers is padded with zeros, which then are the largest",
    ),
    _padding(
        name="padto-any-operand",
        old="    return all(sources)\n",
        new="    return any(sources)\n",
        resembles="x + 1 was taken for zero where x is padded, as x * 1 is",
    ),
    _padding(
        name="padto-exp2",
        old="(Ops.NEG, Ops.SQRT, Ops.SIN, Ops.TRUNC, Ops.CAST)",
        new="(Ops.NEG, Ops.SQRT, Ops.SIN, Ops.TRUNC, Ops.CAST, Ops.EXP2)",
        resembles="a list of functions that keep zero had exp2 in it, and softmax sums grew",
    ),
    _padding(
        name="padto-choice",
        old="    return sources[2] and (sources[0] or sources[1])",
        new="    return sources[1] and (sources[0] or sources[2])",
        resembles="the two values of a choice were distinguished the wrong way round",
    ),
    _padding(
        name="padto-reciprocal",
        old="    Ops.AND: _any,\n",
        new="    Ops.AND: _any,\n    Ops.RECIP: _all,\n",
        resembles="the reciprocal of padding is infinite, but was let through as zero",
    ),
    _padding(
        name="padto-inner-part",
        kind="PADTO of a cut axis",
        module=_MOVES,
        old="    if any(other.target == axis.target and other.stride > axis.stride "
        "for other in plan.axes):",
        new="    if any(other.target == axis.target and other.stride > axis.stride "
        "for other in plan.axes[:0]):",
        resembles="padding after a split: the inner part goes over positions of its neighbour",
    ),
)

_cut = functools.partial(Mutant, kind="wrong strides of a cut", module=_MOVES, stages=_STAGES)
CUTS = (
    _cut(
        name="divisibility-of-wrong-shape",
        kind="divisibility checked on the wrong shape",
        old="    if amount < 2 or axis.extent % amount:",
        new="    if amount < 2 or (axis.extent % amount and plan.shape[axis.target] % amount):",
        resembles="the amount was checked against the size before earlier optimisations",
        causes=("UPCAST", "UNROLL", "LOCAL", "GROUP", "GROUPTOP"),
    ),
    _cut(
        name="second-cut-forgets-stride",
        old="        left = replace(axis, extent=rest, stride=inner * amount)",
        new="        left = replace(axis, extent=rest, stride=amount)",
        resembles="an axis that was cut twice moved as if it were cut once",
        causes=("UPCAST", "UNROLL", "LOCAL", "GROUP"),
    ),
    _cut(
        name="cut-from-outside-forgets-stride",
        old="        cut = replace(axis, kind=kind, extent=amount, stride=inner * rest)",
        new="        cut = replace(axis, kind=kind, extent=amount, stride=rest)",
        resembles="GROUPTOP of what had been cut already took neighbours for its parts",
        causes=("GROUPTOP",),
    ),
    _cut(
        name="full-unroll-keeps-axis",
        kind="wrong local count on a full unroll",
        old="    others[opt.axis] = left\n",
        new="    is_whole = rest == 1 and axis.kind is AxisKind.GROUP_REDUCE\n"
        "    others[opt.axis] = axis if is_whole else left\n",
        resembles="a group axis that was unrolled wholly still counted among the work-items",
        causes=("UNROLL",),
    ),
    _cut(
        name="thread-drops-remainder",
        kind="remainder dropped",
        old="    if amount < 2 or axis.extent % amount:",
        new="    if amount < 2 or axis.extent < amount or "
        "(axis.extent % amount and kind is not AxisKind.THREAD):",
        resembles="a row shared among threads lost what the number of threads does not divide",
        causes=("THREAD",),
        device="CPU",
    ),
    _cut(
        name="local-drops-remainder",
        kind="remainder dropped",
        old="    if amount < 2 or axis.extent % amount:",
        new="    if amount < 2 or axis.extent < amount or "
        "(axis.extent % amount and kind is not AxisKind.LOCAL):",
        resembles="a local size that does not divide the grid left the last elements out",
        causes=("LOCAL",),
    ),
)

_limit = functools.partial(
    Mutant,
    kind="shared-memory limit unchecked",
    module=_LIMITS,
    stages=_STAGES,
    device="tinyref_fuzz.judge.devices:Cramped",
)
LIMITS = (
    _limit(
        name="shared-memory-unchecked",
        old="    if needed > capabilities.shared_bytes:",
        new="    if needed > capabilities.shared_bytes * 1024:",
        resembles="a grouped reduce with many lanes took more shared memory than there is",
        causes=("GROUP", "GROUPTOP"),
    ),
    _limit(
        name="shared-memory-of-one-lane",
        module=_PLAN,
        old="            total += self.group_size * lanes * node.dtype.itemsize",
        new="            total += self.group_size * min(lanes, 1) * node.dtype.itemsize",
        resembles="shared memory was counted before an upcast, which multiplies it",
        causes=("UPCAST", "GROUP", "GROUPTOP"),
    ),
    _limit(
        name="group-size-unchecked",
        kind="limits of a launch",
        old="    if size > capabilities.group_size_limit:",
        new="    if size > capabilities.group_size_limit * 4:",
        resembles="each dimension of a group was checked, but not their product",
        causes=("LOCAL", "GROUP", "GROUPTOP"),
    ),
    _limit(
        name="nolocals-lost",
        kind="lost NOLOCALS",
        module=_MOVES,
        old="    return replace(plan, uses_groups=False)",
        new="    return replace(plan, uses_groups=True)",
        resembles="the flag was reset when the optimiser copied its kernel",
        causes=("NOLOCALS",),
        device="PYTHON",
    ),
)

_fact = functools.partial(Mutant, kind="scratch memory too small", module=_PLAN, stages=_STAGES)
FACTS = (
    _fact(
        name="in-place-group",
        kind="a write before others have read",
        module=_MOVES,
        old="    if any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src):",
        new="    if any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src[:0]):",
        resembles="one work-item wrote what the others of its group were still to read",
        causes=("GROUP", "GROUPTOP"),
        is_race=True,
    ),
    _fact(
        name="padding-does-not-vary",
        old="        targets = changes(node) | padded\n",
        new="        targets = changes(node)\n",
        resembles="a repeated value was kept once, though padding gates it along the axis",
        causes=("PADTO", "GROUP", "GROUPTOP", "UPCAST", "PACK"),
    ),
    _fact(
        name="mask-does-not-vary",
        old="            stride == 0 and (view.mask is None or view.mask[axis] == "
        "(0, view.shape[axis]))",
        new="            stride == 0",
        resembles="an axis of stride 0 was taken for repeated though a mask hides part of it",
        causes=("GROUP", "GROUPTOP", "UPCAST", "PACK"),
    ),
)

_tile = functools.partial(
    Mutant,
    kind="wrong lane layout of a tile",
    module="tinyref.optimise.tile",
    stages=_STAGES,
    causes=("TC",),
)
TILES = (
    _tile(
        name="tile-operands-swapped",
        kind="permuted matrix operands",
        old="opt.mode, product.reduce, product.a, product.b, product.targets)",
        new="opt.mode, product.reduce, product.b, product.a, product.targets)",
        resembles="the operands of a matrix instruction changed places with their axes left behind",
    ),
    _tile(
        name="tile-drops-remainder",
        kind="remainder dropped",
        old="axes[target] = replace(axes[target], extent=padded // size, stride=size)",
        new="axes[target] = replace(axes[target], extent=max(extent // size, 1), stride=size)",
        resembles="rows beyond the last whole tile were left out",
    ),
    _tile(
        name="tile-pads-any-sum",
        kind="PADTO over what zeros change",
        old="            if opt.level == TileLevel.PADDING:\n",
        new="            if [*plan.reduces_over(target)][:1] == [product.reduce]:\n"
        "                problem = None\n"
        "            elif opt.level == TileLevel.PADDING:\n",
        resembles="an axis was padded for a matrix tile without asking what is summed over it",
    ),
    _tile(
        name="tile-lanes-in-wrong-order",
        old="            for bit in reversed(bits)\n",
        new="            for bit in (reversed(bits) if kind is AxisKind.LOCAL else bits)\n",
        resembles="the registers of a result were numbered from the wrong end",
    ),
    _tile(
        name="tile-threads-not-neighbours",
        module=_PLAN,
        old="(KIND_ORDER.index(axis.kind), axis.is_fixed))",
        new="(KIND_ORDER.index(axis.kind), not axis.is_fixed))",
        resembles="a local axis after a matrix tile tore the threads of a subgroup apart",
        causes=("TC", "LOCAL"),
    ),
)

MUTANTS = (*PADDING, *CUTS, *LIMITS, *FACTS, *TILES)
