"""Vectors and their lanes: taking, joining, repeating and combining them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tinyref.algebra.simplify import simplify
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg

# A lane of a vector; of a scalar, lane 0.
Piece = tuple[UOp, int]


def take(vector: UOp, *lanes: int) -> UOp:
    """The given lanes of `vector`, with no node where they are at hand."""
    if lanes == tuple(range(vector.dtype.lanes)):
        return vector
    if isinstance(vector.arg, ConstArg):
        return build.const(vector.dtype.scalar.vec(len(lanes)), vector.arg.value)
    if vector.op is Ops.VECTORIZE:
        taken = [vector.src[lane] for lane in lanes]
        return taken[0] if len(taken) == 1 else build.vectorize(*taken)
    if isinstance(vector.arg, GepArg):
        # Reversed lanes of one load, stored in parts: the bounds of a buffer cut the vector.
        return take(vector.src[0], *(vector.arg.lanes[lane] for lane in lanes))
    return build.gep(vector, *lanes)


def repeat(scalar: UOp, lanes: int) -> UOp:
    """A vector of `lanes` times `scalar`."""
    if lanes == 1:
        return scalar
    if isinstance(scalar.arg, ConstArg):
        return build.const(scalar.dtype.vec(lanes), scalar.arg.value)
    return build.vectorize(*(scalar,) * lanes)


def join(pieces: Sequence[Piece]) -> UOp:
    """The vector of the given lanes (one is a scalar), in as few nodes as may be."""
    first, _ = pieces[0]
    if all(vector is first for vector, _ in pieces):
        if first.dtype.lanes == 1:
            return repeat(first, len(pieces))
        return take(first, *(lane for _, lane in pieces))
    return build.vectorize(*(take(vector, lane) for vector, lane in pieces))


def tidy(node: UOp) -> UOp:
    """`node` without what constants decide; anything more would cost more than it gives."""
    if node.op is Ops.WHERE and isinstance(node.src[0].arg, ConstArg):
        return node.src[1] if node.src[0].arg.value else node.src[2]
    if node.op in ALU and all(source.op is Ops.CONST for source in node.src):
        return simplify(node)
    return node


def _of_two(op: Ops, x: UOp, y: UOp) -> UOp:
    return tidy(UOp(op, x.dtype, (x, y)))


def combine(op: Ops, values: Sequence[UOp]) -> UOp:
    """All `values` by `op`, as a balanced tree in their order; at least one value.

    Of equal ones a maximum needs one.
    """
    if op is Ops.MAX:
        values = tuple(dict.fromkeys(values))
    if op is Ops.ADD and all(map(_is_product, values)):
        return _summed_products(values)
    while len(values) > 1:
        paired = [_of_two(op, x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = [*paired, values[-1]] if len(values) % 2 else paired
    return values[0]


def _is_product(value: UOp) -> bool:
    """Whether it is the product of a matrix tile on top of nothing."""
    if value.op is not Ops.WMMA or not isinstance(value.src[2].arg, ConstArg):
        return False
    return value.src[2].arg.value == 0


def _summed_products(values: Sequence[UOp]) -> UOp:
    """Products of tiles, each on top of the one before: a tile adds what it is given for C."""
    total = values[0]
    for value in values[1:]:
        total = value.replace(src=(*value.src[:2], total))
    return total


def combine_lanes(op: Ops, vector: UOp, widths: Collection[int]) -> UOp:
    """The lanes of `vector` by `op`: half with half, as long as the device has such vectors."""
    while vector.dtype.lanes > 1:
        lanes = range(vector.dtype.lanes)
        half = len(lanes) // 2
        if half not in widths:
            return combine(op, [take(vector, lane) for lane in lanes])
        halves = take(vector, *lanes[:half]), take(vector, *lanes[half:])
        vector = _of_two(op, *halves)
    return vector
