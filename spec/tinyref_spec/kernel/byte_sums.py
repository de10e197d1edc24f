"""Sums over products and distances of bytes, for which processors have instructions of their own.

Compilers look for these sums in what is unrolled: x86 has VPDPBUSD and PSADBW, GPUs DP4A. Each adds
four or eight bytes at a time, so that it is the lanes beyond those that get lost. Each takes them
out of words, so that a byte which is computed may be taken for the one that it is computed of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np

from tinyref.dtype import DType, dtypes, from_numpy_dtype, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref_spec.bits import Array
from tinyref_spec.kernel.opt_kernels import Subject
from tinyref_spec.kernels.notation import kernel_of, load, total

# As many lanes as a register has, and half of them.
SIZES = (8, 16)


def _bytes(dtype: DType, size: int, seed: int) -> Array:
    """Bytes of the whole range; none is zero, so that no lane can get lost unseen."""
    least, largest = (-128, 127) if dtype is dtypes.int8 else (0, 255)
    drawn = np.random.default_rng(seed).integers(least, largest, size, endpoint=True)
    return np.where(drawn == 0, 1, drawn).astype(numpy_dtype(dtype))


def _loaded(slot: int, row: Array) -> UOp:
    return load(slot, from_numpy_dtype(row.dtype), row.shape)


def _wide(byte: UOp) -> UOp:
    return build.cast(byte, dtypes.int32)


def _subject(
    term: Callable[[UOp, UOp], UOp], expected: Callable[[Array, Array], Array], x: Array, y: Array
) -> Subject:
    """The sum of `term` over two rows of bytes, widened to int32 before."""
    a, b = (_wide(_loaded(slot, row)) for slot, row in ((1, x), (2, y)))
    value = expected(x.astype(np.int64), y.astype(np.int64)).sum(keepdims=True)
    return Subject(kernel_of(total(term(a, b), 0), 1), [None, x, y], [value.astype(np.int32)])


def mixed_bytes(size: int, dtype: DType) -> Subject:
    """out = the sum of x[i] * y[i], x of `dtype` and y unsigned: axis reduce `size`."""
    x, y = _bytes(dtype, size, 1), _bytes(dtypes.uint8, size, 2)
    return _subject(build.mul, np.multiply, x, y)


def rectified_bytes(size: int, dtype: DType) -> Subject:
    """out = the sum of x[i] * max(y[i], 0), both of `dtype`: axis reduce `size`."""
    x, y = _bytes(dtype, size, 3), np.maximum(_bytes(dtype, size, 4), 1)
    return _subject(lambda a, b: build.mul(a, build.maximum(b, 0)), np.multiply, x, y)


def distance_of_bytes(size: int, dtype: DType) -> Subject:
    """out = the sum of |x[i] - y[i]|, both of `dtype`: axis reduce `size`."""
    x, y = _bytes(dtype, size, 5), _bytes(dtype, size, 6)

    def distance(a: UOp, b: UOp) -> UOp:
        difference = build.sub(a, b)
        return build.maximum(difference, build.sub(b, a))

    return _subject(distance, lambda a, b: abs(a - b), x, y)


def _of_one_row(term: Callable[[UOp], UOp], x: Array, expected: Array) -> Subject:
    """The sum of `term`, an int32, over one row of bytes."""
    value = expected.sum(keepdims=True, dtype=np.int64).astype(np.int32)
    return Subject(kernel_of(total(term(_loaded(1, x)), 0), 1), [None, x], [value])


def doubled_bytes(size: int, dtype: DType) -> Subject:
    """out = the sum of x[i] * y[i], y being 2 * x as a byte, which wraps: axis reduce `size`."""
    x = _bytes(dtype, size, 7)
    doubled = (x.astype(np.int64) * 2).astype(x.dtype)
    expected = x.astype(np.int64) * doubled
    return _of_one_row(lambda a: build.mul(_wide(a), _wide(build.mul(a, 2))), x, expected)


def quotient_of_bytes(size: int, dtype: DType) -> Subject:
    """out = the sum of x[i] / -16 as a byte, towards zero: axis reduce `size`."""
    x = _bytes(dtype, size, 9)
    quotient = np.trunc(x / -16).astype(np.int64)
    return _of_one_row(lambda a: _wide(build.idiv(a, -16)), x, quotient)


def _sized(form: Callable[[int, DType], Subject], size: int) -> Callable[[DType], Subject]:
    return functools.update_wrapper(functools.partial(form, size), form)


_FORMS = (
    *(mixed_bytes, rectified_bytes, distance_of_bytes),
    *(doubled_bytes, quotient_of_bytes),
)
BYTE_FORMS: Mapping[str, Callable[[DType], Subject]] = {
    f"{form.__name__}_{size}": _sized(form, size) for form in _FORMS for size in SIZES
}
