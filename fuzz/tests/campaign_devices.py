"""Devices for tests of campaigns: the PYTHON device, and one fault with some of the kernels."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from tinyref.contract import Availability
from tinyref.errors import DeviceError
from tinyref.runtimes.python import TextBackend, TextCompiler

# One program in so many has the fault: chosen by its text, so always the same ones.
ONE_IN = 10


def is_chosen(binary: bytes) -> bool:
    """Whether a program has the fault; its name in the text does not count."""
    return zlib.crc32(binary) % ONE_IN == 0


class Faulty(TextBackend):
    """Does `fault` before it loads a chosen program."""

    def fault(self) -> None:
        """What goes wrong."""

    def load(self, entry: str, binary: bytes) -> Any:
        if is_chosen(binary):
            self.fault()
        return super().load(entry, binary)


class Healthy(TextBackend):
    """The device as it is, under another name."""


class SlowCompiler(TextCompiler):
    def compile(self, source: str) -> bytes:
        time.sleep(0.5)
        return super().compile(source)


class Slow(TextBackend):
    """Compiles for half a second: a case takes seconds, a task of them a minute."""

    @property
    def compiler(self) -> TextCompiler:  # type: ignore[override] # a property of the class there
        return SlowCompiler()


class SlowAndWrong(Slow):
    """Flips a bit of every first output, too."""

    def load(self, entry: str, binary: bytes) -> Any:
        return _flipping(super().load(entry, binary))


class HangingAll(Slow):
    """Hangs in every kernel."""

    def load(self, entry: str, binary: bytes) -> Any:
        time.sleep(1000)


class HangingLater(TextBackend):
    """Hangs in its tenth kernel, and in all that follow."""

    loaded = 0

    def load(self, entry: str, binary: bytes) -> Any:
        HangingLater.loaded += 1
        if HangingLater.loaded >= 10:
            time.sleep(1000)
        return super().load(entry, binary)


class Crashing(Faulty):
    def fault(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class Leaving(Faulty):
    def fault(self) -> None:
        os._exit(5)


class Hanging(Faulty):
    def fault(self) -> None:
        time.sleep(1000)


class Eating(Faulty):
    def fault(self) -> None:
        held = []
        while True:
            held.append(b"\1" * (32 << 20))
            time.sleep(0.01)


class Raising(Faulty):
    def fault(self) -> None:
        raise DeviceError("FAULTY", "the queue is broken")


class Killed(Faulty):
    """Dies by a signal that somebody else might have sent."""

    def fault(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Wrong(TextBackend):
    """Flips a bit of the first output of the chosen programs."""

    def load(self, entry: str, binary: bytes) -> Any:
        loaded = super().load(entry, binary)
        return _flipping(loaded) if is_chosen(binary) else loaded


def _flipping(loaded: Callable[..., Any]) -> Callable[..., Any]:
    def call(buffers: Sequence[Any], *arguments: Any, **named: Any) -> Any:
        result = loaded(buffers, *arguments, **named)
        if buffers and buffers[0].size:
            buffers[0][0] ^= 1
        return result

    return call


class LeavingAState(TextBackend):
    """Flips a bit of the first output of every program, once it has loaded eighty."""

    most = 80
    loaded = 0

    def load(self, entry: str, binary: bytes) -> Any:
        self.loaded += 1
        loaded = super().load(entry, binary)
        return _flipping(loaded) if self.loaded > self.most else loaded


class LeavingAStateSoon(LeavingAState):
    most = 12


class Missing(TextBackend):
    @classmethod
    def availability(cls) -> Availability:
        return Availability(False, "no driver: install faulty-driver")


class DyingAtOpen(TextBackend):
    def __init__(self, index: int = 0) -> None:
        os.write(2, b"firmware mismatch\n")
        os._exit(9)
