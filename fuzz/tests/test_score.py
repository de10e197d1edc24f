"""The score: results of runs, statistics, and how a scoring is resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.faults import FAULTS, trial
from tinyref_fuzz.faults.score import FaultRun, FaultScore, Goal, ScoreSettings, Scoring, goals
from tinyref_fuzz.faults.trial import run_trial

NAME = "max-of-lanes-as-sum"
FOUND = FaultRun(NAME, 0, True, 2.0, 5, stage="expand", nodes=4, buckets=("a", "b"))
QUICK = ScoreSettings(seeds=1, seconds=20.0, further=0.0, examine=5.0, jobs=1)


def row(*runs: FaultRun) -> FaultScore:
    return FaultScore(FAULTS[NAME], runs)


def goal(name: str, rows: list[FaultScore], examines: bool = True) -> Goal:
    return next(item for item in goals(rows, examines) if item.name == name)


def scoring(
    settings: ScoreSettings, file: Path | None, messages: list[str] | None = None
) -> Scoring:
    lines = [] if messages is None else messages
    return Scoring([FAULTS[NAME]], settings, file, lines.append)


# --- counting ------------------------------------------------------------------------------------


def test_a_fault_that_one_seed_does_not_find_is_not_found() -> None:
    rows = [row(FOUND, replace(FOUND, seed=1, is_found=False)), row(FOUND)]
    assert [fault_score.is_found for fault_score in rows] == [False, True]
    assert goal("faults found under every seed", rows).value == 0.5
    assert not goal("faults found under every seed", rows).is_met
    assert not row().is_found


# --- what becomes of a process -------------------------------------------------------------------


def test_an_error_of_the_generator_reveals_the_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*args: object) -> None:
        raise ValueError("not a lane")

    sent: list[dict] = []
    monkeypatch.setattr(trial, "judge_cases", broken)
    monkeypatch.setattr(trial.os, "_exit", lambda code: None)
    monkeypatch.setattr(trial, "Channel", lambda: FakeChannel(sent))
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(tmp_path))
    trial.main()
    assert sent[-2]["is_found"] is True
    assert "ValueError: not a lane" in sent[-2]["detail"]
    assert sent[-1] == {"is_complete": True}


class FakeChannel:
    """Channel that asks for one fault, and records what is sent."""

    def __init__(self, sent: list[dict]) -> None:
        self.asked = iter([{"seconds": 5.0}, {"fault": NAME, "seed": 0, "folder": ""}])
        self.send = sent.append

    def receive(self) -> dict:
        return next(self.asked)


@pytest.mark.long
@pytest.mark.parametrize("name", [NAME, "flip-gradient-not-flipped"])
def test_a_trial_finds_and_examines_the_fault(name: str) -> None:
    known: dict = {}
    run_trial(name, 0, ScoreSettings(seconds=60.0, further=0.0, examine=5.0), known.update)
    run = FaultRun(name, 0, **known)
    assert run.is_found
    assert run.is_blamed, (run.stage, run.cause)
    assert run.nodes <= 13
    assert len(run.buckets) == 1


# --- a scoring -----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_scoring_is_stored_after_each_run_and_resumed(tmp_path: Path) -> None:
    file, messages = tmp_path / "new" / "score.json", []
    first = scoring(QUICK, file, messages)
    first.run()
    (fault_score,) = first.rows()
    assert fault_score.is_found
    assert messages[-1].startswith(f"{NAME} under seed 0: found in ")
    data = json.loads(file.read_text())
    assert (data["schema"], len(data["runs"])) == ("tinyref-fuzz-score", 1)
    second = scoring(QUICK, file)
    second.resume()
    assert second.waiting() == []
    assert second.rows()[0].is_found


def written(file: Path, settings: ScoreSettings, *runs: FaultRun) -> Scoring:
    first = scoring(settings, file)
    data = {"schema": "tinyref-fuzz-score", "version": 1, **first.about}
    file.write_text(json.dumps({**data, "runs": [asdict(run) for run in runs]}))
    return scoring(settings, file)


def test_invalid_runs_are_repeated(tmp_path: Path) -> None:
    settings = replace(QUICK, seeds=2)
    second = written(tmp_path / "a.json", settings, FOUND, FaultRun(NAME, 1, problem="no device"))
    second.resume()
    assert second.waiting() == [(NAME, 1)]


def test_a_score_of_other_settings_sources_or_schema_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    written(file, QUICK, FOUND)
    with pytest.raises(UserError, match="has other settings"):
        scoring(replace(QUICK, seconds=9.0), file).resume()
    more = scoring(replace(QUICK, jobs=7, seeds=3), file)
    more.resume()
    assert more.waiting() == [(NAME, 1), (NAME, 2)]
    data = json.loads(file.read_text())
    for change, message in (
        ({"sources": "older"}, "has other sources"),
        ({"schema": "other"}, "is not a tinyref-fuzz-score file"),
        ({"runs": [{"fault": NAME}]}, "is damaged"),
        ({"runs": [{"colour": "red"}]}, "is damaged"),
    ):
        file.write_text(json.dumps(data | change))
        with pytest.raises(UserError, match=message):
            scoring(QUICK, file).resume()
