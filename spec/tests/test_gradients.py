"""Gradients in closed form of what torch has not, against central differences in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.model import layers
from tinyref_spec.tensor.forms import Form
from tinyref_spec.tensor.rows import FUNCTIONS
from tinyref_spec.tensor.run import inputs_of

STEP = 1e-5
FORMS = [
    pytest.param(form, id=f"{function.name}-{number}")
    for function in (*FUNCTIONS, *layers.FUNCTIONS)
    for number, form in enumerate(function.forms)
    if form.has_gradient and form.no_torch
]


def _forward(form: Form, arrays: list[Array]) -> Array:
    if form.exact is not None:
        return np.asarray(form.exact(*arrays), dtype=np.float64)
    assert form.forward is not None
    return form.forward(*[bounded.exact(array, dtypes.float64) for array in arrays]).value


def _slopes(form: Form, arrays: list[Array], place: int, weights: Array) -> Array:
    target = arrays[place]
    slopes = np.zeros(target.shape)
    for index in np.ndindex(target.shape):
        sides = []
        for step in (STEP, -STEP):
            moved = target.copy()
            moved[index] += step
            changed = [*arrays[:place], moved, *arrays[place + 1 :]]
            sides.append(float((_forward(form, changed) * weights).sum()))
        slopes[index] = (sides[0] - sides[1]) / (2 * STEP)
    return slopes


@pytest.mark.parametrize("form", FORMS)
def test_closed_form_agrees_with_differences(form: Form) -> None:
    arrays = list(inputs_of(form, dtypes.float64, 1).values())
    weights = np.random.default_rng(2).standard_normal(_forward(form, arrays).shape)
    values = [bounded.exact(array, dtypes.float64) for array in arrays]
    gradients = form.gradients(bounded.exact(weights, dtypes.float64), *values)
    for index, (item, gradient) in enumerate(zip(form.inputs, gradients, strict=True)):
        if not item.is_differentiable:
            assert gradient is None
            continue
        assert gradient is not None
        expected = _slopes(form, arrays, index, weights)
        assert gradient.value.shape == arrays[index].shape
        assert np.allclose(gradient.value, expected, rtol=1e-6, atol=1e-7)
        assert (gradient.error >= 0).all()
        assert (gradient.error <= 1e-9 * (1 + np.abs(gradient.value).max(initial=0))).all()
