"""Test sums of products on matrix tiles: plans, programs, and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import GRID

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel, plan_for
from tinyref.config import Context
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Program
from tinyref.uops.tiles import TILES, MatrixTile, Operand
from tinyref_spec.kernels.named import matmul

Sizes = tuple[int, int, int]
GROUPS = replace(GRID, shared_bytes=1 << 16, vector_lanes=(1, 2, 4, 8, 16))
NVIDIA = TILES["nvidia_m16n8k16_float16_float32"]
APPLE = TILES["apple_m8n8k8_float32_float32"]
ROUNDS = TILES["nvidia_m16n8k8_tf32_float32"]


def with_tiles(*tiles: MatrixTile, base: Capabilities = GROUPS) -> Capabilities:
    return replace(base, matrix_tiles=tiles)


def product(tile: MatrixTile, sizes: Sizes) -> UOp:
    """Return the sum over k of a[m, k] * b[k, n] in the types of the tile."""
    return matmul(*sizes, tile.dtype_in, tile.dtype_out)


def buffers_of(tile: MatrixTile, sizes: Sizes) -> list[np.ndarray]:
    m, n, k = sizes
    random = np.random.default_rng(7)
    a, b = (random.integers(-2, 3, count) for count in (m * k, k * n))
    c = np.full(m * n, 99)
    kind_in, kind_out = numpy_dtype(tile.dtype_in), numpy_dtype(tile.dtype_out)
    return [c.astype(kind_out), a.astype(kind_in), b.astype(kind_in)]


def opts_of(plan: Plan, text: str) -> Plan:
    for word in text.replace(") ", ")|").split("|"):
        if word:
            reduces = plan.of_kind(AxisKind.REDUCE)
            word = word.replace("(U", f"({reduces[0]}") if reduces else word
            plan = plan.apply_all(parse_opts(word))
    return plan


def compiled(tile: MatrixTile, sizes: Sizes, text: str, capabilities: Capabilities) -> Program:
    ast = product(tile, sizes)
    with Context(STRICT_FLOAT=0):
        plan = opts_of(Plan.of(ast, capabilities), text)
        return compile_kernel(ast, capabilities, opts=plan.opts)


def agrees(tile: MatrixTile, text: str, base: Capabilities = GROUPS) -> Program:
    """Assert that the program, with the sanitizer, computes the values of the evaluator."""
    m, n, k = tile.dims
    sizes = (4 * m, 2 * n, 2 * k)
    program = compiled(tile, sizes, text, with_tiles(tile, base=base))
    buffers = buffers_of(tile, sizes)
    expected = evaluate(product(tile, sizes), dict(enumerate(buffers)), None)[0]
    run_program(program, buffers)
    np.testing.assert_array_equal(buffers[0].astype(np.float64), expected.astype(np.float64))
    return program


every_tile = pytest.mark.parametrize("tile", TILES.values(), ids=str)


def tiles_in(program: Program) -> list[UOp]:
    return [node for node in program.uops if node.op is Ops.WMMA]


@pytest.mark.sampled(6)
@every_tile
def test_a_tile_multiplies_unrolled_and_sums_through_c(tile: MatrixTile) -> None:
    """Unroll the whole reduce: two products, the second on top of the first."""
    first, second = tiles_in(agrees(tile, "TC(0, 0, level 0, mode 1) UNROLL(U, 2)"))
    assert second.src[2] is first


@pytest.mark.sampled(6)
@every_tile
def test_a_tile_is_emulated_from_local_memory(tile: MatrixTile) -> None:
    assert not tiles_in(agrees(tile, "TC(0, 0, level 0, mode 3) LOCAL(0, 2)"))


# --- programs -------------------------------------------------------------------------------------


def test_the_accumulator_goes_through_c() -> None:
    program = agrees(NVIDIA, "TC(0, 0, level 0, mode 1)")
    (tile,) = tiles_in(program)
    accumulator = tile.src[2]
    assert accumulator.op is Ops.DEFINE_ACC
    (update,) = [node for node in program.uops if node.op is Ops.UPDATE_ACC]
    assert update.src == (accumulator, tile)
    assert not any(
        node.op is Ops.ADD and node.dtype is NVIDIA.fragment(Operand.C) for node in program.uops
    )


def test_unrolled_tiles_in_a_loop_are_a_chain_on_the_accumulator() -> None:
    sizes = (16, 8, 128)
    text = "TC(0, 0, level 0, mode 1) UNROLL(U, 4)"
    program = compiled(NVIDIA, sizes, text, with_tiles(NVIDIA))
    tiles = tiles_in(program)
    assert [tile.src[2].op for tile in tiles] == [Ops.DEFINE_ACC, Ops.WMMA, Ops.WMMA, Ops.WMMA]


def test_one_tile_without_a_loop_starts_from_zero() -> None:
    (tile,) = tiles_in(
        compiled(NVIDIA, NVIDIA.dims, "TC(0, 0, level 0, mode 1)", with_tiles(NVIDIA))
    )
    assert tile.src[2] is build.const(NVIDIA.fragment(Operand.C), 0)


def test_the_axes_of_a_plan_on_a_tile() -> None:
    plan = opts_of(
        Plan.of(product(NVIDIA, (32, 24, 64)), with_tiles(NVIDIA)), "TC(0, 0, level 0, mode 1)"
    )
    assert [str(axis) for axis in plan.axes] == [
        "global 2",
        "global 3",
        *("local 2",) * 5,
        "reduce 4",
        "unroll 16",
        "upcast 2",
        "upcast 2",
    ]
    # The bits of C are n2 n4 m1 m2 m4 of the thread and n1 m8 of the register, lowest first;
    # the last axis counts fastest.
    lanes = [(axis.target, axis.stride) for axis in plan.axes if axis.is_fixed]
    assert lanes == [(0, 4), (0, 2), (0, 1), (1, 4), (1, 2), (2, 1), (0, 8), (1, 1)]


# --- local memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 16 x 16 of A and 16 x 8 of B, two bytes each.
        ("", 768),
        ("LOCAL(0, 2)", 2 * 768),
        # Another matrix A for each iteration of m, one B for all.
        ("UPCAST(0, 2)", 2 * 512 + 256),
        ("UPCAST(1, 2)", 512 + 2 * 256),
        ("UNROLL(U, 2)", 2 * 768),
        ("LOCAL(1, 2) UPCAST(0, 2) UNROLL(U, 2)", 2 * 2 * (2 * 512 + 256)),
    ],
)
def test_the_memory_of_fragments_is_counted(text: str, expected: int) -> None:
    sizes = (64, 32, 64)
    capabilities = with_tiles(NVIDIA)
    plan = opts_of(
        Plan.of(product(NVIDIA, sizes), capabilities),
        f"TC(0, 0, level 0, mode 3) {text}".strip(),
    )
    assert plan.shared_bytes() == expected
    program = compile_kernel(product(NVIDIA, sizes), capabilities, opts=plan.opts)
    defined = [node.dtype for node in program.uops if node.op is Ops.DEFINE_LOCAL]
    assert sum(dtype.size * dtype.base.itemsize for dtype in defined) == expected  # type: ignore[attr-defined]
    tight = replace(capabilities, shared_bytes=expected - 1)
    with pytest.raises(KernelOptError, match=f"{expected} bytes of shared memory, accepted are"):
        Plan.of(product(NVIDIA, sizes), tight).apply_all(plan.opts)


def test_other_modes_take_no_memory() -> None:
    for mode in (1, 2):
        text = f"TC(0, 0, level 0, mode {mode})"
        plan = opts_of(Plan.of(product(NVIDIA, (32, 16, 32)), with_tiles(NVIDIA)), text)
        assert plan.shared_bytes() == 0


# --- heuristics -----------------------------------------------------------------------------------


def chosen(sizes: Sizes, *tiles: MatrixTile, **flags: int) -> Plan:
    with Context(NOOPT=0, **flags):
        return plan_for(product(tiles[0], sizes), with_tiles(*tiles))


def test_heuristics_take_a_tile_by_the_flag() -> None:
    whole = (64, 32, 64)
    assert chosen(whole, NVIDIA, TC=0).tile is None
    for mode in (1, 2, 3):
        plan = chosen(whole, NVIDIA, TC=mode)
        assert plan.tile is not None
        assert (plan.tile.tile, plan.tile.mode) == (NVIDIA, mode)


def test_heuristics_pad_only_at_level_2() -> None:
    odd = (63, 32, 64)
    assert chosen(odd, NVIDIA, TC=1, TC_LEVEL=1).tile is None
    assert chosen(odd, NVIDIA, TC=1, TC_LEVEL=2).tile is not None


def test_the_first_tile_that_fits_is_taken() -> None:
    plan = chosen((64, 32, 64), NVIDIA, APPLE, TC=1)
    assert plan.tile is not None
    assert plan.tile.tile is NVIDIA
    with Context(TC=1):
        other = plan_for(product(APPLE, (64, 32, 64)), with_tiles(NVIDIA, APPLE))
    assert other.tile is not None
    assert other.tile.tile is APPLE


def test_a_tile_whose_fragments_do_not_fit_is_passed_over() -> None:
    # The first tile takes 768 bytes, the other 384.
    smaller = TILES["nvidia_m16n8k8_float16_float32"]
    tight = replace(with_tiles(NVIDIA, smaller), shared_bytes=600)
    plan = Plan.of(product(NVIDIA, (64, 32, 64)), tight)
    plan_of_other = plan.apply_all(parse_opts("TC(0, -1, level 0, mode 3)"))
    assert plan_of_other.tile is not None
    assert plan_of_other.tile.tile is smaller
    tighter = replace(tight, shared_bytes=383)
    with pytest.raises(KernelOptError, match="384 bytes of shared memory, accepted are 383"):
        Plan.of(product(NVIDIA, (64, 32, 64)), tighter).apply_all(
            parse_opts("TC(0, -1, level 0, mode 3)")
        )


def test_a_tile_that_rounds_is_not_taken_where_floats_are_strict() -> None:
    assert chosen((64, 32, 64), ROUNDS, TC=1, STRICT_FLOAT=1).tile is None


def test_a_device_that_only_emulates_the_type_has_no_use_for_the_tile() -> None:
    without = replace(
        with_tiles(NVIDIA),
        dtypes=GROUPS.dtypes - {dtypes.float16},
        emulated=frozenset({dtypes.float16}),
    )
    assert plan_for(product(NVIDIA, (64, 32, 64)), without).tile is None
