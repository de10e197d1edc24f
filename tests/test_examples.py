"""Test that the examples run as written, with the numbers of other implementations."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

# Sums in another order differ by about 1e-7 a step, which grows over 48 steps of training. Between
# tinygrad 0.10.3 and numpy's order of summation the difference was 7e-6 of the value.
RELATIVE = 1e-4


def assert_same(got: object, expected: object, where: str) -> None:
    """Assert that floats agree to within RELATIVE, and that all else is equal."""
    if isinstance(expected, dict):
        assert isinstance(got, dict), where
        assert list(got) == list(expected), where
        for key, value in expected.items():
            assert_same(got[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert isinstance(got, list), where
        assert len(got) == len(expected), where
        for number, value in enumerate(expected):
            assert_same(got[number], value, f"{where}[{number}]")
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, rel=RELATIVE), where
    else:
        assert got == expected, where


def run_example(name: str, folder: Path, *words: str) -> str:
    """Return the output of an example, run as its page says; it must succeed."""
    command = [sys.executable, *(words or (str(EXAMPLES / name),))]
    done = subprocess.run(
        command,
        env={**os.environ, "TINYREF_DEVICE": "CPU", "PYTHONPATH": str(EXAMPLES)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_program_of_this_family_gives_the_numbers_of_tinygrad(tmp_path: Path) -> None:
    expected = json.loads((EXAMPLES / "language_model.json").read_text())
    assert_same(json.loads(run_example("language_model.py", tmp_path)), expected, "run")


@pytest.mark.slow
def test_digits_are_read(tmp_path: Path) -> None:
    last = run_example("digits.py", tmp_path).splitlines()[-1]
    (right,) = re.findall(r"^(\d+) of 397 right$", last)
    assert int(right) > 370


@pytest.mark.slow
def test_a_network_of_diffusion_is_planned_and_a_small_one_learns(tmp_path: Path) -> None:
    printed = run_example("diffusion.py", tmp_path)
    assert printed.startswith("116 million weights\n")
    first, last = re.findall(r"loss ([\d.]+) at first, ([\d.]+) at last", printed)[0]
    assert float(last) < 0.4 * float(first)


@pytest.mark.long
def test_a_row_of_ones_own_catches_what_it_says(tmp_path: Path) -> None:
    lines = [
        line.split(" element")[0] for line in run_example("custom_row.py", tmp_path).split("\n")
    ]
    assert lines.count("  Pass kernel.own.saturating.six") == 2
    assert lines.count("  Pass kernel.own.halved.six") == 1
    assert lines.count("  Fail kernel.own.halved.six") == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is not on the path")
def test_a_backend_in_one_file_computes_and_conforms(tmp_path: Path) -> None:
    assert run_example("custom_backend.py", tmp_path) == "30\n"
    query = ("--query", "kernel.one_alu,kernel.program.gate,isa.binary.idiv.int8", "--jobs", "1")
    words = ("-m", "tinyref", "conform", "--device", "custom_backend:Tiny", *query)
    assert " cases pass (not a conformance run)" in run_example("", tmp_path, *words)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Wasm", "WasmUnoptimised"])
def test_a_backend_in_webassembly_computes_and_conforms(tmp_path: Path, name: str) -> None:
    pytest.importorskip("wasmtime", reason="wasmtime is not installed")
    assert run_example("wasm_backend.py", tmp_path) == "30\n"
    query = "kernel.program.gate,kernel.program.loop,isa.vector.cast.float32,isa.binary.idiv.int8"
    words = ("-m", "tinyref", "conform", "--device", f"wasm_backend:{name}", "--query", query)
    assert " cases pass (not a conformance run)" in run_example("", tmp_path, *words, "--jobs", "1")


@pytest.mark.long
@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("own_subject.py", "--subject own_subject:MySubject"),
        ("torch_mine.py", "--subject torch --on mine --import torch_mine"),
    ],
)
def test_a_library_is_judged(tmp_path: Path, example: str, words: str) -> None:
    query = "tensor.relu.float32.forward,tensor.add.float32.forward:0"
    command = ["-m", "tinyref", "conform", *words.split(), "--query", query, "--jobs", "1"]
    assert "2 cases pass: 2 of 2 cases asked" in run_example("", tmp_path, *command)


@pytest.mark.slow
def test_a_campaign_on_a_cluster(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    last = run_example("campaign_on_dask.py", tmp_path).splitlines()[-1]
    assert last == "20 kernels judged, 0 findings"


def test_every_example_is_run() -> None:
    text = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in text] == []
