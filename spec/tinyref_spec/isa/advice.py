"""Advice on operations: where to look, by the condition that the wrong values meet.

"" is for any other condition, and "dies" for a process that ends or hangs.
"""

from __future__ import annotations

from collections.abc import Mapping

_SIGNED = "compare signed integers by an instruction for signed ones, and unsigned by another"
_ORDERED = "look at which comparison is printed: ordered or unordered"
_DIVISION = "integer division truncates towards zero (C99, 6.5.5)"
_REMAINDER = "a remainder has the sign of the dividend: x - (x / y) * y"
TRAPS = (
    "declare `division_traps=True`: MIN / -1 and a division by 0 must be guarded on a device that "
    "traps or hangs there"
)
_SHIFT = "look for an unsigned instruction in place of a signed one: it shifts zeros in"
OF_INTEGERS: Mapping[str, Mapping[str, str]] = {
    **{
        op: {"": _SIGNED, "different-signs": _SIGNED, "negative": _SIGNED, "above-2^31": _SIGNED}
        for op in ("CMPLT", "MAX")
    },
    "CMPNE": {"": "look at the width in which integers are compared"},
    "IDIV": {
        "": _DIVISION,
        "different-signs": _DIVISION,
        "least-integer": f"{_DIVISION}, and MIN / -1 wraps",
        "dies": TRAPS,
    },
    "MOD": {
        "": _REMAINDER,
        "different-signs": _REMAINDER,
        "least-integer": f"{_REMAINDER}, and MIN % -1 is 0",
        "dies": TRAPS,
    },
    "SHR": {"negative": _SHIFT},
}
OF_FLOATS: Mapping[str, Mapping[str, str]] = {
    "CMPLT": {"nan": _ORDERED},
    "CMPNE": {"nan": _ORDERED},
    "MAX": {"nan": "look at which operand MAX gives if one is NaN"},
}
