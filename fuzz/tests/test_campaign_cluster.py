"""Campaigns on a Dask cluster of two processes of this machine; slow, for its start takes long."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.campaign import cluster as clusters
from tinyref_fuzz.campaign.campaign import Request, Summary, run
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.campaign.task import CampaignError, Setup
from tinyref_fuzz.case import Symptom

HERE = Path(__file__).parent
KERNELS = 80

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
pytestmark = pytest.mark.slow


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


def test_a_case_that_kills_machines_is_pinned(tmp_path: Path, cluster: Any):
    # The second death is enough for the scheduler to give a task up, so that the test is short.
    cluster.scheduler.allowed_failures = 1
    summary = campaign(tmp_path, "KillingMachines", cluster.scheduler_address, kernels=6)
    here = campaign(tmp_path / "here", "Raising", kernels=6)
    found = state(tmp_path)[0]
    assert summary.cases == 6
    assert found == dict.fromkeys(state(tmp_path / "here")[0], Symptom.CRASH)
    assert here.findings > 0


def test_a_device_that_the_machines_lack_ends_the_campaign(tmp_path: Path, cluster: Any):
    summary = campaign(tmp_path, "Missing", cluster.scheduler_address)
    assert "no driver: install faulty-driver" in summary.incomplete


def test_an_address_where_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 1.0)
    with pytest.raises(UserError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        campaign(tmp_path, "Wrong", "tcp://127.0.0.1:9")
    with pytest.raises(UserError, match="no scheduler answers at nonsense"):
        campaign(tmp_path, "Wrong", "nonsense")


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
