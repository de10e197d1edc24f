"""Test the choice of a shard of the thorough lane for a commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from ci_modules import ROOT, ci_module, git

shard = ci_module("ci/shard.py")


def commit(folder: Path, message: str) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first")
    return folder


def test_each_landing_is_given_the_next(repository: Path) -> None:
    # Only first parents count, so commits of a merged branch do not.
    assert shard.shard(repository) == "2/30"
    git(repository, "checkout", "-q", "-b", "branch")
    for name in "abc":
        commit(repository, name)
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "-m", "merged", "branch")
    assert shard.shard(repository) == "3/30"
    for number in range(4, 31):
        commit(repository, f"landing {number}")
    assert shard.shard(repository) == "30/30"
    commit(repository, "thirtieth")
    assert shard.shard(repository) == "1/30"


def test_a_shallow_clone_goes_by_the_hash_of_its_commit(repository: Path, tmp_path: Path) -> None:
    shards = set()
    for number in range(3):
        commit(repository, str(number))
        clone = tmp_path / f"clone{number}"
        git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
        assert git(clone, "rev-list", "--count", "HEAD") == "1"
        expected = int(git(repository, "rev-parse", "HEAD"), 16) % 30 + 1
        assert shard.shard(clone) == f"{expected}/30"
        shards.add(expected)
    assert len(shards) > 1


def test_without_a_repository_it_is_the_first(tmp_path: Path) -> None:
    assert shard.shard(tmp_path) == "1/30"


def test_a_repository_around_the_folder_is_not_counted(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "1")
    (tmp_path / "unpacked").mkdir()
    assert shard.shard(tmp_path) == "2/30"
    assert shard.shard(tmp_path / "unpacked") == "1/30"


def test_ci_runs_it_after_the_default_checks() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-2:] == [
        'python -m pip install "nox[uv]" && nox',
        'nox -s thorough -- --shard "$(python ci/shard.py)"',
    ]
