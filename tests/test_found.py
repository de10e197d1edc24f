"""The scripts of docs/found.md: each exits with 1 where the faulty version of its tool is."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SCRIPTS = {file.stem: file for file in sorted((DOCS / "found").iterdir())}
# Entries whose page says why there is no script.
WITHOUT = {"oclgrind-4"}


def test_each_entry_has_a_script_without_tinyref() -> None:
    entries = set(re.findall(r"^### ([a-z0-9-]+):", (DOCS / "found.md").read_text(), re.MULTILINE))
    assert entries - WITHOUT == SCRIPTS.keys()
    for file in SCRIPTS.values():
        text = file.read_text()
        assert not re.search(r"(import|from) tinyref", text)
        if file.suffix == ".py":
            compile(text, file.name, "exec")


def output_of(*command: str) -> str:
    """Return what a tool says of its version; empty if it is missing."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


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


NEEDS: dict[str, Callable[[], bool]] = {
    "oclgrind": lambda: "21.10" in output_of("oclgrind", "--version"),
    "lavapipe": has_vulkan,
    "naga": has_vulkan,
    "pocl": lambda: " 15.0." in output_of("clang-15", "--version"),
    "gcc": lambda: " 12.2." in output_of("gcc", "--version"),
    "llvm": has_llvm,
    "clang": lambda: " 19.1.7" in output_of("clang-19", "--version"),
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
}


def command_of(name: str, file: Path, folder: Path) -> list[str]:
    """Return the command of a script; that of a file of C is in its first lines."""
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
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("llvm-3", "llvm-4")))
        for name in SCRIPTS
    ],
)
def test_a_script_fails_with_the_faulty_version(name: str, tmp_path: Path) -> None:
    is_here = NEEDS.get(name) or NEEDS[name.rpartition("-")[0]]
    if not is_here():
        pytest.skip(f"{name}: the faulty version of its tool is not here")
    # tinyref is not importable there.
    (tmp_path / "tinyref.py").write_text("raise ImportError('a script needs no tinyref')\n")
    done = subprocess.run(
        command_of(name, SCRIPTS[name], tmp_path),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert WORDS.get(name, "wrong") in said
    assert done.returncode != 0 if SCRIPTS[name].suffix == ".c" else done.returncode == 1
