"""The registry of values: realising looks at what is not computed, and at no other tensor."""

import gc

import numpy as np
import pytest

from tinyref import Tensor
from tinyref.tensor import realisation
from tinyref.tensor.core import registry
from tinyref.tensor.registry import shown_numbers


@pytest.mark.long
def test_computed_tensors_are_not_pending():
    gc.collect()
    before = len(registry.pending())
    x = Tensor(np.arange(6)).realize()
    total, constant = x.sum(), Tensor.ones(3)
    assert len(registry.pending()) == before + 1
    total.realize()
    assert len(registry.pending()) == before
    (number,) = shown_numbers(x.node)
    assert [value.tensor for value in registry.showing(number)] == [x]
    assert shown_numbers(constant.node) == ()
    del x, total
    assert registry.showing(number) == []
    assert registry.count_showing(number) == 0


def test_views_and_assignments_show_their_memory():
    x = Tensor(np.arange(6)).realize()
    (number,) = shown_numbers(x.node)
    turned, part = x.reshape(2, 3).T, x[1:3].detach()
    assert {id(value.tensor) for value in registry.showing(number)} == set(
        map(id, (x, turned, part))
    )
    del turned, part
    x.assign(x + 1)
    # The value from before, which a failed assignment gives back, has no tensor.
    tensors = [value.tensor for value in registry.showing(number)]
    assert [tensor for tensor in tensors if tensor is not None] == [x]


def test_what_shows_memory_has_changed_though_as_many_do():
    x = Tensor(np.arange(6)).realize()
    (number,) = shown_numbers(x.node)
    view = x.flip(0)
    moments = registry.moments([number, -1])
    assert moments[-1] is None
    assert not registry.has_changed(moments)
    del view
    gc.collect()
    assert not registry.has_changed(moments)
    copy = x * 1
    assert registry.count_showing(number) == 2
    assert registry.has_changed(moments)
    assert not registry.has_changed(registry.moments([number]))
    del copy, x
    assert registry.has_changed(moments)


def test_memory_has_changed_where_a_view_was_computed_in_memory_of_its_own():
    x = Tensor(np.arange(7)).realize()
    (number,) = shown_numbers(x.node)
    view = x[::2]
    moments = registry.moments([number])
    view.realize()
    assert shown_numbers(view.node) != (number,)
    assert registry.has_changed(moments)


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
