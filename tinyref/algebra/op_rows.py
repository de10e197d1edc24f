"""The rows of the op table: the types, payload, semantics, range and clause of each op.

semantics.md describes them in prose. The verifiers of the dialects, constant folding, the
evaluators, the interpreter and the clauses of the spec all read these rows.
"""

from __future__ import annotations

import operator
from types import NoneType

from tinyref.algebra import bounds, semantics
from tinyref.algebra import op_table as types
from tinyref.algebra.op_table import (
    OP_TABLE,
    Arity,
    Exact,
    OpSpec,
    PayloadType,
    RangeRule,
    Semantics,
    Typing,
)
from tinyref.algebra.semantics import numpy_function, same, through_float64
from tinyref.dtype import AddressSpace
from tinyref.uops import payload
from tinyref.uops.ops import BINARY, TERNARY, Dialect, Ops

_AST = frozenset({Dialect.AST})
_INDEXED = frozenset({Dialect.INDEXED})
_PROGRAM = frozenset({Dialect.PROGRAM})
_TENSOR = frozenset({Dialect.TENSOR})
_LINEAR = _INDEXED | _PROGRAM
_ALL = frozenset(Dialect)


def _arithmetic(
    op: Ops,
    typing: Typing,
    sentence: str,
    function: Semantics,
    *,
    exact: Exact | None = None,
    values: RangeRule = bounds.full,
) -> None:
    """Declare an op that computes one element from one element of each source."""
    count = 2 if op in BINARY else 3 if op in TERNARY else 1
    clause = f"isa.{op.value.lower()}"
    shape = (op, (count, count), typing, NoneType)
    OP_TABLE[op] = OpSpec(*shape, sentence, clause, _ALL, values, function, exact)


def _op(
    op: Ops,
    clause: str,
    arity: int | Arity,
    typing: Typing,
    sentence: str,
    *,
    payload: PayloadType = NoneType,
    dialects: frozenset[Dialect] = _LINEAR,
    values: RangeRule = bounds.full,
) -> None:
    """Declare an op of structure or memory."""
    count = (arity, arity) if isinstance(arity, int) else arity
    OP_TABLE[op] = OpSpec(op, count, typing, payload, sentence, clause, dialects, values)


def _tensor(
    op: Ops,
    sentence: str,
    payload: PayloadType = NoneType,
    *,
    arity: int | Arity = 1,
    typing: Typing = types.value_like_first,
    values: RangeRule = bounds.first,
) -> None:
    """Declare an op of tensor graphs; most return elements of their source."""
    clause = f"tensor.{op.value.lower()}"
    _op(op, clause, arity, typing, sentence, payload=payload, dialects=_TENSOR, values=values)


_arithmetic(
    Ops.NEG,
    types.numbers,
    "-x; an integer wraps, a float changes its sign bit alone.",
    numpy_function("negative"),
    exact=operator.neg,
    values=bounds.negate,
)
_arithmetic(
    Ops.RECIP, types.floats, "1 / x, correctly rounded in strict mode.", semantics.reciprocal
)
_arithmetic(
    Ops.SQRT,
    types.floats,
    "The square root, correctly rounded in strict mode; of -0 it is -0, below it NaN.",
    numpy_function("sqrt"),
)
_arithmetic(
    Ops.EXP2,
    types.floats,
    "2 to the power x; 0 for -inf, inf for inf, 1 for 0.",
    through_float64("exp2"),
)
_arithmetic(
    Ops.LOG2,
    types.floats,
    "The logarithm to base 2; -inf for 0, NaN below it.",
    through_float64("log2"),
)
_arithmetic(
    Ops.SIN,
    types.floats,
    "The sine of x in radians; NaN for an infinity, -0 for -0.",
    through_float64("sin"),
)
_arithmetic(
    Ops.TRUNC,
    types.floats,
    "x rounded towards zero, with the sign of zero kept.",
    numpy_function("trunc"),
)
_arithmetic(
    Ops.ADD,
    types.numbers,
    "x + y; integers wrap, floats round to nearest even.",
    numpy_function("add"),
    exact=operator.add,
    values=bounds.add,
)
_arithmetic(
    Ops.SUB,
    types.numbers,
    "x - y; integers wrap, floats round to nearest even.",
    numpy_function("subtract"),
    exact=operator.sub,
    values=bounds.subtract,
)
_arithmetic(
    Ops.MUL,
    types.numbers,
    "x * y; integers wrap, floats round to nearest even.",
    numpy_function("multiply"),
    exact=operator.mul,
    values=bounds.multiply,
)
_arithmetic(
    Ops.FDIV,
    types.floats,
    "x / y, correctly rounded in strict mode, with the infinities and NaN of IEEE.",
    numpy_function("divide"),
)
_arithmetic(
    Ops.IDIV,
    types.integers,
    "x / y truncated towards zero; by 0 unspecified, without a trap.",
    semantics.signed_or_unsigned(semantics.divide, semantics.unsigned_divide),
    exact=semantics.truncating_division,
    values=bounds.divide,
)
_arithmetic(
    Ops.MOD,
    types.integers,
    "The remainder of IDIV, with the sign of x; by 0 unspecified.",
    semantics.signed_or_unsigned(semantics.remainder, semantics.unsigned_remainder),
    exact=semantics.truncating_remainder,
    values=bounds.remainder,
)
_arithmetic(
    Ops.POW,
    types.floats,
    "x to the power y, with the special cases of IEEE pow.",
    through_float64("power"),
)
_arithmetic(
    Ops.MAX,
    types.ordered,
    "The larger of x and y; with a NaN, or zeros of both signs, either of the two.",
    numpy_function("maximum"),
    exact=max,
    values=bounds.maximum,
)
_arithmetic(
    Ops.CMPLT,
    types.compare,
    "x < y as a bool; false with a NaN.",
    numpy_function("less"),
    exact=operator.lt,
    values=bounds.less,
)
_arithmetic(
    Ops.CMPNE,
    types.compare,
    "x != y as a bool; true with a NaN.",
    numpy_function("not_equal"),
    exact=operator.ne,
    values=bounds.not_equal,
)
_arithmetic(
    Ops.AND,
    types.bits,
    "Bitwise and; logical on bools.",
    numpy_function("bitwise_and"),
    exact=operator.and_,
    values=bounds.bit_and,
)
_arithmetic(
    Ops.OR,
    types.bits,
    "Bitwise or; logical on bools.",
    numpy_function("bitwise_or"),
    exact=operator.or_,
    values=bounds.bit_or,
)
_arithmetic(
    Ops.XOR,
    types.bits,
    "Bitwise exclusive or; logical on bools.",
    numpy_function("bitwise_xor"),
    exact=operator.xor,
    values=bounds.bit_xor,
)
_arithmetic(
    Ops.SHL,
    types.shift,
    "x shifted left by y bits; unspecified unless 0 <= y < width.",
    semantics.shift("left_shift"),
    exact=semantics.exact_shift_left,
    values=bounds.shift_left,
)
_arithmetic(
    Ops.SHR,
    types.shift,
    "x shifted right, keeping a sign; unspecified unless 0 <= y < width.",
    semantics.shift("right_shift"),
    exact=semantics.exact_shift_right,
    values=bounds.shift_right,
)
_arithmetic(
    Ops.THREEFRY,
    types.words,
    "Threefry-2x32 with 20 rounds of a counter and a key, bit-exact on every device.",
    same(semantics.threefry),
)
_arithmetic(
    Ops.WHERE,
    types.select,
    "y where the bool x holds, else z; the other side has no effect.",
    numpy_function("where"),
    exact=lambda condition, x, y: x if condition else y,
    values=bounds.where,
)
_arithmetic(
    Ops.MULACC,
    types.numbers,
    "x * y + z, rounded as two operations in strict mode.",
    same(semantics.multiply_accumulate),
    exact=lambda x, y, z: x * y + z,
    values=bounds.multiply_accumulate,
)
_arithmetic(
    Ops.CAST,
    types.convert,
    "x converted to the type of the node.",
    semantics.cast,
    exact=operator.index,
    values=bounds.cast,
)
_arithmetic(
    Ops.BITCAST,
    types.reinterpret,
    "The bits of x read as the type of the node.",
    semantics.bitcast,
    values=bounds.cast,
)

_tensor(
    Ops.BUFFER,
    "Memory on a device; a flat array of its elements.",
    payload.BufferArg,
    arity=0,
    typing=types.value,
    values=bounds.full,
)
_tensor(Ops.COPY, "The same values in memory of another device.", payload.CopyArg)
_tensor(Ops.CONTIGUOUS, "The same values in memory of their own, in row-major order.")
_tensor(Ops.DETACH, "The same values, through which no gradient flows.")
_tensor(
    Ops.ASSIGN,
    "The target's memory after the value was written to it.",
    arity=2,
    typing=types.assign,
    values=bounds.full,
)
_tensor(
    Ops.MULTI,
    "One tensor on several devices: parts along an axis, or the whole on each.",
    payload.ShardArg,
    arity=(1, None),
    typing=types.values_of_one_type,
    values=bounds.full,
)
_tensor(Ops.RESHAPE, "The same elements in row-major order, in a new shape.", payload.ShapeArg)
_tensor(Ops.PERMUTE, "The axes in another order.", payload.PermuteArg)
_tensor(Ops.EXPAND, "Axes of size 1 repeated.", payload.ShapeArg)
_tensor(Ops.PAD, "Zeros added before and after each axis.", payload.BoundsArg, values=bounds.full)
_tensor(Ops.SHRINK, "A part of each axis.", payload.BoundsArg)
_tensor(Ops.FLIP, "Some axes in reverse order.", payload.FlipArg)
_tensor(Ops.BIND, "A symbolic variable together with its value.", arity=2, typing=types.bind)

_op(
    Ops.SINK,
    "kernel.sink",
    (0, None),
    types.void,
    "The root that keeps its sources alive.",
    dialects=_ALL - _PROGRAM,
)
_op(
    Ops.CONST,
    "isa.const",
    0,
    types.constant,
    "A constant of the type; a vector repeats it.",
    payload=payload.ConstArg,
    dialects=_ALL,
    values=bounds.constant,
)
_op(
    Ops.DEFINE_VAR,
    "kernel.variable",
    0,
    types.variable,
    "A symbolic integer with inclusive bounds, given at launch.",
    payload=payload.VarArg,
    dialects=_ALL,
    values=bounds.variable,
)
_op(
    Ops.IOTA,
    "kernel.iota",
    (0, None),
    types.numbering,
    "The integers 0, 1, 2 ... along one axis; in a kernel through a view, 0 where masked.",
    payload=payload.ShapeArg | payload.ViewArg,
    dialects=_TENSOR | _AST,
    values=bounds.numbering,
)
_op(
    Ops.REDUCE,
    "isa.reduce",
    (1, None),
    types.reduce,
    "The sum, product or maximum over axes or ranges; of none, the identity.",
    payload=payload.ReduceArg,
    dialects=_ALL - _PROGRAM,
)
_op(
    Ops.DEFINE_GLOBAL,
    "kernel.global",
    0,
    types.pointer_to(AddressSpace.GLOBAL),
    "A buffer argument of the kernel.",
    payload=payload.SlotArg,
    dialects=_AST | _LINEAR,
)
_op(
    Ops.VIEW,
    "kernel.view",
    (1, None),
    types.address,
    "How the axes of the kernel map to elements of a buffer.",
    payload=payload.ViewArg,
    dialects=_AST,
)
_op(
    Ops.VALID,
    "kernel.valid",
    (0, None),
    types.truth,
    "True where the mask of a view holds.",
    payload=payload.ViewArg,
    dialects=_AST,
)
_op(
    Ops.LOAD,
    "isa.load",
    (1, 3),
    types.load,
    "The value at the address; where the gate is false, the alternative without an access.",
    payload=payload.MemoryVersionArg | None,
    dialects=_AST | _LINEAR,
)
_op(
    Ops.STORE,
    "isa.store",
    (2, 4),
    types.store,
    "Writes the value to the address; nothing where the gate is false. With a mask, atomically, "
    "those bits of a word alone.",
    payload=payload.MemoryVersionArg | None,
    dialects=_AST | _LINEAR,
)
_op(
    Ops.DEFINE_LOCAL,
    "kernel.local",
    0,
    types.pointer_to(AddressSpace.LOCAL),
    "Memory that the work-items of a group share.",
    payload=payload.LocalArg,
)
_op(
    Ops.DEFINE_ACC,
    "kernel.accumulator",
    (1, None),
    types.value_like_first,
    "An accumulator that starts at its first source, before the ranges that follow.",
    payload=payload.LocalArg,
)
_op(Ops.UPDATE_ACC, "kernel.accumulator", 2, types.update, "Gives an accumulator its next value.")
_op(
    Ops.RANGE,
    "kernel.range",
    1,
    types.counter,
    "Counts from 0 to its source minus 1.",
    payload=payload.RangeArg,
    values=bounds.counter,
)
_op(
    Ops.SPECIAL,
    "kernel.special",
    1,
    types.counter,
    "The index of the group in the grid or of the work-item in its group.",
    payload=payload.SpecialArg,
    values=bounds.counter,
)
_op(
    Ops.INDEX,
    "kernel.index",
    (2, 3),
    types.address,
    "The address of one element of a buffer, or of a texel of an image by row and column.",
)
_op(
    Ops.VECTORIZE,
    "kernel.vector",
    (2, 16),
    types.vectorize,
    "A vector of its sources.",
    values=bounds.union,
)
_op(
    Ops.GEP,
    "kernel.vector",
    (1, None),
    types.takes_lanes,
    "Some lanes of a vector; before expansion also the lane that the ranges after it select.",
    payload=payload.GepArg,
    values=bounds.first,
)
_op(
    Ops.WMMA,
    "isa.wmma",
    3,
    types.tile,
    "A * B + C on a matrix tile, in the accumulator type.",
    payload=payload.TileArg,
)
_op(
    Ops.AFTER,
    "kernel.after",
    (1, None),
    types.like_first,
    "The first source, after the other sources are done.",
    dialects=_INDEXED,
    values=bounds.first,
)
_op(
    Ops.BARRIER,
    "kernel.barrier",
    (0, None),
    types.void,
    "All work-items of a group wait here for each other.",
)
_op(
    Ops.IF,
    "kernel.if",
    (1, None),
    types.branch,
    "The block that follows runs where the condition is true.",
    dialects=_PROGRAM,
)
_op(Ops.ENDIF, "kernel.if", 1, types.closes(Ops.IF), "The end of an IF.", dialects=_PROGRAM)
_op(Ops.END, "kernel.range", 1, types.closes(Ops.RANGE), "The end of a RANGE.", dialects=_PROGRAM)
