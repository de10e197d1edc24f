"""Equations that compute in another type and come back."""

from __future__ import annotations

from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.equivalent.logic import OTHER_SIGN
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_node

# What the low bits of these are, the low bits of the operands decide.
MODULAR = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.AND, Ops.OR, Ops.XOR)


@of_node("compute-wider", Domain.INTEGER, *MODULAR)
def compute_wider(node: UOp, draw: Draw) -> UOp | None:
    """x + y = narrow(wide(x) + wide(y)); so -, *, &, |, ^."""
    wider = [dtype for dtype in draw.dtypes if dtype.is_int and dtype.bits > node.dtype.bits]
    if not wider:
        return None
    wide = draw.tape.pick(sorted(wider, key=lambda dtype: dtype.name))
    sources = tuple(build.cast(source, wide) for source in node.src)
    return build.cast(UOp(node.op, wide, sources), node.dtype)


@of_node("compute-other-sign", Domain.INTEGER, *MODULAR)
def compute_other_sign(node: UOp, draw: Draw) -> UOp | None:
    """x + y = bits(bits(x) + bits(y)) in the type of other sign; so -, *, &, |, ^."""
    other = OTHER_SIGN.get(node.dtype)
    if other is None or other not in draw.dtypes:
        return None
    sources = tuple(build.bitcast(source, other) for source in node.src)
    return build.bitcast(UOp(node.op, other, sources), node.dtype)
