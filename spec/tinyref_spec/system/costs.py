"""What schedules may cost: kernels, copies, accesses, loops and memory, as recorded or less.

No value shows that two kernels are no longer one, that a sum reads elements which another one could
have read, or that intermediate results share no memory. So programs are scheduled, for a device of
loops and for one with a grid, and nothing is compiled or run. The record is `costs.json`; where a
scheduler does better, nothing need be done, and `python -m tinyref_spec.system.costs` writes it
anew.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tinyref.algebra.kernel_shape import kernel_shape, reduced_sizes
from tinyref.algebra.symbolic import product
from tinyref.dtype import DType, dtypes
from tinyref.lazy import graph
from tinyref.optimise.normal_form import normal_form
from tinyref.schedule import Schedule
from tinyref.schedule.memory import plan_arena, temporaries
from tinyref.uops.ops import Ops
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import REFERENCE, DeviceUnderTest

if TYPE_CHECKING:
    from tinyref import Tensor

PATH = Path(__file__).with_name("costs.json")
# A device of each kind, which is not opened for more than what it declares.
DEVICES: Mapping[str, str] = {"loops": "CPU", "grid": REFERENCE}
F32, I32 = dtypes.float32, dtypes.int32

Build: TypeAlias = "Callable[[Memory], Tensor | Sequence[Tensor]]"


class Memory:
    """Tensors on a device with memory behind them, in which nothing is: nothing of this runs."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, *shape: int, dtype: DType = F32, number: int = 0) -> Tensor:
        """One of this shape; `number` is that of the device, of several."""
        from tinyref import Tensor

        device = f"{self.device}:{number}" if number else self.device
        return Tensor._from_node(graph.new_buffer(device, shape, dtype), device)

    def weight(self, *shape: int) -> Tensor:
        """One that wants a gradient."""
        return self(*shape).requires_grad_()


# --- programs -------------------------------------------------------------------------------------


def _normalised(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


def _attention(data: Memory) -> Tensor:
    query, key, value = (data(2, 4, 8, 6) for _ in range(3))
    return (query @ key.transpose(-1, -2)).softmax(-1) @ value


def _backward(loss: Tensor, *leaves: Tensor) -> list[Tensor]:
    return [loss, *(gradient.detach() for gradient in loss.gradient(*leaves))]


def _layers(data: Memory) -> list[Tensor]:
    first, second = data.weight(5, 16), data.weight(16, 3)
    loss = ((data(8, 5) @ first).relu() @ second).softmax(-1).log().mean()
    return _backward(loss, first, second)


def _step(data: Memory) -> list[Tensor]:
    """A weight and its two moments, each updated in place."""
    found, weight, mean, square = (data(6, 4) for _ in range(4))
    mean.assign(mean * 0.9 + found * 0.1)
    square.assign(square * 0.99 + found * found * 0.01)
    weight.assign(weight - mean / (square.sqrt() + 1e-8))
    return [weight, mean, square]


def _written_twice(data: Memory) -> Tensor:
    """The first elements are overwritten before anybody reads them."""
    x = data(4, 6)
    x.assign(data(4, 6) * 2)
    x.assign(data(4, 6) + 1)
    return x


def _written_in_parts(data: Memory) -> list[Tensor]:
    x = data(6, 4)
    total = x.sum()
    x[1:3] = x[3:5] * 2
    x[:, 0] = total
    return [x, total]


def _chain(data: Memory) -> Tensor:
    """Sums that every element of the next one needs: all are stored, few at a time."""
    x = data(16, 24)
    for _ in range(6):
        x = (x - x.sum(1, keepdim=True)).flip(0) * x.max(0, keepdim=True)
    return x


def _reused(data: Memory) -> Tensor:
    """Intermediate results of several sizes, of which few are needed at once."""
    x = data(8, 8)
    for count in (4, 8, 2):
        x = (x.exp() @ data(8, count * 4)).exp() @ data(count * 4, 8)
    return x


def _one_hot(data: Memory) -> Tensor:
    """A sum that chooses along one axis, which is no loop however long, over another one too."""
    from tinyref import Tensor

    places, table = data(4, dtype=I32), data(40_000, 6)
    chosen = places.reshape(4, 1).expand(4, 40_000) == Tensor.arange(40_000)
    return chosen.reshape(4, 40_000, 1).where(table, 0).sum((1, 2))


def _outer(data: Memory) -> Tensor:
    return (data(181, 1) * data(1, 191)).sum()


def _moments(data: Memory) -> list[Tensor]:
    x = data(8, 16)
    return [x.var(-1), x.mean(-1), x.max(-1)]


def _side_by_side(data: Memory) -> list[Tensor]:
    x, y = data(8, 16), data(8, 16)
    return [x + y, x * 2, x - 1, (y * 3).relu()]


def _copied(data: Memory) -> list[Tensor]:
    x = data(4, 6)
    there = x.to(f"{data.device}:1")
    return [(there + data(4, 6, number=1)).sum(1), there[1:3] * 2, (x * 3).to(f"{data.device}:1")]


PROGRAMS: Mapping[str, Build] = {
    "elementwise": lambda data: (data(4, 5) * data(4, 5) + 1).exp() - data(5),
    "side_by_side": _side_by_side,
    "moved": lambda data: data(4, 6).permute(1, 0)[1:5].flip(0).pad(((1, 0), (0, 2))).contiguous(),
    "stored_twice": lambda data: (data(4, 6) + 1).contiguous().reshape(24).contiguous(),
    "joined": lambda data: data(2, 3).cat(data(4, 3), data(1, 3) * 2),
    "moments": _moments,
    "sum_of_sums": lambda data: data(4, 3, 5).sum(2).permute(1, 0).sum(0),
    "sum_of_padded_sums": lambda data: data(4, 3, 5).sum(2).pad(((0, 0), (1, 1))).sum(1),
    "sum_of_equal": lambda data: data(4, 1, 5).expand(4, 7, 5).sum((1, 2)),
    "sum_of_other_kinds": lambda data: data(4, 5, 6).max(2).sum(1),
    "two_reads_of_a_sum": lambda data: (total := data(6, 5).sum(1)) * total.max() + total.flip(0),
    "long_sum": lambda data: data(40_000).sum(),
    "long_maximum": lambda data: data(32_771).max(),
    "long_sum_of_products": _outer,
    "chosen": lambda data: data(9, 6)[data(4, dtype=I32)],
    "chosen_and_summed": _one_hot,
    "greatest": lambda data: data(6, 9).argmax(1),
    "scan": lambda data: data(6, 12).cumsum(1),
    "softmax": lambda data: data(8, 16).softmax(-1),
    "softmax_of_columns": lambda data: data(8, 16).softmax(0),
    "log_softmax": lambda data: data(8, 16).log_softmax(-1),
    "normalised": lambda data: _normalised(data(8, 16)),
    "normalised_twice": lambda data: _normalised(_normalised(data(8, 16)) * data(16)),
    "product": lambda data: (data(4, 5) @ data(5, 6) + data(6)).relu(),
    "products": lambda data: data(4, 5) @ data(5, 6) @ data(6, 7),
    "product_of_exp": lambda data: data(4, 5).exp() @ data(5, 6),
    "product_of_half": lambda data: (data(4, 5, dtype=dtypes.float16) @ data(5, 6).half()).float(),
    "convolution": lambda data: data(2, 3, 6, 6).relu().conv2d(data(4, 3, 3, 3), padding=1).relu(),
    "attention": _attention,
    "layers": _layers,
    "step": _step,
    "written_twice": _written_twice,
    "written_in_parts": _written_in_parts,
    "chain": _chain,
    "reused": _reused,
    "copied": _copied,
}


# --- costs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """kernels, copies: items of a schedule. accesses: elements that its kernels load and store, at
    every position of their normal form. longest: iterations of a reduce, of which there is one that
    has the most. memory: bytes of intermediate results.
    """

    kernels: int
    copies: int
    accesses: int
    longest: int
    memory: int

    def excess_over(self, recorded: Cost) -> str:
        """What is more than is recorded, in words; "" where nothing is."""
        pairs = ((each.name, getattr(self, each.name)) for each in fields(self))
        limits = asdict(recorded)
        return "; ".join(
            f"{found} {what}, {limits[what]} at most are owed"
            for what, found in pairs
            if found > limits[what]
        )


def cost_of(planned: Schedule) -> Cost:
    """What a schedule costs."""
    kernels = planned.kernels
    forms = (normal_form(kernel.ast).ast for kernel in kernels)
    nodes = [node for ast in forms for node in ast.toposort()]
    accessed = (product(kernel_shape(n)) for n in nodes if n.op in (Ops.LOAD, Ops.STORE))
    reduced = (product(reduced_sizes(n)) for n in nodes if n.op is Ops.REDUCE)
    lifetimes = list(temporaries(planned.items, planned.results).values())
    return Cost(
        kernels=len(kernels),
        copies=len(planned.items) - len(kernels),
        accesses=sum(count for count in accessed if isinstance(count, int)),
        longest=max((count for count in reduced if isinstance(count, int)), default=0),
        memory=plan_arena(lifetimes).nbytes,
    )


def scheduled_cost(name: str, kind: str) -> Cost:
    """The cost of a program on a device of a kind."""
    from tinyref import Tensor

    built = PROGRAMS[name](Memory(DEVICES[kind]))
    outputs = [built] if isinstance(built, Tensor) else list(built)
    return cost_of(outputs[0].schedule(*outputs[1:]))


@functools.cache
def recorded_costs() -> Mapping[str, Mapping[str, Cost]]:
    """The record, by the kind of device and the name of the program."""
    record = json.loads(PATH.read_text())
    return {
        kind: {name: Cost(**cost) for name, cost in costs.items()} for kind, costs in record.items()
    }


def _measure(kind: str, name: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    excess = scheduled_cost(name, kind).excess_over(recorded_costs()[kind][name])
    return Measurement(not excess, f"{name}: {excess}" if excess else "", compared=1)


def rows() -> Iterator[Row]:
    """A row for devices of each kind, a case for each program."""
    for kind in DEVICES:
        yield make_row(
            f"system.cost.{kind}",
            f"For a device with {kind} a schedule has no more kernels, copies, accesses, "
            "iterations and intermediate memory than is recorded.",
            ("system.cost",),
            Rung.JIT,
            "",
            "",
            "no more than is recorded",
            kernel_needs(),
            functools.partial(_checks, kind),
        )


def _checks(kind: str) -> list[Check]:
    """A program that costs the same on the devices before is not asked for in a quick run."""
    record = recorded_costs()
    before = [record[other] for other in list(DEVICES)[: list(DEVICES).index(kind)]]
    return [
        Check(
            name,
            functools.partial(_measure, kind, name),
            full_only=any(costs[name] == record[kind][name] for costs in before),
        )
        for name in PROGRAMS
    ]


def main() -> None:
    """Writes the record."""
    record = {
        kind: {name: asdict(scheduled_cost(name, kind)) for name in PROGRAMS} for kind in DEVICES
    }
    kinds = []
    for kind, costs in record.items():
        lines = (f"    {json.dumps(name)}: {json.dumps(cost)}" for name, cost in costs.items())
        kinds.append(f"  {json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n  }")
    PATH.write_text("{\n" + ",\n".join(kinds) + "\n}\n")
    sys.stdout.write(f"{sum(map(len, record.values()))} costs\n")


if __name__ == "__main__":
    main()
