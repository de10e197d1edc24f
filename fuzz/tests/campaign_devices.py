"""Devices for tests of campaigns: the PYTHON device with a fault in some kernels."""

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

# One of this many programs has the fault. Its text decides, so the choice is stable.
ONE_IN = 10


def is_chosen(binary: bytes) -> bool:
    """Return True if a program has the fault; its name in the text does not count."""
    return zlib.crc32(binary) % ONE_IN == 0


class Faulty(TextBackend):
    """Device that runs `fault` before it loads a chosen program."""

    def fault(self) -> None:
        """Fail; each subclass in its own way."""

    def load(self, entry: str, binary: bytes) -> Any:
        if is_chosen(binary):
            self.fault()
        return super().load(entry, binary)


class Healthy(TextBackend):
    """The PYTHON device under another name."""


class SlowCompiler(TextCompiler):
    def compile(self, source: str) -> bytes:
        time.sleep(0.5)
        return super().compile(source)


class Slow(TextBackend):
    """Device that compiles for half a second, so that a case takes seconds."""

    @property
    def compiler(self) -> TextCompiler:  # type: ignore[override] # a property of the class there
        return SlowCompiler()


class SlowAndWrong(Slow):
    """Slow device that also flips a bit of every first output."""

    def load(self, entry: str, binary: bytes) -> Any:
        return _flipping(super().load(entry, binary))


class HangingAll(Slow):
    """Device that hangs in every kernel."""

    def load(self, entry: str, binary: bytes) -> Any:
        time.sleep(1000)


class HangingLater(TextBackend):
    """Device that hangs in its tenth kernel and all later ones."""

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
        blocks = []
        while True:
            blocks.append(b"\1" * (32 << 20))
            time.sleep(0.01)


class Raising(Faulty):
    def fault(self) -> None:
        raise DeviceError("FAULTY", "the queue is broken")


class Killed(Faulty):
    """Device that dies by a signal that another process might have sent."""

    def fault(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Wrong(TextBackend):
    """Device that flips a bit of the first output of the chosen programs."""

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
    """Device that flips a bit of the first output of every program after the eightieth."""

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
