"""Regressions: every kept case says what it found, runs on every device, and would be seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from wrong_device import Wrong

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import Case, CaseRecord, Equivalent, Mode
from tinyref_spec.kernel_case.files import load_record
from tinyref_spec.kernels.notation import kernel_of, load

RECORDS = regressions.records()
ROWS = {row.id: row for row in regressions.rows()}


def test_there_are_regressions_and_each_has_a_row():
    assert len(RECORDS) >= 8
    assert set(ROWS) == {f"kernel.regression.{name}" for name in RECORDS}
    assert set(ROWS) <= {row.id for row in catalogue.all_rows()}


def test_a_wrong_result_fails():
    for case in ROWS["kernel.regression.padto-bits-of-negative-zero"].cases(Profile.FULL):
        assert not case.run(Wrong("PYTHON")).passed


X = load(1, dtypes.int32, (64,))
ADDED, DOUBLED, TRIPLED = (
    kernel_of(value, 64) for value in (build.add(X, X), build.mul(X, 2), build.mul(X, 3))
)


class WrongDoubling(DeviceUnderTest):
    """A device that computes one of the kernels wrongly."""

    def run(self, kernel, *args, **named):
        results = super().run(kernel, *args, **named)
        return [result + 1 for result in results] if kernel is DOUBLED else results


@pytest.mark.parametrize(
    ("device", "trail", "problems"),
    [
        # The first one is of a transformation that was wrong: only where it all ends is run.
        (DeviceUnderTest("CPU"), (("first", TRIPLED), ("second", DOUBLED)), []),
        (
            WrongDoubling("CPU"),
            (("first", TRIPLED), ("second", DOUBLED)),
            ["equivalent: first second"],
        ),
        (DeviceUnderTest("CPU"), (("first", TRIPLED),), ["equivalent: first"]),
    ],
)
def test_the_last_equivalent_kernel_has_to_compute_the_same(device, trail, problems, monkeypatch):
    buffers = (np.full(64, 90, np.int32), np.arange(64, dtype=np.int32))
    case = Case(ADDED, buffers, equivalent=Equivalent(ADDED, trail))
    monkeypatch.setattr(regressions, "records", lambda: {"new": CaseRecord(case, "It fails.")})
    (row,) = regressions.rows()
    runs = dict(row.specials)
    cases = {case.id.removeprefix(row.id): case for case in row.cases(Profile.QUICK)}
    assert [runs[name] for name, case in cases.items() if not case.run(device).passed] == problems


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
