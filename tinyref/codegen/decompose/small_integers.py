"""8- and 16-bit integers on devices that compute in 32 bits, or that load and store 32 bits only.

A value of int8, uint8, int16 or uint16 becomes the int32 or uint32 that equals it. Results that may
leave the range of the small type are wrapped: the high bits extend the small number again. Memory
does not change here: it consists of words already.

Memory that is accessed by words of 32 bits holds 8- and 16-bit elements, and bools. A load extracts
its bits from a word. A store replaces these bits only, and other work-items see it as one step,
because they may write the neighbours at the same time. So it is a STORE with a mask, and LOADs of
memory with such stores are atomic as well.
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
    """Replace memory of the types in `stored` by words; each buffer gets a variable.

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
        # Before the access, an address counts elements.
        return UOp(node.op, src[0].dtype, src, node.arg)

    # Remove bitcasts to a float and back, which might change a NaN.
    return rewrite(rebuild(root, transform), _JOINED_BITCASTS)


def _definition(node: UOp, memory: PtrDType) -> UOp:
    words = word_count(memory.base, memory.size, is_shifted=node.op is Ops.DEFINE_GLOBAL)
    return UOp(node.op, pointer(WORD, words, memory.space), (), node.arg)


def _load(node: UOp, src: tuple[UOp, ...]) -> UOp:
    held = _held(node)
    value_type = _value_type(held)
    gate = src[2] if len(src) == 3 else None
    lanes = []
    for lane in range(node.dtype.lanes):
        address, shift = _word_of(src[0], held, lane)
        bits = build.load(address, gate, 0)
        value = _value_of(build.binary(Ops.SHR, bits, shift), value_type)
        if gate is not None:
            value = build.where(gate, value, _lane(build.bitcast(src[1], value_type), lane))
        lanes.append(value)
    return build.bitcast(lanes[0] if len(lanes) == 1 else build.vectorize(*lanes), held)


def _store(node: UOp, src: tuple[UOp, ...]) -> UOp:
    held = _held(node)
    value = build.bitcast(src[1], _value_type(held))
    gate = src[2] if len(src) == 3 else build.const(dtypes.bool, True)
    stores = []
    for lane in range(value.dtype.lanes):
        address, shift = _word_of(src[0], held, lane)
        mask = build.binary(Ops.SHL, build.const(WORD, _mask(held)), shift)
        low = build.both(build.cast(_lane(value, lane), WORD), _mask(held))
        bits = build.binary(Ops.SHL, low, shift)
        stores.append(UOp(Ops.STORE, dtypes.void, (address, bits, gate, mask)))
    # One node represents all stores of a vector.
    return build.after(*stores)


def _lane(value: UOp, lane: int) -> UOp:
    return value if value.dtype.lanes == 1 else build.gep(value, lane)


def _held(access: UOp) -> DType:
    address = access.src[0].dtype
    assert isinstance(address, PtrDType)
    return address.base


def _mask(held: DType) -> int:
    return (1 << (8 * held.itemsize)) - 1


def _value_type(held: DType) -> DType:
    """Return the type of the values that are stored; for a float, of its bits."""
    return _BITS_OF[held.itemsize] if held.is_float else held


def _value_of(bits: UOp, value_type: DType) -> UOp:
    """Return the low bits of a word as a value."""
    masked = build.both(bits, _mask(value_type))
    return build.not_equal(masked, 0) if value_type.is_bool else build.cast(masked, value_type)


def _word_of(address: UOp, held: DType, lane: int) -> tuple[UOp, UOp]:
    """Return the address of the word with an element, and the position of its lowest bit there."""
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
# Ops that choose, copy or store values, or wait for some.
_MOVES = frozenset({Ops.VECTORIZE, Ops.GEP, Ops.DEFINE_ACC, Ops.UPDATE_ACC, Ops.AFTER, Ops.WHERE})
# Ops whose result is in the range of the small type if their sources are.
_STAYS = _MOVES | {Ops.AND, Ops.OR, Ops.XOR, Ops.SHR, Ops.MOD, Ops.MAX}


def emulate_small_integers(root: UOp, emulated: frozenset[DType]) -> UOp:
    """Replace values of the types in `emulated` by int32 or uint32.

    Raises `UserError` for an op that is not emulated, and for memory of such a type.
    """

    def transform(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if not any(touched.dtype.scalar in emulated for touched in (node, *node.src)):
            return None
        replacement = _of_node(node, src, emulated)
        if replacement is None:
            raise UserError(f"{node.op.name} of {node.dtype.name}: this type is only emulated here")
        return replacement

    return rebuild(root, transform)


def wide_type(dtype: DType) -> DType:
    """Return the type that represents a small integer: 32 bits, with the same sign."""
    wide = dtypes.uint32 if dtype.scalar.is_unsigned else dtypes.int32
    return wide.vec(dtype.lanes)


def wrap(value: UOp, small: DType) -> UOp:
    """Return the low bits of `value`, which has 32 bits, as a number of the type `small`."""
    if small.is_unsigned:
        return both(value, (1 << small.bits) - 1)
    dropped = 32 - small.bits
    return shift_right(shift_left(value, dropped), dropped)


def _of_node(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp | None:
    """Return the node in 32 bits; None for an op without an arm."""
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
    """Return True if every number of the integer type `have` is a number of `want`."""
    return bool(want.minimum <= have.minimum and have.maximum <= want.maximum)


def _clamped(value: UOp, small: DType) -> UOp:
    """Return `value` clamped to the range of `small`, as in casts from floats."""
    highest = int(small.maximum)
    value = where(less(value, highest), value, highest)
    if small.is_unsigned:
        return value
    lowest = int(small.minimum)
    return where(less(value, lowest), const(value.dtype, lowest), value)


def _bitcast(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    """Reinterpret bits; a small float of the device is converted by its value, which is exact."""
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
    """Return `value`, which another decomposition made from small integers, without them."""
    return emulate_small_integers(value, emulated)
