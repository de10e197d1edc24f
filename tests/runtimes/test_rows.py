"""Rows of the suite on devices of the processor: a part of them; `nox -s conform` runs them all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from run_rows import failures

from tinyref.config import Context
from tinyref.runtimes.host.clang import COMPILERS
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest

# One case of this many is run: a kernel takes LLVM 3 ms, tcc 4 ms and gcc 40 ms.
EVERY = {"CPU": 7, "GPU_EMU": 23, "tcc": 47, "gcc": 193, "clang": 193}
ROWS = {
    "unary": "isa.unary.*",
    "binary": "isa.binary.*",
    "ternary": "isa.ternary.*",
    "cast": "isa.cast.*",
    "bitcast": "isa.bitcast.*",
    "vector": "isa.vector.*",
    "sequence": "isa.sequence.*",
    "constant": "isa.constant.*",
    "memory": "memory.*",
    "program": "kernel.program.*",
}


def check(device: str, query: str, every: int = 1) -> None:
    cases = list(catalogue.cases(Profile.QUICK, query))[::every]
    assert cases
    assert failures(DeviceUnderTest(device), cases) == {}


@pytest.fixture(params=EVERY)
def device(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """Yield a device, CLANG by each compiler; one case of this many runs on it."""
    name: str = request.param
    if name not in COMPILERS:
        yield name, EVERY[name]
        return
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    with Context(CC=name):
        yield "CLANG", EVERY[name]


def test_some_rows_of_each_kind_pass_on_the_default_device() -> None:
    check("CPU", ",".join(ROWS.values()), 97)


@pytest.mark.long
@pytest.mark.parametrize("name", ROWS)
def test_rows_pass(device: tuple[str, int], name: str) -> None:
    check(device[0], ROWS[name], device[1])


@pytest.mark.long
@pytest.mark.parametrize("name", ["CUDA_EMU", "HIP_EMU", "METAL_EMU"])
def test_texts_of_emulated_devices_pass(name: str, needs_device: Callable[[str], None]) -> None:
    """Launch indices, halves, and matrix tiles: the layouts of the emulator and of the compiler."""
    needs_device(name)
    check(name, "kernel.program.item,kernel.program.boxes", 2)
    is_c = name == "CUDA_EMU"  # the others are C++, which takes a compiler fifty times as long
    check(name, "isa.*float16*", 23 if is_c else 193)
    check(name, "isa.cast.*int64.to_bfloat16.edge*", 1 if is_c else 3)
    check(name, "kernel.program.wmma.*", 1 if is_c else 5)


def test_images_pass_on_the_emulated_gpu() -> None:
    check("GPU_EMU", "kernel.image.*", 3)


@pytest.mark.long
def test_functions_and_divisions_stay_right_where_floats_are_contracted() -> None:
    """Their decompositions lean on how products round: one rounding less must not hurt them."""
    with Context(STRICT_FLOAT=0, TRANSCENDENTAL=1):
        check("CPU", "isa.unary.*float32,isa.binary.idiv.*,isa.binary.mod.*", 5)
