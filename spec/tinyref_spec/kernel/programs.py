"""Programs written by hand: grids, loops, branches, gates, vectors, groups with barriers, tiles.

They are rendered as they are, so that a broken rung here is due to the device, and not to the
compiler above it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tinyref.codegen.linearise import linearise
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.build import accumulator, barrier, branch, close, update
from tinyref.uops.node import UOp, sources_first
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program
from tinyref_spec import oracles, samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, launch_needs, make_row
from tinyref_spec.conditions import BY_NAME
from tinyref_spec.data_kinds import of_all_kinds
from tinyref_spec.device_under_test import DeviceUnderTest, slots_of
from tinyref_spec.error_rules import Ulp
from tinyref_spec.literals import is_subnormal
from tinyref_spec.measure import Experiment, measure, run_exact

INT = dtypes.int32
Extents = tuple[int, int, int]
EXACT = Ulp(0).sentence
CAST_TYPES = (dtypes.bool, *dtypes.ints, *dtypes.floats)
_EVERYWHERE = frozenset({Ops.CONST, Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL})


def emit(*roots: UOp) -> tuple[UOp, ...]:
    """Return the nodes in their order, each after those of its sources that are still missing.

    Constants and memory come first, because a node in a block may not be used outside of it.
    """
    first: list[UOp] = []
    ordered: list[UOp] = []
    seen: set[UOp] = set()
    wait = barrier()
    for root in roots:
        for node in sources_first(root, seen):
            # A barrier has no sources, so every occurrence counts.
            if node is wait or node not in seen:
                seen.add(node)
                (first if node.op in _EVERYWHERE else ordered).append(node)
    return (*first, *ordered)


def program(
    name: str, *roots: UOp, grid: Extents = (1, 1, 1), group: Extents = (1, 1, 1)
) -> Program:
    """Return a program of these nodes; its parameters follow from them."""
    uops = emit(*roots)
    read = {build.slot_of(node) for node in uops if node.op is Ops.LOAD}
    draft = Program(name, uops, ())
    parameters = tuple(
        Parameter(slot.number, slot.dtype, slot.size, slot.is_written, slot.number in read)
        for slot in slots_of(draft)
    )
    return Program(name, uops, parameters, (), grid, group)


def at(memory: UOp, position: UOp | int) -> UOp:
    """Return the address of one element."""
    return build.index(memory, build.operand(position, INT))


def subtract(first: int, second: UOp) -> UOp:
    """Return first - second by ops that every device has, because programs are not lowered."""
    return build.add(build.mul(second, -1), first)


def loop(extent: int | UOp, number: int, kind: AxisKind = AxisKind.LOOP) -> UOp:
    """Return a RANGE of int32."""
    return build.counter(extent, number, kind, INT)


def group_index(extent: int, dim: int = 0) -> UOp:
    """Return the index of the group in the grid."""
    return build.special("group", dim, extent, INT)


def item_index(extent: int, dim: int = 0) -> UOp:
    """Return the index of the work-item in its group."""
    return build.special("item", dim, extent, INT)


def run(
    case_id: str,
    device: DeviceUnderTest,
    subject: Program,
    inputs: list[Array | None],
    expected: Array,
) -> Measurement:
    """Run a program with one output, which must have exactly these bits."""
    return run_exact(case_id, device, subject, inputs, [expected])


def flat(index: Callable[[int, int], UOp], extents: Extents) -> UOp:
    """Return the flat index in three dimensions, the last one slowest."""
    x, y, z = (index(extent, dim) for dim, extent in enumerate(extents))
    return build.add(build.mul(build.add(build.mul(z, extents[1]), y), extents[0]), x)


def grid(extents: Extents, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store the flat index of every group."""
    count = int(np.prod(extents))
    out, position = build.define_global(0, INT, count), flat(group_index, extents)
    store = build.store(at(out, position), build.add(build.mul(position, 3), 1))
    subject = program("grid", store, grid=extents)
    return run(case_id, device, subject, [None], np.arange(count, dtype=np.int32) * 3 + 1)


def items(extents: Extents, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store the flat index of every work-item of two groups."""
    size = int(np.prod(extents))
    out = build.define_global(0, INT, 2 * size)
    position = build.add(build.mul(group_index(2), size), flat(item_index, extents))
    store = build.store(at(out, position), build.add(build.mul(position, 3), 1))
    subject = program("items", store, grid=(2, 1, 1), group=extents)
    return run(case_id, device, subject, [None], np.arange(2 * size, dtype=np.int32) * 3 + 1)


def _nested_loops(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Compute out[i] = sum over j, k of i * 100 + j * k: the accumulator restarts at every i."""
    out = build.define_global(0, INT, 5)
    i, j, k = loop(5, 0), loop(4, 1), loop(3, 2)
    total = accumulator("total", build.const(INT, 7))
    value = build.add(total, build.add(build.mul(i, 100), build.mul(j, k)))
    new = update(total, value)
    store = build.store(at(out, i), new)
    subject = program("loops", i, total, j, k, new, close(k), close(j), store, close(i))
    expected = [7 + sum(i * 100 + j * k for j in range(4) for k in range(3)) for i in range(5)]
    return run(case_id, device, subject, [None], np.array(expected, dtype=np.int32))


def _long_loop(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run many steps of the generator of Numerical Recipes, each from the one before."""
    word = dtypes.uint32
    out = build.define_global(0, word, 1)
    number = build.accumulator("number", build.const(word, 1))
    iteration = loop(100_003, 0)
    new = build.update(number, build.add(build.mul(number, 1664525), 1013904223))
    final = build.store(at(out, 0), number)
    subject = program("long_loop", number, iteration, new, build.close(iteration), final)
    return run(case_id, device, subject, [None], np.array([1_475_135_902], np.uint32))


def _empty_loop(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run a loop of no iterations, which leaves the start value."""
    out = build.define_global(0, INT, 1)
    k = loop(0, 0)
    total = accumulator("total", build.const(INT, 41))
    new = update(total, build.add(total, 1))
    subject = program("empty", total, k, new, close(k), build.store(at(out, 0), new))
    return run(case_id, device, subject, [None], np.array([41], dtype=np.int32))


def _two_accumulators(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run two accumulators in one loop, where one reads the other's old value (Fibonacci)."""
    out = build.define_global(0, INT, 2)
    k = loop(20, 0)
    first, second = (
        accumulator("a", build.const(INT, 0)),
        accumulator("b", build.const(INT, 1)),
    )
    together = build.add(first, second)
    subject = program(
        "two",
        first,
        second,
        k,
        together,
        update(first, second),
        update(second, together),
        close(k),
        build.store(at(out, 0), first),
        build.store(at(out, 1), second),
    )
    return run(case_id, device, subject, [None], np.array([6765, 10946], dtype=np.int32))


def _in_memory(reads: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Read in each iteration what the one before has written, or what the next one will write."""
    count = 40
    out, data = build.define_global(0, INT, count + 2), build.define_global(1, INT, count)
    i = loop(count, 0)
    taken = build.load(at(out, build.add(i, 1 + reads)))
    store = build.store(
        at(out, build.add(i, 1)), build.add(build.mul(taken, 3), build.load(at(data, i)))
    )
    subject = program("in_memory", i, taken, store, close(i))
    values = samples.small_integers(INT, count, 4, 9)
    old = np.arange(count + 2, dtype=np.int32) - 5
    expected = old.copy()
    with np.errstate(over="ignore"):
        for number in range(count):
            expected[number + 1] = expected[number + 1 + reads] * np.int32(3) + values[number]
    return run(case_id, device, subject, [old, values], expected)


def _overwritten(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Write one element in several iterations: the last value stays."""
    out = build.define_global(0, INT, 4)
    i = loop(38, 0)
    subject = program("again", i, build.store(at(out, build.mod(i, 4)), i), close(i))
    return run(case_id, device, subject, [None], np.array([36, 37, 34, 35], np.int32))


def _branch(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Write again the elements that pass two nested branches."""
    out = build.define_global(0, INT, 9)
    i = loop(9, 0)
    outer, inner = branch(build.less(i, 7)), branch(build.less(1, i))
    subject = program(
        "both",
        i,
        build.store(at(out, i), build.mul(i, 10)),
        outer,
        inner,
        build.store(at(out, i), subtract(0, i)),
        close(inner),
        close(outer),
        close(i),
    )
    expected = np.array([0, 10, -2, -3, -4, -5, -6, 70, 80], np.int32)
    return run(case_id, device, subject, [None], expected)


def _no_branch(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Read and write nothing in a branch that is never taken, gigabytes away."""
    out = build.define_global(0, INT, 4)
    i = loop(4, 0)
    taken = branch(build.less(i, 0))
    far = at(out, build.add(i, 2**30))
    subject = program(
        "never",
        i,
        build.store(at(out, i), build.mul(i, 10)),
        taken,
        build.store(far, build.load(far)),
        close(taken),
        close(i),
    )
    return run(case_id, device, subject, [None], np.array([0, 10, 20, 30], np.int32))


def _behind_loops(depth: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store after nested loops; the innermost adds in a branch and stores there."""
    out, last = build.define_global(0, INT, 5), build.define_global(1, INT, 5)
    i, *inner = (loop(extent, number) for number, extent in enumerate((5, 4, 3, 2)[: depth + 1]))
    total, number = accumulator("total", i), i
    for counter in inner:
        number = build.add(build.mul(number, 7), counter)
    taken = branch(build.not_equal(build.mod(number, 3), 1))
    added = update(total, build.add(total, number))
    steps = (total, *inner, number, taken, added, build.store(at(last, i), number), close(taken))
    ends = [close(counter) for counter in reversed(inner)]
    final = build.store(at(out, i), total)
    subject = program("behind", i, *steps, *ends, final, close(i))
    old = np.full(5, -1, np.int32)
    sums, lasts = np.arange(5, dtype=np.int32), old.copy()
    for row in range(5):
        numbers = np.full((), row)
        for extent in (4, 3, 2)[:depth]:
            numbers = numbers[..., None] * 7 + np.arange(extent)
        counted = numbers[numbers % 3 != 1]
        sums[row] += counted.sum()
        lasts[row] = counted[-1]
    return run_exact(case_id, device, subject, [None, old], [sums, lasts])


def _behind_all_loops(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store after two outermost loops, with a branch and stores inside them."""
    out, data = build.define_global(0, INT, 8), build.define_global(1, INT, 6)
    row, column = loop(2, 0), loop(3, 1)
    total = accumulator("total", build.const(INT, 5))
    position = build.add(build.mul(row, 3), column)
    number = build.load(at(data, position))
    taken = branch(build.less(0, number))
    steps = (number, taken, build.store(at(out, position), number), close(taken))
    new = update(total, build.add(total, number))
    final = (build.store(at(out, 6), new), build.store(at(out, 7), build.const(INT, 10)))
    subject = program("after", total, row, column, *steps, new, close(column), close(row), *final)
    values = np.array([4, -3, 0, 7, 2, -9], np.int32)
    old = np.full(8, 42, np.int32)
    expected = np.array([4, 42, 42, 7, 2, 42, 5 + 1, 10], np.int32)
    return run_exact(case_id, device, subject, [old, values], [expected])


def _branch_of_variable(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store in a branch of a loop of n iterations; each launch has another n, also 0."""
    count = 9
    n = build.variable("n", 0, count, INT)
    out, data = build.define_global(0, INT, count + 1), build.define_global(1, INT, count)
    i, total = loop(n, 0), accumulator("total", build.const(INT, 100))
    value = build.load(at(data, i))
    taken = branch(build.less(0, value))
    stores = (taken, build.store(at(out, i), build.mul(value, 3)), close(taken))
    new, final = update(total, build.add(total, value)), build.store(at(out, count), total)
    drafted = program("varied", n, total, i, value, *stores, new, close(i), final)
    subject = replace(drafted, variables=(n,))
    most, least = int(INT.maximum), int(INT.minimum)
    values = np.array([4, -3, most, 0, -1, 5, 6, least, most - 1], np.int32)
    for extent in (9, 0, 4, 1, 8):
        old = np.arange(count + 1, dtype=np.int32) - 50
        expected, part = old.copy(), values[:extent]
        expected[:extent] = np.where(part > 0, part * np.int32(3), old[:extent])
        expected[count] = oracles.wrap(100 + int(part.sum(dtype=np.int64)), INT)
        measured = run_exact(case_id, device, subject, [old, values], [expected], {"n": extent})
        if not measured.passed:
            measured.message = f"{extent} iterations: {measured.message}"
            return measured
    return measured


def _gated_load(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Load behind a gate: if it is off, the address is gigabytes away, and the result is 7."""
    out, data = build.define_global(0, INT, 8), build.define_global(1, INT, 4)
    i = loop(8, 0)
    inside = build.less(i, 4)
    far = build.where(inside, i, build.const(INT, 2**30))
    value = build.load(at(data, far), inside, 7)
    subject = program("gated_load", i, build.store(at(out, i), value), close(i))
    values = np.array([5, -6, 0, 9], dtype=np.int32)
    return run(
        case_id, device, subject, [None, values], np.append(values, [7, 7, 7, 7]).astype("i4")
    )


def _gated_store(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store behind a gate: if it is off, the address is gigabytes away, and nothing is written."""
    out, old = build.define_global(0, INT, 4), np.array([1, 2, 3, 4], dtype=np.int32)
    i = loop(8, 0)
    inside = build.both(build.less(i, 4), build.not_equal(i, 2))
    far = build.where(build.less(i, 4), i, build.const(INT, 2**30))
    store = build.store(at(out, far), build.add(i, 10), inside)
    subject = program("gated_store", i, store, close(i))
    return run(case_id, device, subject, [old], np.array([10, 11, 3, 13], dtype=np.int32))


def vector_add(dtype: DType, lanes: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Load vectors, add them, store the sum."""
    size = lanes * 6
    out, x, y = (build.define_global(slot, dtype, size) for slot in range(3))
    i = loop(6, 0)
    position = build.mul(i, lanes)
    total = build.add(
        build.load(at(x, position), lanes=lanes), build.load(at(y, position), lanes=lanes)
    )
    subject = program(f"vector{lanes}", i, build.store(at(out, position), total), close(i))
    a, b = (samples.small_integers(dtype, size, seed, 50) for seed in (1, 2))
    return run(case_id, device, subject, [None, a, b], (a + b).astype(a.dtype))


def _vector_swizzle(dtype: DType, lanes: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Take lanes out in reverse by GEP, and join scalars by VECTORIZE."""
    out, x = (build.define_global(slot, dtype, lanes * 2) for slot in range(2))
    value = build.load(at(x, 0), lanes=lanes)
    backwards = build.gep(value, *reversed(range(lanes)))
    picked = [build.gep(value, (lane * 3 + 1) % lanes) for lane in range(lanes)]
    subject = program(
        f"swizzle{lanes}",
        build.store(at(out, 0), backwards),
        build.store(at(out, lanes), build.vectorize(*picked)),
    )
    data = samples.moderate(dtype, lanes * 2, 3)
    again = [data[(lane * 3 + 1) % lanes] for lane in range(lanes)]
    expected = np.append(data[:lanes][::-1], again).astype(data.dtype)
    return run(case_id, device, subject, [None, data], expected)


def _vector_where(dtype: DType, lanes: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Choose lane by lane by a comparison of vectors, among data of every kind."""
    out, x, y = (build.define_global(slot, dtype, lanes) for slot in range(3))
    first, second = (build.load(at(memory, 0), lanes=lanes) for memory in (x, y))
    chosen = build.where(build.less(first, second), second, first)
    subject = program(f"choose{lanes}", build.store(at(out, 0), chosen))
    kinds = of_all_kinds(dtype, max(lanes, 8), "each", device.capabilities.keeps_subnormals)
    a, b = kinds[:lanes], np.roll(kinds, 3)[:lanes].copy()
    return run(case_id, device, subject, [None, a, b], np.where(a < b, b, a))


def _vector_checks(dtype: DType, lanes: int) -> list[Check]:
    forms: dict[str, Callable[..., Measurement]] = {
        "add": vector_add,
        "swizzle": _vector_swizzle,
        "where": _vector_where,
    }
    return [Check(name, functools.partial(form, dtype, lanes)) for name, form in forms.items()]


def _lane_places(device: DeviceUnderTest) -> dict[int, int]:
    """Return the first element of each declared lane count; there are eight vectors of each."""
    lanes = sorted((lanes for lanes in device.capabilities.vector_lanes if lanes > 1), reverse=True)
    return {count: 8 * sum(lanes[:number]) for number, count in enumerate(lanes)}


def _all_lanes(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy, add, multiply, choose and reverse vectors of every declared lane count."""
    positions = _lane_places(device)
    size = 8 * sum(positions)
    copy, added, scaled, chosen, turned, x, y = (
        build.define_global(slot, dtype, size) for slot in range(7)
    )
    a = of_all_kinds(dtype, size, "each", device.capabilities.keeps_subnormals)
    b = samples.small_integers(dtype, size, 2, 50)
    i, stores, backwards = loop(8, 0), list[UOp](), a.copy()
    for lanes, first in positions.items():
        position = build.add(build.mul(i, lanes), first)
        value, other = (build.load(at(memory, position), lanes=lanes) for memory in (x, y))
        total, product = _sum_and_product(value, other)
        stores += [
            build.store(at(copy, position), value),
            build.store(at(added, position), total),
            build.store(at(scaled, position), product),
            build.store(at(chosen, position), build.where(build.less(value, other), other, value)),
            build.store(at(turned, position), build.gep(value, *reversed(range(lanes)))),
        ]
        part = slice(first, first + 8 * lanes)
        backwards[part] = a[part].reshape(8, lanes)[:, ::-1].reshape(-1)
    subject = program("lanes", i, *stores, close(i))
    with np.errstate(all="ignore"):
        computed = [a | b, a & b] if dtype.is_bool else [a + b, a * b]
        expected = [a, *computed, np.where(a < b, b, a), backwards]
    return run_exact(case_id, device, subject, [*[None] * 5, a, b], expected)


def _sum_and_product(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    if x.dtype.is_bool:
        return build.either(x, y), build.both(x, y)
    return build.add(x, y), build.mul(x, y)


def _lane_casts(source: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Cast vectors of every declared lane count to every other native type."""
    positions, capabilities = _lane_places(device), device.capabilities
    native = capabilities.dtypes - capabilities.stored_in_words
    targets = [dtype for dtype in CAST_TYPES if dtype in native and dtype is not source]
    size, count = 8 * sum(positions), len(targets)
    outputs = [build.define_global(slot, dtype, size) for slot, dtype in enumerate(targets)]
    data, i, stores = build.define_global(count, source, size), loop(8, 0), list[UOp]()
    for lanes, first in positions.items():
        position = build.add(build.mul(i, lanes), first)
        value = build.load(at(data, position), lanes=lanes)
        for output, dtype in zip(outputs, targets, strict=True):
            stores.append(build.store(at(output, position), build.cast(value, dtype)))
    values = samples.edges(source)
    if not capabilities.keeps_subnormals:
        values = values[~is_subnormal(values, source)]
    values = np.random.default_rng(3).permutation(np.resize(values, size))
    expected = [oracles.cast(values, source, dtype) for dtype in targets]
    if not capabilities.keeps_subnormals:
        for dtype, item in zip(targets, expected, strict=True):
            is_normal = ~is_subnormal(item.values, dtype)
            item.specified = is_normal if item.specified is None else item.specified & is_normal
    inputs = [*[None] * count, values]
    subject = program("casts", i, *stores, close(i))
    experiment = Experiment(case_id, subject, inputs, expected, [Ulp(0)] * count)
    return measure(device, experiment)


def reverse(size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Reverse the rows of three groups through shared memory."""
    out, data = build.define_global(0, INT, 3 * size), build.define_global(1, INT, 3 * size)
    shared = build.define_local("shared", INT, size)
    lane, row = item_index(size), build.mul(group_index(3), size)
    put = build.store(at(shared, lane), build.load(at(data, build.add(row, lane))))
    took = build.load(at(shared, subtract(size - 1, lane)))
    final = build.store(at(out, build.add(row, lane)), took)
    subject = program("reverse", put, barrier(), final, grid=(3, 1, 1), group=(size, 1, 1))
    values = samples.small_integers(INT, 3 * size, 1, 1000)
    expected = values.reshape(3, size)[:, ::-1].reshape(-1)
    return run(case_id, device, subject, [None, values], np.ascontiguousarray(expected))


def _scratch(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Fill a shared array again in each iteration of one work-item, and read it backwards."""
    out, data = build.define_global(0, INT, 24), build.define_global(1, INT, 24)
    held = build.define_local("held", INT, 4)
    i, j, k = loop(6, 0), loop(4, 1), loop(4, 2)
    row = build.mul(i, 4)
    put = build.store(at(held, j), build.load(at(data, build.add(row, j))))
    took = build.load(at(held, subtract(3, k)))
    final = build.store(at(out, build.add(row, k)), build.mul(took, 3))
    subject = program("scratch", i, row, j, put, close(j), k, took, final, close(k), close(i))
    values = samples.small_integers(INT, 24, 6, 1000)
    expected = np.ascontiguousarray(values.reshape(6, 4)[:, ::-1] * 3).reshape(-1)
    return run(case_id, device, subject, [None, values], expected)


def _after(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Load after an AFTER, which must see what others wrote before the barrier."""
    out = build.define_global(0, INT, 8)
    shared = build.define_local("shared", INT, 8)
    lane = item_index(8)
    put = build.store(at(shared, lane), build.mul(lane, 11))
    filled = build.after(shared, barrier(put))
    took = build.load(at(filled, subtract(7, lane)))
    root = build.sink(build.store(at(out, lane), took))
    parameters = (Parameter(0, INT, 8, True, False),)
    subject = Program("after", linearise(root), parameters, (), (1, 1, 1), (8, 1, 1))
    expected = np.arange(8, dtype=np.int32)[::-1] * 11
    return run(case_id, device, subject, [None], np.ascontiguousarray(expected))


def _group_checks() -> list[Check]:
    several = [
        Check(
            f"reverse:{size}",
            functools.partial(reverse, size),
            needs=launch_needs((), (size, 1, 1), size * INT.itemsize),
        )
        for size in (2, 8, 32, 64)
    ]
    return [
        *several,
        Check("scratch", _scratch, needs=launch_needs(shared=16)),
        Check("after", _after, needs=launch_needs((), (8, 1, 1), 32)),
    ]


ROWS: tuple[Row, ...] = (
    make_row(
        "kernel.program.grid",
        "Launch indices count every group of the grid once, in one, two and three dimensions.",
        clauses=("kernel.special",),
        rung=Rung.INDEX,
        op="SPECIAL",
        dtype=INT,
        features=("grid",),
        checks=lambda: [
            Check(
                "x".join(map(str, extents)),
                functools.partial(grid, extents),
                needs=launch_needs(extents),
            )
            for extents in ((1, 1, 1), (7, 1, 1), (3, 5, 1), (2, 3, 4), (1000, 1, 1), (1, 33, 2))
        ],
    ),
    make_row(
        "kernel.program.loop",
        "Loops nest, accumulators start again, an empty loop does nothing, a branch skips. "
        "Iterations read what others write, and a loop may have 100,003 iterations.",
        clauses=("kernel.range", "kernel.accumulator", "kernel.if"),
        rung=Rung.LOOP,
        op="RANGE",
        dtype=INT,
        checks={
            "nested": _nested_loops,
            "empty": _empty_loop,
            "fibonacci": _two_accumulators,
            "branch": _branch,
            "no_branch": _no_branch,
            "behind:2": functools.partial(_behind_loops, 2),
            "behind:3": functools.partial(_behind_loops, 3),
            "behind:all": _behind_all_loops,
            "branch_of_variable": _branch_of_variable,
            "memory:before": functools.partial(_in_memory, -1),
            "memory:ahead": functools.partial(_in_memory, 1),
            "memory:again": _overwritten,
            "long": _long_loop,
        },
        advice=BY_NAME["loop"].advice,
    ),
    make_row(
        "kernel.program.gate",
        "A gate that is off keeps a load or a store from an address far outside of the buffer.",
        clauses=("memory.gate.load", "memory.gate.store"),
        rung=Rung.GATE,
        op="LOAD",
        dtype=INT,
        checks={"load": _gated_load, "store": _gated_store},
    ),
    *(
        make_row(
            f"kernel.program.vector{lanes}.{dtype.name}",
            f"Vectors of {lanes} {dtype.name}: loads, stores, arithmetic, choice, swizzles.",
            clauses=("kernel.vector",),
            rung=Rung.VECTOR,
            op="VECTORIZE",
            dtype=dtype,
            features=(f"vectors:{lanes}", f"native:{dtype.name}"),
            checks=functools.partial(_vector_checks, dtype, lanes),
            advice="look at the order and the number of lanes in loads and stores",
        )
        for lanes in (2, 4, 8, 16)
        for dtype in (dtypes.float32, INT, dtypes.uint8)
    ),
    *(
        make_row(
            f"kernel.program.lanes.{dtype.name}",
            f"Vectors of {dtype.name} of every declared lane count: copies, sums, swizzles, casts.",
            clauses=("kernel.vector", "isa.cast"),
            rung=Rung.VECTOR,
            op="VECTORIZE",
            dtype=dtype,
            features=("vectors:2", f"native:{dtype.name}"),
            checks={
                "moved": functools.partial(_all_lanes, dtype),
                "cast": functools.partial(_lane_casts, dtype),
            },
            advice="look at how vectors of each lane count are loaded, stored and converted: one "
            "may be made of two others",
        )
        for dtype in CAST_TYPES
    ),
    make_row(
        "kernel.program.item",
        "Launch indices count every work-item of a group once, in one, two and three dimensions.",
        clauses=("kernel.special",),
        rung=Rung.GROUP,
        op="SPECIAL",
        dtype=INT,
        features=("grid", "groups"),
        checks=lambda: [
            Check(
                "x".join(map(str, extents)),
                functools.partial(items, extents),
                needs=launch_needs((), extents),
            )
            for extents in ((4, 1, 1), (2, 3, 1), (2, 3, 4), (1, 8, 2), (32, 1, 1), (1, 1, 2))
        ],
        advice="look at the index of a work-item in its group, and at its dimensions",
    ),
    make_row(
        "kernel.program.group",
        "Work-items of a group share memory and wait for each other at barriers.",
        clauses=("kernel.local", "kernel.barrier", "kernel.special", "kernel.after"),
        rung=Rung.GROUP,
        op="BARRIER",
        dtype=INT,
        features=("grid", "groups"),
        checks=_group_checks,
        advice="look at the index of a work-item in its group, at barriers and arrays",
    ),
)


def rows() -> Iterator[Row]:
    """Yield rows of hand-written programs."""
    yield from ROWS
