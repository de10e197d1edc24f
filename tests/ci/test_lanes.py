"""No test is lost: each is in the default or in the thorough lane, and in one shard of it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ci_modules import ROOT, ci_module
from nox.command import CommandFailed

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


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    return ci_module("noxfile.py")


# What one run of nox installed is no matter of another.
RUNS = itertools.count()


class Environment:
    """An environment of nox in a folder of a run: notes where it was created again.

    is_new: whether it was made anew then, as nox does where it is to reuse none.
    """

    is_new = False

    def __init__(self, run: str, name: str) -> None:
        self.location = self.location_name = f"{run}/{name}"
        self.env = {"VIRTUAL_ENV": self.location, "CONDA_PREFIX": None}
        self.created: list[str] = []

    def create(self) -> bool:
        self.created.append(self.location)
        return self.is_new


class Session:
    """A session of nox that notes its commands and whom it notifies."""

    def __init__(self, *posargs: str) -> None:
        self.posargs = list(posargs)
        self.commands: list[tuple[str, ...]] = []
        self.installed: list[str] = []
        self.missing = ""
        self.warnings: list[str] = []
        self.environment: dict[str, str] = {}
        self.success_codes: list[int] = []
        self.notified: list[tuple[str, list[str]]] = []
        self.virtualenv = Environment(f"/run {next(RUNS)}", "own")

    def install(self, *words: str, **options: Any) -> None:
        if words[-1] == self.missing:
            raise CommandFailed(reason="no wheel")
        self.installed.append(words[-1])

    def run(self, *words: str, env: dict[str, str] | None = None, **options: Any) -> str:
        self.commands.append(words)
        self.success_codes = options.get("success_codes", [0])
        self.environment |= env or {}
        return json.dumps({"devices": [{"works": True, "reason": ""}]})

    def notify(self, name: str, posargs: list[str]) -> None:
        self.notified.append((name, posargs))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def skip(self, text: str) -> None:
        raise Skipped(text)


class Skipped(Exception):  # noqa: N818  it is no error
    """What a session of nox raises that is skipped."""


# Every choice of tests in one child, as a start of pytest takes longer than a collection.
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
    """What pytest says to each choice, of a small suite with the conftest and settings of this."""
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
    """The tests of a choice."""

    def tests(name: str) -> set[str]:
        found = collections[name]
        assert found["code"] in (0, 5), found["said"]
        return set(found["ids"])

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
    """The first that is neither slow nor long."""
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
    """And twelve of them are about equally large."""
    plugins = pytestconfig.pluginmanager.get_plugins()
    (shard_number,) = (found.shard_number for found in plugins if hasattr(found, "shard_number"))
    ids = [f"tests/a/test_b.py::test_c[{case}]" for case in range(1200)]
    assert [shard_number(name, 12) for name in ids[:6]] == [7, 12, 1, 2, 3, 4]
    sizes = [sum(shard_number(name, 12) == part for name in ids) for part in range(1, 13)]
    assert sum(sizes) == 1200
    assert max(sizes) < 150


@pytest.mark.parametrize("text", ["0/3", "4/3", "x", "1/"])
def test_a_shard_that_is_none_is_refused(collections: dict[str, dict[str, Any]], text: str) -> None:
    found = collections[text]
    assert found["code"] == 4, found["said"]
    assert f"got {text!r}" in found["said"] or f"invalid parse value: {text!r}" in found["said"]


def test_the_default_checks(noxfile: ModuleType) -> None:
    assert noxfile.nox.options.sessions == ["lint", "types", "docs", "tests", "conform", "fuzz"]
    session = Session()
    noxfile.tests(session)
    (command,) = session.commands
    assert command == ("pytest", "-n", "auto", "-m", "not slow")
    assert session.success_codes == [0]
    assert session.installed == [".[test,lint,types]", ".[opencl,webgpu]", ".[docs]"]
    assert session.warnings == []


def test_where_a_binding_cannot_be_installed_the_other_tests_run(noxfile: ModuleType) -> None:
    session = Session()
    session.missing = ".[opencl,webgpu]"
    noxfile.tests(session)
    assert len(session.commands) == 1
    assert session.warnings == [
        "OPENCL and WEBGPU cannot be installed here: their tests are skipped"
    ]
    session = Session()
    session.missing = ".[test,lint,types]"
    with pytest.raises(CommandFailed):
        noxfile.tests(session)


def test_the_floor_of_coverage_is_that_of_all_quick_tests(noxfile: ModuleType) -> None:
    for shard in ([], ["--shard", "1/12"]):
        session = Session(*shard)
        noxfile.coverage(session)
        (command,) = session.commands
        assert command[:6] == ("pytest", "-n", "auto", "-m", "quick", "--cov")
        assert "--shard" not in command
    # Other shards have no floor.
    for shard in ("2/12", "12/12", "11/12"):
        session = Session("--shard", shard)
        with pytest.raises(Skipped, match=shard):
            noxfile.coverage(session)
        assert session.commands == []


def thorough_parts(noxfile: ModuleType) -> list[str]:
    """Each device and library of the tables, and each other Python."""
    parts = ["slow", "coverage", "random", "shuffled", "compiled", "sdist"]
    for name, table in (("conform_full", "devices.toml"), ("subjects", "subjects.toml")):
        ids = re.findall(r'^id = "(.*)"$', (ROOT / "ci" / table).read_text(), re.MULTILINE)
        parts += [f"{name}({each})" for each in ids]
    others = [version for version in ("3.11", "3.12", "3.13") if version != noxfile.THIS_PYTHON]
    return [*parts, *(f"python-{version}" for version in others)]


def test_the_thorough_lane_is_all_that_repeats(noxfile: ModuleType) -> None:
    session = Session("--shard", "3/12")
    noxfile.thorough(session)
    parts = thorough_parts(noxfile)
    assert len(parts) > 30
    assert session.notified == [(part, ["--shard", "3/12"]) for part in parts]


@pytest.mark.parametrize(
    ("name", "marks", "environment"),
    [
        ("slow", ("-m", "slow"), "tests"),
        ("random", ("-m", "hypothesis", "--hypothesis-profile", "random"), "tests"),
        ("shuffled", ("-m", "not slow"), "tests"),
        # These have more packages, or another Python.
        ("compiled", ("-k", "not HIP"), "own"),
        ("each_python", (), "own"),
    ],
)
def test_a_part_of_the_thorough_lane_runs_its_shard(
    noxfile: ModuleType, name: str, marks: tuple[str, ...], environment: str
) -> None:
    session = Session("--shard", "3/12")
    getattr(noxfile, name)(session)
    (command,) = session.commands
    assert command[: 3 + len(marks)] == ("pytest", "-n", "auto", *marks)
    assert command[-2:] == ("--shard", "3/12")
    assert session.success_codes == [0, 5], "a shard of few tests may have none of them"
    assert session.virtualenv.location.endswith(f"/{environment}")
    folders = [word for word in command if word.startswith("tests/")]
    assert all((ROOT / folder).exists() for folder in folders)
    if name == "shuffled":
        assert session.environment == {"TINYREF_SHUFFLE_RULES": "7"}
        assert len(folders) == 10


def test_devices_and_libraries_run_their_shard(noxfile: ModuleType) -> None:
    session = Session("--shard", "3/12")
    noxfile.conform_full(session, "cpu")
    assert session.commands[-1][-4:] == ("--timeout", "240", "--shard", "3/12")
    assert session.commands[-1][:4] == ("tinyref", "conform", "--device", "CPU")
    session = Session("--shard", "3/12")
    noxfile.subjects(session, "jax")
    assert session.installed[0] == "."
    assert session.installed[1].startswith("jax")
    assert session.virtualenv.location.endswith("/subjects")
    assert session.environment["JAX_ENABLE_X64"] == "1"
    (command,) = session.commands
    assert command[:4] == ("tinyref", "conform", "--subject", "array-api:jax.numpy")
    assert command[command.index("--budget") + 1] == "10m"
    assert command[command.index("--profile") + 1] in ("quick", "full")
    assert command[command.index("--shard") + 1] == "3/12"
    assert command[-2:] == ("--expectations", str(ROOT / "ci" / "expectations" / "jax.toml"))


def test_a_library_that_cannot_be_installed_is_unavailable(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noxfile, "REPORT", tmp_path)
    session = Session()
    session.missing = noxfile.SUBJECTS["mlx"].install[-1]
    with pytest.raises(Skipped, match="mlx is unavailable: no wheel"):
        noxfile.subjects(session, "mlx")
    assert session.commands == []
    note = tmp_path / "subject-mlx" / "unavailable.txt"
    assert note.read_text() == "mlx is unavailable: no wheel\n"
    # It is there the next time.
    noxfile.subjects(Session(), "mlx")
    assert not note.exists()


def session_of(run: str, name: str) -> Session:
    """A session of a run of nox, in an environment of its own."""
    session = Session()
    session.virtualenv = Environment(run, name)
    return session


def test_rows_of_devices_share_what_is_installed(noxfile: ModuleType) -> None:
    first, second, third = (session_of("/devices", name) for name in ("cpu", "python", "fuzz"))
    noxfile.conform(first, "cpu")
    noxfile.conform_full(second, "python")
    noxfile.fuzz(third)
    for session in (first, second, third):
        assert session.virtualenv.location == "/devices/devices"
        assert session.virtualenv.env == {"VIRTUAL_ENV": "/devices/devices", "CONDA_PREFIX": None}
        assert session.virtualenv.created == ["/devices/devices"]
        assert session.commands != []
    assert [first.installed, second.installed, third.installed] == [["."], [], []]


def test_a_failed_installation_and_a_new_environment_install_again(noxfile: ModuleType) -> None:
    first, second = session_of("/again", "cpu"), session_of("/again", "python")
    first.missing = "."
    with pytest.raises(CommandFailed):
        noxfile.conform(first, "cpu")
    noxfile.conform(second, "python")
    assert second.installed == ["."]
    third = session_of("/again", "cpu")
    third.virtualenv.is_new = True
    noxfile.conform(third, "cpu")
    assert third.installed == ["."]


@pytest.mark.long
def test_nox_knows_every_part(noxfile: ModuleType) -> None:
    command = [sys.executable, "-m", "nox", "--list", "-f", str(ROOT / "noxfile.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    names = {line.split()[1] for line in done.stdout.splitlines() if " -> " in line}
    assert {*thorough_parts(noxfile), "thorough"} <= names


def test_ci_misses_required_devices_and_draws_fresh_examples() -> None:
    """The variable CI makes hypothesis draw the same examples each time, unless told otherwise."""
    assert "export CI=true\n" in (ROOT / ".ci" / "run").read_text()
    script = "import conftest; from hypothesis import settings; "
    script += "settings.load_profile('random'); print(settings().derandomize)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"CI": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


@pytest.mark.slow
def test_tests_are_collected_in_one_order() -> None:
    """Workers and shards agree on what is next only where no list of cases comes from a set."""

    def collected(hash_seed: str) -> list[str]:
        # Sets of types are ordered by addresses, which a seed of hashes moves as well.
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
