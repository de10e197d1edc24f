"""The hash of a report: what was edited is refused, whichever member it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reports_of import failing, report_of
from test_foreign_files import changed, places

from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance import report as reports
from tinyref_conformance.reports import as_json
from tinyref_conformance.statuses import Status

REPORT = report_of(
    ("isa.add.int32.0", Status.PASS), failing("isa.mul.float32.0"), identity={"compiler": "cc 1"}
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text(as_json(REPORT), encoding="utf-8")
    return path


def data_of(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def edit_of(value: Any) -> Any:
    """A value of the same type that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value} " if isinstance(value, str) else value


def test_what_was_not_edited_is_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reports.load_unedited(file).verdict == REPORT.verdict
    assert run(["conform", "verify", str(file)]) == 0
    assert data_of(file)["certificate"]["report_hash"] in capsys.readouterr().out


def test_the_order_of_members_and_the_space_between_do_not_count(file: Path) -> None:
    file.write_text(json.dumps(data_of(file), sort_keys=True, indent=3), encoding="utf-8")
    assert reports.load_unedited(file).verdict == REPORT.verdict


@pytest.mark.parametrize(
    "member",
    ['"verdict": "CONFORMS"', '"exit_code": 1', '"certificate": {}', '"cases": [{"status": "x"}]'],
)
def test_a_member_that_is_there_twice_is_noticed(
    file: Path, member: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another reader takes the first, and Python the last, which alone is hashed."""
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{{{member},{text[1:]}", encoding="utf-8")
    assert run(["conform", "verify", str(file)]) == 2
    name = member.partition(":")[0].strip('"')
    assert f"the member '{name}' is there twice" in capsys.readouterr().err


@pytest.mark.long
def test_every_member_that_is_edited_or_taken_out_is_noticed(tmp_path: Path) -> None:
    written = json.loads(as_json(REPORT))
    file = tmp_path / "report.json"
    edits = 0
    for path in places(written):
        value = written
        for key in path:
            value = value[key]
        variants = [changed(written, path, None, takes_out=True)]
        if edit_of(value) != value:
            variants.append(changed(written, path, edit_of(value)))
        for variant in variants:
            file.write_text(json.dumps(variant), encoding="utf-8")
            with pytest.raises(UserError):
                reports.load_unedited(file)
            edits += 1
    assert edits > 150


def test_what_is_added_is_noticed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(json.dumps({**data_of(file), "note": "ours"}), encoding="utf-8")
    assert run(["conform", "verify", str(file)]) == 1
    assert "was edited: its report_hash is" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["verdict", "exit_code", "counts", "ladder"])
def test_a_new_hash_does_not_hide_what_no_case_says(file: Path, name: str) -> None:
    data = {**data_of(file), name: report_of(("isa.add.int32.0", Status.PASS)).to_json()[name]}
    data["certificate"]["report_hash"] = reports.hash_of(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(reports.EditedError, match=f"{name} does not follow from its cases"):
        reports.load_unedited(file)


def test_a_report_without_a_hash_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(file)
    del data["certificate"]["report_hash"]
    file.write_text(json.dumps(data), encoding="utf-8")
    assert run(["conform", "verify", str(file)]) == 2
    assert "has no report_hash" in capsys.readouterr().err
