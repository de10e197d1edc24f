"""Conversion of Python and numpy data to host arrays: nested lists, scalars, bytes, arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

from tinyref.algebra import semantics
from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import Array, np
from tinyref.dtype import (
    ConstType,
    DType,
    dtypes,
    from_numpy_dtype,
    narrow_float64,
    numpy_dtype,
    promote,
    round_float,
)
from tinyref.errors import UserError, UserTypeError, argument_error
from tinyref.uops.node import sint
from tinyref.uops.ops import Ops

# The maximum number of axes of a numpy array.
MAX_AXES = 64


def weak_number(data: object) -> ConstType | None:
    """Return `data` as a Python number if it is one in operations with a tensor; else None.

    Numbers are bool, int, float, and numpy scalars that these can hold: np.int8(3), but no complex
    numbers.
    """
    if isinstance(data, np.datetime64 | np.timedelta64):
        return None  # For some units, item() is an int.
    value = data.item() if isinstance(data, np.generic) else data
    is_number = isinstance(value, bool | int | float) and not isinstance(value, np.generic)
    return cast(ConstType, value) if is_number else None


def finite(value: object, argument: str) -> ConstType:
    """Return `value` as a finite Python number within the range of float64.

    Raises `UserError` for another number, and `UserTypeError` for another type.
    """
    number = weak_number(value)
    if number is None or not _is_finite(number):
        raise argument_error(
            number, int | float, f"{argument} is {value!r}, accepted is a finite number"
        )
    return number


def _is_finite(number: ConstType) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def scalar_dtype(value: ConstType) -> DType:
    """Return the default type for a Python bool, int or float."""
    if isinstance(value, bool):
        return dtypes.bool
    return dtypes.default_int if isinstance(value, int) else dtypes.default_float


def weak_dtype(value: ConstType, other: DType) -> DType:
    """Return the type of the Python number `value` in an operation with a tensor of type `other`.

    This is the tensor's type, unless the number is of a higher kind (bool, then int, then float).
    Then it is the default type of that kind.
    """
    rank_of_other = 2 if other.is_float else 1 if other.is_int else 0
    rank = 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2
    return other if rank <= rank_of_other else scalar_dtype(value)


def from_list(data: object, dtype: DType | None) -> tuple[Array, DType]:
    """Convert a nested list or tuple of numbers and arrays to an array.

    Without `dtype`, the highest kind of the numbers decides: bool, int32 or float32. If there are
    arrays, their common type decides. Raises `UserError` with the position for a ragged list, for
    an item that is no number, and for an integer that does not fit.
    """
    if holds(data, np.ndarray):
        target = dtype or joined_dtype(data)
        return _stack(data, target), target
    shape = _shape(data)
    values = list(_walk(data, shape, 0, ()))
    target = dtype or _kind_of(values)
    return _array(values, target).reshape(shape), target


def holds(data: object, kind: type, depth: int = 0) -> bool:
    """Return True if a nested list has an item of `kind`. Raises `UserError` for endless lists."""
    if not isinstance(data, list | tuple):
        return isinstance(data, kind)
    if depth == MAX_AXES:
        raise _too_deep()
    types = set(map(type, data))
    if any(issubclass(item, kind) for item in types):
        return True
    if not any(issubclass(item, list | tuple) for item in types):
        return False
    return any(holds(item, kind, depth + 1) for item in data)


def joined_dtype(data: object) -> DType:
    """Return the common type of the arrays and tensors in a nested list. Numbers are weak."""
    parts = list(leaves(data))
    types = [from_numpy_dtype(part.dtype) for part in parts if isinstance(part, np.ndarray)]
    types += [part.dtype for part in parts if getattr(part, "dtype", None) in dtypes.all]
    common = promote(*types)
    for part in parts:
        number = weak_number(part)
        common = common if number is None else weak_dtype(number, common)
    return common


def leaves(data: object, depth: int = 0) -> Iterator[Any]:
    """Yield the items of a nested list in order. Raises `UserError` for endless nesting."""
    if not isinstance(data, list | tuple):
        yield data
        return
    if depth == MAX_AXES:
        raise _too_deep()
    for item in data:
        yield from leaves(item, depth + 1)


def check_alike(shapes: Sequence[tuple[sint, ...]], path: tuple[int, ...]) -> None:
    """Raise `UserError` unless all parts of the list at `path` have one shape."""
    for index, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise UserError(
                f"data: ragged list: {_where((*path, index))} has shape {describe_shape(shape)}, "
                f"its neighbours have {describe_shape(shapes[0])}"
            )


def _stack(data: object, dtype: DType, path: tuple[int, ...] = ()) -> Array:
    """Convert a nested list of arrays and numbers to one array of `dtype`."""
    if isinstance(data, np.ndarray):
        return from_numpy(data, dtype)[0]
    if not isinstance(data, list | tuple):
        return _array(list(_walk(data, (), 0, path)), dtype).reshape(())
    parts = [_stack(item, dtype, (*path, index)) for index, item in enumerate(data)]
    check_alike([part.shape for part in parts], path)
    return np.stack(parts) if parts else np.empty(0, dtype=numpy_dtype(dtype))


def _where(path: tuple[int, ...]) -> str:
    return "data" + "".join(f"[{index}]" for index in path)


def _too_deep() -> UserError:
    return UserError(
        f"data: lists are nested more than {MAX_AXES} deep, or contain themselves: "
        f"accepted are {MAX_AXES} axes"
    )


def _shape(data: object) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(data, list | tuple):
        if len(shape) == MAX_AXES:
            raise _too_deep()
        shape.append(len(data))
        if not data:
            break
        data = data[0]
    return tuple(shape)


def _walk(
    data: object, shape: tuple[int, ...], depth: int, path: tuple[int, ...]
) -> Iterator[ConstType]:
    where = _where(path)
    if isinstance(data, list | tuple):
        if depth >= len(shape):
            raise UserError(f"data: ragged list: {where} is a list where a number is expected")
        if len(data) != shape[depth]:
            raise UserError(
                f"data: ragged list: {where} has {len(data)} items, "
                f"its neighbours have {shape[depth]}"
            )
        for index, item in enumerate(data):
            yield from _walk(item, shape, depth + 1, (*path, index))
        return
    if depth < len(shape):
        raise UserError(f"data: ragged list: {where} is {data!r} where a list is expected")
    number = weak_number(data)
    if number is None:
        raise UserTypeError(
            f"data: {where} is a {type(data).__name__}: accepted are numbers and lists of them"
        )
    yield number


def _kind_of(values: list[ConstType]) -> DType:
    if all(isinstance(value, bool) for value in values) and values:
        return dtypes.bool
    if any(isinstance(value, float) for value in values) or not values:
        return dtypes.default_float
    return dtypes.default_int


def fits_dtype(value: ConstType, dtype: DType) -> bool:
    """Return True if the Python number `value` fits `dtype`: no higher kind, no integer overflow.

    A float that is rounded fits.
    """
    if weak_dtype(value, dtype) is not dtype:
        return False
    return not dtype.is_int or dtype.minimum <= value <= dtype.maximum


def check_fits(value: ConstType, dtype: DType, name: str = "data") -> None:
    """Raise `UserError` for the function `name` if the integer type `dtype` cannot hold `value`."""
    if not dtype.is_int:
        return
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise UserError(f"{name}: {value} has no value in {dtype.name}: use a float dtype")
    if not dtype.minimum <= int(value) <= dtype.maximum:
        raise UserError(
            f"{name}: {value} does not fit {dtype.name} ({dtype.minimum} to {dtype.maximum}): "
            f"name a wider dtype"
        )


def _array(values: list[ConstType], dtype: DType) -> Array:
    if dtype.is_bool:
        return np.array([bool(value) for value in values], dtype=np.bool_)
    if dtype.is_int:
        for value in values:
            check_fits(value, dtype)
        return np.array([int(value) for value in values], dtype=numpy_dtype(dtype))
    if any(isinstance(value, int) and abs(value) >= 1 << 53 for value in values):
        wide = np.array([round_float(value, dtype) for value in values], dtype=np.float64)
    else:
        wide = np.array(values, dtype=np.float64)
    return narrow_float64(wide, dtype)


def from_numpy(data: Array, dtype: DType | None) -> tuple[Array, DType]:
    """Return a numpy array in C order, converted to `dtype` if that is not None, and its type.

    Raises `UserError` for foreign byte order and for types that tinyref does not have.
    """
    if isinstance(data, np.ma.MaskedArray):
        raise UserTypeError(
            "data: got a masked array, whose masked elements have no value: accepted are "
            "array.filled(value) and array.compressed()"
        )
    if not data.dtype.isnative:
        raise UserError(
            f"data: numpy type {data.dtype.str} has foreign byte order: "
            f"convert with array.astype(array.dtype.newbyteorder('='))"
        )
    if data.dtype.hasobject or data.dtype.fields is not None:
        raise UserTypeError(f"data: numpy type {data.dtype} is not a number type")
    source = from_numpy_dtype(data.dtype)
    contiguous = np.ascontiguousarray(data).reshape(data.shape)
    if dtype is None or dtype is source:
        return contiguous, source
    return convert(contiguous, source, dtype), dtype


def convert(data: Array, have: DType, want: DType) -> Array:
    """Convert `data` from type `have` to `want`, with the semantics of CAST in the op table."""
    return semantics.apply(Ops.CAST, want, [data], [have]).reshape(data.shape)


def from_bytes(data: bytes | bytearray | memoryview, dtype: DType) -> Array:
    """Return bytes as a flat array of `dtype`. Raises `UserError` for an incomplete element."""
    raw = bytes(data)
    if len(raw) % dtype.itemsize:
        raise UserError(
            f"data: {len(raw)} bytes are not a multiple of the {dtype.itemsize} bytes "
            f"of {dtype.name}"
        )
    if dtype.is_bool:
        truth: Array = np.frombuffer(raw, dtype=np.uint8) != 0
        return truth
    return np.frombuffer(raw, dtype=numpy_dtype(dtype))
