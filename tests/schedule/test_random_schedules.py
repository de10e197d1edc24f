"""Test random graphs against numpy, under limits so low that every scheduler rule fires."""

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tinyref.device import Device
from tinyref.lazy import graph
from tinyref.schedule import fusion, join, kernel_ast, prepare

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import random_tensors

LIMITS = {
    "as they are": (),
    "everything costly": ((fusion, "CHEAP_AGAIN", 2), (fusion, "CHEAP_CONSTANT", 3)),
    "nothing costly": ((fusion, "CHEAP_AGAIN", 10**6), (fusion, "CHEAP_CONSTANT", 10**6)),
    "every reduce at once": ((prepare, "MAX_GROWTH", 50),),
    "every reduce long": (
        (prepare, "LONG_REDUCE", 3),
        (prepare, "FEW_PARTS", 2),
        (prepare, "MAX_PARTS", 2),
    ),
    "few values": ((kernel_ast, "MAX_VALUES", 12), (join, "MAX_JOINED", 40)),
}


def check(machine, seed, steps):
    random = Random(seed)
    generator = random_tensors.Generator(random, machine.put)
    for _ in range(random.randint(4, steps)):
        generator.grow()
    outputs = [generator.values[-1], *random.sample(generator.values, 3)]
    for got, (_, array) in zip(machine.run(*(node for node, _ in outputs)), outputs, strict=True):
        np.testing.assert_array_equal(got, array)


def get_constants(machine):
    """Return a machine that also returns the elements of outputs without memory."""
    working = machine.get

    def get(node):
        value = graph.uniform_value(node)
        return working(node) if value is None else np.full(graph.shape_of(node), value)

    return get


@pytest.mark.long
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("seed", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_random_graphs(machine, name, seed, monkeypatch):
    for module, limit, value in LIMITS[name]:
        monkeypatch.setattr(module, limit, value)
    monkeypatch.setattr(machine, "get", get_constants(machine))
    for number in range(25):
        check(machine, 1000 * seed + number, 40)


@pytest.mark.long
def test_random_graphs_within_few_buffers(machine, monkeypatch):
    capabilities = Device["PYTHON"].capabilities
    monkeypatch.setattr(Device["PYTHON"], "capabilities", replace(capabilities, buffer_limit=4))
    monkeypatch.setattr(machine, "get", get_constants(machine))
    for number in range(25):
        check(machine, 7000 + number, 40)
        assert all(len(item.buffers) <= 4 for item in machine.planned.kernels)
