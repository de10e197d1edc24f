"""Shards joined to one run; a shard of another run is refused, with what differs."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import fake_catalogue
import pytest
from reports_of import report_of

from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance.merge import load_shards, merge
from tinyref_conformance.plan import PlannedRow, Shard, shard_of
from tinyref_conformance.report import Report, load_unedited
from tinyref_conformance.reports import write_all
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Profile, Rung

IDENTITY = {"tinyref": "0.1.0 ab", "compiler": "cc 1", "flag NOOPT": "1"}


def shard(number: int, *ids: str, status: Status = Status.PASS, **changes: Any) -> Report:
    """Return a shard of a run of three cases in three shards."""
    facts: dict[str, Any] = {
        "shard": f"{number}/3",
        "reductions": [f"only shard {number}/3"],
        "cases_planned": len(ids),
        "identity": IDENTITY,
        "seconds": 2.0,
        "started": f"2026-01-01T00:00:0{number}+00:00",
        "report_hash": f"{number}" * 64,
        **changes,
    }
    rung = facts.pop("rung", Rung.ALU)
    return report_of(*((name, status) for name in ids), rung=rung, **facts)


def named(*reports: Report) -> list[tuple[str, Report]]:
    return [(f"{number}.json", report) for number, report in enumerate(reports, 1)]


FIRST, SECOND, THIRD = shard(1, "isa.a.0"), shard(2, "isa.b.0"), shard(3, "isa.c.0")


def test_what_reduced_a_shard_or_went_wrong_there_is_still_said() -> None:
    short = shard(2, "isa.b.0", reductions=["only shard 2/3", "TINYREF_NOOPT=1 changes numbers"])
    short.problems.append("the disk was full")
    merged = merge(named(FIRST, short, THIRD))
    assert merged.reductions == ["TINYREF_NOOPT=1 changes numbers"]
    assert merged.problems == ["shard 2/3: the disk was full"]
    assert merged.exit_code == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"device": "OTHER"}, "device: FAKE -> OTHER"),
        ({"second": "CPU"}, r"other device: \(none\) -> CPU"),
        ({"query": "isa"}, r"query: \* -> isa"),
        ({"suite_hash": "cd"}, "tables of the suite: abab.* -> cd"),
        ({"cases_asked": 4}, "number of cases: 3 -> 4"),
        ({"device_versions": {"driver": "2"}}, "versions of the device: .*1.0.*'2'"),
        ({"compiler": "cc 2"}, r"compiler: \(none\) -> cc 2"),
        ({"flags": {"NOOPT": 1}}, r"flags: \(none\) -> {'NOOPT': 1}"),
        ({"identity": {**IDENTITY, "tinyref": "0.1.0 cd"}}, "tinyref: 0.1.0 ab -> 0.1.0 cd"),
        ({"identity": {}}, "does not identify its device"),
        ({"shard": None}, "is of no shard"),
        ({"shard": "2/4"}, "shards of 3 and of 4 are not of one run"),
        ({"shard": "1/3"}, "shard 1/3 appears twice: 1.json, 2.json"),
        ({"shard": "9"}, "shard: got '9'"),
    ],
)
def test_a_shard_of_another_run_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        merge(named(FIRST, shard(2, "isa.b.0", **changes), THIRD))


def test_shards_that_are_missing_or_overlap_are_refused() -> None:
    with pytest.raises(UserError, match=r"missing: shard 2/3$"):
        merge(named(FIRST, THIRD))
    with pytest.raises(UserError, match=r"missing: shard 1/3, 3/3$"):
        merge(named(SECOND))
    with pytest.raises(UserError, match=r"isa.a.0 is in 1.json and in 2.json: .*--timings"):
        merge(named(FIRST, shard(2, "isa.b.0", "isa.a.0"), THIRD))
    with pytest.raises(UserError, match=r"have 2 of the 3 cases: .*--timings"):
        merge(named(FIRST, shard(2), THIRD))
    with pytest.raises(UserError, match="name the report"):
        merge([])


def test_the_command_writes_every_form_and_keeps_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, report in enumerate((FIRST, SECOND, THIRD), 1):
        (tmp_path / f"{number}").mkdir()
        write_all(report, tmp_path / f"{number}")
    assert run(["conform", "merge", "1", "2/report.json", "3"]) == 0
    merged = tmp_path / "conformance-FAKE"
    printed = capsys.readouterr().out
    assert printed.startswith("FAKE conforms to the quick profile\n3 cases in 6.0 s: 3 Pass\n")
    assert printed.endswith("report: conformance-FAKE/report.html\n")
    assert load_unedited(merged / "report.json").is_conformance_run
    assert run(["conform", "merge", "1", "2", "3"]) == 0
    assert (merged / "report.previous.json").exists()
    assert run(["conform", "merge", "1", "2", "--out", "other"]) == 2
    assert not (tmp_path / "other").exists()


@pytest.mark.long
def test_shards_that_were_run_make_the_report_of_the_whole_run(fake: Any, tmp_path: Path) -> None:
    fake.scenario("good", "fails")
    whole = fake.run().report
    folders = []
    for number in (1, 2):
        shutil.rmtree(fake.folder)
        fake.run(shard=Shard(number, 2))
        folders.append(tmp_path / f"shard{number}")
        shutil.copytree(fake.folder, folders[-1])
    merged = merge(load_shards(folders))
    assert {case.id: case.status for case in merged.cases} == {
        case.id: case.status for case in whole.cases
    }
    assert (merged.verdict, merged.reductions) == (whole.verdict, [])
    assert merged.certificate["cases_planned"] == whole.certificate["cases_planned"]
    kinds = {row.id: row.counts for row in merged.rows}
    assert kinds == {row.id: row.counts for row in whole.rows}


@pytest.mark.long
@pytest.mark.parametrize(("how", "code"), [("", 0), ("refuse", 1)])
def test_a_shard_without_rows_only_opens_the_device(
    fake: Any, monkeypatch: pytest.MonkeyPatch, how: str, code: int
) -> None:
    monkeypatch.setenv("FAKE_OPEN", how)
    report = fake.scenario("good").run(shard=Shard(1000, 1000)).report
    assert report.certificate["cases_planned"] == 0
    assert (report.exit_code, report.problems) == (code, [])


@pytest.mark.parametrize(("number", "code"), [("1/3", 0), (None, 1)])
def test_only_a_shard_may_skip_all_of_its_cases(number: str | None, code: int) -> None:
    report = report_of(("isa.a.0", Status.SKIP), shard=number, cases_asked=9)
    assert report.exit_code == code


def rows(count: int) -> list[PlannedRow]:
    merged = [
        fake_catalogue.row(f"isa.r{i}.int32", *[fake_catalogue.passes] * 4) for i in range(count)
    ]
    return [PlannedRow(row, tuple(row.cases(Profile.QUICK))) for row in merged]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_row_is_in_exactly_one_shard(count: int) -> None:
    shards = [shard_of(rows(20), Shard(n + 1, count), {}) for n in range(count)]
    ids = [planned.id for planned in itertools.chain(*shards)]
    assert sorted(ids) == sorted(planned.id for planned in rows(20))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_timings_make_shards_equally_long() -> None:
    timings = {f"isa.r0.int32.special:{i}": 10.0 for i in range(4)}
    first, second = (shard_of(rows(9), Shard(n, 2), timings) for n in (1, 2))
    assert [planned.id for planned in first] == ["isa.r0.int32"]
    assert len(second) == 8


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "-1/2", "1/0", "a/b", "1/2/3", "1.0/2"])
def test_a_bad_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="accepted is i/n"):
        Shard.parse(text)
