"""Views of memory on devices that hold data and run no kernels: parts of the memory, at once.

Such a device cannot gather elements, so what is next to each other becomes a BUFFER of its own,
over the same memory and without a copy; a COPY to another device then moves just that part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyref.algebra.sizes import bindings_of
from tinyref.arrays import Array, np
from tinyref.device import Device
from tinyref.dtype import DType
from tinyref.errors import UserError
from tinyref.lazy.buffers import buffer_of, new_buffer_node, set_buffer
from tinyref.lazy.shape import describe_shape, device_of, shape_of
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.views.shape_tracker import ShapeTracker, apply_movement

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
