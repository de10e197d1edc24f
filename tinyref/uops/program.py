"""Programs: the nodes of one kernel in a legal order, what a launch needs, how memory holds types.

A type that a device lacks is held as integers that it has. Where memory has words of 32 bits only,
a program sees buffers of 8- and 16-bit elements as words, while its parameters say what a launch
is given: elements. Where in its first word a buffer begins is a variable of the program, which a
launch sets by itself.
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
    """A kernel as renderers and the interpreter take it.

    uops: sources before users, every RANGE closed by its END, every IF by its ENDIF.
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
    """The scalar type of a value, or of what is loaded through a pointer."""
    return dtype.value.scalar if isinstance(dtype, PtrDType) else dtype.scalar


def storage_dtype(dtype: DType) -> DType:
    """The unsigned integer of the same size for an 8- or 16-bit float; any other type itself."""
    if dtype.scalar not in SMALL_FLOATS:
        return dtype
    integer = dtypes.uint8 if dtype.scalar.itemsize == 1 else dtypes.uint16
    return integer.vec(dtype.lanes)


def elements_in(held: DType, wanted: DType) -> int:
    """How many `wanted` one `held` is, where some device holds it so; else 0."""
    if held is wanted or storage_dtype(held) is wanted:
        return 1
    return 2 if held in WIDE_INTEGERS and wanted is dtypes.uint32 else 0


WORD = dtypes.uint32
# What is stored in words where a device declares it so.
STORABLE_IN_WORDS = (dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)


def elements_per_word(dtype: DType) -> int:
    """How many elements of `dtype` one word holds, the first in its low bits."""
    return WORD.itemsize // dtype.itemsize


def word_count(dtype: DType, size: int, is_shifted: bool) -> int:
    """The words that `size` elements reach into.

    is_shifted: the first may be any element of its word; else it is the first there.
    """
    per_word = elements_per_word(dtype)
    return -(-(size + (per_word - 1 if is_shifted else 0)) // per_word)


def offset_name(slot: int) -> str:
    """The name of the variable that says where the buffer of `slot` begins; no user gives it."""
    return f"slot {slot} begins at"


def offset_variable(slot: int, dtype: DType) -> UOp:
    """How many elements of its first word stand before the buffer of `slot`."""
    return build.variable(offset_name(slot), 0, elements_per_word(dtype) - 1)


def slots_in_words(program: Program) -> Mapping[int, DType]:
    """The slots whose buffers the program sees as words, with the types of their elements."""
    narrow = {
        parameter.slot: parameter.dtype
        for parameter in program.parameters
        if parameter.dtype.itemsize < WORD.itemsize
    }
    if not narrow:
        return {}
    found = {}
    for node in program.uops:
        if node.op is not Ops.DEFINE_GLOBAL or not isinstance(node.arg, SlotArg):
            continue
        if isinstance(node.dtype, PtrDType) and node.dtype.base is WORD and node.arg.slot in narrow:
            found[node.arg.slot] = narrow[node.arg.slot]
    return found
