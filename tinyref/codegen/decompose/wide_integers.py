"""int64 and uint64 on devices of 32 bits: two uint32 for each, the low word first in memory too.

A buffer of n elements becomes one of 2 n words, an accumulator becomes two, and every operation
becomes what it does on words. Index arithmetic is not touched: it has a stage of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from tinyref.algebra.bounds import bounds
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import int64_emulation
from tinyref.codegen.decompose.int64_emulation import WORD, Words
from tinyref.dtype import DType, PtrDType, dtypes, pointer
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.build import both, cast, either
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, LocalArg
from tinyref.uops.program import scalar_of

# What a node becomes: itself, two words, or all the stores that a store becomes. An address
# becomes the pointer and the position of its low word.
Nodes = tuple[UOp, ...]


def emulate_wide_integers(root: UOp, emulated: frozenset[DType], capabilities: Capabilities) -> UOp:
    """`root` with the scalar types in `emulated`, of int64 and uint64, as pairs of uint32.

    Reduces are accumulators by now. Raises `UserError` for an op that has no arm here, and for the
    bits of a float64, which no pair of words is.
    """
    emulation = _Emulation(emulated, capabilities)
    done: dict[UOp, Nodes] = {}
    for node in root.toposort():
        done[node] = emulation.node(node, [done[source] for source in node.src])
    return done[root][0]


class _Emulation:
    """One arm per op; each gets the node and what its sources became."""

    def __init__(self, emulated: frozenset[DType], capabilities: Capabilities) -> None:
        self.emulated = emulated
        self.capabilities = capabilities

    def touches(self, dtype: DType) -> bool:
        return scalar_of(dtype) in self.emulated

    def node(self, node: UOp, src: list[Nodes]) -> Nodes:
        if not any(self.touches(touching.dtype) for touching in (node, *node.src)):
            # A root, or a barrier after stores, may have more sources now.
            flat = _flat(src)
            return (node if flat == node.src else _in_range(node, node.replace(src=flat)),)
        arm = _ARMS.get(node.op)
        if arm is None:
            raise UserError(f"{node.op.name} of {node.dtype.name}: this type is only emulated here")
        return arm(self, node, src)

    # Values and memory

    def constant(self, node: UOp, src: list[Nodes]) -> Nodes:
        if not isinstance(node.arg, ConstArg):
            raise UserError(f"CONST of {node.dtype.name}: has no value")
        return int64_emulation.constant(int(node.arg.value), node.dtype.lanes)

    def definition(self, node: UOp, src: list[Nodes]) -> Nodes:
        if not isinstance(node.dtype, PtrDType):
            raise UserError(f"{node.op.name}: {node.dtype.name} is not a pointer")
        memory = pointer(WORD, 2 * node.dtype.size, node.dtype.space)
        return (UOp(node.op, memory, (), node.arg),)

    def address(self, node: UOp, src: list[Nodes]) -> Nodes:
        return src[0][0], build.mul(src[1][0], 2)

    def after(self, node: UOp, src: list[Nodes]) -> Nodes:
        waits = _flat(src[1:])
        return tuple(build.after(part, *waits) for part in src[0])

    def barrier(self, node: UOp, src: list[Nodes]) -> Nodes:
        """After a value: after both its words."""
        return (node.replace(src=_flat(src)),)

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
        # Either new word may read both old ones: neither is written before both are known.
        low = build.after(low, new_high)
        high = build.after(high, new_low)
        return (
            build.update(low, new_low),
            build.update(high, new_high),
        )

    def each_word(self, node: UOp, src: list[Nodes]) -> Nodes:
        """VECTORIZE and GEP: the same for both words."""
        dtype = WORD.vec(node.dtype.lanes)
        return tuple(UOp(node.op, dtype, words, node.arg) for words in zip(*src, strict=True))

    # Arithmetic

    def add(self, node: UOp, src: list[Nodes]) -> Nodes:
        return int64_emulation.plus(_words(src[0]), _words(src[1]))

    def subtract(self, node: UOp, src: list[Nodes]) -> Nodes:
        return int64_emulation.minus(_words(src[0]), _words(src[1]))

    def multiply(self, node: UOp, src: list[Nodes]) -> Nodes:
        return int64_emulation.times(_words(src[0]), _words(src[1]), self.capabilities)

    def multiply_accumulate(self, node: UOp, src: list[Nodes]) -> Nodes:
        return int64_emulation.plus(_words(self.multiply(node, src)), _words(src[2]))

    def negate(self, node: UOp, src: list[Nodes]) -> Nodes:
        return int64_emulation.negated(_words(src[0]))

    def divide(self, node: UOp, src: list[Nodes]) -> Nodes:
        x, y = _words(src[0]), _words(src[1])
        quotient, remainder = int64_emulation.divided(x, y, _is_signed(node), self.capabilities)
        return quotient if node.op is Ops.IDIV else remainder

    def bitwise(self, node: UOp, src: list[Nodes]) -> Nodes:
        return tuple(build.binary(node.op, x, y) for x, y in zip(src[0], src[1], strict=True))

    def shift(self, node: UOp, src: list[Nodes]) -> Nodes:
        if not self.touches(node.dtype):
            # Only the count is wide.
            return (node.replace(src=(src[0][0], src[1][0])),)
        count: UOp | int = cast(src[1][0], WORD)
        given = node.src[1]
        if isinstance(given.arg, ConstArg):
            count = int(given.arg.value) & 63
        x = _words(src[0])
        if node.op is Ops.SHL:
            return int64_emulation.shifted_left(x, count)
        return int64_emulation.shifted_right(x, count, _is_signed(node))

    def compare(self, node: UOp, src: list[Nodes]) -> Nodes:
        x, y = _words(src[0]), _words(src[1])
        if node.op is Ops.CMPNE:
            return (int64_emulation.differ(x, y),)
        return (int64_emulation.is_less(x, y, _is_signed(node.src[0])),)

    def maximum(self, node: UOp, src: list[Nodes]) -> Nodes:
        x, y = _words(src[0]), _words(src[1])
        return int64_emulation.choose(int64_emulation.is_less(x, y, _is_signed(node)), y, x)

    def select(self, node: UOp, src: list[Nodes]) -> Nodes:
        return int64_emulation.choose(src[0][0], _words(src[1]), _words(src[2]))

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
            return int64_emulation.from_float(value)
        return int64_emulation.from_integer(value)

    def narrowed(self, x: Words, have: DType, want: DType) -> UOp:
        """A pair as a value of a type that the device has."""
        is_signed = have is dtypes.int64
        if want is dtypes.index:
            # No buffer of such a device has a position beyond int32.
            value = int64_emulation.to_int32_or_end(x) if is_signed else _unsigned_position(x)
            return cast(value, dtypes.index)
        if want.is_int:
            return cast(x[0], want)
        if want is dtypes.float64:
            return int64_emulation.to_double(x, is_signed)
        if want is dtypes.float32:
            return int64_emulation.to_single(x, is_signed)
        return cast(int64_emulation.to_single(x, is_signed, is_odd=True), want)


def _flat(src: list[Nodes]) -> Nodes:
    """All that the sources became, in order."""
    return tuple(part for parts in src for part in parts)


def _in_range(node: UOp, changed: UOp) -> UOp:
    """`changed`, which `node` became; a position that was chosen stays within its range.

    What is known of a number by the comparisons before it is not known of its words: without this,
    the sum of a position and an offset may seem to be beyond int32.
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
    """An unsigned pair as int32, or the largest int32 where it is beyond."""
    fits = build.equal(either(x[1], both(x[0], 1 << 31)), 0)
    return build.where(fits, build.bitcast(x[0], dtypes.int32), 0x7FFFFFFF)


def _words(nodes: Nodes) -> Words:
    low, high = nodes
    return low, high


def _is_signed(node: UOp) -> bool:
    return node.dtype.scalar is dtypes.int64


def _lane(word: UOp, lane: int) -> UOp:
    """One lane of a vector; a scalar is its own."""
    return word if word.dtype.lanes == 1 else build.gep(word, lane)


def _word_at(address: Nodes, lane: int, half: int) -> UOp:
    """The address of one word of an element: `address` is a pointer and its first word."""
    memory, position = address
    offset = 2 * lane + half
    return build.index(memory, build.add(position, offset) if offset else position)


Arm = Callable[[_Emulation, UOp, list[Nodes]], Nodes]

_ARMS: dict[Ops, Arm] = {
    Ops.CONST: _Emulation.constant,
    Ops.DEFINE_GLOBAL: _Emulation.definition,
    Ops.DEFINE_LOCAL: _Emulation.definition,
    Ops.INDEX: _Emulation.address,
    Ops.AFTER: _Emulation.after,
    Ops.BARRIER: _Emulation.barrier,
    Ops.LOAD: _Emulation.load,
    Ops.STORE: _Emulation.store,
    Ops.DEFINE_ACC: _Emulation.accumulator,
    Ops.UPDATE_ACC: _Emulation.update,
    Ops.VECTORIZE: _Emulation.each_word,
    Ops.GEP: _Emulation.each_word,
    Ops.ADD: _Emulation.add,
    Ops.SUB: _Emulation.subtract,
    Ops.MUL: _Emulation.multiply,
    Ops.MULACC: _Emulation.multiply_accumulate,
    Ops.NEG: _Emulation.negate,
    Ops.IDIV: _Emulation.divide,
    Ops.MOD: _Emulation.divide,
    Ops.AND: _Emulation.bitwise,
    Ops.OR: _Emulation.bitwise,
    Ops.XOR: _Emulation.bitwise,
    Ops.SHL: _Emulation.shift,
    Ops.SHR: _Emulation.shift,
    Ops.CMPLT: _Emulation.compare,
    Ops.CMPNE: _Emulation.compare,
    Ops.MAX: _Emulation.maximum,
    Ops.WHERE: _Emulation.select,
    Ops.BITCAST: _Emulation.bitcast,
    Ops.CAST: _Emulation.cast,
}
