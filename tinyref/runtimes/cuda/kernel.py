"""Launches of CUDA kernels: for each buffer its address, then each variable as a 32-bit integer."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

from tinyref.runtimes.cuda.driver import Session
from tinyref.runtimes.cuda.memory import Memory
from tinyref.runtimes.drivers import is_empty_launch

Extents = tuple[int, int, int]


class CudaKernel:
    """A kernel of a module, launched in the order of the session's stream."""

    def __init__(self, session: Session, entry: str, image: bytes) -> None:
        self.session = session
        self.entry = entry
        module = session.call(f"cannot load {entry}", "cuModuleLoadData", image)
        weakref.finalize(self, session.release, "cuModuleUnload", module)
        found = ("cuModuleGetFunction", module, entry.encode())
        self.function = session.call(f"no kernel {entry}", *found)

    def __call__(
        self,
        buffers: Sequence[Memory],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Queues the launch; with `wait`, gives the seconds that the device took."""
        if is_empty_launch(self.entry, grid, group):
            return 0.0 if wait else None
        launch = self.prepare(buffers, grid, group, variables)
        if not wait:
            launch()
            return None
        return self._timed(launch)

    def _timed(self, launch: CudaLaunch) -> float:
        session = self.session
        timer = session.take_timer()
        start, end = timer
        session.record(start)
        launch()
        session.record(end)
        session.finish()
        milliseconds = session.call("no time of the launch", "cuEventElapsedTime", start, end)
        session.give_back_timer(timer)
        # Its clock has steps of about half a microsecond.
        return max(float(milliseconds) * 1e-3, 1e-9)

    def prepare(
        self,
        buffers: Sequence[Memory],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> CudaLaunch:
        """A launch with its arguments bound."""
        return CudaLaunch(self, buffers, grid, group, variables)


class CudaLaunch:
    """A launch that can be repeated: the driver reads arguments by addresses, which stay."""

    def __init__(
        self,
        kernel: CudaKernel,
        buffers: Sequence[Memory],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> None:
        self.kernel = kernel
        self.grid, self.group = grid, group
        self._addresses = (ctypes.c_uint64 * len(buffers))(*(each.address for each in buffers))
        self._variables = (ctypes.c_int32 * len(variables))(*variables)
        self._places = (ctypes.c_void_p * (len(buffers) + len(variables)))(
            *_elements(self._addresses), *_elements(self._variables)
        )

    @property
    def arguments(self) -> int:
        """The address of the addresses of all arguments, as the driver takes them."""
        return ctypes.addressof(self._places)

    def __call__(self) -> None:
        session, kernel = self.kernel.session, self.kernel
        shared_bytes, extra = 0, 0
        session.call(
            f"cannot launch {kernel.entry}",
            "cuLaunchKernel",
            kernel.function,
            *self.grid,
            *self.group,
            shared_bytes,
            session.stream,
            self.arguments,
            extra,
        )

    def rebind(self, place: int, handle: Memory) -> None:
        """From now on the buffer at `place` is `handle`."""
        self._addresses[place] = handle.address

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        """From now on the launch has another grid and other values of the variables."""
        self.grid = grid
        self._variables[:] = list(variables)


def _elements(array: Any) -> range:
    """The address of each element of a ctypes array."""
    first, size = ctypes.addressof(array), ctypes.sizeof(array._type_)
    return range(first, first + len(array) * size, size)
