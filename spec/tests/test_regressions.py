"""Regressions and fuzzed kernels: each has its cases, and a wrong result of it is seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tinyref.errors import UserError
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel.regressions import fuzzed
from tinyref_spec.kernel_case import CaseRecord, Mode
from tinyref_spec.kernel_case.files import load_record

RECORDS = regressions.records()
ROWS = {row.id: row for row in regressions.rows()}


class Wrong(DeviceUnderTest):
    """A device on which the last bit of every result is another."""

    def run(self, *given, **named):
        results = [result.copy() for result in super().run(*given, **named)]
        for result in results:
            result.view(np.uint8)[-1:] ^= 1
        return results


def test_there_are_regressions_and_each_has_a_row():
    assert len(RECORDS) >= 8
    regressions = {row for row in ROWS if row.startswith("kernel.regression.")}
    assert regressions == {f"kernel.regression.{name}" for name in RECORDS}
    assert set(ROWS) <= {row.id for row in catalogue.all_rows()}


def test_a_wrong_result_fails():
    for case in ROWS["kernel.regression.padto-bits-of-negative-zero"].cases(Profile.FULL):
        assert not case.run(Wrong("PYTHON")).passed


@pytest.mark.parametrize(
    ("note", "change", "problem"),
    [
        (" ", {}, "note: expected a line on what it found"),
        ("a\nb.", {}, "note: expected a line on what it found"),
        ("x" * 160 + ".", {}, "note: expected a line on what it found, up to 160 characters"),
        ("", {"mode": Mode.FLOAT}, "mode: expected one of exact, edge, got float"),
        ("", {"buffers": (np.zeros(1),) * 5}, "buffers: expected those that the kernel uses"),
    ],
    ids=range(5),
)
def test_what_cannot_be_a_regression(note: str, change: dict, problem: str):
    record = RECORDS["sum-of-one-negative-zero"]
    record = CaseRecord(dataclasses.replace(record.case, **change), note or record.note)
    assert problem in regressions.problem_of(record)


def test_a_file_of_an_unknown_version_is_refused(tmp_path, monkeypatch):
    (tmp_path / "old.json").write_text('{"schema": "tinyref.case", "version": 99}')
    monkeypatch.setattr(regressions, "FOLDER", tmp_path)
    with pytest.raises(UserError, match=r"old\.json: case, version: expected 1"):
        regressions.records.__wrapped__()
    with pytest.raises(UserError, match="no such file"):
        load_record(tmp_path / "none.json")


# Fuzzed kernels

PYTHON = DeviceUnderTest("PYTHON")
KERNELS = [f"{name}:{at}" for name, alike in fuzzed().items() for at in range(len(alike))]
CASES = catalogue.cases(Profile.QUICK, "kernel.fuzzed")
PLAIN = [case for case in CASES if case.id.endswith(".plain")]


def test_there_are_many_and_each_has_its_cases():
    assert len(KERNELS) >= 100
    ways = ("plain", "opts0", "heuristics")
    assert {case.id for case in CASES} == {
        f"kernel.fuzzed.{kernel}.{way}" for kernel in KERNELS for way in ways
    }


def test_the_types_of_a_text_are_those_of_its_kernel():
    for policy, documents in fuzzed().items():
        for number, document in enumerate(documents):
            ast = regressions.fuzzed_case(policy, number).ast
            assert regressions.dtypes_of_text(document["ast"]) == regressions.dtypes_of(ast)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.id)
def test_a_wrong_result_of_a_fuzzed_kernel_fails(case: Case) -> None:
    assert case.run(PYTHON).passed
    measurement = case.run(Wrong("PYTHON"))
    assert not measurement.passed
    assert measurement.details is not None
