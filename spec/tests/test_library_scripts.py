"""Scripts of libraries: 1 for a wrong expected value and 0 for the right one, without tinyref."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyref.runtimes.reproducer import Wanted
from tinyref_spec import catalogue
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.reproducer import MAX_LIBRARY_LINES, tensor_script
from tinyref_spec.subjects.catalogue import open_device
from tinyref_spec.tensor import run
from tinyref_spec.tool_scripts.export import describe_first, needs_tinyref

CASES = {
    "unary": "tensor.exp.float32.forward:0",
    "own function": "tensor.leaky_relu.float32.forward:0",
    "reduce": "tensor.sum.float32.forward:1",
    "index": "tensor.getitem.float32.forward:3",
    "assignment": "tensor.setitem.float32.forward:0",
    "gradient": "tensor.mul.float32.backward:0",
    "float16": "tensor.mul.float16.forward:0",
    "bfloat16": "tensor.mul.bfloat16.forward:0",
    "integers": "tensor.add.int32.forward:0",
    "bools": "tensor.logical_not.bool.forward:0",
    "NaN": "tensor.isnan.float16.forward:0",
    "sum of NaN": "tensor.special.literal.sum_nan",
    "infinity": "tensor.special.literal.log_zero",
    "negative zero": "tensor.special.literal.zero_gathered",
    "no axes": "tensor.flatten.float32.forward:2",
    "empty": "tensor.cat.float32.forward:1",
}
# Stands for the package that registers a device.
PACKAGE = "colorsys"
# Compiling takes seconds for each script.
FEW = {"unary", "gradient", "NaN"}
COMPILED = ("torch-compile", "jax-jit")
# Cases that a library is not asked.
LACKS = {
    "onnxruntime": {"assignment", "gradient", "bfloat16"},
    "numpy": {"own function", "gradient", "bfloat16"},
}
# Modules and programs that a library needs.
NEEDS = {
    "numpy": ("numpy",),
    "torch": ("torch",),
    "torch-compile": ("torch", "g++"),
    "jax": ("jax",),
    "jax-jit": ("jax",),
    "mlx": ("mlx.core",),
    "mlx-compile": ("mlx.core", "g++"),
    "tinygrad": ("tinygrad", os.environ.get("CC", "clang")),
    "onnxruntime": ("onnxruntime",),
}
# A new process without tinyref for many scripts, since each import of a library takes seconds.
RUN_ALL = """
import runpy, sys
for name in ("tinyref", "tinyref_spec", "tinyref_fuzz", "tinyref_conformance"):
    sys.modules[name] = None
for path in sys.argv[1:]:
    try:
        code = runpy.run_path(path, run_name="__main__") and "no exit code"
    except SystemExit as ended:
        code = ended.code
    except Exception as error:
        code = error
    print("code", code)
"""


def wrong_element(item: Wanted) -> Wanted:
    """Return what a script expects with another last element."""
    values: Array = item.values.copy()
    last = values[-1]
    if values.dtype.kind == "b":
        values[-1] = not last
    elif values.dtype.kind in "iu":
        values[-1] = last ^ 1
    elif last == 0:
        values[-1] = -last if not item.others else 1
    else:
        values[-1] = 1 if np.isnan(last) else np.nan
    bounds = item.bounds and tuple(np.append(limit[:-1], np.nan) for limit in item.bounds)
    return dataclasses.replace(
        item, values=values, others=[values][: len(item.others)], bounds=bounds
    )


def scripts(library: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str]]:
    """Return scripts with the right and with a wrong expected value for each case."""
    written: dict[str, tuple[str, str]] = {}
    arguments: list[Any] = []
    monkeypatch.setattr(run, "tensor_script", lambda *given: arguments.append(given) or "")
    device = open_device(f"{library} on cpu with {PACKAGE}")
    for name in CASES if library not in COMPILED else FEW:
        arguments.clear()
        try:
            describe_first(catalogue.find(CASES[name]), device)
            ((question, where, expression, item, wording),) = arguments
            pair = [
                tensor_script(question, where, expression, element, wording)
                for element in (item, wrong_element(item))
            ]
        except NotOfferedError:
            continue
        written[name] = (pair[0], pair[1])
    return written


@pytest.mark.long
@pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "torch-compile")) for name in NEEDS],
)
def test_a_script_tells_a_wrong_value_from_a_right_one(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, *programs = NEEDS[library]
    pytest.importorskip(module, reason=f"{library} is not installed")
    if missing := [program for program in programs if shutil.which(program) is None]:
        pytest.skip(f"{library} compiles by {missing[0]}, which is not here")
    written = scripts(library, monkeypatch)
    asked = FEW if library in COMPILED else CASES.keys()
    assert asked - written.keys() == LACKS.get(library, set())
    texts = {(name, i): text for name, pair in written.items() for i, text in enumerate(pair)}
    assert [key for key, text in texts.items() if needs_tinyref(text)] == []
    assert max(len(text.splitlines()) for text in texts.values()) <= MAX_LIBRARY_LINES
    for (name, i), text in texts.items():
        assert f"; import {PACKAGE}; " in text
        assert re.search(rf"pip install numpy .* {PACKAGE}'", text)
        (tmp_path / f"{name} {i}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN_ALL, *(f"{name} {i}.py" for name, i in texts)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    codes = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if "code " in line]
    assert dict(zip(texts, codes, strict=True)) == {(name, i): str(i) for name, i in texts}
