"""Test commands and scripts that set the flags of a finding."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tinyref import reproduce
from tinyref.config import Context


def test_settings_are_the_flags_that_differ_and_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.environ", {"TINYREF_NOOPT": "1", "TINYREF_BEAM": "0", "OTHER": "x"})
    with Context(CC="gcc -O1"):
        flags = reproduce.settings({"CARD": "2"})
    assert flags == {"TINYREF_NOOPT": "1", "TINYREF_CC": "gcc -O1", "CARD": "2"}
    line = reproduce.command(["tinyref", "conform", "--query", "a*"], flags)
    assert line == "TINYREF_NOOPT=1 TINYREF_CC='gcc -O1' CARD=2 tinyref conform --query 'a*'"


def test_a_script_sets_them_after_its_comments() -> None:
    text = '# One.\n# Two.\nimport sys\nprint(os.environ["CARD"])\n'
    script = reproduce.script(text, {"CARD": "'2'\\"})
    assert script.splitlines()[:3] == ["# One.", "# Two.", "import os"]
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert ran.stdout == "'2'\\\n"


def test_a_script_without_settings_stays_as_it_is() -> None:
    assert reproduce.script("this is no Python", {}) == "this is no Python"


def test_why_a_run_does_not_show_conformance() -> None:
    flags = {"STRICT_FLOAT": 0, "CC": "tcc", "VERIFY": 0, "DEBUG": 2}
    assert reproduce.reasons(flags) == [
        "TINYREF_STRICT_FLOAT=0 changes numbers",
        "TINYREF_VERIFY=0 leaves out checks",
    ]
