"""Test the system packages of CI: needed ones must install, and missing ones are reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ci_modules import ROOT, ci_module

ROWS = """
[[device]]
id = "needed"
device = "CPU"
profile = "quick"
budget = 1
needs = "a compiler"
required = true
install = { apt = ["gcc", "libc6-dev"] }

[[device]]
id = "card"
device = "CARD"
profile = "quick"
budget = 1
needs = "a card"
required = false
install = { apt = ["libcard1", "gcc"] }

[[device]]
id = "cloud"
device = "CLOUD"
profile = "quick"
budget = 1
needs = "a network"
required = false
install = { apt = ["libcloud"] }
"""


class Machine:
    """A fake apt-get that notes its arguments; each word of `failing` fails that many times."""

    def __init__(self, **failing: int) -> None:
        self.failing = failing
        self.asked: list[str] = []

    def __call__(self, words: Sequence[str]) -> bool:
        assert words[0] == "apt-get"
        asked = " ".join(words[words.index("-q") + 7 :])
        self.asked.append(asked)
        for word in self.failing:
            if word in asked and self.failing[word] > 0:
                self.failing[word] -= 1
                return False
        return True


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    module = ci_module("ci/system_packages.py")
    monkeypatch.setattr(module, "PAUSES", (0, 0, 0))
    return module


@pytest.fixture
def rows(system: ModuleType, tmp_path: Path) -> Any:
    path = tmp_path / "devices.toml"
    path.write_text(ROWS)
    return system.conform_row.read(path)


NEEDED = "install -y chromium gcc libc6-dev"


@pytest.mark.parametrize(
    ("failing", "asked", "problems"),
    [
        ({}, ["update", NEEDED, "install -y libcard1", "install -y libcloud"], []),
        # A failed attempt is repeated.
        ({"update": 2, "chromium": 1}, [*["update"] * 3, *[NEEDED] * 2], []),
        # Packages of a row that is not required may fail.
        (
            {"libcard1": 3},
            ["update", NEEDED, *["install -y libcard1"] * 3, "install -y libcloud"],
            ["card may be unavailable: apt-get install libcard1 failed"],
        ),
        # Without a network, installed packages are enough.
        (
            {"update": 3},
            ["update"] * 3,
            ["apt-get update failed: the package lists are unchanged"],
        ),
        (
            {"gcc": 3},
            ["update", *[NEEDED] * 3],
            ["error: apt-get install chromium gcc libc6-dev failed"],
        ),
    ],
)
def test_what_is_needed_must_come_and_what_is_left_is_reported(
    system: ModuleType, rows: Any, failing: dict[str, int], asked: list[str], problems: list[str]
) -> None:
    machine = Machine(**failing)
    assert system.install(["chromium"], rows, machine) == problems
    assert machine.asked[: len(asked)] == asked


@pytest.mark.parametrize(
    ("problems", "code"), [(["card may be unavailable: no"], 0), (["error: no", "card may be"], 1)]
)
def test_only_what_every_run_needs_ends_it(
    system: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problems: list[str],
    code: int,
) -> None:
    monkeypatch.setattr(system, "obstacle", lambda: "")
    monkeypatch.setattr(system, "install", lambda base, rows: problems)
    assert system.main(["chromium"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"system packages: {problem}" for problem in problems]
    # An option is no package.
    monkeypatch.setattr(system, "install", lambda *_: pytest.fail("something is installed"))
    with pytest.raises(SystemExit) as left:
        system.main(["--hepl"])
    assert left.value.code == 2


@pytest.mark.parametrize(
    ("program", "user", "says"),
    [(None, 0, "there is no apt-get"), ("/usr/bin/apt-get", 7, "it needs the rights of root")],
)
def test_where_nothing_can_be_installed_that_is_said(
    system: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str | None,
    user: int,
    says: str,
) -> None:
    monkeypatch.setattr(system.shutil, "which", lambda name: program)
    monkeypatch.setattr(system.os, "getuid", lambda: user)
    monkeypatch.setattr(system, "install", None)
    assert system.main(["chromium"]) == 0
    said = capsys.readouterr().err
    assert says in said
    assert {"chromium", "gcc", "libc6-dev", "tcc"} <= set(said.split())


def test_ci_installs_them_and_shows_what_is_unavailable() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert "python3 ci/system_packages.py chromium python3-venv" in text
    assert "cat report/*/unavailable.txt" in text
