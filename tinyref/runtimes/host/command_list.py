"""Command lists of the host: launches that native code makes one after the other, in one call."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence

from tinyref.contract import Launch
from tinyref.runtimes.host.function import Extents, HostFunction, HostLaunch
from tinyref.runtimes.host.memory import HostHandle

# Python sees an interrupt between two calls of native code: after so many launches.
LONGEST = 64

# A kernel as others are, whose buffers are a table: the code, the buffers and the variables of each
# launch, three pointers, and a null pointer after the last.
ENTRY = "launch_in_order"
SOURCE = f"""
define void @{ENTRY}(ptr %table, ptr %unused) {{
start:
  br label %look
look:
  %entry = phi ptr [ %table, %start ], [ %next, %launch ]
  %kernel = load ptr, ptr %entry
  %is_end = icmp eq ptr %kernel, null
  br i1 %is_end, label %end, label %launch
launch:
  %buffers_place = getelementptr ptr, ptr %entry, i64 1
  %buffers = load ptr, ptr %buffers_place
  %variables_place = getelementptr ptr, ptr %entry, i64 2
  %variables = load ptr, ptr %variables_place
  call void %kernel(ptr %buffers, ptr %variables)
  %next = getelementptr ptr, ptr %entry, i64 3
  br label %look
end:
  ret void
}}
"""


class HostCommandList:
    """Launches of this process; those of one group are made by `caller`, many in a call.

    caller: the loaded function `ENTRY` of `SOURCE`. Launches of several groups are shared among
    threads as ever, between its calls. Kernels and memory are kept alive.
    """

    def __init__(self, caller: HostFunction, launches: Sequence[Launch]) -> None:
        self._caller = caller
        self._launches = [_bound(each) for each in launches]
        self._calls = self._to_call()

    @property
    def is_one_call(self) -> bool:
        """True if an interrupt comes before or after all launches, and never between two."""
        return len(self._calls) == 1 and not isinstance(self._calls[0], HostLaunch)

    def __call__(self) -> None:
        for call in self._calls:
            call()

    def rebind(self, launch: int, place: int, handle: HostHandle) -> None:
        """From the next call on the buffer at `place` of a launch is `handle`."""
        self._launches[launch].rebind(place, handle)

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        """From the next call on a launch has `grid[0]` groups and other values of the variables."""
        found = self._launches[launch]
        before = found.groups
        found.vary(grid, variables)
        if found.groups != before:
            self._calls = self._to_call()

    def _to_call(self) -> list[Callable[[], None]]:
        """The calls that make all launches, in their order."""
        calls: list[Callable[[], None]] = []
        waiting: list[HostLaunch] = []
        for launch in self._launches:
            if launch.groups == 1:
                waiting.append(launch)
            if waiting and (launch.groups != 1 or len(waiting) == LONGEST):
                calls.append(self._native(waiting))
                waiting = []
            if launch.groups != 1:
                calls.append(launch)
        return [*calls, self._native(waiting)] if waiting else calls

    def _native(self, launches: Sequence[HostLaunch]) -> Callable[[], None]:
        """The call that makes launches of one group, whose pointers stay where they are."""
        pointers = [pointer for launch in launches for pointer in launch.pointers]
        table = (ctypes.c_void_p * (len(pointers) + 1))(*pointers, None)
        return functools.partial(self._caller.call, table, None)


def _bound(launch: Launch) -> HostLaunch:
    kernel = launch.kernel
    assert isinstance(kernel, HostFunction), "the launches are of functions of this process"
    return kernel.prepare(launch.buffers, launch.grid, launch.group, launch.variables)
