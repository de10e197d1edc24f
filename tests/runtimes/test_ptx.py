"""The PTX device: calls of ptxas, and what stands over the driver of CUDA; no GPU took part."""

from __future__ import annotations

import importlib
import shutil
import sys

import pytest

from tests.runtimes.fake_cuda import FakeDriver
from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.ptx import PtxRenderer
from tinyref.runtimes import cuda_compilers
from tinyref.runtimes.cuda_backend import PtxBackend
from tinyref.runtimes.cuda_compilers import TARGETS, PtxasChecker, PtxasCompiler, capabilities_of
from tinyref.runtimes.cuda_driver import PROCESS
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_spec.kernel import programs

ELF = b"\x7fELF"


def store(value: int) -> Program:
    out = build.define_global(0, dtypes.int32, 1)
    return programs.program(
        "store", build.store(programs.at(out, 0), build.const(dtypes.int32, value))
    )


@pytest.fixture
def checker() -> PtxasChecker:
    try:
        return PtxasChecker("PTX", "sm_90")
    except DeviceError as error:
        pytest.skip(error.message)


def text(value: int = 1) -> str:
    return PtxRenderer(90).render(store(value))


def test_a_text_that_is_wrong_is_refused_with_the_words_of_ptxas(checker: PtxasChecker) -> None:
    wrong = text().replace("st.global.b32", "st.global.b48")
    with pytest.raises(DeviceError, match=r"(?s)failed with code .*b48") as caught:
        checker.compile(wrong)
    assert caught.value.source == wrong


def test_many_kernels_of_one_name_are_compiled_in_one_call(checker: PtxasChecker) -> None:
    first, second = checker.compile_many([text(1), text(2)])
    assert isinstance(first, bytes)
    assert first.startswith(ELF)
    assert first == second
    assert all(name in first for name in (b"n0_k_", b"n1_k_"))
    with pytest.raises(DeviceError, match="b48"):
        checker.compile_many([text(1), text(2).replace("st.global.b32", "st.global.b48")])


def test_the_key_has_all_that_decides_the_code(checker: PtxasChecker) -> None:
    older = PtxasCompiler("PTX", "sm_75")
    assert checker.key == f"ptxas {checker.version} --gpu-name=sm_90 --fmad=false"
    assert "--gpu-name=sm_75" in older.key
    with Context(STRICT_FLOAT=0):
        assert checker.key.endswith(" --fmad=true")


def test_a_missing_ptxas_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    cuda_compilers.ptxas.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DeviceError, match=r"ptxas is not installed: pip install '\.\[cuda\]'"):
        PtxBackend.compile_target("sm_90")


def test_a_target_has_the_renderer_and_the_types_of_its_architecture(checker: PtxasChecker) -> None:
    for name in TARGETS:
        target = PtxBackend.compile_target(name)
        head = target.renderer.render(store(1)).splitlines()[1]
        assert head == f".target {name}"
    assert PtxBackend.compile_target("sm_75").capabilities == capabilities_of((7, 5))


def test_a_device_is_one_of_the_driver_of_cuda(
    monkeypatch: pytest.MonkeyPatch, checker: PtxasChecker
) -> None:
    """Open an architecture that is not a target of the checks, too."""
    driver = FakeDriver([(8, 7)])
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)  # type: ignore[arg-type]
    monkeypatch.setattr(PROCESS, "is_started", False)
    assert PtxBackend.availability().works
    backend = PtxBackend()
    assert backend.name == "PTX"
    assert ".target sm_87" in backend.renderer.render(store(1))
    assert "--gpu-name=sm_87" in backend.compiler.key
