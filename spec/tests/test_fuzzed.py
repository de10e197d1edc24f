"""Fuzzed kernels and programs of the suite: what they owe is right, and what is wrong is seen."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from wrong_device import Wrong

from tinyref.dtype import dtypes
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.regressions import fuzzed
from tinyref_spec.system import fuzzed as programs

PYTHON = DeviceUnderTest("PYTHON")
KERNELS = [f"{name}:{at}" for name, alike in fuzzed().items() for at in range(len(alike))]
PROGRAMS = programs.programs()
CASES = catalogue.cases(Profile.QUICK, "kernel.fuzzed,system.fuzzed")


def test_there_are_many_and_each_has_its_cases():
    assert len(KERNELS) >= 100
    assert len(PROGRAMS) >= 40
    assert {each.id for each in CASES} == {
        *(
            f"kernel.fuzzed.{it}.{how}"
            for it in KERNELS
            for how in ("plain", "opts0", "heuristics")
        ),
        *(f"system.fuzzed.captured:{n}" for n in range(sum(it.captures for it in PROGRAMS))),
        *(f"system.fuzzed.eager:{n}" for n in range(sum(not it.captures for it in PROGRAMS))),
    }


@pytest.mark.sampled(10)
@pytest.mark.parametrize("case", [case for case in CASES if case.id.endswith(".plain")], ids=str)
def test_a_wrong_result_fails(case: Case) -> None:
    assert case.run(PYTHON).passed
    found = case.run(Wrong("PYTHON"))
    assert not found.passed
    assert found.details is not None


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
