"""Buffers in files: exact values if they are few, bytes in base64 if they are many.

A float is written as the shortest text of its exact value: `1.5`, `-0.0`, `inf`. A NaN is written
as the bits of its type, which keeps its payload: `bits:7fc00001`.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping

import numpy as np

from tinyref.dtype import DType, dtypes, from_numpy_dtype, numpy_dtype
from tinyref.errors import UserError
from tinyref.formats.payload_fields import refuse
from tinyref_spec.kernel_case.case import Array
from tinyref_spec.kernel_case.members import Json

# A buffer of more elements is written as bytes.
MAX_VALUES = 256
# The limit for all buffers of a case together.
MAX_BYTES = 1 << 24
_BITS = "bits:"
_ACCEPTED = ", ".join(dtype.name for dtype in dtypes.all)


def buffer_to_json(content: Array) -> Json:
    """Return a flat array as a dict for `json.dumps`. Raises `UserError` for other types."""
    dtype = from_numpy_dtype(content.dtype)
    head: Json = {"dtype": dtype.name, "size": int(content.size)}
    if content.size > MAX_VALUES:
        data = base64.b64encode(_little_endian(content).tobytes()).decode("ascii")
        return head | {"base64": data}
    return head | {"values": [_value(element, dtype) for element in content]}


def _little_endian(content: Array) -> Array:
    """Return the elements as unsigned integers, the least significant byte first."""
    words = np.ascontiguousarray(content).view(f"u{content.dtype.itemsize}")
    return words.astype(f"<u{content.dtype.itemsize}")


def _value(element: np.generic, dtype: DType) -> object:
    if dtype.is_bool:
        return bool(element)
    if dtype.is_int:
        return int(element)
    number = float(element)
    if math.isnan(number):
        bits = int(np.array(element).reshape(1).view(f"u{dtype.itemsize}")[0])
        return f"{_BITS}{bits:0{dtype.itemsize * 2}x}"
    return repr(number)


def buffer_from_json(value: object, where: str) -> Array:
    """Return the array that `buffer_to_json` wrote, bit for bit.

    Raises `UserError` with the position of the error, what was expected and what was found.
    """
    if not isinstance(value, Mapping):
        raise refuse(where, "an object", value)
    kind = "base64" if "base64" in value else "values"
    if value.keys() != {"dtype", "size", kind}:
        raise refuse(where, "the members dtype, size, and values or base64", sorted(value))
    dtype = _dtype(value["dtype"], f"{where}.dtype")
    size = value["size"]
    if type(size) is not int or not 0 <= size <= MAX_BYTES // dtype.itemsize:
        raise refuse(f"{where}.size", f"a size of at most {MAX_BYTES} bytes", size)
    if kind == "base64":
        return _from_base64(value["base64"], dtype, size, f"{where}.base64")
    values = value["values"]
    if not isinstance(values, list) or len(values) != size or size > MAX_VALUES:
        raise UserError(f"{where}.values: expected a list of `size` values, at most {MAX_VALUES}")
    return _from_values(values, dtype, f"{where}.values")


def _dtype(value: object, where: str) -> DType:
    for dtype in dtypes.all:
        if value == dtype.name:
            return dtype
    raise refuse(where, f"one of {_ACCEPTED}", value)


def _from_base64(value: object, dtype: DType, size: int, where: str) -> Array:
    if not isinstance(value, str):
        raise refuse(where, "a text", value)
    try:
        data = base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise UserError(f"{where}: cannot be read: {error}") from None
    if len(data) != size * dtype.itemsize:
        raise UserError(f"{where}: expected {size * dtype.itemsize} bytes, got {len(data)}")
    if dtype.is_bool and data.strip(b"\0\1"):
        raise UserError(f"{where}: expected the bytes 0 and 1 of bools, got others")
    words = np.frombuffer(data, f"<u{dtype.itemsize}").astype(f"u{dtype.itemsize}")
    return words.view(numpy_dtype(dtype))


def _from_values(values: list[object], dtype: DType, where: str) -> Array:
    words = np.zeros(len(values), f"u{dtype.itemsize}")
    content = words.view(numpy_dtype(dtype))
    for index, value in enumerate(values):
        if dtype.is_float and isinstance(value, str) and value.startswith(_BITS):
            words[index] = _nan_bits(value, dtype, f"{where}[{index}]")
        else:
            content[index] = _element(value, dtype, f"{where}[{index}]")
    return content


def _nan_bits(value: str, dtype: DType, where: str) -> int:
    digits = value.removeprefix(_BITS)
    accepted = f"the bits of a NaN of {dtype.name} in {dtype.itemsize * 2} hexadecimal digits"
    if len(digits) != dtype.itemsize * 2 or set(digits) - set("0123456789abcdef"):
        raise refuse(where, accepted, value)
    word = np.array([int(digits, 16)], f"u{dtype.itemsize}")
    if not math.isnan(float(word.view(numpy_dtype(dtype))[0])):
        raise refuse(where, accepted, value)
    return int(word[0])


def _element(value: object, dtype: DType, where: str) -> bool | int | float:
    """Return one value that `dtype` holds exactly, written as `buffer_to_json` does."""
    if dtype.is_bool:
        if isinstance(value, bool):
            return value
        raise refuse(where, "true or false", value)
    if dtype.is_int:
        if type(value) is int and dtype.minimum <= value <= dtype.maximum:
            return value
        raise refuse(where, f"an integer of {dtype.name}", value)
    number = _float(value) if isinstance(value, str) and len(value) <= 32 else None
    if number is None or not _is_exact(number, dtype):
        raise refuse(where, f'the text of a value of {dtype.name}, such as "1.5"', value)
    return number


def _float(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if repr(number) == text and not math.isnan(number) else None


def _is_exact(number: float, dtype: DType) -> bool:
    with np.errstate(all="ignore"):
        return float(np.array(number).astype(numpy_dtype(dtype)).astype(np.float64)) == number
