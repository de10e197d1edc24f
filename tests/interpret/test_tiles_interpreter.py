"""Test WMMA by lanes: products against numpy, rounding by literals, wrong uses of tiles."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tinyref.codegen.linearise import linearise
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.interpret import Fault, Hooks, SanitizerError, run_program
from tinyref.interpret.wmma import round_to_tf32
from tinyref.uops import build
from tinyref.uops.build import tile_element
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import AxisKind, TileArg
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import TILES, FragmentLayout, MatrixTile, Operand
from tinyref.verify import verify

Array = npt.NDArray[Any]
Extents = tuple[int, int, int]
i32 = dtypes.int32
NVIDIA = TILES["nvidia_m16n8k16_float16_float32"]
REPLICATED = TILES["rdna3_m16n16k16_float16_float32"]
SLOTS = {Operand.A: 1, Operand.B: 2, Operand.C: 3}


class Product:
    """A launch in which every subgroup multiplies matrices of its own: D = A * B + C.

    A, B and C are [subgroup, row, column] row by row in the slots 1 to 3; D is slot 0.
    """

    def __init__(
        self, tile: MatrixTile, grid: Extents = (1, 1, 1), group: Extents = (0, 1, 1)
    ) -> None:
        self.tile = tile
        self.grid = grid
        self.group = (tile.threads, 1, 1) if group == (0, 1, 1) else group
        self.subgroups = int(np.prod(grid) * np.prod(self.group)) // tile.threads
        self.thread = _flat("item", self.group)
        position = build.add(build.mul(_flat("group", grid), int(np.prod(self.group))), self.thread)
        self.subgroup = build.idiv(position, tile.threads)

    def memory(self, operand: Operand, slot: int | None = None) -> UOp:
        """Return the buffer of an operand, or D by its slot."""
        rows, columns = self.tile.shape(operand)
        size = self.subgroups * rows * columns
        return build.define_global(
            SLOTS[operand] if slot is None else slot, self.tile.dtype(operand), size
        )

    def positions(self, operand: Operand, thread: UOp | None = None) -> list[UOp]:
        """Return the positions in memory of the elements that the work-item holds."""
        rows, columns = self.tile.shape(operand)
        holder = self.thread if thread is None else thread
        positions = []
        for register in range(self.tile.layout(operand).registers):
            row, column = tile_element(self.tile, operand, holder, register)
            inside = build.add(build.mul(row, columns), column)
            positions.append(build.add(build.mul(self.subgroup, rows * columns), inside))
        return positions

    def fragment(self, operand: Operand, thread: UOp | None = None) -> UOp:
        """Return the value that the work-item contributes."""
        memory = self.memory(operand)
        positions = self.positions(operand, thread)
        loads = [build.load(build.index(memory, position)) for position in positions]
        return build.vectorize(*loads) if len(loads) > 1 else loads[0]

    def wmma(self, a: UOp, b: UOp, c: UOp) -> UOp:
        return UOp(Ops.WMMA, self.tile.fragment(Operand.C), (a, b, c), TileArg(self.tile))

    def stores(self, result: UOp) -> list[UOp]:
        memory = self.memory(Operand.C, 0)
        return [
            build.store(
                build.index(memory, position),
                build.gep(result, register) if result.dtype.lanes > 1 else result,
            )
            for register, position in enumerate(self.positions(Operand.C))
        ]

    def program(self) -> Program:
        """Return the program: load, multiply, store."""
        root = build.sink(*self.stores(self.wmma(*map(self.fragment, Operand))))
        verify(Dialect.INDEXED, root)
        return self.of(linearise(root))

    def of(self, uops: tuple[UOp, ...]) -> Program:
        memories = [self.memory(Operand.C, 0), *(self.memory(operand) for operand in Operand)]
        parameters = tuple(
            Parameter(slot, memory.dtype.base, memory.dtype.size, slot == 0, slot != 0)  # type: ignore[attr-defined]
            for slot, memory in enumerate(memories)
        )
        return Program("product", uops, parameters, (), self.grid, self.group)

    def matrices(self) -> list[Array]:
        """Return A, B and C of small integers, [subgroup, row, column]."""
        random = np.random.default_rng(0)
        return [
            random.integers(-2, 3, (self.subgroups, *self.tile.shape(operand))).astype(
                numpy_dtype(self.tile.dtype(operand))
            )
            for operand in Operand
        ]

    def run_on(
        self, matrices: list[Array], program: Program | None = None, **options: Any
    ) -> Array:
        """Return D as [subgroup, row, column]."""
        shape = (self.subgroups, *self.tile.shape(Operand.C))
        out = np.full(int(np.prod(shape)), 99, numpy_dtype(self.tile.dtype_out))
        buffers = [out, *(matrix.reshape(-1).copy() for matrix in matrices)]
        run_program(program or self.program(), buffers, **options)
        return out.reshape(shape)


def _flat(scope: str, extents: Extents) -> UOp:
    """Return the position of a group or item in launch order; dimension 0 is the fastest."""
    x, y, z = (build.special(scope, dim, extent, i32) for dim, extent in enumerate(extents))
    return build.add(build.mul(build.add(build.mul(z, extents[1]), y), extents[0]), x)


def by_numpy(matrices: list[Array]) -> Array:
    """Return A * B + C, exactly, in float64."""
    a, b, c = (matrix.astype(np.float64) for matrix in matrices)
    return np.matmul(a, b) + c


def check(product: Product, **options: Any) -> None:
    matrices = product.matrices()
    result = product.run_on(matrices, **options)
    expected = by_numpy(matrices)
    assert np.abs(expected).max() > 4
    np.testing.assert_array_equal(result.astype(np.float64), expected)


# --- products ------------------------------------------------------------------------------------


def test_many_groups_at_once() -> None:
    check(Product(NVIDIA, grid=(40, 30, 1), group=(64, 1, 1)))


def test_a_tile_may_hold_one_element_for_many_threads() -> None:
    # With m, n and k of 2, A is held twice, once per column, and B twice, once per row.
    layouts = [FragmentLayout.of(*bits) for bits in (("- m1", "k1"), ("n1 -", "k1"), ("n1 m1", ""))]
    tile = MatrixTile("own", (2, 2, 2), dtypes.int32, dtypes.int32, *layouts)  # type: ignore[arg-type]
    check(Product(tile, grid=(4, 1, 1), group=(8, 1, 1)))


def test_a_hook_that_swaps_two_lanes_is_seen() -> None:
    def swap(_: MatrixTile, result: Array) -> Array:
        order = [1, 0, *range(2, result.shape[1])]
        return result[:, order]

    with pytest.raises(AssertionError, match="Mismatched elements"):
        check(Product(NVIDIA), hooks=Hooks(tile=swap))


# --- rounding ------------------------------------------------------------------------------------


def dot(name: str, a: list[float], b: list[float], c: float) -> float:
    """Return element (0, 0) of the product of one row of A and one column of B."""
    tile = dataclasses.replace(TILES[name])
    product = Product(tile)
    left, right, start = map(np.zeros_like, product.matrices())
    left[0, 0, : len(a)] = a
    right[0, : len(b), 0] = b
    start[0, 0, 0] = c
    return float(product.run_on([left, right, start])[0, 0, 0])


def test_sums_start_at_c_and_round_at_every_step() -> None:
    # 2049 is a tie in float16, and goes to even: every one of eight additions is lost.
    ones = [1.0] * 8
    assert dot("apple_m8n8k8_float16_float16", ones, ones, 2048.0) == 2048.0
    assert dot("nvidia_m16n8k8_float16_float32", ones, ones, 2048.0) == 2056.0


def test_products_are_rounded_before_they_are_added() -> None:
    x = 1 + 2**-10
    assert dot("apple_m8n8k8_float16_float16", [x], [x], -(1 + 2**-9)) == 0.0
    assert dot("nvidia_m16n8k8_float16_float32", [x], [x], -(1 + 2**-9)) == 2**-20


def test_sums_go_from_low_k_to_high() -> None:
    a = [2048.0, 1.0, 1.0, -2048.0]
    assert dot("apple_m8n8k8_float16_float16", a, [1.0] * 4, 0.0) == 0.0
    assert dot("apple_m8n8k8_float16_float16", a[::-1], [1.0] * 4, 0.0) == 2.0


def test_integers_wrap() -> None:
    result = dot("nvidia_m8n8k16_int8_int32", [127, 127], [127, 1], float(2**31 - 16129))
    assert result == -(2**31) + 127


def test_tf32_rounds_to_nearest_and_ties_away_from_zero() -> None:
    step = 2.0**-10
    values = np.array([1 + step / 4, 1 + step / 2, 1 + step * 3 / 4, -1 - step / 2], np.float32)
    assert round_to_tf32(values).tolist() == [1.0, 1 + step, 1 + step, -1 - step]
    special = round_to_tf32(np.array([np.inf, -np.inf, -0.0, np.nan, 3.4028235e38], np.float32))
    assert special[:2].tolist() == [np.inf, -np.inf]
    assert np.signbit(special[2])
    assert np.isnan(special[3])
    assert special[4] == np.inf


def test_tf32_tiles_round_what_they_multiply_and_not_what_they_add() -> None:
    x, tiny = 1 + 2.0**-12, 2.0**-20
    assert dot("nvidia_m16n8k8_tf32_float32", [x], [1.0], 0.0) == 1.0
    assert dot("nvidia_m16n8k8_tf32_float32", [1.0], [x], tiny) == 1 + tiny
    assert dot("apple_m8n8k8_float32_float32", [x], [1.0], 0.0) == x


# --- reports of the sanitizer --------------------------------------------------------------------


def fault(product: Product, *uops: UOp, **options: Any) -> SanitizerError:
    matrices = product.matrices()
    with pytest.raises(SanitizerError) as caught:
        product.run_on(matrices, product.of(uops) if uops else None, **options)
    assert caught.value.kind is Fault.TILE
    return caught.value


@pytest.mark.parametrize("sanitize", [True, False])
def test_a_group_that_is_no_multiple_of_subgroups_is_reported(sanitize: bool) -> None:
    product = Product(NVIDIA, grid=(2, 1, 1), group=(48, 1, 1))
    # The verifier refuses it as well, so the interpreter is called directly.
    uops = linearise(build.sink(*product.stores(product.wmma(*map(product.fragment, Operand)))))
    error = fault(product, *uops, sanitize=sanitize)
    assert "a group of 48 work-items is no whole number of subgroups of 32" in str(error)


def under(product: Product, condition: UOp) -> tuple[UOp, ...]:
    """Return the product under an IF, which the verifiers would refuse."""
    branch = build.branch(condition)
    close = build.close(branch)
    fragments = [product.fragment(operand) for operand in Operand]
    stores = product.stores(product.wmma(*fragments))
    order: dict[UOp, None] = {}
    for root in (*fragments, branch, *stores):
        order.update(dict.fromkeys(root.toposort()))
    # Addresses are arithmetic, so they may be inside.
    return (*order, close)


def test_a_subgroup_that_arrives_in_part_is_reported() -> None:
    product = Product(NVIDIA, group=(64, 1, 1))
    error = fault(product, *under(product, build.less(product.thread, 40)))
    assert "not every one of the 32 work-items of a subgroup arrives; one is missing" in str(error)
    assert error.work_item == "group (0, 0, 0) item (40, 0, 0)"


def test_whole_subgroups_may_be_absent() -> None:
    product = Product(NVIDIA, grid=(2, 1, 1), group=(64, 1, 1))
    uops = under(product, build.less(product.thread, 32))
    matrices = product.matrices()
    result = product.run_on(matrices, product.of(uops))
    np.testing.assert_array_equal(result[::2], by_numpy(matrices)[::2])
    assert (result[1::2] == 99).all()


def test_a_loop_that_part_of_a_subgroup_leaves_is_reported() -> None:
    product = Product(NVIDIA)
    iteration = build.counter(build.add(product.thread, 1), 0, AxisKind.REDUCE, i32)
    start = product.fragment(Operand.C)
    total = build.accumulator("total", start, iteration)
    a, b = product.fragment(Operand.A), product.fragment(Operand.B)
    result = build.update(total, product.wmma(a, b, total))
    error = fault(product, *linearise(build.sink(*product.stores(result))))
    assert error.work_item == "group (0, 0, 0) item (0, 0, 0)"


def copies_that_differ(product: Product) -> tuple[UOp, ...]:
    """Return a product in which copies of elements of A differ in the upper threads."""
    other = build.where(
        build.less(product.thread, 16), product.thread, build.binary(Ops.XOR, product.thread, 2)
    )
    a = product.fragment(Operand.A, other)
    b, c = product.fragment(Operand.B), product.fragment(Operand.C)
    return linearise(build.sink(*product.stores(product.wmma(a, b, c))))


def test_copies_that_differ_are_reported() -> None:
    product = Product(REPLICATED)
    error = fault(product, *copies_that_differ(product))
    assert "the work-items that hold element (0, " in str(error)
    assert "of A differ in it" in str(error)
    assert error.work_item == "group (0, 0, 0) item (16, 0, 0)"


def test_without_the_sanitizer_the_first_copy_counts() -> None:
    product = Product(REPLICATED)
    matrices = product.matrices()
    result = product.run_on(matrices, product.of(copies_that_differ(product)), sanitize=False)
    np.testing.assert_array_equal(result, by_numpy(matrices))


def test_copies_that_are_nan_agree() -> None:
    product = Product(REPLICATED)
    matrices = product.matrices()
    matrices[0][:] = np.nan
    assert np.isnan(product.run_on(matrices)).all()
