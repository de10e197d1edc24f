"""Regressions: every kept case says what it found, runs on every device, and would be seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.uops.evaluate import evaluate
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kept import KeptCase, read_kept
from tinyref_spec.kernel import regressions

KEPT = regressions.kept_cases()
ROWS = {row.id: row for row in regressions.rows()}
each_case = pytest.mark.parametrize("name", KEPT)


def test_there_are_regressions_and_each_has_a_row():
    assert len(KEPT) >= 8
    assert set(ROWS) == {f"kernel.regression.{name}" for name in KEPT}
    assert set(ROWS) <= {row.id for row in catalogue.all_rows()}


@each_case
def test_each_runs_plain_and_with_its_lists_in_the_quick_profile(name):
    cases = ROWS[f"kernel.regression.{name}"].cases(Profile.QUICK)
    assert len(cases) == 1 + len({opts for opts in KEPT[name].opts if opts})
    assert ROWS[f"kernel.regression.{name}"].sentence == KEPT[name].note


@each_case
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_each_passes(name, device):
    tested = DeviceUnderTest(device)
    for case in ROWS[f"kernel.regression.{name}"].cases(Profile.FULL):
        found = case.run(tested)
        assert found.passed, (case.id, found.message)
        assert found.compared >= 1


@each_case
def test_a_kernel_that_writes_nothing_does_not_pass(name):
    kept = KEPT[name]
    written = evaluate(kept.ast, dict(enumerate(kept.buffers)), kept.bindings)
    assert any(wanted.tobytes() != kept.buffers[slot].tobytes() for slot, wanted in written.items())


@each_case
def test_the_files_are_small(name):
    assert (regressions.FOLDER / f"{name}.json").stat().st_size < 16_000


class Wrong(DeviceUnderTest):
    """A device on which the last bit of every result is another."""

    def run(self, *given, **named):
        results = [result.copy() for result in super().run(*given, **named)]
        for result in results:
            result.view(np.uint8)[-1:] ^= 1
        return results


def test_a_wrong_result_fails():
    for case in ROWS["kernel.regression.padto-bits-of-negative-zero"].cases(Profile.FULL):
        assert not case.run(Wrong("PYTHON")).passed


def test_the_sign_of_zero_counts_on_edge_data():
    class Negative(DeviceUnderTest):
        def run(self, *given, **named):
            return [-result for result in super().run(*given, **named)]

    kept = KEPT["sum-of-one-negative-zero"]
    zeros = dataclasses.replace(kept, buffers=(kept.buffers[0], np.zeros(2, np.float32)))
    assert regressions.run(zeros, (), "id", DeviceUnderTest("PYTHON")).passed
    assert not regressions.run(zeros, (), "id", Negative("PYTHON")).passed
    exact = dataclasses.replace(zeros, mode="exact")
    assert regressions.run(exact, (), "id", Negative("PYTHON")).passed


def test_a_list_that_is_refused_leaves_the_plain_kernel():
    kept = KEPT["group-of-a-sum-in-place"]
    assert not Device["CPU"].capabilities.has_groups
    assert regressions.run(kept, kept.opts[0], "id", DeviceUnderTest("CPU")).passed


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"note": " "}, "note: expected a line on what it found"),
        ({"note": "a\nb."}, "note: expected a line on what it found"),
        ({"note": "x" * 160 + "."}, "note: expected a line on what it found, up to 160 characters"),
        ({"mode": "float"}, "mode: expected one of exact, edge, got float"),
        ({"buffers": (np.zeros(1),) * 5}, "buffers: expected those that the kernel uses"),
    ],
    ids=range(5),
)
def test_what_cannot_be_a_regression(change: dict, problem: str):
    kept: KeptCase = dataclasses.replace(KEPT["sum-of-one-negative-zero"], **change)
    assert problem in regressions.problem_of(kept)


def test_a_file_of_another_version_is_refused(tmp_path, monkeypatch):
    (tmp_path / "old.json").write_text('{"schema": "tinyref.case", "version": 0}')
    monkeypatch.setattr(regressions, "FOLDER", tmp_path)
    with pytest.raises(UserError, match=r"old\.json: case, version: expected 1, got 0"):
        regressions.kept_cases.__wrapped__()
    with pytest.raises(UserError, match="no such file"):
        read_kept(tmp_path / "none.json")
