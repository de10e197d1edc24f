"""The scalar semantics of every arithmetic op, vectorised over numpy arrays.

Constant folding, the evaluator and the interpreter call these functions. Each op rounds once to its
own dtype; integers wrap. The semantics leave some values unspecified: division by zero, a shift by
the width or more, a float out of an integer's range. The values here are defined even so, are the
same on every machine, and raise no warning.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tinyref.algebra.op_table import OP_TABLE, Kernel, Semantics
from tinyref.arrays import Array, np, npt
from tinyref.dtype import (
    ConstType,
    DType,
    as_const,
    dtypes,
    from_numpy_dtype,
    narrow_float64,
    numpy_dtype,
)
from tinyref.errors import UserError
from tinyref.uops.ops import Ops

SMALL_FLOATS = frozenset({*dtypes.fp8s, dtypes.float16, dtypes.bfloat16})


def truncating_division(x: int, y: int) -> int:
    """Return the quotient of Python integers, truncated towards zero; x / 0 is 0."""
    if y == 0:
        return 0
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def truncating_remainder(x: int, y: int) -> int:
    """Return the remainder of `truncating_division`, with the sign of `x`; for y = 0 it is 0."""
    return 0 if y == 0 else x - y * truncating_division(x, y)


def exact_shift_left(x: int, count: int) -> int:
    """Return x * 2**count; 0 for a count that no type has, which could make a huge number."""
    return x << count if 0 <= count < 64 else 0


def exact_shift_right(x: int, count: int) -> int:
    """Return x / 2**count, rounded down; 0 for a negative count."""
    return x >> count if count >= 0 else 0


def divide(x: Array, y: Array) -> Array:
    """Return the quotient, truncated towards zero; x / 0 is 0, and MIN / -1 is MIN."""
    floor = np.floor_divide(x, y)
    remainder = x - floor * y
    # A floored quotient is one too low if it is negative and inexact.
    quotient: Array = floor + ((floor < 0) & (remainder != 0))
    return quotient


def remainder(x: Array, y: Array) -> Array:
    """Return the remainder with the sign of `x`; for y = 0 it is 0."""
    if np.ndim(y) != 0 or y <= 0:
        return np.fmod(x, y)
    # numpy divides by one positive number ten times faster than by an array.
    floored = x - np.floor_divide(x, y) * y
    remainder: Array = floored - ((x < 0) & (floored != 0)) * y
    return remainder


def unsigned_divide(x: Array, y: Array) -> Array:
    """Return the quotient of unsigned integers; x / 0 is 0."""
    return np.floor_divide(x, y)


def unsigned_remainder(x: Array, y: Array) -> Array:
    """Return the remainder of unsigned integers; for y = 0 it is 0."""
    if np.ndim(y) != 0 or y == 0:
        return np.fmod(x, y)
    remainder: Array = x - np.floor_divide(x, y) * y
    return remainder


def multiply_accumulate(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z, rounded after each of the two operations."""
    total: Array = x * y + z
    return total


THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
THREEFRY_PARITY = 0x1BD11BDA


def threefry(counter: Array, key: Array) -> Array:
    """Compute Threefry-2x32 with 20 rounds on uint64 arrays; the low 32 bits are the first word.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    word = np.uint32
    half = np.uint64(32)
    key_words = [key.astype(word), (key >> half).astype(word)]
    key_words.append(key_words[0] ^ key_words[1] ^ word(THREEFRY_PARITY))
    first = counter.astype(word) + key_words[0]
    second = (counter >> half).astype(word) + key_words[1]
    for block in range(5):
        for rotation in THREEFRY_ROTATIONS[block % 2]:
            first = first + second
            second = (second << word(rotation)) | (second >> word(32 - rotation))
            second = second ^ first
        first = first + key_words[(block + 1) % 3]
        second = second + key_words[(block + 2) % 3] + word(block + 1)
    return (second.astype(np.uint64) << half) | first.astype(np.uint64)


def same(kernel: Kernel) -> Semantics:
    """Return semantics that are one function for every dtype."""
    return lambda dtype, sources: kernel


def numpy_function(name: str) -> Semantics:
    """Return semantics that are the numpy function of this name for every dtype."""
    # The function is looked up late, because the op table is filled before numpy is imported.
    return lambda dtype, sources: getattr(np, name)


def signed_or_unsigned(signed: Kernel, unsigned: Kernel) -> Semantics:
    """Return semantics that are one function for signed integers, and one for unsigned ones."""
    return lambda dtype, sources: unsigned if dtype.is_unsigned else signed


def reciprocal(dtype: DType, sources: Sequence[DType]) -> Kernel:
    """Return the kernel of 1 / x."""
    one = np.ones((), numpy_dtype(dtype))
    return lambda x: np.divide(one, x)


def narrow(dtype: DType) -> Callable[[Array], Array]:
    """Return the function that rounds float64 arrays once to the float type `dtype`."""
    target = numpy_dtype(dtype)
    if dtype is dtypes.float64:
        return lambda values: values
    if dtype in (dtypes.float32, dtypes.float16):
        return lambda values: values.astype(target)
    return lambda values: narrow_float64(np.asarray(values), dtype)


def through_float64(name: str) -> Semantics:
    """Return semantics of a numpy function that is computed in float64 and rounded once.

    IEEE 754 does not require that these functions are correctly rounded.
    """

    def kernel_for(dtype: DType, sources: Sequence[DType]) -> Kernel:
        function: Kernel = getattr(np, name)
        to_dtype = narrow(dtype)
        if len(sources) == 1:
            return lambda x: to_dtype(function(x.astype(np.float64)))
        return lambda x, y: to_dtype(function(x.astype(np.float64), y.astype(np.float64)))

    return kernel_for


def shift(name: str) -> Semantics:
    """Return semantics of a numpy shift by a count of any type.

    For a count outside the width, numpy returns 0, or -1 for a negative value shifted right.
    """

    def kernel_for(dtype: DType, sources: Sequence[DType]) -> Kernel:
        function: Kernel = getattr(np, name)
        target = numpy_dtype(dtype)
        if len(sources) < 2 or numpy_dtype(sources[1]) == target:
            return function
        return lambda x, count: function(x, count.astype(target))

    return kernel_for


def _round_to_odd_float64(values: Array) -> npt.NDArray[np.float64]:
    """Round 64-bit integers to float64; any bit lost by the 53 bits sets the last bit.

    If the result is rounded to a narrower float, it is the integer itself correctly rounded.
    """
    negative = values < 0
    magnitude = np.where(
        negative, np.uint64(0) - values.astype(np.uint64), values.astype(np.uint64)
    )
    # Clearing the low 11 bits leaves at most 53 bits, and is needed only above 2**53.
    lost = np.uint64((1 << 11) - 1)
    sticky = ((magnitude & lost) != 0).astype(np.uint64) << np.uint64(11)
    odd = np.where(magnitude >> np.uint64(53) != 0, (magnitude & ~lost) | sticky, magnitude)
    wide = odd.astype(np.float64)
    return np.where(negative, -wide, wide)


def _int_to_float(source: DType, dtype: DType) -> Kernel:
    target = numpy_dtype(dtype)
    if dtype in (dtypes.float32, dtypes.float64):
        return lambda x: x.astype(target)
    to_dtype = narrow(dtype)
    if source.bits == 64:
        return lambda x: to_dtype(_round_to_odd_float64(x))
    return lambda x: to_dtype(x.astype(np.float64))


def _float_to_int(source: DType, dtype: DType) -> Kernel:
    """Return the kernel that truncates; NaN becomes 0, values out of range saturate."""
    target = numpy_dtype(dtype)
    low = int(dtype.minimum)
    high = int(dtype.maximum)
    if dtype.bits < 64:
        lowest = np.float64(low)
        highest = np.float64(high)

        def saturate(x: Array) -> Array:
            wide = x.astype(np.float64)
            inside = np.minimum(np.maximum(wide, lowest), highest)
            return np.where(wide != wide, np.float64(0), inside).astype(target)

        return saturate
    # The largest 64-bit integer is no float64; 2.0**63 or 2.0**64 is the first float out of range.
    beyond = np.float64(high + 1)

    def saturate_wide(x: Array) -> Array:
        wide = np.trunc(x.astype(np.float64))
        inside = (wide > low) & (wide < beyond)
        result = np.where(inside, wide, np.float64(0)).astype(target)
        result = np.where(wide >= beyond, target.type(high), result)
        return np.where(wide <= low, target.type(low), result)

    return saturate_wide


def _float_to_float(source: DType, dtype: DType) -> Kernel:
    target = numpy_dtype(dtype)
    if dtype in (dtypes.float32, dtypes.float64):
        return lambda x: x.astype(target)
    if source is dtypes.float64:
        return narrow(dtype)
    # Every other source type is exact in float32, and float32 narrows in one rounding.
    return lambda x: x.astype(np.float32).astype(target)


def cast(dtype: DType, sources: Sequence[DType]) -> Kernel:
    """Return the kernel that converts one type to another."""
    source = sources[0]
    target = numpy_dtype(dtype)
    if source is dtype:
        return lambda x: x
    if dtype.is_bool:
        zero = np.zeros((), numpy_dtype(source))
        return lambda x: np.not_equal(x, zero)
    if source.is_bool or (source.is_int and dtype.is_int):
        return lambda x: x.astype(target)
    if source.is_int:
        return _int_to_float(source, dtype)
    if dtype.is_int:
        return _float_to_int(source, dtype)
    return _float_to_float(source, dtype)


def bitcast(dtype: DType, sources: Sequence[DType]) -> Kernel:
    """Return the kernel that reads the bits as another type."""
    target = numpy_dtype(dtype)
    return lambda x: x.view(target)


@functools.cache
def _kernel(op: Ops, dtype: DType, sources: tuple[DType, ...]) -> Kernel:
    choose = OP_TABLE[op].semantics
    if choose is None:
        raise UserError(f"{op.name}: has no scalar semantics; it is not an arithmetic op")
    return choose(dtype, sources)


def kernel_for(op: Ops, dtype: DType, source_dtypes: Sequence[DType] | None = None) -> Kernel:
    """Return the numpy function of `op`, resolved once: operand arrays in, result array out.

    `dtype` is the result type, and `source_dtypes` are the types of the operands. By default the
    operands have the type `dtype`, which is wrong for CAST, BITCAST and shifts by another type.
    Operands are arrays of `numpy_dtype(source)` of broadcastable shapes. The function does not
    silence numpy's floating-point warnings: call it under `np.errstate(all="ignore")`.
    Raises `UserError` for an op without scalar semantics.
    """
    if source_dtypes is None:
        sources: tuple[DType, ...] = (dtype.scalar,) * OP_TABLE[op].arity[0]
    else:
        sources = tuple(source.scalar for source in source_dtypes)
    return _kernel(op, dtype.scalar, sources)


def apply(
    op: Ops,
    dtype: DType,
    operands: Sequence[Array],
    source_dtypes: Sequence[DType] | None = None,
) -> Array:
    """Return the value of `op` on numpy `operands`: an array of `dtype`, of their broadcast shape.

    The call never warns. Source types default to the types of the operands.
    Raises `UserError` for an op without scalar semantics.
    """
    if source_dtypes is None:
        source_dtypes = [from_numpy_dtype(operand.dtype) for operand in operands]
    with np.errstate(all="ignore"):
        return np.asarray(kernel_for(op, dtype, source_dtypes)(*operands))


def fold(
    op: Ops,
    dtype: DType,
    values: Sequence[ConstType],
    source_dtypes: Sequence[DType] | None = None,
) -> ConstType:
    """Return the value of `op` on Python constants, as a constant of `dtype`.

    `source_dtypes` may be left out if all sources have the type of the result.
    """
    sources = [dtype] * len(values) if source_dtypes is None else source_dtypes
    operands = [
        np.array(value, numpy_dtype(source)) for value, source in zip(values, sources, strict=True)
    ]
    value = apply(op, dtype, operands, sources)
    if dtype.is_float:
        return float(value.astype(np.float64))
    return bool(value) if dtype.is_bool else int(value)


def reduce_identity(op: Ops, dtype: DType) -> ConstType:
    """Return the value of an empty reduction: 0 for ADD, 1 for MUL, the smallest value for MAX.

    Raises `UserError` for an op that does not reduce.
    """
    if op is Ops.ADD:
        return as_const(0, dtype)
    if op is Ops.MUL:
        return as_const(1, dtype)
    if op is Ops.MAX:
        return as_const(dtype.minimum, dtype)
    raise UserError(f"REDUCE: {op.name} does not reduce: accepted are ADD, MUL and MAX")
