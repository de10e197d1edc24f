"""Test the memory behind BUFFER nodes."""

import gc

import pytest

from tinyref.device import Buffer, memory
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of, live_buffers, new_buffer_node, set_buffer

F32 = dtypes.float32


def in_use():
    gc.collect()
    return memory.now.get("PYTHON", 0)


def test_each_buffer_node_is_another():
    assert new_buffer_node("PYTHON", 4, F32) is not new_buffer_node("PYTHON", 4, F32)


@pytest.mark.slow
def test_memory_belongs_to_the_node_and_dies_with_it():
    before = in_use()
    node = new_buffer_node("PYTHON", 1000, F32)
    assert buffer_of(node) is buffer_of(node)
    assert in_use() == before
    buffer_of(node).allocate()
    assert in_use() == before + 4000
    assert node in live_buffers()
    view = graph.reshape(node, (10, 100))
    del node
    assert in_use() == before + 4000
    del view
    assert in_use() == before


def test_existing_memory_can_be_put_behind_a_node():
    node = new_buffer_node("PYTHON", 4, F32)
    mine = Buffer("PYTHON", 4, F32)
    set_buffer(node, mine)
    assert buffer_of(node) is mine
    with pytest.raises(UserError, match="must be equal"):
        set_buffer(node, Buffer("PYTHON", 5, F32))
    with pytest.raises(UserError, match="accepted is a BUFFER"):
        set_buffer(graph.reshape(node, (2, 2)), mine)


def test_only_buffers_have_memory():
    with pytest.raises(UserError, match="realise it first"):
        buffer_of(graph.constant(1.0, F32))


def test_a_negative_size_is_refused():
    with pytest.raises(UserError, match="-1"):
        new_buffer_node("PYTHON", -1, F32)
