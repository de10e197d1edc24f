"""Matrix tiles by `mma.sync` (ISA, "Warp-level Matrix Instructions", `mma`).

A fragment is passed in 32-bit registers, of which each holds neighbours of the fragment, the first
one in its lowest bits: two of 16 bits, four of 8. float32 and int32 take a register each, float64
one of 64 bits. Lanes of fragments are in that order: `uops.tiles`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.ptx.emitter import Emitter, braced
from tinyref.renderers.ptx.packing import WORD_BITS, packed, unpacked
from tinyref.renderers.ptx.registers import type_word, width
from tinyref.uops.tiles import GROUPS, InputRounding, MatrixTile

_SINCE = {
    **dict.fromkeys(GROUPS["NVIDIA_SM80"], 80),
    **dict.fromkeys(GROUPS["NVIDIA_SM75"], 75),
}


def multiply(
    text: Emitter, tile: MatrixTile, a: Sequence[str], b: Sequence[str], c: Sequence[str]
) -> Sequence[str]:
    """The registers of D = A * B + C. Raises `UserError` for a tile that the device lacks."""
    since = _SINCE.get(tile)
    if since is None or since > text.architecture:
        accepted = ", ".join(
            known.name for known, least in _SINCE.items() if least <= text.architecture
        )
        raise UserError(f"WMMA: sm_{text.architecture} has no {tile.name}: accepted are {accepted}")
    if tile.rounds_in is InputRounding.TF32:
        a, b = (_rounded_to_tf32(text, operand) for operand in (a, b))
    operands = [
        braced(_packed(text, registers, dtype))
        for registers, dtype in ((a, tile.dtype_in), (b, tile.dtype_in), (c, tile.dtype_out))
    ]
    sums = tile.dtype_out
    is_packed = sums.bits < WORD_BITS
    count = len(c) * sums.bits // WORD_BITS if is_packed else len(c)
    result = [text.fresh(WORD_BITS if is_packed else width(sums)) for _ in range(count)]
    text.line(f"{_opcode(tile)} {', '.join((braced(result), *operands))}")
    return unpacked(text, result, sums) if is_packed else result


def _opcode(tile: MatrixTile) -> str:
    m, n, k = tile.dims
    read, sums = (_element_word(dtype) for dtype in (tile.dtype_in, tile.dtype_out))
    if tile.rounds_in is not None:
        read = tile.rounds_in.value
    return f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{sums}.{read}.{read}.{sums}"


def _element_word(dtype: DType) -> str:
    return "s8" if dtype is dtypes.int8 else type_word(dtype)


def _rounded_to_tf32(text: Emitter, registers: Sequence[str]) -> list[str]:
    return [text.emit("cvt.rna.tf32.f32", dtypes.float32, each) for each in registers]


def _packed(text: Emitter, registers: Sequence[str], dtype: DType) -> Sequence[str]:
    return registers if dtype.bits >= WORD_BITS else packed(text, registers, dtype)
