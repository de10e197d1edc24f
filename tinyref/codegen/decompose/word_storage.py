"""8- and 16-bit elements, and bools, in memory that is loaded and stored by words of 32 bits only.

A load takes its bits out of a word. A store replaces them and no others, in one step as far as
other work-items see it: they may write the neighbours at the same time. So it is a STORE with a
mask, and a LOAD of memory with such stores is atomic as well.
"""

from __future__ import annotations

from tinyref.algebra.rewrite import RuleSet, rewrite
from tinyref.algebra.rules.casts import bitcast_bitcast
from tinyref.dtype import DType, ImageDType, PtrDType, dtypes, pointer
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg
from tinyref.uops.program import WORD, elements_per_word, offset_variable, word_count

_JOINED_BITCASTS = RuleSet([bitcast_bitcast])
_BITS_OF = {1: dtypes.uint8, 2: dtypes.uint16}


def store_in_words(root: UOp, stored: frozenset[DType]) -> UOp:
    """`root` with memory of the types in `stored` as words; buffers get a variable each.

    Values keep their types. Raises `UserError` for an image of such a type.
    """

    def transform(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if not isinstance(node.dtype, PtrDType):
            held = node.src[0].dtype if node.op in (Ops.LOAD, Ops.STORE) else None
            if not isinstance(held, PtrDType) or held.base not in stored:
                return None
            return _load(node, src) if node.op is Ops.LOAD else _store(node, src)
        if node.dtype.base not in stored:
            return None
        if isinstance(node.dtype, ImageDType):
            raise UserError(f"{node.op.name}: {node.dtype.name} is not stored in words")
        if node.op in (Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL):
            return _definition(node, node.dtype)
        # Until it is accessed, an address goes by elements.
        return UOp(node.op, src[0].dtype, src, node.arg)

    # Bits that become a float and bits again: a NaN might not come through as it is.
    return rewrite(rebuild(root, transform), _JOINED_BITCASTS)


def _definition(node: UOp, memory: PtrDType) -> UOp:
    words = word_count(memory.base, memory.size, is_shifted=node.op is Ops.DEFINE_GLOBAL)
    return UOp(node.op, pointer(WORD, words, memory.space), (), node.arg)


def _load(node: UOp, src: tuple[UOp, ...]) -> UOp:
    held = _held(node)
    kept = _kept_as(held)
    gate = src[2] if len(src) == 3 else None
    lanes = []
    for lane in range(node.dtype.lanes):
        address, shift = _place(src[0], held, lane)
        bits = build.load(address, gate, 0)
        value = _value_of(build.binary(Ops.SHR, bits, shift), kept)
        if gate is not None:
            value = build.where(gate, value, _lane(build.bitcast(src[1], kept), lane))
        lanes.append(value)
    return build.bitcast(lanes[0] if len(lanes) == 1 else build.vectorize(*lanes), held)


def _store(node: UOp, src: tuple[UOp, ...]) -> UOp:
    held = _held(node)
    value = build.bitcast(src[1], _kept_as(held))
    gate = src[2] if len(src) == 3 else build.const(dtypes.bool, True)
    stores = []
    for lane in range(value.dtype.lanes):
        address, shift = _place(src[0], held, lane)
        mask = build.binary(Ops.SHL, build.const(WORD, _mask(held)), shift)
        low = build.both(build.cast(_lane(value, lane), WORD), _mask(held))
        bits = build.binary(Ops.SHL, low, shift)
        stores.append(UOp(Ops.STORE, dtypes.void, (address, bits, gate, mask)))
    # One node stands for all that a vector's store becomes.
    return build.after(*stores)


def _lane(value: UOp, lane: int) -> UOp:
    return value if value.dtype.lanes == 1 else build.gep(value, lane)


def _held(access: UOp) -> DType:
    address = access.src[0].dtype
    assert isinstance(address, PtrDType)
    return address.base


def _mask(held: DType) -> int:
    return (1 << (8 * held.itemsize)) - 1


def _kept_as(held: DType) -> DType:
    """The type of the values that go in and out: of a float, its bits."""
    return _BITS_OF[held.itemsize] if held.is_float else held


def _value_of(bits: UOp, kept: DType) -> UOp:
    """The low bits of a word as a value."""
    masked = build.both(bits, _mask(kept))
    return build.not_equal(masked, 0) if kept.is_bool else build.cast(masked, kept)


def _place(address: UOp, held: DType, lane: int) -> tuple[UOp, UOp]:
    """The address of the word with one element, and how far up its bits are there."""
    waits: list[UOp] = []
    while address.op is Ops.AFTER:
        waits += address.src[1:]
        address = address.src[0]
    memory, position = address.src
    definition = build.skip_after(memory)
    if isinstance(definition.arg, SlotArg):
        position = build.add(position, offset_variable(definition.arg.slot, held))
    if lane:
        position = build.add(position, lane)
    if waits:
        memory = build.after(memory, *waits)
    per_word = elements_per_word(held)
    within = build.cast(build.mod(position, per_word), WORD)
    word = build.index(memory, build.idiv(position, per_word))
    return word, build.mul(within, 8 * held.itemsize)
