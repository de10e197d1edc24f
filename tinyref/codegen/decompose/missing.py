"""Ops that a device lacks, made of core ops."""

from __future__ import annotations

from collections.abc import Callable

from tinyref import config
from tinyref.algebra.semantics import THREEFRY_PARITY, THREEFRY_ROTATIONS
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.elementary import divide, exp2, log2, power, sin, square_root
from tinyref.codegen.decompose.formats import (
    FLOAT32,
    FORMATS,
    Format,
    exclusive_or,
    shift_left,
    shift_right,
)
from tinyref.dtype import dtypes
from tinyref.uops.build import add, binary, bitcast, both, cast, const, either, less, mul, where
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.program import WIDE_INTEGERS

# It gets the new sources of a node and the capabilities. It returns None if it cannot replace it.
Decomposition = Callable[[tuple[UOp, ...], Capabilities], UOp | None]


def replace_missing_ops(root: UOp, capabilities: Capabilities) -> UOp:
    """Replace the ops that the device lacks by core ops, if a decomposition is known.

    The elementary functions give the same bits on every device, within the limits of semantics.md.
    Every other decomposition gives the bits of the op, but a NaN may change its sign and payload.
    The flag TRANSCENDENTAL decomposes the elementary functions even if the device has them.
    """
    missing = {op for op in DECOMPOSITIONS if op.name not in capabilities.ops}
    if dtypes.uint64 not in capabilities.dtypes:
        missing.add(Ops.THREEFRY)
    if config.integer("TRANSCENDENTAL"):
        missing |= set(ELEMENTARY)

    # Pairs of words negate and subtract faster than they multiply, so they come later.
    later = frozenset(WIDE_INTEGERS) & (capabilities.emulated - capabilities.dtypes)

    def transform(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        is_later = node.dtype.scalar in later and node.op is not Ops.THREEFRY
        decomposition = DECOMPOSITIONS[node.op] if node.op in missing and not is_later else None
        return None if decomposition is None else decomposition(src, capabilities)

    # A replacement may use missing ops too: a sine subtracts, a power divides.
    while any(node.op in missing for node in root.toposort()):
        replaced = rebuild(root, transform)
        if replaced is root:
            break
        root = replaced
    return root


def _negate(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp:
    """Return -x as x * -1, which is equal also for zeros, infinities and MIN."""
    return mul(src[0], -1)


def _subtract(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp:
    """Return x - y as x + y * -1: the product is exact, so there is one rounding."""
    return add(src[0], mul(src[1], -1))


def _multiply_accumulate(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp:
    """Return x * y + z, rounded as two operations."""
    return add(mul(src[0], src[1]), src[2])


def _maximum(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp:
    """Return y where x < y, else x; if one is a NaN, the result is x."""
    left, right = src
    return where(less(left, right), right, left)


def _reciprocal(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp | None:
    """Return 1 / x, by the division of the device or its replacement."""
    return binary(Ops.FDIV, 1.0, src[0])


def _divide(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp | None:
    """Return x / y; as x * (1 / y), which rounds twice, only if floats need not be strict."""
    if "RECIP" not in capabilities.ops or config.integer("STRICT_FLOAT"):
        return _exact_divide(src, capabilities)
    return mul(src[0], UOp(Ops.RECIP, src[1].dtype, (src[1],)))


def _truncate(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp | None:
    """Return `x` truncated by casts to an integer and back, with the sign bit for -0.0."""
    x = src[0]
    scalar = x.dtype.scalar
    if scalar in (dtypes.float16, dtypes.bfloat16):
        if dtypes.float32 not in capabilities.dtypes or scalar not in capabilities.dtypes:
            return None
        wide = _truncate((cast(x, dtypes.float32),), capabilities)
        return None if wide is None else cast(wide, scalar)
    integer = dtypes.int32 if scalar is dtypes.float32 else dtypes.int64
    word = dtypes.uint32 if scalar is dtypes.float32 else dtypes.uint64
    if not {integer, word} <= capabilities.dtypes:
        return None
    bits = bitcast(x, word)
    sign = both(bits, const(bits.dtype, 1 << (word.bits - 1)))
    magnitude = bitcast(both(bits, const(bits.dtype, (1 << (word.bits - 1)) - 1)), scalar)
    # From this limit on every float is an integer. A NaN or an infinity is not below it.
    has_fraction = less(magnitude, 2.0**scalar.mantissa_bits)
    inside = where(has_fraction, magnitude, 0.0)
    whole = bitcast(cast(cast(inside, integer), scalar), word)
    return where(has_fraction, bitcast(either(whole, sign), scalar), x)


def _threefry(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp:
    """Return Threefry-2x32 with 20 rounds, on 32-bit words.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    counter, key = src
    keys = [_low_word(key), _high_word(key)]
    keys.append(exclusive_or(exclusive_or(keys[0], keys[1]), const(keys[0].dtype, THREEFRY_PARITY)))
    first = add(_low_word(counter), keys[0])
    second = add(_high_word(counter), keys[1])
    for block in range(5):
        for rotation in THREEFRY_ROTATIONS[block % 2]:
            first = add(first, second)
            second = exclusive_or(_rotate(second, rotation), first)
        first = add(first, keys[(block + 1) % 3])
        second = add(add(second, keys[(block + 2) % 3]), block + 1)
    high = shift_left(cast(second, dtypes.uint64), 32)
    return either(high, cast(first, dtypes.uint64))


def _low_word(x: UOp) -> UOp:
    return cast(x, dtypes.uint32)


def _high_word(x: UOp) -> UOp:
    return cast(shift_right(x, 32), dtypes.uint32)


def _rotate(x: UOp, count: int) -> UOp:
    return either(shift_left(x, count), shift_right(x, 32 - count))


# It returns the value of an elementary function of float32 or float64 sources.
Elementary = Callable[[tuple[UOp, ...], Format, Capabilities], UOp]


def _elementary(function: Elementary) -> Decomposition:
    """Return a decomposition; small floats are computed in float32 and rounded once."""

    def decomposition(src: tuple[UOp, ...], capabilities: Capabilities) -> UOp | None:
        scalar = src[0].dtype.scalar
        form = FORMATS.get(scalar, FLOAT32)
        if not form.supported(capabilities):
            return None
        wide = tuple(cast(source, form.dtype) for source in src)
        return cast(function(wide, form, capabilities), scalar)

    return decomposition


_exact_divide = _elementary(lambda src, form, capabilities: divide(src[0], src[1], form))

# The functions that the flag TRANSCENDENTAL decomposes.
ELEMENTARY: dict[Ops, Decomposition] = {
    Ops.EXP2: _elementary(lambda src, form, capabilities: exp2(src[0], form, capabilities)),
    Ops.LOG2: _elementary(lambda src, form, capabilities: log2(src[0], form)),
    Ops.SIN: _elementary(lambda src, form, capabilities: sin(src[0], form, capabilities)),
    Ops.POW: _elementary(lambda src, form, capabilities: power(src[0], src[1], form, capabilities)),
}

# The names of these functions, for devices that rely on decomposition.
ELEMENTARY_OPS = frozenset(op.name for op in ELEMENTARY)

DECOMPOSITIONS: dict[Ops, Decomposition] = {
    **ELEMENTARY,
    Ops.NEG: _negate,
    Ops.SUB: _subtract,
    Ops.MULACC: _multiply_accumulate,
    Ops.MAX: _maximum,
    Ops.RECIP: _reciprocal,
    Ops.FDIV: _divide,
    Ops.SQRT: _elementary(lambda src, form, capabilities: square_root(src[0], form)),
    Ops.TRUNC: _truncate,
    Ops.THREEFRY: _threefry,
}
