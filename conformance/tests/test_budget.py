"""Runs of limited time: the order of their cases, that they end in time, and what they say."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import fake_catalogue
import pytest

from tinyref.errors import UserError
from tinyref_conformance.budget import budget_text, feature_of, parse_budget, telling_order
from tinyref_conformance.plan import PlannedRow, make_plan
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import Suite
from tinyref_spec.case import Profile, Row, Rung


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("0.5s", 0.5)]
)
def test_a_budget_is_read(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "0m", "5 m", "1d", "infs", "1e3s", "1.5.1h"])
def test_a_bad_budget_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"accepted are 90s, 5m, 1\.5h"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(300.0, "5m"), (90.0, "90s"), (7200.0, "2h"), (1.5, "1.5s")]
)
def test_a_budget_is_shown_as_one_asks_for_it(seconds: float, text: str) -> None:
    assert budget_text(seconds) == text


def planned(*rows: Row) -> list[PlannedRow]:
    return [PlannedRow(row, tuple(row.cases(Profile.QUICK))) for row in rows]


def test_each_feature_comes_once_before_any_comes_twice() -> None:
    one = [fake_catalogue.passes] * 2
    rows = planned(
        fake_catalogue.row("memory.low", *[fake_catalogue.passes] * 3, rung=Rung.MEMORY),
        fake_catalogue.row("isa.add.float32", *one, depends_on=("memory.low.special:1",)),
        fake_catalogue.row("isa.add.int32", *one, dtype="int32"),
        fake_catalogue.row("isa.mul.float32", *one, op="MUL"),
        fake_catalogue.row("tensor.sum.float32", *one, rung=Rung.TENSOR),
    )
    assert [cases[0] for _, cases in telling_order(rows)] == [
        "memory.low.special:1",
        "memory.low.special:0",
        "isa.add.float32.special:0",
        "isa.mul.float32.special:0",
        "tensor.sum.float32.special:0",
        "memory.low.special:2",
        "isa.add.float32.special:1",
        "isa.add.int32.special:0",
        "isa.mul.float32.special:1",
        "tensor.sum.float32.special:1",
        "isa.add.int32.special:1",
    ]


@pytest.mark.long
def test_a_twentieth_of_the_suite_has_every_rung_and_every_feature() -> None:
    plan = make_plan(Suite(), Profile.QUICK)
    order = telling_order(plan.rows)
    names = [name for _, cases in order for name in cases]
    assert Counter(names) == Counter(case.id for row in plan.rows for case in row.cases)
    # What lets all others be compiled together comes with the first cases.
    assert all(names.index(f"kernel.together.{name}") < 100 for name in ("own_names", "one_name"))
    rows = {row.id: row for row in plan.rows}
    features = {(row.rung, feature_of(row)) for row in plan.rows}
    seen: set[Any] = set()
    count = 0
    for row, cases in order:
        seen.add((rows[row].rung, feature_of(rows[row])))
        count += len(cases)
        if seen == features:
            break
    assert seen == features
    assert count < len(names) / 10
    assert count < 1200


@pytest.mark.long
def test_a_run_ends_in_time_and_says_that_it_is_none(fake: Any) -> None:
    done = fake.scenario("longest").run(budget=8.0)
    counts = done.report.counts
    assert counts[Status.PASS] >= 1
    assert counts[Status.NOT_RUN] >= 10
    assert counts[Status.PASS] + counts[Status.NOT_RUN] == 2000
    assert done.report.certificate["seconds"] < 16
    assert not done.report.is_conformance_run
    (reason,) = done.report.reductions
    assert reason == f"a time budget of 8s: {counts[Status.PASS]:,} of 2,000 cases"
    assert done.report.verdict == ("FAKE: all that was run is as expected (not a conformance run)")
    assert done.report.exit_code == 0
    data = json.loads((fake.folder / "report.json").read_text())
    assert data["conformance_run"] is False
    assert data["certificate"]["reductions"] == [reason]
    late = next(case for case in done.report.cases if case.status is Status.NOT_RUN)
    assert late.message == "not run: the time budget of 8s was over before its turn"


@pytest.mark.long
def test_resume_goes_on_from_it(fake: Any) -> None:
    first = fake.scenario("long").run(budget=6.0)
    done = fake.run(resume=True)
    assert done.report.counts == {Status.PASS: 80}
    assert done.report.is_conformance_run
    assert done.report.certificate["resumed_cases"] == first.report.counts[Status.PASS]
    # Those that were under way as the time was over ran twice.
    assert len(fake.ran()) <= 82


@pytest.mark.long
def test_a_failure_fails_a_run_of_limited_time(fake: Any) -> None:
    done = fake.scenario("edge", "longest").run(budget=8.0)
    assert done.report.counts[Status.FAIL] == 1
    assert done.report.exit_code == 1


@pytest.mark.long
def test_a_budget_that_is_not_used_up_makes_no_difference(fake: Any) -> None:
    done = fake.scenario("good").run(budget=300.0)
    assert done.report.counts == {Status.PASS: 7}
    assert done.report.reductions == []
    assert done.report.verdict == "FAKE conforms to the quick profile"


@pytest.mark.long
def test_a_hanging_case_does_not_outlast_the_budget(fake: Any) -> None:
    done = fake.scenario("hangs").run(budget=2.0, timeout=60.0)
    assert done.report.certificate["seconds"] < 20
    assert done.report.counts[Status.NOT_RUN] >= 1
    assert done.report.counts[Status.TIMEOUT] == 0
