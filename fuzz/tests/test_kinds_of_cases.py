"""Kinds of cases that survivors of mutants asked for: each is there, and a fault that it finds.

Rows have them, and the fuzzer's kernels or programs where those come to such a case: that some
work-items alone add to an accumulator, only programs written by hand ask.

Devices that have such faults, for what is asked of a device alone, are in the tests of conformance:
launches over an input that is still read, and sums of negative zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from faults_of_kinds import FAULTS_OF_KINDS
from mutated import mutated

from tinyref.uops.program import Program
from tinyref_fuzz.campaign.cases import forms_at, tape_seed
from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.generate.batches import Subject, draw_batch
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import FORMS, Policy, policy_named
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.expressions.judge import expression_verdict, form_verdict
from tinyref_fuzz.judge.judge import Judge, verdict_of
from tinyref_fuzz.mutants import programs
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_spec.bits import Array
from tinyref_spec.case import Profile
from tinyref_spec.catalogue import cases
from tinyref_spec.device_under_test import DeviceUnderTest

BROKEN_OFF = "broken-off-and-forgotten"
LIBRARY = "llvm-call-of-all-lanes-but-one"
FAULTS = {
    mutant.name: mutant for mutant in (*MUTANTS.values(), *programs.MUTANTS, *FAULTS_OF_KINDS)
}
# The kind, the rows that have it, and a fault.
KINDS = [
    ("a variable at its ends by several views", "kernel.symbolic.*.views", "only-last-mask"),
    ("assigned, read by a view, assigned again", "system.memory.*.assign", "write-before-read"),
    ("a constant operand", "isa.constant.int32.mod1", "remainder-floored"),
    ("parts not aligned", "kernel.opt.upcast.local", "vector-of-unaligned-address"),
    ("a mask through a flip", "kernel.view.pad.int32.read", "mask-begin-excluded"),
    ("a choice in padding", "kernel.gather.int32.padded*", "numbers-ignore-mask"),
    ("rows of a choice padded otherwise", "kernel.gather.int32.padded*", "hidden-in-another-row"),
    (
        "an accumulator of some items",
        "kernel.program.barriers.uniform*",
        "scalars-accumulated-as-vectors",
    ),
    (
        "a reduce of nothing beside others",
        "kernel.opt.unroll.beside_nothing",
        "empty-reduce-has-an-axis",
    ),
    ("loops around a node", "kernel.reduce.form", "accumulator-not-reset"),
    (
        "iterations that read others' results",
        "kernel.program.loop.memory*",
        "iterations-that-meet-go-unseen",
    ),
    (
        "scratch memory of an iteration",
        "kernel.program.group.scratch",
        "iterations-have-too-little-scratch",
    ),
    (
        "a reader before a barrier",
        "kernel.program.group.passed_on*",
        "readers-of-before-a-barrier-stay",
    ),
    ("a sum in a branch", "kernel.program.barriers.sum_in_branch*", "sum-in-a-branch-of-all"),
    ("a call of the library for each lane", "isa.vector.unary.exp2.float32", LIBRARY),
    (
        "an integer beside a tie",
        "isa.cast.int32.to_bfloat16",
        "large-negative-integers-round-twice",
    ),
    ("a position beyond 32 bits", "kernel.far.int32", "positions-are-int32-whatever-they-come-to"),
    (
        "a divisor that is not guarded",
        "isa.binary.mod.uint8",
        "division-by-what-may-be-zero-unguarded",
    ),
    ("a shift that is left open", "isa.cast.int32.to_int64", "sign-by-a-shift-of-all-bits"),
    ("products of tiles in a sum", "kernel.opt.tc.apple", "products-on-top-of-the-first"),
]
FORMS_OF_KERNELS = [
    ("loops around a node", "looped", "accumulator-not-reset"),
    ("a call of the library for each lane", "softmax", LIBRARY),
    ("a grid of small dimensions", "launch", "last-dimension-of-a-grid-rounded-down"),
    ("a grid that follows a variable", "launch", "a-symbolic-grid-rounded-down"),
]
# Kinds of choices, which stand beside kernels and are judged by their normal forms.
FORMS_BESIDE = [
    ("rows of a choice padded otherwise", "hidden-in-another-row"),
    ("a counter from a constant", "counter-from-a-constant-counts-up"),
    ("a counter from a load", "counter-from-a-load-is-taken-over-unchanged"),
]
# Kinds of expressions of what a device lacks.
OF_LACKS = [("a number below zero as a type that is lacked", "large-below-zero-goes-unseen")]
# Kinds of kernels that a policy makes many of.
OF_POLICIES = [("an output in place that others read", "small", "stores-overtake-loads")]
# And a seed whose programs show it soon.
OF_PROGRAMS = [
    ("a reshape by the bound number", 18, "reshaped-from-the-second-element"),
    ("two bounds of one variable", 9, "narrowed-by-one-too-many"),
    ("several temporaries at once", 18, "gap-begins-where-the-piece-before-does"),
    ("a schedule that breaks off", 4, BROKEN_OFF),
    ("equal elements reduced", 1, "repeated-elements-counted-once"),
    ("one variable of two values", 7, "two-values-are-refused"),
]
MAX_CASES, MAX_FORMS, MAX_PROGRAMS = 100, 150, 60


def failing(query: str, name: str = "PYTHON") -> list[str]:
    """The cases that do not pass, errors too, on a device that has kept no kernels."""
    device = DeviceUnderTest(name)
    found = cases(Profile.QUICK, query)
    assert found, f"no case is of {query}"
    failed = []
    for case in found:
        try:
            is_wrong = not case.run(device).passed
        except Exception:  # as for the runner, an error is a failure
            is_wrong = True
        failed += [case.id] if is_wrong else []
    return failed


@pytest.mark.long
@pytest.mark.parametrize(("kind", "query", "fault"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_rows_have_the_kind_and_find_its_fault(kind: str, query: str, fault: str) -> None:
    device = FAULTS[fault].device
    assert failing(query, device) == []
    with mutated(FAULTS[fault]):
        assert failing(query, device) != []
    assert failing(query, device) == []


def is_found(judge: Judge, policy: Policy, number: int) -> bool:
    """Whether case `number` of the policy shows a fault."""
    case = generate(Tape(seed=tape_seed(1, number)), judge.capabilities, policy)
    return not verdict_of(judge, case).agrees


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "form", "fault"), FORMS_OF_KERNELS, ids=[kind for kind, _, _ in FORMS_OF_KERNELS]
)
def test_kernels_of_the_fuzzer_have_the_kind_and_find_its_fault(
    kind: str, form: str, fault: str
) -> None:
    judge = Judge(FAULTS[fault].device)
    only = {each: float(each == form) for each in FORMS}
    policy = replace(policy_named("mixed"), forms=only)
    with mutated(FAULTS[fault]):
        found = next((each for each in range(MAX_CASES) if is_found(judge, policy, each)), None)
    assert found is not None
    assert not is_found(judge, policy, found)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "fault"), FORMS_BESIDE, ids=[kind for kind, _ in FORMS_BESIDE])
def test_forms_beside_kernels_have_the_kind_and_find_its_fault(kind: str, fault: str) -> None:
    judge = Judge(FAULTS[fault].device)

    def is_found(number: int) -> bool:
        return not all(form_verdict(form).agrees for form in forms_at(judge, 1, number))

    with mutated(FAULTS[fault]):
        found = next(filter(is_found, range(MAX_FORMS)), None)
    assert found is not None
    assert not is_found(found)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "fault"), OF_LACKS, ids=[kind for kind, _ in OF_LACKS])
def test_expressions_of_what_a_device_lacks_have_the_kind(kind: str, fault: str) -> None:
    capabilities = Judge(FAULTS[fault].device).capabilities

    def is_found(number: int) -> bool:
        tape = Tape(seed=tape_seed(1, number))
        case = draw_batch(tape, capabilities, policy_named("rules"), Subject.OPERATIONS)
        return not expression_verdict(case, capabilities, lot=0).agrees

    with mutated(FAULTS[fault]):
        found = next(filter(is_found, range(MAX_CASES)), None)
    assert found is not None
    assert not is_found(found)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "policy", "fault"), OF_POLICIES, ids=[kind for kind, _, _ in OF_POLICIES]
)
def test_policies_have_the_kind_and_find_its_fault(kind: str, policy: str, fault: str) -> None:
    judge, often = Judge(FAULTS[fault].device), policy_named(policy)
    with mutated(FAULTS[fault]):
        found = next((each for each in range(MAX_CASES) if is_found(judge, often, each)), None)
    assert found is not None
    assert not is_found(judge, often, found)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "seed", "fault"), OF_PROGRAMS, ids=[kind for kind, _, _ in OF_PROGRAMS]
)
def test_programs_of_the_fuzzer_have_the_kind_and_find_its_fault(
    kind: str, seed: int, fault: str
) -> None:
    judge = ProgramJudge("PYTHON")

    def is_found(number: int) -> bool:
        return not judge.verdict(program_at(judge, seed, number)).agrees

    with mutated(FAULTS[fault]):
        found = next(filter(is_found, range(MAX_PROGRAMS)), None)
    assert found is not None
    assert not is_found(found)


@pytest.mark.long
def test_a_fault_is_found_whatever_kept_the_programs_of_before() -> None:
    """What a launch has shown of a program that is still there hid a fault of the interpreter."""
    query, fault = "kernel.program.loop.memory*", "iterations-that-meet-go-unseen"
    kept: list[Program] = []

    class Keeping(DeviceUnderTest):
        def run_program(self, program: Program, *arguments: Any, **named: Any) -> list[Array]:
            kept.append(program)
            return super().run_program(program, *arguments, **named)

    device = Keeping("PYTHON")
    assert all(case.run(device).passed for case in cases(Profile.QUICK, query))
    with mutated(FAULTS[fault]):
        assert failing(query) != []
    assert len(kept) > 0
