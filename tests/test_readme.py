"""Test README, recipes and map: their code runs, their commands and files exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tinyref.cli.entry import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
RECIPES = (ROOT / "docs" / "recipes.md").read_text()
COMMANDS = re.findall(r"^\| `tinyref ([^`]+)` \|", RECIPES, re.MULTILINE)
BLOCKS = re.findall(r"```sh\n(.*?)```", RECIPES, re.DOTALL)
FILES = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", ARCHITECTURE)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    # loss is the sum of x @ x.T, and its gradient 2 * (column sums of x) in every row.
    assert capsys.readouterr().out.split("\n")[:2] == ["52.0 [[ 8. 12.]", " [ 8. 12.]]"]


@pytest.mark.long
def test_the_guide_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guide.md").read_text(), re.DOTALL)
    assert len(blocks) >= 9
    names: dict[str, object] = {}
    for block in blocks:
        assert "assert" in block or "def " in block or "load" in block
        exec(compile(block, "docs/guide.md", "exec"), names)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_table_exists(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    words = shlex.split(command)
    # Options are read before --help is answered, so that a wrong one is an error.
    end = words.index("--") if "--" in words else len(words)
    assert run([*words[:end], "--help", *words[end:]]) == 0
    assert "Usage: tinyref" in capsys.readouterr().out


def test_the_readme_is_one_screen() -> None:
    assert len(README.splitlines()) <= 60
    for name in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / name).exists(), name


def test_the_commands_of_the_recipes_exist(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in BLOCKS for line in block.splitlines()]
    commands = re.findall(r"tinyref ([^&\n]+)", "\n".join(lines))
    assert len(commands) >= 5
    for command in commands:
        assert run([*shlex.split(command), "--help"]) == 0, command
    capsys.readouterr()


def test_the_two_commands_are_those_of_ci() -> None:
    assert len(COMMANDS) >= 8
    script = (ROOT / ".ci" / "run").read_text()
    checks = 'python -m pip install "nox[uv]" && nox\n'
    assert checks in README
    assert checks in script


@pytest.mark.parametrize("name", sorted(set(FILES)))
def test_every_file_of_the_map_exists(name: str) -> None:
    packages = ("tinyref", "fuzz/tinyref_fuzz", "conformance/tinyref_conformance")
    paths = [ROOT / name, *(ROOT / package / name for package in packages)]
    assert any(path.exists() for path in paths), name
