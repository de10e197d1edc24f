"""Shape and device of a node, in the dialects whose nodes have them."""

from __future__ import annotations

from tinyref.algebra.symbolic import lift, lower
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
    """The shape of `node`; () for constants, variables and nodes that have none.

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
    # A constant in a kernel has no shape and takes that of its neighbours.
    return next((shape for shape in map(shape_of, node.src) if shape), ())


def _shape_of_bounds(op: Ops, shape: Shape, argument: BoundsArg) -> Shape:
    pairs = zip(shape, argument.bounds, strict=True)
    if op is Ops.PAD:
        return tuple(lower(lift(size) + lift(a) + lift(b)) for size, (a, b) in pairs)
    return tuple(lower(lift(end) - lift(begin)) for _, (begin, end) in pairs)


@node_fact
def device_of(node: UOp) -> str | None:
    """The canonical name of the device that `node` lives on, the first of several.

    None for constants alone.
    """
    if isinstance(node.arg, BufferArg | CopyArg):
        return node.arg.device
    if isinstance(node.arg, ShardArg):
        return node.arg.devices[0]
    return next((found for found in map(device_of, node.src) if found is not None), None)
