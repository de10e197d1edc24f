"""Test that no test is lost: each is in the default or the thorough lane, in one shard."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ci_modules import ROOT, ci_module
from hypothesis import settings

SUITE = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", range(10))
def test_sampled(case):
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.long
@pytest.mark.parametrize("case", range(2))
def test_long(case):
    pass

@pytest.mark.parametrize("case", [pytest.param(0, marks=pytest.mark.slow), 1, 2])
def test_first_is_slow(case):
    pass

@pytest.mark.parametrize("case", range(5))
def test_cases(case):
    pass
"""
OTHER = """
def test_slow():
    pass
"""


noxfile = ci_module("noxfile.py")


# One child makes all choices, because pytest takes longer to start than to collect.
COLLECT = """
import contextlib, io, json, sys
import pytest

class Noted:
    def pytest_collection_finish(self, session):
        self.ids = [item.nodeid for item in session.items]

def collect(options):
    noted, said = Noted(), io.StringIO()
    noted.ids = []
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *options], [noted])
    return {"code": code, "ids": noted.ids, "said": said.getvalue()}

print(json.dumps([collect(each) for each in json.loads(sys.argv[1])]))
"""
CHOICES: dict[str, list[str]] = {
    "all": ["tests"],
    "default": ["tests", "-m", "not slow"],
    "quick": ["tests", "-m", "quick"],
    **{
        name: ["tests", "-m", "slow", *shard]
        for name, shard in {
            "slow": [],
            **{f"{number}/3": ["--shard", f"{number}/3"] for number in (1, 2, 3)},
        }.items()
    },
    **{text: ["--shard", text] for text in ("0/3", "4/3", "x", "1/")},
}


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what pytest collects for each choice, from a small suite with these settings."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_small.py").write_text(SUITE)
    (folder / "tests" / "test_other.py").write_text(OTHER)
    command = [sys.executable, "-c", COLLECT, json.dumps(list(CHOICES.values()))]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return dict(zip(CHOICES, json.loads(done.stdout), strict=True))


@pytest.fixture
def chosen(collections: dict[str, dict[str, Any]]) -> Callable[[str], set[str]]:
    """Return a function that returns the tests of a choice."""

    def tests(name: str) -> set[str]:
        collection = collections[name]
        assert collection["code"] in (0, 5), collection["said"]
        return set(collection["ids"])

    return tests


def test_every_test_is_in_one_of_the_two_lanes(chosen: Callable[[str], set[str]]) -> None:
    everything = chosen("all")
    assert len(everything) == 22
    default = chosen("default")
    thorough = chosen("slow")
    assert default | thorough == everything
    assert default & thorough == set()
    sampled = {f"tests/test_small.py::test_sampled[{case}]" for case in (1, 2, 4, 5, 7, 8)}
    assert thorough == {
        "tests/test_small.py::test_slow",
        "tests/test_small.py::test_first_is_slow[0]",
        *sampled,
    }


def test_the_first_case_of_each_test_is_quick(chosen: Callable[[str], set[str]]) -> None:
    # The first case that is neither slow nor long.
    assert chosen("quick") == {
        "tests/test_small.py::test_sampled[0]",
        "tests/test_small.py::test_first_is_slow[1]",
        "tests/test_small.py::test_cases[0]",
        "tests/test_other.py::test_slow",
    }


def test_the_shards_are_the_whole_and_share_nothing(chosen: Callable[[str], set[str]]) -> None:
    everything = chosen("slow")
    shards = [chosen(f"{number}/3") for number in (1, 2, 3)]
    assert set().union(*shards) == everything
    assert sum(len(shard) for shard in shards) == len(everything)


def test_shards_are_the_same_everywhere(pytestconfig: pytest.Config) -> None:
    # Twelve shards are about equally large, too.
    plugins = pytestconfig.pluginmanager.get_plugins()
    (shard_number,) = (plugin.shard_number for plugin in plugins if hasattr(plugin, "shard_number"))
    ids = [f"tests/a/test_b.py::test_c[{case}]" for case in range(1200)]
    assert [shard_number(name, 12) for name in ids[:6]] == [7, 12, 1, 2, 3, 4]
    sizes = [sum(shard_number(name, 12) == part for name in ids) for part in range(1, 13)]
    assert sum(sizes) == 1200
    assert max(sizes) < 150


@pytest.mark.parametrize("text", ["0/3", "4/3", "x", "1/"])
def test_a_shard_that_is_none_is_refused(collections: dict[str, dict[str, Any]], text: str) -> None:
    collection = collections[text]
    said = collection["said"]
    assert collection["code"] == 4, said
    assert f"got {text!r}" in said or f"invalid parse value: {text!r}" in said


def thorough_parts() -> list[str]:
    """Return each device and library of the tables, and each other Python."""
    parts = ["slow", "coverage", "random", "shuffled", "compiled", "sdist"]
    for name, table in (("conform_full", "devices.toml"), ("subjects", "subjects.toml")):
        ids = re.findall(r'^id = "(.*)"$', (ROOT / "ci" / table).read_text(), re.MULTILINE)
        parts += [f"{name}({row_id})" for row_id in ids]
    others = [version for version in ("3.11", "3.12", "3.13") if version != noxfile.THIS_PYTHON]
    return [*parts, *(f"python-{version}" for version in others)]


def test_the_thorough_lane_is_all_that_repeats() -> None:
    # Each landing runs a shard of every part, so that a broken part is seen at once.
    notified = []
    session = SimpleNamespace(
        posargs=["--shard", "3/12"], notify=lambda *words: notified.append(words)
    )
    noxfile.thorough(session)
    parts = thorough_parts()
    assert len(parts) > 30
    assert notified == [(part, ["--shard", "3/12"]) for part in parts]


@pytest.mark.long
def test_nox_knows_every_part() -> None:
    command = [sys.executable, "-m", "nox", "--list", "-f", str(ROOT / "noxfile.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    names = {line.split()[1] for line in done.stdout.splitlines() if " -> " in line}
    assert {*thorough_parts(), "thorough"} <= names


def test_ci_misses_required_devices_and_draws_fresh_examples() -> None:
    # The variable CI makes hypothesis draw the same examples each time, by default.
    assert "export CI=true\n" in (ROOT / ".ci" / "run").read_text()
    assert settings.get_profile("random").derandomize is False


@pytest.mark.slow
def test_tests_are_collected_in_one_order() -> None:
    # Workers and shards agree on the next test only if no list of cases comes from a set.

    def collected(hash_seed: str) -> list[str]:
        # Addresses order sets of types, and a seed of hashes changes addresses as well.
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-n", "0"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in done.stdout.splitlines() if "::" in line]

    orders = [collected(seed) for seed in ("1", "2", "3")]
    assert len(orders[0]) > 10_000
    assert orders[1:] == [orders[0], orders[0]]
