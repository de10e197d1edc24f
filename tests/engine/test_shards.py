"""Test random tensor graphs on several devices against numpy, in layouts of all kinds."""

from random import Random

import numpy as np
import pytest
import random_tensors

from tinyref import Context
from tinyref.dtype import from_numpy_dtype
from tinyref.engine import realize
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of
from tinyref.lazy.multi import build
from tinyref.lazy.shards import gather_to, layout_of, place_in_layout
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ShardArg

DEVICES = ("CPU", "CPU:1", "CPU:2", "CPU:3")


def put(array):
    node = graph.new_buffer("CPU", array.shape, from_numpy_dtype(array.dtype))
    if array.size:
        memory = buffer_of(graph.backing(node))
        memory.copy_in(memoryview(np.ascontiguousarray(array)).cast("B"))
    # Views stay views of this node, which identifies the leaves.
    return graph.detach(node)


def get(node):
    value = graph.uniform_value(node)
    if value is not None or 0 in graph.shape_of(node):
        return np.full(graph.shape_of(node), value or 0, np.int32)
    values = np.frombuffer(buffer_of(graph.backing(node)).copy_out(), np.int32)
    return values[: np.prod(graph.shape_of(node), dtype=int)].reshape(graph.shape_of(node))


def random_layout(random, shape, devices):
    """Return a layout: whole on each device, or split along an axis into parts of any sizes."""
    if not shape or random.random() < 0.2:
        return ShardArg(devices)
    axis = random.randrange(len(shape))
    cuts = sorted(random.randint(0, shape[axis]) for _ in devices[1:])
    ends = [*cuts, shape[axis]]
    sizes = tuple(end - begin for begin, end in zip([0, *cuts], ends, strict=True))
    return ShardArg(devices, axis, sizes)


def distributed(root, leaves):
    """Return the graph of `root`, rebuilt with the leaves on several devices."""
    new = dict(leaves)
    for node in root.toposort():
        if node in new:
            continue
        sources = [new[source] for source in node.src]
        new[node] = build(node.op, node.arg, node.dtype, sources) if sources else node
    return new[root]


def check(seed, steps, count=4):
    random = Random(seed)
    generator = random_tensors.Generator(random, put)
    for _ in range(random.randint(1, steps)):
        generator.grow()
    devices = DEVICES[:count]
    leaves = {
        node: place_in_layout(node, random_layout(random, array.shape, devices))
        for node, array in generator.leaves
    }
    node, array = generator.values[-1]
    multi = distributed(node, leaves)
    if multi.op is not Ops.MULTI:
        return
    layout = layout_of(multi)
    result = realize([(multi, devices)])[multi]
    parts = [get(part) for part in result.src]
    if layout.axis is None:
        for part in parts:
            np.testing.assert_array_equal(part, array)
    else:
        assert [part.shape[layout.axis] for part in parts] == list(layout.sizes)
        np.testing.assert_array_equal(np.concatenate(parts, layout.axis), array)
    for part, device in zip(result.src, devices, strict=True):
        assert graph.device_of(part) in (device, None)
    together = gather_to(multi, "CPU:1")
    np.testing.assert_array_equal(get(realize([(together, "CPU:1")])[together]), array)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, 160, 10))
@pytest.mark.parametrize("ring", [0, 2])
def test_random_graphs(first, ring):
    with Context(RING=ring):
        for seed in range(first, first + 10):
            check(seed, 10, 2 + seed % 3)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 50))
def test_many_random_graphs(first):
    with Context(RING=first // 50 % 3):
        for seed in range(first, first + 50):
            check(seed, 20, 2 + seed % 3)
