"""The commit of this tinyref: of its checkout, or of the one from which its wheel was built.

Only Python's own library is imported here: the hook that builds wheels and sdists reads this file.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

# It lies next to this module in a wheel and in an sdist; a checkout has none.
FILE_NAME = "commit.json"
PACKAGE = Path(__file__).resolve().parent
_DIGITS = 12


@dataclass(frozen=True)
class Commit:
    """A commit; `dirty` tells if the files differed from it."""

    commit: str
    dirty: bool

    def __str__(self) -> str:
        return f"commit {self.commit[:_DIGITS]}{', with changes' if self.dirty else ''}"

    def to_json(self) -> dict[str, str | bool]:
        """Return it in the form of certificates and built archives."""
        return {"commit": self.commit, "dirty": self.dirty}


def commit(package: Path = PACKAGE) -> Commit | None:
    """Return the commit of the built package, else of the checkout; None if neither has one."""
    try:
        data = json.loads((package / FILE_NAME).read_text(encoding="utf-8"))
        return Commit(str(data["commit"]), data["dirty"] is True)
    except (OSError, ValueError, TypeError, KeyError):
        return of_checkout(package)


def of_checkout(package: Path) -> Commit | None:
    """Ask git for the commit; None if the package belongs to no repository."""
    root = package.parent
    head = _git(root, "rev-parse", "HEAD")
    # A virtual environment inside somebody else's checkout does not belong to that commit.
    if head is None or _git(root, "ls-files", "--error-unmatch", f"{package.name}/") is None:
        return None
    changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return Commit(head, dirty=bool(changes))


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
