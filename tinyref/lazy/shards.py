"""Tensors on several devices: layouts, parts, and moves to another layout.

A tensor on several devices is one MULTI node, which is always the root of its graph. Its sources
are the parts on each device. `lazy.multi` builds operations from these parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tinyref.device import Device
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.folding import full, uniform_value
from tinyref.lazy.shape import device_of, shape_of
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, PermuteArg, ShardArg

# The devices of a tensor: one name, or several.
Place = str | tuple[str, ...]


def canonical_place(device: object) -> Place:
    """Return the canonical name of a device (None is the default one), or of several devices.

    Raises `UserError` for names that no backend declares, for no name, and for one named twice.
    """
    if not isinstance(device, tuple | list):
        return Device.canonical(device)  # type: ignore[arg-type]  # it refuses what is no name
    return canonical_devices(device)


def canonical_devices(devices: Sequence[object]) -> tuple[str, ...]:
    """Return the canonical names of several devices. Raises `UserError`."""
    for device in devices:
        if not isinstance(device, str):
            raise UserTypeError(f"devices: got {device!r}, accepted are names such as 'CPU:1'")
    names = tuple(Device.canonical(str(device)) for device in devices)
    if not names:
        raise UserError("devices: got none, accepted are one name or more")
    for number, name in enumerate(names):
        if name in names[:number]:
            raise UserError(f"devices: {name} is named twice: each device holds one part")
    return names


def layout_of(node: UOp) -> ShardArg:
    """Return the layout of a MULTI."""
    assert isinstance(node.arg, ShardArg), "a MULTI has a layout"
    return node.arg


def spans(layout: ShardArg) -> list[tuple[int, int]]:
    """Return (begin, end) of each part along the axis of a layout that has one."""
    ends = list(itertools.accumulate(layout.sizes))
    return list(zip([0, *ends[:-1]], ends, strict=True))


def even_sizes(size: int, count: int) -> tuple[int, ...]:
    """Split `size` into `count` parts that differ by at most one, the larger ones first."""
    whole, rest = divmod(size, count)
    return tuple(whole + (number < rest) for number in range(count))


def join_parts(layout: ShardArg, parts: Sequence[UOp]) -> UOp:
    """Return the MULTI of `parts`, one per device of `layout`."""
    return UOp(Ops.MULTI, parts[0].dtype, tuple(parts), layout)


def shape_with_size(shape: Sequence[sint], axis: int, size: sint) -> tuple[sint, ...]:
    """Return `shape` with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def part_of(node: UOp, axis: int, begin: int, end: int) -> UOp:
    """Take the elements from `begin` to `end` of one axis, end excluded.

    A repeated axis is repeated less often: this fuses better than a part of all repetitions.
    """
    shape = shape_of(node)
    if (begin, end) == (0, shape[axis]):
        return node
    if node.op is Ops.EXPAND and shape_of(node.src[0])[axis] == 1:
        return graph.expand(node.src[0], shape_with_size(shape, axis, end - begin))
    if node.op is Ops.PERMUTE and isinstance(node.arg, PermuteArg):
        order = node.arg.order
        return graph.permute(part_of(node.src[0], order[axis], begin, end), order)
    bounds: list[tuple[sint, sint]] = [(0, size) for size in shape]
    bounds[axis] = (begin, end)
    return graph.shrink(node, bounds)


def concatenate_parts(parts: Sequence[UOp], axis: int) -> UOp:
    """Concatenate `parts`, all on one device, along `axis`; their bits stay the same."""
    filled = [part for part in parts if shape_of(part)[axis] != 0]
    if len(filled) <= 1:
        return (filled or parts)[0]
    sizes = [_length(part, axis) for part in filled]
    total = sum(sizes)
    shape = shape_with_size(shape_of(filled[0]), axis, total)
    values = [uniform_value(part) for part in filled]
    if values[0] is not None and None not in values:
        first, *others = [ConstArg(value) for value in values if value is not None]
        if all(other == first for other in others):
            return full(shape, values[0], filled[0].dtype)
    ends = list(itertools.accumulate(sizes))
    placed = [
        graph.pad(part, _along(len(shape), axis, end - size, total - end))
        for part, size, end in zip(filled, sizes, ends, strict=True)
    ]
    result = placed[-1]
    for part, end in zip(reversed(placed[:-1]), reversed(ends[:-1]), strict=True):
        true = full(shape_with_size((1,) * len(shape), axis, end), True, dtypes.bool)
        mask = graph.pad(true, _along(len(shape), axis, 0, total - end))
        result = graph.where(graph.expand(mask, shape), part, result)
    return result


def _length(node: UOp, axis: int) -> int:
    size = shape_of(node)[axis]
    assert isinstance(size, int), "parts lie along axes of fixed sizes"
    return size


def _along(rank: int, axis: int, before: int, after: int) -> list[tuple[sint, sint]]:
    bounds: list[tuple[sint, sint]] = [(0, 0)] * rank
    bounds[axis] = (before, after)
    return bounds


def replicate(node: UOp, devices: tuple[str, ...]) -> UOp:
    """Copy the whole of `node` to each device."""
    return place_in_layout(node, ShardArg(devices))


def place_in_layout(node: UOp, layout: ShardArg) -> UOp:
    """Move `node` to `layout`; a device gets copies only of elements that it does not have."""
    if node.op is Ops.MULTI and node.arg == layout:
        return node
    if layout.axis is None:
        return join_parts(layout, [gather_to(node, device) for device in layout.devices])
    cuts = zip(layout.devices, spans(layout), strict=True)
    return join_parts(layout, [_piece(node, device, layout.axis, *span) for device, span in cuts])


def gather_to(node: UOp, device: str) -> UOp:
    """Copy the whole of `node` to one device."""
    if node.op is not Ops.MULTI:
        return graph.copy(node, device)
    layout = layout_of(node)
    if layout.axis is None:
        return graph.copy(_nearest(node, device), device)
    return concatenate_parts([graph.copy(part, device) for part in node.src], layout.axis)


def _piece(node: UOp, device: str, axis: int, begin: int, end: int) -> UOp:
    """Copy a part of `node` to one device."""
    if node.op is not Ops.MULTI:
        return graph.copy(part_of(node, axis, begin, end), device)
    layout = layout_of(node)
    if layout.axis is None:
        return graph.copy(part_of(_nearest(node, device), axis, begin, end), device)
    if layout.axis != axis:
        pieces = [part_of(part, axis, begin, end) for part in node.src]
        return concatenate_parts([graph.copy(piece, device) for piece in pieces], layout.axis)
    pieces = []
    for part, (low, high) in zip(node.src, spans(layout), strict=True):
        first = min(max(begin - low, 0), high - low)
        last = max(min(end - low, high - low), first)
        pieces.append(graph.copy(part_of(part, axis, first, last), device))
    return concatenate_parts(pieces, axis)


def _nearest(node: UOp, device: str) -> UOp:
    """Return the source of a replicated MULTI that is on `device`, or any source."""
    devices = layout_of(node).devices
    return node.src[devices.index(device) if device in devices else 0]


def common_layout(name: str, sources: Sequence[UOp]) -> ShardArg:
    """Return the layout in which an operation on elements of `sources` runs.

    This is the first layout with an axis. If all have this axis but different sizes, the layout
    has even parts. Raises `UserError` for sources on different devices.
    """
    layouts = [layout_of(source) for source in sources if source.op is Ops.MULTI]
    devices = layouts[0].devices
    for source in sources:
        check_devices(name, source, devices)
    along = [layout for layout in layouts if layout.axis is not None]
    if not along:
        return ShardArg(devices)
    first = along[0]
    if all(layout.axis == first.axis for layout in along) and len(set(along)) > 1:
        return ShardArg(devices, first.axis, even_sizes(sum(first.sizes), len(devices)))
    return first


def check_devices(name: str, source: UOp, devices: tuple[str, ...]) -> None:
    """Raise `UserError` unless `source` is on `devices`, or consists of constants alone."""
    actual: Place | None
    actual = layout_of(source).devices if source.op is Ops.MULTI else device_of(source)
    if actual not in (devices, None):
        raise UserError(
            f"{name.lower()}: tensors are on {describe_place(devices)} and "
            f"{describe_place(actual or '')}: bring them together with .to(device)"
        )


def describe_place(place: Place) -> str:
    """Return the text of a device, or of several, for a message."""
    return place if isinstance(place, str) else f"({', '.join(place)})"


def parts_in(node: UOp, layout: ShardArg) -> tuple[UOp, ...]:
    """Return the parts of `node` in `layout`; every device has the whole of a scalar."""
    if node.op is Ops.MULTI and node.arg == layout:
        return node.src
    if not shape_of(node):
        layout = ShardArg(layout.devices)
    return place_in_layout(node, layout).src


def first_device(place: Place) -> str:
    """Return the only device, or the first of several."""
    return place if isinstance(place, str) else place[0]


def new_buffer(place: Place, shape: Sequence[sint], dtype: DType) -> UOp:
    """Return new, unwritten memory of `shape`, on each device if there are several."""
    if isinstance(place, str):
        return graph.new_buffer(place, shape, dtype)
    return join_parts(ShardArg(place), [graph.new_buffer(device, shape, dtype) for device in place])


def on_place(node: UOp, place: Place) -> UOp:
    """Return `node` in the form of tensors on `place`: a MULTI if these are several devices."""
    if isinstance(place, str) or node.op is Ops.MULTI:
        return node
    return replicate(node, place)


def describe_layout(node: UOp, place: Place) -> str:
    """Return the text of the devices of a tensor, and the axis and sizes of its parts."""
    layout = node.arg
    if not isinstance(layout, ShardArg) or layout.axis is None:
        return describe_place(place)
    return f"{describe_place(place)}, axis {layout.axis} in {layout.sizes}"
