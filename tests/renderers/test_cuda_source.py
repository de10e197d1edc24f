"""Test CUDA C++ word for word: halves, conversions, wide accesses, tiles, contraction.

The words come from the CUDA Math API and the CUDA C++ Programming Guide; the instructions of tiles
from the PTX ISA. If NVRTC is installed, its output is checked as well.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.graphs.value_programs import loaded, stored, tile_of
from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.dtype import DType, dtypes
from tinyref.renderers.cuda import CUDA_OPS, CudaRenderer
from tinyref.runtimes.cuda_compilers import NvrtcCompiler, capabilities_of, header_folder
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import GROUPS, TILES

F16, BF16, F32, F64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
I8, I32 = dtypes.int8, dtypes.int32
AMPERE = capabilities_of((8, 0))
RENDERER = CudaRenderer(AMPERE)

needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None or header_folder() is None,
    reason="NVRTC and the headers of CUDA are not installed",
)


def value_text(value: UOp, renderer: CudaRenderer = RENDERER) -> str:
    """Return the expression of the last value of a kernel."""
    text = renderer.render(stored(value))
    return re.findall(r"v\d+ = (.*);", text)[-1]


def test_a_byte_in_arithmetic_is_opaque_to_the_compiler() -> None:
    # NVRTC treats it as a byte of the loaded word (nvrtc-1 of docs/found.md).
    byte = loaded(1, I8)
    quotient = value_text(build.idiv(byte, -16))
    assert quotient == "(signed char)(tinyref_widened(v1) / ((signed char)-16))"
    text = RENDERER.render(stored(build.cast(byte, I32)))
    assert text.count("__device__ __forceinline__ int tinyref_widened(int byte) {") == 1
    assert "tinyref_widened" not in RENDERER.render(stored(loaded(1, I32)))


def test_headers_are_included_for_types_that_are_there_alone() -> None:
    assert "#include" not in RENDERER.render(stored(loaded(1, F32)))
    assert RENDERER.render(stored(loaded(1, F16))).startswith("#include <cuda_fp16.h>\nextern")
    both = RENDERER.render(stored(build.cast(loaded(1, F16), BF16)))
    assert both.startswith("#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n")


# Vectors


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "lanes", "name"),
    [
        (F32, 4, "float4"),
        (I8, 2, "char2"),
        (dtypes.uint64, 2, "ulonglong2"),
        (F64, 4, "tinyref_float64x4"),
        (F16, 2, "tinyref_float16x2"),
        (F32, 8, "tinyref_float32x8"),
    ],
)
def test_vectors_are_loaded_and_stored_at_once(dtype: DType, lanes: int, name: str) -> None:
    text = RENDERER.render(stored(loaded(1, dtype, lanes)))
    assert f"v1 = *(const {name} *)&data1[0];" in text
    assert f"*({name} *)&data0[0] = v1;" in text


def test_a_structure_is_aligned_for_one_access() -> None:
    text = RENDERER.render(stored(loaded(1, F64, 4)))
    assert "typedef struct __align__(16) { double x, y, z, w; } tinyref_float64x4;\n" in text
    text = RENDERER.render(stored(loaded(1, F16, 2)))
    assert "typedef struct __align__(4) { __half x, y; } tinyref_float16x2;\n" in text


def test_without_aligned_views_lanes_are_loaded_one_by_one() -> None:
    types = frozenset({F32, I32})
    narrow = CudaRenderer(Capabilities(types, CUDA_OPS, vector_lanes=(1, 4), view_alignment=8))
    text = narrow.render(stored(loaded(1, F32, 4)))
    assert "v1 = make_float4(data1[0], data1[0 + 1], data1[0 + 2], data1[0 + 3]);" in text
    assert "data0[0] = v1.x; data0[0 + 1] = v1.y;" in text


def test_a_bool_is_any_byte_but_0() -> None:
    text = RENDERER.render(stored(loaded(1, dtypes.bool, 2)))
    assert "v1 = make_uchar2(data1[0] != 0, data1[0 + 1] != 0);" in text
    assert "*(uchar2 *)&data0[0] = v1;" in text


def test_shared_memory_is_aligned_for_vectors() -> None:
    shared = build.define_local("shared", F32, 8)
    store = build.store(build.index(shared, build.const(I32, 0)), loaded(1, F32))
    nodes = tuple(toposort([store]))
    text = RENDERER.render(Program("k", nodes, (Parameter(1, F32, 64, False, True),)))
    assert re.search(r"__shared__ __align__\(16\) float local\d+\[8\];", text)


# The frame


def test_a_kernel_says_how_large_its_groups_are() -> None:
    # Otherwise the compiler may use more registers than a group of this size has.
    program = dataclasses.replace(stored(loaded(1, F32)), group=(4, 8, 2))
    head = 'extern "C" __global__ void __launch_bounds__(64) k_sample(float *data0, float *data1) {'
    assert head in RENDERER.render(program).splitlines()


# Contraction


def product_and_sum(dtype: DType) -> UOp:
    a, b, c = (loaded(slot, dtype) for slot in (1, 2, 3))
    return build.add(build.mul(a, b), c)


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "strict", "relaxed"),
    [
        (F32, "__fadd_rn(v3, v4)", "v3 + v4"),
        (F64, "__dadd_rn(v3, v4)", "v3 + v4"),
        (F16, "__hadd_rn(v3, v4)", "__hadd(v3, v4)"),
        (BF16, "__hadd_rn(v3, v4)", "__hadd(v3, v4)"),
    ],
)
def test_nothing_is_contracted_but_where_that_is_asked_for(
    dtype: DType, strict: str, relaxed: str
) -> None:
    assert value_text(product_and_sum(dtype)) == strict
    with Context(STRICT_FLOAT=0):
        assert value_text(product_and_sum(dtype)) == relaxed


# Tiles


# The number of registers of D, A and B, and the letter of their constraint.
REGISTERS = {
    "nvidia_m16n8k16_float16_float32": "4f 4r 2r",
    "nvidia_m16n8k16_float16_float16": "2r 4r 2r",
    "nvidia_m16n8k16_bfloat16_float32": "4f 4r 2r",
    "nvidia_m16n8k8_tf32_float32": "4f 4r 2r",
    "nvidia_m16n8k4_tf32_float32": "4f 2r 1r",
    "nvidia_m8n8k4_float64_float64": "2d 1d 1d",
    "nvidia_m16n8k32_int8_int32": "4r 4r 2r",
    "nvidia_m16n8k16_int8_int32": "4r 2r 1r",
    "nvidia_m16n8k8_bfloat16_float32": "4f 2r 1r",
    "nvidia_m16n8k8_float16_float32": "4f 2r 1r",
    "nvidia_m16n8k8_float16_float16": "2r 2r 1r",
    "nvidia_m8n8k16_int8_int32": "2r 1r 1r",
}


@pytest.mark.table
@pytest.mark.parametrize("name", REGISTERS)
def test_tiles_are_instructions_on_packed_registers(name: str) -> None:
    registers, text = REGISTERS[name], RENDERER.render(stored(tile_of(TILES[name])))
    assert text.count('asm volatile("mma.sync.aligned.') == 1
    counts = []
    for fragment in "cab":
        letters = re.findall(rf'"\+?([rfd])"\(r{fragment}\[\d\]\)', text)
        counts.append(f"{len(letters)}{letters[0]}")
        assert len(set(letters)) == 1
    assert " ".join(counts) == registers
    # Registers of the instruction are numbered as they are bound: C, A, B.
    (operands,) = re.findall(r"(\{%.*\});", text)
    numbers = [int(number) for number in re.findall(r"%(\d+)", operands)]
    c, a, b = (int(part[0]) for part in registers.split())
    expected = list(range(c + a + b))
    assert numbers == [*expected[:c], *expected[c : c + a], *expected[c + a :], *expected[:c]]
    assert text.count("cvt.rna.tf32.f32") == (a + b if "tf32" in name else 0)


def test_a_kernel_with_a_tile(golden: Callable[[str, str], None]) -> None:
    program = stored(tile_of(TILES["nvidia_m16n8k8_tf32_float32"]))
    golden("tile.cu", RENDERER.render(dataclasses.replace(program, name="k")))


# Output of NVRTC


def ptx_of(source: str, architecture: str, *options: str) -> str:
    """Return the PTX of a CUDA source."""
    nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    flags = (f"--gpu-architecture={architecture}", f"--include-path={header_folder()}", *options)
    (result,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    assert result == 0
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytearray(size)
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


@needs_nvrtc
@pytest.mark.parametrize("name", REGISTERS)
def test_tiles_compile_for_each_architecture_that_has_them(name: str) -> None:
    source = RENDERER.render(stored(tile_of(TILES[name])))
    has_older = TILES[name] in GROUPS["NVIDIA_SM75"]
    for architecture in (*(["sm_75"] if has_older else []), "sm_80", "sm_90", "sm_100"):
        assert NvrtcCompiler("CUDA", architecture).compile(source)
    ptx = ptx_of(source, "compute_80")
    assert len(re.findall(r"mma\.sync", ptx)) == 1
    assert ".local" not in ptx, "fragments stay in registers"


@needs_nvrtc
@pytest.mark.parametrize(
    ("dtype", "lanes", "count"), [(F32, 4, 1), (F16, 8, 1), (F64, 4, 2), (F32, 16, 4)]
)
def test_sixteen_bytes_are_one_access(dtype: DType, lanes: int, count: int) -> None:
    ptx = ptx_of(RENDERER.render(stored(loaded(1, dtype, lanes))), "compute_80")
    assert len(re.findall(r"ld\.global\.v[24]", ptx)) == count
    assert len(re.findall(r"st\.global\.v[24]", ptx)) == count


@needs_nvrtc
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
def test_a_product_and_a_sum_stay_two_whatever_nvrtc_is_told(dtype: DType) -> None:
    # bfloat16 has its own addition from 9.0 on; before, it is a product with 1.
    strict = ptx_of(RENDERER.render(stored(product_and_sum(dtype))), "compute_90", "--fmad=true")
    assert not re.search(r"\bfma\.", strict)
    with Context(STRICT_FLOAT=0):
        source = RENDERER.render(stored(product_and_sum(dtype)))
    relaxed = ptx_of(source, "compute_90", "--fmad=true")
    assert re.search(r"\bfma\.", relaxed) or dtype in (F16, BF16), "ptxas contracts those"
