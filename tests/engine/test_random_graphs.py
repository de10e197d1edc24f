"""Random tensor graphs on devices against numpy."""

from random import Random

import numpy as np
import pytest
import random_tensors

from tinyref.dtype import from_numpy_dtype
from tinyref.engine import realize
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of


def put(array, device):
    node = graph.new_buffer(device, array.shape, from_numpy_dtype(array.dtype))
    if array.size:
        memory = buffer_of(graph.backing(node))
        memory.copy_in(memoryview(np.ascontiguousarray(array)).cast("B"))
    return node


def get(node):
    value = graph.uniform_value(node)
    if value is not None:
        return np.full(graph.shape_of(node), value)
    values = np.frombuffer(buffer_of(graph.backing(node)).copy_out(), np.int32)
    return values.reshape(graph.shape_of(node))


def check(seed, device, steps):
    random = Random(seed)
    generator = random_tensors.Generator(random, lambda array: put(array, device))
    for _ in range(random.randint(1, steps)):
        generator.grow()
    outputs = [generator.values[-1], *random.sample(generator.values, 2)][: random.randint(1, 3)]
    results = realize([(node, device) for node, _ in outputs])
    for node, array in outputs:
        assert graph.shape_of(node) == array.shape
        np.testing.assert_array_equal(get(results[node]), array)
    for node, array in generator.leaves:
        np.testing.assert_array_equal(get(node), array)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_graphs_on_python(first):
    for seed in range(first, first + 20):
        check(seed, "PYTHON", 16)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1060, 20))
def test_random_graphs_on_cpu(first):
    for seed in range(first, first + 20):
        check(seed, "CPU", 12)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10000, 12000, 100))
def test_many_random_graphs_on_python(first):
    for seed in range(first, first + 100):
        check(seed, "PYTHON", 30)
