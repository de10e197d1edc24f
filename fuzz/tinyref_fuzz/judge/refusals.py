"""Optimisations that every plan of their kind accepts, as of `docs/optimiser.md`, and is not.

No value tells that one is refused for nothing: what is refused is not tried.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyref.dtype import ImageDType, dtypes
from tinyref.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.optimise.plan import ITEM_KINDS, Axis, Plan, axes_of
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ReduceArg
from tinyref_fuzz.generate.candidates import CUTS, is_free

# Amounts that every cut takes, as far as the axis and the device admit them.
MOST = 16
# Of positions that padding adds there may be as many as there are.
MULTIPLES = (2, 3, 4, 5, 7)
# A grid of such dimensions holds whatever is padded.
LARGE_GRID = 1 << 15


def refused_for_nothing(ast: UOp, plan: Plan) -> str | None:
    """The first optimisation of the plan of a kernel that is refused though it is legal, and why.

    plan: the one without optimisations. None where all are accepted. Errors other than
    `KernelOptError` pass through.
    """
    if any(isinstance(node.dtype, ImageDType) for node in ast.toposort()):
        # The lanes of texels are chosen before.
        return None
    for opt in legal_opts(plan):
        try:
            plan.apply(opt)
        except KernelOptError as error:
            return f"{opt} is refused: {error}"
    return None


def legal_opts(plan: Plan) -> Iterator[Opt]:
    """Optimisations that a plan without any accepts, for each of its axes."""
    for number, axis in enumerate(plan.axes):
        if not is_free(axis) or not isinstance(axis.extent, int):
            continue
        amounts = sorted(each for each in CUTS if each <= MOST and axis.extent % each == 0)
        for op in _cuts(plan, axis):
            limit = _limit(plan, op)
            fitting = [amount for amount in amounts if amount <= limit]
            yield from (Opt(op, number, amount) for amount in fitting[:1] + fitting[1:][-1:])
        yield from _paddings(plan, number, axis)
    outputs = plan.of_kind(AxisKind.GLOBAL)
    if len(outputs) > 1:
        yield Opt(OptOp.SWAP, outputs[0], outputs[-1])
    if plan.capabilities.has_groups and plan.uses_groups and not plan.of_kind(*ITEM_KINDS):
        yield Opt(OptOp.NOLOCALS)


def _cuts(plan: Plan, axis: Axis) -> Iterator[OptOp]:
    """What cuts an axis."""
    device = plan.capabilities
    has_items = device.has_groups and plan.uses_groups
    if axis.kind is AxisKind.GLOBAL:
        yield OptOp.UPCAST
        if has_items:
            yield OptOp.LOCAL
        if device.threads > 1 and not device.has_grid:
            yield OptOp.THREAD
    if axis.kind is AxisKind.REDUCE:
        yield OptOp.UNROLL
        reads_output = any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src)
        if has_items and not reads_output and len(plan.reduces_over(axis.target)) == 1:
            yield from (OptOp.GROUP, OptOp.GROUPTOP)


def _limit(plan: Plan, op: OptOp) -> int:
    """The largest amount that surely fits."""
    device = plan.capabilities
    items = min(device.group_limit[0], device.group_size_limit)
    if op is OptOp.THREAD:
        return device.threads
    if op is OptOp.LOCAL:
        return items
    # A place for each item, of the widest type.
    return min(items, device.shared_bytes // 8) if op in (OptOp.GROUP, OptOp.GROUPTOP) else MOST


def _paddings(plan: Plan, number: int, axis: Axis) -> Iterator[Opt]:
    """To a multiple that is not too far: of outputs, and of sums of what is 0 in padding."""
    device, extent = plan.capabilities, axis.extent
    assert isinstance(extent, int), "the axis may be cut"
    is_small = device.has_grid and min(device.grid_limit) < LARGE_GRID
    if axis.kind not in (AxisKind.GLOBAL, AxisKind.REDUCE) or is_small:
        return
    if dtypes.int64 not in device.dtypes:
        # An index of what is padded may need it.
        return
    if all(_is_sum(reduce, axis.target) for reduce in plan.reduces_over(axis.target)):
        fitting = [each for each in MULTIPLES if extent % each and each <= 2 * extent]
        yield from (Opt(OptOp.PADTO, number, each) for each in fitting[:1])


def _is_sum(reduce: UOp, target: int) -> bool:
    """Whether it sums loads along the axis, or products of such: what is 0 in padding."""
    is_sum = isinstance(reduce.arg, ReduceArg) and reduce.arg.op is Ops.ADD
    return is_sum and _is_zero_beyond(reduce.src[0], target)


def _is_zero_beyond(node: UOp, target: int) -> bool:
    if node.op in (Ops.CAST, Ops.NEG, Ops.MUL):
        return all(_is_zero_beyond(source, target) for source in node.src)
    return node.op is Ops.LOAD and target in axes_of(node)
