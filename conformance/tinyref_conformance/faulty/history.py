"""Devices of which each case is right alone: what ran before it makes it wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinyref.errors import DeviceError
from tinyref.interpret import Hooks
from tinyref.interpret.translate import Override
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.python import InterpretedKernel
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.arithmetic import FlushedSubnormals
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel

MAX_PIECES = 202


class StaleKernels(BrokenBackend):
    """Keeps the kernels that it loaded by their names alone."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._loaded: dict[str, InterpretedKernel] = {}

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        return self._loaded.setdefault(entry, super().load(entry, binary))


class _Overlapping(HostAllocator):
    """Has room for so many pieces; then each lies over the one before it."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._count = 0
        self._last = super().allocate(0)

    def allocate(self, nbytes: int) -> HostHandle:
        self._count += 1
        if self._count <= MAX_PIECES or self._last.size < nbytes:
            self._last = super().allocate(nbytes)
        return self._last[:nbytes]


class OverlappingMemory(BrokenBackend):
    """Gives pieces of memory that overlap, once it has given two hundred."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = _Overlapping(self.name)


class _StatefulKernel(BrokenKernel):
    """A kernel that looks at what its device has done."""

    device_state: Any


class _Stateful(BrokenBackend):
    """Gives itself to each kernel that it loads."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        found = super().load(entry, binary)
        assert isinstance(found, _StatefulKernel), "a subclass has the kernel of its class"
        found.device_state = self
        return found


class _CountedKernel(_StatefulKernel):
    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        self.device_state.launches += 1
        if self.device_state.launches >= self.device_state.max_launches:
            raise DeviceError(self.device, "out of resources")
        return super().__call__(*arguments, **named)


class LeakingLaunches(_Stateful):
    """Keeps something of every launch, and has no room for the five-hundredth."""

    kernel = _CountedKernel
    launches = 0
    max_launches = 500


class _ModalKernel(_StatefulKernel):
    """Is right, or computes in the mode that a kernel before it left."""

    def __init__(
        self, device: str, program: Program, wrong: Mapping[Ops, Override], hooks: Hooks
    ) -> None:
        super().__init__(device, program, {}, hooks)
        self.flushing = BrokenKernel(device, program, wrong, hooks)

    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        if self.device_state.is_left:
            return self.flushing(*arguments, **named)
        self.device_state.is_left = any(node.op is Ops.SQRT for node in self.program.uops)
        return super().__call__(*arguments, **named)


class LeftMode(_Stateful):
    """A square root leaves the mode behind in which subnormals are zero."""

    wrong = FlushedSubnormals.wrong
    kernel = _ModalKernel
    is_left = False
