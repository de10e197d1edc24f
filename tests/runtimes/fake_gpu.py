"""What the drivers of CUDA and HIP do, on the host: the base of fake_cuda and fake_hip.

What is queued is done as late as can be, so that a wait that is missing shows: by a stream that is
waited for, an event, or freed memory. A kernel is a text that an emulator runs.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tinyref.config import Context as ConfigContext
from tinyref.runtimes.emulated.c_emulator import CEmulator, Dialect

Extents = tuple[int, int, int]


@dataclass(eq=False)
class Stream:
    """Queued work; all from number `done` on is not done yet."""

    work: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0

    def run(self, end: int | None = None) -> None:
        while self.done < (len(self.work) if end is None else end):
            self.done += 1
            self.work[self.done - 1]()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.work.append(lambda: ctypes.memmove(target, source, nbytes) and None)


@dataclass(eq=False)
class Event:
    """A position in a stream, up to which its work must be done."""

    stream: Stream | None = None
    position: int = 0

    def record(self, stream: Stream) -> None:
        self.stream, self.position = stream, len(stream.work)

    def reach(self) -> None:
        if self.stream is not None:
            self.stream.run(self.position)

    @property
    def has_happened(self) -> bool:
        return self.stream is not None and self.position <= self.stream.done

    def hold(self, stream: Stream) -> None:
        """Order later work of `stream` after the event as it was last recorded."""
        stream.work.append(Event(self.stream, self.position).reach)


@dataclass(frozen=True)
class Function:
    """A kernel of a text; `is_buffer` has a flag for each parameter."""

    run: Callable[..., Any]
    is_buffer: tuple[bool, ...]

    def arguments(self, address: int) -> tuple[list[int], list[int]]:
        """Return buffers and variables from the address of an array of their addresses."""
        buffers, variables = [], []
        indices = (ctypes.c_void_p * len(self.is_buffer)).from_address(address)
        for position, is_buffer in zip(indices, self.is_buffer, strict=True):
            if is_buffer:
                buffers.append(ctypes.c_uint64.from_address(position).value)
            else:
                variables.append(ctypes.c_int32.from_address(position).value)
        return buffers, variables

    def launch(self, address: int, grid: Extents, group: Extents) -> Callable[[], None]:
        """Return a launch with the present arguments."""
        buffers, variables = self.arguments(address)

        def work() -> None:
            # A kernel that reads what it writes cannot run twice.
            with ConfigContext(EMU_ORDER="forward"):
                self.run(buffers, variables, grid, group)

        return work


def find_function(source: str, name: str, dialect: Dialect) -> Function | None:
    """Return the kernel of that name; None if the text has none."""
    actual = re.search(rf"\b{name}\(([^)]*)\)", source)
    if actual is None:
        return None
    emulator = CEmulator("FAKE", dialect)
    parameters = [text for text in actual[1].split(",") if text.strip()]
    function = emulator.load(name, emulator.compile(source))
    return Function(function, tuple("*" in parameter for parameter in parameters))


class FakeGpu:
    """Streams and memory of all devices of a driver; `calls` has what it was asked."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.streams: list[Stream] = []
        self.memory: dict[int, Any] = {}

    def new_stream(self) -> Stream:
        self.streams.append(Stream())
        return self.streams[-1]

    def allocate(self, nbytes: int) -> int:
        assert nbytes > 0
        # Aligned as memory of the drivers is.
        raw = (ctypes.c_uint8 * (nbytes + 256))()
        address = ctypes.addressof(raw) + -ctypes.addressof(raw) % 256
        self.memory[address] = raw
        return address

    def free(self, address: int) -> bool:
        """Free memory after all queued work; return True if there was any."""
        for stream in self.streams:
            stream.run()
        return self.memory.pop(address, None) is not None

    def has(self, *addresses: int) -> bool:
        """Return True if the driver allocated all of these, or their enclosing memory."""
        return all(
            any(start <= address < start + len(raw) for start, raw in self.memory.items())
            for address in addresses
        )
