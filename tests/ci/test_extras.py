"""Test dependencies: the extras on the pages exist, and none of them is empty."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=;~! ]", requirement, maxsplit=1)[0]


def test_no_extra_is_empty() -> None:
    assert [name for name, packages in EXTRAS.items() if not packages] == []
    assert {"cuda", "opencl", "webgpu", "metal", "cluster", "docs", "pytest"} <= set(EXTRAS)


def test_conform_needs_the_base_alone() -> None:
    base = {name_of(package) for package in PROJECT["dependencies"]}
    assert {"numpy", "mpmath", "jinja2", "typer", "rich"} <= base
    assert not base & {"pytest", "hypothesis", "torch", "z3-solver", "jsonschema"}


def test_every_extra_that_a_page_names_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    named = re.findall(r"'(?:tinyref|\.)\[([a-z,]+)\]'", text)
    assert {extra for extras in named for extra in extras.split(",")} - set(EXTRAS) == set()
    assert {"cuda", "opencl", "pytest"} <= set(named)
