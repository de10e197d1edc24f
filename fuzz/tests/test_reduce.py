"""Reduction makes injected faults small, and keeps their fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from faults import FAULTS, large_case

from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.optimise.opt import KernelOptError
from tinyref.optimise.plan import Plan
from tinyref.uops.ops import Dialect, Ops
from tinyref.verify import verify
from tinyref_fuzz.judge.judge import judge
from tinyref_fuzz.reduce import node_count, opt_count, reduce_case
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.measure import measure
from tinyref_spec.kernel_case import KernelCase, KernelVerdict, Opts, Pair, Symptom

# Sufficient on any machine; other tests cover the time limit.
PLENTY = 600.0


# --- injected faults ------------------------------------------------------------------------------


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


# --- judges that only look at the case ------------------------------------------------------------


def failing_where(
    holds: Callable[[KernelCase], bool], pair: Pair = Pair.PLAIN, symptom: Symptom = Symptom.VALUE
) -> Callable[[KernelCase, str], KernelVerdict]:
    """Return a judge that finds a fault in the cases for which `holds` is True."""

    def judged(case: KernelCase, device: str) -> KernelVerdict:
        verify(Dialect.AST, case.ast)
        for node in case.ast.toposort():
            assert node.dtype.lanes == 1
        trial = 0 if pair is Pair.OPTIMISED else -1
        return KernelVerdict(pair, symptom, "injected", trial) if holds(case) else KernelVerdict()

    return judged


def small(case: KernelCase, holds: Callable[[KernelCase], bool], **options) -> KernelCase:
    judged = failing_where(holds, **options)
    verdict = judged(case, "PYTHON")
    reduction = reduce_case(case, verdict, "PYTHON", PLENTY, judged)
    assert reduction.is_complete
    assert holds(reduction.case)
    return reduction.case


def fits(case: KernelCase, opts: Opts) -> bool:
    """Return True if the plan of the case accepts the list."""
    try:
        Plan.of(case.ast, Device["PYTHON"].capabilities).apply_all(opts)
    except KernelOptError:
        return False
    return True


def ops_of(case: KernelCase) -> set[Ops]:
    return {node.op for node in case.ast.toposort()}


@pytest.mark.parametrize(
    ("op", "nodes"),
    [(Ops.MOD, 4), (Ops.WHERE, 4), (Ops.REDUCE, 3), (Ops.CAST, 3), (Ops.LOAD, 2), (Ops.STORE, 2)],
)
def test_an_operation_comes_out_alone(op, nodes):
    reduced = small(large_case(), lambda case: op in ops_of(case))
    assert node_count(reduced.ast) <= nodes
    assert reduced.opts == ()
    assert len(reduced.ast.src) == 1


@pytest.mark.parametrize("needed", ["UPCAST UNROLL", "LOCAL PADTO", "GROUP"])
def test_the_list_of_optimisations_is_minimal_and_legal(needed):
    names = set(needed.split())

    def holds(case):
        return any(
            names <= {opt.op.value for opt in opts} for opts in case.opts if fits(case, opts)
        )

    reduced = small(large_case(), holds, pair=Pair.OPTIMISED)
    (opts,) = reduced.opts
    assert {opt.op.value for opt in opts} == names
    assert len(opts) == len(names)
    assert node_count(reduced.ast) <= 3


# --- limits ---------------------------------------------------------------------------------------


def test_a_case_that_does_not_fail_is_refused():
    case = large_case()
    with pytest.raises(UserError, match="does not fail"):
        reduce_case(case, KernelVerdict(), "PYTHON")
    with pytest.raises(UserError, match="does not fail"):
        reduce_case(
            case,
            KernelVerdict(Pair.PLAIN, Symptom.VALUE, "x"),
            "PYTHON",
            judge=lambda *_: KernelVerdict(),
        )


class Clock:
    """A clock that advances by a second at every reading."""

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
    reduction = reduce_case(case, verdict, "PYTHON", seconds, judged)
    assert not reduction.is_complete
    assert Ops.MOD in ops_of(reduction.case)
    # The failing list is known before anything is tried.
    assert measure(reduction.case) < measure(case)
    assert (reduction.tried > 0) == (seconds > 0)


def test_another_fault_does_not_take_over():
    def judged(case, device):
        if Ops.MOD in ops_of(case):
            return KernelVerdict(Pair.PLAIN, Symptom.VALUE, "this one")
        return KernelVerdict(Pair.PLAIN, Symptom.ERROR, "another one")

    case = large_case()
    reduction = reduce_case(case, judged(case, ""), "PYTHON", PLENTY, judged)
    assert Ops.MOD in ops_of(reduction.case)
    assert reduction.verdict.symptom is Symptom.VALUE


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
    assert (
        is_same_fault(KernelVerdict(Pair.PLAIN, *first), KernelVerdict(Pair.PLAIN, *second)) is same
    )
    assert not is_same_fault(KernelVerdict(Pair.PLAIN, *first), KernelVerdict(Pair.DEVICE, *first))
    assert not is_same_fault(KernelVerdict(Pair.PLAIN, *first), KernelVerdict())
