"""The limits of a plan: padding must not change a sum, and the device has limits."""

from __future__ import annotations

import math
from collections.abc import Callable

from tinyref.algebra.shapes import reduced_sizes
from tinyref.errors import UserError
from tinyref.optimise.launch_axes import launch_axes
from tinyref.optimise.plan import Plan, axes_of, number_of
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ReduceArg

# The padding of an axis may multiply the work on it by at most this factor.
MAX_PADDING = 4

# It returns True if a node is 0; the list says which sources are 0.
ZeroRule = Callable[[UOp, list[bool]], bool]


def axis_padding_problem(plan: Plan, target: int, positions: sint) -> str | None:
    """Return why an AST axis may not have this number of positions; None if it may."""
    return work_problem(plan, target, positions) or terms_problem(plan, target)


def work_problem(plan: Plan, target: int, positions: sint) -> str | None:
    """Return why this number of positions is too much work; None if it is not."""
    size = plan.shape[target]
    if number_of([positions]) > MAX_PADDING * number_of([size]):
        return f"{positions} positions for {size}: accepted is {MAX_PADDING} times the work"
    return None


def terms_problem(plan: Plan, target: int) -> str | None:
    """Return why the reduces over an AST axis may not include padding; None if they may."""
    problems = (padding_problem(reduce, target) for reduce in plan.reduces_over(target))
    return next(filter(None, problems), None)


def padding_problem(reduce: UOp, axis: int) -> str | None:
    """Return why `reduce` may not include positions whose loads give 0; None if it may."""
    if not isinstance(reduce.arg, ReduceArg) or reduce.arg.op is not Ops.ADD:
        op = reduce.arg.op.name if isinstance(reduce.arg, ReduceArg) else reduce.op.name
        return f"a reduce by {op}: accepted are sums"
    if not _is_zero_beyond(reduce.src[0], axis):
        return "a sum of terms that are not 0 where their loads give 0"
    return None


def _is_zero_beyond(root: UOp, axis: int) -> bool:
    """Return True if `root` is 0 at padded positions of `axis`, where loads give 0."""
    zero: dict[UOp, bool] = {}
    for node in root.toposort():
        if node.op in (Ops.LOAD, Ops.VALID, Ops.IOTA):
            zero[node] = axis in axes_of(node)
        elif isinstance(node.arg, ConstArg):
            zero[node] = node.arg.value == 0
        else:
            rule = _RULES.get(node.op)
            sources = [zero.get(source, False) for source in node.src]
            zero[node] = rule is not None and rule(node, sources)
    return zero[root]


def _all(node: UOp, sources: list[bool]) -> bool:
    return all(sources)


def _any(node: UOp, sources: list[bool]) -> bool:
    return any(sources)


def _first(node: UOp, sources: list[bool]) -> bool:
    return sources[0]


def _product(node: UOp, sources: list[bool]) -> bool:
    """Return True if a factor is 0 and the other one is an integer or a finite constant."""
    if all(sources) or not node.dtype.is_float:
        return any(sources)
    other = node.src[1] if sources[0] else node.src[0]
    is_finite = isinstance(other.arg, ConstArg) and math.isfinite(other.arg.value)
    return any(sources) and is_finite


def _quotient(node: UOp, sources: list[bool]) -> bool:
    """Return True for 0 / y with a constant y that is neither 0 nor NaN."""
    divisor = node.src[1].arg
    if not sources[0] or not isinstance(divisor, ConstArg):
        return False
    return divisor.value != 0 and divisor.value == divisor.value


def _choice(node: UOp, sources: list[bool]) -> bool:
    """Return True if the selected value is 0; a condition that is 0 selects the second one."""
    return sources[2] and (sources[0] or sources[1])


def _multiply_accumulate(node: UOp, sources: list[bool]) -> bool:
    return sources[2] and _product(node, sources[:2])


def _bits(node: UOp, sources: list[bool]) -> bool:
    """Return True if the bits are 0: a float that is 0 may be -0, but a LOAD gives +0."""
    (source,) = node.src
    return sources[0] and (not source.dtype.is_float or source.op is Ops.LOAD)


def _inner_reduce(node: UOp, sources: list[bool]) -> bool:
    """Return True if the reduce of zeros is 0; without any terms, only a sum is 0."""
    if not isinstance(node.arg, ReduceArg):
        return False
    may_be_empty = any(not isinstance(size, int) for size in reduced_sizes(node))
    return sources[0] and (node.arg.op is Ops.ADD or not may_be_empty)


_RULES: dict[Ops, ZeroRule] = {
    **dict.fromkeys((Ops.NEG, Ops.SQRT, Ops.SIN, Ops.TRUNC, Ops.CAST), _all),
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MAX, Ops.OR, Ops.XOR, Ops.CMPNE, Ops.CMPLT), _all),
    Ops.AND: _any,
    Ops.MUL: _product,
    Ops.MULACC: _multiply_accumulate,
    Ops.FDIV: _quotient,
    Ops.IDIV: _quotient,
    Ops.MOD: _quotient,
    **dict.fromkeys((Ops.SHL, Ops.SHR), _first),
    Ops.WHERE: _choice,
    Ops.BITCAST: _bits,
    Ops.REDUCE: _inner_reduce,
}


# --- limits of the device -------------------------------------------------------------------------


# Each lane may be a copy of the kernel: more take minutes to compile, and too much memory.
MAX_LANES = 4096


def limit_problem(plan: Plan) -> str | None:
    """Return which limit on lanes, work-items or shared memory the plan exceeds, or None."""
    capabilities = plan.capabilities
    if plan.lanes > MAX_LANES:
        return f"{plan.lanes} lanes and copies in all: accepted are {MAX_LANES}"
    size = plan.group_size
    if size > capabilities.group_size_limit:
        return f"a group of {size} work-items, accepted are {capabilities.group_size_limit}"
    extents = [axis.extent for axis in plan.item_axes]
    try:
        launch_axes(extents, capabilities.group_limit, "item")
    except UserError:
        return f"a group of {extents} does not fit the limits {capabilities.group_limit}"
    needed = plan.shared_bytes()
    if needed > capabilities.shared_bytes:
        return f"{needed} bytes of shared memory, accepted are {capabilities.shared_bytes}"
    return None
