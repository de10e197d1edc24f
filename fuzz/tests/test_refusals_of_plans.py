"""What every plan of a kind accepts: healthy ones refuse none of it, one that does is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judged import case_of
from mutated import mutated

from tinyref.device import Device
from tinyref.optimise.opt import OptOp, opts_text
from tinyref.optimise.plan import Plan
from tinyref_fuzz.blame.find import find_blame
from tinyref_fuzz.generate.generate import draw_kernel
from tinyref_fuzz.generate.policies import policy_named
from tinyref_fuzz.generate.probes import doubtful
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.expressions.plans import plan_problems
from tinyref_fuzz.judge.judge import judge
from tinyref_fuzz.judge.refusals import legal_opts, refused_for_nothing
from tinyref_fuzz.mutants.mechanical import mechanical_mutant
from tinyref_spec.kernel_case import Pair, Symptom
from tinyref_spec.kernels.corpus import corpus_kernels

CORPUS = corpus_kernels()
HOST = "tinyref_fuzz.judge.devices:Host"


def plan_of(name: str, device: str = "PYTHON") -> Plan:
    return Plan.of(CORPUS[name].ast, Device[device].capabilities)


def test_what_a_sum_of_rows_surely_takes():
    cuts = "UPCAST(0, 2) UPCAST(0, 6) LOCAL(0, 2) LOCAL(0, 6) PADTO(0, 5)"
    reduced = "UNROLL(1, 2) UNROLL(1, 16) GROUP(1, 2) GROUP(1, 16) GROUPTOP(1, 2) GROUPTOP(1, 16)"
    found = opts_text(tuple(legal_opts(plan_of("sum-rows"))))
    assert found == f"{cuts} {reduced} PADTO(1, 3) NOLOCALS(0, 0)"
    # A host has threads, and no groups.
    ops = {opt.op for opt in legal_opts(plan_of("sum-rows", HOST))}
    assert ops == {OptOp.UPCAST, OptOp.THREAD, OptOp.PADTO, OptOp.UNROLL}


@pytest.mark.table
@pytest.mark.parametrize("name", ["sum-rows", "multiply-add-int32", "sum-float16", "maximum-int32"])
@pytest.mark.parametrize("device", ["PYTHON", HOST])
def test_healthy_plans_refuse_none_of_it(name, device):
    assert refused_for_nothing(CORPUS[name].ast, plan_of(name, device)) is None


@pytest.mark.parametrize(
    ("mutant", "text"),
    [
        ("optimise.padding/padding_problem/domain/1", "plan: PADTO(1, 3) is refused"),
        ("optimise.moves/_swap/comparison/1", "plan: SWAP(0, 1) is refused"),
    ],
)
def test_what_is_refused_for_nothing_is_found_and_blamed(mutant, text):
    case = case_of("sum-rows" if "PADTO" in text else "matmul-int32")
    assert judge(case, "PYTHON", thorough=False).agrees
    with mutated(mechanical_mutant(mutant)):
        verdict = judge(case, "PYTHON", thorough=False)
        assert (verdict.pair, verdict.symptom) == (Pair.OPTIMISED, Symptom.COST)
        assert verdict.detail.startswith(text)
        assert find_blame(case, verdict, "PYTHON").stage == "plan"


@pytest.mark.parametrize(
    ("mutant", "form", "text"),
    [
        ("optimise.moves/_upcast/statement/2", "matmul", "UPCAST"),
        ("optimise.moves/_split/condition/6", "reduce", ", 1) is accepted"),
        ("optimise.padding/_quotient/comparison/1", "reduce", "PADTO"),
        ("optimise.moves/_pack/condition/9", "softmax", "PACK"),
        ("optimise.plan/Plan.shared_bytes/condition/0", "matmul", "PACK"),
        ("optimise.tile/with_tile/condition/5", "matmul", "TC(0, -1, level 2, mode 3) is refused"),
    ],
)
def test_plans_beside_cases_find_what_is_legal_against_its_rule(mutant, form, text):
    policy = policy_named("mixed")
    device = Device["PYTHON"].capabilities

    def details(count):
        for number in range(count):
            case = draw_kernel(Tape(seed=number), device, replace(policy, outputs=0), form)
            yield from (str(each) for each in plan_problems(case, device))

    assert next(details(4), None) is None
    with mutated(mechanical_mutant(mutant)):
        assert any(text in detail for detail in details(60))


def test_what_cuts_other_kinds_of_axes_is_doubtful():
    ops = [(opt.op, opt.axis) for opt in doubtful(plan_of("sum-rows"), Tape(seed=1))]
    assert {(OptOp.UNROLL, 0), (OptOp.GROUP, 0), (OptOp.UPCAST, 1), (OptOp.LOCAL, 1)} <= set(ops)
