"""Two operations in a row: the first result must be in its type before the second operation.

Each operation on floats rounds, unless the device declares otherwise. Some rewrites of compilers
show only here: one rounding for a product and a sum, a sum and a difference that cancel, a product
by a constant zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import oracles
from tinyref_spec.bits import Array, from_bits, to_bits
from tinyref_spec.case import Rung
from tinyref_spec.error_rules import SameBits, Ulp, smallest_subnormal, unit_roundoff
from tinyref_spec.isa.elementwise import Operation
from tinyref_spec.isa.specials import Special, parse
from tinyref_spec.oracles import Expected, round_to

DTYPES = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)

Semantics = Callable[[DType, Sequence[Array]], Expected]


@dataclass(frozen=True)
class TwoOperations:
    """One row for each dtype.

    strict: the value if both operations round. contracted, reassociated: the values, with a
    tolerance, of a device that declares this; None if the declaration changes nothing.
    """

    name: str
    op: str
    sentence: str
    count: int
    build: Callable[..., UOp]
    strict: Semantics
    contracted: Semantics | None
    reassociated: Semantics
    specials: tuple[Special, ...] = ()
    partial: Callable[[Sequence[Array]], Array] | None = None


def product_of_first(operands: Sequence[Array]) -> Array:
    """Return the product of x * y + z, not rounded further than float64."""
    with np.errstate(all="ignore"):
        return operands[0].astype(np.float64) * operands[1].astype(np.float64)


def _sum_of_first(operands: Sequence[Array]) -> Array:
    with np.errstate(all="ignore"):
        return operands[0].astype(np.float64) + operands[1].astype(np.float64)


def _product_sum(dtype: DType, operands: Sequence[Array]) -> Expected:
    return oracles.evaluate("MULACC", dtype, operands)


def within_roundings_of_product(dtype: DType, operands: Sequence[Array]) -> Expected:
    """Return x * y + z within one rounding of the product and one of the sum.

    If the product of two numbers rounds to infinity, a device may skip that rounding, so the result
    is not specified.
    """
    x, y, z = (operand.astype(np.float64) for operand in operands)
    with np.errstate(all="ignore"):
        expected = oracles.evaluate("MULACC", dtype, operands)
        result = _within(dtype, expected, x * y + z, np.abs(x * y))
        overflows = np.isfinite(x) & np.isfinite(y) & ~np.isfinite(round_to(x * y, dtype))
    result.specified = ~overflows
    return result


def _sum_difference(dtype: DType, operands: Sequence[Array]) -> Expected:
    x, y = (operand.astype(np.float64) for operand in operands)
    with np.errstate(all="ignore"):
        total = round_to(x + y, dtype).astype(np.float64)
        return Expected(round_to(total - y, dtype))


def _sum_difference_of_numbers(dtype: DType, operands: Sequence[Array]) -> Expected:
    """Return x within one rounding of the sum; not specified if the sum is not finite."""
    x, y = (operand.astype(np.float64) for operand in operands)
    expected = _sum_difference(dtype, operands)
    with np.errstate(all="ignore"):
        result = _within(dtype, expected, x, np.abs(x + y))
        total = round_to(x + y, dtype).astype(np.float64)
    result.specified = np.isfinite(total) & np.isfinite(y)
    return result


def _large(dtype: DType) -> float:
    """Return a number whose ULP is 1: a sum with it is rounded to an integer."""
    return 1.5 * 2.0**dtype.mantissa_bits


def _rounded_by_constant(x: UOp) -> UOp:
    return build.sub(build.add(x, _large(x.dtype.scalar)), _large(x.dtype.scalar))


def _with_large(semantics: Semantics, dtype: DType, operands: Sequence[Array]) -> Expected:
    return semantics(dtype, [operands[0], np.full_like(operands[0], _large(dtype))])


def _times_zero(dtype: DType, operands: Sequence[Array]) -> Expected:
    with np.errstate(all="ignore"):
        return Expected(round_to(operands[0].astype(np.float64) * 0.0, dtype))


def _times_zero_of_numbers(dtype: DType, operands: Sequence[Array]) -> Expected:
    """Return zero of any sign; not specified for infinities and NaN."""
    expected = _times_zero(dtype, operands)
    x = operands[0].astype(np.float64)
    return Expected(expected.values, np.isfinite(x), tolerance=np.zeros(x.shape), wide=x * 0)


def _within(dtype: DType, expected: Expected, wide: Array, partial: Array) -> Expected:
    """Return `wide` within a rounding of the partial result and one of its own."""
    unit, least = unit_roundoff(dtype), smallest_subnormal(dtype)
    # `wide` itself is rounded in float64.
    times = 2 if dtype is dtypes.float64 else 1
    tolerance = times * unit * (partial + np.abs(wide)) * (1 + 4 * unit) + least
    return Expected(expected.values, expected.specified, tolerance=tolerance, wide=wide)


SEQUENCES = (
    TwoOperations(
        "product_sum",
        "ADD",
        "x * y + z rounds twice.",
        3,
        lambda x, y, z: build.add(build.mul(x, y), z),
        _product_sum,
        within_roundings_of_product,
        within_roundings_of_product,
        parse("EPS EPS -EPS2 -> 0; inf 0 1 -> nan; LARGEST LARGEST -LARGEST -> inf"),
        product_of_first,
    ),
    TwoOperations(
        "sum_difference",
        "SUB",
        "(x + y) - y has the rounding of the sum.",
        2,
        lambda x, y: build.sub(build.add(x, y), y),
        _sum_difference,
        None,
        _sum_difference_of_numbers,
        parse("HALFULP 1 -> 0; 1 inf -> nan; LARGEST LARGEST -> inf"),
        _sum_of_first,
    ),
    TwoOperations(
        "constant_difference",
        "SUB",
        "(x + c) - c rounds x to an integer, for a constant c whose ULP is 1.",
        1,
        _rounded_by_constant,
        functools.partial(_with_large, _sum_difference),
        None,
        functools.partial(_with_large, _sum_difference_of_numbers),
        parse("0.25 -> 0; 0.75 -> 1; -1.25 -> -1; inf -> inf"),
    ),
    TwoOperations(
        "times_zero",
        "MUL",
        "x * 0 is NaN for infinities and NaN, and has the sign of x else.",
        1,
        lambda x: build.mul(x, 0.0),
        _times_zero,
        None,
        _times_zero_of_numbers,
        parse("inf -> nan; -inf -> nan; nan -> nan; 1 -> 0; -1 -> -0"),
    ),
)


def _of(semantics: Semantics | None, dtype: DType) -> Callable[[Sequence[Array]], Expected] | None:
    return None if semantics is None else functools.partial(semantics, dtype)


_REORDERED = "compilers may contract and reorder floats: -ffp-contract=off, no -ffast-math"


def sequences() -> Iterator[Operation]:
    """Yield each sequence in each dtype."""
    for sequence in SEQUENCES:
        for dtype in DTYPES:
            yield Operation(
                f"isa.sequence.{sequence.name}.{dtype.name}",
                sequence.op,
                dtype.name,
                f"{sequence.sentence} In {dtype.name}.",
                ("float.round", "float.strict"),
                Rung.ALU,
                (dtype,) * sequence.count,
                dtype,
                sequence.build,
                functools.partial(sequence.strict, dtype),
                Ulp(0),
                sequence.specials,
                contracted=_of(sequence.contracted, dtype),
                advice={"": _REORDERED},
                reassociated=_of(sequence.reassociated, dtype),
                partial=sequence.partial,
            )


def _bits_of(x: UOp) -> UOp:
    unsigned = next(
        dtype for dtype in dtypes.ints if dtype.is_unsigned and dtype.bits == x.dtype.scalar.bits
    )
    return build.bitcast(x, unsigned)


def _with_bits(op: Ops, mask: int, x: UOp) -> UOp:
    bits = _bits_of(x)
    return build.bitcast(UOp(op, bits.dtype, (bits, build.const(bits.dtype, mask))), x.dtype)


def _masked_reference(op: Ops, mask: int, dtype: DType, operands: Sequence[Array]) -> Expected:
    bits = to_bits(operands[0])
    compute = {Ops.AND: np.bitwise_and, Ops.XOR: np.bitwise_xor}[op]
    return Expected(from_bits(compute(bits, bits.dtype.type(mask)), dtype))


def bit_sequences() -> Iterator[Operation]:
    """Yield copies of floats and operations on their bits: NaNs keep their payloads."""
    for dtype in DTYPES:
        sign, every = 1 << (dtype.bits - 1), (1 << dtype.bits) - 1
        forms = {
            "copy": ("A copy", Ops.AND, every),
            "magnitude": ("A mask of all bits but the sign", Ops.AND, every ^ sign),
            "negated": ("A change of the sign bit", Ops.XOR, sign),
        }
        for name, (words, op, mask) in forms.items():
            yield Operation(
                f"isa.sequence.bits_{name}.{dtype.name}",
                "BITCAST",
                dtype.name,
                f"{words} keeps the payload of a NaN, signalling or quiet. In {dtype.name}.",
                ("isa.bitcast",),
                Rung.CAST,
                (dtype,),
                dtype,
                _same if name == "copy" else functools.partial(_with_bits, op, mask),
                functools.partial(_masked_reference, op, mask, dtype),
                SameBits(),
                (),
                advice={
                    "nan": "move floats whose bits count by integer instructions: a float "
                    "move or a conversion makes another NaN of a NaN"
                },
            )


def _same(x: UOp) -> UOp:
    return x
