"""Expressions and views that are judged without a program: each column can fail, and none does."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tinyref.algebra import sizes
from tinyref.algebra.linear import Linear
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.blame.find import find_blame
from tinyref_fuzz.campaign import cases
from tinyref_fuzz.campaign.cases import batch_at, batch_lot, verdict_with_batch
from tinyref_fuzz.findings.reproducer import reproducer
from tinyref_fuzz.generate.batches import EXPRESSIONS, Subject
from tinyref_fuzz.generate.equivalent.laws import rule_of
from tinyref_fuzz.judge.expressions import algebra, judge, stages, views
from tinyref_fuzz.judge.expressions.indexed import AccessError, written_by
from tinyref_fuzz.judge.expressions.judge import expression_verdict
from tinyref_fuzz.judge.expressions.lacks import TURNS, TURNS_OF_LACKING, lacks, turn_of
from tinyref_fuzz.judge.expressions.points import Points
from tinyref_fuzz.judge.judge import judge_of, verdict_of
from tinyref_fuzz.judge.oracles import oracle_for
from tinyref_fuzz.reduce import reduce_case
from tinyref_spec.kernel_case import Case, Pair, Symptom, Verdict
from tinyref_spec.kernels.notation import kernel_of, load
from tinyref_spec.proofs import known_ranges

PYTHON = "PYTHON"
SEED = 1
# Batches of one test: some of each subject.
BATCHES = 8


def position() -> UOp:
    return build.cast(build.iota(ShapeTracker.from_shape((4,))), dtypes.index)


def case_of(value: UOp) -> Case:
    """A kernel of one output over four positions, and the numbers 0, 1, -3 and 8."""
    buffers = np.zeros(4, np.int32), np.array([0, 1, -3, 8], np.int32)
    return Case(kernel_of(value, 4), buffers)


def verdict(value: UOp) -> Verdict:
    return expression_verdict(case_of(value), judge_of(PYTHON).capabilities)


def x() -> UOp:
    return load(1, dtypes.int32, (4,))


# --- nothing is wrong ----------------------------------------------------------------------------


@pytest.mark.table
@pytest.mark.parametrize("first", range(0, 48, BATCHES))
def test_a_healthy_compiler_keeps_every_value(first: int) -> None:
    judged = judge_of(PYTHON)
    for number in range(first, first + BATCHES):
        batch = batch_at(judged, SEED, number)
        assert batch is not None
        assert len(batch.ast.src) == EXPRESSIONS or batch.equivalent is not None
        assert expression_verdict(batch, judged.capabilities, number) == Verdict()


@pytest.mark.slow
@pytest.mark.parametrize("device", ["PYTHON", "GPU_EMU"])
def test_a_healthy_compiler_keeps_every_value_of_many(device: str) -> None:
    judged = judge_of(device)
    for number in range(1000, 1400):
        batch = batch_at(judged, SEED, number)
        lot = batch_lot(judged, number, "even")
        if batch is not None:
            assert expression_verdict(batch, judged.capabilities, lot) == Verdict(), number


def test_a_sum_of_64_bits_without_axes_is_one_of_integers() -> None:
    number = load(1, dtypes.int64, ())
    case = Case(kernel_of(build.add(number, 3), 1), (np.zeros(1, np.int64), np.array([5])))
    assert expression_verdict(case, judge_of(PYTHON).capabilities) == Verdict()


def test_what_is_loaded_is_no_size() -> None:
    divisor = build.cast(build.both(x(), 7), dtypes.index)
    quotient = build.idiv(build.const(dtypes.index, 100), build.add(divisor, 1))
    assert verdict(build.cast(build.less(quotient, 60), dtypes.int32)) == Verdict()


# --- each column finds what is wrong in its service ----------------------------------------------


def one_more(node: UOp) -> UOp:
    """A service that computes another value."""
    return build.add(node, 1) if node.dtype is dtypes.int32 else node


def less_of_two() -> UOp:
    return build.cast(build.maximum(position(), build.sub(3, position())), dtypes.int32)


def with_quotient() -> UOp:
    return build.cast(build.less(position(), build.add(position(), 1)), dtypes.int32)


def chosen() -> UOp:
    return build.where(build.less(x(), 5), build.add(x(), 1), 0)


def wrong_store(root: UOp) -> UOp:
    """An indexed kernel of which every value is 5."""
    return build.sink(
        *(build.store(each.src[0], build.const(dtypes.int32, 5)) for each in root.src)
    )


COLUMNS: tuple[tuple[str, Any, str, Any, Callable[[], UOp]], ...] = (
    ("simplify", algebra, "simplify", one_more, lambda: build.add(x(), x())),
    ("ranges", algebra, "bounds", lambda node: (0, 7), lambda: build.mul(x(), 2)),
    ("conditions", algebra, "simplify_with", lambda node, given: one_more(node), chosen),
    ("linear", algebra, "exact", lambda node: Linear({}, 3), lambda: build.add(x(), 1)),
    ("linear", algebra, "modular", lambda node: Linear({}, 3), lambda: build.add(x(), 1)),
    ("sizes", algebra, "lowest", lambda extent: 2, less_of_two),
    ("sizes", algebra, "is_known", lambda left, right: True, less_of_two),
    ("sizes", algebra, "largest", lambda left, right: left, less_of_two),
    ("sizes", algebra, "smallest", lambda left, right: left, less_of_two),
    ("sizes", algebra, "split", lambda extent, divisor: (extent, 0), less_of_two),
    ("sizes", algebra, "lower", lambda extent: 1, less_of_two),
    ("sizes", algebra, "arithmetic", lambda sign, left, right: 1, less_of_two),
    ("sizes", sizes, "split", lambda first, second: (first, 0), with_quotient),
    ("lower", stages, "lower_ast", lambda ast, _: wrong_store(LOWERED(ast, _)), chosen),
    ("simplify", stages, "simplify", wrong_store, chosen),
    ("decompose", stages, "decompose", lambda root, _: wrong_store(root), chosen),
    ("narrow", stages, "narrow_index", lambda root, _: wrong_store(root), chosen),
)
LOWERED = stages.lower_ast


@pytest.mark.table
@pytest.mark.parametrize(("column", "module", "service", "broken", "value"), COLUMNS)
def test_a_column_finds_a_service_that_is_wrong(
    column: str,
    module: Any,
    service: str,
    broken: Any,
    value: Callable[[], UOp],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert verdict(value()) == Verdict()
    monkeypatch.setattr(module, service, broken)
    found = verdict(value())
    assert found.pair is Pair.EXPRESSION
    assert found.symptom is Symptom.VALUE
    assert found.detail.startswith(f"{column}: ")


MOVES = {
    "flip": lambda tracker, axes: tracker,
    "permute": lambda tracker, order: tracker,
    "pad": lambda tracker, bounds: tracker,
    "shrink": lambda tracker, bounds: tracker,
    "expand": lambda tracker, shape: tracker,
    "simplify": lambda tracker: ShapeTracker.from_shape(tracker.shape),
    "index_and_valid": lambda tracker, at: (
        build.const(dtypes.index, 0),
        build.const(dtypes.bool, 1),
    ),
    "reach": lambda tracker: (0, 1),
    "real_strides": lambda tracker: (5,) * len(tracker.shape),
    "followed_by": lambda tracker, second: second,
    "is_masked": property(lambda tracker: False),
}


@pytest.mark.table
@pytest.mark.parametrize("name", MOVES)
def test_views_that_are_wrong_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = ShapeTracker.from_shape((2, 3)).flip((0,)).pad(((1, 0), (0, 1)))
    tracker = ShapeTracker((*inner.views, *ShapeTracker.from_shape((4, 3)).views))
    assert not list(views.view_problems(tracker, {}))
    monkeypatch.setattr(ShapeTracker, name, MOVES[name])
    problems = list(judge.problems_of("views", partial(views.view_problems, tracker, {})))
    assert problems
    assert {problem.column for problem in problems} == {"views"}


# --- what is known too little ---------------------------------------------------------------------


def test_a_range_that_is_wider_than_it_has_to_be_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = known_ranges.bounds
    wide = (-(2**31), 2**31 - 1)
    monkeypatch.setattr(
        known_ranges, "bounds", lambda node: wide if node.op is Ops.MUL else real(node)
    )
    found = verdict(build.mul(build.both(x(), 7), 3))
    assert found.symptom is Symptom.COST
    assert found.detail == (
        f"ranges: the range {wide} that is known of MUL of int32 is wider than it has to be: "
        "wanted (0, 21)"
    )


def test_of_views_with_symbolic_numbers_nothing_more_is_owed() -> None:
    """The sizes are fixed here, and where the view begins is not."""
    begin = build.variable("n", 0, 3)
    tracker = ShapeTracker((View((4,), (1,), begin),))
    assert not list(views.view_problems(tracker, {"n": 2}))
    buffers = np.zeros(4, np.int32), np.arange(9, dtype=np.int32)
    shown = load(1, dtypes.int32, tracker, size=9)
    case = Case(kernel_of(shown, 4), buffers, bindings=MappingProxyType({"n": 2}))
    assert expression_verdict(case, judge_of(PYTHON).capabilities) == Verdict()


def test_views_that_stay_two_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = ShapeTracker.from_shape((6,)).flip((0,))
    tracker = ShapeTracker((*inner.views, *ShapeTracker.from_shape((2, 3)).views))
    assert not list(views.view_problems(tracker, {}))
    monkeypatch.setattr(ShapeTracker, "simplify", lambda tracker: tracker)
    problem = next(views.view_problems(tracker, {}))
    assert problem.symptom is Symptom.COST
    assert "views stay two" in problem.text


LAWS_LOT = TURNS.index(Subject.LAWS)


def test_a_law_of_which_something_is_left_is_found() -> None:
    judged = judge_of(PYTHON)
    batch = batch_at(judged, SEED, LAWS_LOT)
    assert batch is not None
    assert batch.equivalent is not None
    labels = batch.equivalent.labels
    assert len(labels) > EXPRESSIONS // 2
    assert expression_verdict(batch, judged.capabilities, LAWS_LOT) == Verdict()
    lost = [label for label in labels if _is_missed(batch, rule_of(label))]
    assert lost
    with ALL_RULES.without({rule_of(lost[0])}):
        found = expression_verdict(batch, judged.capabilities, LAWS_LOT)
        assert "compiler, larger after law " in found.detail
        # As a case on file it is a kernel like any other one, and its equivalent.
        again = verdict_of(judged, batch, thorough=True)
    assert (again.pair, again.symptom) == (found.pair, found.symptom)


def _is_missed(batch: Case, rule: str) -> bool:
    """Whether the batch shows that there is no such rule; another one may do as well."""
    with ALL_RULES.without({rule}):
        found = expression_verdict(batch, judge_of(PYTHON).capabilities, LAWS_LOT)
    return (found.pair, found.symptom) == (Pair.EQUIVALENT, Symptom.COST)


def test_decompositions_owe_more_than_devices() -> None:
    base, exponent = load(1, dtypes.float32, (4,)), load(2, dtypes.float32, (4,))
    power = build.binary(Ops.POW, base, exponent)
    numbers = np.array([1.5, 2.5, 0.7, 3.1], np.float32)
    case = Case(kernel_of(power, 4), (np.zeros(4, np.float32), numbers, numbers[::-1].copy()))
    exact = np.power(numbers.astype(np.float64), numbers[::-1]).astype(np.float32)
    devices, decompositions = oracle_for(case), Points(case).oracle(case.ast.src)
    for ulps, is_owed in ((3, True), (-3, True), (4, False), (-4, False)):
        value = (exact.view(np.int32) + ulps).view(np.float32)
        assert devices.difference(0, value) == ""
        assert (decompositions.difference(0, value) == "") is is_owed


def test_what_a_service_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(node: UOp) -> UOp:
        raise IndexError("no such source")

    monkeypatch.setattr(algebra, "simplify", broken)
    found = verdict(build.add(x(), 1))
    assert found.symptom is Symptom.ERROR
    assert found.detail == "algebra: IndexError: no such source"


def test_kernels_that_reduce_are_left_to_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algebra, "simplify", one_more)
    total = build.reduce(Ops.ADD, load(1, dtypes.int32, (4,)), (0,))
    case = Case(kernel_of(total, 1), (np.zeros(1, np.int32), np.arange(4, dtype=np.int32)))
    assert expression_verdict(case, judge_of(PYTHON).capabilities) == Verdict()


# --- indexed kernels -----------------------------------------------------------------------------


def test_an_access_outside_of_its_memory_is_refused() -> None:
    capabilities = judge_of(PYTHON).capabilities
    case = case_of(build.add(x(), 1))
    root = stages.lower_ast(case.ast, capabilities)
    written = written_by(root, case.buffers, {}, frozenset({0}))
    assert written[0].view(np.int32).tolist() == [1, 2, -2, 9]
    with pytest.raises(AccessError, match="outside of the 4 elements of 1"):
        written_by(_further(root), case.buffers, {}, frozenset({0}))


def _further(root: UOp) -> UOp:
    """The kernel whose loads are one element further on."""
    (store,) = root.src
    (read,) = [node for node in root.toposort() if node.op is Ops.LOAD]
    at = read.src[0]
    moved = build.load(build.index(at.src[0], build.add(at.src[1], 1)))
    return build.sink(build.store(store.src[0], moved))


# --- a finding -----------------------------------------------------------------------------------


def test_a_finding_is_reduced_blamed_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the compiler itself is wrong, so that no kernel shows it."""
    real = algebra.bounds
    monkeypatch.setattr(
        algebra, "bounds", lambda node: (0, 7) if node.op is Ops.MUL else real(node)
    )
    value = build.sub(build.mul(build.add(x(), 1), 3), x())
    case, seen = case_of(value), verdict(value)
    assert seen.detail == "ranges: MUL from 0 to 7 has values from -6 to 27"
    again = verdict_of(judge_of(PYTHON), case, thorough=True)
    assert (again.pair, again.detail) == (Pair.EXPRESSION, seen.detail)
    smaller = reduce_case(case, seen, PYTHON, 5.0)
    assert smaller.nodes <= 4
    assert find_blame(smaller.case, smaller.verdict, PYTHON).stage == "simplify"
    script = reproducer(smaller.case, smaller.verdict, PYTHON)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(script, "reproducer", "exec"), {})
    assert printed.getvalue().startswith("ranges: MUL from 0 to 7 has values from ")


def test_a_case_agrees_before_its_batch_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = judge_of(PYTHON)
    monkeypatch.setattr(algebra, "simplify", one_more)
    monkeypatch.setattr(cases, "verdict_of", lambda judge, case: Verdict(judged=2))
    case = case_of(build.add(x(), 1))
    found, seen = verdict_with_batch(judged, case, SEED, 0)
    assert found.ast is not case.ast
    assert (seen.pair, seen.judged) == (Pair.EXPRESSION, 2)
    wrong = Verdict(Pair.DEVICE, Symptom.VALUE, "another")
    monkeypatch.setattr(cases, "verdict_of", lambda judge, case: wrong)
    assert verdict_with_batch(judged, case, SEED, 0) == (case, wrong)


# --- which batches there are ---------------------------------------------------------------------


def test_a_batch_is_of_its_seed_and_number() -> None:
    judged = judge_of(PYTHON)
    first, again, other = (batch_at(judged, 3, number) for number in (5, 5, 6))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.ast is again.ast
    assert all(map(np.array_equal, first.buffers, again.buffers))
    assert first.ast is not other.ast


def test_policies_of_axes_and_orders_have_no_batches() -> None:
    judged = judge_of(PYTHON)
    assert batch_lot(judged, 4, "even") == 4
    assert batch_lot(judged, 4, "matmul") is None
    assert batch_at(judged, 3, 4, "small") is None


def test_beside_a_device_a_third_of_the_kernels_has_a_batch() -> None:
    device: Any = SimpleNamespace(is_reference=False)
    assert [batch_lot(device, number, "even") for number in range(5)] == [0, None, None, 1, None]


def test_what_a_device_lacks_comes_first() -> None:
    whole = judge_of(PYTHON).capabilities
    assert turn_of(0, whole) == (Subject.ALGEBRA, None)
    assert turn_of(3, whole) == (Subject.OPERATIONS, lacks()[0])
    assert turn_of(4, whole) == (Subject.LAWS, None)
    assert turn_of(8, whole) == (Subject.OPERATIONS, lacks()[1])
    _, core = lacks()[0]
    assert turn_of(0, core) == (TURNS_OF_LACKING[0], ("the device", core))
    assert TURNS_OF_LACKING[0] is Subject.OPERATIONS


def test_a_lot_asks_the_columns_of_its_subject_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(judge, "view_problems", lambda *given: asked.append("views") or [])
    monkeypatch.setattr(judge, "stage_problems", lambda *given: asked.append("stages") or [])
    case = case_of(build.add(x(), 1))
    for lot, wanted in ((0, []), (1, ["views"] * 2), (2, []), (3, ["stages"])):
        asked.clear()
        assert expression_verdict(case, judge_of(PYTHON).capabilities, lot) == Verdict()
        assert asked == wanted
