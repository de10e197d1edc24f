"""Tensor graphs of any size, to count how scheduling grows with the nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.lazy import graph
from tinyref.tensor import Tensor
from tinyref.tensor.core import from_node

Outputs = Sequence[Tensor]
SIDE = 8


def memory(*shape: int) -> Tensor:
    """A tensor with memory behind it, which nothing has written yet."""
    device = Device.default
    return from_node(Tensor, graph.new_buffer(device, shape, dtypes.float32), device)


def elementwise_chain(count: int) -> Outputs:
    """Each value made of the one before: one kernel."""
    value = first = memory(64)
    for step in range(count // 5):
        value = value * (step + 0.5) + first
    return [value]


def chain_of_reduces(count: int) -> Outputs:
    """Each step sums rows of the one before, and goes on with elementwise work."""
    value = memory(SIDE, SIDE)
    for step in range(count // 7):
        value = (value + value.sum(1, keepdim=True)) * (step + 0.5)
    return [value]


def many_outputs(count: int) -> Outputs:
    """Results that share what they are made of, 500 of 2,500 nodes."""
    first = memory(SIDE, SIDE)
    shared = first.sum(1, keepdim=True)
    return [first * (step + 0.5) + shared for step in range(count // 5)]


def diamonds(count: int) -> Outputs:
    """Each value is read twice, and once through a sum of all of it."""
    value = memory(SIDE, SIDE)
    for step in range(count // 8):
        value = (value + value.sum()) * (step + 0.5)
    return [value]


def shifts(count: int) -> Outputs:
    """Each value is read twice, and once at other places."""
    value = memory(64)
    for step in range(count // 7):
        value = value + (value * (step + 0.5)).shrink(((0, 63),)).pad(((1, 0),))
    return [value]


def assigns(count: int) -> Outputs:
    """One tensor updated in place again and again."""
    value = memory(SIDE, SIDE)
    for step in range(count // 5):
        value.assign(value + (step + 0.5))
    return [value]


def updates(count: int) -> Outputs:
    """Many tensors updated in place, each of what it was."""
    found = [memory(SIDE, SIDE) for _ in range(count // 7)]
    for step, value in enumerate(found):
        value.assign(value + (step + 0.5))
    return found


def sum_of_buffers(count: int) -> Outputs:
    """As many buffers as there are, added: far more than a kernel may take."""
    value = memory(64)
    for _ in range(count // 3):
        value = value + memory(64)
    return [value]


def training_step(count: int) -> Outputs:
    """A deep network of linear layers with relu: forward, backward and updates in place."""
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
    "outputs": many_outputs,
    "diamonds": diamonds,
    "shifts": shifts,
    "assigns": assigns,
    "updates": updates,
    "buffers": sum_of_buffers,
    "training": training_step,
}
