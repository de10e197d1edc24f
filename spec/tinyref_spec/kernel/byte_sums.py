"""Sums over products and distances of bytes, for which processors have instructions of their own.

Compilers look for these sums in what is unrolled: x86 has VPDPBUSD and PSADBW, GPUs DP4A. Each adds
four or eight bytes at a time, so that it is the lanes beyond those that get lost.
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


def _subject(
    term: Callable[[UOp, UOp], UOp], expected: Callable[[Array, Array], Array], x: Array, y: Array
) -> Subject:
    """The sum of `term` over two rows of bytes, widened to int32 before."""
    a, b = (
        build.cast(load(slot, from_numpy_dtype(row.dtype), row.shape), dtypes.int32)
        for slot, row in ((1, x), (2, y))
    )
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


def _sized(form: Callable[[int, DType], Subject], size: int) -> Callable[[DType], Subject]:
    return functools.update_wrapper(functools.partial(form, size), form)


_FORMS = (mixed_bytes, rectified_bytes, distance_of_bytes)
BYTE_FORMS: Mapping[str, Callable[[DType], Subject]] = {
    f"{form.__name__}_{size}": _sized(form, size) for form in _FORMS for size in SIZES
}
