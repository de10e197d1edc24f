"""Linearising: short-lived values, memory order, repeated accesses, and any legal order agrees."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from live_values import live_values

from tinyref.codegen.accumulate import accumulate
from tinyref.codegen.linearise import linearise
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret import run_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import AxisKind, MemoryVersionArg
from tinyref.uops.program import Program
from tinyref.verify import verify
from tinyref_spec.kernel.programs import at, loop

f32 = dtypes.float32
i32 = dtypes.int32
Extents = tuple[int, int, int]


def total(value: UOp, *ranges: UOp) -> UOp:
    return build.reduce_over(Ops.ADD, value, *ranges)


def kernel(*stores: UOp) -> UOp:
    return accumulate(build.sink(*stores))


def result_of(
    uops: tuple[UOp, ...], inputs: list[np.ndarray], group: Extents = (1, 1, 1)
) -> list[np.ndarray]:
    verify(Dialect.PROGRAM, uops)
    arrays = [item.copy() for item in inputs]
    run_program(Program("k", uops, (), group=group), arrays)
    return arrays


def counts(uops: tuple[UOp, ...]) -> dict[str, int]:
    names = [node.op.name for node in uops]
    return {name: names.count(name) for name in names}


# --- how many values live -----------------------------------------------------------------------


def test_a_value_from_outside_lives_as_long_as_the_loop() -> None:
    data, out = build.define_global(1, i32, 4), build.define_global(0, i32, 4)
    k = loop(4, 0)
    x = build.load(at(data, 0))
    first = build.load(at(data, k))
    second = build.mul(build.add(first, x), 3)
    uops = linearise(kernel(build.store(at(out, k), second)))
    # x, with one at a time of what is computed from one iteration to the next.
    assert live_values(uops) == 2


def test_an_accumulator_lives_until_its_sum_is_used() -> None:
    data, out = build.define_global(1, i32, 8), build.define_global(0, i32, 1)
    sums = []
    for number in range(2):
        k = loop(4, number, AxisKind.REDUCE)
        sums.append(total(build.load(at(data, build.add(k, number * 4))), k))
    uops = linearise(kernel(build.store(at(out, 0), build.add(*sums))))
    # Both sums, and what the second loop loads, or its next value.
    assert live_values(uops) == 3


# --- values are short-lived ---------------------------------------------------------------------


def product(rows: int, vectors: int, steps: int, lanes: int = 8, is_chain: bool = True) -> UOp:
    """Return a block of rows x vectors of a matrix product, with `steps` inner steps each time."""
    width = vectors * lanes
    a = build.define_global(1, f32, rows * 16 * steps)
    b = build.define_global(2, f32, 16 * steps * width)
    out = build.define_global(0, f32, rows * width)
    k = loop(16, 0, AxisKind.REDUCE)
    stores = []
    for row in range(rows):
        for vector in range(vectors):
            value = None
            accumulator = UOp(
                Ops.DEFINE_ACC,
                f32.vec(lanes),
                (build.const(f32.vec(lanes), 0.0), k),
                build.define_local(f"acc{row}_{vector}", f32, 1).arg,
            )
            for step in range(steps):
                depth = build.add(build.mul(k, steps), step)
                left = build.load(at(a, build.add(depth, row * 16 * steps)))
                at_right = build.add(build.mul(depth, width), vector * lanes)
                right = build.load(at(b, at_right), lanes=lanes)
                term = build.mul(build.vectorize(*[left] * lanes), right)
                value = term if value is None else build.add(value, term)
                if is_chain and step == 0:
                    value = build.add(accumulator, term)
            assert value is not None
            if not is_chain:
                value = build.add(accumulator, value)
            update = build.update(accumulator, value)
            position = at(out, row * width + vector * lanes)
            stores.append(build.store(position, update))
    return build.sink(*stores)


@pytest.mark.parametrize(
    ("rows", "vectors", "steps", "limit"),
    # Accumulators, one row of B, an element of A and its broadcast or product.
    [(12, 2, 1, 24 + 2 + 2), (8, 2, 1, 16 + 2 + 2), (12, 2, 4, 24 + 2 + 2), (4, 4, 4, 16 + 4 + 2)],
)
def test_a_matrix_product_keeps_little_but_its_accumulators(
    rows: int, vectors: int, steps: int, limit: int
) -> None:
    uops = linearise(product(rows, vectors, steps))
    verify(Dialect.PROGRAM, uops)
    assert live_values(uops) <= limit


def test_a_tree_is_computed_with_the_larger_half_first() -> None:
    """Sethi and Ullman: ((a + b) + (c + d)) as the right side needs no more than 3 registers."""
    data, out = build.define_global(1, i32, 64), build.define_global(0, i32, 1)

    def tree(low: int, high: int) -> UOp:
        if high - low == 1:
            return build.load(at(data, low))
        middle = low + (high - low) // 4 if high - low >= 4 else low + 1
        return build.binary(Ops.XOR, tree(low, middle), tree(middle, high))

    uops = linearise(build.sink(build.store(at(out, 0), tree(0, 64))))
    assert live_values(uops) <= 4


def test_stores_come_as_soon_as_they_can() -> None:
    """Lane by lane: each value is stored before the next one is loaded."""
    data, out = build.define_global(1, f32, 64), build.define_global(0, f32, 64)
    stores = [
        build.store(at(out, lane), build.mul(build.load(at(data, lane)), 2.0)) for lane in range(64)
    ]
    assert live_values(linearise(build.sink(*stores))) == 1


# --- memory order -------------------------------------------------------------------------------


def test_a_kernel_that_writes_what_it_reads_has_read_it() -> None:
    """Swap two neighbours: each store would overwrite what the other one needs."""
    data = build.define_global(0, i32, 2)
    x, y = build.load(at(data, 0)), build.load(at(data, 1))
    root = build.sink(build.store(at(data, 0), y), build.store(at(data, 1), x))
    for seed in (None, *range(10)):
        actual = result_of(linearise(root, seed), [np.array([3, 4], np.int32)])
        assert list(actual[0]) == [4, 3]


def test_a_loop_that_reads_stands_before_a_store_outside() -> None:
    data = build.define_global(0, i32, 4)
    k = loop(4, 0, AxisKind.REDUCE)
    sum_of_all = total(build.load(at(data, k)), k)
    out = build.define_global(1, i32, 1)
    root = kernel(
        build.store(at(data, 0), build.const(i32, 9)), build.store(at(out, 0), sum_of_all)
    )
    for seed in (None, *range(10)):
        operands = [np.array([1, 2, 3, 4], np.int32), np.zeros(1, np.int32)]
        actual = result_of(linearise(root, seed), operands)
        assert list(actual[0]) == [9, 2, 3, 4]
        assert list(actual[1]) == [10]


def test_a_loop_that_reads_and_writes_stands_before_what_only_writes() -> None:
    """Add the last element in every iteration; the store outside of the loop replaces it."""
    data = build.define_global(0, i32, 5)
    i = loop(4, 0)
    last = build.load(at(data, build.add(build.mod(i, 1), 4)))
    raised = build.store(at(data, i), build.add(build.load(at(data, i)), last))
    root = build.sink(build.store(at(data, 4), build.const(i32, 9)), raised)
    for seed in (None, *range(10)):
        actual = result_of(linearise(root, seed), [np.array([1, 2, 3, 4, 100], np.int32)])
        assert list(actual[0]) == [101, 102, 103, 104, 9]


def test_an_accumulator_is_read_before_it_is_updated() -> None:
    """out[k] = what the sum was before the iteration k."""
    data, out = build.define_global(1, i32, 4), build.define_global(0, i32, 4)
    last = build.define_global(2, i32, 1)
    k = loop(4, 0, AxisKind.REDUCE)
    update = accumulate(total(build.load(at(data, k)), k))
    root = build.sink(build.store(at(out, k), update.src[0]), build.store(at(last, 0), update))
    for seed in (None, *range(10)):
        operands = [np.zeros(4, np.int32), np.array([1, 2, 3, 4], np.int32), np.zeros(1, np.int32)]
        actual = result_of(linearise(root, seed), operands)
        assert list(actual[0]) == [0, 1, 3, 6]
        assert list(actual[2]) == [10]


# --- repeated accesses --------------------------------------------------------------------------


def epochs() -> UOp:
    """Return a kernel that stores twice to an address, with barriers around each load.

    out[i] = 10 * ((i + 1) % 4) + (its neighbour's 100 * item), by equal loads.
    """
    lane = build.special("item", 0, 4, i32)
    shared, out = build.define_local("shared", i32, 4), build.define_global(0, i32, 4)
    neighbour = build.mod(build.add(lane, 1), 4)
    filled = build.barrier(build.store(at(shared, lane), build.mul(lane, 10)))
    first = build.load(build.index(build.after(shared, filled), neighbour))
    taken = build.barrier(first)
    again = build.store(build.index(build.after(shared, taken), lane), build.mul(lane, 100))
    second = build.load(build.index(build.after(shared, build.barrier(again)), neighbour))
    return build.sink(build.store(at(out, lane), build.add(first, second)))


def test_equal_loads_around_a_barrier_are_two() -> None:
    uops = linearise(epochs())
    loads = [node for node in uops if node.op is Ops.LOAD]
    assert [node.arg for node in loads] == [None, MemoryVersionArg(1)]
    assert loads[0].src == loads[1].src
    assert counts(uops)["INDEX"] == 3
    actual = result_of(uops, [np.zeros(4, np.int32)], (4, 1, 1))
    assert list(actual[0]) == [110, 220, 330, 0]


def test_equal_stores_around_a_barrier_are_two() -> None:
    """Cleared, counted, cleared again."""
    shared, out = build.define_local("shared", i32, 1), build.define_global(0, i32, 2)
    clear = build.store(at(shared, 0), build.const(i32, 7))
    first = build.load(at(build.after(shared, clear), 0))
    changed = build.store(at(build.after(shared, first), 0), build.const(i32, 8))
    second = build.store(at(build.after(shared, changed), 0), build.const(i32, 7))
    last = build.load(at(build.after(shared, second), 0))
    root = build.sink(build.store(at(out, 0), first), build.store(at(out, 1), last))
    uops = linearise(root)
    repeated = [node.op.name for node in uops if isinstance(node.arg, MemoryVersionArg)]
    assert repeated == ["STORE", "LOAD"]
    assert list(result_of(uops, [np.zeros(2, np.int32)])[0]) == [7, 7]


def test_what_does_not_touch_memory_is_computed_once() -> None:
    """Compute the same address before and after a barrier."""
    shared, out = build.define_local("shared", i32, 4), build.define_global(0, i32, 4)
    k = loop(4, 0)
    fill = build.store(at(shared, k), k)
    j = loop(4, 1)
    position = build.sub(build.const(i32, 3), j)
    took = build.load(build.index(build.after(shared, fill, k), position))
    uops = linearise(build.sink(build.store(at(out, j), took)))
    assert counts(uops)["RANGE"] == 2
    assert list(result_of(uops, [np.zeros(4, np.int32)])[0]) == [3, 2, 1, 0]


def test_a_loop_in_which_nothing_happens_is_dropped() -> None:
    """Wait in a barrier for two nested loops that are empty."""
    outer = loop(4, 0)
    inner = loop(build.add(outer, 1), 1)
    out = build.define_global(0, i32, 1)
    root = build.sink(build.store(at(out, 0), build.after(build.const(i32, 5), outer, inner)))
    uops = linearise(root)
    assert "RANGE" not in counts(uops)
    assert "END" not in counts(uops)
    assert list(result_of(uops, [np.zeros(1, np.int32)])[0]) == [5]


def test_loops_are_numbered_from_the_outside_in() -> None:
    outer = loop(4, 1)
    inner = loop(build.add(outer, 1), 0)
    out = build.define_global(0, i32, 8)
    root = build.sink(build.store(at(out, build.add(outer, inner)), inner))
    with pytest.raises(UserError, match="loop 0 is inside loop 1: loops must be numbered"):
        linearise(root)


# --- any legal order ----------------------------------------------------------------------------


def nested() -> tuple[UOp, list[int], Extents]:
    """out[i] = sum over j of data[j] * (sum over k of data[k] + i + j)."""
    data, out = build.define_global(1, i32, 5), build.define_global(0, i32, 3)
    i, j, k = loop(3, 0), loop(5, 1, AxisKind.REDUCE), loop(5, 2, AxisKind.REDUCE)
    inner = total(build.add(build.load(at(data, k)), build.add(i, j)), k)
    outer = total(build.mul(build.load(at(data, j)), inner), j)
    return kernel(build.store(at(out, i), outer)), [3, 5], (1, 1, 1)


def siblings() -> tuple[UOp, list[int], Extents]:
    """Return sums, products of sums, and a sum that needs another one."""
    data, out = build.define_global(1, i32, 6), build.define_global(0, i32, 4)
    sums = []
    for number in range(4):
        k = loop(6, number, AxisKind.REDUCE)
        value = build.mul(build.load(at(data, k)), number + 1)
        if sums:
            value = build.add(value, sums[-1] if number % 2 else build.mul(k, 3))
        sums.append(total(value, k))
    stores = [build.store(at(out, position), value) for position, value in enumerate(sums)]
    return kernel(*stores), [4, 6], (1, 1, 1)


def shared_loop() -> tuple[UOp, list[int], Extents]:
    """Return two accumulators of one loop, one for a second loop, and a gated store."""
    data, out = build.define_global(1, i32, 6), build.define_global(0, i32, 6)
    first, second = loop(6, 0, AxisKind.REDUCE), loop(6, 1, AxisKind.LOOP)
    value = build.load(at(data, first))
    sums = total(value, first), total(build.mul(value, value), first)
    view = build.add(build.mul(build.load(at(data, second)), sums[0]), sums[1])
    gate = build.less(second, build.const(i32, 4))
    return kernel(build.store(at(out, second), view, gate)), [6, 6], (1, 1, 1)


def grouped() -> tuple[UOp, list[int], Extents]:
    """Four items sum two rows one after the other through the same shared memory."""
    size, rows = 4, 2
    data, out = build.define_global(1, i32, 8 * rows), build.define_global(0, i32, rows)
    shared = build.define_local("shared", i32, size)
    lane = build.special("item", 0, size, i32)
    row = loop(rows, 0)
    k, g = loop(2, 1, AxisKind.REDUCE), loop(size, 2, AxisKind.REDUCE)
    position = build.add(build.add(build.mul(row, 8), build.mul(k, size)), lane)
    partial = total(build.load(at(data, position)), k)
    # Before the memory is used again, all items have read what the iteration before left there.
    free = build.after(shared, build.barrier(build.mul(row, 1)))
    filled = build.barrier(build.store(build.index(free, lane), partial))
    value = total(build.load(build.index(build.after(shared, filled), g)), g)
    only_one = build.less(lane, build.const(i32, 1))
    return kernel(build.store(at(out, row), value, only_one)), [rows, 16], (size, 1, 1)


def scratch() -> tuple[UOp, list[int], Extents]:
    """Copy in a loop what another one reads backwards; both write to their inputs."""
    data = build.define_global(0, i32, 6)
    packed = build.define_local("packed", i32, 6)
    fill, use = loop(6, 0), loop(6, 1)
    store = build.store(at(packed, fill), build.load(at(data, fill)))
    ready = build.after(packed, store, fill)
    value = build.load(build.index(ready, build.sub(build.const(i32, 5), use)))
    return kernel(build.store(at(data, use), build.mul(value, 2))), [6], (1, 1, 1)


def repeated() -> tuple[UOp, list[int], Extents]:
    return epochs(), [4], (4, 1, 1)


def block_of_product() -> tuple[UOp, list[int], Extents]:
    return product(3, 2, 2, lanes=4), [24, 3 * 32, 32 * 8], (1, 1, 1)


KERNELS = (nested, siblings, shared_loop, grouped, scratch, repeated, block_of_product)


@pytest.mark.parametrize("make", KERNELS)
def test_all_legal_orders_compute_the_same(
    make: Callable[[], tuple[UOp, list[int], Extents]],
) -> None:
    root, sizes, group = make()
    memories = {node.arg.slot: node for node in root.toposort() if node.op is Ops.DEFINE_GLOBAL}
    operands = [
        (np.arange(size) * 7 % 11 - 3).astype(numpy_dtype(element(memories[slot])))
        for slot, size in enumerate(sizes)
    ]
    expected = result_of(linearise(root), operands, group)
    orders = set()
    for seed in range(25):
        uops = linearise(root, seed)
        orders.add(uops)
        actual = result_of(uops, operands, group)
        for one, other in zip(actual, expected, strict=True):
            assert one.tobytes() == other.tobytes(), f"seed {seed}"
    assert len(orders) > 5


def element(memory: UOp) -> DType:
    return build.element_type(memory)


def test_a_known_sum_through_shared_memory() -> None:
    """Check the meaning of the kernel; the law above only compares orders."""
    root, _, group = grouped()
    operands = [np.zeros(2, np.int32), np.arange(16, dtype=np.int32)]
    assert list(result_of(linearise(root), operands, group)[0]) == [28, 92]
