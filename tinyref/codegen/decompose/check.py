"""Refusals: what a kernel asks for that the device does not declare."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from tinyref.device import Capabilities
from tinyref.dtype import DType, ImageDType, Kind, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SpecialArg, TileArg
from tinyref.uops.tiles import MatrixTile, Operand


def check_dtypes(nodes: Sequence[UOp], capabilities: Capabilities) -> None:
    """Raises `UserError` for a type or a vector width that the device has in no way."""
    accepted = capabilities.dtypes | capabilities.emulated
    # The first node of each type speaks for the others.
    first: dict[DType, UOp] = {}
    for node in nodes:
        first.setdefault(node.dtype, node)
    for node in first.values():
        dtype = node.dtype.value if isinstance(node.dtype, PtrDType) else node.dtype
        if isinstance(node.dtype, ImageDType) and not capabilities.images:
            raise UserError(f"{node.op.name}: the device has no images, got {node.dtype.name}")
        if dtype.kind is Kind.VOID or dtype.scalar is dtypes.index:
            continue
        if dtype.scalar not in accepted:
            raise UserError(
                f"{node.op.name} of {dtype.name}: the device has no {dtype.scalar.name}: "
                f"accepted are {_names(accepted)}"
            )
        if dtype.lanes in capabilities.vector_lanes:
            continue
        if dtype not in _fragments(capabilities.matrix_tiles):
            widths = ", ".join(str(lanes) for lanes in capabilities.vector_lanes)
            raise UserError(
                f"{node.op.name} of {dtype.name}: the device has no vectors of {dtype.lanes} "
                f"lanes: accepted are {widths}"
            )


@functools.lru_cache(maxsize=64)
def _fragments(tiles: tuple[MatrixTile, ...]) -> frozenset[DType]:
    """The vectors that threads give to matrix tiles; a device has registers for these."""
    return frozenset(tile.fragment(operand) for tile in tiles for operand in Operand)


def check_ops(root: UOp, capabilities: Capabilities) -> None:
    """Raises `UserError` for an op that neither the device nor a decomposition provides."""
    missing = {op for op in ALU if op.name not in capabilities.ops}
    for node in root.toposort():
        if node.op in missing:
            accepted = ", ".join(sorted(capabilities.ops))
            raise UserError(
                f"{node.op.name} of {node.dtype.name}: the device has no such op, and none is "
                f"made of others: accepted are {accepted}"
            )
        problem = _structure_problem(node, capabilities)
        if problem:
            raise UserError(f"{node.op.name}: {problem}")


def _structure_problem(node: UOp, capabilities: Capabilities) -> str | None:
    if node.op is Ops.SPECIAL and isinstance(node.arg, SpecialArg):
        shares_threads = capabilities.threads > 1 and node.arg.dim == 0
        if node.arg.scope == "group" and not (capabilities.has_grid or shares_threads):
            return "the device has no launch indices"
        if node.arg.scope == "item" and not capabilities.has_groups:
            return "the device has no groups of work-items"
    if node.op is Ops.BARRIER and not capabilities.has_groups:
        return "the device has no groups, so no barriers"
    # Without groups it is scratch memory of the one work-item.
    if node.op is Ops.DEFINE_LOCAL and not (capabilities.has_groups or capabilities.shared_bytes):
        return "the device has neither groups nor scratch memory"
    if isinstance(node.arg, TileArg) and node.arg.tile not in capabilities.matrix_tiles:
        accepted = ", ".join(tile.name for tile in capabilities.matrix_tiles) or "none"
        return f"the device has no matrix tile {node.arg.tile}: accepted are {accepted}"
    return None


def _names(types: Iterable[DType]) -> str:
    ordered = sorted(types, key=lambda dtype: dtype.priority)
    return ", ".join(dtype.name for dtype in ordered)
