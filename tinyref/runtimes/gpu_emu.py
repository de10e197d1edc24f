"""The GPU_EMU device: a GPU made of the host by LLVM from the llvmlite wheel, without a compiler.

Groups are shared over host threads. Work-items of a group that wait at barriers are coroutines, run
in turn; without barriers they are a loop. It finds what a GPU only gets wrong: guards after shared
arrays that are written, barriers that part of a group reaches, results that depend on the order of
work-items (flag EMU_ORDER), and with the flag EMU_CHECK races, accesses out of bounds and shared
memory that is read before it is written.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import time
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from tinyref import config
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.device import Availability, Backend, Capabilities
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.interpret.errors import Fault
from tinyref.renderers.llvm import LLVM_DTYPES, LLVM_OPS
from tinyref.renderers.llvm_gpu import (
    ALIGNMENT,
    RUN_ITEMS,
    TOUCH,
    FaultCode,
    Field,
    Info,
    LlvmGpuRenderer,
    guard_bytes,
)
from tinyref.runtimes.cpu import (
    LlvmCompiler,
    link_object,
    llvm_availability,
    llvm_versions,
    run_all_passes,
    run_cheap_passes,
)
from tinyref.runtimes.device_memory import DeviceMemory, Piece
from tinyref.runtimes.gpu_emu_driver import DRIVER, RUN_GROUPS
from tinyref.runtimes.host_memory import HostHandle, address_of
from tinyref.runtimes.host_threads import run_groups, thread_count

Extents = tuple[int, int, int]
Words = npt.NDArray[np.int64]

SHARED_BYTES = 64 * 1024
# NaN as a float of any width, and no small number as an integer.
POISON = 0xFF
_GUARD_BYTE = 0xC3
# Parts into which a launch is cut for each thread: some groups may take longer than others.
_PARTS = 4
_CELL_WORDS = 4

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class GpuEmuCompiler(LlvmCompiler):
    """LLVM IR of groups to an object file of this host; coroutines are split at every level."""

    functions = frozenset({RUN_ITEMS, TOUCH})

    @property
    def key(self) -> str:
        checks = "checked" if config.integer("EMU_CHECK") else "plain"
        return f"{super().key} {checks} {_driver_digest()}"

    def optimise(self, module: Any, machine: Any, level: int) -> None:
        has_coroutines = any(function.name.endswith(".item") for function in module.functions)
        if level > 1 or not has_coroutines:
            super().optimise(module, machine, level)
            return
        super().optimise(module, machine, level)
        run_all_passes(module, machine, 0)
        if level:
            run_cheap_passes(module, machine)


class GpuEmuBackend(Backend):
    """Kernels with groups, barriers and shared memory, on the cores of the host."""

    title = "GPU made of the host, LLVM through llvmlite"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"GPU_EMU:{index}" if index else "GPU_EMU"
        self._allocator = DeviceMemory(self.name)
        self._compiler = GpuEmuCompiler(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return llvm_availability()

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities()

    @property
    def renderer(self) -> LlvmGpuRenderer:
        return LlvmGpuRenderer(llvm.llvm_version_info[0], config.integer("EMU_CHECK") != 0)

    @property
    def compiler(self) -> GpuEmuCompiler:
        return self._compiler

    @property
    def allocator(self) -> DeviceMemory:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> GroupKernel:
        return GroupKernel(self._allocator, entry, binary)

    def versions(self) -> dict[str, str]:
        return llvm_versions()


@functools.cache
def _capabilities() -> Capabilities:
    return Capabilities(
        dtypes=LLVM_DTYPES,
        # As on CPU: decomposed they are faster, and their bits those of other devices.
        ops=LLVM_OPS - ELEMENTARY_OPS,
        emulated=frozenset({*dtypes.fp8s, dtypes.float16, dtypes.bfloat16}),
        vector_lanes=(1, 2, 4, 8, 16),
        has_grid=True,
        has_groups=True,
        shared_bytes=SHARED_BYTES,
        images=True,
        division_traps=True,
    )


@functools.cache
def _driver_digest() -> str:
    return hashlib.sha256(DRIVER.encode()).hexdigest()[:16]


class _Driver:
    """The compiled driver: `run` as a function, the addresses that kernels call."""

    def __init__(self) -> None:
        with config.Context(CPU_LEVEL=2):
            binary = GpuEmuCompiler("GPU_EMU").compile(DRIVER)
        self._library = link_object("GPU_EMU", binary, [RUN_GROUPS, RUN_ITEMS, TOUCH])
        self.run = _RUN(self._library[RUN_GROUPS])
        self.imports = {name: self._library[name] for name in (RUN_ITEMS, TOUCH)}


@functools.cache
def _driver() -> _Driver:
    return _Driver()


class GroupKernel:
    """A kernel whose launches run groups of work-items; `info` says what it needs."""

    def __init__(self, memory: DeviceMemory, entry: str, binary: bytes) -> None:
        self.device = memory.device
        self.entry = entry
        self.memory = memory
        driver = _driver()
        self._library = link_object(self.device, binary, [entry, f"{entry}.info"], driver.imports)
        self.address: int = self._library[entry]
        self.run = driver.run
        text = ctypes.string_at(self._library[f"{entry}.info"])
        self.info = Info.of(text.decode())
        self.shared = SharedLayout(self.info)
        self.frame_bytes = self._frame_bytes() if self.info.barriers else 0

    def _frame_bytes(self) -> int:
        """What a work-item keeps while it waits, rounded up to whole lines."""
        words = np.zeros(Field.SIZE, np.int64)
        _KERNEL(self.address)(words.ctypes.data)
        return _rounded(int(words[Field.FRAME_BYTES]))

    def __call__(
        self,
        buffers: Sequence[Piece],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Runs all groups to their end; with `wait`, returns the seconds that it took.

        Raises `DeviceError` for the first fault that is found.
        """
        start = time.perf_counter()
        order = config.text("EMU_ORDER")
        launch = GroupLaunch(self, buffers, grid, group, variables)
        if order == "both":
            launch.run_both()
        else:
            launch.run(order == "reverse")
        for buffer in buffers:
            self.memory.check(buffer)
        return time.perf_counter() - start if wait else None


class SharedLayout:
    """The shared memory of a group: arrays, each followed by a guard.

    image: what it holds before a group runs. guards: pairs of offsets, in the order of `arrays`.
    """

    def __init__(self, info: Info) -> None:
        self.arrays = [each for each in info.memories if each.offset is not None]
        guards = []
        for each in self.arrays:
            nbytes = each.elements * each.itemsize
            begin = (each.offset or 0) + nbytes
            guards.append((begin, (each.offset or 0) + _rounded(nbytes) + guard_bytes(nbytes)))
        self.nbytes = guards[-1][1] if guards else 0
        self.image = np.full(self.nbytes, POISON, np.uint8)
        for begin, end in guards:
            self.image[begin:end] = _GUARD_BYTE
        self.guards = np.array(guards, np.int64).reshape(-1, 2)


class GroupLaunch:
    """One launch: what its groups share, and what each stretch of groups needs of its own."""

    def __init__(
        self,
        kernel: GroupKernel,
        buffers: Sequence[Piece],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> None:
        """Raises `DeviceError` for memory that was freed, or for another number of buffers."""
        self._kernel = kernel
        self._buffers = buffers
        self._group = group
        self._count = math.prod(grid)
        self._items = math.prod(group)
        globals_ = [each for each in kernel.info.memories if each.offset is None]
        if len(buffers) != len(globals_):
            raise DeviceError(
                kernel.device,
                f"{kernel.entry} takes {len(globals_)} buffers, got {len(buffers)}",
            )
        addresses = [kernel.memory.address(buffer) for buffer in buffers]
        self._addresses = np.array(addresses, np.int64)
        self._variables = np.array(variables, np.int32)
        self._words = np.zeros(Field.SIZE, np.int64)
        self._words[Field.BUFFERS] = self._addresses.ctypes.data
        self._words[Field.VARIABLES] = self._variables.ctypes.data
        self._words[Field.GRID_X : Field.GRID_Z + 1] = grid
        self._words[Field.ITEMS_X : Field.ITEMS_Z + 1] = group
        shared = kernel.shared
        self._words[Field.SHARED_BYTES] = shared.nbytes
        self._words[Field.POISON] = shared.image.ctypes.data
        self._words[Field.GUARDS] = shared.guards.ctypes.data
        self._words[Field.GUARD_COUNT] = len(shared.guards)
        self._words[Field.FRAME_BYTES] = kernel.frame_bytes

    def run(self, is_reverse: bool) -> None:
        """Runs all groups in one order. Raises `DeviceError` for the first fault."""
        if self._count == 0 or self._items == 0:
            return
        self._words[Field.IS_REVERSE] = int(is_reverse)
        if self._kernel.info.accesses:
            # Races are found between groups too, so all of them use one shadow.
            cells = ShadowCells(self._kernel.info, self._buffers)
            cells.enter(self._words)
            self._run_part(0, self._count)
            return
        parts = min(self._count, thread_count() * _PARTS)
        bounds = [self._count * part // parts for part in range(parts + 1)]
        run_groups(lambda part: self._run_part(bounds[part], bounds[part + 1]), parts)

    def _run_part(self, first: int, end: int) -> None:
        words = self._words.copy()
        shared = _aligned(self._kernel.shared.nbytes)
        frames = _aligned(self._items * self._kernel.frame_bytes)
        words[Field.SHARED] = address_of(shared)
        words[Field.FRAMES] = address_of(frames)
        self._kernel.run(words.ctypes.data, self._kernel.address, first, end)
        if words[Field.FAULT]:
            message = _fault_message(self._kernel, words, self._group)
            raise DeviceError(self._kernel.device, f"{self._kernel.entry}: {message}")

    def run_both(self) -> None:
        """Runs all groups forward, then in reverse on the same memory.

        Raises `DeviceError` where the results differ.
        """
        pieces = [self._kernel.memory.bytes_of(buffer) for buffer in self._buffers]
        before = [piece.copy() for piece in pieces]
        self.run(False)
        forward = [piece.copy() for piece in pieces]
        for piece, old in zip(pieces, before, strict=True):
            piece[:] = old
        self.run(True)
        for place, (piece, first) in enumerate(zip(pieces, forward, strict=True)):
            if np.array_equal(piece, first):
                continue
            info = self._kernel.info.memories[place]
            element = int(np.flatnonzero(piece != first)[0]) // info.itemsize
            raise DeviceError(
                self._kernel.device,
                f"{self._kernel.entry}: the order of work-items matters: element {element} of "
                f"{info.name} differs when they run in reverse",
            )


class ShadowCells:
    """Who touched which element of a launch: four words for each, shared by what overlaps."""

    def __init__(self, info: Info, buffers: Sequence[Piece]) -> None:
        self._info = info
        self._cells: dict[int, Words] = {}
        granules = _granules(info, buffers)
        records = []
        for each, buffer in zip(info.memories, buffers, strict=False):
            key = id(buffer.memory)
            granule = granules[key]
            if key not in self._cells:
                count = -(-buffer.memory.nbytes // granule)
                self._cells[key] = np.zeros(count * _CELL_WORDS, np.int64)
            first = self._cells[key].ctypes.data + buffer.offset // granule * _CELL_WORDS * 8
            elements = min(each.elements, buffer.nbytes // each.itemsize)
            records.append((first, each.itemsize // granule, elements))
        arrays = [each for each in info.memories if each.offset is not None]
        self._shared = np.zeros(sum(each.elements for each in arrays) * _CELL_WORDS, np.int64)
        place = self._shared.ctypes.data
        for each in arrays:
            records.append((place, 1, each.elements))
            place += each.elements * _CELL_WORDS * 8
        self._records = np.array(records, np.int64).reshape(-1, 3)

    def enter(self, words: Words) -> None:
        """Writes into a launch record where the cells are."""
        words[Field.MEMORIES] = self._records.ctypes.data
        words[Field.SHARED_CELLS] = self._shared.ctypes.data
        words[Field.SHARED_CELL_BYTES] = self._shared.nbytes


def _granules(info: Info, buffers: Sequence[Piece]) -> dict[int, int]:
    """The bytes that a cell stands for, of each allocation: what all its users begin and end at."""
    found: dict[int, int] = {}
    for each, buffer in zip(info.memories, buffers, strict=False):
        key = id(buffer.memory)
        found[key] = math.gcd(found.get(key, 0), each.itemsize, buffer.offset)
    return found


# --- what is said of a fault ----------------------------------------------------------------------


def _fault_message(kernel: GroupKernel, words: Words, group: Extents) -> str:
    code = FaultCode(int(words[Field.FAULT]))
    place, position = int(words[Field.FAULT_PLACE]), int(words[Field.FAULT_POSITION])
    items = math.prod(group)
    number = _linear(words, Field.GROUP_X, Field.GRID_X)
    who = _name_item(number * items + int(words[Field.FAULT_ITEM]), words)
    if code is FaultCode.GUARD:
        array = kernel.shared.arrays[place]
        return (
            f"{Fault.BOUNDS.value}: the bytes after shared array {array.name} of "
            f"{array.elements} elements were written by group {_name_group(words)}"
        )
    if code is FaultCode.DIVERGENCE:
        doing = f"waits at barrier {place}" if place else "is done"
        others = f"wait at barrier {position}" if position else "are done"
        return (
            f"{Fault.DIVERGENCE.value}: {who} {doing}, others of its group {others}, "
            f"of {kernel.info.barriers} barriers"
        )
    memory, _, node = kernel.info.accesses[place].partition(" at ")
    return _access_message(code, memory, position, who, words) + f", at {node}"


def _access_message(code: FaultCode, memory: str, position: int, who: str, words: Words) -> str:
    element = f"element {position} of {memory}"
    if code is FaultCode.RACE:
        other = int(words[Field.FAULT_OTHER])
        met = _name_item(other - 1, words) if other > 0 else "several work-items"
        return f"{Fault.RACE.value}: {who} touches {element}, which {met} touches unordered"
    if code is FaultCode.UNINITIALISED:
        return f"{Fault.UNINITIALISED.value}: {element} was never written, read by {who}"
    kind = Fault.ALIGNMENT if code is FaultCode.ALIGNMENT else Fault.BOUNDS
    return f"{kind.value}: {element} by {who}"


def _name_item(number: int, words: Words) -> str:
    """The launch indices of a work-item of the whole launch."""
    items = [int(words[Field.ITEMS_X + dim]) for dim in range(3)]
    grid = [int(words[Field.GRID_X + dim]) for dim in range(3)]
    group, item = divmod(number, math.prod(items))
    return f"work-item {_unpacked(item, items)} of group {_unpacked(group, grid)}"


def _name_group(words: Words) -> str:
    return str(tuple(int(words[Field.GROUP_X + dim]) for dim in range(3)))


def _linear(words: Words, index: Field, extent: Field) -> int:
    x, y, z = (int(words[index + dim]) for dim in range(3))
    return (z * int(words[extent + 1]) + y) * int(words[extent]) + x


def _unpacked(number: int, extents: Sequence[int]) -> tuple[int, int, int]:
    return (
        number % extents[0],
        number // extents[0] % extents[1],
        number // (extents[0] * extents[1]),
    )


def _rounded(nbytes: int) -> int:
    return nbytes + -nbytes % ALIGNMENT


def _aligned(nbytes: int) -> HostHandle:
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address_of(memory) % ALIGNMENT
    return memory[start : start + nbytes]
