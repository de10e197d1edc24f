"""What backends share: their names, parts of memory, checks of these and of launches, forks."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tinyref.contract import Allocator, Backend
from tinyref.errors import DeviceError, UserError


class NamedBackend(Backend):
    """A device that is called `base`, with its number behind a colon from 1 on.

    Without a `base` it has the name of its class. Subclasses set the allocator as they open it.
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
    """Raises `UserError` for an allocation of a negative size."""
    if nbytes < 0:
        raise UserError(f"allocate: nbytes is {nbytes}, accepted is 0 and above")


def check_part(offset: int, nbytes: int, size: int) -> None:
    """Raises `UserError` for a view that is not all inside of the `size` bytes of its memory."""
    if offset < 0 or nbytes < 0 or offset + nbytes > size:
        raise UserError(
            f"view: bytes {offset} to {offset + nbytes} are outside the memory's {size}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class BufferPart:
    """`nbytes` bytes of an object of a driver from `offset` on."""

    buffer: Any
    offset: int
    nbytes: int

    @property
    def address(self) -> int:
        """Where it begins, of a driver whose objects are addresses."""
        return int(self.buffer) + self.offset

    def part(self, offset: int, nbytes: int) -> BufferPart:
        """Return a part of it. Raises `UserError` when not all of it is inside."""
        check_part(offset, nbytes, self.nbytes)
        return replace(self, offset=self.offset + offset, nbytes=nbytes)


class PartAllocator:
    """An allocator whose handles are parts of memory; sizes and offsets are in bytes, 0 is fine."""

    def view(self, handle: BufferPart, offset: int, nbytes: int) -> BufferPart:
        """Return a part of `handle`. Raises `UserError` when not all of it is inside."""
        return handle.part(offset, nbytes)


def check_copy_in(source: memoryview, size: int) -> None:
    """Raises `UserError` for more bytes than the `size` of the memory that takes them."""
    if source.nbytes > size:
        raise UserError(f"copy_in: {source.nbytes} bytes do not fit into {size}")


def check_copy_out(destination: memoryview, size: int) -> None:
    """Raises `UserError` where more bytes are wanted than the `size` of the memory."""
    if destination.nbytes > size:
        raise UserError(f"copy_out: asked for {destination.nbytes} bytes of {size}")


def is_empty_launch(entry: str, grid: tuple[int, ...], group: tuple[int, ...]) -> bool:
    """Whether a launch has no groups. Raises `UserError` for extents that none can have."""
    if min(grid) < 0 or min(group) < 1:
        raise UserError(f"{entry}: got grid {grid} and group {group}: accepted from 0, 1")
    return 0 in grid


class DriverProcess:
    """Tells if this process opened a driver, or was forked off one that had.

    The contexts and threads of a driver are those of the process that opened it.

    One for each library of drivers, such as "OpenCL", made as its module is imported.
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
        """Raises `DeviceError` of a device where the driver was opened before a fork."""
        if self.is_forked:
            raise DeviceError(
                device,
                f"{self.library} was opened before this process was forked, which no driver "
                "survives: open it in the child alone, or start the child anew (spawn)",
            )
