"""Print the shard of the thorough lane that CI runs: `python3 ci/shard.py`.

Each landing runs one of thirty. Import only the standard library here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNT = 30


def shard(folder: Path = ROOT) -> str:
    """Return a shard such as 3/30, by the number of first-parent commits: one more each landing.

    A shallow clone has only some commits, so its shard is the hash of the last one: over time all
    shards run. Without a repository, as in an unpacked sdist, it is the first shard. A repository
    that merely contains the folder does not count.
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    is_own = bool(top) and Path(top).resolve() == folder.resolve()
    shallow = _git(folder, "rev-parse", "--is-shallow-repository") if is_own else ""
    if shallow == "false":
        number = int(_git(folder, "rev-list", "--count", "--first-parent", "HEAD"))
    elif shallow == "true":
        number = int(_git(folder, "rev-parse", "HEAD"), 16)
    else:
        number = 0
    return f"{number % COUNT + 1}/{COUNT}"


def _git(folder: Path, *words: str) -> str:
    """Return the output of git; empty without a repository, or without git."""
    try:
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(shard() + "\n")
