"""Checks of captured functions: arguments, state, order, and calls without a wait.

Each function has several kernels, so that a device that records launches gets a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tinyref.config import Context
from tinyref.device import Buffer
from tinyref.dtype import dtypes
from tinyref.runtimes.kernel import BoundKernel, compile_program, record
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement
from tinyref_spec.checks import judge_pairs
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs
from tinyref_spec.samples import integers

CALLS = 5
INT = dtypes.int32
SIZE = 24
# Number of launches of a long list: more than a byte can count, and even.
LAUNCHES = 264


def _replayed_inputs(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that every replay reads the memory of its call, and writes its own."""
    from tinyref import Tensor, TinyJit

    @TinyJit
    def scores(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).relu().sum(0) - x.sum()

    def pairs() -> Iterator[tuple[str, object, object]]:
        results = []
        for call in range(CALLS):
            x, y = integers(4, 6, seed=call), integers(6, 3, seed=call + 50)
            tensors = (Tensor(x, device=device.name), Tensor(y, device=device.name))
            # Its result is freed before the next one gets memory, which then holds wrong values.
            scores(Tensor(x + 1, device=device.name), tensors[1])
            results.append((scores(*tensors), np.maximum(x @ y, 0).sum(0) - x.sum()))
            yield f"call {call}", results[-1][0].numpy(), results[-1][1]
        for call, (result, expected) in enumerate(results):
            yield f"the result of call {call} after all calls", result.numpy(), expected

    with Context(JIT=1):
        return judge_pairs(pairs())


def _replayed_state(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that assigned state advances with every replay as in a plain run."""
    from tinyref import Tensor, TinyJit

    weight = Tensor(integers(3, 2), device=device.name).realize()
    count = Tensor(np.zeros(1, np.float32), device=device.name).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        error = x @ weight - 1
        count.assign(count + 1)
        weight.assign(weight - x.T @ error)
        return error.sum() + count

    def pairs() -> Iterator[tuple[str, object, object]]:
        expected = integers(3, 2)
        for call in range(CALLS):
            x = integers(2, 3, seed=call, most=1)
            error = x @ expected - 1
            expected = expected - x.T @ error
            tensor = Tensor(x, device=device.name)
            yield f"result {call}", step(tensor).numpy(), [error.sum() + call + 1]
            yield f"weights after call {call}", weight.numpy(), expected

    with Context(JIT=1):
        return judge_pairs(pairs())


def _views_of_a_base(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Read another part of one buffer in each call, and update the buffer between calls.

    Launches are repeated alone, and as a list if the device records lists.
    """
    kernel = compile_program(device.name, _tripling())
    step = max(4, device.capabilities.view_alignment // INT.itemsize)
    held = np.arange(8 * step + SIZE, dtype=np.int32) * 5
    base = Buffer(device.name, held.size, INT).copy_in(held.data)
    outputs = [Buffer(device.name, SIZE, INT) for _ in range(2)]
    bound = [BoundKernel(kernel, [out, base.view(0, SIZE, INT)], {}) for out in outputs]

    def pairs() -> Iterator[tuple[str, object, object]]:
        nonlocal held
        for way in ("alone", "as a list"):
            commands = record(bound) if way == "as a list" else None
            launches = [item.prepare() for item in bound] if commands is None else [commands]
            for call, first in enumerate((1, 1, 4, 0, 8, 4, 1)):
                firsts = (first * step, (8 - first) * step)
                for item, begin in zip(bound, firsts, strict=True):
                    item.rebind(1, base.view(begin * INT.itemsize, SIZE, INT))
                for launch in launches:
                    launch()
                expected = [held[begin : begin + SIZE] * 3 + 1 for begin in firsts]
                held = held + 7
                base.copy_in(held.data)
                for number, out in enumerate(outputs):
                    values = np.frombuffer(out.copy_out(), np.int32)
                    yield f"part {number}, call {call}, {way}", values, expected[number]

    return judge_pairs(pairs())


def _long_list(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Replay more launches than a byte can count, on other inputs each time.

    Every other launch reads the result of the one before it; the others read a part of one buffer.
    """
    kernel = compile_program(device.name, _tripling(1))
    step = max(1, device.capabilities.view_alignment // INT.itemsize)
    numbers = np.arange(2 * LAUNCHES * step, dtype=np.int32) * 5 + 1
    base = Buffer(device.name, numbers.size, INT).copy_in(numbers.data)
    results = Buffer(device.name, numbers.size, INT).copy_in(np.zeros_like(numbers).data)

    def part(whole: Buffer, number: int) -> Buffer:
        return whole.view(number * step * INT.itemsize, 1, INT)

    sources = [part(results, number - 1) for number in range(1, LAUNCHES, 2)]
    bound = [
        BoundKernel(kernel, [part(results, number), sources[number // 2]], {})
        for number in range(LAUNCHES)
    ]
    commands = record(bound)
    launches = [item.prepare() for item in bound] if commands is None else [commands]

    def pairs() -> Iterator[tuple[str, object, object]]:
        for call, first in enumerate((0, LAUNCHES, 7, 7)):
            # The last call gets the same buffers as the one before, with other contents.
            numbers[:] += call
            base.copy_in(numbers.data)
            for number in range(0, LAUNCHES, 2):
                bound[number].rebind(1, part(base, first + number))
            for launch in launches:
                launch()
            outputs = np.frombuffer(results.copy_out(), np.int32)[: LAUNCHES * step : step]
            expected = numbers[first * step :: step][:LAUNCHES:2] * 3 + 1
            yield f"call {call}, launches that read inputs", outputs[::2], expected
            yield f"call {call}, launches that read results", outputs[1::2], expected * 3 + 1

    return judge_pairs(pairs())


def _tripling(size: int = SIZE) -> Program:
    out, data = build.define_global(0, INT, size), build.define_global(1, INT, size)
    i = programs.loop(size, 0)
    value = build.add(build.mul(build.load(programs.at(data, i)), 3), 1)
    return programs.program("tripling", i, build.store(programs.at(out, i), value), build.close(i))


def _in_flight(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Make calls before earlier ones have ended: each has its own arguments and results."""
    from tinyref import Tensor, TinyJit

    @TinyJit
    def chain(x: Tensor, y: Tensor) -> Tensor:
        for number in range(3):
            x = (x.T.contiguous().realize() - number).realize()
        return x.sum(0) + y

    arrays = [(integers(7, 5, seed=call), integers(7, seed=call + 50)) for call in range(CALLS)]
    with Context(JIT=1):
        tensors = [
            [Tensor(array, device=device.name).realize() for array in pair] for pair in arrays
        ]
        for _ in range(2):
            chain(*tensors[0]).numpy()
        # Launches that must run before the first call.
        moved = [[(tensor + 1).realize() for tensor in pair] for pair in tensors]
        results = [chain(*pair) for pair in moved]
        return judge_pairs(
            (f"the result of call {call}", results[call].numpy(), (x + 1 - 3).sum(1) + y + 1)
            for call, (x, y) in enumerate(arrays)
        )


def _in_flight_sizes(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Make such calls with other values of a variable, and a launch that is empty for 0."""
    from tinyref import Tensor, TinyJit, Variable
    from tinyref.uops.node import UOp

    whole = integers(4, 6)
    x = Tensor(whole, device=device.name).realize()
    total = Tensor(np.zeros((4, 6), np.float32), device=device.name).realize()

    @TinyJit
    def forms(size: UOp) -> list[Tensor]:
        part = (x[:, :size] * 2).contiguous().realize()
        total[:, :size] = total[:, :size] + part
        return [part.sum(1) - 1, (total + 0).contiguous()]

    def pairs() -> Iterator[tuple[str, object, object]]:
        sizes = (4, 1, 6, 0, 3, 0, 5)
        results = [forms(n.bind(size)) for size in sizes]
        expected = np.zeros((4, 6), np.float32)
        for size, (sums, totals) in zip(sizes, results, strict=True):
            part = whole[:, :size] * 2
            expected[:, :size] += part
            yield f"sums for n = {size}", sums.numpy(), part.sum(1) - 1
            yield f"totals after n = {size}", totals.numpy(), expected

    n = Variable("n", 0, 6)
    with Context(JIT=1):
        return judge_pairs(pairs())


def _aliases(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Use a result as the next argument, one tensor for both, and assign to an argument."""
    from tinyref import Tensor, TinyJit

    @TinyJit
    def mix(x: Tensor, y: Tensor) -> Tensor:
        return (x - y.flip(0)).contiguous().realize().T.contiguous() + y

    @TinyJit
    def grow(x: Tensor, y: Tensor) -> Tensor:
        old = (x + 0).contiguous().realize()
        x.assign(x.T.contiguous() + y)
        return old - x

    def mixed(x: Array, y: Array) -> Array:
        return (x - y[::-1]).T + y

    def pairs() -> Iterator[tuple[str, object, object]]:
        first = integers(4, 4, seed=1, most=2)
        result, expected = Tensor(first, device=device.name).realize(), first
        step, other = integers(4, 4, seed=2, most=2), first
        y, start = Tensor(step, device=device.name).realize(), result
        for call in range(CALLS):
            result, expected = mix(result, y), mixed(expected, step)
            yield f"a result of a result, call {call}", result.numpy(), expected
            yield f"one tensor for both, call {call}", mix(y, y).numpy(), mixed(step, step)
        x, state = (start + 0).contiguous().realize(), first
        for call in range(CALLS):
            other, state = state, state.T + step
            yield f"the difference, call {call}", grow(x, y).numpy(), other - state
            yield f"the assigned tensor, call {call}", x.numpy(), state

    with Context(JIT=1):
        return judge_pairs(pairs())


CHECKS: dict[str, Callable[[str, DeviceUnderTest], Measurement]] = {
    "inputs": _replayed_inputs,
    "state": _replayed_state,
    "views": _views_of_a_base,
    "long_list": _long_list,
    "in_flight": _in_flight,
    "in_flight.sizes": _in_flight_sizes,
    "aliases": _aliases,
}
