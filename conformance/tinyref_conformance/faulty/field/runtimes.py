"""Faults of runtimes: allocators, streams, copies, recorded launches and caches of modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyref.contract import Handle, Launch
from tinyref.device import Buffer
from tinyref.dtype import dtypes
from tinyref.runtimes.host.memory import HostAllocator, HostHandle, address_of
from tinyref.runtimes.kernel import LaunchesInARow
from tinyref.runtimes.python import InterpretedKernel
from tinyref.tensor import Tensor
from tinyref.tensor.jit.calls import TinyJit
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_conformance.faulty.device import Call, Simulated, SimulatedKernel
from tinyref_conformance.faulty.field.fault import (
    DirectProgram,
    FaultKind,
    FieldFault,
    field_device,
)
from tinyref_conformance.faulty.queues import Postponed
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.programs import at, program

_CHUNK = 128


def _load_by_name(self: Simulated, entry: str, binary: bytes) -> InterpretedKernel:
    loaded: dict[Any, InterpretedKernel] = self.__dict__.setdefault("loaded", {})
    kernel = Simulated.load(self, entry, binary)
    return loaded.setdefault((entry, kernel.program.parameters), kernel)


def _load_for_first_device(self: Simulated, entry: str, binary: bytes) -> InterpretedKernel:
    """Return a kernel that does nothing here if another device has loaded the same one before."""
    owners: dict[tuple[str, bytes], int] = self.owners  # type: ignore[attr-defined]
    kernel = Simulated.load(self, entry, binary)
    if owners.setdefault((entry, binary), self.index) != self.index:
        assert isinstance(kernel, SimulatedKernel), "a simulated device loads simulated kernels"
        kernel.run = lambda *arguments: None
    return kernel


def _zeros_from_peers(device: Simulated) -> dict[str, Call]:
    def transfer(target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        target[:] = 0

    return {"transfer": transfer}


def _late_peers(device: Simulated) -> dict[str, Call]:
    """Let copies from peers arrive when the host waits for their target, not before kernels."""
    pending: list[tuple[HostHandle, HostHandle]] = []

    def transfer(target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        pending.append((target, source.copy()))

    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        for target, content in pending:
            target[:] = content
        pending.clear()
        device.memory.copy_out(destination, handle)

    return {"transfer": transfer, "copy_out": copy_out}


def _reused_under_copies(device: Simulated) -> dict[str, Call]:
    """Freed memory is for the next of its size, though a copy to a peer may still read it."""
    freed: dict[int, list[HostHandle]] = {}
    reused: set[int] = set()
    pending: list[tuple[HostHandle, HostHandle, Call]] = []

    def allocate(nbytes: int) -> HostHandle:
        if not freed.get(nbytes):
            return device.memory.allocate(nbytes)
        handle = freed[nbytes].pop()
        reused.add(address_of(handle))
        return handle

    def free(handle: HostHandle) -> None:
        freed.setdefault(handle.size, []).append(handle)

    def transfer(target: HostHandle, source: HostHandle, origin: Any) -> None:
        target[:] = source
        reused.discard(address_of(source))
        pending.append((target, source, origin.is_reused))

    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        for target, source, is_reused in pending:
            if is_reused(address_of(source)):
                target[:] = source
        pending.clear()
        device.memory.copy_out(destination, handle)

    def is_reused(address: int) -> bool:
        return address in reused

    calls: dict[str, Call] = {"allocate": allocate, "free": free, "is_reused": is_reused}
    return {**calls, "transfer": transfer, "copy_out": copy_out}


def _late_slices(device: Simulated) -> dict[str, Call]:
    """Read parts of host memory when their copy's turn comes, and whole memory at once."""

    def copy_in(handle: HostHandle, source: memoryview) -> None:
        if not source.nbytes or _is_start(source):
            source = memoryview(bytes(source))
        device.queue.put(lambda: device.memory.copy_in(handle, source))

    return {"copy_in": copy_in}


def _is_start(source: memoryview) -> bool:
    whole = np.frombuffer(memoryview(source.obj).cast("B"), np.uint8)
    return bool(whole.ctypes.data == np.frombuffer(source, np.uint8).ctypes.data)


def _unaligned_remainders(device: Simulated) -> dict[str, Call]:
    """Reuse freed pieces for smaller ones; the rest begins at the multiple of 128 below."""
    freed: list[HostHandle] = []

    def allocate(nbytes: int) -> HostHandle:
        for number, piece in enumerate(freed):
            if 0 < nbytes <= piece.size:
                remainder = piece[nbytes - nbytes % _CHUNK :]
                freed[number : number + 1] = [remainder] if piece.size - nbytes > _CHUNK else []
                return piece[:nbytes]
        return device.memory.allocate(nbytes)

    return {"allocate": allocate, "free": freed.append}


class _KeepsAddresses(LaunchesInARow):
    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        return


class _StaleFlags(LaunchesInARow):
    """The last launch of a replay waits for flags that an earlier replay has set."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        super().__init__(launches)
        self._is_set = False

    def __call__(self) -> None:
        *others, last = self._launches
        for launch in (last, *others) if self._is_set else (*others, last):
            launch()
        self._is_set = True


def _constant(value: int) -> Program:
    out = build.define_global(0, dtypes.int32, 1)
    return program("constant", build.store(at(out, 0), build.const(dtypes.int32, value)))


def _numbers(tensor: Tensor) -> list[float]:
    return [float(number) for number in tensor.numpy().reshape(-1)]


def _floats(*numbers: float) -> memoryview:
    return memoryview(np.array(numbers, np.float32).tobytes())


def _two_constants(device: str) -> list[float]:
    subject = DeviceUnderTest(device)
    return [float(subject.run(_constant(value), [None])[0][0]) for value in (2, 100)]


def _on_both(device: str) -> list[float]:
    values = []
    for name in (device, f"{device}:1"):
        result = Tensor([0.0], device=name).realize()
        result.assign(Tensor([7.0], device=name).realize() * 3)
        values += _numbers(result)
    return values


def _to_peer(device: str) -> list[float]:
    source = Tensor([1.0, 2.0], device=device).realize()
    return _numbers(source.to(f"{device}:1").realize())


def _peer_computes(device: str) -> list[float]:
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x.to(f"{device}:1").realize() + 1).realize()

    inputs = [Tensor([float(number)], device=device).realize() for number in range(6)]
    return [step(x).item() for x in inputs][4:]


def _freed_source(device: str) -> list[float]:
    source = Buffer(device, 2, dtypes.float32).allocate()
    source.copy_in(_floats(1.0, 2.0))
    target = Buffer(f"{device}:1", 2, dtypes.float32).allocate().copy_from(source)
    del source
    other = Buffer(device, 2, dtypes.float32).allocate()
    other.copy_in(_floats(8.0, 9.0))
    return [float(number) for number in np.frombuffer(target.copy_out(), np.float32)]


def _source_in_slices(device: str) -> list[float]:
    host = bytearray(range(8))
    buffer = Buffer(device, 4, dtypes.uint8).allocate().copy_in(memoryview(host)[4:])
    host[:] = bytes(8)
    return [float(byte) for byte in buffer.copy_out()]


def _three_pieces(device: str) -> list[float]:
    large = Buffer(device, 1024, dtypes.uint8).allocate()
    del large
    first = Buffer(device, 132, dtypes.uint8).allocate().copy_in(memoryview(bytes([1] * 132)))
    Buffer(device, 256, dtypes.uint8).allocate().copy_in(memoryview(bytes([2] * 256)))
    return [float(byte) for byte in first.copy_out()[126:132]]


def _replays(device: str) -> list[float]:
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return ((x + 1).realize() * 2).realize()

    inputs = [Tensor([float(number)], device=device).realize() for number in range(5)]
    return [step(x).item() for x in inputs]


def _sums_of_replays(device: str) -> list[float]:
    total = Tensor([0.0], device=device).realize()

    @TinyJit
    def step(x: Tensor) -> None:
        total.assign(total + (x * 10).realize()).realize()

    for x in [Tensor([float(number)], device=device).realize() for number in range(5)]:
        step(x)
    return _numbers(total)


FAULTS = (
    FieldFault(
        device=field_device(
            name="MlxCudaModulesByName",
            sentence="Keeps compiled kernels by their names, so that a second kernel of one name "
            "and signature runs the code of the first.",
            methods={"load": _load_by_name},
        ),
        stack="MLX for CUDA, Apple",
        kind=FaultKind.STATE,
        link="https://github.com/ml-explore/mlx/pull/4273",
        program=DirectProgram(_two_constants, (2, 100)),
    ),
    FieldFault(
        device=field_device(
            name="SarekKernelsOfFirstDevice",
            sentence="Keeps a kernel without its device: on a second device nothing is written.",
            methods={"load": _load_for_first_device, "owners": {}},
        ),
        stack="Sarek for OpenCL, M. Bourgoin",
        kind=FaultKind.STATE,
        link="https://github.com/mathiasbourgoin/Sarek/pull/293",
        program=DirectProgram(_on_both, (21, 21)),
    ),
    FieldFault(
        device=field_device(
            name="CudaPeerCopiesAreZero",
            sentence="Reports success for copies to another device of its kind, which gets zeros.",
            memory=_zeros_from_peers,
        ),
        stack="CUDA driver, NVIDIA",
        kind=FaultKind.COPY,
        link="https://github.com/pytorch/pytorch/issues/13803",
        program=DirectProgram(_to_peer, (1, 2)),
    ),
    FieldFault(
        device=field_device(
            name="GgmlPeerCopiesComeLate",
            sentence="Starts kernels before a copy from another device has arrived in the memory "
            "that they read.",
            memory=_late_peers,
        ),
        stack="ggml for CUDA, ggml.org",
        kind=FaultKind.SCHEDULE,
        link="https://github.com/ggml-org/llama.cpp/pull/21846",
        program=DirectProgram(_peer_computes, (5, 6)),
    ),
    FieldFault(
        device=field_device(
            name="TorchrecReusesMemoryUnderCopy",
            sentence="Gives freed memory to the next tensor of its size while a copy on another "
            "stream still reads it.",
            memory=_reused_under_copies,
        ),
        stack="TorchRec for CUDA, Meta",
        kind=FaultKind.MEMORY,
        link="https://github.com/meta-pytorch/torchrec/pull/4231",
        program=DirectProgram(_freed_source, (1, 2)),
    ),
    FieldFault(
        device=field_device(
            name="PytorchForgetsSlicesInFlight",
            sentence="Waits for a copy from host memory only if it begins where the memory does: "
            "other parts may be overwritten first.",
            healthy="tinyref_conformance.faulty:Queueing",
            queue=Postponed,
            memory=_late_slices,
        ),
        stack="PyTorch for CUDA, Meta",
        kind=FaultKind.COPY,
        link="https://github.com/pytorch/pytorch/pull/68749",
        program=DirectProgram(_source_in_slices, (4, 5, 6, 7)),
    ),
    FieldFault(
        device=field_device(
            name="GgmlRemaindersOverlap",
            sentence="Splits a freed piece at a multiple of 128 bytes below the end of its first "
            "part, which the second part overlaps.",
            memory=_unaligned_remainders,
        ),
        stack="ggml for Metal, ggml.org",
        kind=FaultKind.MEMORY,
        link="https://github.com/ggml-org/llama.cpp/pull/17884",
        program=DirectProgram(_three_pieces, (1, 1, 1, 1, 1, 1)),
    ),
    FieldFault(
        device=field_device(
            name="TornadoReplaysOldAddresses",
            sentence="Replays recorded launches with the addresses of their capture, wherever the "
            "arguments are since.",
            commands=_KeepsAddresses,
        ),
        stack="TornadoVM for CUDA, Manchester",
        kind=FaultKind.STATE,
        link="https://github.com/beehive-lab/TornadoVM/issues/1006",
        program=DirectProgram(_sums_of_replays, (100,)),
    ),
    FieldFault(
        device=field_device(
            name="DeepgemmReplaysWithOldFlags",
            sentence="Takes the flags of an earlier replay for its own: from the second replay on, "
            "the last launch does not wait for the others.",
            commands=_StaleFlags,
        ),
        stack="DeepGEMM, DeepSeek",
        kind=FaultKind.SYNCHRONISATION,
        link="https://github.com/deepseek-ai/DeepGEMM/pull/451",
        program=DirectProgram(_replays, (2, 4, 6, 8, 10)),
    ),
)
