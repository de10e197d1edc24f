"""The sdist holds all of the checkout: its commands and its own tests need every part."""

from __future__ import annotations

import fnmatch
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tracked() -> list[str]:
    """The files of the checkout; none where this is no checkout, as an unpacked sdist."""
    if not (ROOT / ".git").exists():
        return []
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], check=False, capture_output=True, text=True
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def included() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[str] = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    return found


def is_included(name: str, patterns: list[str]) -> bool:
    """As hatchling reads them: from the root, a folder with all that is in it."""
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


def test_what_is_not_named_is_not_included() -> None:
    """The check above can fail."""
    assert is_included("ci/devices.toml", ["/ci"])
    assert is_included("README.md", ["/*.md"])
    for name in ("ci2/devices.toml", "conftest.py", "docs/README.md"):
        assert not is_included(name, ["/ci", "/*.md"])


@pytest.mark.parametrize(
    "name",
    [
        "ci/devices.toml",
        "ci/conform_row.py",
        ".ci/run",
        "noxfile.py",
        "conftest.py",
        "README.md",
        "docs/guide.md",
        "examples",
        "pyproject.toml",
        "LICENSE",
    ],
)
def test_what_commands_and_tests_need_is_there(name: str) -> None:
    """Also in an unpacked sdist, where the first test has nothing to compare with."""
    assert (ROOT / name).exists()
    assert is_included(name, included()) or f"/{name}" in included()
