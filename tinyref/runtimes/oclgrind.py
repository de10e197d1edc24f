"""The OCLGRIND device: OpenCL on the simulator of that name, whose messages are errors.

Oclgrind reports accesses out of bounds, data races, barriers that not all work-items of a group
reach, uninitialised values, and what it cannot simulate. A launch with reports still succeeds for
its caller, so this module waits for each launch and reads its part of the log.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import BufferPart
from tinyref.runtimes.opencl_backend import (
    PROCESS,
    SIMULATOR,
    OpenCLAllocator,
    OpenCLBackend,
    Session,
)

# Its driver library: packages install it beside the list of drivers, not in the list.
DRIVERS = (
    "/usr/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/liboclgrind-rt-icd.so",
)
VENDORS = "OCL_ICD_VENDORS"
SYSTEM_LIST = Path("/etc/OpenCL/vendors")
LOG = "OCLGRIND_LOG"
# After this many messages it falls silent for good; later launches are then refused.
LIMIT = "OCLGRIND_MAX_ERRORS"
MAX_MESSAGES = "100000"
SILENT = "suppressing further errors"
# Additional checks. Oclgrind reads the variables when its devices are listed and when a context is
# made; variables that are set already stay unchanged.
SETTINGS = {
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_UNINITIALIZED": "1",
    LIMIT: MAX_MESSAGES,
    # It uses only the lowest 32 bits of the number.
    "OCLGRIND_GLOBAL_MEM_SIZE": str(2**32 - 4096),
}
# Its record of written bytes outlives a buffer and then applies to the next one at that address
# (21.10; docs/found.md): this many small buffers are never freed.
SMALL_BYTES = 2**16
MAX_UNFREED = 50_000
# An error contains this many characters of the messages of a broken kernel.
MESSAGE_CHARACTERS = 4000


@contextlib.contextmanager
def _listed_beside_others() -> Iterator[None]:
    """Add it to the list of drivers while a process reads the list, which happens once."""
    driver = next(filter(os.path.exists, DRIVERS), None)
    if driver is None or PROCESS.is_started or VENDORS in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tinyref-drivers-") as folder:
        for listed in SYSTEM_LIST.glob("*.icd"):
            shutil.copy(listed, folder)
        Path(folder, "oclgrind.icd").write_text(f"{driver}\n")
        os.environ[VENDORS] = folder
        try:
            yield
        finally:
            del os.environ[VENDORS]


class OclgrindSession(Session):
    """A session whose launches fail if the simulator reports anything."""

    def __init__(self, name: str, device: Any, options: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tinyref-oclgrind-")
        self._log = Path(self._folder.name) / "log"
        self._read = 0
        self._is_silent = False
        # Oclgrind reads it when a context is made.
        os.environ[LOG] = str(self._log)
        super().__init__(name, device, options)

    def launch(self, kernel: Any, sizes: Sequence[int], group: Sequence[int]) -> Any:
        if self._is_silent:
            raise DeviceError(
                self.name,
                f"after {os.environ[LIMIT]} messages it reports no more: open the device again",
            )
        event = super().launch(kernel, sizes, group)
        self.finish()
        said = self._messages()
        if said:
            self._is_silent = SILENT in said
            raise DeviceError(self.name, f"reports:\n{said[:MESSAGE_CHARACTERS]}")
        return event

    def _messages(self) -> str:
        """Return its messages since the last call."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(self._read)
            said = file.read()
        self._read += len(said)
        return said.decode(errors="replace").strip()


class OclgrindAllocator(OpenCLAllocator):
    """An allocator that makes the simulator's record of written bytes trustworthy."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._unfreed: list[BufferPart] = []

    def allocate(self, nbytes: int) -> BufferPart:
        """Allocate memory; mark all of it as written if its address may be used again."""
        memory = super().allocate(nbytes)
        if nbytes <= SMALL_BYTES and len(self._unfreed) < MAX_UNFREED:
            self._unfreed.append(memory)
        else:
            super().copy_in(memory, memoryview(bytes(nbytes)))
        return memory

    def free(self, handle: BufferPart) -> None:
        if handle.nbytes > SMALL_BYTES:
            super().free(handle)

    def copy_in(self, handle: BufferPart, source: memoryview) -> None:
        """Write the whole buffer: the simulator takes any host write for one of all of it."""
        whole = BufferPart(handle.buffer, 0, handle.buffer.size)
        if source.nbytes == whole.nbytes or source.nbytes > handle.nbytes or not source.nbytes:
            super().copy_in(handle, source)
            return
        data = bytearray(whole.nbytes)
        self.copy_out(memoryview(data), whole)
        data[handle.offset : handle.offset + source.nbytes] = source
        super().copy_in(whole, memoryview(data))


class OclgrindBackend(OpenCLBackend):
    """OpenCL C with checks; it is as slow as an interpreter."""

    title = "OpenCL simulator with checks (Oclgrind)"
    environment = (*OpenCLBackend.environment, *SETTINGS)
    base = "OCLGRIND"
    nothing_found = (
        "Oclgrind is not among the OpenCL drivers of this process: apt-get install oclgrind; "
        f"if you also use other drivers, let {VENDORS} name a folder that lists it too"
    )
    session_class = OclgrindSession
    allocator_class = OclgrindAllocator
    # It simulates the output of its own optimiser wrongly or not at all: rotations, frozen values,
    # vectors of single bits (21.10; docs/found.md).
    options = ("-cl-opt-disable",)

    @classmethod
    def serves(cls, platform: Any) -> bool:
        return bool(platform.name == SIMULATOR)

    @classmethod
    def devices(cls) -> list[Any]:
        for variable, value in SETTINGS.items():
            os.environ.setdefault(variable, value)
        with _listed_beside_others():
            return super().devices()

    @property
    def capabilities(self) -> Capabilities:
        # It takes bytes copied from a buffer to an image for not written: docs/found.md.
        return replace(super().capabilities, is_interpreted=True, images=False)
