"""Packages of `tinyref new-backend`, for the tests of the command and of the tutorial."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tinyref.cli.entry import run


def tinyref(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own; `path` is its folder, with packages."""
    environment = dict(os.environ)
    if path is not None:
        others = filter(None, [environment.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join([str(path), *others])
    return subprocess.run(
        [sys.executable, "-m", "tinyref", *arguments],
        text=True,
        capture_output=True,
        check=False,
        env=environment,
        cwd=path,
    )


def write_package(name: str, language: str, folder: Path) -> None:
    """Write a package, and next to it the metadata that `pip install -e` adds."""
    assert run(["new-backend", name, "--language", language, "--out", str(folder)]) == 0
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
