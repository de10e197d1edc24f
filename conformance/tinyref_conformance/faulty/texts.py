"""Devices whose renderer prints one thing wrong: an edit of each text.

All languages but WGSL run on GPUs made of the host, so that every machine with a compiler can run
them. Edits of matrix tiles change no text without a tile.
"""

from __future__ import annotations

import functools

from tinyref.runtimes.emulated.text_devices import CudaEmuBackend, HipEmuBackend, MetalEmuBackend
from tinyref.runtimes.webgpu import WebgpuBackend
from tinyref_conformance.faulty.device import FaultyDevice
from tinyref_conformance.faulty.emulated import EmulatedOpencl
from tinyref_spec.case import Rung

# Each case is compiled by a slow compiler: a few of every rung are enough.
QUERY = (
    "memory.open,memory.launch.float32,memory.gate,"
    "kernel.store.constant.*int32,kernel.store.constant.*8,kernel.store.constant.float32,"
    "kernel.one_alu.add,kernel.view.permute.float32,kernel.offset.int32,kernel.variable,"
    "isa.binary.idiv.int32,isa.binary.shr.int32,isa.binary.cmpne.float32,isa.unary.sqrt.float32,"
    "isa.constant.float32,isa.constant.int64,isa.constant.uint8,isa.binary.cmplt.int8,"
    "isa.binary.fdiv.float32,isa.ternary.where.int32,isa.cast.float32,"
    "isa.cast.float64.to_bfloat16,kernel.program.grid,kernel.program.gate,"
    "kernel.program.vector*,kernel.program.loop.nested,kernel.program.item,"
    "kernel.program.group,kernel.program.limit.buffers"
)
TILE_QUERY = "memory.open,memory.launch.float32,kernel.program.item,kernel.program.wmma"

_opencl = functools.partial(
    FaultyDevice,
    base=EmulatedOpencl,
    healthy="tinyref_conformance.faulty.emulated:EmulatedOpencl",
    query=QUERY,
)
_wgsl = functools.partial(FaultyDevice, base=WebgpuBackend, healthy="WEBGPU", query=QUERY)
_cuda = functools.partial(FaultyDevice, base=CudaEmuBackend, healthy="CUDA_EMU", query=QUERY)
_hip = functools.partial(FaultyDevice, base=HipEmuBackend, healthy="HIP_EMU", query=QUERY)
_metal = functools.partial(FaultyDevice, base=MetalEmuBackend, healthy="METAL_EMU", query=QUERY)
_tile = functools.partial(_cuda, clause="isa.wmma", rung=Rung.MATMUL, query=TILE_QUERY)

# A value, in a text.
_V = r"(v\d+)"
# The call of a tile, and that one follows.
_CALL = r"= (tinyref_wmma_\w+)\((v\d+), (v\d+), (v\d+)\)"
_BEFORE = r"(?=[\s\S]* = tinyref_wmma_)"

FAULTS = (
    _opencl(
        name="LostInfinity",
        sentence="Prints infinity as the largest float.",
        clause="isa.const",
        rung=Rung.STORE,
        text=(r"as_float\(0x7f800000u\)", "3.4028235e+38f"),
    ),
    _opencl(
        name="ShortDecimals",
        sentence="Prints floats with four digits.",
        clause="isa.const",
        rung=Rung.STORE,
        text=(r"(\d\.\d{3})\d+(e[+-]?\d+)?f", r"\1\2f"),
    ),
    _opencl(
        name="SwappedBuffers",
        sentence="Gives a kernel its second and third buffer in reverse.",
        clause="kernel.global",
        rung=Rung.INDEX,
        text=(
            r"base1, ulong start1, __global uchar \*base2, ulong start2",
            "base2, ulong start2, __global uchar *base1, ulong start1",
        ),
    ),
    _opencl(
        name="OffsetOfTheFirst",
        sentence="Lets every view begin where the first one does.",
        clause="memory.view",
        rung=Rung.ONE_ALU,
        text=(r"\+ start\d+\)", "+ start0)"),
    ),
    _opencl(
        name="SwappedGroupDimensions",
        sentence="Swaps the first two dimensions of the grid.",
        clause="kernel.view",
        rung=Rung.INDEX,
        text=(r"get_group_id\(([01])\)", r"get_group_id(1 - \1)"),
    ),
    _opencl(
        name="LogicalShift",
        sentence="Shifts negative numbers to the right as unsigned ones.",
        clause="isa.shr",
        rung=Rung.ALU,
        text=(rf"int {_V} = {_V} >> ", r"int \1 = (uint)\2 >> "),
    ),
    _opencl(
        name="NanEqualsItself",
        sentence="Finds NaN equal to every number.",
        clause="float.nan",
        rung=Rung.ALU,
        text=(rf"bool {_V} = {_V} != {_V};", r"bool \1 = \2 < \3 || \3 < \2;"),
    ),
    _opencl(
        name="UnsignedBytes",
        sentence="Keeps signed bytes in unsigned variables.",
        clause="isa.cmplt",
        rung=Rung.ALU,
        text=(r" char (v\d+)", r" uchar \1"),
    ),
    _opencl(
        name="RoundedCast",
        sentence="Rounds as it makes integers of floats.",
        clause="cast.truncate",
        rung=Rung.CAST,
        text=(r"\? \((u?int|u?char|u?short|u?long)\)(v\d+) :", r"? (\1)(\2 + 0.5f) :"),
    ),
    _opencl(
        name="ConvertedBits",
        sentence="Converts where it should reinterpret bits.",
        clause="isa.bitcast",
        rung=Rung.ONE_ALU,
        text=(r"as_u?int\((v\d+)\)", r"(int)\1"),
    ),
    _opencl(
        name="LostLoadGate",
        sentence="Forgets the gate of a load.",
        clause="memory.gate.load",
        rung=Rung.GATE,
        text=(r"v\d+ \? (data\d+\[(v|i|group_)\d+\]) : [^;]*;", r"\1;"),
    ),
    _opencl(
        name="LoopOnceMore",
        sentence="Runs loops once more.",
        clause="kernel.range",
        rung=Rung.GATE,
        text=(r"for \(int (i\d+) = 0; i\d+ < ", r"for (int \1 = 0; \1 <= "),
    ),
    _opencl(
        name="NoBarrier",
        sentence="Prints no barriers.",
        clause="kernel.barrier",
        rung=Rung.GROUP,
        text=(r"\n *barrier\(.*\);", ""),
    ),
    _wgsl(
        name="WgslClearedNeighbours",
        sentence="Clears the neighbours of a byte that it writes.",
        clause="isa.store",
        rung=Rung.STORE,
        text=(r"atomicAnd\(&([^,]*), [^;]*\); ", r"atomicAnd(&\1, 0u); "),
    ),
    _wgsl(
        name="WgslOtherVariable",
        sentence="Reads the word after the first variable.",
        clause="kernel.variable",
        rung=Rung.STORE,
        text=(r"(let var_\w+: i32 = .*launch_words\[)1\]", r"\g<1>2]"),
    ),
    _wgsl(
        name="WgslSwappedSelect",
        sentence="Swaps the two values of a choice.",
        clause="isa.where",
        rung=Rung.ONE_ALU,
        text=(r"select\(([^,()]+), ([^,()]+), ", r"select(\2, \1, "),
    ),
    _wgsl(
        name="WgslShortGroup",
        sentence="Launches groups with one work-item less.",
        clause="kernel.special",
        rung=Rung.GROUP,
        text=(r"@workgroup_size\((\d*[2-9]\d*|1\d+),", r"@workgroup_size(\1 - 1,"),
    ),
    _cuda(
        name="CudaProductWithReciprocal",
        sentence="Divides float32 by a product with a reciprocal, as fast mode does.",
        clause="isa.fdiv",
        rung=Rung.ALU,
        text=(rf"__fdiv_rn\({_V}, {_V}\)", r"__fmul_rn(\1, __fdiv_rn(1.0f, \2))"),
    ),
    _cuda(
        name="CudaFirstVector",
        sentence="Loads the first vector of a buffer wherever a vector is loaded.",
        clause="isa.load",
        rung=Rung.VECTOR,
        text=(r"\*\(const (\w+) \*\)&(\w+)\[[^\]]*\]", r"*(const \1 *)&\2[0]"),
    ),
    _hip(
        name="HipRoundedTwice",
        sentence="Rounds float64 to float32 and then to bfloat16, each to nearest.",
        clause="cast.float",
        rung=Rung.CAST,
        text=(r"bits \| 1u\);", "bits);"),
    ),
    _hip(
        name="HipWrappedLanes",
        sentence="Takes the first lane of a vector for each from the ninth on.",
        clause="kernel.vector",
        rung=Rung.VECTOR,
        text=(r"\.s([89a-f])\b", r".s0"),
    ),
    _metal(
        name="MetalFastRoot",
        sentence="Multiplies a number by the reciprocal of its root, as fast mode does.",
        clause="isa.sqrt",
        rung=Rung.ALU,
        text=(rf"precise::sqrt\({_V}\)", r"(\1 * (1.0f / precise::sqrt(\1)))"),
    ),
    _tile(
        name="TileLostAccumulator",
        sentence="Adds nothing to the product.",
        text=(_CALL, r"= \1(\2, \3, ((__typeof__(\4)){0}))"),
    ),
    _tile(
        name="TileOtherType",
        sentence="Takes the bits of bfloat16 for those of float16.",
        text=(
            r"= tinyref_wmma_nvidia_m16n8k16_bfloat16",
            "= tinyref_wmma_nvidia_m16n8k16_float16",
        ),
    ),
    _tile(
        name="TileTruncatedInputs",
        sentence="Cuts what it should round to TF32.",
        clause="kernel.wmma",
        text=(
            r"(float v\d+ = )(data[12]\[v\d+\]);(?=[\s\S]*_tf32_)",
            r"\1__int_as_float(__float_as_int(\2) & 0xffffe000);",
        ),
    ),
    _tile(
        name="TileTransposedB",
        sentence="Loads B along its rows.",
        base=HipEmuBackend,
        healthy="HIP_EMU",
        text=(
            rf"data2\[(v\d+)\]{_BEFORE}",
            r"data2[\1 / 256 * 256 + \1 % 16 * 16 + \1 / 16 % 16]",
        ),
    ),
    _tile(
        name="TileSwappedOperands",
        sentence="Multiplies B by A.",
        base=MetalEmuBackend,
        healthy="METAL_EMU",
        text=(_CALL, r"= \1(\3, \2, \4)"),
    ),
)
