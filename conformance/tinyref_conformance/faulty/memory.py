"""Devices that read or write memory wrongly."""

from __future__ import annotations

import dataclasses
import functools
import re
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.errors import DeviceError
from tinyref.interpret import Access, Hooks
from tinyref.runtimes.host.memory import HostHandle, address_of
from tinyref.runtimes.python import InterpretedKernel, TextCompiler
from tinyref_conformance.faulty.device import (
    Array,
    Call,
    FaultyDevice,
    Simulated,
    SimulatedKernel,
)
from tinyref_spec.case import Rung

_SEGMENT_BYTES = 1 << 16
_PAGE_BYTES = 4096
_BLOCK_BYTES = 1 << 15
_MAX_PIECES = 202
_edited = dataclasses.replace


def _skip_last(access: Access) -> Access:
    lanes = access.value.shape[-1] if access.node.src[1].dtype.lanes > 1 else 1
    gate = access.index + lanes < access.size
    return _edited(access, gate=gate if access.gate is None else gate & access.gate)


def _extend_by_zeros(access: Access) -> Array:
    is_signed = access.value.dtype in (np.int8, np.int16)
    if access.gate is None or not is_signed:
        return access.value
    return access.value.view(f"u{access.value.dtype.itemsize}").astype(np.int32)


def _wrap_address(access: Access) -> Access:
    return _edited(access, index=access.index % (_SEGMENT_BYTES // access.value.dtype.itemsize))


def _low_bit(access: Access) -> Array:
    if access.value.dtype != np.bool_:
        return access.value
    return (np.asarray(access.value).view(np.uint8) & 1).view(np.bool_)


def _copies_of_words(device: Simulated) -> dict[str, Call]:
    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        size = destination.nbytes
        whole = size - size % 4 if size > _PAGE_BYTES else size
        device.memory.copy_out(destination.cast("B")[:whole], handle[:whole])

    return {"copy_out": copy_out}


def _short_offsets(device: Simulated) -> dict[str, Call]:
    def view(handle: HostHandle, offset: int, nbytes: int) -> HostHandle:
        return device.memory.view(handle, offset % _SEGMENT_BYTES, nbytes)

    return {"view": view}


def _offsets_of_words(device: Simulated) -> dict[str, Call]:
    def view(handle: HostHandle, offset: int, nbytes: int) -> HostHandle:
        return device.memory.view(handle, offset % (1 << 32), nbytes)

    return {"view": view}


def _short_of_unaligned(device: Simulated) -> dict[str, Call]:
    def copy_in(handle: HostHandle, source: memoryview) -> None:
        is_lost = source.nbytes > _BLOCK_BYTES and address_of(handle) % 4
        device.memory.copy_in(handle, source[: source.nbytes - 1] if is_lost else source)

    return {"copy_in": copy_in}


def _overlapping(device: Simulated) -> dict[str, Call]:
    pieces = [device.memory.allocate(0)]

    def allocate(nbytes: int) -> HostHandle:
        if len(pieces) <= _MAX_PIECES or pieces[-1].size < nbytes:
            pieces.append(device.memory.allocate(nbytes))
        return pieces[-1][:nbytes]

    return {"allocate": allocate}


def _stale_output(kernel: SimulatedKernel) -> Call:
    healthy, written = kernel.run, dict[int, Array]()

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        seconds = healthy(buffers, *rest)
        for position, parameter in enumerate(kernel.program.parameters):
            if parameter.is_written:
                part = buffers[position][: parameter.size * parameter.dtype.itemsize]
                part[:] = written.setdefault(position, part.copy())
        return seconds

    return run


def _refusing(pattern: str) -> dict[str, Call]:
    """Return a `load` that raises if `pattern` matches the name or the text of a kernel."""

    def load(self: Simulated, entry: str, binary: bytes) -> InterpretedKernel:
        error = re.search(pattern, entry + " " + binary.decode())
        if error:
            raise DeviceError(self.name, f"syntax error at {error[0]!r}", binary.decode())
        return Simulated.load(self, entry, binary)

    return {"load": load}


def _load_once(self: Simulated, entry: str, binary: bytes) -> InterpretedKernel:
    loaded: dict[str, InterpretedKernel] = self.__dict__.setdefault("loaded", {})
    return loaded.setdefault(entry, Simulated.load(self, entry, binary))


def _load_by_address(self: Simulated, entry: str, binary: bytes) -> InterpretedKernel:
    """Take a kernel for one that was released, if it has the same name and is as long."""
    released: dict[tuple[str, int], bytes] = self.__dict__.setdefault("released", {})
    key = entry, len(binary)
    kernel = Simulated.load(self, entry, released.pop(key, binary))
    weakref.finalize(kernel, released.__setitem__, key, binary).atexit = False
    return kernel


def _without_add(self: Simulated) -> Capabilities:
    declared: Capabilities = Simulated.capabilities.func(self)  # type: ignore[attr-defined]
    return _edited(declared, ops=declared.ops - {"ADD"})


class _ReversingCompiler(TextCompiler):
    def compile_many(self, sources: Sequence[str]) -> list[bytes]:
        return [self.compile(source) for source in reversed(sources)]


FAULTS = (
    FaultyDevice(
        name="MissingCore",
        sentence="Does not declare ADD, which every device must have.",
        clause="memory.open",
        rung=Rung.OPEN,
        methods={"capabilities": property(_without_add)},
    ),
    FaultyDevice(
        name="MissingFloat16",
        sentence="Declares float16, and compiles no kernel that has it.",
        clause="device.capability",
        rung=Rung.ONE_ALU,
        methods=_refusing(r"\bfloat16\b"),
    ),
    FaultyDevice(
        name="CopiesOfWords",
        sentence="Reads more than a page back by words, and loses the last bytes.",
        clause="memory.copy",
        rung=Rung.MEMORY,
        memory=_copies_of_words,
    ),
    FaultyDevice(
        name="ShortOffsets",
        sentence="Keeps the low 16 bits of the offset of a view.",
        clause="memory.view",
        rung=Rung.MEMORY,
        memory=_short_offsets,
    ),
    FaultyDevice(
        name="OffsetsOfWords",
        sentence="Keeps the low 32 bits of the offset of a view.",
        clause="memory.view",
        rung=Rung.MEMORY,
        memory=_offsets_of_words,
    ),
    FaultyDevice(
        name="ShortOfUnaligned",
        sentence="Loses the last byte of a copy of more than 32 KiB to an unaligned place.",
        clause="memory.copy",
        rung=Rung.MEMORY,
        memory=_short_of_unaligned,
    ),
    FaultyDevice(
        name="OverlappingMemory",
        sentence="Gives pieces of memory that overlap, once it has given two hundred.",
        clause="memory.allocate",
        memory=_overlapping,
    ),
    FaultyDevice(
        name="OffByOneTail",
        sentence="Launches one work-item too few: the last element of every output is not written.",
        clause="isa.store",
        rung=Rung.STORE,
        hooks=Hooks(store=_skip_last),
    ),
    FaultyDevice(
        name="SwappedResults",
        sentence="Returns the results of several sources in one call in the wrong order.",
        clause="device.together",
        rung=Rung.STORE,
        methods={"compiler": _ReversingCompiler()},
    ),
    FaultyDevice(
        name="StaleKernels",
        sentence="Keeps the kernels that it loaded by their names alone.",
        clause="isa.const",
        methods={"load": _load_once},
    ),
    FaultyDevice(
        name="KernelsByAddress",
        sentence="Takes a kernel for a released one of its name and length.",
        clause="isa.const",
        rung=Rung.STORE,
        methods={"load": _load_by_address},
    ),
    FaultyDevice(
        name="StaleOutput",
        sentence="Gives the results of a kernel's first launch again, whatever its inputs are.",
        clause="memory.launch",
        rung=Rung.ONE_ALU,
        launch=_stale_output,
    ),
    FaultyDevice(
        name="BuiltInNames",
        sentence="Takes kernels by names, some of which are built-ins of its language.",
        clause="kernel.name",
        rung=Rung.ONE_ALU,
        methods=_refusing(r"^(rotate|dot|select|half|kernel|sample) "),
    ),
    FaultyDevice(
        name="WrappedAddresses",
        sentence="Stores at offsets of 16 bits: what lies beyond 64 KiB goes to the start.",
        clause="kernel.index",
        rung=Rung.INDEX,
        sanitize=False,
        hooks=Hooks(store=_wrap_address),
    ),
    FaultyDevice(
        name="LowBitBools",
        sentence="Takes the lowest bit of a byte for a bool: 2 is false.",
        clause="memory.bool",
        rung=Rung.ALU,
        hooks=Hooks(load=_low_bit),
    ),
    FaultyDevice(
        name="GatedStoreIgnored",
        sentence="Ignores the gate of a store, and writes what should not be written.",
        clause="memory.gate.store",
        rung=Rung.GATE,
        sanitize=False,
        hooks=Hooks(store=functools.partial(_edited, gate=None)),
    ),
    FaultyDevice(
        name="UnsignedGatedLoads",
        sentence="Loads signed bytes with a gate as unsigned ones.",
        clause="memory.gate.load",
        rung=Rung.GATE,
        hooks=Hooks(load=_extend_by_zeros),
    ),
)
