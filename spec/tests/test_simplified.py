"""Expressions that a compiler simplifies: which rules they meet, and that a wrong one is seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tinyref.algebra.rewrite import counting_rules
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref_fuzz.judge.caches import forget
from tinyref_spec.isa.simplified import INTEGERS, SIGNED, in_order, simplified

# What nothing else of the quick suite meets.
MET = [
    "lt-same",
    "ne-same",
    "lt-max",
    "ne-add",
    "ne-div",
    "ne-cast-bool-one",
    "lt-cast-bool",
    "div-minus-one",
    "mod-same",
    "int-mul-regroup",
    "bit-xor-same",
    "bit-zero",
    "bit-ones",
    "bit-and-zero",
    "bit-and-and",
    "bit-or-or",
    "bit-xor-xor",
    "shift-zero",
    "max-same",
    "max-max",
    "max-again",
    "where-same",
    "float-sub-zero",
    "float-neg-neg",
    "float-sub-neg",
    "float-trunc-trunc",
]


@pytest.mark.long
def test_the_rules_that_no_other_row_meets_fire_on_them():
    capabilities = Device["PYTHON"].capabilities
    forget()
    with counting_rules() as fired:
        for operation in simplified():
            compile_kernel(operation.kernel, capabilities, opts=())
    assert set(MET) - fired.keys() == set()


def test_values_are_those_of_the_operations_in_order():
    x, y = np.array([-7, 5, 2**31 - 1], np.int32), np.array([2, -3, 1], np.int32)

    def owed(name: str) -> list[int]:
        return in_order({**INTEGERS, **SIGNED}[name], dtypes.int32, [x, y]).values.tolist()

    # Quotients are truncated, and products wrap before they are divided.
    assert owed("quotient_below_zero") == [True, False, False]
    assert owed("quotient_of_multiple") == [-14, 10, -2]
    assert owed("negative_quotient_other_than_zero") == [True, True, True]
    assert owed("negative_quotient_below") == [False, True, True]
    assert owed("sum_of_constants") == [193, 205, -(2**31) + 199]
    # What one operation leaves open, nobody owes.
    by_itself = in_order(INTEGERS["quotient_by_itself"], dtypes.int32, [x * 0, y])
    assert by_itself.specified is not None
    assert not by_itself.specified.any()


def test_each_is_a_row_of_its_own():
    ids = [each.id for each in simplified()]
    assert len(ids) == len(set(ids)) == 2 * len(INTEGERS) + len(SIGNED) + 12
    assert all(dataclasses.is_dataclass(each) for each in simplified())
