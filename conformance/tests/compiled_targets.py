"""Backends that compile for architectures of which no device is there, as tests need them."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.backend import CORE_DTYPES, CORE_OPS, Capabilities, dtypes
from tinyref.contract import CompileTarget
from tinyref.errors import DeviceError
from tinyref.renderers.cuda import CudaRenderer
from tinyref.runtimes.null import NullBackend

# A bool is a byte in memory.
TYPES = CORE_DTYPES | {dtypes.uint8}
CAPABILITIES = Capabilities(TYPES, CORE_OPS, has_grid=True, has_groups=True)


class OneByOne:
    """Refuses each source that has a word in it, and keeps all that it was given."""

    key = "one by one"

    def __init__(self, refused: str = "no source has this") -> None:
        self.refused = refused
        self.given: list[str] = []

    def compile(self, source: str) -> bytes:
        self.given.append(source)
        if self.refused in source:
            raise DeviceError("TARGET", f"line 1: {self.refused!r} is not known", source)
        return b"code"


class Together(OneByOne):
    """Takes many sources, and refuses them all for one."""

    def __init__(self, refused: str = "no source has this") -> None:
        super().__init__(refused)
        self.batches: list[int] = []

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        self.batches.append(len(sources))
        if any(self.refused in source for source in sources):
            raise DeviceError("TARGET", "one of them")
        return [b"code"] * len(sources)


class TargetBackend(NullBackend):
    """Compiles for two architectures; `b` does not know the operator of a remainder."""

    compile_targets = ("a", "b")

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        compiler = OneByOne(" % " if name == "b" else "no source has this")
        return CompileTarget(name, CAPABILITIES, CudaRenderer(CAPABILITIES), compiler)
