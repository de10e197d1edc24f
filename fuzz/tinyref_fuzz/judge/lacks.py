"""Find what a kernel needs that a device declares not to have, so that it may refuse the kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tinyref.algebra.bounds import bounds
from tinyref.algebra.shapes import output_shape
from tinyref.capabilities import Capabilities
from tinyref.dtype import ImageDType, PtrDType, dtypes
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.views.shape_tracker import tracker_of
from tinyref.views.view import View


def declared_lack(ast: UOp, capabilities: Capabilities) -> str:
    """Name what the kernel `ast` needs and the device lacks: it may refuse the kernel.

    That is a type, images, long positions, buffers or a larger grid; "" if it must run it.
    """
    accepted = capabilities.dtypes | capabilities.emulated
    slots = set()
    for node in ast.toposort():
        if isinstance(node.arg, SlotArg):
            slots.add(node.arg.slot)
        if isinstance(node.dtype, ImageDType) and not capabilities.images:
            return "images"
        dtype = node.dtype.value if isinstance(node.dtype, PtrDType) else node.dtype
        if dtype not in (dtypes.void, dtypes.index) and dtype.scalar not in accepted:
            return dtype.scalar.name
        if node.op is Ops.BITCAST and _is_wide(node) and dtypes.int64 not in capabilities.dtypes:
            return "a BITCAST of 64 bits"
    if len(slots) > capabilities.buffer_limit:
        return f"{len(slots)} buffers"
    if dtypes.int64 not in capabilities.dtypes and any(map(has_long_positions, ast.toposort())):
        return "positions beyond 32 bits"
    shape = output_shape(ast)
    most = math.prod(size if isinstance(size, int) else bounds(size)[1] for size in shape)
    if capabilities.has_grid and most > math.prod(capabilities.grid_limit):
        return f"a grid of {most}"
    return ""


def _is_wide(node: UOp) -> bool:
    return any(value.dtype.itemsize == 8 for value in (node, node.src[0]))


def has_long_positions(node: UOp) -> bool:
    """Return True if a view has positions or partial indices that do not fit in 32 bits.

    A mask makes no difference: an index is computed before it is discarded.
    """
    return isinstance(node.arg, ViewArg) and any(
        max(_positions_and_indices(view)) > dtypes.int32.maximum for view in tracker_of(node).views
    )


def _positions_and_indices(view: View) -> Iterator[int]:
    """Yield the number of positions, and the largest absolute values of partial indices."""
    sizes = [max(_ends(size)) for size in view.shape]
    yield math.prod(sizes)
    steps = [
        [max(size - 1, 0) * end for end in _ends(stride)]
        for size, stride in zip(sizes, view.strides, strict=True)
    ]
    low = sum(min(0, *ends) for ends in steps)
    high = sum(max(0, *ends) for ends in steps)
    least, most = _ends(view.offset)
    yield from map(abs, (low, high, least, most, low + least, high + most))


def _ends(number: sint) -> tuple[int, int]:
    return bounds(number) if isinstance(number, UOp) else (number, number)
