"""Programs as HIP C++, compiled by clang for an AMD GPU without the headers of ROCm.

Attributes and built-in functions of clang replace HIP's headers ("HIP Support" and "AMDGPU Support"
in the manuals of clang and LLVM); an emulator omits these macros. Buffers are pointers to their
first element, in the order of the program's parameters; the variables follow.

Floats are strict under the options of `tinyref.runtimes.hip_compiler`. float16 is a type of the
language, but LLVM approximates its quotients, so they are computed in float32. That has more than
twice the digits, so the second rounding is exact. bfloat16 is stored as its bits and computed in
float32 for the same reason: only the tiles of these devices support it, and clang's `__bf16`
differs by version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.dtype import DType, dtypes
from tinyref.renderers.c_language import EMULATED, VECTOR_WORDS, launch_table
from tinyref.renderers.c_style import C_STYLE_OPS, CStyleRenderer
from tinyref.renderers.cuda import CudaRenderer
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import MatrixTile, Operand

_FLOAT = dtypes.float32

# Functions of the library are off by a few units; decompositions have the same bits everywhere.
HIP_OPS = C_STYLE_OPS - ELEMENTARY_OPS

_TYPES: Mapping[DType, str] = {
    **CudaRenderer.type_names,
    dtypes.float16: "_Float16",
    dtypes.bfloat16: "bfloat16",
}
_WORDS = (
    "#define __global__ __attribute__((global))",
    "#define __device__ __attribute__((device))",
    "#define __shared__ __attribute__((shared))",
    "#define __launch_bounds__(items) __attribute__((amdgpu_flat_work_group_size(1, items)))",
    '#define TINYREF_OPAQUE(value) __asm__("" : "+v"(value))',
)

# Includes device memory: work-items of a group may pass each other its content.
_BARRIER = (
    '__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); '
    '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");'
)

# In the order of their names, in which each function follows those that it calls.
_HELPERS = {
    # LLVM would turn it back into a float16 quotient if it could see it.
    "divide_halves": """static __device__ inline _Float16 divide_halves(_Float16 x, _Float16 y) {
  float quotient = (float)x / (float)y;
  TINYREF_OPAQUE(quotient);
  return (_Float16)quotient;
}""",
    # Rounded to odd first, so that the second rounding is right (Boldo and Melquiond, "When double
    # rounding is odd", 2005): an inexact result with an even last digit is changed.
    "double_to_odd": """static __device__ inline float double_to_odd(double value) {
  float nearest = (float)value;
  unsigned int bits = __builtin_bit_cast(unsigned int, nearest);
  double back = (double)nearest;
  if (back == value || value != value) return nearest;
  if ((back < 0.0 ? -back : back) > (value < 0.0 ? -value : value)) bits -= 1u;
  return __builtin_bit_cast(float, bits | 1u);
}""",
    # Bits that double cannot hold also go into the last bit of an odd number.
    "long_to_odd": """static __device__ inline float long_to_odd(long long value) {
  long long high = value >> 16;
  if (high >= -0x1000000000ll && high < 0x1000000000ll) return double_to_odd((double)value);
  return double_to_odd((double)(high | ((value & 0xffff) != 0)) * 65536.0);
}""",
    # To nearest, ties to even; a NaN stays a NaN.
    "narrow_to_bfloat16": """
static __device__ inline unsigned short narrow_to_bfloat16(float value) {
  unsigned int bits = __builtin_bit_cast(unsigned int, value);
  unsigned int rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (unsigned short)(value != value ? bits >> 16 | 0x40u : rounded);
}""".lstrip(),
    "unsigned_to_odd": """static __device__ inline float unsigned_to_odd(unsigned long long value) {
  if (value >> 63 == 0) return long_to_odd((long long)value);
  return long_to_odd((long long)(value >> 1 | (value & 1ull))) * 2.0f;
}""",
    "widen_bfloat16": """static __device__ inline float widen_bfloat16(unsigned short bits) {
  return __builtin_bit_cast(float, (unsigned int)bits << 16);
}""",
}
_CALLS = {
    "long_to_odd": ("double_to_odd",),
    "unsigned_to_odd": ("double_to_odd", "long_to_odd"),
}
# Types whose values float32 cannot hold exactly, and the functions that make float32 of them.
_TO_ODD = {
    dtypes.int32: "double_to_odd",
    dtypes.uint32: "double_to_odd",
    dtypes.float64: "double_to_odd",
    dtypes.int64: "long_to_odd",
    dtypes.uint64: "unsigned_to_odd",
}

# The bodies of the functions of tiles. bfloat16 is passed as its bits, int8 in words of four.
_RDNA3_HALVES = (
    f"half_v16 wide = __builtin_shufflevector(c, c, {', '.join(f'{n}, -1' for n in range(8))}); "
    "wide = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a, b, wide, false); "
    f"return __builtin_shufflevector(wide, wide, {', '.join(str(2 * n) for n in range(8))});"
)


def _wmma(types: str, suffix: str = "") -> str:
    return f"return __builtin_amdgcn_wmma_{types}_w32{suffix}(a, b, c);"


def _wmma_of_bytes(words: int, suffix: str = "") -> str:
    """Return the body for tiles of signed bytes, without clamping."""
    return (
        f"typedef int words __attribute__((ext_vector_type({words}))); "
        f"return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32{suffix}("
        "true, __builtin_bit_cast(words, a), true, __builtin_bit_cast(words, b), c, false);"
    )


def _mfma(types: str) -> str:
    """Return the body for MFMA tiles, without a broadcast or a permutation of blocks."""
    return f"return __builtin_amdgcn_mfma_{types}(a, b, c, 0, 0, 0);"


# A float16 result of RDNA3 is in the low halves of registers.
_TILE_BODIES = {
    "rdna3_m16n16k16_float16_float32": _wmma("f32_16x16x16_f16"),
    "rdna3_m16n16k16_float16_float16": _RDNA3_HALVES,
    "rdna3_m16n16k16_bfloat16_float32": _wmma("f32_16x16x16_bf16"),
    "rdna3_m16n16k16_int8_int32": _wmma_of_bytes(4),
    "rdna4_m16n16k16_float16_float32": _wmma("f32_16x16x16_f16", "_gfx12"),
    "rdna4_m16n16k16_float16_float16": _wmma("f16_16x16x16_f16", "_gfx12"),
    "rdna4_m16n16k16_bfloat16_float32": _wmma("f32_16x16x16_bf16", "_gfx12"),
    "rdna4_m16n16k16_int8_int32": _wmma_of_bytes(2, "_gfx12"),
    "cdna3_m16n16k16_float16_float32": _mfma("f32_16x16x16f16"),
    "cdna3_m16n16k16_bfloat16_float32": _mfma("f32_16x16x16bf16_1k"),
}


class HipRenderer(CStyleRenderer):
    """Renders programs as HIP C++."""

    language = "HIP C++"
    type_names: ClassVar[Mapping[DType, str]] = _TYPES
    bool_literals = CudaRenderer.bool_literals
    functions: ClassVar[Mapping[Ops, str]] = {
        Ops.SQRT: "__builtin_sqrt",
        Ops.TRUNC: "__builtin_trunc",
    }
    kernel_keywords = CudaRenderer.kernel_keywords
    has_launch_bounds = CudaRenderer.has_launch_bounds
    shared_space = CudaRenderer.shared_space
    launch_indices = launch_table(
        "__builtin_amdgcn_workgroup_id_{axis}()", "__builtin_amdgcn_workitem_id_{axis}()"
    )
    barrier_text = _BARRIER

    def vector_type(self, dtype: DType) -> str:
        """Return the name of a typedef before the kernel: a word for its lanes, as in float_v4."""
        return f"{VECTOR_WORDS[dtype.scalar]}_v{dtype.lanes}"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"({self.type(dtype)}){{{', '.join(lanes)}}}"

    def cast(self, value: str, source: DType, target: DType) -> str:
        if target is dtypes.bfloat16:
            # All others are converted to its float type, which can hold them.
            wide = _TO_ODD.get(source)
            number = self._helper(wide, value) if wide else value
            return self._helper("narrow_to_bfloat16", number)
        if source is dtypes.bfloat16:
            value = self._helper("widen_bfloat16", value)
        return super().cast(value, source, target)

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        return f"__builtin_bit_cast({self.type(target)}, {value})"

    def not_equal(self, left: str, right: str, dtype: DType) -> str:
        left, right = self._wide(dtype, left, right)
        return super().not_equal(left, right, dtype)

    def less(self, left: str, right: str, dtype: DType) -> str:
        left, right = self._wide(dtype, left, right)
        return super().less(left, right, dtype)

    def negate(self, value: str, dtype: DType) -> str:
        if dtype is dtypes.bfloat16:
            return f"({self.type(dtype)})({value} ^ 0x8000)"
        return super().negate(value, dtype)

    def binary(self, op: Ops, left: str, right: str, dtype: DType) -> str:
        if dtype is dtypes.float16 and op is Ops.FDIV:
            return self._helper("divide_halves", left, right)
        left, right = self._wide(dtype, left, right)
        text = super().binary(op, left, right, dtype)
        return self.cast(text, _FLOAT, dtype) if dtype is dtypes.bfloat16 else text

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        suffix = "f" if dtype is dtypes.float32 else ""
        return f"{self.functions[op]}{suffix}({', '.join(operands)})"

    def tile_function(self, tile: MatrixTile, name: str) -> str:
        body = _TILE_BODIES.get(tile.name)
        if body is None:
            return super().tile_function(tile, name)
        a, b, c = (self.type(tile.fragment(operand)) for operand in Operand)
        head = f"static __device__ inline {c} {name}({a} a, {b} b, {c} c)"
        return f"{head} {{ {body} }}"

    def prologue(self) -> list[str]:
        vectors = sorted(
            f"typedef {self.memory_type(dtype)} {self.vector_type(dtype)} "
            f"__attribute__((ext_vector_type({dtype.lanes})));"
            for dtype in tuple(self.types)
            if dtype.lanes > 1
        )
        has_bfloat16 = any(dtype.scalar is dtypes.bfloat16 for dtype in self.types)
        bits = ["typedef unsigned short bfloat16;"] if has_bfloat16 else []
        return [f"#ifndef {EMULATED}", *_WORDS, *bits, *vectors, "#endif"]

    def _helper(self, name: str, *operands: str) -> str:
        for called in (*_CALLS.get(name, ()), name):
            self.helpers[called] = _HELPERS[called]
        return f"{name}({', '.join(operands)})"

    def _wide(self, dtype: DType, *operands: str) -> list[str]:
        """Convert operands to the type in which they are computed."""
        if dtype is not dtypes.bfloat16:
            return list(operands)
        return [self._helper("widen_bfloat16", operand) for operand in operands]
