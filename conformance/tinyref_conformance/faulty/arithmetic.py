"""Devices that calculate wrongly: edits of the semantics of ops, and of float arithmetic."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from tinyref.algebra import semantics
from tinyref.algebra.op_table import OP_TABLE
from tinyref.dtype import DType, dtypes
from tinyref.errors import DeviceError
from tinyref.interpret.translate import Override
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg
from tinyref_conformance.faulty.device import Array, FaultyDevice
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_spec.case import Rung

_FLOAT_ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.RECIP, Ops.SQRT, Ops.MULACC, Ops.NEG)
# Ops with faults of their own.
_NAMED = {Ops.WHERE, Ops.IDIV, Ops.BITCAST}
_faulty = functools.partial(FaultyDevice, rung=Rung.ALU)


def right(op: Ops, dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    """Return the result that the op table gives."""
    return semantics.apply(op, dtype, operands, sources)


def changed(
    op: Ops,
    operand: Callable[[DType, Array], Array] | None = None,
    result: Callable[[DType, Array], Array] | None = None,
) -> Override:
    """Return the semantics of `op` with its operands, its result or both changed."""

    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        if operand is not None:
            operands = [operand(*pair) for pair in zip(sources, operands, strict=True)]
        value = right(op, dtype, operands, sources)
        return value if result is None else result(dtype, value)

    return wrong


def to_tf32(dtype: DType, values: Array) -> Array:
    """Round float32 to 10 mantissa bits, to nearest even; infinities and NaN stay."""
    if dtype.scalar is not dtypes.float32:
        return values
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    even = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = (bits + np.uint32(0xFFF) + even) & np.uint32(0xFFFFE000)
    return np.asarray(np.where(np.isfinite(values), rounded.view(np.float32), values))


def flush(dtype: DType, values: Array) -> Array:
    """Make float32 subnormals zero of the same sign."""
    if dtype.scalar is not dtypes.float32:
        return values
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.asarray(np.where(tiny, np.copysign(np.zeros_like(values), values), values))


def _lose_sign_of_zero(dtype: DType, values: Array) -> Array:
    is_zero = (values == 0) & dtype.scalar.is_float
    return np.where(is_zero, np.zeros_like(values), values)


def _floor_divide(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    quotient = right(Ops.IDIV, dtype, operands, sources)
    dividend, divisor = operands
    remainder = right(Ops.MOD, dtype, operands, sources)
    is_lower = (remainder != 0) & ((remainder < 0) != (divisor < 0)) & (dividend == dividend)
    return np.asarray(quotient - is_lower.astype(quotient.dtype))


def _trap(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    if not np.all(operands[1]):
        raise DeviceError("PYTHON", "integer division by zero")
    return right(Ops.IDIV, dtype, operands, sources)


def _saturate(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.ADD, dtype, operands, sources)
    if not dtype.is_int or dtype.is_unsigned:
        return value
    first, second = operands
    overflows = ((first < 0) == (second < 0)) & ((value < 0) != (first < 0))
    return np.where(overflows, np.where(first < 0, dtype.minimum, dtype.maximum), value)


def _cast(is_wrong: Callable[[DType, DType], bool], cast: Callable[[Array], Array]) -> Override:
    """Return a CAST that is another one between some types (target, source)."""

    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        if is_wrong(dtype.scalar, sources[0].scalar):
            return cast(operands[0])
        return right(Ops.CAST, dtype, operands, sources)

    return wrong


def _truncate_to_bfloat16(values: Array) -> Array:
    bits = np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)
    chopped = bits.astype(np.uint16).view(ml_dtypes.bfloat16).reshape(values.shape)
    return np.where(np.isnan(values), values.astype(ml_dtypes.bfloat16), chopped)


def _round_bits_to_bfloat16(values: Array) -> Array:
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.asarray(rounded.astype(np.uint16).view(ml_dtypes.bfloat16).reshape(values.shape))


def _wrapped_exponents(node: UOp) -> tuple[UOp, ...]:
    """Make 2 ** (x * c) 1 where the exponent is a number below -2**31."""
    if node.op is not Ops.EXP2 or node.src[0].op is not Ops.MUL:
        return (node,)
    exponent, dtype = node.src[0], node.dtype
    limits = tuple(build.const(dtype, value) for value in (-math.inf, -(2.0**31), 0.0))
    is_number = UOp(Ops.CMPLT, dtypes.bool, (limits[0], exponent))
    is_huge = UOp(Ops.CMPLT, dtypes.bool, (exponent, limits[1]))
    wraps = UOp(Ops.AND, dtypes.bool, (is_number, is_huge))
    wrapped = UOp(Ops.WHERE, dtype, (wraps, limits[2], exponent))
    return (*limits, is_number, is_huge, wraps, wrapped, UOp(Ops.EXP2, dtype, (wrapped,)))


def _fused(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    wide = np.longdouble if dtype.scalar is dtypes.float64 else np.float64
    with np.errstate(all="ignore"):
        product = np.multiply(operands[0], operands[1], dtype=wide)
        return np.asarray(np.add(product, operands[2], dtype=wide).astype(operands[0].dtype))


def contract(node: UOp) -> tuple[UOp, ...]:
    """Make x * y + z one operation."""
    if node.dtype.is_float and node.op is Ops.ADD and node.src[0].op is Ops.MUL:
        product, addend = node.src
        return (UOp(Ops.MULACC, node.dtype, (*product.src, addend)),)
    return (node,)


def reassociate(node: UOp) -> tuple[UOp, ...]:
    """Make (x + y) - y x, (x + y) + z x + (y + z), and x * 0 0."""
    if not node.dtype.is_float or len(node.src) != 2:
        return (node,)
    first, second = node.src
    if node.op is Ops.SUB and first.op is Ops.ADD and first.src[1] is second:
        return (first.src[0],)
    if node.op is Ops.ADD and first.op is Ops.ADD:
        inner = UOp(Ops.ADD, node.dtype, (first.src[1], second))
        return (inner, UOp(Ops.ADD, node.dtype, (first.src[0], inner)))
    if node.op is Ops.MUL and isinstance(second.arg, ConstArg) and second.arg.value == 0:
        return (second,)
    return (node,)


def _coarse_sine(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.SIN, dtype, operands, sources)
    is_small = (np.abs(operands[0]) < 1e-2) & (operands[0] != 0)
    return np.where(is_small, value * value.dtype.type(1.001), value).astype(value.dtype)


def _coarse(op: Ops) -> Override:
    """Return the semantics of `op`, wrong for floats and for negative or large integers.

    Small integers stay right: addresses are made of them.
    """

    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        value = right(op, dtype, operands, sources)
        first = operands[0]
        if dtype.scalar.is_float:
            return (value.astype(np.float64) * 1.02).astype(value.dtype)
        is_large = (first < 0) | (first > sources[0].scalar.maximum // 2)
        other = ~value if dtype.scalar is dtypes.bool else value ^ value.dtype.type(1)
        return np.where(is_large, other, value)

    return wrong


def _coarse_device(op: Ops) -> FaultyDevice:
    return FaultyDevice(
        name=f"Coarse{op.name.title()}",
        sentence=f"Has results of {op.name} wrong: by a fiftieth, or in the last bit.",
        clause=OP_TABLE[op].clause,
        rung=Rung.CAST if op is Ops.CAST else Rung.ALU,
        ops={op: _coarse(op)},
        query=f"memory.open,memory.launch.uint8,isa.*.{op.name.lower()}*,isa.cast.float32",
    )


def _is_wider(target: UOp, source: UOp) -> bool:
    is_scalar = target.dtype is target.dtype.scalar
    return is_scalar and source.dtype.is_int and target.dtype.bits > source.dtype.bits


def uncut(op: Ops) -> Change:
    """Return the change that widens the operands of an integer op in place of its result."""

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op is not Ops.CAST or node.src[0].op is not op or not node.dtype.is_int:
            return (node,)
        if not _is_wider(node, node.src[0]):
            return (node,)
        operands = tuple(UOp(Ops.CAST, node.dtype, (source,)) for source in node.src[0].src)
        return (*operands, UOp(op, node.dtype, operands))

    return change


def _divide_in_source_type(node: UOp) -> tuple[UOp, ...]:
    if node.op is not Ops.IDIV or any(source.op is not Ops.CAST for source in node.src):
        return (node,)
    first, second = (source.src[0] for source in node.src)
    if first.dtype is not second.dtype or not _is_wider(node, first):
        return (node,)
    quotient = UOp(Ops.IDIV, first.dtype, (first, second))
    return (quotient, UOp(Ops.CAST, node.dtype, (quotient,)))


FAULTS = (
    _faulty(
        name="Tf32Rounding",
        sentence="Multiplies float32 as a matrix unit does: operands have 10 mantissa bits.",
        clause="float.round",
        ops={op: changed(op, operand=to_tf32) for op in (Ops.MUL, Ops.MULACC)},
    ),
    _faulty(
        name="FlushedSubnormals",
        sentence="Flushes float32 subnormals to zero, and declares to keep them.",
        clause="float.subnormal",
        ops={op: changed(op, flush, flush) for op in (*_FLOAT_ARITHMETIC, Ops.MAX)},
    ),
    _faulty(
        name="LostNegativeZero",
        sentence="Gives +0 for every result that is -0.",
        clause="float.signed_zero",
        ops={op: changed(op, result=_lose_sign_of_zero) for op in ALU - {Ops.BITCAST}},
    ),
    _faulty(
        name="FloorDivision",
        sentence="Divides integers towards minus infinity instead of towards zero.",
        clause="isa.idiv",
        ops={Ops.IDIV: _floor_divide},
    ),
    _faulty(
        name="TrappingDivision",
        sentence="Raises an error where an integer is divided by 0.",
        clause="int.no_trap",
        ops={Ops.IDIV: _trap},
    ),
    _faulty(
        name="SaturatedSums",
        sentence="Stops at the largest and the least integer where a sum should wrap.",
        clause="int.wrap",
        query="memory.open,memory.launch.uint8,isa.binary.add.int*,kernel.program.lanes",
        ops={Ops.ADD: _saturate},
    ),
    _faulty(
        name="ContractedProducts",
        sentence="Computes a product and a sum with one rounding, and declares to round twice.",
        clause="float.strict",
        program=each_node(contract),
        ops={Ops.MULACC: _fused},
    ),
    _faulty(
        name="ReassociatedSums",
        sentence="Transforms float arithmetic as if it were exact.",
        clause="float.strict",
        program=each_node(reassociate),
    ),
    _faulty(
        name="TruncatedBfloat16",
        sentence="Casts float32 to bfloat16 by dropping the low half of its bits.",
        clause="cast.float",
        rung=Rung.CAST,
        ops={
            Ops.CAST: _cast(
                lambda target, source: target is dtypes.bfloat16 and source is dtypes.float32,
                _truncate_to_bfloat16,
            )
        },
    ),
    _faulty(
        name="CoarseSine",
        sentence="Gives the sine of small angles with three digits.",
        clause="float.limits",
        ops={Ops.SIN: _coarse_sine},
        query="memory.open,memory.launch.uint8,isa.unary.sin",
    ),
    _faulty(
        name="SaturatedCasts",
        sentence="Casts an integer that does not fit to the nearest one that does.",
        clause="cast.wrap",
        rung=Rung.CAST,
        ops={
            Ops.CAST: _cast(
                lambda target, source: target is dtypes.int8 and source is dtypes.int32,
                lambda values: np.clip(values, -128, 127).astype(np.int8),
            )
        },
    ),
    FaultyDevice(
        name="RoundedNan",
        sentence="Rounds the bits of a NaN to bfloat16 like those of a number: a carry makes it 0.",
        clause="cast.float",
        rung=Rung.CAST,
        ops={
            Ops.CAST: _cast(
                lambda target, source: target is dtypes.bfloat16 and source is dtypes.float32,
                _round_bits_to_bfloat16,
            )
        },
        query="memory.open,memory.launch.uint8,isa.cast.float32",
    ),
    FaultyDevice(
        name="WrappedExponents",
        sentence="Takes the exponent of e**x through an int32, which wraps; infinities are right.",
        clause="float.strict",
        rung=Rung.TENSOR,
        program=each_node(_wrapped_exponents),
        query="memory.open,memory.launch.uint8,isa.unary.exp2,tensor.sigmoid,tensor.special",
    ),
    FaultyDevice(
        name="UncutShifts",
        sentence="Widens the operands of a left shift in place of its result.",
        clause="int.wrap",
        rung=Rung.CAST,
        program=each_node(uncut(Ops.SHL)),
        query="memory.open,memory.launch.uint8,isa.binary.shl,isa.cast.int8,isa.narrow.shl",
    ),
    FaultyDevice(
        name="ShortDivision",
        sentence="Divides integers that were widened in the type that they had before.",
        clause="isa.idiv",
        rung=Rung.CAST,
        program=each_node(_divide_in_source_type),
        query="memory.open,memory.launch.uint8,isa.binary.idiv,isa.cast.int8,isa.widened",
    ),
    *(_coarse_device(op) for op in sorted(ALU - _NAMED, key=lambda op: op.name)),
)
