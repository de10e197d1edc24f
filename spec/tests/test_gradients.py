"""The gradients of the tables, written in closed form, against central differences in float64."""

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
from tinyref_spec.tensor.windows import Sliding, correlate

STEP = 1e-5
FORMS = [
    pytest.param(form, id=f"{function.name}-{number}")
    for function in (*FUNCTIONS, *layers.FUNCTIONS)
    for number, form in enumerate(function.forms)
    # Small integers are for ties, where there is no slope.
    if form.backward is not None and all(item.kind != "small" for item in form.inputs)
]


def _forward(form: Form, arrays: list[Array]) -> Array:
    if form.exact is not None:
        return np.asarray(form.exact(*arrays), dtype=np.float64)
    assert form.forward is not None
    return form.forward(*[bounded.exact(array, dtypes.float64) for array in arrays]).value


def _slopes(form: Form, arrays: list[Array], place: int, weights: Array) -> Array:
    target = arrays[place]
    found = np.zeros(target.shape)
    for index in np.ndindex(target.shape):
        sides = []
        for step in (STEP, -STEP):
            moved = target.copy()
            moved[index] += step
            changed = [*arrays[:place], moved, *arrays[place + 1 :]]
            sides.append(float((_forward(form, changed) * weights).sum()))
        found[index] = (sides[0] - sides[1]) / (2 * STEP)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
def test_closed_form_agrees_with_differences(form: Form) -> None:
    arrays = list(inputs_of(form, dtypes.float64, 1).values())
    weights = np.random.default_rng(2).standard_normal(_forward(form, arrays).shape)
    values = [bounded.exact(array, dtypes.float64) for array in arrays]
    found = form.gradients(bounded.exact(weights, dtypes.float64), *values)
    for place, (item, gradient) in enumerate(zip(form.inputs, found, strict=True)):
        if not item.is_differentiable:
            assert gradient is None
            continue
        assert gradient is not None
        wanted = _slopes(form, arrays, place, weights)
        assert gradient.value.shape == arrays[place].shape
        assert np.allclose(gradient.value, wanted, rtol=1e-6, atol=1e-7)
        assert (gradient.error >= 0).all()
        assert (gradient.error <= 1e-9 * (1 + np.abs(gradient.value).max(initial=0))).all()


def _correlated(x: Array, y: Array, sliding: Sliding, groups: int = 1) -> Array:
    values = [bounded.exact(array, dtypes.float64) for array in (x, y)]
    return correlate(values[0], values[1], sliding, groups).value


@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 1), (1, 0, 2)]
)
def test_convolution_reference_by_definition(stride: int, padding: int, dilation: int) -> None:
    generator = np.random.default_rng(1)
    x, y = generator.standard_normal((2, 2, 7, 6)), generator.standard_normal((3, 2, 3, 2))
    found = _correlated(x, y, Sliding.over((3, 2), stride, dilation, padding))
    padded = np.pad(x, ((0, 0), (0, 0), *[(padding,) * 2] * 2))
    for place in np.ndindex(found.shape):
        batch, output, row, column = place
        total = 0.0
        for channel in range(2):
            for down in range(3):
                for across in range(2):
                    at_row = row * stride + down * dilation
                    at_column = column * stride + across * dilation
                    seen = padded[batch, channel, at_row, at_column]
                    total += seen * y[output, channel, down, across]
        assert found[place] == pytest.approx(total)
