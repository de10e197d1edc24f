"""Kernels with bound arguments: what a replay runs instead of calling a `Kernel` anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyref.contract import (
    CommandList,
    Handle,
    Launch,
    Launchable,
    PreparableKernel,
    PreparedLaunch,
)
from tinyref.device import Buffer, Device
from tinyref.errors import UserError
from tinyref.runtimes.kernel import Kernel

Extents = tuple[int, int, int]


class RepeatedCall:
    """A prepared launch for backends that have none of their own: it keeps the arguments."""

    def __init__(
        self,
        kernel: Launchable,
        buffers: Sequence[Handle],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> None:
        self._kernel = kernel
        self._handles = list(buffers)
        self._grid, self._group = grid, group
        self._variables = list(variables)

    def __call__(self) -> None:
        self._kernel(self._handles, self._grid, self._group, self._variables)

    def rebind(self, place: int, handle: Handle) -> None:
        self._handles[place] = handle

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        self._grid = grid
        self._variables = list(variables)


class LaunchesInARow:
    """A command list of prepared launches, for devices whose launches are done as they return."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = [prepared(each) for each in launches]

    def __call__(self) -> None:
        for launch in self._launches:
            launch()

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        self._launches[launch].rebind(place, handle)

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        self._launches[launch].vary(grid, variables)


def prepared(launch: Launch) -> PreparedLaunch:
    """The launch with its arguments bound, by the kernel itself where it offers that."""
    kernel = launch.kernel
    arguments = (launch.buffers, launch.grid, launch.group, launch.variables)
    if isinstance(kernel, PreparableKernel):
        return kernel.prepare(*arguments)
    return RepeatedCall(kernel, *arguments)


class _Recorded:
    """One launch of a command list, whose arguments change as those of a prepared one."""

    def __init__(self, commands: CommandList, number: int) -> None:
        self._commands = commands
        self._number = number

    def rebind(self, place: int, handle: Handle) -> None:
        self._commands.rebind(self._number, place, handle)

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        self._commands.vary(self._number, grid, variables)


class BoundKernel:
    """A kernel bound to buffers and to values of its variables; both can be exchanged.

    It is launched alone by what `prepare` gives, or with others by what `record` gives; what is
    exchanged reaches the last of these. `is_empty` says that there is nothing to launch.
    """

    def __init__(
        self, kernel: Kernel, buffers: Sequence[Buffer], bindings: Mapping[str, int]
    ) -> None:
        """Raises `UserError` as calling the kernel does."""
        self.kernel = kernel
        self.buffers = list(buffers)
        kernel.check_buffers(buffers)
        self.bindings = bindings
        self.is_empty = 0 in kernel.grid(bindings)
        self._bound: PreparedLaunch | _Recorded | None = None

    def launch(self) -> Launch:
        """The launch with all its arguments as they are now."""
        kernel, bindings = self.kernel, self.bindings
        handles = [kernel.handle(place, buffer) for place, buffer in enumerate(self.buffers)]
        return Launch(
            kernel.launchable,
            tuple(handles),
            kernel.grid(bindings),
            kernel.program.group,
            tuple(kernel.values(bindings, self.buffers)),
        )

    def prepare(self) -> PreparedLaunch:
        """What launches it alone."""
        self._bound = launch = prepared(self.launch())
        return launch

    @property
    def has_variables(self) -> bool:
        """Whether the values of variables change anything."""
        return bool(self.kernel.program.variables)

    def rebind(self, place: int, buffer: Buffer) -> None:
        """From now on the buffer of parameter `place` is `buffer`."""
        if not _is_alike(buffer, self.buffers[place]):
            problem = self.kernel.misfit(place, buffer)
            if problem:
                raise UserError(f"{self.kernel.name}: buffer {place}: {problem}")
        # Memory that is not there yet is allocated here: that may fail, and changes nothing then.
        handle = None if self._bound is None else self.kernel.handle(place, buffer)
        is_shifted = buffer.offset != self.buffers[place].offset
        self.buffers[place] = buffer
        if self._bound is not None:
            self._bound.rebind(place, handle)
        if is_shifted and self.kernel.has_words:
            self.vary(self.bindings)

    def vary(self, bindings: Mapping[str, int]) -> None:
        """From now on the variables have the values of `bindings`."""
        self.bindings = bindings
        grid = self.kernel.grid(bindings)
        self.is_empty = 0 in grid
        if self._bound is not None and not self.is_empty:
            self._bound.vary(grid, self.kernel.values(bindings, self.buffers))


def record(kernels: Sequence[BoundKernel]) -> CommandList | None:
    """The launches of kernels of one device, none of them empty, as one list.

    None where there are fewer than two, or the device offers none.
    """
    if len(kernels) < 2:
        return None
    backend = Device[kernels[0].kernel.device]
    commands = backend.record([bound.launch() for bound in kernels])
    if commands is not None:
        for number, bound in enumerate(kernels):
            bound._bound = _Recorded(commands, number)
    return commands


def _is_alike(one: Buffer, other: Buffer) -> bool:
    """Whether a kernel that takes one of two buffers takes the other for certain."""
    return (
        one.size == other.size
        and one.offset == other.offset
        and one.dtype is other.dtype
        and one.device == other.device
    )
