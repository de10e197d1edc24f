"""The matrix tiles of the vendors, each as its instruction set document lays it out.

Bits are written lowest first: "k2 k4 m1 m2 m4" says that the lowest bit of the thread's number
adds 2 to k, and so on; "-" adds nothing.

NVIDIA: PTX ISA, "Warp-level matrix multiply-accumulate", the sections "Matrix Fragments for
mma.m16n8k16 with floating point type", "... mma.m16n8k8", "... mma.m8n8k16", "... mma.m16n8k16
with integer type", "... mma.m16n8k32" and "... mma.m8n8k4 with .f64 floating point type".
AMD: "RDNA3 Instruction Set Architecture Reference Guide", section 7.9, and AMD GPUOpen, "How to
accelerate AI applications on RDNA 3 using WMMA"; "RDNA4 Instruction Set Architecture Reference
Guide", section 7.12, and GPUOpen, "Using the Matrix Cores of AMD RDNA 4 architecture GPUs"; "AMD
Instinct MI300 Instruction Set Architecture Reference Guide", section 7, with the AMD matrix
instruction calculator.
Apple: the Metal Shading Language Specification, section 6.7, has simdgroup_matrix and leaves its
layout open; that of the hardware is in patent US 11256518 B2 and in the MLX kernels of Apple.
Intel: OpenCL extension cl_intel_subgroup_matrix_multiply_accumulate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tinyref.dtype import DType, dtypes
from tinyref.uops.tiles.layout import FragmentLayout, InputRounding, MatrixTile

_layout = FragmentLayout.of
_f16, _bf16, _f32, _f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
_i8, _i32 = dtypes.int8, dtypes.int32


def _name(vendor: str, dims: tuple[int, int, int], dtype_in: str, dtype_out: DType) -> str:
    m, n, k = dims
    return f"{vendor}_m{m}n{n}k{k}_{dtype_in}_{dtype_out.name}"


def _nvidia(
    dims: tuple[int, int, int],
    dtype_in: DType,
    dtype_out: DType,
    a: FragmentLayout,
    b: FragmentLayout,
    c: FragmentLayout,
    rounds_in: InputRounding | None = None,
) -> MatrixTile:
    spelled = dtype_in.name if rounds_in is None else rounds_in.value
    name = _name("nvidia", dims, spelled, dtype_out)
    return MatrixTile(name, dims, dtype_in, dtype_out, a, b, c, rounds_in)


# The accumulators of all m16n8 tiles, and of m8n8 ones.
_C_16_8 = _layout("n2 n4 m1 m2 m4", "n1 m8")
_C_8_8 = _layout("n2 n4 m1 m2 m4", "n1")


def _m16n8k16(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    a = _layout("k2 k4 m1 m2 m4", "k1 m8 k8")
    b = _layout("k2 k4 n1 n2 n4", "k1 k8")
    return _nvidia((16, 8, 16), dtype_in, dtype_out, a, b, _C_16_8)


def _m16n8k8(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    a = _layout("k2 k4 m1 m2 m4", "k1 m8")
    b = _layout("k2 k4 n1 n2 n4", "k1")
    return _nvidia((16, 8, 8), dtype_in, dtype_out, a, b, _C_16_8)


_TF32_K8 = _nvidia(
    (16, 8, 8),
    _f32,
    _f32,
    _layout("k1 k2 m1 m2 m4", "m8 k4"),
    _layout("k1 k2 n1 n2 n4", "k4"),
    _C_16_8,
    InputRounding.TF32,
)
_TF32_K4 = _nvidia(
    (16, 8, 4),
    _f32,
    _f32,
    _layout("k1 k2 m1 m2 m4", "m8"),
    _layout("k1 k2 n1 n2 n4", ""),
    _C_16_8,
    InputRounding.TF32,
)
_FLOAT64 = _nvidia(
    (8, 8, 4),
    _f64,
    _f64,
    _layout("k1 k2 m1 m2 m4", ""),
    _layout("k1 k2 n1 n2 n4", ""),
    _C_8_8,
)
_INT8_M8N8K16 = _nvidia(
    (8, 8, 16),
    _i8,
    _i32,
    _layout("k4 k8 m1 m2 m4", "k1 k2"),
    _layout("k4 k8 n1 n2 n4", "k1 k2"),
    _C_8_8,
)
_INT8_M16N8K16 = _nvidia(
    (16, 8, 16),
    _i8,
    _i32,
    _layout("k4 k8 m1 m2 m4", "k1 k2 m8"),
    _layout("k4 k8 n1 n2 n4", "k1 k2"),
    _C_16_8,
)
_INT8_M16N8K32 = _nvidia(
    (16, 8, 32),
    _i8,
    _i32,
    _layout("k4 k8 m1 m2 m4", "k1 k2 m8 k16"),
    _layout("k4 k8 n1 n2 n4", "k1 k2 k16"),
    _C_16_8,
)

# Compute capability 7.5.
NVIDIA_SM75 = (_m16n8k8(_f16, _f32), _m16n8k8(_f16, _f16), _INT8_M8N8K16)
# Compute capability 8.0 and above; the widest first.
NVIDIA_SM80 = (
    _m16n8k16(_f16, _f32),
    _m16n8k16(_f16, _f16),
    _m16n8k16(_bf16, _f32),
    _TF32_K8,
    _TF32_K4,
    _FLOAT64,
    _INT8_M16N8K32,
    _INT8_M16N8K16,
    _m16n8k8(_bf16, _f32),
    *NVIDIA_SM75,
)


def _rdna3(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    """V_WMMA_*_16X16X16_* in wave32: threads 16 to 31 give A and B once more.

    A 16-bit result stands in the low halves of as many registers as a 32-bit one.
    """
    a = _layout("m1 m2 m4 m8 -", "k1 k2 k4 k8")
    b = _layout("n1 n2 n4 n8 -", "k1 k2 k4 k8")
    c = _layout("n1 n2 n4 n8 m1", "m2 m4 m8")
    dims = (16, 16, 16)
    name = _name("rdna3", dims, dtype_in.name, dtype_out)
    return MatrixTile(name, dims, dtype_in, dtype_out, a, b, c)


def _rdna4(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    """V_WMMA_*_16X16X16_* of RDNA4 in wave32: each half of the threads has its half of k, and of m.

    Nothing is given twice, and a 16-bit result is packed.
    """
    a = _layout("m1 m2 m4 m8 k8", "k1 k2 k4")
    b = _layout("n1 n2 n4 n8 k8", "k1 k2 k4")
    c = _layout("n1 n2 n4 n8 m8", "m1 m2 m4")
    dims = (16, 16, 16)
    name = _name("rdna4", dims, dtype_in.name, dtype_out)
    return MatrixTile(name, dims, dtype_in, dtype_out, a, b, c)


def _cdna3(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    """V_MFMA_F32_16X16X16_F16 and _BF16: 64 threads, A and B in rows of four along k."""
    a = _layout("m1 m2 m4 m8 k4 k8", "k1 k2")
    b = _layout("n1 n2 n4 n8 k4 k8", "k1 k2")
    c = _layout("n1 n2 n4 n8 m4 m8", "m1 m2")
    dims = (16, 16, 16)
    name = _name("cdna3", dims, dtype_in.name, dtype_out)
    return MatrixTile(name, dims, dtype_in, dtype_out, a, b, c)


AMD_RDNA3 = (_rdna3(_f16, _f32), _rdna3(_f16, _f16), _rdna3(_bf16, _f32), _rdna3(_i8, _i32))
AMD_RDNA4 = (_rdna4(_f16, _f32), _rdna4(_f16, _f16), _rdna4(_bf16, _f32), _rdna4(_i8, _i32))
AMD_CDNA3 = (_cdna3(_f16, _f32), _cdna3(_bf16, _f32))


def _apple(dtype: DType) -> MatrixTile:
    """simdgroup_multiply_accumulate of 8 x 8 matrices: all three have one layout."""
    a = _layout("k2 m1 m2 k4 m4", "k1")
    b = _layout("n2 k1 k2 n4 k4", "n1")
    c = _layout("n2 m1 m2 n4 m4", "n1")
    dims = (8, 8, 8)
    return MatrixTile(_name("apple", dims, dtype.name, dtype), dims, dtype, dtype, a, b, c)


APPLE = (_apple(_f32), _apple(_f16), _apple(_bf16))


def _intel(columns: int, dtype_in: DType) -> MatrixTile:
    """intel_sub_group_*_matrix_mad_k16 with M = 8; a sub-group has a thread for each column."""
    wide = columns == 16
    a = _layout("k1 k2 k4 k8", "m1 m2 m4") if wide else _layout("k2 k4 k8", "k1 m1 m2 m4")
    threads = "n1 n2 n4 n8" if wide else "n1 n2 n4"
    dims = (8, columns, 16)
    return MatrixTile(
        _name("intel", dims, dtype_in.name, _f32),
        dims,
        dtype_in,
        _f32,
        a,
        _layout(threads, "k1 k2 k4 k8"),
        _layout(threads, "m1 m2 m4"),
    )


# Sub-groups of 8 threads: Arc. Sub-groups of 16: the data-centre line.
INTEL_XE_HPG = (_intel(8, _f16), _intel(8, _bf16))
INTEL_XE_HPC = (_intel(16, _f16), _intel(16, _bf16))
INTEL = (*INTEL_XE_HPG, *INTEL_XE_HPC)

# What a device of each family may declare, preferred tiles first.
GROUPS: Mapping[str, tuple[MatrixTile, ...]] = MappingProxyType(
    {
        "NVIDIA_SM75": NVIDIA_SM75,
        "NVIDIA_SM80": NVIDIA_SM80,
        "AMD_RDNA3": AMD_RDNA3,
        "AMD_RDNA4": AMD_RDNA4,
        "AMD_CDNA3": AMD_CDNA3,
        "APPLE": APPLE,
        "INTEL_XE_HPG": INTEL_XE_HPG,
        "INTEL_XE_HPC": INTEL_XE_HPC,
    }
)


def _by_name(groups: Iterable[tuple[MatrixTile, ...]]) -> Mapping[str, MatrixTile]:
    return MappingProxyType({tile.name: tile for group in groups for tile in group})


# Every declared tile by its name.
TILES: Mapping[str, MatrixTile] = _by_name(GROUPS.values())
