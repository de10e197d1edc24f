"""The examples run as written, and give the numbers that other implementations gave for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

# Sums in another order differ by some 1e-7 a step, and 48 steps of training let that grow: between
# tinygrad 0.10.3 and numpy's order of summation 7e-6 of the value were seen.
RELATIVE = 1e-4


def assert_same(got: object, expected: object, where: str) -> None:
    """Floats agree to within RELATIVE, everything else is equal."""
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


def test_another_number_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"losses\[1\]"):
        assert_same({"losses": [1.0, 2.001]}, {"losses": [1.0, 2.0]}, "run")


@pytest.mark.long
def test_a_program_of_this_family_gives_the_numbers_of_tinygrad(tmp_path: Path) -> None:
    expected = json.loads((EXAMPLES / "language_model.json").read_text())
    found = subprocess.run(
        [sys.executable, str(EXAMPLES / "language_model.py")],
        env={**os.environ, "TINYREF_DEVICE": "CPU"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert_same(json.loads(found.stdout), expected, "run")
