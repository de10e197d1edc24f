"""The libraries that the thorough lane judges: a table that can be read, and their expectations."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from ci_modules import ROOT, ci_module

from tinyref_spec.subjects.name import SubjectName, default_place

subject_row = ci_module("ci/subject_row.py")
LIBRARIES = subject_row.read()


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.id)
def test_a_library_has_a_name_that_the_command_takes(library) -> None:
    place = library.place or default_place(library.subject)
    name = str(SubjectName(library.subject, place))
    known = ROOT / "ci" / "expectations" / f"{library.id}.toml"
    if known.exists():
        assert tomllib.loads(known.read_text())["device"] == name


def test_versions_are_bounded_where_failures_are_expected() -> None:
    """An expected failure that a later version repairs makes the lane red: somebody looks first."""
    for library in LIBRARIES:
        if (ROOT / "ci" / "expectations" / f"{library.id}.toml").exists():
            assert all("<" in package for package in library.install), library.id


@pytest.mark.parametrize(
    "row", ["id = 'a'\nsubject = 'b'", "id = 'a'\nsubject = 'b'\ninstall = []\nplaces = 'c'"]
)
def test_a_key_that_is_missing_or_unknown_is_refused(tmp_path: Path, row: str) -> None:
    (tmp_path / "subjects.toml").write_text(f"[[subject]]\n{row}\n")
    with pytest.raises(TypeError, match=r"install|places"):
        subject_row.read(tmp_path / "subjects.toml")
