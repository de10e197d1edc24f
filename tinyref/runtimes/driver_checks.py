"""Code that backends share: names, parts of memory, checks of memory and launches, forks."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tinyref.contract import Allocator, Backend
from tinyref.errors import DeviceError, UserError


class NamedBackend(Backend):
    """A device called `base`, followed by a colon and its number from 1 on.

    Without a `base` it has the name of its class. Subclasses set the allocator.
    """

    base: ClassVar[str] = ""

    _allocator: Allocator

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        base = self.base or type(self).__name__
        self.name = f"{base}:{index}" if index else base

    @property
    def allocator(self) -> Allocator:
        return self._allocator


def check_size(nbytes: int) -> None:
    """Raise `UserError` for an allocation of a negative size."""
    if nbytes < 0:
        raise UserError(f"allocate: nbytes is {nbytes}, accepted is 0 and above")


def check_part(offset: int, nbytes: int, size: int) -> None:
    """Raise `UserError` for a view that is not entirely inside the `size` bytes of its memory."""
    if offset < 0 or nbytes < 0 or offset + nbytes > size:
        raise UserError(
            f"view: bytes {offset} to {offset + nbytes} are outside the memory's {size}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class BufferPart:
    """A part of a driver's memory object: `nbytes` bytes from `offset` on."""

    buffer: Any
    offset: int
    nbytes: int

    @property
    def address(self) -> int:
        """Return its address, if the driver's objects are addresses."""
        return int(self.buffer) + self.offset

    def part(self, offset: int, nbytes: int) -> BufferPart:
        """Return a part of it. Raises `UserError` if it is not entirely inside."""
        check_part(offset, nbytes, self.nbytes)
        return replace(self, offset=self.offset + offset, nbytes=nbytes)


class PartAllocator:
    """An allocator whose handles are parts of memory; sizes and offsets are in bytes, 0 allowed."""

    def view(self, handle: BufferPart, offset: int, nbytes: int) -> BufferPart:
        """Return a part of `handle`. Raises `UserError` if it is not entirely inside."""
        return handle.part(offset, nbytes)


def check_copy_in(source: memoryview, size: int) -> None:
    """Raise `UserError` for more bytes than the `size` of the target memory."""
    if source.nbytes > size:
        raise UserError(f"copy_in: {source.nbytes} bytes do not fit into {size}")


def check_copy_out(destination: memoryview, size: int) -> None:
    """Raise `UserError` for a request of more bytes than the `size` of the memory."""
    if destination.nbytes > size:
        raise UserError(f"copy_out: asked for {destination.nbytes} bytes of {size}")


def is_empty_launch(entry: str, grid: tuple[int, ...], group: tuple[int, ...]) -> bool:
    """Return True if a launch has no groups. Raises `UserError` for invalid extents."""
    if min(grid) < 0 or min(group) < 1:
        raise UserError(f"{entry}: got grid {grid} and group {group}: accepted from 0, 1")
    return 0 in grid


class DriverProcess:
    """Tells if this process opened a driver, or was forked from one that had.

    The contexts and threads of a driver belong to the process that opened it. Each library of
    drivers, such as "OpenCL", has one instance, made when its module is imported.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        self.is_started = False
        self.is_forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self.is_forked = self.is_started

    def check(self, device: str) -> None:
        """Raise `DeviceError` of a device if the driver was opened before a fork."""
        if self.is_forked:
            raise DeviceError(
                device,
                f"{self.library} was opened before this process was forked, which no driver "
                "survives: open it only in the child, or start a new process (spawn)",
            )
