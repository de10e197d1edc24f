"""Rows of two float operations, and the limits of devices that contract or reassociate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.dtype import dtypes
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Bounded, SameBits, Ulp, reassociated
from tinyref_spec.isa.elementwise import row_of
from tinyref_spec.isa.rows import alu_operations
from tinyref_spec.isa.sequences import sequences
from tinyref_spec.oracles import Expected

OPERATIONS = {operation.id.removeprefix("isa.sequence."): operation for operation in sequences()}
OPERATIONS |= {operation.id: operation for operation in alu_operations()}
STRICT = Capabilities(CORE_DTYPES, CORE_OPS)
CONTRACTING = Capabilities(CORE_DTYPES, CORE_OPS, contracts_floats=True)
FLUSHING = Capabilities(CORE_DTYPES, CORE_OPS, keeps_subnormals=False)
FLUSHING_HALVES = replace(FLUSHING, dtypes=CORE_DTYPES | {dtypes.float16})
REASSOCIATING = Capabilities(CORE_DTYPES, CORE_OPS, reassociates_floats=True)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def allows(name: str, capabilities: Capabilities, inputs: list[np.ndarray], actual: float) -> bool:
    """Return True if the row accepts a result of a device with these capabilities."""
    operation = OPERATIONS[name]
    strict = operation.reference(inputs)
    expected, rule = operation.expectation(capabilities, inputs, strict, operation.rule)
    good = rule.judge(f32(actual), expected).good
    return bool((good | ~_specified(expected)).all())


def _specified(expected: Expected) -> np.ndarray:
    specified = expected.specified
    return np.ones(expected.values.shape, np.bool_) if specified is None else specified


@pytest.mark.parametrize(
    ("name", "inputs", "actual", "allowed_by"),
    [
        # (1 + e)(1 - e) - 1: 0 where the product rounds, else -e * e.
        ("product_sum.float32", (1 + 2**-13, 1 - 2**-13, -1), 0.0, "strict contract reassociate"),
        ("product_sum.float32", (1 + 2**-13, 1 - 2**-13, -1), -(2.0**-26), "contract reassociate"),
        ("product_sum.float32", (1 + 2**-13, 1 - 2**-13, -1), 2.0**-20, ""),
        ("product_sum.float32", (2, 3, 4), 11.0, ""),
        ("sum_difference.float32", (2**-13, 2**20), 0.0, "strict contract reassociate"),
        ("sum_difference.float32", (2**-13, 2**20), 2.0**-13, "reassociate"),
        ("constant_difference.float32", (0.25,), 3.0, ""),
        ("times_zero.float32", (math.inf,), math.nan, "strict contract reassociate"),
        ("times_zero.float32", (math.inf,), 0.0, "reassociate"),
        ("times_zero.float32", (2,), 1.0, ""),
    ],
)
def test_each_declaration_allows_what_it_says_and_no_more(
    name: str, inputs: tuple[float, ...], actual: float, allowed_by: str
) -> None:
    columns = [f32(value) for value in inputs]
    devices = {"strict": STRICT, "contract": CONTRACTING, "reassociate": REASSOCIATING}
    accepting = [
        word for word, declared in devices.items() if allows(name, declared, columns, actual)
    ]
    assert accepting == allowed_by.split()


@pytest.mark.long
@pytest.mark.parametrize(
    ("device", "name", "passes"),
    [
        ("ContractingCpu", "product_sum", True),
        ("SecretlyContractingCpu", "product_sum", False),
        ("ReassociatingCpu", "sum_difference", True),
        ("SecretlyReassociatingCpu", "sum_difference", False),
    ],
)
def test_a_compiler_that_rearranges_is_caught_unless_it_says_so(
    device: str, name: str, passes: bool
) -> None:
    tested = DeviceUnderTest(f"relaxed_devices:{device}")
    row = row_of(OPERATIONS[f"{name}.float32"])
    cases = [case for case in row.cases(Profile.QUICK) if not case.needs.unmet(tested.capabilities)]
    assert len(cases) >= 3
    assert all(case.run(tested).passed for case in cases) == passes


def test_zeros_lose_their_signs_and_differences_from_one_a_rounding() -> None:
    zero = Expected(f32(0.0))
    assert not Ulp(0).judge(f32(-0.0), zero).good.all()
    assert reassociated(Ulp(0)).judge(f32(-0.0), zero).good.all()
    small = Expected(f32(1e-9), tolerance=np.zeros(1), wide=np.array([1e-9]))
    assert not Bounded().judge(f32(2e-9), small).good.all()
    assert reassociated(Bounded()).judge(f32(2e-9), small).good.all()
    assert not reassociated(Bounded()).judge(f32(1e-6), small).good.all()
    assert reassociated(SameBits()) == SameBits()


LEAST = 2.0**-126
NEXT = LEAST + 2.0**-149


@pytest.mark.parametrize(
    ("name", "inputs", "flushed"),
    [
        # The product, -2**-134, and the difference of both, 2**-149, are subnormal.
        ("product_sum.float32", (LEAST, -(2.0**-8), -LEAST), -LEAST),
        ("sum_difference.float32", (LEAST, -NEXT), NEXT),
    ],
)
def test_a_device_that_flushes_may_flush_what_is_between_two_operations(
    name: str, inputs: tuple[float, ...], flushed: float
) -> None:
    columns = [f32(value) for value in inputs]
    assert allows(name, FLUSHING, columns, flushed)
    assert not allows(name, STRICT, columns, flushed)
    ordinary = [f32(value) for value in (3, 4, 5)[: len(columns)]]
    assert not allows(name, FLUSHING, ordinary, flushed)


def test_a_device_that_flushes_may_look_before_it_rounds() -> None:
    """2**-126 * (1 - 2**-24) is subnormal, and the smallest normal number once it is rounded."""
    product = [f32(LEAST), f32(1 - 2.0**-24)]
    assert allows("isa.binary.mul.float32", FLUSHING, product, 0.0)
    assert not allows("isa.binary.mul.float32", STRICT, product, 0.0)
    assert allows("isa.binary.mul.float32", STRICT, product, LEAST)
    assert not allows("isa.binary.mul.float32", FLUSHING, [f32(LEAST), f32(1)], 0.0)
