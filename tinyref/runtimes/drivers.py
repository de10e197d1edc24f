"""Devices that a vendor's driver opens: their numbers, handles of memory, arguments of launches."""

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

# Sources that are compiled and not loaded yet: more than one batch of the harness has.
KEPT_SOURCES = 1024


class DriverSession(Protocol):
    """One opened device."""

    def finish(self) -> None:
        """Wait for all that is queued. Raises `DeviceError` for a launch that failed."""
        ...


class DriverBackend(NamedBackend):
    """One device of those that a driver has, by its number.

    Subclasses set `session` and the members below it as they open the device.
    """

    session: DriverSession
    _capabilities: Capabilities
    _compiler: Compiler

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
        """Queues the launch; with `wait`, gives the seconds that the device took."""
        if is_empty_launch(self.entry, grid, group):
            return 0.0 if wait else None
        return self.queue(Launch(self, tuple(buffers), grid, group, tuple(variables)), wait)

    @abstractmethod
    def queue(self, launch: Launch, wait: bool) -> float | None:
        """The same for a launch that has groups."""


class AddressArguments:
    """Arguments of a launch, as the drivers of CUDA and HIP read them: by the address of each.

    A buffer is an address, a variable an integer of 32 bits. Both stay where they are.
    """

    def __init__(self, buffers: Sequence[BufferPart], variables: Sequence[int]) -> None:
        self._buffers = (ctypes.c_uint64 * len(buffers))(*(each.address for each in buffers))
        self._variables = (ctypes.c_int32 * len(variables))(*variables)
        self._places = (ctypes.c_void_p * (len(buffers) + len(variables)))(
            *_elements(self._buffers), *_elements(self._variables)
        )

    @property
    def address(self) -> int:
        """The address of the addresses of all arguments."""
        return ctypes.addressof(self._places)

    def rebind(self, place: int, handle: BufferPart) -> None:
        """From now on the buffer at `place` is `handle`."""
        self._buffers[place] = handle.address

    def vary(self, variables: Sequence[int]) -> None:
        """From now on the variables have other values."""
        self._variables[:] = list(variables)


def _elements(array: Any) -> range:
    """The address of each element of a ctypes array."""
    first, size = ctypes.addressof(array), ctypes.sizeof(array)
    return range(first, first + size, size // len(array)) if len(array) else range(0)


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
