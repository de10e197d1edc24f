"""The OpenCL driver of one device: context, in-order queue, programs; pyopencl is imported here.

Everything that pyopencl raises leaves this module as a `DeviceError` with the driver's words.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.drivers import DriverProcess

# Waiting launches whose end nobody has looked at yet: more than these are waited for.
MAX_PENDING = 256


PROCESS = DriverProcess("OpenCL")


def pyopencl(name: str) -> Any:
    """The module pyopencl.

    Raises `DeviceError` where it is not installed, and in a process that was forked off one that
    had asked a driver: its contexts and threads are not there.
    """
    PROCESS.check(name)
    # Compiled programs are kept by tinyref and by drivers: a third cache only takes space.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        return importlib.import_module("pyopencl")
    except ImportError as error:
        raise DeviceError(
            name,
            f"pyopencl does not import: pip install '.[opencl]' in a clone of tinyref ({error})",
        ) from error


def platforms(name: str) -> list[Any]:
    """The platforms of all drivers, in their order. Raises `DeviceError` where there is none."""
    cl = pyopencl(name)
    PROCESS.is_started = True
    try:
        return list(cl.get_platforms())
    except cl.Error as error:
        folder = os.environ.get("OCL_ICD_VENDORS")
        where = f"; OCL_ICD_VENDORS is {folder}" if folder else ""
        raise DeviceError(
            name,
            f"no OpenCL driver (ICD) is found{where}: install one, such as pocl-opencl-icd "
            f"({error})",
        ) from error


def devices_of(name: str, platform: Any) -> list[Any]:
    """The devices of a platform that compile kernels; none where the driver has none."""
    try:
        found = list(platform.get_devices())
    except pyopencl(name).Error:
        return []
    return [device for device in found if device.available and device.compiler_available]


class Session:
    """One opened device: its context and its queue, in which all happens in the order of calls.

    `name` is that of errors, `options` are given to the driver's compiler.
    """

    def __init__(self, name: str, device: Any, options: Sequence[str]) -> None:
        self.name = name
        self.device = device
        self.options = tuple(options)
        self.cl = pyopencl(name)
        with self.errors("cannot open the device"):
            self.context = self.cl.Context([device])
            profiling = self.cl.command_queue_properties.PROFILING_ENABLE
            self.queue = self.cl.CommandQueue(self.context, device, properties=profiling)
        self._pending: deque[Any] = deque()
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def errors(self, what: str, source: str = "") -> Iterator[None]:
        """Makes errors of pyopencl `DeviceError`s: "what: the driver's words"."""
        PROCESS.check(self.name)
        try:
            yield
        except (self.cl.Error, MemoryError) as error:
            raise DeviceError(self.name, f"{what}: {_words(error)}", source) from error

    def build(self, source: str) -> Any:
        """The built program of a source text. Raises `DeviceError` with the log and the source."""
        with self.errors("the driver does not build the program", source):
            return self.cl.Program(self.context, source).build(options=list(self.options))

    def kernel(self, program: Any, entry: str) -> Any:
        """A kernel of a program. Raises `DeviceError` where it has none of that name."""
        with self.errors(f"no kernel {entry}"):
            return self.cl.Kernel(program, entry)

    def launch(self, kernel: Any, sizes: Sequence[int], group: Sequence[int]) -> Any:
        """Queues a launch of `sizes` work-items, its arguments set; gives its event.

        Its errors carry no source: that is what errors of the compiler do.
        """
        event = self.cl.enqueue_nd_range_kernel(self.queue, kernel, tuple(sizes), tuple(group))
        with self._lock:
            self._pending.append(event)
        if len(self._pending) > MAX_PENDING:
            self.finish()
        return event

    def finish(self) -> None:
        """Waits for all that is queued. Raises `DeviceError` for a launch that failed."""
        with self.errors("a launch failed"):
            self.queue.finish()
            with self._lock:
                pending, self._pending = self._pending, deque()
            for event in pending:
                event.wait()


def _words(error: BaseException) -> str:
    """What the driver said; pyopencl repeats the name of the call, with dashes between."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = " - ".join(dict.fromkeys(lines[0].split(" - "))) if lines else type(error).__name__
    return "\n".join([first, *lines[1:]])
