"""Rows of constant operands: a device that computes in a wider type is seen."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.uops.ops import Ops
from tinyref_spec import oracles
from tinyref_spec.bits import Array
from tinyref_spec.isa import constants


def wider(form: constants.Form, value: float, values: Array) -> Array:
    """Compute in float64 with a float32 and a decimal, and round at the end."""
    op, position = form
    wide = [values.astype(np.float64)]
    wide.insert(position, np.full(values.size, value))
    result = oracles.evaluate(op.name, dtypes.float64, wide).values
    with np.errstate(over="ignore"):
        return result if result.dtype == bool else result.astype(np.float32)


# What is chosen is rounded once, like what is stored.
COMPUTING = [form for form in constants.FLOAT_FORMS if form[0] not in (Ops.MAX, Ops.WHERE)]


@pytest.mark.parametrize("form", COMPUTING)
def test_a_wider_constant_gives_other_bits(form: constants.Form) -> None:
    values = constants._loaded(form, dtypes.float32)
    differing = []
    for value in (0.1, 0.7, 1 / 3):
        right = constants._reference(form, dtypes.float32, value, [values]).values
        differing.append(bool((wider(form, value, values) != right).any()))
    assert any(differing)
