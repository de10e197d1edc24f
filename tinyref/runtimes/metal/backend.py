"""The METAL device: MSL on the GPUs of macOS, through pyobjc."""

from __future__ import annotations

import functools
import platform
import threading
from collections.abc import Sequence
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Backend, Launch
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.metal import MAX_BUFFERS, METAL_OPS, MetalRenderer
from tinyref.runtimes.metal.driver import Session, devices
from tinyref.runtimes.metal.kernel import MetalCommandList, MetalKernel
from tinyref.runtimes.metal.memory import MetalAllocator
from tinyref.uops.tiles import GROUPS

# Metal feature set tables: bfloat and matrices of a simdgroup by the family of the GPU.
_BFLOAT_FAMILIES = ("MTLGPUFamilyApple6", "MTLGPUFamilyMetal3")
_MATRIX_FAMILY = "MTLGPUFamilyApple7"
# The first one with MSL 3.1, of which bfloat is.
_MACOS_OF_BFLOAT = 14
# Sources that are compiled and not loaded yet.
KEPT_LIBRARIES = 1024


class MetalCompiler:
    """Compiles for one session. The binary is the source: macOS keeps what it compiled itself."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._libraries: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def key(self) -> str:
        return f"Metal {platform.mac_ver()[0]} {self.session.device.name()}"

    def compile(self, source: str) -> bytes:
        """Raises `DeviceError` with the compiler's words and the source."""
        library = self.session.library(source)
        with self._lock:
            self._libraries[source] = library
            while len(self._libraries) > KEPT_LIBRARIES:
                self._libraries.pop(next(iter(self._libraries)))
        return source.encode()

    def take(self, source: str) -> Any:
        """What was compiled of a source, or is compiled now."""
        with self._lock:
            found = self._libraries.pop(source, None)
        return self.session.library(source) if found is None else found


class MetalBackend(Backend):
    """One GPU of a Mac, numbered from the preferred one on."""

    title = "Metal of macOS through pyobjc"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"METAL:{index}" if index else "METAL"
        found = devices(self.name)
        if index >= len(found):
            names = ", ".join(str(device.name()) for device in found)
            raise DeviceError(self.name, f"there are {len(found)} such devices: {names}")
        self.session = Session(self.name, found[index])
        self._capabilities = capabilities_of(self.session, is_last=index + 1 == len(found))
        self._allocator = MetalAllocator(self.session)
        self._compiler = MetalCompiler(self.session)

    @classmethod
    def availability(cls) -> Availability:
        try:
            return Availability(True, ", ".join(str(each.name()) for each in devices("METAL")))
        except DeviceError as error:
            return Availability(False, error.message)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @functools.cached_property
    def renderer(self) -> MetalRenderer:
        return MetalRenderer(self.capabilities)

    @property
    def compiler(self) -> MetalCompiler:
        return self._compiler

    @property
    def allocator(self) -> MetalAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> MetalKernel:
        library = self._compiler.take(binary.decode())
        return MetalKernel(self._allocator, entry, self.session.pipeline(library, entry))

    def record(self, launches: Sequence[Launch]) -> MetalCommandList:
        return MetalCommandList(launches)

    def synchronize(self) -> None:
        self.session.finish()

    def versions(self) -> dict[str, str]:
        return {"device": str(self.session.device.name()), "macOS": platform.mac_ver()[0]}


def capabilities_of(session: Session, is_last: bool) -> Capabilities:
    """What a GPU declares, by its own answers and by the family that it is of."""
    device = session.device

    def is_of(family: str) -> bool:
        return bool(device.supportsFamily_(getattr(session.metal, family)))

    macos = int(platform.mac_ver()[0].partition(".")[0] or 0)
    native = set(MetalRenderer.type_names)
    if macos < _MACOS_OF_BFLOAT or not any(map(is_of, _BFLOAT_FAMILIES)):
        native.remove(dtypes.bfloat16)
    tiles = GROUPS["APPLE"] if is_of(_MATRIX_FAMILY) else ()
    group = device.maxThreadsPerThreadgroup()
    return Capabilities(
        dtypes=frozenset(native),
        emulated=frozenset({*dtypes.fp8s, dtypes.bfloat16} - native),
        ops=METAL_OPS,
        vector_lanes=(1, 2, 4),
        has_grid=True,
        has_groups=True,
        shared_bytes=device.maxThreadgroupMemoryLength(),
        group_limit=(group.width, group.height, group.depth),
        group_size_limit=group.width,
        buffer_limit=MAX_BUFFERS,
        matrix_tiles=tuple(tile for tile in tiles if tile.dtype_in in native),
        # Those of float32 may become zero (MSL, 8.1), and do on the GPUs of Apple.
        keeps_subnormals=False,
        # It is undefined (C++14, 5.6), which a compiler may make anything of.
        division_traps=True,
        is_single=is_last,
    )
