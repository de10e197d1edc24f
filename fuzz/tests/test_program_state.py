"""Programs of captured functions that keep state, and refusals that their steps let one expect."""

from __future__ import annotations

import pytest

from tinyref.tensor.methods.assignment import Assignment
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_fuzz.programs.stateful import generate_stateful
from tinyref_fuzz.programs.steps import Program, Step


@pytest.fixture(scope="module")
def judge() -> ProgramJudge:
    return ProgramJudge("PYTHON")


def data(number: int, *elements: int) -> Step:
    return Step("data", (), (number,), ("int32", (len(elements),), elements, 0, False))


def calls(function: int, count: int, first: int = 50) -> list[Step]:
    return [Step("call", (function,), (first + number,)) for number in range(count)]


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


# --- refusals ------------------------------------------------------------------------------------

WRITTEN = Step("assign_number", (1,), (), (7,))
CLONE = Step("clone", (1,), (2,))
BEGUN = (
    data(1, 1, 2),
    Step("function", (), (9,), ((5,),), (Step("neg", (1,), (5,)),)),
    *calls(9, 2),
)


def test_a_refusal_without_a_reason_is_a_finding(judge, monkeypatch):
    program = Program((*BEGUN, WRITTEN, *calls(9, 1, 60), Step("read", (60,))))
    assert judge.verdict(program, evaluates=True).judged == 1
    monkeypatch.setattr(Assignment, "_has_memory_alone", lambda tensor: False)
    verdict = judge.verdict(program, evaluates=True)
    assert "is gone, or has other memory by now" in verdict.detail


def test_what_was_read_before_a_refusal_is_judged(judge, monkeypatch):
    steps = (*BEGUN, CLONE, Step("read", (51,)), WRITTEN, *calls(9, 1, 60), Step("read", (60,)))
    assert judge.verdict(Program(steps), evaluates=True).judged == 0
    monkeypatch.setattr("tinyref.tensor.tensor.Tensor.__neg__", lambda tensor: tensor + 3)
    assert "is 4 instead of -1" in judge.verdict(Program(steps), evaluates=True).detail
