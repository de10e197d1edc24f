"""Rows of `tinyref bench` that are of a fresh process: its start, and what it keeps in the end.

    python -m tinyref.cli.bench.fresh COUNT

prints the most MiB that the process had resident while it computed COUNT different shapes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tinyref import Context, Tensor
from tinyref.errors import UserError
from tinyref.workers.machine import seconds_of_children
from tinyref.workers.processes import python_command

SHAPES = 20_000
IMPORT = "from tinyref import Tensor"
FIRST_RESULT = f"{IMPORT}; Tensor([1, 2]).sum().item()"


def milliseconds_of(code: str) -> float:
    """Processor time of a fresh Python that runs `code`, all of its threads."""
    start = seconds_of_children()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (seconds_of_children() - start) * 1e3


def resident_after(shapes: int) -> float:
    """The most MiB that a fresh process has resident while it computes so many shapes."""
    done = subprocess.run(
        python_command("tinyref.cli.bench.fresh", str(shapes)),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "TINYREF_CACHE": "0"},
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise UserError(f"bench: shapes do not run: {' '.join(last)}")
    return float(done.stdout)


def max_resident() -> float:
    """MiB of this process. Raises `UserError` where the system is not Linux."""
    # What getrusage says of a process is at least what the one had that started it.
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        raise UserError("bench: only Linux says how much memory was resident") from None
    (found,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(found.split()[1]) / 2**10


def main() -> None:
    """Computes as many shapes as the argument says: a kernel for each, and one that fills it."""
    with Context(DEVICE="CPU"):
        for size in range(1, int(sys.argv[1]) + 1):
            (Tensor.empty(size) * 2 + 1).realize()
    sys.stdout.write(str(max_resident()))


if __name__ == "__main__":
    main()
