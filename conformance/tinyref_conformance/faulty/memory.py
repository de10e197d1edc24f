"""Devices that write wrongly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyref.interpret import Access, Hooks
from tinyref.runtimes.host.memory import HostHandle
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel, UncheckedKernel


def _skip_last(access: Access) -> Access:
    lanes = access.value.shape[-1] if access.node.src[1].dtype.lanes > 1 else 1
    gate = access.index + lanes < access.size
    if access.gate is not None:
        gate = np.logical_and(gate, access.gate)
    return dataclasses.replace(access, gate=gate)


class OffByOneTail(BrokenBackend):
    """Launches one work-item too few: the last element of every output is not written."""

    hooks = Hooks(store=_skip_last)


def _drop_gate(access: Access) -> Access:
    return dataclasses.replace(access, gate=None)


class GatedStoreIgnored(BrokenBackend):
    """Ignores the gate of a store: what should not be written is."""

    kernel = UncheckedKernel
    hooks = Hooks(store=_drop_gate)


class _StaleKernel(BrokenKernel):
    """Remembers what its first launch wrote, and gives that again."""

    written: Mapping[int, HostHandle] | None = None

    def __call__(self, buffers: Sequence[HostHandle], *more: Any, **named: Any) -> float | None:
        seconds = super().__call__(buffers, *more, **named)
        if self.written is None:
            self.written = {
                place: buffers[place][: parameter.size * parameter.dtype.itemsize].copy()
                for place, parameter in enumerate(self.program.parameters)
                if parameter.is_written
            }
        for place, old in self.written.items():
            buffers[place][: old.size] = old
        return seconds


class StaleOutput(BrokenBackend):
    """Gives the results of a kernel's first launch again when it is launched with other inputs."""

    kernel = _StaleKernel
