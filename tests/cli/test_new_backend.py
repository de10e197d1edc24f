"""Test `tinyref new-backend`: its package runs, conforms, is typed and clean; refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RunTinyref
from tests.cli.written_backends import tinyref, write_package
from tinyref.backend import WebgpuBackend
from tinyref.cli.new_backend import LANGUAGES
from tinyref.runtimes.host.clang import COMPILERS

C_LIKE = [name for name, language in LANGUAGES.items() if language.is_c_like]
# An operation, groups that share memory and wait, views by offsets, the order of the queue, and a
# tensor. The thorough lane runs the whole suite.
PART = (
    "isa.binary.mod.int32.special:3,kernel.program.group.reverse,kernel.program.extremes.int32.size:24,"
    "kernel.offset.int32,memory.order,tensor.softmax.float32"
)


@pytest.fixture(params=list(LANGUAGES))
def generated(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """Return a language, and the folder of an installed package for the device SAMPLE."""
    language: str = request.param
    if LANGUAGES[language].is_c_like and not any(map(shutil.which, COMPILERS)):
        pytest.skip(f"{language} needs one of {', '.join(COMPILERS)}")
    if language == "wgsl" and not WebgpuBackend.availability().works:
        pytest.skip(WebgpuBackend.availability().reason)
    folder = tmp_path / "written"
    write_package("sample", language, folder)
    return language, folder


def conform(folder: Path, *options: str) -> str:
    report = str(folder / "report")
    run = tinyref("conform", "--device", "SAMPLE", "--out", report, *options, path=folder)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def rungs(folder: Path) -> dict[str, str]:
    """Return the state of each rung by its title, from the report of `conform`."""
    report = json.loads((folder / "report" / "report.json").read_text())
    return {rung["title"]: rung["state"] for rung in report["ladder"]}


@pytest.mark.long
@pytest.mark.sampled(3)
def test_a_part_conforms_as_it_is_written(generated: tuple[str, Path]) -> None:
    _, folder = generated
    said = conform(folder, "--query", PART, "--jobs", "1")
    assert " cases pass (not a conformance run)" in said
    for rung in ("index", "groups and barriers", "tensor functions"):
        assert rungs(folder)[rung] == "holds"


@pytest.mark.slow
def test_the_quick_suite_conforms_as_it_is_written(generated: tuple[str, Path]) -> None:
    language, folder = generated
    expected = LANGUAGES[language].expectations and str(folder / "expectations.toml")
    conform(folder, *(["--expectations", expected] if expected else []))
    assert rungs(folder)["groups and barriers"] == "holds"


@pytest.mark.long
@pytest.mark.sampled(3)
def test_what_is_written_is_clean_and_typed(generated: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = generated
    cache = str(tmp_path.parent / "types")
    for command in (
        ["ruff", "check", "--no-cache", "."],
        ["ruff", "format", "--no-cache", "--check", "."],
        ["mypy", "--cache-dir", cache],
    ):
        if shutil.which(command[0], path=Path(sys.executable).parent) is None:
            pytest.skip(f"{command[0]} is not installed")
        run = subprocess.run(
            [str(Path(sys.executable).parent / command[0]), *command[1:]],
            cwd=folder,
            text=True,
            capture_output=True,
            check=False,
            env={**os.environ, "MYPYPATH": str(folder)},
        )
        assert run.returncode == 0, run.stdout + run.stderr


def test_a_written_package_imports_only_tinyref_backend(tmp_path: Path) -> None:
    for language in LANGUAGES:
        folder = tmp_path / language
        write_package("sample", language, folder)
        texts = [path.read_text() for path in folder.rglob("*.py")]
        imports = {
            name for text in texts for name in re.findall(r"(?:from|import) (tinyref\S*)", text)
        }
        assert imports == {"tinyref.backend"}


def test_the_command_says_what_is_needed_and_what_is_next(
    run_tinyref: RunTinyref, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    run = run_tinyref("new-backend", "MINE", "--language", "llvm", "--out", str(folder))
    assert "It needs nothing but tinyref." in run.out
    assert "tinyref conform --device MINE" in run.out
    assert "mine/renderer.py" in run.out
    # The command runs in the folder that was just written.
    other = str(tmp_path / "other")
    run = run_tinyref("new-backend", "YOURS", "--language", "opencl", "--out", other)
    assert "It needs a C compiler: tcc, gcc or clang" in run.out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2fast", "cannot be the name of a device and of its package"),
        ("my-card", "cannot be the name of a device and of its package"),
        ("_mine", "cannot be the name of a device and of its package"),
        ("x" * 25, "accepted are up to 24 letters"),
        ("cpu", "CPU is a device already"),
        ("class", "'class' is a word of Python"),
        ("json", "there is a module 'json'"),
        ("tinyref", "there is a module 'tinyref'"),
    ],
)
def test_names_that_cannot_be(
    run_tinyref: RunTinyref, name: str, message: str, tmp_path: Path
) -> None:
    run = run_tinyref("new-backend", name, "--out", str(tmp_path / "there"))
    assert run.code == 2
    assert message in run.err
    assert not (tmp_path / "there").exists()


def test_nothing_is_written_over(run_tinyref: RunTinyref, tmp_path: Path) -> None:
    run = run_tinyref("new-backend", "mine", "--out", str(tmp_path))
    assert run.code == 2
    assert "is there already: accepted is a new folder" in run.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_language_is_refused(run_tinyref: RunTinyref, tmp_path: Path) -> None:
    run = run_tinyref("new-backend", "mine", "--language", "openc", "--out", str(tmp_path / "x"))
    assert run.code == 2
    assert "did you mean opencl? accepted are c, opencl, cuda, llvm, wgsl" in run.err


@pytest.mark.long
def test_a_broken_table_fails_the_rung_that_it_breaks(tmp_path: Path) -> None:
    # The check above can fail: swapped work-items break their rung.
    folder = tmp_path / "written"
    write_package("sample", "llvm", folder)
    runtime = folder / "sample" / "runtime.py"
    text = runtime.read_text()
    right = "Piece(handle.memory, handle.offset + offset)"
    assert text.count(right) == 1
    runtime.write_text(text.replace(right, "Piece(handle.memory, handle.offset)"))
    report = str(folder / "report")
    run = tinyref(
        "conform",
        "--device",
        "SAMPLE",
        "--out",
        report,
        "--query",
        "memory.view",
        "--no-rerun-failures",
        path=folder,
    )
    assert run.returncode == 1
    assert "SAMPLE does not conform: first broken rung is 'allocate and copy'" in run.stdout
