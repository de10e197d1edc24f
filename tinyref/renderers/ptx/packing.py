"""Values of 8 and 16 bits in registers of 32, the first in the lowest bits: `mov` and `prmt`."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.dtype import DType, dtypes
from tinyref.renderers.ptx import conversions
from tinyref.renderers.ptx.emitter import Emitter, braced
from tinyref.renderers.ptx.registers import type_word

WORD_BITS = 32
# Bytes 0, 2, 4 and 6 of two registers that hold two values of 8 bits each.
_LOW_BYTES = "0x6420"


def packed(text: Emitter, registers: Sequence[str], dtype: DType) -> list[str]:
    """Registers of 32 bits with the values of `registers`, as many as fill them."""
    pairs = [
        text.emit("mov.b32", dtypes.uint32, braced(registers[first : first + 2]))
        for first in range(0, len(registers), 2)
    ]
    if dtype.bits == 16:
        return pairs
    return [
        text.emit("prmt.b32", dtypes.uint32, *pairs[first : first + 2], _LOW_BYTES)
        for first in range(0, len(pairs), 2)
    ]


def unpacked(text: Emitter, registers: Sequence[str], dtype: DType) -> list[str]:
    """What registers of 32 bits hold: a register for each value."""
    found: list[str] = []
    for register in registers:
        pair = [text.fresh(16), text.fresh(16)]
        text.line(f"mov.b32 {braced(pair)}, {register}")
        for half in pair:
            found += [half] if dtype.bits == 16 else _bytes(text, half, dtype)
    return found


def _bytes(text: Emitter, half: str, dtype: DType) -> list[str]:
    """The low and the high byte of 16 bits, each extended as `dtype` is."""
    low = conversions.extended(text, half, dtype)
    return [low, text.emit(f"shr.{type_word(dtype)}", dtype, half, "8")]
