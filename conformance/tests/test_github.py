"""What GitHub Actions shows of a run: annotations by cause, and the summary of the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports_of import failing, report_of

from tinyref.errors import UserError
from tinyref_conformance.reports.github import workflow_commands, write_summary
from tinyref_conformance.statuses import Status


def test_a_good_run_is_a_notice() -> None:
    text = workflow_commands(report_of(("isa.add.int32.0", Status.PASS)))
    assert text == "::notice title=verdict::FAKE conforms to the quick profile\n"


def test_each_cause_is_an_error_with_the_command_that_shows_it() -> None:
    found = report_of(
        failing("isa.mul.int32.0", "50%: one,\ntwo"),
        failing("isa.mul.int32.1", "50%: one,\ntwo"),
        problems=("the disk was full",),
        reductions=["only shard 1/2"],
    )
    lines = workflow_commands(found).splitlines()
    assert lines[0] == "::error title=the run::the disk was full"
    assert lines[1].startswith("::error title=every operation%3A isa.mul.int32::2 cases: ")
    assert lines[1].endswith("%0Atinyref conform --query isa.mul.int32.0")
    assert "%25" in lines[1]
    assert lines[2] == "::notice title=not a conformance run::only shard 1/2"
    assert lines[3].startswith("::error title=verdict::FAKE does not conform")
    assert len(lines) == 4


def test_more_causes_than_github_shows_are_counted() -> None:
    words = "abcdefghijklmnop"
    found = report_of(*(failing(f"isa.{word}.int32.0", f"wrong {word * 9}") for word in words))
    lines = workflow_commands(found).splitlines()
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == 11
    assert errors[9] == "::error title=more failures::7 more causes are in the summary of the job"


def test_the_summary_is_appended_where_the_job_says(tmp_path: Path) -> None:
    report = report_of(("isa.add.int32.0", Status.PASS))
    file = tmp_path / "summary"
    file.write_text("before\n")
    assert write_summary(report, {"GITHUB_STEP_SUMMARY": str(file)}) == file
    assert file.read_text().startswith("before\n# FAKE conforms to the quick profile\n")
    assert write_summary(report, {}) is None
    with pytest.raises(UserError, match="GITHUB_STEP_SUMMARY: cannot write"):
        write_summary(report, {"GITHUB_STEP_SUMMARY": str(tmp_path)})


@pytest.mark.long
def test_the_command_prints_annotations_instead_of_the_ladder(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinyref.cli.entry import run

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    words = ["conform", "--device", "PYTHON", "--query", "memory.copy", "--jobs", "1"]
    assert run([*words, "--report", str(tmp_path / "r"), "--format", "github"]) == 0
    shown = capsys.readouterr().out
    assert "::notice title=not a conformance run::only the cases of --query memory.copy" in shown
    assert "allocate and copy" not in shown
    assert "# PYTHON" in (tmp_path / "summary").read_text()
    assert run([*words, "--format", "gitlab"]) == 2
    assert "format: got 'gitlab', accepted are text, github" in capsys.readouterr().err
