"""Which shard of the thorough lane CI runs after the default checks: `python3 ci/shard.py`.

Each landing runs one of thirty. Nothing but the standard library is imported here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNT = 30


def shard(folder: Path = ROOT) -> str:
    """Such as 3/30: by the number of first-parent commits, which goes on by one at each landing.

    A shallow clone has only some of the commits: there it is by the hash of the last one, so that
    all shards have their turn. Without a repository, as in an unpacked sdist, it is the first; one
    around the folder is another project's.
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
    """What git prints, or an empty text where it is no repository or there is no git."""
    try:
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(shard() + "\n")
