"""Which matrix tiles take a kernel: the fuzzer's own rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tinyref.algebra.kernel_shape import reduced_axes
from tinyref.optimise.normal_form import OUTPUT
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan, changes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg
from tinyref.uops.tiles import TILES, MatrixTile
from tinyref_fuzz.judge.expressions.padded import MAX_PADDING, may_pad
from tinyref_fuzz.judge.expressions.questions import Question

TAKE = Opt(OptOp.TC, 0, 0, 2, 1)


@dataclass(frozen=True)
class _Product:
    """A sum of products: the factors, and the axes that the first, the second and both have."""

    factors: tuple[UOp, UOp]
    rows: list[int]
    columns: list[int]
    depths: list[int]

    @property
    def choices(self) -> int:
        """In how many ways its axes are those of a tile; either factor may be A."""
        return 2 * len(self.rows) * len(self.columns) * len(self.depths)


def tile_questions(plan: Plan) -> Iterator[Question]:
    """Of each tile of the type of a sum at each level, and of what no tile admits."""
    yield Question((TAKE,), False)
    reduces = [node for node in plan.nodes if isinstance(node.arg, ReduceArg)]
    if not plan.capabilities.has_groups or len(reduces) != 1:
        # Of several the first that fits is taken.
        return
    tiles = [
        tile for tile in TILES.values() if tile.dtype_out is reduces[0].dtype and tile.c.copies == 1
    ]
    for tile in tiles:
        yield from _of_tile(plan, tile, reduces[0])
    yield from _of_two(plan, tiles, reduces[0])


def _of_tile(plan: Plan, tile: MatrixTile, reduce: UOp) -> Iterator[Question]:
    found = _product_of(plan, tile, reduce)
    device = {"matrix_tiles": (tile,)}
    has_types = _has_types(plan, tile)
    legal = [
        has_types and found is not None and _fits(plan, tile, found, level) for level in range(3)
    ]
    for level, is_legal in enumerate(legal):
        is_exact = tile.rounds_in is None
        yield Question((replace(TAKE, arg=-1, level=level),), is_legal and is_exact, device)
        if is_exact:
            yield Question((replace(TAKE, level=level),), is_legal, device)
    if not legal[2] or found is None or tile.rounds_in is not None:
        return
    for odd in (
        *(replace(TAKE, level=level) for level in (-1, 3)),
        *(replace(TAKE, mode=mode) for mode in (0, 4)),
        *(replace(TAKE, arg=number) for number in (-2, 1)),
        *(replace(TAKE, axis=choice) for choice in (-1, found.choices)),
    ):
        yield Question((odd,), False, device)
    yield Question((TAKE, TAKE), False, device)
    yield Question((Opt(OptOp.NOLOCALS), TAKE), False, device)
    yield Question((TAKE,), False, {**device, "has_groups": False})
    yield Question((TAKE,), False, {**device, "group_size_limit": tile.threads - 1})
    needed = _memory_of(tile)
    in_memory = replace(TAKE, mode=3)
    yield Question((in_memory,), True, {**device, "shared_bytes": needed})
    yield Question((in_memory,), False, {**device, "shared_bytes": needed - 1})
    yield Question((replace(TAKE, mode=2),), True, {**device, "shared_bytes": 0})


def _of_two(plan: Plan, tiles: list[MatrixTile], reduce: UOp) -> Iterator[Question]:
    """Where one does not fit the memory of a group, the other is taken."""
    fitting = []
    for tile in tiles:
        found = _product_of(plan, tile, reduce)
        is_exact = tile.rounds_in is None and _has_types(plan, tile)
        if found is not None and is_exact and _fits(plan, tile, found, 2):
            fitting.append(tile)
    fitting.sort(key=_memory_of)
    if len(fitting) < 2 or _memory_of(fitting[0]) == _memory_of(fitting[-1]):
        return
    small, large = fitting[0], fitting[-1]
    memory = {"shared_bytes": _memory_of(small)}
    for pair in ((large, small), (small, large)):
        device = {"matrix_tiles": pair, **memory}
        yield Question((replace(TAKE, arg=-1, mode=3),), True, device)
        yield Question((replace(TAKE, mode=3),), pair[0] is small, device)


def _has_types(plan: Plan, tile: MatrixTile) -> bool:
    return {tile.dtype_in, tile.dtype_out} <= plan.capabilities.dtypes


def _memory_of(tile: MatrixTile) -> int:
    """What the fragments of A and B take."""
    m, n, k = tile.dims
    return (m + n) * k * tile.dtype_in.itemsize


def _product_of(plan: Plan, tile: MatrixTile, reduce: UOp) -> _Product | None:
    """The sum of products of the types of a tile that a reduce is."""
    product = reduce.src[0]
    if product.op is not Ops.MUL or not isinstance(reduce.arg, ReduceArg):
        return None
    if reduce.arg.op is not Ops.ADD:
        return None
    factors = []
    for factor in product.src:
        widens = tile.dtype_in is not tile.dtype_out
        if widens and factor.op is not Ops.CAST:
            return None
        taken = factor.src[0] if widens else factor
        if taken.dtype is not tile.dtype_in:
            return None
        factors.append(taken)
    one, other = factors
    outputs = [axis for axis, owner in enumerate(plan.form.owners) if owner == OUTPUT]
    return _Product(
        (one, other),
        [axis for axis in outputs if axis in changes(one) - changes(other)],
        [axis for axis in outputs if axis in changes(other) - changes(one)],
        [axis for axis in reduced_axes(reduce) if axis in changes(one) & changes(other)],
    )


def _fits(plan: Plan, tile: MatrixTile, product: _Product, level: int) -> bool:
    """Whether the last axes of each kind are multiples of the sides of a tile, or may be padded."""
    if product.choices == 0:
        return False
    if level == 0 and any(factor.op is not Ops.LOAD for factor in product.factors):
        return False
    targets = (product.rows[-1], product.columns[-1], product.depths[-1])
    for target, side in zip(targets, tile.dims, strict=True):
        size = plan.shape[target]
        if not isinstance(size, int):
            return False
        padded = -(-size // side) * side
        is_harmless = all(may_pad(reduce, target) for reduce in plan.reduces_over(target))
        if padded > size and (level < 2 or padded > MAX_PADDING * size or not is_harmless):
            return False
    return True
