"""Memory behind BUFFER nodes, and views of it on devices that hold data and run no kernels.

The memory of a node is freed when the node dies. A device that only holds data cannot gather
elements. So what is next to each other becomes a BUFFER of its own, over the same memory and
without a copy; a COPY to another device then moves just that part.
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
    """A fresh BUFFER of `size` elements on `device`; nothing is allocated yet.

    Raises `UserError` for a negative size or an unknown device.
    """
    if size < 0:
        raise UserError(f"buffer: size {size} is negative: accepted are 0 and more elements")
    argument = BufferArg(Device.canonical(device), size, next(_numbers))
    return UOp(Ops.BUFFER, dtype, (), argument)


def new_buffer_like(argument: BufferArg, dtype: DType) -> tuple[UOp, Buffer]:
    """A fresh BUFFER like another one, and its memory, not yet allocated."""
    fresh = BufferArg(argument.device, argument.size, next(_numbers))
    node = UOp(Ops.BUFFER, dtype, (), fresh)
    memory = _memory[node] = Buffer(fresh.device, fresh.size, dtype)
    return node, memory


def buffer_of(node: UOp) -> Buffer:
    """The memory of a BUFFER node: always the same object while the node lives.

    It is allocated when its handle is first asked for. Raises `UserError` for any other node.
    """
    if node.op is not Ops.BUFFER or not isinstance(node.arg, BufferArg):
        raise UserTypeError(
            f"buffer_of: got {node.op.name}, accepted is a BUFFER: realise it first"
        )
    found = _memory.get(node)
    if found is None:
        # Another thread may be the first.
        fresh = Buffer(node.arg.device, node.arg.size, node.dtype)
        found = _memory.setdefault(node, fresh)
    return found


def set_buffer(node: UOp, memory: Buffer) -> None:
    """Puts existing memory behind a BUFFER node. Raises `UserError` where the two do not match."""
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
    """Memory whose contents nobody has any more: it is refused to whoever asks for it.

    why: what became of the elements, in words that go on from them.
    """

    why: str = ""

    def allocate(self) -> NoReturn:
        """Raises `UserStateError`."""
        raise UserStateError(
            f"tensor: {self.size} elements of {self.dtype.name} on {self.device} are lost: they "
            f"{self.why}: give the tensor new ones with assign()"
        )


def lost_buffer_like(node: UOp, why: str) -> UOp:
    """A fresh BUFFER that stands for the contents of another, which are lost: see `LostBuffer`."""
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
    """Raises `UserStateError` for graphs that need contents which are lost."""
    for node in toposort(roots) if _lost else ():
        if node in _lost:
            buffer_of(node).allocate()


def assigned_buffer(node: UOp) -> UOp:
    """The BUFFER that an ASSIGN writes, or that a view of one shows."""
    found = node if node.op is Ops.BUFFER else shown_buffer(node)
    if found is None:
        raise TypeError(f"{node.op.name} shows no buffer")
    return found


@node_fact
def shown_buffer(node: UOp) -> UOp | None:
    """The BUFFER below views and ASSIGNs; None for a BUFFER, which would keep itself alive."""
    if node.op is not Ops.ASSIGN and node.op not in MOVEMENT:
        return None
    below = node.src[0]
    return below if below.op is Ops.BUFFER else shown_buffer(below)


def is_lost(node: UOp) -> bool:
    """Whether a node cannot be computed, as it needs contents that are lost."""
    return node in lost_below([node])


def lost_below(roots: Iterable[UOp]) -> set[UOp]:
    """Those nodes of graphs that cannot be computed, as they need contents that are lost."""
    found: set[UOp] = set()
    # There are hardly ever any.
    for node in toposort(roots) if _lost else ():
        if node in _lost or not found.isdisjoint(node.src):
            found.add(node)
    return found


def has_memory(node: UOp) -> bool:
    """Whether a BUFFER node has been given memory: whether `buffer_of` was asked for it before."""
    return node in _memory


def live_buffers() -> Sequence[UOp]:
    """The BUFFER nodes that have memory now, oldest first."""
    return sorted(_memory, key=_number)


def _number(node: UOp) -> int:
    return node.arg.number if isinstance(node.arg, BufferArg) else -1


# --- views on devices that only hold data ---------------------------------------------------------


_PLACING = MOVEMENT | {Ops.DETACH}


def only_holds_data(node: UOp) -> bool:
    """True where `node` lives on a device that runs no kernels."""
    device = device_of(node)
    return isinstance(device, str) and not Device.runs_kernels(device)


def stored_buffer(node: UOp) -> UOp | None:
    """The BUFFER whose elements, in order, are those of `node`, if its device runs no kernels."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node if node.op is Ops.BUFFER and only_holds_data(node) else None


def part_of(buffer: UOp, offset: int, size: int, dtype: DType) -> UOp:
    """A BUFFER over `size` elements of `dtype` that start `offset` bytes into `buffer`.

    Raises `UserError` where they are not all inside.
    """
    memory = buffer_of(buffer).view(offset, size, dtype)
    part = new_buffer_node(memory.device, size, dtype)
    set_buffer(part, memory)
    return part


def stored_window(
    node: UOp, bounds: Sequence[tuple[sint, sint]]
) -> tuple[UOp, tuple[sint, ...], tuple[tuple[sint, sint], ...]] | None:
    """A smaller BUFFER that holds the window `bounds` of `node`: its shape, the window in it.

    None where `node` is no stored BUFFER, or no smaller range of it holds the window.
    """
    buffer = stored_buffer(node)
    shape = shape_of(node)
    if buffer is None or not all(isinstance(size, int) for size in (*shape, *sum(bounds, ()))):
        return None
    sizes = [size for size in shape if isinstance(size, int)]
    pairs = [(a, b) for a, b in bounds if isinstance(a, int) and isinstance(b, int)]
    # Up to the first axis that keeps more than one element, a window is one range of memory.
    axis = next((axis for axis, (a, b) in enumerate(pairs) if b - a > 1), len(pairs) - 1)
    offset = sum(pairs[k][0] * math.prod(sizes[k + 1 :]) for k in range(axis + 1))
    kept = [b - a for a, b in pairs[: axis + 1]] + sizes[axis + 1 :]
    count = math.prod(kept)
    if count == math.prod(sizes):
        return None
    part = part_of(buffer, offset * node.dtype.itemsize, count, node.dtype)
    rest = tuple((0, size) for size in kept[: axis + 1]) + tuple(pairs[axis + 1 :])
    return part, tuple(kept), rest


def overwrite(node: UOp, elements: Array, name: str) -> None:
    """Writes `elements`, of the shape and dtype of `node`, to the memory that it is a view of.

    Raises `UserError` for other nodes, and for a view that shows one element at several places.
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
            f"{device_of(node)} and what only moves its elements"
        )
    tracker = ShapeTracker.from_shape(shape_of(base))
    for step in (step for step in reversed(steps) if step.op is not Ops.DETACH):
        tracker = apply_movement(tracker, step.op, step.arg)
    places, is_held = tracker.numpy_indices(bindings_of(shape_of(node)))
    if not is_held.all() or np.unique(places).size != places.size:
        raise UserError(
            f"{name}: the target of shape {describe_shape(shape_of(node))} shows padding, or one "
            f"element of {device_of(node)} at several places: accepted is each element once"
        )
    memory = buffer_of(buffer)
    held = np.frombuffer(memory.copy_out(), elements.dtype)
    held[places] = elements
    memory.update(_bytes_of(held))


def _bytes_of(elements: Array) -> memoryview:
    return np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data


def stored_bits(node: UOp, dtype: DType) -> tuple[UOp, tuple[sint, ...]] | None:
    """The BUFFER of `node` read as `dtype`, and its shape: the last axis shrinks or grows.

    None where `node` is no stored BUFFER. Raises `UserError` where the last axis does not divide.
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
