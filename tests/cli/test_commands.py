"""Test that each command does what its help says."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tinyref import __version__
from tinyref.cli.app import app
from tinyref.cli.entry import run
from tinyref.config import Context


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0
    return capsys.readouterr().out


def test_help_teaches_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "--help")
    assert "tinyref conform -d CPU" in text
    assert "Exit codes: 0 all as expected" in text
    for command in ("devices", "conform", "fuzz", "spec", "config", "explain", "bench"):
        assert f"\n  {command} " in text


def commands_below(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, subcommand in getattr(command, "commands", {}).items():
        yield (*words, name)
        yield from commands_below(subcommand, (*words, name))


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    commands = list(commands_below(typer.main.get_command(app)))
    assert len(commands) == 28
    for words in commands:
        text = output(capsys, *words, "--help")
        assert text.startswith(f"Usage: tinyref {' '.join(words)}")
        assert len(text.splitlines()) > 5, words


@pytest.mark.long
def test_help_imports_little() -> None:
    code = (
        "import sys; from tinyref.cli.entry import run; run(['--help']); "
        "assert not {'numpy', 'llvmlite', 'jinja2', 'tinyref_spec'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# The commit of a checkout, or the commit that was built into an archive.
VERSION = re.compile(
    rf"tinyref {re.escape(__version__)}( \(commit [0-9a-f]{{12}}(, with changes)?\))?\n"
)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert VERSION.fullmatch(output(capsys, "--version"))


@pytest.mark.long
def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "devices")
    assert "PYTHON   works    interpreter" in text
    assert "holds data but runs no kernels" in text
    data = json.loads(output(capsys, "devices", "--json"))
    by_name = {device["name"]: device for device in data["devices"]}
    assert by_name["PYTHON"]["works"]
    subjects = {subject["name"]: subject for subject in data["subjects"]}
    assert subjects["torch"]["version"] == importlib.metadata.version("torch")
    assert {"jax", "jax-jit", "mlx", "tinygrad", "onnxruntime"} <= subjects.keys()
    assert "a subject of your own: docs/subjects.md" in text
    assert "tiles: 12 of nvidia, 4 of rdna3, 4 of rdna4, " in text
    assert max(map(len, text.splitlines())) <= 100
    tiles = by_name["PYTHON"]["capabilities"]["matrix_tiles"]
    assert "cdna3_m16n16k16_bfloat16_float32" in tiles
    assert by_name["CPU"]["capabilities"]["matrix_tiles"] == []
    assert "float32" in by_name["PYTHON"]["capabilities"]["dtypes"]
    assert by_name["CPU"]["capabilities"]["threads"] >= 1
    with Context(THREADS=3):
        words = " ".join(output(capsys, "devices", "CPU").split())
        assert "512 KiB of scratch memory, 3 threads" in words
    with Context(THREADS=1):
        assert "threads" not in output(capsys, "devices", "CPU")
    assert "nvidia_m16n8k8_float16_float32 " in output(capsys, "devices", "PYTHON", "-v")


@pytest.mark.parametrize(
    ("shared_bytes", "words"),
    [(0, "groups sharing no memory"), (512, "groups sharing 512 bytes"), (4096, "sharing 4 KiB")],
)
def test_the_memory_of_a_group_is_named_however_small_it_is(shared_bytes: int, words: str) -> None:
    from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
    from tinyref.cli.devices import _features
    from tinyref.probe import describe_capabilities

    declared = Capabilities(
        CORE_DTYPES, CORE_OPS, has_grid=True, has_groups=True, shared_bytes=shared_bytes
    )
    assert words in _features(describe_capabilities(declared))


def test_config(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYREF_DEBUG", "2")
    text = output(capsys, "config")
    (line,) = (line for line in text.splitlines() if "TINYREF_DEBUG" in line)
    assert line.split()[1:3] == ["2", "environment"]
    data = {flag["name"]: flag for flag in json.loads(output(capsys, "config", "--json"))}
    assert (data["DEBUG"]["value"], data["DEBUG"]["origin"]) == (2, "environment")
    assert data["VERIFY"]["origin"] == "default"


@pytest.mark.long
def test_spec(capsys: pytest.CaptureFixture[str]) -> None:
    listed = output(capsys, "spec", "list", "-q", "isa.binary.mod")
    assert "isa.binary.mod.int32 " in listed
    assert "isa.binary.add" not in listed
    text = output(capsys, "spec", "show", "isa.binary.mod.int32")
    assert "-7, 3 -> -1" in text
    assert "isa.mod: " in text
    case = output(capsys, "spec", "show", "isa.binary.mod.int32.special:3")
    assert "tinyref conform --query isa.binary.mod.int32.special:3" in case
    data = json.loads(output(capsys, "spec", "show", "isa.binary.mod.int32", "--json"))
    assert data["rung"] == "every operation"
    assert data["clauses"]["isa.mod"]


@pytest.mark.long
def test_conform_writes_a_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "a"
    arguments = ["--device", "python", "--query", "memory.copy.uint8", "--jobs", "1"]
    text = output(capsys, "conform", *arguments, "--out", str(folder))
    assert "PYTHON: 20 cases pass (not a conformance run)" in text
    assert f"report: {folder / 'report.html'}" in text
    report = json.loads((folder / "report.json").read_text())
    assert report["exit_code"] == 0
    same = str(folder / "report.json")
    assert "0 regressions" in output(capsys, "conform", "diff", same, same)
    assert "PYTHON/quick" in output(capsys, "conform", "matrix", same)


@pytest.mark.long
def test_devices_named_are_shown_alone_and_decide_the_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYREF_CC", "no-such-compiler")
    alone = output(capsys, "devices", "cpu")
    assert "CPU" in alone
    assert "PYTHON" not in alone
    assert run(["devices", "--json", "CPU", "CLANG"]) == 1
    rows = json.loads(capsys.readouterr().out)["devices"]
    assert {row["name"]: row["works"] for row in rows} == {"CPU": True, "CLANG": False}
    assert "no-such-compiler" in rows[1]["reason"]
    assert run(["devices", "GPU9"]) == 2


def test_spec_rules_lists_equation_domain_and_proof(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "spec", "rules", "--query", "division")
    assert "mod-of-mod               division" in text
    assert "(x % (a * d)) % d == x % d for a, d > 0" in text
    assert "domain: integers and index" in text
    assert "proof: z3: bounded integers of 32 and 64 bits" in text
    # Other rules may join the family, so the printed rules are counted.
    count = re.search(r"^rules (\d+), bit-vectors", text, re.MULTILINE)
    assert count is not None
    assert int(count[1]) == text.count("  proof: ") >= 21
    assert "float-mul-one" not in text


def test_spec_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output(capsys, "spec", "rules", "--json"))
    assert document["counts"]["rules"] == len(document["rules"]) > 100
    rules = {rule["name"]: rule for rule in document["rules"]}
    assert rules["float-mul-one"]["keeps"] == ["NaN, infinities, the sign of zero, roundings"]
    assert rules["div-factor"]["needs_bounds"]
    assert all(rule["proof"] for rule in document["rules"])


def test_spec_rules_refuses_an_unknown_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "rules", "--query", "nothing"]) != 0
    assert "accepted are boolean, casts" in capsys.readouterr().err


@pytest.mark.long
def test_a_query_means_the_same_in_spec_and_conform(capsys):
    """Check that a glob names rows, whole or by one of their cases, as `conform --query` does."""
    from tinyref_conformance.plan import make_plan
    from tinyref_conformance.suite import Suite
    from tinyref_spec.case import Profile

    # A glob, a case, a glob that begins with a star, and a row.
    query = "isa.*.mod.*int32,isa.binary.add.int8.special:3,*.mod.int8,memory.open"
    assert run(["spec", "list", "-q", query]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    planned = make_plan(Suite(), Profile.QUICK, query).rows
    assert sorted(listed) == sorted(row.id for row in planned)
    expected = {"isa.binary.mod.int32", "isa.binary.add.int8", "isa.binary.mod.int8", "memory.open"}
    assert expected <= set(listed)
    assert run(["spec", "list", "-q", "rung:gates"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    planned = make_plan(Suite(), Profile.QUICK, "rung:gates").rows
    assert sorted(listed) == sorted(row.id for row in planned)
    assert {row.rung.title for row in planned} == {"gates"}
    assert run(["spec", "list", "-q", "isa.binary,isa.gone"]) == 2
    assert "no row matches 'isa.gone'" in capsys.readouterr().err


def test_a_shell_is_told_what_may_come_next(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Typer asks this for the shell that started it; tests may run without one.
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    assert "complete -o default -F _tinyref_completion" in output(
        capsys, "--show-completion", "bash"
    )
    monkeypatch.setenv("_TINYREF_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tinyref conform m")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert output(capsys).split() == ["merge", "matrix"]
    # A line that would be refused is still completed.
    monkeypatch.setenv("COMP_WORDS", "tinyref conform --device CPU --device PYTHON --for")
    monkeypatch.setenv("COMP_CWORD", "6")
    assert output(capsys).split() == ["--format"]


@pytest.mark.long
def test_the_package_runs_as_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tinyref", "spec", "show", "isa.gone"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "unknown id 'isa.gone'" in done.stderr


@pytest.mark.parametrize("command", [["conform"], ["fuzz"]])
def test_a_restart_goes_with_a_resume(capsys, command):
    assert run([*command, "--restart"]) == 2
    assert "--resume; without it" in capsys.readouterr().err
