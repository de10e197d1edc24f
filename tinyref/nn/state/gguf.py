"""GGUF files: metadata by key, then tensors, some of them quantised.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md describes the format. This module parses
the files, as the package `gguf` expects well-formed files. The package is an extra, and computes
only the elements of quantised types.
"""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

import numpy as np

from tinyref.device import Buffer
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.lazy.buffers import new_buffer_node, only_holds_data, set_buffer
from tinyref.nn.state.reading import ByteReader, parsed, section, tensor_of_bytes
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import bound_sizes
from tinyref.tensor.core import from_node

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT_KEY = "general.alignment"
DEFAULT_ALIGNMENT = 32
MAX_AXES = 4
DEEPEST_ARRAY = 8

# The types of metadata by number, as numpy formats.
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
    """Return the metadata of a file, and its tensors by name.

    `tensor` is a path, or the bytes of a file on any device. Tensors of plain types are views.
    Tensors of quantised types are computed as float32 when an element is needed. They need the
    package `gguf` (see `ggml_data_to_tensor`). Raises `UserError` for bytes in another format, and
    `DeviceError` for a file that cannot be read.

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
        raise ValueError("not a GGUF file")
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
        raise ValueError(f"{ALIGNMENT_KEY} is not a power of two")
    start = -(-file.tell() // alignment) * alignment
    result: dict[str, Tensor] = {}
    for name, shape, kind, offset in infos:
        if name in result:
            raise ValueError(f"the tensor {name!r} is there twice")
        result[name] = _tensor(data, name, shape, kind, (start, offset, alignment))
    return metadata, result


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
    # An item takes at least 8 bytes: refuse a count that does not fit the file.
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
    """Return name, shape (the slowest axis first), type and offset of a tensor."""
    name = _text(file)
    axes = _integer(file, 4)
    if axes > MAX_AXES:
        raise ValueError(f"tensor {name!r} has {axes} axes, accepted are up to {MAX_AXES}")
    shape = tuple(_integer(file, 8) for _ in range(axes))
    return name, shape[::-1], _integer(file, 4), _integer(file, 8)


def _tensor(
    data: Tensor, name: str, shape: tuple[int, ...], kind: int, position: tuple[int, int, int]
) -> Tensor:
    start, offset, alignment = position
    if offset % alignment:
        raise ValueError(f"tensor {name!r} is not at a multiple of {alignment} bytes")
    try:
        needed = _bytes_of(math.prod(shape), kind)
    except UserError as error:
        raise UserError(f"gguf_load: tensor {name!r}: {error}") from error
    begin = start + offset
    (have,) = data.shape
    if not isinstance(have, int) or begin + needed > have:
        raise ValueError(f"tensor {name!r} needs bytes {begin} to {begin + needed} of {have}")
    if not needed:
        return _empty(data, shape, kind)
    part = section(data, begin, needed, dtypes.uint8)
    return ggml_data_to_tensor(part, math.prod(shape), kind).reshape(shape)


# --- element types of GGML ----------------------------------------------------------------------

PLAIN: dict[int, DType] = {
    0: dtypes.float32,
    1: dtypes.float16,
    24: dtypes.int8,
    25: dtypes.int16,
    26: dtypes.int32,
    27: dtypes.int64,
    28: dtypes.float64,
    30: dtypes.bfloat16,
}
# The number of blocks computed at a time. With it, numpy's temporary arrays fit the cache: 300
# million elements a second for Q4_0, Q4_K and Q6_K; 100 to 250 million with 4 or 16 times as many.
BLOCKS_AT_ONCE = 2**10


def ggml_data_to_tensor(t: Tensor, n: int, ggml_type: int) -> Tensor:
    """Return the first `n` elements in the bytes `t`, which have the type of this number.

    The result has one axis. Plain types stay the same, and the result is a view if `t` is on DISK.
    Quantised types become float32 when an element is needed, and need the package `gguf`, an extra.
    They are on the default device if the device of `t` runs no kernels. Raises `UserError` for
    other types, for too few bytes, and if `n` is no whole number of blocks.

    Examples:
        >>> block = Tensor([0, 0, 128, 63], dtype=dtypes.uint8)  # the bytes of a float32, of type 0
        >>> nn.state.ggml_data_to_tensor(block, 1, 0).item()
        1.0
    """
    tensor = tensor_of_bytes(t, "ggml_data_to_tensor")
    needed = _bytes_of(n, ggml_type)
    (have,) = bound_sizes(tensor.shape)
    if have < needed:
        raise UserError(f"ggml_data_to_tensor: {n} elements need {needed} bytes, there are {have}")
    if not n:
        return _empty(tensor, (0,), ggml_type)
    if ggml_type in PLAIN:
        return section(tensor, 0, n, PLAIN[ggml_type])
    node = new_buffer_node("NPY", n, dtypes.float32)
    blocks = ByteReader(tensor[:needed])
    set_buffer(node, _QuantisedBuffer("NPY", n, dtypes.float32, blocks=blocks, ggml_type=ggml_type))
    return from_node(Tensor, node, "NPY").to(_device_of_elements(tensor))


@dataclass(eq=False)
class _QuantisedBuffer(Buffer):
    """Memory that is filled with the elements of quantised `blocks` when it is first needed."""

    blocks: ByteReader | None = None
    ggml_type: int = 0

    def allocate(self) -> Buffer:
        """Make sure that the elements are there, and return the buffer."""
        blocks, self.blocks = self.blocks, None
        super().allocate()
        if blocks is not None:
            try:
                self._fill(blocks)
            except BaseException:
                # The file may have been cut: the next call must fail too, and not return garbage.
                self.blocks = blocks
                raise
        return self

    def _fill(self, blocks: ByteReader) -> None:
        import gguf

        kind, number = _quantised_type(self.ggml_type), gguf.GGMLQuantizationType(self.ggml_type)
        blocks.seek(0)
        most = BLOCKS_AT_ONCE * kind.elements
        for begin in range(0, self.size, most):
            count = min(most, self.size - begin)
            data = np.frombuffer(blocks.exactly(count // kind.elements * kind.nbytes), np.uint8)
            # The scales come from the file: they may be infinite or NaN.
            with np.errstate(all="ignore"):
                elements = gguf.quants.dequantize(data, number)
            self.view(begin * elements.itemsize, count, self.dtype).copy_in(elements.data)


@dataclass(frozen=True)
class _QuantisedType:
    """A quantised type: each block stores `elements` elements in `nbytes` bytes."""

    name: str
    elements: int
    nbytes: int


@functools.cache
def _quantised_type(ggml_type: int) -> _QuantisedType:
    """Return the type of that number. Raise `UserError` if the package gguf cannot read it."""
    name = "unknown"
    # The import takes a third of a second.
    try:
        import gguf
    except ImportError as error:
        raise UserError(
            f"ggml_data_to_tensor: type {ggml_type} is not plain, and the package gguf is missing: "
            f"pip install '.[gguf]' in a clone of tinyref ({error})"
        ) from None
    try:
        kind = gguf.GGMLQuantizationType(ggml_type)
        name = kind.name
        elements, nbytes = gguf.GGML_QUANT_SIZES[kind]
        gguf.quants.dequantize(np.zeros(nbytes, np.uint8), kind)
    except (ValueError, KeyError, NotImplementedError):
        raise UserError(
            f"ggml_data_to_tensor: type {ggml_type} ({name}) is not read: accepted are the plain "
            f"types and those that gguf.quants.dequantize reads"
        ) from None
    return _QuantisedType(name, elements, nbytes)


def _device_of_elements(data: Tensor) -> Any:
    """Return the device for the elements of quantised `data`; None for the default device."""
    return None if only_holds_data(data.node) else data.device


def _empty(data: Tensor, shape: tuple[int, ...], ggml_type: int) -> Tensor:
    """Return an empty tensor of a type, on the device for elements of the bytes `data`."""
    if ggml_type in PLAIN:
        return Tensor.zeros(shape, dtype=PLAIN[ggml_type], device=data.device)
    return Tensor.zeros(shape, dtype=dtypes.float32, device=_device_of_elements(data))


def _bytes_of(n: int, ggml_type: int) -> int:
    """Return the bytes of `n` elements. Raise `UserError` for a type that is not accepted."""
    if type(n) is not int or n < 0:
        raise UserError(f"ggml_data_to_tensor: n is {n!r}, accepted are counts of 0 and more")
    if ggml_type in PLAIN:
        return n * PLAIN[ggml_type].itemsize
    kind = _quantised_type(ggml_type)
    if n % kind.elements:
        raise UserError(
            f"ggml_data_to_tensor: {n} elements do not fill blocks of {kind.elements} ({kind.name})"
        )
    return n // kind.elements * kind.nbytes
