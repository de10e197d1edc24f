"""Refusals: what a kernel or a program asks for that the device does not declare.

Each names the field of the capabilities that says so. A renderer is asked for nothing of this.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence

from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, ImageDType, Kind, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SpecialArg, TileArg
from tinyref.uops.program import Program, shared_bytes
from tinyref.uops.tiles import MatrixTile, Operand

_NAMED_OPS = ALU | {Ops.LOAD, Ops.STORE}
# A field of the capabilities, and what is asked for beyond it.
Problem = tuple[str, str]
_NOT_MADE = "and none is made of others"
_NOT_DECOMPOSED = "and a program written by hand gets no decompositions"


def check_dtypes(nodes: Sequence[UOp], capabilities: Capabilities) -> None:
    """Raises `UserError` for a type or a vector width that the device has in no way."""
    accepted = capabilities.dtypes | capabilities.emulated
    _refuse_first(_type_problems(nodes, accepted, capabilities))


def check_ops(nodes: Sequence[UOp], capabilities: Capabilities) -> None:
    """Raises `UserError` for an op that neither the device nor a decomposition provides."""
    _refuse_first(_op_problems(nodes, capabilities, _NOT_MADE))


def check_program(program: Program, capabilities: Capabilities) -> None:
    """Raises `UserError` for a program that asks for what the device does not declare.

    Nothing is emulated any more, and the launch is known but for symbolic extents.
    """
    if not capabilities.ops:
        raise UserError(f"{program.name}: the device runs no kernels (capabilities.ops)")
    _refuse_first(_type_problems(program.uops, capabilities.dtypes, capabilities))
    # A host runs what was made for its threads, also where the flag THREADS has changed since.
    threads = max(capabilities.threads, 2)
    threaded = dataclasses.replace(capabilities, threads=threads)
    _refuse_first(_op_problems(program.uops, threaded, _NOT_DECOMPOSED))
    _refuse_first(_launch_problems(program, capabilities))


def _refuse_first(problems: Iterator[Problem]) -> None:
    for field, words in problems:
        raise UserError(f"{words} (capabilities.{field})")


def _type_problems(
    nodes: Sequence[UOp], accepted: frozenset[DType], capabilities: Capabilities
) -> Iterator[Problem]:
    # The first node of each type speaks for the others.
    first: dict[DType, UOp] = {}
    for node in nodes:
        first.setdefault(node.dtype, node)
    for node in first.values():
        dtype = node.dtype.value if isinstance(node.dtype, PtrDType) else node.dtype
        if isinstance(node.dtype, ImageDType) and not capabilities.images:
            yield "images", f"{node.op.name}: the device has no images, got {node.dtype.name}"
        if dtype.kind is Kind.VOID or dtype.scalar is dtypes.index:
            continue
        words = f"{node.op.name} of {dtype.name}: the device has no"
        if dtype.scalar not in accepted:
            yield "dtypes", f"{words} {dtype.scalar.name}: accepted are {_names(accepted)}"
        if dtype.lanes in capabilities.vector_lanes:
            continue
        if dtype not in _fragments(capabilities.matrix_tiles):
            widths = ", ".join(str(lanes) for lanes in capabilities.vector_lanes)
            yield "vector_lanes", f"{words} vectors of {dtype.lanes} lanes: accepted are {widths}"


@functools.lru_cache(maxsize=64)
def _fragments(tiles: tuple[MatrixTile, ...]) -> frozenset[DType]:
    """The vectors that threads give to matrix tiles; a device has registers for these."""
    return frozenset(tile.fragment(operand) for tile in tiles for operand in Operand)


def _op_problems(nodes: Sequence[UOp], capabilities: Capabilities, why: str) -> Iterator[Problem]:
    missing = {op for op in _NAMED_OPS if op.name not in capabilities.ops}
    for node in nodes:
        if node.op in missing:
            accepted = ", ".join(sorted(capabilities.ops))
            yield (
                "ops",
                f"{node.op.name} of {node.dtype.name}: the device has no such op, {why}: "
                f"accepted are {accepted}",
            )
        for field, words in _structure_problems(node, capabilities):
            yield field, f"{node.op.name}: {words}"


def _structure_problems(node: UOp, capabilities: Capabilities) -> Iterator[Problem]:
    if node.op is Ops.SPECIAL and isinstance(node.arg, SpecialArg):
        shares_threads = capabilities.threads > 1 and node.arg.dim == 0
        if node.arg.scope == "group" and not (capabilities.has_grid or shares_threads):
            yield "has_grid", "the device has no launch indices"
        if node.arg.scope == "item" and not capabilities.has_groups:
            yield "has_groups", "the device has no groups of work-items"
    if node.op is Ops.BARRIER and not capabilities.has_groups:
        yield "has_groups", "the device has no groups, so no barriers"
    if isinstance(node.arg, TileArg) and node.arg.tile not in capabilities.matrix_tiles:
        accepted = ", ".join(tile.name for tile in capabilities.matrix_tiles) or "none"
        words = f"the device has no matrix tile {node.arg.tile}: accepted are {accepted}"
        yield "matrix_tiles", words


def _launch_problems(program: Program, capabilities: Capabilities) -> Iterator[Problem]:
    name = program.name
    buffers, limit = len(program.parameters), capabilities.buffer_limit
    if buffers > limit:
        yield "buffer_limit", f"{name}: takes {buffers} buffers: accepted are {limit}"
    size = program.group[0] * program.group[1] * program.group[2]
    if size > capabilities.group_size_limit:
        words = f"{name}: has groups of {size} work-items: accepted are"
        yield "group_size_limit", f"{words} {capabilities.group_size_limit}"
    for field, extents in (("grid_limit", program.grid), ("group_limit", program.group)):
        limits = getattr(capabilities, field)
        for dim, extent in enumerate(extents):
            if isinstance(extent, int) and extent > limits[dim]:
                words = f"{name}: has {extent} in dimension {dim}: accepted are {limits[dim]}"
                yield field, words
    shared = shared_bytes(program)
    if shared > capabilities.shared_bytes:
        words = f"{name}: takes {shared} bytes of shared memory: accepted are"
        yield "shared_bytes", f"{words} {capabilities.shared_bytes}"


def _names(types: Iterable[DType]) -> str:
    ordered = sorted(types, key=lambda dtype: dtype.priority)
    return ", ".join(dtype.name for dtype in ordered)
