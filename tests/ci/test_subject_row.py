"""Test the table of libraries in the thorough lane, and their expected failures."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from ci_modules import ROOT, ci_module

from tinyref_spec.subjects.name import SubjectName, default_device

subject_row = ci_module("ci/subject_row.py")
LIBRARIES = subject_row.read()


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.id)
def test_a_library_has_a_name_that_the_command_takes(library) -> None:
    device = library.device or default_device(library.subject)
    name = str(SubjectName(library.subject, device))
    known = ROOT / "ci" / "expectations" / f"{library.id}.toml"
    if known.exists():
        assert tomllib.loads(known.read_text())["device"] == name


def test_versions_are_bounded_where_failures_are_expected() -> None:
    # If a later version repairs an expected failure, the lane fails, so somebody must look first.
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


def test_a_row_becomes_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The device of another package, a part of the rows, and the variables of the run.
    library = next(library for library in LIBRARIES if library.id == "torch-backend")
    ran: list[tuple[tuple[str, ...], dict[str, str]]] = []
    session = SimpleNamespace(run=lambda *words, env: ran.append((words, env)))
    monkeypatch.setattr(subject_row.packages, "install_once", lambda *words, env: None)
    subject_row.conform(session, library, tmp_path, ["--shard", "1/3"], RuntimeError)
    ((words, environment),) = ran
    text = " ".join(words)
    assert "tinyref conform --subject torch --profile quick --query" in text
    assert text.endswith("--shard 1/3 --on mine --import torch_mine")
    assert environment["PYTHONPATH"] == "examples"


@pytest.mark.parametrize(("shard", "count"), [("1/3", 2), ("2/3", 1)])
def test_the_first_shard_tests_the_scripts_of_a_library(
    shard: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = next(library for library in LIBRARIES if library.id == "jax-own")
    ran: list[str] = []
    session = SimpleNamespace(run=lambda *words, env: ran.append(" ".join(words)))
    monkeypatch.setattr(subject_row.packages, "install_once", lambda *words, env: None)
    subject_row.conform(session, library, tmp_path, ["--shard", shard], RuntimeError)
    assert len(ran) == count
    scripts = "pytest spec/tests/test_library_scripts.py -k right_one[jax]"
    assert (scripts in ran) == (count == 2)


def test_a_row_without_its_program_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = next(library for library in LIBRARIES if library.id == "tinygrad")
    monkeypatch.setenv("PATH", "")

    def skip(reason: str) -> None:
        raise InterruptedError(reason)

    with pytest.raises(InterruptedError, match="tinygrad is unavailable: there is no clang-19"):
        subject_row.conform(SimpleNamespace(skip=skip), library, tmp_path, [], RuntimeError)
