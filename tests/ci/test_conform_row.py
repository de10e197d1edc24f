"""Test the device matrix of CI: rows that it accepts, and errors if required devices miss."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ci_modules import ci_module

from tinyref.config import FLAGS, Effect

ROOT = Path(__file__).resolve().parents[2]
conform_row = ci_module("ci/conform_row.py")
GOOD = """
[[device]]
id = "mine"
device = "MINE"
profile = "quick"
budget = 60
needs = "a card"
required = true
install = { pip = ["card-driver>=2"], apt = ["libcard1", "gcc"] }
environment = { TINYREF_CC = "gcc", CARD = "1" }
setup = ["card-load --quiet 'unit 1'"]
"""


@pytest.fixture(autouse=True)
def _in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variable CI, as .ci/run does; a person's run deletes it."""
    monkeypatch.setenv("CI", "true")


class EndedError(Exception):
    """End of a session of nox before its last command."""


class CommandFailed(Exception):  # noqa: N818 - the name in nox
    """End of a command that fails."""


RUNS = itertools.count()


class Session:
    """A session of nox that notes the calls; `tinyref devices` prints `described`.

    failing: A word of the commands that fail.
    """

    def __init__(self, described: str, failing: str = "") -> None:
        self.described = described
        self.failing = failing
        self.calls: list[tuple[str, ...]] = []
        self.environments: list[dict[str, str]] = []
        self.warnings: list[str] = []
        self.virtualenv = SimpleNamespace(location=f"environment {next(RUNS)}")

    def install(self, *words: str, env: dict[str, str]) -> None:
        self.calls.append(("pip", *words))
        self.environments.append(env)
        self._fail(words)

    def run(self, *words: str, env: dict[str, str], **options: Any) -> str:
        self.calls.append(words)
        self.environments.append(env)
        self._fail(words)
        return self.described

    def _fail(self, words: tuple[str, ...]) -> None:
        if self.failing in words:
            raise CommandFailed(f"{' '.join(words)} failed\nwith code 1")

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def error(self, text: str) -> None:
        raise EndedError(f"error: {text}")

    def skip(self, text: str) -> None:
        raise EndedError(f"skip: {text}")


def rows_of(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "devices.toml"
    path.write_text(text)
    return conform_row.read(path)


def row_of(tmp_path: Path, more: str = "", required: str = "true") -> Any:
    """Return the row of GOOD, with further keys."""
    text = GOOD.replace("required = true", f"required = {required}\n{more}")
    (row,) = rows_of(tmp_path, text)
    return row


def described(*works: bool, reason: str = "no driver") -> str:
    """Return what `tinyref devices` prints of the devices of a row."""
    return json.dumps(
        {"devices": [{"works": is_working, "reason": reason} for is_working in works]}
    )


def test_a_row_runs_what_it_says_in_its_environment(tmp_path: Path) -> None:
    row = row_of(tmp_path)
    note = tmp_path / "unavailable.txt"
    note.write_text("mine was unavailable before")
    session = Session(described(True))
    conform_row.conform(session, row, tmp_path, ["--profile", "quick"], CommandFailed)
    assert not note.exists()
    assert session.calls == [
        ("pip", "."),
        ("pip", "card-driver>=2"),
        ("card-load", "--quiet", "unit 1"),
        ("tinyref", "devices", "--json", "MINE"),
        tuple(f"tinyref conform --device MINE --out {tmp_path} --profile quick".split()),
    ]
    for environment in session.environments:
        assert environment["CARD"] == "1"
        assert environment["TINYREF_CC"] == "gcc"
        assert environment["PATH"] == os.environ["PATH"]


def test_expectations_of_a_row_are_given_to_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conform_row, "EXPECTATIONS", tmp_path)
    known = tmp_path / "mine.toml"
    for more in (("--expectations", str(known)), ()):
        known.unlink() if not more else known.write_text("")
        session = Session(described(True))
        conform_row.conform(session, row_of(tmp_path), tmp_path, [], CommandFailed)
        command = f"tinyref conform --device MINE --out {tmp_path}"
        assert session.calls[-1] == (*command.split(), *more)


@pytest.mark.parametrize(
    ("seconds", "options", "warnings"),
    [
        (60.2, ["--profile", "quick"], []),
        (61, ["--profile", "quick"], ["mine took 61 s, beyond its budget of 60 s"]),
        (61, ["--profile", "full"], []),
        (61, ["--profile", "quick", "--shard", "1/2"], []),
    ],
)
def test_a_run_beyond_its_budget_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    options: list[str],
    warnings: list[str],
) -> None:
    row = row_of(tmp_path)
    clock = iter([100.0, 100.0 + seconds])
    monkeypatch.setattr(conform_row.time, "monotonic", lambda: next(clock))
    session = Session(described(True))
    conform_row.conform(session, row, tmp_path, options, CommandFailed)
    assert session.warnings == warnings


TWO = GOOD.replace('device = "MINE"', 'devices = ["MINE", "OTHER:1"]')
THERE = described(True)
DRIVER = GOOD.replace("setup", 'driver = ["libno.so", "libn.so"]\nsetup')


@pytest.mark.parametrize(
    ("text", "described", "failing", "reason"),
    [
        (GOOD, described(False, reason="no card"), "", "MINE does not work here: no card"),
        (GOOD, '{"devices": []}', "", "tinyref devices does not list MINE"),
        (GOOD, "Traceback", "", "tinyref devices does not list MINE: 'Traceback'"),
        (GOOD, '{"devices": [{"works": 1}]}', "", "tinyref devices does not list MINE"),
        (GOOD, THERE, "card-driver>=2", "card-driver>=2 failed with code 1"),
        (GOOD, THERE, "card-load", "card-load --quiet unit 1 failed with code 1"),
        (DRIVER, THERE, "", "there is no libno.so or libn.so"),
        (TWO, described(True, False), "", "OTHER:1 does not work here: no driver"),
        (TWO, described(False, True), "", "MINE does not work here: no driver"),
        (TWO, described(True), "", "tinyref devices does not list OTHER:1"),
    ],
)
@pytest.mark.parametrize(
    ("ci", "required", "how"),
    [
        ("true", "true", "error"),
        ("true", "false", "skip"),
        # A person needs no required device.
        *((value, "true", "skip") for value in (None, "", "0", "false", "False")),
    ],
)
def test_what_is_missing_is_an_error_in_ci_if_it_is_required(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    described: str,
    failing: str,
    reason: str,
    ci: str | None,
    required: str,
    how: str,
) -> None:
    monkeypatch.delenv("CI") if ci is None else monkeypatch.setenv("CI", ci)
    (row,) = rows_of(tmp_path, text.replace("required = true", f"required = {required}"))
    session = Session(described, failing)
    with pytest.raises(EndedError) as caught:
        conform_row.conform(session, row, tmp_path / "report", [], CommandFailed)
    told = str(caught.value).removeprefix(f"{how}: ")
    assert told.startswith(f"mine is unavailable: {reason}")
    assert told.endswith("; it needs a card (apt-get install libcard1 gcc)")
    assert all("conform" not in call for call in session.calls)
    if text is DRIVER:
        assert session.calls == []
    assert (tmp_path / "report" / "unavailable.txt").read_text() == f"{told}\n"


# Devices without a compiler, driver or simulator: pip installs them.
BARE = ("cpu", "python", "gpu-emu", "cpu-python", "cpu-gpu-emu")


@pytest.fixture(scope="module")
def bare_devices(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the output of `tinyref devices` for each device on a machine with only Python."""
    names = {name for row in conform_row.read() if not row.driver for name in row.devices}
    nothing = str(tmp_path_factory.mktemp("empty"))
    hidden = ("PATH", "OCL_ICD_VENDORS", "VK_ICD_FILENAMES", "VK_DRIVER_FILES")
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX")}
    done = subprocess.run(
        [sys.executable, "-m", "tinyref", "devices", "--json", *names],
        env=environment | dict.fromkeys(hidden, nothing),
        capture_output=True,
        check=False,
        text=True,
    )
    return dict(zip(names, json.loads(done.stdout)["devices"], strict=True))


@pytest.mark.long
@pytest.mark.parametrize("ci", [False, True])
def test_on_a_machine_with_python_alone_nox_is_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare_devices: Any, ci: bool
) -> None:
    # Required rows miss their compilers only if CI is set.
    if not ci:
        monkeypatch.delenv("CI")
    ends = {}
    for row in conform_row.read():
        if row.driver:
            continue
        session = Session(json.dumps({"devices": [bare_devices[name] for name in row.devices]}))
        try:
            conform_row.conform(session, row, tmp_path / row.id, [], CommandFailed)
        except EndedError as end:
            ends[row.id] = str(end).partition(":")[0] if row.needs in str(end) else str(end)
        else:
            ends[row.id] = session.calls[-1][1]
    assert {name for name, end in ends.items() if end == "conform"} == set(BARE)
    missed = {name for name, end in ends.items() if end == "error"}
    assert missed == ({"clang-gcc", "clang-tcc"} if ci else set())
    others = ("webgpu", "opencl", "oclgrind", "cuda-emu", "hip-emu", "metal-emu")
    assert all(ends[name] == "skip" for name in others)


def test_one_of_the_drivers_is_enough_and_tinyref_itself_must_install(tmp_path: Path) -> None:
    # The C library, by its names on Linux and on macOS.
    names = 'driver = ["libno.so", "libc.so.6", "libSystem.dylib"]'
    row = row_of(tmp_path, names, "false")
    session = Session(described(True))
    conform_row.conform(session, row, tmp_path, [], CommandFailed)
    assert session.calls[-1][:4] == ("tinyref", "conform", "--device", "MINE")
    with pytest.raises(CommandFailed):
        conform_row.conform(Session(described(True), "."), row, tmp_path, [], CommandFailed)


TRANSFERS = "--query system.transfer,system.shard"


@pytest.mark.parametrize(
    ("text", "more", "default", "thorough"),
    [
        (GOOD, "", "--profile quick", "--profile full"),
        # A slow device runs a part in the default lane.
        (
            GOOD,
            'options = ["--query", "kernel.*"]\nthorough = "quick"',
            "--profile quick --query kernel.*",
            "--profile quick",
        ),
        # The command refuses an option that is given twice.
        (GOOD, 'options = ["--profile", "full"]', "--profile full", "--profile full"),
        (TWO, "", f"--profile quick {TRANSFERS}", f"--profile full {TRANSFERS}"),
        (
            TWO,
            'options = ["--query", "system.open"]',
            "--profile quick --query system.open",
            f"--profile full {TRANSFERS}",
        ),
        (
            TWO,
            'options = ["--query=system.open"]',
            "--profile quick --query=system.open",
            f"--profile full {TRANSFERS}",
        ),
    ],
)
def test_the_options_of_a_row(
    tmp_path: Path, text: str, more: str, default: str, thorough: str
) -> None:
    (row,) = rows_of(tmp_path, text.replace("required = true", f"required = true\n{more}"))
    assert " ".join(row.default_options) == default
    assert " ".join(row.thorough_options) == f"{thorough} --timeout 4m"


def test_a_row_of_two_runs_on_described(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, TWO)
    session = Session(described(True, True))
    conform_row.conform(session, row, tmp_path, row.default_options, CommandFailed)
    command = f"tinyref conform --device MINE --out {tmp_path} --profile quick {TRANSFERS}"
    assert session.calls[-2:] == [
        ("tinyref", "devices", "--json", "MINE", "OTHER:1"),
        (*command.split(), "--second", "OTHER:1"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("required = true", "", r"row 1 \(mine\): required None: accepted are true, false"),
        ("required = true", 'required = "yes"', "required 'yes': accepted are true, false"),
        ('device = "MINE"', 'devices = ["A"]', r"devices \['A'\]: accepted are two, and no device"),
        ('device = "MINE"', 'devices = "AB"', "devices 'AB': accepted is a list of texts"),
        (
            'device = "MINE"',
            'device = "A"\ndevices = ["A", "B"]',
            "accepted are two, and no device",
        ),
        ('device = "MINE"', "", "device None: accepted is a text"),
        ("required", "require", r"unknown key 'require': accepted are id, device, profile"),
        ("pip =", "pypi =", "install: unknown key 'pypi': accepted are pip, apt"),
        ('["card-driver>=2"]', '"card-driver"', "install: pip 'card-driver': accepted is a list"),
        ("libcard1", "-o x", "install: apt '-o x': accepted is"),
        ('CARD = "1"', "CARD = 1", "environment CARD = 1: accepted are names with texts"),
        ("budget = 60", "", r"budget None: accepted are whole seconds, at least 1"),
        ("budget = 60", "budget = 0", "budget 0: accepted are whole seconds, at least 1"),
        ("budget = 60", "budget = true", "budget True: accepted are whole seconds"),
        ('"quick"', '"quickly"', "profile 'quickly': accepted are quick, full"),
        (
            "required = true",
            "required = true\nthorough = 1",
            "thorough 1: accepted are quick, full",
        ),
        ("required = true", "required = true\noptions = 'x'", "options 'x': accepted is a list"),
        ("required = true", "required = true\ndriver = 'x'", "driver 'x': accepted is a list"),
        ('setup = ["', 'setup = [1, "', "setup .*: accepted is a list of texts"),
        ('needs = "a card"', "", "needs None: accepted is a text"),
        ('id = "mine"', 'id = "../x"', "id '../x': accepted is"),
        ("[[device]]", "[[devices]]", "unknown key 'devices': accepted are device"),
        ("[[device]]", "[device]", r"write rows as \[\[device\]\]"),
        ("[[device]]", "device = [1]\n[x]", "unknown key 'x'"),
        ("[[device]]", "[[device]", "is not TOML"),
    ],
)
def test_a_bad_matrix_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(conform_row.DeviceTableError, match=says):
        rows_of(tmp_path, GOOD.replace(old, new))


def test_two_rows_have_two_names(tmp_path: Path) -> None:
    with pytest.raises(conform_row.DeviceTableError, match="id 'mine' is there twice"):
        rows_of(tmp_path, GOOD + GOOD)


def test_the_matrix_of_the_project() -> None:
    # Rows without a driver are required; their quick runs take at most 12.5 minutes together.
    # No row has a flag that changes the meaning of a conformance run.
    rows = conform_row.read()
    required = {"cpu", "python", "gpu-emu", "cpu-python", "cpu-gpu-emu", "clang-gcc", "clang-tcc"}
    optional = {"webgpu", "opencl", "oclgrind", "opencl-two", "cpu-opencl", "cuda-emu", "hip-emu"}
    optional |= {"metal-emu", "cuda", "ptx", "hip", "metal"}
    assert {row.id for row in rows if row.required} == required
    assert {row.id for row in rows if not row.required} == optional
    assert {row.profile for row in rows} == {"quick"}
    # The quick suite of a GPU has a machine of its own.
    assert sum(row.budget for row in rows if not row.driver) <= 750
    for row in rows:
        flags = (name for name, _ in row.environment if name.startswith("TINYREF_"))
        for name in flags:
            effect = FLAGS[name.removeprefix("TINYREF_")].effect
            assert effect is Effect.NONE, name


def test_rows_install_what_an_extra_does() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"]
    # CUDA and PTX install the same packages; so do OPENCL and OCLGRIND.
    named = {"ptx": "cuda", "oclgrind": "opencl", "opencl-two": "opencl", "cpu-opencl": "opencl"}
    for row in conform_row.read():
        if row.pip:
            expected = [package.partition(";")[0] for package in extras[named.get(row.id, row.id)]]
            assert list(row.pip) == expected, row.id
