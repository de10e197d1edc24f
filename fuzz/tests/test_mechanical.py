"""Mutants made by machine: the operators, the sample, the lanes, the rates and the page."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tinyref
from tinyref.cli.entry import run as tinyref_command
from tinyref.errors import UserError
from tinyref.workers.processes import Cause, Death, Message
from tinyref_fuzz.mutants import mechanical_score
from tinyref_fuzz.mutants.lanes import LANES
from tinyref_fuzz.mutants.mechanical import (
    ROOMS,
    MechanicalMutant,
    mechanical_mutant,
    mutants_of,
    sample,
    source_of,
)
from tinyref_fuzz.mutants.mechanical_score import (
    DEVICES,
    MAX_FAILING,
    PROBED_SECONDS,
    MechanicalScoring,
    Sample,
    device_of,
    healthy,
    outcome_of,
    parse_lanes,
    subject_of,
    subjects_of,
)
from tinyref_fuzz.mutants.mechanical_summary import (
    IDENTICAL_KERNELS,
    KILLED,
    LIVES,
    Outcome,
    Summary,
    Survivor,
    page,
    parse_survivors,
    read_survivors,
    wilson_interval,
)
from tinyref_fuzz.mutants.mutant import MutantError
from tinyref_fuzz.mutants.operators import Edit
from tinyref_fuzz.mutants.reach import Table
from tinyref_fuzz.mutants.records import Run, Subject
from tinyref_fuzz.mutants.score import ScoreProcess, Scoring, Settings, Task
from tinyref_fuzz.mutants.template import block_of

ROOT = Path(str(tinyref.__file__)).parent.parent


def test_an_edit_of_a_text_that_is_gone_is_refused():
    mutant = MechanicalMutant("a/b/c/0", "c", "tinyref.a", Edit(3, "x", "y"))
    assert mutant.edit("abcxd") == ("abcyd", 1)
    with pytest.raises(MutantError, match="does not stand"):
        mutant.edit("abcd")
    with pytest.raises(MutantError, match="no such edit"):
        mechanical_mutant("views.view/none/operator/0")


@pytest.mark.long
def test_a_sample_is_the_same_each_time_and_its_beginning_is_one():
    found = [each.name for each in sample(30, 18)]
    assert [each.name for each in sample(10, 18)] == found[:10]
    assert set(found).isdisjoint(each.name for each in sample(10, 19))
    assert len({name.split(".")[0] for name in found}) >= 4
    assert mechanical_mutant(found[0]).name == found[0]
    for each in sample(30, 18):
        source = (ROOT / each.module.replace(".", "/")).with_suffix(".py")
        path = source if source.is_file() else source.with_suffix("") / "__init__.py"
        ast.parse(each.edit(path.read_text())[0])


# --- the lanes ----------------------------------------------------------------------------------


def test_lanes_are_named():
    assert parse_lanes("fuzz, conformance") == ("fuzz", "conformance")
    with pytest.raises(UserError, match="accepted are conformance, fuzz"):
        parse_lanes("fuzz,none")
    assert set(LANES) == {"room-tests", "tests", "conformance", "fuzz", "programs"}


def test_a_module_is_judged_on_the_device_that_runs_what_it_makes():
    assert device_of("tinyref.renderers.llvm") == "CPU"
    assert device_of("tinyref.renderers.llvm/LlvmFunction.store/off-by-one/2") == "CPU"
    library = "tinyref_fuzz.judge.devices:Library"
    assert device_of("tinyref.renderers.llvm/LlvmFunction.library/off-by-one/2") == library
    # Quotients of floats are made where there is no FDIV, as those by constants where IDIV is slow.
    core = "tinyref_fuzz.judge.devices:Core"
    assert device_of("tinyref.codegen.decompose.quotient/_root_digits/arguments/1") == core
    slow = "tinyref_fuzz.judge.devices:SlowDivision"
    assert device_of("tinyref.codegen.decompose.constant_division") == slow
    # Parts of pi are of use where they are subtracted one after the other.
    relaxed = "tinyref_fuzz.judge.devices:Relaxed"
    assert device_of("tinyref.codegen.decompose.sine/_reduced_below_two/constant/0") == relaxed
    assert device_of("tinyref.codegen.decompose.sine/_reduced_in_parts/constant/0") == core
    # Scratch memory is something that processors alone have.
    host = "tinyref_fuzz.judge.devices:Host"
    assert device_of("tinyref.codegen.lower/Lowering._packed/off-by-one/1") == host
    assert device_of("tinyref.codegen.lower/Lowering._reduce/condition/6") == "PYTHON"
    # A device without a grid runs the iterations of a loop at once; one of words stores parts.
    assert device_of("tinyref.interpret.loops/all_at_once.step/operator/0") == host
    assert device_of("tinyref.interpret.loops/one_by_one.step/operator/0") == "PYTHON"
    words = "tinyref_fuzz.judge.devices:Words"
    assert device_of("tinyref.interpret.run/Interpreter._words_of/operator/2") == words
    # A grid has to be cut where its dimensions are small.
    narrow = "tinyref_fuzz.judge.devices:Narrow"
    assert device_of("tinyref.optimise.launch/_covering_factors/off-by-one/2") == narrow
    assert device_of("tinyref.renderers.llvm_gpu") == "GPU_EMU"
    assert device_of("tinyref.renderers.ptx.function") == "PTX"
    assert (
        device_of("tinyref.renderers.cuda") == "tinyref.runtimes.emulated.cuda_emu:CudaEmuBackend"
    )
    assert device_of("tinyref.renderers.cuda_tiles") == "CUDA"
    hip = "tinyref.runtimes.emulated.hip_emu:HipEmuBackend"
    assert device_of("tinyref.renderers.c_language/CStyleLanguage.lane/operator/0") == hip
    assert device_of("tinyref.renderers.c_language/CStyleLanguage.literal/operator/0") == "CLANG"
    assert device_of("tinyref.views.view") == "PYTHON"
    rooms = {name.split(".")[1] for name in DEVICES if "." in name}
    assert rooms <= set(ROOMS)


MUTANT = MechanicalMutant(
    "views.view/f/operator/0", "operator", "tinyref.views.view", Edit(0, "", "")
)
OTHER = replace(MUTANT, name="views.view/f/operator/1")


def test_each_mutant_takes_every_lane_and_the_healthy_compiler_is_a_subject_of_each():
    names = [each.name for each in subjects_of([MUTANT, OTHER], ["fuzz", "tests"])]
    assert names == [
        "views.view/f/operator/0",
        "views.view/f/operator/0@tests",
        "views.view/f/operator/1",
        "views.view/f/operator/1@tests",
        "healthy@fuzz@PYTHON",
        "healthy@tests@PYTHON",
    ]


def test_only_what_lives_everywhere_has_its_programs_compared(monkeypatch):
    killed = Run(MUTANT.name, 0, killed=True)
    scoring = scoring_of(monkeypatch, {"m": killed, "o": Run(OTHER.name, 0)})
    names = [task.subject.name for task in scoring._traces()]
    assert names == ["healthy@programs@PYTHON", f"{OTHER.name}@programs"]
    assert f"{OTHER.name}@programs" not in {task.subject.name for task in scoring.to_go()}
    scoring.runs[f"{OTHER.name}@programs", 0] = Run(f"{OTHER.name}@programs", 0, traced=9)
    assert scoring._traces() == []
    (kept,) = (each for each in scoring.summary().outcomes if not each.is_killed)
    assert (kept.mutant, kept.differs, kept.traced) == (OTHER.name, False, 9)


def scoring_of(monkeypatch: pytest.MonkeyPatch, runs: dict[str, Run]) -> MechanicalScoring:
    monkeypatch.setattr(Sample, "mutants", lambda self: [MUTANT, OTHER])
    chosen = Sample(lanes=("fuzz",))
    scoring = MechanicalScoring(chosen, Settings(seeds=1), None, print)
    scoring.runs = {(run.subject, 0): run for run in runs.values()}
    return scoring


def test_a_lane_that_the_healthy_compiler_fails_counts_nothing(monkeypatch):
    healthy = Run("healthy@fuzz@PYTHON", 0)
    killed = Run(MUTANT.name, 0, killed=True, pair="PLAIN", symptom="VALUE")
    scoring = scoring_of(monkeypatch, {"h": healthy, "m": killed})
    assert [each.how for each in scoring.summary().outcomes] == ["PLAIN VALUE"]
    assert scoring.problems() == []
    scoring.runs[healthy.subject, 0] = replace(healthy, killed=True, detail="wrong")
    assert scoring.summary().outcomes == []
    assert scoring.problems() == ["healthy@fuzz@PYTHON: wrong"]


def test_a_run_that_is_none_counts_nothing(monkeypatch):
    runs = {"h": Run("healthy@fuzz@PYTHON", 0), "m": Run(MUTANT.name, 0, problem="no device")}
    assert scoring_of(monkeypatch, runs).summary().outcomes == []


def test_a_file_goes_on_with_other_lanes(monkeypatch, tmp_path):
    file = tmp_path / "score.json"
    first = scoring_of(monkeypatch, {"m": Run(MUTANT.name, 0, killed=True)})
    first.file = file
    first._save()
    monkeypatch.setattr(Sample, "mutants", lambda self: [MUTANT, OTHER])
    second = MechanicalScoring(Sample(lanes=("tests",)), Settings(seeds=1), file, print)
    second.resume()
    assert second.runs[MUTANT.name, 0].killed
    assert MUTANT.name not in {task.subject.name for task in second.to_go()}
    assert f"{OTHER.name}@tests" in {task.subject.name for task in second.to_go()}


def test_nothing_is_begun_after_the_minutes(monkeypatch):
    scoring = scoring_of(monkeypatch, {})
    scoring.settings = replace(scoring.settings, minutes=0.0)
    scoring.run()
    assert scoring.runs == {}
    assert len(scoring.to_go()) == 2


class Sent(ScoreProcess):
    """A process that has sent these messages."""

    def __init__(self, task: Task, *messages: Message) -> None:
        self.task = task
        self.messages = list(messages)
        self.started = 0.0
        self.ready_at = None
        self.folder = Path("/none")


LIVES_ALL = {"judged": 9, "reached": 0, "seconds": 1.0, "wall": 1.0}
ENDED = Death(Cause.EXIT, "it ended")
PLACE = ("fuzz", "PYTHON")
CHECK = healthy(*PLACE)


def test_what_lives_where_nothing_is_recorded_waits_for_the_record(monkeypatch):
    scoring = scoring_of(monkeypatch, {})
    task = scoring.to_go()[0]
    assert scoring.request_of(task)["probe"] == PROBED_SECONDS
    scoring.end_process(Sent(task, {"unfinished": 3}, LIVES_ALL, {"done": True}), ENDED)
    assert scoring.runs == {}
    assert list(scoring.waiting) == [Task(CHECK, 0), task]
    # A second one of the same place waits for the same record.
    scoring.end_process(Sent(task, {"unfinished": 3}, LIVES_ALL, {"done": True}), ENDED)
    assert list(scoring.waiting) == [Task(CHECK, 0), task, task]
    # Where the record came to nothing, all units are taken.
    scoring.runs[CHECK.name, 0] = Run(CHECK.name, 0)
    assert "probe" not in scoring.request_of(task)


@pytest.mark.parametrize(("count", "counts"), [(MAX_FAILING, True), (MAX_FAILING + 1, False)])
def test_a_device_that_fails_much_without_a_mutant_is_no_subject(monkeypatch, count, counts):
    killed = Run(MUTANT.name, 0, killed=True, pair="PLAIN", symptom="VALUE")
    scoring = scoring_of(monkeypatch, {"m": killed})
    scoring.waiting.append(Task(subject_of(OTHER, "fuzz"), 0))
    left_out = [f"{number}: wrong" for number in range(count)]
    record = Sent(Task(CHECK, 0), {**LIVES_ALL, "left_out": left_out}, {"done": True})
    scoring.end_process(record, ENDED)
    assert len(scoring.summary().outcomes) == int(counts)
    assert len(scoring.waiting) == len(scoring.to_go()) == int(counts)
    assert bool(scoring.problems()) is not counts


def test_tests_that_no_fork_can_run_are_left_out_alone(monkeypatch):
    scoring = scoring_of(monkeypatch, {})
    check = healthy("tests", "PYTHON")
    left_out = [f"tests/runtimes/{number}: no driver survives" for number in range(32)]
    record = Sent(Task(check, 0), {**LIVES_ALL, "left_out": left_out}, {"done": True})
    scoring.end_process(record, ENDED)
    assert scoring.problems() == []


def mutant_with(module: str, function: str, edit: str) -> MechanicalMutant:
    """The first edit that reads so: its number may change with the function."""
    found = mutants_of(
        f"tinyref.{module}", (ROOT / f"tinyref/{module.replace('.', '/')}.py").read_text()
    )
    place = f"{module}/{function}/"
    return next(e for e in found if e.name.startswith(place) and e.describe() == edit)


# A padding that takes the wrong one of two values.
SURE_MUTANT = mutant_with("optimise.padding", "_choice", "sources[2] -> True")
SURE = SURE_MUTANT.name
# Nothing is stored any more: that one every case shows.
STORES = "self._write(machine, node, index, value, active, width, bits) -> pass"
SURE_IN_ANY_CASE = mutant_with("interpret.machine", "Memory.store", STORES)
# Writes are in another order, which tensor programs show: the second case is the first of them.
SURE_IN_PROGRAMS = mutant_with("schedule.hazards", "Versions.next", "is -> is not")


@pytest.mark.long
def test_a_wrong_edit_is_killed_in_its_children_too():
    """The mutant is switched on as a child starts, in the module that it imports."""
    code = (
        "import os, subprocess, sys\n"
        "from tinyref_fuzz.mutants.child_processes import switch_on_in_children\n"
        f"switch_on_in_children({SURE!r})\n"
        "child = 'import tinyref.optimise.padding as m; print(type(m.__loader__).__name__)'\n"
        "print(subprocess.check_output([sys.executable, '-c', child], text=True).strip())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "_Loader", done.stderr[-2000:]


@pytest.mark.long
def test_a_surely_wrong_mutant_is_killed_and_one_of_another_device_changes_no_program():
    wrong = subject_of(SURE_IN_ANY_CASE, "fuzz")
    text = (ROOT / "tinyref/renderers/metal.py").read_text()
    metal = mutants_of("tinyref.renderers.metal", text)[0]
    # The interpreter never sees what is printed for another device.
    unseen = replace(subject_of(metal, "fuzz"), device="PYTHON")
    settings = Settings(seeds=1, seconds=2.0, further=0.0, examine=0.0, traced=4)
    scoring = Scoring([wrong, unseen], settings, None, lambda _: None)
    scoring.run()
    killed, lives = (scoring.runs[name, 0] for name in (wrong.name, unseen.name))
    assert (killed.killed, killed.problem) == (True, "")
    assert (lives.killed, lives.triggered, lives.traced) == (False, False, 4)


def scored(mutant: str, lane: str, **changes: float) -> tuple[MechanicalScoring, Run]:
    """A scoring of one mutant in one lane, and what it came to."""
    settings = Settings(seeds=1, further=0.0, examine=0.0, **changes)
    scoring = MechanicalScoring(Sample(lanes=(lane,), only=mutant), settings, None, print)
    scoring.run()
    name = subject_of(mechanical_mutant(mutant), lane).name
    return scoring, scoring.runs[name, 0]


@pytest.mark.slow
def test_a_lane_of_tests_kills_by_a_test_that_the_healthy_compiler_passes():
    scoring, run = scored(SURE, "room-tests")
    assert run.killed
    assert run.symptom == "TEST"
    # A slow machine records the whole lane, a fast one confirms this one test.
    assert run.detail.partition(": ")[0] in scoring.passed["room-tests", "PYTHON"]


@pytest.mark.slow
def test_the_lane_of_conformance_kills():
    assert scored(SURE_IN_ANY_CASE.name, "conformance")[1].killed


@pytest.mark.slow
def test_what_is_recorded_finds_the_same_and_no_unit_that_does_not_reach_the_mutant(monkeypatch):
    monkeypatch.setattr(mechanical_score, "PROBED_SECONDS", 1e-9)
    scoring, run = scored(SURE_IN_PROGRAMS.name, "fuzz", seconds=4.0, traced=0)
    assert run.killed
    table = Table.load(scoring.table_of(("fuzz", "PYTHON")))
    assert len(table.names) == scoring.runs["healthy@fuzz@PYTHON", 0].cases
    selected = table.select(block_of(SURE_IN_PROGRAMS), SURE_IN_PROGRAMS.room)
    assert run.cases <= len(selected) < len(table.names)
    assert sum(table.seconds) < 8
    metal = mutants_of("tinyref.renderers.metal", source_of("tinyref.renderers.metal"))[0]
    assert table.select(block_of(metal), metal.room) == []


@pytest.mark.slow
def test_programs_of_what_lives_are_compared_where_they_can_differ(monkeypatch):
    """One edit that no right view meets, and one that every kernel does."""
    same = mutant_with("views.view", "_check_members", "is_known(0, low) is False -> False")
    other = mutant_with("views.view", "contiguous_strides", "* -> +")
    monkeypatch.setattr(Sample, "mutants", lambda self: [same, other])
    settings = Settings(seeds=1, further=0.0, examine=0.0, traced=20)
    scoring = MechanicalScoring(Sample(lanes=("fuzz",)), settings, None, print)
    scoring.runs = {(each.name, 0): Run(each.name, 0) for each in (same, other)}
    scoring.run()
    found = {each.mutant: each for each in scoring.summary().outcomes}
    assert found[other.name].differs
    assert (found[other.name].traced, found[same.name].traced) == (20, 20)
    table = Table.load(scoring.table_of(("programs", "PYTHON")))
    assert [name.partition("=")[0] for name in table.names] == [str(n) for n in range(20)]
    assert scoring.to_go() == []


@pytest.mark.long
def test_the_command_lists_the_edits_and_refuses_other_lanes(capsys):
    assert tinyref_command(["fuzz", "score", "--mechanical", "--only", SURE, "--list"]) == 0
    assert capsys.readouterr().out.split() == [SURE, "sources[2]", "->", "True"]
    words = ["fuzz", "score", "--mechanical", "--lanes", "none", "--list"]
    assert tinyref_command(words) == 2
    assert "accepted are conformance, fuzz" in capsys.readouterr().err


# --- rates and page ----------------------------------------------------------------------------


def test_the_interval_is_that_of_wilson():
    low, high = wilson_interval(8, 10)
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)
    assert wilson_interval(0, 0) == (0.0, 1.0)
    low, high = wilson_interval(10, 10)
    assert (round(low, 4), high) == (0.7225, 1.0)


@pytest.mark.long
def test_the_interval_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for hits, count in ((0, 7), (3, 40), (570, 600)):
        expected = stats.binomtest(hits, count).proportion_ci(method="wilson")
        assert wilson_interval(hits, count) == pytest.approx((expected.low, expected.high))


def summary_of(*outcomes: Outcome) -> Summary:
    return Summary("code", 18, 600, outcomes)


A, B, C = "views.a/f/operator/0", "views.b/f/constant/0", "codegen.c/f/domain/0"
EVERY = (
    Outcome(A, "fuzz", KILLED, "x -> y", 1.0, 3.0),
    Outcome(A, "conformance", LIVES, "x -> y"),
    Outcome(B, "fuzz", LIVES, "1 -> 2", differs=False, traced=60),
    Outcome(B, "conformance", LIVES, "1 -> 2"),
    Outcome(C, "fuzz", LIVES, "a -> b", differs=True),
)


def test_a_rate_is_of_what_had_its_turn():
    rates = {rate.what: (rate.killed, rate.count) for rate in summary_of(*EVERY).rates([])}
    assert rates == {
        "quick conformance": (0, 2),
        "fuzzer": (1, 3),
        "conformance or fuzzer": (1, 3),
    }


def test_same_programs_set_a_mutant_aside_on_enough_kernels_alone():
    assert summary_of(*EVERY).set_aside([]) == set()
    enough = replace(EVERY[2], traced=IDENTICAL_KERNELS)
    summary = summary_of(*EVERY[:2], enough, *EVERY[3:])
    assert summary.set_aside([]) == {B}
    assert [(rate.killed, rate.count) for rate in summary.rates([])] == [(0, 1), (1, 2), (1, 2)]


def test_a_proof_is_of_one_edit_of_what_nothing_killed():
    proof = Survivor(B, "1 -> 2", "equivalent", "never read")
    assert summary_of(*EVERY).set_aside([proof]) == {B}
    assert summary_of(*EVERY).set_aside([replace(proof, edit="1 -> 3")]) == set()
    assert summary_of(*EVERY).set_aside([replace(proof, kind="performance")]) == set()
    with pytest.raises(UserError, match="was killed"):
        summary_of(*EVERY).set_aside([Survivor(A, "x -> y", "equivalent", "wrong")])


def test_goals_of_programs_are_of_values_and_those_of_tests_of_all():
    tests = [Outcome(A, "tests", KILLED, "x -> y"), Outcome(C, "tests", LIVES, "a -> b")]
    chosen = [replace(each, edit_class="choice") if each.mutant == C else each for each in EVERY]
    summary = summary_of(*chosen, tests[0], replace(tests[1], edit_class="choice"))
    rates = {rate.what: (rate.killed, rate.count) for rate in summary.rates([])}
    assert rates["fuzzer"] == (1, 2)
    assert rates["quick tests"] == (1, 2)
    assert {rate.what: (rate.killed, rate.count) for rate in summary.rates_of([])}["fuzzer"] == (
        1,
        3,
    )
    assert [(r.what, r.killed, r.count) for r in summary.rates_of([], "choice")] == [
        ("quick tests", 0, 1),
        ("fuzzer", 0, 1),
        ("conformance or fuzzer", 0, 1),
    ]
    lines = page(summary, []).splitlines()
    assert "| fuzzer | 1 of 2 |  | 0 of 1 | 1 of 3 |" in lines
    assert "| fuzzer | 1 | 2 | 50.0 % | 9.5 to 90.5 % | 85 % |" in lines


def test_what_was_read_to_change_no_value_is_left_out_where_it_lives():
    read = [Survivor(C, "a -> b", "performance", "slower"), Survivor(B, "1 -> 2", "case", "drawn")]
    summary = summary_of(*EVERY)
    rates = {rate.what: (rate.killed, rate.count) for rate in summary.rates_of_read(read)}
    assert rates == {
        "quick conformance": (0, 2),
        "fuzzer": (1, 2),
        "conformance or fuzzer": (1, 2),
    }
    # What kills it counts, whatever was read; and what was read is of one edit.
    said = [Survivor(A, "x -> y", "text", "a name"), Survivor(C, "a -> c", "performance", "slow")]
    rates = {rate.what: (rate.killed, rate.count) for rate in summary.rates_of_read(said)}
    assert rates == {
        "quick conformance": (0, 1),
        "fuzzer": (1, 3),
        "conformance or fuzzer": (1, 3),
    }
    assert "| fuzzer | 1 | 2 | 50.0 % | 9.5 to 90.5 % | 85 % |" in page(summary, read)


def test_a_wrong_value_contradicts_another_class():
    assert "yet found by a wrong value: 0 of 0." in page(summary_of(*EVERY), [])
    wrong = replace(EVERY[0], edit_class="choice", how="PLAIN VALUE")
    refused = replace(wrong, mutant=C, how="PLAIN ERROR")
    text = page(summary_of(wrong, refused), [])
    assert f"yet found by a wrong value: 1 of 2: `{A}`." in text
    assert not replace(wrong, lane="tests").contradicts
    assert not replace(wrong, edit_class="value").contradicts


def test_more_than_may_be_set_aside_misses_the_goal():
    killed = [Outcome(f"views.a/f/operator/{i}", "fuzz", KILLED, "x -> y") for i in range(19)]
    proof = Survivor(B, "1 -> 2", "equivalent", "never read")
    lives = Outcome(B, "fuzz", LIVES, "1 -> 2")
    twenty = summary_of(*killed, lives)
    assert (twenty.share_aside([proof]), twenty.is_good([proof])) == (0.05, True)
    assert "Set aside as equivalent: 1 of 20, 5.0 %, at most 5 %: met." in page(twenty, [proof])
    # One of nineteen is more, whatever the rates are.
    fewer = summary_of(*killed[1:], lives)
    assert [rate.value for rate in fewer.rates([proof])] == [1.0]
    assert not fewer.is_good([proof])
    assert "at most 5 %: MISSED" in page(fewer, [proof])


def test_a_class_that_there_is_not_is_refused():
    with pytest.raises(UserError, match="accepted are equivalent, performance"):
        parse_survivors('[[survivor]]\nmutant="a"\nedit="b"\nkind="c"\nwords="d"\n')


def test_a_summary_survives_json_and_another_file_is_refused():
    summary = summary_of(*EVERY)
    assert Summary.from_json(json.loads(json.dumps(summary.to_json()))) == Summary(
        "code", 18, 600, list(EVERY), 60.0
    )
    with pytest.raises(UserError, match="this is no tinyref-fuzz-mechanical"):
        Summary.from_json({"schema": "tinyref-fuzz-score", "version": 1})
    with pytest.raises(UserError, match="version 3: accepted is 1 or 2"):
        Summary.from_json({**summary.to_json(), "version": 3})


def test_a_summary_of_version_1_gets_classes_by_names():
    data = json.loads(json.dumps(summary_of(*EVERY).to_json()))
    for each in data["outcomes"]:
        del each["edit_class"]
    data["outcomes"][0]["mutant"] = "optimise.actions/gone/operator/0"
    found = Summary.from_json({**data, "version": 1}).outcomes
    assert [each.edit_class for each in found[:2]] == ["choice", "value"]


def test_the_page_shows_rates_and_what_lives():
    said = [Survivor(C, "a -> b", "performance", "another | choice\nof two")]
    lines = page(summary_of(*EVERY), said).splitlines()
    assert "| fuzzer | 1 | 3 | 33.3 % | 6.1 to 79.2 % | 85 % |" in lines
    assert "| views | 0 of 2 | 1 of 2 |" in lines
    wanted = (
        f"| `{C}` | `a -> b` | value | fuzz | differ | performance | another \\| choice of two |"
    )
    assert wanted in lines


def test_what_is_kept_of_a_run():
    mutant = mutants_of("tinyref.views.view", source_of("tinyref.views.view"))[0]
    subject = Subject(mutant.name, "operator", mutant.name, "PYTHON", ())
    run = Run(mutant.name, 0, triggered=False, seconds=60.04, wall=70.0, traced=60)
    assert outcome_of(subject, run, mutant) == Outcome(
        *(mutant.name, "fuzz", LIVES, mutant.describe(), 60.0, 70.0, False, 60, "")
    )
    # Kernels have the same programs whatever becomes of the scheduler or of the semantics of an op.
    for beyond in ("schedule.order/f/domain/0", "algebra.semantics/add/operator/0"):
        kept = outcome_of(replace(subject, mutant=beyond), run, mutant)
        assert (kept.differs, kept.traced) == (None, 0)


STORES = sorted((ROOT / "docs").glob("mutants*.json"))


def test_the_pages_of_the_docs_are_those_of_their_stores():
    assert ROOT / "docs/mutants.json" in STORES
    for store in STORES:
        summary = Summary.from_json(json.loads(store.read_text()))
        assert page(summary, read_survivors()) == store.with_suffix(".md").read_text()


def test_what_is_said_of_survivors_is_of_mutants_that_live():
    summaries = [Summary.from_json(json.loads(store.read_text())) for store in STORES]
    outcomes = [each for summary in summaries for each in summary.outcomes]
    lives = {(each.mutant, each.edit) for each in outcomes if not each.is_killed}
    said = [(each.mutant, each.edit) for each in read_survivors()]
    assert set(said) <= lives
    assert len(set(said)) == len(said)
    assert all(len(each.words.split()) >= 6 for each in read_survivors())
