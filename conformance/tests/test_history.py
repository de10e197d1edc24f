"""Failures that depend on what ran before: they are said to, with the shortest sequence."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reports_of import case_of

from tinyref_conformance import history
from tinyref_conformance.conform import ConformRequest, as_sequence, conform
from tinyref_conformance.faulty.registry import FAULTY_DEVICES
from tinyref_conformance.settings import RunSettings
from tinyref_conformance.statuses import Status


@pytest.mark.long
def test_a_case_that_fails_after_another_says_so_and_how(fake: Any) -> None:
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


@pytest.mark.long
def test_a_sequence_runs_in_its_order_in_one_worker(fake: Any) -> None:
    request = as_sequence(
        fake.scenario("state").request(jobs=2),
        "isa.before.int32.special:2,isa.before.int32.special:1,isa.after.int32.special:0",
    )
    done = conform(request)
    assert fake.ran() == [
        "isa.before.int32.special:2",
        "isa.before.int32.special:1",
        "isa.after.int32.special:0",
    ]
    assert case_of(done, "isa.after.int32.special:0").status is Status.FAIL
    assert "not a conformance run" in done.report.verdict


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
            FAULTY_DEVICES["LeftMode"].device,
            "isa.unary.sqrt.float32.special:0,isa.binary.add.float32.special",
            ["isa.unary.sqrt.float32.special:0"],
            "isa.binary.add.float32.special:11",
        ),
    ],
    ids=["stale", "mode"],
)
def test_a_faulty_device_is_shown_by_a_short_sequence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    query: str,
    before: list[str],
    case: str,
) -> None:
    settings = RunSettings(device, tmp_path, jobs=1, rerun_seconds=math.inf)
    # One of them is enough, and what comes after the first failure only takes time.
    monkeypatch.setattr(history, "in_order_of_rows", lambda cases: [next(iter(cases)).id])
    report = conform(ConformRequest(settings, query=query)).report
    flake = next(one for one in report.cases if one.status is Status.FLAKE)
    assert flake.id == case
    assert (flake.details or {})["sequence"] == [*before, case]
    script = tmp_path / "script.py"
    for name, code in ((device, 1), ("PYTHON", 0)):
        script.write_text((flake.details or {})["script"].replace(device, name))
        assert subprocess.run([sys.executable, script], check=False).returncode == code, name
    # The printed command runs it, and it fails again.
    again = as_sequence(
        ConformRequest(replace(settings, folder=tmp_path / "again"), query=query),
        ",".join([*before, case]),
    )
    statuses = {one.id: one.status for one in conform(again).report.cases}
    assert statuses[case] is Status.FAIL
