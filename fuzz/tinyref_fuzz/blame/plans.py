"""Whether a plan is one that computes the kernel: decided by its axes, not by the optimiser."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tinyref.optimise.normal_form import OUTPUT
from tinyref.optimise.opt import OptOp
from tinyref.optimise.plan import Plan, axes_of
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ReduceArg
from tinyref_fuzz.blame.samples import Samples

MAX_POSITIONS = 1 << 20

_REDUCED = frozenset({AxisKind.REDUCE, AxisKind.UNROLL, AxisKind.GROUP_REDUCE})
_OF_GROUPS = frozenset({AxisKind.LOCAL, AxisKind.GROUP_REDUCE})


def plan_problem(plan: Plan) -> str:
    """Why `plan` cannot be right, in one line; "" where nothing is seen to be wrong.

    Every position on every axis of the kernel must be gone over once, in an axis of a fitting
    kind; what padding adds must not change a reduce; NOLOCALS must last; no work-item may write
    what another one is still to read.
    """
    for target, size in enumerate(plan.shape):
        problem = _axis_problem(plan, target, size) or _padding_problem(plan, target)
        if problem:
            return f"axis {target} of the kernel: {problem}"
    size = math.prod(e for e in plan.extents(*_OF_GROUPS) if isinstance(e, int))
    if size > plan.capabilities.group_size_limit:
        return f"a group of {size} work-items, declared are {plan.capabilities.group_size_limit}"
    uses_groups = plan.uses_groups or any(axis.kind in _OF_GROUPS for axis in plan.axes)
    if uses_groups and any(opt.op is OptOp.NOLOCALS for opt in plan.opts):
        return "groups are in use after NOLOCALS"
    return _group_problem(plan) or _tile_problem(plan)


def _axis_problem(plan: Plan, target: int, size: int | UOp) -> str:
    axes = [axis for axis in plan.axes if axis.target == target]
    is_output = plan.form.owners[target] == OUTPUT
    for axis in axes:
        if (axis.kind in _REDUCED) == is_output:
            return f"{axis.kind.value} is no kind for it"
    if not isinstance(size, int) or any(not isinstance(axis.extent, int) for axis in axes):
        return ""
    extents = [int(axis.extent) for axis in axes if isinstance(axis.extent, int)]
    if math.prod(extents) > MAX_POSITIONS:
        return ""
    counters = itertools.product(*(range(extent) for extent in extents))
    strides = [axis.stride for axis in axes]
    positions = np.array(
        [sum(i * stride for i, stride in zip(each, strides, strict=True)) for each in counters]
    )
    if np.unique(positions).size != positions.size:
        return "a position is gone over twice"
    missing = np.setdiff1d(np.arange(size), positions)
    return f"position {missing[0]} is left out" if missing.size else ""


def _padding_problem(plan: Plan, target: int) -> str:
    """What is added to a reduce must be 0 where all that is loaded is."""
    if not plan.is_padded(target):
        return ""
    for reduce in plan.reduces_over(target):
        if isinstance(reduce.arg, ReduceArg) and reduce.arg.op is not Ops.ADD:
            return f"{reduce.arg.op.name} is padded with zeros"
        value, is_known = Samples({}, {}).of(_at_zero(reduce.src[0], target))
        if not (value == 0).all() or not is_known.all():
            return "what is padded is not zero where its inputs are"
    return ""


def _at_zero(root: UOp, target: int) -> UOp:
    """`root` with 0 for everything that is loaded and moves along the axis."""
    zeros: dict[UOp, UOp] = {}
    for node in root.toposort():
        if node.op in (Ops.LOAD, Ops.VALID, Ops.IOTA) and target in axes_of(node):
            zeros[node] = build.const(node.dtype, 0)
        elif node.op is Ops.REDUCE and target in axes_of(node):
            # A sum, product or maximum of zeros is 0; of anything else one term decides it.
            zeros[node] = substitute(node.src[0], zeros)
    return substitute(root, zeros)


def _group_problem(plan: Plan) -> str:
    if not plan.of_kind(AxisKind.GROUP_REDUCE):
        return ""
    if any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src):
        return "a group shares a reduce of a kernel that reads what it writes"
    return ""


def _tile_problem(plan: Plan) -> str:
    use = plan.tile
    if use is None:
        return ""
    m, n, k = use.targets
    if n in axes_of(use.a) - {m, k} and n not in axes_of(use.b):
        return "the operands of the tile are exchanged"
    return ""
