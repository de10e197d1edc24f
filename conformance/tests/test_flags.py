"""Flags and environment belong to the result: every output has them, and what reproduces it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tinyref_conformance.report import load
from tinyref_conformance.reports import FORMS

FLAGS = {"TINYREF_STRICT_FLOAT": "0", "TINYREF_NOOPT": "1"}


@pytest.mark.long
def test_every_form_of_a_report_and_every_reproducer_has_the_flags(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in FLAGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FAKE_CARD", "3")
    fake.scenario("good", "fails").run()
    for form in FORMS:
        text = (fake.folder / form).read_text()
        assert "not a conformance run" in text.lower(), form
        if form != "badge.svg":
            assert "TINYREF_STRICT_FLOAT=0 changes numbers" in text.replace("\\_", "_"), form
            assert "TINYREF_NOOPT=1" in text.replace("\\_", "_"), form
            assert "FAKE_CARD" in text.replace("\\_", "_"), form
    data = json.loads((fake.folder / "report.json").read_text())
    assert data["conformance_run"] is False
    assert data["certificate"]["flags"] == {"STRICT_FLOAT": 0, "NOOPT": 1}
    assert data["certificate"]["environment"] == {"FAKE_CARD": "3"}
    properties = ElementTree.parse(fake.folder / "junit.xml").findall("testsuite/properties")
    for each in properties:
        listed = {item.get("name"): item.get("value") for item in each}
        assert FLAGS.items() <= listed.items()
    (failed,) = (case for case in load(fake.folder / "report.json").cases if case.repro)
    start = "TINYREF_STRICT_FLOAT=0 TINYREF_NOOPT=1 FAKE_CARD=3 tinyref conform --device FAKE"
    assert failed.repro.startswith(start)
    assert failed.details is not None
    set_first = "os.environ.update({'TINYREF_STRICT_FLOAT': '0', 'TINYREF_NOOPT': '1', 'FAKE_CARD'"
    assert set_first in failed.details["script"]


@pytest.mark.slow
def test_what_fails_under_a_flag_fails_again_by_command_and_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contracted products round once, which strict float32 may not."""
    monkeypatch.chdir(tmp_path)
    run = [sys.executable, "-m", "tinyref.cli"]
    query = "isa.ternary.mulacc.float32"
    words = [*run, *f"conform --device CPU --query {query} --report a".split()]
    monkeypatch.setenv("TINYREF_STRICT_FLOAT", "0")
    first = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert first.returncode == 1, first.stderr
    assert "not a conformance run: TINYREF_STRICT_FLOAT=0 changes numbers" in first.stdout
    monkeypatch.delenv("TINYREF_STRICT_FLOAT")
    failed = next(case for case in load(tmp_path / "a" / "report.json").cases if case.repro)
    command = failed.repro.replace("tinyref conform", f"{shlex.join(run)} conform")
    again = subprocess.run(
        f"{command} --report b", shell=True, check=False, capture_output=True, timeout=300
    )
    assert again.returncode == 1
