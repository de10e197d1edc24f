"""Float rules, checked for every float16, and casts of floats for every value of a small type.

A float rule states what it keeps: NaN, infinities, the sign of zero, each rounding. Both sides are
computed by the semantics of the op table and compared bit for bit, but for the bits of a NaN, which
no op but BITCAST can see. One leaf takes all 65,536 values; two leaves take all of the first with
the `EDGES` of the second, and the reverse. A constant that a rule chooses by takes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.rewrite import Keeps, Rule
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

Array = npt.NDArray[np.generic]
Left = Callable[..., UOp]

HALF = dtypes.float16
EVERY_HALF = np.arange(65536, dtype=np.uint16).view(np.float16)
# Zeros, subnormals, normal limits, ones, halves on both sides of a tie, the largest, specials.
EDGES = np.array(
    [
        *(0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x3555, 0x37FF),
        *(0x3800, 0xB800, 0x3C00, 0xBC00, 0x3C01, 0xBC01, 0x3E00, 0x4000, 0xC000, 0x4200, 0x4900),
        *(0x5BFF, 0x6400, 0x6801, 0x7800, 0x7BFF, 0xFBFF, 0x7BFE, 0x7C00, 0xFC00, 0x7E00, 0xFE00),
        *(0x7C01, 0x1400, 0x9400, 0x2E66, 0xAE66, 0x4248, 0xC248, 0x5640, 0xD640, 0x0800, 0x8800),
    ],
    np.uint16,
).view(np.float16)


@dataclass(frozen=True)
class FloatLaw:
    """One float equation: `left` makes the left side of its leaves; the rule gives the right.

    leaves: how many float leaves there are. constant: whether the last of them is a CONST.
    chooses: whether the rule looks at its value, so that every float16 is tried for it.
    """

    rule: str
    leaves: int
    left: Left
    constant: bool = False
    chooses: bool = False


def raw(op: Ops, *src: UOp) -> UOp:
    """A node of `op` with the type of its first source, in the order given."""
    return UOp(op, src[0].dtype, src)


def number(value: float, dtype: DType = HALF) -> UOp:
    """A float constant."""
    return build.const(dtype, value)


def negative(x: UOp) -> UOp:
    """-x."""
    return raw(Ops.NEG, x)


def _binary(op: Ops, value: float, reverse: bool = False) -> Left:
    if reverse:
        return lambda x: raw(op, number(value, x.dtype), x)
    return lambda x: raw(op, x, number(value, x.dtype))


FLOAT_LAWS = (
    FloatLaw("float-mul-one", 1, _binary(Ops.MUL, 1.0)),
    FloatLaw("float-mul-one", 1, _binary(Ops.MUL, 1.0, reverse=True)),
    FloatLaw("float-div-one", 1, _binary(Ops.FDIV, 1.0)),
    FloatLaw("float-add-minus-zero", 1, _binary(Ops.ADD, -0.0)),
    FloatLaw("float-add-minus-zero", 1, _binary(Ops.ADD, -0.0, reverse=True)),
    FloatLaw("float-sub-zero", 1, _binary(Ops.SUB, 0.0)),
    FloatLaw("float-neg-neg", 1, lambda x: negative(negative(x))),
    FloatLaw("float-sub-neg", 2, lambda x, y: raw(Ops.SUB, x, negative(y))),
    FloatLaw("float-mul-neg-neg", 2, lambda x, y: raw(Ops.MUL, negative(x), negative(y))),
    FloatLaw("float-trunc-trunc", 1, lambda x: raw(Ops.TRUNC, raw(Ops.TRUNC, x))),
    FloatLaw("float-const-last", 2, lambda x, c: raw(Ops.ADD, c, x), constant=True),
    FloatLaw("float-const-last", 2, lambda x, c: raw(Ops.MUL, c, x), constant=True),
    FloatLaw("float-div-power", 2, lambda x, c: raw(Ops.FDIV, x, c), True, chooses=True),
    FloatLaw("cast-float-to-bool", 1, lambda x: UOp(Ops.CAST, dtypes.bool, (x,))),
    FloatLaw("lt-same", 1, lambda x: UOp(Ops.CMPLT, dtypes.bool, (x, x))),
    FloatLaw("ne-order", 2, lambda x, c: UOp(Ops.CMPNE, dtypes.bool, (c, x)), constant=True),
    FloatLaw("max-same", 1, lambda x: raw(Ops.MAX, x, x)),
    FloatLaw("cast-same", 1, lambda x: UOp(Ops.CAST, x.dtype, (x,))),
)


def float_leaf(position: int, dtype: DType = HALF) -> UOp:
    """A float that is no constant."""
    return UOp(Ops.BUFFER, dtype, (), BufferArg("CPU", 1, position))


def samples(law: FloatLaw) -> Iterator[tuple[list[UOp], dict[UOp, Array]]]:
    """The leaves of the left side with the values that they take."""
    x, y = float_leaf(0), float_leaf(1)
    if law.leaves == 1:
        yield [x], {x: EVERY_HALF}
    elif law.constant:
        # All constants, or some of all, with the edges; the edges as constants with every value.
        for value in EVERY_HALF if law.chooses else EVERY_HALF[::257]:
            yield [x, number(float(value))], {x: EDGES}
        for value in EDGES:
            yield [x, number(float(value))], {x: EVERY_HALF}
    else:
        yield [x, y], {x: EVERY_HALF[:, None], y: EDGES[None, :]}
        yield [x, y], {x: EDGES[:, None], y: EVERY_HALF[None, :]}


def lost(left: Array, right: Array) -> set[Keeps]:
    """What the right side does not keep of the left one, both of one float or bool type."""
    shape = np.broadcast_shapes(left.shape, right.shape)
    with np.errstate(all="ignore"):
        wide, other = (np.broadcast_to(side, shape).astype(np.float64) for side in (left, right))
    is_nan, is_infinite, is_zero = np.isnan(wide), np.isinf(wide), wide == 0
    found = set()
    if np.any(is_nan != np.isnan(other)):
        found.add(Keeps.NAN)
    if np.any((wide != other) & (is_infinite | np.isinf(other)) & ~is_nan):
        found.add(Keeps.INFINITY)
    if np.any(is_zero & (other == 0) & (np.signbit(wide) != np.signbit(other))):
        found.add(Keeps.SIGNED_ZERO)
    if np.any((wide != other) & np.isfinite(wide) & np.isfinite(other)):
        found.add(Keeps.ROUNDING)
    return found


@dataclass(frozen=True)
class FloatFinding:
    """What one law showed: on how many left sides the rule fired, what it lost, on how many values.

    A rule is right where `lost` has nothing that it claims to keep.
    """

    fired: int
    lost: frozenset[Keeps]
    values: int


def check(law: FloatLaw, rule: Callable[[UOp], UOp | None]) -> FloatFinding:
    """Fires the rule on every left side and compares both sides on all values."""
    fired = values = 0
    missing: set[Keeps] = set()
    for leaves, arrays in samples(law):
        node = law.left(*leaves)
        result = rule(node)
        if result is None:
            continue
        fired += 1
        sides = [evaluate_expression(side, arrays) for side in (node, result)]
        values += max(side.size for side in sides)
        missing |= lost(*sides)
    return FloatFinding(fired, frozenset(missing), values)


def laws_of(rule: str) -> tuple[FloatLaw, ...]:
    """The float laws of a rule, none where it has none."""
    return tuple(law for law in FLOAT_LAWS if law.rule == rule)


# Casts that meet a float on their way.

CAST_RULES = ("cast-cast", "cast-cast-bounds")
SCALARS = (*dtypes.all, dtypes.index)
_SMALL_BITS = 16


def every_value(dtype: DType) -> Array:
    """All values of a type of at most 16 bits; for a wider one its edges and random bits."""
    if dtype.is_bool:
        return np.array([False, True])
    target = numpy_dtype(dtype)
    word = np.dtype(f"u{target.itemsize}")
    if dtype.bits <= _SMALL_BITS:
        return np.arange(1 << dtype.bits).astype(word).view(target)
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**64, 1 << 14, np.uint64).astype(word)
    edges = np.arange(-64, 64).astype(np.int64).astype(word)
    tops = edges + word.type(1 << (dtype.bits - 1))
    if not dtype.is_float:
        return np.concatenate([bits, edges, tops]).view(target)
    ties = np.linspace(-70000, 70000, 4001).astype(target)
    return np.concatenate([np.concatenate([bits, edges, tops]).view(target), ties])


def float_casts(rule: Rule) -> Iterator[tuple[DType, DType, DType, bool]]:
    """Every (x, s, t) with a float among them on which a cast-cast rule fires, and if it is right.

    That is whether CAST(CAST(x, s), t) equals what the rule makes of it, for all values of a type
    of at most 16 bits, and for edges, ties and random bits of a wider one.
    """
    for source in SCALARS:
        x = build.variable("x", 0, 100, source) if source.is_int else float_leaf(0, source)
        values = every_value(source)
        if source.is_int:
            values = (
                values if rule.name != "cast-cast-bounds" else np.arange(101).astype(values.dtype)
            )
        for between in SCALARS:
            inner = UOp(Ops.CAST, between, (x,))
            for target in SCALARS:
                if not (source.is_float or between.is_float or target.is_float):
                    continue
                node = UOp(Ops.CAST, target, (inner,))
                result = rule(node)
                if result is None:
                    continue
                sides = [evaluate_expression(side, {x: values}) for side in (node, result)]
                yield source, between, target, not lost_bits(*sides)


def lost_bits(left: Array, right: Array) -> bool:
    """True where two arrays of one type differ, but for the bits of NaNs."""
    if left.dtype.kind in "biu":
        return not np.array_equal(left, right)
    return bool(lost(left, right))
