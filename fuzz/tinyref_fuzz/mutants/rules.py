"""Mutants of rewriting rules and of what rules know: value ranges and linear forms.

Not of what is known behind a gate: only the check of bounds asks for that, so no program changes.
"""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_RULES = "tinyref.algebra.rules"
_SIMPLIFY = ("simplify",)

_mutant = functools.partial(Mutant, kind="rule", module=f"{_RULES}.division", stages=_SIMPLIFY)
MUTANTS = (
    _mutant(
        name="mod-of-mod-any-modulus",
        old="""    if modulus is None or divisor is None or modulus % divisor:
        return None
    return build.mod(x, d)""",
        new="""    if modulus is None or divisor is None:
        return None
    return build.mod(x, d)""",
        resembles="(x % a) % b taken for x % b without asking whether b divides a",
        causes=("mod-of-mod",),
    ),
    _mutant(
        name="div-of-negative-sum",
        old="if divisor is None or bounds(x)[0] < 0 else (linear.exact(x), divisor)",
        new="if divisor is None else (linear.exact(x), divisor)",
        resembles="rules for floor division used on truncating division of negative numbers",
        causes=(
            "div-factor",
            "div-split",
            "div-reduce",
            "mod-terms",
            "mod-factor",
            "mod-inner-mod",
        ),
    ),
    _mutant(
        name="div-nested-wraps",
        old="if first is None or second is None or not holds(node.dtype, first * second):\n"
        "        return None\n    return build.idiv(x, first * second)",
        new="if first is None or second is None:\n"
        "        return None\n    return build.idiv(x, first * second)",
        resembles="two divisors multiplied into one that the type cannot hold",
        causes=("div-nested",),
    ),
    _mutant(
        name="div-minus-one-kept",
        old='    return build.mul(x, -1)\n\n\n@rule("div-same"',
        new='    return x\n\n\n@rule("div-same"',
        resembles="the sign of a negative divisor lost",
        causes=("div-minus-one",),
    ),
    _mutant(
        name="mod-bounds-shifted",
        old="    if quotient != truncating_division(high, divisor):\n        return None",
        new="    if quotient != truncating_division(high - 1, divisor):\n        return None",
        resembles="a remainder dropped although the last value of the range needs it",
        causes=("mod-bounds",),
    ),
    _mutant(
        name="small-rest-touches",
        old="return (quotient, rest) if low >= 0 and high < factor else None",
        new="return (quotient, rest) if low >= 0 and high <= factor else None",
        resembles="an off-by-one in the test that the rest of a division is below the divisor",
        causes=("div-factor", "mod-factor", "lt-factor", "lt-factor-sum"),
    ),
    _mutant(
        name="lt-div-ignores-truncation",
        module=f"{_RULES}.comparison",
        old="bound = divisor * limit if limit > 0 else divisor * (limit - 1) + 1",
        new="bound = divisor * limit",
        resembles="x / c < d solved as if division rounded down",
        causes=("lt-div",),
    ),
    _mutant(
        name="lt-sum-negated-limit",
        module=f"{_RULES}.comparison",
        old="factor, limit = -factor, 1 - limit",
        new="factor, limit = -factor, -limit",
        resembles="a comparison turned round without moving its limit by one",
        causes=("lt-sum",),
    ),
    _mutant(
        name="lt-factor-rounds-down",
        module=f"{_RULES}.comparison",
        old="return build.less(linear.to_node(x.dtype, found[0]), whole + (part > 0))",
        new="return build.less(linear.to_node(x.dtype, found[0]), whole)",
        resembles="a mask's limit divided by a factor and rounded the wrong way",
        causes=("lt-factor",),
    ),
    _mutant(
        name="ne-sum-ignores-factor",
        module=f"{_RULES}.comparison",
        old="    if total.constant % factor:\n        return build.const(node.dtype, True)\n",
        new="",
        resembles="an equation without integer solution rounded into one that has a solution",
        causes=("ne-sum",),
    ),
    _mutant(
        name="tightest-limit-loosened",
        module=f"{_RULES}.boolean",
        old="if known is None or weight < known[0]:",
        new="if known is None or weight > known[0]:",
        resembles="of two limits on one index the looser one kept",
        causes=("bool-join",),
    ),
    _mutant(
        name="where-either-as-both",
        module=f"{_RULES}.select",
        old="return build.where(build.either(p, q), x, y)",
        new="return build.where(build.both(p, q), x, y)",
        resembles="nested selects merged with the wrong connective",
        causes=("where-either",),
    ),
    _mutant(
        name="where-not-unswapped",
        module=f"{_RULES}.select",
        old="return None if inner is None else build.where(inner, y, x)",
        new="return None if inner is None else build.where(inner, x, y)",
        resembles="a branch inverted without exchanging its sides",
        causes=("where-not",),
    ),
    _mutant(
        name="cast-through-narrower",
        module=f"{_RULES}.casts",
        old="return least <= low and high <= most",
        new="return source.bits <= target.bits",
        resembles="int32 to uint64 to float taken for a cast that loses nothing",
        causes=("cast-cast",),
    ),
    _mutant(
        name="cast-wrap-forgotten",
        module=f"{_RULES}.casts",
        old="if not inner.dtype.is_int or inner.dtype.bits < node.dtype.bits:",
        new="if not inner.dtype.is_int:",
        resembles="a cast to int8 and back dropped although it wraps",
        causes=("cast-cast-wrap",),
    ),
    _mutant(
        name="float-mul-minus-one",
        module=f"{_RULES}.floats",
        old='@rule("float-mul-one", commute(Ops.MUL, x, constant(1.0)), when=floating)',
        new='@rule("float-mul-one", commute(Ops.MUL, x, constant(-1.0)), when=floating)',
        resembles="a neutral constant compared by size alone, so that the sign is lost",
        causes=("float-mul-one",),
    ),
    _mutant(
        name="max-offset-unsigned-order",
        module=f"{_RULES}.integer",
        old="return x if left.constant >= right.constant else y",
        new="return x if abs(left.constant) >= abs(right.constant) else y",
        resembles="the larger of x and x + c chosen by the size of c",
        causes=("max-offset",),
    ),
    _mutant(
        name="mask-of-any-ones",
        module=f"{_RULES}.integer",
        old="    return x if low >= 0 and high <= ones else None",
        new="    return x if high <= ones else None",
        resembles="a mask of low bits dropped for a value that may be negative",
        causes=("bit-mask",),
    ),
    _mutant(
        name="mul-bounds-signs",
        kind="value range",
        module="tinyref.algebra.bounds",
        old="    products = (x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1])",
        new="    products = (x[0] * y[0], x[1] * y[1])",
        resembles="the range of a product from its like ends alone, wrong for mixed signs",
        stages=("simplify", "narrow"),
    ),
    _mutant(
        name="range-ends-early",
        kind="value range",
        module="tinyref.algebra.bounds",
        old="    return full(node, sources) if extent is None else (0, max(extent[1] - 1, 0))",
        new="    return full(node, sources) if extent is None else (0, max(extent[1] - 2, 0))",
        resembles="the largest value of a loop counter one too small",
        stages=("simplify", "lower"),
    ),
    _mutant(
        name="remainder-never-negative",
        kind="value range",
        module="tinyref.algebra.bounds",
        old="    low = 0 if x[0] >= 0 else max(x[0], -largest)",
        new="    low = 0",
        resembles="the remainder of a negative number taken for positive",
    ),
    _mutant(
        name="less-touching-ranges",
        kind="value range",
        module="tinyref.algebra.bounds",
        old="    if x[1] < y[0]:\n        return 1, 1\n    return (0, 0) if x[0] >= y[1]",
        new="    if x[1] <= y[0]:\n        return 1, 1\n    return (0, 0) if x[0] >= y[1]",
        resembles="x < y decided where the ranges touch: the one behind the last is inside",
    ),
    _mutant(
        name="and-bound-of-negatives",
        kind="value range",
        module="tinyref.algebra.bounds",
        old="return 0, min(natural)",
        new="return 0, min(x[1], y[1])",
        resembles="the range of x & y from the smaller upper end, also of a negative side",
    ),
    _mutant(
        name="wrapped-range-shifted",
        kind="value range",
        module="tinyref.algebra.bounds",
        old="    if turns != (high - minimum) >> dtype.bits:\n        return minimum, maximum\n",
        new="",
        resembles="the range of a sum that wraps in some cases taken as if it wrapped in all",
    ),
    _mutant(
        name="linear-wraps-unseen",
        kind="linear form",
        module="tinyref.algebra.linear",
        old="""        low, high = self.range
        least, most = dtype_range(dtype)
        return least <= low and high <= most""",
        new="""        low, high = self.range
        least, most = dtype_range(dtype)
        return least <= low""",
        resembles="a sum compared term by term although it may wrap past the type's maximum",
    ),
)
