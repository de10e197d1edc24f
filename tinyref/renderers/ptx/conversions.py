"""Casts and bitcasts of one scalar (ISA, "Data Movement and Conversion Instructions", `cvt`).

Floats become integers by `.rzi`, which truncates; what is out of range becomes the nearest one, by
default for such conversions. Integers become floats, and floats narrower ones, by `.rn`.
"""

from __future__ import annotations

from tinyref.dtype import DType, Kind, dtypes
from tinyref.renderers.ptx.emitter import Emitter
from tinyref.renderers.ptx.instructions import ARITHMETIC_OF_BFLOAT16
from tinyref.renderers.ptx.registers import HALVES, bits_word, type_word, width


def cast(text: Emitter, value: str, have: DType, want: DType) -> str:
    """The register of `value` as another scalar type."""
    if have is want:
        return value
    if want.is_bool:
        return _is_not_zero(text, value, have)
    if have.is_bool:
        return _from_bool(text, value, want)
    if not have.is_float:
        return _from_integer(text, value, have, want)
    if want.is_float:
        return _between_floats(text, value, have, want)
    if have in HALVES:
        value, have = widened(text, value, have), dtypes.float32
    # Of 8 bits the range is that of 8 bits, and the result is extended to its register.
    letter = "s" if want.kind is Kind.SIGNED else "u"
    return text.emit(f"cvt.rzi.{letter}{want.bits}.{type_word(have)}", want, value)


def bitcast(text: Emitter, value: str, have: DType, want: DType) -> str:
    """The register with the bits of `value` read as another scalar type of the same size."""
    if have.is_bool and not want.is_bool:
        return text.emit("selp.b16", want, "1", "0", value)
    if want.is_bool and not have.is_bool:
        return _is_not_zero(text, value, have)
    return resized(text, value, have, want)


def resized(text: Emitter, value: str, have: DType, want: DType) -> str:
    """An integer, or bits, in the register of another width: low bits, or extended as `have` is."""
    source, target = width(have), width(want)
    if source != target:
        letter = "s" if have.kind is Kind.SIGNED and target > source else "u"
        value = text.emit(f"cvt.{letter}{target}.{letter}{source}", want, value)
    return value if have is want else extended(text, value, want)


def extended(text: Emitter, value: str, dtype: DType) -> str:
    """`value` with its 8 bits extended to the 16 of its register; wider types stay as they are."""
    if dtype.bits != 8:
        return value
    letter = "s" if dtype.kind is Kind.SIGNED else "u"
    return text.emit(f"cvt.{letter}16.{letter}8", dtype, value)


def widened(text: Emitter, value: str, have: DType) -> str:
    """A float of 16 bits as float32, exactly."""
    if have is dtypes.float16:
        return text.emit("cvt.f32.f16", dtypes.float32, value)
    # bfloat16 is the upper half of float32.
    zero = text.constant(0, dtypes.uint16)
    return text.emit("mov.b32", dtypes.float32, f"{{{zero}, {value}}}")


def _is_not_zero(text: Emitter, value: str, have: DType) -> str:
    """Also a NaN is not zero."""
    if have is dtypes.bfloat16:
        value, have = widened(text, value, have), dtypes.float32
    compare = "neu" if have.is_float else "ne"
    zero = text.constant(0.0 if have.is_float else 0, have)
    return text.emit(f"setp.{compare}.{type_word(have)}", dtypes.bool, value, zero)


def _from_bool(text: Emitter, value: str, want: DType) -> str:
    one, zero = (
        text.constant(number, want) for number in ((1.0, 0.0) if want.is_float else (1, 0))
    )
    return text.emit(f"selp.{bits_word(want)}", want, one, zero, value)


def _from_integer(text: Emitter, value: str, have: DType, want: DType) -> str:
    if not want.is_float:
        return resized(text, value, have, want)
    if want is dtypes.float16:
        # Integers that float32 rounds are beyond 65504: they are infinite either way.
        wide = text.emit(f"cvt.rn.f32.{type_word(have)}", dtypes.float32, value)
        return text.emit("cvt.rn.f16.f32", want, wide)
    if _is_narrowed_twice(text, want):
        return _through_odd(text, value, have)
    return text.emit(f"cvt.rn.{type_word(want)}.{type_word(have)}", want, value)


def _between_floats(text: Emitter, value: str, have: DType, want: DType) -> str:
    if have in HALVES:
        wide = widened(text, value, have)
        return cast(text, wide, dtypes.float32, want)
    if have is dtypes.float64 and _is_narrowed_twice(text, want):
        return _through_odd(text, value, have)
    rounding = ".rn" if want.bits < have.bits else ""
    return text.emit(f"cvt{rounding}.{type_word(want)}.{type_word(have)}", want, value)


def _is_narrowed_twice(text: Emitter, want: DType) -> bool:
    """Whether there is no conversion to `want` but that from float32."""
    return want is dtypes.bfloat16 and text.architecture < ARITHMETIC_OF_BFLOAT16


def _through_odd(text: Emitter, value: str, have: DType) -> str:
    """bfloat16 by a float32 that is rounded to odd, so that the second rounding is the only one.

    Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
    """
    source = type_word(have)
    wide = text.emit(f"cvt.rz.f32.{source}", dtypes.float32, value)
    back = text.emit(f"cvt{'' if have.is_float else '.rzi'}.{source}.f32", have, wide)
    compare = "neu" if have.is_float else "ne"
    is_inexact = text.emit(f"setp.{compare}.{source}", dtypes.bool, back, value)
    last = text.emit("selp.b32", dtypes.uint32, "1", "0", is_inexact)
    odd = text.emit("or.b32", dtypes.float32, wide, last)
    return text.emit("cvt.rn.bf16.f32", dtypes.bfloat16, odd)
