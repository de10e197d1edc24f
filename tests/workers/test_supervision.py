"""Services and supervised workers: a death costs one request or one item, and openings are retried.

All processes run PROGRAM; the file `openings` beside it says for each, in order, how it opens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tinyref.workers import supervisor
from tinyref.workers.processes import Cause, Death, Limits, Message, Pool
from tinyref.workers.service import FatalError, OpeningError, Service
from tinyref.workers.supervisor import Supervisor, Tries, WorkerProcess

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
        for item in request["items"]:
            send({"begin": item})
            do(item)
            send({"end": item})
        do(request.get("between"))
        return {"done": request["items"]}
    return {"named": configuration["name"]}, answer

serve(opening)
"""


pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "openings").write_text("well")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.01)
    return tmp_path


def starts(folder: Path) -> int:
    """How many processes were started."""
    return len((folder / "starts").read_text())


# --- one process that answers ---------------------------------------------------------------------


def test_a_service_answers_and_is_replaced_where_it_dies(program: Path) -> None:
    with Service("program", {"name": "a"}) as service:
        assert service.process is None
        assert service.ask({"items": []}, Limits(60)) == {"done": []}
        assert service.ask({"items": []}, Limits(60)) == {"done": []}
        assert starts(program) == 1
        for what, cause, words in [
            ("leave", Cause.EXIT, "the worker left with exit code 9"),
            ("kill", Cause.OTHERS, "killed by SIGKILL (Killed)"),
            ("hang", Cause.TIMEOUT, "no end within 0.5 s"),
        ]:
            death = service.ask({"items": [], "between": what}, Limits(0.5))
            assert isinstance(death, Death)
            assert (death.cause, death.words) == (cause, words)
            assert service.process is None
        assert service.ask({"items": []}, Limits(60)) == {"done": []}
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
        assert service.ask({"items": []}, Limits(60)) == {"done": []}


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


class Run:
    """Gives one list of items at a time to each worker, and tries again what is not pinned."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.pool: Pool[WorkerProcess[list[str]]] = Pool("program", {"name": "a"}, WorkerProcess)
        self.supervisor = Supervisor(self.pool, self, 60.0)
        self.limits = Limits(seconds)
        self.tries = Tries()
        self.waiting: list[list[str]] = []
        self.ended: list[str] = []
        self.deaths: dict[str, Cause] = {}
        self.opened: list[Any] = []

    def work(self, *tasks: list[str], jobs: int = 1) -> None:
        """Until nothing is left."""
        self.waiting = list(tasks)
        while self.waiting or self.supervisor.busy:
            for worker in self.supervisor.idle[: len(self.waiting)]:
                worker.task = self.waiting.pop()
                worker.limit(self.limits)
                worker.send({"items": worker.task})
            self.supervisor.grow(len(self.waiting), jobs)
            self.supervisor.listen(0.1)

    def on_opened(self, worker: WorkerProcess[list[str]], opened: Any) -> None:
        self.opened.append(opened)

    def on_message(self, worker: WorkerProcess[list[str]], message: Message) -> None:
        worker.item = message.get("begin")
        if "end" in message:
            self.ended.append(message["end"])
        if "done" in message:
            worker.task = None

    def on_death(self, worker: WorkerProcess[list[str]], death: Death) -> None:
        assert worker.task is not None
        left = worker.task[worker.task.index(worker.item) :]
        if self.tries.is_pinned(left[0], death, has_begun=True):
            self.deaths[left[0]] = death.cause
            left = left[1:]
        if left:
            self.waiting.append(left)


def test_each_death_costs_one_item_and_kills_of_others_are_tried_again(program: Path) -> None:
    run = Run(seconds=1.0)
    with run.pool:
        run.supervisor.open_first()
        run.work(["a", "leave", "b", "kill", "c", "hang", "d"])
    assert run.ended == ["a", "b", "c", "d"]
    assert run.deaths == {"leave": Cause.EXIT, "kill": Cause.OTHERS, "hang": Cause.TIMEOUT}
    # One at first, and one after each death: of what others kill there are three.
    assert starts(program) == 1 + 1 + 3 + 1
    assert run.opened == [{"named": "a"}] * 6


def test_no_more_workers_than_tasks_or_jobs() -> None:
    run = Run()
    with run.pool:
        run.supervisor.open_first()
        run.work(["a"], ["b"], jobs=4)
        assert len(run.pool.workers) <= 2
        run.work(*[["a"]] * 9, jobs=2)
        assert len(run.pool.workers) == 2


@pytest.mark.parametrize(
    ("openings", "count"), [("refuse well", 1), ("leave well", 2), ("leave leave leave well", 3)]
)
def test_a_device_that_refuses_is_final_and_one_that_dies_is_tried_again(
    program: Path, openings: str, count: int
) -> None:
    (program / "openings").write_text(openings)
    run = Run()
    with run.pool:
        if count == 2:
            run.supervisor.open_first()
        else:
            with pytest.raises(OpeningError):
                run.supervisor.open_first()
    assert starts(program) == count
    assert run.supervisor.has_opened is (count == 2)


def test_a_device_that_stops_opening_is_tried_so_often_one_worker_at_a_time(program: Path) -> None:
    (program / "openings").write_text("well refuse")
    run = Run()
    with run.pool:
        run.supervisor.open_first()
        with pytest.raises(OpeningError, match="no such card"):
            run.work(["a"], ["b"], ["c"], ["leave", "d"], jobs=4)
    assert starts(program) == 1 + 8


def test_what_is_fatal_ends_all(program: Path) -> None:
    run = Run()
    with run.pool:
        run.supervisor.open_first()
        with pytest.raises(FatalError, match="the tables changed"):
            run.work(["a", "fatal"])
    (program / "openings").write_text("fatal")
    run = Run()
    with run.pool, pytest.raises(FatalError, match="the tables changed"):
        run.supervisor.open_first()


def test_a_death_before_an_item_counts_as_a_try_of_it() -> None:
    tries = Tries()
    death = Death(Cause.EXIT, "the worker left with exit code 9")
    assert not tries.is_pinned("a", death, has_begun=False)
    assert not tries.is_last("a")
    assert not tries.is_pinned("a", death, has_begun=False)
    assert tries.is_last("a")
    assert tries.is_pinned("a", death, has_begun=False)
    assert tries.is_pinned("b", death, has_begun=True)
    assert not tries.is_pinned("c", Death(Cause.OTHERS, ""), has_begun=True)
