"""Test that Python without asserts and docstrings (-OO) runs the same commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from tinyref import Tensor
from tinyref.algebra.simplify import ALL_RULES
from tinyref.cli.entry import run
assert False, "this is dropped"
print("sum", Tensor([1, 2]).sum().item())
print({rule.name: rule.equation for rule in ALL_RULES.rules}["bool-not-not"])
commands = ["devices --help", "conform verify --help"]
commands += ["spec show kernel.opt.group.int8"]
commands += ["conform --device PYTHON --out report --query kernel.opt.group.int8"]
print([run(each.split()) for each in commands])
"""


@pytest.mark.long
def test_asserts_and_docstrings_are_not_needed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"PYTHONOPTIMIZE": "2"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "sum 3\n" in done.stdout
    assert "\nnot not x == x.\n" in done.stdout
    assert "Show which devices work here" in done.stdout
    assert "compute its hash again" in done.stdout
    assert "GROUP(1, 4): Sums of rows" in done.stdout
    assert done.stdout.endswith("[0, 0, 0, 0]\n")
