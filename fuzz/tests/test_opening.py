"""How a campaign begins: each kind of kernel soon, with much in few of them; then programs."""

from __future__ import annotations

from dataclasses import replace

from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import FORMS, OPENING, POLICIES, opening
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge_of
from tinyref_fuzz.programs.generator import opening_steps
from tinyref_fuzz.programs.judge import ProgramJudge

ALL = POLICIES["all"]
ONLY_SEVERAL = replace(
    POLICIES["integers"], forms={form: float(form == "several") for form in FORMS}
)


def test_the_first_kernels_are_of_each_part_of_the_default():
    assert sorted(set(OPENING)) == sorted(ALL.mixes)
    for number, name in enumerate(OPENING):
        policy = opening(ALL, number)
        assert [part for part, weight in policy.mixes.items() if weight] == [name]
        drawn = policy.draw_part(Tape(seed=number))
        assert (drawn.name, drawn.lists[1] <= 5) == (name, True)


def test_later_kernels_have_more_lists_of_optimisations():
    lists = [opening(ALL, number).lists for number in (0, 8, 9, 18, 63)]
    assert lists == [(3, 3), (3, 3), (4, 4), (5, 5), (7, 9)]
    assert opening(ALL, len(OPENING)).mixes == ALL.mixes


def test_late_kernels_and_those_of_another_policy_are_as_always():
    assert opening(ALL, 63) is ALL
    assert opening(POLICIES["small"], 0) is POLICIES["small"]
    assert ALL.draw_part(Tape(choices=[sorted(ALL.mixes).index("reduces")])).lists == (7, 9)


def test_a_kernel_of_many_outputs_leaves_half_of_the_buffers_to_inputs():
    few = replace(judge_of("PYTHON").capabilities, buffer_limit=8)
    for seed in range(5):
        assert len(generate(Tape(seed=seed), few, ONLY_SEVERAL).ast.src) <= 6
    many = generate(Tape(seed=0), replace(few, buffer_limit=64), ONLY_SEVERAL)
    assert len(many.ast.src) >= 20


def test_the_first_programs_are_long_ones():
    assert [opening_steps(number) for number in (0, 5, 6)] == [(20, 28), (20, 28), (5, 14)]
    judge = ProgramJudge("PYTHON")
    first = sum(program_at(judge, seed, 0).size for seed in range(10))
    assert first > 1.5 * sum(program_at(judge, seed, 6).size for seed in range(10))
