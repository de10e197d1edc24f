"""kill -9 of the main process, and runs that go on: nothing measured is lost or run twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from running import is_running

from tinyref.errors import UserError
from tinyref.workers import run as run_loop
from tinyref.workers.run import Progress, Quiet
from tinyref_conformance.conform import conform
from tinyref_conformance.journal import CaseJournal
from tinyref_conformance.statuses import Status

SCRIPT = """
import sys
from pathlib import Path
from tinyref_conformance.conform import ConformRequest, conform
from tinyref_conformance.settings import RunSettings
settings = RunSettings(
    "FAKE", Path(sys.argv[1]), jobs=2, catalogue="fake_catalogue", resume="resume" in sys.argv
)
conform(ConformRequest(settings))
"""


def start(fake: Any) -> subprocess.Popen[bytes]:
    # A shell that starts tests in the background ignores Ctrl-C for all that they start.
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(fake.folder)],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )


def wait_for(fake: Any, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(fake.ran()) < count:
        assert time.monotonic() < deadline, "the run does not get going"
        time.sleep(0.01)


def workers_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def journalled(fake: Any) -> list[str]:
    journal = CaseJournal.open(fake.folder)
    try:
        return [record.case for record in journal.records()]
    finally:
        journal.close()


@pytest.mark.slow
def test_kill_of_the_main_process_loses_nothing_and_leaves_no_orphan(fake: Any) -> None:
    fake.scenario("long")
    process = start(fake)
    wait_for(fake, 25)
    workers = workers_of(process.pid)
    assert len(workers) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 5
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlives the main process"
        time.sleep(0.01)
    measured = journalled(fake)
    assert 20 < len(measured) < 80
    assert len(set(measured)) == len(measured)

    report = fake.run(resume=True, jobs=2).report
    assert report.exit_code == 0
    assert report.counts[Status.PASS] == 80
    assert report.certificate["resumed_cases"] == len(measured)
    runs = Counter(fake.ran())
    assert all(runs[name] == 1 for name in measured)
    # The kill loses the case that a worker runs, and the one whose result is on its way.
    assert sum(count > 1 for count in runs.values()) <= 2 * len(workers)
    assert max(runs.values()) <= 2


class Mover(Quiet):
    """Moves a folder away when 25 cases are decided."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def update(self, progress: Progress) -> None:
        if progress.done >= 25 and self.folder.exists():
            self.folder.rename(self.folder.with_name("elsewhere"))


def test_a_folder_that_is_moved_during_a_run_loses_nothing(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loop, "CHECK_SECONDS", 0.0)
    fake.scenario("long")
    with pytest.raises(UserError, match="was removed or moved during the run, which ends"):
        conform(fake.request(jobs=2), Mover(fake.folder))
    fake.folder.with_name("elsewhere").rename(fake.folder)
    measured = journalled(fake)
    assert 20 < len(measured) < 80
    report = fake.run(resume=True, jobs=2).report
    assert report.counts[Status.PASS] == 80
    assert report.certificate["resumed_cases"] == len(measured)
    assert max(Counter(fake.ran()).values()) <= 2


@pytest.mark.long
def test_a_resume_of_another_run_or_device_is_refused(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.scenario("good", "fails").run()
    words = r"then -> now\): query: \* -> isa.add; number of cases: 10 -> 3: go on"
    with pytest.raises(UserError, match=words):
        fake.run(resume=True, query="isa.add")
    # The tables, the device and the flags change.
    with pytest.raises(UserError, match=r"suite hash: [0-9a-f]{64} -> [0-9a-f]{64}"):
        fake.scenario("good").run(resume=True)
    fake.scenario("good", "fails")
    for name, value, says in (
        ("FAKE_VERSION", "2.0", "version fake: 1.0 -> 2.0: go on with --resume --restart"),
        ("TINYREF_NOOPT", "1", r"flag NOOPT: \(none\) -> 1"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(UserError, match=says):
                fake.run(resume=True)
    report = json.loads((fake.folder / "report.json").read_text())
    assert report["certificate"]["device_versions"] == {"fake": "1.0"}

    monkeypatch.setenv("FAKE_VERSION", "2.0")
    ran = len(fake.ran())
    again = fake.run(resume=True, restart=True)
    assert len(fake.ran()) == 2 * ran
    assert again.report.certificate["resumed_cases"] == 0
    assert json.loads((fake.folder / "report.previous.json").read_text()) == report
    assert fake.run(resume=True).report.counts == again.report.counts
    assert len(fake.ran()) == 2 * ran


def test_a_resume_of_nothing_is_refused(fake: Any) -> None:
    with pytest.raises(UserError, match="there is no interrupted run"):
        fake.scenario("good").run(resume=True)
    fake.folder.mkdir(exist_ok=True)
    (fake.folder / CaseJournal.NAME).write_text("this is no journal\n")
    for resume in (True, False):
        with pytest.raises(UserError, match="is damaged or not a journal: file is not a database"):
            fake.run(resume=resume)


def test_two_runs_do_not_share_a_folder(fake: Any) -> None:
    fake.folder.mkdir()
    held = CaseJournal.lock(fake.folder)
    with pytest.raises(
        UserError, match=r"another run is writing to .*: give this one its own --out"
    ):
        fake.scenario("good").run()
    held.release()
