"""Float rules, checked for every float16, and casts of floats for every value of a small type.

A float rule states what it keeps: NaN, infinities, the sign of zero, each rounding. Both sides are
computed by the semantics of the op table and compared bit for bit. The bits of a NaN do not count,
as no op except BITCAST can see them. One leaf takes all values; two leaves take all of the first
with the `EDGES` of the second, and the reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.named_rules import Keeps, Rule
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs.law import Equation
from tinyref_spec.proofs.patterns import SCALARS, Filler, filled_equations, is_cast

Array = npt.NDArray[np.generic]

EVERY_HALF = np.arange(65536, dtype=np.uint16).view(np.float16)
# Zeros, subnormals, normal limits, ones, halves on both sides of a tie, the largest, specials.
EDGES = np.array(
    [
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x03FF,
        0x83FF,
        0x0400,
        0x8400,
        0x0401,
        0x3555,
        0x37FF,
        0x3800,
        0xB800,
        0x3C00,
        0xBC00,
        0x3C01,
        0xBC01,
        0x3E00,
        0x4000,
        0xC000,
        0x4200,
        0x4900,
        0x5BFF,
        0x6400,
        0x6801,
        0x7800,
        0x7BFF,
        0xFBFF,
        0x7BFE,
        0x7C00,
        0xFC00,
        0x7E00,
        0xFE00,
        0x7C01,
        0x1400,
        0x9400,
        0x2E66,
        0xAE66,
        0x4248,
        0xC248,
        0x5640,
        0xD640,
        0x0800,
        0x8800,
    ],
    np.uint16,
).view(np.float16)
# With every power of two that is normal.
CONSTANTS = np.concatenate([EDGES, EVERY_HALF[::1024], EVERY_HALF[::1021]])
_SMALL_BITS = 16
MANY_LEAVES = 2


def every_value(leaf: UOp) -> Array:
    """Return all values of a leaf of at most 16 bits; of a wider one edges and random bits."""
    dtype = leaf.dtype
    if dtype.is_bool:
        return np.array([False, True])
    target = numpy_dtype(dtype)
    word = np.dtype(f"u{target.itemsize}")
    if dtype.bits <= _SMALL_BITS:
        values = np.arange(1 << dtype.bits).astype(word).view(target)
    else:
        bits = np.random.default_rng(1).integers(0, 2**64, 1 << 14, np.uint64).astype(word)
        edges = np.arange(-64, 64).astype(np.int64).astype(word)
        tops = edges + word.type(1 << (dtype.bits - 1))
        ties = np.linspace(-70000, 70000, 4001).astype(target)
        values = np.concatenate([*(part.view(target) for part in (bits, edges, tops)), ties])
    if dtype.is_float:
        return values
    low, high = bounds(leaf)
    return values[(values >= low) & (values <= high)]


def lost(left: Array, right: Array) -> set[Keeps]:
    """Return what the right side does not keep of the left one, both of one type."""
    if left.dtype.kind in "iu":
        return set() if np.all(left == right) else {Keeps.ROUNDING}
    shape = np.broadcast_shapes(left.shape, right.shape)
    with np.errstate(all="ignore"):
        wide, other = (np.broadcast_to(side, shape).astype(np.float64) for side in (left, right))
    is_nan, is_infinite, is_zero = np.isnan(wide), np.isinf(wide), wide == 0
    missing = set()
    if np.any(is_nan != np.isnan(other)):
        missing.add(Keeps.NAN)
    if np.any((wide != other) & (is_infinite | np.isinf(other)) & ~is_nan):
        missing.add(Keeps.INFINITY)
    if np.any(is_zero & (other == 0) & (np.signbit(wide) != np.signbit(other))):
        missing.add(Keeps.SIGNED_ZERO)
    if np.any((wide != other) & np.isfinite(wide) & np.isfinite(other)):
        missing.add(Keeps.ROUNDING)
    return missing


def losses(
    rule: Rule, root: DType, operands: tuple[DType, ...]
) -> Iterator[tuple[Equation, set[Keeps]]]:
    """Yield what the rule says of nodes of type `root` with floats in them, and what that loses.

    What they compare or cast has one of the types `operands`.
    """
    constants = [float(value) for value in CONSTANTS]
    filler = Filler(operands, constants, has_spans=rule.domain.needs_bounds)
    for equation in filled_equations(rule, root, filler):
        if not any(part.dtype.is_float for part in equation.left.toposort()):
            continue
        missing: set[Keeps] = set()
        for leaves in samples(equation.left):
            sides = [evaluate_expression(side, leaves) for side in (equation.left, equation.right)]
            missing |= lost(*sides)
        yield equation, missing


def samples(node: UOp) -> Iterator[Mapping[UOp, Array]]:
    """Yield values of the leaves: each takes every value in turn, and the others take edges."""
    leaves = [part for part in node.toposort() if part.op in (Ops.BUFFER, Ops.DEFINE_VAR)]
    edges = EDGES if len(leaves) <= MANY_LEAVES else EDGES[::15]
    for whole in leaves:
        with np.errstate(all="ignore"):
            arrays = [
                every_value(leaf)
                if leaf is whole or leaf.dtype.is_bool
                else edges.astype(numpy_dtype(leaf.dtype))
                for leaf in leaves
            ]
        yield dict(zip(leaves, np.meshgrid(*arrays, indexing="ij", sparse=True), strict=True))


def check(rule: Rule) -> bool:
    """Return True if the rule has a float16, or casts a float, and keeps what it states.

    Raises `UserError` if a replacement loses what the rule keeps.
    """
    operands = SCALARS if is_cast(rule) else (dtypes.float16,)
    has_equation = False
    for root in {*operands, dtypes.bool}:
        for equation, missing in losses(rule, root, operands):
            has_equation = True
            if missing:
                raise UserError(f"rule {rule.name}: {equation} loses {missing}")
    return has_equation
