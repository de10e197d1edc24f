"""Devices that a vendor's driver opens: their numbers, handles of memory, arguments of launches."""

from __future__ import annotations

import ctypes
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tinyref.capabilities import Capabilities
from tinyref.contract import Allocator, Availability, Backend, Compiler
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import check_part
from tinyref.runtimes.host.clang import run_tool

T = TypeVar("T")

Extents = tuple[int, int, int]

# Sources that are compiled and not loaded yet: more than one batch of the harness has.
KEPT_SOURCES = 1024


class DriverSession(Protocol):
    """One opened device."""

    def finish(self) -> None:
        """Wait for all that is queued. Raises `DeviceError` for a launch that failed."""
        ...


class DriverBackend(Backend):
    """One device of those that a driver has, by its number.

    Subclasses set `session` and the three members below it as they open the device.
    """

    base: ClassVar[str]
    """The name of the first device, such as "CUDA"."""

    session: DriverSession
    _capabilities: Capabilities
    _compiler: Compiler
    _allocator: Allocator

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"{self.base}:{index}" if index else self.base

    @classmethod
    @abstractmethod
    def devices(cls) -> Sequence[Any]:
        """Return the devices of the driver by their numbers. Raises `DeviceError` for none."""

    @classmethod
    def label(cls, device: Any) -> str:
        """Return what a person calls one of the `devices`."""
        return str(device)

    @classmethod
    def check_compiler(cls, device: Any) -> None:
        """Raise `DeviceError` where nothing compiles for one of the `devices`."""

    @classmethod
    def availability(cls) -> Availability:
        try:
            devices = cls.devices()
            cls.check_compiler(devices[0])
        except DeviceError as error:
            return Availability(False, error.message)
        return Availability(True, ", ".join(map(cls.label, devices)))

    def chosen(self, devices: Sequence[T]) -> T:
        """Return the device of this number. Raises `DeviceError` where there is none."""
        if self.index >= len(devices):
            labels = ", ".join(map(self.label, devices))
            raise DeviceError(self.name, f"there are {len(devices)} such devices: {labels}")
        return devices[self.index]

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def compiler(self) -> Compiler:
        return self._compiler

    @property
    def allocator(self) -> Allocator:
        return self._allocator

    def synchronize(self) -> None:
        self.session.finish()


@dataclass(frozen=True, slots=True, eq=False)
class AddressRange:
    """`nbytes` bytes of a device from `address` on."""

    address: int
    nbytes: int

    def part(self, offset: int, nbytes: int) -> AddressRange:
        """Return a part of it. Raises `UserError` when not all of it is inside."""
        check_part(offset, nbytes, self.nbytes)
        return AddressRange(self.address + offset, nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class BufferPart:
    """`nbytes` bytes of an object of a driver from `offset` on."""

    buffer: Any
    offset: int
    nbytes: int

    def part(self, offset: int, nbytes: int) -> BufferPart:
        """Return a part of it. Raises `UserError` when not all of it is inside."""
        check_part(offset, nbytes, self.nbytes)
        return replace(self, offset=self.offset + offset, nbytes=nbytes)


class PartAllocator:
    """An allocator whose handles know their parts; sizes and offsets are in bytes, 0 is fine."""

    def view(self, handle: Any, offset: int, nbytes: int) -> Any:
        """Return a part of `handle`. Raises `UserError` when not all of it is inside."""
        return handle.part(offset, nbytes)


class AddressArguments:
    """Arguments of a launch, as the drivers of CUDA and HIP read them: by the address of each.

    A buffer is an address, a variable an integer of 32 bits. Both stay where they are.
    """

    def __init__(self, buffers: Sequence[AddressRange], variables: Sequence[int]) -> None:
        self._buffers = (ctypes.c_uint64 * len(buffers))(*(each.address for each in buffers))
        self._variables = (ctypes.c_int32 * len(variables))(*variables)
        self._places = (ctypes.c_void_p * (len(buffers) + len(variables)))(
            *_elements(self._buffers), *_elements(self._variables)
        )

    @property
    def address(self) -> int:
        """The address of the addresses of all arguments."""
        return ctypes.addressof(self._places)

    def rebind(self, place: int, handle: AddressRange) -> None:
        """From now on the buffer at `place` is `handle`."""
        self._buffers[place] = handle.address

    def vary(self, variables: Sequence[int]) -> None:
        """From now on the variables have other values."""
        self._variables[:] = list(variables)


def _elements(array: Any) -> range:
    """The address of each element of a ctypes array."""
    first, size = ctypes.addressof(array), ctypes.sizeof(array)
    return range(first, first + size, size // len(array)) if len(array) else range(0)


def compile_file(command: Sequence[str], read: str, made: str, source: str, device: str) -> bytes:
    """Return the file `made` that a command makes of `source` as the file `read`.

    Raises `DeviceError` of `device` with the words of the command and the source.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="tinyref-") as folder:
            path = Path(folder)
            (path / read).write_text(source)
            run_tool([*command, "-o", made, read], path, source, device)
            return (path / made).read_bytes()
    except OSError as error:
        raise DeviceError(device, f"cannot compile: {error}", source) from error


class CompiledSources(Generic[T]):
    """What a driver made of sources and no kernel was loaded from yet, up to `KEPT_SOURCES`."""

    def __init__(self, build: Callable[[str], T]) -> None:
        self._build = build
        self._kept: dict[str, T] = {}
        self._lock = threading.Lock()

    def keep(self, source: str, compiled: T) -> None:
        """Keep what was made of a source until it is taken."""
        with self._lock:
            self._kept[source] = compiled
            while len(self._kept) > KEPT_SOURCES:
                self._kept.pop(next(iter(self._kept)))

    def take(self, source: str) -> T:
        """Return what was made of a source, or is made now."""
        with self._lock:
            compiled = self._kept.pop(source, None)
        return self._build(source) if compiled is None else compiled
