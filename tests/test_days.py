"""Test the days of docs/tests: files, commands, and text in the terminal and browser."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
DAYS = [
    DOCS / "getting-started.md",
    DOCS / "course" / "renderer.md",
    *(path for path in sorted((DOCS / "tests").glob("*.md")) if path.stem != "README"),
]
CHROMIUM = shutil.which("chromium")
_BLOCK = re.compile(r"^```(python|console|page)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# file: (\S+)\n")
_EXIT = re.compile(r"\(exit code (\d+)\)")


def words(text: str) -> str:
    return " ".join(text.split())


def missing(printed: str, lines: list[str]) -> list[str]:
    """Return the lines that are not shown, in this order."""
    rest = words(printed)
    absent = []
    for line in lines:
        _, match, after = rest.partition(words(line))
        rest = after if match else rest
        absent += [] if match else [line]
    return absent


def run_commands(block: str, folder: Path) -> None:
    """Run each command, and check its output against the lines below it."""
    environment = {**os.environ, "COLUMNS": "200"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        (code,) = [int(number) for number in _EXIT.findall(part)] or [0]
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed = done.stdout
        assert done.returncode == code, f"{command}\n{printed}"
        visible = [line for line in lines if not _EXIT.match(line)]
        assert missing(printed, visible) == [], f"{command}\n{printed}"


def look_at(block: str, folder: Path, screenshots: Path | None) -> None:
    """Open a page in a browser, and check for words."""
    if CHROMIUM is None:
        return
    name, *lines = block.splitlines()
    address = f"file://{folder / name}"
    browser = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"]
    browser.append("--virtual-time-budget=5000")
    dumped = subprocess.run(
        [*browser, "--dump-dom", address], capture_output=True, text=True, check=True
    )
    body = re.sub(r"(?s)<(script|style|template)\b.*?</\1>", " ", dumped.stdout)
    text = words(html.unescape(re.sub(r"<[^>]+>", " ", body)))
    assert [line for line in lines if words(line) not in text] == [], name
    if screenshots is not None:
        picture = screenshots.resolve() / f"{folder.name}-{Path(name).stem}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*browser, f"--screenshot={picture}", address], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("day", DAYS, ids=lambda path: path.stem)
def test_a_day(day: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / day.stem
    folder.mkdir()
    screenshots = request.config.getoption("--screenshots")
    blocks = _BLOCK.findall(day.read_text())
    assert len(blocks) > 3
    for kind, block in blocks:
        if kind == "console":
            run_commands(block, folder)
        elif kind == "page":
            look_at(block, folder, screenshots)
        else:
            name = _FILE.match(block)
            assert name is not None, f"{day.name}: a block without the name of its file"
            (folder / name[1]).write_text(block[name.end() :])
