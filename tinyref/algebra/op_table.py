"""What an op is, and the table of all ops: `op_rows.py` has the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import get_args

from tinyref.arrays import Array
from tinyref.dtype import DType
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops

Arity = tuple[int, int | None]
PayloadType = type | UnionType
# None where the node is well typed, else one sentence that says what is wrong.
Typing = Callable[[UOp], str | None]

# Arrays of the source types in, an array of the result type out, shapes broadcast.
Kernel = Callable[..., Array]
# Chooses the kernel of an op for a scalar result type and scalar source types.
Semantics = Callable[[DType, Sequence[DType]], Kernel]
# The op on Python's integers, of any size, before the result wraps into its type.
Exact = Callable[..., int]

Range = tuple[int, int]
# The node and the ranges of its sources (None for a float or a pointer) give the node's range.
RangeRule = Callable[[UOp, Sequence[Range | None]], Range | None]


@dataclass(frozen=True)
class OpSpec:
    """What one op is.

    arity: least and most number of sources, None for no limit. typing: the problem of a node that
    has the right number of sources, or None. payload: the type of `arg`, NoneType for no payload.
    clause: label in the spec. dialects: where the op may stand. sentence: the semantics in words.
    semantics: chooses the numpy function of an arithmetic op; None for structure and memory.
    exact: the function of integers of any size, of an op that has integers.
    value_range: range of the node from those of its sources.
    """

    op: Ops
    arity: Arity
    typing: Typing
    payload: PayloadType
    sentence: str
    clause: str
    dialects: frozenset[Dialect]
    value_range: RangeRule
    semantics: Semantics | None = None
    exact: Exact | None = None

    def check(self, node: UOp) -> str | None:
        """The problem of `node` as one sentence (arity, payload, then types), or None."""
        least, most = self.arity
        count = len(node.src)
        if count < least or (most is not None and count > most):
            accepted = f"{least}" if least == most else f"{least} to {most or 'any number'}"
            return f"{self.op.name} takes {accepted} sources, got {count}"
        if isinstance(node.arg, self.payload):
            return self.typing(node)
        got = "none" if node.arg is None else type(node.arg).__name__
        if self.payload is NoneType:
            return f"{self.op.name} has no payload, got {got}"
        kinds = get_args(self.payload) or (self.payload,)
        accepted = " or ".join(kind.__name__ for kind in kinds)
        return f"{self.op.name} needs a payload {accepted}, got {got}"


# Filled by `op_rows.py`, which is imported with the package, for its rules look ops up here.
OP_TABLE: dict[Ops, OpSpec] = {}
