"""Launches of HIP kernels: each buffer is an address, each variable an int."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tinyref.runtimes.drivers import is_empty_launch
from tinyref.runtimes.hip.driver import PROCESS, Session
from tinyref.runtimes.hip.memory import Memory

Extents = tuple[int, int, int]


class HipKernel:
    """A kernel of a module, launched in the order of the session's stream."""

    def __init__(self, session: Session, entry: str, code: bytes) -> None:
        self.session = session
        self.entry = entry
        self._module = session.made("hipModuleLoadData", ctypes.c_char_p(code))
        self._function = session.made("hipModuleGetFunction", self._module, entry.encode())

    def __del__(self) -> None:
        # A launch that is queued still needs it; nobody hears of an error here.
        session = self.session
        if hasattr(self, "_module") and not (PROCESS.is_forked or session.lost):
            session.library.hipStreamSynchronize(session.stream)
            session.library.hipModuleUnload(self._module)

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
        if not wait:
            self._launch(buffers, grid, group, variables)
            return None
        session = self.session
        with session.event() as start, session.event() as end:
            session.call("hipEventRecord", start, session.stream)
            self._launch(buffers, grid, group, variables)
            session.call("hipEventRecord", end, session.stream)
            session.call("hipEventSynchronize", end)
            milliseconds = ctypes.c_float()
            session.call("hipEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return max(milliseconds.value, 1e-6) * 1e-3

    def _launch(
        self,
        buffers: Sequence[Memory],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> None:
        values = [
            *(memory.pointer for memory in buffers),
            *map(ctypes.c_int, variables),
        ]
        # The values are copied before the call comes back.
        arguments = (ctypes.c_void_p * max(len(values), 1))(
            *(ctypes.addressof(value) for value in values)
        )
        self.session.call(
            "hipModuleLaunchKernel",
            self._function,
            *grid,
            *group,
            0,
            self.session.stream,
            arguments,
            None,
        )
