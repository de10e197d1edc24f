"""Test tasks on a Dask cluster: faults of a machine, a worker process and the scheduler."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref.workers import cluster, machine
from tinyref.workers.cluster import Answer, ClusterExecutor
from tinyref.workers.service import OpeningError
from tinyref.workers.tasks import DeviceGoneError, Event, HarnessError, Item, Job, Result, Task

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
dask = pytest.importorskip("dask", reason="the extra `cluster` is not installed")

PROGRAM = """
import os, signal, time
from tinyref.workers.service import serve

def opening(configuration, send):
    if configuration["name"] == "missing":
        raise OSError("no such card")
    def answer(request):
        for item in request["task"]["items"]:
            send({"begin": item})
            time.sleep(0.02)
            if item == "leave":
                os._exit(9)
            if item == "machine":
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(60)
            send({"end": item, "result": {"did": item}})
        return {"done": True}
    identity = {"flag NAME": configuration["name"], "processor": str(os.getppid())}
    return {"identity": identity}, answer

serve(opening)
"""
JOB = Job("program", {"name": "a"}, 60.0)


def numbers(first: int, stop: int) -> Task:
    return Task(range(first, stop))


def items(events: Sequence[Event]) -> list[Item]:
    return [event.item for event in events if isinstance(event, Result)]


def dead(events: Sequence[Event]) -> dict[Item, str]:
    results = [event for event in events if isinstance(event, Result)]
    return {event.item: event.death.death.words for event in results if event.death is not None}


# --- a real cluster of two machines ---------------------------------------------------------------


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start two machines; a new one replaces each one that dies, however long that takes.

    The scheduler forgives no death, so the work of a dead machine is suspected at once.
    """
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    settings = {
        "distributed.deploy.lost-worker-timeout": "600s",
        "distributed.scheduler.allowed-failures": 0,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as started,
    ):
        yield started


def work(on: ClusterExecutor, *tasks: Task) -> list[Event]:
    for task in tasks:
        on.submit(task)
    events: list[Event] = []
    while on.busy:
        events += on.events(0.1)
    return events


def listen(on: ClusterExecutor) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        on.events(0.1)


@pytest.mark.long
def test_a_machine_that_dies_loses_nothing_and_a_worker_costs_one_item(
    machines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At last the devices of the machines are missing, and then the cluster.
    with closing(ClusterExecutor(JOB, machines.scheduler_address)) as there:
        assert there.open()["identity"]["flag NAME"] == "a"
        assert there.identity == {"flag NAME": "a"}
        assert (there.workers, there.capacity) == (2, 4)
        (worker, *_) = machines.workers.values()
        threading.Timer(1.0, os.kill, (worker.pid, signal.SIGKILL)).start()
        tasks = [numbers(first, first + 20) for first in range(0, 160, 20)]
        events = work(there, *tasks, Task(("leave", "after")))
    assert sorted(items(events), key=str) == sorted([*range(160), "leave", "after"], key=str)
    assert dead(events) == {"leave": "the worker left with exit code 9"}
    missing = Job("program", {"name": "missing"}, 60.0)
    with (
        closing(ClusterExecutor(missing, machines.scheduler_address)) as there,
        pytest.raises(OpeningError, match="no such card"),
    ):
        there.open()
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    there = ClusterExecutor(JOB, machines.scheduler_address)
    there.open()
    machines.close()
    with pytest.raises(HarnessError, match="is gone"):
        listen(there)
    there.close()


def test_an_address_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    for address in ("tcp://127.0.0.1:9", "nonsense"):
        with pytest.raises(UserError, match=f"no scheduler answers at {address}"):
            ClusterExecutor(JOB, address)


# --- a scheduler without machines -----------------------------------------------------------------


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a scheduler in this process, without a machine, so its tasks stay pending."""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    settings = {
        "processes": False,
        "threads_per_worker": 3,
        "protocol": "tcp",
        "dashboard_address": None,
        # No limit of its own, so that the memory that a test sets counts.
        "memory_limit": 0,
    }
    with distributed.LocalCluster(n_workers=0, **settings) as started:
        yield started


def test_a_scheduler_that_begins_afresh_ends_the_run(scheduler: Any) -> None:
    there = ClusterExecutor(JOB, scheduler.scheduler_address)
    there.submit(numbers(0, 20))
    assert there.events(0.1) == []
    with distributed.Client(scheduler.scheduler_address, set_as_default=False) as other:
        other.restart(wait_for_workers=False)
    with pytest.raises(HarnessError, match="forgot its tasks: did its scheduler restart"):
        listen(there)
    there.close()


def test_a_cluster_without_machines_is_left(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "DESERTED_SECONDS", 0.3)
    with (
        closing(ClusterExecutor(JOB, scheduler.scheduler_address)) as there,
        pytest.raises(HarnessError, match=r"had no worker for 0\.3 s"),
    ):
        there.open()


@pytest.mark.parametrize(
    ("limit", "share"), [(6 << 30, 2 << 30), (None, 4 << 30), (48 << 30, 4 << 30)]
)
def test_a_dask_worker_takes_no_more_memory_than_its_own_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, share: int
) -> None:
    # Several of them on one machine, as with `dask worker --nworkers`, have a part of it each.
    worker = SimpleNamespace(
        state=SimpleNamespace(nthreads=3), memory_manager=SimpleNamespace(memory_limit=limit)
    )
    monkeypatch.setattr(machine, "usable_memory", lambda: 12 << 30)
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    assert cluster.job_here(JOB).memory == share
    asked = Job("program", {}, 60.0, memory=600 << 20)
    assert cluster.job_here(asked).memory == 600 << 20


def test_a_run_ends_only_its_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    ours, theirs = (
        SimpleNamespace(close=lambda name=name: closed.append(name)) for name in ("ours", "theirs")
    )
    monkeypatch.setattr(cluster, "_executors", {("a", 1): ours, ("b", 1): theirs})
    cluster.release("a")
    assert closed == ["ours"]
    cluster.release()
    assert closed == ["ours", "theirs"]


# --- a simulated cluster --------------------------------------------------------------------------


class FakeFuture:
    """Task on a cluster: item 5 ends every machine, item 1 only the first that it has alone."""

    def __init__(self, client: FakeClient, arguments: Any) -> None:
        self.status = "finished"
        self.error: Exception | None = None
        self.answer: Answer | None = None
        self.task = arguments[2]
        if self.task is None:
            self.answer = Answer({"identity": {}})
            return
        results = [Result(self.task, item, {"did": item}) for item in self.task.items]
        self.answer = Answer({"identity": {}}, tuple(results))
        client.sent.append(tuple(self.task.items))
        is_bad_luck = 1 in self.task.items and client.sent.count((1,)) <= 1
        if 5 in self.task.items or is_bad_luck:
            self.error = distributed.KilledWorker("t", SimpleNamespace(address="m"), 3)

    def done(self) -> bool:
        return True

    def result(self, timeout: float) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


class FakeClient:
    status = "running"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.sent: list[tuple[Item, ...]] = []

    def nthreads(self) -> dict[str, int]:
        return {"a": 2}

    def submit(self, function: Any, *arguments: Any, **named: Any) -> FakeFuture:
        return FakeFuture(self, arguments)

    def as_current(self) -> Any:
        return contextlib.nullcontext()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> ClusterExecutor:
    monkeypatch.setattr(distributed, "Client", FakeClient)
    monkeypatch.setattr(distributed, "wait", lambda *arguments, **named: None)
    executor = ClusterExecutor(JOB, "tcp://fake")
    assert executor.open() == {"identity": {}}
    return executor


def only_future(there: ClusterExecutor) -> Any:
    (future,) = there._pending
    return future


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer({"identity": {"flag NOOPT": "1"}}), HarnessError, r"not alike: flag NOOPT: \(no"),
        (Answer(problem=UserError("memory-limit: x")), UserError, "memory-limit: x"),
        (Answer(problem=OpeningError("no card")), DeviceGoneError, "does not open on a .*no card"),
    ],
)
def test_a_machine_that_is_not_like_the_first_ends_the_run(
    fake: ClusterExecutor, answer: Answer, kind: type[Exception], words: str
) -> None:
    fake.submit(numbers(2, 3))
    only_future(fake).answer = answer
    with pytest.raises(kind, match=words):
        fake.events(0.0)


def test_an_item_is_pinned_if_it_alone_ends_machines(fake: ClusterExecutor) -> None:
    assert fake.capacity == 4
    fake.submit(numbers(0, 3))
    fake.submit(numbers(3, 7))
    fake.submit(numbers(7, 9))
    assert items(fake.events(0.1)) == [7, 8]
    # Until the fatal items are known, nothing else may run with them.
    assert (fake.capacity, fake.busy) == (0, 7)
    events = [event for _ in range(100) for event in fake.events(0.0)]
    # Item 1 had bad luck, once.
    assert items(events) == list(range(7))
    assert list(dead(events)) == [5]
    assert "it ends machines of the cluster" in dead(events)[5]
    assert (fake.capacity, fake.busy) == (4, 0)
    alone = [0, 1, 1, 2, 3, 4, 5, 5, 6]
    whole = [(0, 1, 2), (3, 4, 5, 6), (7, 8)]
    assert fake._client.sent == [*whole, *((number,) for number in alone)]


def test_a_result_that_died_with_its_machine_is_waited_for(fake: ClusterExecutor) -> None:
    fake.submit(numbers(10, 12))
    future = only_future(fake)
    future.error = TimeoutError()
    assert fake.events(0.0) == []
    assert fake.busy == 1
    future.error = None
    assert items(fake.events(0.0)) == [10, 11]
