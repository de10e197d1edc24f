"""Devices where each call of the compiler costs; each call appends a line to COMPILE_LOG."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tinyref.errors import DeviceError
from tinyref.runtimes.python import TextBackend, TextCompiler

CALL_SECONDS = 0.02


class SingleCompiler(TextCompiler):
    """Takes 20 ms a call."""

    key = "slow text 1"  # type: ignore[assignment]

    def compile(self, source: str) -> bytes:
        _call(1)
        return self.compiled(source)

    def compiled(self, source: str) -> bytes:
        return source.encode()


class ManyCompiler(SingleCompiler):
    """Takes 20 ms for many sources."""

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        _call(len(sources))
        return [self.compiled(source) for source in sources]


class CrashingCompiler(ManyCompiler):
    """Ends the process over the kernels that store 100, alone and with others."""

    def compiled(self, source: str) -> bytes:
        if "CONST int32 () 100" in source and "stores" not in source:
            os.abort()
        return super().compiled(source)


class CrashingTogetherCompiler(ManyCompiler):
    """Ends the process over many sources."""

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        if len(sources) > 9:
            os.abort()
        return super().compile_many(sources)


class HangingCompiler(ManyCompiler):
    """Hangs over many sources."""

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        if len(sources) > 9:
            time.sleep(1000)
        return super().compile_many(sources)


class SwappingCompiler(ManyCompiler):
    """Gives results in the wrong order."""

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        return list(reversed(super().compile_many(sources)))


def _call(sources: int) -> None:
    with Path(os.environ["COMPILE_LOG"]).open("a") as file:
        file.write(f"{sources}\n")
    time.sleep(CALL_SECONDS)


def __getattr__(name: str) -> type[TextBackend]:
    """Return the device with the compiler of this name: `Single` has `SingleCompiler`."""
    compiler = globals().get(f"{name}Compiler")
    if compiler is None:
        raise AttributeError(name)
    make = functools.cached_property(lambda self: compiler())
    make.__set_name__(TextBackend, "compiler")
    globals()[name] = type(name, (TextBackend,), {"compiler": make})
    return globals()[name]
