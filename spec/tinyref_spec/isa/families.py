"""Families of short chains of integer arithmetic: each operation with each, in every order.

`idioms.py` names single chains. Here each family is a product of operations, operands and
constants, so that a wrong rewrite of any member is detected. The chains are rendered as they are,
and the reference is numpy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.data_kinds import of_all_kinds
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.isa.elementwise import LANES
from tinyref_spec.isa.idioms import Chain, direct, funnel, swapped_bytes, unsigned
from tinyref_spec.isa.widths import Output, divisors, integers, measure_outputs
from tinyref_spec.literals import is_subnormal
from tinyref_spec.styles import VECTOR_LANES

Unary = Callable[[UOp], UOp]
Condition = Callable[[UOp, UOp], UOp]
# Yields chains of a type; if the flag is set, those of the quick profile.
OutputsOf = Callable[[DType, DeviceUnderTest, bool], Iterator[Output]]


def bits_type(dtype: DType) -> DType:
    """Return the unsigned integer of the width of a type."""
    return next(to for to in dtypes.ints if to.is_unsigned and to.bits == dtype.bits)


def _minimum(x: UOp, y: UOp) -> UOp:
    return build.where(build.less(x, y), x, y)


def _negated(x: UOp) -> UOp:
    return build.unary(Ops.NEG, x)


def _complement(x: UOp) -> UOp:
    return build.binary(Ops.XOR, x, -1)


def _magnitude(x: UOp) -> UOp:
    return build.where(build.less(x, 0), _negated(x), x)


# --- an operand that is used twice ----------------------------------------------------------------

_BINARY: Mapping[str, Chain] = {
    "+": build.add,
    "-": build.sub,
    "*": build.mul,
    "max": build.maximum,
    "min": _minimum,
    "&": build.both,
    "|": build.either,
    "^": functools.partial(build.binary, Ops.XOR),
}
_WITH_BITS = (dtypes.int32, dtypes.uint8)
_COMPARED: Mapping[str, Chain] = {
    **{sign: _BINARY[sign] for sign in ("max", "min", "-")},
    "<": lambda x, y: build.cast(build.less(x, y), x.dtype.scalar),
}


def _text(sign: str, first: str, second: str) -> str:
    if sign in ("max", "min"):
        return f"{sign}({first}, {second})"
    return f"({first} {sign} {second})"


def _reused(first: Chain, second: Chain, form: str, step: int, x: UOp, y: UOp) -> UOp:
    """Return `second` of the value of `first`, plus a step, and of one of its operands."""
    inner = first(x, y)
    if step:
        inner = build.add(inner, step)
    operands = {"i": inner, "x": x, "y": y}
    return second(operands[form[0]], operands[form[1]])


def reused(dtype: DType, is_quick: bool) -> Iterator[Output]:
    """Yield pairs of operations that share an operand, in each order, and some with a step between.

    is_quick: one step, and half of the orders if neither operation is a difference. Signed and
    unsigned types have different halves. Two types have operations on bits too.
    """
    orders, steps = ("ix", "yi", "xi", "iy"), (1, -3)
    part = int(dtype.is_unsigned)
    some = orders[2 * part : 2 * part + 2]
    binary = _BINARY
    if is_quick and dtype not in _WITH_BITS:
        binary = {sign: chain for sign, chain in _BINARY.items() if sign not in "&|^"}
    followers = [(binary, 0), *((_COMPARED, step) for step in steps)]
    if is_quick:
        followers = [(binary, 0), (_COMPARED, steps[part])]
    for first, inner in binary.items():
        for seconds, step in followers:
            for second, outer in seconds.items():
                is_symmetric = "-" not in (first, second)
                for form in some if is_quick and is_symmetric else orders:
                    text = _text(first, "x", "y")
                    text = f"({text} + {step})" if step else text
                    name = _text(second, *(text if part == "i" else part for part in form))
                    yield Output(name, functools.partial(_reused, inner, outer, form, step))


_AVERAGES: Mapping[str, Chain] = {
    "x + ((y - x) >> 1)": lambda x, y: build.add(x, _shr(build.sub(y, x), 1)),
    "(x >> 1) + (y >> 1) + (x & y & 1)": lambda x, y: build.add(
        build.add(_shr(x, 1), _shr(y, 1)), build.both(build.both(x, y), 1)
    ),
    "(x | y) - ((x ^ y) >> 1)": lambda x, y: build.sub(
        build.either(x, y), _shr(build.binary(Ops.XOR, x, y), 1)
    ),
}


def _shr(x: UOp, count: int | UOp) -> UOp:
    return build.binary(Ops.SHR, x, count)


def _shl(x: UOp, count: int | UOp) -> UOp:
    return build.binary(Ops.SHL, x, count)


def _clamped(chain: Chain, low: int, high: int, is_low_first: bool, x: UOp, y: UOp) -> UOp:
    value = chain(x, y)
    if is_low_first:
        return _minimum(build.maximum(value, low), build.const(value.dtype, high))
    return build.maximum(_minimum(value, build.const(value.dtype, high)), low)


def clamps(dtype: DType) -> Iterator[Output]:
    """Yield sums, differences and products between two limits, and averages."""
    least, most = int(dtype.minimum), int(dtype.maximum)
    for sign in ("-", "+", "*"):
        for low, high in ((least // 2, most // 2), (3, 100)):
            for is_low_first in (False, True):
                order = "from below first" if is_low_first else "from above first"
                name = f"(x {sign} y) between {low} and {high}, {order}"
                clamped = functools.partial(_clamped, _BINARY[sign], low, high, is_low_first)
                yield Output(name, clamped)
    for name, chain in _AVERAGES.items():
        yield Output(name, chain)


# --- negations and magnitudes ---------------------------------------------------------------------

_NEGATIVES: Mapping[str, Unary] = {
    "-x": _negated,
    "x * -1": lambda x: build.mul(x, -1),
    "0 - x": lambda x: build.sub(0, x),
    "~x": _complement,
}
_MAGNITUDES: Mapping[str, Unary] = {
    "|x|": _magnitude,
    "max(x, -x)": lambda x: build.maximum(x, _negated(x)),
    "-|x|": lambda x: _negated(_magnitude(x)),
    "min(x, -x)": lambda x: _minimum(x, _negated(x)),
}


def _bits_changed(op: Ops, x: UOp) -> UOp:
    """Return the magnitude of a float by AND, its negative by XOR."""
    dtype = x.dtype.scalar
    bits = build.bitcast(x, bits_type(dtype))
    sign = 1 << (dtype.bits - 1)
    mask = sign if op is Ops.XOR else sign - 1
    return build.bitcast(build.binary(op, bits, mask), dtype)


OF_FLOATS: Mapping[str, Unary] = {
    "-x": _negated,
    "x * -1": lambda x: build.mul(x, -1.0),
    **_MAGNITUDES,
    "x without its sign bit": functools.partial(_bits_changed, Ops.AND),
    "x with its sign bit inverted": functools.partial(_bits_changed, Ops.XOR),
}
_BESIDE: Mapping[str, Chain] = {
    **_COMPARED,
    "!=": lambda x, y: build.cast(build.not_equal(x, y), x.dtype.scalar),
}


def _beside(function: Unary, second: Chain, form: str, x: UOp, y: UOp) -> UOp:
    operands = {"f": function(x), "x": x, "y": y}
    return second(operands[form[0]], operands[form[1]])


def beside(functions: Mapping[str, Unary], signs: Sequence[str], forms: str) -> Iterator[Output]:
    """Yield maxima, minima and comparisons of functions of x with x or y, in these orders."""
    for text, function in functions.items():
        for sign in signs:
            for form in forms.split():
                name = _text(sign, *(text if part == "f" else part for part in form))
                yield Output(name, functools.partial(_beside, function, _BESIDE[sign], form))


def negated_maximum(x: UOp, y: UOp) -> UOp:
    """Return the minimum of x and y by their negatives; the least integer has none."""
    return _negated(build.maximum(_negated(x), _negated(y)))


_NEGATIONS: Mapping[str, Chain] = {
    "-x": lambda x, y: _negated(x),
    "-(-x)": lambda x, y: _negated(_negated(x)),
    "-(~x)": lambda x, y: _negated(_complement(x)),
    "~(-x)": lambda x, y: _complement(_negated(x)),
    "-(x + y)": lambda x, y: _negated(build.add(x, y)),
    "-(x - y)": lambda x, y: _negated(build.sub(x, y)),
    "-(x * y)": lambda x, y: _negated(build.mul(x, y)),
    "x + -y": lambda x, y: build.add(x, _negated(y)),
    "-x + y": lambda x, y: build.add(_negated(x), y),
    "x - -y": lambda x, y: build.sub(x, _negated(y)),
    "-x - y": lambda x, y: build.sub(_negated(x), y),
    "x * -y": lambda x, y: build.mul(x, _negated(y)),
    "-x * -y": lambda x, y: build.mul(_negated(x), _negated(y)),
    "-x * 7": lambda x, y: build.mul(_negated(x), 7),
    "-max(-x, -y)": negated_maximum,
    "~max(~x, ~y)": lambda x, y: _complement(build.maximum(_complement(x), _complement(y))),
    "-x >> 1": lambda x, y: _shr(_negated(x), 1),
    "-(x >> 1)": lambda x, y: _negated(_shr(x, 1)),
    "-(x << 1)": lambda x, y: _negated(_shl(x, 1)),
    "-(x < y)": lambda x, y: _negated(build.cast(build.less(x, y), x.dtype.scalar)),
    "x < 0 ? -x : y": lambda x, y: build.where(build.less(x, 0), _negated(x), y),
    "-x < -y": lambda x, y: build.cast(build.less(_negated(x), _negated(y)), x.dtype.scalar),
}


_QUOTIENTS: Mapping[str, Chain] = {
    "x // y": build.idiv,
    "x // -y": lambda x, y: build.idiv(x, _negated(y)),
    "-x // y": lambda x, y: build.idiv(_negated(x), y),
    "-x // -y": lambda x, y: build.idiv(_negated(x), _negated(y)),
    "-x // 3": lambda x, y: build.idiv(_negated(x), 3),
    "-(x // y)": lambda x, y: _negated(build.idiv(x, y)),
    "x % y": build.mod,
    "x % -y": lambda x, y: build.mod(x, _negated(y)),
    "-x % y": lambda x, y: build.mod(_negated(x), y),
    "-(x % y)": lambda x, y: _negated(build.mod(x, y)),
}


# --- shifts and casts
# ------------------------------------------------------------------------------


def _constant_shift(
    op: Ops, value: int, target: DType, is_wide: bool, count: int, x: UOp, y: UOp
) -> UOp:
    """Shift a constant by y, or by `count` if it is not 0; widen it before or after."""
    constant = build.const(x.dtype, value)
    start = build.cast(constant, target) if is_wide else constant
    amount = build.const(start.dtype, count) if count else build.both(y, x.dtype.scalar.bits - 1)
    if amount.dtype.scalar is not start.dtype.scalar:
        amount = build.cast(amount, start.dtype.scalar)
    return build.cast(build.binary(op, start, amount), target)


def _shifted_cast(op: Ops, target: DType, is_first: bool, count: int, x: UOp, y: UOp) -> UOp:
    if is_first:
        return build.cast(build.binary(op, x, count), target)
    wide = build.cast(x, target)
    return build.binary(op, wide, build.const(wide.dtype, count))


def wide_shifts(dtype: DType, target: DType) -> Iterator[Output]:
    """Yield shifts of constants and of x, by constants and by y, before and after a cast."""
    last = dtype.bits - 1
    for op, sign in ((Ops.SHL, "<<"), (Ops.SHR, ">>")):
        for value in (1, int(dtype.maximum), int(dtype.minimum) or int(dtype.maximum) - 1, -1):
            for is_wide in (False, True):
                for count in (0, last):
                    name = f"{value} {sign} {count or 'y'} as {target.name}"
                    shift = functools.partial(_constant_shift, op, value, target, is_wide, count)
                    yield Output(f"{name}, widened {'before' if is_wide else 'after'}", shift)
    yield from shifted_casts(dtype, target)


def shifted_casts(dtype: DType, target: DType) -> Iterator[Output]:
    """Yield shifts of x by constants before and after a cast; wide shifts only of narrow types."""
    for op, sign in ((Ops.SHL, "<<"), (Ops.SHR, ">>")):
        for count in (1, dtype.bits // 2, dtype.bits - 1):
            for is_first in (True, False)[: 1 + (target.bits > dtype.bits)]:
                name = f"x {sign} {count}, cast to {target.name}"
                shift = functools.partial(_shifted_cast, op, target, is_first, count)
                yield Output(f"{name} {'after' if is_first else 'before'}", shift)


# --- a number and a function of itself ------------------------------------------------------------


def _rotated(count: int, x: UOp) -> UOp:
    bits = unsigned(x)
    return build.cast(funnel(bits, bits, count), x.dtype.scalar)


def functions_of_itself(dtype: DType) -> dict[str, Unary]:
    """Return rotations, shifts, negatives and neighbours of an integer, by their texts."""
    rotations = [*range(8, dtype.bits, 8)] or [4]
    shifts = sorted({1, 8 % dtype.bits or 4, dtype.bits // 2, dtype.bits - 1})
    return {
        **{f"rotation by {count}": functools.partial(_rotated, count) for count in rotations},
        "swapped bytes": lambda x: swapped_bytes(x, x),
        **{f"x << {count}": functools.partial(_shl, count=count) for count in shifts},
        **{f"x >> {count}": functools.partial(_shr, count=count) for count in shifts},
        **_NEGATIVES,
        **_MAGNITUDES,
        "x": lambda x: x,
        "x + 1": lambda x: build.add(x, 1),
        "x - 1": lambda x: build.sub(x, 1),
        "x + 100": lambda x: build.add(x, 100),
        "x * 3": lambda x: build.mul(x, 3),
        "x & 7": lambda x: build.both(x, 7),
        "x | 7": lambda x: build.either(x, 7),
        "x ^ 7": lambda x: build.binary(Ops.XOR, x, 7),
        "x // 3": lambda x: build.idiv(x, 3),
    }


# --- rows -----------------------------------------------------------------------------------------


def chains(dtype: DType, device: DeviceUnderTest, is_quick: bool) -> Iterator[Output]:
    """Yield the chains of arithmetic of an integer type."""
    yield from reused(dtype, is_quick)
    yield from clamps(dtype)
    yield from beside({**_NEGATIVES, **_MAGNITUDES}, ("max", "min"), "fy yf fx xf")
    for name, chain in _NEGATIONS.items():
        yield Output(name, chain)
    for target in dtypes.ints:
        is_alike = target.is_unsigned is dtype.is_unsigned
        if target.bits > dtype.bits and (is_alike or target is dtypes.int64 or not is_quick):
            yield from wide_shifts(dtype, target)
        elif target.bits < dtype.bits and is_alike:
            yield from shifted_casts(dtype, target)


def quotients(dtype: DType, device: DeviceUnderTest, is_quick: bool) -> Iterator[Output]:
    """Yield quotients and remainders of two integers and of their negatives, side by side."""
    for name, chain in _QUOTIENTS.items():
        yield Output(name, chain)


def _integers(dtype: DType) -> list[Array]:
    """Return pairs of integers of all kinds; x includes numbers of equal bytes and palindromes.

    y is never 0, 1 or -1, so that -y can be a divisor too.
    """
    x, y = integers(dtype, 8), divisors(dtype, 9)
    edges = samples.edges(dtype)[:20]
    count = len(edges) ** 2
    x[:count], y[:count] = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    if dtype.bits == 8:
        x[-256:] = samples.table(dtype)
    else:
        raw = x[-256:].view(np.uint8).reshape(256, dtype.itemsize)
        half = dtype.itemsize // 2
        raw[:64] = raw[:64, :1]
        raw[64:128, half:] = raw[64:128, :half]
        raw[128:, half:] = raw[128:, :half][:, ::-1]
    no_divisor = np.isin(y, np.array([0, 1, -1]).astype(y.dtype))
    y[no_divisor] = y.dtype.type(3)
    return [x, y]


def _floats(dtype: DType, keeps_subnormals: bool) -> list[Array]:
    """Return pairs of floats of all kinds: each edge with itself, its negative and others."""
    special = np.array([1.5, -1.5, 0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0])
    kinds = of_all_kinds(dtype, 100, "each", keeps_subnormals)
    parts = [samples.edges(dtype), samples.nan_payloads(dtype), kinds]
    grid = np.concatenate(parts)
    grid = grid[keeps_subnormals | ~is_subnormal(grid, dtype)]
    generator = np.random.default_rng(10)
    x, y = (generator.permutation(np.resize(grid, LANES)) for _ in range(2))
    y[::4], y[1::4] = x[::4], -x[1::4]
    count, special = len(special) ** 2, special.astype(numpy_dtype(dtype))
    x[:count], y[:count] = np.repeat(special, len(special)), np.tile(special, len(special))
    return [x, y]


def data_of(dtype: DType, device: DeviceUnderTest) -> list[Array]:
    """Return the values of x and of y, as the device takes them."""
    if dtype.is_float:
        return _floats(dtype, device.capabilities.keeps_subnormals)
    return _integers(dtype)


def _measure(
    dtype: DType, family: OutputsOf, is_quick: bool, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Measure the chains as programs of scalars and of vectors, until one fails.

    is_quick: only every fourth chain of vectors.
    """
    capabilities = device.capabilities
    data = data_of(dtype, device)
    outputs = direct(family(dtype, device, is_quick), dtype, capabilities)
    measured = measure_outputs(case_id, device, dtype, data, outputs, 1)
    if measured.passed and VECTOR_LANES in capabilities.vector_lanes:
        some = outputs[dtype.is_unsigned :: 4] if is_quick else outputs
        measured = measure_outputs(case_id, device, dtype, data, some, VECTOR_LANES)
    return measured


def check_of(name: str, dtype: DType, family: OutputsOf) -> Check:
    """Return the check of all chains of a family, for the quick profile too."""
    return Check(name, functools.partial(_measure, dtype, family, False))


def checks_of(dtype: DType, family: OutputsOf) -> Iterator[Check]:
    """Yield the checks of a family of chains: some of them, and in the full profile all."""
    yield Check("some", functools.partial(_measure, dtype, family, True))
    yield Check("all", functools.partial(_measure, dtype, family, False), full_only=True)


def _chain_checks(dtype: DType) -> Iterator[Check]:
    yield from checks_of(dtype, chains)
    yield check_of("quotients", dtype, quotients)


def row_of(
    name: str,
    dtype: DType,
    sentence: str,
    checks: Callable[[], Iterable[Check]],
    clauses: tuple[str, ...],
    rung: Rung = Rung.CAST,
    advice: str = "look at the rule of the compiler that rewrites the chain in the message",
) -> Row:
    """Return a row of programs on a type that the device computes in."""
    return make_row(
        f"isa.{name}.{dtype.name}",
        f"{sentence} In {dtype.name}.",
        clauses=clauses,
        rung=rung,
        dtype=dtype,
        uses=(dtype, dtypes.bool),
        features=(f"native:{dtype.name}",),
        checks=checks,
        advice=advice,
    )


def rows() -> Iterator[Row]:
    """Yield the rows of chains for each type of integers."""
    for dtype in dtypes.ints:
        yield row_of(
            "chain",
            dtype,
            "Two operations that share an operand, negatives, their quotients, magnitudes and "
            "shifts of constants give what their operations give.",
            functools.partial(_chain_checks, dtype),
            ("int.wrap", "isa.add", "isa.sub", "isa.mul", "isa.max", "isa.neg", "isa.shl"),
        )
