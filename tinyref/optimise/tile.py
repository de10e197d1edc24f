"""Matrix tiles in plans: the sums of products that fit a tile, and the axes of the tile.

The lanes of a tile are axes of two iterations, one axis for each bit of the numbers of threads and
registers. They have the layout of C and cannot be split further.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from tinyref import config
from tinyref.algebra.shapes import reduced_axes
from tinyref.algebra.symbolic import describe
from tinyref.dtype import ImageDType
from tinyref.optimise.legality import limit_problem, work_problem
from tinyref.optimise.normal_form import OUTPUT
from tinyref.optimise.opt import Opt
from tinyref.optimise.plan import Axis, Plan, TileUse, changes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ReduceArg
from tinyref.uops.tiles import MatrixTile


class TileLevel(IntEnum):
    """The form of a kernel for a tile; each level includes the lower ones."""

    # The kernel has one reduce, of products of loaded elements.
    LOADS = 0
    # Operands are any expressions of the input type, and the kernel may have other reduces.
    EXPRESSIONS = 1
    # Axes that the tile does not divide are padded.
    PADDING = 2


class TileMode(IntEnum):
    """The computation of the product of a tile."""

    # The instruction of the device.
    INSTRUCTION = 1
    # Element by element, on the same axes.
    SHAPE = 2
    # Element by element, from fragments that the threads store in shared memory.
    MEMORY = 3


@dataclass(frozen=True)
class Product:
    """A sum of products: `reduce`, the operands as A and B, and the AST axes of m, n and k."""

    reduce: UOp
    a: UOp
    b: UOp
    targets: tuple[int, int, int]


def with_tile(plan: Plan, opt: Opt) -> Plan | str:
    """Return the plan on the tile that `opt` names, or the reason of a refusal."""
    reason = "every tile of the device rounds its inputs: name such a tile by its number"
    for number in exact_tiles(plan) if opt.arg == -1 else (opt.arg,):
        tile = plan.capabilities.matrix_tiles[number]
        result = _on_tile(plan, tile, opt)
        problem = limit_problem(result) if isinstance(result, Plan) else result
        if problem is None:
            return result
        reason = problem
    return reason


def exact_tiles(plan: Plan) -> list[int]:
    """Return the numbers of the device's tiles that do not round their inputs."""
    tiles = plan.capabilities.matrix_tiles
    return [number for number, tile in enumerate(tiles) if tile.rounds_in is None]


def tile_number_problem(plan: Plan, opt: Opt) -> str | None:
    """Return why `opt` names no tile, level or mode; None if it does."""
    tiles = plan.capabilities.matrix_tiles
    if not -1 <= opt.arg < len(tiles):
        return f"there is no tile {opt.arg}: accepted are -1 to {len(tiles) - 1}"
    if opt.level not in [*TileLevel] or opt.mode not in [*TileMode]:
        return f"level {opt.level}, mode {opt.mode}: accepted are levels 0 to 2 and modes 1 to 3"
    return None


def _on_tile(plan: Plan, tile: MatrixTile, opt: Opt) -> Plan | str:
    if tile.rounds_in is not None and config.integer("STRICT_FLOAT"):
        return f"{tile} rounds its inputs to {tile.rounds_in.value}: needs STRICT_FLOAT=0"
    for dtype in (tile.dtype_in, tile.dtype_out):
        if dtype not in plan.capabilities.dtypes:
            return f"{tile} is of {dtype.name}, which the device only emulates"
    if tile.c.copies != 1:
        return f"{tile} repeats elements of C: accepted are tiles that hold each once"
    matches = list(products(plan, tile, opt.level))
    if not matches:
        return f"no sum of products fits the types and axes of {tile}"
    if not 0 <= opt.axis < len(matches):
        return f"there is no choice {opt.axis} of axes: accepted are 0 to {len(matches) - 1}"
    return _cut_axes(plan, tile, matches[opt.axis], opt)


# --- matching -------------------------------------------------------------------------------------


def products(plan: Plan, tile: MatrixTile, level: int) -> Iterator[Product]:
    """Yield the ways in which a reduce is a product of the tile, last axes first."""
    reduces = [node for node in plan.nodes if isinstance(node.arg, ReduceArg)]
    if level == TileLevel.LOADS and len(reduces) != 1:
        return
    for reduce in reduces:
        factors = _factors(reduce, tile, level)
        if factors is None:
            continue
        for a, b in (factors, factors[::-1]):
            for targets in _targets(plan, reduce, a, b):
                yield Product(reduce, a, b, targets)


def _factors(reduce: UOp, tile: MatrixTile, level: int) -> tuple[UOp, UOp] | None:
    """Return the two operands of the summed products, in the tile's input type."""
    product = reduce.src[0]
    is_sum = isinstance(reduce.arg, ReduceArg) and reduce.arg.op is Ops.ADD
    if not is_sum or product.op is not Ops.MUL or product.dtype is not tile.dtype_out:
        return None
    factors = [_input(factor, tile) for factor in product.src]
    accepted = [one for one in factors if one is not None and _is_accepted(one, level)]
    return (accepted[0], accepted[1]) if len(accepted) == 2 else None


def _input(factor: UOp, tile: MatrixTile) -> UOp | None:
    """Return the input of the tile for a factor of its output type; the tile widens it."""
    if tile.dtype_in is not tile.dtype_out:
        if factor.op is not Ops.CAST:
            return None
        factor = factor.src[0]
    return factor if factor.dtype is tile.dtype_in else None


def _is_accepted(factor: UOp, level: int) -> bool:
    if any(isinstance(node.dtype, ImageDType) for node in factor.toposort()):
        # A thread loads single elements, but an image gives texels.
        return False
    if level == TileLevel.LOADS:
        return factor.op is Ops.LOAD
    # Fragments are computed at other positions than the rest, so they have no loops.
    return all(node.op is not Ops.REDUCE for node in factor.toposort())


def _targets(plan: Plan, reduce: UOp, a: UOp, b: UOp) -> Iterator[tuple[int, int, int]]:
    in_a, in_b = changes(a), changes(b)
    outputs = [target for target, owner in enumerate(plan.form.owners) if owner == OUTPUT]
    for n in reversed([axis for axis in outputs if axis in in_b and axis not in in_a]):
        for m in reversed([axis for axis in outputs if axis in in_a and axis not in in_b]):
            for k in reversed([axis for axis in reduced_axes(reduce) if axis in in_a & in_b]):
                yield m, n, k


# --- axes -----------------------------------------------------------------------------------------


def _cut_axes(plan: Plan, tile: MatrixTile, product: Product, opt: Opt) -> Plan | str:
    # A tile comes first: the axes of the plan are still those of the kernel.
    axes = list(plan.axes)
    for target, size in zip(product.targets, tile.dims, strict=True):
        extent = plan.shape[target]
        if not isinstance(extent, int):
            return f"axis {target} has the symbolic extent {describe(extent)}"
        padded = -(-extent // size) * size
        if padded != extent:
            problem: str | None = f"{extent} is no multiple, and only level 2 pads"
            if opt.level == TileLevel.PADDING:
                problem = work_problem(plan, target, padded)
            if problem is not None:
                return f"{tile} needs multiples of {size} on axis {target}: {problem}"
        axes[target] = replace(axes[target], extent=padded // size, stride=size)
    m, n, k = product.targets
    targets = {"m": m, "n": n}
    # The lowest bit is the last axis, so the axes count like the numbers.
    for kind, bits in (
        (AxisKind.LOCAL, tile.c.thread_bits),
        (AxisKind.UPCAST, tile.c.register_bits),
    ):
        axes += [
            Axis(kind, 2, targets[bit.axis], bit.weight, is_fixed=True)
            for bit in reversed(bits)
            if bit is not None
        ]
    axes.append(Axis(AxisKind.UNROLL, tile.size("k"), k, is_fixed=True))
    use = TileUse(tile, opt.mode, product.reduce, product.a, product.b, product.targets)
    return replace(plan.with_axes(axes), tile=use)
