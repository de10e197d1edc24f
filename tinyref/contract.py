"""The contract of a device: what a backend must provide, as protocols and one class to subclass.

Order: launches, copies and frees of one device have the effect of happening one after the other, in
the order in which they are called. How much of that happens later than the call is the backend's
own affair; docs/backend.md says what each member owes.
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
class NamingRenderer(Renderer, Protocol):
    """A renderer whose kernels are called otherwise than their programs: a prefix, as a rule."""

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
class BatchCompiler(Compiler, Protocol):
    """A `Compiler` that takes many sources at once: a backend may offer it where each call costs.

    The harness then gives it the kernels of the cases that come next.
    """

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
