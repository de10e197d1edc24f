"""Shape and device of a node, in the dialects whose nodes have them.

In a kernel AST, a shape has the sizes of the axes, or 1 on axes along which a value does not vary.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.algebra.bounds import bounds
from tinyref.algebra.symbolic import lift, lower
from tinyref.errors import UserError
from tinyref.uops.node import UOp, node_fact, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import (
    BoundsArg,
    BufferArg,
    CopyArg,
    PermuteArg,
    ReduceArg,
    ShapeArg,
    ShardArg,
    ViewArg,
)

Shape = tuple[sint, ...]


@node_fact
def shape_of(node: UOp) -> Shape:
    """Return the shape of `node`; () for constants, variables and nodes without a shape.

    Sizes are ints or `index` nodes in normal form, so equal shapes compare equal.
    """
    argument = node.arg
    if isinstance(argument, BufferArg):
        return (argument.size,)
    if isinstance(argument, ViewArg):
        return argument.tracker.shape
    if isinstance(argument, ShapeArg):
        return argument.shape
    if not node.src or node.op in (Ops.BIND, Ops.DEFINE_GLOBAL):
        return ()
    if isinstance(argument, PermuteArg):
        shape = shape_of(node.src[0])
        return tuple(shape[axis] for axis in argument.order)
    if isinstance(argument, BoundsArg):
        return _shape_of_bounds(node.op, shape_of(node.src[0]), argument)
    if isinstance(argument, ReduceArg):
        shape = shape_of(node.src[0])
        return tuple(1 if axis in argument.axes else size for axis, size in enumerate(shape))
    if isinstance(argument, ShardArg) and argument.axis is not None:
        shape = shape_of(node.src[0])
        return (*shape[: argument.axis], sum(argument.sizes), *shape[argument.axis + 1 :])
    # A constant in a kernel has no shape and takes the shape of other operands.
    return next((shape for shape in map(shape_of, node.src) if shape), ())


def _shape_of_bounds(op: Ops, shape: Shape, argument: BoundsArg) -> Shape:
    pairs = zip(shape, argument.bounds, strict=True)
    if op is Ops.PAD:
        return tuple(lower(lift(size) + lift(a) + lift(b)) for size, (a, b) in pairs)
    return tuple(lower(lift(end) - lift(begin)) for _, (begin, end) in pairs)


@node_fact
def device_of(node: UOp) -> str | None:
    """Return the canonical name of the device of `node`, or of the first of several.

    Return None for a graph of constants.
    """
    if isinstance(node.arg, BufferArg | CopyArg):
        return node.arg.device
    if isinstance(node.arg, ShardArg):
        return node.arg.devices[0]
    return next((device for device in map(device_of, node.src) if device is not None), None)


def is_one(size: sint) -> bool:
    """Return True for the number 1, and False for symbolic sizes."""
    return size == 1


def positions_of(view: UOp) -> tuple[UOp, ...]:
    """Return the values that are the positions on the last axes of a VIEW, VALID or IOTA."""
    return view.src[1:] if view.op is Ops.VIEW else view.src


@node_fact
def kernel_shape(node: UOp) -> Shape:
    """Return the broadcast shape of an AST node; () if it fits any shape."""
    if isinstance(node.arg, ViewArg):
        full = node.arg.tracker.shape
        positions = positions_of(node)
        if not positions:
            return full
        shapes = [shape for shape in map(kernel_shape, positions) if shape]
        return _broadcast([full[: len(full) - len(positions)], *shapes])
    if node.op is Ops.LOAD:
        return kernel_shape(node.src[0])
    shapes = [shape for shape in map(kernel_shape, node.src) if shape]
    shape = _broadcast(shapes) if shapes else ()
    if isinstance(node.arg, ReduceArg):
        if node.arg.axes and max(node.arg.axes) >= len(shape):
            raise UserError(f"REDUCE over axes {node.arg.axes} of a value with shape {shape}")
        return tuple(1 if axis in node.arg.axes else size for axis, size in enumerate(shape))
    return shape


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    result = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) != len(result):
            raise UserError(f"kernel: views of {len(result)} and of {len(shape)} axes meet")
        for axis, size in enumerate(shape):
            if is_one(result[axis]):
                result[axis] = size
            elif size != result[axis] and not is_one(size):
                raise UserError(f"kernel: sizes {result[axis]} and {size} meet on axis {axis}")
    return tuple(result)


def output_shape(ast: UOp) -> Shape:
    """Return the broadcast shape of all outputs of the kernel `ast`; () without outputs."""
    return common_shape(ast.src)


def common_shape(stores: Sequence[UOp]) -> Shape:
    """Return the broadcast shape of the outputs of these STOREs; () without any."""
    shapes = [kernel_shape(store.src[0]) for store in stores]
    return _broadcast(shapes) if shapes else ()


def check_repeated_axes(stores: Sequence[UOp], shape: Shape) -> None:
    """Raise `UserError` if an axis may be empty on which an output has size 1.

    The first iteration along the axis writes such an output, so there must be one.
    """
    for store in stores:
        for axis, (size, common) in enumerate(zip(kernel_shape(store.src[0]), shape, strict=True)):
            if isinstance(size, int) and isinstance(common, UOp) and bounds(common)[0] < 1:
                raise UserError(
                    f"kernel: outputs of size 1 and of a size that may be {bounds(common)[0]} "
                    f"share axis {axis}: accepted are sizes of at least 1, or two kernels"
                )


def reduced_axes(node: UOp) -> tuple[int, ...]:
    """Return the axes of a REDUCE of a kernel AST; () for any other node."""
    return node.arg.axes if isinstance(node.arg, ReduceArg) else ()


def reduced_sizes(node: UOp) -> Shape:
    """Return the sizes of the axes that a REDUCE of a kernel AST reduces."""
    shape = kernel_shape(node.src[0])
    axes = node.arg.axes if isinstance(node.arg, ReduceArg) else ()
    return tuple(shape[axis] for axis in axes)
