"""Test ASSIGN: order, memory in place, and programs that no order satisfies."""

import numpy as np
import pytest
from lazy_graphs import add, plus

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.lazy import graph as g
from tinyref.schedule.ordering import Ordering, parts_to_read_first
from tinyref.uops.ops import Ops

F32 = dtypes.float32


def matrix():
    return np.arange(16, dtype=np.float32).reshape(4, 4)


def transposed(x):
    return g.permute(x, (1, 0))


def test_assign_writes_into_the_same_memory(machine):
    a = machine.put(matrix())
    assign = g.assign(a, plus(a, 1.0))
    (got,) = machine.run(assign)
    np.testing.assert_array_equal(got, matrix() + 1)
    np.testing.assert_array_equal(machine.get(a), matrix() + 1)
    assert machine.planned.results[assign] is a
    assert len(machine.planned.items) == 1
    assert machine.planned.kernels[0].buffers == (g.backing(a),)


def test_many_assigns_wait_for_their_neighbours_only(machine, monkeypatch):
    """Guard against a thousand updates in place, which took time with the cube of their number."""
    looks = []
    working = Ordering._is_between
    monkeypatch.setattr(
        Ordering, "_is_between", lambda *tasks: looks.append(tasks) or working(*tasks)
    )
    node = machine.put(matrix())
    for _ in range(60):
        node = g.assign(node, plus(node, 1.0))
    (got,) = machine.run(node)
    np.testing.assert_array_equal(got, matrix() + 60)
    assert len(looks) < 2 * 60


def test_what_reads_old_contents_runs_first(machine):
    a = machine.put(matrix())
    old = g.reduce(Ops.ADD, a, (0,))
    got_new, got_old = machine.run(g.assign(a, g.full((4, 4), 7.0, F32)), old)
    np.testing.assert_array_equal(got_new, np.full((4, 4), 7))
    np.testing.assert_array_equal(got_old, matrix().sum(0, keepdims=True))


def test_live_graphs_are_computed_before_their_contents_go(machine):
    a, b = machine.put(matrix()), machine.put(matrix() * 2)
    reads_a = plus(a, 0.5)
    reads_b = plus(b, 0.5)
    machine.run(g.assign(a, b), live=[reads_a, reads_b])
    np.testing.assert_array_equal(
        machine.get(machine.planned.results[reads_a]), matrix() + np.float32(0.5)
    )
    assert reads_b not in machine.planned.results


def test_what_is_stored_on_the_way_is_a_result_where_other_graphs_wait(machine):
    a, b = machine.put(matrix()), machine.put(matrix() * 2)
    stored = g.contiguous(plus(b, 1.0))
    reads_a = plus(a, 3.0)
    machine.run(g.assign(a, plus(transposed(stored), 1.0)), live=[reads_a])
    results = machine.planned.results
    np.testing.assert_array_equal(machine.get(results[stored]), matrix() * 2 + 1)
    np.testing.assert_array_equal(machine.get(results[reads_a]), matrix() + 3)
    np.testing.assert_array_equal(machine.get(a), matrix().T * 2 + 2)


def test_a_live_view_of_the_memory_keeps_a_copy(machine):
    a = machine.put(matrix())
    view = g.reshape(a, (16,))
    machine.run(g.assign(a, plus(a, 1.0)), live=[view])
    copied = machine.planned.results[view]
    assert g.backing(copied) is not g.backing(a)
    np.testing.assert_array_equal(machine.get(copied), matrix().reshape(16))


def test_a_live_graph_may_bring_an_assign_of_its_own(machine):
    a, b = machine.put(matrix()), machine.put(matrix() * 2)
    second = g.assign(b, plus(a, 1.0))
    reads_b = plus(b, 3.0)
    machine.run(g.assign(a, g.full((4, 4), 0.0, F32)), live=[second, reads_b])
    np.testing.assert_array_equal(machine.get(b), matrix() + 1)
    np.testing.assert_array_equal(machine.get(machine.planned.results[reads_b]), matrix() * 2 + 3)


def test_other_elements_of_the_same_memory_are_read_first(machine):
    # The value is computed into a temporary, which the second kernel copies.
    values = {
        "sum with itself transposed": lambda a: add(a, transposed(a)),
        "flip": lambda a: g.flip(a, (0,)),
        "shift": lambda a: g.pad(g.shrink(a, ((0, 3), (0, 4))), ((1, 0), (0, 0))),
        "row": lambda a: g.alu(Ops.MUL, a, g.expand(g.shrink(a, ((0, 1), (0, 4))), (4, 4))),
    }
    m = matrix()
    results = {
        "sum with itself transposed": m + m.T,
        "flip": m[::-1],
        "shift": np.vstack([m[:1] * 0, m[:3]]),
        "row": m * m[:1],
    }
    for name, value in values.items():
        a = machine.put(matrix())
        (got,) = machine.run(g.assign(a, value(a)))
        np.testing.assert_array_equal(got, results[name], err_msg=name)
        assert len(machine.planned.kernels) == 2
        assert machine.planned.kernels[1].buffers[0] is g.backing(a)


def test_memory_may_be_written_to_a_view_of_itself(machine):
    a = machine.put(matrix())
    machine.run(g.assign(transposed(a), a))
    np.testing.assert_array_equal(machine.get(a), matrix().T)
    machine.run(g.assign(a, g.assign(a, g.flip(a, (0,)))))
    np.testing.assert_array_equal(machine.get(a), matrix().T[::-1])
    assert machine.kernels(g.assign(a, a)) == 1


def test_what_is_overwritten_unread_is_not_computed(machine):
    a = machine.put(matrix())
    rows = g.expand(g.reduce(Ops.ADD, a, (1,)), (4, 4))
    unread = g.assign(a, add(rows, transposed(a)))
    machine.run(g.assign(unread, g.full((4, 4), 7.0, F32)))
    np.testing.assert_array_equal(machine.get(a), np.full((4, 4), 7))
    assert len(machine.planned.kernels) == 1


def test_a_reduce_of_the_target_is_stored_first(machine):
    a = machine.put(matrix())
    rows = g.expand(g.reduce(Ops.ADD, a, (1,)), (4, 4))
    (got,) = machine.run(g.assign(a, add(a, rows)))
    np.testing.assert_array_equal(got, matrix() + matrix().sum(1, keepdims=True))
    assert len(machine.planned.kernels) == 2


def test_a_reduce_into_its_own_source_is_stored_first(machine):
    a = machine.put(matrix())
    column = g.shrink(a, ((0, 4), (0, 1)))
    machine.run(g.assign(column, g.reduce(Ops.ADD, a, (1,))))
    result = matrix()
    result[:, 0] = [6, 22, 38, 54]
    np.testing.assert_array_equal(machine.get(a), result)


def test_a_cycle_is_an_error_with_advice(machine):
    a, b = machine.put(matrix()), machine.put(matrix())
    swap = (g.assign(a, plus(b, 1.0)), g.assign(b, plus(a, 1.0)))
    with pytest.raises(UserError, match=r"old contents.*contiguous\(\)"):
        machine.kernels(*swap)
    broken = (g.assign(a, plus(b, 1.0)), g.assign(b, g.contiguous(plus(a, 2.0))))
    got_a, got_b = machine.run(*broken)
    np.testing.assert_array_equal(got_a, matrix() + 1)
    np.testing.assert_array_equal(got_b, matrix() + 2)


def test_a_node_that_reads_memory_before_and_after_a_write_reads_before_first():
    # The largest parts that compute; a mere view of the memory delays no kernel.
    memory, other = (g.new_buffer("PYTHON", (4,), F32) for _ in range(2))
    before = plus(transposed(g.reshape(plus(memory, 2.0), (2, 2))), 1.0)
    after = g.reshape(g.assign(memory, g.full((4,), 3.0, F32)), (2, 2))
    assert parts_to_read_first([add(before, after)]) == [before]
    view = g.reshape(memory, (2, 2))
    assert parts_to_read_first([add(view, after)]) == []
    assert parts_to_read_first([add(plus(g.reshape(other, (2, 2)), 1.0), after)]) == []
