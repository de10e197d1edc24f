"""Memory of BUFFER nodes, and views of it on devices that hold data and run no kernels.

The memory of a node is freed when the node is freed. A device that only holds data cannot gather
elements. So a contiguous part of a buffer becomes a BUFFER of its own, over the same memory and
without a copy. A COPY to another device then moves only that part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn
from weakref import WeakKeyDictionary, WeakSet

from tinyref.algebra.sizes import bindings_of
from tinyref.arrays import Array, np
from tinyref.device import Buffer, Device
from tinyref.dtype import DType
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy.shape import describe_shape, device_of, shape_of
from tinyref.uops.node import UOp, node_fact, sint, substitute, toposort
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BufferArg
from tinyref.views.shape_tracker import ShapeTracker, apply_movement

_memory: WeakKeyDictionary[UOp, Buffer] = WeakKeyDictionary()
_lost: WeakSet[UOp] = WeakSet()
_numbers = itertools.count()


def new_buffer_node(device: str, size: int, dtype: DType) -> UOp:
    """Return a new BUFFER of `size` elements on `device`; its memory is not yet allocated.

    Raises `UserError` for a negative size or an unknown device.
    """
    if size < 0:
        raise UserError(f"buffer: size {size} is negative: accepted are 0 and more elements")
    argument = BufferArg(Device.canonical(device), size, next(_numbers))
    return UOp(Ops.BUFFER, dtype, (), argument)


def new_buffer_like(argument: BufferArg, dtype: DType) -> tuple[UOp, Buffer]:
    """Return a new BUFFER like another one, and its memory, which is not yet allocated."""
    fresh = BufferArg(argument.device, argument.size, next(_numbers))
    node = UOp(Ops.BUFFER, dtype, (), fresh)
    memory = _memory[node] = Buffer(fresh.device, fresh.size, dtype)
    return node, memory


def buffer_of(node: UOp) -> Buffer:
    """Return the memory of a BUFFER node: always the same object while the node is alive.

    The memory is allocated at the first use of its handle. Raises `UserError` for any other node.
    """
    if node.op is not Ops.BUFFER or not isinstance(node.arg, BufferArg):
        raise UserTypeError(
            f"buffer_of: got {node.op.name}, accepted is a BUFFER: realise it first"
        )
    memory = _memory.get(node)
    if memory is None:
        # Another thread may be the first.
        fresh = Buffer(node.arg.device, node.arg.size, node.dtype)
        memory = _memory.setdefault(node, fresh)
    return memory


def set_buffer(node: UOp, memory: Buffer) -> None:
    """Give a BUFFER node existing memory. Raises `UserError` if the two do not match."""
    argument = node.arg
    if node.op is not Ops.BUFFER or not isinstance(argument, BufferArg):
        raise UserTypeError(f"set_buffer: got {node.op.name}, accepted is a BUFFER")
    have = (memory.device, memory.size, memory.dtype.name)
    want = (argument.device, argument.size, node.dtype.name)
    if have != want:
        raise UserError(f"set_buffer: memory is {have}, the node is {want}: they must be equal")
    _memory[node] = memory


@dataclass(eq=False)
class LostBuffer(Buffer):
    """Memory whose contents are lost; every use raises an error.

    why: the reason, as the end of a sentence that begins with "they" for the elements.
    """

    why: str = ""

    def allocate(self) -> NoReturn:
        """Raise `UserStateError`."""
        raise UserStateError(
            f"tensor: {self.size} elements of {self.dtype.name} on {self.device} are lost: they "
            f"{self.why}: give the tensor new ones with assign()"
        )


def lost_buffer_like(node: UOp, why: str) -> UOp:
    """Return a new BUFFER in place of another one whose contents are lost: see `LostBuffer`."""
    assert isinstance(node.arg, BufferArg), "a BUFFER has a size"
    lost, memory = new_buffer_like(node.arg, node.dtype)
    _memory[lost] = LostBuffer(memory.device, memory.size, memory.dtype, why=why)
    _lost.add(lost)
    return lost


def lost_graph_like(root: UOp, why: str) -> UOp:
    """Return a graph like `root` in which the contents of all BUFFERs are lost."""
    buffers = [node for node in toposort([root]) if node.op is Ops.BUFFER]
    return substitute(root, {node: lost_buffer_like(node, why) for node in buffers})


def refuse_lost(roots: Iterable[UOp]) -> None:
    """Raise `UserStateError` for graphs that need lost contents."""
    for node in toposort(roots) if _lost else ():
        if node in _lost:
            buffer_of(node).allocate()


def assigned_buffer(node: UOp) -> UOp:
    """Return the BUFFER that an ASSIGN writes, or that a view reads."""
    buffer = node if node.op is Ops.BUFFER else shown_buffer(node)
    if buffer is None:
        raise TypeError(f"{node.op.name} is no view of a buffer")
    return buffer


@node_fact
def shown_buffer(node: UOp) -> UOp | None:
    """Return the BUFFER below views and ASSIGNs; None for a BUFFER: it would keep itself alive."""
    if node.op is not Ops.ASSIGN and node.op not in MOVEMENT:
        return None
    below = node.src[0]
    return below if below.op is Ops.BUFFER else shown_buffer(below)


def is_lost(node: UOp) -> bool:
    """Return True if a node cannot be computed because it needs lost contents."""
    return node in lost_below([node])


def lost_below(roots: Iterable[UOp]) -> set[UOp]:
    """Return the nodes of graphs that cannot be computed because they need lost contents."""
    lost: set[UOp] = set()
    # Lost buffers are rare, so the graph is searched only if there is one.
    for node in toposort(roots) if _lost else ():
        if node in _lost or not lost.isdisjoint(node.src):
            lost.add(node)
    return lost


def has_memory(node: UOp) -> bool:
    """Return True if a BUFFER node has memory: if `buffer_of` or `set_buffer` was called for it."""
    return node in _memory


def live_buffers() -> Sequence[UOp]:
    """Return the BUFFER nodes that have memory now, oldest first."""
    return sorted(_memory, key=_number)


def _number(node: UOp) -> int:
    return node.arg.number if isinstance(node.arg, BufferArg) else -1


# --- views on devices that only hold data ---------------------------------------------------------


_PLACING = MOVEMENT | {Ops.DETACH}


def only_holds_data(node: UOp) -> bool:
    """Return True if `node` is on a device that runs no kernels."""
    device = device_of(node)
    return isinstance(device, str) and not Device.runs_kernels(device)


def stored_buffer(node: UOp) -> UOp | None:
    """Return the BUFFER with the elements of `node` in order, if its device runs no kernels."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node if node.op is Ops.BUFFER and only_holds_data(node) else None


def part_of(buffer: UOp, offset: int, size: int, dtype: DType) -> UOp:
    """Return a BUFFER over `size` elements of `dtype` that start `offset` bytes into `buffer`.

    Raises `UserError` if they are not all inside.
    """
    memory = buffer_of(buffer).view(offset, size, dtype)
    part = new_buffer_node(memory.device, size, dtype)
    set_buffer(part, memory)
    return part


def stored_window(
    node: UOp, bounds: Sequence[tuple[sint, sint]]
) -> tuple[UOp, tuple[sint, ...], tuple[tuple[sint, sint], ...]] | None:
    """Return a smaller BUFFER that holds the window `bounds` of `node`, its shape and new bounds.

    Return None if `node` is no stored BUFFER, or if no smaller range of it holds the window.
    """
    buffer = stored_buffer(node)
    shape = shape_of(node)
    if buffer is None or not all(isinstance(size, int) for size in (*shape, *sum(bounds, ()))):
        return None
    sizes = [size for size in shape if isinstance(size, int)]
    pairs = [(a, b) for a, b in bounds if isinstance(a, int) and isinstance(b, int)]
    # Up to the first axis with more than one element, a window is one range of memory.
    axis = next((axis for axis, (a, b) in enumerate(pairs) if b - a > 1), len(pairs) - 1)
    offset = sum(pairs[k][0] * math.prod(sizes[k + 1 :]) for k in range(axis + 1))
    part_shape = [b - a for a, b in pairs[: axis + 1]] + sizes[axis + 1 :]
    count = math.prod(part_shape)
    if count == math.prod(sizes):
        return None
    part = part_of(buffer, offset * node.dtype.itemsize, count, node.dtype)
    window = tuple((0, size) for size in part_shape[: axis + 1]) + tuple(pairs[axis + 1 :])
    return part, tuple(part_shape), window


def overwrite(node: UOp, elements: Array, name: str) -> None:
    """Write `elements`, of the shape and dtype of `node`, to the memory that it is a view of.

    Raises `UserError` for other nodes, and for a view that has one element at several positions.
    """
    buffer = stored_buffer(node)
    if buffer is not None:
        buffer_of(buffer).update(_bytes_of(elements))
        return
    steps: list[UOp] = []
    base = node
    while base.op in _PLACING and stored_buffer(base) is None:
        steps.append(base)
        base = base.src[0]
    buffer = stored_buffer(base)
    if buffer is None or not all(isinstance(size, int) for size in shape_of(base)):
        raise UserError(
            f"{name}: the target goes through {base.op.name}: accepted are a tensor on "
            f"{device_of(node)} and views that only move its elements"
        )
    tracker = ShapeTracker.from_shape(shape_of(base))
    for step in (step for step in reversed(steps) if step.op is not Ops.DETACH):
        tracker = apply_movement(tracker, step.op, step.arg)
    indices, is_valid = tracker.numpy_indices(bindings_of(shape_of(node)))
    if not is_valid.all() or np.unique(indices).size != indices.size:
        raise UserError(
            f"{name}: the target of shape {describe_shape(shape_of(node))} has padding, or one "
            f"element of {device_of(node)} at several positions: accepted is each element once"
        )
    memory = buffer_of(buffer)
    contents = np.frombuffer(memory.copy_out(), elements.dtype)
    contents[indices] = elements
    memory.update(_bytes_of(contents))


def _bytes_of(elements: Array) -> memoryview:
    return np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data


def stored_bits(node: UOp, dtype: DType) -> tuple[UOp, tuple[sint, ...]] | None:
    """Return the BUFFER of `node` read as `dtype`, and its shape: the last axis changes its size.

    Return None if `node` is no stored BUFFER. Raises `UserError` if the last axis does not divide.
    """
    buffer = stored_buffer(node)
    if buffer is None:
        return None
    have, want = node.dtype.itemsize, dtype.itemsize
    *outer, last = shape_of(node) or (1,)
    if not isinstance(last, int) or last * have % want or (have != want and not shape_of(node)):
        raise UserError(
            f"bitcast: {node.dtype.name} {describe_shape(shape_of(node))} as {dtype.name}: "
            f"the last axis must fill whole elements of {want} bytes"
        )
    shape = (*outer, last * have // want) if shape_of(node) else ()
    nbytes = buffer_of(buffer).nbytes
    return part_of(buffer, 0, nbytes // want, dtype), shape
