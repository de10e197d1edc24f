"""A conformance run on a Dask cluster: what one machine measures, with each death pinned."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from reports_of import case_of

from tinyref.cli.entry import run
from tinyref_conformance.statuses import Status

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.mark.long
def test_a_cluster_measures_what_one_machine_does(fake: Any) -> None:
    """Run failures again alone, too, and resume from what the cluster measured."""
    fake.scenario("good", "segfaults", "fails", "above", "long", "state")
    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, **settings) as machines:
        done = fake.run(cluster=machines.scheduler_address, rerun_seconds=60.0)
        ran = Counter(fake.ran())
        again = fake.run(cluster=machines.scheduler_address, resume=True).report
    there = done.report
    assert again.certificate["resumed_cases"] >= len(ran)
    assert len(fake.ran()) == ran.total()
    fake.folder = fake.folder.with_name("here")
    here = fake.run(rerun_seconds=60.0).report
    assert [(case.id, case.status) for case in there.cases] == [
        (case.id, case.status) for case in here.cases
    ]
    # What passed and was in no sequence ran once.
    assert {ran[case.id] for case in there.cases if case.id.startswith("isa.long")} == {1}
    crash = case_of(done, "isa.segfaults.int32.special:1")
    assert crash.status is Status.CRASH
    assert "killed by SIGSEGV" in crash.message
    first = case_of(done, "isa.after.int32.special:0")
    assert first.status is Status.FLAKE
    assert "it passes alone, and fails after isa.before.int32.special:1" in first.message
    assert case_of(done, "isa.after.int32.special:1").status is Status.FAIL


def test_a_cluster_has_its_own_workers(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["conform", "--device", "CPU", "--cluster", "tcp://a:1"]
    assert run([*words, "--jobs", "2"]) == 2
    assert "cluster: it has several workers of its own" in capsys.readouterr().err
    assert run([*words, "--sequence", "a,b"]) == 2
