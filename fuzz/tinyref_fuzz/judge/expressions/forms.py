"""What the normal form of a kernel writes, and what it owes: no loop over a choice of one place."""

from __future__ import annotations

from collections.abc import Iterator

from tinyref.algebra.kernel_shape import kernel_shape, reduced_sizes
from tinyref.algebra.semantics import reduce_identity
from tinyref.dtype import ConstType
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.normal_form import normal_form
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, ReduceArg
from tinyref.views.build import tracker_of
from tinyref_fuzz.judge.expressions.points import Problem
from tinyref_fuzz.judge.oracles import oracle_for
from tinyref_spec.kernel_case import Case, Symptom

COLUMN = "normal"


def form_problems(case: Case) -> Iterator[Problem]:
    """What is wrong with the normal form of a kernel: its values, its own form, its loops."""
    form = normal_form(case.ast)
    written = evaluate(form.ast, dict(enumerate(case.buffers)), case.bindings)
    oracle = oracle_for(case)
    for slot in oracle.slots:
        # A store of no element is gone.
        if text := oracle.difference(slot, written.get(slot, case.buffers[slot])):
            yield Problem(COLUMN, f"slot {slot}: {text}")
    again = normal_form(form.ast)
    if again.ast is not form.ast or again.owners != form.owners:
        yield Problem(COLUMN, "the normal form has another normal form", Symptom.COST)
    is_plain = not any(_is_decided(node) or _is_empty(node) for node in case.ast.toposort())
    for node in form.ast.toposort():
        if is_plain and _is_decided(node):
            yield Problem(COLUMN, "what constants decide is left of a choice", Symptom.COST)
        if chooses_one(node):
            yield Problem(COLUMN, "a loop is left over a choice of one place", Symptom.COST)


def _is_decided(node: UOp) -> bool:
    """Whether constants decide an operation, as its condition or as all of its operands."""
    known = [isinstance(source.arg, ConstArg) for source in node.src]
    if node.op is Ops.WHERE and known[0]:
        return True
    if node.op is Ops.AND and node.dtype.is_bool:
        return any(source.arg == ConstArg(True) for source in node.src)
    return node.op in ALU and all(known)


def _is_empty(node: UOp) -> bool:
    """Whether it is a reduce of nothing, of which a constant is left."""
    return isinstance(node.arg, ReduceArg) and 0 in reduced_sizes(node)


def chooses_one(node: UOp) -> bool:
    """Whether a REDUCE is of a value where a counter along its axis is one place, of nothing else.

    Only plain forms are recognised: a choice or a product by an equality, the counter as it is or
    cast.
    """
    if not isinstance(node.arg, ReduceArg):
        return False
    identity = reduce_identity(node.arg.op, node.dtype)
    return any(
        _counts_along(one, axis) and _is_fixed_along(other, axis)
        for x, y in _needed_equalities(node.src[0], identity)
        for one, other in ((x, y), (y, x))
        for axis in node.arg.axes
    )


def _needed_equalities(value: UOp, idle: ConstType) -> Iterator[tuple[UOp, UOp]]:
    """Both sides of each equality of integers without which a value is `idle`."""
    if value.op is Ops.WHERE:
        condition, chosen, other = value.src
        if _is_constant(other, idle):
            yield from _equalities(condition, True)
        if _is_constant(chosen, idle):
            yield from _equalities(condition, False)
    elif value.op is Ops.MUL and value.dtype.is_int and idle == 0:
        for factor in value.src:
            if factor.op is Ops.CAST and factor.src[0].dtype.is_bool:
                yield from _equalities(factor.src[0], True)


def _equalities(condition: UOp, holds: bool) -> Iterator[tuple[UOp, UOp]]:
    """Both sides of each equality of integers that a condition, or its contrary, needs."""
    if condition.op is Ops.AND and holds:
        for part in condition.src:
            yield from _equalities(part, True)
    elif condition.op is Ops.CMPNE:
        x, y = condition.src
        if x.dtype.is_bool and _is_constant(y, True):
            yield from _equalities(x, not holds)
        elif x.dtype.is_int and not holds:
            yield x, y


def _is_constant(node: UOp, value: ConstType) -> bool:
    """Whether it is that constant, also by the sign of its zero."""
    return isinstance(node.arg, ConstArg) and node.arg == ConstArg(value)


def _counts_along(node: UOp, axis: int) -> bool:
    """Whether it is the position on one axis, in types that hold all of them."""
    size = kernel_shape(node)[axis] if kernel_shape(node) else 1
    while node.op is Ops.CAST and node.src[0].dtype.is_int:
        if not isinstance(size, int) or size - 1 > node.dtype.maximum:
            return False
        node = node.src[0]
    if node.op is not Ops.IOTA or node.src:
        return False
    tracker = tracker_of(node)
    steps = tracker.real_strides()
    is_plain = len(tracker.views) == 1 and not tracker.is_masked and tracker.views[0].offset == 0
    return is_plain and all(step == int(each == axis) for each, step in enumerate(steps))


def _is_fixed_along(node: UOp, axis: int) -> bool:
    shape = kernel_shape(node)
    return not shape or shape[axis] == 1
