"""The GPU_EMU device: a GPU emulated on the host by LLVM from the llvmlite wheel.

It needs no compiler. It compiles the output of `LlvmGpuRenderer` and shares groups over host
threads. It reports errors that a real GPU does not: writes behind shared arrays, barriers that only
a part of a group reaches, and results that depend on the order of work-items (flag EMU_ORDER). With
the flag EMU_CHECK it also reports races, accesses out of bounds and reads of unset shared memory.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.contract import Availability
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, OrderError, UserError
from tinyref.interpret.lanes import Fault
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
from tinyref.runtimes.emulated.driver import (
    MAX_GROUP_SIZE,
    MAX_SHARED_BYTES,
    EmulatedBackend,
    bytes_at,
    run_in_order,
    share_groups,
)
from tinyref.runtimes.emulated.groups import DRIVER, RUN_GROUPS
from tinyref.runtimes.host.cpu import (
    LlvmCompiler,
    link_object,
    llvm_availability,
    llvm_versions,
    run_all_passes,
    run_cheap_passes,
)
from tinyref.runtimes.host.memory import address_of
from tinyref.uops.tiles import TILES

Extents = tuple[int, int, int]
Words = npt.NDArray[np.int64]

# The major version, by which a renderer knows which syntax is allowed.
LLVM_VERSION: int = llvm.llvm_version_info[0]
# A NaN as a float of any width, and a large number as an integer.
POISON = 0xFF
_GUARD_BYTE = 0xC3
_CELL_WORDS = 4
_DRIVER_DIGEST = hashlib.sha256(DRIVER.encode()).hexdigest()[:16]

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class LlvmEmulator(LlvmCompiler):
    """Compiles LLVM IR of groups to object files of this host, and loads them; for one device."""

    functions = frozenset({RUN_ITEMS, TOUCH})

    @property
    def version(self) -> str:
        """Return the version of LLVM. Raises `DeviceError` if it does not start."""
        available = llvm_availability()
        if not available.works:
            raise DeviceError(self.device, available.reason)
        return available.reason

    @property
    def renderer(self) -> LlvmGpuRenderer:
        """Return the renderer for this LLVM, with checks if the flag EMU_CHECK is set."""
        return LlvmGpuRenderer(LLVM_VERSION, config.integer("EMU_CHECK") != 0)

    @property
    def key(self) -> str:
        checks = "checked" if config.integer("EMU_CHECK") else "plain"
        return f"{super().key} {checks} {_DRIVER_DIGEST}"

    def optimise(self, module: Any, machine: Any, level: int) -> None:
        """Optimise as for kernels of the host; coroutines are split at every level.

        Loops over items of a group are not vectorised: LLVM 22 may hang (llvm-4, docs/found.md).
        """
        if level > 1:
            run_all_passes(module, machine, level, vectorises=False)
            return
        super().optimise(module, machine, level)
        if not any(function.name.endswith(".item") for function in module.functions):
            return
        run_all_passes(module, machine, 0)
        if level:
            run_cheap_passes(module, machine)

    def load(self, entry: str, binary: bytes) -> GroupFunction:
        """Load a kernel. Raises `DeviceError` if there is none of this name."""
        return GroupFunction(self.device, entry, binary)


class _Driver:
    """The compiled driver: `run` as a function, and the addresses that kernels call."""

    def __init__(self) -> None:
        with config.Context(CPU_LEVEL=2):
            binary = LlvmEmulator("emulator").compile(DRIVER)
        self._library = link_object("emulator", binary, [RUN_GROUPS, RUN_ITEMS, TOUCH])
        self.run = _RUN(self._library[RUN_GROUPS])
        self.imports = {name: self._library[name] for name in (RUN_ITEMS, TOUCH)}


_driver = functools.cache(_Driver)


class GroupFunction:
    """A kernel of this process whose launches run groups; `info` describes its needs."""

    def __init__(self, device: str, entry: str, binary: bytes) -> None:
        self.device = device
        self.entry = entry
        driver = _driver()
        self._library = link_object(device, binary, [entry, f"{entry}.info"], driver.imports)
        self.address: int = self._library[entry]
        self.run = driver.run
        text = ctypes.string_at(self._library[f"{entry}.info"])
        self.info = Info.of(text.decode())
        self.shared = SharedLayout(self.info)
        used = sum(array.elements * array.itemsize for array in self.shared.arrays)
        if used > MAX_SHARED_BYTES:
            raise DeviceError(
                device, f"{entry}: {used} bytes of shared memory: there are {MAX_SHARED_BYTES}"
            )
        self.parameters = [memory for memory in self.info.memories if memory.offset is None]
        self.frame_bytes = self._frame_bytes() if self.info.has_coroutines else 0

    def _frame_bytes(self) -> int:
        """Return the bytes of a waiting work-item, rounded up to whole lines."""
        words = np.zeros(Field.SIZE, np.int64)
        _KERNEL(self.address)(words.ctypes.data)
        return _rounded(int(words[Field.FRAME_BYTES]))

    def __call__(
        self,
        addresses: Sequence[int],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
        sizes: Sequence[int] = (),
    ) -> None:
        """Run all groups to their end. Raises `DeviceError` for the first fault.

        sizes: not needed, because a kernel knows the sizes of its buffers.
        """
        GroupLaunch(self, addresses, variables, grid, group).run_in_order()


class SharedLayout:
    """The shared memory of a group: arrays, each followed by a guard.

    image: its content before a group runs. guards: pairs of offsets, in the order of `arrays`.
    """

    def __init__(self, info: Info) -> None:
        self.arrays = [memory for memory in info.memories if memory.offset is not None]
        guards = []
        for array in self.arrays:
            nbytes = array.elements * array.itemsize
            begin = (array.offset or 0) + nbytes
            guards.append((begin, (array.offset or 0) + _rounded(nbytes) + guard_bytes(nbytes)))
        self.nbytes = guards[-1][1] if guards else 0
        self.image = np.full(self.nbytes, POISON, np.uint8)
        for begin, end in guards:
            self.image[begin:end] = _GUARD_BYTE
        self.guards = np.array(guards, np.int64).reshape(-1, 2)


class GroupLaunch:
    """One launch: the data of all its groups, and the data of each stretch of groups."""

    def __init__(
        self,
        kernel: GroupFunction,
        addresses: Sequence[int],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
    ) -> None:
        """Raise `DeviceError` for a wrong number of buffers, `UserError` for a group too large."""
        if len(addresses) != len(kernel.parameters):
            raise DeviceError(
                kernel.device,
                f"{kernel.entry} takes {len(kernel.parameters)} buffers, got {len(addresses)}",
            )
        if math.prod(group) > MAX_GROUP_SIZE:
            raise UserError(
                f"{kernel.device}: group {group}: accepted are up to {MAX_GROUP_SIZE} work-items"
            )
        self._kernel = kernel
        self._count = math.prod(grid)
        self._items = math.prod(group)
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
        """Run all groups in one order. Raises `DeviceError` for the first fault."""
        if self._count == 0 or self._items == 0:
            return
        self._words[Field.IS_REVERSE] = int(is_reverse)
        if self._kernel.info.accesses:
            # Races between groups count too, so all groups use the same cells.
            cells = ShadowCells(self._kernel, self._addresses.tolist())
            cells.enter(self._words)
            self._run_part(0, self._count)
            return
        share_groups(self._count, self._run_part)

    def _run_part(self, first: int, end: int) -> None:
        words = self._words.copy()
        shared = _rounded(self._kernel.shared.nbytes)
        exchange = _rounded(self._kernel.info.exchange_bytes)
        memory = np.empty(
            shared + exchange + self._items * self._kernel.frame_bytes + ALIGNMENT, np.uint8
        )
        start = _rounded(address_of(memory))
        words[Field.SHARED] = start
        words[Field.EXCHANGE] = start + shared
        words[Field.FRAMES] = start + shared + exchange
        self._kernel.run(words.ctypes.data, self._kernel.address, first, end)
        if words[Field.FAULT]:
            message = _fault_message(self._kernel, words)
            raise DeviceError(self._kernel.device, f"{self._kernel.entry}: {message}")

    def run_in_order(self) -> None:
        """Run all groups, in both orders if the flag EMU_ORDER asks for it.

        Raises `DeviceError` if the results differ.
        """
        written = [
            (memory, bytes_at(address, memory.elements * memory.itemsize))
            for address, memory in zip(self._addresses, self._kernel.parameters, strict=True)
            if memory.is_written
        ]

        def differs(number: int, byte: int) -> DeviceError:
            memory = written[number][0]
            return OrderError(
                self._kernel.device,
                f"{self._kernel.entry}: the order of work-items matters: element "
                f"{byte // memory.itemsize} of {memory.name} differs when they run in reverse",
            )

        items = self._count * self._items
        run_in_order([now for _, now in written], items, self.run, differs)


class ShadowCells:
    """Records of who accessed which element: four words an element, shared by overlaps."""

    def __init__(self, kernel: GroupFunction, addresses: Sequence[int]) -> None:
        spans = [
            AddressSpan(address, address + memory.elements * memory.itemsize)
            for address, memory in zip(addresses, kernel.parameters, strict=True)
        ]
        regions = _merged(spans)
        self._cells: list[Words] = []
        records = [(0, 0, 0)] * len(spans)
        for region in regions:
            users = [
                number
                for number, span in enumerate(spans)
                if region.begin <= span.begin < region.end
            ]
            # The greatest common divisor of the starts and element sizes of all users, in bytes.
            granule = math.gcd(
                *(kernel.parameters[number].itemsize for number in users),
                *(spans[number].begin - region.begin for number in users),
            )
            cells = np.zeros((region.end - region.begin) // granule * _CELL_WORDS, np.int64)
            self._cells.append(cells)
            for number in users:
                memory = kernel.parameters[number]
                first = (spans[number].begin - region.begin) // granule * _CELL_WORDS * 8
                records[number] = (
                    cells.ctypes.data + first,
                    memory.itemsize // granule,
                    memory.elements,
                )
        arrays = kernel.shared.arrays
        self._shared = np.zeros(sum(array.elements for array in arrays) * _CELL_WORDS, np.int64)
        first = self._shared.ctypes.data
        for array in arrays:
            records.append((first, 1, array.elements))
            first += array.elements * _CELL_WORDS * 8
        self._records = np.array(records, np.int64).reshape(-1, 3)

    def enter(self, words: Words) -> None:
        """Write the addresses of the cells into a launch record."""
        words[Field.MEMORIES] = self._records.ctypes.data
        words[Field.SHARED_CELLS] = self._shared.ctypes.data
        words[Field.SHARED_CELL_BYTES] = self._shared.nbytes


class AddressSpan(NamedTuple):
    """Addresses from `begin` up to `end`."""

    begin: int
    end: int


def _merged(spans: Sequence[AddressSpan]) -> list[AddressSpan]:
    """Merge spans that overlap, and drop empty ones."""
    merged: list[AddressSpan] = []
    for span in sorted(span for span in spans if span.end > span.begin):
        if merged and span.begin < merged[-1].end:
            merged[-1] = AddressSpan(merged[-1].begin, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


# --- messages of faults ---------------------------------------------------------------------------


def _fault_message(kernel: GroupFunction, words: Words) -> str:
    code = FaultCode(int(words[Field.FAULT]))
    subject, position = int(words[Field.FAULT_PLACE]), int(words[Field.FAULT_POSITION])
    items = math.prod(int(words[Field.ITEMS_X + dim]) for dim in range(3))
    number = _linear(words, Field.GROUP_X, Field.GRID_X)
    who = _name_item(number * items + int(words[Field.FAULT_ITEM]), words)
    if code is FaultCode.GUARD:
        array = kernel.shared.arrays[subject]
        return (
            f"{Fault.BOUNDS.value}: the bytes after shared array {array.name} of "
            f"{array.elements} elements were written by group {_name_group(words)}"
        )
    if code is FaultCode.DIVERGENCE:
        doing = f"waits at {_barrier_name(subject)}" if subject else "is done"
        others = f"wait at {_barrier_name(position)}" if position else "are done"
        return (
            f"{Fault.DIVERGENCE.value}: {who} {doing}, others of its group {others}, "
            f"of {kernel.info.barriers} barriers"
        )
    memory, _, node = kernel.info.accesses[subject].partition(" at ")
    element = f"element {position} of {memory}"
    verb = "reads" if node.startswith("LOAD") else "writes"
    what = f"{who} {verb} {element}"
    if code is FaultCode.RACE:
        other = int(words[Field.FAULT_OTHER])
        met = _name_item(other - 1, words) if other > 0 else "several work-items"
        return f"{Fault.RACE.value}: {what}, which {met} touches unordered, at {node}"
    if code is FaultCode.UNINITIALISED:
        return f"{Fault.UNINITIALISED.value}: {what}, which was never written, at {node}"
    kind = Fault.ALIGNMENT if code is FaultCode.ALIGNMENT else Fault.BOUNDS
    return f"{kind.value}: {what}, at {node}"


def _barrier_name(number: int) -> str:
    """Name what a work-item waits at; a tile has two numbers, before and after its product."""
    return f"barrier {number}" if number > 0 else f"matrix tile {(1 - number) // 2}"


def _name_item(number: int, words: Words) -> str:
    """Name a work-item of the whole launch by its launch indices."""
    items = [int(words[Field.ITEMS_X + dim]) for dim in range(3)]
    grid = [int(words[Field.GRID_X + dim]) for dim in range(3)]
    group, item = divmod(number, math.prod(items))
    return f"work-item {_indices(item, items)} of group {_indices(group, grid)}"


def _name_group(words: Words) -> str:
    return str(tuple(int(words[Field.GROUP_X + dim]) for dim in range(3)))


def _linear(words: Words, index: Field, extent: Field) -> int:
    x, y, z = (int(words[index + dim]) for dim in range(3))
    return (z * int(words[extent + 1]) + y) * int(words[extent]) + x


def _indices(number: int, extents: Sequence[int]) -> tuple[int, ...]:
    """Return x, y and z of a number that counts x first."""
    return tuple(int(index) for index in np.unravel_index(number, extents, order="F"))


def _rounded(nbytes: int) -> int:
    return nbytes + -nbytes % ALIGNMENT


# --- the device -----------------------------------------------------------------------------------

# Tiles of types that the host has; others would compute in emulated types.
_TILES = tuple(tile for tile in TILES.values() if {tile.dtype_in, tile.dtype_out} <= LLVM_DTYPES)


class GpuEmuBackend(EmulatedBackend):
    """Kernels with groups, barriers and shared memory, on the cores of the host.

    Its memory is separate: handles are not arrays, and freed memory cannot be accessed.
    """

    title = "GPU emulated on the host, LLVM through llvmlite"
    base = "GPU_EMU"
    _emulator: LlvmEmulator

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._emulator = LlvmEmulator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return llvm_availability()

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            dtypes=LLVM_DTYPES,
            # As on CPU: they are faster decomposed, with the bits of other devices.
            ops=LLVM_OPS - ELEMENTARY_OPS,
            emulated=frozenset({*dtypes.fp8s, dtypes.float16, dtypes.bfloat16}),
            vector_lanes=(1, 2, 4, 8, 16),
            has_grid=True,
            has_groups=True,
            shared_bytes=MAX_SHARED_BYTES,
            group_size_limit=MAX_GROUP_SIZE,
            images=_converts_halves(),
            matrix_tiles=_TILES,
            # Tiles are made of single products, and as slow.
            tiles_pay=False,
            division_traps=True,
        )

    @property
    def renderer(self) -> LlvmGpuRenderer:
        return self._emulator.renderer

    def versions(self) -> dict[str, str]:
        return llvm_versions()


def _converts_halves() -> bool:
    """Return True if the processor converts float16, for texels: all but an old x86 do."""
    has_conversion: bool = llvm.get_host_cpu_features().get("f16c", True)
    return has_conversion
