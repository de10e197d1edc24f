"""Faults around kernels: each is found by programs of a fixed seed, and its stage is blamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from mutated import mutated

from tinyref.engine import runner
from tinyref.schedule.memory import Arena, Lifetime, plan_arena
from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.mutants.programs import MUTANTS
from tinyref_fuzz.programs.blame import STAGES, blame
from tinyref_fuzz.programs.examine import examine_program
from tinyref_fuzz.programs.judge import PLAIN_EVERY, ProgramJudge
from tinyref_fuzz.programs.record import load_program
from tinyref_fuzz.programs.steps import Program, Step
from tinyref_spec.kernel_case import Blame

SEED = 5
# Most programs that show the first one are of writes too, and are blamed on those; bound sizes of
# captured functions that an earlier call showed are few. A call that refuses what a write gave is
# blamed on the replay.
SEEDS = {
    "reduce-joined-at-another-place": 37,
    "replay-keeps-old-size": 11,
    "later-graphs-not-computed-first": 7,
    "write-to-view-unseen-by-base": 2,
}
# The last of them needs 205 programs.
MAX_PROGRAMS = 400
FOLDER = Path(__file__).parent / "program_reproducers"
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


@pytest.fixture(scope="module")
def judge() -> ProgramJudge:
    return ProgramJudge("PYTHON")


def is_right(found: Blame, name: str) -> bool:
    mutant = BY_NAME[name]
    return found.stage in mutant.stages and (not mutant.causes or found.cause in mutant.causes)


def with_other_variables(program: Program) -> Program:
    """Nodes keep what they know of themselves while they live; those of other names know none."""

    def renamed(step: Step) -> Step:
        if step.op != "bind":
            return step
        name, *rest = step.values
        return replace(step, values=(f"other_{name}", *rest))

    return program.with_steps([renamed(step) for step in program.steps])


def test_each_stage_but_the_kernel_has_a_mutant_and_each_mutant_a_reproducer():
    assert len(MUTANTS) >= 8
    assert {stage for mutant in MUTANTS for stage in mutant.stages} == set(STAGES)
    assert {file.stem for file in FOLDER.glob("*.json")} == BY_NAME.keys()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_reduced_program_agrees_without_the_fault_and_is_blamed_with_it(name, judge):
    program = load_program(FOLDER / f"{name}.json").program
    # Nothing is left of it but what the fault needs.
    assert program.size <= 13
    verdict = judge.verdict(program, thorough=True)
    assert (verdict.agrees, verdict.judged) == (True, 2)
    program = with_other_variables(program)
    with mutated(BY_NAME[name]):
        verdict = judge.verdict(program, thorough=True)
        assert not verdict.agrees
        found = blame(judge, program, verdict)
    assert is_right(found, name), found


def test_a_wrong_gradient_names_the_operation_that_it_goes_through(judge):
    name = "flip-gradient-not-flipped"
    program = load_program(FOLDER / f"{name}.json").program
    with mutated(BY_NAME[name]):
        found = blame(judge, program, judge.verdict(program))
    assert (found.stage, found.cause) == ("graph", "gradient of flip")


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_programs_of_a_fixed_seed_find_it_and_are_reduced(name, judge):
    with mutated(BY_NAME[name]):
        for number in range(MAX_PROGRAMS):
            program = program_at(judge, SEEDS.get(name, SEED), number)
            verdict = judge.verdict(program, thorough=number % PLAIN_EVERY == 0)
            if not verdict.agrees:
                break
        assert not verdict.agrees, f"no one of {MAX_PROGRAMS} programs finds it"
        found = examine_program(judge, program, verdict, seconds=30.0)
    assert is_right(found.blame, name), found.blame
    assert not found.problem
    assert found.program.size <= 13


def test_a_plan_in_which_a_kernel_writes_over_what_it_reads_is_found_without_another_value(
    judge: ProgramJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluated kernel reads all before it writes: only the memory itself tells."""

    def ended_early(lifetimes: Sequence[Lifetime], alignment: int) -> Arena:
        early = [replace(life, last=max(life.first, life.last - 1)) for life in lifetimes]
        return plan_arena(early, alignment)

    program = Program(
        (
            Step("data", (), (1,), ("int32", (2, 2, 2), tuple(range(8)), 2, False)),
            *(Step("add_number", (1,), (2,), (1,)), Step("sum", (2,), (5,), ((1,), True))),
            *(Step("add", (2, 5), (6,)), Step("to", (6,), (7,), (0,)), Step("read", (7,))),
        )
    )
    assert not judge.verdict(program, evaluates=True).pair
    monkeypatch.setattr(runner, "plan_arena", ended_early)
    verdict = judge.verdict(program, evaluates=True)
    assert "buffer 0 is written and shares memory with 2" in verdict.detail
    assert blame(judge, program, verdict).stage == "memory plan"
