"""Cases judged in processes of their own: whatever happens to one is a verdict."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_fuzz import apart
from tinyref_fuzz.apart import judged_apart, judged_safely
from tinyref_fuzz.campaign.cases import judged
from tinyref_fuzz.case import Case, Pair, Symptom
from tinyref_fuzz.store import load_kept, save_case

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _devices_are_found_by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture
def case() -> Case:
    """The first with a program that the faulty devices choose."""
    stream = judged("campaign_devices:Raising", 11, "small")
    return next(case for _, case, verdict, _ in stream if not verdict.agrees)


def test_a_crash_is_the_verdict_of_a_replay(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = save_case(tmp_path / "it.json", case, device="campaign_devices:Crashing")
    assert run(["fuzz", "replay", str(path)]) == 1
    found = capsys.readouterr().out.splitlines()
    assert found[0] == (
        "campaign_devices:Crashing: between the interpreter and the device: the process died"
    )
    assert found[1] == "  killed by SIGSEGV (Segmentation fault)"
    assert found[-1] == "  stage: device"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "symptom", "says"),
    [
        ("Leaving", Symptom.CRASH, "the worker left with exit code 5"),
        ("Killed", Symptom.CRASH, "killed by SIGKILL"),
        ("Hanging", Symptom.HANG, "no end within 3 s"),
        ("Eating", Symptom.MEMORY, "it held over 600 MiB"),
        ("Raising", Symptom.ERROR, "the queue is broken"),
        ("Wrong", Symptom.VALUE, "slot 0"),
    ],
)
def test_every_fault_is_a_verdict(
    case: Case, device: str, symptom: Symptom, says: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(apart, "usable_memory", lambda: 600 << 20)
    verdict = judged_apart(case, f"campaign_devices:{device}", 3.0)
    assert (verdict.pair, verdict.symptom) == (Pair.DEVICE, symptom)
    assert says in verdict.detail


@pytest.mark.slow
def test_what_agrees_here_agrees_there(case: Case):
    apart = judged_apart(case, "campaign_devices:Healthy", 60.0)
    assert apart.agrees
    assert apart.judged == judged_safely(case, "PYTHON", 60.0).judged > 0


@pytest.mark.slow
def test_a_device_that_does_not_open_is_an_error(case: Case):
    with pytest.raises(UserError, match=r"Missing does not open: .*no driver: inst"):
        judged_apart(case, "campaign_devices:Missing", 60.0)
    with pytest.raises(UserError, match="does not open: the worker left with exit code 9"):
        judged_apart(case, "campaign_devices:DyingAtOpen", 60.0)


@pytest.mark.slow
def test_a_crash_is_shown_and_reduced(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = save_case(tmp_path / "it.json", case, device="campaign_devices:Crashing")
    assert run(["fuzz", "show", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].startswith("fault   DEVICE CRASH: killed by SIGSEGV")
    assert [line.split()[0] for line in shown[2:]] == ["kernel", "opts", "data"]
    small = tmp_path / "small.json"
    words = ["--out", str(small), "--seconds", "2"]
    assert run(["fuzz", "reduce", str(path), *words]) == 0
    kept = load_kept(small)
    assert kept.verdict is not None
    assert kept.verdict.symptom == "crash"


@pytest.mark.slow
def test_a_case_without_an_end_is_not_reduced(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = save_case(tmp_path / "it.json", case, device="campaign_devices:Hanging")
    assert run(["fuzz", "reduce", str(path), "--timeout", "2"]) == 2
    assert "no end within 2 s: to try parts of it would take too long" in capsys.readouterr().err
