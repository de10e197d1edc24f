"""The fixed-seed lane in this process."""

from __future__ import annotations

import pytest

from tinyref_fuzz import __main__ as lane
from tinyref_fuzz.judge import trial as judging

SMALL = ["--device", "PYTHON", "--policy", "small", "--seed", "5"]


@pytest.mark.long
def test_the_lane_counts_and_exits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert lane.main([*SMALL, "--kernels", "3"]) == 0
    assert "3 kernels, 0 disagree" in capsys.readouterr().out
    monkeypatch.setattr(judging.Guarded, "stray", lambda memory: "injected")
    assert lane.main([*SMALL, "--kernels", "2", "--examine", "0.5"]) == 1
    shown = capsys.readouterr().out
    assert "kernel 0:\n  fault   PLAIN " in shown
    assert "injected" in shown
    assert "reduced to " in shown
    assert "--kernels 1 --seed 5 --start 1 --policy small" in shown
    assert "2 kernels, 2 disagree" in shown


def test_the_lane_says_what_it_was_asked_wrongly(capsys: pytest.CaptureFixture[str]):
    assert lane.main(["--device", "GPU9"]) == 2
    assert "unknown device 'GPU9'" in capsys.readouterr().err
    assert lane.main(["--device", "PYTHON", "--policy", "odd"]) == 2
    assert "accepted are all" in capsys.readouterr().err
    assert lane.main(["--device", "NPY"]) == 2
    assert "runs no kernels" in capsys.readouterr().err


def test_a_lane_without_kernels_passes_nothing(capsys: pytest.CaptureFixture[str]):
    # A lane that judges nothing must not look like one that agrees.
    assert lane.main([*SMALL, "--kernels", "0"]) == 2
    assert "kernels: got 0, accepted is 1 or more" in capsys.readouterr().err
