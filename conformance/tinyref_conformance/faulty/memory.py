"""Devices that write wrongly."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tinyref import config
from tinyref.interpret import Access, Hooks
from tinyref.runtimes.host_memory import HostHandle
from tinyref.runtimes.python import Extents, InterpretedKernel
from tinyref.uops.program import Program
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel


def _skip_last(access: Access) -> Access:
    lanes = access.value.shape[-1] if access.node.src[1].dtype.lanes > 1 else 1
    gate = access.index + lanes < access.size
    if access.gate is not None:
        gate = np.logical_and(gate, access.gate)
    return dataclasses.replace(access, gate=gate)


class OffByOneTail(BrokenBackend):
    """Launches one work-item too few: the last element of every output is not written."""

    @property
    def hooks(self) -> Hooks:
        return Hooks(store=_skip_last)


def _drop_gate(access: Access) -> Access:
    return dataclasses.replace(access, gate=None)


class UncheckedKernel(BrokenKernel):
    """Runs without the sanitizer, which would report the fault before the suite could."""

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        with config.Context(SANITIZE=0):
            return super().__call__(buffers, grid, group, variables, wait)


class GatedStoreIgnored(BrokenBackend):
    """Ignores the gate of a store: what should not be written is."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return UncheckedKernel(self.name, healthy.program, self.wrong, Hooks(store=_drop_gate))


class _StaleKernel(BrokenKernel):
    """Remembers what its first launch wrote, and gives that again."""

    def __init__(self, device: str, program: Program) -> None:
        super().__init__(device, program, {}, Hooks())
        self._written: list[tuple[int, HostHandle]] = []

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        if self._written:
            for place, old in self._written:
                buffers[place][: old.size] = old
            return 0.0 if wait else None
        seconds = super().__call__(buffers, grid, group, variables, wait)
        for place, parameter in enumerate(self.program.parameters):
            if parameter.is_written:
                nbytes = parameter.size * parameter.dtype.itemsize
                self._written.append((place, buffers[place][:nbytes].copy()))
        return seconds


class StaleOutput(BrokenBackend):
    """Gives the results of a kernel's first launch again when it is launched with other inputs."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return _StaleKernel(self.name, healthy.program)
