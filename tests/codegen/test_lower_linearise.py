"""Lowering and linearising: launch axes, loop structure, order, hoisting; random kernels agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from kernel_cases import GRID, LOOPS, agree, ramp

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.simplify import simplify
from tinyref.codegen.accumulate import accumulate
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.linearise import linearise
from tinyref.codegen.lower import lower
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret import run_program
from tinyref.optimise.launch_axes import Limit, launch_axes
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, LocalArg, SpecialArg
from tinyref.uops.program import Program
from tinyref_fuzz.strategies import kernels
from tinyref_spec.kernel_case import KernelCase
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store

f32 = dtypes.float32
i32 = dtypes.int32
RANDOM = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

# --- launch axes ------------------------------------------------------------------------------


def covered(shape: tuple[int, ...], limit: Limit) -> tuple[dict[int, int], list[tuple[int, ...]]]:
    """Return the extents of the launch, and the positions of every valid group."""
    axes = launch_axes(shape, limit)
    specials = {
        node for root in (*axes.positions, axes.valid) for node in root.toposort()
        if node.op is Ops.SPECIAL
    }  # fmt: skip
    extents = {node.arg.dim: value_of(node.src[0], {}) for node in specials}
    names = {
        node: build.variable(f"d{node.arg.dim}", 0, extents[node.arg.dim]) for node in specials
    }
    roots = [substitute(root, names) for root in (*axes.positions, axes.valid)]
    actual = []
    for group in np.ndindex(*extents.values()):
        bindings = {f"d{dim}": at for dim, at in zip(extents, group, strict=True)}
        *positions, valid = (value_of(root, bindings) for root in roots)
        assert all(0 <= at < size for at, size in zip(positions, shape, strict=True))
        if valid:
            actual.append(tuple(positions))
    return extents, actual


@pytest.mark.table
@pytest.mark.parametrize(
    ("shape", "limit", "extents"),
    [
        ((), (9, 9, 9), {}),
        ((1, 1), (9, 9, 9), {}),
        ((5,), (9, 9, 9), {0: 5}),
        ((2, 1, 3), (9, 9, 9), {0: 3, 1: 2}),
        ((2, 3, 4), (9, 9, 9), {0: 4, 1: 3, 2: 2}),
        # Leading axes merge first.
        ((2, 2, 3, 4), (9, 9, 9), {0: 4, 1: 3, 2: 4}),
        # They would not fit there: others merge.
        ((2, 2, 3, 4), (99, 9, 3), {0: 4, 1: 6, 2: 2}),
        ((2, 3, 5), (30, 1, 1), {0: 30}),
        # A long axis is cut where it divides...
        ((30,), (10, 5, 3), {0: 10, 1: 3}),
        ((7, 30), (10, 6, 30), {0: 10, 1: 3, 2: 7}),
        # ... by its root too.
        ((36,), (7, 7, 1), {0: 6, 1: 6}),
        # ... and covered with some groups to spare where it does not.
        ((31,), (10, 5, 3), {0: 10, 1: 4}),
        ((11, 13), (10, 4, 4), {0: 10, 1: 4, 2: 4}),
        # Nothing counts to one: of the first limits no number divides.
        ((11, 13), (7, 13, 40), {1: 13, 2: 11}),
        ((41,), (7, 5, 41), {2: 41}),
    ],
)
def test_launch_axes(shape: tuple[int, ...], limit: Limit, extents: dict[int, int]) -> None:
    actual, positions = covered(shape, limit)
    assert actual == extents
    assert sorted(positions) == list(np.ndindex(*shape))


def test_a_grid_that_is_too_large_is_refused() -> None:
    with pytest.raises(UserError, match=r"1001 elements are more than the device's grid limit"):
        launch_axes((1001,), (10, 10, 10))
    n = build.variable("n", 1, 2000)
    with pytest.raises(UserError, match="2000 elements"):
        launch_axes((n,), (10, 10, 10))


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_work_items_beyond_the_last_element_read_nothing_that_is_written(is_symbolic: bool) -> None:
    """Their position is the one of the last element, which another one writes."""
    view = shaped(143)
    if is_symbolic:
        view = view.shrink(((0, build.variable("n", 1, 143)),))
    # 143 is 11 times 13: more groups are launched than there are elements.
    device = replace(GRID, grid_limit=(7, 5, 40))
    ast = build.sink(store(0, build.add(load(0, i32, view), 1), view))
    program = compile_kernel(ast, device)
    for count in (1, 8, 30, 143) if is_symbolic else (143,):
        numbers = np.arange(143, dtype=np.int32)
        run_program(program, [numbers], {"n": count} if is_symbolic else {})
        assert numbers.tolist() == [*range(1, count + 1), *range(count, 143)]


def test_an_empty_output_does_not_keep_another_from_being_written() -> None:
    nothing = shaped(3, 0)
    total = build.reduce(Ops.ADD, load(2, f32, nothing), (1,))
    ast = build.sink(
        store(0, total, (3, 1)),
        store(1, load(2, f32, nothing), nothing),
    )
    agree(ast, {0: ramp(3), 1: ramp(0), 2: ramp(0)}, {0: [0, 0, 0], 1: []})


@pytest.mark.parametrize("least", [0, 1])
def test_outputs_of_size_one_need_a_first_iteration_of_the_axis_that_they_share(least: int) -> None:
    size = build.variable("n", least, 4)
    view = shaped(4).shrink(((0, size),))
    row = load(2, f32, view)
    ast = build.sink(store(0, build.reduce(Ops.ADD, row, (0,)), (1,)), store(1, row, view))
    buffers = {0: ramp(1), 1: np.zeros(4, np.float32), 2: ramp(4)}
    if least:
        agree(ast, buffers, {0: [6], 1: [1, 2, 3, 0]}, {"n": 3})
        return
    for capabilities in (LOOPS, GRID):
        with pytest.raises(UserError, match="a size that may be 0 share axis 0"):
            compile_kernel(ast, capabilities)


def test_an_axis_beyond_64_bits_is_refused_and_one_within_is_not() -> None:
    def total(size: int) -> UOp:
        value = load(1, f32, shaped(1).expand((size,)))
        return kernel_of(build.reduce(Ops.ADD, value, (0,)), 1)

    program = compile_kernel(total(2**62), LOOPS)
    assert any(node.op is Ops.RANGE and node.dtype is dtypes.int64 for node in program.uops)
    with pytest.raises(UserError, match="beyond the 64 bits"):
        compile_kernel(total(2**80), LOOPS)


def test_index_arithmetic_beyond_64_bits_is_refused() -> None:
    big = build.variable("n", 0, 2**31 - 1)
    cube = build.mul(build.mul(big, big), big)
    value = build.cast(build.less(cube, 7), i32)
    ast = kernel_of(value, 1)
    with pytest.raises(UserError, match=r"an index from 0 to \d+ is beyond int64"):
        compile_kernel(ast, LOOPS)


def test_loops_stand_for_launch_axes_where_there_is_no_grid() -> None:
    # A transposed copy, so that the two axes stay two.
    x = load(1, f32, shaped(3, 2).permute((1, 0)))
    ast = kernel_of(x, 2, 3)
    loops = lower(Plan.of(ast, LOOPS)).toposort()
    assert [node.arg.kind for node in loops if node.op is Ops.RANGE] == [AxisKind.LOOP] * 2
    grid = lower(Plan.of(ast, GRID)).toposort()
    launch = [node.arg for node in grid if node.op is Ops.SPECIAL]
    assert set(launch) == {SpecialArg("group", 0), SpecialArg("group", 1)}


def test_a_load_behind_a_mask_is_gated_and_others_are_not() -> None:
    plain = load(1, f32, (4,))
    masked = load(2, f32, shaped(3).pad(((1, 0),)))
    root = simplify(lower(Plan.of(kernel_of(build.add(plain, masked), 4), LOOPS)))
    loads = {
        node.src[0].src[0].arg.slot: len(node.src)
        for node in root.toposort()
        if node.op is Ops.LOAD
    }
    assert loads == {1: 1, 2: 3}
    assert all(len(node.src) == 2 for node in root.src)


@pytest.mark.long
@pytest.mark.parametrize("depth", [700, pytest.param(3000, marks=pytest.mark.slow)])
def test_deep_kernels_need_no_recursion(depth: int) -> None:
    value = load(1, i32, (2,))
    for _ in range(depth):
        value = build.add(build.mul(value, 3), load(1, i32, (2,)))
    ast = kernel_of(value, 2)
    agree(ast, {0: np.zeros(2, np.int32), 1: ramp(2, i32)})


# --- accumulators -------------------------------------------------------------------------------


def test_reduces_become_accumulators() -> None:
    k = build.counter(4, 0, AxisKind.REDUCE)
    value = build.cast(k, i32)
    total = build.reduce_over(Ops.MAX, value, k)
    update = accumulate(total)
    assert update.op is Ops.UPDATE_ACC
    start, new = update.src
    assert start.arg == LocalArg("acc0")
    assert start.src == (build.const(i32, -(2**31)), k)
    assert new == build.maximum(start, value)
    with pytest.raises(UserError, match="lower the kernel first"):
        accumulate(build.reduce(Ops.ADD, value, (0,)))


def test_a_masked_term_is_added_or_not() -> None:
    """Test that product and sum may be one operation: where the mask is False, the sum stays."""
    k = build.counter(4, 0, AxisKind.REDUCE)
    value, mask = build.cast(k, f32), build.less(k, 3)
    for other, is_masked in ((0.0, True), (-0.0, True), (1.0, False)):
        term = build.where(mask, value, other)
        sum_so_far, new = accumulate(build.reduce_over(Ops.ADD, term, k)).src
        added = build.add(sum_so_far, value if is_masked else term)
        assert new == (build.where(mask, added, sum_so_far) if is_masked else added)
    largest = build.where(mask, value, 0.0)
    start, new = accumulate(build.reduce_over(Ops.MAX, largest, k)).src
    assert new == build.maximum(start, largest)


# --- order --------------------------------------------------------------------------------------


def depth_of(nodes: tuple[UOp, ...], target: UOp) -> int:
    depth = 0
    for node in nodes:
        if node is target:
            return depth
        depth += (node.op is Ops.RANGE) - (node.op is Ops.END)
    raise AssertionError("not in the program")


def test_blocks_are_closed_in_reverse_and_invariants_stand_outside() -> None:
    outer = build.counter(4, 0, AxisKind.LOOP, i32)
    inner = build.counter(3, 1, AxisKind.LOOP, i32)
    memory = build.define_global(0, i32, 12)
    row = build.mul(outer, 3)
    free = build.mul(build.variable("v", 0, 5, i32), 7)
    position = build.add(row, inner)
    nodes = linearise(build.sink(build.store(build.index(memory, position), free)))
    assert [depth_of(nodes, node) for node in (free, row, position)] == [0, 1, 2]
    assert [node.src[0] for node in nodes if node.op is Ops.END] == [inner, outer]
    seen: set[UOp] = set()
    for node in nodes:
        assert all(source in seen for source in node.src)
        seen.add(node)


def test_a_loop_that_nothing_changes_runs_once() -> None:
    """Keep the sum out of the outer loop, on which it does not depend."""
    outer = build.counter(4, 0, AxisKind.LOOP, i32)
    k = build.counter(3, 1, AxisKind.REDUCE, i32)
    data, out = build.define_global(1, i32, 3), build.define_global(0, i32, 4)
    total = build.reduce_over(Ops.ADD, build.load(build.index(data, k)), k)
    nodes = linearise(accumulate(build.sink(build.store(build.index(out, outer), total))))
    assert depth_of(nodes, k) == 0


def test_a_shared_loop_stays_inside_when_one_of_its_sums_must() -> None:
    outer = build.counter(4, 0, AxisKind.LOOP, i32)
    k = build.counter(3, 1, AxisKind.REDUCE, i32)
    free = build.reduce_over(Ops.ADD, build.mul(k, 2), k)
    bound = build.reduce_over(Ops.ADD, build.mul(k, outer), k)
    out = build.define_global(0, i32, 4)
    value = build.add(build.mul(free, 100), bound)
    root = accumulate(build.sink(build.store(build.index(out, outer), value)))
    result = np.zeros(4, np.int32)
    run_program(Program("shared", linearise(root), ()), [result])
    assert list(result) == [600, 603, 606, 609]


def test_loops_that_need_each_other_are_refused() -> None:
    k = build.counter(3, 0, AxisKind.REDUCE, i32)
    first = build.reduce_over(Ops.ADD, k, k)
    other = build.reduce_over(Ops.MAX, build.add(first, 1), k)
    inside = build.reduce_over(Ops.ADD, build.add(build.mul(other, 2), k), k)
    out = build.define_global(0, i32, 1)
    store_it = build.store(build.index(out, build.const(i32, 0)), inside)
    with pytest.raises(UserError, match=r"the loops \[0\] need each other's results"):
        linearise(accumulate(build.sink(store_it)))


def test_the_order_starts_with_definitions_by_slot_and_name() -> None:
    x = load(2, i32, (4,))
    y = load(1, i32, (4,))
    b, a = build.variable("b", 0, 3), build.variable("a", 0, 3)
    value = build.add(build.add(x, y), build.cast(build.add(b, a), i32))
    program = compile_kernel(kernel_of(value, 4), GRID)
    slots = [node.arg.slot for node in program.uops if node.op is Ops.DEFINE_GLOBAL]
    assert slots == [0, 1, 2]
    assert [node.op for node in program.uops[:3]] == [Ops.DEFINE_GLOBAL] * 3
    assert [node.arg.name for node in program.variables] == ["a", "b"]


# --- random kernels -----------------------------------------------------------------------------

# Exact data: every way gives the same bits.
KERNELS = kernels("PYTHON", "small")


@pytest.mark.long
@RANDOM
@given(KERNELS)
def test_random_kernels_agree(case: KernelCase) -> None:
    agree(case.ast, dict(enumerate(case.buffers)), bindings=case.bindings)
