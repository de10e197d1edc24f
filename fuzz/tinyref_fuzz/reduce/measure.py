"""Measure a case by what a reader has to understand, the most important part first.

A reduction only accepts smaller cases, so that it ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.shapes import kernel_shape, positions_of
from tinyref.optimise.opt import OptOp
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.views.shape_tracker import tracker_of
from tinyref_fuzz.generate.equivalent.transformation import written_slots
from tinyref_spec.kernel_case import Array, KernelCase

Measure = tuple[int, ...]

# A buffer and its view count as part of the access; the root does not count.
_NOT_COUNTED = frozenset({Ops.DEFINE_GLOBAL, Ops.VIEW, Ops.SINK})
# Simple ones first: a reduction goes from GROUPTOP to GROUP, and not back.
_OPTS = tuple(OptOp)


def node_count(ast: UOp) -> int:
    """Count the nodes of a kernel: LOAD, STORE, ALU, REDUCE, CONST, VALID, IOTA and DEFINE_VAR.

    A view and its buffer are part of the access through them, and do not count.
    """
    return sum(node.op not in _NOT_COUNTED for node in ast.toposort())


def opt_count(case: KernelCase) -> int:
    """Count the optimisations in all lists of a case."""
    return sum(map(len, case.opts))


def measure(case: KernelCase) -> Measure:
    """Return the size of a case; the smaller tuple is the smaller case."""
    nodes = case.ast.toposort()
    trail = case.equivalent.trail if case.equivalent is not None else ()
    return (
        len(case.opts) + len(trail),
        node_count(case.ast) + opt_count(case),
        sum(node_count(ast) for _, ast in trail),
        _rank(nodes) + 2 * len(variables(case.ast)),
        sum(map(_is_special, nodes)),
        sum(node.op is Ops.LOAD for node in nodes) + sum(node.op is Ops.REDUCE for node in nodes),
        work(case),
        sum(_OPTS.index(opt.op) for opts in case.opts for opt in opts),
        sum(buffer.size for buffer in case.buffers),
        sum(data_cost(case.buffers[slot]) for slot in read_slots(case)),
    )


def work(case: KernelCase) -> int:
    """Count the elements that all nodes of the kernel compute, an estimate of judging time."""
    total = 0
    for node in case.ast.toposort():
        if node.op not in _NOT_COUNTED:
            total += elements(node.src[0] if node.op is Ops.STORE else node, case.bindings)
    return total


def elements(node: UOp, bindings: Mapping[str, int]) -> int:
    """Return the number of values of a node."""
    return math.prod(max(1, value_of(size, bindings)) for size in kernel_shape(node))


def variables(ast: UOp) -> set[UOp]:
    """Return the variables in the values and views of a kernel."""
    nodes = ast.toposort()
    variables_of_ast = {node for node in nodes if node.op is Ops.DEFINE_VAR}
    for node in nodes:
        if isinstance(node.arg, ViewArg):
            variables_of_ast.update(tracker_of(node).variables())
    return variables_of_ast


def _rank(nodes: list[UOp]) -> int:
    return next((len(node.arg.tracker.shape) for node in nodes if isinstance(node.arg, ViewArg)), 0)


def _is_special(node: UOp) -> bool:
    """Return True for a view that is not row-major, or that has computed positions."""
    if not isinstance(node.arg, ViewArg):
        return False
    views = tracker_of(node).views
    return len(views) > 1 or not views[0].is_contiguous or bool(positions_of(node))


def read_slots(case: KernelCase) -> list[int]:
    """Return the slots whose contents matter: all except those that are only written."""
    written = written_slots(case.ast)
    loaded = {slot_of(node) for node in case.ast.toposort() if node.op is Ops.LOAD}
    return [slot for slot in range(len(case.buffers)) if slot in loaded or slot not in written]


def data_cost(buffer: Array) -> int:
    """Return the cost of reading the data: 0 for zeros, 1 for a one, and more for other numbers."""
    if buffer.dtype.kind == "V":
        return 4 * buffer.size
    with np.errstate(all="ignore"):
        values = buffer.astype(np.float64)
        cost = np.where(np.abs(values) <= 9, 2, 3)
        cost = np.where(np.floor(values) == values, cost, 4)
        cost = np.where(values == 1, 1, cost)
        cost = np.where(values == 0, 0, cost)
    return int(cost.sum())


def slots(ast: UOp) -> dict[int, UOp]:
    """Return the DEFINE_GLOBAL of each slot of a kernel."""
    return {node.arg.slot: node for node in ast.toposort() if isinstance(node.arg, SlotArg)}
