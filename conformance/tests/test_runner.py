"""The runner on cases that pass, fail, crash, hang, eat memory and raise, in real processes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reports_of import case_of

from tinyref.errors import UserError
from tinyref.folders import prepare_folder
from tinyref.runtimes import stored_programs
from tinyref.workers import local
from tinyref_conformance import runner, worker
from tinyref_conformance.ladder import RungState, climb
from tinyref_conformance.report import Report, load
from tinyref_conformance.statuses import Status, exit_code
from tinyref_spec.case import Rung


def test_a_worker_stores_the_programs_that_it_lowers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_programs, "_storing", threading.Event())
    monkeypatch.setattr(worker, "serve", lambda opener: None)
    worker.main()
    assert stored_programs._storing.is_set()


@pytest.mark.long
def test_a_good_device_conforms_without_a_search(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    class Recording(local.Pool):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            started.append(self.environment["TINYREF_BEAM"])

    monkeypatch.setenv("TINYREF_BEAM", "4")
    monkeypatch.setattr(local, "Pool", Recording)
    done = fake.scenario("good").run(jobs=2)
    assert started == ["0"]
    assert done.report.exit_code == 0
    assert done.report.verdict == "FAKE conforms to the quick profile"
    assert done.report.counts == {Status.PASS: 7}
    assert sorted(path.name for path in done.files) == [
        "badge.svg",
        "junit.xml",
        "report.html",
        "report.json",
        "report.sarif",
        "summary.md",
    ]


@pytest.mark.long
def test_short_rows_share_a_task(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[list[str]] = []
    submit = local.LocalExecutor.submit

    def recording(executor: local.LocalExecutor, task: Any) -> None:
        tasks.append([*task.items])
        submit(executor, task)

    monkeypatch.setattr(local.LocalExecutor, "submit", recording)
    for cost, sizes in ((runner.TASK_COST, [5, 2]), (0.0, [2, 3, 2])):
        tasks.clear()
        monkeypatch.setattr(runner, "TASK_COST", cost)
        fake.scenario("good").run(jobs=2)
        assert list(map(len, tasks)) == sizes


BAD = {
    "fails": (Status.FAIL, "accuracy", "expected 1.0, got 2.0"),
    "empty": (Status.FAIL, "accuracy", "compared nothing"),
    "raises": (Status.FAIL, "run", "ValueError: a bug in the case"),
    "no_memory": (Status.CRASH, "run", "out of memory"),
    "compile_error": (Status.FAIL, "compile", "syntax error near 'flaot'"),
    "segfaults": (Status.CRASH, "run", "killed by SIGSEGV"),
    "killed": (
        Status.CRASH,
        "run",
        "killed by SIGKILL (Killed); it was tried 3 times, at last alone",
    ),
    "hangs": (Status.TIMEOUT, "run", "no end within 1 s"),
}


@pytest.mark.long
def test_a_bad_case_is_pinned_and_the_rest_goes_on(fake: Any) -> None:
    done = fake.scenario(*BAD).run(jobs=2, timeout=1.0)
    for name, (status, phase, says) in BAD.items():
        bad = case_of(done, f"isa.{name}.int32.special:1")
        assert (bad.status, bad.phase) == (status, phase)
        assert says in bad.message
        assert bad.repro == f"tinyref conform --device FAKE --profile quick --query {bad.id}"
        assert bad.details is not None
        assert 0 < len(bad.details["script"].splitlines()) < 40
    assert done.report.counts[Status.PASS] == 2 * len(BAD)
    assert fake.ran().count("isa.killed.int32.special:1") == 3
    assert done.report.exit_code == 1


@pytest.mark.long
def test_a_broken_case_suppresses_what_names_it_until_the_run_keeps_going(fake: Any) -> None:
    done = fake.scenario("edge").run(jobs=2)
    assert done.report.first_broken is Rung.MEMORY
    assert done.report.rungs[Rung.MEMORY].counts == {Status.FAIL: 1, Status.PASS: 1}
    assert case_of(done, "isa.on_plain.int32.special:0").status is Status.PASS
    assert case_of(done, "isa.on_edge.int32.special:0").message == (
        "it depends on memory.low.special:0, which is broken"
    )
    assert case_of(done, "tensor.above.int32.special:0").message == (
        "it depends on isa.on_edge.int32, which is suppressed by memory.low.special:0"
    )
    assert done.report.suppressors == {"memory.low.special:0": 2}
    ran = len(fake.ran())
    after = fake.run(resume=True, keep_going=True)
    assert after.report.counts == {Status.FAIL: 1, Status.PASS: 4}
    assert len(fake.ran()) == ran + 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "says"),
    [("refuse", "no such card in this machine"), ("abort", "killed by SIGABRT")],
)
def test_a_device_that_does_not_open_gives_a_report(fake: Any, how: str, says: str) -> None:
    fake.monkeypatch.setenv("FAKE_OPEN", how)
    done = fake.scenario("good").run()
    assert done.report.exit_code == 1
    assert done.report.first_broken is Rung.OPEN
    assert says in case_of(done, "device.open").message
    assert done.report.counts == {Status.SUPPRESSED: 7}
    assert (fake.folder / "report.html").exists()


@pytest.mark.long
def test_skips_need_a_reason_and_a_proven_refusal_none(fake: Any) -> None:
    done = fake.scenario("skipped", "refusal", "unexplained", "good").run()
    skipped = case_of(done, "isa.add.float16.special:0")
    assert skipped.status is Status.SKIP
    assert skipped.message == "the device does not declare the dtype float16"
    assert case_of(done, "isa.refusal.int8.special:0").status is Status.UNSUPPORTED
    bad = case_of(done, "isa.odd.int8.special:0")
    assert bad.status is Status.FAIL
    assert "skipped without a reason" in bad.message


@pytest.mark.long
def test_a_failure_that_passes_again_is_a_flake(fake: Any) -> None:
    done = fake.scenario("flaky", "fails").run(rerun_seconds=60.0)
    flake = case_of(done, "isa.flaky.int32.special:1")
    assert (flake.status, flake.attempts) == (Status.FLAKE, 2)
    assert case_of(done, "isa.fails.int32.special:1").status is Status.FAIL
    assert flake.message.endswith("it passes alone, and also after the 1 that ran before it")
    # Once more as what ran before the flake, in another worker.
    assert fake.ran().count("isa.flaky.int32.special:0") == 2
    assert done.report.exit_code == 1


@pytest.mark.long
def test_fail_fast_names_the_first_failure_alone(fake: Any) -> None:
    report = fake.scenario("twice").run(fail_fast=True, jobs=1).report
    case = "isa.twice.int32.special:0"
    assert report.problems == [
        f"stopped at the first failure, {case}, because of --fail-fast: it was not run again "
        "alone, and may depend on what ran before"
    ]
    assert report.counts[Status.FAIL] == 1


@pytest.mark.long
def test_a_query_names_a_set_and_reduces_the_run(fake: Any) -> None:
    done = fake.scenario("good").run(query="isa.add.*")
    assert done.report.counts == {Status.PASS: 3}
    assert "not a conformance run" in done.report.verdict
    for path in done.files:
        text = path.read_text().lower()
        assert "not a conformance run" in text or '"conformance_run": false' in text
    assert fake.ran() == [f"isa.add.float32.special:{i}" for i in range(3)]


@pytest.mark.long
def test_rows_that_depend_on_each_other_are_refused(fake: Any) -> None:
    with pytest.raises(UserError, match="depend on each other in a circle"):
        fake.scenario("circle").run()


def test_a_folder_that_cannot_be_written_is_named_before_the_run(fake: Any, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    with pytest.raises(UserError, match=r"out: cannot write to .*file"):
        prepare_folder(occupied / "report", "out")
    fake.folder = occupied
    with pytest.raises(UserError, match="out: cannot write to"):
        fake.scenario("good").run()
    assert fake.ran() == []


def test_an_update_needs_a_reason_and_a_link(fake: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--reason"):
        fake.scenario("fails").run(expectations=tmp_path / "x.toml", update=True)
    with pytest.raises(UserError, match="--expectations FILE"):
        fake.run(update=True)
    assert fake.ran() == []


Run = Callable[..., Report]
QUERY = "system.transfer.view.uint8"
FAULTY = "tinyref_conformance.faulty:RoundedTransferOffset"


@pytest.mark.long
def test_a_run_with_a_second_device_says_so_and_goes_on_with_it_alone(
    conformed: Run, tmp_path: Path
) -> None:
    run = functools.partial(conformed, "PYTHON", QUERY, folder=tmp_path)
    report = run(second="CPU")
    assert report.counts[Status.PASS] == 7
    assert report.verdict.startswith("PYTHON with CPU: 7 cases pass")
    assert report.certificate["second"] == "CPU"
    assert "llvmlite" in report.certificate["second_versions"]
    assert "PYTHON with CPU" in (tmp_path / "report.html").read_text()
    assert load(tmp_path / "report.json").device == "PYTHON with CPU"
    with pytest.raises(UserError, match=r"second device: CPU -> CPU:1"):
        run(second="CPU:1", resume=True)
    assert run(second="CPU", resume=True).exit_code == 0


@pytest.mark.long
def test_a_failure_is_run_again_with_both(conformed: Run) -> None:
    report = conformed(FAULTY, QUERY, second=f"{FAULTY}:3")
    failing = [case for case in report.cases if case.status is Status.FAIL]
    assert len(failing) == 5
    assert f"from {FAULTY} to {FAULTY}:3: the target: element" in failing[0].message
    assert f"--device {FAULTY} --second {FAULTY}:3 --profile" in failing[0].repro
    assert failing[0].details is not None
    assert f"second='{FAULTY}:3'" in failing[0].details["script"]


def test_a_second_device_that_is_none_is_refused(conformed: Run) -> None:
    with pytest.raises(UserError, match=r"no\.such:Device: its package does not import"):
        conformed("PYTHON", QUERY, second="no.such:Device")


def broken(report: Report) -> dict[str, str]:
    return {case.id: case.message for case in report.cases if case.status.is_broken}


@pytest.mark.long
@pytest.mark.parametrize(
    ("device", "ends"),
    [
        ("Losing", "PYTHON: device lost"),
        ("DeadLaunches", "kernel.store.constant.float32.size:1 passed before, and fails now"),
    ],
)
def test_a_lost_device_is_opened_again_and_the_case_pinned(
    conformed: Run, device: str, ends: str
) -> None:
    query = (
        "kernel.store.constant.float32.size:1,kernel.one_alu.add.float32,kernel.one_alu.mul.float32"
    )
    report = conformed(f"dying_devices:{device}", query)
    ((case, message),) = broken(report).items()
    assert case == "kernel.one_alu.add.float32.size:2"
    assert message.endswith(f"\nthe device was lost, and is opened again: {ends}")
    assert report.counts == {Status.CRASH: 1, Status.PASS: 10}


@pytest.mark.long
def test_a_device_that_copies_wrongly_from_the_beginning_is_not_lost(conformed: Run) -> None:
    counts = conformed("dying_devices:Miscopying", "memory.copy.uint8,memory.copy.int32").counts
    assert counts[Status.CRASH] == 0
    assert counts[Status.FAIL] > 5


@pytest.mark.long
def test_what_a_device_says_at_length_is_cut(conformed: Run, tmp_path: Path) -> None:
    report = conformed("dying_devices:Wordy", "kernel.one_alu.add.float32.size:2")
    (message,) = broken(report).values()
    assert message.startswith("WORDY: said again. said again. ")
    assert message.endswith("\n... 1160007 more characters")
    assert (tmp_path / "Wordy" / "report.json").stat().st_size < 400_000


@pytest.mark.parametrize(
    ("statuses", "problems", "code"),
    [
        *(("PASS " + status, [], 1) for status in ("FAIL", "CRASH", "TIMEOUT", "FLAKE")),
        *(("PASS " + status, [], 1) for status in ("UNEXPECTED_PASS", "MISSING")),
        *((status + " SKIP", [], 0) for status in ("PASS", "UNSUPPORTED", "EXPECTED_FAIL")),
        *((status, [], 1) for status in ("", "SKIP", "SUPPRESSED")),
        ("PASS", ["an expectation names no case"], 1),
    ],
)
def test_a_run_is_green_if_it_measured_and_nothing_failed(
    statuses: str, problems: list[str], code: int
) -> None:
    assert exit_code([Status[status] for status in statuses.split()], problems) == code


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        ([], RungState.EMPTY),
        ([Status.SKIP], RungState.SKIPPED),
        ([Status.SKIP, Status.PASS], RungState.HOLDS),
        ([Status.EXPECTED_FAIL], RungState.HOLDS),
        ([Status.PASS, Status.MISSING], RungState.INCOMPLETE),
        ([Status.PASS, Status.SUPPRESSED], RungState.SUPPRESSED),
        ([Status.SUPPRESSED, Status.FLAKE], RungState.BROKEN),
    ],
)
def test_the_state_of_a_rung(statuses: list[Status], state: RungState) -> None:
    reports = climb((Rung.GATE, status) for status in statuses)
    assert reports[Rung.GATE].state is state
