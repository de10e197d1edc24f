"""Devices that hold data and run no kernels: NPY and DISK.

NPY has arrays of the host. The memory of "DISK:/path" is the bytes of a file. Reading maps the file
and copies the requested bytes; a part of the file is a view. Writing makes a new file next to the
old one and renames it. A reader therefore sees either the old bytes or all of the new ones.
"""

from __future__ import annotations

import functools
import mmap
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NoReturn

from tinyref.arrays import np
from tinyref.capabilities import Capabilities
from tinyref.contract import Availability
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.driver_checks import (
    BufferPart,
    NamedBackend,
    PartAllocator,
    check_copy_in,
    check_copy_out,
    check_size,
)
from tinyref.uops.program import Program

# Bytes of one write: a signal is handled between two of them.
WRITE_BYTES = 16 * 2**20
_MAY_WRITE: ContextVar[bool] = ContextVar("_MAY_WRITE", default=True)


class NoCompiler:
    """Takes the position of a renderer and a compiler, and refuses every kernel."""

    def __init__(self, device: str) -> None:
        self.device = device

    @property
    def key(self) -> str:
        return "no kernels"

    def refuse(self, kernel: str) -> NoReturn:
        """Raise the `DeviceError` for a kernel of this name."""
        raise DeviceError(
            self.device,
            f"runs no kernels (got {kernel}): it only holds data; compute on another "
            "device, such as CPU, and copy",
        )

    def render(self, program: Program) -> str:
        self.refuse(program.name)

    def compile(self, source: str) -> bytes:
        self.refuse("source text")


class DataOnlyBackend(NamedBackend):
    """Memory as a device: allocate, copy in, copy out. It refuses every kernel, by `name`."""

    runs_kernels = False

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(dtypes=frozenset(dtypes.all), ops=frozenset())

    @functools.cached_property
    def renderer(self) -> NoCompiler:
        return NoCompiler(self.name)

    @functools.cached_property
    def compiler(self) -> NoCompiler:
        return NoCompiler(self.name)

    def load(self, entry: str, binary: bytes) -> NoReturn:
        self.renderer.refuse(entry)


class NpyBackend(DataOnlyBackend):
    """Host arrays as a device: allocate, copy in, copy out. It refuses every kernel."""

    title = "arrays of the host, no kernels"
    base = "NPY"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        # It imports ctypes, which files do not need: `Tensor` loads this module.
        from tinyref.runtimes.host.memory import HostAllocator

        self._allocator = HostAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, f"numpy {np.__version__}")

    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}


@contextmanager
def read_only_files() -> Iterator[None]:
    """Refuse writes to DISK devices inside the block with a `UserError`; reading is allowed."""
    token = _MAY_WRITE.set(False)
    try:
        yield
    finally:
        _MAY_WRITE.reset(token)


def _check_writable(path: str) -> None:
    if not _MAY_WRITE.get():
        raise UserError(
            f"{_device(path)} is not written: an explained expression may read files, "
            "not write them; use a program"
        )


def file_size(path: str) -> int:
    """Return the bytes of a regular file. Raises `DeviceError` with the path and the reason."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise _failure(path, "cannot be read", error) from error
    if not stat.S_ISREG(status.st_mode):
        raise DeviceError(_device(path), f"{_one_line(path)} is not a regular file")
    return status.st_size


def replace_file(path: str, pieces: Iterable[memoryview | bytes]) -> None:
    """Replace the file `path` by one with the bytes of `pieces`, or leave everything unchanged.

    A symbolic link stays; its target is replaced. Raises `DeviceError`, with the path and the
    reason, if the folder or the device refuses, or if `path` is not a regular file. Other errors
    of `pieces` pass through. The new file is removed after every error.
    """
    target = os.path.realpath(path)
    mode = 0o666
    if os.path.exists(target):
        file_size(target)
        mode = stat.S_IMODE(os.stat(target).st_mode)
        if not mode & 0o222 or not os.access(target, os.W_OK):
            raise DeviceError(_device(path), "cannot be written: the file is read-only")
    folder, name = os.path.split(target)
    # Names have at most 255 bytes, and a long one leaves no room for a suffix.
    fresh = os.path.join(folder, f".{name[:32]}.{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except (OSError, ValueError) as error:
        raise _failure(path, "cannot be written", error) from error
    try:
        with open(descriptor, "wb", buffering=0) as file:
            if mode != 0o666:
                os.chmod(fresh, mode)
            for piece in pieces:
                _write_all(path, file.fileno(), memoryview(piece).cast("B"))
        _rename(path, fresh, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh)
        raise


def _write_all(path: str, descriptor: int, data: memoryview) -> None:
    written = 0
    try:
        while written < data.nbytes:
            written += os.write(descriptor, data[written : written + WRITE_BYTES])
    except OSError as error:
        raise _failure(path, "cannot be written", error) from error


def _rename(path: str, fresh: str, target: str) -> None:
    try:
        os.replace(fresh, target)
    except OSError as error:
        raise _failure(path, "cannot be written", error) from error


class MappedFile:
    """The first `nbytes` of a file, which is opened at the first read and stays open.

    A write replaces the whole file by a new one of the same name.
    """

    def __init__(self, path: str, nbytes: int) -> None:
        self.path = path
        self.nbytes = nbytes
        self._mapping: mmap.mmap | None = None

    def _mapped(self) -> mmap.mmap:
        """Return the mapping, after a check that the file still has all bytes.

        Reading a mapped byte beyond the end of a truncated file raises no error: it ends the
        process.
        """
        try:
            if self._mapping is None:
                with open(self.path, "rb") as file:
                    size = file_size(self.path)
                    self._check(size)
                    self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._check(self._mapping.size())
        except (OSError, ValueError) as error:
            raise _failure(self.path, "cannot be read", error) from error
        return self._mapping

    def _check(self, size: int) -> None:
        if size < self.nbytes:
            raise DeviceError(
                _device(self.path),
                f"{_one_line(self.path)} has {size} bytes, {self.nbytes} are needed: truncated",
            )

    def open(self) -> None:
        """Open the file now, so that a later rename does not change what is read."""
        if self.nbytes:
            self._mapped()

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Return the mapped bytes from `offset` on. Raises `DeviceError`."""
        return memoryview(self._mapped())[offset : offset + nbytes]

    def read_into(self, destination: memoryview, offset: int) -> None:
        """Fill `destination` with the bytes from `offset` on. Raises `DeviceError`."""
        end = offset + destination.nbytes
        if end > self.nbytes:
            raise UserError(f"copy_out: bytes {offset} to {end} of {self.nbytes}")
        with memoryview(self._mapped()) as mapped:
            destination[:] = mapped[offset:end]

    def write(self, source: memoryview, offset: int) -> None:
        """Replace the file by one with the bytes of `source` from `offset` on.

        The other bytes stay, so a part costs as much as the whole file. Raises `DeviceError`.
        """
        end = offset + source.nbytes
        if end > self.nbytes:
            raise UserError(f"copy_in: bytes {offset} to {end} do not fit into {self.nbytes}")
        if source.nbytes == self.nbytes and self._mapping is None:
            replace_file(self.path, [source])
        else:
            with (
                memoryview(self._mapped()) as mapped,
                mapped[:offset] as before,
                mapped[end:] as behind,
            ):
                replace_file(self.path, [before, source, behind])
        self._mapping = None
        self.open()

    def update(self, source: memoryview, offset: int) -> None:
        """Write as `write` does; preserve a longer file's rest, fill a missing file with zeros."""
        if self._mapping is None and not os.path.exists(self.path):
            end = offset + source.nbytes
            replace_file(self.path, [bytes(offset), source, bytes(self.nbytes - end)])
            self.open()
            return
        is_whole = source.nbytes == self.nbytes
        if not is_whole or file_size(self.path) > self.nbytes:
            self._mapped()
        self.write(source, offset)


class DiskAllocator(PartAllocator):
    """An allocator of parts of the file `path`: allocating reads and writes nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    def allocate(self, nbytes: int) -> BufferPart:
        """Return the first `nbytes` of the file, which need not exist until they are read."""
        check_size(nbytes)
        if not self.path:
            raise UserError("device: DISK is a file: name it, as in DISK:/tmp/weights")
        return BufferPart(MappedFile(self.path, nbytes), 0, nbytes)

    def free(self, handle: BufferPart) -> None:
        """Do nothing: the file is closed with the last reference to it."""

    def copy_in(self, handle: BufferPart, source: memoryview) -> None:
        """Write the bytes of `source` to the start of `handle`. Raises `DeviceError`."""
        _check_writable(self.path)
        check_copy_in(source, handle.nbytes)
        if source.nbytes or not handle.buffer.nbytes:
            handle.buffer.write(source, handle.offset)

    def update(self, handle: BufferPart, source: memoryview) -> None:
        """Write all bytes of `handle`, and preserve the other bytes of the file.

        A new file gets zeros for the other bytes. Raises `DeviceError`.
        """
        _check_writable(self.path)
        if source.nbytes:
            handle.buffer.update(source, handle.offset)

    def in_place(self, handle: BufferPart) -> memoryview:
        """Return the mapped bytes of `handle`, to be read at once. Raises `DeviceError`."""
        file: MappedFile = handle.buffer
        return file.view(handle.offset, handle.nbytes)

    def copy_out(self, destination: memoryview, handle: BufferPart) -> None:
        """Fill `destination` from the start of `handle`. Raises `DeviceError`."""
        check_copy_out(destination, handle.nbytes)
        handle.buffer.read_into(destination, handle.offset)


class DiskBackend(DataOnlyBackend):
    """One file as a device: its bytes are read when they are copied to another device."""

    title = "a file, mapped: DISK:/path"
    takes_path = True
    base = "DISK"

    def __init__(self, index: int = 0, path: str = "") -> None:
        super().__init__(index)
        self.name = _device(path) if path else self.base
        self._allocator = DiskAllocator(path)

    @classmethod
    def opened(cls, suffix: str) -> DiskBackend:
        if suffix.isdigit():
            raise UserError(f"device: DISK takes a path: write DISK:./{suffix} for that file")
        return cls(path=suffix)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, "files of this host")


def _device(path: str) -> str:
    return f"DISK:{_one_line(path)}"


def _one_line(path: str) -> str:
    """Return the path on one line, whatever characters it contains."""
    return path if path.isprintable() else ascii(path)


def _failure(path: str, what: str, error: Exception) -> DeviceError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DeviceError(_device(path), f"{what}: {reason}")
