"""Test reduces before scheduling: splits, numbers of parts, and repeated operands."""

from __future__ import annotations

import math

import pytest

from tinyref.dtype import dtypes
from tinyref.lazy import graph
from tinyref.lazy.folding import full
from tinyref.lazy.shape import shape_of
from tinyref.schedule.prepare import repeated_axes, simplify_reduce, split_long_reduce
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ReduceArg

F32 = dtypes.float32


def data(*shape: int) -> UOp:
    size = math.prod(shape)
    return graph.reshape(UOp(Ops.BUFFER, F32, (), BufferArg("PYTHON", size, 77)), shape)


def reduced(value: UOp, *axes: int, op: Ops = Ops.ADD) -> UOp:
    return UOp(Ops.REDUCE, value.dtype, (value,), ReduceArg(op, axes))


@pytest.mark.table
@pytest.mark.parametrize(
    ("shape", "axes", "partial"),
    [
        ((32767,), (0,), None),
        ((32768,), (0,), (256, 128)),
        ((2, 32768), (1,), (2, 256, 128)),
        ((32768, 2), (0,), (256, 128, 2)),
        ((256, 32768), (1,), (256, 256, 128)),
        ((257, 32768), (1,), None),
        ((4, 8192), (0, 1), (4, 256, 32)),
        # If the numbers of parts are equal, along the first axis.
        ((512, 512), (0, 1), (256, 2, 512)),
        # Primes: too short for padding, long enough, and next to an axis that divides.
        ((257, 257), (0, 1), None),
        ((8191, 5), (0, 1), (8191, 5, 1)),
        ((32771,), (0,), (256, 129)),
        ((6, 5501), (0, 1), (6, 1, 5501)),
        # 31 parts are too few, 32 are not.
        ((31 * 1061,), (0,), (256, 129)),
        ((32 * 1031,), (0,), (32, 1031)),
    ],
)
def test_a_long_reduce_is_split(
    shape: tuple[int, ...], axes: tuple[int, ...], partial: tuple[int, ...] | None
) -> None:
    node = reduced(data(*shape), *axes)
    result = split_long_reduce(node)
    if partial is None:
        assert result is node
        return
    (stored,) = (x for x in result.toposort() if x.op is Ops.CONTIGUOUS)
    inner = stored.src[0]
    assert inner.op is Ops.REDUCE
    assert shape_of(inner.src[0]) == partial
    assert shape_of(result) == shape_of(node)


def test_other_nodes_are_not_split() -> None:
    value = data(1 << 16)
    assert split_long_reduce(value) is value
    rows = build.variable("n", 1, 64)
    some = graph.shrink(data(64, 1 << 16), ((0, rows), (0, 1 << 16)))
    for axes in ((0,), (1,), (0, 1)):
        node = reduced(some, *axes)
        assert split_long_reduce(node) is node


@pytest.mark.table
@pytest.mark.parametrize(
    ("node", "axes"),
    [
        (data(3, 4), set()),
        (data(3, 1), {1}),
        (graph.expand(data(3, 1), (3, 4)), {1}),
        (graph.expand(data(1, 4), (3, 4)), {0}),
        (graph.permute(graph.expand(data(3, 1), (3, 4)), (1, 0)), {0}),
        (graph.pad(graph.expand(data(3, 1), (3, 4)), ((1, 0), (0, 0))), {1}),
        (graph.pad(graph.expand(data(3, 1), (3, 4)), ((0, 0), (0, 1))), set()),
        (graph.shrink(graph.expand(data(3, 1), (3, 4)), ((0, 1), (1, 3))), {0, 1}),
        (graph.flip(graph.expand(data(3, 1), (3, 4)), (1,)), {1}),
        (graph.alu(Ops.ADD, graph.expand(data(3, 1), (3, 4)), data(3, 4)), set()),
        (graph.alu(Ops.NEG, graph.expand(data(3, 1), (3, 4))), {1}),
        (full((3, 4), 2.75, F32), {0, 1}),
    ],
)
def test_axes_along_which_all_is_equal(node: UOp, axes: set[int]) -> None:
    assert repeated_axes(node) == axes


@pytest.mark.table
@pytest.mark.parametrize(("op", "factor"), [(Ops.ADD, 4.0), (Ops.MAX, None), (Ops.MUL, "a loop")])
def test_a_reduce_of_a_repeated_operand_is_arithmetic(op: Ops, factor: float | str | None) -> None:
    node = reduced(graph.expand(data(3, 1), (3, 4)), 1, op=op)
    result = simplify_reduce(node)
    loops = [x for x in result.toposort() if x.op is Ops.REDUCE]
    assert bool(loops) is (factor == "a loop")
    factors = [x.arg.value for x in result.toposort() if x.op is Ops.CONST]
    assert factors == ([factor] if isinstance(factor, float) else [])
    assert shape_of(result) == (3, 1)


@pytest.mark.table
@pytest.mark.parametrize(
    ("op", "value", "count", "result"),
    [
        (Ops.MUL, -2.0, 4096, math.inf),
        (Ops.MUL, -2.0, 4097, -math.inf),
        (Ops.MUL, 2.0, 4097, math.inf),
        (Ops.MUL, -3.0, 3, -27.0),
        # The sum of 16777217 ones has one bit more than float32, and is rounded once.
        (Ops.ADD, 1.0, 16777217, 16777216.0),
        (Ops.MAX, -2.0, 4096, -2.0),
    ],
)
def test_a_reduce_of_a_constant_is_a_constant(
    op: Ops, value: float, count: int, result: float
) -> None:
    simplified = simplify_reduce(reduced(full((count,), value, F32), 0, op=op))
    (constant,) = (node for node in simplified.toposort() if node.op is Ops.CONST)
    assert (constant.arg.value, shape_of(simplified)) == (result, (1,))
