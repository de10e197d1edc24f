"""One opened GPU of the Metal framework: its queue of command buffers, libraries and pipelines.

Source of every call: developer.apple.com/documentation/metal; pyobjc spells a selector with `_` for
each `:`, and gives what a call writes through a pointer, such as its NSError, after its result.
"""

from __future__ import annotations

import importlib
import platform
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.drivers import DriverProcess

# Command buffers whose end nobody has looked at yet; a queue has 64 of them by default.
MAX_PENDING = 48

PROCESS = DriverProcess("Metal")


def framework(name: str) -> Any:
    """The module Metal of pyobjc.

    Raises `DeviceError` where it is missing, saying what is needed, and in a process that was
    forked off one that had asked for a GPU.
    """
    PROCESS.check(name)
    try:
        return importlib.import_module("Metal")
    except ImportError as error:
        reason = f"its bindings are missing: pip install '.[metal]' in a clone of tinyref ({error})"
        if platform.system() != "Darwin":
            reason = (
                f"Metal is part of macOS, and this is {platform.system()}: "
                "pip install '.[metal]' in a clone of tinyref on a Mac, or take METAL_EMU"
            )
        raise DeviceError(name, reason) from error


def devices(name: str) -> list[Any]:
    """All GPUs of this Mac, the preferred one first. Raises `DeviceError` where there is none."""
    metal = framework(name)
    PROCESS.is_started = True
    preferred = metal.MTLCreateSystemDefaultDevice()
    found = [] if preferred is None else [preferred]
    known = {device.registryID() for device in found}
    found += [each for each in metal.MTLCopyAllDevices() if each.registryID() not in known]
    if not found:
        raise DeviceError(name, "macOS has no GPU for Metal here, as in some virtual machines")
    return found


class Session:
    """A GPU and its queue, in which command buffers are done in the order of their commits.

    `name` is that of errors.
    """

    def __init__(self, name: str, device: Any) -> None:
        self.name = name
        self.metal = framework(name)
        self.device = device
        self._queue = self._new_queue()
        self._pending: deque[Any] = deque()
        self._lock = threading.RLock()

    def _new_queue(self) -> Any:
        queue = self.device.newCommandQueue()
        if queue is None:
            raise DeviceError(self.name, "Metal gives no command queue")
        return queue

    @property
    def options(self) -> Any:
        """Safe mode and precise functions, by the older name before macOS 15.

        Other modes reassociate, which no flag asks for; contraction is a pragma of the text.
        """
        options = self.metal.MTLCompileOptions.alloc().init()
        if hasattr(options, "setMathMode_"):
            options.setMathMode_(self.metal.MTLMathModeSafe)
            options.setMathFloatingPointFunctions_(self.metal.MTLMathFloatingPointFunctionsPrecise)
        else:
            options.setFastMathEnabled_(False)
        return options

    def library(self, source: str) -> Any:
        """The compiled text. Raises `DeviceError` with the compiler's words and the text."""
        PROCESS.check(self.name)
        library, error = self.device.newLibraryWithSource_options_error_(source, self.options, None)
        if library is None:
            raise DeviceError(self.name, f"MSL does not compile: {words_of(error)}", source)
        return library

    def pipeline(self, library: Any, entry: str) -> Any:
        """What launches a kernel. Raises `DeviceError` where the library has none of that name."""
        function = library.newFunctionWithName_(entry)
        if function is None:
            raise DeviceError(self.name, f"the source has no kernel {entry}")
        pipeline, error = self.device.newComputePipelineStateWithFunction_error_(function, None)
        if pipeline is None:
            raise DeviceError(self.name, f"{entry} has no pipeline: {words_of(error)}")
        return pipeline

    def pool(self) -> AbstractContextManager[Any]:
        """Where objects that Metal gives away live: a thread of Python has no pool of its own."""
        found: AbstractContextManager[Any] = importlib.import_module("objc").autorelease_pool()
        return found

    def command_buffer(self) -> Any:
        """An empty command buffer of the queue, to be asked for within a pool."""
        PROCESS.check(self.name)
        with self._lock:
            if len(self._pending) >= MAX_PENDING:
                self.finish()
            found = self._queue.commandBuffer()
        if found is None:
            raise DeviceError(self.name, "Metal gives no command buffer")
        return found

    def commit(self, commands: Any) -> None:
        """Queues what a command buffer has."""
        with self._lock:
            self._pending.append(commands)
            commands.commit()

    def finish(self) -> None:
        """Waits for all that is queued.

        Raises `DeviceError` for the first launch that failed. The queue is another one afterwards:
        Metal ignores what is given to one after an error that its GPU blames on this process.
        """
        PROCESS.check(self.name)
        with self._lock:
            pending, self._pending = self._pending, deque()
            for commands in pending:
                commands.waitUntilCompleted()
            failed = _failed(pending, self.metal.MTLCommandBufferStatusError)
            if failed is not None:
                self._queue = self._new_queue()
                raise DeviceError(self.name, f"a launch failed: {words_of(failed.error())}")


def _failed(pending: Sequence[Any], status: Any) -> Any:
    return next((each for each in pending if each.status() == status), None)


def words_of(error: Any) -> str:
    """What an NSError says."""
    return "no reason is given" if error is None else str(error.localizedDescription())
