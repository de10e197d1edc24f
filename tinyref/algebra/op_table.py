"""The op table: one row per op with its arity, types, payload, meaning, value range and clause.

semantics.md is the prose of it. The verifiers of the dialects, constant folding, the interpreter
and the spec pages all read these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, UnionType
from typing import get_args

from tinyref.algebra import bounds, semantics, typing_rules
from tinyref.algebra.typing_rules import Typing
from tinyref.dtype import AddressSpace
from tinyref.uops import payload
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops

Arity = tuple[int, int | None]


@dataclass(frozen=True)
class OpSpec:
    """What one op is.

    arity: least and most number of sources, None for no limit. typing: the problem of a node that
    has the right number of sources, or None. payload: the type of `arg`, None for no payload;
    needs_payload: whether a node may not do without.
    meaning: chooses the numpy function of an arithmetic op; None for structure and memory.
    value_range: range of the node from those of its sources. clause: label in the spec.
    dialects: where the op may stand. sentence: the meaning in words.
    """

    op: Ops
    arity: Arity
    typing: Typing
    payload: type | UnionType | None
    meaning: semantics.Meaning | None
    value_range: bounds.RangeRule
    clause: str
    dialects: frozenset[Dialect]
    sentence: str
    needs_payload: bool = True

    def check(self, node: UOp) -> str | None:
        """The problem of `node` as one sentence (arity, payload, then types), or None."""
        least, most = self.arity
        count = len(node.src)
        if count < least or (most is not None and count > most):
            accepted = f"{least}" if least == most else f"{least} to {most or 'any number'}"
            return f"{self.op.name} takes {accepted} sources, got {count}"
        if self.payload is None and node.arg is not None:
            return f"{self.op.name} has no payload, got {type(node.arg).__name__}"
        if node.arg is None and not self.needs_payload:
            return self.typing(node)
        if self.payload is not None and not isinstance(node.arg, self.payload):
            found = "none" if node.arg is None else type(node.arg).__name__
            kinds = get_args(self.payload) or (self.payload,)
            accepted = " or ".join(kind.__name__ for kind in kinds)
            return f"{self.op.name} needs a payload {accepted}, got {found}"
        return self.typing(node)


_TENSOR = frozenset({Dialect.TENSOR})
_AST = frozenset({Dialect.AST})
_INDEXED = frozenset({Dialect.INDEXED})
_PROGRAM = frozenset({Dialect.PROGRAM})
_LINEAR = _INDEXED | _PROGRAM
_KERNEL = _AST | _LINEAR
_ALL = frozenset(Dialect)


def _row(
    op: Ops,
    arity: int | Arity,
    typing: Typing,
    sentence: str,
    *,
    payload: type | UnionType | None = None,
    dialects: frozenset[Dialect] = _ALL,
    clause: str = "",
    needs_payload: bool = True,
) -> OpSpec:
    return OpSpec(
        op,
        (arity, arity) if isinstance(arity, int) else arity,
        typing,
        payload,
        semantics.MEANINGS.get(op),
        bounds.range_rule(op),
        clause or f"isa.{op.value.lower()}",
        dialects,
        sentence,
        needs_payload,
    )


ARITHMETIC_ROWS = (
    _row(Ops.NEG, 1, typing_rules.numbers, "-x; an integer wraps, a float changes its sign bit."),
    _row(Ops.RECIP, 1, typing_rules.floats, "1 / x, correctly rounded in strict mode."),
    _row(Ops.SQRT, 1, typing_rules.floats, "The square root, correctly rounded in strict mode."),
    _row(Ops.EXP2, 1, typing_rules.floats, "2 to the power x; 0 for -inf, inf for inf."),
    _row(Ops.LOG2, 1, typing_rules.floats, "The logarithm to base 2; -inf for 0, NaN below it."),
    _row(
        Ops.SIN, 1, typing_rules.floats, "The sine of x in radians; NaN for an infinity, -0 for -0."
    ),
    _row(Ops.TRUNC, 1, typing_rules.floats, "The integer part: x rounded towards zero."),
    _row(Ops.ADD, 2, typing_rules.numbers, "x + y; integers wrap, floats round to nearest even."),
    _row(Ops.SUB, 2, typing_rules.numbers, "x - y; integers wrap, floats round to nearest even."),
    _row(Ops.MUL, 2, typing_rules.numbers, "x * y; integers wrap, floats round to nearest even."),
    _row(Ops.FDIV, 2, typing_rules.floats, "x / y, correctly rounded in strict mode."),
    _row(
        Ops.IDIV,
        2,
        typing_rules.integers,
        "x / y truncated towards zero; by 0 unspecified, without a trap.",
    ),
    _row(
        Ops.MOD, 2, typing_rules.integers, "What IDIV leaves, with the sign of x; by 0 unspecified."
    ),
    _row(Ops.POW, 2, typing_rules.floats, "x to the power y, with the special cases of IEEE pow."),
    _row(Ops.MAX, 2, typing_rules.ordered, "The larger of x and y; with a NaN either of the two."),
    _row(Ops.CMPLT, 2, typing_rules.compare, "x < y as a bool; false with a NaN."),
    _row(Ops.CMPNE, 2, typing_rules.compare, "x != y as a bool; true with a NaN."),
    _row(Ops.AND, 2, typing_rules.bits, "Bitwise and; logical on bools."),
    _row(Ops.OR, 2, typing_rules.bits, "Bitwise or; logical on bools."),
    _row(Ops.XOR, 2, typing_rules.bits, "Bitwise exclusive or; logical on bools."),
    _row(
        Ops.SHL,
        2,
        typing_rules.shift,
        "x shifted left by y bits; unspecified unless 0 <= y < width.",
    ),
    _row(
        Ops.SHR,
        2,
        typing_rules.shift,
        "x shifted right, keeping a sign; unspecified unless 0 <= y < width.",
    ),
    _row(
        Ops.THREEFRY, 2, typing_rules.words, "Threefry-2x32 with 20 rounds of a counter and a key."
    ),
    _row(
        Ops.WHERE,
        3,
        typing_rules.select,
        "y where the bool x holds, else z; the other side has no effect.",
    ),
    _row(
        Ops.MULACC, 3, typing_rules.numbers, "x * y + z, rounded as two operations in strict mode."
    ),
    _row(Ops.CAST, 1, typing_rules.convert, "x converted to the type of the node."),
    _row(Ops.BITCAST, 1, typing_rules.reinterpret, "The bits of x read as the type of the node."),
)

TENSOR_ROWS = (
    _row(
        Ops.BUFFER,
        0,
        typing_rules.value,
        "Memory on a device; a flat array of its elements.",
        payload=payload.BufferArg,
        dialects=_TENSOR,
        clause="tensor.buffer",
    ),
    _row(
        Ops.COPY,
        1,
        typing_rules.value_like_first,
        "The same values in memory of another device.",
        payload=payload.CopyArg,
        dialects=_TENSOR,
        clause="tensor.copy",
    ),
    _row(
        Ops.CONTIGUOUS,
        1,
        typing_rules.value_like_first,
        "The same values in memory of their own, in row-major order.",
        dialects=_TENSOR,
        clause="tensor.contiguous",
    ),
    _row(
        Ops.DETACH,
        1,
        typing_rules.value_like_first,
        "The same values, through which no gradient flows.",
        dialects=_TENSOR,
        clause="tensor.detach",
    ),
    _row(
        Ops.ASSIGN,
        2,
        typing_rules.assign,
        "The target's memory after the value was written to it.",
        dialects=_TENSOR,
        clause="tensor.assign",
    ),
    _row(
        Ops.MULTI,
        (1, None),
        typing_rules.values_of_one_type,
        "One tensor on several devices: parts along an axis, or the whole on each.",
        payload=payload.ShardArg,
        dialects=_TENSOR,
        clause="tensor.multi",
    ),
    *(
        _row(
            op,
            1,
            typing_rules.value_like_first,
            sentence,
            payload=kind,
            dialects=_TENSOR,
            clause=f"tensor.{op.value.lower()}",
        )
        for op, kind, sentence in (
            (
                Ops.RESHAPE,
                payload.ShapeArg,
                "The same elements in row-major order, in a new shape.",
            ),
            (Ops.PERMUTE, payload.PermuteArg, "The axes in another order."),
            (Ops.EXPAND, payload.ShapeArg, "Axes of size 1 repeated."),
            (Ops.PAD, payload.BoundsArg, "Zeros added before and after each axis."),
            (Ops.SHRINK, payload.BoundsArg, "A part of each axis."),
            (Ops.FLIP, payload.FlipArg, "Some axes in reverse order."),
        )
    ),
)

STRUCTURE_ROWS = (
    _row(
        Ops.SINK,
        (0, None),
        typing_rules.void,
        "The root that keeps its sources alive.",
        dialects=_ALL - _PROGRAM,
        clause="kernel.sink",
    ),
    _row(
        Ops.CONST,
        0,
        typing_rules.constant,
        "A constant of the type; a vector repeats it.",
        payload=payload.ConstArg,
    ),
    _row(
        Ops.DEFINE_VAR,
        0,
        typing_rules.variable,
        "A symbolic integer with inclusive bounds, given at launch.",
        payload=payload.VarArg,
        clause="kernel.variable",
    ),
    _row(
        Ops.BIND,
        2,
        typing_rules.bind,
        "A symbolic variable together with its value.",
        dialects=_TENSOR,
        clause="tensor.bind",
    ),
    _row(
        Ops.IOTA,
        (0, None),
        typing_rules.numbering,
        "The integers 0, 1, 2 ... along one axis; in a kernel through a view, 0 where masked.",
        payload=payload.ShapeArg | payload.ViewArg,
        dialects=_TENSOR | _AST,
        clause="kernel.iota",
    ),
    _row(
        Ops.REDUCE,
        (1, None),
        typing_rules.reduce,
        "The sum, product or maximum over axes or ranges; of none, the identity.",
        payload=payload.ReduceArg,
        dialects=_ALL - _PROGRAM,
    ),
)

KERNEL_ROWS = (
    _row(
        Ops.DEFINE_GLOBAL,
        0,
        typing_rules.pointer_to(AddressSpace.GLOBAL),
        "A buffer argument of the kernel.",
        payload=payload.SlotArg,
        dialects=_KERNEL,
        clause="kernel.global",
    ),
    _row(
        Ops.VIEW,
        (1, None),
        typing_rules.address,
        "How the axes of the kernel map to elements of a buffer.",
        payload=payload.ViewArg,
        dialects=_AST,
        clause="kernel.view",
    ),
    _row(
        Ops.VALID,
        (0, None),
        typing_rules.truth,
        "True where the mask of a view holds.",
        payload=payload.ViewArg,
        dialects=_AST,
        clause="kernel.valid",
    ),
    _row(
        Ops.LOAD,
        (1, 3),
        typing_rules.load,
        "What the address holds; the alternative, with no access, where the gate is false.",
        payload=payload.MemoryVersionArg,
        needs_payload=False,
        dialects=_KERNEL,
    ),
    _row(
        Ops.STORE,
        (2, 3),
        typing_rules.store,
        "Writes the value to the address; nothing where the gate is false.",
        payload=payload.MemoryVersionArg,
        needs_payload=False,
        dialects=_KERNEL,
    ),
    _row(
        Ops.DEFINE_LOCAL,
        0,
        typing_rules.pointer_to(AddressSpace.LOCAL),
        "Memory that the work-items of a group share.",
        payload=payload.LocalArg,
        dialects=_LINEAR,
        clause="kernel.local",
    ),
    _row(
        Ops.DEFINE_ACC,
        (1, None),
        typing_rules.value_like_first,
        "An accumulator that starts at its first source, before the ranges that follow.",
        payload=payload.LocalArg,
        dialects=_LINEAR,
        clause="kernel.accumulator",
    ),
    _row(
        Ops.UPDATE_ACC,
        2,
        typing_rules.update,
        "Gives an accumulator its next value.",
        dialects=_LINEAR,
        clause="kernel.accumulator",
    ),
    _row(
        Ops.RANGE,
        1,
        typing_rules.counter,
        "Counts from 0 to its source minus 1.",
        payload=payload.RangeArg,
        dialects=_LINEAR,
        clause="kernel.range",
    ),
    _row(
        Ops.SPECIAL,
        1,
        typing_rules.counter,
        "The index of the group in the grid or of the work-item in its group.",
        payload=payload.SpecialArg,
        dialects=_LINEAR,
        clause="kernel.special",
    ),
    _row(
        Ops.INDEX,
        (2, 3),
        typing_rules.address,
        "The address of one element of a buffer, or of a texel of an image by row and column.",
        dialects=_LINEAR,
        clause="kernel.index",
    ),
    _row(
        Ops.VECTORIZE,
        (2, 16),
        typing_rules.vectorize,
        "A vector of its sources.",
        dialects=_LINEAR,
        clause="kernel.vector",
    ),
    _row(
        Ops.GEP,
        (1, None),
        typing_rules.takes_lanes,
        "Some lanes of a vector; before expansion also the one that the ranges after it count to.",
        payload=payload.GepArg,
        dialects=_LINEAR,
        clause="kernel.vector",
    ),
    _row(
        Ops.WMMA,
        3,
        typing_rules.tile,
        "A * B + C on a matrix tile, in the accumulator type.",
        payload=payload.TileArg,
        dialects=_LINEAR,
    ),
    _row(
        Ops.AFTER,
        (1, None),
        typing_rules.like_first,
        "Its first source, once the others are done.",
        dialects=_INDEXED,
        clause="kernel.after",
    ),
    _row(
        Ops.BARRIER,
        (0, None),
        typing_rules.void,
        "All work-items of a group wait here for each other.",
        dialects=_LINEAR,
        clause="kernel.barrier",
    ),
    _row(
        Ops.IF,
        (1, None),
        typing_rules.branch,
        "What follows happens where the condition holds.",
        dialects=_PROGRAM,
        clause="kernel.if",
    ),
    _row(
        Ops.ENDIF,
        1,
        typing_rules.closes(Ops.IF),
        "The end of an IF.",
        dialects=_PROGRAM,
        clause="kernel.if",
    ),
    _row(
        Ops.END,
        1,
        typing_rules.closes(Ops.RANGE),
        "The end of a RANGE.",
        dialects=_PROGRAM,
        clause="kernel.range",
    ),
)

OP_TABLE: Mapping[Ops, OpSpec] = MappingProxyType(
    {row.op: row for row in (*STRUCTURE_ROWS, *TENSOR_ROWS, *ARITHMETIC_ROWS, *KERNEL_ROWS)}
)
