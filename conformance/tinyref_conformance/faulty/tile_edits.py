"""What a renderer may print wrongly about matrix tiles, as edits of its texts.

Nothing but texts with a tile is edited: each fault shows where products of matrices are asked for.
"""

from __future__ import annotations

from tinyref_conformance.faulty.edits import Edit
from tinyref_spec.case import Rung

# What follows is a call of a tile, after what a lane loads for it.
_BEFORE = r"(?=[\s\S]* = tinyref_wmma_)"
_CALL = r"= (tinyref_wmma_\w+)\((v\d+), (v\d+), (v\d+)\)"


def _edit(name: str, right: str, wrong: str, sentence: str) -> Edit:
    return Edit(name, right, wrong, sentence, Rung.MATMUL)


CUDA_TILE_EDITS = (
    _edit(
        "TileSwappedHalves",
        r"make_tinyref_float16x8\(((?:v\d+, ){3}v\d+), ((?:v\d+, ){3}v\d+)\);",
        r"make_tinyref_float16x8(\2, \1);",
        "Swaps the halves of k in the fragments of A, and not in those of B.",
    ),
    _edit(
        "TileSwappedRegisters",
        rf"make_float4\((v\d+), (v\d+), (v\d+), (v\d+)\);(?=[\s\S]*make_float2){_BEFORE}",
        r"make_float4(\1, \3, \2, \4);",
        "Swaps m and k of the registers of A: 1 is that of row 8, and 2 that of column 4.",
    ),
    _edit(
        "TileLostRow",
        rf"\(unsigned int\)8\);{_BEFORE}",
        "(unsigned int)0);",
        "Loses the register's bit of row 8: those below are the rows above once more.",
    ),
    _edit(
        "TileOtherRegister",
        r"( = tinyref_wmma_.*\n +\w+ v\d+ = v\d+\.)x;",
        r"\1y;",
        "Takes register 1 of D for register 0.",
    ),
    _edit(
        "TileLostAccumulator",
        _CALL,
        r"= \1(\2, \3, ((__typeof__(\4)){0}))",
        "Adds nothing to the product.",
    ),
    _edit(
        "TileOtherType",
        r"= tinyref_wmma_nvidia_m16n8k16_bfloat16",
        "= tinyref_wmma_nvidia_m16n8k16_float16",
        "Takes the bits of bfloat16 for those of float16.",
    ),
    _edit(
        "TileTruncatedInputs",
        r"(float v\d+ = )(data[12]\[v\d+\]);(?=[\s\S]*_tf32_)",
        r"\1__int_as_float(__float_as_int(\2) & 0xffffe000);",
        "Cuts what it should round to TF32.",
    ),
)
HIP_TILE_EDITS = (
    _edit(
        "TileLostLane",
        rf"% 16;{_BEFORE}",
        "% 8;",
        "Loses the lane's bit of row 8.",
    ),
    _edit(
        "TileTransposedB",
        rf"data2\[(v\d+)\]{_BEFORE}",
        r"data2[\1 / 256 * 256 + \1 % 16 * 16 + \1 / 16 % 16]",
        "Loads B along its rows.",
    ),
)
METAL_TILE_EDITS = (
    _edit(
        "TileSwappedOperands",
        _CALL,
        r"= \1(\3, \2, \4)",
        "Multiplies B by A.",
    ),
    _edit(
        "TileSwappedQuads",
        rf"item_0 / (?:(8)|16);{_BEFORE}",
        r"item_0 / (0\1 ? 16 : 8);",
        "Swaps two bits of the lane: those of row 4 and of column 4.",
    ),
    _edit(
        "TileRepeatedRegister",
        rf"(half|bfloat|float)2\((v\d+), v\d+\);{_BEFORE}",
        r"\g<1>2(\2, \2);",
        "Gives every register the element of the first.",
    ),
)
