"""How PTX holds values: registers by width, and the words for a type in instructions and memory.

Registers have no type but a width (`.b16`, `.b32`, `.b64`): those fit every instruction of their
size (ISA, "Operand Type Information"), so that bits change their type without an instruction.
There are no registers of 8 bits: 8-bit integers stand in 16 bits, always extended by their sign or
by zeros. A bool is a predicate, in memory a byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyref.dtype import ConstType, DType, Kind, dtypes, numpy_dtype
from tinyref.errors import UserError

# Of each width: the directive that declares registers, and how their names begin.
REGISTERS: Mapping[int, tuple[str, str]] = {
    1: ("pred", "%p"),
    16: ("b16", "%rs"),
    32: ("b32", "%r"),
    64: ("b64", "%rd"),
}
_FLOATS: Mapping[DType, str] = {
    dtypes.float16: "f16",
    dtypes.bfloat16: "bf16",
    dtypes.float32: "f32",
    dtypes.float64: "f64",
}
HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
PTX_DTYPES = frozenset({dtypes.bool, *dtypes.ints, *_FLOATS})


def width(dtype: DType) -> int:
    """Bits of the register for a scalar. Raises `UserError` for a type without one."""
    if dtype not in PTX_DTYPES:
        accepted = ", ".join(sorted(known.name for known in PTX_DTYPES))
        raise UserError(f"dtype: {dtype.name} has no PTX type here: accepted are {accepted}")
    return 1 if dtype.is_bool else max(dtype.bits, 16)


def type_word(dtype: DType) -> str:
    """What an instruction calls a scalar: s32, u16 (of uint8, too), f32, pred."""
    bits = width(dtype)
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    return "pred" if dtype.is_bool else f"{'s' if dtype.kind is Kind.SIGNED else 'u'}{bits}"


def bits_word(dtype: DType) -> str:
    """What an instruction that only moves bits calls a scalar: b16, b32, b64, pred."""
    return REGISTERS[width(dtype)][0]


def memory_word(dtype: DType) -> str:
    """What a load or a store calls an element; 8 bits are extended to those of the register."""
    if dtype.itemsize > 1:
        return bits_word(dtype)
    return "s8" if dtype is dtypes.int8 else "u8"


def literal(value: ConstType, dtype: DType) -> str:
    """A constant as a number of its register's bits: floats arrive whole, NaN and -0.0 too."""
    if not dtype.is_float:
        return str(int(value) & ((1 << width(dtype)) - 1))
    bits = int.from_bytes(numpy_dtype(dtype).type(value).tobytes(), "little")
    return f"0x{bits:0{dtype.bits // 4}X}"
