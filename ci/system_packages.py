"""Installs system packages: those that are named, and those of the rows of ci/devices.toml.

    python3 ci/system_packages.py chromium python3-venv

What the rows need that are not required is installed for each by itself, and where that fails it
is said: the row is then reported as unavailable by nox. Without apt-get, or without the rights of
root, nothing is installed, and that is said. Nothing but the standard library is imported here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import conform_row

# Seconds before each try of a command that asks the network.
PAUSES = (0, 5, 20)
# For a lock that another apt holds, and for a mirror that does not answer.
SETTINGS = ("DPkg::Lock::Timeout=120", "Acquire::http::Timeout=30", "Acquire::https::Timeout=30")

Run = Callable[[Sequence[str]], bool]


def run(words: Sequence[str]) -> bool:
    """Whether a command ends well; it never asks anything."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(words, check=False, env=environment).returncode == 0


def tried(words: Sequence[str], run: Run) -> bool:
    """Whether a command ends well at last, after a pause where it did not."""
    for pause in PAUSES:
        time.sleep(pause)
        if run(words):
            return True
    return False


def install(
    base: Sequence[str], rows: Sequence[conform_row.DeviceRow], run: Run = run
) -> list[str]:
    """Installs what is named and what required rows need, then what each other row needs.

    A line for each thing that failed; those that begin with "error" end CI.
    """
    command = ["apt-get", "-q", *(word for each in SETTINGS for word in ("-o", each))]
    problems = []
    # An old list may still name packages that can be had.
    if not tried([*command, "update"], run):
        problems.append("apt-get update failed: the lists of packages are as they were")
    needed = {*base, *(name for row in rows if row.required for name in row.apt)}
    if needed and not tried([*command, "install", "-y", *sorted(needed)], run):
        problems.append(f"error: apt-get install {' '.join(sorted(needed))} failed")
    for row in rows:
        left = sorted(set(row.apt) - needed)
        if row.required or not left:
            continue
        if tried([*command, "install", "-y", *left], run):
            needed |= {*left}
        else:
            problems.append(f"{row.id} may be unavailable: apt-get install {' '.join(left)} failed")
    return problems


def obstacle() -> str:
    """Why system packages cannot be installed here at all; empty where they can."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    return "" if os.getuid() == 0 else "it takes the rights of root"


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 where something that every run needs could not be installed."""
    parser = argparse.ArgumentParser(
        description="Installs system packages: those named here, and those of ci/devices.toml."
    )
    parser.add_argument("package", nargs="*", help="a name that apt-get knows")
    base: list[str] = parser.parse_args(arguments).package
    rows = conform_row.read()
    if reason := obstacle():
        wanted = " ".join(sorted({*base, *(name for row in rows for name in row.apt)}))
        sys.stderr.write(f"system packages: no system packages are installed, {reason}: {wanted}\n")
        return 0
    problems = install(base, rows)
    for problem in problems:
        sys.stderr.write(f"system packages: {problem}\n")
    return int(any(problem.startswith("error") for problem in problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
