"""Campaigns on a Dask cluster of two processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.campaign import cluster as clusters
from tinyref_fuzz.campaign.campaign import Request, Summary, run
from tinyref_fuzz.campaign.cases import CaseResult
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.campaign.task import CampaignError, Done, Setup, Task
from tinyref_fuzz.case import Pair, Symptom, Verdict

HERE = Path(__file__).parent
KERNELS = 80

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(HERE))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found


def campaign(folder: Path, device: str, address: str = "", **members: Any) -> Summary:
    wanted = {"seed": 11, "policy": "small", "kernels": KERNELS, "examine_seconds": 1.0, **members}
    device = f"campaign_devices:{device}"
    return run(Request(device, folder, jobs=2, cluster=address, **wanted))


def state(folder: Path) -> tuple[Any, ...]:
    found = Database.open(folder)
    try:
        findings = {each.number: each.verdict.symptom for each in found.findings()}
        return findings, found.totals()[:2], found.coverage("rule"), found.coverage("pair")
    finally:
        found.close()


@pytest.mark.slow
def test_a_cluster_of_which_a_machine_dies_gives_the_same(tmp_path: Path, cluster: Any):
    pids = [worker.pid for worker in cluster.workers.values()]
    killed = []

    def kill() -> None:
        # In the middle: some chunks are stored, others are not.
        for _ in range(1200):
            time.sleep(0.1)
            try:
                database = Database.open(tmp_path / "cluster")
            except UserError:
                continue
            done = len(database.chunks())
            database.close()
            if done:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(done)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    on_cluster = campaign(tmp_path / "cluster", "Wrong", cluster.scheduler_address)
    thread.join()
    assert killed
    assert killed[0] < KERNELS // 20, "it died in the middle"
    here = campaign(tmp_path / "here", "Wrong")
    assert (on_cluster.cases, on_cluster.incomplete) == (KERNELS, "")
    assert on_cluster.findings == here.findings > 0
    assert state(tmp_path / "cluster") == state(tmp_path / "here")


class FakeFuture:
    """Of a cluster on which every machine that gets case 5 dies, and nothing else goes wrong."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.is_killed = task["first"] <= 5 < task["stop"]
        self.status = "error" if self.is_killed else "finished"
        self.task = task

    def done(self) -> bool:
        return True

    def exception(self) -> Exception | None:
        return (
            distributed.KilledWorker("t", SimpleNamespace(address="m"), 3)
            if self.is_killed
            else None
        )

    def result(self) -> dict[str, Any]:
        numbers = range(self.task["first"], self.task["stop"])
        return Done(Task.from_json(self.task), tuple(map(agreed, numbers))).to_json()


class FakeClient:
    status = "running"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.sent: list[tuple[int, int]] = []

    def nthreads(self) -> dict[str, int]:
        return {"a": 2}

    def submit(self, function: Any, setup: Any, task: dict[str, Any], pure: bool) -> FakeFuture:
        self.sent.append((task["first"], task["stop"]))
        return FakeFuture(task)

    def as_current(self) -> Any:
        return contextlib.nullcontext()


def agreed(number: int) -> CaseResult:
    return CaseResult(number, 0.5)


def test_a_case_that_kills_machines_is_pinned_by_doing_it_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(distributed, "Client", FakeClient)
    monkeypatch.setattr(distributed, "wait", lambda *arguments, **named: None)
    executor = clusters.ClusterExecutor(Setup("PYTHON", 1), "tcp://fake")
    assert executor.capacity == 4
    executor.submit(Task(0, 3))
    executor.submit(Task(3, 7))
    assert executor.busy == 2
    (done,) = executor.finished(0.1)
    assert done.results == tuple(map(agreed, range(3)))
    # Until it is known which one it was, nothing else is to be beside it.
    assert (executor.capacity, executor.busy) == (0, 1)
    found: list[Done] = []
    while not found:
        found = executor.finished(0.1)
    assert [result.number for result in found[0].results] == [3, 4, 5, 6]
    assert [result.verdict is None for result in found[0].results] == [True, True, False, True]
    verdict = found[0].results[2].verdict
    assert verdict is not None
    assert verdict.symptom is Symptom.CRASH
    assert (executor.capacity, executor.busy) == (4, 0)
    # Each once: the chunks, then the cases of the one that was killed.
    assert executor._client.sent == [(0, 3), (3, 7), (3, 4), (4, 5), (5, 6), (6, 7)]


def test_an_examination_that_kills_machines_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(distributed, "Client", FakeClient)
    monkeypatch.setattr(distributed, "wait", lambda *arguments, **named: None)
    executor = clusters.ClusterExecutor(Setup("PYTHON", 1), "tcp://fake")
    executor.submit(Task(5, 6, verdict=Verdict(Pair.DEVICE, Symptom.VALUE, "differs")))
    assert executor.finished(0.1) == []
    (done,) = executor.finished(0.1)
    assert done.examination is not None
    assert "ended machines" in done.examination.problem


@pytest.mark.slow
def test_a_device_that_the_machines_lack_ends_the_campaign(tmp_path: Path, cluster: Any):
    summary = campaign(tmp_path, "Missing", cluster.scheduler_address)
    assert "no driver: install faulty-driver" in summary.incomplete


@pytest.mark.slow
def test_an_address_where_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 1.0)
    with pytest.raises(UserError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        campaign(tmp_path, "Wrong", "tcp://127.0.0.1:9")
    with pytest.raises(UserError, match="no scheduler answers at nonsense"):
        campaign(tmp_path, "Wrong", "nonsense")


@pytest.mark.slow
def test_a_cluster_that_goes_away(cluster: Any):
    executor = clusters.ClusterExecutor(Setup("PYTHON", 1), cluster.scheduler_address)
    assert executor.is_ready
    cluster.close()

    def wait_for_the_end() -> None:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            executor.finished(0.1)

    with pytest.raises(CampaignError, match="is gone"):
        wait_for_the_end()
    executor.close()
