"""Devices that launch wrongly: grids, groups, loops, vectors, shared memory and matrix tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyref.dtype import ImageDType, PtrDType
from tinyref.errors import DeviceError
from tinyref.interpret import Access, Hooks
from tinyref.interpret.interpreter import Interpreter
from tinyref.runtimes.emulated.gpu_emu import GpuEmuBackend
from tinyref.runtimes.host.memory import HostHandle
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import MatrixTile
from tinyref_conformance.faulty.arithmetic import FAULTS as ARITHMETIC
from tinyref_conformance.faulty.device import Array, Call, FaultyDevice, SimulatedKernel
from tinyref_conformance.faulty.programs import Change, each
from tinyref_spec.case import Rung

_LONG = 500


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


def _spilled(program: Program) -> Change:
    middle = program.uops[_LONG // 2 :] if len(program.uops) > _LONG else ()
    position = next(
        (place for place, node in enumerate(middle) if node.op in (Ops.XOR, Ops.ADD, Ops.MUL)), None
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
        name="EmptyLoop",
        sentence="Runs a loop of no iterations once, and all other loops as often as it should.",
        clause="kernel.range",
        rung=Rung.LOOP,
        sanitize=False,
        hooks=Hooks(loop=lambda extent: max(extent, 1)),
    ),
    FaultyDevice(
        name="OpenBranches",
        sentence="Does what stands in an IF whether its condition holds or not.",
        clause="kernel.if",
        rung=Rung.LOOP,
        sanitize=False,
        program=each(_without(Ops.IF, Ops.ENDIF)),
    ),
    FaultyDevice(
        name="SwappedTexels",
        sentence="Takes the row of a texel for its column, and the column for the row.",
        clause="kernel.image",
        rung=Rung.VECTOR,
        sanitize=False,
        program=each(_swapped_texels),
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
        program=each(_without(Ops.BARRIER)),
    ),
    FaultyDevice(
        name="NestedBarriersLost",
        sentence="Prints no barriers in branches and loops; its sanitizer reports the races.",
        clause="kernel.barrier",
        rung=Rung.GROUP,
        program=_without_nested_barriers,
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
        program=each(_swapped_items),
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
