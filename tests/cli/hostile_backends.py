"""A hostile backend for tests of the commands: the PYTHON device with one fault.

The device is the class `Hostile`. The environment variables FAULT_MEMBER and FAULT_HOW name its
faulty member and the fault.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

from tinyref.contract import Availability
from tinyref.runtimes.python import TextBackend

MEMBER = os.environ.get("FAULT_MEMBER", "")
HOW = os.environ.get("FAULT_HOW", "")


class WordlessError(Exception):
    def __str__(self) -> str:
        raise ValueError("there are no words for it")


def misbehaved(member: str, healthy: Any) -> Any:
    """Return the result of `healthy`, unless the member is faulty."""
    if member != MEMBER:
        return healthy() if callable(healthy) else healthy
    if HOW == "raises":
        raise TypeError(f"a typo in {member}")
    if HOW == "leaves":
        os._exit(0)
    if HOW == "exits":
        raise SystemExit(0)
    if HOW == "segfaults":
        os.kill(os.getpid(), signal.SIGSEGV)
    if HOW == "hangs":
        time.sleep(1000)
    if HOW == "wordless":
        raise WordlessError
    if HOW == "surrogates":
        raise RuntimeError("lone \udc80 and \x1b[31m red")
    if HOW == "writes":
        for descriptor in range(64):
            with contextlib.suppress(OSError):
                os.write(descriptor, b'{"opened": {}}\n{"exit": 0}\n\xff\x00')
        return healthy() if callable(healthy) else healthy
    if HOW == "closes":
        os.closerange(3, 64)
        return healthy() if callable(healthy) else healthy
    return {"None": None, "number": 7, "bytes": b"bytes", "text": "text", "list": [1]}[HOW]


class Part:
    """A member of a backend whose own members may be faulty."""

    def __init__(self, name: str, inner: Any) -> None:
        self._name, self._inner = name, inner

    def __getattr__(self, name: str) -> Any:
        member = f"{self._name}.{name}"
        member_value = getattr(self._inner, name)
        if not callable(member_value):
            return misbehaved(member, member_value)
        return lambda *arguments: misbehaved(member, lambda: member_value(*arguments))


class Hostile(TextBackend):
    title = "hostile"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        misbehaved("opened", None)

    @classmethod
    def availability(cls) -> Availability:
        return misbehaved("availability", TextBackend.availability)

    @property
    def capabilities(self) -> Any:
        return misbehaved("capabilities", lambda: super(Hostile, self).capabilities)

    @property
    def renderer(self) -> Any:
        return misbehaved("renderer", lambda: Part("renderer", super(Hostile, self).renderer))

    @property
    def compiler(self) -> Any:
        return misbehaved("compiler", lambda: Part("compiler", super(Hostile, self).compiler))

    @property
    def allocator(self) -> Any:
        return misbehaved("allocator", lambda: Part("allocator", super(Hostile, self).allocator))

    def load(self, entry: str, binary: bytes) -> Any:
        loaded = super().load(entry, binary)

        def call(*arguments: Any, **named: Any) -> Any:
            return misbehaved("launch", lambda: loaded(*arguments, **named))

        return misbehaved("load", lambda: call)

    def interpret(self, program: Any) -> Any:
        return misbehaved("interpret", lambda: None)

    def synchronize(self) -> None:
        misbehaved("synchronize", None)

    def versions(self) -> dict[str, str]:
        return misbehaved("versions", lambda: super(Hostile, self).versions())


misbehaved("import", None)
