"""int64 and uint64 on devices of 32 bits: two uint32 each, the low word first, also in memory.

A buffer of n elements becomes one of 2 n words. An accumulator becomes two, and every operation
works on words. Index arithmetic does not change here: it has a stage of its own.
"""

from __future__ import annotations

from tinyref.algebra.bounds import bounds
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.formats import (
    exclusive_or,
    like,
    multiply_high,
    shift_left,
    shift_right,
)
from tinyref.dtype import DType, PtrDType, dtypes, pointer
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.build import (
    add,
    binary,
    bitcast,
    both,
    cast,
    const,
    either,
    equal,
    less,
    mul,
    not_equal,
    sub,
    where,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, LocalArg
from tinyref.uops.program import scalar_of

WORD = dtypes.uint32
_TURN = 2.0**32

# The low and the high word.
Words = tuple[UOp, UOp]


def constant(value: int, lanes: int) -> Words:
    """Return a Python integer modulo 2^64."""
    word = WORD.vec(lanes)
    return const(word, value & 0xFFFFFFFF), const(word, (value >> 32) & 0xFFFFFFFF)


def signed_high(x: Words) -> UOp:
    """Return the high word as int32: it has the sign."""
    return bitcast(x[1], dtypes.int32)


def ones_if_negative(x: Words) -> UOp:
    """Return a word of ones where `x` is below zero as a signed number, else of zeros."""
    return bitcast(shift_right(signed_high(x), 31), WORD)


def plus(x: Words, y: Words) -> Words:
    """Return x + y; if the low word is less than a summand, it has carried."""
    low = add(x[0], y[0])
    carry = cast(less(low, x[0]), WORD)
    return low, add(add(x[1], y[1]), carry)


def minus(x: Words, y: Words) -> Words:
    """Return x - y."""
    borrow = cast(less(x[0], y[0]), WORD)
    return sub(x[0], y[0]), sub(sub(x[1], y[1]), borrow)


def times(x: Words, y: Words, capabilities: Capabilities) -> Words:
    """Return x * y; the highest of the four products of words is lost."""
    high = multiply_high(x[0], y[0], capabilities)
    return mul(x[0], y[0]), add(add(high, mul(x[0], y[1])), mul(x[1], y[0]))


def negated(x: Words) -> Words:
    """Return -x."""
    return minus(constant(0, x[0].dtype.lanes), x)


def choose(condition: UOp, x: Words, y: Words) -> Words:
    """Return `x` where `condition` is true, else `y`."""
    return where(condition, x[0], y[0]), where(condition, x[1], y[1])


def is_less(x: Words, y: Words, is_signed: bool) -> UOp:
    """Return x < y: the high words decide, unless they are equal."""
    high = (signed_high(x), signed_high(y)) if is_signed else (x[1], y[1])
    return either(less(*high), both(equal(x[1], y[1]), less(x[0], y[0])))


def differ(x: Words, y: Words) -> UOp:
    """Return x != y."""
    return either(not_equal(x[0], y[0]), not_equal(x[1], y[1]))


def is_zero(x: Words) -> UOp:
    """Return x == 0."""
    return equal(either(x[0], x[1]), 0)


def shifted_left(x: Words, count: UOp | int) -> Words:
    """Return x << count for a count from 0 to 63."""
    low, high = x
    if isinstance(count, int):
        if count >= 32:
            return like(low, 0), shift_left(low, count - 32)
        if count == 0:
            return x
        return shift_left(low, count), either(shift_left(high, count), shift_right(low, 32 - count))
    near, back, is_far = _count_parts(count)
    moved = shift_left(low, near)
    # Two shifts move by the whole width if the count is 0.
    joined = either(shift_left(high, near), shift_right(shift_right(low, 1), back))
    return where(is_far, 0, moved), where(is_far, moved, joined)


def shifted_right(x: Words, count: UOp | int, is_signed: bool) -> Words:
    """Return x >> count for a count from 0 to 63: arithmetic if signed."""
    low, high = x
    fill = ones_if_negative(x) if is_signed else like(low, 0)
    if isinstance(count, int):
        if count >= 32:
            return _high_shifted(high, count - 32, is_signed), fill
        if count == 0:
            return x
        joined = either(shift_right(low, count), shift_left(high, 32 - count))
        return joined, _high_shifted(high, count, is_signed)
    near, back, is_far = _count_parts(count)
    moved = _high_shifted(high, near, is_signed)
    joined = either(shift_right(low, near), shift_left(shift_left(high, 1), back))
    return where(is_far, moved, joined), where(is_far, fill, moved)


def _count_parts(count: UOp) -> tuple[UOp, UOp, UOp]:
    """Return the shift within a word, 31 minus it, and whether the count exceeds a word."""
    near = both(count, 31)
    return near, exclusive_or(near, 31), not_equal(both(count, 32), 0)


def _high_shifted(high: UOp, count: UOp | int, is_signed: bool) -> UOp:
    if not is_signed:
        return shift_right(high, count)
    return bitcast(shift_right(bitcast(high, dtypes.int32), count), WORD)


# Conversions


def from_integer(x: UOp) -> Words:
    """Convert a bool or an integer of at most 32 bits."""
    if x.dtype.is_bool or x.dtype.is_unsigned:
        low = cast(x, WORD)
        return low, like(low, 0)
    wide = cast(x, dtypes.int32)
    return bitcast(wide, WORD), bitcast(shift_right(wide, 31), WORD)


def from_float(x: UOp) -> Words:
    """Convert a float32 or float64, truncated; out of range, the value is arbitrary."""
    negative = less(x, 0.0)
    size = where(negative, mul(x, -1.0), x)
    words = _from_size(size)
    return choose(negative, negated(words), words)


def _from_size(size: UOp) -> Words:
    """Convert a float that is not negative: both parts are exact."""
    high = cast(mul(size, 1 / _TURN), WORD)
    rest = sub(size, mul(cast(high, size.dtype.scalar), _TURN))
    return cast(rest, WORD), high


def to_double(x: Words, is_signed: bool) -> UOp:
    """Return a float64, rounded once: each word is exact."""
    high = signed_high(x) if is_signed else x[1]
    upper = mul(cast(high, dtypes.float64), _TURN)
    return add(upper, cast(x[0], dtypes.float64))


def to_single(x: Words, is_signed: bool, is_odd: bool = False) -> UOp:
    """Return a float32, rounded to nearest even; with `is_odd` to odd, for a second rounding.

    The highest 32 bits, whose last one also represents the lost bits, round like the whole.
    """
    negative = less(signed_high(x), 0) if is_signed else None
    size = x if negative is None else choose(negative, negated(x), x)
    low, high = size
    # Clear every bit that has a higher neighbour. Then a conversion cannot round up to the next
    # power of two: its exponent is the position of the highest bit.
    sparse = cast(both(high, exclusive_or(shift_right(high, 1), 0xFFFFFFFF)), dtypes.float32)
    highest = sub(shift_right(bitcast(sparse, WORD), 23), 127)
    is_wide = not_equal(high, 0)
    count = where(is_wide, sub(31, highest), 0)
    moved_low, moved_high = shifted_left(size, both(count, 31))
    lost = cast(not_equal(moved_low, 0), WORD)
    digits = where(is_wide, either(moved_high, lost), low)
    if is_odd:
        few = either(shift_right(digits, 8), cast(not_equal(both(digits, 0xFF), 0), WORD))
        digits = where(less(digits, 1 << 24), digits, shift_left(few, 8))
    # 2^(32 - count), or 1: an exponent field and nothing else.
    field = where(is_wide, sub(127 + 32, count), 127)
    value = mul(cast(digits, dtypes.float32), bitcast(shift_left(field, 23), dtypes.float32))
    return value if negative is None else where(negative, mul(value, -1.0), value)


def to_int32_or_end(x: Words) -> UOp:
    """Return a signed `x` as int32: beyond its range, the nearer end."""
    low = bitcast(x[0], dtypes.int32)
    ones = ones_if_negative(x)
    fits = equal(bitcast(shift_right(low, 31), WORD), x[1])
    return where(fits, low, bitcast(exclusive_or(ones, 0x7FFFFFFF), dtypes.int32))


# Division

# The factor that makes a quotient of floats smaller, so that rounding cannot make it too large.
_MODESTY = 1 - 2.0**-20


def divided(x: Words, y: Words, is_signed: bool, capabilities: Capabilities) -> tuple[Words, Words]:
    """Return (quotient, remainder) towards zero; by zero both are 0."""
    by_zero = is_zero(y)
    divisor = (where(by_zero, 1, y[0]), y[1])
    if not is_signed:
        quotient, remainder = _unsigned_divided(x, divisor, capabilities)
    else:
        x_negative, y_negative = (less(signed_high(side), 0) for side in (x, divisor))
        quotient, remainder = _unsigned_divided(
            choose(x_negative, negated(x), x),
            choose(y_negative, negated(divisor), divisor),
            capabilities,
        )
        is_negative = binary(Ops.XOR, x_negative, y_negative)
        quotient = choose(is_negative, negated(quotient), quotient)
        remainder = choose(x_negative, negated(remainder), remainder)
    nothing = constant(0, x[0].dtype.lanes)
    return choose(by_zero, nothing, quotient), remainder


def _unsigned_divided(x: Words, y: Words, capabilities: Capabilities) -> tuple[Words, Words]:
    """Divide by digits of about 19 bits: quotients of floats that are never too large.

    After four digits, the rest is less than two divisors.
    """
    inverse = mul(binary(Ops.FDIV, 1.0, _rough(y)), _MODESTY)
    quotient = constant(0, x[0].dtype.lanes)
    rest = x
    for _ in range(4):
        digit = _from_size(mul(_rough(rest), inverse))
        quotient = plus(quotient, digit)
        rest = minus(rest, times(digit, y, capabilities))
    is_left = binary(Ops.CMPNE, is_less(rest, y, False), True)
    one = constant(1, x[0].dtype.lanes)
    quotient = choose(is_left, plus(quotient, one), quotient)
    return quotient, choose(is_left, minus(rest, y), rest)


def _rough(x: Words) -> UOp:
    """Return `x` as a float32 with a relative error of at most 2^-23."""
    return add(mul(cast(x[1], dtypes.float32), _TURN), cast(x[0], dtypes.float32))


# The replacement of a node: itself, two words, or all stores of a store. An address becomes the
# pointer and the position of its low word.
Nodes = tuple[UOp, ...]


def emulate_wide_integers(root: UOp, emulated: frozenset[DType], capabilities: Capabilities) -> UOp:
    """Replace the scalar types in `emulated` (int64 and uint64) by pairs of uint32.

    Reduces are accumulators by now. Raises `UserError` for an op that is not emulated, and for the
    bits of a float64, which are no pair of words.
    """
    emulation = _Emulation(emulated, capabilities)
    done: dict[UOp, Nodes] = {}
    for node in root.toposort():
        done[node] = emulation.node(node, [done[source] for source in node.src])
    return done[root][0]


class _Emulation:
    """The emulation: one arm for each op, which gets the node and its replaced sources."""

    def __init__(self, emulated: frozenset[DType], capabilities: Capabilities) -> None:
        self.emulated = emulated
        self.capabilities = capabilities

    def touches(self, dtype: DType) -> bool:
        return scalar_of(dtype) in self.emulated

    def node(self, node: UOp, src: list[Nodes]) -> Nodes:
        if not any(self.touches(touching.dtype) for touching in (node, *node.src)):
            # The root, or a barrier after stores, may have more sources now.
            flat = _flat(src)
            return (node if flat == node.src else _in_range(node, node.replace(src=flat)),)
        arm = self._of_arithmetic if node.op in ALU else self._of_structure
        replacement = arm(node, src)
        if replacement is None:
            raise UserError(f"{node.op.name} of {node.dtype.name}: this type is only emulated here")
        return replacement

    def _of_structure(self, node: UOp, src: list[Nodes]) -> Nodes | None:
        match node.op:
            case Ops.CONST if isinstance(node.arg, ConstArg):
                return constant(int(node.arg.value), node.dtype.lanes)
            case Ops.DEFINE_GLOBAL | Ops.DEFINE_LOCAL if isinstance(node.dtype, PtrDType):
                memory = pointer(WORD, 2 * node.dtype.size, node.dtype.space)
                return (UOp(node.op, memory, (), node.arg),)
            case Ops.INDEX:
                return src[0][0], build.mul(src[1][0], 2)
            case Ops.AFTER:
                waits = _flat(src[1:])
                return tuple(build.after(part, *waits) for part in src[0])
            case Ops.BARRIER:
                # A barrier after a value comes after both its words.
                return (node.replace(src=_flat(src)),)
            case Ops.LOAD:
                return self.load(node, src)
            case Ops.STORE:
                return self.store(node, src)
            case Ops.DEFINE_ACC:
                return self.accumulator(node, src)
            case Ops.UPDATE_ACC:
                return self.update(node, src)
            case Ops.VECTORIZE | Ops.GEP:
                # The same for both words.
                dtype = WORD.vec(node.dtype.lanes)
                words = zip(*src, strict=True)
                return tuple(UOp(node.op, dtype, parts, node.arg) for parts in words)
        return None

    def _of_arithmetic(self, node: UOp, src: list[Nodes]) -> Nodes | None:
        match node.op:
            case Ops.NEG:
                return negated(_words(src[0]))
            case Ops.ADD | Ops.SUB:
                return (plus if node.op is Ops.ADD else minus)(*map(_words, src))
            case Ops.MUL:
                return times(_words(src[0]), _words(src[1]), self.capabilities)
            case Ops.MULACC:
                product = times(_words(src[0]), _words(src[1]), self.capabilities)
                return plus(product, _words(src[2]))
            case Ops.IDIV | Ops.MOD:
                x, y = map(_words, src)
                return divided(x, y, _is_signed(node), self.capabilities)[node.op is Ops.MOD]
            case Ops.AND | Ops.OR | Ops.XOR:
                pairs = zip(*src, strict=True)
                return tuple(build.binary(node.op, x, y) for x, y in pairs)
            case Ops.SHL | Ops.SHR:
                return self.shift(node, src)
            case Ops.CMPNE:
                return (differ(*map(_words, src)),)
            case Ops.CMPLT:
                return (is_less(_words(src[0]), _words(src[1]), _is_signed(node.src[0])),)
            case Ops.MAX:
                left, right = map(_words, src)
                return choose(is_less(left, right, _is_signed(node)), right, left)
            case Ops.WHERE:
                return choose(src[0][0], _words(src[1]), _words(src[2]))
            case Ops.BITCAST:
                return self.bitcast(node, src)
            case Ops.CAST:
                return self.cast(node, src)
        return None

    # Values and memory

    def load(self, node: UOp, src: list[Nodes]) -> Nodes:
        lanes = node.dtype.lanes
        gate = src[2][0] if len(src) == 3 else None
        words: list[list[UOp]] = [[], []]
        for half in range(2):
            for lane in range(lanes):
                alternative = _lane(src[1][half], lane) if gate is not None else 0
                at = _word_at(src[0], lane, half)
                words[half].append(build.load(at, gate, alternative))
        if lanes == 1:
            return words[0][0], words[1][0]
        return build.vectorize(*words[0]), build.vectorize(*words[1])

    def store(self, node: UOp, src: list[Nodes]) -> Nodes:
        gate = src[2][0] if len(src) == 3 else None
        lanes = range(node.src[1].dtype.lanes)
        return tuple(
            build.store(_word_at(src[0], lane, half), _lane(src[1][half], lane), gate)
            for lane in lanes
            for half in range(2)
        )

    def accumulator(self, node: UOp, src: list[Nodes]) -> Nodes:
        name = node.arg.name if isinstance(node.arg, LocalArg) else "acc"
        ranges = _flat(src[1:])
        return tuple(
            build.accumulator(f"{name}_{half}", start, *ranges)
            for start, half in zip(src[0], ("low", "high"), strict=True)
        )

    def update(self, node: UOp, src: list[Nodes]) -> Nodes:
        low, high = src[0]
        new_low, new_high = src[1]
        # Each new word may read both old ones, so both are computed before one is written.
        low = build.after(low, new_high)
        high = build.after(high, new_low)
        return (
            build.update(low, new_low),
            build.update(high, new_high),
        )

    # Arithmetic

    def shift(self, node: UOp, src: list[Nodes]) -> Nodes:
        if not self.touches(node.dtype):
            # Only the count is wide.
            return (node.replace(src=(src[0][0], src[1][0])),)
        count: UOp | int = cast(src[1][0], WORD)
        count_node = node.src[1]
        if isinstance(count_node.arg, ConstArg):
            count = int(count_node.arg.value) & 63
        x = _words(src[0])
        if node.op is Ops.SHL:
            return shifted_left(x, count)
        return shifted_right(x, count, _is_signed(node))

    # Conversions

    def bitcast(self, node: UOp, src: list[Nodes]) -> Nodes:
        if not all(scalar_of(side.dtype) in self.emulated for side in (node, node.src[0])):
            raise UserError(
                f"BITCAST of {node.src[0].dtype.name} to {node.dtype.name}: 64-bit integers are "
                "pairs of uint32 on this device; cast the value"
            )
        return src[0]

    def cast(self, node: UOp, src: list[Nodes]) -> Nodes:
        have, want = node.src[0].dtype.scalar, node.dtype.scalar
        if have in self.emulated:
            return src[0] if want in self.emulated else (self.narrowed(_words(src[0]), have, want),)
        value = src[0][0]
        if have is dtypes.index:
            value = cast(value, dtypes.int32)
        elif have.is_float and have not in (dtypes.float32, dtypes.float64):
            value = cast(value, dtypes.float32)
        if value.dtype.is_float:
            return from_float(value)
        return from_integer(value)

    def narrowed(self, x: Words, have: DType, want: DType) -> UOp:
        """Return a pair as a value of a type that the device has."""
        is_signed = have is dtypes.int64
        if want is dtypes.index:
            # The buffers of such a device have no position beyond int32.
            value = to_int32_or_end(x) if is_signed else _unsigned_position(x)
            return cast(value, dtypes.index)
        if want.is_int:
            return cast(x[0], want)
        if want is dtypes.float64:
            return to_double(x, is_signed)
        if want is dtypes.float32:
            return to_single(x, is_signed)
        return cast(to_single(x, is_signed, is_odd=True), want)


def _flat(src: list[Nodes]) -> Nodes:
    """Return the replacements of all sources, in order."""
    return tuple(part for parts in src for part in parts)


def _in_range(node: UOp, changed: UOp) -> UOp:
    """Return `changed`, the replacement of `node`; a selected position stays in its range.

    Comparisons limit the range of a number, but not of its words. Without this, the sum of a
    position and an offset might seem to exceed int32.
    """
    if node.op is not Ops.WHERE or node.dtype.scalar is not dtypes.index:
        return changed
    low, high = bounds(node)
    least, most = bounds(changed)
    if least < low:
        changed = build.maximum(changed, int(low))
    if most > high:
        changed = build.where(build.less(changed, int(high)), changed, int(high))
    return changed


def _unsigned_position(x: Words) -> UOp:
    """Return an unsigned pair as int32, at most the largest int32."""
    fits = build.equal(either(x[1], both(x[0], 1 << 31)), 0)
    return build.where(fits, build.bitcast(x[0], dtypes.int32), 0x7FFFFFFF)


def _words(nodes: Nodes) -> Words:
    low, high = nodes
    return low, high


def _is_signed(node: UOp) -> bool:
    return node.dtype.scalar is dtypes.int64


def _lane(word: UOp, lane: int) -> UOp:
    """Return a lane of a vector, or a scalar itself."""
    return word if word.dtype.lanes == 1 else build.gep(word, lane)


def _word_at(address: Nodes, lane: int, half: int) -> UOp:
    """Return the address of one word of an element: `address` is a pointer and its first word."""
    memory, position = address
    offset = 2 * lane + half
    return build.index(memory, build.add(position, offset) if offset else position)
