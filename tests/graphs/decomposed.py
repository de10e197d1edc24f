"""Values of decomposed expressions, and how far floats are from exact ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np

from tinyref.algebra import semantics
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import decompose
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg

Array = np.ndarray[Any, Any]


def load(slot: int, dtype: DType, lanes: int = 1) -> UOp:
    memory = build.define_global(slot, dtype, 1 << 10)
    return build.load(build.index(memory, build.const(dtypes.index, 0)), lanes=lanes)


def decomposed(value: UOp, capabilities: Capabilities) -> UOp:
    """Return `value` after the decomposition of a kernel that stores it."""
    out = build.define_global(100, value.dtype.scalar, 64)
    store = build.store(build.index(out, build.const(dtypes.index, 0)), value)
    return decompose(build.sink(store), capabilities).src[0].src[1]


def evaluate(value: UOp, inputs: Sequence[Array]) -> Array:
    """Return the value of `value` if the load of slot k returns inputs[k].

    The lanes of a vector are the first axis of its inputs and values.
    """
    known: dict[UOp, Array] = {}
    for node in value.toposort():
        if node.op is Ops.CONST and isinstance(node.arg, ConstArg):
            known[node] = np.asarray(node.arg.value).astype(numpy_dtype(node.dtype))
        elif node.op is Ops.LOAD and isinstance(node.src[0].src[0].arg, SlotArg):
            array = inputs[node.src[0].src[0].arg.slot]
            known[node] = array.view(numpy_dtype(node.dtype))
        elif node.op is Ops.VECTORIZE:
            known[node] = np.stack([known[source] for source in node.src])
        elif node.op is Ops.GEP and isinstance(node.arg, GepArg):
            lanes = known[node.src[0]][list(node.arg.lanes)]
            known[node] = lanes[0] if len(node.arg.lanes) == 1 else lanes
        elif node.op in ALU:
            operands = [known[source] for source in node.src]
            types = [source.dtype for source in node.src]
            known[node] = semantics.apply(node.op, node.dtype, operands, types)
    return known[value]


def run(value: UOp, inputs: Sequence[Array], capabilities: Capabilities) -> Array:
    """Return `value` as a device with these capabilities computes it."""
    return evaluate(decomposed(value, capabilities), inputs).view(numpy_dtype(value.dtype))


def size(value: UOp) -> int:
    """Return the number of nodes that compute something."""
    return sum(node.op in ALU for node in value.toposort())


def same(got: Array, want: Array) -> bool:
    """Assert equal bits; any NaN equals any NaN."""
    assert got.dtype == want.dtype
    width = f"u{got.dtype.itemsize}"
    with np.errstate(invalid="ignore"):
        nans = (got != got) & (want != want)
    return bool((nans | (got.view(width) == want.view(width))).all())


def every(dtype: DType) -> Array:
    """Return all encodings of an 8- or 16-bit type."""
    return np.arange(1 << dtype.bits).astype(f"u{dtype.itemsize}").view(numpy_dtype(dtype))


def random_bits(dtype: DType, count: int, seed: int) -> Array:
    """Return floats of random bits: every exponent, and special values among them."""
    random = np.random.default_rng(seed)
    word = np.dtype(f"u{dtype.itemsize}")
    bits = random.integers(0, np.iinfo(word).max, count, word, endpoint=True)
    return bits.view(numpy_dtype(dtype))


def edges(dtype: DType) -> Array:
    """Return zeros, infinities, NaN, the limits of both ranges, and numbers near powers of two."""
    kind = numpy_dtype(dtype)
    limits = np.finfo(kind)
    exponents = np.arange(limits.minexp - limits.nmant, limits.maxexp)
    powers = np.ldexp(kind.type(1), exponents).astype(kind)
    near = [powers, np.nextafter(powers, kind.type(np.inf)), np.nextafter(powers, kind.type(0))]
    small = np.arange(1, 64).astype(kind) / kind.type(2)
    ends = np.array([0, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal], kind)
    positive = np.concatenate([*near, small, ends])
    return np.concatenate([positive, -positive])


def ulps(got: Array, exact: Array) -> Array:
    """Return |got - exact| in ULPs of a float32 `got`, for `exact` values in float64.

    The error is 0 if both are NaN or the same infinity, and infinite if only one is.
    """
    return _ulps(got, exact, 23, -126, 128)


def _ulps(got: Array, exact: Array, digits: int, least: int, beyond: int) -> Array:
    wide = got.astype(np.float64)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(exact)
        ulp = np.ldexp(1.0, np.maximum(exponent - 1, least) - digits)
        # For values that round to infinity, infinity stands for the next number of the range.
        limit = np.ldexp(1.0, beyond)
        over = np.where(np.isinf(wide), np.sign(wide) * limit, wide)
        inside = np.where(np.isinf(exact), np.sign(exact) * limit, exact)
        ulp = np.where(np.abs(inside) >= limit, np.ldexp(1.0, beyond - 1 - digits), ulp)
        clipped = np.where(np.abs(inside) > limit, np.sign(inside) * limit, inside)
        error = np.abs(over - clipped) / ulp
    unlike = np.isnan(wide) != np.isnan(exact)
    return np.where(unlike, np.inf, np.where(np.isnan(wide), 0.0, error))


def small_ulps(got: Array, exact: Array, dtype: DType) -> Array:
    """Return `ulps` of float16 or bfloat16 results."""
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    return _ulps(got, exact, dtype.mantissa_bits, 1 - bias, bias + 1)


def double_ulps(got: Array, exact: Callable[..., mpmath.mpf], *inputs: Array) -> Array:
    """Return |got - exact(*inputs)| in ULPs of float64, by mpmath, for finite values."""
    errors = []
    with mpmath.workdps(60):
        for value, *arguments in zip(got.tolist(), *(x.tolist() for x in inputs), strict=True):
            want = exact(*(mpmath.mpf(x) for x in arguments))
            if abs(want) >= mpmath.mpf(2) ** 1024:
                errors.append(0.0 if abs(value) == np.inf else np.inf)
                continue
            exponent = int(mpmath.frexp(want)[1]) - 1 if want else -1022
            ulp = mpmath.mpf(2) ** (max(exponent, -1022) - 52)
            errors.append(float(abs(mpmath.mpf(value) - want) / ulp))
    return np.array(errors)
