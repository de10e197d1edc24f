from __future__ import annotations

import pytest
from reports_of import report_of

from tinyref.errors import UserError
from tinyref_conformance.compare import compare, side_by_side
from tinyref_conformance.report import CaseResult
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("PASS", "FAIL", "regressions"),
        ("PASS", "CRASH", "regressions"),
        ("PASS", "SUPPRESSED", "regressions"),
        ("PASS", "SKIP", "regressions"),
        ("PASS", "EXPECTED_FAIL", "regressions"),
        ("EXPECTED_FAIL", "UNEXPECTED_PASS", "regressions"),
        ("SKIP", "FLAKE", "regressions"),
        ("FAIL", "PASS", "fixes"),
        ("TIMEOUT", "EXPECTED_FAIL", "fixes"),
        ("FAIL", "CRASH", "other"),
        ("SKIP", "PASS", "other"),
        ("EXPECTED_FAIL", "PASS", "other"),
        ("PASS", "PASS", ""),
    ],
)
def test_each_change_of_status_has_its_place(before: str, after: str, kind: str) -> None:
    found = compare(report_of(("isa.a.0", Status[before])), report_of(("isa.a.0", Status[after])))
    for name in ("regressions", "fixes", "other"):
        assert bool(getattr(found, name)) is (name == kind)
    assert found.is_worse is (kind == "regressions")


def test_a_missing_case_is_a_regression_of_a_whole_run_only() -> None:
    before = report_of(("isa.a.0", Status.PASS), ("isa.b.0", Status.PASS))
    assert compare(before, report_of(("isa.a.0", Status.PASS))).is_worse
    part = report_of(("isa.a.0", Status.PASS), reductions=["a part"])
    found = compare(before, part)
    assert not found.is_worse
    assert found.missing == ["isa.b.0: was Pass, is not in the newer report"]


def test_a_new_case_that_fails_is_a_regression() -> None:
    before = report_of(("isa.a.0", Status.PASS))
    good = compare(before, report_of(("isa.a.0", Status.PASS), ("isa.b.0", Status.PASS)))
    assert good.new == ["isa.b.0: Pass"]
    assert not good.is_worse
    assert compare(before, report_of(("isa.a.0", Status.PASS), ("isa.b.0", Status.FAIL))).is_worse


def measured(ulp: float) -> CaseResult:
    return CaseResult("isa.a.0", "isa.a", Status.PASS, compared=1, max_ulp=ulp)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (0.5, 0.5, []),
        (0.5, 0.52, []),
        (0.5, 2.0, ["isa.a: 0.5 -> 2 ULP (worse)"]),
        (2.0, 0.5, ["isa.a: 2 -> 0.5 ULP (better)"]),
        (2.0, float("inf"), ["isa.a: 2 -> inf ULP (worse)"]),
        (float("inf"), float("inf"), []),
        (float("nan"), float("nan"), []),
    ],
)
def test_changes_of_accuracy(before: float, after: float, says: list[str]) -> None:
    assert compare(report_of(measured(before)), report_of(measured(after))).accuracy == says


def test_the_text_says_what_is_not_comparable() -> None:
    text = compare(
        report_of(("isa.a.0", Status.PASS)),
        report_of(("isa.a.0", Status.FAIL), device="OTHER", suite_hash="x", profile="full"),
    ).text()
    assert "different devices" in text
    assert "the tables changed" in text
    assert "different profiles" in text
    assert "1 regressions\n  isa.a.0: Pass -> Fail" in text


def test_side_by_side() -> None:
    text = side_by_side(
        [
            report_of(("isa.a.0", Status.PASS), device="ONE"),
            report_of(("isa.a.0", Status.FAIL), device="TWO", rung=Rung.CAST),
            report_of(("isa.a.0", Status.PASS), device="PART", reductions=["a part"]),
        ]
    )
    lines = {line[:20].strip(): line[20:].split("  ") for line in text.splitlines()}
    assert "holds 1/1" in " ".join(lines["every operation"])
    assert "BROKEN 0/1" in " ".join(lines["casts"])
    assert "PART: not a conformance run: a part" in text
    with pytest.raises(UserError, match="at least one"):
        side_by_side([])
