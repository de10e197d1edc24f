"""Rows of the level `system`: what only many kernels in a row can show.

All numbers are small integers, exact in float32 in any order, so every comparison is exact; what
is wanted is computed by numpy from the same integers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, judge_pairs, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.system import images, sharding, state, transfers

CALLS = 5
EXACT = "Equal in every bit: small integers."


def _integers(*shape: int, seed: int = 0, most: int = 5) -> Array:
    generator = np.random.default_rng(seed)
    return generator.integers(-most, most + 1, shape).astype(np.float32)


# --- replay -------------------------------------------------------------------------------------


def _replayed_inputs(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Every replay must read the memory that it was given, and write memory of its own."""
    from tinyref import Tensor, TinyJit

    @TinyJit
    def scores(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).relu().sum(0) - x.sum()

    def pairs() -> Iterator[tuple[str, object, object]]:
        results = []
        for call in range(CALLS):
            x, y = _integers(4, 6, seed=call), _integers(6, 3, seed=call + 50)
            given = (Tensor(x, device=device.name), Tensor(y, device=device.name))
            # Its result is gone when the next one gets memory: what lies there is wrong.
            scores(Tensor(x + 1, device=device.name), given[1])
            results.append((scores(*given), np.maximum(x @ y, 0).sum(0) - x.sum()))
            yield f"call {call}", results[-1][0].numpy(), results[-1][1]
        for call, (result, wanted) in enumerate(results):
            yield f"the result of call {call} after all calls", result.numpy(), wanted

    with Context(JIT=1):
        return judge_pairs(pairs())


def _replayed_state(case_id: str, device: DeviceUnderTest) -> Measurement:
    """State that is assigned to advances with every replay as it does in a plain run."""
    from tinyref import Tensor, TinyJit

    weight = Tensor(_integers(3, 2), device=device.name).realize()
    count = Tensor(np.zeros(1, np.float32), device=device.name).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        error = x @ weight - 1
        count.assign(count + 1)
        weight.assign(weight - x.T @ error)
        return error.sum() + count

    def pairs() -> Iterator[tuple[str, object, object]]:
        wanted = _integers(3, 2)
        for call in range(CALLS):
            x = _integers(2, 3, seed=call, most=1)
            error = x @ wanted - 1
            wanted = wanted - x.T @ error
            given = Tensor(x, device=device.name)
            yield f"result {call}", step(given).numpy(), [error.sum() + call + 1]
            yield f"weights after call {call}", weight.numpy(), wanted

    with Context(JIT=1):
        return judge_pairs(pairs())


def _replay_refused(case_id: str, device: DeviceUnderTest) -> Measurement:
    """A call that does not fit is refused in a line that names the argument, and harms nothing."""
    from tinyref import Tensor, TinyJit

    def tensor(*shape: int) -> Tensor:
        return Tensor(_integers(*shape), device=device.name)

    scaled = TinyJit(lambda x, factor: x * factor + 1)
    calls: dict[str, Callable[[], object]] = {
        "another shape": lambda: scaled(tensor(3, 2), 2),
        "another type": lambda: scaled(tensor(2, 2).cast(dtypes.int32), 2),
        "another number": lambda: scaled(tensor(2, 2), 3),
        "another container": lambda: scaled([tensor(2, 2)], 2),
    }
    with Context(JIT=1):
        for _ in range(3):
            scaled(tensor(2, 2), 2)
        for what, call in calls.items():
            try:
                call()
            except UserError as error:
                if "argument" in str(error) and "\n" not in str(error):
                    continue
                return Measurement(False, f"{what}: refused as {error}", 1)
            return Measurement(False, f"{what} is not refused", 1)
        wanted = _integers(2, 2) * 2 + 1
        return judge_pairs([("a call that fits", scaled(tensor(2, 2), 2).numpy(), wanted)])


# --- symbolic shapes ----------------------------------------------------------------------------


def _symbolic(jit: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """One kernel serves all sizes: sums, products, and a window that moves."""
    from tinyref import Tensor, TinyJit, Variable
    from tinyref.uops.node import UOp

    whole = _integers(4, 6)
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

    rows = _integers(6, 3)
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
    x = Tensor(_integers(2, 8), device=device.name).realize()
    wanted = _integers(2, 8)
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

    x = Tensor(_integers(24, 24), device=device).realize()
    # Sums that every element of the next sum needs: each is stored, and none is a result.
    for _ in range(4):
        rows, columns = x.sum(1, keepdim=True), x.max(0, keepdim=True)
        x = (rows - columns).flip(0) - x.sum()
        x = x - x.max(1, keepdim=True).flip(0)
    outputs = [x.sum(0), x.max(1), x - 1]
    Tensor.realize(*outputs)
    return [output.numpy() for output in outputs]


def _graph_by_numpy() -> list[Array]:
    x = _integers(24, 24).astype(np.float64)
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
                    x = _integers(24, 40, seed=call)
                    # Its result is gone when the next one gets memory: what lies there is wrong.
                    jitted(Tensor(x + 1, device=device.name))
                    found = jitted(Tensor(x, device=device.name)).numpy()
                    yield f"call {call} with MEMORY_PLAN={plan}", found, (x + 6).sum(0)

    return judge_pairs(pairs())


def rows() -> Iterator[Row]:
    """Rows of the level, from single kernels in sequence to whole captured steps."""
    tables: tuple[tuple[str, str, tuple[str, ...], str, Callable[[], list[Check]]], ...] = (
        (
            "kernels",
            "Many kernels in a row, and buffers of many megabytes.",
            ("system.kernels",),
            "int32",
            lambda: [
                Check("row:80", functools.partial(_many_kernels, 80)),
                Check("row:800", functools.partial(_many_kernels, 800), full_only=True),
                Check("large:1000000", functools.partial(_large, 1_000_000)),
                Check("large:20000000", functools.partial(_large, 20_000_000), full_only=True),
            ],
        ),
        (
            "memory",
            "Intermediate results share memory, and no result notices.",
            ("system.memory",),
            "float32",
            lambda: [Check("plan", _memory_plan), Check("replay", _replay_plan)],
        ),
        (
            "symbolic",
            "Kernels with symbolic sizes serve all values of the variables.",
            ("system.symbolic", "tensor.bind"),
            "float32",
            lambda: [
                Check("forms", functools.partial(_symbolic, 0)),
                Check("forms.replay", functools.partial(_symbolic, 1)),
                Check("cache", functools.partial(_cache, 0)),
                Check("cache.replay", functools.partial(_cache, 1)),
            ],
        ),
        (
            "jit",
            "A captured function is replayed on other inputs, and its state goes on.",
            ("system.jit", "system.jit.state", "tensor.assign"),
            "float32",
            lambda: [
                Check("inputs", _replayed_inputs),
                Check("state", _replayed_state),
                Check("refused", _replay_refused),
            ],
        ),
    )
    needs = kernel_needs(dtypes.float32, dtypes.int32, dtypes.bool)
    for name, sentence, cited, dtype, checks in tables:
        row_id = f"system.{name}.{dtype}"
        yield make_row(row_id, sentence, cited, Rung.JIT, name, dtype, EXACT, needs, checks)
    yield from transfers.rows()
    yield from sharding.rows()
    yield from images.rows()
    yield from state.rows()
