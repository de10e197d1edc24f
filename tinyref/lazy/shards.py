"""Where a tensor lies on several devices: its layout, its parts, and moving it to another layout.

A tensor on several devices is one MULTI node, always the root of its graph: its sources are the
parts that lie on each device. `lazy.multi` builds what operations make of it from these parts.
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

# Where a tensor lies: on one device, or on several.
Place = str | tuple[str, ...]


def canonical_place(device: object) -> Place:
    """The name of one device, None for the default one, or those of several, in their one spelling.

    Raises `UserError` for names that no backend declares, for none and for one named twice.
    """
    if not isinstance(device, tuple | list):
        return Device.canonical(device)  # type: ignore[arg-type]  # it refuses what is no name
    return canonical_devices(device)


def canonical_devices(devices: Sequence[object]) -> tuple[str, ...]:
    """The names of several devices in their one spelling. Raises `UserError`."""
    for device in devices:
        if not isinstance(device, str):
            raise UserTypeError(f"devices: got {device!r}, accepted are names such as 'CPU:1'")
    names = tuple(Device.canonical(str(device)) for device in devices)
    if not names:
        raise UserError("devices: got none, accepted are one name or more")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UserError(f"devices: {name} is named twice: each device holds one part")
    return names


def layout_of(node: UOp) -> ShardArg:
    """How a MULTI lies on its devices."""
    assert isinstance(node.arg, ShardArg), "a MULTI says where its sources lie"
    return node.arg


def spans(layout: ShardArg) -> list[tuple[int, int]]:
    """Where each part begins and ends along the axis of a layout that has one."""
    ends = list(itertools.accumulate(layout.sizes))
    return list(zip([0, *ends[:-1]], ends, strict=True))


def even_sizes(size: int, count: int) -> tuple[int, ...]:
    """`size` in `count` parts that differ by at most one, the larger ones first."""
    whole, rest = divmod(size, count)
    return tuple(whole + (number < rest) for number in range(count))


def join_parts(layout: ShardArg, parts: Sequence[UOp]) -> UOp:
    """The MULTI of `parts`, one per device of `layout`."""
    return UOp(Ops.MULTI, parts[0].dtype, tuple(parts), layout)


def shape_with_size(shape: Sequence[sint], axis: int, size: sint) -> tuple[sint, ...]:
    """`shape` with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def part_of(node: UOp, axis: int, begin: int, end: int) -> UOp:
    """The elements from `begin` to before `end` of one axis.

    A repeated axis is repeated less often; that is easier to fuse than a part of all repetitions.
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
    """`parts`, all on one device, end to end along `axis`: the very bits, of any dtype."""
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
    """The whole of `node` on each device."""
    return place_in_layout(node, ShardArg(devices))


def place_in_layout(node: UOp, layout: ShardArg) -> UOp:
    """`node`, wherever it lies, in `layout`; only what a device does not have is copied to it."""
    if node.op is Ops.MULTI and node.arg == layout:
        return node
    if layout.axis is None:
        return join_parts(layout, [gather_to(node, device) for device in layout.devices])
    cuts = zip(layout.devices, spans(layout), strict=True)
    return join_parts(layout, [_piece(node, device, layout.axis, *span) for device, span in cuts])


def gather_to(node: UOp, device: str) -> UOp:
    """The whole of `node` on one device."""
    if node.op is not Ops.MULTI:
        return graph.copy(node, device)
    layout = layout_of(node)
    if layout.axis is None:
        return graph.copy(_nearest(node, device), device)
    return concatenate_parts([graph.copy(part, device) for part in node.src], layout.axis)


def _piece(node: UOp, device: str, axis: int, begin: int, end: int) -> UOp:
    """A part of `node` on one device."""
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
    """The source of a replicated MULTI that is on `device`, or any."""
    devices = layout_of(node).devices
    return node.src[devices.index(device) if device in devices else 0]


def common_layout(name: str, sources: Sequence[UOp]) -> ShardArg:
    """The layout in which an operation on elements of `sources` runs.

    That is the first layout with an axis; where the axis is the same but the sizes differ, in even
    parts. Raises `UserError` for sources on different devices.
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
    """Raises `UserError` unless `source` lies on `devices`, or is made of constants alone."""
    found: Place | None
    found = layout_of(source).devices if source.op is Ops.MULTI else device_of(source)
    if found not in (devices, None):
        raise UserError(
            f"{name.lower()}: tensors are on {describe_place(devices)} and "
            f"{describe_place(found or '')}: bring them together with .to(device)"
        )


def describe_place(place: Place) -> str:
    """A device, or several, for a message."""
    return place if isinstance(place, str) else f"({', '.join(place)})"


def parts_in(node: UOp, layout: ShardArg) -> tuple[UOp, ...]:
    """What each device of `layout` has to have of `node`; a scalar is the whole everywhere."""
    if node.op is Ops.MULTI and node.arg == layout:
        return node.src
    if not shape_of(node):
        layout = ShardArg(layout.devices)
    return place_in_layout(node, layout).src


def first_device(place: Place) -> str:
    """The one device of a place, or the first of several."""
    return place if isinstance(place, str) else place[0]


def new_buffer(place: Place, shape: Sequence[sint], dtype: DType) -> UOp:
    """Fresh, unwritten memory of `shape`, on each device where there are several."""
    if isinstance(place, str):
        return graph.new_buffer(place, shape, dtype)
    return join_parts(ShardArg(place), [graph.new_buffer(device, shape, dtype) for device in place])


def on_place(node: UOp, place: Place) -> UOp:
    """`node` in the form that tensors on `place` have: a MULTI where that is several devices."""
    if isinstance(place, str) or node.op is Ops.MULTI:
        return node
    return replicate(node, place)


def describe_layout(node: UOp, place: Place) -> str:
    """Where a tensor lies, and along which axis in parts of which sizes."""
    layout = node.arg
    if not isinstance(layout, ShardArg) or layout.axis is None:
        return describe_place(place)
    return f"{describe_place(place)}, axis {layout.axis} in {layout.sizes}"
