"""The suite as items of pytest: marks, expected failures, deaths, xdist, and no cost unasked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tinyref_conformance.pytest_cases import Options

HERE = Path(__file__).parent
EXPECTATIONS = """
schema = 1
device = "{device}"

[[expected]]
query = "{query}"
phase = "{phase}"
reason = "the divider rounds down"
link = "https://example.org/issues/1"
"""
SKIP = """
[[skip]]
query = "isa.binary.add.int32"
reason = "hangs the card"
link = "https://example.org/issues/2"
"""


def pytest_run(folder: Path, *words: str) -> tuple[int, str]:
    """Return the exit code and the output of a new pytest, which loads the plugin by name."""
    paths = [str(HERE), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    # Whether or not the environment has tinyref installed with its entry points.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-p", "tinyref_conformance.pytest_plugin"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-ra", *words],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def counts(output: str) -> dict[str, int]:
    last = output.strip().splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last)}


def test_the_options_cost_nothing_unasked() -> None:
    code = (
        "import sys, tinyref_conformance.pytest_plugin; "
        "own = {name for name in sys.modules if name.startswith('tinyref')}; "
        "assert own == {'tinyref_conformance', 'tinyref_conformance.pytest_plugin'}, own; "
        "assert 'numpy' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def options(**changes: str) -> Options:
    defaults = {"second": "", "profile": "quick", "query": "memory.copy", "expectations": ""}
    return Options.parse("PYTHON", **{**defaults, "timeout": "30s", **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"profile": "all"}, "profile: got 'all', accepted are quick, full"),
        ({"query": "isa.gone"}, "no case of profile quick matches 'isa.gone'"),
        ({"timeout": "soon"}, "timeout: got 'soon', accepted are 90s, 5m, 1.5h"),
        ({"timeout": "-1s"}, "timeout: got '-1s'"),
        ({"timeout": "nan"}, "timeout: got 'nan'"),
        ({"expectations": "gone.toml"}, "cannot read gone.toml"),
        ({"second": "GONE"}, "GONE"),
    ],
)
@pytest.mark.long
def test_what_is_not_accepted_is_an_error_of_usage(changes: dict[str, str], says: str) -> None:
    with pytest.raises(pytest.UsageError, match=says):
        options(**changes)


DIVISION = "tinyref_conformance.faulty:FloorDivision"
QUERY = "isa.binary.idiv.int32.special,isa.binary.add.int32.special"


def with_expectations(folder: Path, phase: str, query: str, more: str = "") -> list[str]:
    text = EXPECTATIONS.format(device=DIVISION, phase=phase, query=query)
    (folder / "known.toml").write_text(text + more)
    words = ["--tinyref-device", DIVISION, "--tinyref-query", QUERY]
    return [*words, "--tinyref-expectations", "known.toml"]


@pytest.mark.slow
def test_a_wrong_device_fails_with_the_command_that_shows_it(tmp_path: Path) -> None:
    words = ["--tinyref-device", DIVISION, "--tinyref-query", QUERY]
    code, output = pytest_run(tmp_path, *words)
    counted = counts(output)
    assert code == 1
    assert 0 < counted["failed"] < counted["passed"]
    failed = re.findall(r"^FAILED tinyref\[.*\]::(\S+)", output, re.MULTILINE)
    assert {name.partition(".int32")[0] for name in failed} == {"isa.binary.idiv"}
    assert "expected" in output
    assert f"tinyref conform --device {DIVISION} --profile quick --query {failed[0]}" in output


@pytest.mark.slow
def test_what_is_expected_to_fail_is_an_xfail_in_its_phase_only(tmp_path: Path) -> None:
    _, output = pytest_run(tmp_path, "--tinyref-device", DIVISION, "--tinyref-query", QUERY)
    failed = re.findall(r"^FAILED tinyref\[.*\]::(\S+)", output, re.MULTILINE)
    words = with_expectations(tmp_path, "accuracy", ",".join(failed), SKIP)
    code, output = pytest_run(tmp_path, *words)
    assert code == 0, output
    assert counts(output)["xfailed"] == len(failed)
    assert "the divider rounds down (https://example.org/issues/1)" in output
    assert "on the skip list: hangs the card" in output

    words = with_expectations(tmp_path, "compile", ",".join(failed))
    code, output = pytest_run(tmp_path, *words)
    assert (code, counts(output)["failed"]) == (1, len(failed))
    assert "expected to fail in phase compile, not in accuracy" in output

    # Strict: what passes is to be taken out.
    words = with_expectations(tmp_path, "accuracy", QUERY)
    code, output = pytest_run(tmp_path, *words)
    assert code == 1
    assert counts(output)["xfailed"] == len(failed)
    assert "[XPASS(strict)] the divider rounds down" in output


@pytest.mark.slow
def test_a_death_costs_its_own_case(tmp_path: Path) -> None:
    query = "kernel.one_alu.add.float32"
    words = ["--tinyref-device", "dying_devices:Aborting", "--tinyref-query", query]
    code, output = pytest_run(tmp_path, *words)
    assert code == 1
    failed = re.findall(r"^FAILED tinyref\[.*\]::(\S+)", output, re.MULTILINE)
    assert failed == ["kernel.one_alu.add.float32.size:2"]
    assert counts(output)["passed"] > 1
    assert "Crash: " in output


@pytest.mark.slow
def test_marks_select_and_xdist_shares_the_cases(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    words = ["--tinyref-device", "CPU", "--tinyref-query", "isa.binary.add,memory.copy", "-q"]
    _, output = pytest_run(tmp_path, *words, "--collect-only", "-m", "dtype(name='int8')")
    listed = [line for line in output.splitlines() if line.startswith("tinyref[CPU]::")]
    assert listed
    assert all(".int8" in line for line in listed)
    code, output = pytest_run(tmp_path, *words)
    assert code == 0, output
    alone = counts(output)["passed"]
    words += ["-p", "xdist", "-n", "2", "--dist", "loadgroup"]
    code, output = pytest_run(tmp_path, *words)
    assert (code, counts(output)["passed"]) == (0, alone), output
    assert alone > 20


def test_a_library_is_judged_by_items(tmp_path: Path) -> None:
    """Skip what it lacks, with the reason; a library and a device exclude each other."""
    query = "tensor.abs.float32.forward,tensor.softmax.float32.forward:0"
    words = ["--tinyref-subject", "numpy", "--tinyref-query", query]
    code, output = pytest_run(tmp_path, *words)
    assert code == 0, output
    assert counts(output) == {"passed": 1, "skipped": 1}
    assert "numpy: the array API has no softmax" in output
    code, output = pytest_run(tmp_path, *words, "--tinyref-device", "CPU")
    assert code == 4
    assert "exclude each other" in output
    code, output = pytest_run(tmp_path, "--tinyref-subject", "tensorflow")
    assert code == 4
    assert "accepted are torch, torch-compile" in output
