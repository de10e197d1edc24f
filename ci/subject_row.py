"""The libraries of ci/subjects.toml: judge one by the tensor rows, in nox.

Import only the standard library here: nox loads this file before it installs anything.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "ci"))
import conform_row  # noqa: E402 - found by the line above
import packages  # noqa: E402

SUBJECTS = ROOT / "ci" / "subjects.toml"
# A shard of thirty takes seconds; this cuts a whole run of a library that compiles for minutes.
BUDGET = "10m"
# Libraries whose scripts are tested, for half a minute, in the first shard only.
SCRIPTS = "spec/tests/test_library_scripts.py"
SCRIPTED = ("torch", "numpy", "jax", "jax-jit", "mlx", "mlx-compile", "tinygrad", "onnxruntime")


@dataclass(frozen=True)
class Library:
    """A library to judge: its packages, and its name for `tinyref conform`."""

    id: str
    subject: str
    install: list[str]
    device: str = ""
    imports: list[str] = field(default_factory=list)
    program: str = ""
    profile: str = "quick"
    query: str = "*"
    environment: Mapping[str, str] = field(default_factory=dict)


def read(path: Path = SUBJECTS) -> list[Library]:
    """Return the libraries of a file. Raises `TypeError` for an unknown or missing key."""
    return [Library(**row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["subject"]]


def conform(
    session: Any,
    library: Library,
    report: Path,
    options: list[str],
    command_failed: type[Exception],
) -> None:
    """Judge a library in a nox session, with options of `tinyref conform`.

    If it cannot be installed, skip the session, with the reason there and in `report`.
    """
    environment = {**os.environ, **library.environment}
    if library.program and shutil.which(library.program) is None:
        reason = f"there is no {library.program}"
        session.skip(conform_row.note_unavailable(report, library.id, reason))
    packages.install_once(session, ".", env=environment)
    (report / conform_row.UNAVAILABLE).unlink(missing_ok=True)
    try:
        packages.install_once(session, *library.install, env=environment)
    except command_failed as error:
        reason = " ".join(str(error).split())
        session.skip(conform_row.note_unavailable(report, library.id, reason))
    words = ["tinyref", "conform", "--subject", library.subject, "--profile", library.profile]
    words += ["--query", library.query]
    words += ["--budget", BUDGET, "--out", str(report), *options]
    if library.device:
        words += ["--on", library.device]
    for package in library.imports:
        words += ["--import", package]
    words += conform_row.expectations(library.id)
    session.run(*words, env=environment)
    is_first = "--shard" not in options or options[options.index("--shard") + 1].startswith("1/")
    if library.subject in SCRIPTED and library.device == "cpu" and is_first:
        packages.install_once(session, "pytest", "hypothesis", env=environment)
        session.run("pytest", SCRIPTS, "-k", f"right_one[{library.subject}]", env=environment)
