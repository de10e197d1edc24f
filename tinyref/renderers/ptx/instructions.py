"""The instruction of each op: a table, by kind of the operands.

`{t}` stands for the type, `{b}` for its bits, `{rn}` for the rounding. Floats round to nearest even
by `.rn`: without it ptxas may contract a product and a sum to one operation (ISA, "add", "mul").
So `.rn` is left out only where the flag STRICT_FLOAT is 0. No `.ftz`, no `.approx`, no `.sat` is
ever printed: subnormals are kept, quotients and roots are those of IEEE 754.

What the ISA leaves open, or says otherwise than one expects:

* `setp.ne` of floats is false with a NaN, `setp.neu` is true ("Comparison and Selection").
* `shl` and `shr` clamp counts to the width; a count is always 32 bits, unsigned.
* `div` and `rem` of integers truncate, as every device has done, also where the ISA calls the sign
  of `rem` the machine's; by 0 they give any value and never trap.
* `neg` of a NaN gives any NaN, so that a sign is turned by `xor`.
* `max` of floats gives the operand that is a number.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.ptx.registers import HALVES, bits_word, type_word
from tinyref.uops.ops import Ops

# For bools, integers and floats; "" where the op has no instruction.
INSTRUCTIONS: Mapping[Ops, tuple[str, str, str]] = {
    Ops.ADD: ("", "add.{t}", "add{rn}.{t}"),
    Ops.SUB: ("", "sub.{t}", "sub{rn}.{t}"),
    Ops.MUL: ("", "mul.lo.{t}", "mul{rn}.{t}"),
    Ops.FDIV: ("", "", "div.rn.{t}"),
    Ops.RECIP: ("", "", "rcp.rn.{t}"),
    Ops.SQRT: ("", "", "sqrt.rn.{t}"),
    Ops.TRUNC: ("", "", "cvt.rzi.{t}.{t}"),
    Ops.IDIV: ("", "div.{t}", ""),
    Ops.MOD: ("", "rem.{t}", ""),
    Ops.MAX: ("or.pred", "max.{t}", "max.{t}"),
    Ops.AND: ("and.pred", "and.{b}", ""),
    Ops.OR: ("or.pred", "or.{b}", ""),
    Ops.XOR: ("xor.pred", "xor.{b}", ""),
    Ops.SHL: ("", "shl.{b}", ""),
    Ops.SHR: ("", "shr.{t}", ""),
    Ops.CMPLT: ("", "setp.lt.{t}", "setp.lt.{t}"),
    Ops.CMPNE: ("xor.pred", "setp.ne.{t}", "setp.neu.{t}"),
}
# What may leave 8 bits, or leaves any value, in the 16 of their register.
LEAVES_EIGHT_BITS = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.IDIV, Ops.MOD, Ops.SHL})
# What float16 and bfloat16 do in float32. Rounded twice it is the same: float32 has more than twice
# their significant bits plus two (Figueroa, "When is double rounding innocuous?", 1995).
_WIDENED = frozenset({Ops.FDIV, Ops.RECIP, Ops.SQRT, Ops.TRUNC})
# `max` has float16 from here on; `add`, `mul`, `setp` and the like have bfloat16.
_MAX_OF_FLOAT16 = 80
ARITHMETIC_OF_BFLOAT16 = 90


def opcode(op: Ops, operand: DType, is_strict: bool) -> str:
    """The instruction of `op` for scalars of type `operand`. Raises `UserError` for none."""
    kind = 0 if operand.is_bool else 2 if operand.is_float else 1
    template = INSTRUCTIONS[op][kind]
    if not template:
        raise UserError(f"{op.name}: is not defined for {operand.name}")
    rounding = ".rn" if is_strict else ""
    return template.format(t=type_word(operand), b=bits_word(operand), rn=rounding)


def is_widened(op: Ops, operand: DType, architecture: int) -> bool:
    """Whether `op` of two 16-bit floats is that of float32, rounded back."""
    if operand not in HALVES:
        return False
    if operand is dtypes.bfloat16 and architecture < ARITHMETIC_OF_BFLOAT16:
        return True
    return op in _WIDENED or (op is Ops.MAX and architecture < _MAX_OF_FLOAT16)
