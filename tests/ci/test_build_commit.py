"""Test that archives that are built from a checkout know its commit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ci_modules import ROOT, ci_module, git

from tinyref.commit import Commit, commit, of_checkout

BUILT = '{"commit": "c0ffee", "dirty": true}'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository with the file that the hook reads, and one commit."""
    root = tmp_path / "checkout"
    (root / "tinyref").mkdir(parents=True)
    shutil.copy(ROOT / "tinyref" / "commit.py", root / "tinyref")
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "All.")
    return root


def test_a_checkout_says_its_commit_and_whether_it_was_changed(checkout: Path) -> None:
    package = checkout / "tinyref"
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / "a-report.html").write_text("untracked: no part of what is run")
    assert commit(package) == Commit(head, dirty=False)
    (package / "commit.py").write_text("# other\n")
    assert commit(package) == Commit(head, dirty=True)
    assert str(commit(package)) == f"commit {head[:12]}, with changes"


def test_what_was_built_says_what_it_was_built_of(checkout: Path) -> None:
    (checkout / "tinyref" / "commit.json").write_text(BUILT)
    assert commit(checkout / "tinyref") == Commit("c0ffee", dirty=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"commit": 1}'])
def test_a_file_that_says_nothing_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "tinyref").mkdir()
    (tmp_path / "tinyref" / "commit.json").write_text(text)
    assert commit(tmp_path / "tinyref") is None


def test_a_checkout_of_somebody_else_is_not_ours(checkout: Path) -> None:
    installed = checkout / "venv" / "tinyref"
    installed.mkdir(parents=True)
    assert of_checkout(installed) is None


def hooked(root: Path, version: str = "standard") -> dict[str, Any]:
    """Return what the hook puts into an archive: the commit, by its path there."""
    pytest.importorskip("hatchling")
    hook = ci_module("ci/build_commit.py").CommitHook(
        str(root), {}, None, None, str(root / "dist"), "wheel"
    )
    build_data: dict[str, Any] = {"force_include": {}}
    hook.initialize(version, build_data)
    added = {
        path: json.loads(Path(file).read_text())
        for file, path in build_data["force_include"].items()
    }
    hook.finalize(version, build_data, "")
    assert not any(Path(file).exists() for file in build_data["force_include"])
    return added


def test_the_hook_adds_the_commit(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert hooked(checkout) == {"tinyref/commit.json": {"commit": head, "dirty": False}}
    # An editable install is the checkout, also after changes.
    assert hooked(checkout, "editable") == {}


def test_the_hook_leaves_an_sdist_as_it_is(checkout: Path) -> None:
    shutil.rmtree(checkout / ".git")
    (checkout / "tinyref" / "commit.json").write_text(BUILT)
    assert hooked(checkout) == {}


@pytest.mark.slow
def test_the_wheel_of_the_sdist_has_the_commit(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no commit to look for")
    head = git(ROOT, "rev-parse", "HEAD")
    build(ROOT, "sdist", tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    build(unpacked, "wheel", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        assert json.loads(files.read("tinyref/commit.json"))["commit"] == head
        assert "tinyref_conformance/runner.py" in files.namelist()


def build(root: Path, target: str, folder: Path) -> None:
    words = ["-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run([sys.executable, *words], cwd=root, check=True, capture_output=True)
