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
    """Finds backends by name and keeps one open instance per canonical name.

    Examples:
        >>> from tinyref import Device
        >>> Device.canonical("cpu:0"), Device.availability("PYTHON").works
        ('CPU', True)
    """

    def __init__(self) -> None:
        self._open: dict[str, Backend] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """For a forked child: a thread that held it is not there to release it."""
        self._opening = threading.RLock()

    @functools.cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        # With it come the email package and sockets: not before a device is asked for.
        import importlib.metadata

        found = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
        return {entry.name.upper(): entry for entry in found}

    def names(self) -> list[str]:
        """Every declared backend, whether or not it works here."""
        return sorted(self._entry_points)

    @property
    def default(self) -> str:
        """The canonical name of the default device (the DEVICE flag)."""
        return self.canonical(config.text("DEVICE"))

    # Programs of this family know it by this name.
    DEFAULT = default

    def canonical(self, name: str | None) -> str:
        """`name` in its one spelling: upper case, without ":0"; None is the default device.

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
        """Whether `canonical` imports the package of a vendor, to know if `name` ends in a path."""
        head, _, tail = name.partition(":")
        found = self._entry_points.get(head.upper())
        is_path = bool(tail) and not tail.isdigit()
        return found is not None and is_path and not is_ours(found.value)

    def is_ours(self, canonical: str) -> bool:
        """Whether the backend is one of tinyref's own packages; it is not imported for that."""
        declared = self._entry_points.get(canonical.partition(":")[0])
        return is_ours(canonical if declared is None else declared.value)

    def _path(self, name: str) -> str | None:
        """The path in the name of a device that takes one; None for all other names."""
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
                f"device: {name!r}: the path is empty: accepted is that of a file, as in "
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
        """The class that declares `name`, without opening it.

        Raises `UserError` for an unknown name, `DeviceError` if its package does not import, or is
        written for a version of the contract that is not served.
        """
        base, _ = self._parts(self.canonical(name))
        try:
            found = _import_class(base) if ":" in base else self._entry_points[base].load()
        except (ImportError, AttributeError) as error:
            raise DeviceError(base, f"its package does not import: {error}") from error
        except (Exception, SystemExit) as error:  # a package may do anything while it is imported
            raise DeviceError(
                base, f"its package does not import: {describe_error(error)}"
            ) from error
        if not (isinstance(found, type) and issubclass(found, Backend)):
            raise UserTypeError(
                f"device: {base} names {found!r}, accepted is a subclass of Backend"
            )
        _check_contract(base, found)
        return found

    def availability(self, name: str) -> Availability:
        """Whether `name` works here; an error on the way is the reason why not."""
        try:
            found = self.backend_class(name).availability()
            if isinstance(found, Availability):
                return found
            return Availability(False, f"availability() gives no Availability, but {found!r}")
        except TinyrefError as error:
            return Availability(False, str(error))
        except (Exception, SystemExit) as error:  # a backend asks drivers, which may fail so
            return Availability(False, describe_error(error))

    def __getitem__(self, name: str | None) -> Backend:
        canonical = self.canonical(name)
        found = self._open.get(canonical)
        return self._opened(canonical) if found is None else found

    def _opened(self, canonical: str) -> Backend:
        with self._opening:
            # Another thread may have been the first.
            found = self._open.get(canonical)
            if found is not None:
                return found
            backend_class = self.backend_class(canonical)
            available = self.availability(canonical)
            if not available.works:
                raise DeviceError(canonical, f"is not available here: {available.reason}")
            found = _open_backend(backend_class, canonical, self._parts(canonical)[1])
            _check_declaration(canonical, found)
            self._open[canonical] = found
            return found

    def _parts(self, canonical: str) -> tuple[str, str]:
        """The declared name and what follows its colon: a number, a path, or ""."""
        path = self._path(canonical)
        if path is not None:
            return canonical.partition(":")[0], path
        base, index = _split(canonical)
        return base, str(index) if index else ""

    def runs_kernels(self, name: str) -> bool:
        """False where `name` only holds data. It is not opened for that."""
        # Asked of every view that is built: the device that is open already is found at once.
        found = self._open.get(name)
        return (self.backend_class(name) if found is None else found).runs_kernels

    def opened(self) -> Iterator[tuple[str, Backend]]:
        """The devices that are open now."""
        yield from self._open.items()


def _check_contract(name: str, backend: type[Backend]) -> None:
    """Raises `DeviceError` for a backend that is written for more, or for less, than is here."""
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
    """Raises `DeviceError` naming the field of the capabilities that cannot be meant."""
    declared = backend.capabilities
    if not isinstance(declared, Capabilities):
        raise DeviceError(name, f"capabilities is {declared!r}: accepted is a Capabilities")
    problem = problem_of(declared)
    if problem is None and declared.ops and not backend.runs_kernels:
        problem = "ops is not empty and runs_kernels is False: accepted is an empty frozenset"
    if problem is not None:
        raise DeviceError(name, f"declares what cannot be: capabilities.{problem}")


def _is_backend(found: Any, suffix: str) -> bool:
    return isinstance(found, Backend)


_OPENED = Member("opened", "a Backend", _is_backend)


def _open_backend(backend_class: type[Backend], canonical: str, suffix: str) -> Backend:
    """An open backend; one of a vendor stands behind a guard."""
    if is_ours(backend_class.__module__):
        return backend_class.opened(suffix)
    found = Guard(canonical, backend_class).ask(_OPENED, backend_class.opened, "", suffix)
    guarded: Backend = guarded_backend(canonical, found, Capabilities)
    return guarded


def _split(name: str) -> tuple[str, int]:
    """("CUDA", 1) for "cuda:1"; ("module:Class", 0) for a class named by its path."""
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
    """Whether a module is of tinyref's own packages: what it raises is no vendor's error."""
    return module.partition(".")[0] in OWN_PACKAGES


Device = DeviceRegistry()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Device.renew_lock)


@dataclass(eq=False)
class Buffer:
    """`size` elements of `dtype` on `device`; allocated on first use, freed when unreachable.

    A buffer with a `base` is a part of it that starts `offset` bytes in.
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
        """The backend's handle; allocates on first use."""
        return self.allocate()._handle

    def allocate(self) -> Buffer:
        """Makes sure that there is memory behind this buffer, and returns the buffer."""
        if self._handle is not None:
            return self
        backend = Device[self.device]
        allocator = backend.allocator
        if self.base is not None:
            self._handle = allocator.view(self.base.handle, self.offset, self.nbytes)
            return self
        # Words reach beyond the last element, wherever in a word the first one is.
        slack = 3 + -(self.nbytes + 3) % 4 if backend._has_words else 0
        self._handle = allocator.allocate(self.nbytes + slack)
        poison = config.integer("POISON")
        if poison and self.nbytes and not backend.takes_path:
            allocator.copy_in(self._handle, memoryview(bytes([poison]) * self.nbytes))
        # A file takes no memory.
        used = 0 if backend.takes_path else self.nbytes
        memory.add(self.device, used)
        weakref.finalize(self, _release, allocator, self._handle, self.device, used)
        return self

    def view(self, offset: int, size: int, dtype: DType) -> Buffer:
        """A buffer over `size` elements of `dtype` that start `offset` bytes in.

        Raises `UserError` when they reach past the end.
        """
        if offset < 0 or offset + size * dtype.itemsize > self.nbytes:
            raise UserError(
                f"view: bytes {offset} to {offset + size * dtype.itemsize} "
                f"are outside the buffer's {self.nbytes}"
            )
        base = self if self.base is None else self.base
        return Buffer(self.device, size, dtype, base, self.offset + offset)

    def copy_in(self, source: memoryview) -> Buffer:
        """Fills the buffer from host bytes of exactly its size, and returns the buffer."""
        data = source.cast("B") if source.nbytes else source
        if data.nbytes != self.nbytes:
            raise UserError(f"copy_in: got {data.nbytes} bytes, the buffer has {self.nbytes}")
        if self.nbytes or not Device.runs_kernels(self.device):
            Device[self.device].allocator.copy_in(self.handle, data)
            memory.note_copy(self.device, self.nbytes)
        return self

    def update(self, source: memoryview) -> Buffer:
        """As `copy_in`, into memory that is there and that others may read.

        Where the allocator has a method `update` it says what stays of that: the rest of a file.
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
        """Fills the buffer with the bytes of another that has as many, and returns the buffer.

        Between devices of one backend by the allocator's method `transfer`, if it has one, else by
        the host. Raises `UserError` for another number of bytes.
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
        """A handle of the buffer's bytes: memory of words is larger, a view of it is not."""
        backend = Device[self.device]
        if self.base is not None or not backend._has_words:
            return self.handle
        return backend.allocator.view(self.handle, 0, self.nbytes)

    def copy_out(self) -> bytearray:
        """The buffer's bytes on the host, once all earlier work on it is done."""
        data = bytearray(self.nbytes)
        if self.nbytes:
            Device[self.device].allocator.copy_out(memoryview(data), self.handle)
            memory.note_copy(self.device, self.nbytes)
        return data

    def as_bytes(self) -> memoryview:
        """The buffer's bytes on the host, to be read at once.

        Where the allocator has a method `in_place` they are not copied for that: its handles are
        bytes of the host that no kernel writes, as those of a file.
        """
        in_place = getattr(Device[self.device].allocator, "in_place", None)
        if in_place is None or not self.nbytes:
            return memoryview(self.copy_out())
        found: memoryview = in_place(self.handle)
        return found


class _MemoryInUse:
    """Bytes allocated now on each device, and the most there ever were.

    copied: the bytes of the largest copy to or from each device.
    unfreed: what went wrong as memory was freed, which no caller could get.
    """

    def __init__(self) -> None:
        self.unfreed: list[str] = []
        self.now: dict[str, int] = {}
        self.peak: dict[str, int] = {}
        self.copied: dict[str, int] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """For a forked child: a thread that held it is not there to release it."""
        # Reentrant, for a collection in its midst may free memory.
        self._lock = threading.RLock()

    def add(self, device: str, nbytes: int) -> None:
        with self._lock:
            self.now[device] = self.now.get(device, 0) + nbytes
            self.peak[device] = max(self.peak.get(device, 0), self.now[device])

    def note_copy(self, device: str, nbytes: int) -> None:
        if nbytes > self.copied.get(device, 0):
            self.copied[device] = nbytes


memory = _MemoryInUse()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=memory.renew_lock)


def _release(allocator: Allocator, handle: Handle, device: str, nbytes: int) -> None:
    memory.add(device, -nbytes)
    try:
        allocator.free(handle)
    except TinyrefError as error:
        # Nobody is there to catch it: what frees memory is the end of an object.
        memory.unfreed.append(f"memory is not freed: {error}")
        warnings.warn(memory.unfreed[-1], stacklevel=2)


# What is copied to a device and back to see whether it answers.
_PATTERN = bytes(range(64))


class Health:
    """A device that answers now, or never did; what is lost later is opened anew elsewhere.

    A device that copies wrongly from the beginning is broken, not lost.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._answered = not _problem_of_copies(device)

    def problem_since(self) -> str:
        """Return why a copy to the device and back fails that was right before; else empty."""
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
