"""Test which kernels an Opt accepts: each condition by a literal, random kernels by values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from choices import TOGETHER
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import GRID, LOOPS, same

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import DType, dtypes
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise import moves
from tinyref.optimise.moves import CHECKS, OptRefusal, open_axes, try_opt
from tinyref.optimise.opt import OPTS, Condition, KernelOptError, Opt, OptOp, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.tiles import TILES
from tinyref_fuzz.strategies import kernels
from tinyref_spec.kernel.opt_kernels import subject_of
from tinyref_spec.kernel_case import KernelCase
from tinyref_spec.kernels.named import (
    add_in_place,
    maximum_minus_sum,
    multiplied,
)
from tinyref_spec.kernels.notation import kernel_of, left, load, shaped, total
from tinyref_spec.pages import optimisations_page

i32, f32 = dtypes.int32, dtypes.float32
APPLE, NARROW = TILES["apple_m8n8k8_float32_float32"], TILES["nvidia_m16n8k16_float16_float32"]
GROUPS = replace(GRID, shared_bytes=1 << 16, vector_lanes=(1, 2, 4), matrix_tiles=(APPLE,))
HOST = replace(LOOPS, shared_bytes=1 << 16, vector_lanes=(1, 2, 4), threads=4)

# --- one literal for each condition ---------------------------------------------------------------


def named(name: str, dtype: DType = i32) -> UOp:
    return subject_of(name, dtype).kernel


def rows_twice() -> UOp:
    """Return sums of rows multiplied by themselves in reverse, each repeated along axis 1."""
    rows = left(8, 8, 8)
    reverse = rows.flip((2,))
    return kernel_of(multiplied(load(1, i32, rows), load(1, i32, reverse)), 8, 8, 1)


def sum_in_place() -> UOp:
    sums = total(load(1, i32, (6, 16)), 1)
    return kernel_of(build.add(load(0, i32, (6, 1)), sums), 6, 1)


def sum_of(term: Callable[[UOp], UOp], dtype: DType = i32) -> UOp:
    return kernel_of(total(term(load(1, dtype, (5, 11))), 1), 5, 1)


def wide_view() -> UOp:
    """Return rows that are 2**30 elements apart: two are within int32, four are not."""
    return kernel_of(load(1, i32, shaped(3, 1 << 30).shrink(((0, 3), (0, 1)))), 3, 1)


def kernel_of_line(kernel: UOp | str) -> UOp:
    """Return a kernel, or the one of `opt_kernels` with this name, in int32 or the dotted type."""
    if isinstance(kernel, UOp):
        return kernel
    name, _, dtype = kernel.partition(".")
    return named(name, f32 if dtype else i32)


@dataclass(frozen=True)
class Line:
    """A condition that refuses `opt` after `before`, and an `accepted` one in its place.

    Without `accepted`, the same optimisation is accepted on the device or kernel of `other`.
    """

    condition: Condition
    kernel: UOp | str
    opt: str
    says: str
    accepted: str = ""
    before: str = ""
    device: Capabilities = GROUPS
    other: Capabilities | UOp | str | None = None


LINES = (
    Line(
        Condition.GROUPS,
        "add",
        "LOCAL(0, 4)",
        "no groups",
        device=replace(GROUPS, has_groups=False, shared_bytes=0, matrix_tiles=()),
        other=GROUPS,
    ),
    Line(
        Condition.GROUPS,
        "add",
        "LOCAL(0, 4)",
        "NOLOCALS has switched groups off",
        "UPCAST(0, 4)",
        before="NOLOCALS(0, 0)",
    ),
    Line(
        Condition.SHARED_MEMORY,
        "row_sum",
        "GROUP(1, 4)",
        "no shared memory",
        device=replace(GROUPS, shared_bytes=0),
        other=GROUPS,
    ),
    Line(Condition.THREADS, "add", "THREAD(0, 2)", "launch indices", other=HOST),
    Line(
        Condition.THREADS,
        "add",
        "THREAD(1, 2)",
        "threads already",
        "UPCAST(1, 2)",
        before="THREAD(0, 2)",
        device=HOST,
    ),
    Line(Condition.LOOPS, "scattered_sum", "SCATTER(0, 0)", "launch indices", other=HOST),
    Line(
        Condition.ONE_OUTPUT,
        "row_sum",
        "SCATTER(0, 0)",
        "several positions",
        device=HOST,
        other="scattered_max",
    ),
    Line(Condition.SCRATCH, "matmul", "PACK(1, 1)", "no scratch memory", other=HOST),
    Line(
        Condition.TILES,
        "matmul.float32",
        "TC(0, 0, level 2, mode 1)",
        "no matrix tile",
        device=replace(GROUPS, matrix_tiles=()),
        other=GROUPS,
    ),
    Line(
        Condition.FIRST,
        "matmul.float32",
        "TC(0, 0, level 2, mode 1)",
        "comes before all other",
        "LOCAL(0, 2)",
        before="UPCAST(0, 2)",
    ),
    Line(
        Condition.NO_ITEMS,
        "add",
        "NOLOCALS(0, 0)",
        "used already",
        "LOCAL(0, 2)",
        before="LOCAL(0, 4)",
    ),
    Line(Condition.KIND, "row_sum", "UPCAST(1, 4)", "axis 1 is reduce", "UNROLL(1, 4)"),
    Line(Condition.KIND, "row_sum", "UNROLL(0, 2)", "axis 0 is global", "UPCAST(0, 2)"),
    Line(
        Condition.NO_LANE,
        "matmul.float32",
        "UPCAST(2, 2)",
        "is a lane of the matrix tile",
        "UPCAST(0, 2)",
        before="TC(0, 0, level 2, mode 1)",
    ),
    Line(Condition.KNOWN_EXTENT, "symbolic_rows", "UPCAST(0, 2)", "extent n", "UPCAST(1, 2)"),
    Line(
        Condition.OUTER_PART,
        "row_sum",
        "PADTO(2, 3)",
        "inner part of a cut",
        "PADTO(0, 4)",
        before="GROUPTOP(1, 4)",
    ),
    Line(
        Condition.SINGLE_REDUCE,
        maximum_minus_sum(i32, 6, 16),
        "GROUP(1, 4)",
        "2 reduces loop over",
        "UNROLL(1, 4)",
    ),
    Line(
        Condition.NO_TILE,
        "matmul.float32",
        "GROUP(6, 2)",
        "a matrix tile is active",
        "UNROLL(6, 2)",
        before="TC(0, 0, level 2, mode 1)",
    ),
    Line(
        Condition.NOT_IN_PLACE,
        sum_in_place(),
        "GROUP(1, 4)",
        "reads a buffer that it writes",
        "UNROLL(1, 4)",
    ),
    Line(Condition.MOST, "add", "UPCAST(0, 24)", "24 lanes", "UPCAST(0, 12)"),
    Line(Condition.MOST, "add", "UPCAST(0, 0)", "24 lanes", "UPCAST(0, 8)"),
    Line(Condition.MOST, "all_sum", "UNROLL(0, 64)", "64 copies", "UNROLL(0, 32)"),
    Line(Condition.DIVISOR, "add", "UPCAST(0, 5)", "divides 24", "UPCAST(0, 6)"),
    Line(Condition.DIVISOR, "add", "UPCAST(0, 1)", "1 is no amount", "UPCAST(0, 2)"),
    Line(Condition.DIVISOR, "add", "LOCAL(0, 0)", "0 is no amount", "LOCAL(0, 24)"),
    Line(Condition.DIVISOR, "add", "UPCAST(0, 4)", "divides 6", "UPCAST(0, 3)", "UPCAST(0, 4)"),
    Line(Condition.OTHER_AXIS, "outer", "SWAP(0, 0)", "with itself", "SWAP(0, 1)"),
    Line(Condition.OTHER_AXIS, "outer", "SWAP(0, 2)", "there is no axis 2", "SWAP(1, 0)"),
    Line(Condition.OTHER_AXIS, "row_sum", "SWAP(0, 1)", "axis 1 is reduce", "UPCAST(0, 2)"),
    Line(Condition.THREAD_COUNT, "add", "THREAD(0, 6)", "at most 4", "THREAD(0, 4)", device=HOST),
    Line(Condition.MULTIPLE, "row_sum", "PADTO(1, 8)", "nothing to pad", "PADTO(1, 12)"),
    Line(Condition.MULTIPLE, "prime_sum", "PADTO(0, 1)", "1 is no multiple", "PADTO(0, 2)"),
    Line(Condition.WORK, "prime_sum", "PADTO(0, 32)", "32 positions for 5", "PADTO(0, 16)"),
    Line(
        Condition.GRID,
        "add",
        "PADTO(0, 32)",
        "a grid of [32]",
        "PADTO(0, 15)",
        device=replace(GROUPS, grid_limit=(30, 1, 1)),
    ),
    Line(
        Condition.INDEX_SIZE,
        wide_view(),
        "PADTO(0, 4)",
        "would need int64",
        device=replace(GROUPS, dtypes=GROUPS.dtypes - {dtypes.int64}),
        other=GROUPS,
    ),
    Line(
        Condition.NEW_SLOT,
        "matmul",
        "PACK(1, 1)",
        "packed already",
        "PACK(0, 2)",
        before="PACK(1, 1)",
        device=HOST,
    ),
    Line(
        Condition.SINGLE_LOAD,
        rows_twice(),
        "PACK(1, 1)",
        "2 loads of slot 1 repeat elements along axis 1",
        "SWAP(0, 1)",
        device=HOST,
    ),
    Line(
        Condition.READ_ONLY,
        add_in_place(i32, 8),
        "PACK(0, 0)",
        "writes to slot 0",
        "UPCAST(0, 2)",
        device=HOST,
    ),
    Line(
        Condition.USED_AGAIN, "matmul", "PACK(0, 1)", "each element once", "PACK(1, 1)", device=HOST
    ),
    Line(
        Condition.USED_AGAIN, "softmax", "PACK(0, -1)", "along axis 0", "PACK(1, -1)", device=HOST
    ),
    Line(
        Condition.PLAIN_POSITIONS,
        TOGETHER["multiplied"]().kernel,
        "PACK(1, 2)",
        "positions that the kernel computes",
        "PACK(0, 3)",
        device=HOST,
    ),
    Line(Condition.IN_REDUCE, "outer", "PACK(1, 1)", "in no reduce", "SWAP(0, 1)", device=HOST),
    Line(
        Condition.TILE_NUMBERS,
        "matmul.float32",
        "TC(0, 1, level 2, mode 1)",
        "there is no tile 1: accepted are -1 to 0",
        "TC(0, 0, level 2, mode 1)",
    ),
    Line(
        Condition.TILE_NUMBERS,
        "matmul.float32",
        "TC(0, 0, level 2, mode 4)",
        "levels 0 to 2 and modes 1 to 3",
        "TC(0, 0, level 2, mode 3)",
    ),
    Line(
        Condition.TILE_FITS,
        "matmul.float32",
        "TC(0, 0, level 0, mode 1)",
        "12 is no multiple, and only level 2 pads",
        "TC(0, 0, level 2, mode 1)",
    ),
    Line(
        Condition.TILE_FITS,
        "matmul",
        "TC(0, 0, level 2, mode 1)",
        "no sum of products fits",
        other="matmul.float32",
    ),
    Line(
        Condition.LIMITS,
        "add",
        "LOCAL(0, 24)",
        "a group of 24 work-items",
        "LOCAL(0, 8)",
        device=replace(GROUPS, group_size_limit=8),
    ),
    Line(
        Condition.LIMITS,
        "row_sum",
        "GROUP(1, 8)",
        "32 bytes of shared memory, accepted are 31",
        "GROUP(1, 4)",
        device=replace(GROUPS, shared_bytes=31),
    ),
)


def refusal(plan: Plan, opt: str) -> KernelOptError:
    with pytest.raises(KernelOptError) as caught:
        plan.apply_all(parse_opts(opt))
    return caught.value


@pytest.mark.table
@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.condition.name}:{line.opt}")
def test_a_condition_refuses_and_its_neighbour_is_accepted(line: Line) -> None:
    plan = Plan.of(kernel_of_line(line.kernel), line.device).apply_all(parse_opts(line.before))
    before = (plan.axes, plan.opts, plan.packed, plan.uses_groups)
    error = refusal(plan, line.opt)
    assert error.condition is line.condition
    assert line.says in str(error)
    assert str(error).startswith(f"{line.opt}: ")
    assert (plan.axes, plan.opts, plan.packed, plan.uses_groups) == before
    if line.accepted:
        plan.apply_all(parse_opts(line.accepted))
    else:
        is_device = line.other is None or isinstance(line.other, Capabilities)
        device = line.other if isinstance(line.other, Capabilities) else line.device
        kernel = line.kernel if is_device else line.other
        Plan.of(kernel_of_line(kernel), device).apply_all(parse_opts(f"{line.before} {line.opt}"))


def test_every_condition_has_a_line_a_check_and_an_optimisation() -> None:
    assert {line.condition for line in LINES} == set(Condition)
    assert CHECKS.keys() == set(Condition) - {Condition.LIMITS}
    assert {condition for spec in OPTS.values() for condition in spec.conditions} == set(Condition)
    assert OPTS.keys() == moves.MOVES.keys() == set(OptOp)


def test_an_axis_that_is_not_there_is_no_condition_of_its_own() -> None:
    plan = Plan.of(named("add"), GROUPS)
    for opt in ("UPCAST(1, 2)", "UPCAST(-1, 2)", "PADTO(7, 2)"):
        assert refusal(plan, opt).condition is None


def test_the_page_tells_the_conditions() -> None:
    page = optimisations_page()
    for spec in OPTS.values():
        assert f"{spec.effect} | {spec.accepts} |" in page
    assert OPTS[OptOp.THREAD].accepts == (
        "a device of host threads without a grid, and no THREAD yet; global axes; no lane of a "
        "matrix tile; no symbolic extent; no more than the device has threads; a divisor of the "
        "extent, from 2"
    )


def test_open_axes_leave_the_argument_open() -> None:
    plan = Plan.of(named("matmul"), GROUPS)
    assert open_axes(plan, OptOp.UPCAST) == [0, 1]
    assert open_axes(plan, OptOp.GROUP) == [2]
    assert open_axes(plan, OptOp.PACK) == []
    assert open_axes(plan, OptOp.NOLOCALS) == [0]
    assert open_axes(plan.apply(Opt(OptOp.LOCAL, 0, 2)), OptOp.NOLOCALS) == []


# --- random kernels -------------------------------------------------------------------------------

DEVICES = {"groups": GROUPS, "host": HOST}
AMOUNTS = (2, 4, 3, 0, 5, 7, 8, 16, 1, -1)
RANDOM = settings(
    max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@st.composite
def tried(draw: st.DrawFn, plan: Plan) -> Opt:
    """Draw any optimisation of any axis, mostly of an axis on which it may be legal."""
    op = draw(st.sampled_from(list(OptOp)))
    axes = open_axes(plan, op) if draw(st.integers(0, 3)) else []
    axis = draw(st.sampled_from(axes or range(-1, len(plan.axes) + 1)))
    if op is OptOp.TC:
        return Opt(
            op, draw(st.integers(0, 1)), draw(st.integers(-1, 1)), 2, draw(st.integers(1, 3))
        )
    return Opt(op, axis, draw(st.sampled_from(AMOUNTS)))


def check_legality(data: st.DataObject, device: str) -> None:
    """Assert that each optimisation is refused by a condition, or keeps the value."""
    case: KernelCase = data.draw(kernels(DEVICES[device], "small"))
    plan = Plan.of(case.ast, DEVICES[device])
    for _ in range(3):
        opt = data.draw(tried(plan))
        reached = try_opt(plan, opt)
        if isinstance(reached, OptRefusal):
            has_axis = not opt.spec.has_axis or 0 <= opt.axis < len(plan.axes)
            assert (reached.condition is not None) == has_axis
            assert reached.condition in (None, *opt.spec.conditions)
            assert reached.reason
        elif reached.lanes <= 16:
            plan = reached
    keeps_value(case.ast, plan, dict(enumerate(case.buffers)), case.bindings)


def keeps_value(
    ast: UOp, plan: Plan, data: Mapping[int, np.ndarray], bindings: Mapping[str, int]
) -> None:
    program = compile_kernel(ast, plan.capabilities, opts=plan.opts)
    buffers = [buffer.copy() for buffer in data.values()]
    run_program(program, buffers, bindings)
    for slot, expected in evaluate(ast, data, bindings).items():
        same(buffers[slot], expected, 0.0, str(plan))


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
@RANDOM
@given(st.data())
def test_an_optimisation_is_refused_by_a_condition_or_keeps_the_value(
    device: str, data: st.DataObject
) -> None:
    check_legality(data, device)
