"""How memory holds the types that a device lacks: as integers that it has."""

from __future__ import annotations

from tinyref.dtype import DType, PtrDType, dtypes

SMALL_FLOATS = (*dtypes.fp8s, dtypes.float16, dtypes.bfloat16)
WIDE_INTEGERS = (dtypes.int64, dtypes.uint64)


def scalar_of(dtype: DType) -> DType:
    """The scalar type of a value, or of what is loaded through a pointer."""
    return dtype.value.scalar if isinstance(dtype, PtrDType) else dtype.scalar


def storage_dtype(dtype: DType) -> DType:
    """The unsigned integer of the same size for an 8- or 16-bit float; any other type itself."""
    if dtype.scalar not in SMALL_FLOATS:
        return dtype
    integer = dtypes.uint8 if dtype.scalar.itemsize == 1 else dtypes.uint16
    return integer.vec(dtype.lanes)


def elements_in(held: DType, wanted: DType) -> int:
    """How many `wanted` one `held` is, where some device holds it so; else 0."""
    if held is wanted or storage_dtype(held) is wanted:
        return 1
    return 2 if held in WIDE_INTEGERS and wanted is dtypes.uint32 else 0
