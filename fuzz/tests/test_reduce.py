"""Reduction: injected faults come out small, as the same faults, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from faults import FAULTS, large_case

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.optimise.opt import KernelOptError
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import ViewArg
from tinyref.verify import verify
from tinyref_fuzz.generate.equivalent import equivalents
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge
from tinyref_fuzz.reduce import node_count, opt_count, reduce_case
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.measure import measure
from tinyref_fuzz.reduce.search import is_exact
from tinyref_spec.kernel_case import Case, Equivalent, Opts, Pair, Symptom, Verdict
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import kernel_of, load

CORPUS = corpus_kernels()
# Enough on any machine: what is cut short has tests of its own.
PLENTY = 600.0


# --- injected faults ------------------------------------------------------------------------------


def test_the_large_case_is_healthy():
    case = large_case()
    verify(Dialect.AST, case.ast)
    assert node_count(case.ast) == 22
    for opts in case.opts:
        Plan.of(case.ast, Device["PYTHON"].capabilities).apply_all(opts)
    assert is_exact(case)
    assert judge(case, "PYTHON", thorough=True).agrees


@pytest.mark.long
@pytest.mark.sampled(6)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_an_injected_fault_comes_out_small(fault, monkeypatch):
    fault.inject(monkeypatch)
    case = large_case(*fault.lists)
    verdict = judge(case, fault.device, thorough=False)
    assert (verdict.pair, verdict.symptom) == (fault.pair, fault.symptom)
    reduction = reduce_case(case, verdict, fault.device, PLENTY)
    assert reduction.is_complete
    assert reduction.nodes == node_count(reduction.case.ast) <= 8
    assert reduction.opts == opt_count(reduction.case) == len(fault.opts)
    assert {opt.op for opts in reduction.case.opts for opt in opts} == set(fault.opts)
    assert measure(reduction.case) < measure(case)
    verify(Dialect.AST, reduction.case.ast)
    again = judge(reduction.case, fault.device, thorough=False)
    assert (again.pair, again.symptom) == (fault.pair, fault.symptom)
    assert again == reduction.verdict


# --- judges that look at the case alone -----------------------------------------------------------


def failing_where(
    holds: Callable[[Case], bool], pair: Pair = Pair.PLAIN, symptom: Symptom = Symptom.VALUE
) -> Callable[[Case, str], Verdict]:
    """A judge that finds a fault in the cases where `holds` says so."""

    def judged(case: Case, device: str) -> Verdict:
        verify(Dialect.AST, case.ast)
        for node in case.ast.toposort():
            assert node.dtype.lanes == 1
        trial = 0 if pair is Pair.OPTIMISED else -1
        return Verdict(pair, symptom, "injected", trial) if holds(case) else Verdict()

    return judged


def small(case: Case, holds: Callable[[Case], bool], **given) -> Case:
    judged = failing_where(holds, **given)
    verdict = judged(case, "PYTHON")
    reduction = reduce_case(case, verdict, "PYTHON", PLENTY, judged)
    assert reduction.is_complete
    assert holds(reduction.case)
    return reduction.case


def fits(case: Case, opts: Opts) -> bool:
    """Whether the plan of the case accepts the list, as the judge would see."""
    try:
        Plan.of(case.ast, Device["PYTHON"].capabilities).apply_all(opts)
    except KernelOptError:
        return False
    return True


def ops_of(case: Case) -> set[Ops]:
    return {node.op for node in case.ast.toposort()}


def of_corpus(name: str) -> Case:
    kernel = CORPUS[name]
    return Case(kernel.ast, kernel.buffers(), (1, 2), None, ((),), kernel.bindings)


@pytest.mark.parametrize(
    ("op", "nodes"),
    [(Ops.MOD, 4), (Ops.WHERE, 4), (Ops.REDUCE, 3), (Ops.CAST, 3), (Ops.LOAD, 2), (Ops.STORE, 2)],
)
def test_an_operation_comes_out_alone(op, nodes):
    found = small(large_case(), lambda case: op in ops_of(case))
    assert node_count(found.ast) <= nodes
    assert found.opts == ()
    assert len(found.ast.src) == 1


def test_one_output_is_enough_for_a_fault_in_one():
    def holds(case):
        return any(store.src[1].dtype is dtypes.int32 for store in case.ast.src)

    found = small(large_case(), holds)
    assert len(found.ast.src) == 1
    assert [each.size for each in found.buffers] == [1]


@pytest.mark.parametrize("needed", ["UPCAST UNROLL", "LOCAL PADTO", "GROUP"])
def test_the_list_of_optimisations_is_minimal_and_legal(needed):
    names = set(needed.split())

    def holds(case):
        return any(
            names <= {opt.op.value for opt in opts} for opts in case.opts if fits(case, opts)
        )

    found = small(large_case(), holds, pair=Pair.OPTIMISED)
    (opts,) = found.opts
    assert {opt.op.value for opt in opts} == names
    assert len(opts) == len(names)
    assert node_count(found.ast) <= 3


def test_without_lists_those_of_the_heuristics_are_reduced():
    kernel = CORPUS["matmul-int32"]
    case = Case(kernel.ast, kernel.buffers())
    judged = failing_where(lambda case: any(case.opts), Pair.OPTIMISED)
    verdict = Verdict(Pair.OPTIMISED, Symptom.VALUE, "injected", 0)
    reduction = reduce_case(case, verdict, "PYTHON", PLENTY, judged)
    assert reduction.opts == 1


# --- axes, views, types, data ---------------------------------------------------------------------


def shapes_of(case: Case) -> set[tuple]:
    views = (node.arg for node in case.ast.toposort() if isinstance(node.arg, ViewArg))
    return {view.tracker.shape for view in views}


def test_an_extent_is_the_smallest_that_fails():
    def holds(case):
        return any(size >= 3 for shape in shapes_of(case) for size in shape)

    found = small(of_corpus("matmul-int32"), holds)
    assert shapes_of(found) == {(3,)}
    assert node_count(found.ast) == 2


def test_data_become_zeros_but_for_what_is_needed():
    def holds(case):
        return any(-2 in buffer.tolist() for buffer in case.buffers[1:])

    case = of_corpus("sum-rows")
    data = np.array([5, -2, 7, -2] * (case.buffers[1].size // 4), case.buffers[1].dtype)
    found = small(replace(case, buffers=(case.buffers[0], data)), holds)
    assert [value for value in found.buffers[1].tolist() if value] == [-2]


# --- equivalent kernels ---------------------------------------------------------------------------


def with_equivalent(name: str, steps: int) -> Case:
    kernel = CORPUS[name]
    for seed in range(50):
        equivalent = equivalents(kernel.ast, Tape(seed=seed), steps)
        if len(equivalent.trail) == steps:
            return Case(kernel.ast, kernel.buffers(), equivalent=equivalent)
    raise AssertionError(f"no {steps} steps fit {name}")


def test_of_an_equivalent_kernel_the_step_that_fails_stays():
    case = with_equivalent("matmul-int32", 3)
    assert case.equivalent is not None
    label = case.equivalent.labels[1]

    def holds(case):
        equivalent = case.equivalent
        if equivalent is None:
            return False
        assert equivalent.origin is case.ast
        return label in equivalent.labels

    found = small(case, holds, pair=Pair.EQUIVALENT)
    assert isinstance(found.equivalent, Equivalent)
    assert found.equivalent.labels == (label,)


def test_an_equivalent_kernel_that_fails_by_itself_is_the_case():
    case = with_equivalent("matmul-int32", 3)

    def judged(case, device):
        if case.equivalent is not None:
            return Verdict(Pair.EQUIVALENT, Symptom.VALUE, "injected")
        holds = Ops.REDUCE in ops_of(case)
        return Verdict(Pair.DEVICE, Symptom.VALUE, "injected") if holds else Verdict()

    found = reduce_case(case, judged(case, ""), "PYTHON", PLENTY, judged)
    assert (found.case.equivalent, found.verdict.pair) == (None, Pair.DEVICE)
    assert found.nodes == 3


# --- limits ---------------------------------------------------------------------------------------


def test_a_case_that_does_not_fail_is_refused():
    case = large_case()
    with pytest.raises(UserError, match="does not fail"):
        reduce_case(case, Verdict(), "PYTHON")
    with pytest.raises(UserError, match="does not fail"):
        reduce_case(
            case, Verdict(Pair.PLAIN, Symptom.VALUE, "x"), "PYTHON", judge=lambda *_: Verdict()
        )


class Clock:
    """A clock that is a second later every time somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("seconds", [0.0, 5.0, 15.0])
def test_at_the_deadline_the_best_so_far_is_returned(seconds, monkeypatch):
    from tinyref_fuzz.reduce import reduction, search

    clock = Clock()
    monkeypatch.setattr(reduction, "time", clock)
    monkeypatch.setattr(search, "time", clock)
    case = large_case()
    judged = failing_where(lambda case: Ops.MOD in ops_of(case))
    verdict = judged(case, "PYTHON")
    found = reduce_case(case, verdict, "PYTHON", seconds, judged)
    assert not found.is_complete
    assert Ops.MOD in ops_of(found.case)
    # The list that fails is known before anything is tried.
    assert measure(found.case) < measure(case)
    assert (found.tried > 0) == (seconds > 0)


def test_another_fault_does_not_take_over():
    def judged(case, device):
        if Ops.MOD in ops_of(case):
            return Verdict(Pair.PLAIN, Symptom.VALUE, "this one")
        return Verdict(Pair.PLAIN, Symptom.ERROR, "another one")

    case = large_case()
    found = reduce_case(case, judged(case, ""), "PYTHON", PLENTY, judged)
    assert Ops.MOD in ops_of(found.case)
    assert found.verdict.symptom is Symptom.VALUE


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ((Symptom.VALUE, "element 1"), (Symptom.VALUE, "element 2"), True),
        ((Symptom.VALUE, "x"), (Symptom.RACE, "x"), False),
        ((Symptom.VALUE, "x"), (Symptom.ACCESS, "x"), False),
        ((Symptom.ERROR, "KeyError: r_4_8"), (Symptom.ERROR, "KeyError: r_2"), True),
        ((Symptom.ERROR, "KeyError: 3"), (Symptom.ERROR, "IndexError: 3"), False),
        (
            (Symptom.ERROR, "VerifyError: ast.store.2: expected 4, got 5"),
            (Symptom.ERROR, "VerifyError: ast.store.2: expected a, got b"),
            True,
        ),
        (
            (Symptom.ERROR, "VerifyError: ast.store.2: expected"),
            (Symptom.ERROR, "VerifyError: ast.store.3: expected"),
            False,
        ),
    ],
)
def test_when_two_faults_are_the_same(first, second, same):
    assert is_same_fault(Verdict(Pair.PLAIN, *first), Verdict(Pair.PLAIN, *second)) is same
    assert not is_same_fault(Verdict(Pair.PLAIN, *first), Verdict(Pair.DEVICE, *first))
    assert not is_same_fault(Verdict(Pair.PLAIN, *first), Verdict())


# --- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "exact"), [([2**23, 2**23], True), ([2**24, 1, -(2**24)], False), ([0.5, 2], True)]
)
def test_a_reduction_stays_exact(data, exact):
    """Where sums round, a kernel may differ from itself; data must not lead there."""
    terms = load(1, dtypes.float32, (len(data),))
    ast = kernel_of(build.reduce(Ops.ADD, terms, (0,)), 1)
    case = Case(ast, (np.zeros(1, np.float32), np.array(data, np.float32)))
    assert is_exact(case) is exact
    if exact:
        assert is_exact(small(case, lambda case: Ops.REDUCE in ops_of(case)))
