"""Test the builders of the tensor graph: shapes, folding, merging, refusals."""

import math

import pytest

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.lazy import graph as g
from tinyref.uops import build
from tinyref.uops.ops import Dialect, Ops
from tinyref.verify import verify

F32, F64, F16 = dtypes.float32, dtypes.float64, dtypes.float16
I32, I8, U8, BOOL = dtypes.int32, dtypes.int8, dtypes.uint8, dtypes.bool


def buffer(*shape, dtype=F32, device="PYTHON"):
    return g.new_buffer(device, shape, dtype)


def value(node):
    return g.uniform_value(node)


def number(x, dtype=F32):
    return g.constant(x, dtype)


# --- shapes -------------------------------------------------------------------------------------


def test_shapes_of_every_builder():
    x = buffer(2, 3)
    assert g.shape_of(x) == (2, 3)
    assert g.shape_of(g.alu(Ops.ADD, x, x)) == (2, 3)
    assert g.shape_of(g.reshape(x, (3, 2))) == (3, 2)
    assert g.shape_of(g.permute(x, (1, 0))) == (3, 2)
    assert g.shape_of(g.expand(g.reshape(x, (2, 1, 3)), (2, 5, 3))) == (2, 5, 3)
    assert g.shape_of(g.pad(x, ((1, 0), (2, 3)))) == (3, 8)
    assert g.shape_of(g.shrink(x, ((0, 1), (1, 3)))) == (1, 2)
    assert g.shape_of(g.flip(x, (0,))) == (2, 3)
    assert g.shape_of(g.reduce(Ops.ADD, x, (1,))) == (2, 1)
    assert g.shape_of(g.cast(x, I32)) == (2, 3)
    assert g.shape_of(g.assign(x, x)) == (2, 3)
    assert g.shape_of(number(1.0)) == ()
    assert g.shape_of(buffer()) == ()


def test_iota_has_a_size_and_no_device():
    numbers = g.iota(5)
    assert (g.shape_of(numbers), numbers.dtype) == ((5,), I32)
    assert g.device_of(numbers) is None
    assert value(numbers) is None
    assert g.iota(5) is numbers
    verify(Dialect.TENSOR, numbers)
    assert g.copy(numbers, "PYTHON") is numbers
    assert g.device_of(g.alu(Ops.ADD, numbers, buffer(5, dtype=I32))) == "PYTHON"


def test_iota_of_one_is_a_constant():
    assert (value(g.iota(1)), g.shape_of(g.iota(1))) == (0, (1,))
    assert g.shape_of(g.iota(0)) == (0,)


def test_iota_takes_a_symbolic_size():
    n = build.variable("n", 1, 9)
    assert g.shape_of(g.iota(n)) == (n,)
    verify(Dialect.TENSOR, g.iota(n))


def test_iota_is_int64_where_int32_does_not_number_the_elements():
    assert g.iota(2**31 - 1).dtype is I32
    for size in (2**31, 2**63 - 1, build.variable("n", 1, 2**31)):
        numbers = g.iota(size)
        assert (g.shape_of(numbers), numbers.dtype) == ((size,), dtypes.int64)
        verify(Dialect.TENSOR, numbers)
    with pytest.raises(UserError, match="iota: 9223372036854775808 may be 9223372036854775808"):
        g.iota(2**63)
    with pytest.raises(UserError, match="negative size -1"):
        g.iota(-1)


def test_a_scalar_spreads_over_the_other_operand():
    x = g.alu(Ops.ADD, number(1.0), buffer(2, 3))
    assert [g.shape_of(source) for source in x.src] == [(2, 3), (2, 3)]
    verify(Dialect.TENSOR, x)


def test_comparisons_give_bool_and_where_takes_the_branch_type():
    x = buffer(2, dtype=I32)
    less = g.alu(Ops.CMPLT, x, x)
    assert less.dtype is BOOL
    assert g.where(less, x, x) is x
    assert g.where(less, x, g.full_like(x, 1)).dtype is I32


# --- folding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "operands", "dtype", "gives"),
    [
        (Ops.ADD, (2.5, 0.25), F32, 2.75),
        (Ops.ADD, (127, 1), I8, -128),
        (Ops.SUB, (0, 1), U8, 255),
        (Ops.MUL, (-0.0, 3.0), F32, -0.0),
        (Ops.IDIV, (-7, 2), I32, -3),
        (Ops.MOD, (-7, 2), I32, -1),
        (Ops.MAX, (-math.inf, 1.0), F32, 1.0),
        (Ops.NEG, (-128,), I8, -128),
        (Ops.EXP2, (3.0,), F32, 8.0),
        (Ops.XOR, (True, True), BOOL, False),
        (Ops.CMPLT, (1, 2), I32, True),
        (Ops.CMPNE, (math.nan, math.nan), F32, True),
    ],
)
def test_constants_fold(op, operands, dtype, gives):
    sources = [g.full((2, 3), operand, dtype) for operand in operands]
    folded = g.alu(op, *sources)
    assert g.shape_of(folded) == (2, 3)
    assert (value(folded), math.copysign(1, value(folded))) == (gives, math.copysign(1, gives))


def test_casts_of_constants_fold():
    assert value(g.cast(g.full((2,), 300, I32), U8)) == 44
    assert value(g.cast(number(2.7), I32)) == 2
    assert value(g.cast(number(1e300, F64), F32)) == math.inf
    assert value(g.bitcast(number(1.0), I32)) == 0x3F800000


def test_casts_to_the_same_type_are_dropped():
    x = buffer(3)
    assert g.cast(x, F32) is x
    assert g.bitcast(x, F32) is x


@pytest.mark.parametrize(
    ("op", "neutral", "dtype"),
    [
        (Ops.ADD, 0, I32),
        (Ops.ADD, -0.0, F32),
        (Ops.SUB, 0.0, F32),
        (Ops.MUL, 1.0, F32),
        (Ops.FDIV, 1.0, F32),
        (Ops.IDIV, 1, I32),
        (Ops.AND, -1, I32),
        (Ops.AND, True, BOOL),
        (Ops.OR, 0, I32),
        (Ops.XOR, 0, I32),
        (Ops.SHL, 0, I32),
        (Ops.POW, 1.0, F32),
    ],
)
def test_neutral_operands_are_dropped(op, neutral, dtype):
    x = buffer(4, dtype=dtype)
    assert g.alu(op, x, number(neutral, dtype)) is x


@pytest.mark.parametrize(
    ("op", "operand", "dtype"),
    [
        (Ops.ADD, 0.0, F32),  # -0.0 + 0.0 is 0.0
        (Ops.SUB, -0.0, F32),
        (Ops.MUL, 0.0, F32),  # NaN * 0.0 is NaN
        (Ops.MAX, 0.0, F32),
        (Ops.XOR, -1, I32),
    ],
)
def test_operands_that_only_look_neutral_stay(op, operand, dtype):
    x = buffer(4, dtype=dtype)
    assert g.alu(op, x, number(operand, dtype)).op is op


def test_neutral_operand_on_the_left():
    x = buffer(4, dtype=I32)
    assert g.alu(Ops.MUL, number(1, I32), x) is x
    assert g.alu(Ops.SUB, number(0, I32), x).op is Ops.SUB


def test_movement_of_a_constant_is_a_constant():
    node = g.full((2, 3), 5.0, F32)
    node = g.permute(g.reshape(node, (1, 6)), (1, 0))
    node = g.flip(g.shrink(g.expand(node, (6, 4)), ((1, 3), (0, 4))), (0, 1))
    assert node is g.full((2, 4), 5.0, F32)


def test_padding_zero_is_zero_and_padding_one_is_not_one():
    assert g.pad(g.full((2,), 0.0, F32), ((1, 1),)) is g.full((4,), 0.0, F32)
    assert value(g.pad(g.full((2,), 1.0, F32), ((1, 1),))) is None
    assert value(g.pad(g.full((2,), -0.0, F32), ((1, 1),))) is None


@pytest.mark.parametrize(
    ("op", "item", "count", "dtype", "gives"),
    [
        (Ops.ADD, 3, 100, I32, 300),
        (Ops.ADD, 3, 100, U8, 44),
        (Ops.ADD, 0.5, 1000, F32, 500.0),
        (Ops.ADD, 1.0, 2048, F16, 2048.0),
        (Ops.ADD, math.inf, 5, F32, math.inf),
        (Ops.MAX, -3.0, 7, F32, -3.0),
        (Ops.MUL, 3, 40, I32, 3**40 % 2**32 - 2**32 * (3**40 % 2**32 >= 2**31)),
        (Ops.MUL, 1.0, 9, F32, 1.0),
        (Ops.ADD, 7.0, 1, F32, 7.0),
    ],
)
def test_reduces_of_constants_that_are_exact_fold(op, item, count, dtype, gives):
    folded = g.reduce(op, g.full((2, count), item, dtype), (1,))
    assert g.shape_of(folded) == (2, 1)
    assert value(folded) == gives


@pytest.mark.parametrize(
    ("op", "item", "count", "dtype"),
    [
        (Ops.ADD, 0.1, 10, F32),
        (Ops.ADD, 1.0, 4097, F16),
        (Ops.MUL, 0.9, 3, F32),
        (Ops.ADD, 1e38, 10, F32),
    ],
)
def test_reduces_of_constants_that_round_stay(op, item, count, dtype):
    assert g.reduce(op, g.full((count,), item, dtype), (0,)).op is Ops.REDUCE


def test_reduce_over_nothing_is_the_identity():
    x = buffer(3, 0)
    assert value(g.reduce(Ops.ADD, x, (1,))) == 0
    assert value(g.reduce(Ops.MUL, x, (1,))) == 1
    assert value(g.reduce(Ops.MAX, x, (1,))) == -math.inf
    assert value(g.reduce(Ops.MAX, buffer(3, 0, dtype=I8), (1,))) == -128


def test_results_without_elements_are_constants():
    x = buffer(2, 3)
    for node in (
        g.shrink(x, ((1, 1), (0, 3))),
        g.alu(Ops.ADD, buffer(0), buffer(0)),
        g.reduce(Ops.ADD, buffer(0, 3), (1,)),
        g.expand(g.reshape(x, (2, 1, 3)), (2, 0, 3)),
        g.copy(buffer(0, device="CPU"), "PYTHON"),
    ):
        assert value(node) == 0


# --- merging ------------------------------------------------------------------------------------


def test_movement_of_one_kind_merges():
    x = buffer(2, 3, 4)
    assert g.reshape(g.reshape(x, (6, 4)), (2, 12)) is g.reshape(x, (2, 12))
    assert g.reshape(g.reshape(x, (6, 4)), (2, 3, 4)) is x
    assert g.permute(g.permute(x, (1, 2, 0)), (2, 0, 1)) is x
    assert g.permute(g.permute(x, (1, 2, 0)), (1, 2, 0)) is g.permute(x, (2, 0, 1))
    assert g.flip(g.flip(x, (0, 2)), (0, 1)) is g.flip(x, (1, 2))
    assert g.flip(g.flip(x, (0,)), (0,)) is x
    narrow = buffer(1, 1)
    assert g.expand(g.expand(narrow, (2, 1)), (2, 3)) is g.expand(narrow, (2, 3))
    flat = buffer(10)
    assert g.shrink(g.shrink(flat, ((2, 9),)), ((1, 4),)) is g.shrink(flat, ((3, 6),))
    assert g.pad(g.pad(flat, ((1, 2),)), ((3, 4),)) is g.pad(flat, ((4, 6),))


def test_movement_that_does_nothing_is_dropped():
    x = buffer(2, 1)
    assert g.reshape(x, (2, 1)) is x
    assert g.permute(x, (0, 1)) is x
    assert g.expand(x, (2, 1)) is x
    assert g.pad(x, ((0, 0), (0, 0))) is x
    assert g.shrink(x, ((0, 2), (0, 1))) is x
    assert g.flip(x, ()) is x
    assert g.flip(x, (1,)) is x
    assert g.reduce(Ops.ADD, x, (1,)) is x
    assert g.reduce(Ops.ADD, x, ()) is x


def test_a_reduce_of_a_reduce_by_the_same_op_is_one():
    x = buffer(2, 3, 4)
    assert g.reduce(Ops.ADD, g.reduce(Ops.ADD, x, (2,)), (0,)) is g.reduce(Ops.ADD, x, (0, 2))
    assert g.reduce(Ops.MAX, g.reduce(Ops.ADD, x, (2,)), (0,)).src[0].op is Ops.REDUCE


# --- placement ----------------------------------------------------------------------------------


def test_copies():
    x = buffer(2, 3, device="CPU")
    assert g.copy(x, "CPU") is x
    assert g.copy(x, "cpu:0") is x
    assert g.copy(number(3.0), "CPU") is number(3.0)
    moved = g.copy(g.permute(x, (1, 0)), "PYTHON")
    assert moved.op is Ops.PERMUTE
    assert g.device_of(moved) == "PYTHON"
    assert g.device_of(g.alu(Ops.ADD, moved, number(1.0))) == "PYTHON"
    assert g.device_of(number(1.0)) is None


def test_contiguous_of_a_buffer_is_dropped():
    x = buffer(2, 3)
    assert g.contiguous(x) is x
    assert g.contiguous(g.reshape(x, (6,))) is g.reshape(x, (6,))
    turned = g.contiguous(g.permute(x, (1, 0)))
    assert turned.op is Ops.CONTIGUOUS
    assert g.contiguous(turned) is turned
    assert g.contiguous(g.shrink(x, ((0, 1), (0, 3)))).op is Ops.CONTIGUOUS
    assert g.detach(g.detach(x)) is g.detach(x)


def test_backing_is_the_buffer_of_a_realised_node():
    x = buffer(2, 3)
    assert g.backing(x).op is Ops.BUFFER
    assert g.backing(g.reshape(x, (6,))) is g.backing(x)
    assert g.backing(g.shrink(x, ((0, 1), (0, 3)))) is None
    assert g.backing(g.permute(x, (1, 0))) is None
    assert g.backing(number(1.0)) is None


# --- symbolic sizes -----------------------------------------------------------------------------


def test_symbolic_sizes_pass_through_every_builder():
    n = build.variable("n", 1, 10)
    x = buffer(n, 4)
    assert g.shape_of(x) == (n, 4)
    assert g.backing(x).arg.size == 40
    assert g.shape_of(g.reshape(x, (build.mul(n, 4),))) == g.shape_of(
        g.reshape(x, (build.mul(4, n),))
    )
    assert g.shape_of(g.permute(x, (1, 0))) == (4, n)
    assert g.shape_of(g.expand(g.reshape(x, (n, 4, 1)), (n, 4, n))) == (n, 4, n)
    assert g.shape_of(g.shrink(buffer(10, 4), ((0, n), (0, 4)))) == (n, 4)
    assert g.shape_of(g.reduce(Ops.ADD, x, (0,))) == (1, 4)
    assert g.shape_of(g.reduce(Ops.ADD, x, (1,))) == (n, 1)
    wider = g.shape_of(g.pad(x, ((1, 0), (0, 0))))[0]
    assert g.shape_of(g.pad(buffer(n), ((0, 1),)))[0] is wider


def test_binding_a_variable():
    n = build.variable("n", 1, 10)
    bound = g.bind(n, 3)
    assert g.shape_of(buffer(bound, 2)) == (bound, 2)
    for wrong in (0, 11, 2.0, True):
        with pytest.raises(UserError, match="bind"):
            g.bind(n, wrong)
    with pytest.raises(UserError, match="accepted is a variable"):
        g.bind(number(1, dtypes.index), 1)


# --- refusals -----------------------------------------------------------------------------------

N = build.variable("n", 0, 10)
REFUSED = {
    "shapes differ": (lambda: g.alu(Ops.ADD, buffer(2), buffer(3)), r"\(2,\) and \(3,\) differ"),
    "dtypes differ": (lambda: g.alu(Ops.ADD, buffer(2), buffer(2, dtype=I32)), "int32"),
    "float xor": (lambda: g.alu(Ops.XOR, buffer(2), buffer(2)), "XOR"),
    "no operands": (lambda: g.alu(Ops.ADD), "no operands"),
    "one operand": (lambda: g.alu(Ops.ADD, buffer(2)), "takes 2 sources, got 1"),
    "not elementwise": (lambda: g.alu(Ops.RESHAPE, buffer(2)), "RESHAPE"),
    "cast by alu": (lambda: g.alu(Ops.CAST, buffer(2)), "CAST"),
    "condition is no bool": (lambda: g.where(buffer(2), buffer(2), buffer(2)), "bool"),
    "two devices": (lambda: g.alu(Ops.ADD, buffer(2), buffer(2, device="CPU")), "PYTHON and CPU"),
    "constant of void": (lambda: g.constant(1, dtypes.void), "void"),
    "nan as int": (lambda: g.constant(math.nan, I32), "int32"),
    "expand rank": (lambda: g.expand(buffer(2), (2, 2)), "reshape first"),
    "pad negative": (lambda: g.pad(buffer(2), ((-1, 0),)), "shrink takes"),
    "pad unknown": (lambda: g.pad(buffer(2), ((build.sub(N, 1), 0),)), "n has no value"),
    "pad rank": (lambda: g.pad(buffer(2), ()), "0 pairs for 1 axes"),
    "shrink unknown": (lambda: g.shrink(buffer(5), ((0, N),)), "accepted is n from 0 to 5"),
    "reduce by SUB": (lambda: g.reduce(Ops.SUB, buffer(2), (0,)), "ADD, MAX, MUL"),
    "permute twice": (lambda: g.permute(buffer(2, 3), (0, 0)), "exactly once"),
    "flip twice": (lambda: g.flip(buffer(2), (0, 0)), "twice"),
    "reduce twice": (lambda: g.reduce(Ops.ADD, buffer(2), (0, 0)), "twice"),
    "reduce negative axis": (lambda: g.reduce(Ops.ADD, buffer(2), (-1,)), "axis -1"),
    "reduce scalar": (lambda: g.reduce(Ops.ADD, buffer(), (0,)), "no axes"),
    "assign to a sum": (lambda: g.assign(g.alu(Ops.NEG, buffer(2)), buffer(2)), "NEG"),
    "assign to an expand": (
        lambda: g.assign(g.expand(buffer(1), (4,)), buffer(4)),
        "EXPAND",
    ),
    "assign shape": (lambda: g.assign(buffer(2), buffer(3)), r"\(3,\)"),
    "assign dtype": (lambda: g.assign(buffer(2), buffer(2, dtype=I32)), "int32"),
    "assign device": (lambda: g.assign(buffer(2), buffer(2, device="CPU")), "CPU"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_and_named(name):
    wrong, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        wrong()


def test_everything_that_is_built_verifies():
    x = buffer(2, 3)
    node = g.pad(
        g.reduce(Ops.ADD, g.permute(g.alu(Ops.MUL, x, number(2.0)), (1, 0)), (0,)), ((1, 0), (0, 1))
    )
    verify(Dialect.TENSOR, g.assign(buffer(2, 3), g.copy(g.reshape(node, (2, 3)), "PYTHON")))
