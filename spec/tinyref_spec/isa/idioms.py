"""Chains of integer operations: pairs, idioms that compilers recognise, constants as divisors.

A compiler replaces chains such as a rotation by two shifts, a magnitude or a saturated sum by one
instruction, and a division by a constant by a product. Each such rule has conditions on widths,
signs and constants, which kernels of one operation never meet. The reference is numpy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.isa.elementwise import LANES
from tinyref_spec.isa.widths import (
    REFERENCES,
    Output,
    apply_op,
    divisors,
    integers,
    is_divisor,
    measure_outputs,
)
from tinyref_spec.kernels.notation import load
from tinyref_spec.styles import VECTOR_LANES

# A chain of two loaded operands. The second is neither 0 nor -1.
Chain = Callable[[UOp, UOp], UOp]
OutputsOf = Callable[[DeviceUnderTest], Iterable[Output]]

_SHIFTS = (Ops.SHL, Ops.SHR)
_SCALARS, _BOTH = (1,), (1, VECTOR_LANES)
# The types for which the quick profile runs all pairs.
_QUICK = (dtypes.int32, dtypes.uint8)
_CAST_TARGETS = (dtypes.int8, dtypes.int64)
_BINARY = tuple(op for op in REFERENCES if op not in (Ops.NEG, Ops.CMPNE))


# --- pairs ----------------------------------------------------------------------------------------


def _apply(op: Ops, x: UOp, y: UOp) -> UOp:
    """Return x op y in the type of x: a shift takes the low bits of y as its count."""
    if op in _SHIFTS and y.op is not Ops.CONST:
        y = build.binary(Ops.AND, y, x.dtype.scalar.bits - 1)
    return _as(x, apply_op(op, x, y))


def _pair(first: Ops, second: Ops, has_constant: bool, x: UOp, y: UOp) -> UOp:
    operand = build.const(x.dtype, 5) if has_constant else y
    return _apply(second, _apply(first, x, y), operand)


def pairs(
    second: Ops, dtype: DType, has_constant: bool, device: DeviceUnderTest
) -> Iterator[Output]:
    """Yield each operation on (x, y), followed by `second` with y, or with the constant 5."""
    for first in _BINARY:
        name = f"{first.name}, then {second.name}"
        yield Output(name, functools.partial(_pair, first, second, has_constant))


def _cast_result(op: Ops, target: DType, has_constant: bool, x: UOp, y: UOp) -> UOp:
    # More than half of the bits, so that a shift by it leaves few of them.
    operand = build.const(x.dtype, x.dtype.scalar.bits // 2 + 1) if has_constant else y
    return build.cast(_apply(op, x, operand), target)


def casts(dtype: DType, targets: Iterable[DType], device: DeviceUnderTest) -> Iterator[Output]:
    """Yield each operation, with y and with a constant, followed by a cast to each target."""
    for target in filter(device.capabilities.supports, targets):
        for op in _BINARY:
            for has_constant in (False, True):
                name = f"{op.name}, then CAST to {target.name}"
                chain = functools.partial(_cast_result, op, target, has_constant)
                yield Output(name, chain)


# --- idioms ---------------------------------------------------------------------------------------


def _shl(x: UOp, count: int | UOp) -> UOp:
    return build.binary(Ops.SHL, x, count)


def _shr(x: UOp, count: int | UOp) -> UOp:
    return build.binary(Ops.SHR, x, count)


def _and(x: UOp, mask: int | UOp) -> UOp:
    return build.binary(Ops.AND, x, mask)


def _or(x: UOp, y: int | UOp) -> UOp:
    return build.binary(Ops.OR, x, y)


def _xor(x: UOp, y: int | UOp) -> UOp:
    return build.binary(Ops.XOR, x, y)


def _negative(x: UOp) -> UOp:
    """Return -x as the compiler writes it: renderers never see NEG of integers."""
    return build.mul(x, -1)


def _as(x: UOp, value: UOp) -> UOp:
    """Return `value` in the type of `x`; True becomes 1."""
    return build.cast(value, x.dtype.scalar)


def _magnitude(x: UOp) -> UOp:
    return build.where(build.less(x, 0), _negative(x), x)


def _magnitude_by_sign(x: UOp, y: UOp) -> UOp:
    sign = _shr(x, x.dtype.scalar.bits - 1)
    return build.sub(_xor(x, sign), sign)


def funnel(x: UOp, y: UOp, count: int) -> UOp:
    """Return the upper part of the pair (x, y), shifted left by `count` of 1 .. bits - 1."""
    return _or(_shl(x, count), _shr(y, x.dtype.scalar.bits - count))


def _variable_rotation(x: UOp, y: UOp) -> UOp:
    last = x.dtype.scalar.bits - 1
    back = _and(_negative(y), last)
    return _or(_shl(x, _and(y, last)), _shr(x, back))


def swapped_bytes(x: UOp, y: UOp) -> UOp:
    """Return x with its bytes in reverse."""
    parts = []
    for byte in range(x.dtype.scalar.itemsize):
        low = _and(_shr(x, 8 * byte), 255)
        parts.append(_shl(low, x.dtype.scalar.bits - 8 - 8 * byte))
    return functools.reduce(_or, parts)


def _high_product(x: UOp, y: UOp) -> UOp:
    wide = dtypes.uint64 if x.dtype.scalar.is_unsigned else dtypes.int64
    product = build.mul(build.cast(x, wide), build.cast(y, wide))
    return _as(x, _shr(product, x.dtype.scalar.bits))


def _halved_towards_zero(x: UOp, y: UOp) -> UOp:
    bias = _and(_shr(x, x.dtype.scalar.bits - 1), 3)
    return _shr(build.add(x, bias), 2)


def unsigned(x: UOp) -> UOp:
    """Return x in the unsigned type of its width."""
    dtype = x.dtype.scalar
    return build.cast(x, dtype if dtype.is_unsigned else other_sign(dtype))


def other_sign(dtype: DType) -> DType:
    """Return the integer type of the same width and the other sign."""
    return next(
        to
        for to in dtypes.ints
        if to.bits == dtype.bits and to.is_unsigned is not dtype.is_unsigned
    )


def _by_power(op: Ops, start: int, x: UOp, y: UOp) -> UOp:
    """Return x op a divisor that is `start` shifted right by fewer than half of the bits."""
    count = _and(y, x.dtype.scalar.bits // 2 - 1)
    return apply_op(op, x, _shr(build.const(x.dtype, start), count))


_ANY: Mapping[str, Chain] = {
    "quotient of a negative": lambda x, y: build.idiv(_negative(x), 7),
    "remainder of a negative": lambda x, y: build.mod(_negative(x), 7),
    "quotient of a product": lambda x, y: build.idiv(build.mul(x, 6), 3),
    "quotient of a quotient": lambda x, y: build.idiv(build.idiv(x, 3), 5),
    "remainder of a remainder": lambda x, y: build.mod(build.mod(x, 12), 4),
    "positive part by a product": lambda x, y: build.mul(_as(x, build.less(0, x)), x),
    "positive part by a choice": lambda x, y: build.where(build.less(0, x), x, 0),
    "larger by a choice": lambda x, y: build.where(build.less(x, y), y, x),
    "smaller by a choice": lambda x, y: build.where(build.less(x, y), x, y),
    "clamp": lambda x, y: build.where(
        build.less(x, 3), 3, build.where(build.less(100, x), build.const(x.dtype, 100), x)
    ),
    "choice by a negated condition": lambda x, y: build.where(
        build.logical_not(build.less(x, y)), build.add(x, 1), y
    ),
    "choice by two conditions": lambda x, y: build.where(
        build.both(build.less(x, y), build.less(7, x)), x, y
    ),
    "choice by either condition": lambda x, y: build.where(
        build.either(build.less(x, y), build.less(7, x)), x, y
    ),
    "complement of a comparison": lambda x, y: _xor(_as(x, build.less(x, y)), -1),
    "negative of a comparison": lambda x, y: _negative(_as(x, build.less(x, y))),
    "order of two numbers": lambda x, y: build.sub(
        _as(x, build.less(y, x)), _as(x, build.less(x, y))
    ),
    "average": lambda x, y: _shr(build.add(x, y), 1),
    "rounded average": lambda x, y: _shr(build.add(build.add(x, y), 1), 1),
    "average without overflow": lambda x, y: build.add(_and(x, y), _shr(_xor(x, y), 1)),
    "rotation by 1": lambda x, y: funnel(x, x, 1),
    "rotation by 3": lambda x, y: funnel(x, x, 3),
    "rotation by all but 1": lambda x, y: funnel(x, x, x.dtype.scalar.bits - 1),
    "rotation by a loaded count": _variable_rotation,
    "funnel shift by 5": lambda x, y: funnel(x, y, 5),
    "half with its sign": lambda x, y: _shr(
        _shl(x, x.dtype.scalar.bits // 2), build.const(x.dtype, x.dtype.scalar.bits // 2)
    ),
    "field of 3 bits": lambda x, y: _and(_shr(x, 2), 7),
    "swapped bytes": swapped_bytes,
    "saturated sum": lambda x, y: build.where(
        build.less(build.add(x, y), x),
        build.const(x.dtype, int(x.dtype.scalar.maximum)),
        build.add(x, y),
    ),
    "saturated difference": lambda x, y: build.where(build.less(x, y), 0, build.sub(x, y)),
    "carry": lambda x, y: _as(x, build.less(build.add(x, y), x)),
    "lowest bit": lambda x, y: _and(x, _negative(x)),
    "without its lowest bit": lambda x, y: _and(x, build.sub(x, 1)),
    "is a power of two": lambda x, y: _as(x, build.equal(_and(x, build.sub(x, 1)), 0)),
    "choice of bits": lambda x, y: _xor(_and(_xor(x, y), 0x35), y),
    "both bits or neither": lambda x, y: _xor(_or(x, y), _and(x, y)),
    "remainder by its quotient": lambda x, y: build.sub(x, build.mul(build.idiv(x, y), y)),
    "quotient and remainder": lambda x, y: build.add(build.idiv(x, y), build.mod(x, y)),
    "multiple of a divisor": lambda x, y: build.mul(build.idiv(x, y), y),
    "parity": lambda x, y: build.mod(x, 2),
    "complement by a difference": lambda x, y: build.sub(-1, x),
    "negative of a difference": lambda x, y: _negative(build.sub(x, y)),
    "product with a sum of shifts": lambda x, y: build.add(_shl(x, 2), _shl(x, 1)),
    "products by 7 and -9": lambda x, y: build.add(build.mul(x, 7), build.mul(y, -9)),
}
_SIGNED: Mapping[str, Chain] = {
    "unsigned comparison": lambda x, y: _as(x, build.less(unsigned(x), unsigned(y))),
    "unsigned quotient": lambda x, y: _as(x, build.idiv(unsigned(x), unsigned(y))),
    "unsigned shift": lambda x, y: _as(x, _shr(unsigned(x), 3)),
    "magnitude by a choice": lambda x, y: _magnitude(x),
    "magnitude by a maximum": lambda x, y: build.maximum(x, _negative(x)),
    "magnitude by its sign": _magnitude_by_sign,
    "negated magnitude": lambda x, y: _negative(_magnitude(x)),
    "comparison of magnitudes": lambda x, y: _as(x, build.less(_magnitude(x), _magnitude(y))),
    "comparison of a magnitude with itself": lambda x, y: _as(
        x, build.less(_magnitude(_or(x, 0)), build.maximum(x, _negative(x)))
    ),
    "quarter towards zero": _halved_towards_zero,
    "sign bit": lambda x, y: _shr(x, x.dtype.scalar.bits - 1),
}


def idioms(dtype: DType, device: DeviceUnderTest) -> Iterator[Output]:
    """Yield the idioms of a type. Narrow ones are widened, to show the high bits of registers."""
    chains = dict(_ANY) if dtype.is_unsigned else {**_ANY, **_SIGNED}
    top = 1 << (dtype.bits - 1) if dtype.is_unsigned else int(dtype.minimum)
    for op in (Ops.IDIV, Ops.MOD):
        chains[f"{op.name} by a shifted limit"] = functools.partial(_by_power, op, top)
    if dtype.bits <= 32 and device.capabilities.supports(dtypes.int64):
        chains["high half of a product"] = _high_product
    is_widened = dtype.bits < 32 and device.capabilities.supports(dtypes.int32)
    for name, chain in chains.items():
        yield Output(name, functools.partial(_widened, chain) if is_widened else chain)


def _widened(chain: Chain, x: UOp, y: UOp) -> UOp:
    return build.cast(chain(x, y), dtypes.int32)


def _casts(targets: Sequence[DType], x: UOp, y: UOp) -> UOp:
    for target in targets:
        x = build.cast(x, target)
    return x


def _cast_of_bits(target: DType, x: UOp, y: UOp) -> UOp:
    return build.cast(build.bitcast(x, other_sign(x.dtype.scalar)), target)


def cast_chains(dtype: DType, device: DeviceUnderTest) -> Iterator[Output]:
    """Yield casts through an integer of the other sign, of floats and of integers."""
    supported = [*filter(device.capabilities.supports, (dtypes.float32, dtypes.float64))]
    for middle in filter(device.capabilities.supports, (dtypes.int32, dtypes.int64)):
        for last in supported if dtype.is_float else ():
            chain = functools.partial(_casts, (middle, other_sign(middle), last))
            yield Output(f"CAST to {middle.name}, unsigned, {last.name}", chain)
            chain = functools.partial(_casts, (middle, last))
            yield Output(f"CAST to {middle.name}, {last.name}", chain)
    for last in () if dtype.is_float else supported:
        chain = functools.partial(_casts, (other_sign(dtype), last))
        yield Output(f"CAST to the other sign, {last.name}", chain)
        chain = functools.partial(_cast_of_bits, last)
        yield Output(f"BITCAST to the other sign, CAST to {last.name}", chain)


# --- constant divisors and dividends --------------------------------------------------------------

_ODD = (3, 5, 7, 9, 10, 11, 12, 13, 25, 60, 100, 125)


def limits(dtype: DType) -> list[int]:
    """Return the numbers at the limits of a type and at half of its range."""
    largest, least = int(dtype.maximum), int(dtype.minimum)
    return [largest, largest - 1, largest // 2 + 1, *((least, least + 1) if least else ())]


def constant_divisors(dtype: DType) -> list[int]:
    """Return small numbers, powers of two and neighbours; of signed types negative ones too."""
    powers = [1 << bit for bit in range(0, dtype.bits - 1, 3)]
    near = [power + step for power in powers for step in (-1, 1) if power > 8]
    negative = [] if dtype.is_unsigned else [-number for number in (*_ODD, *powers[1:])]
    return [*_ODD, *powers, *near, *negative]


def quotients(dtype: DType, is_quick: bool, device: DeviceUnderTest) -> Iterator[Output]:
    """Yield quotients and remainders by constants, and of constants.

    is_quick: of types with more than 8 bits only every fourth constant, and the limits.
    """
    step = 4 if is_quick and dtype.bits > 8 else 1
    for number in (*constant_divisors(dtype)[::step], *limits(dtype)):
        for op in (Ops.IDIV, Ops.MOD):
            yield Output(f"{op.name} by {number}", functools.partial(_by, op, number))
    for number in (100, *limits(dtype)):
        for op in (Ops.IDIV, Ops.MOD):
            yield Output(f"{op.name} of {number}", functools.partial(_of, op, number))


def _by(op: Ops, divisor: int, x: UOp, y: UOp) -> UOp:
    return apply_op(op, x, build.const(x.dtype, divisor))


def _of(op: Ops, dividend: int, x: UOp, y: UOp) -> UOp:
    return apply_op(op, build.const(x.dtype, dividend), y)


def folded(dtype: DType, device: DeviceUnderTest) -> Iterator[Output]:
    """Yield operations on two constants, which a compiler computes itself."""
    numbers = [100, *limits(dtype)]
    last = numbers[-1]
    for op in (op for op in _BINARY if op not in _SHIFTS):
        for number in numbers:
            chain = functools.partial(_of_constants, op, number, last)
            yield Output(f"{number} {op.name} {last}", chain)


def _of_constants(op: Ops, first: int, second: int, x: UOp, y: UOp) -> UOp:
    return _apply(op, build.const(x.dtype, first), build.const(x.dtype, second))


# --- rows -----------------------------------------------------------------------------------------


def _data(dtype: DType) -> list[Array]:
    """Return two arrays: pairs of edges in every combination, then numbers of all kinds.

    Floats are multiples of 1/4 that every integer of 32 bits holds, also negative ones.
    """
    if dtype.is_float:
        numbers = (np.arange(LANES) - LANES // 2) * 0.25
        return [(numbers * scale).astype(numpy_dtype(dtype)) for scale in (1, 4000)]
    x, y = integers(dtype, 6), divisors(dtype, 7)
    edges = samples.edges(dtype)[:20]
    others = edges[is_divisor(edges)]
    count = len(edges) * len(others)
    if dtype.bits == 8:
        # All values, each in pairs of equal neighbours.
        x[-512:] = np.repeat(np.arange(256), 2).astype(x.dtype)
    x[:count], y[:count] = np.repeat(edges, len(others)), np.tile(others, len(edges))
    return [x, y]


def _measure(
    dtype: DType,
    outputs: OutputsOf,
    widths: Sequence[int],
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    """Measure chains as programs of vectors with these widths; lower those that need it."""
    capabilities = device.capabilities
    data = _data(dtype)
    every = list(outputs(device))
    printed = direct(every, dtype, capabilities)
    lowered = [output for output in every if output not in printed]
    measured = measure_outputs(case_id, device, dtype, data, lowered) if lowered else None
    for lanes in widths:
        if printed and lanes in capabilities.vector_lanes and (measured is None or measured.passed):
            measured = measure_outputs(case_id, device, dtype, data, printed, lanes)
    assert measured is not None, "every device computes scalars"
    return measured


def direct(outputs: Iterable[Output], dtype: DType, capabilities: Capabilities) -> list[Output]:
    """Return the chains whose operations and types the renderer prints directly."""
    loads = [load(slot, dtype, (LANES,)) for slot in range(2)]
    known = dict.fromkeys(loads, True)

    def is_printed(node: UOp) -> bool:
        if node not in known:
            is_known = node.op is Ops.CONST or node.op.name in capabilities.ops
            is_known = is_known and node.dtype in capabilities.dtypes
            known[node] = is_known and all(map(is_printed, node.src))
        return known[node]

    return [output for output in outputs if is_printed(output.node(*loads))]


def _check(
    name: str,
    dtype: DType,
    outputs: OutputsOf,
    widths: Sequence[int] = _BOTH,
    is_quick: bool = True,
) -> Check:
    return Check(name, functools.partial(_measure, dtype, outputs, widths), full_only=not is_quick)


def _pair_checks(dtype: DType) -> Iterator[Check]:
    for op in _BINARY:
        is_quick = op is Ops.IDIV or dtype in _QUICK
        pair, name = functools.partial(pairs, op, dtype), op.name.lower()
        yield _check(name, dtype, functools.partial(pair, False), _SCALARS, is_quick)
        yield _check(f"{name}:constant", dtype, functools.partial(pair, True), is_quick=False)
    some = [to for to in _CAST_TARGETS if to is not dtype]
    others = [to for to in dtypes.ints if to not in (dtype, *some)]
    yield _check("cast", dtype, functools.partial(casts, dtype, some), _SCALARS)
    yield _check("cast:others", dtype, functools.partial(casts, dtype, others), is_quick=False)


def _idiom_checks(dtype: DType) -> Iterator[Check]:
    yield _check("all", dtype, functools.partial(idioms, dtype))


def _cast_chain_checks(dtype: DType) -> Iterator[Check]:
    yield _check("all", dtype, functools.partial(cast_chains, dtype))


def _constant_checks(dtype: DType) -> Iterator[Check]:
    yield _check("some", dtype, functools.partial(quotients, dtype, True))
    yield _check("all", dtype, functools.partial(quotients, dtype, False), is_quick=False)
    yield _check("folded", dtype, functools.partial(folded, dtype), _SCALARS)


def _row(
    name: str, dtype: DType, sentence: str, advice: str, checks: Callable[[DType], Iterable[Check]]
) -> Row:
    return make_row(
        f"isa.{name}.{dtype.name}",
        f"{sentence} In {dtype.name}.",
        clauses=("int.wrap", "isa.idiv", "isa.mod", "isa.shl", "isa.shr", "isa.where"),
        rung=Rung.CAST,
        op="IDIV" if name == "divisor" else "",
        dtype=dtype,
        uses=(dtype, dtypes.bool),
        checks=functools.partial(checks, dtype),
        advice=advice,
    )


def _cast_chain_row(dtype: DType) -> Row:
    return _row(
        "cast_chain",
        dtype,
        "Casts through a type of the other sign give what the single casts give.",
        "look at the rule of the compiler that joins the casts in the message",
        _cast_chain_checks,
    )


def rows() -> Iterator[Row]:
    """Yield the rows of pairs, of idioms and of constant divisors for each type of integers."""
    for dtype in (dtypes.float32, dtypes.float64):
        yield _cast_chain_row(dtype)
    for dtype in dtypes.ints:
        yield _cast_chain_row(dtype)
        yield _row(
            "pair",
            dtype,
            "Two operations in a row give what they give in separate kernels.",
            "look at the rules of the compiler that join the two operations in the message",
            _pair_checks,
        )
        yield _row(
            "idiom",
            dtype,
            "Rotations, magnitudes, averages and other chains give what their operations give.",
            "look at the rule of the compiler that recognises the chain in the message",
            _idiom_checks,
        )
        yield _row(
            "divisor",
            dtype,
            "Quotients and remainders by constants, and of constants, are exact.",
            "look at how a division by the constant in the message becomes a product or shifts",
            _constant_checks,
        )
