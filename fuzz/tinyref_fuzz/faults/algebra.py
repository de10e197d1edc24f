"""Faults of the op table, of rewriting rules, and of decompositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tinyref.algebra.bounds import bounds, interval
from tinyref.algebra.op_table import Kernel, Range, RangeRule, Semantics
from tinyref.arrays import Array, np
from tinyref.codegen.decompose.formats import like, shift_left, shift_right
from tinyref.codegen.decompose.integer_division import Multiplier
from tinyref.codegen.decompose.wide_integers import Words
from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref_fuzz.faults.fault import fault
from tinyref_fuzz.faults.seams import edited, function, op_row, rule

_DECOMPOSE = "tinyref.codegen.decompose"
_of_core = partial(fault, "decomposition", device="tinyref_fuzz.judge.devices:Core")
_of_division = partial(fault, "decomposition", device="tinyref_fuzz.judge.devices:SlowDivision")


def _constant(node: UOp) -> int | None:
    return int(node.arg.value) if isinstance(node.arg, ConstArg) else None


# --- the op table ---------------------------------------------------------------------------------


@fault("wrong semantics", op_row(Ops.MOD, "semantics"), "semantics", causes=["MOD"])
def remainder_floored(right: Semantics) -> Semantics:
    """Give the remainder the sign of the divisor, in folding, evaluator and interpreter alike."""

    def semantics(dtype: DType, sources: Sequence[DType]) -> Kernel:
        def floored(x: Array, y: Array) -> Array:
            rest = right(dtype, sources)(x, y)
            return np.where((rest != 0) & ((x < 0) != (y < 0)), rest + y, rest)

        return floored

    return semantics


@fault("value range", op_row(Ops.MUL, "value_range"), "simplify", "narrow")
def mul_bounds_signs(right: RangeRule) -> RangeRule:
    """Compute the range of a product only from the like ends of its operands."""

    def ends(x: Range, y: Range) -> Range:
        products = (x[0] * y[0], x[1] * y[1])
        return min(products), max(products)

    return interval(ends)


@fault("value range", op_row(Ops.RANGE, "value_range"), "simplify", "lower", "expand")
def range_ends_early(right: RangeRule) -> RangeRule:
    """Assume that the largest value of a loop counter is one less."""
    return interval(lambda extent: (0, max(extent[1] - 2, 0)))


# --- rules ----------------------------------------------------------------------------------------


@fault("rule", rule("mod-of-mod"), "simplify", causes=["mod-of-mod"])
def mod_of_mod_any_modulus(x: UOp, d: UOp) -> UOp:
    """Replace (x % a) % b by x % b, without checking that b divides a."""
    return build.mod(x, d)


@fault("rule", rule("div-minus-one"), "simplify", causes=["div-minus-one"])
def div_minus_one_kept(x: UOp) -> UOp:
    """Lose the sign of a negative divisor."""
    return x


@fault("rule", rule("lt-div"), "simplify", causes=["lt-div"])
def lt_div_ignores_truncation(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """Solve x / c < d as if division rounded down."""
    divisor, limit = _constant(c), _constant(d)
    return None if limit is None or not divisor or divisor < 0 else build.less(x, divisor * limit)


@fault("rule", rule("where-not"), "simplify", causes=["where-not"])
def where_not_unswapped(p: UOp, x: UOp, y: UOp) -> UOp | None:
    """Invert a condition without exchanging its two values."""
    is_negated = p.op is Ops.CMPNE and p.src[1] is build.const(p.dtype, True)
    return build.where(p.src[0], x, y) if is_negated else None


@fault("rule", rule("bit-mask"), "simplify", causes=["bit-mask"])
def mask_of_any_ones(x: UOp, c: UOp) -> UOp | None:
    """Drop a mask of low bits from a value that may be negative."""
    ones = _constant(c)
    is_mask = ones is not None and ones > 0 and ones & (ones + 1) == 0
    return x if is_mask and ones is not None and bounds(x)[1] <= ones else None


# --- decompositions -------------------------------------------------------------------------------


@_of_core(function(f"{_DECOMPOSE}.wide_integers:plus"), "decompose")
def carry_lost(right: object) -> Callable[[Words, Words], Words]:
    """Add words of 32 bits without the carry."""
    return lambda x, y: (build.add(x[0], y[0]), build.add(x[1], y[1]))


@_of_core(function(f"{_DECOMPOSE}.small_floats:round_off"), "decompose")
def round_half_up(right: object) -> Callable[[UOp, UOp], UOp]:
    """Round ties up instead of to even, when converting to a small float."""

    def round_off(value: UOp, count: UOp) -> UOp:
        half = shift_left(like(value, 1), build.add(count, -1))
        return shift_right(build.add(value, half), count)

    return round_off


@_of_division(function(f"{_DECOMPOSE}.integer_division:multiplier"), "decompose")
def division_multiplier_rounded_down(right: object) -> Callable[..., Multiplier]:
    """Use a magic number that is too small for multiples of the divisor."""

    def multiplier(divisor: int, width: int, precision: int) -> Multiplier:
        shift = (divisor - 1).bit_length()
        return Multiplier((1 << (width + shift)) // divisor, shift)

    return multiplier


@_of_division(function(f"{_DECOMPOSE}:divide_by_constants"), "decompose")
def negative_divisor_sign_lost(right: Callable[..., UOp]) -> Callable[..., UOp]:
    """Divide by the absolute value of a negative constant."""

    def edit(node: UOp) -> UOp | None:
        divisor = _constant(node.src[1]) if node.op is Ops.IDIV else None
        return None if divisor is None else build.idiv(node.src[0], abs(divisor))

    return lambda root, capabilities: right(edited(root, edit), capabilities)
