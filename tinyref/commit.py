"""The commit that tinyref is of: of the checkout that it runs from, or that its wheel was built of.

Only Python's own library is imported here: the hook that builds wheels and sdists reads this file.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Beside this module in a wheel and in an sdist; a checkout has none.
FILE_NAME = "commit.json"
PACKAGE = Path(__file__).resolve().parent
_SHOWN = 12


@dataclass(frozen=True)
class Commit:
    """A commit, and whether the files differed from it."""

    commit: str
    dirty: bool

    def __str__(self) -> str:
        return f"commit {self.commit[:_SHOWN]}{', with changes' if self.dirty else ''}"

    def to_json(self) -> dict[str, str | bool]:
        """As certificates and built archives have it."""
        return {"commit": self.commit, "dirty": self.dirty}


def commit(package: Path = PACKAGE) -> Commit | None:
    """Of what is built, and else of the checkout; None where nothing says it."""
    try:
        data = json.loads((package / FILE_NAME).read_text(encoding="utf-8"))
        return Commit(str(data["commit"]), data["dirty"] is True)
    except (OSError, ValueError, TypeError, KeyError):
        return of_checkout(package)


def of_checkout(package: Path) -> Commit | None:
    """By git; None where the package is no part of a repository."""
    root = package.parent
    found = _git(root, "rev-parse", "HEAD")
    # A virtual environment inside somebody else's checkout is not ours to report.
    if found is None or _git(root, "ls-files", "--error-unmatch", f"{package.name}/") is None:
        return None
    changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return Commit(found, dirty=bool(changes))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
