"""Regressions: every kept case says what it found, runs on every device, and would be seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from wrong_device import Wrong

from tinyref.errors import UserError
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import CaseRecord, Mode
from tinyref_spec.kernel_case.files import load_record

RECORDS = regressions.records()
ROWS = {row.id: row for row in regressions.rows()}


def test_there_are_regressions_and_each_has_a_row():
    assert len(RECORDS) >= 8
    kept = {row for row in ROWS if row.startswith("kernel.regression.")}
    assert kept == {f"kernel.regression.{name}" for name in RECORDS}
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
