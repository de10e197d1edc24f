"""References: the result of every primitive operation, without tinyref's own semantics.

Integers are Python's, wrapped. Floats up to 32 bits are computed in float64, which has 29 extra
bits. With these, a second rounding of + - * / and sqrt changes nothing (Figueroa, "When is double
rounding innocuous?", 1995, asks for 2p+2 = 50 bits). Float64 functions are computed by mpmath.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, Kind, dtypes, numpy_dtype
from tinyref_spec.bits import Array, BoolArray, from_bits, to_bits
from tinyref_spec.samples import largest_bits, quiet_nan_bits


@dataclass
class Expected:
    """The results that a device may give.

    values: the correctly rounded results. specified: which results are specified (None for all).
    alternatives: other results that are allowed element by element. observe: names the behaviour of
    a device that has a choice. tolerance: a bound on |actual - wide| if the rule is one; wide: the
    results in float64 before the last rounding. half_steps: computes sums that are rounded after
    each step, for rows that need more precision than that.
    """

    values: Array
    specified: BoolArray | None = None
    alternatives: tuple[Array, ...] = ()
    tolerance: Array | None = None
    wide: Array | None = None
    observe: Callable[[Array], str] | None = None
    half_steps: Callable[[], Array] | None = None


def wrap(value: int, dtype: DType) -> int:
    """Return `value` modulo 2^bits, in the range of the integer type."""
    low = value & ((1 << dtype.bits) - 1)
    if dtype.kind is Kind.SIGNED and low >> (dtype.bits - 1):
        return low - (1 << dtype.bits)
    return low


def round_to(wide: Array, dtype: DType) -> Array:
    """Round float64 values once to nearest even into a float type; overflow gives inf (or NaN).

    Scales to integers, so that every step except `rint` is exact.
    """
    values = np.asarray(wide, dtype=np.float64)
    if dtype is dtypes.float64:
        return values
    with np.errstate(all="ignore"):
        smallest = 2 - (1 << (dtype.exponent_bits - 1))
        _, exponent = np.frexp(values)
        quantum = np.maximum(exponent - 1, smallest) - dtype.mantissa_bits
        rounded = np.ldexp(np.rint(np.ldexp(values, -quantum)), quantum)
        largest = from_bits([largest_bits(dtype)], dtype).astype(np.float64)[0]
        beyond = math.nan if dtype is dtypes.fp8e4m3 else math.inf
        rounded = np.where(np.abs(rounded) > largest, np.copysign(beyond, values), rounded)
        rounded = np.where(np.isfinite(values), rounded, values)
        return _exact_narrow(rounded, dtype)


def _exact_narrow(values: Array, dtype: DType) -> Array:
    result = values.astype(np.float32).astype(numpy_dtype(dtype))
    sign = np.array(1 << (dtype.bits - 1), to_bits(result).dtype)
    nan = np.array(quiet_nan_bits(dtype), sign.dtype)
    return from_bits(
        np.where(np.isnan(values), (to_bits(result) & sign) | nan, to_bits(result)), dtype
    )


def round_integer(value: int, dtype: DType) -> float:
    """Round a Python integer once, to nearest even, into a float type."""
    precision = dtype.mantissa_bits + 1
    excess = abs(value).bit_length() - precision
    if excess <= 0:
        return float(value)
    significand, lost = divmod(abs(value), 1 << excess)
    half = 1 << (excess - 1)
    if lost > half or (lost == half and significand & 1):
        significand += 1
    return math.copysign(math.ldexp(significand, excess), value)


def _wide(values: Array) -> Array:
    # A signalling NaN becomes a quiet one, and raises a flag.
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def _integers(values: Array) -> list[int]:
    return [int(value) for value in values.tolist()]


IntegerSemantics = Callable[..., int | None]


def _truncated_quotient(x: int, y: int) -> int | None:
    if y == 0:
        return None
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _idiv(dtype: DType, x: int, y: int) -> int | None:
    quotient = _truncated_quotient(x, y)
    # MIN / -1 does not fit: unspecified.
    return None if quotient is None or quotient > int(dtype.maximum) else quotient


def _mod(dtype: DType, x: int, y: int) -> int | None:
    quotient = _idiv(dtype, x, y)
    return None if quotient is None else x - quotient * y


def _shift_left(dtype: DType, x: int, y: int) -> int | None:
    return x << y if 0 <= y < dtype.bits else None


def _shift_right(dtype: DType, x: int, y: int) -> int | None:
    return x >> y if 0 <= y < dtype.bits else None


# Semantics on Python integers; None is "unspecified".
INTEGER: dict[str, IntegerSemantics] = {
    "NEG": lambda dtype, x: -x,
    "ADD": lambda dtype, x, y: x + y,
    "SUB": lambda dtype, x, y: x - y,
    "MUL": lambda dtype, x, y: x * y,
    "IDIV": _idiv,
    "MOD": _mod,
    "MAX": lambda dtype, x, y: max(x, y),
    "AND": lambda dtype, x, y: x & y,
    "OR": lambda dtype, x, y: x | y,
    "XOR": lambda dtype, x, y: x ^ y,
    "SHL": _shift_left,
    "SHR": _shift_right,
    "MULACC": lambda dtype, x, y, z: x * y + z,
    "THREEFRY": lambda dtype, x, y: threefry(x, y),
}


def threefry(counter: int, key: int) -> int:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC 2011); words are packed low word first."""
    mask = 0xFFFFFFFF
    first, second = key & mask, key >> 32
    keys = (first, second, first ^ second ^ 0x1BD11BDA)
    x, y = ((counter & mask) + keys[0]) & mask, ((counter >> 32) + keys[1]) & mask
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    for number in range(20):
        turn = rotations[number % 8]
        x = (x + y) & mask
        y = ((y << turn) | (y >> (32 - turn))) & mask
        y ^= x
        if number % 4 == 3:
            step = number // 4 + 1
            x = (x + keys[step % 3]) & mask
            y = (y + keys[(step + 1) % 3] + step) & mask
    return x | (y << 32)


def _integer_result(op: str, dtype: DType, operands: Sequence[Array]) -> Expected:
    semantics = INTEGER[op]
    columns = [_integers(operand) for operand in operands]
    results = [semantics(dtype, *values) for values in zip(*columns, strict=True)]
    values = [0 if result is None else wrap(result, dtype) for result in results]
    specified = np.array([result is not None for result in results], dtype=np.bool_)
    return Expected(
        np.array(values, dtype=numpy_dtype(dtype)), None if specified.all() else specified
    )


FLOAT: dict[str, Callable[..., Array]] = {
    "NEG": np.negative,
    "RECIP": np.reciprocal,
    "SQRT": np.sqrt,
    "EXP2": np.exp2,
    "LOG2": np.log2,
    "SIN": np.sin,
    "TRUNC": np.trunc,
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "FDIV": np.divide,
    "POW": np.power,
}
# Functions whose float64 reference needs more than float64.
BEYOND_FLOAT64 = frozenset({"EXP2", "LOG2", "SIN", "POW"})


def _float_result(op: str, dtype: DType, operands: Sequence[Array]) -> Expected:
    wide = [_wide(operand) for operand in operands]
    with np.errstate(all="ignore"):
        if op == "MAX":
            return _maximum(dtype, operands, wide)
        if op == "MULACC":
            product = round_to(wide[0] * wide[1], dtype)
            return Expected(round_to(_wide(product) + wide[2], dtype))
        if op == "NEG":
            sign = np.array(1 << (dtype.bits - 1), to_bits(operands[0]).dtype)
            return Expected(from_bits(to_bits(operands[0]) ^ sign, dtype))
        result = FLOAT[op](*wide)
        if dtype is dtypes.float64 and op in BEYOND_FLOAT64:
            result = _beyond(op, wide, result)
        return Expected(round_to(result, dtype), wide=result)


def _maximum(dtype: DType, operands: Sequence[Array], wide: Sequence[Array]) -> Expected:
    """Return the maximum; with a NaN, or zeros of both signs, either operand is allowed."""
    first, second = operands
    either = np.isnan(wide[0]) | np.isnan(wide[1]) | (wide[0] == wide[1])
    larger = np.where(wide[0] > wide[1], first, second)
    return Expected(
        np.where(either, first, larger),
        alternatives=(np.where(either, second, larger),),
        observe=functools.partial(_observed_nan, np.isnan(wide[0]), np.isnan(wide[1])),
    )


def _observed_nan(first: BoolArray, second: BoolArray, actual: Array) -> str:
    """Return what a device does with one NaN among two operands of MAX."""
    one = first != second
    if not one.any():
        return ""
    is_nan = np.isnan(actual.astype(np.float64))
    behaviours = {
        "MAX gives the NaN": is_nan[one],
        "MAX gives the number": ~is_nan[one],
        "MAX gives its first operand": is_nan[one] == first[one],
        "MAX gives its second operand": is_nan[one] == second[one],
    }
    observed = (name for name, holds in behaviours.items() if bool(holds.all()))
    return next(observed, "MAX gives the NaN for some operands and the number for others")


def _beyond(op: str, operands: Sequence[Array], special: Array) -> Array:
    """Return float64 functions by mpmath at 120 bits, with special values from numpy."""
    columns = [tuple(operand.tolist()) for operand in operands]
    results = [
        _precise(op, values) if _is_regular(op, values) else float(fallback)
        for fallback, *values in zip(special.tolist(), *columns, strict=True)
    ]
    return np.array(results, dtype=np.float64)


def _is_regular(op: str, values: Sequence[float]) -> bool:
    """Return True if no IEEE special case applies; numpy's own functions handle those."""
    if not all(math.isfinite(value) for value in values):
        return False
    x = values[0]
    if op == "LOG2":
        return x > 0
    if op == "SIN":
        return x != 0
    if op == "POW":
        return x > 0 and abs(values[1] * math.log2(x)) < 1100 and values[1] != 0
    return abs(x) < 1100


@functools.lru_cache(maxsize=1 << 16)
def _precise_cached(op: str, values: tuple[float, ...]) -> float:
    import mpmath  # here, as every worker would import it and few cases need it

    # sin of a large argument cancels up to 1024 bits, which mpmath itself adds.
    with mpmath.workprec(120):
        arguments = [mpmath.mpf(value) for value in values]
        if op == "EXP2":
            result = mpmath.power(2, arguments[0])
        elif op == "LOG2":
            result = mpmath.log(arguments[0]) / mpmath.log(2)
        elif op == "SIN":
            result = mpmath.sin(arguments[0])
        else:
            result = mpmath.power(*arguments)
        return float(result)


def _precise(op: str, values: Sequence[float]) -> float:
    return _precise_cached(op, tuple(values))


def compare(op: str, operands: Sequence[Array]) -> Expected:
    """Return CMPLT and CMPNE: with a NaN, false and true."""
    first, second = (
        _wide(operand) if operand.dtype.kind not in "iub" else operand for operand in operands
    )
    return Expected(first < second if op == "CMPLT" else first != second)


def select(operands: Sequence[Array]) -> Expected:
    """Return WHERE: the bits of the chosen side."""
    condition, first, second = operands
    return Expected(np.where(condition, first, second))


def logical(op: str, operands: Sequence[Array]) -> Expected:
    """Return AND, OR, XOR and MAX of bools."""
    functions: dict[str, Callable[[bool, bool], bool]] = {
        "AND": lambda x, y: x and y,
        "OR": lambda x, y: x or y,
        "XOR": lambda x, y: x is not y,
        "MAX": lambda x, y: x or y,
    }
    rows = zip(operands[0].tolist(), operands[1].tolist(), strict=True)
    return Expected(np.array([functions[op](x, y) for x, y in rows], dtype=np.bool_))


def evaluate(op: str, dtype: DType, operands: Sequence[Array]) -> Expected:
    """Return the result of `op` for one-dimensional operands of equal size and type `dtype`.

    For WHERE `dtype` is the type of the chosen values. Raises KeyError for an op without oracle.
    """
    if op in ("CMPLT", "CMPNE"):
        return compare(op, operands)
    if op == "WHERE":
        return select(operands)
    if dtype.is_bool:
        return logical(op, operands)
    if dtype.is_float:
        return _float_result(op, dtype, operands)
    return _integer_result(op, dtype, operands)


def cast(values: Array, source: DType, target: DType) -> Expected:
    """Return CAST: wraps, truncates or rounds to even; NaN and out of range are unspecified."""
    if target.is_bool:
        return Expected(_wide(values) != 0 if source.is_float else values != 0)
    if source.is_float and target.is_float:
        return Expected(round_to(_wide(values), target))
    if source.is_float:
        return _truncated(_wide(values), target)
    integers = _integers(values)
    if target.is_float:
        rounded = np.array([round_integer(value, target) for value in integers], dtype=np.float64)
        # The value already has few enough bits; only overflow to infinity remains.
        return Expected(round_to(rounded, target))
    wrapped = [wrap(value, target) for value in integers]
    return Expected(np.array(wrapped, dtype=numpy_dtype(target)))


def _truncated(values: Array, target: DType) -> Expected:
    with np.errstate(all="ignore"):
        whole = np.trunc(values)
    low, high = int(target.minimum), int(target.maximum)
    specified = np.array(
        [math.isfinite(value) and low <= int(value) <= high for value in whole.tolist()], np.bool_
    )
    integers = [int(value) if good else 0 for value, good in zip(whole, specified, strict=True)]
    return Expected(
        np.array(integers, dtype=numpy_dtype(target)), None if specified.all() else specified
    )


def bitcast(values: Array, target: DType) -> Expected:
    """Return BITCAST: the same bits."""
    return Expected(from_bits(to_bits(values), target))
