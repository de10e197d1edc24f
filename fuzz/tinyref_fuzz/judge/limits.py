"""What a finished program takes, against what the device declares.

It reads the nodes of the program alone and shares no code with the optimiser's own checks, so that
a limit which is forgotten there is found here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import launch_grid
from tinyref.algebra.kernel_shape import output_shape
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, ImageDType, PtrDType, dtypes
from tinyref.optimise.opt import Opt, OptOp
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, Payload, SlotArg, SpecialArg, TileArg, ViewArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import Operand
from tinyref.views.build import tracker_of
from tinyref.views.view import View

# Ops that need no support of their own: no device lacks memory accesses and structure.
_COUNTED = frozenset({*ALU, Ops.LOAD, Ops.STORE})


def limit_problem(
    program: Program,
    capabilities: Capabilities,
    opts: Sequence[Opt] = (),
    bindings: Mapping[str, int] | None = None,
) -> str:
    """The first thing that `program` takes and the device does not declare; else nothing.

    `opts` are the optimisations that it was compiled with, `bindings` give the grid its numbers.
    """
    return next(_problems(program, capabilities, opts, bindings or {}), "")


def _problems(
    program: Program,
    capabilities: Capabilities,
    opts: Sequence[Opt],
    bindings: Mapping[str, int],
) -> Iterator[str]:
    yield from _launch(program, capabilities, bindings)
    yield from _memory(program, capabilities)
    yield from _promises(program, opts)
    # One node of each kind says what all of them need.
    kinds: dict[tuple[Ops, DType, Payload], UOp] = {}
    for node in program.uops:
        tile = node.arg if node.op is Ops.WMMA else None
        kinds.setdefault((node.op, node.dtype, tile), node)
    fragments = _fragments(kinds.values())
    for node in kinds.values():
        yield from _op(node, capabilities)
        yield from _dtype(node, capabilities, fragments)


def _launch(
    program: Program, capabilities: Capabilities, bindings: Mapping[str, int]
) -> Iterator[str]:
    """Grid and group, as the launch gives them and as the program's own indices ask for."""
    grid, group = launch_grid(program, bindings), program.group
    size = group[0] * group[1] * group[2]
    if size != 1 and not capabilities.has_groups:
        yield f"a group of {group}, the device has no groups"
    if size > capabilities.group_size_limit:
        yield f"a group of {size} work-items, declared are {capabilities.group_size_limit}"
    if not capabilities.has_grid and (grid[1:] != (1, 1) or grid[0] > max(capabilities.threads, 1)):
        yield f"a grid of {grid}, the device has {capabilities.threads} threads and no grid"
    for dim in range(3):
        if group[dim] > capabilities.group_limit[dim]:
            yield f"a group of {group}, declared are {capabilities.group_limit}"
        if grid[dim] > capabilities.grid_limit[dim]:
            yield f"a grid of {grid}, declared are {capabilities.grid_limit}"
    for node in program.uops:
        if node.op is Ops.SPECIAL and isinstance(node.arg, SpecialArg):
            yield from _special(node, node.arg, program)


def _special(node: UOp, arg: SpecialArg, program: Program) -> Iterator[str]:
    """An index whose extent is not that of the launch."""
    extent = node.src[0].arg
    given = program.grid[arg.dim] if arg.scope == "group" else program.group[arg.dim]
    if isinstance(extent, ConstArg) and isinstance(given, int) and extent.value != given:
        yield f"{arg.scope} index {arg.dim} has {extent.value} values, the launch has {given}"


def _memory(program: Program, capabilities: Capabilities) -> Iterator[str]:
    if len(program.parameters) > capabilities.buffer_limit:
        yield f"{len(program.parameters)} buffers, declared are {capabilities.buffer_limit}"
    local = 0
    for node in program.uops:
        if node.op is Ops.DEFINE_LOCAL and isinstance(node.dtype, PtrDType):
            local += node.dtype.size * node.dtype.base.itemsize
    if local > capabilities.shared_bytes:
        yield f"{local} bytes of local memory, declared are {capabilities.shared_bytes}"
    if not capabilities.has_groups and any(node.op is Ops.BARRIER for node in program.uops):
        yield "a barrier, the device has no groups"


def _promises(program: Program, opts: Sequence[Opt]) -> Iterator[str]:
    """What an optimisation promises for the whole program."""
    if any(opt.op is OptOp.NOLOCALS for opt in opts) and program.group != (1, 1, 1):
        yield f"a group of {program.group} after NOLOCALS"


def _op(node: UOp, capabilities: Capabilities) -> Iterator[str]:
    if node.op in _COUNTED and node.op.name not in capabilities.ops:
        yield f"the op {node.op.name}, which the device does not declare"
    if isinstance(node.arg, TileArg) and node.arg.tile not in capabilities.matrix_tiles:
        yield f"the tile {node.arg.tile}, which the device does not declare"


def _dtype(node: UOp, capabilities: Capabilities, fragments: frozenset[DType]) -> Iterator[str]:
    """A type in which the device does not compute, or a width that it does not have."""
    if isinstance(node.dtype, ImageDType):
        if not capabilities.images:
            yield "an image, which the device does not declare"
        return
    dtype = node.dtype.value if isinstance(node.dtype, PtrDType) else node.dtype
    if dtype is dtypes.void:
        return
    if dtype.scalar not in capabilities.dtypes:
        yield f"{node.op.name} of {dtype.name}, a type that the device does not declare"
    if dtype.lanes not in capabilities.vector_lanes and dtype not in fragments:
        yield f"{node.op.name} of {dtype.lanes} lanes, declared are {capabilities.vector_lanes}"


def _fragments(nodes: Iterable[UOp]) -> frozenset[DType]:
    """The vectors that threads hold of the matrix tiles of a program, whatever their width."""
    tiles = {node.arg.tile for node in nodes if isinstance(node.arg, TileArg)}
    return frozenset(tile.fragment(operand) for tile in tiles for operand in Operand)


def declared_lack(ast: UOp, capabilities: Capabilities) -> str:
    """What the kernel `ast` needs that the device declares not to have, so that it may refuse it.

    Types, images, positions, more buffers or a larger grid; nothing where it has to take it.
    """
    accepted = capabilities.dtypes | capabilities.emulated
    slots = set()
    for node in ast.toposort():
        if isinstance(node.arg, SlotArg):
            slots.add(node.arg.slot)
        if isinstance(node.dtype, ImageDType) and not capabilities.images:
            return "images"
        dtype = node.dtype.value if isinstance(node.dtype, PtrDType) else node.dtype
        if dtype not in (dtypes.void, dtypes.index) and dtype.scalar not in accepted:
            return dtype.scalar.name
        if node.op is Ops.BITCAST and _is_wide(node) and dtypes.int64 not in capabilities.dtypes:
            return "a BITCAST of 64 bits"
    if len(slots) > capabilities.buffer_limit:
        return f"{len(slots)} buffers"
    if dtypes.int64 not in capabilities.dtypes and any(map(_is_long, ast.toposort())):
        return "positions beyond 32 bits"
    shape = output_shape(ast)
    most = math.prod(size if isinstance(size, int) else bounds(size)[1] for size in shape)
    if capabilities.has_grid and most > math.prod(capabilities.grid_limit):
        return f"a grid of {most}"
    return ""


def _is_wide(node: UOp) -> bool:
    return any(each.dtype.itemsize == 8 for each in (node, node.src[0]))


def _is_long(node: UOp) -> bool:
    """Whether a view has positions or steps on its way that 32 bits do not count.

    Steps count where a mask hides them, too: an index is computed before it is not used.
    """
    return isinstance(node.arg, ViewArg) and any(
        max(_positions_and_indices(view)) > dtypes.int32.maximum for view in tracker_of(node).views
    )


def _positions_and_indices(view: View) -> Iterator[int]:
    """How many positions there are, and how large an index is on its way, without signs."""
    sizes = [max(_ends(size)) for size in view.shape]
    yield math.prod(sizes)
    steps = [
        [max(size - 1, 0) * end for end in _ends(stride)]
        for size, stride in zip(sizes, view.strides, strict=True)
    ]
    low, high = sum(min(0, *each) for each in steps), sum(max(0, *each) for each in steps)
    least, most = _ends(view.offset)
    yield from map(abs, (low, high, least, most, low + least, high + most))


def _ends(number: sint) -> tuple[int, int]:
    return bounds(number) if isinstance(number, UOp) else (number, number)
