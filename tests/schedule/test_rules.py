"""Test each rule of fusion by a graph that it changes and one that it must not change."""

import numpy as np
import pytest
from lazy_graphs import add, empty, mul, plus, total

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.lazy import graph as g
from tinyref.schedule import fusion, schedule
from tinyref.tensor import Tensor
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, ViewArg

F32, I32 = dtypes.float32, dtypes.int32


def numbers(*shape):
    return (np.arange(np.prod(shape), dtype=np.int32) * 7 % 11 - 4).reshape(shape)


def many_steps(x, count):
    """Return cheap work, repeated until it is no longer cheap; no two steps fold into one."""
    for step in range(count):
        x = g.alu(Ops.XOR, add(x, x), g.full(g.shape_of(x), step + 3, x.dtype))
    return x


def numpy_steps(x, count):
    for step in range(count):
        x = (x + x) ^ np.int32(step + 3)
    return x


def asts(*outputs):
    return [item.ast for item in schedule([(node, "PYTHON") for node in outputs]).kernels]


def ops(ast):
    return [node.op for node in ast.toposort()]


def reduces(ast):
    return [node.arg for node in ast.toposort() if isinstance(node.arg, ReduceArg)]


# --- views and constants ------------------------------------------------------------------------


def test_neighbouring_views_are_one_view_of_the_load():
    x = g.permute(g.shrink(empty(6, 8), ((1, 5), (2, 6))), (1, 0))
    (ast,) = asts(g.contiguous(g.flip(g.shrink(x, ((0, 4), (1, 3))), (0,))))
    views = [node.arg.tracker.views for node in ast.toposort() if isinstance(node.arg, ViewArg)]
    assert [len(steps) for steps in views] == [1, 1]


def test_a_constant_for_another_device_is_not_copied():
    planned = schedule([(add(g.copy(g.full((4,), 2.0, F32), "CPU"), empty(4)), "PYTHON")])
    assert len(planned.items) == len(planned.kernels) == 1


# --- reduces of reduces -------------------------------------------------------------------------


def test_a_sum_of_sums_is_one_sum_whatever_the_shapes_in_between(machine):
    x = numbers(4, 6)
    rows = g.reshape(total(machine.put(x), 1), (2, 2))
    (got,) = machine.run(total(g.permute(rows, (1, 0)), 0, 1))
    assert got.tolist() == [[x.sum()]]
    (kernel,) = machine.planned.kernels
    assert len(reduces(kernel.ast)) == 1


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_reduces_of_moved_reduces_are_done_at_once(machine, op):
    x = numbers(3, 4, 5) - 2
    function = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op]
    inner = g.flip(g.reduce(op, machine.put(x), (1,)), (2,))
    moved = g.pad(g.shrink(inner, ((0, 3), (0, 1), (1, 5))), ((1, 0), (0, 0), (0, 1)))
    (got,) = machine.run(g.reduce(op, moved, (0,)))
    want = function.reduce(x, 1, keepdims=True)[:, :, ::-1][:, :, 1:5]
    want = function.reduce(np.pad(want, ((1, 0), (0, 0), (0, 1))), 0, keepdims=True)
    np.testing.assert_array_equal(got, want)
    assert len(machine.planned.kernels) == 1


def test_reduces_stay_two_where_one_would_repeat_work():
    x = empty(4, 6)
    rows = total(x, 1)
    # Each sum would be computed again for each of 5 columns.
    wide = g.alu(Ops.EXP2, g.expand(rows, (4, 5)))
    assert len(asts(total(wide, 0))) == 2
    spread = g.pad(rows, ((0, 0), (0, 5)))
    assert len(asts(total(spread, 0))) == 2


def test_reduces_stay_two_where_the_inner_one_is_an_output_too():
    rows = total(empty(4, 6), 1)
    assert len(asts(total(rows.replace(), 0), rows)) == 2


def test_reduces_of_another_kind_or_with_work_in_between_stay_two():
    x = empty(4, 6)
    assert len(asts(g.reduce(Ops.MAX, g.reshape(total(x, 1), (4,)), (0,)))) == 2
    assert len(asts(total(mul(total(x, 1), empty(4, 1)), 0))) == 2


def test_a_product_is_summed_before_its_windows_are_added():
    # The loop of a convolution stays free of the gates that adding its windows needs.
    x, w = empty(3, 8), empty(3, 8)
    products = total(mul(x, w), 0)
    windows = g.reshape(g.pad(products, ((0, 0), (1, 1))), (2, 5))
    first, _ = asts(total(windows, 0))
    assert Ops.MUL in ops(first)


# --- long reduces -------------------------------------------------------------------------------


def test_a_long_reduce_of_floats_pads_with_what_changes_nothing(machine):
    x = np.full(65537, -3.5, np.float32)
    x[::1000] = np.float32(-0.5)
    (got,) = machine.run(g.reduce(Ops.MAX, machine.put(x), (0,)))
    assert got.tolist() == [-0.5]
    (got,) = machine.run(g.reduce(Ops.MUL, machine.put(x * 0 + 1), (0,)))
    assert got.tolist() == [1.0]


# --- materialised because it is costly to recompute ----------------------------------------------


def test_a_costly_value_of_two_kernels_is_computed_once(machine):
    x = numbers(4, 5)
    shared = many_steps(machine.put(x), 20)
    got, sums = machine.run(plus(shared, 1), total(shared, 1))
    want = numpy_steps(x, 20)
    np.testing.assert_array_equal(got, want + 1)
    np.testing.assert_array_equal(sums, want.sum(1, keepdims=True))
    lengths = [len(kernel.ast.toposort()) for kernel in machine.planned.kernels]
    assert sum(length > 40 for length in lengths) == 1


def test_a_cheap_value_of_two_kernels_is_computed_twice(machine):
    shared = many_steps(machine.put(numbers(4, 5)), 3)
    machine.run(plus(shared, 1), total(shared, 1))
    assert len(machine.planned.kernels) == 2


def test_what_is_stored_is_the_last_value_before_the_ways_part():
    x = empty(4, 5, dtype=I32)
    stored = many_steps(x, 15)
    shared = g.permute(plus(stored, 7), (1, 0))
    first, *_ = asts(g.contiguous(shared), total(shared, 1))
    constants = {node.arg.value for node in first.toposort() if node.op is Ops.CONST}
    assert {7, 15 + 2} <= constants


def test_one_kernel_that_reads_a_costly_value_at_two_places_loads_it(machine):
    x = numbers(5, 5)
    shared = many_steps(machine.put(x), 20)
    (got,) = machine.run(add(shared, g.permute(shared, (1, 0))))
    want = numpy_steps(x, 20)
    np.testing.assert_array_equal(got, want + want.T)
    assert len(machine.planned.kernels) == 2


def test_parts_that_have_no_element_in_common_repeat_nothing():
    shared = many_steps(empty(8, 5, dtype=I32), 20)
    halves = [g.shrink(shared, (bounds, (0, 5))) for bounds in ((0, 4), (4, 8))]
    assert len(asts(g.alu(Ops.MAX, *halves))) == 1
    halves = [g.shrink(shared, (bounds, (0, 5))) for bounds in ((0, 5), (3, 8))]
    assert len(asts(g.alu(Ops.MAX, *halves))) == 2


def test_what_is_made_of_constants_alone_is_cheap_for_longer():
    ramp = g.iota(20)
    short, long = many_steps(ramp, 12), many_steps(ramp, 60)
    computing = [
        sum(ops(ast).count(Ops.XOR) > 10 for ast in asts(plus(steps, 1), total(steps, 0)))
        for steps in (short, long)
    ]
    assert computing == [2, 1]


def test_work_counts_a_value_that_is_read_twice_once():
    x = empty(4, dtype=I32)
    node = x
    for _ in range(10):
        node = add(node, node)
    work = fusion.ElementWork(set())
    for source in node.toposort():
        work.add(source)
    assert work.exceeds(node, 10)
    assert not work.exceeds(node, 11)  # ten additions and a load
    assert not work.exceeds(node, 10, loads=0)


def test_a_costly_base_is_stored_before_it_is_repeated_through_a_pad():
    x = g.alu(Ops.SIN, empty(4))
    wide = g.expand(g.reshape(g.pad(x, ((1, 1),)), (6, 1)), (6, 8))
    first, second = asts(mul(wide, empty(6, 8)))
    assert (Ops.SIN in ops(first), Ops.SIN in ops(second)) == (True, False)


# --- where a reduce is stored -------------------------------------------------------------------


def test_a_chain_of_sums_into_one_value_is_one_kernel(machine):
    arrays = [numbers(4, 5) + step for step in range(12)]
    result = total(machine.put(arrays[0]), 1)
    for array in arrays[1:]:
        result = add(mul(result, g.full((4, 1), 3, I32)), total(machine.put(array), 1))
    (got,) = machine.run(result)
    want = arrays[0].sum(1)
    for array in arrays[1:]:
        want = want * 3 + array.sum(1)
    np.testing.assert_array_equal(got[:, 0], want)
    (kernel,) = machine.planned.kernels
    assert len(reduces(kernel.ast)) == 12


# --- independent parts --------------------------------------------------------------------------


def test_they_stay_apart_where_one_needs_the_other_or_sees_other_contents(machine):
    x = numbers(8, 9)
    a = machine.put(x)
    turned = g.contiguous(g.permute(a, (1, 0)))
    new = g.assign(a, plus(a, 5))
    got, old = machine.run(new, plus(turned, 1))
    np.testing.assert_array_equal(got, x + 5)
    np.testing.assert_array_equal(old, x.T + 1)
    assert len(machine.planned.kernels) == 2


def test_other_shapes_and_loops_stay_apart():
    x, y = empty(8, 9), empty(9, 8)
    assert len(asts(plus(x, 1.0), plus(y, 1.0))) == 2
    assert len(asts(plus(x, 1.0), total(x, 1))) == 2
    assert len(asts(total(x, 0), total(x, 1))) == 2


def test_products_of_matrices_stay_apart():
    x, left, right = empty(8, 1, 9), empty(1, 7, 9), empty(1, 7, 9)
    wide = g.expand(x, (8, 7, 9))
    products = [total(mul(wide, g.expand(w, (8, 7, 9))), 2) for w in (left, right)]
    assert len(asts(*products)) == 2


def test_a_shared_number_is_no_reason_to_join():
    rate = empty(1)
    steps = [mul(empty(8, 9), g.expand(g.reshape(rate, (1, 1)), (8, 9))) for _ in range(3)]
    assert len(asts(*steps)) == 3


def test_kernels_of_a_few_elements_are_one():
    counters = [empty(1) for _ in range(3)]
    assert len(asts(*(g.assign(counter, plus(counter, 1.0)) for counter in counters))) == 1


def test_no_more_than_eight_outputs_are_joined():
    x = empty(8, 9)
    planned = schedule([(plus(x, step + 0.5), "PYTHON") for step in range(20)])
    assert sorted(len(item.ast.src) for item in planned.kernels) == [4, 8, 8]


# --- limits of devices --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_sums_of_hundreds_of_buffers_are_cut_in_one_pass(machine, shape):
    count = 500
    arrays = [np.full(3, number % 9, np.int32) for number in range(count)]
    nodes = [machine.put(array) for array in arrays]
    while len(nodes) > 1:
        if shape == "chain":
            nodes = [add(nodes[0], nodes[1]), *nodes[2:]]
        else:
            odd = nodes[len(nodes) // 2 * 2 :]
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            nodes = [*(add(x, y) for x, y in pairs), *odd]
    (got,) = machine.run(nodes[0])
    np.testing.assert_array_equal(got, sum(arrays))
    limit = Device["PYTHON"].capabilities.buffer_limit
    assert all(len(item.buffers) <= limit for item in machine.planned.kernels)
    assert len(machine.planned.kernels) < 3 * count / limit + 2


# --- numbers of kernels -------------------------------------------------------------------------

# A number of positions, and the shape whose axis has them.
AXES = ((200, (200, 1, 1)), (4, (1, 4, 1)), (200, (1, 1, 200)))


@pytest.mark.parametrize("is_first", [True, False])
def test_an_index_that_changes_along_the_summed_axis_is_chosen_with_another(is_first):
    # The sum over 200 positions alone is not long: one kernel.
    row, column, step = (Tensor.arange(n).reshape(shape) for n, shape in AXES)
    here, other = row == step, column == Tensor([2], dtype="int32")
    both = here & other if is_first else other & here
    x = Tensor.empty(200, 4, 200)
    chosen = both.where(x, 0).sum((0, 1, 2))
    assert len(chosen.schedule().kernels) == 1


def test_outputs_share_what_they_both_need(machine):
    x = empty(4, 5)
    rows = total(x, 1)
    assert machine.kernels(rows, g.alu(Ops.MAX, rows, g.constant(0.0, F32))) == 1
    assert machine.kernels(rows, g.contiguous(rows)) == 1


def test_a_reduce_read_twice_is_stored_once(machine):
    rows = total(empty(4, 5), 1)
    wide = g.expand(rows, (4, 5))
    assert machine.kernels(add(wide, mul(empty(4, 5), wide))) == 2


def test_not_past_a_widening_cast(machine):
    rows = g.cast(total(empty(4, 5, dtype=dtypes.float16), 1), F32)
    planned = schedule([(mul(empty(4, 5), g.expand(rows, (4, 5))), "PYTHON")])
    assert [item.buffers[0].dtype for item in planned.kernels] == [dtypes.float16, F32]
