"""Buffers of 8- and 16-bit elements in memory that has words of 32 bits only.

Their parameters say what a launch is given: elements. The program sees words. Where in its first
word a buffer begins is a variable of the program, which a launch sets by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyref.dtype import DType, PtrDType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg
from tinyref.uops.program import Program

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
