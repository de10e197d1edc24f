"""A device that its driver loses costs one case: the others find it opened again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tinyref.device import Buffer
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.runtimes.health import Health
from tinyref.runtimes.kernel import compile_ast
from tinyref.uops import build
from tinyref_conformance.conform import Request, conform
from tinyref_conformance.settings import Settings
from tinyref_conformance.statuses import Status
from tinyref_spec.kernels.named import elementwise

HERE = Path(__file__).parent


def run(device: str, folder: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> dict[str, str]:
    """The message of each case that is not as expected, and how often each status is there."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    report = conform(Request(Settings(device, folder, jobs=1), query=query)).report
    found = {case.id: case.message for case in report.cases if case.status.is_broken}
    return {**found, **{status.value: str(count) for status, count in report.counts.items()}}


@pytest.mark.long
def test_a_lost_device_is_opened_again_and_the_case_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "kernel.one_alu.add.float32,kernel.one_alu.mul.float32"
    found = run("dying_devices:Losing", tmp_path, monkeypatch, query)
    message = found.pop("kernel.one_alu.add.float32.size:2")
    assert message.endswith("\nthe device was lost, and is opened again: PYTHON: device lost")
    right = run("PYTHON", tmp_path / "right", monkeypatch, query)
    assert found == {Status.CRASH.value: "1", Status.PASS.value: str(int(right["Pass"]) - 1)}


@pytest.mark.long
def test_a_device_whose_launches_do_nothing_any_more_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = (
        "kernel.store.constant.float32.size:1,kernel.one_alu.add.float32,kernel.one_alu.mul.float32"
    )
    found = run("dying_devices:DeadLaunches", tmp_path, monkeypatch, query)
    message = found.pop("kernel.one_alu.add.float32.size:2")
    assert message.endswith(
        "\nthe device was lost, and is opened again: kernel.store.constant.float32.size:1 passed "
        "before, and fails now"
    )
    assert found == {Status.CRASH.value: "1", Status.PASS.value: "10"}


@pytest.mark.long
def test_a_device_that_copies_wrongly_from_the_beginning_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "memory.copy.uint8,memory.copy.int32"
    found = run("dying_devices:Miscopying", tmp_path, monkeypatch, query)
    assert Status.CRASH.value not in found
    assert int(found[Status.FAIL.value]) > 5


@pytest.mark.long
def test_what_a_device_says_at_length_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run("dying_devices:Wordy", tmp_path, monkeypatch, "kernel.one_alu.add.float32.size:2")
    (message,) = (text for name, text in found.items() if name.startswith("kernel."))
    assert message.startswith("WORDY: said again. said again. ")
    assert message.endswith("\n... 1160007 more characters")
    assert (tmp_path / "report.json").stat().st_size < 400_000


def test_health_is_that_of_copies() -> None:
    device = "dying_devices:Losing:1"
    health = Health(device)
    assert health.problem_since() == ""
    two_additions = elementwise(lambda x: build.add(build.add(x, x), x), (dtypes.float32,), 1)
    kernel = compile_ast(device, two_additions)
    buffers = [Buffer(device, 1, dtypes.float32) for _ in range(2)]
    with pytest.raises(DeviceError, match="device lost"):
        kernel(buffers)
    assert "device lost" in health.problem_since()
    assert Health(device).problem_since() == "", "it never answered"
