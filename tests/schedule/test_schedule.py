"""Test kernels: padding, symbolic sizes, limits, copies, joins, equality of programs."""

import numpy as np
import pytest
from lazy_graphs import add, total

from tinyref.dtype import dtypes
from tinyref.errors import UserError, VerifyError
from tinyref.lazy import graph as g
from tinyref.schedule import CopyItem, KernelItem, prepare, schedule
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import ConstArg
from tinyref.verify import verify

F32, I32 = dtypes.float32, dtypes.int32


def small():
    return np.array([[1, 2, 4], [-1, -2, 8]], np.float32)


def has(ast, op):
    return any(node.op is op for node in ast.toposort())


# --- numbers without memory ---------------------------------------------------------------------


def test_numbers_take_part_in_a_kernel_as_a_load_would(machine):
    x = machine.put(np.array([5, 7, 11], np.int32))
    numbers = g.iota(3)
    (got,) = machine.run(g.pad(add(x, numbers), ((1, 1),)))
    assert got.tolist() == [0, 5, 8, 13, 0]
    (item,) = machine.planned.kernels
    assert len(item.buffers) == 2
    assert has(item.ast, Ops.IOTA)


def test_padded_numbers_are_0_and_what_does_not_keep_0_is_masked(machine):
    (got,) = machine.run(g.pad(g.flip(g.iota(3), (0,)), ((1, 2),)))
    assert got.tolist() == [0, 2, 1, 0, 0, 0]
    one = g.full((3,), 1, I32)
    (got,) = machine.run(g.pad(add(g.iota(3), one), ((1, 2),)))
    assert got.tolist() == [0, 1, 2, 3, 0, 0]
    assert has(machine.planned.kernels[0].ast, Ops.VALID)


def test_numbers_of_a_bound_size(machine):
    n = g.bind(build.variable("n", 1, 8), 5)
    (got,) = machine.run(g.iota(n))
    assert got.tolist() == [0, 1, 2, 3, 4]


# --- padding ------------------------------------------------------------------------------------

ZERO_KEEPERS = {
    "negated twice": lambda x: g.alu(Ops.NEG, g.alu(Ops.NEG, x)),
    "times 2": lambda x: g.alu(Ops.MUL, x, g.constant(2.0, F32)),
    "square root": lambda x: g.alu(Ops.SQRT, g.alu(Ops.MUL, x, x)),
    "not 0": lambda x: g.cast(g.alu(Ops.CMPNE, x, g.full_like(x, 0)), F32),
}
OTHERS = {
    "negated": (lambda x: g.alu(Ops.NEG, x), lambda x: -x),  # -0.0 is not 0.0
    "reciprocal": (lambda x: g.alu(Ops.RECIP, x), lambda x: 1 / x),
    "power of 2": (lambda x: g.alu(Ops.EXP2, x), np.exp2),
    "plus 1": (lambda x: add(x, g.constant(1.0, F32)), lambda x: x + 1),
    "constant": (lambda x: g.full_like(x, 3.0), lambda x: x * 0 + 3),
    "is 0": (
        lambda x: g.cast(g.alu(Ops.CMPLT, x, g.full_like(x, 1.0)), F32),
        lambda x: (x < 1).astype(np.float32),
    ),
}


@pytest.mark.parametrize("name", ZERO_KEEPERS)
def test_what_keeps_zero_is_padded_by_the_loads_alone(machine, name):
    x = machine.put(small())
    (got,) = machine.run(g.pad(ZERO_KEEPERS[name](x), ((1, 0), (0, 2))))
    assert np.array_equal(got[0], np.zeros(5))
    assert not np.signbit(got[0]).any()
    assert not has(machine.planned.kernels[0].ast, Ops.VALID)


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_keep_zero_is_masked(machine, name):
    function, reference = OTHERS[name]
    x = machine.put(small())
    (got,) = machine.run(g.pad(function(x), ((1, 0), (0, 2))))
    want = np.pad(reference(small()), ((1, 0), (0, 2)))
    np.testing.assert_array_equal(got, want)
    assert not np.signbit(got[0]).any()
    assert has(machine.planned.kernels[0].ast, Ops.VALID)


def test_integer_division_is_masked(machine):
    x = machine.put(np.array([3, 5], np.int32))
    tens = g.full((2,), 10, I32)
    (got,) = machine.run(g.pad(g.alu(Ops.IDIV, tens, x), ((1, 1),)))
    assert got.tolist() == [0, 3, 2, 0]
    assert has(machine.planned.kernels[0].ast, Ops.WHERE)


# --- reduces ------------------------------------------------------------------------------------


def test_a_count_that_the_type_cannot_hold_is_no_factor(machine):
    x = machine.put(np.zeros(1, np.float16))
    (got,) = machine.run(total(g.expand(x, (70_000,)), 0))
    assert got.tolist() == [0]


def test_stacked_reduces_that_share_axes_share_a_kernel(machine):
    x = machine.put(small())
    mean = g.alu(Ops.MUL, total(x, 1), g.constant(0.5, F32))
    centred = g.alu(Ops.SUB, x, g.expand(mean, (2, 3)))
    variance = total(g.alu(Ops.MUL, centred, centred), 1)
    (got,) = machine.run(variance)
    want = ((small() - small().sum(1, keepdims=True) * np.float32(0.5)) ** 2).sum(1, keepdims=True)
    np.testing.assert_array_equal(got, want)
    (kernel,) = machine.planned.kernels
    assert len(kernel.buffers) == 2  # the mean itself is not stored
    verify(Dialect.AST, kernel.ast)
    machine.run(variance, mean)
    (kernel,) = machine.planned.kernels
    assert len(kernel.buffers) == 3
    assert len(kernel.ast.src) == 2


def test_a_reduce_keeps_its_loop_when_a_value_replaces_its_only_load(machine):
    x = machine.put(small())
    rows = total(x, 1)
    powers = g.alu(Ops.EXP2, g.expand(rows, (2, 3)))
    (got,) = machine.run(total(powers, 1))
    assert got.tolist() == [[3 * 2.0**7], [3 * 2.0**5]]


def test_a_kernel_between_two_keeps_them_apart(machine):
    # rows -> all -> out and rows -> out: out cannot join rows, because all runs in between.
    x = machine.put(small())
    rows = total(x, 1)
    everything = total(g.alu(Ops.EXP2, rows), 0)
    out = add(g.expand(everything, (2, 1)), rows)
    got_out, got_rows = machine.run(out, rows)
    assert got_rows.ravel().tolist() == [7, 5]
    assert got_out.ravel().tolist() == [167, 165]


# --- sizes and limits ---------------------------------------------------------------------------


def test_symbolic_sizes_and_values(machine):
    n = build.variable("n", 1, 10)
    bound = g.bind(n, 3)
    x = g.new_buffer("PYTHON", (bound, 2), I32)
    machine.memory[g.backing(x)] = np.arange(20, dtype=np.int32)
    count = g.cast(g.spread(bound, (bound, 2)), I32)
    rows, sums = machine.run(add(x, count), total(x, 0))
    assert rows.tolist() == [[3, 4], [5, 6], [7, 8]]
    assert sums.tolist() == [[6, 9]]
    assert machine.planned.bindings == {"n": 3}
    for kernel in machine.planned.kernels:
        verify(Dialect.AST, kernel.ast)
        assert not has(kernel.ast, Ops.BIND)


def test_one_program_for_all_values_of_a_variable():
    n = build.variable("n", 1, 10)
    asts = set()
    for value in (3, 7):
        x = g.new_buffer("PYTHON", (g.bind(n, value), 2), I32)
        asts.update(item.ast for item in schedule([(total(x, 0), "PYTHON")]).kernels)
    assert len(asts) == 1


def test_graphs_of_other_values_of_a_variable_may_wait(machine):
    """Check that a tensor kept for later does not bind the variables of this schedule."""
    n = build.variable("n", 1, 10)
    x = machine.put(np.arange(10, dtype=np.int32))
    three, four = (total(g.shrink(x, ((0, g.bind(n, value)),)), 0) for value in (3, 4))
    (got,) = machine.run(three, live=[four])
    assert got.tolist() == [3]
    assert machine.planned.bindings == {"n": 3}
    y = machine.put(np.ones(1, np.int32))
    (got,) = machine.run(g.assign(y, add(y, three)), live=[four])
    assert got.tolist() == [4]
    assert machine.planned.bindings == {"n": 3}


def test_many_outputs_are_prepared_in_one_walk(machine, monkeypatch):
    """Guard against time that grew with the number of outputs times the size of the graph."""
    walks = []
    monkeypatch.setattr(prepare, "toposort", lambda roots: walks.append(1) or toposort(roots))
    node = machine.put(np.ones(2, np.float32))
    outputs = [node := add(node, node) for _ in range(50)]
    assert machine.run(*outputs)[-1].tolist() == [2.0**50] * 2
    assert len(walks) < 10


def test_two_values_for_one_variable_are_refused():
    n = build.variable("n", 1, 10)
    x = total(g.new_buffer("PYTHON", (g.bind(n, 3),), I32), 0)
    y = total(g.new_buffer("PYTHON", (g.bind(n, 4),), I32), 0)
    with pytest.raises(UserError, match=r"variable n: bound to 3 and to 4"):
        schedule([(add(x, y), "PYTHON")])


# --- copies -------------------------------------------------------------------------------------


def test_copies_between_devices(machine):
    x = machine.put(small(), device="CPU")
    node = add(g.copy(total(x, 1), "PYTHON"), g.constant(1.0, F32))
    (got,) = machine.run(node)
    assert got.tolist() == [[8], [6]]
    kinds = [type(item) for item in machine.planned.items]
    assert kinds == [KernelItem, CopyItem, KernelItem]
    assert [item.device for item in machine.planned.kernels] == ["CPU", "PYTHON"]


def test_an_output_for_another_device_is_copied(machine):
    x = machine.put(small(), device="CPU")
    (got,) = machine.run(x, device="PYTHON")
    np.testing.assert_array_equal(got, small())
    assert g.device_of(machine.planned.results[x]) == "PYTHON"


def test_constants_go_to_each_device_that_uses_them(machine):
    ramp = total(g.pad(g.full((3, 3), 1.0, F32), ((1, 0), (0, 1))), 0)
    x, y = machine.put(small()[:, [0, 1, 2, 2]]), machine.put(small()[:, [0, 1, 2, 2]], "CPU")
    wide = g.expand(ramp, (2, 4))
    left, right = add(x, wide), add(y, wide)
    planned = schedule([(left, "PYTHON"), (right, "CPU")])
    for item in planned.kernels:
        assert {buffer.arg.device for buffer in item.buffers} == {item.device}


# --- promises to callers -------------------------------------------------------------------------


def program():
    x, w = g.new_buffer("PYTHON", (4, 5), F32), g.new_buffer("PYTHON", (5,), F32)
    scaled = g.alu(Ops.MUL, x, g.expand(g.reshape(w, (1, 5)), (4, 5)))
    return g.alu(Ops.MAX, total(scaled, 1), g.constant(0.0, F32))


def test_equal_programs_on_other_buffers_are_the_same_kernels():
    first, second = (schedule([(program(), "PYTHON")]) for _ in range(2))
    assert [item.ast for item in first.kernels] == [item.ast for item in second.kernels]
    assert first.kernels[0].buffers != second.kernels[0].buffers


def test_outputs_have_the_first_slots_and_each_buffer_one():
    x = g.new_buffer("PYTHON", (4, 4), F32)
    node = add(x, add(g.permute(x, (1, 0)), g.new_buffer("PYTHON", (4, 4), F32)))
    (item,) = schedule([(node, "PYTHON")]).kernels
    assert len(item.buffers) == 3
    assert item.buffers[1] is g.backing(x)
    verify(Dialect.AST, item.ast)


def test_axes_that_no_view_keeps_apart_are_merged():
    x = g.new_buffer("PYTHON", (2, 1, 3, 4), F32)
    (item,) = schedule([(add(x, x), "PYTHON")]).kernels
    (view,) = {node.arg.tracker.shape for node in item.ast.toposort() if node.op is Ops.VIEW}
    assert view == (24,)


@pytest.mark.parametrize(
    ("shape", "grouped", "axes"),
    [
        ((6, 4, 5), (2, 60), (6, 4, 5)),
        ((6, 4, 5), (4, 30), (120,)),
        ((3, 4, 5), (3, 20), (3, 4, 5)),
    ],
    ids=["groups of channels", "no common axes", "channels"],
)
def test_a_reshape_after_a_reduce_leaves_the_axes_of_its_kernel(shape, grouped, axes):
    # With merged axes, each index of the operand would need divisions.
    first, second, third = shape
    x = g.new_buffer("PYTHON", (first, third, 7, second), F32)
    # In this order no two axes are neighbours in memory.
    value = g.reshape(total(g.permute(x, (0, 3, 1, 2)), 3), grouped)
    (item,) = schedule([(add(value, value), "PYTHON")]).kernels
    (store,) = (node for node in item.ast.toposort() if node.op is Ops.STORE)
    assert store.src[0].arg.tracker.shape == (*axes, 1)


def test_every_kernel_says_what_it_completes(machine):
    x = machine.put(small())
    stored = g.contiguous(g.permute(x, (1, 0)))
    out = total(stored, 0)
    planned = schedule([(out, "PYTHON")])
    assert [set(item.completes) for item in planned.items] == [{stored}, {out}]


def test_results_map_every_output_to_memory_of_its_shape(machine):
    x = machine.put(small())
    node = g.reshape(g.detach(total(x, 1)), (2,))
    planned = schedule([(node, "PYTHON"), (x, "PYTHON")])
    assert g.shape_of(planned.results[node]) == (2,)
    assert g.backing(planned.results[node]) is not None
    assert planned.results[x] is x


def test_a_graph_that_breaks_a_rule_is_refused():
    x = g.new_buffer("PYTHON", (4,), F32)
    bad = UOp(Ops.ADD, F32, (x, UOp(Ops.CONST, F32, (), ConstArg(1.0))))
    with pytest.raises(VerifyError, match=r"tensor\.shape\.1"):
        schedule([(bad, "PYTHON")])


def test_ordering_is_the_same_each_time():
    def names():
        x = g.new_buffer("PYTHON", (4, 5), F32)
        outputs = [g.alu(Ops.SIN, total(x, axis)) for axis in (0, 1)]
        outputs.append(g.contiguous(g.permute(x, (1, 0))))
        return [item.ast for item in schedule([(node, "PYTHON") for node in outputs]).items]

    assert names() == names()
