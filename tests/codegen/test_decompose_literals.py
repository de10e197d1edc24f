"""What devices without a type compute instead: literals at the ends of each type and word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from decomposed import evaluate
from kernel_cases import run_program

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.decompose import SMALL_FLOATS, wide_integers
from tinyref.codegen.decompose.small_integers import SMALL_INTEGERS
from tinyref.dtype import ConstType, DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.program import scalar_of
from tinyref_spec.kernels.notation import load, shaped, store

OPS = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
WIDE = frozenset({dtypes.int64, dtypes.uint64})
BARE = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
SMALL = frozenset(SMALL_INTEGERS)
DEVICE = Capabilities(
    BARE, OPS - {"THREEFRY"}, WIDE | SMALL | {*SMALL_FLOATS}, stored_in_words=SMALL
)
i8, u8, i16, u16 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16
i32, u32, i64, u64 = dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64
f8, f16, bf16, f32 = dtypes.fp8e5m2, dtypes.float16, dtypes.bfloat16, dtypes.float32
MOST = 2**63 - 1

# --- pairs of words -------------------------------------------------------------------------------


def words(value: int) -> wide_integers.Words:
    return wide_integers.constant(value, 1)


def number(pair: tuple[UOp, ...]) -> int:
    """The unsigned number that two words are, or the number that one node is."""
    parts = [int(evaluate(part, [])) for part in pair]
    return parts[0] if len(parts) == 1 else parts[0] + (parts[1] << 32)


@pytest.mark.table
@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda e: e.plus(words(-1), words(1)), 0),
        (lambda e: e.plus(words(2**32 - 1), words(1)), 2**32),
        (lambda e: e.minus(words(2**32), words(1)), 2**32 - 1),
        (lambda e: e.minus(words(0), words(1)), 2**64 - 1),
        (lambda e: e.negated(words(2**32)), 2**64 - 2**32),
        (lambda e: e.times(words(2**32 + 3), words(5), DEVICE), 5 * 2**32 + 15),
        (lambda e: e.times(words(2**32 - 1), words(2**32 - 1), DEVICE), 2**64 - 2**33 + 1),
        (lambda e: e.shifted_left(words(3), 0), 3),
        (lambda e: e.shifted_left(words(2**31 + 1), 1), 2**32 + 2),
        (lambda e: e.shifted_left(words(3), 32), 3 * 2**32),
        (lambda e: e.shifted_left(words(3), 63), 2**63),
        (lambda e: e.shifted_right(words(-2), 0, True), 2**64 - 2),
        (lambda e: e.shifted_right(words(-2), 1, True), 2**64 - 1),
        (lambda e: e.shifted_right(words(-2), 1, False), MOST),
        (lambda e: e.shifted_right(words(-(2**40)), 32, True), 2**64 - 2**8),
        (lambda e: e.shifted_right(words(2**40), 33, False), 2**7),
        (lambda e: e.shifted_right(words(-1), 63, True), 2**64 - 1),
        (lambda e: (e.is_less(words(-1), words(0), True),), 1),
        (lambda e: (e.is_less(words(-1), words(0), False),), 0),
        (lambda e: (e.is_less(words(2**32), words(2**32 + 1), True),), 1),
        (lambda e: (e.differ(words(2**32), words(0)),), 1),
        (lambda e: (e.differ(words(7), words(7)),), 0),
        (lambda e: (e.is_zero(words(2**32)),), 0),
        (lambda e: e.from_integer(build.const(i8, -1)), 2**64 - 1),
        (lambda e: e.from_integer(build.const(i32, -(2**31))), 2**64 - 2**31),
        (lambda e: e.from_integer(build.const(i32, 2**31 - 1)), 2**31 - 1),
        (lambda e: e.from_integer(build.const(u32, 2**32 - 1)), 2**32 - 1),
        (lambda e: e.from_integer(build.const(dtypes.bool, True)), 1),
        (lambda e: e.from_float(build.const(f32, -(2.0**40))), 2**64 - 2**40),
        (lambda e: e.from_float(build.const(f32, 3.75)), 3),
        (lambda e: (e.to_double(words(-1), True),), -1),
        (lambda e: (e.to_double(words(-1), False),), 2**64),
        # Ties go to the even neighbour, 2^24 apart.
        (lambda e: (e.to_single(words(2**48 + 2**24), True),), 2**48),
        (lambda e: (e.to_single(words(2**48 + 2**24 + 1), True),), 2**48 + 2**25),
        (lambda e: (e.to_single(words(-(2**48) - 3 * 2**24), True),), -(2**48) - 2**26),
        (lambda e: (e.to_single(words(2**25 + 1), False, is_odd=True),), 2**25 + 2**8),
        (lambda e: (e.to_int32_or_end(words(-(2**31))),), -(2**31)),
        (lambda e: (e.to_int32_or_end(words(-(2**31) - 1)),), -(2**31)),
        (lambda e: (e.to_int32_or_end(words(2**31 - 1)),), 2**31 - 1),
        (lambda e: (e.to_int32_or_end(words(2**31)),), 2**31 - 1),
        (lambda e: (e.to_int32_or_end(words(2**40 + 5)),), 2**31 - 1),
        (lambda e: e.divided(words(-7), words(2), True, DEVICE)[0], 2**64 - 3),
        (lambda e: e.divided(words(-7), words(2), True, DEVICE)[1], 2**64 - 1),
        (lambda e: e.divided(words(-7), words(2), False, DEVICE)[0], MOST - 3),
        (lambda e: e.divided(words(5), words(0), True, DEVICE)[0], 0),
        (lambda e: e.divided(words(2**62), words(3), True, DEVICE)[0], 2**62 // 3),
    ],
)
def test_pairs_of_words(found: Callable[..., tuple[UOp, ...]], wanted: int) -> None:
    assert number(found(wide_integers)) == wanted


# --- nodes of types that a device lacks -----------------------------------------------------------

# What is computed, the types and values of its operands, the type and values of the result.
Case = tuple[
    Callable[..., UOp], Sequence[tuple[DType, Sequence[ConstType]]], DType, Sequence[ConstType]
]


def binary(op: Ops) -> Callable[..., UOp]:
    return lambda x, y: build.binary(op, x, y)


def cast(dtype: DType) -> Callable[..., UOp]:
    return lambda x: build.cast(x, dtype)


def bitcast(dtype: DType) -> Callable[..., UOp]:
    return lambda x: build.bitcast(x, dtype)


CASES: list[Case] = [
    (binary(Ops.SUB), [(i64, [0, -(2**63)]), (i64, [2**40, 1])], i64, [-(2**40), MOST]),
    (lambda x: build.unary(Ops.NEG, x), [(i64, [2**32, -1])], i64, [-(2**32), 1]),
    (binary(Ops.MAX), [(i64, [-1, 2**40]), (i64, [-2, 2**41])], i64, [-1, 2**41]),
    (binary(Ops.MAX), [(u64, [2**63, 1]), (u64, [1, 2])], u64, [2**63, 2]),
    (lambda x: build.binary(Ops.SHR, x, 32), [(i64, [-(2**40), 2**33])], i64, [-(2**8), 2]),
    (cast(dtypes.bool), [(i64, [0, 2**32, 1])], dtypes.bool, [False, True, True]),
    (cast(i32), [(i64, [2**32 + 5, -1])], i32, [5, -1]),
    (cast(f32), [(u64, [2**63, 2**40 + 1])], f32, [2.0**63, 2.0**40]),
    (cast(f16), [(i64, [2049, 2051, -(2**40)])], f16, [2048.0, 2052.0, float("-inf")]),
    (cast(i64), [(f16, [-2.5, 65504.0])], i64, [-2, 65504]),
    (cast(u64), [(i8, [-1, 127])], u64, [2**64 - 1, 127]),
    (bitcast(u64), [(i64, [-1, 5])], u64, [2**64 - 1, 5]),
    (binary(Ops.ADD), [(i8, [127, -128]), (i8, [1, -1])], i8, [-128, 127]),
    (binary(Ops.MUL), [(u8, [255, 16]), (u8, [255, 16])], u8, [1, 0]),
    (binary(Ops.SHL), [(i16, [1, 3]), (i16, [15, 14])], i16, [-(2**15), -(2**14)]),
    (binary(Ops.SHR), [(i16, [-4, 5]), (i16, [1, 1])], i16, [-2, 2]),
    (binary(Ops.CMPLT), [(i8, [-1, 1]), (i8, [0, 0])], dtypes.bool, [True, False]),
    (cast(i8), [(i32, [128, 255, -129])], i8, [-128, -1, 127]),
    (cast(i8), [(u8, [128, 127])], i8, [-128, 127]),
    (cast(u16), [(i8, [-1, 5])], u16, [65535, 5]),
    (cast(i32), [(i8, [-1, 5])], i32, [-1, 5]),
    (cast(i8), [(f32, [-1.5, 100.9])], i8, [-1, 100]),
    (cast(u8), [(f32, [255.0, 1.5])], u8, [255, 1]),
    (cast(i16), [(dtypes.bool, [True, False])], i16, [1, 0]),
    (bitcast(i8), [(u8, [255, 127])], i8, [-1, 127]),
    (bitcast(u16), [(i16, [-1, 1])], u16, [65535, 1]),
    (bitcast(f8), [(u8, [0x3C, 0xC0])], f8, [1.0, -2.0]),
    (bitcast(i8), [(f8, [1.0, -2.0])], i8, [0x3C, -64]),
    (bitcast(u16), [(f16, [1.0, -2.0])], u16, [0x3C00, 0xC000]),
    (bitcast(bf16), [(i16, [0x3F80, -0x4000])], bf16, [1.0, -2.0]),
    (binary(Ops.ADD), [(f16, [2048.0, 1.0]), (f16, [1.0, 2.0**-11])], f16, [2048.0, 1.0]),
    (binary(Ops.MUL), [(bf16, [3.0, 2.0**100]), (bf16, [0.5, 2.0**100])], bf16, [1.5, np.inf]),
    (cast(bf16), [(f32, [1.00390625, 1.01171875])], bf16, [1.0, 1.015625]),
]


@pytest.mark.table
@pytest.mark.parametrize(("value", "operands", "result", "wanted"), CASES)
def test_nodes(
    value: Callable[..., UOp],
    operands: Sequence[tuple[DType, Sequence[ConstType]]],
    result: DType,
    wanted: Sequence[ConstType],
) -> None:
    shown = shaped(len(wanted))
    loads = [load(slot, dtype, shown) for slot, (dtype, _) in enumerate(operands, start=1)]
    program = compile_kernel(build.sink(store(0, value(*loads), shown)), DEVICE)
    used = {scalar_of(node.dtype) for node in program.uops} - {dtypes.void, dtypes.index}
    assert used <= BARE
    out = np.zeros(len(wanted), numpy_dtype(result))
    given = [np.array(values).astype(numpy_dtype(dtype)) for dtype, values in operands]
    run_program(program, [out, *given])
    assert out.astype(np.float64 if result.is_float else out.dtype).tolist() == list(wanted)
