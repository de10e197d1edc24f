"""safetensors files: a JSON header of names, types, shapes and offsets, then the elements.

https://huggingface.co/docs/safetensors describes the format and the rules that are checked here.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError, UserTypeError
from tinyref.foreign import unique_members
from tinyref.lazy.buffers import only_holds_data
from tinyref.nn.state.reading import (
    ByteReader,
    as_path,
    check_bools,
    parsed,
    section,
    tensor_of_bytes,
)
from tinyref.runtimes.data_only import replace_file
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import bound_sizes
from tinyref.tensor.literals import MAX_AXES

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000
LONG_HEADER = 10_000_000
METADATA = "__metadata__"
DTYPES: dict[str, DType] = {
    "BOOL": dtypes.bool,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "F8_E4M3": dtypes.fp8e4m3,
    "F8_E5M2": dtypes.fp8e5m2,
    "U16": dtypes.uint16,
    "I16": dtypes.int16,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "U32": dtypes.uint32,
    "I32": dtypes.int32,
    "F32": dtypes.float32,
    "U64": dtypes.uint64,
    "I64": dtypes.int64,
    "F64": dtypes.float64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def safe_load(fn: Tensor | str | PurePath) -> dict[str, Tensor]:
    """Return the tensors of a file: views of it, which are read when they are copied elsewhere.

    `fn` is a path, or the bytes of a file on any device. Raises `UserError` with the broken rule
    for bytes in another format, and `DeviceError` for a file that cannot be read.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     nn.state.safe_save({"weight": Tensor([1.0, 2.0])}, f"{folder}/a.safetensors")
        ...     nn.state.safe_load(f"{folder}/a.safetensors")["weight"].tolist()
        [1.0, 2.0]
    """
    tensor, start, header = safe_load_metadata(fn)
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        if name == METADATA:
            continue
        dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
        begin = start + entry["data_offsets"][0]
        if 0 in shape:
            tensors[name] = Tensor.zeros(shape, dtype=dtype, device=tensor.device)
            continue
        if dtype.is_bool:
            check_bools(tensor, begin, math.prod(shape), f"safe_load: {name!r}")
        tensors[name] = section(tensor, begin, math.prod(shape), dtype).reshape(shape)
    return tensors


def safe_load_metadata(t: Tensor | str | PurePath) -> tuple[Tensor, int, dict[str, Any]]:
    """Return the bytes, the offset of the elements in them, and the checked header.

    The header has "dtype", "shape" and "data_offsets" for each name, and may have "__metadata__".
    Raises the same errors as `safe_load`.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "a.safetensors")
        ...     nn.state.safe_save({"w": Tensor([1.0])}, str(file), {"made": "here"})
        ...     _, _, metadata = nn.state.safe_load_metadata(Tensor(file))
        >>> metadata["__metadata__"]
        {'made': 'here'}
    """
    tensor = tensor_of_bytes(t, "safe_load")
    start, header = parsed("safe_load: not a safetensors file", lambda: _header(tensor))
    return tensor, start, header


def _header(tensor: Tensor) -> tuple[int, dict[str, Any]]:
    with ByteReader(tensor) as file:
        length = int.from_bytes(file.exactly(LENGTH_BYTES), "little")
        if length > MAX_HEADER:
            raise ValueError(f"a header of {length} bytes, accepted are up to {MAX_HEADER}")
        text = file.exactly(length).decode("utf-8")
        data = file.nbytes - LENGTH_BYTES - length
    if not text.startswith("{"):
        raise ValueError("the header does not start with '{'")
    _check_nesting(text)
    header = json.loads(
        text, object_pairs_hook=unique_members, parse_constant=_no_number, parse_float=_no_number
    )
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    for name in header:
        name.encode()
    _check_metadata(header.get(METADATA, {}))
    entries = {name: entry for name, entry in header.items() if name != METADATA}
    for name, entry in entries.items():
        _check_entry(name, entry)
    _check_offsets(entries, data)
    return LENGTH_BYTES + length, header


def _check_nesting(text: str) -> None:
    """Raise `ValueError` for a long header of many brackets: each takes 60 bytes of memory or more.

    A tensor has three pairs of brackets, and five quoted words.
    """
    if len(text) > LONG_HEADER and text.count("[") + text.count("{") > text.count('"'):
        raise ValueError("the header has more lists and objects than words")


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number of a header")


def _check_metadata(metadata: object) -> None:
    if not isinstance(metadata, dict):
        raise ValueError(f"{METADATA} is not an object")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise ValueError(f"{METADATA}: {key!r} is not a text")


def _check_entry(name: str, entry: object) -> None:
    """Raise `ValueError` unless a tensor has all members, and the bytes that its shape needs."""
    if not isinstance(entry, dict):
        raise ValueError(f"{name!r} is not an object")
    for key in ("dtype", "shape", "data_offsets"):
        if key not in entry:
            raise ValueError(f"{name!r} has no {key}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"{name!r} has dtype {dtype!r}, accepted are {', '.join(DTYPES)}")
    if not _sizes(shape) or len(shape) > MAX_AXES:
        raise ValueError(f"{name!r}: the shape is not a list of up to {MAX_AXES} sizes")
    if not _sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"{name!r}: data_offsets are not begin and end")
    needed = math.prod(shape) * DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != needed:
        have = offsets[1] - offsets[0]
        raise ValueError(f"{name!r} has {have} bytes, its shape and dtype need {needed}")


def _sizes(values: object) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 2**63 for value in values
    )


def _check_offsets(entries: Mapping[str, Any], data: int) -> None:
    """Raise `ValueError` unless every byte belongs to exactly one tensor."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin = entry["data_offsets"][0]
        if begin != end:
            fault = "overlap" if begin < end else "leave a hole"
            raise ValueError(f"{name!r} starts at {begin}, the bytes before end at {end}: {fault}")
        end = entry["data_offsets"][1]
    if end != data:
        raise ValueError(f"the tensors have {end} bytes, the file has {data} after the header")


def safe_save(
    tensors: Mapping[str, Tensor],
    fn: str | os.PathLike[str],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write `tensors`, and `metadata` of texts, to the file `fn`, which is replaced atomically.

    Raises `UserError` for names, metadata and tensors that the format cannot hold. Raises
    `DeviceError` if the file cannot be written: `fn` is then unchanged.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     nn.state.safe_save({"weight": Tensor([1.0, 2.0])}, f"{folder}/a.safetensors")
        ...     nn.state.safe_load(f"{folder}/a.safetensors")["weight"].tolist()
        [1.0, 2.0]
    """
    if not isinstance(fn, str | os.PathLike):
        raise UserTypeError(f"safe_save: fn is a {type(fn).__name__}, accepted is a path")
    as_path(fn, "safe_save")
    if not isinstance(tensors, Mapping):
        raise UserTypeError(
            f"safe_save: tensors is a {type(tensors).__name__}, accepted is a dict of Tensors by "
            f"name: see get_state_dict"
        )
    for name, tensor in tensors.items():
        _check_saved(name, tensor)
    # Wide elements first: so each tensor starts at a multiple of its element size.
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)
    header: dict[str, Any] = {}
    if metadata:
        if not all(isinstance(text, str) for text in (*metadata, *metadata.values())):
            raise UserTypeError("safe_save: metadata: accepted are texts by texts")
        header[METADATA] = dict(metadata)
    end = 0
    for name in order:
        tensor = tensors[name]
        begin, end = end, end + tensor.nbytes()
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(bound_sizes(tensor.shape)),
            "data_offsets": [begin, end],
        }
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise UserError(f"safe_save: a name or metadata is not Unicode: {error}") from error
    text += b" " * (-len(text) % LENGTH_BYTES)
    if len(text) > MAX_HEADER:
        raise UserError(f"safe_save: a header of {len(text)} bytes: up to {MAX_HEADER} are read")
    chosen = [tensors[name] for name in order]
    if chosen:
        _compute_all(chosen)
    replace_file(os.fspath(fn), _pieces(text, chosen))


def _check_saved(name: object, tensor: object) -> None:
    if not isinstance(name, str) or name == METADATA:
        raise UserTypeError(f"safe_save: {name!r} is not a name of a tensor")
    if not isinstance(tensor, Tensor):
        raise UserTypeError(
            f"safe_save: {name!r} is a {type(tensor).__name__}, accepted are Tensors"
        )
    if tensor.dtype not in NAMES:
        raise UserTypeError(f"safe_save: {name!r} is {tensor.dtype.name}, which the format lacks")


def _compute_all(tensors: list[Tensor]) -> None:
    """Compute all tensors together, so that an error comes before a file is changed."""
    lazy = [tensor for tensor in tensors if not only_holds_data(tensor.node)]
    if lazy:
        lazy[0].realize(*lazy[1:])


def _pieces(header: bytes, tensors: list[Tensor]) -> Iterator[memoryview | bytes]:
    yield len(header).to_bytes(LENGTH_BYTES, "little")
    yield header
    for tensor in tensors:
        yield np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data
