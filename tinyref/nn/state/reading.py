"""A tensor of bytes as a file, for parsers, which read only parts of it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, NoReturn

import numpy as np

from tinyref.algebra.symbolic import describe_shape
from tinyref.dtype import DType, dtypes
from tinyref.errors import TinyrefError, UserError, UserTypeError
from tinyref.lazy.buffers import buffer_of, part_of, stored_buffer
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import bound_sizes
from tinyref.tensor.core import from_node

# The limit of one read by a parser. Only an attack has a larger header.
MAX_READ = 128 * 2**20
LONGEST_LINE = 2**20
BLOCK = 64 * 2**10


def as_path(path: str | os.PathLike[str], name: str) -> str:
    """Return `path` as a text. Raises `UserError` if it is empty: `Path("")` is the folder."""
    text = os.fspath(path)
    if not text:
        raise UserError(f"{name}: the path is empty: accepted is the path of a file")
    return text


def tensor_of_bytes(source: object, name: str) -> Tensor:
    """Return a path or a tensor as a tensor of bytes. Raises `UserError` for other types."""
    if isinstance(source, str | PurePath):
        return Tensor(Path(as_path(source, name)))
    if not isinstance(source, Tensor):
        kind = type(source).__name__
        raise UserTypeError(f"{name}: got a {kind}, accepted are a path and a Tensor of bytes")
    if source.dtype is not dtypes.uint8 or source.ndim != 1:
        raise UserTypeError(
            f"{name}: got {source.dtype.name} {describe_shape(source.shape)}, "
            f"accepted is one axis of uint8"
        )
    return source


class TensorFile(io.RawIOBase):
    """The bytes of a tensor as a read-only file. A tensor on DISK is read block by block."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        (self.nbytes,) = bound_sizes(tensor.shape)
        self._position = 0
        node = stored_buffer(tensor.node)
        self._buffer = None if node is None else buffer_of(node)
        self._data = memoryview(b"") if self._buffer else memoryview(tensor.numpy().tobytes())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.nbytes}[whence]
        if start + offset < 0:
            raise ValueError(f"position {start + offset} is before the start")
        self._position = start + offset
        return self._position

    def readinto(self, target: Any) -> int:
        destination = memoryview(target).cast("B")
        count = max(0, min(destination.nbytes, self.nbytes - self._position))
        if count and self._buffer is not None:
            part = self._buffer.view(self._position, count, dtypes.uint8)
            destination[:count] = part.copy_out()
        elif count:
            destination[:count] = self._data[self._position : self._position + count]
        self._position += count
        return count

    def readall(self) -> bytes:
        raise ValueError("no parser needs all bytes at once")


class ByteReader(io.BufferedReader):
    """A buffered reader of the bytes of a tensor, with a limit on the size of one read."""

    def __init__(self, tensor: Tensor) -> None:
        file = TensorFile(tensor)
        super().__init__(file, BLOCK)
        self.nbytes = file.nbytes

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.nbytes - self.tell())
        requested = left if size is None or size == -1 else size
        if not 0 <= requested <= MAX_READ:
            raise ValueError(f"{requested} bytes in one read")
        return super().read(min(requested, left))

    def readline(self, size: int | None = -1) -> bytes:
        most = LONGEST_LINE if size is None or size < 0 else min(size, LONGEST_LINE)
        return super().readline(most)

    def exactly(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises `ValueError` if there are fewer."""
        if not 0 <= size <= self.nbytes - self.tell():
            raise ValueError(f"{size} bytes are needed, {self.nbytes - self.tell()} are left")
        return self.read(size)


def parsed(name: str, parse: Callable[[], Any]) -> Any:
    """Return the result of `parse`, and raise `UserError` for any error in it.

    Parsers of the standard library fail on hostile bytes in more ways than they document.
    """
    try:
        return parse()
    except TinyrefError:
        raise
    except RecursionError:
        _refuse(name, "nested too deeply")
    except Exception as error:
        _refuse(name, str(error) or type(error).__name__)


def _refuse(name: str, reason: str) -> NoReturn:
    line = " ".join(reason.split())[:300]
    raise UserError(f"{name}: {line}") from None


def section(tensor: Tensor, offset: int, count: int, dtype: DType) -> Tensor:
    """Return `count` elements of `dtype` that start at byte `offset` of a tensor of bytes.

    On a device that only holds data, the result is a view. Bytes of bools must be 0 or 1.
    """
    if not count:
        return Tensor.zeros(0, dtype=dtype, device=tensor.device)
    node = stored_buffer(tensor.node)
    if node is not None:
        return from_node(Tensor, part_of(node, offset, count, dtype), tensor.device)
    part = tensor[offset : offset + count * dtype.itemsize]
    return part.cast(dtypes.bool) if dtype.is_bool else part.bitcast(dtype)


def check_bools(tensor: Tensor, offset: int, count: int, name: str) -> None:
    """Raise `UserError` unless these bytes are 0 or 1: devices accept no other bools."""
    with ByteReader(tensor) as file:
        file.seek(offset)
        left = count
        while left:
            block = np.frombuffer(file.exactly(min(left, BLOCK)), np.uint8)
            if block.max() > 1:
                raise UserError(f"{name}: a bool is {block.max()}, accepted are 0 and 1")
            left -= block.size
