"""8- and 16-bit integers on devices that compute in 32 bits, or that load and store 32 bits only.

A value of int8, uint8, int16 or uint16 is kept as the int32 or uint32 that equals it. What may
leave the range of the small type is wrapped: its high bits are those of a number of the small type
again. Memory is not touched by that: words are made of it before.

Memory that is accessed by words of 32 bits holds 8- and 16-bit elements, and bools. A load takes
its bits out of a word. A store replaces them and no others, in one step as far as other work-items
see it: they may write the neighbours at the same time. So it is a STORE with a mask, and a LOAD of
memory with such stores is atomic as well.
"""

from __future__ import annotations

from tinyref.algebra.rewrite import RuleSet, rewrite
from tinyref.algebra.rules.casts import bitcast_bitcast
from tinyref.codegen.decompose.formats import shift_left, shift_right
from tinyref.codegen.decompose.small_floats import narrow, widen
from tinyref.dtype import DType, ImageDType, PtrDType, as_const, dtypes, pointer
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.build import bitcast, both, cast, const, less, where
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, SlotArg
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


SMALL_INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
# What chooses, copies or holds values, or waits for some.
_MOVES = frozenset({Ops.VECTORIZE, Ops.GEP, Ops.DEFINE_ACC, Ops.UPDATE_ACC, Ops.AFTER, Ops.WHERE})
# What gives numbers of the small type of numbers of the small type.
_STAYS = _MOVES | {Ops.AND, Ops.OR, Ops.XOR, Ops.SHR, Ops.MOD, Ops.MAX}


def emulate_small_integers(root: UOp, emulated: frozenset[DType]) -> UOp:
    """`root` with the values of the types in `emulated` as int32 or uint32.

    Raises `UserError` for an op that has no arm here, memory among them.
    """

    def transform(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if not any(touched.dtype.scalar in emulated for touched in (node, *node.src)):
            return None
        found = _of_node(node, src, emulated)
        if found is None:
            raise UserError(f"{node.op.name} of {node.dtype.name}: this type is only emulated here")
        return found

    return rebuild(root, transform)


def wide_type(dtype: DType) -> DType:
    """What holds a small integer: 32 bits, signed as it is."""
    wide = dtypes.uint32 if dtype.scalar.is_unsigned else dtypes.int32
    return wide.vec(dtype.lanes)


def wrap(value: UOp, small: DType) -> UOp:
    """The low bits of `value`, of 32, as a number of the type `small`."""
    if small.is_unsigned:
        return both(value, (1 << small.bits) - 1)
    dropped = 32 - small.bits
    return shift_right(shift_left(value, dropped), dropped)


def _of_node(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp | None:
    """The node in 32 bits; None for an op that has no arm."""
    is_small = node.dtype.scalar in emulated
    match node.op:
        case Ops.CONST if isinstance(node.arg, ConstArg):
            return const(wide_type(node.dtype), as_const(node.arg.value, node.dtype.scalar))
        case Ops.BARRIER | Ops.SINK:
            return node.replace(src=src)
        case Ops.CAST:
            return _cast(node, src, emulated)
        case Ops.BITCAST:
            return _bitcast(node, src, emulated)
    if node.op not in ALU and node.op not in _MOVES:
        return None
    value = UOp(node.op, wide_type(node.dtype) if is_small else node.dtype, src, node.arg)
    # A comparison has another type, and so may a shift by a small count.
    return wrap(value, node.dtype.scalar) if is_small and node.op not in _STAYS else value


def _cast(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    have, want = node.src[0].dtype.scalar, node.dtype.scalar
    value = src[0]
    if want not in emulated:
        return cast(value, want)
    wide = cast(value, wide_type(want).scalar)
    if have.is_float:
        return _clamped(wide, want)
    if have.is_bool or _holds(want, have):
        return wide
    return wrap(wide, want)


def _holds(want: DType, have: DType) -> bool:
    """Whether every number of the integer type `have` is one of `want`."""
    return bool(want.minimum <= have.minimum and have.maximum <= want.maximum)


def _clamped(value: UOp, small: DType) -> UOp:
    """What is out of range as the nearest number: so floats become integers."""
    highest = int(small.maximum)
    value = where(less(value, highest), value, highest)
    if small.is_unsigned:
        return value
    lowest = int(small.minimum)
    return where(less(value, lowest), const(value.dtype, lowest), value)


def _bitcast(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    """A small float that the device has goes by way of its value, which is exact."""
    have, want = node.src[0].dtype.scalar, node.dtype.scalar
    if want.is_float:
        return cast(widen(cast(src[0], dtypes.uint32), want), want)
    if have.is_float:
        unsigned = narrow(cast(src[0], dtypes.float32), have)
        return wrap(cast(_moved(unsigned, emulated), wide_type(want).scalar), want)
    if have in emulated and want in emulated:
        return wrap(bitcast(src[0], wide_type(want).scalar), want)
    return cast(src[0], want) if want not in emulated else wrap(cast(src[0], wide_type(want)), want)


def _moved(value: UOp, emulated: frozenset[DType]) -> UOp:
    """What another decomposition made of small integers."""
    return emulate_small_integers(value, emulated)
