"""A run with a file of expectations: what it covers, what is stale, what is not run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref_conformance.compare import compare
from tinyref_conformance.expectations import Phase
from tinyref_conformance.expectations_file import load
from tinyref_conformance.ladder import RungState
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Profile, Rung
from tinyref_spec.catalogue import all_rows

WHY = 'reason = "known"\nlink = "https://example.org/1"\n'


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def file(*tables: str) -> Path:
        path = tmp_path / "fake.toml"
        path.write_text("\n".join(['schema = 1\ndevice = "FAKE"\n', *tables]))
        return path

    return file


def expected(query: str, phase: str = "accuracy") -> str:
    return f'[[expected]]\nquery = "{query}"\nphase = "{phase}"\n{WHY}'


def skip(query: str) -> str:
    return f'[[skip]]\nquery = "{query}"\n{WHY}'


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (expected("isa.fials.int32"), "isa.fials.int32"),
        (expected("isa.*.int32, isa.gone"), "isa.gone"),
        (skip("isa.hangs"), "isa.hangs"),
    ],
)
def test_a_query_that_names_no_case_is_an_error(
    fake: Any, file: Callable[..., Path], table: str, part: str
) -> None:
    with pytest.raises(UserError, match=f"no case of the suite matches '{part}'"):
        fake.scenario("good", "fails").run(expectations=file(table))
    assert fake.ran() == []


@pytest.mark.long
def test_an_entry_for_other_cases_of_the_suite_is_none(
    fake: Any, file: Callable[..., Path]
) -> None:
    table = expected("isa.fails.int32.special:1")
    fake.scenario("good", "fails")
    assert fake.run(expectations=file(table), query="isa.add").report.exit_code == 0


@pytest.mark.long
def test_a_part_of_a_query_that_names_no_case_is_an_error(fake: Any) -> None:
    with pytest.raises(UserError, match=r"no case of profile quick matches 'isa.gone'"):
        fake.scenario("good").run(query="isa.add, isa.gone")


@pytest.mark.long
def test_an_expectation_on_a_set(fake: Any, file: Callable[..., Path], case_of: Any) -> None:
    """What fails in it is expected, and only its cases that pass are reported as stale."""
    done = fake.scenario("fails", "flaky", "good").run(expectations=file(expected("isa.f*.int32")))
    statuses = {case.id: case.status for case in done.report.cases}
    assert statuses["isa.fails.int32.special:1"] is Status.EXPECTED_FAIL
    assert statuses["isa.flaky.int32.special:1"] is Status.EXPECTED_FAIL
    stale = {name for name, status in statuses.items() if status is Status.UNEXPECTED_PASS}
    assert stale == {f"isa.{row}.int32.special:{i}" for row in ("fails", "flaky") for i in (0, 2)}
    said = case_of(done, "isa.fails.int32.special:0").message
    assert said == "the entry for 'isa.f*.int32' is stale here: known (https://example.org/1)"
    assert done.report.problems == []


@pytest.mark.long
def test_what_is_on_the_list_of_skips_is_not_run(
    fake: Any, file: Callable[..., Path], case_of: Any
) -> None:
    before = fake.scenario("hangs", "good").run(query="isa.hangs.int32.special:0,isa.add").report
    path = file(skip("isa.h*.int32.special:1"))
    done = fake.run(expectations=path)
    report = done.report
    assert "isa.hangs.int32.special:1" not in fake.ran()
    hanging = case_of(done, "isa.hangs.int32.special:1")
    assert hanging.status is Status.NOT_RUN
    assert hanging.message == "on the list of skips: known (https://example.org/1)"
    assert report.counts[Status.PASS] == 9
    # Nothing failed, and yet it shows no conformance.
    assert report.exit_code == 0
    assert not report.is_conformance_run
    assert report.reductions == ["not run, as on the list of skips: 1 of the cases"]
    assert "conforms" not in report.verdict
    assert report.rungs[Rung.ALU].state is RungState.INCOMPLETE
    assert compare(before, report).changes["regressions"] == []
    for name, words in (
        ("report.html", "not run, as on the list of skips: 1 of the cases"),
        ("summary.md", "not run, as on the list of skips: 1 of the cases"),
        ("junit.xml", "NotRun: on the list of skips"),
        ("badge.svg", "not a conformance run"),
    ):
        assert words in (fake.folder / name).read_text()
    data = json.loads((fake.folder / "report.json").read_text())
    assert data["conformance_run"] is False


@pytest.mark.long
def test_a_case_that_was_measured_may_come_on_the_list(
    fake: Any, file: Callable[..., Path], case_of: Any
) -> None:
    fake.scenario("fails", "above").run()
    path = file(skip("isa.fails.int32.special:1"))
    done = fake.run(expectations=path, resume=True)
    assert case_of(done, "isa.fails.int32.special:1").status is Status.NOT_RUN
    assert case_of(done, "tensor.sum.float32.special:0").status is Status.PASS
    assert done.report.exit_code == 0


@pytest.mark.long
def test_a_case_that_is_no_longer_run_is_a_step_back(fake: Any, file: Callable[..., Path]) -> None:
    before = fake.scenario("good").run().report
    after = fake.run(expectations=file(skip("isa.mul"))).report
    assert len(compare(before, after).changes["regressions"]) == 2


@pytest.mark.long
def test_an_update_drops_what_names_nothing_and_keeps_skips_and_comments(
    fake: Any, file: Callable[..., Path]
) -> None:
    path = file("# ours", skip("isa.hangs.int32.special:1"), expected("isa.gone"))
    new = {"update": True, "reason": "new", "link": "https://example.org/2"}
    fake.scenario("fails", "hangs").run(expectations=path, **new)
    text = path.read_text()
    assert "# ours" in text
    assert "isa.gone" not in text
    assert "isa.fails.int32.special:1" in text
    assert fake.run(expectations=path).report.exit_code == 0


@pytest.mark.long
def test_the_file_of_the_documentation_is_one(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    found = load(path, "MINE")
    assert [entry.phase for entry in found.entries] == [Phase.ACCURACY]
    assert found.unmatched(case.id for row in all_rows() for case in row.cases(Profile.FULL)) == []
