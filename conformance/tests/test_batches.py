"""Kernels of many cases are compiled in one call, and what goes wrong in that costs no case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tinyref_conformance.report import Report
from tinyref_conformance.statuses import Status

# 14 rows of constants with some kernels each, and what says that they may be compiled together.
QUERY = "kernel.together,kernel.store.constant"

Run = Callable[..., Report]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    log = tmp_path / "calls"
    monkeypatch.setenv("COMPILE_LOG", str(log))
    monkeypatch.setenv("TINYREF_CACHE", "0")
    return lambda: [int(line) for line in log.read_text().splitlines()]


@pytest.fixture
def run(conformed: Run, calls: object) -> Run:
    def run(device: str, timeout: float = 60.0) -> Report:
        return conformed(f"compiling_devices:{device}", QUERY, timeout=timeout)

    return run


def statuses(report: Report) -> dict[str, Status]:
    return {case.id: case.status for case in report.cases}


@pytest.mark.long
def test_many_kernels_take_few_calls(run: Run, calls: Callable[[], list[int]]) -> None:
    single = run("Single")
    alone = calls()
    many = run("Many")
    together = calls()[len(alone) :]
    assert single.exit_code == many.exit_code == 0
    assert statuses(single) == statuses(many)
    assert set(alone) == {1}
    assert len(together) < len(alone) / 4
    # Each kernel was compiled once; one case more has four sources compiled together and alone.
    assert sum(together) == len(alone) + 8


@pytest.mark.long
def test_a_source_that_crashes_the_compiler_is_pinned_to_its_case(run: Run) -> None:
    finished = run("Crashing")
    by_case = statuses(finished)
    crashed = {name for name, status in by_case.items() if status is Status.CRASH}
    assert crashed
    assert all(name.startswith("kernel.store.constant") and ".value:1" in name for name in crashed)
    assert {status for name, status in by_case.items() if name not in crashed} == {Status.PASS}
    assert finished.problems == []


@pytest.mark.long
def test_a_compiler_that_crashes_over_many_fails_the_run_and_no_case(run: Run) -> None:
    finished = run("CrashingTogether")
    assert set(statuses(finished).values()) == {Status.PASS}
    words = "kernels that compile alone do not compile together: killed by SIGABRT (Aborted)"
    assert set(finished.problems) == {words}
    assert finished.exit_code == 1


@pytest.mark.long
def test_a_batch_that_hangs_ends_at_its_time(run: Run) -> None:
    finished = run("Hanging", timeout=1.5)
    assert set(statuses(finished).values()) == {Status.PASS}
    assert finished.certificate["seconds"] < 60


@pytest.mark.long
def test_results_in_the_wrong_order_are_caught_once_and_not_used(run: Run) -> None:
    finished = run("Swapping")
    by_case = statuses(finished)
    failed = {name for name, status in by_case.items() if status is Status.FAIL}
    assert failed == {"kernel.together.own_names", "kernel.together.one_name"}
    assert {status for name, status in by_case.items() if name not in failed} == {Status.PASS}
