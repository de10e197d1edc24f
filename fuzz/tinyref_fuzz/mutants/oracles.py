"""Mutants of what judges: what ops mean, the evaluator, the interpreter, folding.

Evaluator, folding and interpreter take what an op means from one table. Nothing disagrees with a
wrong semantics there but the spec's own references.
"""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_semantics = functools.partial(
    Mutant, kind="wrong semantics", module="tinyref.algebra.semantics", stages=("semantics",)
)
_row = functools.partial(_semantics, module="tinyref.algebra.op_rows")
_evaluator = functools.partial(
    Mutant,
    kind="evaluator",
    module="tinyref.interpret.view_elements",
    stages=("evaluate",),
)
_interpreter = functools.partial(
    Mutant, kind="interpreter", module="tinyref.interpret.translate", stages=("interpret",)
)

MUTANTS = (
    _semantics(
        name="remainder-floored",
        old="    remainder: Array = floored - ((x < 0) & (floored != 0)) * y\n    return remainder",
        new="    return floored",
        resembles="the remainder of a constant divisor with the divisor's sign, everywhere alike",
        causes=("MOD",),
    ),
    _semantics(
        name="quotient-floored",
        old="    quotient: Array = floor + ((floor < 0) & (remainder != 0))",
        new="    quotient: Array = floor",
        resembles="division rounding down as in Python, in folding, evaluator and interpreter",
        causes=("IDIV",),
    ),
    _semantics(
        name="long-integer-rounded-twice",
        old="    odd = np.where(magnitude >> np.uint64(53) != 0, ",
        new="    odd = np.where(magnitude < 0, ",
        resembles="a 64-bit integer to float16 by way of float64, rounded twice",
        causes=("CAST",),
    ),
    _semantics(
        name="threefry-one-round-less",
        old="    for block in range(5):",
        new="    for block in range(4):",
        resembles="a generator of random numbers with fewer rounds, the same on every device",
        causes=("THREEFRY",),
    ),
    _row(
        name="comparison-with-equal",
        old='    numpy_function("less"),',
        new='    numpy_function("less_equal"),',
        resembles="a comparison that holds for equal operands as well, in the table of all ops",
        causes=("CMPLT",),
    ),
    _evaluator(
        name="evaluator-mask-one-too-wide",
        old="            is_shown = is_shown & (place >= begin) & (place < end)",
        new="            is_shown = is_shown & (place >= begin) & (place <= end)",
        resembles="an oracle that shows one element more than the mask of a padded view has",
    ),
    _evaluator(
        name="evaluator-inner-axes-swapped",
        old="    return found[::-1]",
        new="    return found",
        resembles="an oracle that takes the position of a view of a view column-major",
    ),
    _evaluator(
        name="evaluator-maximum-from-zero",
        module="tinyref.interpret.evaluate",
        old="        lowest = np.array(identity, value.dtype)",
        new="        lowest = np.zeros((), value.dtype)",
        resembles="an oracle whose maximum starts at zero, so that negative numbers are lost",
        causes=("REDUCE",),
    ),
    _interpreter(
        name="interpreter-operands-swapped",
        old="        values[out] = kernel(values[x], values[y])",
        new="        values[out] = kernel(values[y], values[x])",
        resembles="the operands of a binary op in the wrong order, in the interpreter alone",
    ),
    _interpreter(
        name="interpreter-lanes-backward",
        old="            values[out] = np.stack(lanes, axis=-1)",
        new="            values[out] = np.stack(lanes[::-1], axis=-1)",
        resembles="the lanes of a new vector from the last to the first, in the interpreter alone",
    ),
    _semantics(
        name="folded-integer-narrowed",
        old="    return bool(value) if dtype.is_bool else int(value)",
        new="    return bool(value) if dtype.is_bool else int(value.astype(np.int32))",
        resembles="64-bit constants that are folded in 32 bits, though arrays are right",
        causes=("fold",),
    ),
)
