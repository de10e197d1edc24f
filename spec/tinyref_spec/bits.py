"""Values as bits: arrays of any dtype as unsigned integers, and values as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, dtypes, from_numpy_dtype, numpy_dtype

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the numpy unsigned type as wide as one scalar of `dtype`."""
    return np.dtype(_UNSIGNED[dtype.scalar.itemsize])


def to_bits(values: Array) -> Array:
    """Return the bits of `values` as unsigned integers of the same shape."""
    return np.ascontiguousarray(values).view(_UNSIGNED[values.dtype.itemsize]).reshape(values.shape)


def from_bits(bits: npt.ArrayLike, dtype: DType) -> Array:
    """Return the values of `dtype` that have these bits."""
    raw = np.asarray(bits, dtype=bits_dtype(dtype))
    return np.ascontiguousarray(raw).view(numpy_dtype(dtype)).reshape(raw.shape)


def hexadecimal(values: Array) -> list[str]:
    """Return the bits of each value as fixed-width hexadecimal text."""
    width = values.dtype.itemsize * 2
    return [f"0x{int(bits):0{width}x}" for bits in to_bits(values).ravel()]


def bit_texts(values: Array) -> list[str]:
    """Return each value as the shortest text that distinguishes it from its neighbours."""
    dtype = from_numpy_dtype(values.dtype)
    if dtype.is_bool:
        # An invalid byte in a bool buffer is printed as its number.
        names = {0: "False", 1: "True"}
        return [names.get(int(byte), str(int(byte))) for byte in to_bits(values).ravel()]
    if dtype.is_float:
        with np.errstate(all="ignore"):
            wide = values.astype(np.float64).ravel()
        if dtype is dtypes.float64:
            return [repr(float(value)) for value in wide]
        digits = 9 if dtype is dtypes.float32 else 6
        return [f"{float(value):.{digits}g}" for value in wide]
    return [str(int(value)) for value in values.ravel()]
