"""Programs of forms that often break compilers and drivers of GPUs, and seldom those of hosts.

Partly filled groups, barriers near branches and loops, the extremes of a group, shared arrays of
several types. Also long kernels, names that are built-ins, unused parameters, and one kernel
launched with several grids.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.build import accumulator, barrier, branch, close, update
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import CaseNeeds, Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, launch_needs, make_row
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import INT, Extents, at, group_index, item_index, loop, program
from tinyref_spec.kernel.together import storing
from tinyref_spec.measure import run_exact

WORD = dtypes.uint32
# Built-in functions, types and keywords of OpenCL C, WGSL, CUDA, Metal and C.
NAMES = (
    "rotate",
    "dot",
    "select",
    "sample",
    "kernel",
    "main",
    "half",
    "int",
    "min",
    "max",
    "clamp",
    "barrier",
    "float4",
    "void",
    "return",
    "fn",
    "var",
    "let",
    "texture",
    "vertex",
    "device",
    "thread",
    "threadIdx",
    "get_global_id",
    "saturate",
    "workgroupBarrier",
    "printf",
    "double",
)
QUICK_NAMES = NAMES[:8]
VALUES = np.array([5, -7, 11, 2], np.int32)


def _after_each_other(first: UOp, second: UOp | int, factor: int) -> UOp:
    """Return first * factor + second."""
    return build.add(build.mul(first, factor), second)


# --- groups ---------------------------------------------------------------------------------------


def _partial(count: int, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Exchange values twice by shared memory, in groups; the last one may be partial."""
    groups = -(-count // size)
    out, data = build.define_global(0, INT, count), build.define_global(1, INT, count)
    row, sums = build.define_local("row", INT, size), build.define_local("sums", INT, size)
    item = item_index(size)
    position = _after_each_other(group_index(groups), item, size)
    inside = build.less(position, count)
    put = build.store(at(row, item), build.load(at(data, position), inside, 0))
    neighbour = build.load(at(row, build.mod(build.add(item, 1), size)))
    added = build.store(at(sums, item), build.add(build.load(at(row, item)), neighbour))
    other = build.load(at(sums, programs.subtract(size - 1, item)))
    final = build.store(at(out, position), other, inside)
    subject = program(
        "partial",
        put,
        barrier(),
        added,
        barrier(),
        final,
        grid=(groups, 1, 1),
        group=(size, 1, 1),
    )
    values = small_and_extreme(INT, count, size, 1000)
    padded = np.zeros(groups * size, np.int32)
    padded[:count] = values
    rows = padded.reshape(groups, size)
    expected = (rows + np.roll(rows, -1, axis=1))[:, ::-1].reshape(-1)[:count]
    return programs.run(case_id, device, subject, [None, values], np.ascontiguousarray(expected))


def _gated_cell(count: int, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Reset a cell that a group shares, write it once behind a gate, and read it in all items."""
    groups = -(-count // size)
    out, data = build.define_global(0, INT, count), build.define_global(1, INT, count)
    cell = at(build.define_local("cell", INT, 1), 0)
    item = item_index(size)
    position = _after_each_other(group_index(groups), item, size)
    reset = build.store(cell, build.const(INT, -1), build.equal(item, 0))
    inside = branch(build.less(position, count))
    mine = build.load(at(data, position))
    put = build.store(cell, build.add(item, mine), build.equal(mine, 1))
    seen = build.load(cell)
    final = build.store(at(out, position), seen, build.less(position, count))
    steps = (reset, barrier(), inside, mine, put, close(inside), barrier(), seen, final)
    subject = program("cell", item, position, cell, *steps, grid=(groups, 1, 1), group=(size, 1, 1))
    values, expected = np.zeros(count, np.int32), np.full(count, -1, np.int32)
    for group in range(0, groups, 2):
        # In every other group, no item writes.
        last = min(size, count - group * size) - 1
        values[group * size + last] = 1
        expected[group * size : (group + 1) * size] = last + 1
    return programs.run(case_id, device, subject, [None, values], expected)


def _uniform_branch(size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Meet at two barriers in odd groups only; the others never reach them."""
    out, data = build.define_global(0, INT, 4 * size), build.define_global(1, INT, 4 * size)
    shared = build.define_local("shared", INT, size)
    group, item = group_index(4), item_index(size)
    position = _after_each_other(group, item, size)
    put = build.store(at(shared, item), build.load(at(data, position)))
    odd = branch(build.equal(build.mod(group, 2), 1))
    other = build.load(at(shared, programs.subtract(size - 1, item)))
    again = build.store(at(shared, item), build.mul(other, 3))
    taken = build.load(at(shared, build.mod(build.add(item, 1), size)))
    final = build.store(at(out, position), taken)
    inside = (odd, other, barrier(), again, barrier(), close(odd))
    subject = program("uniform", put, barrier(), *inside, final, grid=(4, 1, 1), group=(size, 1, 1))
    values = small_and_extreme(INT, 4 * size, size, 1000)
    rows = values.reshape(4, size).copy()
    rows[1::2] = rows[1::2, ::-1] * 3
    expected = np.ascontiguousarray(np.roll(rows, -1, axis=1).reshape(-1))
    return programs.run(case_id, device, subject, [None, values], expected)


def _uniform_loop(size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Meet at barriers in a loop that runs longer in each group than in the one before."""
    out = build.define_global(0, INT, 4 * size)
    shared = build.define_local("shared", INT, size)
    group, item = group_index(4), item_index(size)
    mine, k = accumulator("mine", item), loop(group, 0)
    put = build.store(at(shared, item), mine)
    new = update(mine, build.load(at(shared, build.mod(build.add(item, 1), size))))
    final = build.store(at(out, _after_each_other(group, item, size)), mine)
    subject = program(
        "turns",
        group,
        mine,
        k,
        put,
        barrier(),
        new,
        barrier(),
        close(k),
        final,
        grid=(4, 1, 1),
        group=(size, 1, 1),
    )
    numbers = np.arange(size, dtype=np.int32)
    expected = np.concatenate([np.roll(numbers, -turns) for turns in range(4)])
    return programs.run(case_id, device, subject, [None], expected)


def _divergent_beside(size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Diverge before and after a barrier: each work-item takes its own way."""
    out = build.define_global(0, INT, size)
    shared = build.define_local("shared", INT, size)
    item = item_index(size)
    total, k = accumulator("total", build.const(INT, 100)), loop(item, 0)
    new = update(total, build.add(total, k))
    put = build.store(at(shared, item), total)
    other = build.load(at(shared, programs.subtract(size - 1, item)))
    position = at(out, item)
    odd = branch(build.equal(build.mod(item, 2), 1))
    even = branch(build.equal(build.mod(item, 2), 0))
    subject = program(
        "beside",
        item,
        total,
        k,
        new,
        close(k),
        put,
        barrier(),
        other,
        position,
        odd,
        build.store(position, build.mul(other, 2)),
        close(odd),
        even,
        build.store(position, programs.subtract(0, other)),
        close(even),
        group=(size, 1, 1),
    )
    sums = [100 + item * (item - 1) // 2 for item in range(size)][::-1]
    expected = [value * 2 if item % 2 else -value for item, value in enumerate(sums)]
    return programs.run(case_id, device, subject, [None], np.array(expected, np.int32))


def _sum_in_branch(size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Add up a row in every other work-item; the others keep their start value."""
    count = 20
    out, data = build.define_global(0, INT, size), build.define_global(1, INT, count)
    item = item_index(size)
    total, k = accumulator("total", build.mul(item, 1000)), loop(count, 0)
    odd = branch(build.equal(build.mod(item, 2), 1))
    new = update(total, build.add(total, build.add(build.mul(build.load(at(data, k)), item), k)))
    final = build.store(at(out, item), total)
    subject = program(
        "in_branch", item, total, odd, k, new, close(k), close(odd), final, group=(size, 1, 1)
    )
    values = samples.small_integers(INT, count, size, 100)
    numbers = np.arange(size, dtype=np.int32)
    added = numbers * values.sum(dtype=np.int32) + count * (count - 1) // 2
    expected = numbers * 1000 + np.where(numbers % 2, added, 0)
    return programs.run(case_id, device, subject, [None, values], expected.astype(np.int32))


def _extremes(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Find the least and the greatest of each of two groups, by a tree in two shared arrays."""
    out, data = build.define_global(0, dtype, 4), build.define_global(1, dtype, 2 * size)
    least = build.define_local("least", dtype, size)
    most = build.define_local("most", dtype, size)
    group, item = group_index(2), item_index(size)
    value = build.load(at(data, _after_each_other(group, item, size)))
    steps: list[UOp] = [build.store(at(array, item), value) for array in (least, most)]
    left = size
    while left > 1:
        width = -(-left // 2)
        # Every step has nodes of its own, because the values before it differ.
        mine, other = build.mod(item, width), build.add(item, width)
        active = branch(build.less(other, left))
        low, lower = build.load(at(least, mine)), build.load(at(least, other))
        high, higher = build.load(at(most, mine)), build.load(at(most, other))
        new_low = build.where(build.less(lower, low), lower, low)
        new_high = build.maximum(high, higher)
        steps += [barrier(), active, build.store(at(least, item), new_low)]
        steps += [build.store(at(most, item), new_high), close(active)]
        left = width
    first = branch(build.equal(item, 0))
    results = [build.load(at(array, build.const(INT, 0))) for array in (least, most)]
    stores = [
        build.store(at(out, _after_each_other(group, number, 2)), result)
        for number, result in enumerate(results)
    ]
    subject = program(
        "extremes",
        *steps,
        barrier(),
        first,
        *stores,
        close(first),
        grid=(2, 1, 1),
        group=(size, 1, 1),
    )
    values = small_and_extreme(dtype, 2 * size, size, 100)
    if dtype.is_float:
        values[size - 1], values[size] = np.inf, -np.inf
    rows = values.reshape(2, size)
    expected = np.stack([rows.min(1), rows.max(1)], axis=1).reshape(-1)
    return programs.run(case_id, device, subject, [None, values], expected)


def _boxes(grid: Extents, group: Extents, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Reverse groups of three dimensions in shared memory."""
    size, count = int(np.prod(group)), int(np.prod(grid))
    out = build.define_global(0, INT, count * size)
    shared = build.define_local("shared", INT, size)
    inside, outside = programs.flat(item_index, group), programs.flat(group_index, grid)
    position = _after_each_other(outside, inside, size)
    put = build.store(at(shared, inside), _after_each_other(position, 1, 3))
    taken = build.load(at(shared, programs.subtract(size - 1, inside)))
    final = build.store(at(out, position), taken)
    subject = program("boxes", put, barrier(), final, grid=grid, group=group)
    numbers = np.arange(count * size, dtype=np.int32).reshape(count, size) * 3 + 1
    expected = np.ascontiguousarray(numbers[:, ::-1]).reshape(-1)
    return programs.run(case_id, device, subject, [None], expected)


def _shared_arrays(
    held: tuple[DType, ...], size: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Read a neighbour's element of every shared array; their sizes are odd numbers of bytes."""
    out = build.define_global(0, INT, size)
    item = item_index(size)
    arrays = [
        build.define_local(f"held{number}", dtype, size + number)
        for number, dtype in enumerate(held)
    ]
    puts = [
        build.store(at(array, item), build.cast(_after_each_other(item, number, 3), dtype))
        for number, (array, dtype) in enumerate(zip(arrays, held, strict=True))
    ]
    total: UOp = build.const(INT, 0)
    for number, array in enumerate(arrays):
        other = build.mod(build.add(item, number + 1), size)
        value = build.cast(build.load(at(array, other)), INT)
        total = build.add(total, build.mul(value, number + 1))
    final = build.store(at(out, item), total)
    subject = program("arrays", *puts, barrier(), final, group=(size, 1, 1))
    expected = np.zeros(size, np.int32)
    for number, dtype in enumerate(held):
        written = (np.arange(size) * 3 + number).astype(numpy_dtype(dtype)).astype(np.int32)
        expected += np.roll(written, -number - 1) * (number + 1)
    return programs.run(case_id, device, subject, [None], expected)


# --- long kernels, names, parameters, grids -------------------------------------------------------


def _chain(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run a chain of `count` operations, each on the result of the one before."""
    out, data = build.define_global(0, WORD, 4), build.define_global(1, WORD, 4)
    i = loop(4, 0)
    value = build.load(at(data, i))
    values = VALUES.view(np.uint32)
    expected = values.copy()
    for number in range(count):
        factor = 2 * number + 3
        value = build.binary(Ops.XOR, build.mul(value, factor), number)
        expected = (expected * np.uint32(factor)) ^ np.uint32(number)
    subject = program("chain", i, build.store(at(out, i), value), close(i))
    return programs.run(case_id, device, subject, [None, values], expected)


def _wide(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Compute `count` values that are all needed until the end."""
    out, data = build.define_global(0, WORD, 1), build.define_global(1, WORD, count)
    loads = [build.load(at(data, index)) for index in range(count)]
    values = [
        build.add(build.mul(load, number + 3), loads[count - 1 - number])
        for number, load in enumerate(loads)
    ]
    total: UOp = build.const(WORD, 1)
    for value in reversed(values):
        total = build.binary(Ops.XOR, build.mul(total, 3), value)
    subject = program("wide", *loads, *values, build.store(at(out, 0), total))
    array = samples.random_bits(WORD, count, count)
    target = 1
    for number in reversed(range(count)):
        term = int(array[number]) * (number + 3) + int(array[count - 1 - number])
        target = ((target * 3) ^ term) % 2**32
    expected = np.array([target], np.uint32)
    return programs.run(case_id, device, subject, [None, array], expected)


def _named(name: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    subject = storing(name, 41)
    return programs.run(case_id, device, subject, [None], np.array([41], np.int32))


def _unused(used: tuple[int, ...], case_id: str, device: DeviceUnderTest) -> Measurement:
    """Read some of six buffers and write the first; the others are unused."""
    kinds = (INT, dtypes.float32, INT, INT, dtypes.float32, INT)
    memories = [build.define_global(slot, dtype, 4) for slot, dtype in enumerate(kinds)]
    i = loop(4, 0)
    total: UOp = build.const(INT, 1)
    expected = np.ones(4, np.int32)
    for slot in used:
        loaded = build.cast(build.load(at(memories[slot], i)), INT)
        total = build.add(total, build.mul(loaded, slot))
        expected += (VALUES + slot) * slot
    subject = program("unused", *memories, i, build.store(at(memories[0], i), total), close(i))
    inputs: list[Array | None] = [None]
    inputs += [
        (VALUES + slot).astype(numpy_dtype(dtype)) for slot, dtype in enumerate(kinds) if slot
    ]
    return programs.run(case_id, device, subject, inputs, expected)


GRIDS = (3, 8, 1, 5)


def _several_grids(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Launch one kernel with grids given by a variable; other elements keep their values."""
    n = build.variable("n", 1, 8, INT)
    out = build.define_global(0, INT, 8)
    group = build.special("group", 0, n, INT)
    final = build.store(at(out, group), _after_each_other(group, n, 7))
    drafted = program("grids", n, final)
    subject = replace(drafted, variables=(n,), grid=(n, 1, 1))
    for size in GRIDS:
        old = np.arange(8, dtype=np.int32) - 100
        expected = old.copy()
        expected[:size] = np.arange(size) * 7 + size
        measured = run_exact(case_id, device, subject, [old], [expected], {"n": size})
        if not measured.passed:
            measured.message = f"a grid of {size}: {measured.message}"
            return measured
    return measured


# --- rows -----------------------------------------------------------------------------------------


def _check(
    name: str, run: Callable[..., Measurement], *arguments: object, needs: CaseNeeds | None = None
) -> Check:
    return Check(name, functools.partial(run, *arguments), needs=needs)


def _group_checks() -> list[Check]:
    return [
        *(_check(f"partial:{n}_by_{size}", _partial, n, size) for n, size in PARTIAL),
        *(_check(f"gated_cell:{n}_by_{size}", _gated_cell, n, size) for n, size in PARTIAL),
        *(_check(f"uniform_branch:{size}", _uniform_branch, size) for size in (8, 24)),
        *(_check(f"uniform_loop:{size}", _uniform_loop, size) for size in (8, 24)),
        *(_check(f"divergent_beside:{size}", _divergent_beside, size) for size in (7, 32)),
        _check("sum_in_branch:9", _sum_in_branch, 9),
    ]


# Elements and size of the groups: the last group is nearly empty, nearly full, the only one.
PARTIAL = ((37, 12), (47, 16), (5, 32))
# The most shared memory that most rows of groups use.
GROUPS = ("grid", "groups")
SMALL_GROUP = ("group:32x1x1", "shared:256")
BOXES: tuple[tuple[Extents, Extents], ...] = (
    ((2, 3, 2), (3, 5, 2)),
    ((1, 2, 3), (1, 7, 1)),
    ((3, 1, 2), (2, 2, 3)),
)
MIXED: dict[str, tuple[DType, ...]] = {
    "words": (INT, dtypes.float32, WORD),
    "small": (dtypes.uint8, INT, dtypes.bool, dtypes.int16, dtypes.float32),
    "wide": (dtypes.uint8, dtypes.int64, dtypes.bool, dtypes.float64),
}


def _native(*used: DType) -> CaseNeeds:
    """Return what a program over these types needs: nothing emulates them."""
    return kernel_needs(*used, features=[f"native:{dtype.name}" for dtype in used])


def _array_checks() -> list[Check]:
    mixed = [
        _check(name, _shared_arrays, held, 7, needs=_native(*held)) for name, held in MIXED.items()
    ]
    return [*mixed, _check("many", _shared_arrays, (INT,) * 20, 6)]


def _box_checks() -> list[Check]:
    return [
        _check(
            "_of_".join("x".join(map(str, extents)) for extents in (grid, group)),
            _boxes,
            grid,
            group,
            needs=launch_needs(grid, group, 120),
        )
        for grid, group in BOXES
    ]


def _extreme_checks(dtype: DType) -> list[Check]:
    return [
        Check(f"size:{size}", functools.partial(_extremes, dtype, size), full_only=size == 32)
        for size in (7, 24, 32)
    ]


ROWS: tuple[Row, ...] = (
    make_row(
        "kernel.program.barriers",
        "Barriers meet in partly filled groups, and inside and next to branches and loops.",
        clauses=("kernel.barrier", "kernel.local", "kernel.if", "kernel.range"),
        rung=Rung.GROUP,
        op="BARRIER",
        dtype=INT,
        features=(*GROUPS, *SMALL_GROUP),
        checks=_group_checks,
    ),
    *(
        make_row(
            f"kernel.program.extremes.{dtype.name}",
            f"A group of any size finds its least and greatest {dtype.name}.",
            clauses=("kernel.barrier", "kernel.local"),
            rung=Rung.GROUP,
            op="MAX",
            dtype=dtype,
            uses=(dtype, INT),
            features=(*GROUPS, *SMALL_GROUP, f"native:{dtype.name}"),
            checks=functools.partial(_extreme_checks, dtype),
            advice="look at sizes and offsets of shared arrays, and at barriers",
        )
        for dtype in (INT, dtypes.float32, dtypes.uint8)
    ),
    make_row(
        "kernel.program.boxes",
        "Groups and grids of three dimensions, with sizes that are no powers of two, share memory.",
        clauses=("kernel.special", "kernel.local"),
        rung=Rung.GROUP,
        op="SPECIAL",
        dtype=INT,
        features=GROUPS,
        checks=_box_checks,
    ),
    make_row(
        "kernel.program.arrays",
        "Shared arrays of several types do not overlap, and each is aligned for its type.",
        clauses=("kernel.local", "kernel.barrier"),
        rung=Rung.GROUP,
        op="DEFINE_LOCAL",
        dtype=INT,
        features=(*GROUPS, "group:7x1x1", "shared:1240"),
        checks=_array_checks,
        advice="look at sizes and offsets of shared arrays: they may overlap",
    ),
    make_row(
        "kernel.program.long",
        "Kernels of more than five hundred operations, one after another or all at once.",
        clauses=("kernel.sink",),
        rung=Rung.ALU,
        op="XOR",
        dtype=WORD,
        uses=(WORD, INT),
        checks={
            "chain:300": functools.partial(_chain, 300),
            "wide:200": functools.partial(_wide, 200),
        },
        advice="look at how registers are spilled, and at how many there are",
    ),
    make_row(
        "kernel.program.name",
        "The name of a kernel has no meaning in the language of the device.",
        clauses=("kernel.name",),
        rung=Rung.ONE_ALU,
        op="STORE",
        dtype=INT,
        checks=lambda: [
            Check(name, functools.partial(_named, name), full_only=name not in QUICK_NAMES)
            for name in NAMES
        ],
    ),
    make_row(
        "kernel.program.unused",
        "Unused buffers of a kernel do not shift the others.",
        clauses=("kernel.global",),
        rung=Rung.INDEX,
        op="DEFINE_GLOBAL",
        dtype=INT,
        checks={
            "_".join(map(str, used)): functools.partial(_unused, used)
            for used in ((2, 5), (4,), (1, 3))
        },
        advice="parameters have the numbers of their slots, also unused ones",
    ),
    make_row(
        "kernel.program.grids",
        "One kernel is launched with one grid after another.",
        clauses=("kernel.special", "memory.launch"),
        rung=Rung.INDEX,
        op="SPECIAL",
        dtype=INT,
        features=("grid",),
        checks={"several": _several_grids},
        advice="look at what is stored from launch to launch: the size of the grid",
    ),
)


def rows() -> Iterator[Row]:
    """Yield rows of these forms."""
    yield from ROWS
