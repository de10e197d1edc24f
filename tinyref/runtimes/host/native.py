"""Kernels that run as functions of this process: one calling convention for CPU and CLANG.

A command list of the host executes launches one after the other, in one call of native code.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Sequence

from tinyref.contract import Launch
from tinyref.errors import UserError
from tinyref.runtimes.host.memory import HostHandle, address_of
from tinyref.runtimes.host.threads import run_groups
from tinyref.runtimes.kernel import LaunchesInARow

Extents = tuple[int, int, int]

# void name(void **buffers, const int *variables)
_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class HostFunction:
    """A kernel in this process, called as `void name(void **buffers, const int *variables)`.

    A launch calls the kernel once for every group of dimension 0, on several threads if there are
    several groups. The group's index is one more variable after the others; a group is one
    work-item.

    address: its entry.
    owner: stays alive as long as the kernel may be called.
    call: takes the two pointers, and releases Python's interpreter lock.
    """

    def __init__(self, device: str, address: int, owner: object) -> None:
        self.device = device
        self.address = address
        self.owner = owner
        self.call = _PROTOTYPE(address)

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Run the kernel to its end; with `wait`, return the seconds that it took."""
        self._check_extents(grid, group)
        addresses = (ctypes.c_void_p * len(buffers))(*[address_of(buffer) for buffer in buffers])
        start = time.perf_counter() if wait else 0.0
        if grid[0] == 1:
            self.call(addresses, _values(variables, 0))
        else:
            run_groups(lambda index: self.call(addresses, _values(variables, index)), grid[0])
        return time.perf_counter() - start if wait else None

    def _check_extents(self, grid: Extents, group: Extents) -> None:
        if grid[1:] != (1, 1) or grid[0] < 0 or group != (1, 1, 1):
            raise UserError(
                f"{self.device}: has launch indices for threads alone: "
                f"accepted are grid (n, 1, 1) and group (1, 1, 1), got {grid} and {group}"
            )

    def prepare(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> HostLaunch:
        """Return the same launch for repetition, with its arguments built once."""
        self._check_extents(grid, group)
        return HostLaunch(self, buffers, grid[0], variables)


class HostLaunch:
    """A launch with stored argument arrays; they own the memory and the kernel."""

    def __init__(
        self,
        kernel: HostFunction,
        buffers: Sequence[HostHandle],
        groups: int,
        variables: Sequence[int],
    ) -> None:
        self._kernel = kernel
        self._function = kernel.call
        self._handles = list(buffers)
        self._addresses = (ctypes.c_void_p * len(buffers))(*map(address_of, buffers))
        self._array = ctypes.addressof(self._addresses)
        self._values: list[ctypes.Array[ctypes.c_int32]] = []
        self._single = 0
        self.vary((groups, 1, 1), variables)

    @property
    def groups(self) -> int:
        """Return the number of groups; as long as it is equal, `vary` moves no pointer."""
        return len(self._values)

    @property
    def pointers(self) -> tuple[int, int, int]:
        """Return the pointers of a launch of one group: code, buffers' addresses, variables."""
        return self._kernel.address, self._array, self._single

    @property
    def is_one_call(self) -> bool:
        """Return True if an interrupt can only come before or after: see `HostCommandList`."""
        return bool(self._single)

    def __call__(self) -> None:
        if self._single:
            self._function(self._array, self._single)
        elif self._values:
            run_groups(
                lambda index: self._function(self._array, self._values[index]), len(self._values)
            )

    def rebind(self, place: int, handle: HostHandle) -> None:
        """Bind `handle` as buffer number `place` from now on."""
        self._handles[place] = handle
        self._addresses[place] = address_of(handle)

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        """Use `grid[0]` groups and these values of the variables from now on."""
        if len(self._values) == grid[0]:
            for values in self._values:
                values[: len(variables)] = list(variables)
            return
        self._values = [_values(variables, index) for index in range(grid[0])]
        # One group needs no threads: the caller reads its values directly.
        self._single = ctypes.addressof(self._values[0]) if grid[0] == 1 else 0


def _values(variables: Sequence[int], group: int) -> ctypes.Array[ctypes.c_int32]:
    return (ctypes.c_int32 * (len(variables) + 1))(*variables, group)


# --- command lists --------------------------------------------------------------------------------

# Python handles an interrupt between two native calls, so one call makes this many launches.
LONGEST = 64

# A kernel like others, but its buffers are a table of three pointers a launch: the code, the
# buffers and the variables. A null pointer ends the table.
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


class HostCommandList(LaunchesInARow):
    """Launches of this process; `caller` executes many launches of one group in a call.

    Launches of several groups run on threads as usual, between its calls. The list keeps kernels
    and memory alive.
    caller: the loaded function `ENTRY` of `SOURCE`.
    """

    def __init__(self, caller: HostFunction, launches: Sequence[Launch]) -> None:
        super().__init__(launches)
        self._caller = caller
        self._calls = self._to_call()

    @property
    def is_one_call(self) -> bool:
        """Return True if an interrupt can only come before or after all launches."""
        return len(self._calls) == 1 and not isinstance(self._calls[0], HostLaunch)

    def __call__(self) -> None:
        for call in self._calls:
            call()

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        changed = self._launches[launch]
        before = changed.groups
        changed.vary(grid, variables)
        if changed.groups != before:
            self._calls = self._to_call()

    def _to_call(self) -> list[Callable[[], None]]:
        """Return the calls that execute all launches in order."""
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
        """Return the call for launches of one group, whose pointers must not move."""
        pointers = [pointer for launch in launches for pointer in launch.pointers]
        table = (ctypes.c_void_p * (len(pointers) + 1))(*pointers, None)
        return functools.partial(self._caller.call, table, None)
