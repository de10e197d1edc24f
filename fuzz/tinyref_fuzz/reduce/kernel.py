"""Operate on the kernel of a case: rebuild it, give it other buffers, compute its values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.shapes import kernel_shape
from tinyref.dtype import PtrDType, dtypes, numpy_dtype, pointer
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref_fuzz.generate.equivalent.moving import rank_of
from tinyref_fuzz.generate.equivalent.transformation import written_slots
from tinyref_fuzz.reduce.measure import slots, variables
from tinyref_spec.kernel_case import Array, KernelCase
from tinyref_spec.kernels.notation import load, store

# Ops that compute or read a value; the others are structure.
VALUES = ALU | {Ops.CONST, Ops.LOAD, Ops.VALID, Ops.IOTA, Ops.REDUCE}
LEAVES = frozenset({Ops.CONST, Ops.LOAD, Ops.VALID, Ops.IOTA, Ops.DEFINE_VAR})


@dataclass(frozen=True)
class NewBuffer:
    """A new buffer of a case: its slot follows all others, until `tidy` renumbers them."""

    case: KernelCase

    @property
    def slot(self) -> int:
        """Return the first free slot."""
        return len(self.case.buffers)

    def holding(self, node: UOp, value: Array) -> tuple[UOp, Array]:
        """Return a row-major LOAD with the value of `node`, and the contents of its buffer."""
        rank = rank_of(self.case.ast)
        tracker = ShapeTracker.from_shape(kernel_shape(node) or (1,) * rank)
        content = np.resize(value.reshape(-1), max(1, tracker.real_size()))
        return load(self.slot, node.dtype, tracker, content.size), content

    def with_kernel(self, ast: UOp, content: Array) -> KernelCase:
        """Return the case with the kernel `ast` and the new buffer."""
        return replace(self.case, ast=ast, buffers=(*self.case.buffers, content))


def values_of(case: KernelCase, nodes: Iterable[UOp]) -> dict[UOp, Array]:
    """Return the value of each node by the evaluator, in its shape for the bindings."""
    valued = [node for node in nodes if node.dtype is not dtypes.index]
    rank = rank_of(case.ast)
    contents: dict[int, Array] = dict(enumerate(case.buffers))
    stores = []
    shapes = []
    for node in valued:
        shape = concrete_shape(case, node, rank)
        content = np.zeros(int(np.prod(shape)), numpy_dtype(node.dtype))
        slot = len(contents)
        contents[slot] = content
        stores.append(store(slot, node, shape, content.size))
        shapes.append(shape)
    written = evaluate(build.sink(*stores), contents, case.bindings)
    first = len(case.buffers)
    return {
        node: written[first + at].reshape(shape)
        for at, (node, shape) in enumerate(zip(valued, shapes, strict=True))
    }


def concrete_shape(case: KernelCase, node: UOp, rank: int) -> tuple[int, ...]:
    """Return the shape of a value for the bindings; ones for a value that fits any shape."""
    shape = kernel_shape(node) or (1,) * rank
    return tuple(value_of(size, case.bindings) for size in shape)


def tidy(case: KernelCase) -> KernelCase:
    """Return the case with only the slots of its kernel, outputs first, and minimal buffers.

    The result has no tape. A kernel with an equivalent one does not change.
    """
    if case.equivalent is not None and case.equivalent.origin is case.ast:
        return replace(case, choices=())
    used = slots(case.ast)
    written = written_slots(case.ast)
    order = sorted(used, key=lambda slot: (slot not in written, slot))
    sizes = {slot: _elements_reached(case.ast, slot) for slot in order}
    buffers = {}
    for at, slot in enumerate(order):
        node = used[slot]
        if type(node.dtype) is PtrDType:
            size = min(sizes[slot], node.dtype.size)
            buffers[node] = UOp(Ops.DEFINE_GLOBAL, pointer(node.dtype.base, size), (), SlotArg(at))
        else:
            sizes[slot] = case.buffers[slot].size
            buffers[node] = node.replace(arg=SlotArg(at))
    ast = substitute(case.ast, buffers)
    contents = tuple(case.buffers[slot][: sizes[slot]].copy() for slot in order)
    names = {name for name in case.bindings if _uses(ast, name)}
    return replace(
        case,
        ast=ast,
        buffers=contents,
        choices=(),
        bindings={name: case.bindings[name] for name in sorted(names)},
    )


def _uses(ast: UOp, name: str) -> bool:
    return any(getattr(variable.arg, "name", "") == name for variable in variables(ast))


def _elements_reached(ast: UOp, slot: int) -> int:
    """Return the number of elements of a buffer that its views reach; at least one."""
    return max(
        1,
        *(
            tracker_of(node).real_size()
            for node in ast.toposort()
            if node.op is Ops.VIEW and isinstance(node.arg, ViewArg) and _is_slot(node, slot)
        ),
    )


def _is_slot(view: UOp, slot: int) -> bool:
    buffer = view.src[0].arg
    return isinstance(buffer, SlotArg) and buffer.slot == slot


def loads_of_written(ast: UOp) -> frozenset[UOp]:
    """Return the LOADs of slots that the kernel also writes: their views must match the stores."""
    written = written_slots(ast)
    return frozenset(
        node for node in ast.toposort() if node.op is Ops.LOAD and slot_of(node) in written
    )
