"""The operations of integer expressions, and expressions as text for failed checks."""

from __future__ import annotations

from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, VarArg

INTEGER_BINARY = (
    Ops.ADD,
    Ops.SUB,
    Ops.MUL,
    Ops.IDIV,
    Ops.MOD,
    Ops.MAX,
    Ops.CMPLT,
    Ops.CMPNE,
    Ops.AND,
    Ops.OR,
    Ops.XOR,
    Ops.SHL,
    Ops.SHR,
)


def text_of(node: UOp) -> str:
    """Return the expression on one line, its variables with their ranges."""
    if isinstance(node.arg, ConstArg):
        return repr(node.arg.value)
    if isinstance(node.arg, VarArg):
        return f"{node.arg.name}[{node.arg.minimum}..{node.arg.maximum}]"
    sources = ", ".join(map(text_of, node.src))
    return f"{node.op.name}.{node.dtype.name}({sources})"
