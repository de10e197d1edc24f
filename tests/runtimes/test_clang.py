"""The CLANG device when its compiler is missing, broken, hung or wrong."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tinyref.config import Context
from tinyref.device import Device
from tinyref.errors import DeviceError
from tinyref.runtimes.emulated.text_devices import CudaEmuBackend
from tinyref.runtimes.host import clang as toolchain_module
from tinyref.runtimes.host.clang import (
    CCompiler,
    ClangBackend,
    chosen_compiler,
    compile_shared,
    load_shared,
    toolchain,
)

needs_compiler = pytest.mark.skipif(
    not ClangBackend.availability().works, reason="no C compiler is installed"
)


@pytest.fixture
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")


def script(folder: Path, body: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o700)
    return str(path)


@pytest.fixture
def files_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of temporary files, whose remains the test checks."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.usefixtures("nothing_found")
@pytest.mark.parametrize("backend", [ClangBackend, CudaEmuBackend])
def test_without_a_compiler_the_reason_says_what_to_install(
    backend: type[ClangBackend | CudaEmuBackend],
) -> None:
    available = backend.availability()
    assert not available.works
    assert available.reason == (
        "no C compiler is installed: install one of gcc, clang, tcc or name one by CC"
    )
    with pytest.raises(DeviceError, match="install one of gcc, clang, tcc"):
        toolchain()


def test_a_compiler_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Context(CC="no-such-compiler"):
        reason = ClangBackend.availability().reason
    assert reason == "flag CC names the compiler 'no-such-compiler', which is not installed"
    monkeypatch.setenv("CC", "neither-this")
    assert "CC names the compiler 'neither-this'" in ClangBackend.availability().reason


@needs_compiler
def test_the_flag_comes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", script(tmp_path, "pass") + " -one")
    assert chosen_compiler()[1:] == ("-one",)
    with Context(CC=f"{sys.executable} -two"):
        assert chosen_compiler() == (sys.executable, "-two")


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import sys; sys.exit('cannot find my libraries')", "cannot find my libraries"),
        ("pass", "cannot compile"),
    ],
)
def test_a_compiler_that_compiles_nothing_is_not_available(
    tmp_path: Path, body: str, says: str
) -> None:
    with Context(CC=script(tmp_path, body)):
        available = ClangBackend.availability()
        assert not available.works
        assert says in available.reason
        with pytest.raises(DeviceError, match="does not work"):
            toolchain()


@needs_compiler
def test_an_error_has_the_compilers_words_and_the_source(files_left: Path) -> None:
    with pytest.raises(DeviceError, match="this_is_undeclared") as caught:
        compile_shared(toolchain().command, "int f(void) { return this_is_undeclared; }")
    assert "this_is_undeclared" in caught.value.source
    assert "failed with code" in caught.value.message
    assert list(files_left.iterdir()) == []


@needs_compiler
def test_no_file_stays_after_a_load(files_left: Path) -> None:
    binary = compile_shared(toolchain().command, "int f(void) { return 1; }")
    with load_shared("CLANG", binary) as library:
        assert library.address("f")
        with pytest.raises(DeviceError, match="no function g"):
            library.address("g")
    assert list(files_left.iterdir()) == []


def test_bytes_that_are_no_library_are_an_error(files_left: Path) -> None:
    with pytest.raises(DeviceError, match="cannot load a compiled kernel"):
        load_shared("CLANG", b"not a library")
    assert list(files_left.iterdir()) == []


@pytest.mark.long
def test_a_hung_compiler_is_stopped_with_its_children(
    tmp_path: Path, files_left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain_module, "COMPILE_SECONDS", 0.3)
    mark = tmp_path / "child-lives"
    body = f"""
import subprocess, sys, time
child = "import time, pathlib; time.sleep(1.5); pathlib.Path({str(mark)!r}).touch()"
subprocess.Popen([sys.executable, "-S", "-c", child])
time.sleep(60)
"""
    with pytest.raises(DeviceError, match=r"did not end within 0\.3 seconds"):
        compile_shared([script(tmp_path, body)], "int f;")
    assert list(files_left.iterdir()) == []
    time.sleep(1.6)
    assert not mark.exists()


def test_a_compiler_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "compiler"
    path.write_bytes(b"\x00 no program")
    path.chmod(0o700)
    with pytest.raises(DeviceError, match="cannot start"):
        compile_shared([str(path)], "int f;")


@needs_compiler
def test_the_key_names_compiler_flags_and_processor() -> None:
    keys = []
    for strict, word in ((1, "-ffp-contract=off"), (0, "-ffp-contract=fast")):
        with Context(STRICT_FLOAT=strict):
            tools, key = toolchain(), Device["CLANG"].compiler.key
        assert word in tools.command
        assert tools.version in key
        assert all(part in key for part in tools.command)
        assert tools.target
        assert key.endswith(f" {tools.target}")
        keys += [key, CCompiler(dataclasses.replace(tools, target="another")).key]
    assert len(set(keys)) == 4


@pytest.mark.long
@pytest.mark.sampled(3)
@needs_compiler
@pytest.mark.parametrize(
    ("change", "lanes"),
    [
        # Unchanged; without vectors; with vectors on which an operation is wrong.
        ("", (1, 2, 4, 8, 16)),
        ("if 'vector_size' in text: sys.exit('no such attribute')", (1,)),
        ("path.write_text(text.replace('& 1;', '& 2;'))", (1,)),
    ],
)
def test_vectors_are_declared_by_what_the_compiler_does(
    tmp_path: Path, change: str, lanes: tuple[int, ...]
) -> None:
    real = toolchain()
    if real.vector_lanes == (1,):
        pytest.skip(f"{real.name} has no vectors")
    body = f"""
import pathlib, subprocess, sys
path = pathlib.Path("kernel.c")
text = path.read_text() if path.exists() else ""
{change}
sys.exit(subprocess.call([{real.command[0]!r}, *sys.argv[1:]]))
"""
    with Context(CC=script(tmp_path, body)):
        assert toolchain().vector_lanes == lanes
        assert Device["CLANG"].capabilities.vector_lanes == lanes


def test_a_compiler_that_ignores_the_attribute_has_no_vectors() -> None:
    if shutil.which("tcc") is None:
        pytest.skip("the compiler tcc is not installed")
    with Context(CC="tcc"):
        assert Device["CLANG"].capabilities.vector_lanes == (1,)
