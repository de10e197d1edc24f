"""Test loops whose iterations the interpreter runs together: values are as one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinyref.codegen.accumulate import accumulate
from tinyref.codegen.linearise import linearise
from tinyref.dtype import DType, PtrDType, dtypes, numpy_dtype
from tinyref.interpret import Fault, Hooks, Interpreter, SanitizerError, run_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Program
from tinyref_spec.kernel.programs import at, loop

f32 = dtypes.float32
i32 = dtypes.int32


def program(*stores: UOp, grid: tuple[int, int, int] = (1, 1, 1)) -> Program:
    return Program("loops", linearise(accumulate(build.sink(*stores))), (), grid=grid)


def memory(slot: int, dtype: DType, size: int) -> tuple[UOp, np.ndarray]:
    node = build.define_global(slot, dtype, size)
    assert isinstance(node.dtype, PtrDType)
    return node, np.zeros(size, numpy_dtype(dtype))


def widens(subject: Program) -> bool:
    """Return True if iterations still run as lanes: no launch showed a dependence."""
    return Interpreter(subject).translation.may_widen


def test_nested_loops_are_lanes() -> None:
    out, result = memory(0, i32, 35)
    i, j = loop(5, 0), loop(7, 1)
    body = program(build.store(at(out, build.add(build.mul(i, 7), j)), build.mul(i, j)))
    run_program(body, [result])
    assert np.array_equal(result.reshape(5, 7), np.outer(range(5), range(7)))
    assert widens(body)


def test_a_recurrence_through_memory_runs_in_order() -> None:
    """Store data[i + 1] = data[i] + 1: iterations that ran together would all read zero."""
    data, values = memory(0, i32, 6)
    i = loop(5, 0)
    body = program(build.store(at(data, build.add(i, 1)), build.add(build.load(at(data, i)), 1)))
    for _ in range(2):
        values[:] = 0
        run_program(body, [values])
        assert list(values) == [0, 1, 2, 3, 4, 5]
    assert not widens(body)


def test_what_iterations_at_once_wrote_is_taken_back_before_they_run_in_order() -> None:
    data, values = memory(0, i32, 6)
    count, counts = memory(1, i32, 6)
    i = loop(5, 0)
    more = build.store(at(count, i), build.add(build.load(at(count, i)), 1))
    following = build.store(at(data, build.add(i, 1)), build.add(build.load(at(data, i)), 1))
    run_program(program(more, following), [values, counts])
    assert list(values) == [0, 1, 2, 3, 4, 5]
    assert list(counts) == [1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("sanitize", [True, False])
def test_a_loop_reads_what_the_loop_before_it_wrote(sanitize: bool) -> None:
    scratch, held = memory(0, i32, 8)
    out, result = memory(1, i32, 8)
    i, j = loop(8, 0), loop(8, 1)
    put = build.store(at(scratch, i), build.mul(i, i))
    after = build.after(scratch, put, i)
    took = build.load(at(after, build.sub(build.const(i32, 7), j)))
    body = program(build.store(at(out, j), took))
    run_program(body, [held, result], sanitize=sanitize)
    assert list(result) == [49, 36, 25, 16, 9, 4, 1, 0]
    assert widens(body)


def test_a_fault_in_a_loop_names_the_element_and_leaves_earlier_iterations() -> None:
    out, result = memory(0, i32, 4)
    i = loop(6, 0)
    body = program(build.store(at(out, i), i))
    with pytest.raises(SanitizerError) as caught:
        run_program(body, [result])
    assert (caught.value.kind, caught.value.position) == (Fault.BOUNDS, 4)
    assert caught.value.work_item == "group (0, 0, 0) item (0, 0, 0)"
    assert list(result) == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", dtypes.floats, ids=lambda d: d.name)
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@pytest.mark.parametrize("lanes", [1, 3])
def test_sums_keep_their_order(op: Ops, dtype: DType, lanes: int) -> None:
    count = 1000
    data, _ = memory(1, dtype, count * lanes)
    out, result = memory(0, dtype, lanes)
    i, k = loop(lanes, 0), loop(count, 1, AxisKind.REDUCE)
    value = build.load(at(data, build.add(build.mul(i, count), k)))
    body = program(build.store(at(out, i), build.reduce_over(op, value, k)))
    rng = np.random.default_rng(3)
    values = rng.uniform(0.9, 1.1, count * lanes).astype(numpy_dtype(dtype))
    run_program(body, [result, values])
    step: Callable[..., np.generic] = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[
        op
    ]
    for lane in range(lanes):
        start = {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: -np.inf}[op]
        total = np.array(start).astype(numpy_dtype(dtype))[()]
        for value in values[lane * count : (lane + 1) * count]:
            total = step(total, value)
        assert result[lane] == total


def test_sums_on_a_grid_fold_too() -> None:
    data, values = memory(1, i32, 600)
    out, result = memory(0, i32, 3)
    row, k = build.special("group", 0, 3, i32), loop(200, 0, AxisKind.REDUCE)
    value = build.load(at(data, build.add(build.mul(row, 200), k)))
    sums = build.add(
        build.reduce_over(Ops.ADD, value, k), build.reduce_over(Ops.MAX, build.const(i32, 7), k)
    )
    values[:] = np.arange(600)
    run_program(program(build.store(at(out, row), sums), grid=(3, 1, 1)), [result, values])
    assert list(result) == [values[200 * r : 200 * r + 200].sum() + 7 for r in range(3)]


def test_a_running_total_that_is_read_inside_is_no_fold() -> None:
    """Store every partial sum."""
    out, result = memory(0, i32, 5)
    k = loop(5, 0)
    start = build.accumulator("a", build.const(i32, 0), k)
    total = build.update(start, build.add(start, k))
    run_program(program(build.store(at(out, k), total)), [result])
    assert list(result) == [0, 1, 3, 6, 10]


def test_a_sum_of_sums() -> None:
    out, result = memory(0, i32, 4)
    i = loop(4, 0)
    a, b = loop(30, 1, AxisKind.REDUCE), loop(20, 2, AxisKind.REDUCE)
    inner = build.reduce_over(Ops.MAX, build.mul(build.sub(b, 5), build.sub(a, i)), b)
    body = program(build.store(at(out, i), build.reduce_over(Ops.ADD, inner, a)))
    counts: list[int] = []

    def noted(iterations: int) -> int:
        counts.append(iterations)
        return iterations

    Interpreter(body, hooks=Hooks(loop=noted)).run([result])
    # Iterations of both loops run together, so each loop begins once.
    assert counts == [4, 30, 20]
    expected = [
        sum(max((y - 5) * (x - lane) for y in range(20)) for x in range(30)) for lane in range(4)
    ]
    assert list(result) == expected


def test_folds_under_a_mask_change_only_its_lanes() -> None:
    out = build.define_global(0, i32, 4)
    lane = build.special("item", 0, 4, i32)
    taken = build.branch(build.less(lane, 2))
    k = loop(50, 0, AxisKind.REDUCE)
    start = build.accumulator("a", build.const(i32, 5))
    value = build.mul(k, lane)
    combined = build.add(value, start)
    total = build.update(start, combined)
    address = build.index(out, lane)
    ends = build.close(k), build.close(taken)
    uops = (
        out, lane.src[0], lane, start.src[0], start, taken.src[0].src[1], taken.src[0], taken,
        k.src[0], k, value, combined, total, *ends, address, build.store(address, total),
    )  # fmt: skip
    result = np.zeros(4, np.int32)
    run_program(Program("masked", uops, (), group=(4, 1, 1)), [result])
    assert list(result) == [5, 5 + 49 * 25, 5, 5]


def test_replaced_semantics_hold_in_loops_that_fold() -> None:
    data, values = memory(1, f32, 64)
    out, result = memory(0, f32, 1)
    k = loop(64, 0, AxisKind.REDUCE)
    body = program(build.store(at(out, 0), build.reduce_over(Ops.ADD, build.load(at(data, k)), k)))
    values[:] = 1.0

    def forgetful(dtype: DType, operands: list[np.ndarray], sources: list[DType]) -> np.ndarray:
        return np.asarray(operands[1])

    run_program(body, [result, values], overrides={Ops.ADD: forgetful})  # type: ignore[dict-item]
    assert list(result) == [1.0]
    Interpreter(body, hooks=Hooks(loop=lambda iterations: iterations - 1)).run([result, values])
    assert list(result) == [63.0]


@pytest.mark.parametrize("items", [1, 3])
def test_vectors_are_accumulated_in_order(items: int) -> None:
    """Four sums at once, rounded at every step, for work-items that do not all take part."""
    data, out = build.define_global(1, f32, 4 * 50), build.define_global(0, f32, 4 * items)
    lane, k = build.special("item", 0, items, i32), loop(50, 0, AxisKind.REDUCE)
    value = build.load(at(data, build.mul(k, 4)), lanes=4)
    scaled = build.mul(value, build.vectorize(*[build.cast(build.add(lane, 1), f32)] * 4))
    total = build.reduce_over(Ops.ADD, scaled, k)
    gate = build.not_equal(lane, 1) if items > 1 else None
    store = build.store(at(out, build.mul(lane, 4)), total, gate)
    subject = Program("vectors", linearise(accumulate(build.sink(store))), (), group=(items, 1, 1))
    source = (np.arange(200, dtype=np.float32) / np.float32(7) - np.float32(11)) ** 3
    result = np.full(4 * items, 9, np.float32)
    run_program(subject, [result, source])
    for item in range(items):
        expected = np.zeros(4, np.float32)
        for row in source.reshape(50, 4):
            expected = expected + row * np.float32(item + 1)
        if item == 1:
            expected = np.full(4, 9, np.float32)
        assert result[4 * item : 4 * item + 4].tobytes() == expected.tobytes()
