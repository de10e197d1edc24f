"""Fuzzed programs: their tapes, the eager evaluator, and their scripts."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from tinyref.errors import UserError
from tinyref.tensor import assignment
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs import oracle, script
from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.examine import script_of
from tinyref_fuzz.programs.generator import generate
from tinyref_fuzz.programs.judge import ProgramJudge, difference, expected_reads
from tinyref_fuzz.programs.oracle import evaluate
from tinyref_fuzz.programs.reduce import reduce_program
from tinyref_fuzz.programs.run import NORMAL, PLAIN, ProgramOutcome, Way, run
from tinyref_fuzz.programs.script import ProgramDevices, script_lines
from tinyref_fuzz.programs.steps import (
    WRITES,
    ProgramStep,
    TensorProgram,
    program_from_json,
    program_to_json,
)
from tinyref_spec.kernel_case import KernelVerdict, Pair, Symptom

DEVICES = ProgramDevices.of("PYTHON")


def data(
    number: int, *elements: float, dtype: str = "int32", shape=None, grad=False
) -> ProgramStep:
    sizes = (len(elements),) if shape is None else shape
    return ProgramStep("data", (), (number,), (dtype, sizes, elements, 0, grad))


def reads(*steps: ProgramStep) -> list[object]:
    return [elements.tolist() for elements in evaluate(TensorProgram(steps))]


def read(number: int) -> ProgramStep:
    return ProgramStep("read", (number,))


def test_a_tape_gives_the_same_program_again_and_a_cut_one_gives_another():
    for seed in range(20):
        made = generate(Tape(seed=seed), 3)
        assert generate(Tape(choices=made.choices), 3) == made
        assert program_from_json(json.loads(json.dumps(program_to_json(made)))) == made
        assert evaluate(generate(Tape(choices=made.choices[::2]), 3)) is not None
        assert evaluate(generate(Tape(choices=made.choices[: 9 * seed]), 3)) is not None


def test_programs_have_all_operations():
    ops = {step.op for seed in range(400) for step in generate(Tape(seed=seed), 3).all_steps()}
    assert ops == script.OPERATIONS == oracle.OPERATIONS


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "tinyref.case"},
        {"version": 2},
        {"steps": [{"op": "neg"}]},
        {"steps": [{"op": 1, "args": [], "targets": [], "values": [], "body": []}]},
        {"steps": [{"op": "neg", "args": [-1], "targets": [], "values": [], "body": []}]},
        {"steps": [{"op": "neg", "args": [], "targets": [], "values": [{}], "body": []}]},
    ],
)
def test_bad_programs_are_refused(change):
    with pytest.raises(UserError):
        program_from_json({**program_to_json(TensorProgram((data(1, 5),))), **change})


RETURNS_CODE = "1,)\nimport os\n(1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": [[RETURNS_CODE]]}, r"steps\[0\].values\[0\]: expected an integer from 0"),
        ({"values": [[True]]}, r"steps\[0\].values\[0\]: expected an integer from 0"),
        ({"values": [RETURNS_CODE]}, r"steps\[0\].values\[0\]: expected a list"),
        ({"values": []}, r"steps\[0\].values: expected one list of the function's results"),
        ({"values": [[1], [2]]}, r"steps\[0\].values: expected one list"),
        ({"op": "neg", "body": [{}]}, r"steps\[0\].body"),
    ],
)
def test_results_of_a_function_in_a_file_are_numbers(change, words):
    # Each number becomes a name in the script, which runs.
    function = {"op": "function", "args": [2], "targets": [3], "values": [[2]], "body": []}
    with pytest.raises(UserError, match=words):
        program_from_json({"choices": [], "steps": [{**function, **change}]})


@pytest.mark.parametrize(
    "step",
    [
        ProgramStep("reshape", (), (2,), ((1,),)),
        ProgramStep("reshape", (1,), (2,), ()),
        ProgramStep("index", (1,), (2,), (3,)),
        ProgramStep("index", (1,), (2,), (((1, 2, 3, 4),),)),
        ProgramStep("data", (), (2,), ("int32",)),
        ProgramStep("data", (), (2,), ("int32", (1,), 5, 0, False)),
    ],
)
def test_a_step_without_what_its_operation_takes_is_refused(step):
    with pytest.raises(UserError, match=f"step 1: '{step.op}' has wrong arguments or values"):
        script_lines(TensorProgram((data(1, 5), step)), DEVICES)


def test_a_text_of_a_file_is_never_code():
    evil = "int32'); import os; ("
    line = script_lines(TensorProgram((data(1, 5, dtype=evil),)), DEVICES)[0].text
    assert repr(evil) in line
    with pytest.raises(UserError, match="step 0: unknown operation"):
        script_lines(TensorProgram((ProgramStep("__import__('os')"),)), DEVICES)
    with pytest.raises(UserError, match="device"):
        script_lines(TensorProgram((ProgramStep("to", (1,), (2,), ("CPU",)),)), DEVICES)


# --- the oracle, by literals -------------------------------------------------------------------


def test_a_write_through_a_view_is_seen_by_all_that_show_the_element():
    key = ((None, None, -2),)
    results = reads(
        data(1, 1, 2, 3, 4, 5),
        ProgramStep("index", (1,), (2,), (key,)),
        ProgramStep("add_number", (1,), (3,), (10,)),
        ProgramStep("setitem_number", (2,), (), (((0, 2, None),), 9)),
        *map(read, (1, 2, 3)),
    )
    assert results == [[1, 2, 9, 4, 9], [9, 9, 1], [11, 12, 13, 14, 15]]


def test_integers_wrap_and_divide_towards_zero():
    results = reads(
        data(1, -128, 127, -7, dtype="int8"),
        ProgramStep("add_number", (1,), (2,), (-1,)),
        ProgramStep("idiv_number", (1,), (3,), (2,)),
        ProgramStep("mod_number", (1,), (4,), (3,)),
        ProgramStep("sum", (1,), (5,), ((0,), False)),
        *map(read, (2, 3, 4, 5)),
    )
    assert results == [[127, 126, -8], [-64, 63, -3], [1, 1, 2], -8]


def test_a_function_runs_again_in_each_call():
    body = (ProgramStep("assign", (1, 2)), ProgramStep("add", (1, 2), (3,)))
    results = reads(
        data(1, 1),
        ProgramStep("function", (2,), (9,), ((3,),), body),
        data(4, 5),
        data(5, 6),
        ProgramStep("call", (9, 4), (6,)),
        ProgramStep("call", (9, 5), (7,)),
        *map(read, (6, 7, 1)),
    )
    assert results == [[10], [12], [6]]


@pytest.mark.parametrize("op", ["square", "cast"])
def test_a_result_that_rounds_is_not_exact(op):
    value = () if op == "square" else ("uint8",)
    with pytest.raises(InexactError):
        evaluate(
            TensorProgram((data(1, -190.5, dtype="float32"), ProgramStep(op, (1,), (2,), value)))
        )


WITH_GRADIENT = data(1, 1, 2, dtype="float32", grad=True)
# One row of two, which would broadcast to two rows.
SYMBOLIC_ROW = (
    ProgramStep("data", (), (1,), ("int32", (2, 2), (1, 2, 3, 4), 0, False)),
    ProgramStep("bind", (), (2,), ("n1", 1, 2, 1)),
    ProgramStep("part", (1, 2), (3,), (0, "head")),
)
# The same variable with another value, as in the results of two calls.
OTHER_ROWS = (
    ProgramStep("bind", (), (4,), ("n1", 1, 2, 2)),
    ProgramStep("part", (1, 4), (5,), (0, "head")),
)


@pytest.mark.parametrize(
    "steps",
    [
        (
            WITH_GRADIENT,
            ProgramStep("neg", (1,), (2,)),
            ProgramStep("detach", (2,), (3,)),
            ProgramStep("assign_number", (3,), (), (1,)),
        ),
        (WITH_GRADIENT, data(2, 3, 4, dtype="float32"), ProgramStep("assign", (2, 1))),
        (data(1, 1, 2), ProgramStep("cast", (1,), (2,), ("int32",))),
        (ProgramStep("randint", (), (1,), ((2,), 0, 5, 0)),),
        (
            WITH_GRADIENT,
            ProgramStep("maximum", (1, 1), (2,)),
            ProgramStep("gradient", (2, 1), (3,)),
        ),
        (*SYMBOLIC_ROW, ProgramStep("clone", (1,), (4,)), ProgramStep("assign", (4, 3))),
        (
            *SYMBOLIC_ROW,
            *OTHER_ROWS,
            ProgramStep("clone", (5,), (6,)),
            ProgramStep("assign", (6, 3)),
        ),
        (*SYMBOLIC_ROW, *OTHER_ROWS, ProgramStep("add", (5, 3), (6,))),
    ],
    ids=[
        "to-gradients",
        "of-gradients",
        "no-cast",
        "no-seed",
        "no-rule",
        "symbolic-assign",
        "assign-of-another-value",
        "add-of-another-value",
    ],
)
def test_undefined_steps_are_refused(steps):
    with pytest.raises(UndefinedError):
        evaluate(TensorProgram(steps))


# --- the script --------------------------------------------------------------------------------

VIEW_WRITTEN = TensorProgram(
    (
        data(1, 1, 2, 3),
        ProgramStep("flip", (1,), (2,), ((0,),)),
        ProgramStep("setitem_number", (2,), (), (((0, 1, None),), 7)),
        read(1),
    )
)


def test_a_script_runs_by_itself_and_fails_for_another_program(monkeypatch):
    text = script_of(VIEW_WRITTEN, "PYTHON")
    assert "    t2[0:1] = 7\n" in text
    monkeypatch.setattr(sys, "argv", ["script.py", "--in-this-process"])
    for changed, code in ((text, 0), (text.replace("] = 7", "] = 8"), 1)):
        with pytest.raises(SystemExit) as ended:
            exec(compile(changed, "script", "exec"), {})
        assert ended.value.code == code


@pytest.mark.parametrize("way", [NORMAL, PLAIN, Way(evaluates=True)])
def test_a_program_runs_in_each_way(way):
    outcome = run(VIEW_WRITTEN, DEVICES, way)
    assert (outcome.error, [elements.tolist() for elements in outcome.reads]) == ("", [[1, 2, 7]])


def test_an_error_names_its_step():
    outcome = run(
        TensorProgram((data(1, 1), ProgramStep("permute", (1,), (2,), ((1, 0),)))), DEVICES
    )
    assert (outcome.step, outcome.refusal) == (1, "")
    assert outcome.error.startswith("UserIndexError: permute")


def test_a_difference_names_the_first_element():
    expected = [np.array([1, 2, 3], np.int32)]
    assert (
        difference(VIEW_WRITTEN, expected, ProgramOutcome((np.array([1, 2, 3], np.int32),))) == ""
    )
    for other, message in (
        (
            np.array([1, 5, 6], np.int32),
            "step 3: t1: element 1: expected 2 (0x00000002), got 5 (0x00000005)",
        ),
        (np.array([1, 2], np.int32), "step 3: t1: expected int32 of shape (3,), got int32 of (2,)"),
        (
            np.array([1, 2, 3], np.int64),
            "step 3: t1: expected int32 of shape (3,), got int64 of (3,)",
        ),
    ):
        assert difference(VIEW_WRITTEN, expected, ProgramOutcome((other,))) == message


# --- healthy devices ---------------------------------------------------------------------------


def judged(device: str, seeds: range) -> int:
    judge = ProgramJudge(device)
    count = 0
    for seed in seeds:
        program = generate(Tape(seed=seed), len(judge.devices.names))
        verdict = judge.verdict(program, thorough=seed % 8 == 0)
        assert verdict.agrees, (seed, verdict.detail)
        count += verdict.judged > 0
    return count


@pytest.mark.long
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_healthy_devices_agree(device):
    assert judged(device, range(15)) >= 13


# --- functions that keep state --------------------------------------------------------------------


@pytest.fixture(scope="module")
def judge() -> ProgramJudge:
    return ProgramJudge("PYTHON")


def calls(function: int, count: int, first: int = 50) -> list[ProgramStep]:
    return [ProgramStep("call", (function,), (first + number,)) for number in range(count)]


def test_state_is_written_viewed_and_dropped_between_calls():
    between: set[str] = set()
    functions: set[int] = set()
    replays = 0
    for seed in range(120):
        steps = generate(Tape(seed=seed), 3).steps
        indices = [index for index, step in enumerate(steps) if step.op == "call"]
        functions.add(sum(step.op == "function" for step in steps))
        replays += len(indices) >= 4
        if indices:
            between |= {step.op for step in steps[indices[0] : indices[-1]]}
    assert between >= {"assign", "setitem", "iadd", "index", "clone", "drop", "read", "realize"}
    assert functions >= {1, 2}
    assert replays >= 10


def test_replays_get_parts_of_tensors_that_are_written():
    counts = {"part": 0, "empty": 0, "long": 0}
    for seed in range(150):
        steps = generate(Tape(seed=seed), 3).steps
        makers = {number: step for step in steps for number in step.targets}
        arguments = [number for step in steps if step.op == "call" for number in step.args[1:]]
        parts = {makers[number].args[0] for number in arguments if makers[number].op == "shrink"}
        counts["part"] += any(step.op in WRITES and step.args[0] in parts for step in steps)
        counts["empty"] += any(step.op == "bind" and step.values[3] == 0 for step in steps)
        counts["long"] += any(step.op == "arange" and step.values[1] > 200 for step in steps)
    assert min(counts.values()) >= 5, counts


def test_long_ranges_become_short():
    def judged(program: TensorProgram) -> KernelVerdict:
        is_wrong = any(step.op == "flip" for step in program.steps) and expected_reads(program)
        return KernelVerdict(Pair.PLAIN, Symptom.VALUE, "flip") if is_wrong else KernelVerdict()

    long = (
        ProgramStep("arange", (), (1,), (0, 256, 0)),
        ProgramStep("reshape", (1,), (2,), ((16, 16),)),
    )
    program = TensorProgram((*long, ProgramStep("flip", (2,), (3,), ((1,),)), read(3)))
    reduced, _ = reduce_program(program, judged(program), judged, 60.0)
    assert [array.size for array in expected_reads(reduced)] == [4]


# --- refusals ------------------------------------------------------------------------------------

WRITTEN = ProgramStep("assign_number", (1,), (), (7,))
BEGUN = (
    data(1, 1, 2),
    ProgramStep("function", (), (9,), ((5,),), (ProgramStep("neg", (1,), (5,)),)),
    *calls(9, 2),
)


def test_a_refusal_without_a_reason_is_a_finding(judge, monkeypatch):
    program = TensorProgram((*BEGUN, WRITTEN, *calls(9, 1, 60), ProgramStep("read", (60,))))
    assert judge.verdict(program, evaluates=True).judged == 1
    monkeypatch.setattr(assignment, "has_memory_alone", lambda tensor: False)
    verdict = judge.verdict(program, evaluates=True)
    assert "is gone, or has other memory by now" in verdict.detail
