"""Test plans: axes and their order, strides of splits, limits, refusals, text."""

from __future__ import annotations

import dataclasses
import io
import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import GRID, LOOPS

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.optimise.opt import KernelOptError, Opt, OptOp, opts_text, parse_opts
from tinyref.optimise.plan import KIND_ORDER, STYLES, Axis, Plan, changes, print_plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels import named
from tinyref_spec.kernels.notation import kernel_of, load, shaped

i32, f32 = dtypes.int32, dtypes.float32
GROUPS = dataclasses.replace(GRID, shared_bytes=1 << 16, vector_lanes=(1, 2, 4))
HOST = dataclasses.replace(LOOPS, shared_bytes=1 << 16, threads=4, vector_lanes=(1, 2, 4))


def matmul(rows: int = 8, columns: int = 12, depth: int = 16) -> UOp:
    return named.matmul(rows, columns, depth, f32)


def row_sum(rows: int = 6, depth: int = 16, dtype: DType = i32) -> UOp:
    return named.reduction(Ops.ADD, dtype, (rows, depth), 1)


def planned(ast: UOp, text: str, capabilities: Capabilities = GROUPS) -> Plan:
    return Plan.of(ast, capabilities).apply_all(parse_opts(text))


def axes_of(plan: Plan) -> list[tuple[str, object, int, int]]:
    return [(axis.kind.value, axis.extent, axis.target, axis.stride) for axis in plan.axes]


def refusal(plan: Plan, text: str) -> str:
    (opt,) = parse_opts(text)
    assert plan.legal(opt) is None
    with pytest.raises(KernelOptError) as caught:
        plan.apply(opt)
    return str(caught.value)


# --- axes -----------------------------------------------------------------------------------------


def test_a_plain_plan_has_the_axes_of_the_kernel() -> None:
    assert axes_of(Plan.of(matmul(), GROUPS)) == [
        ("global", 8, 0, 1),
        ("global", 12, 1, 1),
        ("reduce", 16, 2, 1),
    ]
    assert axes_of(Plan.of(kernel_of(build.const(i32, 7)), LOOPS)) == []


def test_splits_take_the_inner_part_and_grouptop_the_outer_one() -> None:
    assert axes_of(planned(row_sum(), "GROUP(1, 4)")) == [
        ("global", 6, 0, 1),
        ("group_reduce", 4, 1, 1),
        ("reduce", 4, 1, 4),
    ]
    assert axes_of(planned(row_sum(), "GROUPTOP(1, 2)")) == [
        ("global", 6, 0, 1),
        ("group_reduce", 2, 1, 8),
        ("reduce", 8, 1, 1),
    ]
    assert axes_of(planned(row_sum(), "GROUPTOP(1, 2) UNROLL(2, 4)")) == [
        ("global", 6, 0, 1),
        ("group_reduce", 2, 1, 8),
        ("reduce", 2, 1, 4),
        ("unroll", 4, 1, 1),
    ]
    assert axes_of(planned(row_sum(), "THREAD(0, 2)", HOST)) == [
        ("thread", 2, 0, 3),
        ("global", 3, 0, 1),
        ("reduce", 16, 1, 1),
    ]


def test_cuts_of_cuts_keep_their_strides() -> None:
    assert axes_of(planned(matmul(), "UPCAST(1, 2) UPCAST(1, 3) LOCAL(1, 2)")) == [
        # The rest of the axis of 12 is in the group.
        ("global", 8, 0, 1),
        ("local", 2, 1, 6),
        ("reduce", 16, 2, 1),
        ("upcast", 2, 1, 1),
        ("upcast", 3, 1, 2),
    ]
    swapped = planned(matmul(), "UPCAST(1, 2) UPCAST(1, 3) SWAP(0, 1)")
    assert axes_of(swapped) == [
        ("global", 2, 1, 6),
        ("global", 8, 0, 1),
        ("reduce", 16, 2, 1),
        ("upcast", 2, 1, 1),
        ("upcast", 3, 1, 2),
    ]


def test_an_axis_that_is_used_up_disappears() -> None:
    assert axes_of(planned(row_sum(), "UPCAST(0, 0) UNROLL(0, 0)")) == [
        ("unroll", 16, 1, 1),
        ("upcast", 6, 0, 1),
    ]
    assert [axis[0] for axis in axes_of(planned(row_sum(), "GROUP(1, 16)"))] == [
        "global",
        "group_reduce",
    ]


def test_padding_adds_iterations_and_covers() -> None:
    plan = planned(matmul(5, 7, 11), "PADTO(0, 4) PADTO(2, 8)")
    assert axes_of(plan) == [("global", 8, 0, 1), ("global", 7, 1, 1), ("reduce", 16, 2, 1)]
    assert [plan.covered(target) for target in range(3)] == [8, 7, 16]
    assert [plan.is_padded(target) for target in range(3)] == [True, False, True]
    assert planned(matmul(5, 7, 11), "PADTO(0, 4) UPCAST(0, 4)").is_padded(0)


def positions(axes: Sequence[Axis], target: int) -> list[int]:
    chosen = [axis for axis in axes if axis.target == target]
    iterations = [range(axis.extent) for axis in chosen if isinstance(axis.extent, int)]
    return sorted(
        sum(count * axis.stride for count, axis in zip(counts, chosen, strict=True))
        for counts in itertools.product(*iterations)
    )


@pytest.mark.long
@given(st.data())
def test_every_position_is_covered_once_in_the_order_of_kinds(data: st.DataObject) -> None:
    # For any legal list, axes are sorted, and no position is lost or doubled.
    capabilities = data.draw(st.sampled_from([GROUPS, HOST]))
    plan = Plan.of(matmul(12, 10, 24), capabilities)
    ops = [op for op in OptOp if op is not OptOp.TC]
    for _ in range(6):
        opt = Opt(
            data.draw(st.sampled_from(ops)),
            data.draw(st.integers(-1, len(plan.axes))),
            data.draw(st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 12, 16, -1])),
        )
        before = (plan.axes, plan.opts, plan.packed, plan.uses_groups)
        legal_plan = plan.legal(opt)
        assert (plan.axes, plan.opts, plan.packed, plan.uses_groups) == before
        if legal_plan is None:
            continue
        assert legal_plan.opts == (*plan.opts, opt)
        plan = legal_plan
        order = [KIND_ORDER.index(axis.kind) for axis in plan.axes]
        assert order == sorted(order)
        assert len(set(plan.axes)) == len(plan.axes)
        for target, size in enumerate(plan.shape):
            covered = positions(plan.axes, target)
            assert covered == list(range(len(covered)))
            assert isinstance(size, int)
            assert size <= len(covered) <= 4 * size
            assert plan.covered(target) == len(covered)
        assert plan.shared_bytes() <= capabilities.shared_bytes
        assert plan.group_size <= capabilities.group_size_limit


def test_the_text_of_a_plan() -> None:
    assert str(Plan.of(row_sum(), LOOPS)) == "global 6, reduce 16"
    text = str(planned(row_sum(), "UPCAST(0, 2) UNROLL(1, 4)"))
    assert text == "global 3, reduce 4, unroll 4, upcast 2 after UPCAST(0, 2) UNROLL(1, 4)"
    nothing = Plan.of(kernel_of(build.const(i32, 7)), LOOPS)
    assert str(nothing) == "no axes"


def test_what_the_last_of_several_views_repeats_does_not_change() -> None:
    padded = shaped(4).pad(((1, 1),))
    repeated = ShapeTracker((*padded.views, View((3, 2, 5), (0, 1, 1))))
    assert changes(load(1, dtypes.float32, repeated)) == {1, 2}
    # A mask hides it in part, so its value changes along the first axis too.
    gated = ShapeTracker((*padded.views, View((3, 6), (0, 1), 0, ((0, 2), (0, 6)))))
    assert changes(load(1, dtypes.float32, gated)) == {0, 1}


# --- limits ---------------------------------------------------------------------------------------


def test_shared_bytes_are_counted() -> None:
    def shared(text: str, ast: UOp | None = None) -> int:
        return planned(row_sum() if ast is None else ast, text).shared_bytes()

    assert shared("") == 0
    # An element of 4 bytes for each work-item of the group.
    assert shared("GROUP(1, 8)") == 8 * 4
    assert shared("GROUP(1, 8) LOCAL(0, 3)") == 8 * 3 * 4
    # And for each lane of the result, but not for reduced lanes.
    assert shared("GROUP(1, 8) UPCAST(0, 2)") == 8 * 2 * 4
    assert shared("GROUP(1, 4) UNROLL(2, 4)") == 4 * 4
    assert shared("GROUP(1, 8)", row_sum(dtype=dtypes.int64)) == 8 * 8
    assert shared("GROUP(1, 8)", row_sum(dtype=dtypes.int8)) == 8


def test_scratch_bytes_are_counted() -> None:
    def scratch(text: str) -> int:
        return planned(matmul(), text, HOST).shared_bytes()

    assert scratch("PACK(1, 1)") == 16 * 4
    assert scratch("PACK(1, 1) UPCAST(0, 4)") == 16 * 4 * 4
    # Lanes along which the operand is the same take nothing more.
    assert scratch("PACK(1, 1) UPCAST(1, 4)") == 16 * 4
    assert scratch("PACK(1, 1) PACK(0, 2)") == 2 * 16 * 4


@pytest.mark.parametrize(
    ("changes", "before", "opt", "reason"),
    [
        ({"group_size_limit": 8}, "", "LOCAL(1, 12)", "a group of 12 work-items"),
        ({"group_size_limit": 8}, "LOCAL(0, 4)", "LOCAL(1, 3)", "a group of 12 work-items"),
        ({"group_size_limit": 8}, "LOCAL(0, 4)", "GROUP(3, 4)", "a group of 16 work-items"),
        ({"group_limit": (4, 4, 4)}, "", "LOCAL(1, 6)", "does not fit the limits (4, 4, 4)"),
        ({"group_limit": (2, 2, 2)}, "LOCAL(0, 2) LOCAL(1, 2)", "LOCAL(0, 4)", "does not fit"),
        ({"shared_bytes": 63}, "", "GROUP(2, 16)", "64 bytes of shared memory, accepted are 63"),
        ({"shared_bytes": 64}, "GROUP(2, 16)", "UPCAST(0, 2)", "128 bytes of shared memory"),
        ({"shared_bytes": 64}, "GROUP(2, 16)", "LOCAL(0, 2)", "128 bytes of shared memory"),
        ({"grid_limit": (12, 9, 1)}, "", "PADTO(0, 5)", "a grid of [10, 12] does not fit"),
    ],
)
def test_limits_hold_after_every_optimisation(
    changes: dict[str, object], before: str, opt: str, reason: str
) -> None:
    plan = planned(matmul(), before)
    assert plan.legal(parse_opts(opt)[0]) is not None
    tight = planned(matmul(), before, dataclasses.replace(GROUPS, **changes))  # type: ignore[arg-type]
    assert reason in refusal(tight, opt)


# --- requested optimisations ----------------------------------------------------------------------


def test_a_refusal_names_the_optimisation_and_the_plan() -> None:
    plan = planned(row_sum(), "UPCAST(0, 2)")
    message = refusal(plan, "UPCAST(0, 2)")
    assert message == (
        "UPCAST(0, 2): 2 is no amount that divides 3: accepted are divisors from 2, "
        "in a plan of global 3, reduce 16, upcast 2 after UPCAST(0, 2)"
    )
    assert isinstance(KernelOptError(message), UserError)


def test_lanes_are_limited_in_all() -> None:
    plan = planned(matmul(64, 64, 64), "UPCAST(0, 16) UPCAST(1, 16) UNROLL(2, 16)", LOOPS)
    for opt in ("UPCAST(0, 2)", "UPCAST(1, 4)", "UNROLL(2, 2)"):
        assert "lanes and copies in all: accepted are 4096" in refusal(plan, opt)


def test_a_plan_without_axes_has_none_to_cut() -> None:
    nothing = Plan.of(kernel_of(build.const(i32, 7)), LOOPS)
    assert "there is no axis 0: the plan has no axes" in refusal(nothing, "UPCAST(0, 2)")


WRONG_NUMBERS = [True, 1.0, 0.5, "0", None, float("nan"), [1]]


@pytest.mark.table
@pytest.mark.parametrize("name", ["axis", "arg", "level", "mode"])
@pytest.mark.parametrize("value", WRONG_NUMBERS, ids=repr)
def test_an_optimisation_has_integers(name: str, value: object) -> None:
    numbers: dict[str, object] = {"axis": 0, "arg": 2, name: value}
    with pytest.raises(UserError, match=f"Opt: {name} is .*, accepted are integers"):
        Opt(OptOp.UPCAST, **numbers)  # type: ignore[arg-type]


def test_an_optimisation_has_an_op() -> None:
    with pytest.raises(UserError, match="Opt: op is 'UPCAST', accepted are members of OptOp"):
        Opt("UPCAST", 0, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("opts", ["UPCAST(0, 2)", ["UPCAST(0, 2)"], [1], [None], 3], ids=repr)
def test_what_is_no_optimisation_is_refused(opts: object) -> None:
    with pytest.raises(UserError, match=r"^optimisations: "):
        compile_kernel(row_sum(), GROUPS, opts=opts)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^optimisations: "):
        compile_kernel(row_sum(), GROUPS, opts=Opt(OptOp.UPCAST, 0, 2))  # type: ignore[arg-type]


# --- text -----------------------------------------------------------------------------------------

NUMBERS = st.integers(-(10**17), 10**17)
OPTS = st.one_of(
    st.builds(Opt, st.sampled_from([op for op in OptOp if op is not OptOp.TC]), NUMBERS, NUMBERS),
    st.builds(Opt, st.just(OptOp.TC), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)


@pytest.mark.long
@given(st.lists(OPTS, max_size=5))
def test_the_text_of_optimisations_reads_back(opts: list[Opt]) -> None:
    assert parse_opts(opts_text(tuple(opts))) == tuple(opts)


def test_text_of_optimisations() -> None:
    assert parse_opts("") == ()
    assert parse_opts("  \n") == ()
    assert parse_opts(" UPCAST( 0 ,4 )LOCAL(1,16) ") == (
        Opt(OptOp.UPCAST, 0, 4),
        Opt(OptOp.LOCAL, 1, 16),
    )
    assert opts_text((Opt(OptOp.NOLOCALS),)) == "NOLOCALS(0, 0)"


@pytest.mark.table
@pytest.mark.parametrize(
    "text",
    [
        "UPCAST",
        "UPCAST(0)",
        "UPCAST(0, 4",
        "upcast(0, 4)",
        "UPCAST(0, 4),",
        "FOO(0, 4)",
        "UPCAST(0, 4) x",
        "UPCAST(0x1, 4)",
        "UPCAST(0, 4.0)",
        "UPCAST(--1, 4)",
        "(0, 4)",
        "UPCAST(0, \u0664)",
        "UPCAST(0, 4)\0",
        "UPCAST(0, 1e3)",
        "UPCAST(0, +4)",
        ";",
        "UPCAST(0, 4, level 0, mode 1)",
        "TC(0, 0, level 0)",
        "TC(0, 0, mode 1, level 0)",
        "UPCAST(0, 1234567890123456789012)",
        "__class__(0, 0)",
        "UPCAST(,)",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"optimisations: cannot read .*accepted are"):
        parse_opts(text)


def test_a_long_hostile_text_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="cannot read"):
        parse_opts("UPCAST(0, 4) " * 1000 + " " * 100_000 + "x")


# --- for people -----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(plan: Plan, stream: io.StringIO, indent: str = "") -> str:
    print_plan(plan, stream, indent)
    return stream.getvalue()


def test_a_file_has_no_colours() -> None:
    assert printed(planned(row_sum(), "UPCAST(0, 2) GROUP(1, 4)"), io.StringIO(), "  ") == (
        "  plan  global 3, group_reduce 4, reduce 4, upcast 2\n  opts  UPCAST(0, 2) GROUP(1, 4)\n"
    )
    assert printed(planned(row_sum(), ""), io.StringIO()) == "plan  global 6, reduce 16\n"


def test_a_terminal_has_a_colour_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plan = planned(row_sum(), "UPCAST(0, 2) GROUP(1, 4)")
    text = printed(plan, Terminal())
    assert text.count("\n") == 2
    colours = re.findall(r"\x1b\[(\d+)m(\w+) \d+\x1b\[0m", text)
    assert [kind for _, kind in colours] == ["global", "group_reduce", "reduce", "upcast"]
    assert len({colour for colour, _ in colours}) == 4
    assert STYLES.keys() == set(KIND_ORDER)
    assert len(set(STYLES.values())) == len(KIND_ORDER)
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(plan, Terminal()) == printed(plan, io.StringIO())
