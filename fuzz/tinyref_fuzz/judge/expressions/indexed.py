"""What an indexed kernel without reduces writes, every counter an axis of arrays.

Memory is bytes, as a device may hold it as words of another type. Nothing is shared with the
passes that made the kernel, nor with the evaluators of kernels and programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinyref.algebra import semantics
from tinyref.dtype import PtrDType, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref.uops.words import offset_name
from tinyref_fuzz.judge.oracles.span import Values
from tinyref_spec.bits import BoolArray

# Elements are held in whole words of any type.
_WORD = 8


class AccessError(Exception):
    """An access outside of its memory, or of what is written and read by turns."""


def written_by(
    root: UOp, buffers: Sequence[Values], bindings: Mapping[str, int], written: frozenset[int]
) -> dict[int, Values]:
    """The `written` slots of `buffers` after the kernel, as bytes that begin with their elements.

    Raises `AccessError`, and `UserError` for what no such kernel has.
    """
    with np.errstate(all="ignore"):
        return _Kernel(root, buffers, bindings, written).run()


class _Kernel:
    def __init__(
        self,
        root: UOp,
        buffers: Sequence[Values],
        bindings: Mapping[str, int],
        written: frozenset[int],
    ) -> None:
        self.order = root.toposort()
        self.memory = [_bytes_of(buffer) for buffer in buffers]
        self.bindings = bindings
        self.written = written
        self.starts = {offset_name(slot) for slot in range(len(buffers))}
        self.values: dict[UOp, Values] = {}
        counters = [node for node in self.order if node.op in (Ops.RANGE, Ops.SPECIAL)]
        self.axes = {node: axis for axis, node in enumerate(counters)}

    def run(self) -> dict[int, Values]:
        for node in self.order:
            if node.op is Ops.STORE:
                self._store(node)
            elif node.op not in (Ops.SINK, Ops.DEFINE_GLOBAL, Ops.INDEX):
                self.values[node] = self._value(node)
        return {slot: self.memory[slot] for slot in self.written}

    def _value(self, node: UOp) -> Values:
        if isinstance(node.arg, ConstArg):
            return np.array(node.arg.value, numpy_dtype(node.dtype))
        if isinstance(node.arg, VarArg):
            # All memory begins with a whole word.
            value = 0 if node.arg.name in self.starts else self.bindings[node.arg.name]
            return np.array(value, numpy_dtype(node.dtype))
        if node in self.axes:
            return self._counter(node)
        if node.op is Ops.LOAD:
            return self._load(node)
        if node.op in ALU:
            kernel = semantics.kernel_for(node.op, node.dtype, [each.dtype for each in node.src])
            return np.asarray(kernel(*(self.values[source] for source in node.src)))
        raise UserError(f"indexed: {node.op.name} has no value here")

    def _counter(self, node: UOp) -> Values:
        shape = [1] * len(self.axes)
        shape[self.axes[node]] = int(self.values[node.src[0]])
        return np.arange(shape[self.axes[node]], dtype=numpy_dtype(node.dtype)).reshape(shape)

    def _place(self, access: UOp, gate: Values | None) -> tuple[int, Values, Values]:
        """The slot, its memory as elements, and which of them are accessed."""
        address = access.src[0]
        pointer = address.src[0].dtype
        if address.op is not Ops.INDEX or not isinstance(pointer, PtrDType):
            raise UserError(f"indexed: {access.op.name} goes through no INDEX")
        slot = slot_of(access)
        elements = self.memory[slot].view(numpy_dtype(pointer.base))
        at = self.values[address.src[1]]
        outside = (at < 0) | (at >= min(pointer.size, elements.size))
        if (outside if gate is None else outside & gate).any():
            raise AccessError(f"{access.op.name} outside of the {pointer.size} elements of {slot}")
        return slot, elements, np.where(outside, 0, at)

    def _load(self, node: UOp) -> Values:
        gate = self.values[node.src[2]] if len(node.src) == 3 else None
        slot, elements, at = self._place(node, gate)
        if slot in self.written:
            raise AccessError(f"LOAD of slot {slot}, which is written")
        found = elements[at] if elements.size else np.zeros(at.shape, elements.dtype)
        return found if gate is None else np.where(gate, found, self.values[node.src[1]])

    def _store(self, node: UOp) -> None:
        gate: BoolArray | None = self.values[node.src[2]] if len(node.src) == 3 else None
        _, elements, at = self._place(node, gate)
        value = self.values[node.src[1]]
        if gate is None:
            elements[at] = value
            return
        at, value, gate = np.broadcast_arrays(at, value, gate)
        elements[at[gate]] = value[gate]


def _bytes_of(buffer: Values) -> Values:
    """A copy of the elements as bytes, up to a whole word."""
    size = -(-max(buffer.nbytes, 1) // _WORD) * _WORD
    found = np.zeros(size, np.uint8)
    found[: buffer.nbytes] = np.ascontiguousarray(buffer).view(np.uint8)
    return found
