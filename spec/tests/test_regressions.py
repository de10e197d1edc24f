"""Regressions: every kept case says what it found, runs on every device, and would be seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from wrong_device import Wrong

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ViewArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest, Runnable
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import Case, CaseRecord, Equivalent, Mode
from tinyref_spec.kernel_case.files import load_record

RECORDS = regressions.records()
ROWS = {row.id: row for row in regressions.rows()}
each_case = pytest.mark.parametrize("name", RECORDS)


def test_there_are_regressions_and_each_has_a_row():
    assert len(RECORDS) >= 8
    assert set(ROWS) == {f"kernel.regression.{name}" for name in RECORDS}
    assert set(ROWS) <= {row.id for row in catalogue.all_rows()}


def test_a_wrong_result_fails():
    for case in ROWS["kernel.regression.padto-bits-of-negative-zero"].cases(Profile.FULL):
        assert not case.run(Wrong("PYTHON")).passed


def sum_of(operation: Callable[[UOp, UOp], UOp]) -> UOp:
    """A kernel that stores what `operation` makes of each element and itself."""
    slots = [build.define_global(slot, dtypes.int32, 64) for slot in (0, 1)]
    whole = ViewArg(ShapeTracker.from_shape((64,)))
    to, source = (UOp(Ops.VIEW, slot.dtype, (slot,), whole) for slot in slots)
    loaded = build.load(source)
    return build.sink(build.store(to, operation(loaded, loaded)))


ADDED = sum_of(build.add)
DOUBLED = sum_of(lambda x, _: build.mul(x, 2))
TRIPLED = sum_of(lambda x, _: build.mul(x, 3))
WITHOUT_LISTS = Case(ADDED, (np.full(64, 90, np.int32), np.arange(64, dtype=np.int32)))


def with_equivalent(*trail: tuple[str, UOp]) -> Case:
    return dataclasses.replace(WITHOUT_LISTS, equivalent=Equivalent(ADDED, trail))


WITH_EQUIVALENT = with_equivalent(("first", TRIPLED), ("second", DOUBLED))


def failing_cases(case: Case, tested: DeviceUnderTest, monkeypatch) -> list[str]:
    """What fails of the row of a case, by what each of its cases runs."""
    monkeypatch.setattr(regressions, "records", lambda: {"new": CaseRecord(case, "It fails.")})
    (row,) = regressions.rows()
    runs = dict(row.specials)
    cases = {case.id.removeprefix(row.id): case for case in row.cases(Profile.QUICK)}
    assert list(cases) == list(runs)
    return [runs[name] for name, case in cases.items() if not case.run(tested).passed]


class WrongOn(DeviceUnderTest):
    """A device that gives another value for some of the kernels."""

    def __init__(self, is_wrong: Callable[[Runnable], bool]) -> None:
        super().__init__("CPU")
        self.is_wrong = is_wrong

    def run(self, kernel: Runnable, *given, **named):
        results = super().run(kernel, *given, **named)
        return [result + 1 for result in results] if self.is_wrong(kernel) else results


def test_the_last_equivalent_kernel_runs(monkeypatch):
    # The first one is of a transformation that was wrong: only where it all ends is run.
    assert failing_cases(WITH_EQUIVALENT, DeviceUnderTest("CPU"), monkeypatch) == []
    tested = WrongOn(lambda kernel: kernel is DOUBLED)
    assert failing_cases(WITH_EQUIVALENT, tested, monkeypatch) == ["equivalent: first second"]


def test_an_equivalent_kernel_that_computes_something_else_fails(monkeypatch):
    failing = failing_cases(
        with_equivalent(("first", TRIPLED)), DeviceUnderTest("CPU"), monkeypatch
    )
    assert failing == ["equivalent: first"]


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
    with pytest.raises(UserError, match=r"old\.json: case, version: expected a version from 0"):
        regressions.records.__wrapped__()
    with pytest.raises(UserError, match="no such file"):
        load_record(tmp_path / "none.json")
