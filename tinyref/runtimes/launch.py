"""Kernels with bound arguments: what a replay runs instead of calling a `Kernel` anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyref.device import Buffer, Handle, Launchable, PreparableKernel, PreparedLaunch
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


class BoundKernel:
    """A kernel bound to buffers and to values of its variables; both can be exchanged.

    Calling `launch` runs it; `is_empty` says that there is nothing to launch.
    """

    def __init__(
        self, kernel: Kernel, buffers: Sequence[Buffer], bindings: Mapping[str, int]
    ) -> None:
        """Raises `UserError` as calling the kernel does."""
        self.kernel = kernel
        self.buffers = list(buffers)
        kernel.check_buffers(buffers)
        self.bindings = bindings
        handles = [kernel.handle(place, buffer) for place, buffer in enumerate(buffers)]
        variables, grid = kernel.values(bindings, buffers), kernel.grid(bindings)
        self.is_empty = 0 in grid
        make = kernel.launchable
        group = kernel.program.group
        self.launch: PreparedLaunch = (
            make.prepare(handles, grid, group, variables)
            if isinstance(make, PreparableKernel)
            else RepeatedCall(make, handles, grid, group, variables)
        )

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
        is_shifted = buffer.offset != self.buffers[place].offset
        self.buffers[place] = buffer
        self.launch.rebind(place, self.kernel.handle(place, buffer))
        if is_shifted and self.kernel.has_words:
            self.vary(self.bindings)

    def vary(self, bindings: Mapping[str, int]) -> None:
        """From now on the variables have the values of `bindings`."""
        self.bindings = bindings
        grid = self.kernel.grid(bindings)
        self.is_empty = 0 in grid
        self.launch.vary(grid, self.kernel.values(bindings, self.buffers))


def _is_alike(one: Buffer, other: Buffer) -> bool:
    """Whether a kernel that takes one of two buffers takes the other for certain."""
    return (
        one.size == other.size
        and one.offset == other.offset
        and one.dtype is other.dtype
        and one.device == other.device
    )
