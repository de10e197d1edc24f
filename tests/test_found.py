"""Test the scripts of docs/found.md: each exits with 1 on the faulty version of its tool."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "found.md").read_text()
README = (DOCS.parent / "README.md").read_text()
SCRIPTS = {file.stem: file for file in sorted((DOCS / "found").iterdir())}
# Entries whose page says why there is no script.
WITHOUT = {"oclgrind-4"}


# Entries of libraries: their scripts are short, and say what to install.
LIBRARIES = {
    name
    for name in SCRIPTS
    if name.startswith(
        ("jax", "tinygrad", "torch", "numpy", "mlx", "dask", "ndonnx", "onnxruntime")
    )
}


def test_each_entry_has_a_script_without_tinyref() -> None:
    entries = set(re.findall(r"^### ([a-z0-9-]+):", PAGE, re.MULTILINE))
    assert entries - WITHOUT == SCRIPTS.keys()
    for file in SCRIPTS.values():
        text = file.read_text()
        assert not re.search(r"(import|from) tinyref", text)
        if file.suffix == ".py":
            compile(text, file.name, "exec")


def test_the_table_has_each_entry_once_and_the_counts_are_those_of_the_entries() -> None:
    tools, libraries = PAGE.partition("## Libraries")[::2]
    headings = [re.findall(r"^### (.*)$", part, re.MULTILINE) for part in (tools, libraries)]
    rows = re.findall(r"^\| [a-z ]+ \| \[([a-z0-9-]+: .*)\]\(#", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(headings[0] + headings[1])
    counts = [len(part) for part in headings]
    assert f"{sum(counts)} faults, found by" in PAGE
    assert f"{counts[0]} of compilers, drivers and simulators, and {counts[1]} of" in PAGE
    assert f"{counts[0]} faults of compilers, drivers and simulators" in README
    assert f"{counts[1]} of libraries" in README


def test_scripts_of_libraries_are_short_and_name_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('no numpy')\n")
    for name in LIBRARIES:
        assert len(SCRIPTS[name].read_text().splitlines()) <= 15, name
        done = run([sys.executable, str(SCRIPTS[name])], tmp_path)
        assert (done.returncode, "It needs" in done.stdout) == (2, True), name


def output_of(*command: str) -> str:
    """Return what a tool says of its version; empty if it is missing."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script whose modules of `folder` hide those that are installed."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def has_package(name: str, prefix: str) -> bool:
    try:
        return version(name).startswith(prefix)
    except PackageNotFoundError:
        return False


def has_vulkan() -> bool:
    """Return True if lavapipe of the faulty version is an adapter."""
    if not has_package("wgpu", "0.32"):
        return False
    import wgpu

    adapters = wgpu.gpu.enumerate_adapters_sync()
    return any("Mesa 22.3" in str(adapter.info["description"]) for adapter in adapters)


def has_llvm() -> bool:
    return has_package("llvmlite", "0.50") and platform.machine() in ("x86_64", "AMD64")


def has_torch_compile() -> bool:
    """Return True if the faulty version of PyTorch can compile: it needs Python's headers too."""
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return has_package("torch", "2.13.0") and headers.exists() and shutil.which("g++") is not None


NEEDS: dict[str, Callable[[], bool]] = {
    "oclgrind": lambda: "21.10" in output_of("oclgrind", "--version"),
    "lavapipe": has_vulkan,
    "naga": has_vulkan,
    "pocl": lambda: " 15.0." in output_of("clang-15", "--version"),
    "gcc": lambda: " 12.2." in output_of("gcc", "--version"),
    "llvm": has_llvm,
    "clang": lambda: " 19.1.7" in output_of("clang-19", "--version"),
    "jax": lambda: has_package("jaxlib", "0.10.2"),
    "tinygrad": lambda: has_package("tinygrad", "0.14.0"),
    "tinygrad-15": lambda: (
        has_package("tinygrad", "0.14.0")
        and shutil.which(os.environ.get("CC", "clang")) is not None
    ),
    "torch": has_torch_compile,
    "torch-3": lambda: has_package("torch", "2.13.0"),
    "numpy": lambda: has_package("numpy", "2.4.6"),
    "mlx": lambda: has_package("mlx", "0.32.4"),
    "dask": lambda: has_package("dask", "2026.8.0"),
    "ndonnx": lambda: has_package("ndonnx", "0.23.0"),
    "onnxruntime": lambda: has_package("onnxruntime", "1.30.0"),
    "ptxas": lambda: False,
    "nvrtc": lambda: False,
    # It needs no GPU.
    "nvrtc-3": lambda: (
        has_package("cuda-bindings", "13") and has_package("nvidia-cuda-nvrtc", "13.0")
    ),
}
WORDS = {
    "gcc-1": "expected 1155, got 35",
    "pocl-1": "expected 0, got -0",
    "gcc-3": "expected 1 and 1, got 1 and -1",
    "gcc-2": "unsupported masking for `vmovsh'",
    "clang-1": "PLEASE submit a bug report",
    "oclgrind-1": "got [  0 255 255 255]",
    "oclgrind-2": "INVALID_KERNEL_NAME",
    "oclgrind-5": "Uninitialized value",
    "lavapipe-1": "expected [1475135902], got [2776852650]",
    "naga-1": "expected to be `vec2<f16>`, but got `f32`",
    "naga-2": "wrong: it compiles",
    "naga-3": "automatic conversions cannot convert elements",
    "llvm-2": "Unexpected illegal type",
    "llvm-3": "TimeoutExpired",
    "llvm-4": "TimeoutExpired",
    "llvm-5": "expected [-16 -16], got [-32 -32]",
    "jax-1": "float32: expected 1.2089258196146292e+24, got inf",
    "tinygrad-1": "1.4901160971803055e-08], got [6.103515625e-05, 9.5367431640625e-07, 0.0]",
    "tinygrad-2": "0.9953222650189527], got [2.05089",
    "tinygrad-3": "1.4901161193847656e-08], got [-inf, -7.624619007110596, 0.0]",
    "torch-1": "-2.384185791015625e-07, 0.0]",
    "torch-2": "6.725663942667909e-08], got [0.001102077",
    "torch-3": "expected [0.0, inf], got [-0.0, nan]; with an exponent for each element [0.0, inf]",
    "numpy-1": "expected [inf  0.], got [nan -0.]; with an exponent for each element [inf  0.]",
    "mlx-1": "2.718281828459045, 20.085536923187668], got [1.6487213373184204, 2.7182817",
    "mlx-2": "expected [1.0, 1.0, 1.0], got [1.0, nan, nan]",
    "mlx-5": "no end within 60 seconds",
    "onnxruntime-2": "ReduceSum: expected [9007199254740993], got [9007199254740992]",
    "onnxruntime-3": "exit codes: [-8, -8]",
    "onnxruntime-4": "left operand cannot broadcast on dim 0",
    "torch-4": "expected int32, got int64",
    "jax-3": "got [-0.5184793019911089, -0.527632742082361], units off: [68.0, 98.0]",
    "dask-2": "got ValueError('zero-size array",
    "dask-1": 'got ValueError("Missing dependency',
    "tinygrad-4": "got [1.0, 1.0, 1.0]",
    "tinygrad-5": "expected [20.0, 1.0], got [-256.0, 0.0]",
    "tinygrad-6": "got [0.0, 0.0]",
    "tinygrad-7": "got [0.0, nan]",
    "tinygrad-8": "got [[0.0, 2.0, 4.0], [7.0, 9.0, 11.0]]",
    "tinygrad-9": "got [[0.0, 0.0], [0.0, 0.0]]",
    "tinygrad-10": "got [9.75466308",
    "tinygrad-11": "got [0.0, 6.1031",
    "tinygrad-12": "0.9396235346794128, -0.9316390156745911]",
    "tinygrad-13": "expected [-inf, inf], got [nan, nan]",
    "tinygrad-14": "got UOp verification failed",
    "tinygrad-15": "got the compiler fails",
    "jax-2": "1.1920928955078125e-07, 0.0, 0.0]",
    "mlx-3": "4.5359134674072266e-05, 0.0, 0.0]",
    "mlx-4": "got [[0.111111119389534",
    "onnxruntime-1": "got [nan, 2.0, 2.0]",
    "tinygrad-16": "expected 4, got 16",
    "tinygrad-17": "got UOp verification failed",
    "ndonnx-1": "expected [-1.0, -2.0], got [nan, nan]",
}


def command_of(name: str, file: Path, folder: Path) -> list[str]:
    """Return the command of a script; a C file has it in its first lines."""
    if file.suffix == ".c":
        line = next(line for line in file.read_text().splitlines() if "ompile" in line)
        command = line.partition(": ")[2].removesuffix(" */").replace(file.name, str(file))
        return ["sh", "-c", command]
    if name.startswith("oclgrind"):
        log = ["--log", str(folder / "log")] if name == "oclgrind-5" else []
        return ["oclgrind", "--uninitialized", *log, sys.executable, str(file)]
    return [sys.executable, str(file)]


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("llvm-3", "llvm-4", "mlx-5")))
        for name in SCRIPTS
    ],
)
def test_a_script_fails_with_the_faulty_version(name: str, tmp_path: Path) -> None:
    is_here = NEEDS.get(name) or NEEDS[name.rpartition("-")[0]]
    if not is_here():
        pytest.skip(f"{name}: the faulty version of its tool is not here")
    # tinyref is not importable there.
    (tmp_path / "tinyref.py").write_text("raise ImportError('a script needs no tinyref')\n")
    done = run(command_of(name, SCRIPTS[name], tmp_path), tmp_path)
    said = done.stdout + done.stderr
    assert WORDS.get(name, "wrong") in said
    assert done.returncode != 0 if SCRIPTS[name].suffix == ".c" else done.returncode == 1
