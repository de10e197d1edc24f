"""Builders of the tensor graph of an operation, also for tensors on several devices.

A tensor on several devices is a MULTI of one part per device (`lazy.shards`). The result of an
operation is again a MULTI of one result per device. One rule per op says which parts the operation
takes, and what is copied before. An operation has the same semantics as on one device. If the parts
alone are not enough, each device gets the whole tensor first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref import config
from tinyref.device import Device
from tinyref.dtype import DType
from tinyref.errors import UserError
from tinyref.lazy import graph
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shape import device_of, is_empty, product, shape_of
from tinyref.lazy.shards import (
    check_devices,
    common_layout,
    concatenate_parts,
    even_sizes,
    gather_to,
    join_parts,
    layout_of,
    part_of,
    parts_in,
    place_in_layout,
    replicate,
    shape_with_size,
    spans,
)
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, CASTS, Ops
from tinyref.uops.payload import (
    BoundsArg,
    CopyArg,
    FlipArg,
    Payload,
    PermuteArg,
    ReduceArg,
    ShapeArg,
    ShardArg,
)


def build(op: Ops, arg: Payload, dtype: DType | None, sources: Sequence[UOp]) -> UOp:
    """Return the node of the tensor graph for `op`; `dtype` is the target of a cast.

    Raises `UserError` for sources on different devices.
    """
    if isinstance(arg, ShardArg):
        return place_in_layout(sources[0], arg)
    if not any(source.op is Ops.MULTI for source in sources):
        return _plain(op, arg, dtype, sources)
    if op in ALU:
        return _elements(op, dtype, sources)
    if layout_of(sources[0]).axis is None and op not in (Ops.COPY, Ops.CONTIGUOUS):
        return _on_parts(sources[0], op, arg)
    return RULES[op](sources[0], arg)


def assign(target: UOp, value: UOp) -> UOp:
    """Write `value` to `target`, a view of a buffer or of one on each device; return the target.

    Raises the errors of `graph.assign`, and `UserError` if the target alone is on one device.
    """
    if target.op is not Ops.MULTI and value.op is not Ops.MULTI:
        return graph.assign(target, value)
    layout = common_layout("assign", (target, value))
    if target.op is not Ops.MULTI:
        check_devices("assign", target, layout.devices)
        raise UserError("assign: the target is a constant, accepted is a buffer: realise it")
    layout = layout_of(target)
    parts = parts_in(value, layout)
    if value.op is Ops.MULTI and value.arg != layout:
        # A moved part may be computed from elements of the target at other positions.
        parts = tuple(map(graph.contiguous, parts))
    pairs = zip(target.src, parts, strict=True)
    written = [part if is_empty(shape_of(part)) else graph.assign(part, new) for part, new in pairs]
    return join_parts(layout, written)


def bound(part: UOp, device: str) -> UOp:
    """Give `part` memory on `device` if nothing in its graph names a device.

    Otherwise two devices would share the node of such a part, but they cannot share its memory.
    """
    if device_of(part) is not None or is_empty(shape_of(part)):
        return part
    return graph.assign(graph.new_buffer(device, shape_of(part), part.dtype), part)


def _plain(op: Ops, arg: Payload, dtype: DType | None, sources: Sequence[UOp]) -> UOp:
    """Build the node on one device."""
    node = build_node(op, arg, dtype, sources)
    if node is None:
        raise TypeError(f"{op.name} has no builder")
    return node


def _elements(op: Ops, dtype: DType | None, sources: Sequence[UOp]) -> UOp:
    """Compute on each device its own elements; from a whole operand it takes the part it needs.

    Operands whose layout is not the common one (see `common_layout`) are moved to it.
    """
    layout = common_layout(op.name, sources)
    parts = [parts_in(source, layout) for source in sources]
    rows = zip(*parts, strict=True)
    return join_parts(layout, [_plain(op, None, dtype, operands) for operands in rows])


# --- one rule per op, for a tensor in parts; for a replicated tensor few ops need their rule ------

Rule = Callable[[UOp, Payload], UOp]
RULES: dict[Ops, Rule] = {}


def rule(op: Ops) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of `op` for a MULTI."""

    def enter(function: Rule) -> Rule:
        RULES[op] = function
        return function

    return enter


def _on_parts(node: UOp, op: Ops, arg: Payload) -> UOp:
    """Apply the same operation to every part."""
    return join_parts(layout_of(node), [_plain(op, arg, None, (part,)) for part in node.src])


def _layout_and_axis(node: UOp) -> tuple[ShardArg, int]:
    """Return the layout of a MULTI of parts, and its axis."""
    layout = layout_of(node)
    assert layout.axis is not None, "each device has a part"
    return layout, layout.axis


def _on_wholes(node: UOp, op: Ops, arg: Payload) -> UOp:
    """Apply the operation on each device to the whole tensor, which is copied there first."""
    return _on_parts(replicate(node, layout_of(node).devices), op, arg)


@rule(Ops.COPY)
def copy(node: UOp, arg: Payload) -> UOp:
    """Gather the parts on one device."""
    assert isinstance(arg, CopyArg), "COPY carries its device"
    if Device.runs_kernels(arg.device):
        return gather_to(node, arg.device)
    return graph.copy(gather_to(node, layout_of(node).devices[0]), arg.device)


@rule(Ops.DETACH)
def detach(node: UOp, arg: Payload) -> UOp:
    """Detach each part."""
    return _on_parts(node, Ops.DETACH, arg)


@rule(Ops.CONTIGUOUS)
def contiguous(node: UOp, arg: Payload) -> UOp:
    """Give each part memory on its device."""
    layout = layout_of(node)
    parts = zip(node.src, layout.devices, strict=True)
    return join_parts(layout, [graph.contiguous(bound(part, device)) for part, device in parts])


@rule(Ops.RESHAPE)
def reshape(node: UOp, arg: Payload) -> UOp:
    """Reshape each part, if an axis of the new shape is cut at the same elements."""
    assert isinstance(arg, ShapeArg), "RESHAPE carries its shape"
    layout, axis = _layout_and_axis(node)
    cut = _axis_cut_alike(shape_of(node), axis, layout.sizes, arg.shape)
    if cut is None or sum(cut[1]) != arg.shape[cut[0]]:
        return _on_wholes(node, Ops.RESHAPE, arg)
    new, sizes = cut
    shapes = [shape_with_size(arg.shape, new, size) for size in sizes]
    parts = [graph.reshape(part, shape) for part, shape in zip(node.src, shapes, strict=True)]
    return join_parts(ShardArg(layout.devices, new, sizes), parts)


def _axis_cut_alike(
    have: tuple[sint, ...], axis: int, sizes: tuple[int, ...], want: tuple[sint, ...]
) -> tuple[int, tuple[int, ...]] | None:
    """Return the axis of `want` that has the same parts as `axis` of `have`, and their sizes."""
    before, after = product(have[:axis]), product(have[axis + 1 :])
    for new in range(len(want)):
        if product(want[:new]) != before:
            continue
        rest = product(want[new + 1 :])
        if rest == after:
            return new, sizes
        if not isinstance(rest, int) or not isinstance(after, int) or rest == 0:
            continue
        counts = [size * after for size in sizes]
        if all(count % rest == 0 for count in counts):
            return new, tuple(count // rest for count in counts)
    return None


@rule(Ops.PERMUTE)
def permute(node: UOp, arg: Payload) -> UOp:
    """Permute each part; the axis of the layout moves with it."""
    assert isinstance(arg, PermuteArg), "PERMUTE carries its order"
    layout, axis = _layout_and_axis(node)
    moved = ShardArg(layout.devices, arg.order.index(axis), layout.sizes)
    return join_parts(moved, [graph.permute(part, arg.order) for part in node.src])


@rule(Ops.EXPAND)
def expand(node: UOp, arg: Payload) -> UOp:
    """Expand each part; if the axis of the layout itself is repeated, expand the whole."""
    assert isinstance(arg, ShapeArg), "EXPAND carries its shape"
    layout, axis = _layout_and_axis(node)
    if shape_of(node)[axis] != arg.shape[axis]:
        return _on_wholes(node, Ops.EXPAND, arg)
    shapes = [shape_with_size(arg.shape, axis, size) for size in layout.sizes]
    pairs = zip(node.src, shapes, strict=True)
    return join_parts(layout, [graph.expand(part, shape) for part, shape in pairs])


@rule(Ops.PAD)
def pad(node: UOp, arg: Payload) -> UOp:
    """Pad each part; along the axis of the layout pad only the first and the last part."""
    assert isinstance(arg, BoundsArg), "PAD carries its amounts"
    layout, axis = _layout_and_axis(node)
    before, after = arg.bounds[axis]
    if not isinstance(before, int) or not isinstance(after, int):
        return _on_wholes(node, Ops.PAD, arg)
    last = len(layout.sizes) - 1
    amounts = [
        (before if number == 0 else 0, after if number == last else 0) for number in range(last + 1)
    ]
    sizes = [size + sum(both) for size, both in zip(layout.sizes, amounts, strict=True)]
    grown = [
        graph.pad(part, (*arg.bounds[:axis], both, *arg.bounds[axis + 1 :]))
        for part, both in zip(node.src, amounts, strict=True)
    ]
    return join_parts(ShardArg(layout.devices, axis, tuple(sizes)), grown)


@rule(Ops.SHRINK)
def shrink(node: UOp, arg: Payload) -> UOp:
    """Shrink each part; along the axis of the layout a part may become empty."""
    assert isinstance(arg, BoundsArg), "SHRINK carries its bounds"
    layout, axis = _layout_and_axis(node)
    begin, end = arg.bounds[axis]
    if not isinstance(begin, int) or not isinstance(end, int):
        return _on_wholes(node, Ops.SHRINK, arg)
    shrunk = []
    for part, (low, high) in zip(node.src, spans(layout), strict=True):
        first = min(max(begin - low, 0), high - low)
        last = max(min(end - low, high - low), first)
        bounds = (*arg.bounds[:axis], (first, last), *arg.bounds[axis + 1 :])
        shrunk.append((graph.shrink(part, bounds), last - first))
    sizes = tuple(size for _, size in shrunk)
    return join_parts(ShardArg(layout.devices, axis, sizes), [part for part, _ in shrunk])


@rule(Ops.FLIP)
def flip(node: UOp, arg: Payload) -> UOp:
    """Flip each part; along the axis of the layout also reverse the order of the parts."""
    assert isinstance(arg, FlipArg), "FLIP carries its axes"
    layout, axis = _layout_and_axis(node)
    flipped = [graph.flip(part, arg.axes) for part in node.src]
    if axis not in arg.axes:
        return join_parts(layout, flipped)
    moved = [
        graph.copy(part, device)
        for part, device in zip(reversed(flipped), layout.devices, strict=True)
    ]
    return join_parts(ShardArg(layout.devices, axis, layout.sizes[::-1]), moved)


@rule(Ops.REDUCE)
def reduce(node: UOp, arg: Payload) -> UOp:
    """Reduce each part; over the axis of the layout, combine the results on all devices."""
    assert isinstance(arg, ReduceArg), "REDUCE carries its op and axes"
    layout, axis = _layout_and_axis(node)
    if axis not in arg.axes:
        return _on_parts(node, Ops.REDUCE, arg)
    filled = [number for number, size in enumerate(layout.sizes) if size]
    if not filled:
        return _on_wholes(node, Ops.REDUCE, arg)
    results = [graph.reduce(arg.op, node.src[number], arg.axes) for number in filled]
    combined = _combine_parts(arg.op, results, [layout.devices[number] for number in filled])
    # A device without elements gets the result of another one.
    local = dict(zip(filled, combined, strict=True))
    everywhere = [
        local[number] if number in local else graph.copy(combined[0], device)
        for number, device in enumerate(layout.devices)
    ]
    return join_parts(ShardArg(layout.devices), everywhere)


def _combine_parts(op: Ops, parts: list[UOp], devices: list[str]) -> list[UOp]:
    if all(uniform_value(part) is not None for part in parts):
        whole = parts[0]
        for part in parts[1:]:
            whole = graph.alu(op, whole, part)
        return [whole] * len(parts)
    return all_reduce(op, parts, devices)


# --- all-reduce -----------------------------------------------------------------------------------


# With the flag RING at 1, the ring is used from this number of elements on.
LONG = 1 << 18
# With two devices the ring saves nothing.
FEWEST = 3


def all_reduce(op: Ops, parts: Sequence[UOp], devices: Sequence[str]) -> list[UOp]:
    """Combine `parts`, the i-th on `devices[i]`, by ADD, MUL or MAX; return a result per device."""
    # The parts are stored, so that all devices combine the same bits, whatever they are fused with.
    parts = [graph.contiguous(part) for part in parts]
    return (_ring if _takes_ring(parts[0], len(devices)) else _naive)(op, parts, devices)


def _takes_ring(part: UOp, count: int) -> bool:
    size = product(shape_of(part))
    if not isinstance(size, int) or count < 2:
        return False
    ring = config.integer("RING")
    return ring == 2 or (ring == 1 and count >= FEWEST and size >= LONG)


def _naive(op: Ops, parts: Sequence[UOp], devices: Sequence[str]) -> list[UOp]:
    results = []
    for device in devices:
        first, *others = [graph.copy(part, device) for part in parts]
        for other in others:
            first = graph.alu(op, first, other)
        results.append(first)
    return results


def _ring(op: Ops, parts: Sequence[UOp], devices: Sequence[str]) -> list[UOp]:
    shape = shape_of(parts[0])
    size = product(shape)
    assert isinstance(size, int), "the ring is not used for symbolic sizes"
    flat = [graph.reshape(part, (size,)) for part in parts]
    chunks: list[list[UOp]] = [[] for _ in devices]
    begin = 0
    for number, length in enumerate(even_sizes(size, len(devices))):
        shares = [part_of(part, 0, begin, begin + length) for part in flat]
        begin += length
        for position, chunk in enumerate(_once_around(op, shares, devices, number)):
            chunks[position].append(chunk)
    return [graph.reshape(concatenate_parts(pieces, 0), shape) for pieces in chunks]


def _once_around(op: Ops, shares: Sequence[UOp], devices: Sequence[str], start: int) -> list[UOp]:
    """Combine one chunk on its way around from device `start`, then pass the result to all."""
    count = len(devices)
    chunk = shares[start]
    for step in range(1, count):
        number = (start + step) % count
        chunk = graph.alu(op, graph.copy(chunk, devices[number]), shares[number])
    # The device before the first one has the result.
    last = (start - 1) % count
    results = {last: graph.contiguous(chunk)}
    for step in range(1, count):
        number = (last + step) % count
        results[number] = graph.copy(results[(number - 1) % count], devices[number])
    return [results[number] for number in range(count)]


# --- one node by its op and payload ---------------------------------------------------------------


def build_node(op: Ops, arg: Payload, dtype: DType | None, sources: Sequence[UOp]) -> UOp | None:
    """Build the node for `op`, with folding; None for an op that has no builder here.

    dtype: the target of a cast. Raises the errors of the builders.
    """
    if op in CASTS and dtype is not None:
        make = graph.cast if op is Ops.CAST else graph.bitcast
        return make(sources[0], dtype)
    if op in ALU:
        return graph.alu(op, *sources)
    match op:
        case Ops.DETACH:
            return graph.detach(sources[0])
        case Ops.CONTIGUOUS:
            return graph.contiguous(sources[0])
        case Ops.ASSIGN:
            return graph.assign(*sources)
    return _with_payload(op, arg, sources)


def _with_payload(op: Ops, arg: Payload, sources: Sequence[UOp]) -> UOp | None:
    match arg:
        case ShapeArg(shape) if op is Ops.IOTA:
            return graph.iota(shape[0])
        case ShapeArg(shape):
            reshaping = graph.reshape if op is Ops.RESHAPE else graph.expand
            return reshaping(sources[0], shape)
        case PermuteArg(order):
            return graph.permute(sources[0], order)
        case BoundsArg(bounds):
            resizing = graph.pad if op is Ops.PAD else graph.shrink
            return resizing(sources[0], bounds)
        case FlipArg(axes):
            return graph.flip(sources[0], axes)
        case ReduceArg(reducing, axes):
            return graph.reduce(reducing, sources[0], axes)
        case CopyArg(device):
            return graph.copy(sources[0], device)
    return None
