"""Devices that contract or reassociate: decompositions take forms that survive it.

LLVM does here what it may with the flags that a device declares to have.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from decomposed import Array, decomposed, random_bits, run, same, size, ulps
from elementwise_programs import run_cases

from tests.codegen.test_decompose_elementary import BASIC, ELEMENTARY, call, inputs_of, reference
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

REASSOCIATING = dataclasses.replace(BASIC, reassociates_floats=True)
# The limits of the suite, as tight as observed, except for POW: tinyref_spec.error_rules.
LIMITS = {Ops.EXP2: 1.2, Ops.LOG2: 1.5, Ops.SIN: 2.5, Ops.POW: 512.0}


def computed(op: Ops, device: str, inputs: list[Array]) -> Array:
    cases = [(lambda *x: UOp(op, dtypes.float32, x), [(x, dtypes.float32) for x in inputs])]
    (actual,) = run_cases(cases, f"relaxed_devices:{device}")
    return actual


@pytest.mark.long
@pytest.mark.parametrize("op", ELEMENTARY)
@pytest.mark.parametrize("device", ["ContractingCpu", "ReassociatingCpu"])
def test_functions_stay_within_their_limits(op: Ops, device: str) -> None:
    inputs = inputs_of(op, 4000)
    errors = ulps(computed(op, device, inputs), reference(op, inputs))
    assert float(errors.max()) <= LIMITS[op]


@pytest.mark.parametrize("op", [Ops.EXP2, Ops.POW])
def test_the_strict_forms_do_not_survive(op: Ops) -> None:
    inputs = inputs_of(op, 500)
    errors = ulps(computed(op, "SecretlyReassociatingCpu", inputs), reference(op, inputs))
    assert float(errors.max()) > 1e6


@pytest.mark.parametrize("op", ELEMENTARY)
def test_where_nothing_is_rearranged_the_other_forms_are_as_good(op: Ops) -> None:
    inputs = inputs_of(op, 20_000)
    actual = run(call(op, dtypes.float32), inputs, REASSOCIATING)
    errors = ulps(actual, reference(op, inputs))
    assert float(errors.max()) <= 1.9
    # The form of LOG2 is the only one: nothing in it may be rearranged.
    if op is Ops.LOG2:
        assert same(actual, run(call(op, dtypes.float32), inputs, BASIC))


@pytest.mark.parametrize("form", [dtypes.float32, dtypes.float64], ids=lambda dtype: dtype.name)
def test_powers_of_two_are_exact_and_subnormal_ones_too(form) -> None:
    least = int(np.log2(np.finfo(form.name).smallest_subnormal))
    most = int(np.finfo(form.name).maxexp)
    exponents = np.arange(least - 3, most + 2).astype(form.name)
    actual = run(call(Ops.EXP2, form), [exponents], REASSOCIATING)
    with np.errstate(over="ignore", under="ignore"):
        assert same(actual, np.ldexp(np.ones_like(exponents), exponents.astype(np.int64)))
    ends = np.array([-np.inf, np.inf, np.nan, -0.0, 1e30, -1e30], form.name)
    gives = run(call(Ops.EXP2, form), [ends], REASSOCIATING)
    assert same(gives, np.array([0, np.inf, np.nan, 1, np.inf, 0], form.name))


def test_a_power_has_the_sign_of_its_base_for_an_odd_exponent() -> None:
    y = np.array([3, 2, -3, 2.0**23 + 1, 2.0**23 - 1, 2.0**24, np.inf, 1e30], np.float32)
    x = np.full_like(y, -1)
    actual = run(call(Ops.POW, dtypes.float32), [x, y], REASSOCIATING)
    assert actual.tolist() == [-1, 1, -1, -1, -1, 1, 1, 1]
    actual = run(
        call(Ops.POW, dtypes.float32), [x[:2], np.array([0.5, 2.0**22 + 0.5], "f4")], BASIC
    )
    assert np.isnan(actual).all()


def test_a_strict_device_keeps_the_smaller_form() -> None:
    value = call(Ops.EXP2, dtypes.float32)
    assert size(decomposed(value, BASIC)) < size(decomposed(value, REASSOCIATING)) <= 60


def test_quotients_and_roots_without_an_op_stay_exact() -> None:
    """They are corrected by integers: what a compiler does to the first guess does not matter."""
    lacking = dataclasses.replace(REASSOCIATING, ops=REASSOCIATING.ops - {"FDIV", "SQRT", "RECIP"})
    x, y = random_bits(dtypes.float32, 5000, 1), random_bits(dtypes.float32, 5000, 2)
    with np.errstate(all="ignore"):
        value = UOp(Ops.FDIV, dtypes.float32, call(Ops.POW, dtypes.float32).src)
        assert same(run(value, [x, y], lacking), x / y)


@pytest.mark.long
def test_int64_on_words_is_exact_where_floats_are_rearranged() -> None:
    random = np.random.default_rng(3)
    x = random.integers(-(2**63), 2**63 - 1, 4000)
    y = random.integers(-(2**31), 2**31, 4000) | 1
    cases = [(build.idiv, [(x, dtypes.int64), (y, dtypes.int64)])]
    (actual,) = run_cases(cases, "relaxed_devices:ReassociatingWords")
    for dividend, divisor, quotient in zip(
        *(item.tolist() for item in (x, y, actual)), strict=True
    ):
        sign = 1 if (dividend < 0) == (divisor < 0) else -1
        assert quotient == sign * (abs(dividend) // abs(divisor))
