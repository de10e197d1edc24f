"""Devices of which each call of the compiler costs; each call appends a line to COMPILE_LOG."""

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
    """The same for many sources."""

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        _call(len(sources))
        return [self.compiled(source) for source in sources]


class _Crashing(ManyCompiler):
    # The kernels that store 100, alone and with others.
    def compiled(self, source: str) -> bytes:
        if "CONST int32 () 100" in source and "stores" not in source:
            os.abort()
        return super().compiled(source)


class _CrashingTogether(ManyCompiler):
    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        if len(sources) > 9:
            os.abort()
        return super().compile_many(sources)


class _Refusing(ManyCompiler):
    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        _call(len(sources))
        raise DeviceError("SLOW", "line 1: no")


class _TooFew(ManyCompiler):
    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        found = super().compile_many(sources)
        return found[1:] if len(sources) > 9 else found


class _Hanging(ManyCompiler):
    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        if len(sources) > 9:
            time.sleep(1000)
        return super().compile_many(sources)


class _Swapping(ManyCompiler):
    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        return list(reversed(super().compile_many(sources)))


def _call(sources: int) -> None:
    with Path(os.environ["COMPILE_LOG"]).open("a") as file:
        file.write(f"{sources}\n")
    time.sleep(CALL_SECONDS)


class Single(TextBackend):
    """Compiles one source a call."""

    make: type[SingleCompiler] = SingleCompiler

    @functools.cached_property
    def compiler(self) -> TextCompiler:
        return self.make()


class Many(Single):
    """Compiles many sources a call."""

    make = ManyCompiler


class Crashing(Single):
    """Its compiler ends the process over some kernels."""

    make = _Crashing


class CrashingTogether(Single):
    """Its compiler ends the process over many sources."""

    make = _CrashingTogether


class Refusing(Single):
    """Its compiler refuses all batches."""

    make = _Refusing


class TooFew(Single):
    """Its compiler gives a result too few of many sources."""

    make = _TooFew


class Hanging(Single):
    """Its compiler hangs over many sources."""

    make = _Hanging


class Swapping(Single):
    """Its compiler gives results in the wrong order."""

    make = _Swapping
