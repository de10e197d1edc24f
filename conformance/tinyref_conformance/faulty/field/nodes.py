"""Patterns of nodes that the models of several stacks look for."""

from __future__ import annotations

from tinyref.dtype import ConstType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program


def constant(node: UOp) -> ConstType | None:
    """Return the value of a CONST, or None for any other node."""
    return node.arg.value if isinstance(node.arg, ConstArg) else None


def negated(node: UOp) -> UOp | None:
    """Return x where `node` is -x, printed as NEG or as a product with -1; else None."""
    if node.op is Ops.NEG:
        return node.src[0]
    is_product = node.op is Ops.MUL and constant(node.src[1]) == -1
    return node.src[0] if is_product else None


def inverted(node: UOp) -> UOp | None:
    """Return the condition whose logical negation `node` is; else None."""
    is_inverse = node.op is Ops.CMPNE and constant(node.src[1]) is True
    return node.src[0] if is_inverse else None


def is_fill(program: Program) -> bool:
    """Return True for a program that reads no memory and stores constants only."""
    stores = [node for node in program.uops if node.op is Ops.STORE]
    reads = any(node.op is Ops.LOAD for node in program.uops)
    return not reads and all(store.src[1].op is Ops.CONST for store in stores)


def is_product_of_buffers(node: UOp) -> bool:
    """Return True for a product whose two sides are loaded from two buffers."""
    if node.op is not Ops.MUL or node.dtype.is_bool:
        return False
    first, second = (_loaded_slots(side) for side in node.src)
    return bool(first) and bool(second) and first != second


def _loaded_slots(node: UOp) -> set[int]:
    return {build.slot_of(source) for source in node.toposort() if source.op is Ops.LOAD}
