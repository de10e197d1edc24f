"""Mutants of decompositions and of the choice of index types."""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_DECOMPOSE = "tinyref.codegen.decompose"
_STAGES = ("decompose",)
_CORE = "tinyref_fuzz.judge.devices:Core"
_SLOW_DIVISION = "tinyref_fuzz.judge.devices:SlowDivision"

_mutant = functools.partial(
    Mutant,
    kind="decomposition",
    module=f"{_DECOMPOSE}.int64_emulation",
    stages=_STAGES,
    device=_CORE,
)
MUTANTS = (
    _mutant(
        name="division-multiplier-rounded-down",
        module=f"{_DECOMPOSE}.constant_division",
        old="    return Multiplier(high, shift)",
        new="    return Multiplier(low, shift)",
        resembles="magic number of a division too small: wrong for multiples of the divisor",
        device=_SLOW_DIVISION,
    ),
    _mutant(
        name="shifted-quotient-rounds-down",
        module=f"{_DECOMPOSE}.constant_division",
        old="    return shift_right(add(x, more), count)",
        new="    return shift_right(x, count)",
        resembles="a signed division by a power of two as a plain arithmetic shift",
        device=_SLOW_DIVISION,
    ),
    _mutant(
        name="negative-divisor-sign-lost",
        module=f"{_DECOMPOSE}.constant_division",
        old="    return quotient if divisor > 0 else mul(quotient, -1)",
        new="    return quotient",
        resembles="division by a negative constant computed with its size alone",
        device=_SLOW_DIVISION,
    ),
    _mutant(
        name="carry-lost",
        old="    return low, add(add(x[1], y[1]), carry)",
        new="    return low, add(x[1], y[1])",
        resembles="a 64-bit sum as two 32-bit sums without the carry",
    ),
    _mutant(
        name="signed-compare-of-low-words",
        old="    return either(less(*high), both(equal(x[1], y[1]), less(x[0], y[0])))",
        new="    return either(less(*high), less(x[0], y[0]))",
        resembles="a 64-bit comparison whose low words count although the high ones decide",
    ),
    _mutant(
        name="far-shift-keeps-bits",
        old="    return where(is_far, moved, joined), where(is_far, fill, moved)",
        new="    return where(is_far, moved, joined), moved",
        resembles="a 64-bit shift by 32 or more leaves the high word in place",
    ),
    _mutant(
        name="round-half-up",
        module=f"{_DECOMPOSE}.formats",
        old="    return shift_right(add(add(value, half_less_one), odd), count)",
        new="    return shift_right(add(add(value, half_less_one), one), count)",
        resembles="conversion to a small float rounds ties up instead of to even",
    ),
    _mutant(
        name="subnormals-of-small-floats-lost",
        module=f"{_DECOMPOSE}.small_floats",
        old="    return where(is_subnormal, subnormal, normal)",
        new="    return where(is_subnormal, 0, normal)",
        resembles="float16 results below the smallest normal number flushed to zero",
    ),
    _mutant(
        name="maximum-becomes-minimum",
        module=f"{_DECOMPOSE}.missing",
        old="    return where(less(left, right), right, left)",
        new="    return where(less(left, right), left, right)",
        resembles="the sides of a select exchanged: a maximum becomes a minimum",
        device=_SLOW_DIVISION,
    ),
    _mutant(
        name="guard-replaces-quotient",
        module=f"{_DECOMPOSE}.division",
        old="    result = binary(node.op, dividend, where(traps, 1, divisor))",
        new="    result = binary(node.op, dividend, where(traps, divisor, 1))",
        resembles="a guard against division by zero with its sides exchanged",
    ),
    _mutant(
        name="middle-product-dropped",
        old="    return mul(x[0], y[0]), add(add(high, mul(x[0], y[1])), mul(x[1], y[0]))",
        new="    return mul(x[0], y[0]), add(high, mul(x[0], y[1]))",
        resembles="one of the cross products of a 64-bit multiplication forgotten",
    ),
    _mutant(
        name="index-always-int32",
        kind="index type",
        module="tinyref.codegen.narrow",
        old="    fits = dtypes.int32.minimum <= least and most <= dtypes.int32.maximum",
        new="    fits = True",
        resembles="index arithmetic in int32 although an intermediate value is beyond it",
        stages=("narrow",),
        device="PYTHON",
    ),
    _mutant(
        name="identity-of-max-is-zero",
        kind="accumulation",
        module="tinyref.codegen.accumulate",
        old="    start = build.const(node.dtype, reduce_identity(op, node.dtype))",
        new="    start = build.const(node.dtype, 1 if op is Ops.MUL else 0)",
        resembles="a maximum that starts at 0, wrong where all elements are negative",
        stages=("accumulate",),
        device="PYTHON",
    ),
    _mutant(
        name="product-accumulated-as-maximum",
        kind="accumulation",
        module="tinyref.codegen.accumulate",
        old="    total = UOp(op, node.dtype, (accumulator, value))",
        new="    total = UOp(Ops.MAX if op is Ops.MUL else op, node.dtype, (accumulator, value))",
        resembles="a product of elements accumulated with the wrong operation",
        stages=("accumulate",),
        device="PYTHON",
    ),
    _mutant(
        name="tile-products-restart",
        kind="accumulation",
        module="tinyref.codegen.accumulate",
        old="        chain.append(chain[-1].src[2])\n    if not _is_zero",
        new="        chain[:] = [chain[-1].src[2]]\n    if not _is_zero",
        resembles="of several chained matrix tiles only the last one added up",
        stages=("accumulate",),
        device="PYTHON",
    ),
)
