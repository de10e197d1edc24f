"""Campaigns on a Dask cluster of two processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.campaign.campaign import CampaignRequest, Summary, run
from tinyref_fuzz.campaign.database import Database

KERNELS = 60

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture
def address(workers_import_test_devices: None) -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def campaign(folder: Path, device: str, address: str = "", **members: Any) -> Summary:
    options = {"seed": 11, "policy": "small", "kernels": KERNELS, "examine_seconds": 1.0, **members}
    device = f"campaign_devices:{device}"
    return run(CampaignRequest(device, folder, jobs=2, cluster=address, **options))


def state(folder: Path) -> tuple[Any, ...]:
    database = Database.open(folder)
    try:
        findings = {finding.number: finding.verdict.symptom for finding in database.findings()}
        return findings, database.totals()[:2]
    finally:
        database.close()


@pytest.mark.slow
def test_a_cluster_gives_the_results_of_one_machine(tmp_path: Path, address: str):
    on_cluster = campaign(tmp_path / "cluster", "Wrong", address)
    here = campaign(tmp_path / "here", "Wrong")
    assert (on_cluster.cases, on_cluster.incomplete) == (KERNELS, "")
    assert on_cluster.findings == here.findings > 0
    assert state(tmp_path / "cluster") == state(tmp_path / "here")
    assert on_cluster.buckets
    with pytest.raises(UserError, match=r"does not open: .*no driver: install faulty-driver"):
        campaign(tmp_path / "missing", "Missing", address)
