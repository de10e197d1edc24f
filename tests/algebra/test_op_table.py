"""Test that the op table has a row for every op, and that its typing rules refuse."""

import functools

import pytest

from tinyref.algebra.op_table import OP_TABLE, OpSpec
from tinyref.dtype import AddressSpace, dtypes, pointer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, BINARY, TERNARY, UNARY, Dialect, Ops
from tinyref.uops.payload import (
    AxisKind,
    BufferArg,
    ConstArg,
    CopyArg,
    FlipArg,
    GepArg,
    LocalArg,
    PermuteArg,
    RangeArg,
    ReduceArg,
    ShapeArg,
    ShardArg,
    SlotArg,
    SpecialArg,
    TileArg,
    VarArg,
    ViewArg,
)
from tinyref.uops.tiles import FragmentLayout, MatrixTile
from tinyref.views.shape_tracker import ShapeTracker

i32, u32, i8, f32, f16 = dtypes.int32, dtypes.uint32, dtypes.int8, dtypes.float32, dtypes.float16
truth, index, void, fp8 = dtypes.bool, dtypes.index, dtypes.void, dtypes.fp8e4m3
a = UOp(Ops.BUFFER, f32, (), BufferArg("CPU", 4, 1))
n = UOp(Ops.BUFFER, i32, (), BufferArg("CPU", 4, 2))
k = UOp(Ops.BUFFER, index, (), BufferArg("CPU", 4, 3))
b = UOp(Ops.BUFFER, truth, (), BufferArg("CPU", 4, 4))
q = UOp(Ops.BUFFER, fp8, (), BufferArg("CPU", 4, 5))
v = UOp(Ops.BUFFER, f32.vec(4), (), BufferArg("CPU", 4, 6))
h = UOp(Ops.BUFFER, f16.vec(4), (), BufferArg("CPU", 4, 7))
w = UOp(Ops.BUFFER, dtypes.uint64, (), BufferArg("CPU", 4, 8))
memory = build.define_global(0, f32, 16)
address = build.index(memory, build.const(index, 0))
local = build.define_local("shared", f32, 16)
variable = build.variable("size", 1, 9)
counter = build.counter(4, 0, AxisKind.LOOP)
accumulator = UOp(Ops.DEFINE_ACC, f32, (a, counter), LocalArg("sum"))
branch = UOp(Ops.IF, void, (b,))
layout = functools.partial(FragmentLayout.of, "")
tile = TileArg(
    MatrixTile("tiny", (2, 2, 2), f16, f32, layout("k1 m1"), layout("n1 k1"), layout("n1 m1"))
)


def node(op, dtype, *src, arg=None):
    return UOp(op, dtype, src, arg)


GOOD = [
    node(Ops.SINK, void),
    build.const(f32, 1.0),
    build.const(i8, -128),
    build.const(truth, True),
    build.const(f32.vec(4), 1.0),
    variable,
    node(Ops.BIND, index, variable, build.const(index, 3)),
    a,
    node(Ops.IOTA, i32, arg=ShapeArg((4,))),
    node(Ops.IOTA, i32, arg=ViewArg(ShapeTracker.from_shape((4,)))),
    node(Ops.COPY, f32, a, arg=CopyArg("CPU")),
    node(Ops.CONTIGUOUS, f32, a),
    node(Ops.DETACH, f32, a),
    node(Ops.ASSIGN, f32, a, a),
    node(Ops.MULTI, f32, a, a, arg=ShardArg(("CPU", "CPU:1"), 0, (4, 4))),
    node(Ops.RESHAPE, f32, a, arg=ShapeArg((2, 2))),
    node(Ops.PERMUTE, f32, a, arg=PermuteArg((0,))),
    node(Ops.EXPAND, f32, a, arg=ShapeArg((4,))),
    node(Ops.FLIP, f32, a, arg=FlipArg((0,))),
    node(Ops.REDUCE, f32, a, arg=ReduceArg(Ops.ADD, (0,))),
    node(Ops.REDUCE, truth, b, arg=ReduceArg(Ops.MAX, (0,))),
    node(Ops.REDUCE, f32, a, counter, arg=ReduceArg(Ops.ADD)),
    *(node(op, f32, a) for op in sorted(UNARY, key=lambda op: op.name)),
    node(Ops.NEG, i32, n),
    *(node(op, f32, a, a) for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.POW, Ops.MAX)),
    *(node(op, i32, n, n) for op in (Ops.ADD, Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR)),
    node(Ops.MAX, truth, b, b),
    node(Ops.AND, truth, b, b),
    node(Ops.CMPLT, truth, a, a),
    node(Ops.CMPNE, truth.vec(4), v, v),
    node(Ops.SHL, i32, n, k),
    node(Ops.SHR, i32, n, n),
    node(Ops.THREEFRY, dtypes.uint64, w, w),
    node(Ops.WHERE, f32, b, a, a),
    node(Ops.WHERE, fp8, b, q, q),
    node(Ops.MULACC, f32, a, a, a),
    node(Ops.CAST, fp8, a),
    node(Ops.CAST, f16.vec(4), v),
    node(Ops.BITCAST, f32, n),
    memory,
    address,
    node(Ops.LOAD, f32, address),
    node(Ops.LOAD, f32.vec(4), address, v, b),
    node(Ops.STORE, void, address, a),
    node(Ops.STORE, void, address, v, b),
    local,
    accumulator,
    node(Ops.UPDATE_ACC, f32, accumulator, a),
    counter,
    build.special("group", 0, 4),
    node(Ops.VECTORIZE, f32.vec(2), a, a),
    node(Ops.GEP, f32, v, arg=GepArg((3,))),
    node(Ops.GEP, f32.vec(2), v, arg=GepArg((3, 3))),
    node(Ops.GEP, f32, v, counter, arg=GepArg((0, 1, 2, 3))),
    node(Ops.WMMA, f32.vec(4), h, h, v, arg=tile),
    node(Ops.AFTER, f32, a, counter),
    node(Ops.BARRIER, void),
    branch,
    node(Ops.ENDIF, void, branch),
    node(Ops.END, void, counter),
]

BAD = [
    (node(Ops.ADD, f32, a), "takes 2 sources, got 1"),
    (node(Ops.SINK, f32), "accepts void"),
    (node(Ops.LOAD, f32, address, a, b, b), "takes 1 to 3 sources, got 4"),
    (node(Ops.ADD, f32, a, a, arg=LocalArg("x")), "has no payload, got LocalArg"),
    (node(Ops.CONST, f32), "needs a payload ConstArg, got none"),
    (node(Ops.CONST, f32, arg=VarArg("x", 0, 1)), "needs a payload ConstArg, got VarArg"),
    (node(Ops.CONST, f32, arg=ConstArg(1)), "CONST of float32 holds a int"),
    (node(Ops.CONST, i8, arg=ConstArg(128)), "CONST 128 is outside int8"),
    (node(Ops.CONST, truth, arg=ConstArg(1)), "CONST of bool holds a int"),
    (node(Ops.DEFINE_VAR, index, arg=VarArg("x", 2, 1)), "empty range"),
    (node(Ops.DEFINE_VAR, f32, arg=VarArg("x", 0, 1)), "accepts one integer"),
    (node(Ops.BIND, index, counter, counter), "BIND binds a DEFINE_VAR"),
    (node(Ops.BIND, index, variable, variable), "BIND gives a CONST"),
    (node(Ops.BUFFER, memory.dtype, arg=BufferArg("CPU", 1, 1)), "accepts values"),
    (node(Ops.ASSIGN, f32, a, n), "ASSIGN of int32 to float32"),
    (node(Ops.MULTI, f32, a, n, arg=ShardArg(("CPU", "CPU:1"))), "has a source of int32"),
    (node(Ops.CONTIGUOUS, f32, n), "has the type of its source, int32"),
    (node(Ops.REDUCE, f32, a, arg=ReduceArg(Ops.SUB, (0,))), "REDUCE by SUB"),
    (node(Ops.REDUCE, truth, b, arg=ReduceArg(Ops.ADD, (0,))), "REDUCE accepts numbers"),
    (node(Ops.REDUCE, fp8, q, arg=ReduceArg(Ops.MAX, (0,))), "accepts numbers and bool"),
    (node(Ops.ADD, f32, a, n), "ADD of float32 has a source of int32"),
    (node(Ops.ADD, truth, b, b), "ADD accepts numbers, got bool"),
    (node(Ops.ADD, fp8, q, q), "ADD accepts numbers, got fp8e4m3"),
    (node(Ops.MAX, fp8, q, q), "MAX accepts numbers and bool, got fp8e4m3"),
    (node(Ops.SQRT, i32, n), "SQRT accepts floats, got int32"),
    (node(Ops.IDIV, f32, a, a), "IDIV accepts integers, got float32"),
    (node(Ops.AND, f32, a, a), "AND accepts integers and bool"),
    (node(Ops.CMPLT, f32, a, a), "gives bool, not float32"),
    (node(Ops.CMPLT, truth, a, n), "CMPLT compares float32 with int32"),
    (node(Ops.CMPNE, truth, v, v), "gives bool, not bool"),
    (node(Ops.CMPNE, truth, q, q), "accepts numbers and bool, got fp8e4m3"),
    (node(Ops.SHL, i32, n, a), "SHL accepts integers, got float32"),
    (node(Ops.SHR, u32, n, n), "SHR of uint32 has a source of int32"),
    (node(Ops.SHL, i32, n, node(Ops.VECTORIZE, i32.vec(2), n, n)), "of 1 lanes has 2 counts"),
    (node(Ops.THREEFRY, u32, n, n), "THREEFRY accepts uint64"),
    (node(Ops.WHERE, void, b, a, a), "WHERE accepts values, got void"),
    (node(Ops.WHERE, f32, n, a, a), "has a condition of int32, not bool"),
    (node(Ops.WHERE, f32, b, a, n), "chooses a value of int32"),
    (node(Ops.WHERE, f32.vec(4), b, v, v), "has a condition of bool, not bool"),
    (node(Ops.CAST, f32.vec(2), v), "turns 4 lanes into 2"),
    (node(Ops.CAST, memory.dtype, a), "accepts scalars and vectors"),
    (node(Ops.BITCAST, f16, a), "differ in size"),
    (node(Ops.BITCAST, f32.vec(2), v), "turns 4 lanes into 2"),
    (node(Ops.BITCAST, memory.dtype, a), "accepts scalars and vectors"),
    (node(Ops.CONST, void, arg=ConstArg(1)), "CONST accepts values, got void"),
    (node(Ops.BITCAST, truth, node(Ops.CAST, i8, n)), "BITCAST to bool from int8"),
    (node(Ops.BITCAST, dtypes.int64, k), "BITCAST of index"),
    (node(Ops.DEFINE_GLOBAL, local.dtype, arg=SlotArg(0)), "a global pointer"),
    (node(Ops.DEFINE_LOCAL, memory.dtype, arg=LocalArg("x")), "a local pointer"),
    (node(Ops.INDEX, memory.dtype, memory, a), "one integer as its position"),
    (node(Ops.INDEX, f32, a, k), "a pointer as its first source"),
    (node(Ops.INDEX, pointer(f32, 4, AddressSpace.LOCAL), memory, k), "type of its source"),
    (node(Ops.LOAD, f32, a), "a pointer as its first source"),
    (node(Ops.LOAD, i32, address), "LOAD of int32 through a pointer to float32"),
    (node(Ops.LOAD, f32, address, a), "needs a gate"),
    (node(Ops.LOAD, f32, address, n, b), "has an alternative of int32"),
    (node(Ops.LOAD, f32, address, a, n), "has a gate of int32"),
    (node(Ops.STORE, f32, address, a), "accepts void"),
    (node(Ops.STORE, void, address, n), "STORE of int32 through a pointer to float32"),
    (node(Ops.STORE, void, address, a, n), "has a gate of int32"),
    (node(Ops.STORE, void, address, a, b, n), "STORE by a mask takes uint32, got float32"),
    (node(Ops.UPDATE_ACC, f32, a, a), "updates a DEFINE_ACC"),
    (node(Ops.UPDATE_ACC, f32, accumulator, n), "takes a value of int32"),
    (node(Ops.RANGE, f32, a, arg=RangeArg(0, AxisKind.LOOP)), "accepts one integer"),
    (node(Ops.RANGE, index, n, arg=RangeArg(0, AxisKind.LOOP)), "type of its source"),
    (node(Ops.SPECIAL, i32, k, arg=SpecialArg("item", 0)), "type of its source"),
    (node(Ops.VECTORIZE, f32.vec(4), a, a), "VECTORIZE of 4 lanes has 2 sources"),
    (node(Ops.VECTORIZE, f32.vec(2), a, n), "has a lane of int32"),
    (node(Ops.GEP, f32, v, arg=GepArg(())), "at least one lane"),
    (node(Ops.GEP, f32, v, a, arg=GepArg((0,))), "GEP takes a vector, then RANGEs"),
    (node(Ops.GEP, i32, v, counter, arg=GepArg((0, 1))), "GEP by ranges is no int32"),
    (node(Ops.GEP, f32, v, arg=GepArg((-1,))), "takes lane -1 of float32x4"),
    (node(Ops.GEP, f32, v, arg=GepArg((4,))), "takes lane 4 of float32x4"),
    (node(Ops.GEP, f32, v, arg=GepArg((0, 1))), "is not float32"),
    (node(Ops.WMMA, f32.vec(4), v, h, v, arg=tile), "WMMA takes A as float16x4, got float32x4"),
    (node(Ops.WMMA, f32.vec(4), h, a, v, arg=tile), "WMMA takes B as float16x4, got float32"),
    (node(Ops.WMMA, f16.vec(4), h, h, h, arg=tile), "WMMA takes C as float32x4, got float16x4"),
    (node(Ops.WMMA, f32, h, h, v, arg=tile), "WMMA gives float32x4, not float32"),
    (node(Ops.AFTER, i32, a), "type of its source"),
    (node(Ops.IF, void, n), "IF has a condition of int32"),
    (node(Ops.END, void, branch), "END closes RANGE, got IF"),
    (node(Ops.ENDIF, void, counter), "ENDIF closes IF, got RANGE"),
    (node(Ops.IOTA, index, arg=ShapeArg((4,))), "IOTA accepts int32 or int64, got index"),
    (node(Ops.IOTA, i32), "IOTA needs a payload ShapeArg or ViewArg, got none"),
    (node(Ops.VALID, f32), "needs a payload ViewArg"),
]


def test_every_op_has_a_row():
    assert set(OP_TABLE) == set(Ops)
    for op, row in OP_TABLE.items():
        assert isinstance(row, OpSpec)
        assert row.op is op
        assert row.sentence.endswith(".")
        assert row.dialects <= set(Dialect)
        assert row.dialects
        assert "." in row.clause


def test_arithmetic_and_nothing_else_has_semantics():
    assert {op for op, row in OP_TABLE.items() if row.semantics is not None} == ALU


@pytest.mark.parametrize(("ops", "arity"), [(UNARY, 1), (BINARY, 2), (TERNARY, 3)])
def test_arity_of_the_groups(ops, arity):
    assert {OP_TABLE[op].arity for op in ops} == {(arity, arity)}


def test_arithmetic_clauses_are_named_after_the_op():
    assert OP_TABLE[Ops.ADD].clause == "isa.add"
    assert OP_TABLE[Ops.MULACC].clause == "isa.mulacc"
    assert len({OP_TABLE[op].clause for op in ALU}) == len(ALU)


def test_dialects():
    assert OP_TABLE[Ops.ADD].dialects == set(Dialect)
    assert OP_TABLE[Ops.VIEW].dialects == {Dialect.AST}
    assert OP_TABLE[Ops.END].dialects == {Dialect.PROGRAM}
    assert Dialect.PROGRAM not in OP_TABLE[Ops.SINK].dialects
    assert Dialect.PROGRAM not in OP_TABLE[Ops.REDUCE].dialects


@pytest.mark.table
@pytest.mark.parametrize("good", GOOD, ids=repr)
def test_accepts(good):
    assert OP_TABLE[good.op].check(good) is None


@pytest.mark.table
@pytest.mark.parametrize(("bad", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_refuses(bad, problem):
    actual = OP_TABLE[bad.op].check(bad)
    assert actual is not None
    assert problem in actual


def test_every_typing_rule_is_accepted_and_refused_somewhere():
    # VIEW, VALID and PAD need payloads of other modules; other ops have the same rules.
    tried = {good.op for good in GOOD}
    assert set(Ops) - tried == {Ops.VIEW, Ops.VALID, Ops.PAD, Ops.SHRINK}
    refused = {OP_TABLE[bad.op].typing for bad, _ in BAD}
    accepted = {OP_TABLE[good.op].typing for good in GOOD}
    assert accepted - refused == set()
