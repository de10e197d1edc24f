"""Declared limits, each reached by a kernel, one dimension at a time, within a time limit.

If a device declares more than can be reached in time, the case says how far it came: the rest is
"not probed".
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tinyref.device import Buffer
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import DeviceError
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_spec import samples
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, Run, kernel_needs, make_row, same_bytes
from tinyref_spec.device_under_test import DeviceUnderTest, compile_for
from tinyref_spec.kernel import programs
from tinyref_spec.kernels.named import copied
from tinyref_spec.kernels.notation import shaped, store
from tinyref_spec.measure import run_exact
from tinyref_spec.memory import order
from tinyref_spec.styles import Style

INT = dtypes.int32
# A probe stops if the next step would take longer.
BUDGET_SECONDS = 4.0
GRIDS = (1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
MAX_INDEX = 2**31 - 1
MAX_BUFFERS = 1024
MAX_ITEMS = 1024
MAX_GROUP = 1 << 16
MAX_SHARED = 1 << 26
DIMENSIONS = ("x", "y", "z")
OFFSET_DTYPES = (dtypes.uint8, dtypes.int16, dtypes.float16, dtypes.int32, dtypes.float64)
OFFSETS = (1, 2, 3, 5, 17)
# Numbers of buffers besides the declared limit: above 16 and 30, drivers may pass them differently.
SOME_BUFFERS = (17, 31)
# Iterations: more than 16 and 20 bits can count, and more than a float32 can distinguish.
LOOPS = (65_537, 1_048_577, (1 << 24) + 3)
LONG_LOOPS = (*LOOPS, (1 << 28) + 3, MAX_INDEX)
LONG_BUDGET_SECONDS = 20.0
OUTER_ITERATIONS = 257
# Elements of 4 bytes before the first one beyond 4 GiB.
FAR = 1 << 30
# More than 64 KiB, and more than 2**16 elements; then more than 2**20.
LARGE_SIZES = (70_001, 1_100_003)


def _extents(dim: int, size: int) -> programs.Extents:
    extents = [1, 1, 1]
    extents[dim] = size
    return extents[0], extents[1], extents[2]


def note_reach(measured: Measurement, reached: int, limit: int, what: str) -> Measurement:
    """Record in a measurement how far a probe came, and return it."""
    measured.observed = f"{what} of {reached:,}"
    if reached < limit:
        measured.observed += f"; not probed from there to {limit:,}"
    if not measured.passed:
        measured.message = f"{what} of {reached:,}, {limit:,} declared: {measured.message}"
    return measured


def _grid_kernel(dim: int, size: int) -> Program:
    """Return a kernel in which the first, the middle and the last group write their numbers."""
    out = build.define_global(0, INT, 3)
    group = programs.group_index(size, dim)
    is_first, is_last = build.equal(group, 0), build.equal(group, size - 1)
    writes = build.either(build.either(is_first, is_last), build.equal(group, size // 2))
    last_or_middle = build.where(is_last, build.const(INT, 2), build.const(INT, 1))
    position = build.where(is_first, build.const(INT, 0), last_or_middle)
    final = build.store(programs.at(out, position), group, writes)
    return programs.program(f"grid_{DIMENSIONS[dim]}", final, grid=_extents(dim, size))


def _grid(dim: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    limit = device.capabilities.grid_limit[dim]
    most = min(limit, MAX_INDEX)
    old = np.array([-1, -2, -3], np.int32)
    measured, reached, seconds = Measurement(True), 0, 0.0
    for size in (*(size for size in GRIDS if size < most), most):
        if reached and seconds * size / reached > BUDGET_SECONDS:
            break
        kernel = _grid_kernel(dim, size)
        begin = time.perf_counter()
        measured = programs.run(case_id, device, kernel, [old], _grid_written(old, size))
        seconds, reached = time.perf_counter() - begin, size
        if not measured.passed:
            break
    return note_reach(measured, reached, limit, f"a grid along {DIMENSIONS[dim]}")


def _grid_written(old: Array, size: int) -> Array:
    """Return the output of `_grid_kernel` on `old`."""
    written = old.copy()
    for number in {0, size // 2, size - 1}:
        written[0 if number == 0 else 2 if number == size - 1 else 1] = number
    return written


def _group(dim: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    declared = device.capabilities
    limit = min(declared.group_limit[dim], declared.group_size_limit)
    size = min(limit, MAX_GROUP)
    result = programs.items(_extents(dim, size), case_id, device)
    return note_reach(result, size, limit, f"a group along {DIMENSIONS[dim]}")


def largest_group(limits: programs.Extents, most: int) -> programs.Extents:
    """Return a group of the most work-items, in several dimensions if possible."""
    spread = _fill_extents((min(limits[0], 1 << most.bit_length() // 2), *limits[1:]), most)
    return spread if _size(spread) == most else max(spread, _fill_extents(limits, most), key=_size)


def _fill_extents(limits: programs.Extents, most: int) -> programs.Extents:
    """Return the largest divisors of `most` that fit, one dimension after another."""
    extents = []
    for limit in limits:
        extents.append(max(size for size in range(1, min(limit, most) + 1) if most % size == 0))
        most //= extents[-1]
    return extents[0], extents[1], extents[2]


def _size(extents: programs.Extents) -> int:
    return extents[0] * extents[1] * extents[2]


def _whole_group(case_id: str, device: DeviceUnderTest) -> Measurement:
    declared = device.capabilities
    most = min(declared.group_size_limit, MAX_GROUP)
    extents = largest_group(declared.group_limit, most)
    result = programs.items(extents, case_id, device)
    return note_reach(
        result, _size(extents), declared.group_size_limit, f"a group of {extents}, in all"
    )


def _measure_shared_memory(items: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Fill all of the shared memory, and add up what other work-items have written."""
    limit = device.capabilities.shared_bytes // INT.itemsize * INT.itemsize
    size = min(limit, MAX_SHARED) // INT.itemsize
    while size % items:
        items //= 2
    out = build.define_global(0, INT, items)
    shared = build.define_local("shared", INT, size)
    item = programs.item_index(items) if items > 1 else build.const(INT, 0)
    filling, adding = programs.loop(size // items, 0), programs.loop(size // items, 1)
    position = build.add(build.mul(filling, items), item)
    put = build.store(programs.at(shared, position), build.add(build.mul(position, 7), 1))
    total = build.accumulator("total", build.const(INT, 0))
    other = programs.subtract(size - 1, build.add(build.mul(adding, items), item))
    new = build.update(total, build.add(total, build.load(programs.at(shared, other))))
    barrier = [build.barrier()] if items > 1 else []
    subject = programs.program(
        "shared",
        item,
        filling,
        put,
        build.close(filling),
        *barrier,
        total,
        adding,
        new,
        build.close(adding),
        build.store(programs.at(out, item), total),
        group=(items, 1, 1),
    )
    written = np.arange(size, dtype=np.int64)[::-1] * 7 + 1
    expected = written.reshape(-1, items).sum(0).astype(np.int32)
    measured = programs.run(case_id, device, subject, [None], expected)
    return note_reach(measured, size * INT.itemsize, limit, "shared bytes")


def _group_shared(case_id: str, device: DeviceUnderTest) -> Measurement:
    declared = device.capabilities
    most = min(MAX_ITEMS, declared.group_size_limit, declared.group_limit[0])
    return _measure_shared_memory(1 << (most.bit_length() - 1), case_id, device)


def _buffers(most: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store the weighted sum of up to `most` buffers, within the limit, to the first one."""
    limit = device.capabilities.buffer_limit
    count = min(limit, most)
    if count == 1:
        return note_reach(programs.grid((1, 1, 1), case_id, device), 1, 1, "buffers")
    memories = [build.define_global(slot, INT, 1) for slot in range(count)]
    terms = [
        build.mul(build.load(programs.at(memory, 0)), slot)
        for slot, memory in enumerate(memories[1:], 1)
    ]
    total = functools.reduce(build.add, terms)
    subject = programs.program("buffers", build.store(programs.at(memories[0], 0), total))
    inputs: list[Array | None] = [None]
    inputs += [np.array([slot + 3], np.int32) for slot in range(1, count)]
    expected = np.array([sum((slot + 3) * slot for slot in range(1, count))], np.int32)
    measured = programs.run(case_id, device, subject, inputs, expected)
    return note_reach(measured, count, limit, "buffers")


def _loop_kernel(extents: tuple[int, ...], is_quick: bool) -> Program:
    """Return out[0] = the result of nested loops on in[0]: a sum, or dependent steps.

    An interpreter adds up many terms at once; a compiler replaces sums by their formula.
    """
    out, start = (build.define_global(slot, order.WORD, 1) for slot in range(2))
    loops = [programs.loop(extent, number) for number, extent in enumerate(extents)]
    number = build.accumulator("number", build.load(programs.at(start, 0)))
    counted = build.add(build.mul(build.cast(loops[-1], order.WORD), 3), 1)
    stepped = build.add(build.mul(number, order.FACTOR), order.STEP)
    new = build.update(number, stepped if is_quick else build.add(number, counted))
    ends = [build.close(loop) for loop in reversed(loops)]
    final = build.store(programs.at(out, 0), number)
    return programs.program("long_loops", number, *loops, new, *ends, final)


def _after_loops(start: int, extents: tuple[int, ...], is_quick: bool) -> int:
    """Return what `_loop_kernel` computes, by formulas."""
    *outer, inner = extents
    if is_quick:
        return order.after_iterations(start, math.prod(extents))
    return (start + math.prod(outer) * (3 * inner * (inner - 1) // 2 + inner)) % 2**32


def _loop(
    outer: tuple[int, ...],
    sizes: tuple[int, ...],
    budget: float,
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    """Run loops of more and more iterations, as long as the next ones fit the budget."""
    is_quick = not device.capabilities.is_interpreted
    measured, reached, seconds = Measurement(True), 0, 0.0
    # An interpreter needs memory for all terms that it adds at once.
    for size in sizes if is_quick else LOOPS:
        if reached and seconds * size / reached > budget:
            break
        extents = (*outer, size // math.prod(outer))
        expected = np.array([_after_loops(5, extents, is_quick)], np.uint32)
        kernel, values = _loop_kernel(extents, is_quick), np.array([5], np.uint32)
        # Compiled before the clock starts.
        device.source(kernel)
        begin = time.perf_counter()
        measured = programs.run(case_id, device, kernel, [None, values], expected)
        seconds, reached = time.perf_counter() - begin, size
        if not measured.passed:
            break
    return note_reach(measured, reached, MAX_INDEX, "loops of a work-item, iterations in all")


def _loop_checks() -> list[Check]:
    outers = {"single": (), "nested": (OUTER_ITERATIONS,)}
    return [
        Check(f"{name}{suffix}", functools.partial(_loop, outer, sizes, budget), full_only=is_long)
        for suffix, sizes, budget, is_long in (
            ("", LOOPS, BUDGET_SECONDS, False),
            (":seconds", LONG_LOOPS, LONG_BUDGET_SECONDS, True),
        )
        for name, outer in outers.items()
    ]


def _far(is_store: bool, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy four elements from, or to, an index beyond 4 GiB; the start of the buffer stays.

    The memory is only reserved on systems that allocate pages on first use.
    """
    if is_store and device.capabilities.is_interpreted:
        return Measurement(True, compared=1, observed="not probed: an interpreter copies outputs")
    near, data = samples.random_bits(INT, 64, 1), samples.random_bits(INT, 4, 2)
    whole, small = Buffer(device.name, FAR + near.size, INT), Buffer(device.name, 4, INT)
    try:
        whole.allocate()
    except DeviceError:
        return Measurement(True, compared=1, observed="not probed: no room for more than 4 GiB")
    begin, position = whole.view(0, near.size, INT), FAR + 5
    part = whole.view(position * INT.itemsize, 4, INT)
    begin.copy_in(near.data)
    (small if is_store else part).copy_in(data.data)
    target, source = (whole, small) if is_store else (small, whole)
    out, values = (
        build.define_global(slot, INT, it.size) for slot, it in enumerate((target, source))
    )
    first, other = (position, 0) if is_store else (0, position)
    stores = [
        build.store(programs.at(out, first + i), build.load(programs.at(values, other + i)))
        for i in range(4)
    ]
    subject = programs.program("far", *stores)
    compile_for(device.name, subject, device.style or Style.FULL)([target, source])
    for buffer, expected, what in (
        (part if is_store else small, data, "the part beyond 4 GiB"),
        (begin, near, "the start of the buffer"),
    ):
        measured = same_bytes(np.frombuffer(buffer.copy_out(), np.int32), expected, what)
        if not measured.passed:
            return measured
    return measured


VALUES = (1, 65_537, 2**31 - 1, 0, -1, -(2**31))


def _variable(value: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store three variables: each arrives whole and at its index."""
    first, second, third = (
        build.variable(name, -(2**31), 2**31 - 1) for name in ("first", "second", "third")
    )
    kernel = build.sink(
        *(
            store(slot, build.cast(variable, INT), (1,))
            for slot, variable in enumerate((third, first, second))
        )
    )
    bindings = {"first": value, "second": value ^ 0x5555, "third": ~value}
    target = [bindings[name] for name in ("third", "first", "second")]
    expected = [np.array([item], np.int32) for item in target]
    return run_exact(case_id, device, kernel, [None] * 3, expected, bindings)


def _offset(dtype: DType, offset: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy from and to views that begin `offset` steps into their buffers.

    A step is an element, or more if the device declares an alignment of views.
    """
    step = max(1, device.capabilities.view_alignment // dtype.itemsize)
    size = 48
    first = offset * step
    whole = max(96, first + step + size)
    kernel = compile_for(device.name, copied(dtype, shaped(size)), device.style or Style.FULL)
    data, old = samples.random_bits(dtype, whole, 1), samples.random_bits(dtype, whole, 2)
    out, source = (Buffer(device.name, whole, dtype) for _ in range(2))
    out.copy_in(to_bits(old).data)
    source.copy_in(to_bits(data).data)
    views = (
        buffer.view(position * dtype.itemsize, size, dtype)
        for buffer, position in ((out, first), (source, first + step))
    )
    kernel(list(views))
    expected = old.copy()
    expected[first : first + size] = data[first + step : first + step + size]
    result = np.frombuffer(out.copy_out(), numpy_dtype(dtype))
    wrong = np.flatnonzero(to_bits(result) != to_bits(expected))
    message = f"element {wrong[0]} of {whole} is wrong" if wrong.size else ""
    return Measurement(not wrong.size, message, compared=whole)


def _dimensions(probe: Callable[[int, str, DeviceUnderTest], Measurement]) -> dict[str, Run]:
    return {name: functools.partial(probe, dim) for dim, name in enumerate(DIMENSIONS)}


@dataclass(frozen=True)
class Limit:
    """One row: a declared limit, by its name, and the kernels that reach it."""

    sentence: str
    clause: str
    rung: Rung
    checks: Mapping[str, Run]
    features: tuple[str, ...] = ()


LIMITS: dict[str, Limit] = {
    "grid": Limit(
        "A grid may be as long as declared in each dimension.",
        clause="kernel.special",
        rung=Rung.GATE,
        checks=_dimensions(_grid),
        features=("grid",),
    ),
    "group": Limit(
        "A group may be as long as declared in each dimension, and as large in all.",
        clause="kernel.special",
        rung=Rung.GROUP,
        checks={**_dimensions(_group), "all": _whole_group},
        features=("grid", "groups"),
    ),
    "shared": Limit(
        "A group may use all of the declared shared memory.",
        clause="kernel.local",
        rung=Rung.GROUP,
        checks={"all": _group_shared},
        features=("grid", "groups", f"shared:{INT.itemsize}"),
    ),
    "scratch": Limit(
        "Without groups, a work-item may use all of the declared shared memory.",
        clause="kernel.local",
        rung=Rung.LOOP,
        checks={"all": functools.partial(_measure_shared_memory, 1)},
        features=("scratch",),
    ),
    "buffers": Limit(
        "A kernel may take as many buffers as declared.",
        clause="kernel.global",
        rung=Rung.INDEX,
        checks={
            str(most) if most < MAX_BUFFERS else "all": functools.partial(_buffers, most)
            for most in (*SOME_BUFFERS, MAX_BUFFERS)
        },
    ),
}


def rows() -> Iterator[Row]:
    """Yield a row for each declared limit, and for limits that need no declaration."""
    for name, limit in LIMITS.items():
        yield make_row(
            f"kernel.program.limit.{name}",
            limit.sentence,
            clauses=("device.limit", limit.clause),
            rung=limit.rung,
            op="SPECIAL" if "grid" in limit.features else "DEFINE_GLOBAL",
            dtype=INT,
            features=limit.features,
            checks=limit.checks,
        )
    yield make_row(
        "kernel.program.limit.loop",
        "Loops of a work-item may have as many iterations as their counter has numbers.",
        clauses=("kernel.range", "kernel.accumulator"),
        rung=Rung.LOOP,
        op="RANGE",
        dtype=INT,
        uses=(INT, order.WORD),
        checks=_loop_checks,
        advice="look at what counts iterations, and at what ends loops or kernels that take long",
    )
    yield make_row(
        "kernel.far.bytes",
        "Kernels load and store at more than 4 GiB from the start of a buffer.",
        clauses=("kernel.index", "kernel.global"),
        rung=Rung.INDEX,
        op="INDEX",
        dtype=INT,
        checks={
            "load": functools.partial(_far, False),
            "store": functools.partial(_far, True),
        },
        advice="look at how many bits the offset of an address has, in bytes",
    )
    yield make_row(
        "kernel.variable.int32",
        "A symbolic variable has all of its 32 bits, and several have separate values.",
        clauses=("kernel.variable", "device.limit"),
        rung=Rung.INDEX,
        op="DEFINE_VAR",
        dtype=INT,
        checks={f"value:{value}": functools.partial(_variable, value) for value in VALUES},
    )
    for dtype in OFFSET_DTYPES:
        yield make_row(
            f"kernel.offset.{dtype.name}",
            f"Kernels accept views that begin at any {dtype.name} element that the declared "
            "alignment allows.",
            clauses=("memory.view", "device.limit"),
            rung=Rung.INDEX,
            op="LOAD",
            dtype=dtype,
            checks={f"offset:{item}": functools.partial(_offset, dtype, item) for item in OFFSETS},
            advice="views begin at any element: look at how offsets are passed",
        )
    for dtype in (dtypes.uint8, INT):
        yield make_row(
            f"kernel.size.{dtype.name}",
            f"A kernel reaches all of {dtype.name} buffers of more than 64 KiB and 2**16 elements.",
            clauses=("kernel.index", "kernel.global"),
            rung=Rung.INDEX,
            op="INDEX",
            dtype=dtype,
            checks=functools.partial(_large_checks, dtype),
            advice="look at how many bits an address has, and at the largest grid of a launch",
        )


def _large(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    data = samples.random_bits(dtype, size, 9)
    return run_exact(case_id, device, copied(dtype, shaped(size)), [None, data], [data])


def _large_checks(dtype: DType) -> list[Check]:
    return [
        Check(
            f"size:{size}",
            functools.partial(_large, dtype, size),
            full_only=number > 0,
            needs=kernel_needs(features=(f"items:{size}",)),
        )
        for number, size in enumerate(LARGE_SIZES)
    ]
