"""Named faults: each shows in a small case, is blamed rightly, and disappears after its block."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.simplify import simplify
from tinyref.codegen import compile as compiler
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.optimise.moves import MOVES
from tinyref.optimise.opt import OptOp
from tinyref.uops import build
from tinyref_fuzz.blame.find import find_blame
from tinyref_fuzz.faults import FAULTS, NamedFault, faults_named, planted
from tinyref_fuzz.faults.seams import SeamError, entry, function, rule
from tinyref_fuzz.judge.judge import judge
from tinyref_fuzz.programs.blame import blame as blame_program
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_fuzz.programs.record import load_program
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel_case.files import load_record

FOLDER = Path(__file__).parent / "fault_reproducers"


@cache
def program_judge() -> ProgramJudge:
    return ProgramJudge("PYTHON")


def with_other_variables(program: TensorProgram) -> TensorProgram:
    """Rename variables, so that the nodes are new and no fact of an earlier test is known."""
    steps = [
        replace(step, values=(f"other_{step.values[0]}", *step.values[1:]))
        if step.op == "bind"
        else step
        for step in program.steps
    ]
    return program.with_steps(steps)


def blamed(fault: NamedFault) -> tuple[str, str] | None:
    """Return the stage and cause that are blamed for the case of a fault; None if it agrees."""
    file = FOLDER / f"{fault.name}.json"
    if fault.is_of_programs:
        program = with_other_variables(load_program(file).program)
        verdict = program_judge().verdict(program, thorough=True)
        blame = None if verdict.agrees else blame_program(program_judge(), program, verdict)
    else:
        case = load_record(file).case
        verdict = judge(case, fault.device, thorough=True)
        blame = None if verdict.agrees else find_blame(case, verdict, fault.device)
    return None if blame is None else (blame.stage, blame.cause)


def test_each_fault_has_a_reproducer() -> None:
    assert sorted(FAULTS) == sorted(file.stem for file in FOLDER.glob("*.json"))
    assert len(FAULTS) >= 45


@pytest.mark.long
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FAULTS)
def test_a_reproducer_fails_with_the_fault_alone_and_is_blamed(name: str) -> None:
    with planted(name) as fault:
        result = blamed(fault)
    assert result is not None, "it agrees"
    assert fault.is_blamed(*result), result
    assert blamed(fault) is None


# --- seams ---------------------------------------------------------------------------------------


def test_a_fault_is_removed_after_its_block() -> None:
    right = (compiler.lower, compiler.simplify, dict(OP_TABLE), dict(MOVES))
    for fault in FAULTS.values():
        with fault.seam.plant():
            pass
    assert (compiler.lower, compiler.simplify, dict(OP_TABLE), dict(MOVES)) == right


def test_an_error_in_the_block_removes_the_fault() -> None:
    lower = compiler.lower

    def fail() -> None:
        with planted("odd-grid-halved"):
            assert compiler.lower is not lower
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert compiler.lower is lower


def test_a_wrong_rule_fires_in_its_block_alone() -> None:
    x = build.variable("x", -5, 5, dtypes.int32)
    quotient = build.idiv(x, -1)
    right = simplify(quotient)
    with planted("div-minus-one-kept"):
        assert simplify(build.idiv(x, -1)) is x
    assert simplify(build.idiv(x, -1)) is right


@pytest.mark.parametrize(
    "make_seam",
    [
        function("tinyref.codegen.compile:gone"),
        function("tinyref.views.shape_tracker:ShapeTracker.gone"),
        function("tinyref.views.shape_tracker:Gone.index_and_valid"),
        entry("tinyref.optimise.moves:MOVES", "GONE"),
        entry("tinyref.optimise.moves:GONE", OptOp.UPCAST),
        rule("no-such-rule"),
    ],
)
def test_a_missing_seam_is_an_error(make_seam) -> None:
    with pytest.raises(SeamError, match="there is no "), make_seam(lambda x: x).plant():
        pytest.fail("it is planted")


# --- choosing and judging ------------------------------------------------------------------------


def test_faults_are_chosen_by_names_beginnings_and_kinds() -> None:
    assert [fault.name for fault in faults_named("padto-max")] == ["padto-max"]
    assert [fault.name for fault in faults_named("replay*")] == [
        "replay-keeps-old-argument",
        "replay-keeps-old-size",
    ]
    rules = faults_named("rule, padto-max")
    assert {fault.kind for fault in rules} == {"rule", "padding with another identity"}
    assert faults_named() == list(FAULTS.values())
    with pytest.raises(UserError, match=r"'padto-mox' names no fault"):
        faults_named("padto-mox")
