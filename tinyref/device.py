"""Devices: the registry that finds and opens a backend, and buffers of its memory.

A vendor's package declares one `Backend` class under the entry-point group `tinyref.backends`; the
in-tree backends use the same door. `Device["NAME"]`, `Device["NAME:1"]` and, before a package is
installed, `Device["module.path:ClassName"]` open a backend lazily.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tinyref import config
from tinyref.capabilities import Capabilities, problem_of
from tinyref.contract import CONTRACT, OLDEST_CONTRACT, Allocator, Availability, Backend, Handle
from tinyref.dtype import DType, dtypes
from tinyref.errors import (
    DeviceError,
    TinyrefError,
    UserError,
    UserLookupError,
    UserTypeError,
    describe_error,
    explain_error,
)
from tinyref.guarded import Guard, Member, guarded_backend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OWN_PACKAGES = frozenset({"tinyref", "tinyref_conformance", "tinyref_fuzz", "tinyref_spec"})
ENTRY_POINT_GROUP = "tinyref.backends"


class DeviceRegistry:
    """A registry that locates backends by name and has one open instance per canonical name.

    Examples:
        >>> from tinyref import Device
        >>> Device.canonical("cpu:0"), Device.availability("PYTHON").works
        ('CPU', True)
    """

    def __init__(self) -> None:
        self._open: dict[str, Backend] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock in a forked child: a thread that held it cannot release it there."""
        self._opening = threading.RLock()

    @functools.cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        # Imports the email package and sockets, so only when a device is asked for.
        import importlib.metadata

        entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
        return {entry.name.upper(): entry for entry in entry_points}

    def names(self) -> list[str]:
        """Return the names of all declared backends, also of those that do not work here."""
        return sorted(self._entry_points)

    @property
    def default(self) -> str:
        """Return the canonical name of the default device (the DEVICE flag)."""
        return self.canonical(config.text("DEVICE"))

    @default.setter
    def default(self, name: str) -> None:
        """Set TINYREF_DEVICE for this process; in a `Context(DEVICE=...)` that device stays."""
        os.environ["TINYREF_DEVICE"] = self.canonical(name)

    # Programs written for tinygrad use this name.
    DEFAULT = default

    def canonical(self, name: str | None) -> str:
        """Return the canonical form of `name`: upper case, without ":0"; None is the default.

        Raises `UserError` for a name that no backend declares.
        """
        if name is None:
            name = config.text("DEVICE")
        if not isinstance(name, str):
            raise UserTypeError(f"device: got {name!r}, accepted is a name such as 'CPU'")
        path = self._path(name)
        if path is None:
            return self._canonical(name)
        return f"{name.partition(':')[0].upper()}:{os.path.abspath(path)}"

    def asks_package(self, name: str) -> bool:
        """Return True if `canonical` must import a vendor's package to see if `name` has a path."""
        head, _, tail = name.partition(":")
        entry = self._entry_points.get(head.upper())
        is_path = bool(tail) and not tail.isdigit()
        return entry is not None and is_path and not is_ours(entry.value)

    def is_ours(self, canonical: str) -> bool:
        """Return True if the backend belongs to tinyref's own packages, without importing it."""
        declared = self._entry_points.get(canonical.partition(":")[0])
        return is_ours(canonical if declared is None else declared.value)

    def _path(self, name: str) -> str | None:
        """Return the path in the name of a device that takes one; None for all other names."""
        head, _, tail = name.partition(":")
        if not tail or tail.isdigit() or head.upper() not in self._entry_points:
            return None
        return tail if self._takes_path(head.upper()) else None

    @functools.cache  # noqa: B019 - the registry is one object that lives as long as the process
    def _takes_path(self, base: str) -> bool:
        try:
            if base not in self._entry_points:
                return False
            return bool(getattr(self._entry_points[base].load(), "takes_path", False))
        except (ImportError, AttributeError):
            return False

    @functools.cache  # noqa: B019 - the registry is one object that lives as long as the process
    def _canonical(self, name: str) -> str:
        base, index = _split(name)
        head, colon, tail = base.partition(":")
        if colon and not tail and self._takes_path(head.upper()):
            raise UserLookupError(
                f"device: {name!r}: the path is empty: accepted is the path of a file, as in "
                f"{head.upper()}:/tmp/weights"
            )
        if colon and head.upper() in self._entry_points:
            raise UserLookupError(f"device: {name!r}: {tail!r} is not the number of a device")
        if not colon and base not in self._entry_points:
            accepted = ", ".join(self.names())
            raise UserLookupError(
                f"device: unknown device {name!r}: accepted are {accepted}, or module.path:Class"
            )
        return f"{base}:{index}" if index else base

    def backend_class(self, name: str) -> type[Backend]:
        """Return the class that declares `name`, without opening it.

        Raises `UserError` for an unknown name. Raises `DeviceError` if its package does not import
        or needs a version of the contract that is not supported.
        """
        base, _ = self._parts(self.canonical(name))
        try:
            result = _import_class(base) if ":" in base else self._entry_points[base].load()
        except (ImportError, AttributeError) as error:
            raise DeviceError(base, f"its package does not import: {error}") from error
        except (Exception, SystemExit) as error:  # a package may do anything while it is imported
            raise DeviceError(
                base, f"its package does not import: {describe_error(error)}"
            ) from error
        if not (isinstance(result, type) and issubclass(result, Backend)):
            raise UserTypeError(
                f"device: {base} names {result!r}, accepted is a subclass of Backend"
            )
        _check_contract(base, result)
        return result

    def availability(self, name: str) -> Availability:
        """Return whether `name` works here; an error while asking becomes the reason."""
        try:
            result = self.backend_class(name).availability()
            if isinstance(result, Availability):
                return result
            return Availability(False, f"availability() gives no Availability, but {result!r}")
        except TinyrefError as error:
            return Availability(False, str(error))
        except (Exception, SystemExit) as error:  # a backend asks drivers, which may fail so
            return Availability(False, describe_error(error))

    def __getitem__(self, name: str | None) -> Backend:
        # Every launch asks for an open device by its canonical name.
        backend = self._open.get(name or "")
        return self._opened(self.canonical(name)) if backend is None else backend

    def _opened(self, canonical: str) -> Backend:
        with self._opening:
            # Another thread may have opened it first.
            backend = self._open.get(canonical)
            if backend is not None:
                return backend
            backend_class = self.backend_class(canonical)
            available = self.availability(canonical)
            if not available.works:
                raise DeviceError(canonical, f"is not available here: {available.reason}")
            backend = _open_backend(backend_class, canonical, self._parts(canonical)[1])
            _check_declaration(canonical, backend)
            self._open[canonical] = backend
            return backend

    def _parts(self, canonical: str) -> tuple[str, str]:
        """Return the declared name and the part after the colon: a number, a path, or ""."""
        path = self._path(canonical)
        if path is not None:
            return canonical.partition(":")[0], path
        base, index = _split(canonical)
        return base, str(index) if index else ""

    def runs_kernels(self, name: str) -> bool:
        """Return False if `name` only holds data. This does not open the device."""
        # Every view that is built asks this, so look among the open devices first.
        backend = self._open.get(name)
        return (self.backend_class(name) if backend is None else backend).runs_kernels

    def runs_loops(self, name: str) -> bool:
        """Return True if kernels are loops on a device. Opens it if it runs kernels."""
        return self.runs_kernels(name) and not self[name].capabilities.has_grid

    def opened(self) -> Iterator[tuple[str, Backend]]:
        """Yield the names and backends of the devices that are open now."""
        yield from self._open.items()


def _check_contract(name: str, backend: type[Backend]) -> None:
    """Raise `DeviceError` if the version of the contract of a backend is not supported."""
    stated = backend.contract
    if isinstance(stated, int) and OLDEST_CONTRACT <= stated <= CONTRACT:
        return
    accepted = f"accepted are integers from {OLDEST_CONTRACT} to {CONTRACT}"
    if not isinstance(stated, int):
        raise DeviceError(name, f"contract is {stated!r}: {accepted}")
    older = "the backend" if stated < OLDEST_CONTRACT else "tinyref"
    raise DeviceError(
        name, f"is written for version {stated} of the contract: {accepted}; update {older}"
    )


def _check_declaration(name: str, backend: Backend) -> None:
    """Raise `DeviceError` with the first field of the capabilities that is impossible."""
    declared = backend.capabilities
    if not isinstance(declared, Capabilities):
        raise DeviceError(name, f"capabilities is {declared!r}: accepted is a Capabilities")
    problem = problem_of(declared)
    if problem is None and declared.ops and not backend.runs_kernels:
        problem = "ops is not empty and runs_kernels is False: accepted is an empty frozenset"
    if problem is not None:
        raise DeviceError(name, f"invalid declaration: capabilities.{problem}")


def _is_backend(value: Any, suffix: str) -> bool:
    return isinstance(value, Backend)


_OPENED = Member("opened", "a Backend", _is_backend)


def _open_backend(backend_class: type[Backend], canonical: str, suffix: str) -> Backend:
    """Return an open backend, behind a guard if it belongs to a vendor."""
    if is_ours(backend_class.__module__):
        return backend_class.opened(suffix)
    opened = Guard(canonical, backend_class).ask(_OPENED, backend_class.opened, "", suffix)
    guarded: Backend = guarded_backend(canonical, opened, Capabilities)
    return guarded


def _split(name: str) -> tuple[str, int]:
    """Split "cuda:1" into ("CUDA", 1), and the path of a class into ("module:Class", 0)."""
    head, colon, tail = name.rpartition(":")
    if not colon:
        return name.upper(), 0
    if tail.isdigit():
        return (head if ":" in head else head.upper()), int(tail)
    return name, 0


def _import_class(path: str) -> object:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def is_ours(module: str) -> bool:
    """Return True if `module` belongs to tinyref: its errors are then not a vendor's."""
    return module.partition(".")[0] in OWN_PACKAGES


Device = DeviceRegistry()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Device.renew_lock)


@dataclass(eq=False)
class Buffer:
    """`size` elements of `dtype` on `device`; allocated on first use, freed when unreachable.

    A buffer with a `base` is a part of that buffer and starts `offset` bytes into it.
    """

    device: str
    size: int
    dtype: DType
    base: Buffer | None = None
    offset: int = 0
    _handle: Handle = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_allocated(self) -> bool:
        return self._handle is not None

    @property
    def handle(self) -> Handle:
        """Return the backend's handle; allocates memory on first use."""
        return self.allocate()._handle

    def allocate(self) -> Buffer:
        """Allocate the memory of this buffer if it has none, and return the buffer."""
        if self._handle is not None:
            return self
        backend = Device[self.device]
        allocator = backend.allocator
        if self.base is not None:
            self._handle = allocator.view(self.base.handle, self.offset, self.nbytes)
            return self
        # Kernels access whole words, so the last one may reach beyond the last element.
        slack = 3 + -(self.nbytes + 3) % 4 if backend._has_words else 0
        self._handle = allocator.allocate(self.nbytes + slack)
        poison = config.integer("POISON")
        if poison and self.nbytes and not backend.takes_path:
            allocator.copy_in(self._handle, memoryview(bytes([poison]) * self.nbytes))
        # A file takes no memory.
        used = 0 if backend.takes_path else self.nbytes
        memory.add(self.device, used)
        weakref.finalize(self, _free, self.device, allocator, self._handle, used)
        return self

    def view(self, offset: int, size: int, dtype: DType) -> Buffer:
        """Return a buffer over `size` elements of `dtype` that start `offset` bytes in.

        Raises `UserError` if they reach past the end.
        """
        if offset < 0 or offset + size * dtype.itemsize > self.nbytes:
            raise UserError(
                f"view: bytes {offset} to {offset + size * dtype.itemsize} "
                f"are outside the buffer's {self.nbytes}"
            )
        base = self if self.base is None else self.base
        return Buffer(self.device, size, dtype, base, self.offset + offset)

    def copy_in(self, source: memoryview) -> Buffer:
        """Fill the buffer from host bytes of exactly its size, and return the buffer."""
        data = source.cast("B") if source.nbytes else source
        if data.nbytes != self.nbytes:
            raise UserError(f"copy_in: got {data.nbytes} bytes, the buffer has {self.nbytes}")
        if self.nbytes or not Device.runs_kernels(self.device):
            Device[self.device].allocator.copy_in(self.handle, data)
            memory.note_copy(self.device, self.nbytes)
        return self

    def update(self, source: memoryview) -> Buffer:
        """Fill the buffer as `copy_in` does, but into existing memory that others may read.

        The allocator may have a method `update` that preserves the rest, for example of a file.
        """
        allocator = Device[self.device].allocator
        update = getattr(allocator, "update", None)
        if update is None:
            return self.copy_in(source)
        if source.nbytes != self.nbytes:
            raise UserError(f"update: got {source.nbytes} bytes, the buffer has {self.nbytes}")
        update(self.handle, source)
        return self

    def copy_from(self, source: Buffer) -> Buffer:
        """Fill the buffer with the bytes of another of the same size, and return the buffer.

        Two devices of one backend use the allocator's method `transfer`, if it has one; otherwise
        the bytes go through the host. Raises `UserError` if the sizes differ.
        """
        target, origin = Device[self.device], Device[source.device]
        transfer = getattr(target.allocator, "transfer", None)
        if transfer is None or target.__class__ is not origin.__class__ or not self.nbytes:
            return self.copy_in(source.as_bytes())
        if source.nbytes != self.nbytes:
            raise UserError(f"copy_from: got {source.nbytes} bytes, the buffer has {self.nbytes}")
        transfer(self._bytes_alone(), source._bytes_alone(), origin.allocator)
        return self

    def _bytes_alone(self) -> Handle:
        """Return a handle of exactly the buffer's bytes, without the slack of memory in words."""
        backend = Device[self.device]
        if self.base is not None or not backend._has_words:
            return self.handle
        return backend.allocator.view(self.handle, 0, self.nbytes)

    def copy_out(self) -> bytearray:
        """Return the buffer's bytes on the host, after all earlier work on it is done."""
        data = bytearray(self.nbytes)
        self.copy_to(memoryview(data))
        return data

    def copy_to(self, destination: memoryview) -> None:
        """Fill host memory of exactly the buffer's size, after all earlier work on it is done."""
        if self.nbytes:
            Device[self.device].allocator.copy_out(destination, self.handle)
            memory.note_copy(self.device, self.nbytes)

    def as_bytes(self) -> memoryview:
        """Return the buffer's bytes on the host, to be read at once.

        If the allocator has a method `in_place` they are not copied. Its handles are then bytes of
        the host that no kernel writes, such as a file.
        """
        in_place = getattr(Device[self.device].allocator, "in_place", None)
        if in_place is None or not self.nbytes:
            return memoryview(self.copy_out())
        data: memoryview = in_place(self.handle)
        return data


class _MemoryInUse:
    """Counts the bytes allocated on each device: the number now and the largest ever.

    copied: the bytes of the largest copy to or from each device.
    unfreed: errors while memory was freed, which reach no caller.
    """

    def __init__(self) -> None:
        self.unfreed: list[str] = []
        self.now: dict[str, int] = {}
        self.peak: dict[str, int] = {}
        self.copied: dict[str, int] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock in a forked child: a thread that held it cannot release it there."""
        # Reentrant: a garbage collection inside the lock may free memory.
        self._lock = threading.RLock()

    def add(self, device: str, nbytes: int) -> None:
        with self._lock:
            now = self.now[device] = self.now.get(device, 0) + nbytes
            if now > self.peak.get(device, 0):
                self.peak[device] = now

    def note_copy(self, device: str, nbytes: int) -> None:
        if nbytes > self.copied.get(device, 0):
            self.copied[device] = nbytes


memory = _MemoryInUse()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=memory.renew_lock)


def _free(device: str, allocator: Allocator, handle: Handle, nbytes: int) -> None:
    """Free the memory of a buffer, with the buffer or at the exit of the process."""
    memory.add(device, -nbytes)
    try:
        allocator.free(handle)
    except TinyrefError as error:
        # No caller can catch it: memory is freed when an object is destroyed.
        memory.unfreed.append(f"memory is not freed: {error}")
        warnings.warn(memory.unfreed[-1], stacklevel=2)


# The first finaliser decides when all of them run at the exit of the process: after the handlers
# that a program registers later, which may still read memory.
weakref.finalize(Device, lambda: None)

# The bytes that are copied to a device and back to test if it answers.
_PATTERN = bytes(range(64))


class Health:
    """Tells if a device that answered at first has stopped; callers then open it again elsewhere.

    A device that copies wrongly from the beginning is broken, not lost.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._answered = not _problem_of_copies(device)

    def problem_since(self) -> str:
        """Return why a copy to the device and back fails although it worked before, or ""."""
        return _problem_of_copies(self.device) if self._answered else ""


def _problem_of_copies(device: str) -> str:
    try:
        Device[device].synchronize()
        buffer = Buffer(device, len(_PATTERN), dtypes.uint8).copy_in(memoryview(_PATTERN))
        copied = bytes(buffer.copy_out())
    except MemoryError:
        return ""
    except Exception as error:  # a driver may raise anything
        return explain_error(error).partition("\n")[0]
    return "" if copied == _PATTERN else "a copy comes back with other bytes"
