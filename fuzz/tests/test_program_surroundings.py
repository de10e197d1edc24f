"""Programs of files, 8-bit floats, pickles and threads: meaning, faults, refusals."""

from __future__ import annotations

import contextvars
import sys

import numpy as np
import pytest
from mutated import mutated

from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.mutants.mutant import Mutant
from tinyref_fuzz.programs.exact import InexactError, UndefinedError
from tinyref_fuzz.programs.examine import script_of
from tinyref_fuzz.programs.generator import generate
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_fuzz.programs.oracle import evaluate
from tinyref_fuzz.programs.refusals import is_foreseen
from tinyref_fuzz.programs.steps import Program, Step
from tinyref_fuzz.programs.surrounded import generate_surrounded, is_surrounded
from tinyref_fuzz.programs.surroundings import SMALL_FLOATS, round_to

ADDING = Step("function", (5,), (9,), ((7,),), (Step("add", (5, 1), (7,)),))


def data(number: int, *elements: float, dtype: str = "int32") -> Step:
    return Step("data", (), (number,), (dtype, (len(elements),), elements, 0, False))


def read(*numbers: int) -> list[Step]:
    return [Step("read", (number,)) for number in numbers]


def calls(function: int, argument: int, count: int, first: int) -> list[Step]:
    return [Step("call", (function, argument), (first + number,)) for number in range(count)]


# Tensor 1 is state, 4 an argument; the function of 9 is captured.
CAPTURED = [data(1, 1, 2), data(4, 10, 20), ADDING, *calls(9, 4, 2, 50)]
FILE = Step("file", (), (1,), ("int16", (3,), (1, 2, 3), 3, 5))
SAVED = [data(2, 1, 2, 3), Step("save", (2,), (1,))]
RELOADED = [*CAPTURED, Step("reload", (9, 1), (19, 11))]
# Each thread calls a capture of which the pickle has no function.
TWICE = [
    *RELOADED,
    *(Step("call_twice", (19, 4, 4), (60 + 2 * n, 61 + 2 * n)) for n in range(5)),
    *read(60, 69),
]
TWO_STATES = [
    *(data(1, 1, 2), data(2, 3, 4), data(4, 10, 20)),
    Step(
        *("function", (5,), (9,), ((7,),)),
        body=(Step("add", (5, 1), (6,)), Step("mul", (6, 2), (7,))),
    ),
    *calls(9, 4, 2, 50),
    *(Step("reload", (9,), (19,)), *calls(19, 4, 1, 60), *read(60)),
]


@pytest.fixture(scope="module")
def judge() -> ProgramJudge:
    return ProgramJudge("PYTHON")


def found(*steps: Step) -> list[object]:
    return [each.elements.tolist() for each in evaluate(Program(steps))]


def test_a_tape_gives_the_same_program_again():
    for seed in range(10):
        made = generate_surrounded(Tape(seed=seed), 3)
        assert generate_surrounded(Tape(choices=made.choices), 3) == made
        assert evaluate(generate_surrounded(Tape(choices=made.choices[::2]), 3)) is not None


def test_one_program_of_twenty_three_is_of_this_kind(judge):
    assert [number for number in range(60) if is_surrounded(number)] == [13, 36, 59]
    ops = {step.op for step in program_at(judge, 1, 13).all_steps()}
    assert ops & {"file", "save", "reload", "to_fp8", "call_twice"}


@pytest.mark.parametrize(
    ("name", "given", "rounded"),
    [
        ("fp8e4m3", [1.0625, 1.1875, 448, 464, 465, -500], [1, 1.25, 448, 448, np.nan, np.nan]),
        ("fp8e4m3", [2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 0.0], [2.0**-9, 0, 2.0**-8, 0]),
        ("fp8e5m2", [1.125, 1.375, 57344, 61439, 61440, -70000],
         [1, 1.5, 57344, 57344, np.inf, -np.inf]),
    ],
)  # fmt: skip
def test_numbers_are_rounded_once_and_nothing_saturates(name, given, rounded):
    small = SMALL_FLOATS[name]
    elements = round_to(np.array(given), small)
    np.testing.assert_array_equal(elements, rounded)
    np.testing.assert_array_equal(elements.astype(small.storage).astype(float), rounded)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([FILE, Step("to", (1,), (2,), (0,)), *read(2)], [[1, 2, 3]]),
        ([FILE, Step("flip", (1,), (2,), ((0,),)), Step("assign_number", (2,), (), (7,)),
          Step("file_bytes", (1,), (3,), (0, 3)), *read(3)], [[7, 7, 7]]),
        ([*SAVED, Step("setitem_number", (1,), (), (((0, 3, 2),), 9)), *read(1, 2)],
         [[9, 2, 9], [1, 2, 3]]),
        ([data(1, 1.0625, 300, dtype="float32"), Step("to_fp8", (1,), (2,), ("fp8e4m3",)),
          Step("bitcast_fp8", (2,), (3,), ("uint8",)), *read(2, 3)], [[1, 288], [0x38, 0x79]]),
        # What was loaded has memory of its own, together with the state that came along.
        ([*RELOADED, Step("assign_number", (11,), (), (5,)), *calls(19, 4, 1, 60),
          *calls(9, 4, 1, 70), *read(60, 70)], [[15, 25], [11, 22]]),
        ([*RELOADED, Step("assign_number", (1,), (), (5,)), *calls(19, 4, 1, 60), *read(60)],
         [[11, 22]]),
        (TWICE, [[11, 22]] * 2),
        (TWO_STATES, [[33, 88]]),
        ([data(1, 1, 2), Step("neg", (1,), (2,)), Step("realize_twice", (1, 2)), *read(2)],
         [[-1, -2]]),
    ],
)  # fmt: skip
def test_a_program_means_this_and_its_device_says_so(steps, wanted, judge):
    assert found(*steps) == wanted
    program = Program(tuple(steps))
    for evaluates in (True, False):
        assert judge.verdict(program, True, evaluates).judged == 2


def test_a_capture_is_loaded_where_nothing_else_is_replayed(judge):
    steps = [*CAPTURED, Step("call_elsewhere", (9, 4), (60,)), *read(60)]
    assert judge.verdict(Program(tuple(steps)), True, evaluates=True).judged == 2


@pytest.mark.slow
def test_a_capture_runs_in_a_fresh_interpreter(judge):
    steps = [*CAPTURED, Step("call_elsewhere", (9, 4), (60,)), *read(60)]
    assert found(*steps) == [[11, 22]]
    assert judge.verdict(Program(tuple(steps))).judged == 1


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([FILE, Step("add_number", (1,), (2,), (1,))], UndefinedError),
        ([data(1, 1, 2), ADDING, Step("reload", (9,), (19,))], UndefinedError),
        ([data(1, 1, 2), data(4, 1, 2), ADDING, Step("call_elsewhere", (9, 4), (60,))],
         UndefinedError),
        ([data(1, 2.0**25), Step("to_fp8", (1,), (2,), ("fp8e5m2",))], InexactError),
        ([data(1, 500.0, dtype="float32"), Step("to_fp8", (1,), (2,), ("fp8e4m3",)),
          Step("from_fp8", (2,), (3,), ("float32",))], InexactError),
    ],
)  # fmt: skip
def test_what_has_no_certain_result_is_no_program(steps, error):
    with pytest.raises(error):
        evaluate(Program(tuple(steps)))


@pytest.mark.parametrize("steps", [[FILE, *read(1)], [*SAVED, *read(1)], TWICE])
def test_a_reproducer_has_the_helpers_that_it_calls(steps, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script.py", "--in-this-process"])
    with pytest.raises(SystemExit) as ended:
        exec(compile(script_of(Program(tuple(steps)), "PYTHON"), "script", "exec"), {})
    assert ended.value.code == 0


# --- faults that only such programs find ---------------------------------------------------------

FAULTS = [
    (
        "PYTHON",
        10,
        Mutant(
            name="part-of-file-begins-even",
            kind="file",
            module="tinyref.runtimes.data.disk",
            old="return FilePart(handle.file, handle.offset + offset, nbytes)",
            new="return FilePart(handle.file, handle.offset + offset - offset % 4, nbytes)",
            resembles="weights of a file whose header has an odd length",
            stages=("graph",),
        ),
    ),
    (
        "CPU",
        19,
        Mutant(
            name="small-float-saturates",
            kind="8-bit float",
            module="tinyref.codegen.decompose.small_floats",
            old="normal = where(less(normal, beyond), normal, beyond)",
            new="normal = where(less(normal, beyond), normal, beyond - 1)",
            resembles="an accelerator whose conversion to an 8-bit float saturates",
            stages=("kernel",),
        ),
    ),
]
# Each with a program of the steps that it needs; drawn ones meet these two seldom.
RARE_FAULTS = [
    (
        TWICE,
        Mutant(
            name="calls-do-not-take-turns",
            kind="threads",
            module="tinyref.tensor.jit.calls",
            old="        with self.lock:\n            if self._runner",
            new="        with threading.Lock():\n            if self._runner",
            resembles="two threads that replay one capture",
            stages=("replay",),
        ),
    ),
    (
        TWO_STATES,
        Mutant(
            name="loaded-state-is-another",
            kind="pickle",
            module="tinyref.tensor.jit.saving",
            old="buffers_behind(holders[place]._node)[part]",
            new="buffers_behind(holders[0]._node)[part]",
            resembles="a captured step that was loaded, of which two weights are one",
            stages=("replay",),
        ),
    ),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("device", "seed", "fault"), FAULTS, ids=[fault.name for *_, fault in FAULTS]
)
def test_such_programs_find_a_fault_that_others_do_not(device, seed, fault):
    judge = ProgramJudge(device)
    evaluates = device == "PYTHON"
    program = generate_surrounded(Tape(seed=seed), 3)
    with mutated(fault):
        assert not judge.verdict(program, evaluates=evaluates).agrees
        others = [generate(Tape(seed=each), 3) for each in range(20)]
        assert all(judge.verdict(each, evaluates=evaluates).agrees for each in others)
    assert judge.verdict(program, evaluates=evaluates).agrees


@pytest.mark.parametrize(
    ("steps", "fault"), RARE_FAULTS, ids=[fault.name for _, fault in RARE_FAULTS]
)
def test_these_steps_find_a_fault(steps, fault, judge):
    program = Program(tuple(steps))
    with mutated(fault):
        # What is captured by a fault that never ends it stays captured in this context alone.
        # Two threads need not meet in the first try.
        context = contextvars.copy_context()
        verdicts = (context.run(judge.verdict, program, evaluates=True) for _ in range(5))
        assert not all(verdict.agrees for verdict in verdicts)
    assert judge.verdict(program, evaluates=True).agrees


# --- refusals ------------------------------------------------------------------------------------

WRITTEN = Step("assign_number", (1,), (), (7,))
SAVED_IN_PART = "cannot be saved: only views show the memory"
GONE = "is gone, or has other memory by now"
COPIES = "cannot be saved: the function reads copies"
# What is computed by one is in the memory of what it is computed from.
COPIES_READ = [
    *(data(1, 1, 2), Step("mul_number", (1,), (2,), (1,)), data(4, 10, 20)),
    Step(
        *("function", (5,), (9,), ((7,),)),
        body=(Step("add", (5, 1), (6,)), Step("mul", (6, 2), (7,))),
    ),
    *calls(9, 4, 2, 50),
]


@pytest.mark.parametrize(
    ("steps", "refusal", "foreseen"),
    [
        ([*CAPTURED, Step("reload", (9,), (19,))], SAVED_IN_PART, False),
        ([*CAPTURED, Step("index", (1,), (3,), (((0, 1, None),),)), Step("drop", (1,)),
          Step("reload", (9,), (19,))], SAVED_IN_PART, False),
        ([data(1, 1, 2), Step("index", (1,), (3,), (((0, 1, None),),)), *CAPTURED[1:],
          Step("reload", (9,), (19,))], SAVED_IN_PART, True),
        ([*CAPTURED, WRITTEN, Step("call_twice", (9, 4, 4), (60, 61))], GONE, False),
        ([*CAPTURED, Step("clone", (1,), (2,)), WRITTEN,
          Step("call_twice", (9, 4, 4), (60, 61))], GONE, True),
        ([*CAPTURED, Step("clone", (1,), (2,)), WRITTEN,
          Step("reload", (9,), (19,))], GONE, True),
        ([*COPIES_READ, Step("reload", (9, 1), (19, 11))], COPIES, True),
        ([*CAPTURED, Step("reload", (9, 1), (19, 11))], COPIES, False),
    ],
)  # fmt: skip
def test_a_refusal_is_foreseen_where_the_steps_have_its_reason(steps, refusal, foreseen):
    assert is_foreseen(Program(tuple(steps)), len(steps) - 1, refusal) is foreseen
