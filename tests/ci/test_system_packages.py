"""The system packages of CI: what is needed must come, what is left is reported."""

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
    """Runs apt-get: notes what it is asked, and fails for each word of `failing` so many times."""

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
    found = ci_module("ci/system_packages.py")
    monkeypatch.setattr(found, "PAUSES", (0, 0, 0))
    return found


@pytest.fixture
def rows(system: ModuleType, tmp_path: Path) -> Any:
    path = tmp_path / "devices.toml"
    path.write_text(ROWS)
    return system.conform_row.read(path)


def test_what_is_needed_comes_first_and_together(system: ModuleType, rows: Any) -> None:
    machine = Machine()
    assert system.install(["chromium"], rows, machine) == []
    assert machine.asked == [
        "update",
        "install -y chromium gcc libc6-dev",
        "install -y libcard1",
        "install -y libcloud",
    ]


def test_what_fails_at_first_is_tried_again(system: ModuleType, rows: Any) -> None:
    machine = Machine(update=2, chromium=1)
    assert system.install(["chromium"], rows, machine) == []
    assert machine.asked[:5] == [*["update"] * 3, *["install -y chromium gcc libc6-dev"] * 2]


def test_what_a_row_needs_that_is_not_required_may_fail(system: ModuleType, rows: Any) -> None:
    machine = Machine(libcard1=3)
    assert system.install([], rows, machine) == [
        "card may be unavailable: apt-get install libcard1 failed"
    ]
    assert machine.asked[-1] == "install -y libcloud"


def test_without_a_network_what_is_there_already_is_enough(system: ModuleType, rows: Any) -> None:
    machine = Machine(update=3)
    assert system.install([], rows, machine) == [
        "apt-get update failed: the lists of packages are as they were"
    ]


def test_what_every_run_needs_must_come(system: ModuleType, rows: Any) -> None:
    (problem,) = system.install([], rows, Machine(gcc=3))
    assert problem == "error: apt-get install gcc libc6-dev failed"


@pytest.mark.parametrize(
    ("problems", "code"),
    [([], 0), (["card may be unavailable: no"], 0), (["error: no", "card may be"], 1)],
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
    assert capsys.readouterr().err.splitlines() == [f"system packages: {each}" for each in problems]


@pytest.mark.parametrize(
    ("program", "user", "says"),
    [(None, 0, "there is no apt-get"), ("/usr/bin/apt-get", 7, "it takes the rights of root")],
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


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("--hepl", 2)])
def test_an_option_is_no_package(
    system: ModuleType, monkeypatch: pytest.MonkeyPatch, word: str, code: int
) -> None:
    monkeypatch.setattr(system, "install", lambda *_: pytest.fail("something is installed"))
    monkeypatch.setattr(system, "obstacle", lambda: "")
    with pytest.raises(SystemExit) as left:
        system.main([word])
    assert left.value.code == code
