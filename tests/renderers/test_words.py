"""Test the text of single nodes in each language, by the words of its reference.

The references are the PTX ISA ("Integer Arithmetic" to "Data Movement and Conversion"), the CUDA
Math API, the Metal Shading Language Specification, WGSL and the LLVM Language Reference Manual.
`golden/every_node.*` has each op of six types; this file has other types and constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.graphs.value_programs import node_of, stored
from tinyref.capabilities import Capabilities
from tinyref.renderers.cuda import CudaRenderer
from tinyref.renderers.hip import HipRenderer
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.renderers.metal import METAL_OPS, MetalRenderer
from tinyref.renderers.ptx import PtxRenderer
from tinyref.renderers.wgsl import WGSL_OPS, WgslRenderer
from tinyref.runtimes.cuda_compilers import capabilities_of
from tinyref.uops.program import Program

METAL = MetalRenderer(Capabilities(frozenset(MetalRenderer.type_names), METAL_OPS))
WGSL = WgslRenderer(Capabilities(frozenset(WgslRenderer.type_names), WGSL_OPS))
RENDERERS: dict[str, Callable[[Program], str]] = {
    "cuda": CudaRenderer(capabilities_of((8, 0))).render,
    "hip": HipRenderer().render,
    "metal": METAL.render,
    "wgsl": WGSL.render,
    "llvm": LlvmRenderer().render,
    "ptx": PtxRenderer(90).render,
    "ptx 80": PtxRenderer(80).render,
    "ptx 75": PtxRenderer(75).render,
}

# NaN is unequal to all. Operations without an instruction go through float32, where each is
# rounded once: float32 has the digits for that.
CUDA = {
    "FDIV bfloat16": "__float2bfloat16_rn(__fdiv_rn(__bfloat162float(v1), __bfloat162float(v2)))",
    "ADD float64": "__dadd_rn(v1, v2)",
    "ADD bfloat16": "__hadd_rn(v1, v2)",
    "CMPNE bfloat16": "__hneu(v1, v2)",
    "NEG bfloat16": ("__ushort_as_bfloat16((unsigned short)(__bfloat16_as_ushort(v1) ^ 0x8000))"),
    "SQRT bfloat16": "__float2bfloat16_rn(__fsqrt_rn(__bfloat162float(v1)))",
    "CAST float64 float16": "__double2half(v1)",
    "CAST float64 bfloat16": "__double2bfloat16(v1)",
    "CAST float16 float64": "(double)__half2float(v1)",
    "CAST float16 bfloat16": "__float2bfloat16_rn(__half2float(v1))",
    "CAST bfloat16 float16": "__float2half_rn(__bfloat162float(v1))",
    "CAST int8 bfloat16": "__float2bfloat16_rn((float)tinyref_widened(v1))",
    # A float32 between would round twice.
    "CAST int32 bfloat16": "__int2bfloat16_rn(v1)",
    "CAST uint32 bfloat16": "__uint2bfloat16_rn(v1)",
    "CAST int64 bfloat16": "__ll2bfloat16_rn(v1)",
    "CAST uint64 bfloat16": "__ull2bfloat16_rn(v1)",
    # NVRTC treats it as a byte of the loaded word (nvrtc-1 of docs/found.md).
    "CAST int8 int32": "(int)tinyref_widened(v1)",
    "CAST int8 uint8": "(unsigned char)v1",
    "IDIV int8": "(signed char)(tinyref_widened(v1) / v2)",
    "BITCAST float16 uint16": "(unsigned short)__half_as_ushort(v1)",
    "BITCAST int16 bfloat16": "__ushort_as_bfloat16((unsigned short)v1)",
    "BITCAST bfloat16 float16": "__ushort_as_half((unsigned short)__bfloat16_as_ushort(v1))",
    "BITCAST float32 int32": "(int)__float_as_int(v1)",
    "BITCAST uint32 float32": "__int_as_float((int)v1)",
    "BITCAST float64 uint64": "(unsigned long long)__double_as_longlong(v1)",
    "BITCAST uint64 float64": "__longlong_as_double((long long)v1)",
    "CONST float16 1.5": "__float2half_rn(1.5f)",
    "CONST bfloat16 -0.0": "__float2bfloat16_rn(__int_as_float((int)0x80000000u))",
    "CONST float16 inf": "__float2half_rn(__int_as_float((int)0x7f800000u))",
    "CONST int64 -9223372036854775808": "(-9223372036854775807ll - 1ll)",
    "CONST uint64 18446744073709551615": "18446744073709551615ull",
}
# bfloat16 is held as its bits there.
HIP = {"NEG bfloat16": "(bfloat16)(v1 ^ 0x8000)"}
# Sections of the specification: literals (2.1), bits (2.19), conversions (2.18, 8.6); roots are
# correctly rounded whatever the options are (6.5, table 8.1). Signed arithmetic that overflows is
# undefined in C++, on which MSL is based (1.2).
METAL_WORDS = {
    "CONST bool 1": "true",
    "CONST int32 -2147483648": "(-2147483647 - 1)",
    "CONST int32 -1": "(-1)",
    "CONST uint32 4294967295": "4294967295u",
    "CONST int64 -9223372036854775808": "(-9223372036854775807l - 1l)",
    "CONST uint64 18446744073709551615": "18446744073709551615ul",
    "CONST int8 -128": "((char)-128)",
    "CONST uint16 65535": "((ushort)65535)",
    "CONST float32 0.1": "0.1f",
    "CONST float32 1e30": "1e+30f",
    "CONST float32 -2.0": "(-2.0f)",
    "CONST float32 -0.0": "as_type<float>(0x80000000u)",
    "CONST float32 inf": "as_type<float>(0x7f800000u)",
    "CONST float32 -inf": "as_type<float>(0xff800000u)",
    "CONST float32 nan": "as_type<float>(0x7fc00000u)",
    "CONST float16 1.5": "((half)1.5f)",
    "CONST bfloat16 inf": "((bfloat)as_type<float>(0x7f800000u))",
    "ADD int32": "(int)((uint)v1 + (uint)v2)",
    "SUB int8": "(char)((uint)v1 - (uint)v2)",
    "MOD uint32": "v1 % v2",
    "SHL int32": "(int)((uint)v1 << (v2 & 31))",
    "SHR int32": "v1 >> (v2 & 31)",
    "FDIV bfloat16": "v1 / v2",
    "SQRT bfloat16": "(bfloat)precise::sqrt((float)v1)",
    "BITCAST float32 uint32": "as_type<uint>(v1)",
    "BITCAST uint16 float16": "as_type<half>(v1)",
    "BITCAST uint32 int32": "(int)v1",
    "CAST float16 bfloat16": "(bfloat)(float)v1",
    "CAST bfloat16 float32": "(float)v1",
    "CAST bfloat16 int8": (
        "((float)v1) >= 128.0f ? ((char)127) : ((-128.0f) < ((float)v1) ? "
        "(char)((float)v1) : (((float)v1) < 0.0f ? ((char)-128) : ((char)0)))"
    ),
}
# Constants that would be errors as literals are written as bits.
WGSL_WORDS = {
    "CONST float32 inf": "bitcast<f32>((0x7f800000u | launch_words[0]))",
    "CONST float32 -inf": "bitcast<f32>((0xff800000u | launch_words[0]))",
    "CONST float32 nan": "bitcast<f32>((0x7fc00000u | launch_words[0]))",
    "CONST float32 -0.0": "opaque_f32(bitcast<f32>((0x80000000u | launch_words[0])))",
    "CONST float64 inf": "bitcast<f64>((0x7ff0000000000000lu | u64(launch_words[0])))",
    "CONST float16 -inf": "opaque_f16(f16(bitcast<f32>((0xff800000u | launch_words[0]))))",
    "CONST int32 -2147483648": "(-2147483647i - 1i)",
    "CONST int64 -9223372036854775808": "(-9223372036854775807li - 1li)",
    "CONST uint64 18446744073709551615": "18446744073709551615lu",
    "SHL int32": "v1 << (u32(v2) & 31u)",
    "SHR uint32": "v1 >> (u32(v2) & 31u)",
    # A number is widened by its own sign.
    "CAST int32 uint64": "u64(i64(v1))",
    "CAST uint32 int64": "i64(u64(v1))",
    # Bits that are known would be a float that is known.
    "BITCAST uint32 float32": "opaque_f32(bitcast<f32>(v1))",
}
LLVM = {
    "CAST float32 float64": "fpext float",
    "CAST float64 float32": "fptrunc double",
    "CAST int32 float32": "sitofp i32",
    "CAST uint32 float32": "uitofp i32",
    "CAST int32 int64": "sext i32",
    "CAST uint32 int64": "zext i32",
    "CAST int64 int8": "trunc i64",
}
# The instructions that compute a value in registers, without loads and addresses. A result that
# stays in the range of 8 bits needs no extension; a division by 0 gives anything. The sign of a
# float is a bit: `neg` may give any NaN for a NaN. `ne` would be false with a NaN.
PTX = {
    "ADD uint16": "add.u16",
    "SUB int32": "sub.s32",
    "MUL uint32": "mul.lo.u32",
    "IDIV uint64": "div.u64",
    "MOD uint32": "rem.u32",
    "MAX uint64": "max.u64",
    "AND uint32": "and.b32",
    "MUL int8": "mul.lo.s16 cvt.s16.s8",
    "IDIV int8": "div.s16 cvt.s16.s8",
    "MAX int8": "max.s16",
    "XOR int8": "xor.b16",
    # A count is 32 bits of its own.
    "SHL int8": "cvt.s32.s16 shl.b16 cvt.s16.s8",
    "SHL int32": "shl.b32",
    "SHR uint16": "cvt.u32.u16 shr.u16",
    "SHR uint64": "cvt.u32.u64 shr.u64",
    "ADD float64": "add.rn.f64",
    "RECIP float64": "rcp.rn.f64",
    "TRUNC float64": "cvt.rzi.f64.f64",
    "MAX float64": "max.f64",
    "MUL bfloat16": "mul.rn.bf16",
    "FDIV bfloat16": "div.rn.f32 cvt.rn.bf16.f32",
    "MAX bfloat16": "max.bf16",
    "CMPLT int32": "setp.lt.s32 selp.b16",
    "CMPNE uint64": "setp.ne.u64 selp.b16",
    "CMPLT bfloat16": "setp.lt.bf16 selp.b16",
    "CMPNE float64": "setp.neu.f64 selp.b16",
    "NEG uint32": "neg.s32",
    "NEG int8": "neg.s16 cvt.s16.s8",
    "NEG bfloat16": "xor.b16",
    "NEG float64": "xor.b64",
    # Between integers: low bits, or extended as the source is; 8 bits once more in their register.
    "CAST int32 int64": "cvt.s64.s32",
    "CAST uint32 int64": "cvt.u64.u32",
    "CAST int32 uint64": "cvt.s64.s32",
    "CAST int64 int32": "cvt.u32.u64",
    "CAST int32 int16": "cvt.u16.u32",
    "CAST int32 int8": "cvt.u16.u32 cvt.s16.s8",
    "CAST int8 uint64": "cvt.s64.s16",
    "CAST int8 uint8": "cvt.u16.u8",
    "CAST uint8 int8": "cvt.s16.s8",
    "CAST int8 uint16": "",
    "CAST uint64 int64": "",
    # Floats to integers: truncated, and out of range the nearest; halves through float32.
    "CAST float32 uint32": "cvt.rzi.u32.f32",
    "CAST float32 int8": "cvt.rzi.s8.f32",
    "CAST float64 int64": "cvt.rzi.s64.f64",
    "CAST bfloat16 uint8": "cvt.rzi.u8.f32",
    # Integers to floats: rounded once. float32 holds all integers that float16 does.
    "CAST uint64 float32": "cvt.rn.f32.u64",
    "CAST int8 float32": "cvt.rn.f32.s16",
    "CAST int64 float64": "cvt.rn.f64.s64",
    "CAST uint64 float16": "cvt.rn.f32.u64 cvt.rn.f16.f32",
    "CAST uint64 bfloat16": "cvt.rn.bf16.u64",
    # Between floats: only what loses bits is rounded, once.
    "CAST float32 float64": "cvt.f64.f32",
    "CAST float64 float16": "cvt.rn.f16.f64",
    "CAST float64 bfloat16": "cvt.rn.bf16.f64",
    "CAST float16 float64": "cvt.f32.f16 cvt.f64.f32",
    "CAST float16 bfloat16": "cvt.f32.f16 cvt.rn.bf16.f32",
    "CAST bfloat16 float16": "cvt.rn.f16.f32",
    "CAST bool int64": "setp.ne.u16 selp.b64",
    "BITCAST float64 uint64": "",
    "BITCAST int16 bfloat16": "",
    "BITCAST int8 uint8": "cvt.u16.u8",
    "BITCAST int8 bool": "setp.ne.s16 selp.b16",
    "CONST int8 -1": "mov.b16 65535",
    "CONST uint8 255": "mov.b16 255",
    "CONST int16 -32768": "mov.b16 32768",
    "CONST int32 -2147483648": "mov.b32 2147483648",
    "CONST uint64 18446744073709551615": "mov.b64 18446744073709551615",
    "CONST float16 1.5": "mov.b16 0x3E00",
    "CONST bfloat16 -0.0": "mov.b16 0x8000",
    "CONST float32 -inf": "mov.b32 0xFF800000",
    "CONST float64 0.1": "mov.b64 0x3FB999999999999A",
}
# sm_80 converts bfloat16 to and from float32, and has nothing else of it that rounds once. Numbers
# that float32 does not hold are rounded towards zero with a last bit for what was lost, then once.
PTX_80 = {
    "MAX float16": "max.f16",
    "ADD bfloat16": "add.rn.f32 cvt.rn.bf16.f32",
    "MAX bfloat16": "max.f32 cvt.rn.bf16.f32",
    "CMPNE bfloat16": "setp.neu.f32 selp.b16",
    "CAST float16 bfloat16": "cvt.f32.f16 cvt.rn.bf16.f32",
    "CAST bfloat16 int32": "cvt.rzi.s32.f32",
    "CAST int64 bfloat16": (
        "cvt.rz.f32.s64 cvt.rzi.s64.f32 setp.ne.s64 selp.b32 or.b32 cvt.rn.bf16.f32"
    ),
    "CAST float64 bfloat16": (
        "cvt.rz.f32.f64 cvt.f64.f32 setp.neu.f64 selp.b32 or.b32 cvt.rn.bf16.f32"
    ),
}
PTX_75 = {"MAX float16": "cvt.f32.f16 cvt.f32.f16 max.f32 cvt.rn.f16.f32"}
TABLES = (CUDA, HIP, METAL_WORDS, WGSL_WORDS, LLVM, PTX, PTX_80, PTX_75)
CASES = [
    (language, node, words)
    for language, table in zip(RENDERERS, TABLES, strict=True)
    for node, words in table.items()
]


def expression(text: str) -> str:
    """Return what is stored in a language like C: the text of the value that has the last name."""
    named = re.findall(r"\bv\d+(?:: \w+)? = (.*);", text)
    (stored_value,) = re.findall(r"data0\[.*\] = (.*);", text)
    return named[-1] if re.fullmatch(r"v\d+", stored_value) else stored_value


def instruction(text: str) -> str:
    """Return the conversion of LLVM IR."""
    (words,) = re.findall(r"= (\w+ \w+) %\w+ to", text)
    return words


def instructions(text: str) -> str:
    """Return the opcodes of PTX that compute, or the constant that is stored."""
    lines = [line.strip().removesuffix(";") for line in text.partition("{\n")[2].splitlines()]
    values = dict(
        line.split()[1:] for line in lines if re.match(r"mov\.b\d+ %r[sd]?\d+, \w+$", line)
    )
    (register,) = [line.split()[-1] for line in lines if line.startswith("st.")]
    if f"{register}," in values:
        (word,) = [line.split()[0] for line in lines if line.startswith("mov") and register in line]
        return f"{word} {values[f'{register},']}"
    around = (".", "}", "ret", "mad.wide", "ld.", "cvta", "mov.", "st.")
    return " ".join(line.split()[0] for line in lines if line and not line.startswith(around))


READERS = {"llvm": instruction, "ptx": instructions, "ptx 80": instructions, "ptx 75": instructions}


@pytest.mark.table
@pytest.mark.parametrize(
    ("language", "node", "words"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES]
)
def test_a_node_has_the_words_of_its_language(language: str, node: str, words: str) -> None:
    read = READERS.get(language, expression)
    assert read(RENDERERS[language](stored(node_of(node)))) == words
