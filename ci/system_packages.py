"""Install the named system packages, and the packages that rows of ci/devices.toml need.

    python3 ci/system_packages.py chromium python3-venv

The packages of each row that is not required are installed separately. If this fails, a line says
so, and nox reports the row as unavailable. Without apt-get or the rights of root, nothing is
installed, and a line says so. Import only the standard library here.
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

# Seconds before each attempt of a command that uses the network.
PAUSES = (0, 5, 20)
# Timeouts for a lock of another apt, and for a mirror that does not answer.
SETTINGS = ("DPkg::Lock::Timeout=120", "Acquire::http::Timeout=30", "Acquire::https::Timeout=30")

Run = Callable[[Sequence[str]], bool]


def run(words: Sequence[str]) -> bool:
    """Run a command that asks no questions; return True if it succeeds."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(words, check=False, env=environment).returncode == 0


def retry(words: Sequence[str], run: Run) -> bool:
    """Return True if a command succeeds; retry it after pauses."""
    for pause in PAUSES:
        time.sleep(pause)
        if run(words):
            return True
    return False


def install(
    base: Sequence[str], rows: Sequence[conform_row.DeviceRow], run: Run = run
) -> list[str]:
    """Install the named packages and the packages of required rows, then of each other row.

    Return a line for each failure; lines that begin with "error" end CI.
    """
    command = ["apt-get", "-q", *(word for setting in SETTINGS for word in ("-o", setting))]
    problems = []
    # An old list may still name available packages.
    if not retry([*command, "update"], run):
        problems.append("apt-get update failed: the package lists are unchanged")
    needed = {*base, *(name for row in rows if row.required for name in row.apt)}
    if needed and not retry([*command, "install", "-y", *sorted(needed)], run):
        problems.append(f"error: apt-get install {' '.join(sorted(needed))} failed")
    for row in rows:
        left = sorted(set(row.apt) - needed)
        if row.required or not left:
            continue
        if retry([*command, "install", "-y", *left], run):
            needed |= {*left}
        else:
            problems.append(f"{row.id} may be unavailable: apt-get install {' '.join(left)} failed")
    return problems


def obstacle() -> str:
    """Return why system packages cannot be installed here at all; empty if they can."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    return "" if os.getuid() == 0 else "it needs the rights of root"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 1 if a package that every run needs could not be installed."""
    parser = argparse.ArgumentParser(
        description="Install the named system packages, and all packages of ci/devices.toml."
    )
    parser.add_argument("package", nargs="*", help="a name that apt-get knows")
    base: list[str] = parser.parse_args(arguments).package
    rows = conform_row.read()
    if reason := obstacle():
        names = " ".join(sorted({*base, *(name for row in rows for name in row.apt)}))
        sys.stderr.write(f"system packages: nothing is installed, because {reason}: {names}\n")
        return 0
    problems = install(base, rows)
    for problem in problems:
        sys.stderr.write(f"system packages: {problem}\n")
    return int(any(problem.startswith("error") for problem in problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
