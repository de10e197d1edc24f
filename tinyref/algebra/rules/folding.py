"""Constants: what can be computed now, by the semantics of the op table."""

from __future__ import annotations

from tinyref.algebra import semantics
from tinyref.algebra.bounds import bounds
from tinyref.algebra.named_rules import Pattern, integer_or_bool, match, rule
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, BINARY, TERNARY, UNARY, Ops
from tinyref.uops.payload import ConstArg


@rule("fold-constants", match(ALU, every=Pattern(ops=frozenset({Ops.CONST}))))
def fold_constants(node: UOp) -> UOp | None:
    """op(c1, c2, ...) == the constant by the semantics of op, rounded and wrapped."""
    if node.dtype.scalar is dtypes.index and not _holds(bounds(node)):
        # The semantics would wrap, but an index never wraps.
        return None
    values = [source.arg.value for source in node.src if isinstance(source.arg, ConstArg)]
    sources = [source.dtype.scalar for source in node.src]
    value = semantics.fold(node.op, node.dtype.scalar, values, sources)
    return build.const(node.dtype, value)


@rule(
    "fold-range",
    match(UNARY | BINARY | TERNARY | {Ops.CAST}),
    when=integer_or_bool,
    needs_bounds=True,
)
def fold_range(node: UOp) -> UOp | None:
    """x == c where the value range of x is c alone."""
    low, high = bounds(node)
    return build.const(node.dtype, low) if low == high else None


def _holds(span: tuple[int, int]) -> bool:
    return dtypes.index.minimum <= span[0] and span[1] <= dtypes.index.maximum
