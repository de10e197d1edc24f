"""How a campaign begins: each kind of kernel soon, with much in few of them; then programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinyref.algebra.rewrite import counting_rules
from tinyref_fuzz.campaign.cases import case_at
from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import OPENING, POLICIES, opening
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge_of, verdict_of
from tinyref_fuzz.judge.trial import has_many_outputs
from tinyref_fuzz.mutants.trial import turn_of
from tinyref_fuzz.programs.generator import opening_steps
from tinyref_fuzz.programs.judge import ProgramJudge

EVEN = POLICIES["even"]


def test_the_first_kernels_are_of_each_part_of_the_default():
    assert sorted(set(OPENING)) == sorted(EVEN.mixes)
    for number, name in enumerate(OPENING):
        policy = opening(EVEN, number)
        assert [part for part, weight in policy.mixes.items() if weight] == [name]
        drawn = policy.draw_part(Tape(seed=number))
        assert (drawn.name, drawn.lists[1] <= 5) == (name, True)


def test_later_kernels_have_more_lists_of_optimisations():
    lists = [opening(EVEN, number).lists for number in (0, 8, 9, 18, 62)]
    assert lists == [(3, 3), (3, 3), (4, 4), (5, 5), (9, 9)]
    assert opening(EVEN, len(OPENING)).mixes == EVEN.mixes


def test_late_kernels_and_those_of_another_policy_are_as_always():
    assert opening(EVEN, 63) is EVEN
    assert opening(POLICIES["small"], 0) is POLICIES["small"]
    assert EVEN.draw_part(Tape(choices=[sorted(EVEN.mixes).index("plans")])).lists == (8, 10)


def test_a_campaign_begins_with_loops_and_with_many_rules():
    judge = judge_of("PYTHON")
    for seed in range(3):
        first, second, third = (case_at(judge, seed, number) for number in range(3))
        assert [has_many_outputs(each) for each in (first, second, third)] == [False, True, False]
        assert 20 <= len(second.ast.src) <= 33


def test_a_kernel_of_many_outputs_leaves_half_of_the_buffers_to_inputs():
    few = replace(judge_of("PYTHON").capabilities, buffer_limit=8)
    for seed in range(5):
        assert len(generate(Tape(seed=seed), few, POLICIES["rules"]).ast.src) <= 6
    many = generate(Tape(seed=0), replace(few, buffer_limit=64), POLICIES["rules"])
    assert len(many.ast.src) >= 20


@pytest.mark.long
def test_ten_kernels_fire_half_of_what_a_night_fires():
    judge = judge_of("PYTHON")
    for seed in (1, 2, 3):
        fired: set[str] = set()
        for number in range(10):
            with counting_rules() as counts:
                assert verdict_of(judge, case_at(judge, seed, number)).agrees
            fired |= set(counts)
        # Drawn like all later ones, ten fired 35 to 41.
        assert len(fired) >= 48


def test_the_first_programs_are_long_ones():
    assert [opening_steps(number) for number in (0, 5, 6)] == [(20, 28), (20, 28), (5, 14)]
    judge = ProgramJudge("PYTHON")
    first = sum(program_at(judge, seed, 0).size for seed in range(10))
    assert first > 1.5 * sum(program_at(judge, seed, 6).size for seed in range(10))


def test_kernels_and_programs_take_turns_and_are_numbered_apart():
    turns = [turn_of(number, 2) for number in range(4)]
    assert turns == [(False, 0), (True, 0), (False, 1), (True, 1)]
    turns = [turn_of(number, 3) for number in range(6)]
    kinds = [(False, 0), (False, 1), (True, 0), (False, 2), (False, 3), (True, 1)]
    assert turns == kinds
    assert turn_of(7, 0) == (False, 7)
