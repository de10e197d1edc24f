"""GGUF files: metadata by key, then tensors, some of them quantised.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md describes the format.
"""

from __future__ import annotations

import math
import struct
from pathlib import PurePath
from typing import Any, cast

import numpy as np

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.nn.state.ggml import bytes_of, empty, ggml_data_to_tensor
from tinyref.nn.state.reading import ByteReader, parsed, section, tensor_of_bytes
from tinyref.tensor import Tensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT_KEY = "general.alignment"
DEFAULT_ALIGNMENT = 32
MAX_AXES = 4
DEEPEST_ARRAY = 8

# Types of metadata by number, as formats of struct and of numpy.
NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
BOOL, TEXT, ARRAY = 7, 8, 9


def gguf_load(tensor: Tensor | str | PurePath) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The metadata of a file, and its tensors by name.

    `tensor` is a path, or the bytes of a file on any device. Tensors of plain types are views;
    those of quantised types are computed, as float32, when an element is needed (see
    `ggml_data_to_tensor`). Raises `UserError` for bytes that are no such file, and `DeviceError`
    for a file that cannot be read.

    Examples:
        >>> import struct
        >>> key = b"general.name"
        >>> head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)  # version 3: no tensors, one key
        >>> data = head + struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, 4) + b"tiny"
        >>> metadata, tensors = nn.state.gguf_load(Tensor(data))
        >>> metadata, tensors
        ({'general.name': 'tiny'}, {})
    """
    data = tensor_of_bytes(tensor, "gguf_load")

    def parse() -> object:
        with ByteReader(data) as file:
            return _load(data, file)

    return cast(tuple[dict[str, Any], dict[str, Tensor]], parsed("gguf_load", parse))


def _load(data: Tensor, file: ByteReader) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if file.exactly(4) != MAGIC:
        raise ValueError("no GGUF file")
    version, tensors, entries = struct.unpack("<IQQ", file.exactly(20))
    if version not in VERSIONS:
        raise ValueError(f"version {version}, accepted are 2 and 3 in little endian")
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        key = _text(file)
        if key in metadata:
            raise ValueError(f"the key {key!r} is there twice")
        metadata[key] = _value(file, _integer(file, 4), 0)
    infos = [_info(file) for _ in range(tensors)]
    alignment = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise ValueError(f"{ALIGNMENT_KEY} is no power of two")
    start = -(-file.tell() // alignment) * alignment
    found: dict[str, Tensor] = {}
    for name, shape, kind, offset in infos:
        if name in found:
            raise ValueError(f"the tensor {name!r} is there twice")
        found[name] = _tensor(data, name, shape, kind, (start, offset, alignment))
    return metadata, found


def _integer(file: ByteReader, size: int) -> int:
    return int.from_bytes(file.exactly(size), "little")


def _text(file: ByteReader) -> str:
    return file.exactly(_integer(file, 8)).decode("utf-8")


def _value(file: ByteReader, kind: int, depth: int) -> Any:
    if kind in NUMBERS:
        return _numbers(file, kind, 1)[0]
    if kind == BOOL:
        return _bools(file, 1)[0]
    if kind == TEXT:
        return _text(file)
    if kind == ARRAY:
        return _array(file, depth)
    raise ValueError(f"metadata of type {kind}, accepted are 0 to 12")


def _array(file: ByteReader, depth: int) -> list[Any]:
    if depth == DEEPEST_ARRAY:
        raise ValueError(f"arrays more than {DEEPEST_ARRAY} deep")
    kind, count = _integer(file, 4), _integer(file, 8)
    if kind in NUMBERS:
        return _numbers(file, kind, count)
    if kind == BOOL:
        return _bools(file, count)
    # Each has a length of 8 bytes at least: a number that the file has no room for ends here.
    if count > (file.nbytes - file.tell()) // 8:
        raise ValueError(f"an array of {count} items in {file.nbytes - file.tell()} bytes")
    return [_value(file, kind, depth + 1) for _ in range(count)]


def _numbers(file: ByteReader, kind: int, count: int) -> list[Any]:
    dtype = np.dtype(NUMBERS[kind])
    return cast(list[Any], np.frombuffer(file.exactly(count * dtype.itemsize), dtype).tolist())


def _bools(file: ByteReader, count: int) -> list[bool]:
    data = file.exactly(count)
    if data.strip(b"\0\1"):
        raise ValueError("a bool that is neither 0 nor 1")
    return [byte == 1 for byte in data]


Info = tuple[str, tuple[int, ...], int, int]


def _info(file: ByteReader) -> Info:
    """Name, shape (the slowest axis first), type and place of a tensor."""
    name = _text(file)
    axes = _integer(file, 4)
    if axes > MAX_AXES:
        raise ValueError(f"tensor {name!r} has {axes} axes, accepted are up to {MAX_AXES}")
    shape = tuple(_integer(file, 8) for _ in range(axes))
    return name, shape[::-1], _integer(file, 4), _integer(file, 8)


def _tensor(
    data: Tensor, name: str, shape: tuple[int, ...], kind: int, place: tuple[int, int, int]
) -> Tensor:
    start, offset, alignment = place
    if offset % alignment:
        raise ValueError(f"tensor {name!r} is not at a multiple of {alignment} bytes")
    try:
        needed = bytes_of(math.prod(shape), kind)
    except UserError as error:
        raise UserError(f"gguf_load: tensor {name!r}: {error}") from error
    begin = start + offset
    (have,) = data.shape
    if not isinstance(have, int) or begin + needed > have:
        raise ValueError(f"tensor {name!r} needs bytes {begin} to {begin + needed} of {have}")
    if not needed:
        return empty(data, shape, kind)
    part = section(data, begin, needed, dtypes.uint8)
    return ggml_data_to_tensor(part, math.prod(shape), kind).reshape(shape)
