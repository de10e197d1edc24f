"""The contract of a device: what a backend must provide, as protocols and one class to subclass.

Order: launches, copies and frees of one device take effect one after the other, in the order of
their calls. The backend decides how much of that happens after a call returns; docs/backend.md says
what each member must do.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tinyref.capabilities import Capabilities
from tinyref.errors import DeviceError, UserError
from tinyref.uops.program import Program

# The newest version of the contract in this module, and the oldest that is still supported.
CONTRACT = 1
OLDEST_CONTRACT = 1


@dataclass(frozen=True)
class Availability:
    """Tells if a backend works on this machine; `reason` says what is missing or what is there."""

    works: bool
    reason: str = ""


Handle = Any  # A backend's own identifier for a piece of its memory.


class Renderer(Protocol):
    """Prints a program as the source text of one target language."""

    def render(self, program: Program) -> str:
        """Return the source of one kernel, with the entry point `entry_name` or `program.name`."""
        ...


@runtime_checkable
class NamingRenderer(Renderer, Protocol):
    """A renderer that names entry points differently from programs, usually with a prefix."""

    def entry_name(self, program: Program) -> str:
        """Return the entry point in the text of `program`; `Backend.load` gets it."""
        ...


def entry_point(renderer: Renderer, program: Program) -> str:
    """Return the name of the kernel in the compiled binary, for `Backend.load`."""
    return renderer.entry_name(program) if isinstance(renderer, NamingRenderer) else program.name


class Compiler(Protocol):
    """Turns source text into what the runtime loads."""

    @property
    def key(self) -> str:
        """Return target, flags and versions: everything but the source that decides the output."""
        ...

    def compile(self, source: str) -> bytes:
        """Compile one source. Raises `DeviceError` with the compiler's message and the source."""
        ...


@runtime_checkable
class BatchCompiler(Compiler, Protocol):
    """A `Compiler` that takes several sources at once, for backends on which each call is slow.

    The harness then passes it the kernels of the next cases together.
    """

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        """Return for each source, in order, the result of `compile` or the error that it raises.

        Entry points of two sources may have the same name. Raises `DeviceError` if the results of
        single sources are unknown; each source is then compiled alone.
        """
        ...


class Allocator(Protocol):
    """Memory of one device. Sizes and offsets are in bytes."""

    def allocate(self, nbytes: int) -> Handle:
        """Return memory with undefined content. Raises `DeviceError` if there is not enough."""
        ...

    def free(self, handle: Handle) -> None:
        """Free memory, once. Launches and copies called before must still be able to use it."""
        ...

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """Return a handle to a part of `handle`, which needs no `free`.

        `offset` is a multiple of the size of the elements that kernels access through the view;
        it is aligned no further.
        """
        ...

    def copy_in(self, handle: Handle, source: memoryview) -> None:
        """Copy from host to device; `source` is a contiguous byte view no larger than the piece.

        Launches called before see the old bytes. `source` may change after the call returns.
        """
        ...

    def copy_out(self, destination: memoryview, handle: Handle) -> None:
        """Copy from device to host after all earlier launches; return when the bytes are there."""
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
        """Launch `grid` groups of `group` work-items, after everything that was called before.

        It may return before the launch is done. With `wait` it returns when the launch is done,
        with its time in seconds: finite, positive, and measured on the device if possible.
        """
        ...


class PreparedLaunch(Protocol):
    """A launch with its arguments bound, for repetition: a call costs as little as possible."""

    def __call__(self) -> None:
        """Launch the kernel on the buffers that are bound now."""
        ...

    def rebind(self, place: int, handle: Handle) -> None:
        """Bind `handle` as the buffer number `place` for all later calls."""
        ...

    def vary(self, grid: tuple[int, int, int], variables: Sequence[int]) -> None:
        """Set the grid and the values of the variables for all later calls."""
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
    """Launches of one device that one call launches, any number of times.

    A call uses the arguments bound when it is made; binding others later does not change it, even
    if its launches are not done yet. Launches are numbered from 0.
    """

    def __call__(self) -> None:
        """Launch all in their order, after everything that was called before."""
        ...

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        """Bind `handle` as the buffer number `place` of a launch, from the next call on."""
        ...

    def vary(self, launch: int, grid: tuple[int, int, int], variables: Sequence[int]) -> None:
        """Set the grid and the values of the variables of a launch, from the next call on."""
        ...


@runtime_checkable
class PreparableKernel(Protocol):
    """A loaded kernel that binds arguments itself: an optional member, which speeds up replays.

    `tinyref.runtimes.kernel` prepares the kernels of all other backends.
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
    """A target to compile for without its device: its capabilities and its compiler.

    name: of the architecture, as its compiler expects it.
    """

    name: str
    capabilities: Capabilities
    renderer: Renderer
    compiler: Compiler


class Backend(ABC):
    """One device: subclass it, set the members, and declare it under `tinyref.backends`.

    index: the number after the colon in "CUDA:1".
    runs_kernels: False if the device only holds data; parts of its memory are tensors at once.
    takes_path: the path of a file follows the colon, as in "DISK:/tmp/weights".
    survives_fork: True if a forked child may use a device that its parent opened. Drivers with
    threads or contexts do not allow it. The fuzzer reduces crashes faster with it.
    environment: the variables, in addition to our flags, that choose its device or compiler.
    Reports contain their values, and a run with other values is not resumed.
    contract: the version of this contract that it was written for: the value of `CONTRACT` then.
    The default is 1, the first. A version that tinyref does not support does not open.
    compile_targets: architectures for which `compile_target` compiles without a device.

    Examples:
        >>> from tinyref import Device
        >>> from tinyref.backend import Backend
        >>> backend = Device["PYTHON"]
        >>> isinstance(backend, Backend), backend.capabilities.has_groups
        (True, True)
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
        """Open the device for the part of its name after the colon, or "" if there is none."""
        return cls(int(suffix or 0))

    @classmethod
    @abstractmethod
    def availability(cls) -> Availability:
        """Return whether the device works here; must be quick and must not raise."""

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        """Return the compiler and the capabilities of architecture `name`, without its device.

        Raises `UserError` if `name` is not in `compile_targets`, `DeviceError` if the compiler is
        missing.
        """
        raise UserError(
            f"compile: got {name!r}: {cls.title} compiles for no device that is not there"
        )

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @functools.cached_property
    def _has_words(self) -> bool:
        """Return True if kernels access memory by words; cached, as every allocation asks."""
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
        """Load a compiled program whose entry point is `entry`. Raises `DeviceError`."""

    def interpret(self, program: Program) -> Launchable | None:
        """Return a kernel that interprets `program`, or None if programs are compiled."""
        return None

    def record(self, launches: Sequence[Launch]) -> CommandList | None:
        """Record launches of this device as a list for one call; None if it has no such lists.

        Replays of captured functions use it for every run of two or more kernels. Recording
        launches nothing. Raises `DeviceError` for what the device cannot record.
        """
        return None

    def synchronize(self) -> None:
        """Return when all work submitted to the device so far is done.

        The default is for devices whose launches are done when they return.
        """
        return

    def versions(self) -> dict[str, str]:
        """Return names and versions of device, driver and libraries, for reports and cache keys."""
        return {}
