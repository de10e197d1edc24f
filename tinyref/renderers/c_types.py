"""The types of C: their names, their literals and the words that no kernel may be called."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.dtype import DType, dtypes

C_NAMES: dict[DType, str] = {
    dtypes.bool: "_Bool",
    dtypes.int8: "signed char",
    dtypes.uint8: "unsigned char",
    dtypes.int16: "short",
    dtypes.uint16: "unsigned short",
    dtypes.int32: "int",
    dtypes.uint32: "unsigned int",
    dtypes.int64: "long long",
    dtypes.uint64: "unsigned long long",
    dtypes.float16: "_Float16",
    dtypes.float32: "float",
    dtypes.float64: "double",
}
C_DTYPES = frozenset(C_NAMES)

# The words of C99 and of what came after (those with a _ first are refused anyway).
C_WORDS = frozenset(
    {
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double"),
        *("else", "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long"),
        *("register", "restrict", "return", "short", "signed", "sizeof", "static", "struct"),
        *("switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool"),
        *("true", "false", "nullptr", "alignas", "alignof", "constexpr", "static_assert"),
        *("thread_local", "typeof", "typeof_unqual", "asm", "main"),
    }
)


def word_type(dtype: DType) -> DType:
    """The unsigned type in which an integer type computes: C widens what is below 32 bits."""
    return dtypes.uint64 if dtype.bits == 64 else dtypes.uint32


def integer_literal(value: int, dtype: DType) -> str:
    """An integer constant of exactly the type `dtype`."""
    if dtype.bits < 32:
        return f"(({dtype.name}){value})"
    suffix = ("u" if dtype.is_unsigned else "") + ("ll" if dtype.bits == 64 else "")
    if value == dtype.minimum and value < 0:
        # C has no negative literals: the digits of MIN alone do not fit the type.
        return f"({value + 1}{suffix} - 1)"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def unsigned_like(dtype: DType) -> DType:
    """The vector of unsigned integers of the same shape and width."""
    return _integers(dtype, dtypes.unsigned_ints)


def signed_like(dtype: DType) -> DType:
    """The vector of signed integers of the same shape and width: what a comparison gives."""
    return _integers(dtype, dtypes.signed_ints)


def _integers(dtype: DType, among: Sequence[DType]) -> DType:
    (found,) = [one for one in among if one.itemsize == dtype.scalar.itemsize]
    return found.vec(dtype.lanes)


def type_name(dtype: DType) -> str:
    """What the source calls a type; `bool` is a word of newer C."""
    scalar = "boolean" if dtype.scalar.is_bool else dtype.scalar.name
    return scalar if dtype.lanes == 1 else f"{scalar}x{dtype.lanes}"


def typedef(dtype: DType) -> str:
    """The declaration that gives a scalar or a vector its name."""
    if dtype.lanes == 1:
        return f"typedef {C_NAMES[dtype]} {type_name(dtype)};"
    element = C_NAMES[dtypes.uint8 if dtype.is_bool else dtype.scalar]
    size = dtype.lanes * dtype.scalar.itemsize
    return f"typedef {element} {type_name(dtype)} __attribute__((vector_size({size})));"
