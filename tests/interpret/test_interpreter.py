"""Test the interpreter: programs written by hand, reports of the sanitizer, broken devices."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from run_rows import failed
from running import outcome

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import DeviceError, UserError
from tinyref.interpret import Access, Fault, Hooks, Interpreter, SanitizerError, run_program
from tinyref.uops import build
from tinyref.uops.build import accumulator, barrier, branch, close, update
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Program
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import at
from tinyref_spec.kernel.programs import group_index as group
from tinyref_spec.kernel.programs import item_index as item

f32 = dtypes.float32
i32 = dtypes.int32

Extents = tuple[int, int, int]
program = functools.partial(programs.program, "test")


def loop(extent: int | UOp, number: int = 0) -> UOp:
    return build.counter(extent, number, AxisKind.REDUCE, i32)


def zeros(count: int, dtype: DType = i32) -> np.ndarray:
    return np.zeros(count, numpy_dtype(dtype))


def faults(subject: Program, buffers: Sequence[np.ndarray]) -> SanitizerError:
    with pytest.raises(SanitizerError) as caught:
        run_program(subject, buffers)
    return caught.value


# --- values of programs ------------------------------------------------------------------------


@pytest.mark.long
def test_programs_of_the_suite() -> None:
    assert failed("kernel.program.*") == []


def test_bounds_that_vary_by_lane_are_masks() -> None:
    out = build.define_global(0, i32, 4)
    lane = item(4)
    k = loop(lane)
    acc = accumulator("a", build.const(i32, 0))
    new = update(acc, build.add(acc, 10))
    body = program(lane, acc, k, new, close(k), build.store(at(out, lane), new), group=(4, 1, 1))
    assert outcome(body, 4) == [0, 10, 20, 30]


def test_an_if_within_another_lets_through_what_both_do() -> None:
    out = build.define_global(0, i32, 4)
    lane = item(4)
    acc = accumulator("a", build.const(i32, 5))
    outer, inner = branch(build.less(lane, 3)), branch(build.less(0, lane))
    new = update(acc, build.add(acc, lane))
    body = program(
        lane, acc, outer, inner, new, close(inner), close(outer),
        build.store(at(out, lane), acc), group=(4, 1, 1),
    )  # fmt: skip
    assert outcome(body, 4) == [5, 6, 7, 5]


def test_lanes_of_a_scalar() -> None:
    out = build.define_global(0, i32, 6)
    lane = item(2)
    pair, single = build.gep(lane, 0, 0), build.gep(lane, 0)
    result = zeros(6)
    body = program(
        build.store(at(out, build.mul(lane, 2)), pair),
        build.store(at(out, build.add(lane, 4)), build.add(single, 7)),
        group=(2, 1, 1),
    )
    run_program(body, [result])
    assert list(result) == [0, 0, 1, 1, 7, 8]


def _reverse_through_local(size: int, with_barrier: bool = True) -> Program:
    """Return a program whose groups reverse their rows through shared memory."""
    out = build.define_global(0, i32, 2 * size)
    data = build.define_global(1, i32, 2 * size)
    shared = build.define_local("shared", i32, size)
    lane, row = item(size), build.mul(group(2), size)
    put = build.store(at(shared, lane), build.load(at(data, build.add(row, lane))))
    took = build.load(at(shared, build.sub(build.const(i32, size - 1), lane)))
    final = build.store(at(out, build.add(row, lane)), took)
    nodes = (put, barrier(), final) if with_barrier else (put, final)
    return program(*nodes, grid=(2, 1, 1), group=(size, 1, 1))


@pytest.mark.parametrize("grid", [(200_003, 1, 1), (3, 50_001, 1), (5, 7, 4001)])
def test_huge_grids_run_in_chunks(grid: Extents) -> None:
    count = grid[0] * grid[1] * grid[2]
    out = build.define_global(0, i32, count)
    x, y, z = (group(extent, dim) for dim, extent in enumerate(grid))
    flat = build.add(build.mul(build.add(build.mul(z, grid[1]), y), grid[0]), x)
    result = zeros(count)
    run_program(program(build.store(at(out, flat), flat), grid=grid), [result])
    assert np.array_equal(result, np.arange(count))


def test_division_by_zero_neither_traps_nor_warns(recwarn: pytest.WarningsRecorder) -> None:
    out = build.define_global(0, i32, 2)
    data = build.define_global(1, i32, 2)
    lane = item(2)
    value = build.add(
        build.idiv(build.const(i32, -(2**31)), build.load(at(data, lane))),
        build.mod(build.const(i32, 5), build.load(at(data, lane))),
    )
    run_program(
        program(build.store(at(out, lane), value), group=(2, 1, 1)),
        [zeros(2), np.array([0, -1], np.int32)],
    )
    assert not recwarn.list


# --- reports of the sanitizer ---------------------------------------------------------------------


def test_load_past_the_end() -> None:
    out, data = build.define_global(0, i32, 4), build.define_global(1, i32, 4)
    lane = group(4)
    value = build.load(at(data, build.add(lane, 1)))
    error = faults(program(build.store(at(out, lane), value), grid=(4, 1, 1)), [zeros(4), zeros(4)])
    assert error.kind is Fault.BOUNDS
    assert (error.memory, error.position) == ("slot 1", 4)
    assert error.work_item == "group (3, 0, 0) item (0, 0, 0)"
    assert "LOAD of element 4 of slot 1, which has 4 elements" in str(error)
    assert isinstance(error, DeviceError)


def test_load_before_the_start_and_uniform() -> None:
    out, data = build.define_global(0, i32, 1), build.define_global(1, i32, 4)
    error = faults(program(build.store(at(out, 0), build.load(at(data, -1)))), [zeros(1), zeros(4)])
    assert (error.kind, error.position) == (Fault.BOUNDS, -1)


def test_the_size_of_the_declared_buffer_counts_not_the_size_of_the_array() -> None:
    out = build.define_global(0, i32, 2)
    error = faults(program(build.store(at(out, 2), build.const(i32, 1))), [zeros(100)])
    assert (error.kind, error.position) == (Fault.BOUNDS, 2)


def test_store_past_the_end_writes_nothing() -> None:
    out = build.define_global(0, i32, 3)
    lane = item(4)
    result = zeros(3)
    error = faults(
        program(build.store(at(out, lane), build.const(i32, 1)), group=(4, 1, 1)), [result]
    )
    assert (error.kind, error.position) == (Fault.BOUNDS, 3)
    assert "item (3, 0, 0)" in error.work_item
    assert list(result) == [0, 0, 0]


def test_gated_access_past_the_end_counts_where_the_gate_is_open() -> None:
    out, data = build.define_global(0, i32, 4), build.define_global(1, i32, 2)
    lane = item(4)
    value = build.load(at(data, lane), build.less(lane, 3), 0)
    error = faults(
        program(build.store(at(out, lane), value), group=(4, 1, 1)), [zeros(4), zeros(2)]
    )
    assert (error.kind, error.position) == (Fault.BOUNDS, 2)


def test_unaligned_vector() -> None:
    out, data = build.define_global(0, f32, 4), build.define_global(1, f32, 8)
    value = build.load(at(data, 2), lanes=4)
    error = faults(program(build.store(at(out, 0), value)), [zeros(4, f32), zeros(8, f32)])
    assert (error.kind, error.position) == (Fault.ALIGNMENT, 2)


def test_shared_memory_must_be_written_first() -> None:
    out = build.define_global(0, i32, 4)
    shared = build.define_local("tile", i32, 4)
    lane = item(4)
    put = build.store(at(shared, lane), lane, build.less(lane, 3))
    body = program(
        put,
        barrier(),
        build.store(at(out, lane), build.load(at(shared, lane))),
        group=(4, 1, 1),
    )
    error = faults(body, [zeros(4)])
    assert (error.kind, error.memory, error.position) == (Fault.UNINITIALISED, "tile", 3)


def test_missing_barrier() -> None:
    error = faults(_reverse_through_local(4, with_barrier=False), [zeros(8), zeros(8)])
    assert (error.kind, error.memory) == (Fault.RACE, "shared")
    assert "reads element 3 of shared" in str(error)
    assert "item (3, 0, 0) touches unordered" in str(error)


def test_missing_barrier_before_shared_memory_is_overwritten() -> None:
    out = build.define_global(0, i32, 4)
    shared = build.define_local("shared", i32, 4)
    lane = item(4)
    put = build.store(at(shared, lane), lane)
    value = build.load(at(shared, build.mod(build.add(lane, 1), 4)))
    again = build.store(at(shared, lane), build.add(value, 1))
    body = program(put, barrier(), again, build.store(at(out, lane), lane), group=(4, 1, 1))
    assert faults(body, [zeros(4)]).kind is Fault.RACE


def test_several_readers_then_a_writer() -> None:
    shared = build.define_local("shared", i32, 1)
    out = build.define_global(0, i32, 4)
    lane = item(4)
    first = build.less(lane, 1)
    put = build.store(at(shared, 0), lane, first)
    broadcast = build.load(at(shared, 0))
    again = build.store(at(shared, 0), build.const(i32, 5), first)
    fine = program(
        put,
        barrier(),
        build.store(at(out, lane), broadcast),
        barrier(),
        again,
        group=(4, 1, 1),
    )
    run_program(fine, [zeros(4)])
    broken = program(put, barrier(), build.store(at(out, lane), broadcast), again, group=(4, 1, 1))
    error = faults(broken, [zeros(4)])
    assert error.kind is Fault.RACE
    assert "several work-items" in str(error)


@pytest.mark.parametrize("scope", ["group", "item"])
def test_two_items_write_one_element(scope: str) -> None:
    out = build.define_global(0, i32, 2)
    lane = build.special(scope, 0, 4, i32)
    stored = build.store(at(out, build.idiv(lane, 2)), build.const(i32, 1))
    launch: dict[str, Any] = {"grid" if scope == "group" else "group": (4, 1, 1)}
    # The same value from both is a race as well.
    assert faults(program(stored, **launch), [zeros(2)]).kind is Fault.RACE


def test_all_lanes_store_to_one_place() -> None:
    out = build.define_global(0, i32, 1)
    stored = build.store(at(out, 0), build.const(i32, 1))
    assert faults(program(stored, grid=(3, 1, 1)), [zeros(1)]).kind is Fault.RACE


def test_a_barrier_does_not_order_groups() -> None:
    out = build.define_global(0, i32, 4)
    row = group(2)
    first = build.store(at(out, row), row)
    other = build.store(at(out, build.sub(build.const(i32, 1), row)), row)
    error = faults(program(first, barrier(), other, grid=(2, 1, 1)), [zeros(4)])
    assert error.kind is Fault.RACE


def test_a_reader_of_another_group_is_not_forgotten() -> None:
    """Group 0 reads, and after a barrier group 1 reads and writes: nothing orders the two."""
    data, out = build.define_global(0, i32, 1), build.define_global(1, i32, 4)
    row = group(2)
    is_first = build.less(row, 1)
    early = build.load(at(data, 0), is_first, 0)
    late = build.load(at(data, 0), build.logical_not(is_first), 0)
    body = program(
        build.store(at(out, row), early),
        barrier(),
        build.store(at(out, build.add(row, 2)), late),
        build.store(at(data, 0), row, build.logical_not(is_first)),
        grid=(2, 1, 1),
    )
    error = faults(body, [zeros(1), zeros(4)])
    assert (error.kind, error.memory) == (Fault.RACE, "slot 0")


def test_a_race_between_chunks_is_found() -> None:
    count = 100_000
    out = build.define_global(0, i32, count)
    row = group(count)
    wrapped = build.store(at(out, build.mod(row, count - 1)), row)
    error = faults(program(wrapped, grid=(count, 1, 1)), [zeros(count)])
    assert (error.kind, error.position) == (Fault.RACE, 0)


def test_reading_what_another_item_writes() -> None:
    data = build.define_global(0, i32, 4)
    row = group(3)
    shift = build.store(at(data, row), build.load(at(data, build.add(row, 1))))
    assert faults(program(shift, grid=(3, 1, 1)), [zeros(4)]).kind is Fault.RACE
    own = build.store(at(data, row), build.add(build.load(at(data, row)), 1))
    assert outcome(program(own, grid=(3, 1, 1)), 4) == [1, 1, 1, 0]


def test_divergent_barrier() -> None:
    out = build.define_global(0, i32, 4)
    lane = item(4)
    taken = branch(build.less(lane, 2))
    body = program(
        taken,
        barrier(),
        close(taken),
        build.store(at(out, lane), lane),
        group=(4, 1, 1),
    )
    error = faults(body, [zeros(4)])
    assert error.kind is Fault.DIVERGENCE
    assert error.work_item == "group (0, 0, 0) item (2, 0, 0)"


def test_a_barrier_that_whole_groups_skip_is_fine() -> None:
    out = build.define_global(0, i32, 8)
    lane, row = item(4), group(2)
    taken = branch(build.less(row, 1))
    position = build.add(build.mul(row, 4), lane)
    body = program(
        taken, barrier(), close(taken), build.store(at(out, position), lane),
        grid=(2, 1, 1), group=(4, 1, 1),
    )  # fmt: skip
    assert outcome(body, 8) == [0, 1, 2, 3] * 2


def test_without_the_sanitizer_nothing_is_raised() -> None:
    out, data = build.define_global(0, i32, 4), build.define_global(1, i32, 2)
    lane = item(8)
    value = build.load(at(data, lane))
    body = program(build.store(at(out, build.sub(lane, 2)), value), group=(8, 1, 1))
    assert outcome(body, 4, np.array([5, 6], np.int32), sanitize=False) == [6, 6, 6, 6]
    run_program(_reverse_through_local(4, with_barrier=False), [zeros(8), zeros(8)], sanitize=False)


def test_without_the_sanitizer_a_right_program_reaches_both_ends_of_its_memory() -> None:
    out, data = build.define_global(0, i32, 4), build.define_global(1, i32, 4)
    lane = item(4)
    copy = program(build.store(at(out, lane), build.load(at(data, lane))), group=(4, 1, 1))
    assert outcome(copy, 4, np.array([5, 6, 7, 8], np.int32), sanitize=False) == [5, 6, 7, 8]


def test_without_the_sanitizer_a_store_outside_leaves_what_its_gate_does() -> None:
    out = build.define_global(0, i32, 4)
    lane = item(8)
    address = at(out, build.sub(lane, 2))
    gated = build.store(address, build.add(lane, 1), build.less(lane, 4))
    assert outcome(program(gated, group=(8, 1, 1)), 4, sanitize=False) == [3, 4, 0, 0]


def test_errors_travel_between_processes() -> None:
    out = build.define_global(0, i32, 1)
    error = faults(program(build.store(at(out, 5), build.const(i32, 1))), [zeros(1)])
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.kind, copy.position) == (str(error), Fault.BOUNDS, 5)


# --- wrong calls ----------------------------------------------------------------------------------


def _store_lane() -> Program:
    return program(
        build.store(at(build.define_global(0, i32, 4), group(4)), group(4)), grid=(4, 1, 1)
    )


def test_wrong_buffers_are_refused() -> None:
    with pytest.raises(UserError, match="slot 0 is missing"):
        run_program(_store_lane(), [])
    with pytest.raises(UserError, match=r"slot 0 is float32\[4\]"):
        run_program(_store_lane(), [zeros(4, f32)])
    with pytest.raises(UserError, match="at least 4"):
        run_program(_store_lane(), [zeros(3)])


def test_an_empty_grid_runs_nothing() -> None:
    assert outcome(_store_lane(), 4, grid=(0, 1, 1)) == [0] * 4


def test_what_is_no_program_is_refused() -> None:
    k = loop(3)
    unclosed = program(build.store(at(build.define_global(0, i32, 4), k), k))
    with pytest.raises(UserError, match="never closed"):
        run_program(unclosed, [zeros(4)])
    uops = _store_lane().uops
    with pytest.raises(UserError, match="used before it is computed"):
        run_program(replace(_store_lane(), uops=uops[::-1]), [zeros(4)])
    with pytest.raises(UserError, match="SINK does not belong in a program"):
        run_program(replace(_store_lane(), uops=(*uops, build.sink())), [zeros(4)])
    closing = close(loop(3, 5))
    with pytest.raises(UserError, match="END closes"):
        run_program(replace(_store_lane(), uops=(*uops, closing)), [zeros(4)])


# --- broken devices -------------------------------------------------------------------------------


def _halve(count: int = 4) -> Program:
    out, data = build.define_global(0, i32, count), build.define_global(1, i32, count)
    lane = group(count)
    value = build.idiv(build.load(at(data, lane)), build.const(i32, 2))
    return program(build.store(at(out, lane), value), grid=(count, 1, 1))


def test_semantics_can_be_replaced() -> None:
    def floor(dtype: DType, operands: Sequence[np.ndarray], sources: Sequence[DType]) -> np.ndarray:
        assert dtype is i32
        assert tuple(sources) == (i32, i32)
        return np.floor_divide(*operands)

    data = np.array([-3, 3, -4, 5], np.int32)
    healthy, broken = zeros(4), zeros(4)
    run_program(_halve(), [healthy, data])
    run_program(_halve(), [broken, data], overrides={Ops.IDIV: floor})
    assert list(healthy) == [-1, 1, -2, 2]
    assert list(broken) == [-2, 1, -2, 2]
    run_program(_halve(), [healthy, data])
    assert list(healthy) == [-1, 1, -2, 2]


def test_hooks_change_loads_stores_loops_and_the_grid() -> None:
    data = np.arange(10, 18, 2, dtype=np.int32)
    result = zeros(4)
    run_program(_halve(), [result, data], hooks=Hooks(grid=lambda grid: (grid[0] - 1, 1, 1)))
    assert list(result) == [5, 6, 7, 0]

    def stale(access: Access) -> Access | None:
        assert (access.memory, access.size) == ("slot 0", 4)
        return None

    result = zeros(4)
    run_program(_halve(), [result, data], hooks=Hooks(store=stale))
    assert list(result) == [0] * 4
    run_program(_halve(), [result, data], hooks=Hooks(load=lambda access: access.value + 2))
    assert list(result) == [6, 7, 8, 9]

    out, k = build.define_global(0, i32, 1), loop(5)
    acc = accumulator("a", build.const(i32, 0))
    new = update(acc, build.add(acc, 1))
    counting = program(acc, k, new, close(k), build.store(at(out, 0), new))
    result = zeros(1)
    Interpreter(counting, hooks=Hooks(loop=lambda iterations: iterations - 1)).run([result])
    assert list(result) == [4]


def test_a_hook_may_drop_the_gate() -> None:
    out = build.define_global(0, i32, 4)
    lane = item(6)
    gated = build.store(at(out, lane), lane, build.less(lane, 2))
    ungated = Hooks(store=lambda access: replace(access, gate=None))
    assert outcome(program(gated, group=(6, 1, 1)), 4, sanitize=False, hooks=ungated) == [
        0,
        1,
        2,
        3,
    ]


# --- backward -------------------------------------------------------------------------------------


def test_backward_runs_groups_and_items_from_the_last_to_the_first():
    # All write one element: the last one wins, and only without the sanitizer.
    out = build.define_global(0, i32, 1)
    number = build.add(build.mul(group(3), 10), item(4))
    racy = program(
        build.store(build.index(out, build.const(i32, 0)), number), grid=(3, 1, 1), group=(4, 1, 1)
    )
    for backward, last in ((False, 23), (True, 0)):
        array = np.full(1, -1, np.int32)
        Interpreter(racy).run([array], sanitize=False, backward=backward)
        assert array.tolist() == [last]
    with pytest.raises(SanitizerError, match="race"):
        Interpreter(racy).run([np.zeros(1, np.int32)], backward=True)


def test_backward_no_group_runs_together_with_others():
    # Each group reads what the next one writes: the order of groups shows.
    array = build.define_global(0, i32, 5)
    read = build.load(build.index(array, build.add(group(4), 1)))
    copies = program(build.store(build.index(array, group(4)), read), grid=(4, 1, 1))
    for backward, expected in ((False, [1, 2, 3, 4, 4]), (True, [4, 4, 4, 4, 4])):
        values = np.arange(5, dtype=np.int32)
        Interpreter(copies).run([values], sanitize=False, backward=backward)
        assert values.tolist() == expected


def test_backward_gives_the_same_where_nothing_is_shared():
    out = build.define_global(0, i32, 24)
    number = build.add(build.mul(group(6), 4), item(4))
    plain = program(
        build.store(build.index(out, number), build.mul(number, number)),
        grid=(6, 1, 1),
        group=(4, 1, 1),
    )
    array = np.zeros(24, np.int32)
    Interpreter(plain).run([array], backward=True)
    assert array.tolist() == [n * n for n in range(24)]
