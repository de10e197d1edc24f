"""Devices that write wrongly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyref.interpret import Access, Hooks
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref_conformance.faulty.broken import Array, BrokenBackend, BrokenKernel, UncheckedKernel


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


def _extend_by_zeros(access: Access) -> Array:
    is_signed = access.value.dtype in (np.int8, np.int16)
    if access.gate is None or not is_signed:
        return access.value
    bits = access.value.view(f"u{access.value.dtype.itemsize}")
    return bits.astype(np.int32)


class UnsignedGatedLoads(BrokenBackend):
    """Takes the path of unsigned loads where a load has a gate: registers lose signs of int8."""

    hooks = Hooks(load=_extend_by_zeros)


_SEGMENT_BYTES = 1 << 16


def _wrap_address(access: Access) -> Access:
    elements = _SEGMENT_BYTES // access.value.dtype.itemsize
    return dataclasses.replace(access, index=access.index % elements)


class WrappedAddresses(BrokenBackend):
    """Adds offsets of 16 bits to the base of a buffer: stores beyond 64 KiB lie at its start."""

    kernel = UncheckedKernel
    hooks = Hooks(store=_wrap_address)


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


class _CopiesWords(HostAllocator):
    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        size = destination.nbytes
        whole = size - size % 4 if size > _PAGE_BYTES else size
        super().copy_out(destination.cast("B")[:whole], handle[:whole])


_PAGE_BYTES = 4096


class CopiesOfWords(BrokenBackend):
    """Reads more than a page back by words: the last bytes of what is no whole word are lost."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = _CopiesWords(self.name)


class _ShortOffsets(HostAllocator):
    def view(self, handle: HostHandle, offset: int, nbytes: int) -> HostHandle:
        return super().view(handle, offset % _SEGMENT_BYTES, nbytes)


class ShortOffsets(BrokenBackend):
    """Keeps the low 16 bits of the offset of a view: those beyond 64 KiB are of other elements."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = _ShortOffsets(self.name)


def _low_bit(access: Access) -> Array:
    if access.value.dtype != np.bool_:
        return access.value
    return (np.asarray(access.value).view(np.uint8) & 1).view(np.bool_)


class LowBitBools(BrokenBackend):
    """Takes the lowest bit of a byte for a bool: 2 is false."""

    hooks = Hooks(load=_low_bit)
