"""Test the verifiers: some graph here breaks each rule, and good graphs pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import uop_graphs as graphs
from kernel_cases import DEVICES

from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import DType, dtypes, image
from tinyref.errors import VerifyError
from tinyref.uops import build as b
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import (
    AxisKind,
    BoundsArg,
    BufferArg,
    CopyArg,
    MemoryVersionArg,
    Payload,
    PermuteArg,
    ReduceArg,
    ShapeArg,
    ShardArg,
    SlotArg,
    TileArg,
    ViewArg,
)
from tinyref.uops.tiles import TILES, Operand
from tinyref.verify import RULES, verify
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels.corpus import corpus_kernels

F32 = dtypes.float32
I32 = dtypes.int32
VOID = dtypes.void
Graph = UOp | Sequence[UOp]


def node(op: Ops, dtype: DType, *src: UOp, arg: Payload = None) -> UOp:
    return UOp(op, dtype, src, arg)


def i32(value: int) -> UOp:
    return b.const(I32, value)


# --- tensor graphs -------------------------------------------------------------------------------


def buffer(*shape: int, number: int = 0, dtype: DType = F32, device: str = "CPU") -> UOp:
    size = math.prod(shape)
    assert isinstance(size, int)
    flat = UOp(Ops.BUFFER, dtype, (), BufferArg(device, size, number))
    return UOp(Ops.RESHAPE, dtype, (flat,), ShapeArg(shape))


def multi(devices: tuple[str, ...], axis: int | None, sizes: tuple[int, ...], *parts: UOp) -> UOp:
    return UOp(Ops.MULTI, F32, parts, ShardArg(devices, axis, sizes))


def numbers(*shape: int) -> UOp:
    return node(Ops.IOTA, I32, arg=ViewArg(ShapeTracker.from_shape(shape)))


def placed(position: UOp, *shape: int) -> UOp:
    return numbers(*shape).replace(src=(position,))


CUBE = ViewArg(ShapeTracker.from_shape((3, 4, 1)))
X = buffer(3, 4)
FLAT = X.src[0]
TENSOR_GRAPHS: list[tuple[str, Graph]] = [
    ("tensor.op.1", b.define_global(0, F32, 3)),
    ("tensor.type.1", node(Ops.ADD, F32, X)),
    ("tensor.type.1", node(Ops.ADD, F32, X, b.const(I32, 1))),
    ("tensor.type.1", node(Ops.CONTIGUOUS, F32, X, arg=CopyArg("CPU"))),
    (
        "tensor.variable.1",
        node(Ops.ADD, dtypes.index, b.variable("n", 1, 3), b.variable("n", 1, 4)),
    ),
    (
        "tensor.variable.1",
        node(
            Ops.SHRINK,
            F32,
            node(Ops.SHRINK, F32, FLAT, arg=BoundsArg(((0, b.variable("n", 5, 9)),))),
            arg=BoundsArg(((0, b.variable("n", 1, 4)),)),
        ),
    ),
    ("tensor.buffer.1", UOp(Ops.BUFFER, F32, (), BufferArg("CPU", -1, 0))),
    ("tensor.buffer.1", UOp(Ops.BUFFER, F32, (), BufferArg("", 1, 0))),
    ("tensor.buffer.2", b.add(X, node(Ops.CAST, F32, buffer(3, 4, dtype=I32)))),
    ("tensor.iota.1", node(Ops.IOTA, I32, arg=ShapeArg((2, 3)))),
    ("tensor.iota.1", node(Ops.IOTA, I32, arg=ShapeArg((2**31,)))),
    ("tensor.iota.1", node(Ops.IOTA, I32, arg=ShapeArg((b.variable("n", 1, 2**31),)))),
    ("tensor.iota.1", node(Ops.IOTA, I32, arg=numbers(4).arg)),
    ("tensor.iota.1", node(Ops.IOTA, I32, i32(0), arg=ShapeArg((2,)))),
    ("tensor.type.1", node(Ops.IOTA, F32, arg=ShapeArg((2,)))),
    ("tensor.shape.1", b.add(X, buffer(4, 3, number=1))),
    ("tensor.shape.1", b.add(X, b.const(F32, 1))),
    ("tensor.shape.2", node(Ops.RESHAPE, F32, X, arg=ShapeArg((5, 2)))),
    ("tensor.shape.2", node(Ops.PERMUTE, F32, X, arg=PermuteArg((0, 0)))),
    ("tensor.shape.2", node(Ops.EXPAND, F32, X, arg=ShapeArg((6, 4)))),
    ("tensor.shape.2", node(Ops.PAD, F32, X, arg=BoundsArg(((0, -1), (0, 0))))),
    ("tensor.shape.2", node(Ops.SHRINK, F32, X, arg=BoundsArg(((0, 4), (0, 4))))),
    ("tensor.reduce.1", node(Ops.REDUCE, F32, X, arg=ReduceArg(Ops.ADD, (2,)))),
    ("tensor.reduce.1", node(Ops.REDUCE, F32, X, arg=ReduceArg(Ops.ADD, (1, 0)))),
    ("tensor.reduce.1", node(Ops.REDUCE, F32, X, X, arg=ReduceArg(Ops.ADD, (1,)))),
    ("tensor.assign.1", node(Ops.ASSIGN, F32, X, buffer(4, 3, number=1))),
    ("tensor.assign.2", node(Ops.ASSIGN, F32, b.add(X, X), X)),
    (
        "tensor.assign.2",
        node(
            Ops.ASSIGN, F32, node(Ops.EXPAND, F32, buffer(1, 4, number=2), arg=ShapeArg((3, 4))), X
        ),
    ),
    ("tensor.multi.1", multi(("CPU",), None, (), X, X)),
    ("tensor.multi.1", multi(("CPU", "CPU"), None, (), X, X)),
    ("tensor.multi.2", multi(("CPU", "CPU:1"), None, (), X, X)),
    ("tensor.multi.3", multi(("CPU",), 2, (4,), X)),
    ("tensor.multi.3", multi(("CPU",), 0, (4,), X)),
    ("tensor.multi.3", multi(("CPU",), None, (4,), X)),
    ("tensor.multi.3", multi(("CPU", "CPU:1"), None, (), X, b.const(F32, 1))),
    ("tensor.multi.4", node(Ops.DETACH, F32, multi(("CPU",), None, (), X))),
    ("tensor.device.1", b.add(X, buffer(3, 4, number=1, device="CLANG"))),
]


# --- kernel ASTs ---------------------------------------------------------------------------------


def view(memory: UOp, *shape: int, tracker: ShapeTracker | None = None) -> UOp:
    return b.view(memory, tracker or ShapeTracker.from_shape(shape))


OUT = b.define_global(0, F32, 12)
IN = b.define_global(1, F32, 12)
LOADED = b.load(view(IN, 3, 4))


SIZE = b.variable("n", 1, 3)


def kernel(value: UOp, target: UOp | None = None) -> UOp:
    return b.sink(b.store(view(OUT, 3, 4) if target is None else target, value))


def through(view_: View) -> UOp:
    return b.load(view(IN, tracker=ShapeTracker((view_,))))


ROWS = ShapeTracker.from_shape((3, 1))
ROW = b.load(view(OUT, tracker=ROWS))
IN_PLACE = b.load(view(OUT, 3, 4))


def two_outputs(first: UOp, second: UOp) -> UOp:
    """Return a kernel with three elements in slot 0, twelve in slot 1."""
    return b.sink(b.store(view(OUT, tracker=ROWS), first), b.store(view(IN, 3, 4), second))


AST_GRAPHS: list[tuple[str, Graph]] = [
    ("ast.op.1", kernel(node(Ops.DETACH, F32, LOADED))),
    ("ast.op.1", kernel(b.cast(b.counter(3, 0, AxisKind.LOOP), F32))),
    ("ast.type.1", kernel(node(Ops.MUL, F32, LOADED, b.const(dtypes.float64, 1)))),
    ("ast.type.1", kernel(b.cast(LOADED, I32))),
    ("ast.type.1", kernel(node(Ops.REDUCE, F32, LOADED, arg=ReduceArg(Ops.SUB, (0,))))),
    ("ast.type.2", kernel(b.gep(b.const(F32.vec(2), 1), 0))),
    ("ast.type.2", kernel(node(Ops.CAST, F32.vec(2), b.const(I32.vec(2), 1)))),
    ("ast.type.3", kernel(b.cast(b.reduce(Ops.ADD, b.variable("n", 1, 3), ()), F32))),
    (
        "ast.variable.1",
        kernel(b.add(b.cast(b.variable("n", 1, 3), F32), b.cast(b.variable("n", 1, 4), F32))),
    ),
    ("ast.global.1", kernel(b.load(view(b.define_global(0, F32, 13), 3, 4)))),
    (
        "ast.global.2",
        b.sink(b.store(view(b.define_global(0, dtypes.index, 1), 1), b.variable("n", 1, 3))),
    ),
    ("ast.global.3", kernel(b.load(view(b.define_global(2, F32, 12), 3, 4)))),
    ("ast.global.4", kernel(b.load(view(OUT, 3, 4)), target=view(IN, 3, 4))),
    ("ast.sink.1", b.load(view(OUT, 3, 4))),
    ("ast.sink.1", b.sink(kernel(LOADED))),
    ("ast.sink.2", b.sink(b.load(view(OUT, 3, 4)))),
    (
        "ast.sink.3",
        b.sink(b.store(view(OUT, 3, 4), b.const(F32, 1)), b.store(view(IN, 4, 3), b.const(F32, 1))),
    ),
    ("ast.view.1", kernel(b.load(view(view(IN, 12, 1), 3, 4)))),
    ("ast.view.2", kernel(b.reduce(Ops.ADD, b.load(view(IN, 3, 4, 1)), (1,)))),
    ("ast.view.3", kernel(b.load(view(IN, 4, 4)))),
    ("ast.view.3", kernel(through(View((3, 4), (4, 1), -1)))),
    (
        "ast.view.4",
        kernel(b.load(view(IN, tracker=ShapeTracker.from_shape((b.special("group", 0, 3), 4))))),
    ),
    ("ast.iota.1", kernel(b.cast(node(Ops.IOTA, I32, arg=ShapeArg((12,))), F32))),
    ("ast.iota.1", kernel(b.reduce(Ops.ADD, b.cast(numbers(3, 2**30), F32), (1,)))),
    ("ast.type.1", kernel(b.cast(placed(b.const(F32, 1), 3, 4, 5), F32))),
    ("ast.view.2", kernel(b.cast(placed(i32(1), 3, 4), F32))),
    ("ast.view.5", kernel(b.cast(placed(numbers(3, 5), 3, 4, 5), F32))),
    ("ast.view.5", kernel(b.cast(placed(i32(1)), F32))),
    ("ast.view.6", kernel(LOADED, node(Ops.VIEW, OUT.dtype, OUT, i32(1), arg=CUBE))),
    ("ast.view.2", kernel(b.cast(b.reduce(Ops.ADD, numbers(3, 4, 1), (1,)), F32))),
    ("ast.load.1", kernel(b.load(IN))),
    ("ast.load.1", kernel(b.load(view(IN, 3, 4), gate=b.const(dtypes.bool, True)))),
    ("ast.memory_version.1", kernel(LOADED.replace(arg=MemoryVersionArg(1)))),
    ("ast.store.1", b.sink(b.store(OUT, b.const(F32, 1)))),
    ("ast.store.1", b.sink(b.store(view(OUT, 12), b.const(F32, 1), b.const(dtypes.bool, True)))),
    ("ast.store.2", kernel(LOADED, target=view(OUT, 3, 1))),
    (
        "ast.store.3",
        kernel(
            b.const(F32, 1),
            target=view(OUT, tracker=ShapeTracker.from_shape((3, 1)).expand((3, 4))),
        ),
    ),
    (
        "ast.store.4",
        b.sink(
            b.store(view(OUT, 3, 4), LOADED),
            b.store(view(OUT, tracker=ShapeTracker.from_shape((3, 4)).flip((0,))), LOADED),
        ),
    ),
    ("ast.load.2", kernel(b.load(view(OUT, tracker=ShapeTracker.from_shape((3, 4)).flip((1,)))))),
    ("ast.load.2", two_outputs(ROW, ROW)),
    ("ast.load.2", two_outputs(ROW, b.load(view(OUT, tracker=ROWS.expand((3, 4)))))),
    ("ast.reduce.2", two_outputs(b.reduce(Ops.ADD, LOADED, (1,)), b.mul(LOADED, 2.0))),
    ("ast.reduce.2", kernel(b.add(IN_PLACE, b.reduce(Ops.MAX, IN_PLACE, (0,))))),
    ("ast.shape.1", kernel(b.add(LOADED, b.load(view(IN, 4, 3))))),
    ("ast.reduce.1", kernel(b.reduce(Ops.ADD, LOADED, (2,)))),
    ("ast.reduce.1", kernel(b.reduce(Ops.ADD, b.const(F32, 1), (0,)))),
    ("ast.reduce.1", kernel(b.reduce(Ops.ADD, LOADED, (1, 1)))),
]


# --- indexed kernels and programs ----------------------------------------------------------------

RANGE = b.counter(12, 0, AxisKind.LOOP, I32)
ITEM = b.special("item", 0, 4, I32)
LOCAL = b.define_local("tile", F32, 4)
SYMBOLIC_ITEM = b.special("item", 1, b.variable("n", 1, 3, I32), I32)
TRUE = b.const(dtypes.bool, True)


def at(position: UOp | int, memory: UOp = OUT) -> UOp:
    return b.index(memory, position if isinstance(position, UOp) else i32(position))


def acc(start: UOp, *ranges: UOp, name: str = "acc") -> UOp:
    return b.accumulator(name, start, *ranges)


def update(accumulator: UOp, value: UOp) -> UOp:
    total = b.add(accumulator, value)
    return b.update(accumulator, total)


def stored(value: UOp, position: UOp | int = 0) -> UOp:
    return b.sink(b.store(at(position), value))


def summed(*ranges: UOp, name: str = "acc") -> UOp:
    return update(acc(b.const(F32, 0), *ranges, name=name), b.load(at(ranges[0], IN)))


def multiplied(name: str, value: UOp) -> UOp:
    """Return a WMMA whose elements are all `value`."""
    tile = TILES[name]
    fragments = (
        b.vectorize(*[value] * tile.layout(operand).registers)
        if tile.layout(operand).registers > 1
        else value
        for operand in Operand
    )
    return UOp(Ops.WMMA, tile.fragment(Operand.C), tuple(fragments), TileArg(tile))


def again(access: UOp, number: int) -> UOp:
    return access.replace(arg=MemoryVersionArg(number))


def end(opener: UOp) -> UOp:
    return node(Ops.END if opener.op is Ops.RANGE else Ops.ENDIF, VOID, opener)


def listed(root: UOp) -> tuple[UOp, ...]:
    """Some nodes as a program: in order, ranges closed at the end."""
    order = root.toposort()
    ranges = [node for node in order if node.op is Ops.RANGE]
    return (*order, *map(end, reversed(ranges)))


LOAD0 = b.load(at(0))
PICTURE = UOp(Ops.DEFINE_GLOBAL, image(F32, 2, 3), (), SlotArg(1))
APPLE = "apple_m8n8k8_float32_float32"
# The number of iterations is the number of the work-item.
UNEVEN = b.counter(b.special("item", 0, 32, I32), 0, AxisKind.LOOP, I32)
OTHER = b.counter(3, 1, AxisKind.REDUCE, I32)
# (rule without its dialect, the offending nodes): both linear dialects refuse them.
LINEAR: list[tuple[str, UOp]] = [
    ("op.1", view(OUT, 12)),
    ("type.1", node(Ops.RANGE, F32, i32(3), arg=RANGE.arg)),
    ("type.1", node(Ops.VECTORIZE, F32.vec(4), b.const(F32, 1), b.const(F32, 2))),
    ("variable.1", b.add(b.variable("n", 1, 3, I32), b.variable("n", 1, 4, I32))),
    ("global.1", b.add(b.load(at(0)), b.load(at(0, b.define_global(0, F32, 3))))),
    ("global.2", b.define_global(0, F32, -1)),
    ("global.2", b.define_global(0, F32.vec(4), 4)),
    ("index.1", b.const(dtypes.index, 1)),
    ("index.2", b.index(at(0), i32(0))),
    ("index.3", b.load(b.index(PICTURE, i32(0)), lanes=4)),
    ("index.3", b.load(b.texel(OUT, i32(0), i32(0)))),
    ("address.1", b.load(OUT)),
    ("address.2", b.load(at(6), lanes=4)),
    ("address.2", b.store(at(b.add(b.mul(RANGE, 4), 2)), b.const(F32.vec(4), 1))),
    ("address.3", b.load(b.texel(PICTURE, i32(0), i32(0)), lanes=2)),
    ("address.3", b.store(b.texel(PICTURE, i32(0), i32(0)), b.const(F32, 1))),
    ("special.1", b.special("warp", 0, 3, I32)),
    ("special.1", b.special("item", 3, 3, I32)),
    ("special.2", b.add(b.special("item", 0, 3, I32), ITEM)),
    ("type.1", node(Ops.WMMA, F32, *[b.const(F32, 1)] * 3, arg=TileArg(TILES[APPLE]))),
    ("wmma.2", multiplied(APPLE, b.const(F32, 1))),
    ("wmma.2", multiplied(APPLE, b.cast(ITEM, F32))),
    ("range.1", b.add(RANGE, b.counter(3, 0, AxisKind.REDUCE, I32))),
    ("local.1", b.add(b.load(at(0, LOCAL)), b.load(at(0, b.define_local("tile", F32, 5))))),
]

INDEXED_GRAPHS: list[tuple[str, Graph]] = [
    *((f"indexed.{label}", root) for label, root in LINEAR),
    ("indexed.sink.1", b.load(at(0))),
    ("indexed.sink.1", b.sink(stored(b.const(F32, 1)))),
    ("indexed.sink.2", b.sink(b.load(at(0)))),
    (
        "indexed.reduce.1",
        stored(node(Ops.REDUCE, F32, b.load(at(0)), ITEM, arg=ReduceArg(Ops.ADD))),
    ),
    (
        "indexed.reduce.1",
        stored(node(Ops.REDUCE, F32, b.load(at(0)), RANGE, arg=ReduceArg(Ops.ADD, (1,)))),
    ),
    ("indexed.memory_version.1", stored(again(LOAD0, 1))),
    ("indexed.acc.1", stored(summed(ITEM))),
    ("indexed.acc.2", stored(acc(b.cast(RANGE, F32), RANGE))),
    (
        "indexed.acc.3",
        b.sink(
            *(
                b.store(at(i), update(acc(b.const(F32, 0), RANGE), b.const(F32, i)))
                for i in range(2)
            )
        ),
    ),
    ("indexed.range.2", stored(summed(RANGE), RANGE)),
    ("indexed.wmma.1", stored(multiplied(APPLE, b.load(at(UNEVEN, IN))), UNEVEN)),
    (
        "indexed.range.2",
        stored(node(Ops.REDUCE, F32, b.load(at(RANGE, IN)), RANGE, arg=ReduceArg(Ops.MAX)), RANGE),
    ),
]


ZERO_POSITION = i32(0)
HEAD = (OUT, ZERO_POSITION, at(0))
ONE = b.const(F32, 1)
IF = node(Ops.IF, VOID, b.less(ITEM, 2))
IF_OF_32 = node(Ops.IF, VOID, b.less(UNEVEN.src[0], 2))
PRODUCT = multiplied(APPLE, ONE)
BARRIER = node(Ops.BARRIER, VOID)
ACC = acc(ONE)
TOTAL = b.add(ACC, ACC)
UPDATE = node(Ops.UPDATE_ACC, F32, ACC, TOTAL)
TWELVE = i32(12)
OPEN_IF = (TWELVE.src and ()) or (i32(4), ITEM, i32(2), IF.src[0], IF)

LANES = b.counter(i32(4), 0, AxisKind.UPCAST, I32)
ITERATIONS = b.counter(i32(4), 0, AxisKind.UNROLL, I32)
PROGRAMS: list[tuple[str, Graph]] = [
    *((f"program.{label}", listed(root)) for label, root in LINEAR),
    ("program.op.1", (b.sink(),)),
    ("program.op.1", (ONE, node(Ops.AFTER, F32, ONE))),
    ("program.order.1", (OUT, at(0), ZERO_POSITION)),
    ("program.order.1", (b.load(at(0)),)),
    ("program.order.2", (OUT, OUT)),
    ("program.memory_version.1", (*HEAD, again(LOAD0, 1))),
    ("program.memory_version.1", (*HEAD, LOAD0, again(LOAD0, 2))),
    ("program.memory_version.1", (*HEAD, LOAD0, again(LOAD0, 0))),
    ("program.memory_version.1", (*HEAD, again(LOAD0, 1), LOAD0)),
    ("program.block.1", (*OPEN_IF, TWELVE, RANGE, end(IF), end(RANGE))),
    ("program.block.1", (TWELVE, RANGE, i32(3), OTHER, end(RANGE), end(OTHER))),
    ("program.block.2", (TWELVE, RANGE)),
    ("program.block.2", OPEN_IF),
    ("program.scope.1", (*HEAD, TWELVE, RANGE, LOAD0, end(RANGE), b.store(at(0), LOAD0))),
    ("program.scope.1", (TWELVE, RANGE, end(RANGE), b.mul(RANGE, RANGE))),
    ("program.scope.1", (*HEAD, *OPEN_IF, LOAD0, end(IF), b.store(at(0), LOAD0))),
    (
        "program.scope.1",
        (
            *HEAD,
            ONE,
            TWELVE,
            RANGE,
            ACC,
            i32(3),
            OTHER,
            TOTAL,
            UPDATE,
            end(OTHER),
            end(RANGE),
            b.store(at(0), UPDATE),
        ),
    ),
    ("program.acc.1", (ONE, TWELVE, RANGE, ACC, TOTAL, UPDATE, end(RANGE))),
    ("program.acc.2", (ONE, TWELVE, RANGE, acc(ONE, RANGE), end(RANGE))),
    ("program.range.3", (i32(4), LANES, end(LANES))),
    ("program.range.3", (i32(4), ITERATIONS, end(ITERATIONS))),
    ("program.barrier.1", (TWELVE, node(Ops.BARRIER, VOID, TWELVE))),
    ("program.barrier.2", (*OPEN_IF, BARRIER, end(IF))),
    ("program.wmma.1", (*IF_OF_32.toposort(), *PRODUCT.toposort(), end(IF_OF_32))),
    ("program.wmma.1", (*UNEVEN.toposort(), *PRODUCT.toposort(), end(UNEVEN))),
    (
        "program.barrier.2",
        (
            i32(4),
            ITEM,
            b.counter(ITEM, 0, AxisKind.LOOP, I32),
            BARRIER,
            end(b.counter(ITEM, 0, AxisKind.LOOP, I32)),
        ),
    ),
]

BROKEN = [*TENSOR_GRAPHS, *AST_GRAPHS, *INDEXED_GRAPHS, *PROGRAMS]


@pytest.mark.parametrize(
    ("label", "graph"), BROKEN, ids=[f"{label}:{i}" for i, (label, _) in enumerate(BROKEN)]
)
def test_a_broken_graph_is_refused_by_its_rule(label: str, graph: Graph) -> None:
    dialect = Dialect(label.split(".")[0])
    with pytest.raises(VerifyError) as caught:
        verify(dialect, graph)
    assert caught.value.rule == label, str(caught.value)
    assert caught.value.expected
    assert caught.value.got
    assert caught.value.where


def test_every_rule_is_tripped() -> None:
    assert {label for label, _ in BROKEN} == set(RULES)


def test_every_rule_has_a_sentence() -> None:
    for label, rule in RULES.items():
        assert rule.label == label
        assert rule.sentence.endswith(".")
        assert len(rule.sentence) > 20


def test_an_error_says_rule_place_expectation_and_finding() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(Dialect.AST, kernel(LOADED, target=view(OUT, 3, 1)))
    assert str(caught.value) == (
        "ast.store.2: expected the shape (3, 1), got (3, 4), at STORE void (VIEW, LOAD)"
    )
    with pytest.raises(VerifyError) as caught:
        verify(Dialect.PROGRAM, (TWELVE, RANGE))
    assert str(caught.value) == (
        "program.block.2: expected END of it, got the end of the program, "
        "at %1 = RANGE int32 (CONST) Range{number=0 kind=loop}"
    )


# --- good graphs ---------------------------------------------------------------------------------

N = b.variable("n", 1, 3)
SCALAR = node(Ops.RESHAPE, F32, ONE, arg=ShapeArg((1, 1)))
GOOD: list[tuple[str, Dialect, Graph]] = [
    (
        "tensor: a sum with a constant",
        Dialect.TENSOR,
        b.reduce(Ops.ADD, b.add(X, node(Ops.EXPAND, F32, SCALAR, arg=ShapeArg((3, 4)))), (0, 1)),
    ),
    (
        "tensor: parts on two devices and a constant on each",
        Dialect.TENSOR,
        node(
            Ops.SINK,
            VOID,
            multi(("CPU", "CPU:1"), 0, (3, 1), X, buffer(1, 4, number=1, device="CPU:1")),
            multi(("CPU", "CPU:1"), None, (), b.const(F32, 1), b.const(F32, 1)),
        ),
    ),
    (
        "tensor: a copy",
        Dialect.TENSOR,
        b.add(node(Ops.COPY, F32, buffer(3, 4, number=1, device="CLANG"), arg=CopyArg("CPU")), X),
    ),
    ("tensor: an assign", Dialect.TENSOR, node(Ops.ASSIGN, F32, X, buffer(3, 4, number=1))),
    (
        "tensor: a symbolic size",
        Dialect.TENSOR,
        node(Ops.SHRINK, F32, X, arg=BoundsArg(((0, N), (0, 4)))),
    ),
    ("ast: in place", Dialect.AST, kernel(b.add(IN_PLACE, 1.0))),
    (
        "ast: in place beside a reduce",
        Dialect.AST,
        kernel(b.reduce(Ops.ADD, b.mul(ROW, LOADED), (1,)), target=view(OUT, 3, 1)),
    ),
    (
        "ast: a mask that one row leaves",
        Dialect.AST,
        kernel(
            b.const(F32, 1),
            view(OUT, tracker=ShapeTracker.from_shape((1, 4)).pad(((1, 1), (0, 0)))),
        ),
    ),
    (
        "indexed: a sum of the name of a local memory",
        Dialect.INDEXED,
        stored(b.add(summed(RANGE, name="tile"), b.load(at(0, LOCAL)))),
    ),
    (
        "indexed: a sum in a sum",
        Dialect.INDEXED,
        stored(
            update(
                acc(b.const(F32, 0), OTHER, name="outer"), b.mul(summed(RANGE), b.cast(OTHER, F32))
            )
        ),
    ),
    (
        "indexed: a position that no one knows",
        Dialect.INDEXED,
        stored(b.load(at(RANGE, IN), lanes=4), b.mul(RANGE, 4)),
    ),
    (
        "indexed: two runs of a tile, in a loop that all iterate alike",
        Dialect.INDEXED,
        stored(
            b.gep(multiplied(APPLE, b.cast(b.add(b.special("item", 0, 64, I32), RANGE), F32)), 0),
            RANGE,
        ),
    ),
    (
        "indexed: a tile in a group of unknown size",
        Dialect.INDEXED,
        stored(b.gep(multiplied(APPLE, b.cast(SYMBOLIC_ITEM, F32)), 0)),
    ),
    ("program: a tile", Dialect.PROGRAM, (*UNEVEN.src[0].toposort(), *PRODUCT.toposort())),
    ("program: doubling", Dialect.PROGRAM, graphs.doubling().uops),
    ("program: barriers", Dialect.PROGRAM, (BARRIER, TWELVE, RANGE, BARRIER, end(RANGE))),
    (
        "program: a branch",
        Dialect.PROGRAM,
        (*HEAD, ONE, *OPEN_IF, b.store(at(0), ONE), end(IF), BARRIER),
    ),
]


@pytest.mark.parametrize(("name", "dialect", "graph"), GOOD, ids=[name for name, *_ in GOOD])
def test_good_graphs_pass(name: str, dialect: Dialect, graph: Graph) -> None:
    verify(dialect, graph)
    # Once more, from the caches of the nodes.
    verify(dialect, graph)


def test_kernels_of_the_corpus_pass_in_every_dialect() -> None:
    for kernel in itertools.islice(corpus_kernels().values(), 0, None, 5):
        for device in DEVICES.values():
            compile_kernel(kernel.ast, device)


def test_the_index_type_is_admitted_before_narrowing() -> None:
    counter = b.counter(12, 0, AxisKind.LOOP)
    root = b.sink(b.store(b.index(OUT, counter), ONE))
    verify(Dialect.INDEXED, root, allows_index=True)
    with pytest.raises(VerifyError, match=r"indexed\.index\.1"):
        verify(Dialect.INDEXED, root)


def test_a_node_that_passed_in_one_dialect_is_checked_in_the_next() -> None:
    verify(Dialect.AST, graphs.row_sum())
    with pytest.raises(VerifyError, match=r"indexed\.op\.1"):
        verify(Dialect.INDEXED, graphs.row_sum())


def test_a_deep_graph_needs_no_deep_stack() -> None:
    value = LOADED
    for _ in range(3000):
        value = b.unary(Ops.NEG, value)
    verify(Dialect.AST, kernel(value))
