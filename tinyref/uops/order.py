"""A total order of nodes that does not depend on when they were built: the key of normal forms."""

from __future__ import annotations

import hashlib

from tinyref.uops.node import UOp, node_fact
from tinyref.uops.ops import Ops
from tinyref.uops.payload import RangeArg, VarArg

# Counters come first, by number, then launch indices, then variables by name; constants are last.
_RANKS = {Ops.RANGE: 0, Ops.SPECIAL: 1, Ops.DEFINE_VAR: 2, Ops.CONST: 9}
_RANK_OF_OTHERS = 5

OrderKey = tuple[int, str, bytes]


@node_fact
def order_key(node: UOp) -> OrderKey:
    """What nodes are sorted by: counters, launch indices, variables, expressions, constants."""
    digest = hashlib.blake2b(f"{node.op.name} {node.dtype.name} {node.arg!r}".encode())
    for source in node.src:
        digest.update(order_key(source)[2])
    label = ""
    if isinstance(node.arg, RangeArg):
        label = f"{node.arg.number:09}"
    elif isinstance(node.arg, VarArg):
        label = node.arg.name
    return _RANKS.get(node.op, _RANK_OF_OTHERS), label, digest.digest()[:12]
