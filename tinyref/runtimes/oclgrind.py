"""The OCLGRIND device: OpenCL on the simulator of that name, whose messages are errors.

Oclgrind reports accesses out of bounds, data races, barriers that not all work-items of a group
reach, values that nobody wrote, and what it cannot simulate. A launch of which it reports anything
still ends well for its caller, so each launch is waited for and its part of the log is read.
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

# The library that is its driver: packages put it beside the list of drivers, not on it.
DRIVERS = (
    "/usr/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/liboclgrind-rt-icd.so",
)
VENDORS = "OCL_ICD_VENDORS"
SYSTEM_LIST = Path("/etc/OpenCL/vendors")
LOG = "OCLGRIND_LOG"
# After so many messages it falls silent for good: no launch is believed then.
LIMIT = "OCLGRIND_MAX_ERRORS"
MAX_MESSAGES = "100000"
SILENT = "suppressing further errors"
# What it checks beside what it always does, looked at as its devices are listed and as a context is
# made; a variable that is set stays as it is.
SETTINGS = {
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_UNINITIALIZED": "1",
    LIMIT: MAX_MESSAGES,
    # It keeps the lowest 32 bits of the number.
    "OCLGRIND_GLOBAL_MEM_SIZE": str(2**32 - 4096),
}
# Its memory of which bytes were written outlives a buffer and then holds for the next one at that
# address (21.10; docs/found.md): so many small buffers are never given back.
SMALL_BYTES = 2**16
MAX_KEPT = 50_000
# Of what a broken kernel makes it say, an error carries so much.
SHOWN = 4000


@contextlib.contextmanager
def _listed_beside_others() -> Iterator[None]:
    """Has it among the drivers while a process looks for them, which is done once."""
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
    """A session whose launches fail for what the simulator says of them."""

    def __init__(self, name: str, device: Any, options: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tinyref-oclgrind-")
        self._log = Path(self._folder.name) / "log"
        self._read = 0
        self._is_silent = False
        # Looked at as a context is made.
        os.environ[LOG] = str(self._log)
        super().__init__(name, device, options)

    def launch(self, kernel: Any, sizes: Sequence[int], group: Sequence[int]) -> Any:
        if self._is_silent:
            raise DeviceError(
                self.name,
                f"after {os.environ[LIMIT]} messages it says no more: open it anew",
            )
        event = super().launch(kernel, sizes, group)
        self.finish()
        said = self._messages()
        if said:
            self._is_silent = SILENT in said
            raise DeviceError(self.name, f"reports:\n{said[:SHOWN]}")
        return event

    def _messages(self) -> str:
        """What it said since it was asked last."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(self._read)
            said = file.read()
        self._read += len(said)
        return said.decode(errors="replace").strip()


class OclgrindAllocator(OpenCLAllocator):
    """Memory whose written bytes the simulator keeps account of, where that can be trusted."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._kept: list[BufferPart] = []

    def allocate(self, nbytes: int) -> BufferPart:
        """Where an address may come again all of the memory counts as written."""
        memory = super().allocate(nbytes)
        if nbytes <= SMALL_BYTES and len(self._kept) < MAX_KEPT:
            self._kept.append(memory)
        else:
            super().copy_in(memory, memoryview(bytes(nbytes)))
        return memory

    def free(self, handle: BufferPart) -> None:
        if handle.nbytes > SMALL_BYTES:
            super().free(handle)

    def copy_in(self, handle: BufferPart, source: memoryview) -> None:
        """All of a buffer, for what the host writes is taken for all of it."""
        whole = BufferPart(handle.buffer, 0, handle.buffer.size)
        if source.nbytes == whole.nbytes or source.nbytes > handle.nbytes or not source.nbytes:
            super().copy_in(handle, source)
            return
        data = bytearray(whole.nbytes)
        self.copy_out(memoryview(data), whole)
        data[handle.offset : handle.offset + source.nbytes] = source
        super().copy_in(whole, memoryview(data))


class OclgrindBackend(OpenCLBackend):
    """OpenCL C under checks; it is slow, as an interpreter is."""

    title = "OpenCL simulator with checks (Oclgrind)"
    environment = (*OpenCLBackend.environment, *SETTINGS)
    base = "OCLGRIND"
    nothing_found = (
        "Oclgrind is not among the OpenCL drivers of this process: apt-get install oclgrind, and "
        f"where other drivers are used beside it, let {VENDORS} name a folder that lists it too"
    )
    session_class = OclgrindSession
    allocator_class = OclgrindAllocator
    # What its own optimiser makes of kernels it simulates wrongly or not at all: rotations, frozen
    # values, vectors of single bits (21.10; docs/found.md).
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
        # What is copied from a buffer to an image counts as not written: docs/found.md.
        return replace(super().capabilities, is_interpreted=True, images=False)
