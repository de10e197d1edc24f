"""What a terminal shows: total, time, the broken rung, a line for each cause; 100 columns."""

from __future__ import annotations

from reports_of import failing, report_of

from tinyref_conformance.report import CaseResult
from tinyref_conformance.reports.terminal import COLUMNS, GROUPS, clip, summary
from tinyref_conformance.statuses import Status
from tinyref_spec.evidence import Evidence


def test_a_good_run_is_two_lines() -> None:
    report = report_of(("isa.a.float32.0", Status.PASS), ("isa.a.float32.1", Status.SKIP))
    assert list(summary(report)) == [
        "FAKE conforms to the quick profile",
        "2 cases in 1.5 s: 1 Pass, 1 Skip",
    ]


def test_a_broken_run_says_rung_cause_advice_and_an_example() -> None:
    report = report_of(
        failing("isa.mul.float32.0", "element 0: expected 1, got 2"),
        failing("isa.mul.float32.1", "element 7: expected 1, got 2"),
        ("isa.sin.float32.0", Status.TIMEOUT),
        reductions=["only the cases of --query isa"],
    )
    report.rows[1].evidence.add(Evidence((2, 8), {"nan": (2, 0)}))
    assert list(summary(report)) == [
        "FAKE does not conform: first broken rung is 'every operation' (not a conformance run)",
        "not a conformance run: only the cases of --query isa",
        "3 cases in 1.5 s: 2 Fail, 1 Timeout",
        "  every operation         2 cases  "
        "all wrong values have NaN as an operand or result: isa.mul.float…",
        "  every operation          1 case  the case does not end: isa.sin.float32",
        "  what to do: look at comparisons (ordered or unordered), MAX, and options that assume no "
        "NaN",
        "Fail: isa.mul.float32.0: element 0: expected 1, got 2",
        "  tinyref conform --query isa.mul.float32.0",
    ]


def test_the_cause_of_a_driver_and_the_first_node_are_shown() -> None:
    words = "launch failed: code 700\n  at kernel.c:3\nptxas fatal: no register is left"
    case = failing("isa.mul.float32.0", words)
    case.details = {"difference": "the first node that differs is MUL float32"}
    shown = list(summary(report_of(case)))
    example = next(place for place, line in enumerate(shown) if line.startswith("Fail: "))
    assert shown[example].endswith("launch failed: code 700 … ptxas fatal: no register is left")
    assert shown[example + 1] == "  the first node that differs is MUL float32"


def test_many_groups_are_counted_and_none_is_wider_than_a_terminal() -> None:
    words = "abcdefghijklmnopqrst"
    cases = [
        CaseResult(f"isa.{letter * 90}.0", f"isa.{letter * 90}", Status.FAIL, letter * 200, "run")
        for letter in words
    ]
    lines = list(summary(report_of(*cases)))
    assert f"  and {len(words) - GROUPS} more groups in the report" in lines
    groups = [line for line in lines if line.startswith("  every operation")]
    assert len(groups) == GROUPS
    assert max(map(len, groups)) == COLUMNS
    assert clip("x" * 101) == "x" * 99 + "…"
