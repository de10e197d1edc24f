"""The score: messages of processes, totals against targets, resuming, and a kill."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tinyref.cli.entry import run as tinyref
from tinyref.cli.fuzz.score import resume_command
from tinyref.errors import UserError
from tinyref.probe import Probed
from tinyref.workers.processes import Cause, Death, Pipes, Pool, WorkerProcess
from tinyref_fuzz.mutants import score as scoring
from tinyref_fuzz.mutants.records import ExaminedFinding, Row, Run, Score, Subject, Total, totals
from tinyref_fuzz.mutants.score import Scoring, Settings, describe, read_score, write_score
from tinyref_fuzz.mutants.subjects import subjects
from tinyref_fuzz.mutants.trial import Clock

SUBJECT = Subject("padto-max", "PADTO", "padto-max", "PYTHON", ("optimise", "lower"), ("PADTO",))
OTHER = replace(SUBJECT, name="padto-exp2", mutant="padto-exp2")
RIGHT = ExaminedFinding("optimise", "PADTO", "optimise/PADTO", nodes=4, opts=1, seconds=2.0)
WRONG = ExaminedFinding("expand", "", "expand value", nodes=9, opts=3, seconds=4.0)
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
    ended = ExaminedFinding(problem="the examination ended: killed by SIGSEGV")
    found = totals([Row(SUBJECT, (KILLED, replace(KILLED, found=(ended,))))], 60.0, examines=True)
    assert value_of(found, "blamed stage right").value == 0.5


def test_within_ten_minutes_all_have_to_be_killed():
    rows = [Row(SUBJECT, (KILLED,))] * 19 + [Row(SUBJECT, (LIVES,))]
    assert value_of(totals(rows, 60.0, False), "mutants killed under every seed").is_met
    assert not value_of(totals(rows, 600.0, False), "mutants killed under every seed").is_met


def test_race_mutants_are_counted_by_themselves():
    race = replace(SUBJECT, is_race=True)
    found = totals([Row(SUBJECT, (KILLED,)), Row(race, (LIVES,))], 60.0, False)
    assert value_of(found, "barrier and race mutants killed").value == 0


def test_a_run_that_is_none_spoils_the_score():
    settings = {"seconds": 60.0, "examine": 10.0, "seeds": 1}
    assert Score(settings, "code", [Row(SUBJECT, (KILLED,))]).is_good
    refused = replace(KILLED, problem="the text stands 0 times")
    assert not Score(settings, "code", [Row(SUBJECT, (refused,))]).is_good


def test_a_score_with_missing_runs_is_not_good():
    settings = {"seconds": 60.0, "examine": 10.0, "seeds": 2}
    both = Row(SUBJECT, (KILLED, replace(KILLED, seed=1)))
    assert Score(settings, "code", [both]).missing == 0
    assert Score(settings, "code", [both]).is_good
    half = Score(settings, "code", [both, Row(OTHER, (replace(KILLED, subject="padto-exp2"),))])
    assert half.missing == 1
    assert not half.is_good


def test_runs_survive_json():
    assert Run.from_json(json.loads(json.dumps(KILLED.to_json()))) == KILLED


# --- messages of processes ---------------------------------------------------------------------


CRASHED = Death(Cause.EXIT, "killed by SIGSEGV", "the log")
HUNG = Death(Cause.TIMEOUT, "no end within 60 s", "the log")


def run_of(*messages: dict[str, object], death: Death = CRASHED) -> Run:
    process = scoring.ScoreProcess(subprocess.Popen(["true"]), Path("/nowhere"), Pipes(-1, -1, ""))
    process.process.wait()
    process.messages = list(messages)
    process.ready_at = 100.0 if process.first("ready") else None
    return scoring._run_of(process, scoring.Task(SUBJECT, 3), death, 107.0)


KILL = {
    "killed": 7,
    "pair": "PLAIN",
    "symptom": "RACE",
    "detail": "d",
    "seconds": 1.5,
    "wall": 4.0,
}
JUDGED = {"judged": 9, "reached": 4, "seconds": 6.0, "wall": 9.0}


def test_a_kill_is_described_by_its_case_and_time():
    run = run_of({"ready": True}, KILL, JUDGED, vars(RIGHT), {"done": True})
    assert (run.killed, run.seconds, run.cases, run.reached) == (True, 1.5, 8, 4)
    assert run.wall == 4.0
    assert run.found == (RIGHT,)
    assert describe(run) == "padto-max under seed 3: killed in 1.5 s by PLAIN RACE"


def test_what_lives_is_described_by_how_much_was_judged():
    run = run_of({"ready": True}, JUDGED, {"done": True})
    assert (run.killed, run.cases, run.seconds, run.reached) == (False, 9, 6.0, 4)
    assert describe(run) == "padto-max under seed 3: LIVES after 9 cases"


@pytest.mark.parametrize(
    ("death", "symptom", "seconds"),
    [
        (HUNG, "HANG", 62.5),
        (Death(Cause.MEMORY, "the worker held over 3072 MiB"), "MEMORY", 2.5),
        (CRASHED, "CRASH", 2.5),
    ],
)
def test_a_crash_or_a_hang_of_the_process_is_a_kill(death, symptom, seconds):
    alive = {"at": 3, "seconds": 2.5, "wall": 5.0}
    run = run_of({"begun": True}, {"ready": True}, alive, death=death)
    assert (run.killed, run.symptom, run.seconds, run.wall) == (True, symptom, seconds, 7.0)
    # The case under way is the one that found it.
    assert run.cases == 4


@pytest.mark.parametrize(
    ("death", "symptom", "seconds"),
    [(HUNG, "HANG", 60.0), (CRASHED, "CRASH", 0.0)],
)
def test_a_compiler_that_dies_as_it_is_imported_is_killed(death, symptom, seconds):
    run = run_of({"begun": True}, death=death)
    assert (run.killed, run.symptom, run.seconds, run.problem) == (True, symptom, seconds, "")
    assert run.cases == 0


def test_what_somebody_else_killed_is_no_run():
    death = Death(Cause.OTHERS, "killed by SIGKILL (Killed)")
    run = run_of({"begun": True}, {"ready": True}, death=death)
    assert (run.killed, run.problem) == (False, "killed by SIGKILL (Killed), not by the score")


def test_a_death_in_the_examination_leaves_the_kill_and_says_so():
    run = run_of({"ready": True}, KILL, JUDGED)
    assert run.killed
    assert run.found == (ExaminedFinding(problem="the examination ended: killed by SIGSEGV"),)


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


def test_two_scores_do_not_write_to_one_file(tmp_path, monkeypatch):
    file = tmp_path / "score.json"
    write_score(file, Scoring([SUBJECT], Settings(seeds=1), file, lambda line: None).score())
    first = Scoring([SUBJECT], Settings(seeds=1), file, lambda line: None)
    monkeypatch.setattr(first, "_work", lambda tasks: None)
    first.resume()
    for second in (Scoring([OTHER], Settings(seeds=1), file, lambda line: None) for _ in range(2)):
        with pytest.raises(
            UserError, match=r"another score is writing to .*score\.json: give this"
        ):
            second.run()
        with pytest.raises(UserError, match="another score is writing to"):
            second.resume()
    first.run()
    last = Scoring([SUBJECT], Settings(seeds=1), file, lambda line: None)
    monkeypatch.setattr(last, "_work", lambda tasks: None)
    last.resume()
    # A link to it is the same file.
    link = tmp_path / "link.json"
    link.symlink_to(file)
    with pytest.raises(UserError, match="another score is writing to"):
        Scoring([SUBJECT], Settings(seeds=1), link, lambda line: None).resume()
    last.run()
    assert {path.name for path in tmp_path.iterdir()} == {"score.json", "link.json"}


def test_a_score_of_other_settings_is_not_gone_on_with(tmp_path):
    file = tmp_path / "score.json"
    before = Scoring([SUBJECT], Settings(seeds=1), file, lambda line: None)
    write_score(file, before.score())
    with pytest.raises(
        UserError, match=r"\(then -> now\): seeds: 1 -> 2: go on with --resume --res"
    ):
        Scoring([SUBJECT], Settings(seeds=2), file, lambda line: None).resume()


def test_a_score_under_other_flags_is_kept_and_begun_anew(tmp_path, monkeypatch):
    file = tmp_path / "score.json"
    finished(monkeypatch, file, KILLED)
    earlier = file.read_text()
    monkeypatch.setenv("TINYREF_NOOPT", "1")
    with pytest.raises(UserError, match=r"then -> now\): flag NOOPT: \(none\) -> 1: go on"):
        scoring_of(monkeypatch, [SUBJECT], file).resume()
    rest = scoring_of(monkeypatch, [SUBJECT], file)
    rest.resume(restart=True)
    assert len(rest.to_go()) == 1
    rest.run()
    assert (tmp_path / "score.previous.json").read_text() == earlier


def quiet(line: str) -> None:
    pass


def scoring_of(monkeypatch, chosen: list[Subject], file: Path, report=quiet) -> Scoring:
    """A scoring under one seed that starts no process."""
    found = Scoring(chosen, Settings(seeds=1, seconds=5.0, examine=0.0), file, report)
    monkeypatch.setattr(found, "_work", lambda tasks: None)
    return found


def finished(monkeypatch, file: Path, *runs: Run) -> None:
    """Writes a score of both subjects that has these runs."""
    found = scoring_of(monkeypatch, [SUBJECT, OTHER], file)
    found.runs = {(run.subject, run.seed): run for run in runs}
    write_score(file, found.score())


KILLED_OTHER = replace(KILLED, subject="padto-exp2")


def test_runs_of_subjects_that_are_not_chosen_stay_in_the_file(tmp_path, monkeypatch):
    file, messages = tmp_path / "score.json", []
    finished(monkeypatch, file, KILLED, KILLED_OTHER)
    rest = scoring_of(monkeypatch, [OTHER], file, messages.append)
    rest.resume()
    found = rest.run()
    assert [row.subject.name for row in found.rows] == ["padto-max", "padto-exp2"]
    assert [run["subject"] for run in read_score(file)["runs"]] == ["padto-max", "padto-exp2"]
    assert messages == [f"score: {file} keeps 1 more, not chosen; the summary counts them too"]


def test_only_runs_of_chosen_subjects_are_to_go(tmp_path, monkeypatch):
    file = tmp_path / "score.json"
    finished(monkeypatch, file, KILLED)
    rest = scoring_of(monkeypatch, [OTHER], file)
    rest.resume()
    assert [task.subject.name for task in rest.to_go()] == ["padto-exp2"]


def test_a_subject_of_the_file_that_is_gone_is_reported(tmp_path, monkeypatch):
    file = tmp_path / "score.json"
    gone = replace(SUBJECT, name="device:Gone")
    write_score(file, scoring_of(monkeypatch, [gone], file).score())
    with pytest.raises(UserError, match="has device:Gone, which is not in --list"):
        scoring_of(monkeypatch, [SUBJECT], file).resume()


def test_a_run_that_was_none_is_tried_again(tmp_path, monkeypatch):
    file = tmp_path / "score.json"
    finished(monkeypatch, file, Run("padto-max", 0, problem="did not start"), KILLED_OTHER)
    rest = scoring_of(monkeypatch, [SUBJECT, OTHER], file)
    rest.resume()
    assert [task.subject.name for task in rest.to_go()] == ["padto-max"]


def test_a_score_that_is_not_there_yet_is_begun(tmp_path, monkeypatch):
    file, messages = tmp_path / "score.json", []
    rest = scoring_of(monkeypatch, [SUBJECT], file, messages.append)
    rest.resume()
    assert messages == [f"score: there is no {file} yet: nothing to go on with"]
    assert len(rest.to_go()) == 1


@pytest.mark.long
def test_an_earlier_score_is_kept_beside_a_new_one(tmp_path, monkeypatch):
    file, previous, messages = tmp_path / "score.json", tmp_path / "score.previous.json", []
    finished(monkeypatch, file, KILLED)
    earlier = file.read_text()
    scoring_of(monkeypatch, [SUBJECT], file, messages.append).run()
    assert read_score(file)["runs"] == []
    assert previous.read_text() == earlier
    assert messages == [f"score: {file} was there: kept as {previous}"]
    # One of no runs, or of runs that came to nothing, is not kept.
    scoring_of(monkeypatch, [SUBJECT], file, messages.append).run()
    finished(monkeypatch, file, Run("padto-max", 0, problem="did not start"))
    scoring_of(monkeypatch, [SUBJECT], file, messages.append).run()
    assert len(messages) == 1
    # A second one takes the place of none, whatever has the name.
    finished(monkeypatch, file, KILLED, KILLED_OTHER)
    scoring_of(monkeypatch, [SUBJECT], file).run()
    assert previous.read_text() == earlier
    assert len(read_score(tmp_path / "score.previous1.json")["runs"]) == 2
    assert len(os.listdir(tmp_path)) == 3


def test_a_score_that_is_gone_on_with_is_not_set_aside(tmp_path, monkeypatch):
    file = tmp_path / "score.json"
    finished(monkeypatch, file, KILLED)
    rest = scoring_of(monkeypatch, [SUBJECT], file)
    rest.resume()
    rest.run()
    assert os.listdir(tmp_path) == ["score.json"]


@pytest.mark.parametrize("text", ["{}", "my thesis\n"])
def test_a_score_takes_the_place_of_no_other_file(tmp_path, monkeypatch, text):
    file = tmp_path / "score.json"
    file.write_text(text)
    found = scoring_of(monkeypatch, [SUBJECT], file)
    monkeypatch.setattr(found, "_work", lambda tasks: pytest.fail("something runs"))
    with pytest.raises(UserError, match=r"score\.json.*: move it away, or name another file"):
        found.run()
    assert file.read_text() == text


def test_the_folder_of_the_score_is_made(tmp_path, monkeypatch):
    file = tmp_path / "out" / "deep" / "score.json"
    scoring_of(monkeypatch, [SUBJECT], file).run()
    assert read_score(file)["runs"] == []


@pytest.mark.parametrize("name", ["folder", "file/score.json"])
def test_a_score_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path, monkeypatch, name
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    found = Scoring([SUBJECT], Settings(seeds=1), tmp_path / name, quiet)
    monkeypatch.setattr(found, "_work", lambda tasks: pytest.fail("something runs"))
    with pytest.raises(UserError, match=f"score: cannot write to {tmp_path}/(folder|file)"):
        found.run()


def test_a_full_disk_leaves_what_the_file_held(tmp_path, monkeypatch):
    file = tmp_path / "score.json"
    finished(monkeypatch, file, KILLED)
    before = file.read_text()

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(UserError, match=r"score\.json: .*No space left"):
            finished(monkeypatch, file, KILLED, KILLED_OTHER)
    assert file.read_text() == before
    assert os.listdir(tmp_path) == ["score.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "x"}', "{", "[" * 100_000, "\udcff"])
def test_what_is_no_score_is_refused(tmp_path, text):
    file = tmp_path / "score.json"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(UserError, match=r"score\.json"):
        read_score(file)


@pytest.mark.parametrize(
    "change",
    [
        {"runs": [{"subject": "padto-max"}]},
        {"runs": [{**KILLED.to_json(), "color": "red"}]},
        {"runs": None},
        {"runs": [7]},
        {"mutants": [{}]},
    ],
)
def test_a_damaged_score_is_not_gone_on_with(tmp_path, monkeypatch, change):
    file = tmp_path / "score.json"
    finished(monkeypatch, file, KILLED)
    file.write_text(json.dumps({**read_score(file), **change}))
    with pytest.raises(UserError, match=r"score\.json is damaged"):
        scoring_of(monkeypatch, [SUBJECT], file).resume()


def test_a_score_without_sources_is_not_gone_on_with(tmp_path):
    file = tmp_path / "score.json"
    file.write_text(json.dumps({"schema": "tinyref-fuzz-score", "version": 2}))
    with pytest.raises(UserError, match=r"sources: None -> 0"):
        Scoring([SUBJECT], Settings(), file, quiet).resume()


# --- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "inf"], "seconds: expected a number of seconds, got inf"),
        (["--further", "inf"], "further: expected a number of seconds, got inf"),
        (["--examine", "inf"], "examine: expected a number of seconds, got inf"),
        (["--seconds", "0"], "--seconds"),
        (["--seeds", "0"], "--seeds"),
        (["--jobs", "100000"], "--jobs"),
        (["--only", "nobody"], "'nobody' names none"),
        (["--only", " , "], "' , ' names none"),
        (["--resume"], "--resume needs the --json file"),
    ],
)
def test_what_cannot_be_scored_is_reported(words, message, capsys, monkeypatch):
    monkeypatch.setattr(Scoring, "run", lambda self: pytest.fail("something runs"))
    assert tinyref(["fuzz", "score", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_interrupted_score_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(self: Scoring) -> Score:
        raise KeyboardInterrupt

    monkeypatch.setattr(Scoring, "run", interrupted)
    words = ["fuzz", "score", "--only", "padto-max", "--seeds", "2", "--json", "a b.json"]
    monkeypatch.chdir(tmp_path)
    assert tinyref(words) == 130
    messages = capsys.readouterr().err
    assert "tinyref fuzz score --only padto-max --seeds 2 --json 'a b.json' --resume" in messages


def test_the_command_that_goes_on_has_all_settings():
    settings = Settings(7, 90.5, 3, 4.0, 0.0, 10_000_000)
    assert resume_command("", settings, Path("s.json")) == (
        "tinyref fuzz score --seeds 7 --seconds 90.5 --jobs 3 --further 4.0 --examine 0.0 "
        "--first 10000000 --json s.json --resume"
    )
    assert resume_command("llvm-*", Settings(), Path("s.json")) == (
        "tinyref fuzz score --only 'llvm-*' --json s.json --resume"
    )


# --- subjects and processes ---------------------------------------------------------------------


def test_subjects_are_chosen_by_name_by_start_and_by_kind():
    assert [each.name for each in subjects("padto-max")] == ["padto-max"]
    assert all(each.name.startswith("llvm-") for each in subjects("llvm-*"))
    assert {each.kind for each in subjects("missing barrier")} == {"missing barrier"}
    assert len({each.name for each in subjects()}) == len(subjects())
    assert any(each.name == "device:FloorDivision" for each in subjects())
    with pytest.raises(UserError, match="'nobody' names none"):
        subjects("nobody")


def test_subjects_stand_in_the_order_of_the_catalogue_and_once():
    found = subjects("padto-exp2, padto-max,padto-exp2")
    assert [each.name for each in found] == ["padto-max", "padto-exp2"]


def test_a_mutant_without_its_device_is_no_run_and_no_kill(monkeypatch):
    gone = Probed("PYTHON", False, "no such compiler")
    monkeypatch.setattr(scoring, "probe", lambda names: [gone for _ in names])
    messages: list[str] = []
    found = Scoring([SUBJECT], Settings(seeds=2), None, messages.append).run()
    problem = "PYTHON is not available here: no such compiler"
    assert [run.problem for run in found.rows[0].runs] == [problem, problem]
    assert found.rows[0].kills == 0
    assert messages == [f"score: {problem}: left out are padto-max"]


TRIAL = """
from dataclasses import replace
from tinyref_fuzz.mutants import catalogue, trial
mutant = catalogue.MUTANTS["max-of-lanes-as-sum"]
catalogue.MUTANTS = {mutant.name: replace(mutant, old="no such text anywhere")}
trial.main()
"""


@pytest.mark.long
def test_an_edit_that_does_not_fit_is_refused_and_no_kill(tmp_path, monkeypatch):
    request = {"mutant": "max-of-lanes-as-sum", "device": "PYTHON", "seed": 0, "seconds": 1.0}
    (tmp_path / "misfit.py").write_text(TRIAL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Pool("misfit", {}, WorkerProcess) as pool:
        pool.start().send(request)
        events: list[object] = []
        while not events or not isinstance(events[-1], Death):
            events += [event for _, event in pool.events(60)]
    assert "stands 0 times" in events[-2]["refused"]


@pytest.mark.parametrize(
    ("mutant", "healthy", "triggered"),
    [(["a", "b"], ["a", "b"], False), (["a", "c"], ["a", "b"], True), (["a"], ["a", "b"], True)],
)
def test_what_lives_is_triggered_where_a_program_differs(mutant, healthy, triggered):
    found = Scoring([SUBJECT], Settings(seeds=2), None, quiet)
    found.runs["padto-max", 1] = LIVES
    traced(found, SUBJECT, mutant, is_done=True)
    traced(found, replace(SUBJECT, mutant=""), healthy, is_done=True)
    found._compare()
    assert found.runs["padto-max", 1].triggered is triggered


def test_programs_that_are_not_all_known_are_not_compared():
    found = Scoring([SUBJECT], Settings(seeds=2), None, quiet)
    found.runs["padto-max", 1] = LIVES
    traced(found, SUBJECT, ["a", "b"], is_done=True)
    traced(found, replace(SUBJECT, mutant=""), ["a"], is_done=False)
    found._compare()
    assert found.runs["padto-max", 1].triggered is None


def traced(found: Scoring, subject: Subject, digests: list[str], is_done: bool) -> None:
    process = scoring.ScoreProcess(subprocess.Popen(["true"]), Path("/nowhere"), Pipes(-1, -1, ""))
    process.process.wait()
    process.messages = [{"digest": digest} for digest in digests] + [{"done": True}] * is_done
    found._trace_digests(process, scoring.Task(subject, 1, "trace"))


@pytest.mark.long
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


@pytest.mark.long
def test_waiting_costs_a_mutant_no_time_and_children_do():
    clock = Clock()
    time.sleep(0.2)
    slept = clock.processor
    work = "x = 0\nfor i in range(1_000_000): x += i"
    subprocess.run([sys.executable, "-c", work], check=True)
    assert clock.wall > 0.2 > slept
    assert clock.processor > slept
