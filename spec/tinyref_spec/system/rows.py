"""Rows of the level `system`: what only many kernels in a row can show.

All numbers are small integers, exact in float32 in any order, so every comparison is exact; what
is wanted is computed by numpy from the same integers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, Run, judge_pairs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.samples import integers
from tinyref_spec.system import fuzzed, replays, sharding, state, transfers

EXACT = "Equal in every bit: small integers."


# --- symbolic shapes ----------------------------------------------------------------------------


def _symbolic(jit: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """One kernel serves all sizes: sums, products, and a window that moves."""
    from tinyref import Tensor, TinyJit, Variable
    from tinyref.uops.node import UOp

    whole = integers(4, 6)
    x = Tensor(whole, device=device.name).realize()
    n = Variable("n", 1, 6)

    @TinyJit
    def forms(size: UOp) -> list[Tensor]:
        part = x[:, :size]
        return [part.sum(1), part @ part.T, x[:, size - 1 : size] * 2, part.max(0) + 1]

    def pairs() -> Iterator[tuple[str, object, object]]:
        for size in (4, 1, 6, 3, 5):
            part = whole[:, :size]
            wanted = [part.sum(1), part @ part.T, whole[:, size - 1 : size] * 2, part.max(0) + 1]
            for number, found in enumerate(forms(n.bind(size))):
                yield f"form {number} for n = {size}", found.numpy(), wanted[number]

    with Context(JIT=jit):
        return judge_pairs(pairs())


def _cache(jit: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """A cache is written at a symbolic position, and read up to it."""
    from tinyref import Tensor, TinyJit, Variable
    from tinyref.uops.node import UOp

    rows = integers(6, 3)
    cache = Tensor(np.zeros((6, 3), np.float32), device=device.name).realize()
    position = Variable("position", 0, 5)

    @TinyJit
    def step(row: Tensor, at: UOp) -> Tensor:
        cache[at : at + 1] = row
        return cache[: at + 1].sum(0).realize(cache)

    def pairs() -> Iterator[tuple[str, object, object]]:
        for at in range(6):
            row = Tensor(rows[at : at + 1], device=device.name)
            yield f"position {at}", step(row, position.bind(at)).numpy(), rows[: at + 1].sum(0)
        yield "the cache", cache.numpy(), rows

    with Context(JIT=jit):
        return judge_pairs(pairs())


# --- kernels and memory -------------------------------------------------------------------------


def _many_kernels(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Each kernel reads what the one before wrote."""
    from tinyref import Tensor

    kernels = count // 8 if device.capabilities.is_interpreted else count
    x = Tensor(integers(2, 8), device=device.name).realize()
    wanted = integers(2, 8)
    for number in range(kernels):
        x = (x + number % 3).contiguous()
        wanted = wanted + np.float32(number % 3)
    return judge_pairs([(f"{kernels} kernels", x.numpy(), wanted)])


def _large(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Every element of a large buffer is written and read where it lies."""
    from tinyref import Tensor

    size = count // 64 if device.capabilities.is_interpreted else count
    numbers = (np.arange(size, dtype=np.int64) % 251).astype(np.int32)
    x = Tensor(numbers, device=device.name)
    back = (x + 1).flip(0).numpy()
    return judge_pairs([("all elements, turned around", back, (numbers + 1)[::-1])])


def _graph(device: str) -> list[Array]:
    """Results of a graph with intermediate buffers of many sizes and lifetimes."""
    from tinyref import Tensor

    x = Tensor(integers(24, 24), device=device).realize()
    # Sums that every element of the next sum needs: each is stored, and none is a result.
    for _ in range(4):
        rows, columns = x.sum(1, keepdim=True), x.max(0, keepdim=True)
        x = (rows - columns).flip(0) - x.sum()
        x = x - x.max(1, keepdim=True).flip(0)
    outputs = [x.sum(0), x.max(1), x - 1]
    Tensor.realize(*outputs)
    return [output.numpy() for output in outputs]


def _graph_by_numpy() -> list[Array]:
    x = integers(24, 24).astype(np.float64)
    for _ in range(4):
        rows, columns = x.sum(1, keepdims=True), x.max(0, keepdims=True)
        x = np.flip(rows - columns, 0) - x.sum()
        x = x - np.flip(x.max(1, keepdims=True), 0)
    return [x.sum(0), x.max(1), x - 1]


def _memory_plan(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Sharing the memory of intermediate results changes no result."""
    wanted = _graph_by_numpy()

    def pairs() -> Iterator[tuple[str, object, object]]:
        for plan in (0, 1):
            with Context(MEMORY_PLAN=plan):
                for number, found in enumerate(_graph(device.name)):
                    yield f"output {number} with MEMORY_PLAN={plan}", found, wanted[number]

    return judge_pairs(pairs())


def _replay_plan(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Nor does it in a replay, where the plan spans several realised steps."""
    from tinyref import Tensor, TinyJit

    def chain(x: Tensor) -> Tensor:
        for number in range(4):
            x = (x.T.contiguous().realize() + number).realize()
        return x.sum(0)

    def pairs() -> Iterator[tuple[str, object, object]]:
        for plan in (0, 1):
            with Context(MEMORY_PLAN=plan, JIT=1):
                jitted = TinyJit(chain)
                for call in range(4):
                    x = integers(24, 40, seed=call)
                    # Its result is gone when the next one gets memory: what lies there is wrong.
                    jitted(Tensor(x + 1, device=device.name))
                    found = jitted(Tensor(x, device=device.name)).numpy()
                    yield f"call {call} with MEMORY_PLAN={plan}", found, (x + 6).sum(0)

    return judge_pairs(pairs())


def _assigned_around_a_view(jit: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """A buffer is assigned, read through a turned view, and assigned again before that has run.

    What was computed of the view has the elements of its time; the view itself shows the last ones.
    """
    from tinyref import Tensor, TinyJit

    x = Tensor(integers(4, 6), device=device.name).realize()

    @TinyJit
    def step(added: Tensor) -> list[Tensor]:
        x.assign(x + added)
        turned = x.permute(1, 0).flip(0)
        products, window = turned * 3, turned[1:4].pad(((1, 0), (0, 2))).sum(1)
        x.assign(added * 2 - 1)
        # The second assign comes first, and has to wait for those who read what it overwrites.
        Tensor.realize(x, products, window)
        return [products, window, turned + 0]

    def pairs() -> Iterator[tuple[str, object, object]]:
        wanted = integers(4, 6)
        for call in range(4 if jit else 2):
            added = integers(4, 6, seed=call, most=2)
            products, window, view = step(Tensor(added, device=device.name))
            turned = (wanted + added).T[::-1]
            wanted = added * 2 - 1
            sums = np.pad(turned[1:4].sum(1), (1, 0))
            yield f"the products of call {call}", products.numpy(), turned * 3
            yield f"the window of call {call}", window.numpy(), sums
            yield f"the view after call {call}", view.numpy(), wanted.T[::-1]
            yield f"the buffer after call {call}", x.numpy(), wanted

    with Context(JIT=jit):
        return judge_pairs(pairs())


_REPLAYED = "look at what a replay takes from its call: buffers, variables, the order of launches"


SYMBOLIC: dict[str, Run] = {
    "forms": functools.partial(_symbolic, 0),
    "forms.replay": functools.partial(_symbolic, 1),
    "cache": functools.partial(_cache, 0),
    "cache.replay": functools.partial(_cache, 1),
}
MEMORY: dict[str, Run] = {
    "plan": _memory_plan,
    "replay": _replay_plan,
    "assign": functools.partial(_assigned_around_a_view, 0),
    "assign.replay": functools.partial(_assigned_around_a_view, 1),
}
_USED = (dtypes.float32, dtypes.int32, dtypes.bool)


def rows() -> Iterator[Row]:
    """Rows of the level, from single kernels in sequence to whole captured steps."""
    yield make_row(
        "system.kernels.int32",
        "Many kernels in a row, and buffers of many megabytes.",
        clauses=("system.kernels",),
        rung=Rung.JIT,
        op="kernels",
        dtype=dtypes.int32,
        uses=_USED,
        error_rule=EXACT,
        checks=lambda: [
            Check("row:80", functools.partial(_many_kernels, 80)),
            Check("row:800", functools.partial(_many_kernels, 800), full_only=True),
            Check("large:1000000", functools.partial(_large, 1_000_000)),
            Check("large:20000000", functools.partial(_large, 20_000_000), full_only=True),
        ],
    )
    yield make_row(
        "system.memory.float32",
        "Intermediate results share memory, and no result notices.",
        clauses=("system.memory", "tensor.buffer"),
        rung=Rung.JIT,
        op="memory",
        dtype=dtypes.float32,
        uses=_USED,
        error_rule=EXACT,
        checks=MEMORY,
    )
    yield make_row(
        "system.symbolic.float32",
        "Kernels with symbolic sizes serve all values of the variables.",
        clauses=("system.symbolic", "tensor.bind"),
        rung=Rung.JIT,
        op="symbolic",
        dtype=dtypes.float32,
        uses=_USED,
        error_rule=EXACT,
        checks=SYMBOLIC,
    )
    yield make_row(
        "system.jit.float32",
        "A captured function is replayed on other inputs, and its state goes on.",
        clauses=("system.jit", "system.jit.flight", "system.jit.state", "tensor.assign"),
        rung=Rung.JIT,
        op="jit",
        dtype=dtypes.float32,
        uses=_USED,
        error_rule=EXACT,
        checks=replays.CHECKS,
        advice=_REPLAYED,
    )
    yield from fuzzed.rows()
    yield from transfers.rows()
    yield from sharding.rows()
    yield from state.rows()
