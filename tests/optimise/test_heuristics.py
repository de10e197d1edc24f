"""Test heuristics: legal and deterministic optimisations, which keep the values of kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from kernel_cases import GRID, LOOPS, SMALL_GRID

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel, kernel_name, plan_for
from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.machine import FIXED, MemoryLevel
from tinyref.optimise.choices import heuristic_plan
from tinyref.optimise.opt import opts_text
from tinyref.optimise.plan import Plan
from tinyref.schedule import schedule
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels import named
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.family import CorpusKernel
from tinyref_spec.kernels.notation import kernel_of, load, shaped

f32, i32 = dtypes.float32, dtypes.int32
CPU_LIKE = dataclasses.replace(
    LOOPS, vector_lanes=(1, 2, 4, 8, 16), shared_bytes=1 << 19, threads=2
)
GPU_LIKE = dataclasses.replace(GRID, vector_lanes=(1, 2, 4), shared_bytes=48 << 10)
DEVICES = {
    "scalar loops": LOOPS,
    "host": CPU_LIKE,
    "grid": dataclasses.replace(GRID, has_groups=False, vector_lanes=(1, 2, 4)),
    "small grid": dataclasses.replace(SMALL_GRID, vector_lanes=(1, 2, 4), shared_bytes=1 << 12),
    "groups": GPU_LIKE,
    "small groups": dataclasses.replace(
        GPU_LIKE, group_limit=(8, 4, 2), group_size_limit=16, shared_bytes=256
    ),
}
FAST = (MemoryLevel(1 << 30, 1e6),)
KERNELS = tuple(corpus_kernels().values())
each_device = pytest.mark.parametrize("device", DEVICES)
PARTS = 8
each_part = pytest.mark.parametrize("part", range(PARTS))


def data(*shape: int) -> Tensor:
    return Tensor.ones(*shape).contiguous().realize()


PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "add 1024x1024": lambda: data(1024, 1024) + data(1024, 1024),
    "gelu 512x512": lambda: data(512, 512).gelu(),
    "row sum 512x512": lambda: data(512, 512).sum(1),
    "matmul 256": lambda: data(256, 256) @ data(256, 256),
    "softmax 128x256": lambda: data(128, 256).softmax(-1),
    "layernorm 128x256": lambda: data(128, 256).layernorm(),
    "conv 4x16x32x32 32x16x3x3 relu": lambda: data(4, 16, 32, 32).conv2d(data(32, 16, 3, 3)).relu(),
    "sin 256x256": lambda: data(256, 256).sin(),
    "maxpool 2x2 4x8x32x32": lambda: data(4, 8, 32, 32).max_pool2d((2, 2)),
    "attention 2x4x32x16": lambda: data(2, 4, 32, 16).scaled_dot_product_attention(
        data(2, 4, 32, 16), data(2, 4, 32, 16)
    ),
    "batched matmul 4x32x32x32": lambda: data(4, 32, 32, 32) @ data(4, 32, 32, 32),
    "padded sum 64x64": lambda: data(64, 64).pad(((1, 2), (3, 4))).sum(0),
}


def kernels_of(name: str, device: str) -> list[UOp]:
    with Context(DEVICE=device):
        return [item.ast for item in schedule([(PROGRAMS[name]().node, device)]).kernels]


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.sampled(7)
@each_device
@each_part
def test_kernels_of_the_corpus_keep_their_value(device: str, part: int) -> None:
    capabilities = DEVICES[device]
    for kernel in KERNELS[part::PARTS]:
        contents = kernel.buffers()
        expected = evaluate(kernel.ast, dict(enumerate(contents)), kernel.bindings)
        buffers = [values.copy() for values in contents]
        run_program(compile_kernel(kernel.ast, capabilities), buffers, kernel.bindings)
        for slot, values in expected.items():
            np.testing.assert_array_equal(buffers[slot], values, err_msg=kernel.name)


def check_lists(device: str, kernels: Sequence[CorpusKernel]) -> None:
    """Assert that the optimisations of a heuristic plan give the same plan from the beginning."""
    capabilities = DEVICES[device]
    for kernel in kernels:
        plain = Plan.of(kernel.ast, capabilities)
        plan = heuristic_plan(plain)
        assert plain.apply_all(plan.opts) == plan, kernel.name
        assert heuristic_plan(Plan.of(kernel.ast, capabilities)) == plan, kernel.name


@pytest.mark.sampled(7)
@each_device
@each_part
def test_only_legal_optimisations_and_always_the_same(device: str, part: int) -> None:
    check_lists(device, KERNELS[part::PARTS])


# --- golden plans ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cpu_like", "gpu_like"])
def test_plans_of_the_bench_programs(name: str, golden: Callable[[str, str], None]) -> None:
    """Print one line for each kernel, so that a change of heuristics changes the golden file."""
    # A device without a grid fuses row reductions with the computations along rows.
    capabilities, device = {"cpu_like": (CPU_LIKE, "CPU"), "gpu_like": (GPU_LIKE, "NULL")}[name]
    lines = []
    for program in PROGRAMS:
        lines.append(program)
        asts = kernels_of(program, device)
        lines += [f"  {kernel_name(ast)}: {plan_for(ast, capabilities)}" for ast in asts]
    golden(f"plans_{name}.txt", "\n".join(lines) + "\n")


# --- purpose of each choice -----------------------------------------------------------------------


def square(size: int) -> UOp:
    return named.matmul(size, size, size, f32)


def rows(count: int, length: int) -> UOp:
    return named.reduction(Ops.ADD, f32, (count, length), 1)


def columns(length: int, count: int) -> UOp:
    return named.reduction(Ops.ADD, f32, (length, count), 0)


def axes(ast: UOp, capabilities: Capabilities) -> str:
    return ", ".join(map(str, plan_for(ast, capabilities).axes))


def test_lanes_wider_than_an_upcast_may_be_are_left_alone() -> None:
    wide = dataclasses.replace(CPU_LIKE, vector_lanes=(1, 64))
    x = load(1, dtypes.uint8, (128,))
    assert axes(kernel_of(x, 128), wide) == "global 128"


def test_a_convolution_has_the_output_channels_as_lanes() -> None:
    # No vector of its 11 columns is a whole one, and its windows overlap.
    windows = ShapeTracker((View((32, 9, 11, 64, 3, 3), (0, 13, 1, 143, 13, 1)),))
    weights = shaped(32, 1, 1, 64, 3, 3).expand((32, 9, 11, 64, 3, 3))
    products = build.mul(load(1, f32, windows), load(2, f32, weights))
    sums = build.reduce(Ops.ADD, products, (3, 4, 5))
    # A later addend is no operand of the sum.
    bias = load(3, f32, shaped(32, 1, 1, 1, 1, 1).expand((32, 9, 11, 1, 1, 1)))
    plan = plan_for(kernel_of(build.add(sums, bias), 32, 9, 11, 1, 1, 1), CPU_LIKE)
    assert ", ".join(map(str, plan.axes)) == (
        "global 2, global 9, reduce 64, reduce 3, reduce 3, upcast 16, upcast 11"
    )
    assert plan.packed == (2,)


def test_a_block_of_a_convolution_is_in_one_image() -> None:
    """Take 14 columns instead of 8 images, whose rows are far from each other."""
    result = data(8, 16, 16, 16).conv2d(data(16, 16, 3, 3))
    (item,) = schedule([(result.node, "CPU")]).kernels
    assert axes(item.ast, CPU_LIKE).endswith("upcast 16, upcast 14")


def test_what_follows_a_sum_does_not_choose_its_lanes() -> None:
    # Four values a channel are contiguous there, as the statistics of a batch normalisation are.
    # The weights are not: as lanes without a copy they would be gathered.
    windows = ShapeTracker((View((32, 9, 11, 64, 3, 3), (0, 13, 1, 143, 13, 1)),))
    weights = shaped(32, 1, 1, 64, 3, 3).expand((32, 9, 11, 64, 3, 3))
    value = build.reduce(
        Ops.ADD, build.mul(load(1, f32, windows), load(2, f32, weights)), (3, 4, 5)
    )
    for slot in range(3, 7):
        a_channel = shaped(32, 1, 1, 1, 1, 1).expand((32, 9, 11, 1, 1, 1))
        value = build.add(value, load(slot, f32, a_channel))
    plan = plan_for(kernel_of(value, 32, 9, 11, 1, 1, 1), CPU_LIKE)
    assert ", ".join(map(str, plan.axes)) == (
        "global 2, global 9, reduce 64, reduce 3, reduce 3, upcast 16, upcast 11"
    )
    assert plan.packed == (2,)


def test_joined_images_have_blocks() -> None:
    # Each of two operands is read where the other one is not; the weights belong to neither.
    left = shaped(1, 4, 64, 32).pad(((0, 0), (0, 4), (0, 0), (0, 0)))
    right = shaped(1, 4, 64, 32).pad(((0, 0), (4, 0), (0, 0), (0, 0)))
    shape = (32, 8, 64, 32)
    joined = build.add(load(1, f32, left.expand(shape)), load(2, f32, right.expand(shape)))
    weights = load(3, f32, shaped(32, 8, 1, 1).expand(shape))
    total = build.reduce(Ops.ADD, build.mul(joined, weights), (1,))
    plan = plan_for(kernel_of(total, 32, 1, 64, 32), CPU_LIKE)
    assert [axis.extent for axis in plan.axes if axis.kind is AxisKind.UPCAST] == [16, 4, 4]
    assert not plan.packed


@pytest.mark.parametrize(
    ("extra_outputs", "block"),
    [(0, [16, 8, 2]), (1, [16, 4]), (2, [16, 4]), (4, [16, 2])],
)
def test_a_packed_block_stores_few_single_elements(extra_outputs: int, block: list[int]) -> None:
    # Every single element takes an address, a lane and a store; here no lane has a neighbour.
    every_other = ShapeTracker((View((128, 128), (2, 256)),))
    left = load(1, f32, shaped(128, 1, 128).expand((128, 128, 128)))
    right = load(2, f32, shaped(1, 128, 128).expand((128, 128, 128)))
    total = build.reduce(Ops.ADD, build.mul(left, right), (2,))
    total = build.mul(total, build.const(f32, 2.0))
    slots = (0, *range(3, 3 + extra_outputs))
    stores = [
        build.store(
            build.view(build.define_global(slot, f32, 1 << 15), every_other.reshape((128, 128, 1))),
            total,
        )
        for slot in slots
    ]
    plan = plan_for(build.sink(*stores), CPU_LIKE)
    assert plan.packed
    assert [axis.extent for axis in plan.axes if axis.kind is AxisKind.UPCAST] == block


def test_long_sums_of_columns_add_several_vectors_at_once() -> None:
    def columns(rows: int) -> UOp:
        # Axis 1 is reduced: the columns are contiguous.
        values = load(1, f32, shaped(rows, 64).permute((1, 0)))
        return kernel_of(build.reduce(Ops.ADD, values, (1,)), 64, 1)

    assert axes(columns(32), CPU_LIKE) == "global 4, reduce 32, upcast 16"
    assert axes(columns(4096), CPU_LIKE) == "reduce 4096, upcast 16, upcast 4"


def test_elements_that_are_read_backwards_have_lanes() -> None:
    backwards = kernel_of(load(1, f32, shaped(512, 512).flip((0, 1))), 512, 512)
    assert opts_text(plan_for(backwards, CPU_LIKE).opts).startswith("UPCAST(0, 16)")


def test_a_small_kernel_gathers_no_lanes() -> None:
    # Lanes without neighbours are loaded one by one, which costs more to compile than it saves.

    def weighted(rows: int) -> UOp:
        # Lanes along the first axis: three loads have neighbours there, one and the store do not.
        scales = [load(slot, f32, shaped(rows, 1).expand((rows, 11))) for slot in (2, 3, 4)]
        values = load(1, f32, (rows, 11))
        for scale in scales:
            values = build.mul(values, scale)
        return kernel_of(values, rows, 11)

    assert axes(weighted(64), CPU_LIKE) == "global 64, global 11"
    assert axes(weighted(1024), CPU_LIKE) == "global 64, global 3, upcast 16, upcast 4"
    # All lanes are neighbours.
    assert axes(named.copied(f32, shaped(64)), CPU_LIKE) == "global 4, upcast 16"


@pytest.mark.table
@pytest.mark.parametrize(
    ("changes", "is_shared"),
    [
        ({}, False),
        # The same operations take four times as long there, so threads pay off.
        ({"operations_per_ns": 16.0}, True),
        # Bytes: a quarter of a megabyte at a byte a nanosecond.
        ({"levels": (MemoryLevel(1 << 30, 1.0),)}, True),
        ({"thread_ns": 1024.0}, True),
        ({"thread_ns": 1024.0, "operations_per_ns": 1e6, "levels": FAST}, False),
    ],
)
def test_threads_pay_by_the_description_of_the_host(
    changes: dict[str, Any], is_shared: bool
) -> None:
    """64 x 64 x 256 products: 4.2 million operations on 131,072 + 16,384 bytes."""
    host = dataclasses.replace(CPU_LIKE, machine=dataclasses.replace(FIXED, **changes))
    assert ("thread" in axes(named.matmul(64, 64, 256, f32), host)) is is_shared


def test_a_panel_of_a_matrix_is_packed_beyond_the_fast_memory_of_the_host() -> None:
    product = named.matmul(64, 3072, 768, f32)
    assert plan_for(product, CPU_LIKE).packed
    large = dataclasses.replace(FIXED, levels=(MemoryLevel(1 << 30, 128.0),))
    assert not plan_for(product, dataclasses.replace(CPU_LIKE, machine=large)).packed


def test_noopt_leaves_a_plan_plain() -> None:
    with Context(NOOPT=1):
        assert plan_for(square(64), CPU_LIKE).opts == ()
        assert plan_for(square(64), GPU_LIKE).opts == ()
    assert plan_for(square(64), CPU_LIKE).opts


def test_a_kernel_without_axes_is_left_alone() -> None:
    ast = kernel_of(build.const(i32, 7))
    for capabilities in DEVICES.values():
        assert plan_for(ast, capabilities).opts == ()


# --- the laws can fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mirrored", "lanes"),
    [
        # An exchange: the other half of each pair is needed by both, after 8 vector lanes.
        (True, {8, 2}),
        # Without the mirrored load a short axis gains nothing.
        (False, {8}),
    ],
)
def test_an_axis_that_is_read_in_both_directions_has_lanes(mirrored: bool, lanes: set[int]) -> None:
    x = Tensor.ones(16, 2, 2, 64, dtype="int64", device="PYTHON").contiguous().realize()
    other = x.flip(1) if mirrored else x.mul(3)
    (item,) = schedule([(x.lt(other).node, "PYTHON")]).kernels
    plan = plan_for(item.ast, CPU_LIKE)
    extents = {axis.extent for axis in plan.axes if axis.kind is AxisKind.UPCAST}
    assert extents == lanes


PADDED = "PADTO(1, 16) UPCAST(1, 16) PADTO(0, 8) UPCAST(0, 8) PADTO(1, 2) UPCAST(1, 2)"


@pytest.mark.parametrize(
    ("rows", "columns", "opts"),
    [
        # No vector divides 331 or 333, and no block of rows does.
        (333, 333, f"{PADDED} SWAP(0, 1) PACK(1, 2) THREAD(1, 2)"),
        (
            512,
            331,
            "PADTO(1, 16) UPCAST(1, 16) UPCAST(0, 8) PADTO(1, 2) UPCAST(1, 2) SWAP(0, 1) "
            "PACK(1, 2) THREAD(1, 2)",
        ),
        (13, 11, "PADTO(1, 8) UPCAST(1, 8) UPCAST(1, 2) PACK(0, 2)"),
        (1, 3, "PADTO(0, 4) UPCAST(0, 4)"),
    ],
)
def test_a_product_of_any_size_has_blocks(rows: int, columns: int, opts: str) -> None:
    plan = plan_for(named.matmul(rows, columns, 300, f32), CPU_LIKE)
    assert opts_text(plan.opts) == opts


@pytest.mark.parametrize(
    ("call", "opts"),
    [
        # A block of a row is a vector that is taken apart.
        (lambda x: x.cumsum(1), "UPCAST(2, 16)"),
        # The columns are lanes.
        (lambda x: x.cumsum(0), "UPCAST(1, 16) UPCAST(1, 16)"),
        # Powers cost more than lanes that are loaded one by one.
        (lambda x: x.logcumsumexp(1), "UPCAST(2, 8) UPCAST(1, 16)"),
        # A single choice leaves most elements equal along the axis.
        (lambda x: (x.arange(64).reshape(64, 1) < 3).where(x[:1], x[1:2]), "UPCAST(1, 16)"),
    ],
)
def test_an_axis_along_which_values_are_chosen_has_copies(
    call: Callable[[Tensor], Tensor], opts: str
) -> None:
    item = schedule([(call(data(64, 256)).node, "CPU")]).kernels[-1]
    assert opts_text(plan_for(item.ast, CPU_LIKE).opts) == opts


def test_many_operations_have_vectors_without_neighbours() -> None:
    ast = schedule([(data(64, 256).logcumsumexp(1).node, "CPU")]).kernels[-1].ast
    uops = compile_kernel(ast, CPU_LIKE).uops
    assert {node.dtype.lanes for node in uops if node.op is Ops.EXP2} == {16}
