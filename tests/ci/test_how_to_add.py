"""Test the lists of CONTRIBUTING: a new op needs changes in the files of its list only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TITLES = ("An op", "A rule", "A dtype", "An Opt", "A device", "A library to judge", "A row")
MAX_PLACES = 4


def listed_paths(title: str) -> list[str]:
    """Return the paths of the numbered list of a section, with * for what its author names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(rf"^### {re.escape(title)}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    assert section is not None, f"CONTRIBUTING.md has no section {title!r}"
    listed = re.findall(r"^\d+\. `([^`]+)`", section[1], re.M)
    return [re.sub(r"\b[A-Z]{2,}\b", "*", path) for path in listed]


@pytest.mark.parametrize("title", TITLES)
def test_each_list_is_short_and_names_what_is_there(title: str) -> None:
    listed = listed_paths(title)
    assert 0 < len(listed) <= MAX_PLACES
    for path in listed:
        assert any(ROOT.glob(path)), path


# --- an op ----------------------------------------------------------------------------------------

PACKAGES = {
    "tinyref": ".",
    "tinyref_spec": "spec",
    "tinyref_fuzz": "fuzz",
    "tinyref_conformance": "conformance",
}


@dataclass(frozen=True)
class Insertion:
    """The `text` to insert before the only occurrence of `before` in a file."""

    before: str
    text: str


ABS = {
    "tinyref/uops/ops.py": (
        Insertion('    ADD = "ADD"', '    ABS = "ABS"\n'),
        Insertion("Ops.TRUNC})", "Ops.ABS, "),
    ),
    "tinyref/algebra/op_rows.py": (
        Insertion(
            "_arithmetic(\n    Ops.ADD,",
            '_arithmetic(Ops.ABS, types.numbers, "|x|; MIN stays.", '
            'numpy_function("abs"), exact=abs)\n',
        ),
    ),
    "spec/tinyref_spec/oracles.py": (
        Insertion('    "ADD": lambda dtype', '    "ABS": lambda dtype, x: max(x, -x),\n'),
        Insertion('    "ADD": np.add,', '    "ABS": lambda x: np.copysign(x, 1),\n'),
    ),
    "spec/tinyref_spec/isa/specials.py": (
        Insertion('    "ADD": NUMBERS,', '    "ABS": NUMBERS,\n'),
        Insertion("}\n# Division by zero and MIN", '    "ABS": "3 -> 3; -3 -> 3; MIN -> MIN",\n'),
        Insertion("}\n\nBOOL: dict", '    "ABS": "3 -> 3; MAX -> MAX",\n'),
        Insertion("}\n\nTABLES: ", '    "ABS": "-1 -> 1; -0 -> 0; -inf -> inf; nan -> nan",\n'),
    ),
}
# It runs the op, and fails with an exit code other than 0.
SCRIPT = """
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest

def run_cases(query, device):
    cases = catalogue.cases(Profile.FULL, query)
    under_test = DeviceUnderTest(device)
    for case in cases:
        found = case.run(under_test)
        assert found.passed, (case.id, found)
    return len(cases)

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.semantics import fold
from tinyref.algebra.simplify import simplify
from tinyref.capabilities import OP_NAMES
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import VerifyError
from tinyref.formats import text
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.verify import verify
from tinyref_spec.clauses import clause

def absolute(x):
    return UOp(Ops.ABS, x.dtype, (x,))

# It computes: each row on the interpreter, and where constants and sizes are computed.
assert run_cases("isa.unary.abs", "PYTHON") > 50
assert fold(Ops.ABS, dtypes.int8, [-128]) == -128
assert value_of(absolute(build.variable("n", -9, 9)), {"n": -7}) == 7
assert simplify(absolute(build.const(dtypes.float32, -2.5))).arg.value == 2.5
# It prints and reads back.
node = absolute(build.variable("n", -9, 9))
assert "ABS index" in text.to_text(node)
assert text.from_text(text.to_text(node)) is node
# It is verified, and refused where its types are wrong.
verify(Dialect.TENSOR, node)
try:
    verify(Dialect.TENSOR, UOp(Ops.ABS, dtypes.bool, (build.const(dtypes.bool, True),)))
except VerifyError as error:
    assert "ABS accepts numbers, got bool" in str(error)
else:
    raise AssertionError("an ABS of bool is verified")
# A device may declare it, and the specification says what it is.
assert "ABS" in OP_NAMES and Device["PYTHON"].capabilities.ops >= {"ABS"}
assert clause("isa.abs").sentence == "ABS: |x|; MIN stays."
"""


def copied(folder: Path) -> Path:
    """Return a copy of the sources with the op, installed as far as its backends are declared."""
    # Copy compiled files with the times of their sources, except files that are being written.
    ignored = shutil.ignore_patterns("*.pyc.*")
    for package, room in PACKAGES.items():
        shutil.copytree(ROOT / room / package, folder / room / package, ignore=ignored)
    for name, insertions in ABS.items():
        text = (folder / name).read_text(encoding="utf-8")
        for insertion in insertions:
            assert text.count(insertion.before) == 1, f"{name}: {insertion.before!r}"
            text = text.replace(insertion.before, insertion.text + insertion.before)
        (folder / name).write_text(text, encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / "tinyref-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyref\nVersion: 0\n")
    lines = ["[tinyref.backends]"]
    lines += [f"{k} = {v}" for k, v in project["entry-points"]["tinyref.backends"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.long
def test_an_op_that_is_written_only_in_the_files_of_its_list_works(tmp_path: Path) -> None:
    listed = listed_paths("An op")
    assert all(any(fnmatchcase(path, pattern) for path in ABS) for pattern in listed)
    assert all(any(fnmatchcase(path, pattern) for pattern in listed) for path in ABS)
    folder = copied(tmp_path)
    path = os.pathsep.join(str(folder / room) for room in PACKAGES.values())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
