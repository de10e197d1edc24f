"""Test services and executors on this machine: a death costs one request or one item.

All processes run PROGRAM. The file `openings` next to it says for each process how it opens.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref.workers import local
from tinyref.workers.local import LocalExecutor
from tinyref.workers.processes import Cause, Death, Limits
from tinyref.workers.service import OpeningError, Service
from tinyref.workers.tasks import (
    DeviceGoneError,
    Event,
    HarnessError,
    Item,
    ItemDeath,
    Job,
    Result,
    Task,
    WorkerDied,
)

PROGRAM = """
import os, signal, time
from pathlib import Path
from tinyref.workers.service import FatalError, serve
starts = Path(__file__).with_name("starts")
with starts.open("a") as file:
    file.write("x")
openings = Path(__file__).with_name("openings").read_text().split()
how = openings[min(starts.stat().st_size, len(openings)) - 1]

def do(what):
    if what == "leave":
        os._exit(9)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        time.sleep(1000)
    if what == "refuse":
        raise OSError("no such card")
    if what == "fatal":
        raise FatalError("the tables changed")

def opening(configuration, send):
    do(how)
    def answer(request):
        task = request["task"]
        if task["attempt"] == 1:
            do(task.get("first"))
        for item in task["items"]:
            send({"begin": item})
            send({"note": f"at {item}"})
            do(item)
            send({"end": item, "result": {"did": item, "attempt": task["attempt"]}})
        do(task.get("last"))
        return {"done": True}
    # A new version for each process after the file says so.
    version = how if how.startswith("version") else "version1"
    identity = {"flag": configuration["name"], "version": version}
    return {"identity": identity, "worker": str(os.getpid())}, answer

serve(opening)
"""


pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "openings").write_text("well")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(local, "FIRST_PAUSE_SECONDS", 0.01)
    return tmp_path


def starts(folder: Path) -> int:
    """Return the number of started processes."""
    return len((folder / "starts").read_text())


EMPTY = {"task": {"items": [], "attempt": 1}}


def test_a_service_answers_and_is_replaced_where_it_dies(program: Path) -> None:
    with Service("program", {"name": "a"}) as service:
        assert service.process is None
        assert service.ask(EMPTY, Limits(60)) == {"done": True}
        assert service.ask(EMPTY, Limits(60)) == {"done": True}
        assert starts(program) == 1
        for what, cause, words in [
            ("leave", Cause.EXIT, "the worker left with exit code 9"),
            ("kill", Cause.OTHERS, "killed by SIGKILL (Killed)"),
            ("hang", Cause.TIMEOUT, "no end within 0.5 s"),
        ]:
            death = service.ask({"task": {"items": [], "attempt": 1, "first": what}}, Limits(0.5))
            assert isinstance(death, Death)
            assert (death.cause, death.words) == (cause, words)
            assert service.process is None
        assert service.ask(EMPTY, Limits(60)) == {"done": True}
        assert starts(program) == 4
        last = service.process
    assert last is not None
    assert last.process.returncode == -9


@pytest.mark.parametrize(
    ("how", "reason", "is_death"),
    [
        ("refuse", "OSError: no such card", False),
        ("fatal", "the tables changed", False),
        ("leave", "the worker left with exit code 9", True),
    ],
)
def test_a_service_that_does_not_open_says_why(
    program: Path, how: str, reason: str, is_death: bool
) -> None:
    (program / "openings").write_text(f"{how} well")
    with Service("program", {"name": "a"}) as service:
        with pytest.raises(OpeningError) as caught:
            service.open()
        assert str(caught.value).startswith(reason)
        assert (caught.value.is_death, caught.value.is_misnamed) == (is_death, False)
        assert service.process is None
        assert service.ask(EMPTY, Limits(60)) == {"done": True}


def test_a_service_has_the_time_to_open_that_is_declared(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program / "openings").write_text("hang")
    monkeypatch.setenv("TINYREF_OPEN_SECONDS", "1")
    with (
        Service("program", {"name": "a"}) as service,
        pytest.raises(OpeningError, match="no answer within 1 s"),
    ):
        service.open()


# --- many workers with tasks ----------------------------------------------------------------------


def executor(
    jobs: int = 1, seconds: float = 60.0, name: str = "a", **members: Any
) -> LocalExecutor:
    return LocalExecutor(Job("program", {"name": name}, seconds, **members), jobs)


def work(on: LocalExecutor, *tasks: Task) -> list[Event]:
    """Return all events of the tasks."""
    for task in tasks:
        on.submit(task)
    events: list[Event] = []
    while on.busy:
        events += on.events(0.1)
    return events


def done(events: list[Event]) -> list[Item]:
    return [event.item for event in events if isinstance(event, Result) and event.death is None]


def deaths(events: list[Event]) -> dict[Item, ItemDeath]:
    results = [event for event in events if isinstance(event, Result)]
    return {event.item: event.death for event in results if event.death is not None}


def test_each_death_costs_one_item_and_kills_of_others_are_tried_again(program: Path) -> None:
    with closing(executor(seconds=1.0)) as here:
        assert here.open()["identity"] == {"flag": "a", "version": "version1"}
        events = work(here, Task(("a", "leave", "b", "kill", "c", "hang", "d")))
    assert sorted(map(str, done(events))) == ["a", "b", "c", "d"]
    by_item = deaths(events)
    assert {item: death.death.cause for item, death in by_item.items()} == {
        "leave": Cause.EXIT,
        "kill": Cause.OTHERS,
        "hang": Cause.TIMEOUT,
    }
    assert by_item["leave"].death.words == "the worker left with exit code 9"
    assert (by_item["leave"].note, by_item["leave"].is_its_own) == ("at leave", True)
    assert (by_item["hang"].death.words, by_item["hang"].seconds) == ("no end within 1 s", 1.0)
    assert not by_item["kill"].is_its_own
    # One at first, and one after each death: there are three kills by others.
    assert starts(program) == 1 + 1 + 3 + 1
    # Excused deaths are reported all the same.
    assert [event.has_begun for event in events if isinstance(event, WorkerDied)] == [True, True]


def test_the_last_try_is_made_alone(program: Path) -> None:
    # It waits while others work, and they wait for it.
    with closing(executor(jobs=2)) as here:
        here.open()
        for name in ("kill", "a", "b", "c"):
            here.submit(Task((name,)))
        is_alone = []
        while here.busy:
            here.events(0.1)
            busy = [worker.task for worker in here._pool.workers if worker.task]
            if any(task.is_alone for task in busy):
                is_alone.append(len(busy) == 1)
    assert is_alone
    assert all(is_alone)


def test_a_death_before_an_item_counts_as_a_try_of_it(program: Path) -> None:
    # If kernels are compiled together first, the second attempt compiles them separately.
    with closing(executor()) as here:
        here.open()
        events = work(here, Task(("a", "b"), {"first": "leave"}))
        assert [event.has_begun for event in events if isinstance(event, WorkerDied)] == [False]
        answers = [event.answer for event in events if isinstance(event, Result)]
        assert answers == [{"did": name, "attempt": 2} for name in ("a", "b")]
        # A death after the last item is no item's fault.
        assert done(work(here, Task(("a",), {"last": "leave"}))) == ["a"]
        assert done(work(here, Task(("b",)))) == ["b"]


def test_a_task_has_a_time_of_its_own(program: Path) -> None:
    with closing(executor()) as here:
        here.open()
        events = work(
            here, Task(("hang",), seconds=0.5), Task(("a",), {"first": "hang"}, begin_seconds=0.5)
        )
    assert deaths(events)["hang"].death.words == "no end within 0.5 s"
    (early,) = [event for event in events if isinstance(event, WorkerDied)]
    assert early.death.words == "no begin within 0.5 s"
    assert done(events) == ["a"]


def test_no_more_workers_than_tasks_or_jobs(program: Path) -> None:
    with closing(executor(jobs=2)) as here:
        here.open()
        assert len(done(work(here, Task(("a",))))) == 1
        assert starts(program) == 1
        assert (here.workers, here.capacity) == (2, 3)
        assert len(done(work(here, *[Task(("a",))] * 9))) == 9
    assert starts(program) <= 2


def test_the_time_is_up_for_all_but_what_is_last(program: Path) -> None:
    with closing(executor(jobs=2)) as here:
        here.open()
        here.submit(Task(("a", "hang")))
        here.submit(Task(("b",), is_last=True))
        here.submit(Task(("c",)))
        here.submit(Task(("d",)))
        events: list[Event] = []
        while "a" not in done(events):
            events += here.events(0.1)
        here.wind_down()
        while here.busy:
            events += here.events(0.1)
    assert {"a", "b"} <= set(done(events))
    assert not deaths(events)
    assert list(here.unfinished) == ["hang"]


def test_a_worker_that_holds_too_much_is_ended_or_retires(program: Path) -> None:
    with closing(executor(memory=1 << 20)) as here:
        here.open()
        (died,) = deaths(work(here, Task(("hang",)))).values()
    assert died.death.words == "the worker held over 1 MiB"
    with (
        closing(executor(memory=1 << 20, retires=True)) as here,
        pytest.raises(UserError, match="MiB before its first case, more than half of its limit"),
    ):
        here.open()


def test_a_worker_retires_after_many_items(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_ITEMS", 2)
    with closing(executor(retires=True)) as here:
        here.open()
        tasks = [Task((name,)) for name in "abcde"]
        assert done(work(here, *tasks)) == list("abcde")
    assert starts(program) == 3


@pytest.mark.parametrize(
    ("openings", "count"), [("refuse well", 1), ("leave well", 2), ("leave leave leave well", 3)]
)
def test_a_device_that_refuses_is_final_and_one_that_dies_is_tried_again(
    program: Path, openings: str, count: int
) -> None:
    (program / "openings").write_text(openings)
    with closing(executor()) as here:
        if count == 2:
            here.open()
        else:
            with pytest.raises(OpeningError):
                here.open()
    assert starts(program) == count


def test_a_device_that_stops_opening_is_tried_again_one_worker_at_a_time(program: Path) -> None:
    (program / "openings").write_text("well refuse")
    with closing(executor(jobs=4)) as here:
        here.open()
        tasks = Task(("a",)), Task(("b",)), Task(("c",)), Task(("leave", "d"))
        with pytest.raises(DeviceGoneError, match=r"stopped opening in new workers.* no such card"):
            work(here, *tasks)
    assert starts(program) == 1 + 8


def test_a_device_that_changes_ends_the_run(program: Path) -> None:
    (program / "openings").write_text("version1 version2")
    with closing(executor()) as here:
        here.open()
        with pytest.raises(HarnessError, match="run was going on: version: version1 -> version2"):
            work(here, Task(("leave", "a")))


def test_what_is_fatal_ends_all(program: Path) -> None:
    with closing(executor()) as here:
        here.open()
        with pytest.raises(HarnessError, match="the tables changed"):
            work(here, Task(("a", "fatal", "b")))
    (program / "openings").write_text("fatal")
    with closing(executor()) as here, pytest.raises(HarnessError, match="the tables changed"):
        here.open()
