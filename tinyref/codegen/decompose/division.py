"""Guards for devices that trap on integer division by zero or of MIN by -1."""

from __future__ import annotations

from tinyref.algebra.bounds import bounds
from tinyref.dtype import Kind
from tinyref.uops.build import binary, both, const, either, equal, not_equal, where
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops


def guard_divisions(root: UOp) -> UOp:
    """`root` with a harmless divisor wherever the value ranges cannot rule a trap out.

    The guarded results are those of the op table's semantics: x / 0 and x mod 0 are 0, MIN / -1 is
    MIN and MIN mod -1 is 0.
    """
    if not any(node.op in (Ops.IDIV, Ops.MOD) for node in root.toposort()):
        return root
    return rebuild(root, _guard)


def _guard(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
    if node.op not in (Ops.IDIV, Ops.MOD):
        return None
    dividend, divisor = src
    low, high = bounds(divisor)
    may_be_zero = low <= 0 <= high
    may_overflow = (
        node.dtype.kind is Kind.SIGNED
        and low <= -1 <= high
        and bounds(dividend)[0] == node.dtype.minimum
    )
    if not may_be_zero and not may_overflow:
        return None
    traps = equal(divisor, 0) if may_be_zero else None
    if may_overflow:
        overflow = both(equal(divisor, -1), equal(dividend, const(node.dtype, node.dtype.minimum)))
        traps = overflow if traps is None else either(traps, overflow)
    if traps is None:
        return None
    result = binary(node.op, dividend, where(traps, 1, divisor))
    if node.op is Ops.IDIV and may_be_zero:
        return where(not_equal(divisor, 0), result, 0)
    return result
