"""A conformance run on a Dask cluster: what one machine measures, with each death pinned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from reports_of import case_of

from tinyref.cli.entry import run
from tinyref_conformance.statuses import Status

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture
def address(fake: Any) -> Iterator[str]:
    fake.scenario("good", "segfaults", "fails", "above", "long")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found.scheduler_address


@pytest.mark.long
def test_a_cluster_measures_what_one_machine_does(fake: Any, address: str) -> None:
    there = fake.run(cluster=address).report
    ran = Counter(fake.ran())
    fake.folder = fake.folder.with_name("here")
    here = fake.run(jobs=2).report
    assert there.counts == here.counts
    assert [(case.id, case.status) for case in there.cases] == [
        (case.id, case.status) for case in here.cases
    ]
    crash = next(case for case in there.cases if case.status is Status.CRASH)
    assert crash.id == "isa.segfaults.int32.special:1"
    assert "killed by SIGSEGV" in crash.message
    assert set(ran.values()) == {1}
    # What was measured there goes on there.
    fake.folder = fake.folder.with_name("report")
    again = fake.run(cluster=address, resume=True).report
    assert again.counts == there.counts
    assert again.certificate["resumed_cases"] == len(ran)


@pytest.mark.long
def test_a_failure_is_run_again_alone_on_the_cluster(fake: Any) -> None:
    fake.scenario("state")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as machines:
        done = fake.run(cluster=machines.scheduler_address, rerun_seconds=60.0)
    first = case_of(done, "isa.after.int32.special:0")
    assert first.status is Status.FLAKE
    assert "it passes alone, and fails after isa.before.int32.special:1" in first.message
    assert case_of(done, "isa.after.int32.special:1").status is Status.FAIL


def test_a_cluster_has_its_own_workers(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["conform", "--device", "CPU", "--cluster", "tcp://a:1"]
    assert run([*words, "--jobs", "2"]) == 2
    assert "cluster: it has its own workers" in capsys.readouterr().err
    assert run([*words, "--sequence", "a,b"]) == 2
