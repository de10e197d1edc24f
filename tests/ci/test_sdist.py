"""Test that the sdist has the whole checkout: commands and tests need every part."""

from __future__ import annotations

import fnmatch
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tracked() -> list[str]:
    """Return the files of the checkout, or none outside a checkout, such as an unpacked sdist."""
    if not (ROOT / ".git").exists():
        return []
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], check=False, capture_output=True, text=True
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def included() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns: list[str] = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    return patterns


def is_included(name: str, patterns: list[str]) -> bool:
    """Match a name as hatchling does: from the root, and a folder with all its files."""
    top = f"/{name}"
    return any(
        top.startswith(f"{pattern}/") or ("/" not in name and fnmatch.fnmatchcase(top, pattern))
        for pattern in patterns
    )


def test_every_file_of_the_checkout_is_in_the_sdist() -> None:
    names = tracked()
    if not names:
        pytest.skip("not a checkout: nothing says what belongs to it")
    assert len(names) > 500
    patterns = included()
    assert [name for name in names if not is_included(name, patterns)] == []
