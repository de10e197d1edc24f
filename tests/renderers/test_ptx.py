"""PTX: which instruction each op of each type becomes, by the words of the ISA.

The literals are those of "Parallel Thread Execution ISA": "Integer Arithmetic", "Floating-Point",
"Half Precision Floating-Point", "Comparison and Selection", "Logic and Shift", "Data Movement and
Conversion" and "Warp-level Matrix Instructions".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

import pytest

from tinyref.codegen.decompose.check import check_program
from tinyref.config import Context
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.ptx import MAX_ACCESS_BYTES, PtxRenderer
from tinyref.runtimes.cuda_compilers import capabilities_of
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SpecialArg, TileArg, VarArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import GROUPS, TILES, MatrixTile, Operand
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import at

BOOL, INT, FLOAT = dtypes.bool, dtypes.int32, dtypes.float32
I8, U8, I16, U16 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16
U32, I64, U64 = dtypes.uint32, dtypes.int64, dtypes.uint64
F16, BF16, F64 = dtypes.float16, dtypes.bfloat16, dtypes.float64


def loaded(slot: int, dtype: DType, lanes: int = 1) -> UOp:
    return build.load(at(build.define_global(slot, dtype, 64), 0), lanes=lanes)


def stored(value: UOp) -> Program:
    out = build.define_global(0, value.dtype.scalar, 64)
    return programs.program("sample", build.store(at(out, 0), value))


def body(program: Program, architecture: int = 90) -> list[str]:
    """The lines between the braces of a kernel that compute, without those that declare."""
    text = PtxRenderer(architecture).render(program)
    lines = (line.strip().removesuffix(";") for line in text.partition("{\n")[2].splitlines())
    return [line for line in lines if line and not line.startswith((".", "}", "ret"))]


def computed(value: UOp, architecture: int = 90) -> list[str]:
    """The lines that compute `value` of what was loaded: neither addresses nor constants."""
    around = ("mad.wide", "ld.", "cvta", "mov.b16 %rs", "mov.b32 %r", "mov.b64 %rd", "st.")
    return [line for line in body(stored(value), architecture) if not line.startswith(around)]


def opcodes(value: UOp, architecture: int = 90) -> list[str]:
    return [line.split()[0] for line in computed(value, architecture)]


def applied(op: Ops, dtype: DType, result: DType | None = None, arity: int = 2) -> UOp:
    return UOp(op, result or dtype, tuple(loaded(slot + 1, dtype) for slot in range(arity)))


# The instruction of each integer type of 16 bits and more; of 8 bits it is that of 16, extended.
INTEGER = {
    Ops.ADD: ("add.s16", "add.u16", "add.s32", "add.u32", "add.s64", "add.u64"),
    Ops.SUB: ("sub.s16", "sub.u16", "sub.s32", "sub.u32", "sub.s64", "sub.u64"),
    Ops.MUL: ("mul.lo.s16", "mul.lo.u16", "mul.lo.s32", "mul.lo.u32", "mul.lo.s64", "mul.lo.u64"),
    Ops.IDIV: ("div.s16", "div.u16", "div.s32", "div.u32", "div.s64", "div.u64"),
    Ops.MOD: ("rem.s16", "rem.u16", "rem.s32", "rem.u32", "rem.s64", "rem.u64"),
    Ops.MAX: ("max.s16", "max.u16", "max.s32", "max.u32", "max.s64", "max.u64"),
    Ops.AND: ("and.b16", "and.b16", "and.b32", "and.b32", "and.b64", "and.b64"),
    Ops.OR: ("or.b16", "or.b16", "or.b32", "or.b32", "or.b64", "or.b64"),
    Ops.XOR: ("xor.b16", "xor.b16", "xor.b32", "xor.b32", "xor.b64", "xor.b64"),
}
TYPES = (I16, U16, INT, U32, I64, U64)


@pytest.mark.table
@pytest.mark.parametrize("op", INTEGER, ids=lambda op: op.name)
def test_integers(op: Ops) -> None:
    found = tuple(opcodes(applied(op, dtype)) for dtype in TYPES)
    assert found == tuple([word] for word in INTEGER[op])


@pytest.mark.table
@pytest.mark.parametrize("op", INTEGER, ids=lambda op: op.name)
def test_integers_of_8_bits_stay_extended(op: Ops) -> None:
    """What stays in the range of 8 bits needs no extension; a division by 0 gives anything."""
    keeps = op in (Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)
    signed, unsigned = INTEGER[op][:2]
    assert opcodes(applied(op, I8)) == [signed] + [] * keeps + ["cvt.s16.s8"] * (not keeps)
    assert opcodes(applied(op, U8)) == [unsigned] + ["cvt.u16.u8"] * (not keeps)


@pytest.mark.table
@pytest.mark.parametrize(
    ("op", "wide", "half"),
    [
        (Ops.ADD, "add.rn.f32", "add.rn.f16"),
        (Ops.SUB, "sub.rn.f32", "sub.rn.f16"),
        (Ops.MUL, "mul.rn.f32", "mul.rn.f16"),
        (Ops.FDIV, "div.rn.f32", None),
        (Ops.RECIP, "rcp.rn.f32", None),
        (Ops.SQRT, "sqrt.rn.f32", None),
        (Ops.TRUNC, "cvt.rzi.f32.f32", None),
        (Ops.MAX, "max.f32", "max.f16"),
    ],
)
def test_floats(op: Ops, wide: str, half: str | None) -> None:
    """Every operation rounds to nearest even; what halves have no instruction for is widened."""
    arity = 1 if op in (Ops.RECIP, Ops.SQRT, Ops.TRUNC) else 2
    assert opcodes(applied(op, FLOAT, arity=arity)) == [wide]
    assert opcodes(applied(op, F64, arity=arity)) == [wide.replace("32", "64")]
    widened = ["cvt.f32.f16"] * arity + [wide, "cvt.rn.f16.f32"]
    assert opcodes(applied(op, F16, arity=arity)) == ([half] if half else widened)
    # bfloat16 is the upper half of float32: a move widens it, which is left out here.
    expected = [half.replace("f16", "bf16")] if half else [wide, "cvt.rn.bf16.f32"]
    assert opcodes(applied(op, BF16, arity=arity)) == expected


def test_bfloat16_is_widened_as_the_upper_half() -> None:
    lines = body(stored(UOp(Ops.SQRT, BF16, (loaded(1, BF16),))))
    (zero,) = [line.split()[1] for line in lines if line == "mov.b16 %rs2, 0"]
    assert f"mov.b32 %r2, {{{zero} %rs1}}" in lines


def test_the_maximum_of_halves_is_widened_before_sm_80() -> None:
    words = ["cvt.f32.f16", "cvt.f32.f16", "max.f32", "cvt.rn.f16.f32"]
    assert opcodes(applied(Ops.MAX, F16), 75) == words
    assert opcodes(applied(Ops.MAX, F16), 80) == ["max.f16"]


def test_bfloat16_before_sm_90_is_computed_in_float32() -> None:
    """sm_80 converts to and from float32, and has nothing else of it that rounds once."""
    assert opcodes(applied(Ops.ADD, BF16), 80) == ["add.rn.f32", "cvt.rn.bf16.f32"]
    assert opcodes(applied(Ops.MAX, BF16), 80) == ["max.f32", "cvt.rn.bf16.f32"]
    assert opcodes(applied(Ops.CMPNE, BF16, BOOL), 89) == ["setp.neu.f32", "selp.b16"]
    assert opcodes(build.cast(loaded(1, F16), BF16), 80) == ["cvt.f32.f16", "cvt.rn.bf16.f32"]
    assert opcodes(build.cast(loaded(1, BF16), INT), 80) == ["cvt.rzi.s32.f32"]
    # Once towards zero, with what was lost in the last bit, then to nearest.
    odd = ["setp.ne.s64", "selp.b32", "or.b32", "cvt.rn.bf16.f32"]
    words = ["cvt.rz.f32.s64", "cvt.rzi.s64.f32", *odd]
    assert opcodes(build.cast(loaded(1, I64), BF16), 80) == words
    odd[0] = "setp.neu.f64"
    words = ["cvt.rz.f32.f64", "cvt.f64.f32", *odd]
    assert opcodes(build.cast(loaded(1, F64), BF16), 80) == words


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "less", "differs"),
    [
        *((each, f"setp.lt.s{each.bits}", f"setp.ne.s{each.bits}") for each in (I16, INT, I64)),
        *((each, f"setp.lt.u{each.bits}", f"setp.ne.u{each.bits}") for each in (U16, U32, U64)),
        (I8, "setp.lt.s16", "setp.ne.s16"),
        (U8, "setp.lt.u16", "setp.ne.u16"),
        (F16, "setp.lt.f16", "setp.neu.f16"),
        (BF16, "setp.lt.bf16", "setp.neu.bf16"),
        (FLOAT, "setp.lt.f32", "setp.neu.f32"),
        (F64, "setp.lt.f64", "setp.neu.f64"),
    ],
    ids=str,
)
def test_comparisons(dtype: DType, less: str, differs: str) -> None:
    """With a NaN `lt` is false and `neu` true; `ne` would be false. A bool is stored as a byte."""
    assert opcodes(applied(Ops.CMPLT, dtype, BOOL)) == [less, "selp.b16"]
    assert opcodes(applied(Ops.CMPNE, dtype, BOOL)) == [differs, "selp.b16"]


def test_bools_are_predicates() -> None:
    """Loaded from a byte, of which any but 0 is true."""
    head, tail = (
        ["setp.ne.u16 %p1, %rs1, %rs2", "setp.ne.u16 %p2, %rs3, %rs2"],
        "selp.b16 %rs4, 1, 0",
    )
    for op, word in ((Ops.AND, "and"), (Ops.OR, "or"), (Ops.XOR, "xor"), (Ops.MAX, "or")):
        assert computed(applied(op, BOOL)) == [*head, f"{word}.pred %p3, %p1, %p2", f"{tail}, %p3"]
    different = computed(applied(Ops.CMPNE, BOOL))
    assert different == [*head, "xor.pred %p3, %p1, %p2", f"{tail}, %p3"]
    less = ["not.pred %p3, %p1", "and.pred %p4, %p3, %p2", f"{tail}, %p4"]
    assert computed(applied(Ops.CMPLT, BOOL)) == [*head, *less]


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "left", "right"),
    [
        (I8, ["shl.b16", "cvt.s16.s8"], ["shr.s16"]),
        (U8, ["shl.b16", "cvt.u16.u8"], ["shr.u16"]),
        (I16, ["shl.b16"], ["shr.s16"]),
        (U16, ["shl.b16"], ["shr.u16"]),
        (INT, ["shl.b32"], ["shr.s32"]),
        (U32, ["shl.b32"], ["shr.u32"]),
        (I64, ["shl.b64"], ["shr.s64"]),
        (U64, ["shl.b64"], ["shr.u64"]),
    ],
    ids=str,
)
def test_shifts(dtype: DType, left: list[str], right: list[str]) -> None:
    """The count is 32 bits of its own, whatever is shifted; the instructions clamp it."""
    value = loaded(1, dtype)
    counts: dict[DType, list[str]] = {
        U32: [],
        INT: [],
        I64: ["cvt.u32.u64"],
        U16: ["cvt.u32.u16"],
        I8: ["cvt.s32.s16"],
    }
    for kind, resized in counts.items():
        count = loaded(2, kind)
        assert opcodes(UOp(Ops.SHL, dtype, (value, count))) == [*resized, *left]
        assert opcodes(UOp(Ops.SHR, dtype, (value, count))) == [*resized, *right]


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "word", "sign"),
    [
        (F16, "xor.b16", "0x8000"),
        (BF16, "xor.b16", "0x8000"),
        (FLOAT, "xor.b32", "0x80000000"),
        (F64, "xor.b64", "0x8000000000000000"),
    ],
    ids=str,
)
def test_the_sign_of_a_float_is_a_bit(dtype: DType, word: str, sign: str) -> None:
    """`neg` may give any NaN for a NaN."""
    lines = body(stored(applied(Ops.NEG, dtype, arity=1)))
    assert [line for line in lines if line.startswith("mov.b") and line.endswith(sign)]
    assert opcodes(applied(Ops.NEG, dtype, arity=1)) == [word]


def test_the_negative_of_an_integer() -> None:
    words = {I16: "neg.s16", U16: "neg.s16", INT: "neg.s32", U32: "neg.s32", U64: "neg.s64"}
    for dtype, word in words.items():
        assert opcodes(applied(Ops.NEG, dtype, arity=1)) == [word]
    assert opcodes(applied(Ops.NEG, I8, arity=1)) == ["neg.s16", "cvt.s16.s8"]
    assert opcodes(applied(Ops.NEG, U8, arity=1)) == ["neg.s16", "cvt.u16.u8"]


# What each cast becomes; "" stands for no instruction at all.
CASTS: dict[tuple[DType, DType], str] = {
    # Between integers: low bits, or extended as the source is; 8 bits once more in their register.
    (INT, I64): "cvt.s64.s32",
    (U32, I64): "cvt.u64.u32",
    (INT, U64): "cvt.s64.s32",
    (I64, INT): "cvt.u32.u64",
    (INT, I16): "cvt.u16.u32",
    (INT, I8): "cvt.u16.u32 cvt.s16.s8",
    (INT, U8): "cvt.u16.u32 cvt.u16.u8",
    (I64, I8): "cvt.u16.u64 cvt.s16.s8",
    (I8, INT): "cvt.s32.s16",
    (U8, INT): "cvt.u32.u16",
    (I8, U64): "cvt.s64.s16",
    (I8, U8): "cvt.u16.u8",
    (U8, I8): "cvt.s16.s8",
    (I16, U8): "cvt.u16.u8",
    (U8, I16): "",
    (I8, U16): "",
    (INT, U32): "",
    (U64, I64): "",
    # Floats to integers: truncated, and out of range the nearest; halves through float32.
    (FLOAT, INT): "cvt.rzi.s32.f32",
    (FLOAT, U32): "cvt.rzi.u32.f32",
    (FLOAT, I8): "cvt.rzi.s8.f32",
    (FLOAT, U8): "cvt.rzi.u8.f32",
    (FLOAT, U16): "cvt.rzi.u16.f32",
    (FLOAT, U64): "cvt.rzi.u64.f32",
    (F64, I64): "cvt.rzi.s64.f64",
    (F64, I16): "cvt.rzi.s16.f64",
    (F16, INT): "cvt.f32.f16 cvt.rzi.s32.f32",
    (BF16, U8): "cvt.rzi.u8.f32",
    # Integers to floats: rounded once. float32 holds all integers that float16 does.
    (INT, FLOAT): "cvt.rn.f32.s32",
    (U64, FLOAT): "cvt.rn.f32.u64",
    (I8, FLOAT): "cvt.rn.f32.s16",
    (U8, F64): "cvt.rn.f64.u16",
    (I64, F64): "cvt.rn.f64.s64",
    (INT, F16): "cvt.rn.f32.s32 cvt.rn.f16.f32",
    (U64, F16): "cvt.rn.f32.u64 cvt.rn.f16.f32",
    (INT, BF16): "cvt.rn.bf16.s32",
    (U64, BF16): "cvt.rn.bf16.u64",
    # Between floats: only what loses bits is rounded, once.
    (FLOAT, F64): "cvt.f64.f32",
    (F64, FLOAT): "cvt.rn.f32.f64",
    (F64, F16): "cvt.rn.f16.f64",
    (F64, BF16): "cvt.rn.bf16.f64",
    (FLOAT, F16): "cvt.rn.f16.f32",
    (FLOAT, BF16): "cvt.rn.bf16.f32",
    (F16, FLOAT): "cvt.f32.f16",
    (F16, F64): "cvt.f32.f16 cvt.f64.f32",
    (F16, BF16): "cvt.f32.f16 cvt.rn.bf16.f32",
    (BF16, F16): "cvt.rn.f16.f32",
    # To a bool: not zero, which a NaN is not either.
    (INT, BOOL): "setp.ne.s32 selp.b16",
    (U8, BOOL): "setp.ne.u16 selp.b16",
    (FLOAT, BOOL): "setp.neu.f32 selp.b16",
    (F16, BOOL): "setp.neu.f16 selp.b16",
    # From a bool, loaded as a byte.
    (BOOL, INT): "setp.ne.u16 selp.b32",
    (BOOL, I8): "setp.ne.u16 selp.b16",
    (BOOL, I64): "setp.ne.u16 selp.b64",
    (BOOL, FLOAT): "setp.ne.u16 selp.b32",
    (BOOL, F16): "setp.ne.u16 selp.b16",
}


@pytest.mark.table
@pytest.mark.parametrize(("have", "want"), CASTS, ids=str)
def test_casts(have: DType, want: DType) -> None:
    assert " ".join(opcodes(build.cast(loaded(1, have), want))) == CASTS[have, want]


def test_a_bool_is_one_or_zero_of_its_type() -> None:
    """1.0 of a float, and the first operand of `selp` is that of a true predicate."""
    lines = body(stored(build.cast(loaded(1, BOOL), FLOAT)))
    (choice,) = [line for line in lines if line.startswith("selp")]
    one, zero = choice.removesuffix(", %p1").split(", ")[1:]
    values = dict(line.removeprefix("mov.b32 ").split(", ") for line in lines if "mov.b32" in line)
    assert int(values[one], 0) == 0x3F800000
    assert int(values[zero], 0) == 0


@pytest.mark.table
@pytest.mark.parametrize(
    ("have", "want", "words"),
    [
        (FLOAT, INT, ""),
        (U32, FLOAT, ""),
        (F64, U64, ""),
        (F16, U16, ""),
        (I16, BF16, ""),
        (I8, U8, "cvt.u16.u8"),
        (U8, I8, "cvt.s16.s8"),
        (BOOL, U8, "setp.ne.u16 selp.b16"),
        (I8, BOOL, "setp.ne.s16 selp.b16"),
    ],
    ids=str,
)
def test_bitcasts(have: DType, want: DType, words: str) -> None:
    assert " ".join(opcodes(UOp(Ops.BITCAST, want, (loaded(1, have),)))) == words


def test_a_choice_takes_the_first_where_the_condition_holds() -> None:
    value = build.where(loaded(3, BOOL), loaded(1, INT), loaded(2, INT))
    lines = body(stored(value))
    (chosen,), (other,) = (loads_of(lines, slot) for slot in (1, 2))
    assert computed(value)[-1] == f"selp.b32 %r4, {chosen}, {other}, %p1"


def test_a_choice_of_bools() -> None:
    """No instruction selects predicates: the first is moved over the second where it holds."""
    value = build.where(loaded(3, BOOL), loaded(1, BOOL), loaded(2, BOOL))
    assert computed(value)[-3:-1] == ["mov.pred %p4, %p3", "@%p1 mov.pred %p4, %p2"]


@pytest.mark.table
@pytest.mark.parametrize(("flag", "rounding"), [(1, ".rn"), (0, "")])
def test_only_what_the_flag_allows_may_be_contracted(flag: int, rounding: str) -> None:
    x = loaded(1, FLOAT)
    value = build.binary(Ops.FDIV, build.sub(build.add(build.mul(x, x), 1.0), x), 3.0)
    words = [*(f"{word}{rounding}.f32" for word in ("mul", "add", "sub")), "div.rn.f32"]
    with Context(STRICT_FLOAT=flag):
        assert opcodes(value) == words
        text = PtxRenderer(90).render(stored(value))
    for loose in ("fma", "mad.f32", "mad.rn", ".ftz", ".approx", ".full", ".sat"):
        assert loose not in text


@pytest.mark.table
@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (-1, I8, "mov.b16 %rs1, 65535"),
        (255, U8, "mov.b16 %rs1, 255"),
        (-(2**15), I16, "mov.b16 %rs1, 32768"),
        (-(2**31), INT, "mov.b32 %r1, 2147483648"),
        (2**64 - 1, U64, "mov.b64 %rd2, 18446744073709551615"),
        (True, BOOL, "mov.pred %p1, 1"),
        (1.5, F16, "mov.b16 %rs1, 0x3E00"),
        (-0.0, BF16, "mov.b16 %rs1, 0x8000"),
        (float("-inf"), FLOAT, "mov.b32 %r1, 0xFF800000"),
        (0.1, F64, "mov.b64 %rd2, 0x3FB999999999999A"),
    ],
    ids=str,
)
def test_constants_are_bits_of_their_register(value: float, dtype: DType, text: str) -> None:
    out = build.define_global(0, dtype, 64)
    lines = body(
        programs.program("k", build.store(at(out, loaded(1, INT)), build.const(dtype, value)))
    )
    (found,) = [line for line in lines if line.endswith(text.split(", ")[1]) and "mov" in line]
    assert found.split()[0] == text.split()[0]
    assert found.split(", ")[1] == text.split(", ")[1]


# Memory


def gated(dtype: DType, lanes: int = 1) -> Program:
    """A load behind a gate, and a store behind it."""
    gate = loaded(3, BOOL)
    place = build.mul(loaded(2, INT), 4)
    source, out = (build.define_global(slot, dtype, 64) for slot in (1, 0))
    value = build.load(build.index(source, place), gate, 1, lanes=lanes)
    return programs.program("gated", build.store(build.index(out, place), value, gate))


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        (I8, "s8"),
        (U8, "u8"),
        (I16, "b16"),
        (U16, "b16"),
        (F16, "b16"),
        (BF16, "b16"),
        (INT, "b32"),
        (FLOAT, "b32"),
        (I64, "b64"),
        (F64, "b64"),
    ],
    ids=str,
)
def test_a_gate_is_the_guard_of_the_instruction(dtype: DType, word: str) -> None:
    """The alternative is in the register before; no branch, and no access where the gate is off."""
    lines = body(gated(dtype))
    (load,) = [place for place, line in enumerate(lines) if line.startswith("@%p1 ld.")]
    register = re.fullmatch(rf"@%p1 ld\.global\.{word} (%\w+), \[%rd\d+\]", lines[load])[1]
    assert re.fullmatch(rf"mov\.b\d\d {register}, %\w+", lines[load - 1])
    assert re.fullmatch(rf"@%p1 st\.global\.{word} \[%rd\d+\], {register}", lines[-1])


def test_a_gated_bool_is_a_byte_until_it_is_loaded() -> None:
    """The alternative, true, is a byte before and a predicate after it."""
    lines = body(gated(BOOL))
    (load,) = [place for place, line in enumerate(lines) if re.match(r"@%p\d ld", line)]
    register = lines[load].split()[2].strip(",")
    (byte,) = re.fullmatch(r"selp\.b16 (%rs\d), 1, 0, %p1", lines[load - 2]).groups()
    assert "mov.pred %p1, 1" in lines
    assert lines[load - 1] == f"mov.b16 {register}, {byte}"
    assert re.match(rf"setp\.ne\.u16 %p3, {register}, %rs", lines[load + 1])


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "accesses"),
    [
        (BOOL, ["v4.u8 []"]),
        (I8, ["v4.s8 []"]),
        (F16, ["v4.b16 []"]),
        (FLOAT, ["v4.b32 []"]),
        (F64, ["v2.b64 []", "v2.b64 [+16]"]),
        (U64, ["v2.b64 []", "v2.b64 [+16]"]),
    ],
    ids=str,
)
def test_vectors_are_moved_by_16_bytes_at_most(dtype: DType, accesses: list[str]) -> None:
    lines = body(stored(loaded(1, dtype, lanes=4)))
    for word in ("ld.global", "st.global"):
        found = [line for line in lines if line.startswith(word)]
        assert [
            f"{line.split()[0].removeprefix(word + '.')} [{re.search(r'[+]?[0-9]*(?=])', line)[0]}]"
            if "+" in line
            else f"{line.split()[0].removeprefix(word + '.')} []"
            for line in found
        ] == accesses


def test_many_small_elements_are_moved_in_words() -> None:
    """Two of 16 bits or four of 8 in each, the first in the lowest bits."""
    lines = body(stored(loaded(1, F16, lanes=8)))
    (load,) = [line for line in lines if line.startswith("ld.global.v4.b32")]
    words = re.findall(r"%r\d+", load)
    halves = [f"mov.b32 {{%rs{2 * n + 1}, %rs{2 * n + 2}}}, {word}" for n, word in enumerate(words)]
    place = lines.index(load)
    assert lines[place + 1 : place + 5] == halves
    lines = body(stored(loaded(1, I8, lanes=8)))
    (load,) = [line for line in lines if line.startswith("ld.global.v2.b32")]
    place = lines.index(load)
    low, high = re.fullmatch(r"mov\.b32 \{(%rs\d), (%rs\d)\}, %r\d", lines[place + 1]).groups()
    bytes_of = [line.split(" ", 1)[1].split(", ", 1)[1] for line in lines[place + 2 : place + 6]]
    assert bytes_of == [low, f"{low}, 8", high, f"{high}, 8"]
    opcodes = [line.split()[0] for line in lines[place + 2 : place + 4]]
    assert opcodes == ["cvt.s16.s8", "shr.s16"]


def test_the_widest_access_is_as_wide_as_views_are_aligned() -> None:
    assert MAX_ACCESS_BYTES == capabilities_of((7, 5)).view_alignment == 16


def test_addresses() -> None:
    """Of 64 bits in global memory, whatever the index is; of 32 in shared memory."""
    shared = build.define_local("shared", F64, 6)
    near, far = loaded(1, INT), loaded(2, I64)
    out = build.define_global(0, F64, 64)
    stores = [
        build.store(build.index(memory, place), build.const(F64, 1.0))
        for memory in (shared, out)
        for place in (near, far)
    ]
    program = programs.program("k", *stores)
    lines = body(program)
    words = [line.split()[0] for line in lines if line.startswith(("mad", "cvt.u32"))]
    # Two for the loads.
    assert sorted(words) == sorted(
        ["mad.wide.s32"] * 3 + ["mad.lo.s64", "mad.lo.s32", "mad.lo.s32", "cvt.u32.u64"]
    )
    assert "    .shared .align 16 .b8 local0[48];" in PtxRenderer(90).render(program).splitlines()
    assert sum(line.startswith("st.shared.b64") for line in lines) == 2


# Loops, accumulators


def swapped(count: int) -> Program:
    """A vector accumulator whose lanes change places in a loop."""
    start = build.vectorize(build.const(INT, 1), build.const(INT, 2))
    pair = build.accumulator("pair", start)
    iteration = programs.loop(count, 0)
    turned = build.vectorize(build.gep(pair, 1), build.gep(pair, 0))
    new = build.update(pair, turned)
    out = build.store(at(build.define_global(0, INT, 2), 0), new)
    return programs.program("swapped", pair, iteration, new, build.close(iteration), out)


def test_lanes_of_an_accumulator_are_copied_before_it_changes() -> None:
    """Else the second lane would be given what the first one has just become."""
    lines = body(swapped(3))
    loop = lines[lines.index("loop1:") + 1 : lines.index("@%p1 bra loop1")]
    moves = [line.removeprefix("mov.b32 ").split(", ") for line in loop if line.startswith("mov")]
    values = {"first": 1, "second": 2}
    targets = [target for target, _ in moves[-2:]]
    registers = dict(zip(targets, values.values(), strict=True))
    for target, source in moves:
        registers[target] = registers[source]
    assert [registers[target] for target in targets] == [2, 1]


@pytest.mark.table
@pytest.mark.parametrize(("extent", "tests"), [(8, 1), (None, 2)])
def test_a_loop_that_may_not_run_is_tested_first(extent: int | None, tests: int) -> None:
    bound = extent or UOp(Ops.DEFINE_VAR, INT, (), VarArg("n", 0, 9))
    iteration = programs.loop(bound, 0)
    out = build.store(build.index(build.define_global(0, INT, 64), iteration), iteration)
    program = programs.program("k", iteration, out, build.close(iteration))
    variables = tuple(node for node in program.uops if node.op is Ops.DEFINE_VAR)
    lines = body(dataclasses.replace(program, variables=variables))
    assert sum(line.startswith("setp.") for line in lines) == tests
    assert lines[-1 - (tests == 2)].endswith(" bra loop1")
    if tests == 2:
        before = lines[lines.index("loop1:") - 2 : lines.index("loop1:")]
        assert before[0].startswith("setp.ge.s32")
        assert before[1] == "@%p1 bra end_loop1"
        assert lines[-1] == "end_loop1:"


MET = ("st.shared", "bar.sync 0", "ld.shared", "st.global")


def test_a_group_meets_between_what_it_writes_and_what_it_reads() -> None:
    """No machine of the tests runs the items of a group apart: the text alone tells."""
    item, shared = build.special("item", 0, 8, INT), build.define_local("shared", INT, 8)
    put = build.store(build.index(shared, item), item)
    took = build.load(build.index(shared, item))
    out = build.store(build.index(build.define_global(0, INT, 8), item), took)
    lines = body(programs.program("k", put, build.barrier(put), took, out, group=(8, 1, 1)))
    places = [lines.index(next(line for line in lines if line.startswith(word))) for word in MET]
    assert places == sorted(places)


# Matrix tiles: instruction, and how many registers D, A, B and C take.
MMA = {
    "nvidia_m16n8k16_float16_float32": ("m16n8k16", "f32.f16.f16.f32", (4, 4, 2, 4)),
    "nvidia_m16n8k16_float16_float16": ("m16n8k16", "f16.f16.f16.f16", (2, 4, 2, 2)),
    "nvidia_m16n8k16_bfloat16_float32": ("m16n8k16", "f32.bf16.bf16.f32", (4, 4, 2, 4)),
    "nvidia_m16n8k8_tf32_float32": ("m16n8k8", "f32.tf32.tf32.f32", (4, 4, 2, 4)),
    "nvidia_m16n8k4_tf32_float32": ("m16n8k4", "f32.tf32.tf32.f32", (4, 2, 1, 4)),
    "nvidia_m8n8k4_float64_float64": ("m8n8k4", "f64.f64.f64.f64", (2, 1, 1, 2)),
    "nvidia_m16n8k32_int8_int32": ("m16n8k32", "s32.s8.s8.s32", (4, 4, 2, 4)),
    "nvidia_m16n8k16_int8_int32": ("m16n8k16", "s32.s8.s8.s32", (4, 2, 1, 4)),
    "nvidia_m16n8k8_bfloat16_float32": ("m16n8k8", "f32.bf16.bf16.f32", (4, 2, 1, 4)),
    "nvidia_m16n8k8_float16_float32": ("m16n8k8", "f32.f16.f16.f32", (4, 2, 1, 4)),
    "nvidia_m16n8k8_float16_float16": ("m16n8k8", "f16.f16.f16.f16", (2, 2, 1, 2)),
    "nvidia_m8n8k16_int8_int32": ("m8n8k16", "s32.s8.s8.s32", (2, 1, 1, 2)),
}


def tile_program(tile: MatrixTile) -> Program:
    """One tile, each fragment loaded lane by lane."""
    fragments = []
    for slot, operand in enumerate((Operand.A, Operand.B, Operand.C), 1):
        count = tile.layout(operand).registers
        memory = build.define_global(slot, tile.dtype(operand), 64)
        lanes = [build.load(at(memory, lane)) for lane in range(count)]
        fragments.append(build.vectorize(*lanes) if count > 1 else lanes[0])
    value = UOp(Ops.WMMA, tile.fragment(Operand.C), tuple(fragments), TileArg(tile))
    out = build.define_global(0, tile.dtype_out, 64)
    stores = [
        build.store(at(out, lane), build.gep(value, lane)) for lane in range(value.dtype.lanes)
    ]
    return programs.program("tile", *stores, group=(32, 1, 1))


def test_every_tile_of_nvidia_is_in_the_table() -> None:
    assert set(MMA) == {tile.name for tile in GROUPS["NVIDIA_SM80"]}


@pytest.mark.table
@pytest.mark.parametrize("name", MMA)
def test_tiles(name: str) -> None:
    shape, types, counts = MMA[name]
    lines = body(tile_program(TILES[name]))
    (line,) = [line for line in lines if line.startswith("mma")]
    opcode, _, operands = line.partition(" ")
    assert opcode == f"mma.sync.aligned.{shape}.row.col.{types}"
    found = re.findall(r"\{([^}]*)\}", operands)
    assert tuple(len(registers.split(",")) for registers in found) == counts
    rounded = [line for line in lines if line.startswith("cvt.rna.tf32.f32")]
    assert len(rounded) == (sum(counts[1:3]) if "tf32" in types else 0)


def loads_of(lines: Sequence[str], slot: int) -> list[str]:
    """The registers that the elements of a buffer were loaded to, in the order of the elements."""
    (base,) = [line.split()[1].strip(",") for line in lines if line.endswith(f"[data{slot}]")]
    (start,) = [line.split()[1].strip(",") for line in lines if line.endswith(f", {base}")]
    places = [line.split()[1].strip(",") for line in lines if line.endswith(f", {start}")]
    found = []
    for place in places:
        found += [line.split()[1].strip(",") for line in lines if line.endswith(f"[{place}]")]
    return found


def test_fragments_of_16_bits_are_pairs_the_first_in_the_low_half() -> None:
    lines = body(tile_program(TILES["nvidia_m16n8k8_float16_float16"]))
    a = loads_of(lines, 1)
    packed = {f"{{{a[0]}, {a[1]}}}", f"{{{a[2]}, {a[3]}}}"}
    pairs = {
        line.split(", ", 1)[1]: line.split()[1].strip(",") for line in lines if line.endswith("}")
    }
    assert packed <= set(pairs)
    (mma,) = [line for line in lines if line.startswith("mma")]
    operands = re.findall(r"\{([^}]*)\}", mma)
    assert operands[1] == ", ".join(pairs[f"{{{a[lane]}, {a[lane + 1]}}}"] for lane in (0, 2))
    # The lanes of D, in the order of the halves.
    halves = [re.fullmatch(r"mov.b32 \{(%rs\d+), (%rs\d+)\}, (%r\d+)", line) for line in lines]
    unpacked = {found[3]: found.groups()[:2] for found in halves if found}
    results = [half for register in operands[0].split(", ") for half in unpacked[register]]
    assert [line.split(", ")[1] for line in lines if line.startswith("st.global")] == results


def test_fragments_of_8_bits_are_four_the_first_in_the_low_byte() -> None:
    """Of two pairs in 16 bits each `prmt` takes bytes 0, 2, 4 and 6, the first to the lowest."""
    lines = body(tile_program(TILES["nvidia_m8n8k16_int8_int32"]))
    a = loads_of(lines, 1)
    pairs = [f"{{{a[lane]}, {a[lane + 1]}}}" for lane in (0, 2)]
    names = [line.split()[1].strip(",") for pair in pairs for line in lines if line.endswith(pair)]
    assert any(
        line.startswith("prmt.b32") and line.endswith(f", {names[0]}, {names[1]}, 0x6420")
        for line in lines
    )


# Frame


@pytest.mark.table
@pytest.mark.parametrize("architecture", [75, 80, 100, 121])
def test_the_head_names_the_architecture(architecture: int) -> None:
    text = PtxRenderer(architecture).render(stored(applied(Ops.ADD, INT)))
    head = [".version 9.0", f".target sm_{architecture}", ".address_size 64"]
    assert text.splitlines()[:3] == head


def test_parameters_are_all_buffers_then_all_variables() -> None:
    variable = UOp(Ops.DEFINE_VAR, I64, (), VarArg("n", 0, 9))
    item = UOp(Ops.SPECIAL, I64, (build.const(I64, 8),), SpecialArg("item", 2))
    out = build.define_global(3, I64, 64)
    program = programs.program(
        "add", build.store(build.index(out, item), variable), group=(8, 2, 1)
    )
    text = PtxRenderer(90).render(dataclasses.replace(program, variables=(variable,)))
    assert ".visible .entry k_add(\n    .param .u64 data3,\n    .param .s32 variable0\n)\n" in text
    assert ".maxntid 8, 2, 1\n{" in text
    assert PtxRenderer(90).entry_name(program) == "k_add"
    lines = [line.strip() for line in text.splitlines()]
    assert "mov.u32 %r2, %tid.z;" in lines or "mov.u32 %r1, %tid.z;" in lines
    assert any(line.startswith("cvt.u64.u32") for line in lines)
    assert any(line.startswith("cvt.s64.s32") for line in lines)


@pytest.mark.table
@pytest.mark.parametrize(("dtype", "words"), [(INT, []), (I64, ["cvt.s64.s32", "cvt.u64.u32"])])
def test_what_a_launch_gives_is_widened_where_it_is_taken_as_64_bits(
    dtype: DType, words: list[str]
) -> None:
    variable = UOp(Ops.DEFINE_VAR, dtype, (), VarArg("n", 0, 9))
    item = UOp(Ops.SPECIAL, dtype, (build.const(dtype, 8),), SpecialArg("item", 0))
    store = build.store(build.index(build.define_global(0, dtype, 64), item), variable)
    program = programs.program("k", store, group=(8, 1, 1))
    lines = body(dataclasses.replace(program, variables=(variable,)))
    assert sorted(line.split()[0] for line in lines if line.startswith("cvt.")) == words


def test_golden_text(golden: Callable[[str, str], None]) -> None:
    golden("gated.ptx", PtxRenderer(90).render(gated(F16, lanes=4)))
    golden(
        "tile.ptx", PtxRenderer(90).render(tile_program(TILES["nvidia_m16n8k16_float16_float32"]))
    )


# Refusals


def test_what_is_not_declared_is_refused_before_it_is_printed() -> None:
    half = stored(applied(Ops.ADD, BF16))
    check_program(half, capabilities_of((9, 0)))
    with pytest.raises(UserError, match="bfloat16: the device has no bfloat16"):
        check_program(half, capabilities_of((7, 5)))
    tile = tile_program(TILES["nvidia_m8n8k4_float64_float64"])
    check_program(tile, capabilities_of((8, 0)))
    with pytest.raises(UserError, match="no matrix tile nvidia_m8n8k4_float64_float64"):
        check_program(tile, capabilities_of((7, 5)))
    with pytest.raises(UserError, match="sm_75 has no nvidia_m8n8k4_float64_float64: accepted"):
        PtxRenderer(75).render(tile)


def test_what_has_no_instruction_is_refused() -> None:
    for op in (Ops.SIN, Ops.EXP2, Ops.LOG2, Ops.POW, Ops.THREEFRY, Ops.MULACC):
        assert op.name not in capabilities_of((9, 0)).ops
    with pytest.raises(UserError, match="SIN: PTX devices print no such node"):
        PtxRenderer(90).render(stored(applied(Ops.SIN, FLOAT, arity=1)))
    with pytest.raises(UserError, match="AND: is not defined for float32"):
        PtxRenderer(90).render(stored(applied(Ops.AND, FLOAT)))
    with pytest.raises(UserError, match=r"fp8e4m3 has no PTX type here: accepted are bfloat16, "):
        PtxRenderer(90).render(stored(loaded(1, dtypes.fp8e4m3)))


def test_every_declared_op_is_printed() -> None:
    declared = capabilities_of((9, 0)).ops
    names = {op.name for op in ALU} - {"SIN", "EXP2", "LOG2", "POW", "THREEFRY", "MULACC"}
    assert declared == names | {"LOAD", "STORE"}
