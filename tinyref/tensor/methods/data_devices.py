"""Writing to tensors on devices that only hold data: what is written is computed elsewhere first.

It is written at once, so whatever waits to be computed from the old bytes is computed before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref.arrays import Array
from tinyref.lazy.buffers import buffer_of, only_holds_data, overwrite
from tinyref.lazy.graph import device_of, new_buffer
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.tensor.values.core import TensorCore, registry
from tinyref.tensor.values.registry import below_views, shown_buffers
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

Compute = Callable[[Sequence[TensorCore]], None]


def write_held(
    tensor: TensorCore, elements: Callable[[], Array], name: str, compute: Compute
) -> None:
    """Writes what `elements` reads where `tensor`, on a device that only holds data, shows it.

    A copy to there is made before it is written. Raises `UserError` within a capture, and for what
    shows one element at several places.
    """
    from tinyref.engine.capture import forbid_while_capturing

    device = device_of(tensor._node)
    forbid_while_capturing(f"{device} is assigned to")
    found = elements()
    if below_views(tensor._node).op is Ops.COPY:
        compute([tensor])
    _keep_old(device, compute)
    overwrite(tensor._node, found, name)


def _keep_old(device: str | None, compute: Compute) -> None:
    """Computes what is to be computed from bytes of `device`; its views show the new ones."""
    for value in registry.computable():
        if shown_buffers(value.node) or not _reads_device(value.node, device):
            continue
        if value.tensor is None:
            # Only gradients may want it, and they are refused then.
            value.is_overwritten = True
        else:
            compute([value.tensor])


def _reads_device(node: UOp, device: str | None) -> bool:
    arguments = (part.arg for part in toposort([node]) if part.op is Ops.BUFFER)
    return any(isinstance(found, BufferArg) and found.device == device for found in arguments)


def write_empty(tensors: Sequence[TensorCore]) -> None:
    """A copy without elements to a device that only holds data has memory too: an empty file."""
    for tensor in tensors:
        node = tensor._node
        if node.op is Ops.COPY and is_empty(shape_of(node)) and only_holds_data(node):
            held = new_buffer(device_of(node) or "", shape_of(node), node.dtype)
            for buffer in shown_buffers(held):
                buffer_of(buffer).copy_in(memoryview(b""))
            tensor._value.node = held
            registry.add(tensor._value)
