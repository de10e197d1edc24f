"""The verdict on the death of a process follows from its cause and its stack."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyref
from tinyref.workers.processes import Cause, Death
from tinyref_fuzz.judge.deaths import pair_of_death, verdict_of_death
from tinyref_spec.kernel_case import Pair, Symptom

HERE = Path(tinyref.__file__).parent


@pytest.mark.parametrize(
    ("frames", "pair"),
    [
        ([], Pair.DEVICE),
        (["/usr/lib/python3.11/signal.py", "/elsewhere/driver.py"], Pair.DEVICE),
        ([HERE / "codegen/lower.py", HERE / "runtimes/host/clang.py"], Pair.PLAIN),
        ([HERE / "runtimes/host/clang.py", HERE / "codegen/lower.py"], Pair.DEVICE),
        ([HERE / "errors.py", HERE / "algebra/rewrite.py"], Pair.PLAIN),
        ([HERE / "renderers/llvm.py"], Pair.DEVICE),
        (["/elsewhere/codegen/lower.py"], Pair.DEVICE),
    ],
)
def test_the_innermost_stage_of_the_stack_is_blamed(frames: list[object], pair: Pair) -> None:
    log = "".join(f'  File "{frame}", line 7 in f\n' for frame in frames)
    assert pair_of_death(f"Fatal Python error: Aborted\n{log}") is pair


@pytest.mark.parametrize(
    ("cause", "symptom"),
    [
        (Cause.EXIT, Symptom.CRASH),
        (Cause.OTHERS, Symptom.CRASH),
        (Cause.NOISE, Symptom.CRASH),
        (Cause.TIMEOUT, Symptom.HANG),
        (Cause.MEMORY, Symptom.MEMORY),
    ],
)
def test_a_death_is_a_verdict_by_its_cause(cause: Cause, symptom: Symptom) -> None:
    verdict = verdict_of_death(Death(cause, "it ended", "the log"))
    assert (verdict.pair, verdict.symptom) == (Pair.DEVICE, symptom)
    assert verdict.detail == "it ended\nthe log"
