"""Rows of the suite on the device of the least capabilities: all that it lacks is decomposed."""

from __future__ import annotations

import pytest
from run_rows import failures

from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest

CORE = "tinyref_fuzz.judge.devices:Core"
# One case of this many is run.
EVERY = 13
QUERIES = (
    "isa.unary.*",
    "isa.binary.*",
    "isa.ternary.*",
    "isa.cast.*,isa.bitcast.*",
    "kernel.elements.*,kernel.store.*,kernel.view.*",
    "kernel.reduce.*",
)


@pytest.mark.long
@pytest.mark.parametrize("query", QUERIES)
def test_rows_pass_where_ops_and_types_are_decomposed(query: str) -> None:
    cases = list(catalogue.cases(Profile.QUICK, query))[::EVERY]
    assert failures(DeviceUnderTest(CORE), cases) == {}
