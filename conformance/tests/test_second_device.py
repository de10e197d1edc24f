"""Runs that name a second device: rows, report, reproducers and journal have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyref.errors import UserError
from tinyref_conformance.conform import Request, conform, resume_command
from tinyref_conformance.report import load
from tinyref_conformance.settings import Settings
from tinyref_conformance.statuses import Status
from tinyref_spec.reproducer import case_script

QUERY = "system.transfer.view.uint8"
FAULTY = "tinyref_conformance.faulty:NeighbourTransfer"


def request(folder: Path, device: str, second: str, resume: bool = False) -> Request:
    settings = Settings(device, folder, second=second, jobs=1, resume=resume)
    return Request(settings, query=QUERY)


@pytest.mark.long
def test_a_run_with_a_second_device_says_so_and_goes_on_with_it_alone(tmp_path: Path) -> None:
    asked = request(tmp_path, "PYTHON", "CPU")
    report = conform(asked).report
    assert report.counts[Status.PASS] == 7
    assert report.verdict.startswith("PYTHON with CPU: all that was run is as expected")
    assert report.certificate["second"] == "CPU"
    assert "llvmlite" in report.certificate["second_versions"]
    assert "PYTHON with CPU" in (tmp_path / "report.html").read_text()
    assert load(tmp_path / "report.json").device == "PYTHON with CPU"
    assert "conform --device PYTHON --second CPU --profile quick" in resume_command(asked)
    with pytest.raises(UserError, match=r"second device: CPU -> CPU:1"):
        conform(request(tmp_path, "PYTHON", "CPU:1", resume=True))
    assert conform(request(tmp_path, "PYTHON", "CPU", resume=True)).report.exit_code == 0


@pytest.mark.long
def test_a_failure_is_run_again_with_both(tmp_path: Path) -> None:
    report = conform(request(tmp_path, FAULTY, f"{FAULTY}:3")).report
    failing = [case for case in report.cases if case.status is Status.FAIL]
    assert len(failing) == 7
    assert f"from {FAULTY} to {FAULTY}:3: the target: element" in failing[0].message
    assert f"--device {FAULTY} --second {FAULTY}:3 --profile" in failing[0].repro
    assert failing[0].details is not None
    assert f"second='{FAULTY}:3'" in failing[0].details["script"]


@pytest.mark.long
def test_by_the_host_the_same_fault_does_not_show(tmp_path: Path) -> None:
    assert conform(request(tmp_path, FAULTY, "CPU")).report.exit_code == 0


def test_a_second_device_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no\.such:Device: its package does not import"):
        conform(request(tmp_path, "PYTHON", "no.such:Device"))


def test_without_one_scripts_take_the_next_of_its_kind() -> None:
    assert "second" not in case_script("memory.copy.uint8.size:3", "PYTHON", "quick")
