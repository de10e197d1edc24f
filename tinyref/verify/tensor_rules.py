"""The rules of tensor graphs."""

from __future__ import annotations

import itertools

from tinyref.algebra.bounds import bounds
from tinyref.algebra.shapes import device_of, shape_of
from tinyref.algebra.sizes import constraints_of, is_certain, require
from tinyref.algebra.symbolic import describe_shape, lift, lowest
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, MOVEMENT, Dialect, Ops
from tinyref.uops.payload import BufferArg, ReduceArg, ShapeArg, ShardArg
from tinyref.verify.common import Finding, Graph, Rules, add_op_rules, add_variable_rule, identity
from tinyref.views.shape_tracker import ShapeTracker, apply_movement

TENSOR = Rules(Dialect.TENSOR)
add_op_rules(TENSOR)
add_variable_rule(TENSOR)


@TENSOR.local("buffer.1", Ops.BUFFER)
def buffer_has_a_size(node: UOp, graph: Graph, _: int) -> Finding:
    """A BUFFER holds 0 or more elements, on a device."""
    if not isinstance(node.arg, BufferArg) or (node.arg.size >= 0 and node.arg.device):
        return None
    return "0 or more elements on a device", f"{node.arg.size} on {node.arg.device!r}"


@TENSOR.graph("buffer.2", Ops.BUFFER)
def buffer_has_a_number_of_its_own(node: UOp, graph: Graph, _: int) -> Finding:
    """BUFFERs of one number have one device, one size and one type."""
    first = graph.first[identity(node)]
    if first is node:
        return None
    return f"{first.dtype.name} {first.arg}", f"{node.dtype.name} {node.arg}"


@TENSOR.local("iota.1", Ops.IOTA)
def numbers_one_axis(node: UOp, graph: Graph, _: int) -> Finding:
    """IOTA has one axis, with no more elements than its type can number."""
    shape = node.arg.shape if isinstance(node.arg, ShapeArg) else ()
    if len(shape) != 1 or node.src:
        return "the shape of one axis alone", f"{describe_shape(shape)}, {len(node.src)} sources"
    low, high = (shape[0], shape[0]) if isinstance(shape[0], int) else bounds(shape[0])
    if (low >= 0 or not is_certain(node)) and high <= node.dtype.maximum:
        return None
    return f"0 to {node.dtype.maximum} elements", f"{low} to {high}"


@TENSOR.local("shape.1", *ALU)
def operands_have_one_shape(node: UOp, graph: Graph, _: int) -> Finding:
    """All operands of an operation on elements have one shape."""
    first = shape_of(node.src[0])
    for source in node.src[1:]:
        if shape_of(source) != first:
            return f"the shape {describe_shape(first)}", describe_shape(shape_of(source))
    return None


@TENSOR.local("shape.2", *MOVEMENT)
def movement_is_possible(node: UOp, graph: Graph, _: int) -> Finding:
    """A movement fits the shape that it moves."""
    shape = shape_of(node.src[0])
    try:
        # If some values of variables make a size negative, the source node has this constraint.
        if not is_certain(node) or any(lowest(lift(size)) < 0 for size in shape):
            require(constraints_of(node))
            return None
        apply_movement(ShapeTracker.from_shape(shape), node.op, node.arg)
    except UserError as error:
        return f"a movement of the shape {describe_shape(shape)}", str(error)
    return None


@TENSOR.local("reduce.1", Ops.REDUCE)
def reduces_axes_that_exist(node: UOp, graph: Graph, _: int) -> Finding:
    """REDUCE has one source and names axes of it, each once, in rising order."""
    rank = len(shape_of(node.src[0]))
    axes = node.arg.axes if isinstance(node.arg, ReduceArg) else ()
    rises = all(low < high for low, high in itertools.pairwise(axes))
    if len(node.src) == 1 and rises and all(0 <= axis < rank for axis in axes):
        return None
    return f"one source and rising axes below {rank}", f"{len(node.src)} sources and axes {axes}"


@TENSOR.local("assign.1", Ops.ASSIGN)
def assigns_one_shape(node: UOp, graph: Graph, _: int) -> Finding:
    """Target and value of an ASSIGN have one shape."""
    target, value = (shape_of(source) for source in node.src)
    return None if target == value else (describe_shape(target), describe_shape(value))


@TENSOR.local("assign.2", Ops.ASSIGN)
def assigns_to_a_buffer(node: UOp, graph: Graph, _: int) -> Finding:
    """The target of an ASSIGN is a BUFFER, which may be moved, but neither repeated nor padded."""
    base = node.src[0]
    while base.op in MOVEMENT and base.op not in (Ops.EXPAND, Ops.PAD):
        base = base.src[0]
    # If the target is another ASSIGN, the rule checks that one too.
    if base.op in (Ops.BUFFER, Ops.ASSIGN):
        return None
    return "a BUFFER under RESHAPE, PERMUTE, SHRINK or FLIP", base.op.name


@TENSOR.local("multi.1", Ops.MULTI)
def has_a_source_per_device(node: UOp, graph: Graph, _: int) -> Finding:
    """MULTI has one source for each of its devices, and no device twice."""
    devices = node.arg.devices if isinstance(node.arg, ShardArg) else ()
    if len(node.src) == len(set(devices)) == len(devices):
        return None
    return "one source for each device, and no device twice", f"{len(node.src)} for {devices}"


@TENSOR.local("multi.2", Ops.MULTI)
def sources_are_where_it_says(node: UOp, graph: Graph, _: int) -> Finding:
    """Each source of a MULTI is on its device; constants are on every device."""
    devices = node.arg.devices if isinstance(node.arg, ShardArg) else ()
    for source, device in zip(node.src, devices, strict=False):
        if device_of(source) not in (device, None):
            return f"a source on {device}", f"one on {device_of(source)}"
    return None


@TENSOR.local("multi.3", Ops.MULTI)
def sources_are_parts_of_one_shape(node: UOp, graph: Graph, _: int) -> Finding:
    """The sources of a MULTI have one shape, except for the sizes along its axis."""
    layout = node.arg if isinstance(node.arg, ShardArg) else ShardArg(())
    first = shape_of(node.src[0])
    axis = layout.axis
    if axis is None:
        sizes: tuple[int, ...] = ()
        expected = [first] * len(node.src)
    elif not 0 <= axis < len(first):
        return f"an axis below {len(first)}", f"axis {axis}"
    else:
        sizes = layout.sizes
        expected = [(*first[:axis], size, *first[axis + 1 :]) for size in sizes]
    actual = [shape_of(source) for source in node.src]
    if actual == expected and sizes == layout.sizes:
        return None
    return " and ".join(map(describe_shape, expected)), " and ".join(map(describe_shape, actual))


@TENSOR.local("multi.4")
def is_of_no_further_use(node: UOp, graph: Graph, _: int) -> Finding:
    """A MULTI is the root of a graph: operations on it are built from its sources."""
    if node.op is Ops.SINK or not any(source.op is Ops.MULTI for source in node.src):
        return None
    return f"a {node.op.name} of the sources of a MULTI", f"a {node.op.name} of the MULTI"


@TENSOR.local("device.1", *ALU, Ops.ASSIGN)
def operands_live_together(node: UOp, graph: Graph, _: int) -> Finding:
    """All operands are on one device: only COPY goes from one device to another."""
    devices = [device for device in map(device_of, node.src) if device is not None]
    for device in devices[1:]:
        if device != devices[0]:
            return f"the device {devices[0]}", device
    return None
