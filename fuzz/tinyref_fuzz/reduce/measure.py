"""How large a case is: what a reader has to take in, most important first.

A step of a reduction is taken only where this becomes smaller, so that it ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.kernel_shape import kernel_shape, positions_of
from tinyref.dtype import DType, PtrDType, dtypes
from tinyref.optimise.opt import Opt, OptOp
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, SlotArg, ViewArg
from tinyref.views.build import tracker_of
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.generate.equivalent.transformation import written_slots
from tinyref_spec.kernel_case import Array, Case, Mode

Measure = tuple[int, ...]

# A buffer and its view belong to the access, the root to nobody.
_NOT_COUNTED = frozenset({Ops.DEFINE_GLOBAL, Ops.VIEW, Ops.SINK})

# Simple ones first: a reduction goes from GROUPTOP to GROUP, not back.
_SIMPLE_OPTS = tuple(OptOp)
_MODES = (Mode.EXACT, Mode.FLOAT, Mode.EDGE)


def node_count(ast: UOp) -> int:
    """The nodes of a kernel: LOAD, STORE, ALU, REDUCE, CONST, VALID, IOTA and DEFINE_VAR.

    A view and its buffer are part of the access that goes through them, and count nothing.
    """
    return sum(node.op not in _NOT_COUNTED for node in ast.toposort())


def opt_count(case: Case) -> int:
    """The optimisations of a case, in all its lists."""
    return sum(map(len, case.opts))


def measure(case: Case) -> Measure:
    """The size of a case; the smaller tuple is the smaller case."""
    nodes = case.ast.toposort()
    trail = case.equivalent.trail if case.equivalent is not None else ()
    return (
        len(case.opts) + len(trail),
        node_count(case.ast) + opt_count(case),
        sum(node_count(ast) for _, ast in trail),
        _rank(nodes) + 2 * len(_variables(nodes)),
        sum(_view_cost(node) for node in nodes),
        sum(_type_cost(_base(node)) for node in nodes) + 3 * len({_base(node) for node in nodes}),
        sum(node.op is Ops.LOAD for node in nodes) + sum(node.op is Ops.REDUCE for node in nodes),
        work(case),
        sum(_opt_cost(opt) for opts in case.opts for opt in opts),
        sum(buffer.size for buffer in case.buffers),
        _MODES.index(case.mode),
        sum(_const_cost(node) for node in nodes),
        _data_cost(case),
        sum(opt.axis for opts in case.opts for opt in opts),
    )


def work(case: Case) -> int:
    """How many elements the kernel computes, in all its nodes: about how long a judgement takes."""
    total = 0
    for node in case.ast.toposort():
        if node.op not in _NOT_COUNTED:
            total += elements(node.src[0] if node.op is Ops.STORE else node, case.bindings)
    return total


def elements(node: UOp, bindings: Mapping[str, int]) -> int:
    """How many values a node has."""
    return math.prod(max(1, value_of(size, bindings)) for size in kernel_shape(node))


def variables(ast: UOp) -> set[UOp]:
    """The variables in the values and the views of a kernel."""
    return _variables(ast.toposort())


def _variables(nodes: list[UOp]) -> set[UOp]:
    found = {node for node in nodes if node.op is Ops.DEFINE_VAR}
    for node in nodes:
        if isinstance(node.arg, ViewArg):
            found.update(tracker_of(node).variables())
    return found


def _rank(nodes: list[UOp]) -> int:
    return next((len(node.arg.tracker.shape) for node in nodes if isinstance(node.arg, ViewArg)), 0)


def _view_cost(node: UOp) -> int:
    if not isinstance(node.arg, ViewArg):
        return 0
    return tracker_cost(tracker_of(node)) + 4 * len(positions_of(node))


def tracker_cost(tracker: ShapeTracker) -> int:
    """0 for a row-major view, and more for each thing that must be explained."""
    cost = 6 * (len(tracker.views) - 1)
    for view in tracker.views:
        if view.is_contiguous:
            continue
        masks = view.mask or ()
        cost += sum(bounds != (0, size) for bounds, size in zip(masks, view.shape, strict=False))
        cost += 1 + bool(masks) + (not isinstance(view.offset, int) or view.offset != 0)
        cost += sum(not isinstance(stride, int) or stride < 0 for stride in view.strides)
        repeats = zip(view.strides, view.shape, strict=True)
        cost += sum(stride == 0 and size != 1 for stride, size in repeats)
        cost += not _is_dense(view)
    return cost


def _is_dense(view: View) -> bool:
    """Whether the elements that are shown lie next to each other in memory, in any order."""
    bounds = view.mask or tuple((0, size) for size in view.shape)
    steps = [
        (abs(stride), end - begin)
        for stride, (begin, end) in zip(view.strides, bounds, strict=True)
        if isinstance(stride, int) and isinstance(begin, int) and isinstance(end, int) and stride
    ]
    expected = 1
    for stride, count in sorted(steps):
        if stride != expected:
            return False
        expected *= count
    return True


def _base(node: UOp) -> DType:
    """The type of a value, or of the elements of a buffer."""
    return node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype


def _type_cost(base: DType) -> int:
    if base in (dtypes.void, dtypes.int32, dtypes.index):
        return 0
    if base in (dtypes.float32, dtypes.bool):
        return 1
    return 3


def _opt_cost(opt: Opt) -> int:
    # 0 stands for the whole axis, which is at least 2.
    size = abs(opt.arg) if opt.arg or not opt.spec.may_be_whole else 3
    return 100 * _SIMPLE_OPTS.index(opt.op) + min(size, 90) + opt.level + opt.mode


def _const_cost(node: UOp) -> int:
    if not isinstance(node.arg, ConstArg):
        return 0
    value = node.arg.value
    return 0 if value == 0 else 1 if value == 1 else 2 if value == int_of(value) else 4


def int_of(value: float) -> float:
    """The value without its fraction; NaN and infinities stay."""
    return float(int(value)) if math.isfinite(value) else value


def _data_cost(case: Case) -> int:
    written = written_slots(case.ast)
    loaded = {slot_of(node) for node in case.ast.toposort() if node.op is Ops.LOAD}
    return sum(
        data_cost(buffer)
        for slot, buffer in enumerate(case.buffers)
        if slot in loaded or slot not in written
    )


def data_cost(buffer: Array) -> int:
    """0 for zeros, 1 for an element that is 1, and more for what is harder to read."""
    if buffer.dtype.kind == "V":
        return 4 * buffer.size
    with np.errstate(all="ignore"):
        values = buffer.astype(np.float64)
        is_integer = np.floor(values) == values
        cost = np.where(np.abs(values) <= 9, 2, 3)
        cost = np.where(is_integer, cost, 4)
        cost = np.where(values == 1, 1, cost)
        cost = np.where(values == 0, 0, cost)
        cost = np.where(np.isfinite(values), cost, 5)
    return int(cost.sum())


def slots(ast: UOp) -> dict[int, UOp]:
    """The DEFINE_GLOBAL of each slot of a kernel."""
    return {node.arg.slot: node for node in ast.toposort() if isinstance(node.arg, SlotArg)}
