"""Campaigns on slow devices: progress from the first kernel on, and an end in time."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tinyref_fuzz.campaign.campaign import Request, Summary, run
from tinyref_fuzz.campaign.progress import Lines, Progress, Reporter
from tinyref_fuzz.campaign.task import CHUNK

HERE = Path(__file__).parent
# A case of the slow device takes some compilations of half a second; what machines may be late by.
CASE_SECONDS = 6.0
SLACK_SECONDS = 8.0


@pytest.fixture(autouse=True)
def _devices_are_found_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("TINYREF_CACHE", "0")
    monkeypatch.syspath_prepend(str(HERE))


class Noting(Reporter):
    """Keeps what it is told, with the time since the device was open."""

    def __init__(self) -> None:
        self.seen: list[Progress] = []
        self.opened = 0.0

    @contextmanager
    def showing(self) -> Iterator[None]:
        yield

    def update(self, progress: Progress) -> None:
        if not progress.state and not self.opened:
            self.opened = time.monotonic()
        self.seen.append(progress)


def timed(folder: Path, device: str, jobs: int, **members: float) -> tuple[float, Noting, Summary]:
    """The seconds from the opened device to the end, what was shown, and what it came to."""
    noting = Noting()
    wanted = {"seconds": 3.0, "timeout": 30.0, "examine_seconds": 1.0, **members}
    request = Request(
        f"campaign_devices:{device}", folder, seed=11, policy="small", jobs=jobs, **wanted
    )
    summary = run(request, noting)
    return time.monotonic() - noting.opened, noting, summary


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_slow_device_shows_progress_and_ends_in_time(tmp_path: Path, jobs: int) -> None:
    seconds, noting, summary = timed(tmp_path, "Slow", jobs)
    assert seconds < 3.0 + CASE_SECONDS + SLACK_SECONDS
    # Fewer than a task has, all of which are kept.
    assert 0 < summary.cases < CHUNK
    counts = [progress.cases for progress in noting.seen]
    assert counts == sorted(counts)
    assert counts[-1] == summary.cases
    # With the first kernel there is something to see, and no batch is waited for.
    assert 0 < next(filter(None, counts)) <= jobs
    assert any(progress.rate > 0 for progress in noting.seen)


@pytest.mark.long
def test_a_campaign_prints_a_line_with_its_first_kernel(tmp_path: Path) -> None:
    out = io.StringIO()
    request = Request("campaign_devices:Slow", tmp_path, seed=11, policy="small", jobs=1, kernels=3)
    # No line is due for its time.
    assert run(request, Lines(out, seconds=1000.0)).cases == 3
    assert out.getvalue().startswith("1 kernels, ")
    assert len(out.getvalue().splitlines()) == 1


@pytest.mark.long
def test_a_campaign_goes_on_with_the_rest_of_a_task(tmp_path: Path) -> None:
    _, _, first = timed(tmp_path, "Slow", 1)
    more = {"kernels": first.cases + 2, "seconds": 300.0}
    summary = run(Request("campaign_devices:Slow", tmp_path, resume=True, jobs=1, **more))
    assert summary.cases == first.cases + 2
    assert summary.findings == 0


@pytest.mark.long
def test_findings_of_a_slow_device_do_not_make_it_late(tmp_path: Path) -> None:
    seconds, _, summary = timed(tmp_path, "SlowAndWrong", 1)
    assert summary.findings > 0
    assert seconds < 3.0 + CASE_SECONDS + 2 * SLACK_SECONDS


@pytest.mark.long
def test_a_device_that_hangs_ends_one_case_after_its_time(tmp_path: Path) -> None:
    seconds, _, summary = timed(tmp_path, "HangingAll", 1, timeout=1.0)
    assert seconds < 3.0 + 2 * CASE_SECONDS + SLACK_SECONDS
    assert summary.findings == summary.cases > 0


def test_a_log_has_a_line_with_the_first_kernel() -> None:
    out = io.StringIO()
    lines = Lines(out)
    with lines.showing():
        for cases in (0, 0, 1, 1, 2):
            lines.update(Progress(cases=cases))
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == ["1 kernels"]
