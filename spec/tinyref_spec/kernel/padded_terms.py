"""Sums whose padded axis adds nothing, and sums where it would: one of each for every rule.

Past the end of what it loads a padded loop finds 0. Terms that are 0 where their load is add
nothing there; of any other the padding is refused. Each op has terms of both kinds that look alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.bits import Array

ROWS, COLUMNS = 5, 11


@dataclass(frozen=True)
class Terms:
    """The terms of a sum: `term` of the loaded values, `expected` of their numbers in numpy.

    text: the term in words, with x for a loaded value.
    """

    name: str
    text: str
    term: Callable[[UOp], UOp]
    expected: Callable[[Array], Array]
    dtype: str = "int32"

    @property
    def form(self) -> str:
        """The name of its kernel."""
        return f"sum_of_{self.name}"

    @property
    def sentence(self) -> str:
        """Return the sentence of its row: the sum that its kernel computes."""
        axes = f"axes global {ROWS}, reduce {COLUMNS}"
        return f"out[i] = sum_k of {self.text}, x being x[i, k]: {axes}."


def values() -> Array:
    """Numbers from -3 to 3, none of which is 0, so that a term shows where it is left out."""
    found = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) * 5 % 6 - 3
    return np.where(found >= 0, found + 1, found)


def _one(x: UOp) -> UOp:
    return build.const(x.dtype, 1)


def _up(x: UOp) -> UOp:
    return build.add(x, 3)


def _halved(x: UOp) -> UOp:
    return build.idiv(x, 2)


def _square(x: UOp) -> UOp:
    return build.mul(x, x)


def _accumulated(x: UOp, start: UOp) -> UOp:
    return UOp(Ops.MULACC, x.dtype, (x, x, start))


def _more(x: Array) -> Array:
    return x + 3


def _other(x: UOp) -> UOp:
    return build.add(x, 5)


def _half(x: Array) -> Array:
    return np.trunc(x / 2).astype(np.int64)


def _int(x: UOp) -> UOp:
    return build.cast(x, dtypes.int32)


def _bits(x: UOp) -> UOp:
    return build.bitcast(x, dtypes.int32)


def _float_bits(x: Array) -> Array:
    return x.astype(np.float32).view(np.int32).astype(np.int64)


ZERO_BEYOND = (
    Terms("negated", "-x", lambda x: build.unary(Ops.NEG, x), lambda x: -x),
    Terms("squares", "x * x", lambda x: build.mul(x, x), lambda x: x * x),
    Terms(
        "products", "x * (x + 5)", lambda x: build.mul(x, build.add(x, 5)), lambda x: x * (x + 5)
    ),
    Terms("scaled", "x * 3", lambda x: build.mul(x, 3), lambda x: x * 3, "float32"),
    Terms("halves", "x // 2 towards zero", lambda x: build.idiv(x, 2), lambda x: np.trunc(x / 2)),
    Terms("remainders", "x % 2 towards zero", lambda x: build.mod(x, 2), lambda x: np.fmod(x, 2)),
    Terms(
        "quotients", "x / 2", lambda x: build.binary(Ops.FDIV, x, 2.0), lambda x: x / 2, "float32"
    ),
    Terms("maxima", "max(x, 0)", lambda x: build.maximum(x, 0), lambda x: np.maximum(x, 0)),
    Terms("bits_of_both", "x & 5", lambda x: build.both(x, 5), lambda x: x & 5),
    Terms(
        "bits_of_either",
        "x | (x // 2 towards zero)",
        lambda x: build.either(x, _halved(x)),
        lambda x: x | _half(x),
    ),
    Terms("shifted_left", "x << 1", lambda x: build.binary(Ops.SHL, x, 1), lambda x: x << 1),
    Terms("not_zero", "x != 0", lambda x: _int(build.not_equal(x, 0)), lambda x: x != 0),
    Terms("negative", "x < 0", lambda x: _int(build.less(x, 0)), lambda x: x < 0),
    Terms(
        "chosen_by_zero",
        "x != 0 ? x + 7 : x",
        lambda x: build.where(build.not_equal(x, 0), build.add(x, 7), x),
        lambda x: np.where(x != 0, x + 7, x),
    ),
    Terms(
        "sums",
        "x + (x // 2 towards zero)",
        lambda x: build.add(x, _halved(x)),
        lambda x: x + _half(x),
    ),
    Terms(
        "differences",
        "x - (x // 2 towards zero)",
        lambda x: build.sub(x, _halved(x)),
        lambda x: x - _half(x),
    ),
    Terms(
        "flips",
        "x ^ (x // 2 towards zero)",
        lambda x: build.binary(Ops.XOR, x, _halved(x)),
        lambda x: x ^ _half(x),
    ),
    Terms("shifted_right", "x >> 1", lambda x: build.binary(Ops.SHR, x, 1), lambda x: x >> 1),
    Terms(
        "accumulated", "x * x + x as one MULACC", lambda x: _accumulated(x, x), lambda x: x * x + x
    ),
    Terms(
        "roots", "sqrt(x * x)", lambda x: build.unary(Ops.SQRT, build.mul(x, x)), np.abs, "float32"
    ),
    Terms("truncated", "trunc(x)", lambda x: build.unary(Ops.TRUNC, x), np.trunc, "float32"),
    Terms("float_bits", "the bits of x", _bits, _float_bits, "float32"),
)
"""Terms that are 0 where they load 0."""

OTHER_BEYOND = (
    Terms("one_more", "x + 1", lambda x: build.add(x, 1), lambda x: x + 1),
    Terms("one_less", "x - 1", lambda x: build.sub(x, 1), lambda x: x - 1),
    Terms("from_one", "1 - x", lambda x: build.sub(1, x), lambda x: 1 - x),
    Terms(
        "negated_one_more", "-(x + 3)", lambda x: build.unary(Ops.NEG, _up(x)), lambda x: -(x + 3)
    ),
    Terms(
        "truncated_one_more",
        "trunc(x + 3)",
        lambda x: build.unary(Ops.TRUNC, _up(x)),
        _more,
        "float32",
    ),
    Terms(
        "roots_of_squares",
        "sqrt((x + 3) * (x + 3))",
        lambda x: build.unary(Ops.SQRT, _square(_up(x))),
        _more,
        "float32",
    ),
    Terms("bits_of_two", "(x + 3) & 5", lambda x: build.both(_up(x), 5), lambda x: (x + 3) & 5),
    Terms(
        "remainders_of_more", "(x + 3) % 5", lambda x: build.mod(_up(x), 5), lambda x: (x + 3) % 5
    ),
    Terms(
        "shifted_more",
        "(x + 3) >> 1",
        lambda x: build.binary(Ops.SHR, _up(x), 1),
        lambda x: (x + 3) >> 1,
    ),
    Terms(
        "accumulated_on_more",
        "x * x + (x + 3) as one MULACC",
        lambda x: _accumulated(x, _up(x)),
        lambda x: x * x + x + 3,
    ),
    Terms(
        "shifted_one",
        "1 << (x + 3)",
        lambda x: build.binary(Ops.SHL, _one(x), _up(x)),
        lambda x: 1 << (x + 3),
    ),
    Terms(
        "quotients_of_one",
        "1 // x towards zero",
        lambda x: build.idiv(_one(x), x),
        lambda x: np.trunc(1 / x),
    ),
    Terms(
        "maxima_with_one", "max(x, 1)", lambda x: build.maximum(x, 1), lambda x: np.maximum(x, 1)
    ),
    Terms("bits_with_one", "x | 1", lambda x: build.either(x, 1), lambda x: x | 1),
    Terms("flipped_bits", "x ^ 1", lambda x: build.binary(Ops.XOR, x, 1), lambda x: x ^ 1),
    Terms("not_one", "x != 1", lambda x: _int(build.not_equal(x, 1)), lambda x: x != 1),
    Terms("below_two", "x < 2", lambda x: _int(build.less(x, 2)), lambda x: x < 2),
    Terms(
        "chosen_one",
        "x != 0 ? x : 1",
        lambda x: build.where(build.not_equal(x, 0), x, _one(x)),
        lambda x: np.where(x != 0, x, 1),
    ),
    Terms(
        "one_below_two",
        "x < 2 ? 1 : x",
        lambda x: build.where(build.less(x, 2), _one(x), x),
        lambda x: np.where(x < 2, 1, x),
    ),
    # 0 times what is not finite, or divided by it, is NaN; that of a load may be.
    Terms(
        "float_products",
        "x * (x + 5)",
        lambda x: build.mul(x, _other(x)),
        lambda x: x * (x + 5),
        "float32",
    ),
    Terms(
        "float_quotients",
        "x / x",
        lambda x: build.binary(Ops.FDIV, x, x),
        lambda x: x / x,
        "float32",
    ),
    Terms("powers", "2 ** x", lambda x: build.unary(Ops.EXP2, x), np.exp2, "float32"),
    # -0 is 0, and its bits are not.
    Terms(
        "bits_of_negated",
        "the bits of -x",
        lambda x: _bits(build.unary(Ops.NEG, x)),
        lambda x: _float_bits(-x),
        "float32",
    ),
)
"""Terms that are not 0 there, or of which that is not known."""
