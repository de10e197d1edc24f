"""Devices: what a backend must provide, the registry that finds it, and buffers of its memory.

A vendor's package declares one `Backend` class under the entry-point group `tinyref.backends`; the
in-tree backends use the same door. `Device["NAME"]`, `Device["NAME:1"]` and, before a package is
installed, `Device["module.path:ClassName"]` open a backend lazily.

Order: launches, copies and frees of one device have the effect of happening one after the other, in
the order in which they are called. How much of that happens later than the call is the backend's
own affair; docs/backend.md says what each member owes.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from tinyref import config
from tinyref.capabilities import CORE_DTYPES as CORE_DTYPES
from tinyref.capabilities import CORE_OPS as CORE_OPS
from tinyref.capabilities import Capabilities as Capabilities
from tinyref.capabilities import problem_of
from tinyref.capabilities import reason_without_values as reason_without_values
from tinyref.dtype import DType
from tinyref.errors import (
    DeviceError,
    TinyrefError,
    UserError,
    UserLookupError,
    UserTypeError,
    describe_error,
)
from tinyref.guarded import Guard, GuardedBackend
from tinyref.uops.program import Program

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OWN_PACKAGES = frozenset({"tinyref", "tinyref_conformance", "tinyref_fuzz", "tinyref_spec"})
ENTRY_POINT_GROUP = "tinyref.backends"
# The newest version of what this module says of a backend, and the oldest that is still served.
CONTRACT = 1
OLDEST_CONTRACT = 1


@dataclass(frozen=True)
class Availability:
    """Whether a backend works on this machine; `reason` says what is missing, or what was found."""

    works: bool
    reason: str = ""


Handle = Any  # A backend's own name for a piece of its memory.


class Renderer(Protocol):
    """Prints a program as the source text of one target language."""

    def render(self, program: Program) -> str:
        """The source of one kernel; its entry point is `program.name`, or that of `entry_name`."""
        ...


@runtime_checkable
class NamingRenderer(Protocol):
    """A renderer whose kernels are called otherwise than their programs: a prefix, as a rule."""

    def render(self, program: Program) -> str: ...

    def entry_name(self, program: Program) -> str:
        """The entry point in the text of `program`: what `Backend.load` is given."""
        ...


def entry_point(renderer: Renderer, program: Program) -> str:
    """The name under which `Backend.load` finds the kernel in what was compiled."""
    return renderer.entry_name(program) if isinstance(renderer, NamingRenderer) else program.name


class Compiler(Protocol):
    """Turns source text into what the runtime loads."""

    @property
    def key(self) -> str:
        """Target, flags and versions: all that decides the output besides the source."""
        ...

    def compile(self, source: str) -> bytes:
        """Raises `DeviceError` with the compiler's own words and the source."""
        ...


@runtime_checkable
class BatchCompiler(Protocol):
    """A `Compiler` that takes many sources at once: a backend may offer it where each call costs.

    The harness then gives it the kernels of the cases that come next.
    """

    @property
    def key(self) -> str: ...

    def compile(self, source: str) -> bytes: ...

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        """For each source, in their order, what `compile` gives of it or the error it raises.

        Entry points of two sources may have the same name. Raises `DeviceError` where nothing is
        known of any single source: each is then compiled alone.
        """
        ...


class Allocator(Protocol):
    """Memory of one device. Sizes and offsets are in bytes."""

    def allocate(self, nbytes: int) -> Handle:
        """Memory with no defined content. Raises `DeviceError` where there is not so much."""
        ...

    def free(self, handle: Handle) -> None:
        """Gives memory back, once: launches and copies called before it still find it there."""
        ...

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """A handle to a part of `handle`; freeing it is not needed.

        `offset` is a multiple of the size of the elements that kernels reach through it, no more.
        """
        ...

    def copy_in(self, handle: Handle, source: memoryview) -> None:
        """Host to device; `source` is a contiguous byte view no larger than the piece.

        Launches called before it see the old bytes. `source` may change once the call is back.
        """
        ...

    def copy_out(self, destination: memoryview, handle: Handle) -> None:
        """Device to host, after all launches called before it; returns once the bytes are there."""
        ...


class Launchable(Protocol):
    """A loaded kernel."""

    def __call__(
        self,
        buffers: Sequence[Handle],
        grid: tuple[int, int, int] = (1, 1, 1),
        group: tuple[int, int, int] = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Launches `grid` groups of `group` work-items, after all that was called before.

        It may return before the launch is done. With `wait` it returns when it is done, and gives
        the seconds that it took, on the device where it can measure them: finite and positive.
        """
        ...


class PreparedLaunch(Protocol):
    """A launch with its arguments bound, to be repeated: a call costs as little as may be."""

    def __call__(self) -> None:
        """Launches the kernel on what is bound now."""
        ...

    def rebind(self, place: int, handle: Handle) -> None:
        """From now on the buffer at `place` is `handle`."""
        ...

    def vary(self, grid: tuple[int, int, int], variables: Sequence[int]) -> None:
        """From now on the launch has another grid and other values of the variables."""
        ...


@dataclass(frozen=True)
class Launch:
    """A launch with all its arguments, as `Launchable` takes them; its grid has no 0."""

    kernel: Launchable
    buffers: tuple[Handle, ...]
    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    variables: tuple[int, ...]


class CommandList(Protocol):
    """Launches of one device that are launched by one call, as often as wanted.

    A call sees the arguments that are bound as it is made; what is bound later changes nothing of
    it, though its launches are not done yet. Launches are counted from 0.
    """

    def __call__(self) -> None:
        """Launches all in their order, after all that was called before."""
        ...

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        """From the next call on the buffer at `place` of a launch is `handle`."""
        ...

    def vary(self, launch: int, grid: tuple[int, int, int], variables: Sequence[int]) -> None:
        """From the next call on a launch has another grid and other values of the variables."""
        ...


@runtime_checkable
class PreparableKernel(Protocol):
    """A loaded kernel that binds arguments itself: a backend may offer it, and replays are quicker.

    `tinyref.runtimes.launch` prepares the kernels of all other backends.
    """

    def prepare(
        self,
        buffers: Sequence[Handle],
        grid: tuple[int, int, int],
        group: tuple[int, int, int],
        variables: Sequence[int],
    ) -> PreparedLaunch: ...


@dataclass(frozen=True)
class CompileTarget:
    """A device that need not be there: what it would declare, and what compiles for it.

    name: of the architecture, as its compiler is given it.
    """

    name: str
    capabilities: Capabilities
    renderer: Renderer
    compiler: Compiler


class Backend(ABC):
    """One device: subclass it, set the members, and declare it under `tinyref.backends`.

    `index` is the number after the colon in "CUDA:1".
    runs_kernels: False where the device only holds data: parts of its memory are tensors at once.
    takes_path: what follows the colon is the path of a file, as in "DISK:/tmp/weights".
    survives_fork: True where a forked child may go on with a device that its parent opened; drivers
    with threads or contexts do not. The fuzzer reduces crashes faster there.
    environment: the variables, besides our flags, that decide which device or compiler it takes;
    reports have their values, and a result is not gone on with under others.
    contract: the version of this contract for which it is written: `CONTRACT` as it was then. A
    class that states none is of version 1, the first. It does not open under a version of tinyref
    that does not serve it.
    compile_targets: architectures for which it compiles without a device: `compile_target`.
    """

    contract: int = 1
    title: str = ""
    environment: tuple[str, ...] = ()
    runs_kernels: bool = True
    takes_path: bool = False
    survives_fork: bool = False
    compile_targets: tuple[str, ...] = ()

    def __init__(self, index: int = 0) -> None:
        self.index = index

    @classmethod
    def opened(cls, suffix: str) -> Backend:
        """The device for what follows the colon of its name; "" where nothing does."""
        return cls(int(suffix or 0))

    @classmethod
    @abstractmethod
    def availability(cls) -> Availability:
        """Whether the device works here; must not raise and must be quick."""

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        """What compiles for the architecture `name`, on a machine that has none of it.

        Raises `UserError` for another name than one of `compile_targets`, `DeviceError` where the
        compiler is missing.
        """
        raise UserError(
            f"compile: got {name!r}: {cls.title} compiles for no device that is not there"
        )

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @functools.cached_property
    def _has_words(self) -> bool:
        """Whether kernels reach memory by words: every allocation asks, and the answer stays."""
        return bool(self.capabilities.stored_in_words)

    @property
    @abstractmethod
    def renderer(self) -> Renderer: ...

    @property
    @abstractmethod
    def compiler(self) -> Compiler: ...

    @property
    @abstractmethod
    def allocator(self) -> Allocator: ...

    @abstractmethod
    def load(self, entry: str, binary: bytes) -> Launchable:
        """Loads a compiled program whose entry point is `entry`. Raises `DeviceError`."""

    def interpret(self, program: Program) -> Launchable | None:
        """The kernel of a device that runs programs as they are; None where they are compiled."""
        return None

    def record(self, launches: Sequence[Launch]) -> CommandList | None:
        """Launches of this device as a list that one call launches; None where it has no such.

        Replays of captured functions take it for each run of two and more kernels. Nothing is
        launched yet. Raises `DeviceError` for what the device cannot record.
        """
        return None

    def synchronize(self) -> None:
        """Returns when all work given to the device so far is done: there is nothing to wait for.

        The default is for devices whose launches are done when they return.
        """
        return

    def versions(self) -> dict[str, str]:
        """Names and versions of device, driver and libraries, for reports and cache keys."""
        return {}


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


def _open_backend(backend_class: type[Backend], canonical: str, suffix: str) -> Backend:
    """An open backend; one of a vendor stands behind a guard."""
    if is_ours(backend_class.__module__):
        return backend_class.opened(suffix)
    found = Guard(canonical, backend_class).ask(
        *("opened", backend_class.opened, suffix),
        accepted="a Backend",
        is_right=lambda found: isinstance(found, Backend),
    )
    guarded: Any = GuardedBackend(canonical, found, Capabilities)
    return cast(Backend, guarded)


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
        transfer(self.handle, source.handle, origin.allocator)
        return self

    def copy_out(self) -> bytearray:
        """The buffer's bytes on the host, once all earlier work on it is done."""
        data = bytearray(self.nbytes)
        if self.nbytes:
            Device[self.device].allocator.copy_out(memoryview(data), self.handle)
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

    unfreed: what went wrong as memory was freed, which no caller could get.
    """

    def __init__(self) -> None:
        self.unfreed: list[str] = []
        self.now: dict[str, int] = {}
        self.peak: dict[str, int] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """For a forked child: a thread that held it is not there to release it."""
        # Reentrant, for a collection in its midst may free memory.
        self._lock = threading.RLock()

    def add(self, device: str, nbytes: int) -> None:
        with self._lock:
            self.now[device] = self.now.get(device, 0) + nbytes
            self.peak[device] = max(self.peak.get(device, 0), self.now[device])


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
