"""A sample of something added to a copy of the sources, in the places that CONTRIBUTING names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "tinyref": ".",
    "tinyref_spec": "spec",
    "tinyref_fuzz": "fuzz",
    "tinyref_conformance": "conformance",
}
FILES = (
    "pyproject.toml",
    "tests/algebra/test_rules.py",
)
MAX_PLACES = 4

# What the cases of a query give on a device: raises for one that fails.
RUN_CASES = """
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest

def run_cases(query, device):
    cases = catalogue.cases(Profile.FULL, query)
    under_test = DeviceUnderTest(device)
    for case in cases:
        found = case.run(under_test)
        assert found.passed, (case.id, found)
    return len(cases)
"""


@dataclass(frozen=True)
class Insertion:
    """`text` stands before the one place of a file that reads `before`."""

    before: str
    text: str


@dataclass(frozen=True)
class Sample:
    """What is added: the title of its section in CONTRIBUTING, and by path what is written where.

    script: Python that sees the addition at work; it fails with another exit code than 0.
    """

    title: str
    places: Mapping[str, tuple[Insertion, ...]]
    script: str


def section(title: str) -> str:
    """The text of a section of "How to add something"."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"^### {re.escape(title)}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    assert found is not None, f"CONTRIBUTING.md has no section {title!r}"
    return found[1]


def places(title: str) -> list[str]:
    """The paths of the numbered list of a section; NAME in them stands for any name."""
    return re.findall(r"^\d+\. `([^`]+)`", section(title), re.M)


def is_place(path: str, place: str) -> bool:
    """Whether the file at `path` is what `place` says."""
    return fnmatchcase(path, re.sub(r"\b[A-Z]{3,}\b", "*", place))


def copied(folder: Path, sample: Sample) -> Path:
    """A copy of the sources in `folder`, with the sample added."""
    # What is compiled comes along, with the times of its sources; not what is just being written.
    ignored = shutil.ignore_patterns("*.pyc.*")
    for package, room in PACKAGES.items():
        shutil.copytree(ROOT / room / package, folder / room / package, ignore=ignored)
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for path, change in sample.places.items():
        _write(folder / path, change)
    _declare(folder)
    return folder


def _write(path: Path, change: tuple[Insertion, ...]) -> None:
    text = path.read_text(encoding="utf-8")
    for each in change:
        assert text.count(each.before) == 1, f"{path}: {each.before!r}"
        text = text.replace(each.before, each.text + each.before)
    path.write_text(text, encoding="utf-8")


def _declare(folder: Path) -> None:
    """What an installer would write of the copy: its backends."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / "tinyref-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyref\nVersion: 0\n")
    lines = ["[tinyref.backends]"]
    lines += [f"{k} = {v}" for k, v in project["entry-points"]["tinyref.backends"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process that imports the copy."""
    path = os.pathsep.join(str(folder / room) for room in PACKAGES.values())
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
