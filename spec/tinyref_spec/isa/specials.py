"""The accepted types of each primitive operation, and its special cases, as literals.

One line is one case: operands, `->`, result. The names are defined in `literals.py`: MIN, MAX, BITS
for integers; inf, nan, LARGEST, SUB and others for floats. A line with values that a dtype lacks
does not apply to it. Nothing here is computed by the operation that it checks.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tinyref.dtype import DType, Kind, dtypes


@dataclass(frozen=True)
class Special:
    """One literal case: operand names and the name of the result; `result` "?" is unspecified."""

    operands: tuple[str, ...]
    result: str

    @property
    def text(self) -> tuple[str, str]:
        """Return inputs and result for a page."""
        return ", ".join(self.operands), "unspecified" if self.result == "?" else self.result


@functools.cache
def parse(table: str) -> tuple[Special, ...]:
    """Return the cases of one table; raises ValueError for a line that is not one."""
    cases = []
    for line in table.replace(";", "\n").splitlines():
        if not line.strip():
            continue
        operands, arrow, result = line.partition("->")
        if not arrow or len(result.split()) != 1:
            raise ValueError(f"not a special case: {line!r}")
        cases.append(Special(tuple(operands.split()), result.strip()))
    return tuple(cases)


NUMBERS = (*dtypes.ints, *dtypes.floats)
FLOATS = dtypes.floats
INTEGERS = dtypes.ints
BITS = (dtypes.bool, *dtypes.ints)
ORDERED = (dtypes.bool, *dtypes.ints, *dtypes.floats)
VALUES = dtypes.all

# The types that each operation accepts; the typing of the op table is compared with them.
ACCEPTED: dict[str, tuple[DType, ...]] = {
    "NEG": NUMBERS,
    "RECIP": FLOATS,
    "SQRT": FLOATS,
    "EXP2": FLOATS,
    "LOG2": FLOATS,
    "SIN": FLOATS,
    "TRUNC": FLOATS,
    "ADD": NUMBERS,
    "SUB": NUMBERS,
    "MUL": NUMBERS,
    "FDIV": FLOATS,
    "IDIV": INTEGERS,
    "MOD": INTEGERS,
    "POW": FLOATS,
    "MAX": ORDERED,
    "CMPLT": ORDERED,
    "CMPNE": ORDERED,
    "AND": BITS,
    "OR": BITS,
    "XOR": BITS,
    "SHL": INTEGERS,
    "SHR": INTEGERS,
    "THREEFRY": (dtypes.uint64,),
    "WHERE": VALUES,
    "MULACC": NUMBERS,
}

# Clauses that a row checks too: `float.` ones on floats, `int.` ones on integers.
ALSO: dict[str, tuple[str, ...]] = {
    "ADD": ("float.round", "int.wrap"),
    "MUL": ("float.round", "int.wrap", "float.subnormal"),
    "SUB": ("float.round", "int.wrap"),
    "NEG": ("float.signed_zero", "int.wrap"),
    "MULACC": ("float.strict",),
    "IDIV": ("int.no_trap",),
    "MOD": ("int.no_trap",),
    "SHL": ("int.no_trap",),
    "SHR": ("int.no_trap",),
    "MAX": ("float.nan",),
    "CMPLT": ("float.nan",),
    "EXP2": ("float.limits",),
    "LOG2": ("float.limits",),
    "SIN": ("float.limits",),
    "POW": ("float.limits",),
    "SQRT": ("float.limits", "float.strict"),
    "RECIP": ("float.limits", "float.strict"),
    "FDIV": ("float.limits", "float.strict"),
}

SIGNED: dict[str, str] = {
    "NEG": "MIN -> MIN; 0 -> 0; 1 -> -1; -1 -> 1; MAX -> MIN+1; MIN+1 -> MAX",
    "ADD": """
        MAX 1 -> MIN; MIN -1 -> MAX; MAX MAX -> -2; MIN MIN -> 0; 1 -1 -> 0; 100 27 -> 127
        -100 -28 -> -128; MIN MAX -> -1; 0 0 -> 0""",
    "SUB": """
        MIN 1 -> MAX; MAX -1 -> MIN; 0 MIN -> MIN; MIN MIN -> 0; MAX MAX -> 0; 3 5 -> -2
        -1 MAX -> MIN; 0 1 -> -1""",
    "MUL": """
        MAX 2 -> -2; MIN -1 -> MIN; MIN 2 -> 0; MAX MAX -> 1; MIN MIN -> 0; -1 -1 -> 1
        11 -11 -> -121; MAX -1 -> MIN+1; MIN MAX -> MIN; 0 MIN -> 0""",
    "IDIV": """
        7 2 -> 3; -7 2 -> -3; 7 -2 -> -3; -7 -2 -> 3; MIN 1 -> MIN; MAX -1 -> MIN+1; 1 MAX -> 0
        -1 2 -> 0; 1 -2 -> 0; MIN MIN -> 1; MIN 2 -> HALFMIN; MAX MIN -> 0; MIN MAX -> -1; 0 -5 -> 0
        -6 3 -> -2; -100 7 -> -14; MIN+1 -1 -> MAX""",
    "MOD": """
        7 3 -> 1; -7 3 -> -1; 7 -3 -> 1; -7 -3 -> -1; 6 3 -> 0; -6 3 -> 0; 6 -3 -> 0; MIN MAX -> -1
        MAX MIN -> MAX; MIN 2 -> 0; 0 5 -> 0; -1 2 -> -1; 1 -2 -> 1; MIN MIN -> 0; -100 7 -> -2
        MAX -1 -> 0""",
    "MAX": "MIN MAX -> MAX; -1 0 -> 0; -5 -3 -> -3; MAX MIN -> MAX; 0 0 -> 0; MIN MIN+1 -> MIN+1",
    "CMPLT": """
        MIN MAX -> True; MAX MIN -> False; -1 0 -> True; 0 -1 -> False; 5 5 -> False; -2 -1 -> True
        MIN MIN+1 -> True""",
    "CMPNE": "MIN MAX -> True; 5 5 -> False; -1 1 -> True; 0 0 -> False; MIN MIN -> False",
    "AND": "-1 5 -> 5; MIN -1 -> MIN; 6 3 -> 2; MIN MAX -> 0; 0 -1 -> 0; -2 3 -> 2",
    "OR": "MIN MAX -> -1; 6 3 -> 7; 0 0 -> 0; -2 1 -> -1; MIN 0 -> MIN",
    "XOR": "-1 MAX -> MIN; 6 3 -> 5; 5 5 -> 0; MIN -1 -> MAX; 0 -1 -> -1",
    "SHL": """
        1 0 -> 1; 1 BITS-1 -> MIN; -1 1 -> -2; MAX 1 -> -2; MIN 1 -> 0; 3 2 -> 12; -1 BITS-1 -> MIN
        0 BITS-1 -> 0; 5 0 -> 5; 1 1 -> 2; 1 BITS -> ?; 1 BITS+1 -> ?; -1 -1 -> ?; MAX MAX -> ?""",
    "SHR": """
        -8 1 -> -4; -1 BITS-1 -> -1; MIN BITS-1 -> -1; MAX 1 -> HALFMAX; MIN 1 -> HALFMIN
        12 2 -> 3; -1 0 -> -1; -7 1 -> -4; 7 1 -> 3; MAX BITS-1 -> 0; 0 3 -> 0
        1 BITS -> ?; -1 BITS+1 -> ?; -1 -1 -> ?; MAX MAX -> ?""",
    "MULACC": """
        2 3 4 -> 10; MAX 1 1 -> MIN; MAX MAX -1 -> 0; MIN -1 0 -> MIN; -5 7 35 -> 0
        0 MIN MAX -> MAX; MIN 1 -1 -> MAX""",
    "WHERE": "True MIN MAX -> MIN; False MIN MAX -> MAX; True 1 -1 -> 1; False 1 -1 -> -1",
}
# Division by zero and MIN / -1: any value, but neither a trap nor a hang.
SIGNED["IDIV"] += "\n 1 0 -> ?; 0 0 -> ?; MIN 0 -> ?; -7 0 -> ?; MIN -1 -> ?"
SIGNED["MOD"] += "\n 1 0 -> ?; 0 0 -> ?; MIN 0 -> ?; -7 0 -> ?; MIN -1 -> ?"

UNSIGNED: dict[str, str] = {
    "NEG": "0 -> 0; 1 -> MAX; MAX -> 1; TOP -> TOP",
    "ADD": "MAX 1 -> 0; MAX MAX -> MAX-1; 200 55 -> 255; 0 0 -> 0; TOP TOP -> 0",
    "SUB": "0 1 -> MAX; 5 3 -> 2; 0 MAX -> 1; TOP TOP -> 0; MAX MAX -> 0; 0 TOP -> TOP",
    "MUL": "MAX MAX -> 1; MAX 2 -> MAX-1; 15 17 -> 255; TOP 2 -> 0; 0 MAX -> 0; TOP 3 -> TOP",
    "IDIV": """
        7 2 -> 3; MAX 1 -> MAX; MAX MAX -> 1; MAX TOP -> 1; TOP 1 -> TOP; 1 MAX -> 0; 200 7 -> 28
        0 MAX -> 0; 1 0 -> ?; 0 0 -> ?; MAX 0 -> ?""",
    "MOD": """
        7 3 -> 1; MAX 2 -> 1; MAX MAX -> 0; 200 7 -> 4; 3 200 -> 3; 0 MAX -> 0; MAX TOP -> HALFMAX
        1 0 -> ?; 0 0 -> ?; MAX 0 -> ?""",
    "MAX": "0 MAX -> MAX; MAX 0 -> MAX; TOP 1 -> TOP; 1 TOP -> TOP; 7 7 -> 7",
    "CMPLT": "0 MAX -> True; MAX 0 -> False; TOP 1 -> False; 1 TOP -> True; 5 5 -> False",
    "CMPNE": "0 MAX -> True; 5 5 -> False; TOP TOP -> False; TOP 0 -> True",
    "AND": "MAX 5 -> 5; TOP MAX -> TOP; 6 3 -> 2; 0 MAX -> 0",
    "OR": "TOP 0 -> TOP; 6 3 -> 7; 0 0 -> 0; MAX 1 -> MAX",
    "XOR": "MAX MAX -> 0; 6 3 -> 5; MAX 0 -> MAX; TOP TOP -> 0",
    "SHL": """
        1 0 -> 1; 1 BITS-1 -> TOP; MAX 1 -> MAX-1; TOP 1 -> 0; 3 2 -> 12; 0 BITS-1 -> 0
        1 BITS -> ?; 1 BITS+1 -> ?; MAX MAX -> ?""",
    "SHR": """
        MAX BITS-1 -> 1; TOP BITS-1 -> 1; MAX 1 -> HALFMAX; 12 2 -> 3; MAX 0 -> MAX; 1 1 -> 0
        MAX BITS -> ?; MAX BITS+1 -> ?; MAX MAX -> ?""",
    "MULACC": "2 3 4 -> 10; MAX 1 1 -> 0; MAX MAX MAX -> 0; 0 MAX 7 -> 7; TOP 2 5 -> 5",
    "WHERE": "True 0 MAX -> 0; False 0 MAX -> MAX; True TOP 1 -> TOP",
    "THREEFRY": """
        0 0 -> 0x99ba4efe6b200159
        0xffffffffffffffff 0xffffffffffffffff -> 0xbb002be71cb996fc
        0x85a308d3243f6a88 0x0370734413198a2e -> 0x483df7a0c4923a9c""",
}

BOOL: dict[str, str] = {
    "AND": "True True -> True; True False -> False; False True -> False; False False -> False",
    "OR": "True True -> True; True False -> True; False True -> True; False False -> False",
    "XOR": "True True -> False; True False -> True; False True -> True; False False -> False",
    "MAX": "True True -> True; True False -> True; False True -> True; False False -> False",
    "CMPLT": "False True -> True; True False -> False; True True -> False; False False -> False",
    "CMPNE": "False True -> True; True False -> True; True True -> False; False False -> False",
    "WHERE": """
        True True False -> True; False True False -> False; True False True -> False
        False False True -> True""",
}

FLOAT: dict[str, str] = {
    "NEG": """
        0 -> -0; -0 -> 0; 1 -> -1; inf -> -inf; -inf -> inf; nan -> nan; SUB -> -SUB
        -LARGEST -> LARGEST""",
    "ADD": """
        1 -1 -> 0; -0 -0 -> -0; 0 -0 -> 0; -0 0 -> 0; inf 1 -> inf; -inf 1 -> -inf; inf inf -> inf
        inf -inf -> nan; nan 1 -> nan; 1 nan -> nan; LARGEST LARGEST -> inf; SUB SUB -> SUB2
        NORMAL -SUB -> LARGESTSUB; SUB -SUB -> 0; 1 HALFULP -> 1; EPS HALFULP -> EPS2; 1 ULP -> EPS
        -LARGEST -LARGEST -> -inf; LARGEST -LARGEST -> 0; 1.5 2.25 -> 3.75; 0 -SUB -> -SUB""",
    "SUB": """
        1 1 -> 0; -0 0 -> -0; 0 0 -> 0; 0 -0 -> 0; inf inf -> nan; inf -inf -> inf; 1 inf -> -inf
        nan 1 -> nan; 1 nan -> nan; NORMAL SUB -> LARGESTSUB; EPS 1 -> ULP; 1.5 2.25 -> -0.75
        LARGEST -LARGEST -> inf; -SUB SUB -> -SUB2""",
    "MUL": """
        inf 0 -> nan; 0 -inf -> nan; -1 0 -> -0; -0 -0 -> 0; LARGEST 2 -> inf; LARGEST -2 -> -inf
        NORMAL 0.5 -> HALFNORMAL; SUB 0.5 -> 0; SUB -0.5 -> -0; SUB 1.5 -> SUB2; SUB3 0.5 -> SUB2
        nan 0 -> nan; 1 nan -> nan; inf -2 -> -inf; 1.5 -2.5 -> -3.75; -inf -inf -> inf
        NORMAL NORMAL -> 0; -NORMAL NORMAL -> -0; LARGEST 1 -> LARGEST""",
    "FDIV": """
        1 0 -> inf; -1 0 -> -inf; 1 -0 -> -inf; 0 0 -> nan; inf inf -> nan; 1 inf -> 0; -1 inf -> -0
        6 3 -> 2; 0 -5 -> -0; inf 2 -> inf; inf -0 -> -inf; nan 1 -> nan; 1 nan -> nan
        NORMAL 2 -> HALFNORMAL; LARGEST 0.5 -> inf; SUB 2 -> 0; SUB3 2 -> SUB2; 7 -2 -> -3.5""",
    "RECIP": """
        1 -> 1; 2 -> 0.5; -4 -> -0.25; 0 -> inf; -0 -> -inf; inf -> 0; -inf -> -0; nan -> nan
        0.5 -> 2""",
    "SQRT": """
        4 -> 2; 0 -> 0; -0 -> -0; inf -> inf; -1 -> nan; -inf -> nan; nan -> nan; 2.25 -> 1.5
        1 -> 1; 0.25 -> 0.5; -SUB -> nan""",
    "EXP2": """
        0 -> 1; -0 -> 1; 1 -> 2; -1 -> 0.5; 3 -> 8; inf -> inf; -inf -> 0; nan -> nan
        LARGEST -> inf; -LARGEST -> 0; SUB -> 1; -7 -> 0.0078125""",
    "LOG2": """
        1 -> 0; 8 -> 3; 0 -> -inf; -0 -> -inf; -1 -> nan; inf -> inf; -inf -> nan; nan -> nan
        0.5 -> -1; -SUB -> nan; 0.0078125 -> -7; -LARGEST -> nan""",
    "SIN": """
        0 -> 0; -0 -> -0; inf -> nan; -inf -> nan; nan -> nan; SUB -> SUB; -SUB -> -SUB
        NORMAL -> NORMAL""",
    "POW": """
        2 0 -> 1; nan 0 -> 1; nan -0 -> 1; inf 0 -> 1; 1 nan -> 1; 1 inf -> 1; 1 -inf -> 1
        -1 inf -> 1; -1 -inf -> 1; 0 -1 -> inf; -0 -1 -> -inf; -0 -2 -> inf; 0 3 -> 0; -0 3 -> -0
        -0 2 -> 0; -0 0.5 -> 0; 0 inf -> 0; 0 -inf -> inf; -0 -inf -> inf; -2 0.5 -> nan; -2 3 -> -8
        2 2 -> 4; 0.5 inf -> 0; 0.5 -inf -> inf; 2 inf -> inf; 2 -inf -> 0; -inf 3 -> -inf
        -inf 2 -> inf; -inf -3 -> -0; -inf -2 -> 0; -inf 0.5 -> inf; inf -1 -> 0; inf 2 -> inf
        nan 1 -> nan; 2 nan -> nan; 2 7 -> 128; -2 2 -> 4; LARGEST 2 -> inf; -LARGEST 3 -> -inf
        LARGEST -3 -> 0; 4 0.5 -> 2; 4 -0.5 -> 0.5""",
    "TRUNC": """
        2.5 -> 2; -2.5 -> -2; 0.5 -> 0; -0.5 -> -0; inf -> inf; -inf -> -inf; nan -> nan; -0 -> -0
        0 -> 0; LARGEST -> LARGEST; SUB -> 0; -SUB -> -0; 7 -> 7; -1.75 -> -1""",
    "MAX": """
        1 2 -> 2; -1 -2 -> -1; inf 1 -> inf; -inf 1 -> 1; 1 -inf -> 1; -inf -inf -> -inf
        LARGEST inf -> inf; SUB 0 -> SUB; -SUB -1 -> -SUB; -LARGEST -inf -> -LARGEST""",
    "CMPLT": """
        nan nan -> False; nan 1 -> False; 1 nan -> False; 0 -0 -> False; -0 0 -> False
        -inf inf -> True; inf inf -> False; 1 2 -> True; 2 1 -> False; -SUB 0 -> True
        0 SUB -> True; -2 -1 -> True; LARGEST inf -> True; -inf nan -> False""",
    "CMPNE": """
        nan nan -> True; nan 1 -> True; 1 nan -> True; 0 -0 -> False; inf inf -> False
        inf -inf -> True; 1 1 -> False; 1 EPS -> True; SUB 0 -> True; SUB -SUB -> True""",
    "MULACC": """
        2 3 4 -> 10; inf 0 1 -> nan; 1 1 -1 -> 0; -1 0 -0 -> -0; -1 0 0 -> 0
        LARGEST 2 -LARGEST -> inf; inf 1 -inf -> nan; 1.5 -2.5 3.75 -> 0
        nan 1 1 -> nan; 1 1 nan -> nan; EPS EPS -EPS2 -> 0
        LARGEST 2 -inf -> nan; 1 HALFULP 1 -> 1""",
    "WHERE": """
        True nan 1 -> nan; False nan 1 -> 1; True -0 0 -> -0; False inf -inf -> -inf
        True SUB 0 -> SUB; False 1 -0 -> -0""",
}

TABLES: dict[Kind, dict[str, str]] = {
    Kind.SIGNED: SIGNED,
    Kind.UNSIGNED: UNSIGNED,
    Kind.BOOL: BOOL,
    Kind.FLOAT: FLOAT,
}


def specials(op: str, dtype: DType) -> tuple[Special, ...]:
    """Return the literal cases of `op` in `dtype`; empty if the op is not defined for its kind."""
    return parse(TABLES[dtype.kind].get(op, ""))
