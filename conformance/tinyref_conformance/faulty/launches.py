"""Devices that launch wrongly: grids, groups, loops, vectors, shared memory and matrix tiles."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyref.dtype import DType, ImageDType, PtrDType
from tinyref.errors import DeviceError
from tinyref.interpret import Access, Hooks
from tinyref.interpret.interpreter import Interpreter
from tinyref.runtimes.emulated.gpu_emu import GpuEmuBackend
from tinyref.runtimes.host.memory import HostHandle
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, SpecialArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import MatrixTile
from tinyref_conformance.faulty.arithmetic import FAULTS as ARITHMETIC
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array, Call, FaultyDevice, SimulatedKernel
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_spec.case import Rung

_LONG = 500
VECTOR_QUERY = "memory.open,memory.launch.uint8,isa.vector.binary.add,kernel.program.vector*,"
VECTOR_QUERY += "kernel.program.lanes"
# Nodes that no load or store passes.
_BORDERS = (Ops.RANGE, Ops.IF, Ops.END, Ops.ENDIF, Ops.BARRIER)


def _first_index(scope: str, change: Callable[[Array], Array]) -> Hooks:
    """Return the hook that changes the first launch index of `scope`, "group" or "item"."""

    def special(of: str, dim: int, values: Array) -> Array:
        return change(values) if of == scope and dim == 0 else values

    return Hooks(special=special)


def _reversed_lanes(access: Access) -> Array:
    return access.value[..., ::-1] if access.node.dtype.lanes > 1 else access.value


def swap_two_lanes(tile: MatrixTile, result: Array) -> Array:
    """Swap the elements of threads 2 and 3 of each subgroup; [subgroup, thread, register]."""
    order = list(range(tile.threads))
    if tile.threads > 3:
        order[2], order[3] = order[3], order[2]
    return result[:, order]


def _compact_arguments(kernel: SimulatedKernel) -> Call:
    users = [node for node in kernel.program.uops if node.op is not Ops.DEFINE_GLOBAL]
    sources = [source for user in users for source in user.src]
    used = {build.slot_of(node) for node in sources if node.op is Ops.DEFINE_GLOBAL}
    healthy, parameters = kernel.run, kernel.program.parameters

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        pairs = zip(buffers, parameters, strict=True)
        moved = [buffer for buffer, parameter in pairs if parameter.slot in used]
        return healthy([*moved, *buffers[: len(buffers) - len(moved)]], *rest)

    return run


def _first_grid_again(kernel: SimulatedKernel) -> Call:
    healthy, grids = kernel.run, list[Any]()

    def run(buffers: Sequence[HostHandle], grid: Any, *rest: Any) -> Any:
        grids.append(grid)
        return healthy(buffers, grids[0], *rest)

    return run


def _without_helpers(kernel: SimulatedKernel) -> Call:
    """Return a launch of long loops that ends before its last group has written its element."""
    healthy = kernel.run
    loops = [node.src[0].arg for node in kernel.program.uops if node.op is Ops.RANGE]
    is_long = any(isinstance(extent, ConstArg) and extent.value > 1000 for extent in loops)

    def run(buffers: Sequence[HostHandle], grid: Any, *rest: Any) -> Any:
        old = buffers[0].copy()
        seconds = healthy(buffers, grid, *rest)
        if is_long and grid[0] > 1:
            late, size = buffers[0][-4:].copy(), buffers[0].size
            buffers[0][-4:] = old[-4:]
            timer = threading.Timer(0.02, buffers[0].__setitem__, (slice(size - 4, size), late))
            timer.daemon = True
            timer.start()
        return seconds

    return run


def _short_of_buffers(kernel: SimulatedKernel) -> Call:
    if len(kernel.program.parameters) > 30:
        raise DeviceError(kernel.device, "too many arguments")
    return kernel.run


def leaking(launches: int) -> Callable[[SimulatedKernel], Call]:
    """Return the edit of a device that has no room for this launch, nor for later ones."""

    def edit(kernel: SimulatedKernel) -> Call:
        healthy, counts = kernel.run, kernel.owner.counts

        def run(*arguments: Any) -> Any:
            counts["launches"] += 1
            if counts["launches"] >= launches:
                raise DeviceError(kernel.device, "out of resources")
            return healthy(*arguments)

        return run

    return edit


def _left_mode(kernel: SimulatedKernel) -> Call:
    flushed = next(faulty.ops for faulty in ARITHMETIC if faulty.name == "FlushedSubnormals")
    healthy, flushing = kernel.interpreter, Interpreter(kernel.program, flushed)
    launch, counts = kernel.run, kernel.owner.counts
    leaves = any(node.op is Ops.SQRT for node in kernel.program.uops)

    def run(*arguments: Any) -> Any:
        kernel.interpreter = flushing if counts["left"] else healthy
        counts["left"] += leaves
        return launch(*arguments)

    return run


def _without(*ops: Ops) -> Change:
    return lambda node: () if node.op in ops else (node,)


def _swapped_texels(node: UOp) -> tuple[UOp, ...]:
    if node.op is not Ops.INDEX or not isinstance(node.dtype, ImageDType):
        return (node,)
    memory, row, column, *rest = node.src
    return (node.with_sources((memory, column, row, *rest)),)


def _without_nested_barriers(program: Program) -> Change:
    depth = 0

    def change(node: UOp) -> tuple[UOp, ...]:
        nonlocal depth
        depth += (node.op in (Ops.IF, Ops.RANGE)) - (node.op in (Ops.ENDIF, Ops.END))
        return () if node.op is Ops.BARRIER and depth else (node,)

    return change


def _without_barriers_of_large_groups(program: Program) -> Change:
    return _without(Ops.BARRIER) if math.prod(program.group) > 192 else _without()


def _sunken_loads(
    program: Program, is_crossed: Callable[[UOp], bool] = lambda value: True
) -> Change:
    """Move a load behind a later store to its place, if its value is used after that.

    Args:
        is_crossed: tells from the stored value if loads move behind the store.
    """
    sunken: dict[UOp, list[UOp]] = {}
    waiting: list[UOp] = []
    for node in program.uops:
        if node.op in _BORDERS:
            waiting = []
        waiting = [load for load in waiting if load not in node.src]
        if node.op is Ops.LOAD:
            waiting.append(node)
        elif node.op is Ops.STORE and is_crossed(node.src[1]):
            sunken[node] = [load for load in waiting if load.src[0] is node.src[0]]
            waiting = [load for load in waiting if load.src[0] is not node.src[0]]
    moved = {load for loads in sunken.values() for load in loads}
    return lambda node: () if node in moved else (node, *sunken.get(node, ()))


def _without_later_stores(program: Program) -> Change:
    """Leave out a store if the same iteration has stored to its place before."""
    later: set[UOp] = set()
    seen: set[UOp] = set()
    for node in program.uops:
        if node.op in _BORDERS:
            seen = set()
        elif node.op is Ops.STORE and node.src[0] in seen:
            later.add(node)
        elif node.op is Ops.STORE:
            seen.add(node.src[0])
    return lambda node: () if node in later else (node,)


def _spilled(program: Program) -> Change:
    middle = program.uops[_LONG // 2 :] if len(program.uops) > _LONG else ()
    position = next(
        (index for index, node in enumerate(middle) if node.op in (Ops.XOR, Ops.ADD, Ops.MUL)), None
    )
    count = iter(range(len(program.uops)))

    def change(node: UOp) -> tuple[UOp, ...]:
        is_spilled = position is not None and next(count) == _LONG // 2 + position
        return (UOp(Ops.OR, node.dtype, node.src),) if is_spilled else (node,)

    return change


def _array_dtype(node: UOp) -> PtrDType:
    assert isinstance(node.dtype, PtrDType), "an array is a pointer"
    return node.dtype


def _overlapping_arrays(program: Program) -> Change:
    largest: dict[Any, UOp] = {}
    arrays = [node for node in program.uops if node.op is Ops.DEFINE_LOCAL]
    for node in sorted(arrays, key=lambda node: _array_dtype(node).size):
        largest[_array_dtype(node).base] = node
    return lambda node: (largest[_array_dtype(node).base] if node in arrays else node,)


def _swapped_items(node: UOp) -> tuple[UOp, ...]:
    special = node.arg
    if not isinstance(special, SpecialArg) or special.scope != "item" or special.dim > 1:
        return (node,)
    return (UOp(node.op, node.dtype, node.src, SpecialArg("item", 1 - special.dim)),)


def _first_store_only(program: Program) -> Change:
    stores = [node for node in program.uops if node.op is Ops.STORE]
    return lambda node: () if node in stores[1:] else (node,)


def _maxima_from_zero(program: Program) -> Change:
    shares = any(node.op is Ops.DEFINE_LOCAL for node in program.uops)

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op is not Ops.DEFINE_ACC or not shares:
            return (node,)
        start = node.src[0].arg
        if not isinstance(start, ConstArg) or start.value != node.dtype.minimum:
            return (node,)
        zero = build.const(node.dtype, 0)
        return (zero, node.with_sources((zero, *node.src[1:])))

    return change


def _lower_half_twice(access: Access) -> Array:
    lanes = access.node.dtype.lanes
    if lanes < 8 or access.value.dtype not in (np.int16, np.uint16):
        return access.value
    lower = access.value[..., : lanes // 2]
    return np.concatenate([lower, lower], axis=-1)


def _last_lane_lost(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.CAST, dtype, operands, sources)
    if value.ndim > 1 and value.shape[-1] == 8 and dtype.itemsize < sources[0].itemsize:
        value = value.copy()
        value[..., -1] = 0
    return value


FAULTS = (
    FaultyDevice(
        name="WrongGroupIndex",
        sentence="Gives two neighbouring groups the same launch index.",
        clause="kernel.special",
        rung=Rung.INDEX,
        sanitize=False,
        hooks=_first_index("group", lambda values: np.asarray(values - values % 2)),
    ),
    FaultyDevice(
        name="DroppedParameters",
        sentence="Drops the buffers that a kernel does not use, so that others move up.",
        clause="kernel.global",
        rung=Rung.INDEX,
        launch=_compact_arguments,
    ),
    FaultyDevice(
        name="FirstGridAgain",
        sentence="Launches a kernel each time with the grid of its first launch.",
        clause="kernel.special",
        rung=Rung.INDEX,
        sanitize=False,
        launch=_first_grid_again,
    ),
    FaultyDevice(
        name="SpilledValues",
        sentence="Gets one value wrong in kernels of more than five hundred operations.",
        clause="isa.or",
        rung=Rung.ALU,
        program=_spilled,
    ),
    FaultyDevice(
        name="ReversedVectors",
        sentence="Loads vectors with their lanes in reverse.",
        clause="kernel.vector",
        rung=Rung.VECTOR,
        sanitize=False,
        hooks=Hooks(load=_reversed_lanes),
    ),
    FaultyDevice(
        name="LowerHalfTwice",
        sentence="Loads the lower half of eight and more 16-bit integers twice.",
        clause="kernel.vector",
        rung=Rung.VECTOR,
        sanitize=False,
        hooks=Hooks(load=_lower_half_twice),
        query=VECTOR_QUERY,
    ),
    FaultyDevice(
        name="LostLane",
        sentence="Makes the last of eight lanes 0 where a cast makes them narrower.",
        clause="kernel.vector",
        rung=Rung.VECTOR,
        ops={Ops.CAST: _last_lane_lost},
        query=VECTOR_QUERY,
    ),
    FaultyDevice(
        name="MaximaFromZero",
        sentence="Begins the maxima with 0 that work-items of a group compute together.",
        clause="kernel.local",
        rung=Rung.OPTIMISED,
        program=_maxima_from_zero,
        query="memory.open,memory.launch.uint8,kernel.reduce.max.int32,kernel.program.group,"
        "kernel.opt.group,kernel.grouped_reduce",
    ),
    FaultyDevice(
        name="EmptyLoop",
        sentence="Runs a loop of no iterations once, and all other loops as often as it should.",
        clause="kernel.range",
        rung=Rung.LOOP,
        sanitize=False,
        hooks=Hooks(loop=lambda extent: max(extent, 1)),
    ),
    FaultyDevice(
        name="EndedLoops",
        sentence="Ends a loop after a million iterations.",
        clause="kernel.range",
        rung=Rung.LOOP,
        sanitize=False,
        hooks=Hooks(loop=lambda extent: min(extent, 1_000_000)),
    ),
    FaultyDevice(
        name="SunkenLoads",
        sentence="Loads after a store to the same place, if the value is used after it.",
        clause="isa.load",
        rung=Rung.LOOP,
        program=_sunken_loads,
    ),
    FaultyDevice(
        name="SunkenBehindConstants",
        sentence="Loads after a store of a constant to the same place.",
        clause="isa.load",
        rung=Rung.LOOP,
        program=functools.partial(_sunken_loads, is_crossed=lambda value: value.op is Ops.CONST),
    ),
    FaultyDevice(
        name="FirstStoreStays",
        sentence="Leaves out the second of two stores to one place.",
        clause="isa.store",
        rung=Rung.LOOP,
        program=_without_later_stores,
    ),
    FaultyDevice(
        name="OpenBranches",
        sentence="Does what stands in an IF whether its condition holds or not.",
        clause="kernel.if",
        rung=Rung.LOOP,
        sanitize=False,
        program=each_node(_without(Ops.IF, Ops.ENDIF)),
    ),
    FaultyDevice(
        name="SwappedTexels",
        sentence="Takes the row of a texel for its column, and the column for the row.",
        clause="kernel.image",
        rung=Rung.VECTOR,
        sanitize=False,
        program=each_node(_swapped_texels),
    ),
    FaultyDevice(
        name="WrongItemIndex",
        sentence="Prints 0 for the index of a work-item in its group.",
        clause="kernel.special",
        rung=Rung.GROUP,
        sanitize=False,
        hooks=_first_index("item", np.zeros_like),
    ),
    FaultyDevice(
        name="MissingBarrier",
        sentence="Prints no barriers; its sanitizer reports the races.",
        clause="kernel.barrier",
        rung=Rung.GROUP,
        program=each_node(_without(Ops.BARRIER)),
    ),
    FaultyDevice(
        name="NestedBarriersLost",
        sentence="Prints no barriers in branches and loops; its sanitizer reports the races.",
        clause="kernel.barrier",
        rung=Rung.GROUP,
        program=_without_nested_barriers,
    ),
    FaultyDevice(
        name="BarriersOfLargeGroupsLost",
        sentence="Prints no barriers in kernels whose groups have more than 192 work-items.",
        clause="kernel.barrier",
        rung=Rung.GROUP,
        base=GpuEmuBackend,
        healthy="GPU_EMU",
        query="memory.open,memory.launch.float32,kernel.program.group,kernel.program.group_size,"
        "kernel.program.barriers,kernel.program.limit",
        program=_without_barriers_of_large_groups,
    ),
    FaultyDevice(
        name="SharedArraysOverlap",
        sentence="Lays shared arrays of one type over each other.",
        clause="kernel.local",
        rung=Rung.GROUP,
        sanitize=False,
        program=_overlapping_arrays,
    ),
    FaultyDevice(
        name="SwappedItemIndices",
        sentence="Swaps the first two indices of a work-item.",
        clause="kernel.special",
        rung=Rung.GROUP,
        base=GpuEmuBackend,
        healthy="GPU_EMU",
        program=each_node(_swapped_items),
    ),
    FaultyDevice(
        name="PrivateArrays",
        sentence="Gives every work-item an array of its own where the group shares one.",
        clause="kernel.local",
        rung=Rung.GROUP,
        base=GpuEmuBackend,
        healthy="GPU_EMU",
        text=(r"(%local\d+) = getelementptr i8, ptr %shared, i64 \d+", r"\1 = alloca i64, i64 512"),
    ),
    FaultyDevice(
        name="SwappedTileLane",
        sentence="Swaps the results of two neighbouring lanes of a matrix tile.",
        clause="kernel.wmma",
        rung=Rung.MATMUL,
        hooks=Hooks(tile=swap_two_lanes),
    ),
    FaultyDevice(
        name="FirstStoreOnly",
        sentence="Leaves out all stores of a kernel but the first.",
        clause="kernel.sink",
        rung=Rung.STORE,
        program=_first_store_only,
    ),
    FaultyDevice(
        name="FewArguments",
        sentence="Has no room for more than thirty arguments, and declares none of it.",
        clause="device.limit",
        rung=Rung.INDEX,
        launch=_short_of_buffers,
    ),
    FaultyDevice(
        name="EarlyGroups",
        sentence="Returns before the last group of a launch of long loops has written.",
        clause="device.order",
        rung=Rung.LOOP,
        launch=_without_helpers,
    ),
    FaultyDevice(
        name="LeakingLaunches",
        sentence="Keeps something of every launch, and has no room for the five-hundredth.",
        clause="memory.launch",
        launch=leaking(500),
    ),
    FaultyDevice(
        name="LeftMode",
        sentence="Computes with subnormals as zero after a kernel with a square root.",
        clause="float.subnormal",
        launch=_left_mode,
    ),
)
