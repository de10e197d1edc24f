"""Faults of CPU code generators: LLVM, GCC, Cranelift."""

from __future__ import annotations

import numpy as np

from tinyref.dtype import dtypes
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import FaultKind, FieldFault, field_device
from tinyref_conformance.faulty.field.patterns import (
    change_of,
    constant_of,
    elementwise,
    is_cast,
    replacing,
)
from tinyref_conformance.faulty.programs import Change
from tinyref_spec.kernel.programs import INT, at, loop, program

_INT64_MINIMUM = -(2**63)
_BYTES = (dtypes.int8, dtypes.uint8)


# Shifts and rotates


def _parts_of_rotate(node: UOp) -> tuple[UOp, UOp] | None:
    """Return the shifts to the left and to the right of one value that an OR joins."""
    parts = {part.op: part for part in node.src} if node.op is Ops.OR else {}
    if set(parts) != {Ops.SHL, Ops.SHR}:
        return None
    high, low = parts[Ops.SHL], parts[Ops.SHR]
    return (high, low) if high.src[0] is low.src[0] else None


def _widened_rotate(node: UOp) -> UOp | None:
    parts = _parts_of_rotate(node.src[0]) if node.op is Ops.CAST else None
    if parts is None or parts[0].dtype is not dtypes.uint16 or not node.dtype.is_int:
        return None
    value = build.cast(parts[0].src[0], dtypes.uint32)
    shifted = (build.binary(part.op, value, part.src[1]) for part in parts)
    return build.cast(build.either(*shifted), node.dtype)


def _rotated(x: UOp) -> UOp:
    """Return 16 bits rotated to the left by two, as 64 bits."""
    left, low = (build.binary(*part) for part in ((Ops.SHL, x, 2), (Ops.SHR, x, 14)))
    return build.cast(build.either(left, low), dtypes.int64)


def _unwrapped_average(node: UOp) -> UOp | None:
    if node.op is not Ops.SHR or node.src[0].op is not Ops.ADD or node.dtype.lanes == 1:
        return None
    if constant_of(node.src[1]) != 1 or node.dtype.scalar not in _BYTES:
        return None
    wide = (build.cast(source, dtypes.int32) for source in node.src[0].src)
    half = build.binary(Ops.SHR, build.add(*wide), 1)
    return build.cast(half, node.dtype.scalar)


def _average(x: UOp, y: UOp) -> UOp:
    return build.binary(Ops.SHR, build.add(x, y), 1)


def _narrowed_shift(node: UOp) -> UOp | None:
    if node.op is not Ops.CAST or node.dtype.scalar not in _BYTES or node.src[0].op is not Ops.SHR:
        return None
    value, count = node.src[0].src
    number = constant_of(count)
    if value.dtype.scalar is not dtypes.int32 or not isinstance(number, int) or number < 8:
        return None
    low = build.cast(build.cast(value, dtypes.uint8), dtypes.int32)
    return build.cast(build.binary(Ops.SHR, low, count), node.dtype.scalar)


def _rotate_compared_by_bytes(node: UOp) -> UOp | None:
    parts = _parts_of_rotate(node.src[0]) if node.op is Ops.CMPNE else None
    if parts is None or node.src[1] is not parts[0].src[0]:
        return None
    value, counts = node.src[1], [constant_of(part.src[1]) for part in parts]
    if counts != [56, 8] or value.dtype.scalar is not dtypes.uint64:
        return None
    return build.not_equal(build.both(value, 0xFF), build.binary(Ops.SHR, value, 56))


def _differs_when_rotated(x: UOp) -> UOp:
    low, high = build.binary(Ops.SHR, x, 8), build.binary(Ops.SHL, x, 56)
    return build.not_equal(build.either(low, high), x)


# Division, comparisons and casts


def _negated_quotient(node: UOp) -> UOp | None:
    is_wrong = node.op is Ops.IDIV and constant_of(node.src[1]) == _INT64_MINIMUM
    return build.mul(node, -1) if is_wrong else None


def _byte_for_inverted_comparison(node: UOp) -> UOp | None:
    if node.op is not Ops.XOR or constant_of(node.src[1]) != -1:
        return None
    is_flag = is_cast(node.src[0], dtypes.int32, dtypes.bool)
    is_wrong = is_flag and node.src[0].src[0].op is Ops.CMPLT
    return build.cast(build.cast(node, dtypes.uint8), dtypes.int32) if is_wrong else None


def _inverted_comparison(x: UOp) -> UOp:
    return build.binary(Ops.XOR, build.cast(build.less(x, 2), INT), -1)


def _truncation_for_round_trip(node: UOp) -> UOp | None:
    if not is_cast(node, dtypes.float32, dtypes.uint32):
        return None
    bits = node.src[0]
    is_same = bits.op in (Ops.CAST, Ops.BITCAST) and bits.src[0].dtype.scalar is dtypes.int32
    integer = bits.src[0] if is_same else bits
    is_wrong = is_cast(integer, dtypes.int32, dtypes.float32)
    return build.unary(Ops.TRUNC, integer.src[0]) if is_wrong else None


def _through_unsigned(x: UOp) -> UOp:
    return build.cast(build.bitcast(build.cast(x, INT), dtypes.uint32), dtypes.float32)


# Loops


def _widening_products_by_parity(program: Program) -> Change:
    has_sums = any(node.op is Ops.DEFINE_ACC for node in program.uops)

    def replacement(node: UOp) -> UOp | None:
        is_product = node.op is Ops.MUL and node.dtype.lanes == 4
        is_wide = any(is_cast(source, dtypes.uint64, dtypes.uint32) for source in node.src)
        return build.gep(node, 0, 2, 1, 3) if has_sums and is_product and is_wide else None

    return change_of(replacement)


def _doubled_columns(device: str) -> Tensor:
    """Return the sums of 4 columns of 80 rows: 2 * 80 * (column + 1)."""
    rows = np.tile(np.arange(1, 5, dtype=np.uint32), (80, 1))
    return (Tensor(rows, device=device).cast(dtypes.uint64) * 2).sum(0)


def _loads_above_stores(program: Program) -> Change:
    early: dict[UOp, UOp] = {}
    depth = 0
    stores: dict[UOp, UOp] = {}
    for node in program.uops:
        depth += (node.op is Ops.RANGE) - (node.op is Ops.END)
        if node.op is Ops.STORE and depth and _is_strided(node.src[0]):
            stores[node.src[0]] = node
        if node.op is Ops.LOAD and node.src[0] in stores:
            early[stores[node.src[0]]] = node

    def change(node: UOp) -> tuple[UOp, ...]:
        if node in early:
            return (early[node], node)
        return () if node in early.values() else (node,)

    return change


def _is_strided(address: UOp) -> bool:
    positions = (node for node in address.src[1].toposort() if node.op is Ops.MUL)
    return any(node.src[0].op is Ops.RANGE for node in positions)


def _stored_and_increased() -> Program:
    """Return the program that stores 1 in every third element, and then adds 1 to it."""
    memory, counter = build.define_global(0, INT, 9), loop(3, 0)
    address = at(memory, build.mul(counter, 3))
    increased = build.store(address, build.add(build.load(address), 1))
    return program(
        "twice", counter, build.store(address, build.const(INT, 1)), increased, build.close(counter)
    )


_LLVM = "LLVM, LLVM project"
_CRANELIFT = "Cranelift, Bytecode Alliance"

FAULTS = (
    FieldFault(
        device=field_device(
            name="CraneliftDivisionByInt64Minimum",
            sentence="Gives quotients by the constant INT64_MIN the wrong sign.",
            program=replacing(_negated_quotient),
        ),
        stack=_CRANELIFT,
        kind=FaultKind.INTEGER,
        link="https://github.com/bytecodealliance/wasmtime/issues/11927",
        program=launch(
            elementwise(
                lambda x: build.idiv(x, _INT64_MINIMUM), dtypes.int64, (dtypes.int64,), size=3
            ),
            [None, np.array([_INT64_MINIMUM, 7, -1], np.int64)],
            1,
            0,
            0,
        ),
    ),
    FieldFault(
        device=field_device(
            name="CraneliftKeepsHighBitsOfRotate",
            sentence="Extends a rotated uint16 with the bits that the rotation moved above bit 15.",
            program=replacing(_widened_rotate),
        ),
        stack=_CRANELIFT,
        kind=FaultKind.CAST,
        link="https://github.com/bytecodealliance/wasmtime/issues/5525",
        program=launch(
            elementwise(_rotated, dtypes.int64, (dtypes.uint16,), size=2),
            [None, np.array([0x8032, 1], np.uint16)],
            202,
            4,
        ),
    ),
    FieldFault(
        device=field_device(
            name="LlvmLoongArchAverageDoesNotWrap",
            sentence="Computes (a + b) >> 1 of vectors of bytes by an average instruction, whose "
            "sum does not wrap.",
            program=replacing(_unwrapped_average),
        ),
        stack=_LLVM,
        kind=FaultKind.VECTOR,
        link="https://github.com/llvm/llvm-project/issues/198254",
        program=launch(
            elementwise(_average, dtypes.int8, (dtypes.int8, dtypes.int8), size=4, lanes=4),
            [None, np.array([127, 1, -128, 6], np.int8), np.array([127, 2, -1, 6], np.int8)],
            -1,
            1,
            63,
            6,
        ),
    ),
    FieldFault(
        device=field_device(
            name="LlvmNarrowsShiftToItsResult",
            sentence="Shifts int32 right by a constant of 8 or more in the 8 bits of the result, "
            "so the result is 0.",
            program=replacing(_narrowed_shift),
        ),
        stack=_LLVM,
        kind=FaultKind.INTEGER,
        link="https://github.com/llvm/llvm-project/issues/47927",
        program=launch(
            elementwise(
                lambda x: build.cast(build.binary(Ops.SHR, x, 18), dtypes.int8),
                dtypes.int8,
                (INT,),
                size=2,
            ),
            [None, np.array([361804, 5], np.int32)],
            1,
            0,
        ),
    ),
    FieldFault(
        device=field_device(
            name="LlvmComparesOneByteOfRotate",
            sentence="Compares a uint64 with itself rotated by 8 bits in the highest and the "
            "lowest byte only.",
            program=replacing(_rotate_compared_by_bytes),
        ),
        stack=_LLVM,
        kind=FaultKind.BOOL,
        link="https://github.com/llvm/llvm-project/issues/108722",
        program=launch(
            elementwise(_differs_when_rotated, dtypes.bool, (dtypes.uint64,), size=3),
            [None, np.array([0x8888881888888888, 0x8888888888888888, 1], np.uint64)],
            1,
            0,
            1,
        ),
    ),
    FieldFault(
        device=field_device(
            name="LlvmRiscvInvertedComparisonIsByte",
            sentence="Extends the complement of a comparison from 8 bits with zeros: ~(x < 2) is "
            "254 for -2.",
            program=replacing(_byte_for_inverted_comparison),
        ),
        stack=_LLVM,
        kind=FaultKind.BOOL,
        link="https://github.com/llvm/llvm-project/issues/85374",
        program=launch(
            elementwise(_inverted_comparison, INT, (INT,), size=3),
            [None, np.array([0, 1, 2], np.int32)],
            -2,
            -2,
            -1,
        ),
    ),
    FieldFault(
        device=field_device(
            name="LlvmX86FoldsUnsignedRoundTrip",
            sentence="Folds float32 to int32, read as uint32, to float32 into a truncation, so -1 "
            "stays -1.",
            program=replacing(_truncation_for_round_trip),
        ),
        stack=_LLVM,
        kind=FaultKind.CAST,
        link="https://github.com/llvm/llvm-project/issues/217355",
        program=launch(
            elementwise(_through_unsigned, dtypes.float32, (dtypes.float32,), size=3),
            [None, np.array([-1.0, 2.5, 0.0], np.float32)],
            4294967296,
            2,
            0,
        ),
    ),
    FieldFault(
        device=field_device(
            name="LlvmHoistsLoadAboveStore",
            sentence="Loads an element of a strided loop before the store to the same element that "
            "precedes the load.",
            sanitize=False,
            program=_loads_above_stores,
        ),
        stack=_LLVM,
        kind=FaultKind.ORDER,
        link="https://github.com/llvm/llvm-project/issues/63602",
        program=launch(_stored_and_increased(), [np.zeros(9, np.int32)], 2, 0, 0, 2, 0, 0, 2, 0, 0),
    ),
    FieldFault(
        device=field_device(
            name="GccWideningProductsOutOfOrder",
            sentence="Puts the even widened products of uint32 before the odd ones in loops that "
            "add them up.",
            program=_widening_products_by_parity,
        ),
        stack="GCC, GNU project",
        kind=FaultKind.VECTOR,
        link="https://gcc.gnu.org/bugzilla/show_bug.cgi?id=123002",
        program=compute(_doubled_columns, 160, 320, 480, 640),
    ),
)
