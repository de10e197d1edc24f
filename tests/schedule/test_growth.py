"""Test that scheduling takes work in proportion to the nodes, at any depth; it is counted."""

from collections.abc import Callable, Sequence

import pytest

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.lazy import graph as g
from tinyref.lazy.buffers import assigned_buffer
from tinyref.schedule import kernel_ast, schedule
from tinyref.schedule.ordering import Ordering, Versions, needing_old_contents
from tinyref.tensor import Tensor
from tinyref.tensor.core import from_node
from tinyref.uops.node import toposort
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker

Outputs = Sequence[Tensor]
SIDE = 8


def memory(*shape: int) -> Tensor:
    """Return a tensor with memory that nothing has written yet."""
    device = Device.default
    return from_node(Tensor, g.new_buffer(device, shape, dtypes.float32), device)


def elementwise_chain(count: int) -> Outputs:
    """Return a chain in which each value needs the one before: one kernel."""
    value = first = memory(64)
    for step in range(count // 5):
        value = value * (step + 0.5) + first
    return [value]


def chain_of_reduces(count: int) -> Outputs:
    """Return a chain of row sums with elementwise work between them."""
    value = memory(SIDE, SIDE)
    for step in range(count // 7):
        value = (value + value.sum(1, keepdim=True)) * (step + 0.5)
    return [value]


def assigns(count: int) -> Outputs:
    """Return one tensor that is updated in place again and again."""
    value = memory(SIDE, SIDE)
    for step in range(count // 5):
        value.assign(value + (step + 0.5))
    return [value]


def updates(count: int) -> Outputs:
    """Return many tensors, each updated in place from its old value."""
    tensors = [memory(SIDE, SIDE) for _ in range(count // 7)]
    for step, value in enumerate(tensors):
        value.assign(value + (step + 0.5))
    return tensors


def sum_of_buffers(count: int) -> Outputs:
    """Return a sum of far more buffers than a kernel may take."""
    value = memory(64)
    for _ in range(count // 3):
        value = value + memory(64)
    return [value]


def training_step(count: int) -> Outputs:
    """Return a training step of a deep network of linear layers with relu."""
    weights = [memory(SIDE, SIDE).requires_grad_() for _ in range(max(count // 50, 1))]
    value = memory(4, SIDE)
    for weight in weights:
        value = value.matmul(weight).relu()
    loss = value.square().mean()
    gradients = loss.gradient(*weights)
    with Tensor.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign(weight - gradient * 0.1)
    return [loss, *weights]


SCHEDULE_GROWTHS: dict[str, Callable[[int], Outputs]] = {
    "elementwise": elementwise_chain,
    "reduces": chain_of_reduces,
    "assigns": assigns,
    "updates": updates,
    "buffers": sum_of_buffers,
    "training": training_step,
}

F32 = dtypes.float32


def planned(name, count):
    outputs = [(tensor.node, tensor.device) for tensor in SCHEDULE_GROWTHS[name](count)]
    nodes = len(toposort([node for node, _ in outputs]))
    return nodes, schedule(outputs)


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCHEDULE_GROWTHS)
def test_kernels_together_grow_like_the_graph(name, monkeypatch):
    """Guard against n dependent reduces, whose kernels had n * n nodes."""
    # Every value computed while kernels are built counts, also in kernels that are given up.
    looks = []
    working = kernel_ast.KernelBuilder._sources
    monkeypatch.setattr(
        kernel_ast.KernelBuilder, "_sources", lambda *key: looks.append(key) or working(*key)
    )

    def lengths(count):
        looks.clear()
        nodes, plan = planned(name, count)
        together = sum(len(item.ast.toposort()) for item in plan.kernels)
        return together / nodes, len(looks) / nodes

    (few_nodes, few_looks), (nodes, many_looks) = lengths(150), lengths(600)
    assert nodes < 1.5 * few_nodes + 1
    assert many_looks < 1.5 * few_looks + 1


def test_a_join_looks_only_at_tasks_between_the_two(monkeypatch):
    walks = []
    working = Ordering._is_between
    monkeypatch.setattr(
        Ordering, "_is_between", lambda *tasks: walks.append(tasks) or working(*tasks)
    )
    nodes, _ = planned("reduces", 350)
    assert len(walks) < nodes


@pytest.mark.parametrize("name", SCHEDULE_GROWTHS)
@pytest.mark.slow
def test_ten_thousand_nodes_schedule(name):
    nodes, plan = planned(name, 10_000)
    assert nodes > 5000
    assert plan.kernels


def test_live_graphs_are_walked_together(monkeypatch):
    """Guard against separate walks to the roots of many live tensors on top of each other."""
    looks = []
    working = Versions._is_old
    monkeypatch.setattr(Versions, "_is_old", lambda *node: looks.append(1) or working(*node))
    node = g.new_buffer("PYTHON", (4,), F32)
    live = {}
    for step in range(300):
        node = g.alu(Ops.ADD, node, g.full((4,), step + 0.5, F32))
        live[node] = node
    target = g.new_buffer("PYTHON", (4,), F32)
    added, _ = needing_old_contents([g.assign(target, g.full((4,), 1.0, F32))], live)
    assert added == []
    assert len(looks) < 5 * len(live)


def test_the_buffer_below_hundreds_of_assigns_is_found():
    node = target = g.new_buffer("PYTHON", (4,), F32)
    for step in range(500):
        node = g.assign(node, g.full((4,), step + 0.5, F32))
    assert assigned_buffer(node) is g.backing(target)
    with pytest.raises(TypeError, match="is no view of a buffer"):
        assigned_buffer(g.full((4,), 2.0, F32))


def test_a_kernel_with_too_many_values_names_one_that_it_repeats(monkeypatch):
    # Of the sums of neighbours of sums of neighbours ..., the error names the one in the middle.
    sums = [g.new_buffer("PYTHON", (16,), F32)]
    for size in range(15, 7, -1):
        left, right = (g.shrink(sums[-1], ((first, first + size),)) for first in (0, 1))
        sums.append(g.alu(Ops.ADD, left, right))
    out = kernel_ast.Location(g.new_buffer("PYTHON", (8,), F32), ShapeTracker.from_shape((8,)))
    whole = kernel_ast.Location(sums[0], ShapeTracker.from_shape((16,)))

    def build():
        return kernel_ast.KernelBuilder(
            sums[-1], out, lambda node: whole if node is sums[0] else None
        ).build()

    assert build().op is Ops.SINK
    monkeypatch.setattr(kernel_ast, "MAX_VALUES", 60)
    with pytest.raises(kernel_ast.TooLarge) as error:
        build()
    assert sums.index(error.value.node) == 3
    # Values that are computed only once have no limit.
    monkeypatch.setattr(kernel_ast, "MAX_VALUES", 3)
    assert build().op is Ops.SINK
