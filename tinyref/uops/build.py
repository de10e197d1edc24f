"""Builders: free functions that make well-typed nodes of the kernel dialects."""

from __future__ import annotations

import functools

from tinyref.dtype import AddressSpace, ConstType, DType, PtrDType, as_const, dtypes, pointer
from tinyref.errors import UserError, UserTypeError
from tinyref.uops.node import UOp
from tinyref.uops.ops import COMMUTATIVE, Ops
from tinyref.uops.payload import (
    AxisKind,
    ConstArg,
    GepArg,
    LocalArg,
    RangeArg,
    ReduceArg,
    SlotArg,
    SpecialArg,
    Tracker,
    VarArg,
    ViewArg,
)
from tinyref.uops.tiles import Bit, FragmentLayout, MatrixTile
from tinyref.uops.tiles import Operand as MatrixOperand

Operand = UOp | int | float | bool


def const(dtype: DType, value: ConstType) -> UOp:
    """Return `value` as a constant of `dtype`: wrapped or rounded to it; a vector repeats it.

    The type `index` never wraps. Raises `UserError` for a position that 64 bits do not hold.
    """
    if type(value) is int:
        return _integer_const(dtype, value)
    return _const(dtype, value)


def _const(dtype: DType, value: ConstType) -> UOp:
    if dtype.scalar is dtypes.index and not dtypes.index.minimum <= value <= dtypes.index.maximum:
        raise UserError(f"index: {value} is beyond the 64 bits that positions and sizes have")
    return UOp(Ops.CONST, dtype, (), ConstArg(as_const(value, dtype)))


# Small numbers occur in every kernel. The cache keeps their nodes alive, so it has a limit.
@functools.lru_cache(maxsize=4096)
def _integer_const(dtype: DType, value: int) -> UOp:
    return _const(dtype, value)


def operand(value: Operand, dtype: DType) -> UOp:
    """Return a node unchanged, or a Python number as a constant of `dtype`."""
    return value if isinstance(value, UOp) else const(dtype, value)


def variable(name: str, minimum: int, maximum: int, dtype: DType = dtypes.index) -> UOp:
    """Return a symbolic variable with inclusive bounds. Raises `UserError` for an empty range."""
    if minimum > maximum:
        raise UserError(f"variable {name}: minimum {minimum} is above maximum {maximum}")
    return UOp(Ops.DEFINE_VAR, dtype, (), VarArg(name, minimum, maximum))


def unary(op: Ops, x: UOp) -> UOp:
    """Return the node of an op of `ops.UNARY`; the result has the type of `x`."""
    return UOp(op, x.dtype, (x,))


def binary(op: Ops, x: Operand, y: Operand) -> UOp:
    """Return the node of an op of `ops.BINARY`; comparisons give bool.

    A Python number takes the type of the other side. Both sides must have the same type, except
    that the count of SHL and SHR may have another one.
    """
    dtype = x.dtype if isinstance(x, UOp) else y.dtype if isinstance(y, UOp) else dtypes.index
    left = operand(x, dtype)
    right = operand(y, dtype)
    if left.dtype is not right.dtype and op not in (Ops.SHL, Ops.SHR):
        raise UserTypeError(
            f"{op.name}: {left.dtype.name} meets {right.dtype.name}: cast one first"
        )
    is_comparison = op in (Ops.CMPLT, Ops.CMPNE)
    dtype = dtypes.bool.vec(left.dtype.lanes) if is_comparison else left.dtype
    if op in COMMUTATIVE and left.op is Ops.CONST and right.op is not Ops.CONST:
        left, right = right, left
    return UOp(op, dtype, (left, right))


def add(x: Operand, y: Operand) -> UOp:
    """Return x + y: integers wrap, floats round."""
    return binary(Ops.ADD, x, y)


def sub(x: Operand, y: Operand) -> UOp:
    """Return x - y: integers wrap, floats round."""
    return binary(Ops.SUB, x, y)


def mul(x: Operand, y: Operand) -> UOp:
    """Return x * y: integers wrap, floats round."""
    return binary(Ops.MUL, x, y)


def idiv(x: Operand, y: Operand) -> UOp:
    """Return the quotient, truncated towards zero."""
    return binary(Ops.IDIV, x, y)


def mod(x: Operand, y: Operand) -> UOp:
    """Return the remainder, with the sign of the dividend."""
    return binary(Ops.MOD, x, y)


def maximum(x: Operand, y: Operand) -> UOp:
    """Return the larger of x and y."""
    return binary(Ops.MAX, x, y)


def less(x: Operand, y: Operand) -> UOp:
    """Return x < y as a bool; false with a NaN."""
    return binary(Ops.CMPLT, x, y)


def not_equal(x: Operand, y: Operand) -> UOp:
    """Return x != y as a bool; true with a NaN."""
    return binary(Ops.CMPNE, x, y)


def logical_not(x: UOp) -> UOp:
    """Return the negation of a bool."""
    return binary(Ops.CMPNE, x, True)


def equal(x: Operand, y: Operand) -> UOp:
    """Return x == y as a bool; false with a NaN."""
    return logical_not(not_equal(x, y))


def at_least(x: Operand, y: Operand) -> UOp:
    """Return x >= y as not (x < y); for integers only, because a NaN tells the two apart."""
    return logical_not(less(x, y))


def both(x: Operand, y: Operand) -> UOp:
    """Return x AND y: bitwise, or logical on bools."""
    return binary(Ops.AND, x, y)


def either(x: Operand, y: Operand) -> UOp:
    """Return x OR y: bitwise, or logical on bools."""
    return binary(Ops.OR, x, y)


def where(condition: UOp, x: Operand, y: Operand) -> UOp:
    """Return `x` where `condition` is true, else `y`; a number takes the other side's type."""
    dtype = x.dtype if isinstance(x, UOp) else y.dtype if isinstance(y, UOp) else None
    if dtype is None:
        raise UserTypeError("WHERE: at least one of the two values must be a node")
    return UOp(Ops.WHERE, dtype, (condition, operand(x, dtype), operand(y, dtype)))


def cast(x: UOp, dtype: DType) -> UOp:
    """Convert `x` to the scalar type `dtype` in each lane; return `x` itself if it has it."""
    target = dtype.vec(x.dtype.lanes)
    return x if x.dtype is target else UOp(Ops.CAST, target, (x,))


def bitcast(x: UOp, dtype: DType) -> UOp:
    """Read the bits of `x` as `dtype`. Raises `UserError` unless the sizes are equal."""
    target = dtype.vec(x.dtype.lanes)
    if target.itemsize != x.dtype.itemsize:
        raise UserError(f"BITCAST: {x.dtype.name} and {target.name} differ in size")
    return x if x.dtype is target else UOp(Ops.BITCAST, target, (x,))


def reduce_single(op: Ops, x: UOp) -> UOp:
    """Return the reduction of `x` alone: a sum of floats starts at 0.0, so it is never -0.0."""
    return add(x, 0) if op is Ops.ADD and x.dtype.is_float else x


def reduce(op: Ops, x: UOp, axes: tuple[int, ...]) -> UOp:
    """Return a reduction of the kernel AST over `axes`, which stay as size 1."""
    return UOp(Ops.REDUCE, x.dtype, (x,), ReduceArg(op, tuple(sorted(axes))))


def reduce_over(op: Ops, x: UOp, *ranges: UOp) -> UOp:
    """Return the reduction of `x` over loops, in an indexed kernel."""
    return UOp(Ops.REDUCE, x.dtype, (x, *ranges), ReduceArg(op))


def accumulator(name: str, start: UOp, *ranges: UOp) -> UOp:
    """Return an accumulator that is `start` before the loops `ranges` and is updated in them."""
    return UOp(Ops.DEFINE_ACC, start.dtype, (start, *ranges), LocalArg(name))


def update(target: UOp, value: UOp) -> UOp:
    """Give the accumulator `target` a new value; after its loops it holds the last one."""
    return UOp(Ops.UPDATE_ACC, target.dtype, (target, value))


def after(x: UOp, *sources: UOp) -> UOp:
    """Return `x` for uses that come after `sources`; the loop of a RANGE among them has ended."""
    return UOp(Ops.AFTER, x.dtype, (x, *sources))


def barrier(*sources: UOp) -> UOp:
    """Make the work-items of a group wait for each other after `sources`."""
    return UOp(Ops.BARRIER, dtypes.void, sources)


def branch(condition: UOp) -> UOp:
    """Open a block of a program with an IF."""
    return UOp(Ops.IF, dtypes.void, (condition,))


def close(opener: UOp) -> UOp:
    """End the block of a RANGE or IF of a program."""
    return UOp(Ops.ENDIF if opener.op is Ops.IF else Ops.END, dtypes.void, (opener,))


def define_global(slot: int, dtype: DType, size: int) -> UOp:
    """Return the buffer argument number `slot` of a kernel: `size` elements of `dtype`."""
    return UOp(Ops.DEFINE_GLOBAL, pointer(dtype, size), (), SlotArg(slot))


def view(memory: UOp, tracker: Tracker, *positions: UOp) -> UOp:
    """View a buffer through `tracker`; `positions` are the indices on axes that are looked up."""
    return UOp(Ops.VIEW, memory.dtype, (memory, *positions), ViewArg(tracker))


def valid(tracker: Tracker) -> UOp:
    """Return a bool: true at the positions of a view that have an element in memory."""
    return UOp(Ops.VALID, dtypes.bool, (), ViewArg(tracker))


def iota(tracker: Tracker) -> UOp:
    """Return the number of the element at each position of a view."""
    return UOp(Ops.IOTA, dtypes.int32, (), ViewArg(tracker))


def define_local(name: str, dtype: DType, size: int) -> UOp:
    """Return an array of `size` elements that the work-items of a group share."""
    return UOp(Ops.DEFINE_LOCAL, pointer(dtype, size, AddressSpace.LOCAL), (), LocalArg(name))


def counter(bound: Operand, number: int, kind: AxisKind, dtype: DType = dtypes.index) -> UOp:
    """Return a RANGE that counts from 0 to `bound` - 1."""
    return UOp(Ops.RANGE, dtype, (operand(bound, dtype),), RangeArg(number, kind))


def special(scope: str, dim: int, extent: Operand, dtype: DType = dtypes.index) -> UOp:
    """Return a launch index from 0 to `extent` - 1: `scope` "group" or "item", `dim` 0 to 2."""
    return UOp(Ops.SPECIAL, dtype, (operand(extent, dtype),), SpecialArg(scope, dim))


def index(buffer: UOp, position: UOp) -> UOp:
    """Return the address of the element at `position` of `buffer`."""
    return UOp(Ops.INDEX, buffer.dtype, (buffer, position))


def texel(image: UOp, row: UOp, column: UOp) -> UOp:
    """Return the address of a texel of an image."""
    return UOp(Ops.INDEX, image.dtype, (image, row, column))


def element_type(address: UOp) -> DType:
    """Return the type of the values that an address or a buffer holds."""
    if not isinstance(address.dtype, PtrDType):
        raise UserTypeError(f"{address.op.name}: {address.dtype.name} is not a pointer")
    return address.dtype.value


def skip_after(node: UOp) -> UOp:
    """Return the node below all AFTERs: for an address its INDEX or its memory."""
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node


def slot_of(access: UOp) -> int:
    """Return the slot of the buffer that a LOAD, STORE, view or address uses, or -1."""
    memory = access
    while memory.src and not isinstance(memory.arg, SlotArg):
        memory = memory.src[0]
    return memory.arg.slot if isinstance(memory.arg, SlotArg) else -1


def range_number(counter: UOp) -> int:
    """Return the number of a RANGE: of nested loops the outer one has the lower number."""
    assert isinstance(counter.arg, RangeArg), "a RANGE has its payload"
    return counter.arg.number


def load(address: UOp, gate: UOp | None = None, alternative: Operand = 0, lanes: int = 1) -> UOp:
    """Load from `address`; where `gate` is false, touch no memory and return `alternative`.

    Several `lanes` load neighbours as one vector; the address must be a multiple of `lanes`.
    """
    dtype = element_type(address).vec(lanes)
    if gate is None:
        return UOp(Ops.LOAD, dtype, (address,))
    return UOp(Ops.LOAD, dtype, (address, operand(alternative, dtype), gate))


def store(address: UOp, value: UOp, gate: UOp | None = None) -> UOp:
    """Store `value` (a vector fills neighbours), or nothing where `gate` is false."""
    src = (address, value) if gate is None else (address, value, gate)
    return UOp(Ops.STORE, dtypes.void, src)


def vectorize(*lanes: UOp) -> UOp:
    """Return a vector of these scalars."""
    return UOp(Ops.VECTORIZE, lanes[0].dtype.vec(len(lanes)), lanes)


def gep(x: UOp, *lanes: int) -> UOp:
    """Take these lanes of the vector `x`: one lane is a scalar, several are a vector."""
    return UOp(Ops.GEP, x.dtype.scalar.vec(len(lanes)), (x,), GepArg(lanes))


def lane_at(x: UOp, *ranges: UOp) -> UOp:
    """Take the lane of the vector `x` that the counters `ranges` select, the last one fastest."""
    return UOp(Ops.GEP, x.dtype.scalar, (x, *ranges), GepArg(tuple(range(x.dtype.lanes))))


def sink(*stores: UOp) -> UOp:
    """Return the root of a kernel."""
    return UOp(Ops.SINK, dtypes.void, stores)


# --- matrix tiles ------------------------------------------------------------------------------


def tile_element(
    tile: MatrixTile, operand: MatrixOperand, thread: UOp, register: int
) -> tuple[UOp, UOp]:
    """Return row and column of the element in `register` of `thread`, in the type of `thread`.

    thread: the index of the work-item in its group, not negative. Its index in its subgroup is
    this number modulo the threads of the tile.
    """
    layout = tile.layout(operand)
    row, column = operand.axes
    row_at = _tile_coordinate(layout, row, thread, register)
    return row_at, _tile_coordinate(layout, column, thread, register)


def _tile_coordinate(layout: FragmentLayout, axis: str, thread: UOp, register: int) -> UOp:
    """Return the coordinate along `axis` of the element in `register` of `thread`."""
    total = const(thread.dtype, layout.coordinate(axis, 0, register))
    for first, count, weight in _bit_fields(layout.thread_bits, axis):
        part = mod(idiv(thread, 1 << first), 1 << count)
        total = add(mul(part, weight), total)
    return total


def _bit_fields(bits: tuple[Bit | None, ...], axis: str) -> list[tuple[int, int, int]]:
    """Return (first bit, count, lowest weight) of neighbouring bits of one number on `axis`."""
    fields: list[tuple[int, int, int]] = []
    for number, bit in enumerate(bits):
        if bit is None or bit.axis != axis:
            continue
        if fields:
            first, count, weight = fields[-1]
            if first + count == number and weight << count == bit.weight:
                fields[-1] = (first, count + 1, weight)
                continue
        fields.append((number, 1, bit.weight))
    return fields
