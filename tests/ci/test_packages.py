"""Test that uv uses the indexes of pip: `pip config list` sets the variables of uv."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ci_modules import ci_module

packages = ci_module("ci/packages.py")


@pytest.mark.parametrize(
    ("listed", "variables"),
    [
        ("", {}),
        ("global.timeout='60'\nglobal.cert='/etc/ca.crt'\n", {}),
        ("global.find-links='/wheels'\n", {"UV_FIND_LINKS": "/wheels"}),
        (
            ":env:.find-links='/a /b'\nglobal.find-links='/b\\n/c'\n",
            {"UV_FIND_LINKS": "/a,/b,/c"},
        ),
        (
            "global.extra-index-url='file:///x file:///y'\n",
            {"UV_EXTRA_INDEX_URL": "file:///x file:///y"},
        ),
        (
            ":env:.index-url='https://one/simple'\nglobal.index-url='https://two/simple'\n",
            {"UV_DEFAULT_INDEX": "https://one/simple"},
        ),
    ],
)
def test_what_pip_is_told_uv_is_told(listed: str, variables: dict[str, str]) -> None:
    assert packages.translate(listed) == variables


def test_the_settings_are_those_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # An environment of uv has no pip, so another command replaces the output of pip.
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \":env:.find-links='/mine'\"\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert packages.uv_variables({}) == {"UV_FIND_LINKS": "/mine"}
    assert packages.uv_variables({"UV_FIND_LINKS": "/theirs"}) == {}


def test_without_pip_uv_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert packages.uv_variables({}) == {}
