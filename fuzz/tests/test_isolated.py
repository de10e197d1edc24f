"""Cases judged in separate processes: whatever happens to one is a verdict."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from faults import large_case  # a neighbour of this file, which is no package

from tinyref.cli.entry import run
from tinyref.runtimes.python import TextBackend
from tinyref_fuzz.campaign.cases import judge_cases
from tinyref_fuzz.corpus.folder import problems_of
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import CaseRecord, KernelCase, Pair, Symptom
from tinyref_spec.kernel_case.files import load_record, save_record

# Size of a program that crashes: the large case exceeds it even with one output.
LARGE = 2000
# No faulty device chooses its programs.
HEALTHY = regressions.FOLDER / "sum-of-one-negative-zero.json"
pytestmark = pytest.mark.usefixtures("workers_import_test_devices")


@pytest.fixture
def case() -> KernelCase:
    """Return the first case with a program that the faulty devices choose."""
    stream = judge_cases("campaign_devices:Raising", 11, "small")
    return next(case for _, case, verdict, _ in stream if not verdict.agrees)


@pytest.mark.long
def test_a_crash_is_the_verdict_of_a_replay(
    case: KernelCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = save_record(tmp_path / "it.json", CaseRecord(case))
    assert run(["fuzz", "replay", str(path), "--device", "campaign_devices:Crashing"]) == 1
    output = capsys.readouterr().out.splitlines()
    assert output[0] == (
        "campaign_devices:Crashing: between the interpreter and the device: the process died"
    )
    assert output[1] == "  killed by SIGSEGV (Segmentation fault)"
    assert output[-1] == "  stage: device"


def flipping(loaded: Callable[..., Any]) -> Callable[..., Any]:
    """Run the kernel, then flip a bit of its first output."""

    def call(buffers: Sequence[Any], *args: Any, **named: Any) -> Any:
        seconds = loaded(buffers, *args, **named)
        buffers[0][0] ^= 1
        return seconds

    return call


class Brittle(TextBackend):
    """Device that flips every first output, and crashes in a large kernel with one output."""

    def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def load(self, entry: str, binary: bytes) -> Any:
        if binary.count(b"STORE") == 1 and len(binary) > LARGE:
            self.crash()
        return flipping(super().load(entry, binary))


class Sleepy(Brittle):
    def crash(self) -> None:
        time.sleep(1000)


@pytest.mark.long
@pytest.mark.parametrize(
    ("device", "words"),
    [("Brittle", []), pytest.param("Sleepy", ["--timeout", "1s"], marks=pytest.mark.slow)],
)
def test_parts_of_a_case_that_crash_or_have_no_end_are_left_out(
    device: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = save_record(tmp_path / "it.json", CaseRecord(large_case()))
    small = tmp_path / "small.json"
    words = [*words, "--device", f"test_isolated:{device}", "--out", str(small), "--budget", "20s"]
    assert run(["fuzz", "reduce", str(path), *words]) == 0
    assert f"wrote {small}" in capsys.readouterr().out
    record = load_record(small)
    assert record.verdict is not None
    assert (record.verdict.pair, record.verdict.symptom) == (Pair.DEVICE, Symptom.VALUE)
    assert len(record.case.ast.toposort()) < len(large_case().ast.toposort())


@pytest.mark.long
def test_a_crash_costs_one_file(case: KernelCase, tmp_path: Path):
    save_record(tmp_path / "a.json", CaseRecord(case))
    save_record(tmp_path / "b.json", load_record(HEALTHY))
    save_record(tmp_path / "c.json", CaseRecord(case))
    first, second = problems_of(tmp_path, "campaign_devices:Crashing")
    assert (first.path.name, second.path.name) == ("a.json", "c.json")
    assert first.text == (
        "fails on campaign_devices:Crashing, between the interpreter and the device: "
        "killed by SIGSEGV (Segmentation fault)"
    )
