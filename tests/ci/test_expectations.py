"""Test the expected failures of the matrix: readable files, with entries that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tinyref_conformance.expectations_file import load

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "ci" / "expectations").glob("*.toml"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_expected_failure_leads_to_its_entry(file: Path) -> None:
    entries = tomllib.loads(file.read_text())
    load(file, entries["device"])
    for entry in (*entries.get("expected", ()), *entries.get("skip", ())):
        page, _, anchor = entry["link"].partition("#")
        if page.startswith("docs/"):
            assert anchor in anchors(ROOT / page), entry["link"]
