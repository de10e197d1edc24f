"""Failures that depend on what ran before: they are said to, with the shortest sequence."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tinyref.contract import Backend
from tinyref.errors import UserError
from tinyref.workers.processes import Limits
from tinyref.workers.progress import Progress, Quiet
from tinyref_conformance import history
from tinyref_conformance.conform import Finished, Request, as_sequence, conform
from tinyref_conformance.faulty.launches import leaking
from tinyref_conformance.faulty.registry import FAULTY_DEVICES
from tinyref_conformance.records import Outcome, Record
from tinyref_conformance.report import CaseResult
from tinyref_conformance.settings import Settings
from tinyref_conformance.statuses import Status
from tinyref_spec.delta_debugging import ddmin

HERE = Path(__file__).parent
CaseOf = Callable[[Finished, str], CaseResult]

# --- the search -----------------------------------------------------------------------------------


class Counting(history.Trials):
    """Trials of cases whose end a test knows: the last one fails after these, or so many."""

    def __init__(self, culprits: set[str], least: int = 0) -> None:
        super().__init__({}, {}, Limits(), math.inf, math.inf)
        self.culprits = culprits
        self.least = least
        self.count = 0

    def run(self, sequence: Sequence[str]) -> Record | None:
        self.count += 1
        before = sequence[:-1]
        fails = self.culprits <= set(before) and len(before) >= self.least
        return Record(sequence[-1], Status.FAIL if fails else Status.PASS, 2)


BEFORE = [f"c{number}" for number in range(1000)]


@pytest.mark.parametrize(
    ("culprits", "most"),
    [({"c999"}, 3), ({"c0"}, 25), ({"c500"}, 25), ({"c3", "c700"}, 60), ({"c1", "c2", "c3"}, 60)],
)
def test_the_cases_that_are_to_blame_are_found_in_few_trials(culprits: set[str], most: int) -> None:
    trials = Counting(culprits)
    found = trials.shortest(BEFORE, "victim")
    assert found is not None
    assert sorted(found) == sorted(culprits)
    assert trials.count <= most


def test_a_number_of_cases_may_be_to_blame_whichever_they_are() -> None:
    found = Counting(set(), least=49).shortest(BEFORE, "victim")
    assert found == BEFORE[-49:]


def test_what_explains_one_case_is_tried_first_for_the_next() -> None:
    trials = Counting({"c3", "c700"})
    assert trials.shortest(BEFORE, "victim") == ["c3", "c700"]
    count = trials.count
    assert trials.shortest(BEFORE, "another") == ["c3", "c700"]
    assert trials.count == count + 1


def test_what_does_not_fail_again_is_no_sequence() -> None:
    assert Counting({"unheard of"}).shortest(BEFORE, "victim") is None


def test_without_time_no_trial_begins() -> None:
    assert history.Trials({}, {}, Limits(), 0.0, math.inf).run(["victim"]) is None
    assert history.Trials({}, {}, Limits(), math.inf, 0.0).run(["victim"]) is None
    trials = history.Trials({}, {}, Limits(), 0.0, math.inf)
    found = history.explain(trials, BEFORE, Record("victim", Status.PASS, 2))
    assert found.message.endswith("was not looked for: there was no time left")


def test_delta_debugging_leaves_what_is_needed_in_its_order() -> None:
    def attempt(chosen: Sequence[int]) -> Sequence[int] | None:
        return chosen if {2, 5, 8} <= set(chosen) else None

    assert list(ddmin(list(range(10)), attempt)) == [2, 5, 8]
    assert list(ddmin([], attempt)) == []


def test_what_ran_before_is_that_of_the_same_worker() -> None:
    outcome = Outcome()
    for name, worker in (("a", "1"), ("b", "2"), ("c", "1"), ("d", "1"), ("e", "2")):
        outcome.add(Record(name, Status.PASS, worker=worker))
    outcome.add(Record("c", Status.PASS, 2))
    assert history.cases_before(outcome, Record("d", Status.FAIL, worker="1")) == ["a", "c"]
    assert history.cases_before(outcome, Record("e", Status.FAIL, worker="")) == []


# --- whole runs -----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_case_that_fails_after_another_says_so_and_how(fake: Any, case_of: CaseOf) -> None:
    done = fake.scenario("state").run(rerun_seconds=60.0)
    first = case_of(done, "isa.after.int32.special:0")
    assert first.status is Status.FLAKE
    assert first.message.endswith(
        "it depends on what ran before: it passes alone, and fails after isa.before.int32.special:1"
    )
    sequence = "isa.before.int32.special:1,isa.after.int32.special:0"
    assert first.repro == f"tinyref conform --device FAKE --profile quick --sequence {sequence}"
    assert (first.details or {})["sequence"] == sequence.split(",")
    assert "isa.before.int32.special:1" in (first.details or {})["script"]
    # What fails alone is what it was.
    assert case_of(done, "isa.after.int32.special:1").status is Status.FAIL
    assert done.report.exit_code == 1


class Counted(Quiet):
    """Record the progress that the runner reports while failures run again."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def update(self, progress: Progress) -> None:
        if progress.phase:
            self.said.append(progress.text)


@pytest.mark.long
def test_each_failure_that_runs_again_is_counted(fake: Any) -> None:
    counted = Counted()
    finished = conform(fake.scenario("fails").request(rerun_seconds=60.0), counted)
    count = sum(case.status is Status.FAIL for case in finished.report.cases)
    assert count > 0
    words = "failures run again, each alone"
    assert counted.said == [
        f"{words}: 0 of {count} (--no-rerun-failures leaves this out)",
        *(f"{words}: {done} of {count}" for done in range(1, count + 1)),
    ]


@pytest.mark.long
def test_a_sequence_runs_in_its_order_in_one_worker(fake: Any, case_of: CaseOf) -> None:
    request = as_sequence(
        fake.scenario("states").request(jobs=2),
        "isa.before.int32.special:3,isa.before.int32.special:1,isa.after.int32.special:0",
    )
    done = conform(request)
    assert fake.ran() == [
        *("isa.before.int32.special:3", "isa.before.int32.special:1", "isa.after.int32.special:0")
    ]
    assert case_of(done, "isa.after.int32.special:0").status is Status.FAIL
    assert "not a conformance run" in done.report.verdict


def test_a_sequence_may_be_longer_than_a_name_of_a_file(fake: Any) -> None:
    ids = tuple(f"isa.before.int32.special:{number}" for number in range(20))
    assert as_sequence(fake.request(), ",".join(ids)).settings.sequence == ids


@pytest.mark.slow
def test_the_report_has_the_sequence_of_a_case(fake: Any, tmp_path: Path) -> None:
    done = fake.scenario("states").run(rerun_seconds=60.0)
    report, case = fake.folder / "report.json", "isa.after.int32.special:0"
    wanted = ("isa.before.int32.special:1", "isa.before.int32.special:3", case)
    request = as_sequence(fake.request(query=case), str(report))
    assert request.settings.sequence == wanted
    assert done.report.counts[Status.FLAKE] == 1
    with pytest.raises(UserError, match=r"the report has none for 'isa\.mul'"):
        as_sequence(fake.request(query="isa.mul"), str(report))
    with pytest.raises(UserError, match="each case may be in it once"):
        as_sequence(fake.request(), "a,b,a")


@pytest.mark.slow
def test_a_crash_may_depend_on_what_ran_before(fake: Any, case_of: CaseOf) -> None:
    found = case_of(
        fake.scenario("dies_after").run(rerun_seconds=60.0), "isa.after.int32.special:0"
    )
    assert found.status is Status.FLAKE
    assert (found.details or {})["sequence"] == ["isa.before.int32.special:1", found.id]


@pytest.mark.long
def test_a_failure_is_not_run_again_where_nobody_asks(fake: Any, case_of: CaseOf) -> None:
    done = fake.scenario("state").run()
    assert case_of(done, "isa.after.int32.special:0").status is Status.FAIL
    assert len(fake.ran()) == 5


def leaking_device(name: str, launches: int) -> type[Backend]:
    """Return a device without room for this launch, and for later ones."""
    faulty = FAULTY_DEVICES["LeakingLaunches"]
    return replace(faulty, name=name, module=__name__, launch=leaking(launches)).backend


LeakingSoon = leaking_device("LeakingSoon", 6)
LeakingLater = leaking_device("LeakingLater", 40)


@pytest.mark.slow
def test_a_device_that_leaks_is_said_to_fail_after_so_many_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    settings = Settings("test_history:LeakingLater", tmp_path, jobs=1, rerun_seconds=math.inf)
    # The first is run again alone; the others say the same.
    monkeypatch.setattr(history, "in_order_of_rows", lambda cases: [next(iter(cases)).id])
    monkeypatch.setattr(history.Trials, "shortest", lambda *arguments: None)
    (group,) = conform(Request(settings, query="isa.unary.neg.float16")).report.groups
    assert group.cause == "all fail after about 40 launches of a process, and pass alone"
    assert group.statuses[Status.FLAKE] == 1
    assert group.statuses[Status.FAIL] > 20


NEGATIONS = [f"isa.unary.neg.float32.special:{number}" for number in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "query", "before", "case"),
    [
        (
            FAULTY_DEVICES["StaleKernels"].device,
            "kernel.store.constant.bool",
            ["kernel.store.constant.bool.value:0"],
            "kernel.store.constant.bool.value:1",
        ),
        (
            FAULTY_DEVICES["OverlappingMemory"].device,
            "memory.many,kernel.one_alu.add.float32.size:1",
            ["memory.many.two_hundred"],
            "kernel.one_alu.add.float32.size:1",
        ),
        (
            FAULTY_DEVICES["LeftMode"].device,
            "isa.unary.sqrt.float32.special:0,isa.binary.add.float32.special",
            ["isa.unary.sqrt.float32.special:0"],
            "isa.binary.add.float32.special:11",
        ),
        ("test_history:LeakingSoon", "isa.unary.neg.float32.special", NEGATIONS[:5], NEGATIONS[5]),
    ],
    ids=["stale", "overlapping", "mode", "leak"],
)
def test_a_faulty_device_is_shown_by_a_short_sequence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    query: str,
    before: list[str],
    case: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    request = Request(Settings(device, tmp_path, jobs=1, rerun_seconds=math.inf), query=query)
    # One of them is enough, and what comes after the first failure only takes time.
    monkeypatch.setattr(history, "in_order_of_rows", lambda cases: [next(iter(cases)).id])
    report = conform(request).report
    found = next(each for each in report.cases if each.status is Status.FLAKE)
    assert found.id == case
    assert (found.details or {})["sequence"] == [*before, case]
    script = tmp_path / "script.py"
    for name, code in ((device, 1), ("PYTHON", 0)):
        script.write_text((found.details or {})["script"].replace(device, name))
        assert subprocess.run([sys.executable, script], check=False).returncode == code, name
    # The printed command runs it, and it fails again.
    again = as_sequence(
        replace(request, settings=replace(request.settings, folder=tmp_path / "again")),
        ",".join([*before, case]),
    )
    statuses = {each.id: each.status for each in conform(again).report.cases}
    assert statuses[case] is Status.FAIL
