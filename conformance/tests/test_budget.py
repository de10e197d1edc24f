"""Runs of limited time: the order of their cases, that they end in time, and what they say."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tinyref_conformance.budget import feature_of, telling_order
from tinyref_conformance.plan import make_plan
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import Suite
from tinyref_conformance.time_left import TimeLeft
from tinyref_spec.case import Profile, Rung


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
    passing = f"{counts[Status.PASS]:,} cases pass"
    assert done.report.verdict == f"FAKE: {passing} (not a conformance run)"
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
def test_a_hanging_case_does_not_outlast_the_budget(fake: Any) -> None:
    done = fake.scenario("hangs").run(budget=2.0, timeout=60.0)
    assert done.report.certificate["seconds"] < 20
    assert done.report.counts[Status.NOT_RUN] >= 1
    assert done.report.counts[Status.TIMEOUT] == 0


@pytest.mark.parametrize(
    "seconds", [(0.001, 0.007, 0.07), (0.046, 0.64, 3.6)], ids=["fast", "slow compiler"]
)
def test_it_is_right_within_half_from_the_first_tenth_on(seconds: tuple[float, ...]) -> None:
    counts = Counter({Rung.ALU: 3900, Rung.TENSOR: 1600, Rung.MODEL: 130})
    cases = [
        case
        for (rung, count), duration in zip(counts.items(), seconds, strict=True)
        for case in [(rung, duration)] * count
    ]
    left = TimeLeft(counts, 1)
    total = sum(duration for _, duration in cases)
    passed = 0.0
    for rung, duration in cases:
        left.note(rung, duration)
        left.drop(rung)
        passed += duration
        if total / 10 < passed < total * 0.95:
            assert left.seconds() == pytest.approx(total - passed, rel=0.5)
