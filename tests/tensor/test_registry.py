"""The registry of values: realising looks at what is not computed, and at no other tensor."""

import pytest

from tinyref import Tensor
from tinyref.tensor import realisation


@pytest.mark.long
def test_realising_looks_at_no_tensor_that_is_in_memory(monkeypatch):
    many = [Tensor([float(i)]).realize() for i in range(50)]
    in_memory = {id(tensor._value) for tensor in many}
    looked_at = set()
    substitute = realisation._substitute

    def noted(values, realised):
        looked_at.update(map(id, values))
        substitute(values, realised)

    monkeypatch.setattr(realisation, "_substitute", noted)
    total = many[0] + many[1]
    total.realize()
    assert id(total._value) in looked_at
    assert not in_memory & looked_at
    # An assignment looks at those that show the memory as well.
    view = many[2].detach()
    before = id(many[2]._value)
    many[2].assign(many[3] * 2).realize()
    assert in_memory & looked_at <= {before}
    assert view.item() == 6.0
    assert many[2].item() == 6.0
