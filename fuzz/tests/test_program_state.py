"""Programs of captured functions that keep state, and refusals that their steps let one expect."""

from __future__ import annotations

import pytest

from tinyref.tensor.methods.assignment import Assignment
from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_fuzz.programs.oracle import evaluate
from tinyref_fuzz.programs.refusals import is_foreseen
from tinyref_fuzz.programs.stateful import generate_stateful
from tinyref_fuzz.programs.steps import Program, Step


@pytest.fixture(scope="module")
def judge() -> ProgramJudge:
    return ProgramJudge("PYTHON")


def data(number: int, *elements: int) -> Step:
    return Step("data", (), (number,), ("int32", (len(elements),), elements, 0, False))


def calls(function: int, count: int, first: int = 50) -> list[Step]:
    return [Step("call", (function,), (first + number,)) for number in range(count)]


def test_a_tape_gives_the_same_program_again():
    for seed in range(20):
        made = generate_stateful(Tape(seed=seed), 3)
        again = generate_stateful(Tape(choices=made.choices), 3)
        assert again == made
        assert evaluate(generate_stateful(Tape(choices=made.choices[::2]), 3)) is not None


def test_state_is_changed_shown_and_given_up_between_calls():
    between: set[str] = set()
    functions: set[int] = set()
    replays = 0
    for seed in range(60):
        steps = generate_stateful(Tape(seed=seed), 3).steps
        places = [place for place, step in enumerate(steps) if step.op == "call"]
        functions.add(sum(step.op == "function" for step in steps))
        replays += len(places) >= 4
        if places:
            between |= {step.op for step in steps[places[0] : places[-1]]}
    assert between >= {"assign", "setitem", "iadd", "index", "clone", "drop", "read", "realize"}
    assert functions >= {1, 2}
    assert replays >= 50


def test_one_program_of_seven_is_of_this_kind(judge):
    assert program_at(judge, 3, 12).steps[0].op in ("seed", "data", "full")
    kinds = [any(s.op == "call" for s in program_at(judge, 1, n).steps) for n in range(5, 75, 7)]
    assert sum(kinds) >= 9


# --- refusals ------------------------------------------------------------------------------------

GONE = "is gone, or has other memory by now"
REPLACED = "replays would read the old one"
SHARES = "is a tensor that the function assigns to as well"
WRITTEN = Step("assign_number", (1,), (), (7,))
READING = Step("function", (), (9,), ((5,),), (Step("neg", (1,), (5,)),))
WRITING = Step("function", (), (9,), ((5,),), (WRITTEN, Step("neg", (1,), (5,))))
CLONE = Step("clone", (1,), (2,))
PART = [Step("bind", (), (4,), ("w", 1, 6, 2)), Step("part", (3, 4), (1,), (0, "tail"))]
OTHER_PART = [PART[0], Step("part", (3, 4), (6,), (0, "tail"))]
BEGUN = [data(1, 1, 2), READING, *calls(9, 2)]


@pytest.mark.parametrize(
    ("steps", "refusal", "foreseen"),
    [
        ([*BEGUN, WRITTEN, *calls(9, 1)], GONE, False),
        ([*BEGUN, CLONE, WRITTEN, *calls(9, 1)], GONE, True),
        # What was written before the capture is what the capture reads.
        ([data(1, 1, 2), CLONE, WRITTEN, READING, *calls(9, 3)], GONE, False),
        ([data(1, 1, 2), READING, *calls(9, 1), CLONE, WRITTEN, *calls(9, 1)], GONE, False),
        # It writes another tensor, which the function does not use.
        ([*BEGUN, data(3, 5), Step("clone", (3,), (4,)),
          Step("assign_number", (3,), (), (1,)), *calls(9, 1)], GONE, False),
        # A copy of a part alone may be in the memory of the whole.
        ([*BEGUN, Step("index", (1,), (2,), (((0, 1, None),),)),
          Step("mul_number", (2,), (3,), (1,)), Step("assign", (2, 3)), *calls(9, 1)], GONE, True),
        # A view of a result is computed by itself, and one of data shows them.
        ([data(3, 1, 2), Step("neg", (3,), (1,)), Step("flip", (1,), (2,), ((0,),)), READING,
          *calls(9, 2), WRITTEN, *calls(9, 1)], GONE, True),
        ([data(1, 1, 2), Step("flip", (1,), (2,), ((0,),)), READING, *calls(9, 2), WRITTEN,
          *calls(9, 1)], GONE, False),
        ([data(1, 1, 2), WRITING, *calls(9, 2)], REPLACED, False),
        ([data(1, 1, 2), WRITING, *calls(9, 1), CLONE, *calls(9, 1)], REPLACED, True),
        ([data(1, 1, 2), CLONE, READING, *calls(9, 2)], REPLACED, False),
        ([data(1, 1, 2), CLONE, WRITING, *calls(9, 3)], REPLACED, False),
        # A part of symbolic size is read; it is written; another tensor is written beside one.
        ([data(3, 1, 2), *PART, READING, *calls(9, 2)], REPLACED, False),
        ([data(3, 1, 2), *PART, WRITING, *calls(9, 2)], REPLACED, True),
        ([data(3, 1, 2), *OTHER_PART, data(1, 5, 6), WRITING, *calls(9, 2)], REPLACED, False),
    ],
)  # fmt: skip
def test_a_refusal_is_foreseen_where_the_steps_have_its_reason(steps, refusal, foreseen):
    assert is_foreseen(Program(tuple(steps)), len(steps) - 1, refusal) is foreseen


def test_state_as_an_argument_may_be_refused_and_another_tensor_may_not():
    body = (WRITTEN, Step("add", (1, 6), (5,)))
    function = Step("function", (6,), (9,), ((5,),), body)
    for given, foreseen in ((1, True), (3, False)):
        steps = (data(1, 1, 2), data(3, 3, 4), function, Step("call", (9, given), (50,)))
        assert is_foreseen(Program(steps), 3, SHARES) is foreseen


def test_a_refusal_without_a_reason_is_a_finding(judge, monkeypatch):
    program = Program((*BEGUN, WRITTEN, *calls(9, 1, 60), Step("read", (60,))))
    assert judge.verdict(program, evaluates=True).judged == 1
    monkeypatch.setattr(Assignment, "_has_memory_alone", lambda tensor: False)
    verdict = judge.verdict(program, evaluates=True)
    assert GONE in verdict.detail


def test_what_was_read_before_a_refusal_is_judged(judge, monkeypatch):
    steps = (*BEGUN, CLONE, Step("read", (51,)), WRITTEN, *calls(9, 1, 60), Step("read", (60,)))
    assert judge.verdict(Program(steps), evaluates=True).judged == 0
    monkeypatch.setattr("tinyref.tensor.tensor.Tensor.__neg__", lambda tensor: tensor + 3)
    assert "is 4 instead of -1" in judge.verdict(Program(steps), evaluates=True).detail
