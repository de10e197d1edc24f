"""Campaigns on slow devices: progress from the first kernel, and an end in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tinyref.workers import run as run_loop
from tinyref.workers.run import Progress, Reporter
from tinyref.workers.tasks import Event, Executor, Result, Task
from tinyref_fuzz.campaign import campaign as campaigns
from tinyref_fuzz.campaign.campaign import CampaignRequest, Summary, run
from tinyref_fuzz.campaign.report import text
from tinyref_fuzz.campaign.results import CampaignCase
from tinyref_fuzz.campaign.task import CHUNK

# Longest duration of a case on the slow device, which compiles several times; and a margin.
CASE_SECONDS = 6.0
SLACK_SECONDS = 8.0
pytestmark = pytest.mark.usefixtures("workers_import_test_devices")


@pytest.fixture(autouse=True)
def _nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYREF_CACHE", "0")


class ProgressRecorder(Reporter):
    """Reporter that records all progress, and the time when the device was open."""

    def __init__(self) -> None:
        self.seen: list[Progress] = []
        self.opened = 0.0

    @contextmanager
    def showing(self) -> Iterator[None]:
        yield

    def update(self, progress: Progress) -> None:
        if not self.opened:
            self.opened = time.monotonic()
        self.seen.append(progress)

    def line(self, text: str, style: str = "") -> None:
        return


def timed(
    folder: Path, device: str, jobs: int, **members: float
) -> tuple[float, ProgressRecorder, Summary]:
    """Return the seconds from the opened device to the end, the progress, and the summary."""
    recorder = ProgressRecorder()
    options = {"seconds": 3.0, "timeout": 30.0, "examine_seconds": 1.0, **members}
    request = CampaignRequest(
        f"campaign_devices:{device}", folder, seed=11, policy="small", jobs=jobs, **options
    )
    summary = run(request, recorder)
    return time.monotonic() - recorder.opened, recorder, summary


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_slow_device_shows_progress_and_ends_in_time(tmp_path: Path, jobs: int) -> None:
    seconds, recorder, summary = timed(tmp_path, "Slow", jobs)
    assert seconds < 3.0 + CASE_SECONDS + SLACK_SECONDS
    # Fewer cases than a task has, all of them stored.
    assert 0 < summary.cases < CHUNK
    counts = [progress.done for progress in recorder.seen]
    assert counts == sorted(counts)
    assert counts[-1] == summary.cases
    # Progress shows the first kernel, and does not wait for a batch.
    assert 0 < next(filter(None, counts)) <= jobs
    assert any(" 0.0/s" not in progress.text for progress in recorder.seen)


@pytest.mark.long
def test_a_campaign_goes_on_with_the_rest_of_a_task(tmp_path: Path) -> None:
    _, _, first = timed(tmp_path, "Slow", 1)
    more = {"kernels": first.cases + 2, "seconds": 300.0}
    summary = run(CampaignRequest("campaign_devices:Slow", tmp_path, resume=True, jobs=1, **more))
    assert summary.cases == first.cases + 2
    assert summary.findings == 0


@pytest.mark.long
def test_a_device_that_hangs_ends_one_case_after_its_time(tmp_path: Path) -> None:
    seconds, _, summary = timed(tmp_path, "HangingAll", 1, timeout=1.0)
    assert seconds < 3.0 + 2 * CASE_SECONDS + SLACK_SECONDS
    assert summary.findings == summary.cases > 0


# --- time, by a simulated clock -------------------------------------------------------------------

OPENING = 4.0


class Clocked(Executor):
    """Executor that opens in `OPENING` seconds and judges a case a second; the third hangs."""

    identity: dict[str, str] = {}
    workers = capacity = 1

    def __init__(self, is_awaited: bool) -> None:
        super().__init__()
        self.now = 100.0
        self.is_awaited = is_awaited
        self.task: Task | None = None
        self.judged = 0

    @property
    def busy(self) -> int:
        return int(self.task is not None)

    def open(self) -> None:
        self.now += OPENING

    def wind_down(self) -> None:
        if self.task is not None:
            self.task = None
            self.unfinished = {self.judged: 6.0, self.judged + 1: 2.9}

    def submit(self, task: Task) -> None:
        self.task = task

    def events(self, seconds: float) -> list[Event]:
        self.now += 1.0
        if self.task is None or self.judged == 2:
            return []
        number = self.judged
        self.judged += 1
        return [Result(self.task, number, CampaignCase(number, 1.0).to_json())]

    def close(self) -> None:
        return


def clocked(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    executor: Clocked,
    began: float | None = None,
    seconds: float = 10.0,
) -> tuple[float, Summary]:
    """Return the seconds of a campaign by the executor's clock, and its summary."""
    monkeypatch.setattr(campaigns, "executor_of", lambda request, setup: executor)
    for module in (campaigns, run_loop):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: executor.now))
    summary = run(CampaignRequest("PYTHON", folder, seed=1, seconds=seconds, began=began))
    return executor.now - 100.0, summary


def test_the_start_of_workers_counts_as_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seconds, summary = clocked(monkeypatch, tmp_path, Clocked(is_awaited=False))
    assert (seconds, summary.cases, summary.incomplete) == (10.0, 2, "")
    assert "kernel 2 was not waited for: it had taken 6 s" in text(summary)
    # Only a case that took long is suspected to hang.
    assert list(summary.unfinished) == [2]


def test_one_case_is_judged_however_short_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, summary = clocked(monkeypatch, tmp_path, Clocked(is_awaited=False), seconds=1.0)
    assert summary.cases == 1


@pytest.mark.long
def test_a_case_that_hangs_is_not_waited_for_once_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # On a busy machine the case begins late, and other cases' time does not count.
    monkeypatch.setattr(campaigns, "SUSPICIOUS_SECONDS", 0.0)
    seconds, _, summary = timed(tmp_path, "HangingLater", 1, timeout=200.0, seconds=6.0)
    assert seconds < 6.0 + SLACK_SECONDS
    assert summary.cases > 0
    assert summary.findings == 0
    assert list(summary.unfinished) == [summary.cases]
