"""The score: what is made of what processes say, totals against targets, resuming, and a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.mutants import score as scoring
from tinyref_fuzz.mutants.records import Found, Row, Run, Score, Subject, Total, totals
from tinyref_fuzz.mutants.score import Scoring, Settings, describe, read_score, write_score
from tinyref_fuzz.mutants.subjects import subjects
from tinyref_fuzz.mutants.trial import Clock

SUBJECT = Subject("padto-max", "PADTO", "padto-max", "PYTHON", ("optimise", "lower"), ("PADTO",))
RIGHT = Found("optimise", "PADTO", "optimise/PADTO", nodes=4, opts=1, seconds=2.0)
WRONG = Found("expand", "", "expand value", nodes=9, opts=3, seconds=4.0)
KILLED = Run("padto-max", 0, 5, True, True, 3.0, 2.0, 12, "OPTIMISED", "VALUE", found=(RIGHT,))
LIVES = Run("padto-max", 1, 5, None, False, 60.0, 50.0, 400)


def test_a_row_counts_kills_blames_and_buckets():
    row = Row(SUBJECT, (KILLED, replace(KILLED, seed=1, seconds=5.0, found=(WRONG, RIGHT))))
    assert (row.kills, row.is_killed, row.seconds) == (2, True, 4.0)
    assert (row.stages_right, row.causes_right) == (1, 1)
    assert (row.nodes, row.opts, row.examination, row.buckets) == (6.5, 2, 3.0, 2)


def test_a_mutant_that_lives_under_one_seed_is_not_killed():
    row = Row(SUBJECT, (KILLED, LIVES))
    assert (row.kills, row.is_killed, row.is_triggered) == (1, False, True)
    assert Row(SUBJECT, (LIVES,)).is_triggered is None
    assert Row(SUBJECT, (LIVES,)).seconds is None


def test_no_runs_are_no_kill():
    assert not Row(SUBJECT, ()).is_killed


def value_of(found: list[Total], what: str) -> Total:
    return next(total for total in found if total.what == what)


def test_totals_are_held_against_the_targets():
    found = totals([Row(SUBJECT, (KILLED,))], 60.0, examines=True)
    assert [total.is_met for total in found] == [True] * 7
    poor = Row(SUBJECT, (replace(KILLED, seconds=9.0, found=(WRONG,)), LIVES))
    found = totals([poor], 60.0, examines=True)
    assert value_of(found, "mutants killed under every seed").value == 0
    assert [total.is_met for total in found if total.what.startswith("buckets")] == [True]
    assert sum(total.is_met for total in found) == 2


def test_an_examination_without_an_end_counts_as_a_wrong_blame():
    ended = Found(problem="the examination ended: killed by SIGSEGV")
    found = totals([Row(SUBJECT, (KILLED, replace(KILLED, found=(ended,))))], 60.0, examines=True)
    assert value_of(found, "blamed stage right").value == 0.5


def test_within_ten_minutes_all_have_to_be_killed():
    rows = [Row(SUBJECT, (KILLED,))] * 19 + [Row(SUBJECT, (LIVES,))]
    assert value_of(totals(rows, 60.0, False), "mutants killed under every seed").is_met
    assert not value_of(totals(rows, 600.0, False), "mutants killed under every seed").is_met


def test_race_mutants_are_counted_by_themselves():
    race = replace(SUBJECT, kind="missing leading barrier in a loop")
    found = totals([Row(SUBJECT, (KILLED,)), Row(race, (LIVES,))], 60.0, False)
    assert value_of(found, "barrier and race mutants killed").value == 0


def test_a_run_that_is_none_spoils_the_score():
    settings = {"seconds": 60.0, "examine": 10.0, "seeds": 1}
    assert Score(settings, "code", [Row(SUBJECT, (KILLED,))]).is_good
    refused = replace(KILLED, problem="the text stands 0 times")
    assert not Score(settings, "code", [Row(SUBJECT, (refused,))]).is_good


def test_runs_survive_json():
    assert Run.from_json(json.loads(json.dumps(KILLED.to_json()))) == KILLED


# --- what processes say -------------------------------------------------------------------------


def run_of(*messages: dict[str, object], death: str = "killed by SIGSEGV") -> Run:
    process = scoring._Process(subprocess.Popen(["true"]), Path("/nowhere"))
    process.process.wait()
    process.messages = list(messages)
    process.ready_at = 100.0 if process.first("ready") else None
    return scoring._run_of(process, scoring._Task(SUBJECT, 3), death, "the log", 107.0)


KILL = {
    "killed": 7,
    "pair": "PLAIN",
    "symptom": "RACE",
    "detail": "d",
    "seconds": 1.5,
    "wall": 4.0,
}
JUDGED = {"judged": 9, "reached": 4, "seconds": 6.0, "wall": 9.0}


def test_a_kill_is_told_by_its_case_and_time():
    run = run_of({"ready": True}, KILL, JUDGED, vars(RIGHT), {"done": True})
    assert (run.killed, run.seconds, run.cases, run.reached) == (True, 1.5, 8, 4)
    assert run.wall == 4.0
    assert run.found == (RIGHT,)
    assert describe(run) == "padto-max under seed 3: killed in 1.5 s by PLAIN RACE"


def test_what_lives_is_told_by_how_much_was_judged():
    run = run_of({"ready": True}, JUDGED, {"done": True})
    assert (run.killed, run.cases, run.seconds, run.reached) == (False, 9, 6.0, 4)
    assert describe(run) == "padto-max under seed 3: LIVES after 9 cases"


@pytest.mark.parametrize(
    ("death", "symptom", "seconds"),
    [("silent for 60 s", "HANG", 62.5), ("killed by SIGSEGV", "CRASH", 2.5)],
)
def test_a_crash_or_a_hang_of_the_process_is_a_kill(death, symptom, seconds):
    run = run_of({"ready": True}, {"at": 3, "seconds": 2.5, "wall": 5.0}, death=death)
    assert (run.killed, run.symptom, run.seconds, run.wall) == (True, symptom, seconds, 7.0)


def test_a_death_in_the_examination_leaves_the_kill_and_says_so():
    run = run_of({"ready": True}, KILL, JUDGED)
    assert run.killed
    assert run.found == (Found(problem="the examination ended: killed by SIGSEGV"),)


def test_a_compiler_that_does_not_even_start_is_killed():
    run = run_of({"broken": "TypeError: no"})
    assert (run.killed, run.detail) == (True, "TypeError: no")


def test_a_mutant_that_does_not_fit_is_no_run():
    run = run_of({"refused": "stands 0 times"})
    assert (run.killed, run.problem) == (False, "stands 0 times")
    assert "did not start" in run_of().problem


# --- files --------------------------------------------------------------------------------------


def test_an_interrupted_score_goes_on_with_what_is_not_known(tmp_path, monkeypatch):
    settings = Settings(seeds=2, seconds=5.0, examine=0.0)
    file = tmp_path / "score.json"
    half = Scoring([SUBJECT], settings, file, lambda line: None)
    half.runs["padto-max", 0] = KILLED
    write_score(file, half.score())
    asked = []
    rest = Scoring([SUBJECT], settings, file, lambda line: None)
    monkeypatch.setattr(rest, "_work", asked.append)
    rest.resume()
    assert rest.run().rows[0].runs == (KILLED,)
    assert [[task.seed for task in tasks] for tasks in asked] == [[1], []]


def test_a_score_of_other_settings_is_not_gone_on_with(tmp_path):
    file = tmp_path / "score.json"
    before = Scoring([SUBJECT], Settings(seeds=1), file, lambda line: None)
    write_score(file, before.score())
    with pytest.raises(UserError, match="other sources or settings"):
        Scoring([SUBJECT], Settings(seeds=2), file, lambda line: None).resume()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "x"}', "{"])
def test_what_is_no_score_is_refused(tmp_path, text):
    file = tmp_path / "score.json"
    file.write_text(text)
    with pytest.raises(UserError, match="score:"):
        read_score(file)


# --- subjects and processes ---------------------------------------------------------------------


def test_subjects_are_chosen_by_name_by_start_and_by_kind():
    assert [each.name for each in subjects("padto-max")] == ["padto-max"]
    assert all(each.name.startswith("llvm-") for each in subjects("llvm-*"))
    assert {each.kind for each in subjects("missing barrier")} == {"missing barrier"}
    assert len({each.name for each in subjects()}) == len(subjects())
    assert any(each.name == "device:FloorDivision" for each in subjects())
    with pytest.raises(UserError, match="'nobody' names none"):
        subjects("nobody")


def test_a_mutant_is_killed_and_a_healthy_compiler_lives(tmp_path):
    mutant = subjects("no-barrier-after-grouped-reduce")[0]
    healthy = replace(mutant, name="healthy", mutant="")
    settings = Settings(seeds=1, seconds=0.5, further=0.0, examine=0.0)
    found = Scoring([healthy], settings, None, lambda line: None).run()
    assert found.rows[0].kills == 0
    assert found.rows[0].runs[0].cases > 0
    settings = replace(settings, seconds=60.0)
    file = tmp_path / "score.json"
    found = Scoring([mutant], settings, file, lambda line: None).run()
    assert found.rows[0].is_killed
    assert json.loads(file.read_text())["mutants"][0]["kills"] == 1


def test_waiting_costs_a_mutant_no_time_and_children_do():
    clock = Clock()
    time.sleep(0.2)
    slept = clock.processor
    work = "x = 0\nfor i in range(1_000_000): x += i"
    subprocess.run([sys.executable, "-c", work], check=True)
    assert clock.wall > 0.2 > slept
    assert clock.processor > slept
