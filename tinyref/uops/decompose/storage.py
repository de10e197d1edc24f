"""The integers that hold small floats on devices that have no such type."""

from __future__ import annotations

from tinyref.dtype import DType, dtypes

SMALL_FLOATS = (*dtypes.fp8s, dtypes.float16, dtypes.bfloat16)


def storage_dtype(dtype: DType) -> DType:
    """The unsigned integer of the same size for an 8- or 16-bit float; any other type itself."""
    if dtype.scalar not in SMALL_FLOATS:
        return dtype
    integer = dtypes.uint8 if dtype.scalar.itemsize == 1 else dtypes.uint16
    return integer.vec(dtype.lanes)
