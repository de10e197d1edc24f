"""Generated pages, and reproducers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from wrong_device import Wrong

from tinyref.dtype import dtypes, numpy_dtype
from tinyref_spec import catalogue, pages
from tinyref_spec.bits import Array
from tinyref_spec.reproducer import MAX_LINES, array_literal
from tinyref_spec.samples import random_bits


@pytest.mark.long
def test_pages_name_every_row_and_clause(tmp_path: Path) -> None:
    pages.write(tmp_path)
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    for row in catalogue.all_rows():
        assert f"`{row.id}`" in text
        for label in row.clauses:
            assert f"`{label}`" in text


@pytest.mark.parametrize(
    "values",
    [
        np.full(1024, -0.0, np.float32),
        np.array([1, -2, 3], np.int8),
        random_bits(dtypes.bfloat16, 700, 1),
        np.array([True, False]),
    ],
)
def test_array_literals_read_back(values: Array) -> None:
    import base64
    import zlib

    names = {
        "np": np, "base64": base64, "zlib": zlib, "dtypes": dtypes, "numpy_dtype": numpy_dtype
    }  # fmt: skip
    found = eval(array_literal(values), names)
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()


def run(script: str, folder: Path) -> tuple[int, str]:
    file = folder / "script.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, file], check=False, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    "case_id",
    [
        "isa.binary.mod.int32.special:3",
        "kernel.matmul.int32.exact.33x17x31",
    ],
)
def test_a_failure_has_a_script_that_runs(case_id: str, tmp_path: Path) -> None:
    measured = catalogue.find(case_id).run(Wrong("PYTHON"))
    assert not measured.passed
    assert measured.details is not None
    script = measured.details.script
    assert len(script.splitlines()) < MAX_LINES
    # The named device, PYTHON, is healthy.
    assert run(script, tmp_path) == (0, "right\n")
    assert measured.details.ir
    assert measured.details.expected_bits[0].startswith("0x")
    assert measured.details.inputs
