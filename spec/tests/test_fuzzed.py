"""Fuzzed kernels and programs of the suite: what they owe is right, and what is wrong is seen."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from wrong_device import Wrong

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest, slots_of
from tinyref_spec.kernel import fuzzed as kernels
from tinyref_spec.system import fuzzed as programs

PYTHON = DeviceUnderTest("PYTHON")
KERNELS, PROGRAMS = kernels.kernels(), programs.programs()
each_kernel = pytest.mark.parametrize("fuzzed", KERNELS, ids=lambda it: f"{it.policy}-{it.number}")
CASES = catalogue.cases(Profile.QUICK, "kernel.fuzzed,system.fuzzed")


def test_there_are_many_and_each_has_its_cases():
    assert len(KERNELS) >= 100
    assert len(PROGRAMS) >= 40
    assert {each.id for each in CASES} == {
        *(f"kernel.fuzzed.{it.policy}:{it.number}.plain" for it in KERNELS),
        *(f"kernel.fuzzed.{it.policy}:{it.number}.heuristics" for it in KERNELS),
        *(f"kernel.fuzzed.{it.policy}:{it.number}.opts0" for it in KERNELS if it.record["opts"]),
        *(f"system.fuzzed.captured:{n}" for n in range(sum(it.captures for it in PROGRAMS))),
        *(f"system.fuzzed.eager:{n}" for n in range(sum(not it.captures for it in PROGRAMS))),
    }


@pytest.mark.table
@each_kernel
def test_what_a_kernel_owes_is_what_it_computes(fuzzed: kernels.Fuzzed):
    """By the evaluator, which most of the file was written by: it says what it said then."""
    case = fuzzed.case
    written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    slots = [slot.number for slot in slots_of(case.ast) if slot.is_written]
    for slot, owed in zip(slots, fuzzed.owed, strict=True):
        found = written.get(slot, case.buffers[slot])
        np.testing.assert_array_equal(found.astype(owed.dtype), owed)
        assert found.dtype == owed.dtype


@pytest.mark.table
@each_kernel
def test_a_kernel_that_writes_nothing_does_not_pass(fuzzed: kernels.Fuzzed):
    written = [slot.number for slot in slots_of(fuzzed.case.ast) if slot.is_written]
    before = [fuzzed.case.buffers[slot] for slot in written]
    assert any(b.tobytes() != o.tobytes() for b, o in zip(before, fuzzed.owed, strict=True))


@pytest.mark.sampled(10)
@each_kernel
def test_a_wrong_result_fails(fuzzed: kernels.Fuzzed):
    assert kernels.run_plain(fuzzed, "id", PYTHON).passed
    found = kernels.run_plain(fuzzed, "id", Wrong("PYTHON"))
    assert not found.passed
    assert found.details is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "is no JSON"),
        ("{}", "list: expected a list"),
        ("[[]]", "item 0: expected an object"),
        ('[{"policy": "small"}]', "item 0: expected a member 'case', got none"),
    ],
)
def test_a_broken_file_is_reported(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "kernels.json"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        kernels.kernels(file)
    assert str(caught.value).startswith(f"{file}: {problem}")


# --- programs -------------------------------------------------------------------------------------


def program(text: str, *reads: tuple[np.ndarray, float]) -> programs.Fuzzed:
    wanted = tuple(programs.Read(values, bound) for values, bound in reads)
    return programs.Fuzzed(text, wanted, (dtypes.int32,))


DOUBLED = "x = Tensor(np.array([1, 2], 'int32'), device='DEVICE')\ncheck(x + x)"


@pytest.mark.parametrize(
    ("values", "bound", "problem"),
    [
        (np.array([2, 4], np.int32), 0.0, ""),
        (np.array([2, 5], np.int32), 0.0, "read 0: element 1 of 2 is 4 instead of 5"),
        (np.array([2, 5], np.int32), 1.0, ""),
        (np.array([2, 6], np.int32), 1.0, "read 0: element 1 of 2 is 4 instead of 6"),
        (np.array([[2, 4]], np.int32), 0.0, "read 0: shape (2,) instead of (1, 2)"),
        (np.array([2, 4], np.int64), 0.0, "read 0: int32 instead of int64"),
    ],
)
def test_what_a_program_reads_is_compared(values: np.ndarray, bound: float, problem: str):
    found = programs.run(program(DOUBLED, (values, bound)), "id", PYTHON)
    assert (found.passed, found.message) == (not problem, problem)


def exit_code(script: str, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "argv", ["script.py", "--in-this-process"])
    with pytest.raises(SystemExit) as ended:
        exec(compile(script, "<script>", "exec"), {})
    return ended.value.code


def test_a_failure_has_a_script_that_fails_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = program(DOUBLED, (np.array([2, 5], np.int32), 0.0))
    found = programs.run(wrong, "id", PYTHON)
    assert found.details is not None
    assert exit_code(found.details.script, monkeypatch) == 1
    assert capsys.readouterr().out.startswith("wrong: element 1: expected 5 ")
