"""Flags and environment belong to the result: every output has them, and what reproduces it."""

from __future__ import annotations

import json
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
    for member in properties:
        listed = {item.get("name"): item.get("value") for item in member}
        assert FLAGS.items() <= listed.items()
    (failed,) = (case for case in load(fake.folder / "report.json").cases if case.repro)
    start = "TINYREF_STRICT_FLOAT=0 TINYREF_NOOPT=1 FAKE_CARD=3 tinyref conform --device FAKE"
    assert failed.repro.startswith(start)
    assert failed.details is not None
    set_first = "os.environ.update({'TINYREF_STRICT_FLOAT': '0', 'TINYREF_NOOPT': '1', 'FAKE_CARD'"
    assert set_first in failed.details["script"]
