"""What the normal form of a kernel writes, and what it owes: no loop over a choice of one place."""

from __future__ import annotations

from collections.abc import Iterator

from tinyref.algebra.kernel_shape import kernel_shape
from tinyref.algebra.semantics import reduce_identity
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.normal_form import normal_form
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
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
    for node in form.ast.toposort():
        if chooses_one(node):
            yield Problem(COLUMN, "a loop is left over a choice of one place", Symptom.COST)


def chooses_one(node: UOp) -> bool:
    """Whether a REDUCE is of a value where a counter along its axis is one place, of nothing else.

    It is told by its plainest form alone: WHERE of an equality, the counter as it is or cast.
    """
    if not isinstance(node.arg, ReduceArg) or node.src[0].op is not Ops.WHERE:
        return False
    condition, _, idle = node.src[0].src
    if not isinstance(idle.arg, ConstArg):
        return False
    is_idle = idle.arg.value == reduce_identity(node.arg.op, node.dtype)
    return is_idle and any(
        _counts_along(one, axis) and _is_fixed_along(other, axis)
        for axis in node.arg.axes
        for one, other in _ways_of_equality(condition)
    )


def _ways_of_equality(condition: UOp) -> list[tuple[UOp, UOp]]:
    """(x, y) and (y, x) of x == y, which is not (x != y), for integers; none of anything else."""
    if condition.op is not Ops.CMPNE or condition.src[0].op is not Ops.CMPNE:
        return []
    unequal, truth = condition.src
    is_not = isinstance(truth.arg, ConstArg) and truth.arg.value is True
    if not is_not or not unequal.src[0].dtype.is_int:
        return []
    x, y = unequal.src
    return [(x, y), (y, x)]


def _counts_along(node: UOp, axis: int) -> bool:
    """Whether it is the position on one axis."""
    while node.op is Ops.CAST and node.src[0].dtype.is_int:
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
