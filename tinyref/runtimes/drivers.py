"""Base classes for devices of a vendor's driver: numbers, handles, arguments of launches."""

from __future__ import annotations

import ctypes
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Compiler, Launch
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import BufferPart, NamedBackend, is_empty_launch

T = TypeVar("T")

Extents = tuple[int, int, int]

# Compiled sources that are not loaded yet; one batch of the harness has fewer.
MAX_SOURCES = 1024


class DriverSession(Protocol):
    """One opened device."""

    def finish(self) -> None:
        """Wait for all that is queued. Raises `DeviceError` for a launch that failed."""
        ...


class DriverBackend(NamedBackend):
    """One of the devices of a driver, by its number.

    Subclasses set `session` and the members below when they open the device.
    """

    session: DriverSession
    _capabilities: Capabilities
    _compiler: Compiler

    @classmethod
    @abstractmethod
    def devices(cls) -> Sequence[Any]:
        """Return the devices of the driver in order. Raises `DeviceError` if there are none."""

    @classmethod
    def label(cls, device: Any) -> str:
        """Return a readable name of one of the `devices`."""
        return str(device)

    @classmethod
    def check_compiler(cls, device: Any) -> None:
        """Raise `DeviceError` if no compiler for one of the `devices` is available."""

    @classmethod
    def availability(cls) -> Availability:
        try:
            devices = cls.devices()
            cls.check_compiler(devices[0])
        except DeviceError as error:
            return Availability(False, error.message)
        return Availability(True, ", ".join(map(cls.label, devices)))

    def chosen(self, devices: Sequence[T]) -> T:
        """Return the device of this number. Raises `DeviceError` if there is none."""
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

    def synchronize(self) -> None:
        self.session.finish()


class DriverKernel:
    """A loaded kernel of a driver; `entry` is its name."""

    entry: str

    def __call__(
        self,
        buffers: Sequence[BufferPart],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Queue the launch; with `wait`, return the seconds that the device took."""
        if is_empty_launch(self.entry, grid, group):
            return 0.0 if wait else None
        return self.queue(Launch(self, tuple(buffers), grid, group, tuple(variables)), wait)

    @abstractmethod
    def queue(self, launch: Launch, wait: bool) -> float | None:
        """Queue a launch that has groups."""


class AddressArguments:
    """Arguments of a launch for the drivers of CUDA and HIP, which read the address of each.

    A buffer is an address, a variable an integer of 32 bits. Neither moves in memory.
    """

    def __init__(self, buffers: Sequence[BufferPart], variables: Sequence[int]) -> None:
        self._buffers = (ctypes.c_uint64 * len(buffers))(*(part.address for part in buffers))
        self._variables = (ctypes.c_int32 * len(variables))(*variables)
        self._pointers = (ctypes.c_void_p * (len(buffers) + len(variables)))(
            *_elements(self._buffers), *_elements(self._variables)
        )

    @property
    def address(self) -> int:
        """Return the address of the addresses of all arguments."""
        return ctypes.addressof(self._pointers)

    def rebind(self, place: int, handle: BufferPart) -> None:
        """Bind `handle` as buffer number `place` from now on."""
        self._buffers[place] = handle.address

    def vary(self, variables: Sequence[int]) -> None:
        """Set the values of the variables from now on."""
        self._variables[:] = list(variables)


def _elements(array: Any) -> range:
    """Return the address of each element of a ctypes array."""
    first, size = ctypes.addressof(array), ctypes.sizeof(array)
    return range(first, first + size, size // len(array)) if len(array) else range(0)


class CompiledSources(Generic[T]):
    """Results of compiling sources, up to `MAX_SOURCES`, that no kernel was loaded from yet."""

    def __init__(self, build: Callable[[str], T]) -> None:
        self._build = build
        self._kept: dict[str, T] = {}
        self._lock = threading.Lock()

    def keep(self, source: str, compiled: T) -> None:
        """Store the result of a source until it is taken."""
        with self._lock:
            self._kept[source] = compiled
            while len(self._kept) > MAX_SOURCES:
                self._kept.pop(next(iter(self._kept)))

    def take(self, source: str) -> T:
        """Return the stored result of a source, or build it now."""
        with self._lock:
            compiled = self._kept.pop(source, None)
        return self._build(source) if compiled is None else compiled
