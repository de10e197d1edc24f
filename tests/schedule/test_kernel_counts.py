"""Programs become exactly the number of kernels that the table in `kernel_counts` says."""

import pytest
from kernel_counts import PROGRAMS

from tinyref.dtype import dtypes
from tinyref.lazy import graph as g
from tinyref.schedule import schedule
from tinyref.tensor import Tensor
from tinyref.uops.ops import Ops

F32 = dtypes.float32


def empty(*shape, dtype=F32, device="PYTHON"):
    return g.new_buffer(device, shape, dtype)


def number(value, dtype=F32):
    return g.constant(value, dtype)


def add(x, y):
    return g.alu(Ops.ADD, x, y)


def mul(x, y):
    return g.alu(Ops.MUL, x, y)


def relu(x):
    return g.alu(Ops.MAX, x, number(0.0))


def total(x, *axes):
    return g.reduce(Ops.ADD, x, axes)


def spread(x, like):
    return g.expand(x, g.shape_of(like))


def x45():
    return empty(4, 5)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_tensor_program_has_exactly_this_many_kernels(program):
    built = program.build()
    outputs = [built] if isinstance(built, Tensor) else built
    planned = outputs[0].schedule(*outputs[1:])
    kernels = len(planned.kernels)
    assert (kernels, len(planned.items) - kernels) == (program.kernels, program.copies)


# Along which of three axes so many positions go.
AXES = ((200, (200, 1, 1)), (4, (1, 4, 1)), (200, (1, 1, 200)))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_place_that_changes_along_what_is_summed_is_chosen_beside_another(is_first):
    """The sum over 200 positions alone is no long one: one kernel."""
    row, column, step = (Tensor.arange(n).reshape(shape) for n, shape in AXES)
    here, beside = row == step, column == Tensor([2], dtype="int32")
    both = here & beside if is_first else beside & here
    x = Tensor.empty(200, 4, 200)
    chosen = both.where(x, 0).sum((0, 1, 2))
    assert len(chosen.schedule().kernels) == 1


def test_outputs_share_what_they_both_need(machine):
    x = x45()
    rows = total(x, 1)
    assert machine.kernels(rows, relu(rows)) == 1
    assert machine.kernels(rows, g.contiguous(rows)) == 1


def test_a_reduce_read_twice_is_stored_once(machine):
    rows = total(empty(4, 5), 1)
    wide = spread(rows, empty(4, 5))
    assert machine.kernels(add(wide, mul(x45(), spread(rows, wide)))) == 2


def test_not_past_a_widening_cast(machine):
    rows = g.cast(total(empty(4, 5, dtype=dtypes.float16), 1), F32)
    planned = schedule([(mul(x45(), spread(rows, x45())), "PYTHON")])
    assert [item.buffers[0].dtype for item in planned.kernels] == [dtypes.float16, F32]
