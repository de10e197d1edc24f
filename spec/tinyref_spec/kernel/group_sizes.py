"""One program in groups of every size and shape: barriers, shared memory, partly filled groups.

The sizes are around the subgroup sizes of GPUs, above each of them, and at the declared limit.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.uops import build
from tinyref.uops.build import barrier, branch, close
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_spec.bits import Array
from tinyref_spec.case import CaseNeeds, Measurement, Row, Rung
from tinyref_spec.checks import Check, launch_needs, make_row
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.limits import MAX_GROUP, largest_group, note_reach
from tinyref_spec.kernel.programs import INT, Extents, at, group_index, item_index
from tinyref_spec.measure import run_exact

# Subgroups have 16, 32 or 64 work-items.
SIZES = (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129, 257, 513)
# Other rows have groups of these sizes.
FULL_ONLY = (16, 32, 64)
BOXES: tuple[Extents, ...] = ((8, 8, 1), (4, 16, 1), (2, 3, 5))
GROUPS = 3
# More groups than 16 bits can count.
MANY_GROUPS = 65_537
LAUNCHES = 3
ROUNDS = 4


def _position(group: UOp, item: UOp, size: int) -> UOp:
    return build.add(build.mul(group, size), item)


def _exchanging(extents: Extents, groups: int, count: int) -> Program:
    """Return three exchanges over the whole group, then its sum by halving strides.

    Slot 0 has an element for each work-item, slot 1 one for each group, slot 2 is the input.
    """
    size = int(np.prod(extents))
    out, sums, data = (
        build.define_global(slot, INT, elements)
        for slot, elements in enumerate((count, groups, count))
    )
    row = build.define_local("row", INT, size)
    group, item = group_index(groups), programs.flat(item_index, extents)
    position = _position(group, item, size)
    inside = build.less(position, count)
    mine = at(row, item)
    put = build.store(mine, build.load(at(data, position), inside, 0))
    # Some whole turns are added, so that this is never the node of the neighbour.
    opposite = build.load(at(row, build.mod(build.add(item, 2 * size + size // 2), size)))
    mirrored = build.load(at(row, programs.subtract(size - 1, item)))
    mixed = build.store(mine, build.add(build.mul(opposite, 3), mirrored))
    neighbour = build.load(at(row, build.mod(build.add(item, 1), size)))
    # Loaded before it was overwritten, across a barrier.
    final = build.store(at(out, position), build.add(neighbour, opposite), inside)
    steps = [put, barrier(), opposite, mirrored, barrier(), mixed, barrier(), neighbour, final]
    left = size
    while left > 1:
        width = -(-left // 2)
        # Every step has nodes of its own, because the values before it differ.
        target, other = build.mod(item, width), build.add(item, width)
        active = branch(build.less(other, left))
        total = build.add(build.load(at(row, target)), build.load(at(row, other)))
        steps += [barrier(), active, build.store(at(row, target), total), close(active)]
        left = width
    first = branch(build.equal(item, 0))
    whole = build.store(at(sums, group), build.load(at(row, build.const(INT, 0))))
    return programs.program(
        "exchanging",
        item,
        position,
        inside,
        mine,
        *steps,
        first,
        whole,
        close(first),
        grid=(groups, 1, 1),
        group=extents,
    )


def _exchanged(values: Array, size: int, groups: int) -> list[Array]:
    """Return both outputs of `_exchanging`; beyond the end of the input there are zeros."""
    padded = np.zeros(groups * size, np.int32)
    padded[: values.size] = values
    rows = padded.reshape(groups, size)
    opposite = np.roll(rows, -(size // 2), axis=1)
    mixed = opposite * np.int32(3) + rows[:, ::-1]
    out = np.roll(mixed, -1, axis=1) + opposite
    return [out.reshape(-1)[: values.size], mixed.sum(axis=1, dtype=np.int32)]


def _launches(
    extents: Extents, groups: int, launches: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Launch one kernel several times on different data: earlier launches must not show later."""
    size = int(np.prod(extents))
    count = groups * size - size // 3
    subject = _exchanging(extents, groups, count)
    for launch in range(1, launches + 1):
        values = small_and_extreme(INT, count, size + launch, 1000)
        with np.errstate(over="ignore"):
            expected = _exchanged(values, size, groups)
        measured = run_exact(case_id, device, subject, [None, None, values], expected)
        if not measured.passed:
            measured.message = f"launch {launch} of {launches}: {measured.message}"
            return measured
    return measured


def _rounds_program(size: int) -> Program:
    """Return barriers in a loop with branches, and numbers that one work-item writes for all.

    Slot 0 has a sum for each work-item, slot 1 a mark of one work-item per round, slot 2 is the
    input.
    """
    out, marks, data = (
        build.define_global(slot, INT, elements)
        for slot, elements in enumerate((GROUPS * size, GROUPS * size, GROUPS * size))
    )
    row = build.define_local("row", INT, size)
    group, item = group_index(GROUPS), item_index(size)
    position = _position(group, item, size)
    value = build.load(at(data, position))
    total, turn = build.accumulator("total", build.const(INT, 0)), programs.loop(ROUNDS, 0)
    # The first work-items write once, the last one in each round.
    writes = branch(build.at_least(item, turn))
    put = build.store(at(row, item), build.add(value, build.mul(turn, 100)))
    mirrored = build.load(at(row, programs.subtract(size - 1, item)))
    last = build.load(at(row, size - 1))
    added = build.update(total, build.add(total, build.add(mirrored, build.mul(last, 3))))
    only = branch(build.equal(item, build.mul(turn, turn)))
    mark = build.store(at(marks, position), build.add(turn, 1))
    return programs.program(
        "rounds",
        position,
        value,
        total,
        turn,
        writes,
        put,
        close(writes),
        barrier(),
        mirrored,
        last,
        added,
        barrier(),
        only,
        mark,
        close(only),
        close(turn),
        build.store(at(out, position), total),
        grid=(GROUPS, 1, 1),
        group=(size, 1, 1),
    )


def _rounds(size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Measure the program of rounds; marks that no work-item writes stay."""
    values = small_and_extreme(INT, GROUPS * size, size, 1000)
    before = np.arange(GROUPS * size, dtype=np.int32) + 7
    rows, marks = values.reshape(GROUPS, size), before.reshape(GROUPS, size).copy()
    row, total = np.zeros_like(rows), np.zeros_like(rows)
    with np.errstate(over="ignore"):
        for turn in range(ROUNDS):
            row[:, turn:] = rows[:, turn:] + np.int32(turn * 100)
            total += row[:, ::-1] + row[:, -1:] * np.int32(3)
            if turn * turn < size:
                marks[:, turn * turn] = turn + 1
    subject = _rounds_program(size)
    return run_exact(case_id, device, subject, [None, before, values], [total, marks])


def _broadcast(size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Write a number in the last work-item that all read after a barrier; the first adds a mark."""
    out, data = (build.define_global(slot, INT, GROUPS * size) for slot in range(2))
    shared, item = build.define_local("shared", INT, 1), item_index(size)
    position = _position(group_index(GROUPS), item, size)
    value = build.load(at(data, position))
    is_last, is_first = branch(build.less(size - 2, item)), branch(build.less(item, 1))
    common_address = at(shared, 0)
    put, common = build.store(common_address, value), build.load(common_address)
    total = build.add(common, value)
    subject = programs.program(
        "broadcast",
        position,
        value,
        common_address,
        is_last,
        put,
        close(is_last),
        barrier(),
        build.store(at(out, position), total),
        is_first,
        build.store(at(out, position), build.add(total, 1)),
        close(is_first),
        grid=(GROUPS, 1, 1),
        group=(size, 1, 1),
    )
    numbers = small_and_extreme(INT, GROUPS * size, size, 1000).reshape(GROUPS, size)
    with np.errstate(over="ignore"):
        expected = numbers + numbers[:, -1:]
        expected[:, 0] += 1
    return run_exact(case_id, device, subject, [None, numbers], [expected])


def _largest(case_id: str, device: DeviceUnderTest) -> Measurement:
    declared = device.capabilities
    limit = declared.group_size_limit
    most = min(limit, MAX_GROUP, declared.shared_bytes // INT.itemsize)
    extents = largest_group(declared.group_limit, most)
    measured = _launches(extents, GROUPS, LAUNCHES, case_id, device)
    words = f"a group of {extents} that meets at barriers, in all"
    return note_reach(measured, int(np.prod(extents)), limit, words)


def _needs(extents: Extents, groups: int = GROUPS) -> CaseNeeds:
    return launch_needs((groups, 1, 1), extents, int(np.prod(extents)) * INT.itemsize)


def _checks() -> list[Check]:
    shapes = [(str(size), (size, 1, 1)) for size in SIZES]
    shapes += [("x".join(map(str, extents)), extents) for extents in BOXES]
    pair = (2, 1, 1)
    loops = [
        Check(f"{name}:{size}", functools.partial(run, size), needs=_needs((size, 1, 1)))
        for name, run, sizes in (
            ("rounds", _rounds, (5, 65, 513)),
            ("broadcast", _broadcast, (4, 65, 257, 513)),
        )
        for size in sizes
    ]
    return [
        *loops,
        *(
            Check(
                f"size:{name}",
                functools.partial(_launches, extents, GROUPS, LAUNCHES),
                full_only=extents[0] in FULL_ONLY,
                needs=_needs(extents),
            )
            for name, extents in shapes
        ),
        Check(
            f"groups:{MANY_GROUPS}",
            functools.partial(_launches, pair, MANY_GROUPS, 1),
            needs=_needs(pair, MANY_GROUPS),
        ),
        Check("limit", _largest, needs=launch_needs(shared=64)),
    ]


def rows() -> Iterator[Row]:
    """Yield one row, with a case for each size."""
    yield make_row(
        "kernel.program.group_size",
        "Groups of any size up to the declared limit exchange values and add them up at barriers, "
        "in the first launch and in later ones.",
        clauses=("kernel.barrier", "kernel.local", "device.limit", "memory.launch"),
        rung=Rung.GROUP,
        op="BARRIER",
        dtype=INT,
        features=("grid", "groups"),
        checks=_checks,
        advice="the cases are sizes of a group: look at barriers and shared memory in groups of "
        "the failing sizes, above the size of a subgroup or no multiple of it",
    )
