"""Campaigns on a Dask cluster of two processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.campaign import cluster as clusters
from tinyref_fuzz.campaign import local
from tinyref_fuzz.campaign.campaign import Request, Summary, run
from tinyref_fuzz.campaign.cases import judge_cases
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.campaign.report import exit_code
from tinyref_fuzz.campaign.results import CaseResult
from tinyref_fuzz.campaign.task import CampaignError, Done, Setup, Task
from tinyref_spec.kernel_case import Pair, Symptom, Verdict

HERE = Path(__file__).parent
KERNELS = 80

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
dask = pytest.importorskip("dask", reason="the extra `cluster` is not installed")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two machines, of which a new one comes for one that dies, however long that takes here.

    The scheduler forgives no death, so that whatever was with a machine is suspected at once.
    """
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(HERE))
    settings = {
        "distributed.deploy.lost-worker-timeout": "600s",
        "distributed.scheduler.allowed-failures": 0,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as found,
    ):
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


@pytest.mark.slow
def test_only_cases_that_alone_end_machines_are_pinned(tmp_path: Path, cluster: Any):
    # Up to the first that kills, so that there is one: each death takes many seconds.
    seed, killing = next(found for found in map(first_faulty, count(11)) if 2 <= found[1] <= 5)
    members = {"seed": seed, "kernels": killing + 1}
    summary = campaign(tmp_path, "KillingMachines", cluster.scheduler_address, **members)
    assert (summary.cases, summary.incomplete) == (killing + 1, "")
    assert state(tmp_path)[0] == {killing: Symptom.CRASH}


def first_faulty(seed: int) -> tuple[int, int]:
    """The seed, and the first of its cases that faulty devices choose."""
    stream = judge_cases("campaign_devices:Raising", seed, "small")
    return seed, next(number for number, _, verdict, _ in stream if not verdict.agrees)


class FakeFuture:
    """Of a cluster on which case 5 ends every machine, case 1 the first that it is alone on."""

    def __init__(self, client: FakeClient, function: Any, given: Any, workers: Any) -> None:
        self.status = "finished"
        self.is_over = True
        self.function = function
        self.error: Exception | None = None
        if function is not clusters.run_task:
            return
        self.task = given[2]
        client.sent.append((self.task["first"], self.task["stop"]))
        numbers = range(self.task["first"], self.task["stop"])
        is_first = client.sent.count((1, 2)) <= 1
        if 5 in numbers or (1 in numbers and (not workers or is_first)):
            if workers and len(client.sent) % 2:
                # Seen first as a machine that is not there any more.
                self.is_over = False
                client.machines = {f"{workers[0]}+": 2}
            else:
                self.error = distributed.KilledWorker("t", SimpleNamespace(address="m"), 3)

    def done(self) -> bool:
        return self.is_over

    def result(self, timeout: float) -> Any:
        if self.error is not None:
            raise self.error
        if self.function is not clusters.run_task:
            return None
        numbers = range(self.task["first"], self.task["stop"])
        done = Done(Task.from_json(self.task), tuple(map(agreed, numbers)))
        return {**done.to_json(), "identity": {}}


class FakeClient:
    status = "running"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.sent: list[tuple[int, int]] = []
        self.machines = {"a": 2}

    def nthreads(self) -> dict[str, int]:
        return self.machines

    def submit(self, function: Any, *given: Any, **named: Any) -> FakeFuture:
        return FakeFuture(self, function, given, named.get("workers"))

    def cancel(self, futures: list[FakeFuture], force: bool) -> None:
        return

    def as_current(self) -> Any:
        return contextlib.nullcontext()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> clusters.ClusterExecutor:
    monkeypatch.setattr(distributed, "Client", FakeClient)
    monkeypatch.setattr(distributed, "wait", lambda *arguments, **named: None)
    return clusters.ClusterExecutor(Setup("PYTHON", 1), "tcp://fake")


def agreed(number: int) -> CaseResult:
    return CaseResult(number, 0.5)


def until_done(executor: clusters.ClusterExecutor, count: int) -> list[Done]:
    found: list[Done] = []
    for _ in range(100):
        found += executor.finished_tasks(0.0)
    assert len(found) == count
    return found


def test_machines_with_other_flags_are_not_one_cluster(
    fake: clusters.ClusterExecutor, monkeypatch: pytest.MonkeyPatch
):
    fake.submit(Task(0, 1))
    assert len(fake.finished_tasks(0.0)) == 1
    assert fake.identity == {}
    original = FakeFuture.result
    monkeypatch.setattr(
        FakeFuture,
        "result",
        lambda self, timeout: {**original(self, timeout), "identity": {"flag NOOPT": "1"}},
    )
    fake.submit(Task(2, 3))
    with pytest.raises(CampaignError, match=r"not alike: flag NOOPT: \(none\) -> 1"):
        fake.finished_tasks(0.0)


def test_a_case_is_pinned_where_it_alone_ends_machines(fake: clusters.ClusterExecutor):
    assert fake.capacity == 4
    fake.submit(Task(0, 3))
    fake.submit(Task(3, 7))
    fake.submit(Task(7, 9))
    assert fake.busy == 3
    (done,) = fake.finished_tasks(0.1)
    assert done.results == tuple(map(agreed, (7, 8)))
    # Until it is known which ones it was, nothing else is to be beside them.
    assert (fake.capacity, fake.busy) == (0, 2)
    first, second = until_done(fake, 2)
    # Case 1 had bad luck, once.
    assert first.results == tuple(map(agreed, range(3)))
    assert [result.number for result in second.results] == [3, 4, 5, 6]
    verdicts = [result.verdict for result in second.results]
    assert [verdict is None for verdict in verdicts] == [True, True, False, True]
    assert verdicts[2] is not None
    assert verdicts[2].symptom is Symptom.CRASH
    assert "it ends machines of the cluster" in verdicts[2].detail
    assert (fake.capacity, fake.busy) == (4, 0)
    alone = [0, 1, 1, 2, 3, 4, 5, 5, 5, 6]
    sent = [(0, 3), (3, 7), (7, 9), *((number, number + 1) for number in alone)]
    assert fake._client.sent == sent


def test_an_examination_that_ends_machines_is_left_out(fake: clusters.ClusterExecutor):
    fake.submit(Task(5, 6, verdict=Verdict(Pair.DEVICE, Symptom.VALUE, "differs")))
    (done,) = until_done(fake, 1)
    assert done.examination is not None
    assert "ended machines" in done.examination.problem


def test_what_a_cluster_forgets_is_sent_again(fake: clusters.ClusterExecutor):
    fake.submit(Task(10, 12))
    for _ in range(clusters.MAX_LOSSES):
        (future,) = fake._pending
        future.status = "cancelled"
        assert fake.finished_tasks(0.0) == []
        assert fake.busy == 1
    (future,) = fake._pending
    future.status = "cancelled"
    with pytest.raises(CampaignError, match="forgot what it was given"):
        fake.finished_tasks(0.0)


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A scheduler in this process; it has no machine, so what it is given stays pending."""
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 1.0)
    settings = {
        "processes": False,
        "threads_per_worker": 3,
        "protocol": "tcp",
        "dashboard_address": None,
        # None of its own, so that what a test says of the memory of the machine holds.
        "memory_limit": 0,
    }
    with distributed.LocalCluster(n_workers=0, **settings) as found:
        yield found


def pending_on(scheduler: Any) -> clusters.ClusterExecutor:
    executor = clusters.ClusterExecutor(Setup("PYTHON", 1), scheduler.scheduler_address)
    for first in (0, 20, 40):
        executor.submit(Task(first, first + 20))
    assert executor.finished_tasks(0.1) == []
    return executor


def test_what_was_pending_when_a_scheduler_began_afresh_is_sent_again(scheduler: Any):
    executor = pending_on(scheduler)
    before = set(executor._pending)
    with distributed.Client(scheduler.scheduler_address, set_as_default=False) as other:
        other.restart(wait_for_workers=False)
    for _ in range(3):
        assert executor.finished_tasks(0.1) == []
    assert [pending.losses for pending in executor._pending.values()] == [1, 1, 1]
    assert not before & set(executor._pending)
    assert executor.busy == 3
    executor.close()


@pytest.mark.long
def test_a_scheduler_that_goes_away_while_tasks_are_pending_ends_the_campaign(
    tmp_path: Path, scheduler: Any
):
    timer = threading.Timer(1.0, scheduler.close)
    timer.start()
    summary = campaign(tmp_path, "Healthy", scheduler.scheduler_address)
    timer.join()
    assert summary.incomplete.startswith(f"the cluster at {scheduler.scheduler_address} is gone")
    assert exit_code(summary) == 3


def test_a_result_that_died_with_its_machine_is_waited_for(fake: clusters.ClusterExecutor):
    fake.submit(Task(10, 12))
    (future,) = fake._pending
    future.error = TimeoutError()
    assert fake.finished_tasks(0.0) == []
    assert fake.busy == 1
    future.error = None
    (done,) = fake.finished_tasks(0.0)
    assert done.results == (agreed(10), agreed(11))


def test_each_machine_takes_the_limit_of_memory_from_its_own(
    tmp_path: Path, scheduler: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "usable_memory", lambda: 12 << 30)
    sent: list[Setup] = []

    def only_request(request: Request, setup: Setup) -> Any:
        sent.append(setup)
        raise UserError("that is enough")

    monkeypatch.setattr("tinyref_fuzz.campaign.campaign.executor_of", only_request)
    for memory in (None, 600 << 20):
        with pytest.raises(UserError, match="that is enough"):
            campaign(tmp_path, "Healthy", scheduler.scheduler_address, memory=memory)
    scheduler.scale(1)
    with distributed.Client(scheduler.scheduler_address, set_as_default=False) as client:
        found = [client.submit(clusters.setup_here, setup.to_json()) for setup in sent]
        # Three threads on each machine of this cluster.
        assert [future.result(20).memory for future in found] == [4 << 30, 600 << 20]


@pytest.mark.parametrize(
    ("limit", "share"), [(6 << 30, 2 << 30), (None, 4 << 30), (48 << 30, 4 << 30)]
)
def test_a_dask_worker_takes_no_more_memory_than_its_own_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, share: int
):
    """Several of them on one machine, as of `dask worker --nworkers`, have a part of it each."""
    worker = SimpleNamespace(
        state=SimpleNamespace(nthreads=3), memory_manager=SimpleNamespace(memory_limit=limit)
    )
    monkeypatch.setattr(local, "usable_memory", lambda: 12 << 30)
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    sent = Setup("PYTHON", 1, "all").to_json()
    assert clusters.setup_here(sent).memory == share


def test_a_campaign_ends_only_its_own_processes(monkeypatch: pytest.MonkeyPatch):
    closed = []
    ours, theirs = (
        SimpleNamespace(close=lambda name=name: closed.append(name)) for name in ("ours", "theirs")
    )
    monkeypatch.setattr(clusters, "_executors", {("a", 1): ours, ("b", 1): theirs})
    clusters.release("a")
    assert closed == ["ours"]
    clusters.release()
    assert closed == ["ours", "theirs"]


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
            executor.finished_tasks(0.1)

    with pytest.raises(CampaignError, match="is gone"):
        wait_for_the_end()
    executor.close()
