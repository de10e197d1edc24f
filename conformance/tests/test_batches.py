"""Kernels of many cases are compiled in one call, and what goes wrong in that costs no case."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyref_conformance.batches import MAX_DEATHS, MAX_ROWS, Batches
from tinyref_conformance.conform import Finished, Request, conform
from tinyref_conformance.settings import Settings
from tinyref_conformance.statuses import Status

HERE = Path(__file__).parent
# 14 rows of constants with some kernels each, and what says that they may be compiled together.
QUERY = "kernel.together,kernel.store.constant"

Run = Callable[..., Finished]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    log = tmp_path / "calls"
    monkeypatch.setenv("COMPILE_LOG", str(log))
    monkeypatch.setenv("TINYREF_CACHE", "0")
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    return lambda: [int(line) for line in log.read_text().splitlines()]


@pytest.fixture
def run(tmp_path: Path, calls: object) -> Run:
    def run(device: str, query: str = QUERY, **members: Any) -> Finished:
        name = f"compiling_devices:{device}"
        settings = Settings(name, tmp_path / device, **{"jobs": 1, "timeout": 60.0, **members})
        return conform(Request(settings, query=query))

    return run


def statuses(finished: Finished) -> dict[str, Status]:
    return {case.id: case.status for case in finished.report.cases}


@pytest.mark.long
def test_many_kernels_take_few_calls(run: Run, calls: Callable[[], list[int]]) -> None:
    single = run("Single")
    alone = calls()
    many = run("Many")
    together = calls()[len(alone) :]
    assert single.report.exit_code == many.report.exit_code == 0
    assert statuses(single) == statuses(many)
    assert set(alone) == {1}
    assert len(together) < len(alone) / 4
    # Each kernel was compiled once; one case more has four sources compiled together and alone.
    assert sum(together) == len(alone) + 8


@pytest.mark.long
def test_a_source_that_crashes_the_compiler_is_pinned_to_its_case(run: Run) -> None:
    finished = run("Crashing")
    found = statuses(finished)
    crashed = {name for name, status in found.items() if status is Status.CRASH}
    assert crashed
    assert all(name.startswith("kernel.store.constant") and ".value:1" in name for name in crashed)
    assert {status for name, status in found.items() if name not in crashed} == {Status.PASS}
    assert finished.report.problems == []


@pytest.mark.long
def test_a_compiler_that_crashes_over_many_fails_the_run_and_no_case(run: Run) -> None:
    finished = run("CrashingTogether")
    assert set(statuses(finished).values()) == {Status.PASS}
    words = "kernels that compile alone do not compile together: killed by SIGABRT (Aborted)"
    assert set(finished.report.problems) == {words}
    assert finished.report.exit_code == 1


@pytest.mark.long
def test_a_compiler_that_refuses_batches_is_asked_one_by_one(run: Run) -> None:
    finished = run("Refusing", query="kernel.store.constant.*int32")
    assert set(statuses(finished).values()) == {Status.PASS}
    assert finished.report.problems == []


@pytest.mark.long
def test_too_few_results_are_the_vendors_error(run: Run) -> None:
    finished = run("TooFew")
    assert set(statuses(finished).values()) == {Status.PASS}
    assert finished.report.exit_code == 1
    assert "compiler.compile_many: gives [b'" in finished.report.problems[0]


@pytest.mark.long
def test_a_batch_that_hangs_ends_at_its_time(run: Run) -> None:
    finished = run("Hanging", timeout=1.5)
    assert set(statuses(finished).values()) == {Status.PASS}
    assert finished.report.certificate["seconds"] < 60


@pytest.mark.long
def test_results_in_the_wrong_order_are_caught_once_and_not_used(run: Run) -> None:
    finished = run("Swapping")
    found = statuses(finished)
    failed = {name for name, status in found.items() if status is Status.FAIL}
    assert failed == {"kernel.together.own_names", "kernel.together.one_name"}
    assert {status for name, status in found.items() if name not in failed} == {Status.PASS}


def test_batches_grow_while_they_are_quick_and_shrink_when_they_are_slow() -> None:
    batches = Batches()
    assert batches.rows == 0, "the compiler takes one source"
    batches.offered = True
    sizes = []
    for seconds in (0.1, 0.1, 0.1, 0.1, 0.1, 1.5, 5.0, 50.0):
        sizes.append(batches.rows)
        batches.on_prepared({"seconds": seconds})
    assert sizes == [4, 8, 16, 32, 64, 64, 64, 32]
    assert MAX_ROWS == 64


def test_there_are_no_more_batches_after_some_deaths() -> None:
    batches = Batches()
    batches.offered = True
    sizes = []
    for _ in range(MAX_DEATHS):
        batches.on_prepared({"seconds": 0.1})
        batches.on_death()
        sizes.append(batches.rows)
    assert sizes == [4, 4, 0]
