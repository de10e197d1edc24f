"""A machine without lowering, which runs schedules by the AST evaluator on numpy arrays.

Tests of this folder can import its helpers (kernel_counts.py) because of this file.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from tinyref.algebra.evaluate import value_of
from tinyref.dtype import from_numpy_dtype, numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.lazy import graph
from tinyref.schedule import CopyItem, schedule

sys.path.insert(0, str(Path(__file__).parent))

DEVICE = "PYTHON"


class Machine:
    def __init__(self):
        self.memory = {}
        self.planned = None

    def put(self, array, device=DEVICE):
        array = np.asarray(array)
        node = graph.new_buffer(device, array.shape, from_numpy_dtype(array.dtype))
        self.memory[graph.backing(node)] = array.reshape(-1).copy()
        return node

    def run(self, *outputs, live=(), device=DEVICE):
        """Return the values of `outputs`; set `planned` to the schedule, and watch `live`."""
        pairs = [(node, device) for node in outputs]
        self.planned = schedule(pairs, [(node, device) for node in live])
        for item in self.planned.items:
            if isinstance(item, CopyItem):
                self.memory[item.target] = self.memory[item.source].copy()
                continue
            slots = {slot: self._contents(node) for slot, node in enumerate(item.buffers)}
            written = evaluate(item.ast, slots, self.planned.bindings)
            for slot, values in written.items():
                self.memory[item.buffers[slot]] = values
        return [self.get(self.planned.results[node]) for node in outputs]

    def get(self, node):
        if graph.backing(node) is None:
            planned = self.planned
            (value,) = self.run(graph.contiguous(node))
            self.planned = planned
            return value
        bindings = self.planned.bindings if self.planned else {}
        shape = [value_of(size, bindings) for size in graph.shape_of(node)]
        used = int(np.prod(shape))
        return self._contents(graph.backing(node))[:used].reshape(shape)

    def _contents(self, buffer):
        if buffer not in self.memory:
            # Fresh memory holds anything: here a value that is no sum of small numbers.
            fresh = np.full(buffer.arg.size, 99).astype(numpy_dtype(buffer.dtype))
            self.memory[buffer] = fresh
        return self.memory[buffer]

    def kernels(self, *outputs, device=DEVICE):
        """Return the number of kernels of the schedule of `outputs`; nothing runs."""
        return len(schedule([(node, device) for node in outputs]).kernels)


@pytest.fixture
def machine():
    return Machine()
