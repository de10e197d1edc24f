"""Programs: the nodes of one kernel in a legal order, its launch, and how memory holds types.

If a device lacks a type, memory holds its elements as integers. If memory has only words of 32
bits, a program accesses buffers of 8- and 16-bit elements as words. Its parameters still describe
the buffers as elements. A buffer may begin inside a word. A variable of the program holds the
position of its first element there, and a launch sets this variable by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinyref.dtype import DType, PtrDType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg


@dataclass(frozen=True)
class Parameter:
    """A buffer argument of a kernel: `size` elements of `dtype`, at position `slot`."""

    slot: int
    dtype: DType
    size: int
    is_written: bool
    is_read: bool


@dataclass(frozen=True)
class Program:
    """A kernel in the form that renderers and the interpreter take.

    uops: sources before users; an END closes each RANGE, an ENDIF each IF.
    parameters: buffers by slot. variables: DEFINE_VARs in the order of their names, passed after
    the buffers as 32-bit integers. grid, group: extents of the launch, symbolic ones as nodes.
    """

    name: str
    uops: tuple[UOp, ...]
    parameters: tuple[Parameter, ...]
    variables: tuple[UOp, ...] = ()
    grid: tuple[int | UOp, int | UOp, int | UOp] = (1, 1, 1)
    group: tuple[int, int, int] = (1, 1, 1)


def shared_bytes(program: Program) -> int:
    """Return the bytes of all arrays that the work-items of a group share."""
    return sum(
        node.dtype.size * node.dtype.base.itemsize
        for node in program.uops
        if node.op is Ops.DEFINE_LOCAL and isinstance(node.dtype, PtrDType)
    )


SMALL_FLOATS = (*dtypes.fp8s, dtypes.float16, dtypes.bfloat16)
WIDE_INTEGERS = (dtypes.int64, dtypes.uint64)


def scalar_of(dtype: DType) -> DType:
    """Return the scalar type of a value, or of the elements behind a pointer."""
    return dtype.value.scalar if isinstance(dtype, PtrDType) else dtype.scalar


def storage_dtype(dtype: DType) -> DType:
    """Return the unsigned integer type that stores an 8- or 16-bit float; other types unchanged."""
    if dtype.scalar not in SMALL_FLOATS:
        return dtype
    integer = dtypes.uint8 if dtype.scalar.itemsize == 1 else dtypes.uint16
    return integer.vec(dtype.lanes)


def elements_in(dtype: DType, stored: DType) -> int:
    """Return how many elements of `stored` hold one `dtype` on some device, or 0 if none does."""
    if dtype is stored or storage_dtype(dtype) is stored:
        return 1
    return 2 if dtype in WIDE_INTEGERS and stored is dtypes.uint32 else 0


WORD = dtypes.uint32
# The types that are stored in words if a device declares this.
STORABLE_IN_WORDS = (dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)


def elements_per_word(dtype: DType) -> int:
    """Return how many elements of `dtype` one word holds, the first in its low bits."""
    return WORD.itemsize // dtype.itemsize


def word_count(dtype: DType, size: int, is_shifted: bool) -> int:
    """Return the number of words that hold `size` elements.

    is_shifted: the first element may be anywhere in its word; else it is the first there.
    """
    per_word = elements_per_word(dtype)
    return -(-(size + (per_word - 1 if is_shifted else 0)) // per_word)


def offset_name(slot: int) -> str:
    """Return the name of the variable of the first element's position; users cannot choose it."""
    return f"slot {slot} begins at"


def offset_variable(slot: int, dtype: DType) -> UOp:
    """Return the variable that holds where in its first word the buffer of `slot` begins."""
    return build.variable(offset_name(slot), 0, elements_per_word(dtype) - 1)


def slots_in_words(program: Program) -> Mapping[int, DType]:
    """Return the slots whose buffers the program accesses as words, with their element types."""
    narrow = {
        parameter.slot: parameter.dtype
        for parameter in program.parameters
        if parameter.dtype.itemsize < WORD.itemsize
    }
    if not narrow:
        return {}
    slots = {}
    for node in program.uops:
        if node.op is not Ops.DEFINE_GLOBAL or not isinstance(node.arg, SlotArg):
            continue
        if isinstance(node.dtype, PtrDType) and node.dtype.base is WORD and node.arg.slot in narrow:
            slots[node.arg.slot] = narrow[node.arg.slot]
    return slots
