"""Scripts without tinyref: 0 on a right tool, 1 for a wrong kernel or another expected value."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.runtimes import fake_cuda, fake_hip, fake_metal
from tinyref.cli.entry import run
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.runtimes.reproducer import Wanted
from tinyref_spec.literal_text import array_literal
from tinyref_spec.reproducer import MAX_LIBRARY_LINES
from tinyref_spec.subjects.transcript import RaisingCallError, WritingNamespace, WrittenArray
from tinyref_spec.tool_scripts.export import export_case
from tinyref_spec.tool_scripts.languages import LANGUAGES
from tinyref_spec.tool_scripts.launch import MAX_HOST_LINES, ToolLaunch, tool_script

CASE = "kernel.one_alu.add.float32.size:7"
# An addition of the kernel, by language, and what makes it another one.
ADDITIONS = {"opencl": ("v1 + v2", "v1 - v2"), "wgsl": ("v1 + v2", "v1 - v2")}
ADDITIONS |= {"c": ("v1 + v2", "v1 - v2"), "llvm": ("= fadd", "= fsub")}


def run_alone(text: str, folder: Path) -> int:
    """Return the exit code of a script where tinyref cannot be imported."""
    assert not re.search(r"(import|from) tinyref", text)
    (folder / "tinyref.py").write_text("raise ImportError('a script needs no tinyref')\n")
    is_c = text.startswith("/*")
    file = folder / ("script.c" if is_c else "script.py")
    file.write_text(text)
    compiled = ["sh", "-c", f"gcc -w -o a.out {file} -lm && ./a.out"]
    command = compiled if is_c else [sys.executable, str(file)]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, check=False)
    return done.returncode


@pytest.mark.long
@pytest.mark.parametrize("language", ADDITIONS)
def test_a_script_tells_a_wrong_tool_from_a_right_one(language: str, tmp_path: Path) -> None:
    available = Device.availability(LANGUAGES[language].devices[0])
    if not available.works:
        pytest.skip(f"{language}: {available.reason}")
    text = export_case(CASE, language)
    assert run_alone(text, tmp_path) == 0
    changed = text.replace(*ADDITIONS[language], 1)
    assert changed != text
    assert run_alone(changed, tmp_path) == 1
    changed = text.replace("0x1.6p+4" if language == "c" else "22.0", "23.0", 1)
    assert changed != text
    assert run_alone(changed, tmp_path) == 1


# A kernel whose data once had another type or other bits in the script.
@pytest.mark.long
@pytest.mark.parametrize(
    ("case_id", "language"),
    [
        ("isa.cast.bool.to_fp8e5m2.exhaustive:0", "llvm"),  # numpy has no such type
        ("memory.bytes.bool.copied", "wgsl"),  # words of four elements
        ("isa.cast.int16.to_uint64.random:0", "llvm"),  # no other type has all of the numbers
        ("isa.bitcast.int32.to_float32.moderate:0", "c"),  # the values are bits of the array
        ("isa.vector.bitcast.float16.to_int16.edge:0", "c"),  # each NaN has its own bits
    ],
)
def test_a_script_has_the_bits_of_its_data(case_id: str, language: str, tmp_path: Path) -> None:
    available = Device.availability(LANGUAGES[language].devices[0])
    if not available.works:
        pytest.skip(f"{language}: {available.reason}")
    assert run_alone(export_case(case_id, language), tmp_path) == 0


@pytest.mark.parametrize(
    ("case_id", "name", "module"),
    [
        (CASE, "metal", "Metal"),
        (CASE, "llvm", "llvmlite"),
        ("tensor.sum.float32.forward:0", "numpy", "numpy"),
        ("tensor.sum.float32.forward:0", "torch", "torch"),
    ],
)
def test_a_script_without_its_package_names_it(
    case_id: str, name: str, module: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch" if name == "torch" else "numpy")
    (tmp_path / f"{module}.py").write_text("raise ImportError('not here')\n")
    assert run_alone(export_case(case_id, name), tmp_path) == 2
    assert re.search(f"not here.*{module}", capfd.readouterr().out)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_host_program_is_short(language: str) -> None:
    launch = ToolLaunch("a line", "a text", "k", [], [], [])
    assert len(tool_script(language, launch).splitlines()) <= MAX_HOST_LINES


def exit_code(text: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """Return the exit code of a script in this process, where a fake driver is installed."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["script.py", "--child"])
    with pytest.raises(SystemExit) as ended:
        exec(compile(text, "script.py", "exec"), {"__name__": "__main__"})
    return ended.value.code


def both_codes(language: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[Any, Any]:
    text = export_case(CASE, language)
    wrong = text.replace("22.0", "23.0", 1)
    return exit_code(text, monkeypatch, folder), exit_code(wrong, monkeypatch, folder)


@pytest.mark.long
def test_the_script_of_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = fake_cuda.install(monkeypatch, (9, 0))
    nvrtc = sys.modules["cuda.bindings.nvrtc"]
    package = SimpleNamespace(driver=driver, nvrtc=nvrtc)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=package))  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)  # type: ignore[misc]
    assert both_codes("cuda", monkeypatch, tmp_path) == (0, 1)


@pytest.mark.long
def test_the_script_of_ptx_has_a_kernel_and_its_data(tmp_path: Path) -> None:
    """Let ptxas read the kernel; running it needs a GPU."""
    text = export_case(CASE, "ptx")
    compile(text, "script.py", "exec")
    source = text.partition('SOURCE = r"""')[2].partition('"""')[0]
    assert ".visible .entry" in source
    assert "[22.0, 58.0, -5.0," in text
    if shutil.which("ptxas") is None:
        pytest.skip("no ptxas")
    (tmp_path / "kernel.ptx").write_text(source)
    subprocess.run(["ptxas", "--gpu-name=sm_90", "kernel.ptx"], cwd=tmp_path, check=True)


@pytest.mark.long
def test_the_script_of_hip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run the text of the kernel on a fake of ROCm, in place of its code."""
    if not Device.availability("HIP_EMU").works:
        pytest.skip("HIP_EMU needs a compiler of C++")

    load, execute = ctypes.CDLL, subprocess.run

    def library(name: str | None) -> Any:
        return fake_hip.FakeHip() if name == "libamdhip64.so" else load(name)

    def tool(command: list[str], **options: Any) -> Any:
        if command[0] == "clang":
            Path("kernel.co").write_text(Path("kernel.hip").read_text())
        elif command[0] != "rocm_agent_enumerator":
            return execute(command, **options)
        return SimpleNamespace(stdout="gfx000\ngfx942\n")

    text = export_case(CASE, "hip")
    monkeypatch.setattr(ctypes, "CDLL", library)
    monkeypatch.setattr(subprocess, "run", tool)
    assert exit_code(text, monkeypatch, tmp_path) == 0
    assert exit_code(text.replace("22.0", "23.0", 1), monkeypatch, tmp_path) == 1


@pytest.mark.long
def test_the_script_of_metal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not Device.availability("METAL_EMU").works:
        pytest.skip("METAL_EMU needs a compiler of C++")
    text = export_case(CASE, "metal")
    fake_metal.install(monkeypatch, fake_metal.M1)
    assert exit_code(text, monkeypatch, tmp_path) == 0
    assert exit_code(text.replace("22.0", "23.0", 1), monkeypatch, tmp_path) == 1


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.1, -0.0, np.inf, 3e-45], np.float32),
        np.array([1.0, np.nan], np.float64),
        np.array([0x7FC00001, 1], np.uint32).view(np.float32),
        np.array([-(2**63), 2**63 - 1]),
        np.array([True, False]),
        np.array([2, 0], np.uint8).view(np.bool_),
        np.full(9, 0xA5A5, np.uint16).view(np.float16),
        np.arange(100, dtype=np.int16),
        np.zeros(0, np.float32),
    ],
)
def test_a_literal_has_the_bits_and_the_type(values: np.ndarray) -> None:
    import base64
    import zlib

    actual = eval(array_literal(values), {"np": np, "base64": base64, "zlib": zlib})
    assert actual.dtype == values.dtype
    assert actual.tobytes() == values.tobytes()


def test_a_value_between_bounds_is_right(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    one = np.ones(1, np.float32)
    source = "define void @k(ptr %b, ptr %v) {\n  ret void\n}\n"
    for bounds, code in (((one * 0.5, one * 2), 0), ((one * 2, one * 3), 1)):
        expected = [Wanted(0, [0], one * 9, bounds=bounds)]
        text = tool_script("llvm", ToolLaunch("bounds", source, "k", [one], expected, [0]))
        assert run_alone(text, tmp_path) == code


@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "case_id"),
    [
        ("torch", "tensor.sum.float32.backward:0"),
        pytest.param("torch", "tensor.softmax.bfloat16.forward:0", marks=pytest.mark.slow),
        ("numpy", "tensor.sum.float32.forward:0"),
        ("array-api:array_api_strict", "tensor.cumsum.int32.forward:0"),
    ],
)
def test_a_script_of_a_library(library: str, case_id: str, tmp_path: Path) -> None:
    pytest.importorskip(library.rpartition(":")[2])
    text = export_case(case_id, library)
    assert len(text.splitlines()) <= MAX_LIBRARY_LINES
    assert run_alone(text, tmp_path) == 0
    wrong = text.replace("got = ", "got = 9 + 2 * ")
    assert wrong != text
    assert run_alone(wrong, tmp_path) == 1


def test_a_call_that_raises_is_written() -> None:
    namespace = WritingNamespace(np)
    written = namespace.exp(WrittenArray(np.ones(3), "x"))
    with pytest.raises(RaisingCallError, match=re.escape("xp.reshape(xp.exp(x), (2, 2))")):
        namespace.reshape(written, (2, 2))


@pytest.mark.parametrize(
    ("case_id", "name", "words"),
    [
        ("kernel.no_such.row", "opencl", "unknown id 'kernel.no_such.row'"),
        (CASE, "fortran", "for: got 'fortran', accepted are opencl"),
        (CASE, "numpy", "asks no library: accepted are cases of the level tensor"),
        ("memory.copy.uint8.size:3", "llvm", "launches no kernel"),
        ("tensor.sum.float32.forward:0", "llvm", "runs a Tensor function and not one kernel"),
        ("memory.launch.float32.again", "llvm", "a script of llvm has one launch"),
        ("tensor.setitem.float32.forward:9", "numpy", "does more on numpy on cpu than a script"),
        ("isa.binary.add.bfloat16.special:7", "llvm", "has no NaN and no bounds of bfloat16"),
    ],
)
def test_what_has_no_script_is_refused(case_id: str, name: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        export_case(case_id, name)


def test_the_command_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "reproduce.py"
    assert run(["conform", "export", CASE, "--device", "CPU", "--out", str(file)]) == 0
    assert "llvm.parse_assembly(SOURCE)" in file.read_text()
    assert run(["conform", "export", CASE, "--for", "fortran"]) == 2
    assert "accepted are opencl" in capsys.readouterr().err
    # The text of CPU would not show a fault of the renderer of the device.
    assert run(["conform", "export", CASE, "--for", "llvm", "--device", "PYTHON"]) == 2
    assert "no tool of llvm takes the kernels of PYTHON as they are" in capsys.readouterr().err
    assert run(["conform", "export", CASE, "--for", "llvm", "--out", str(file)]) == 0
