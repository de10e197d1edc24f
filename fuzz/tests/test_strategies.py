"""Strategies of hypothesis draw what the fuzzer draws: valid, replayable, and shrinkable."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinyref.device import Device
from tinyref.interpret.evaluate import view_elements
from tinyref.uops.ops import Ops
from tinyref_fuzz.strategies import kernels, views
from tinyref_spec.kernel_case import KernelCase

FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
SEARCH = settings(
    max_examples=400, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
PYTHON = Device["PYTHON"].capabilities


@FEW
@given(st.data())
def test_a_view_has_its_shape_and_stays_in_its_buffer(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([None, (), (2, 3), (0, 4)]))
    view = data.draw(views(shape))
    assert shape is None or view.shape == shape
    elements, valid = view_elements(view, {})
    assert elements.shape == valid.shape == view.shape
    assert not (elements[valid] < 0).any()
    assert not (elements[valid] >= view.real_size()).any()


@pytest.mark.slow
def test_a_failing_kernel_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    @SEARCH
    @given(kernels(policy="small"))
    def fails(case: KernelCase) -> None:
        assert all(node.op is not Ops.REDUCE for node in case.ast.toposort())

    with pytest.raises(AssertionError) as caught:
        fails()
    notes = "\n".join(caught.value.__notes__)
    assert "= REDUCE " in notes
    assert "= SINK void" in notes
