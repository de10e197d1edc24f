"""Programs become exactly the number of kernels that the table in `kernel_counts` says."""

import numpy as np
import pytest
from kernel_counts import TABLE as PROGRAMS

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


def sub(x, y):
    return g.alu(Ops.SUB, x, y)


def mul(x, y):
    return g.alu(Ops.MUL, x, y)


def relu(x):
    return g.alu(Ops.MAX, x, number(0.0))


def total(x, *axes):
    return g.reduce(Ops.ADD, x, axes)


def mean(x, *axes):
    count = np.prod([g.shape_of(x)[axis] for axis in axes])
    return mul(total(x, *axes), number(1.0 / count))


def spread(x, like):
    return g.expand(x, g.shape_of(like))


def exp(x):
    return g.alu(Ops.EXP2, mul(x, number(1.4426950408889634)))


def log(x):
    return mul(g.alu(Ops.LOG2, x), number(0.6931471805599453))


def matmul(x, w):
    (rows, depth), columns = g.shape_of(x), g.shape_of(w)[1]
    shape = (rows, depth, columns)
    left = g.expand(g.reshape(x, (rows, depth, 1)), shape)
    right = g.expand(g.reshape(w, (1, depth, columns)), shape)
    return g.reshape(total(mul(left, right), 1), (rows, columns))


def add_bias(x, bias):
    return add(x, spread(g.reshape(bias, (1, *g.shape_of(bias))), x))


def softmax(x):
    powers = exp(sub(x, spread(g.reduce(Ops.MAX, x, (1,)), x)))
    return mul(powers, spread(g.alu(Ops.RECIP, total(powers, 1)), x))


def log_softmax(x):
    shifted = sub(x, spread(g.reduce(Ops.MAX, x, (1,)), x))
    return sub(shifted, spread(log(total(exp(shifted), 1)), x))


def layernorm(x):
    centred = sub(x, spread(mean(x, 1), x))
    variance = mean(mul(centred, centred), 1)
    scale = g.alu(Ops.RECIP, g.alu(Ops.SQRT, add(variance, number(1e-5))))
    return mul(centred, spread(scale, x))


def conv2d(x, w, bias):
    """A valid 3x3 convolution as windows: each window row and column is a shrink of `x`."""
    batch, channels, height, width = g.shape_of(x)
    filters, _, rows, columns = g.shape_of(w)
    out_height, out_width = height - rows + 1, width - columns + 1
    # Windows without gather: repeat, cut to a multiple of (size + 1), and see it as shifted rows.
    windows = _windows(_windows(x, 2, rows), 4, columns)
    shape = (batch, filters, channels, rows, out_height, columns, out_width)
    left = g.permute(windows, (0, 1, 3, 2, 5, 4))
    left = g.reshape(left, (batch, 1, channels, rows, out_height, columns, out_width))
    right = g.reshape(w, (1, filters, channels, rows, 1, columns, 1))
    product = mul(g.expand(left, shape), g.expand(right, shape))
    result = g.reshape(total(product, 2, 3, 5), (batch, filters, out_height, out_width))
    return relu(add(result, spread(g.reshape(bias, (1, filters, 1, 1)), result)))


def _windows(x, axis, size):
    """Axis `axis` of n elements becomes (n - size + 1, size): overlapping windows."""
    shape = g.shape_of(x)
    length = shape[axis]
    count = length - size + 1
    x = g.expand(
        g.reshape(x, (*shape[:axis], 1, *shape[axis:])), (*shape[:axis], size + 1, *shape[axis:])
    )
    x = g.reshape(x, (*shape[:axis], (size + 1) * length, *shape[axis + 1 :]))
    keep = [(0, extent) for extent in g.shape_of(x)]
    keep[axis] = (0, size * (length + 1))
    x = g.reshape(g.shrink(x, keep), (*shape[:axis], size, length + 1, *shape[axis + 1 :]))
    keep = [(0, extent) for extent in g.shape_of(x)]
    keep[axis + 1] = (0, count)
    x = g.shrink(x, keep)
    order = list(range(len(g.shape_of(x))))
    order[axis], order[axis + 1] = axis + 1, axis
    return g.permute(x, order)


def mlp(x):
    hidden = relu(add_bias(matmul(x, empty(5, 7)), empty(7)))
    return add_bias(matmul(hidden, empty(7, 3)), empty(3))


def shared_silu(x):
    h = matmul(x, empty(5, 6))
    return mul(h, g.alu(Ops.RECIP, add(exp(mul(h, number(-1.0))), number(1.0))))


def sgd_step():
    weight, gradient = empty(4, 5), empty(4, 5)
    return g.assign(weight, sub(weight, mul(gradient, number(0.1))))


def adam_step():
    weight, gradient, first, second = (empty(4, 5) for _ in range(4))
    first = g.assign(first, add(mul(first, number(0.9)), mul(gradient, number(0.1))))
    squared = mul(gradient, gradient)
    second = g.assign(second, add(mul(second, number(0.99)), mul(squared, number(0.01))))
    step = mul(first, g.alu(Ops.RECIP, add(g.alu(Ops.SQRT, second), number(1e-8))))
    return g.assign(weight, sub(weight, mul(step, number(0.001))))


def x45():
    return empty(4, 5)


TABLE = {
    "elementwise chain": (1, lambda: exp(add(mul(x45(), x45()), number(1.0)))),
    "sum of all": (1, lambda: total(x45(), 0, 1)),
    "sum of rows": (1, lambda: total(x45(), 1)),
    "mean": (1, lambda: mean(x45(), 0, 1)),
    "max": (1, lambda: g.reduce(Ops.MAX, x45(), (0,))),
    "relu(x + b).sum": (1, lambda: total(relu(add_bias(x45(), empty(5))), 0, 1)),
    "sum of a sum": (1, lambda: total(total(x45(), 1), 0)),
    "sum of a max": (2, lambda: total(g.reduce(Ops.MAX, x45(), (1,)), 0)),
    "matmul": (1, lambda: matmul(x45(), empty(5, 3))),
    "matmul + bias + relu": (1, lambda: relu(add_bias(matmul(x45(), empty(5, 3)), empty(3)))),
    "relu before matmul": (1, lambda: matmul(relu(x45()), empty(5, 3))),
    "exp before matmul": (2, lambda: matmul(exp(x45()), empty(5, 3))),
    "matmul of a transpose": (1, lambda: matmul(g.permute(empty(5, 4), (1, 0)), empty(5, 3))),
    "two matmuls": (2, lambda: matmul(matmul(x45(), empty(5, 3)), empty(3, 2))),
    "silu of a matmul": (1, lambda: shared_silu(x45())),
    "softmax": (2, lambda: softmax(x45())),
    "log_softmax": (2, lambda: log_softmax(x45())),
    "layernorm": (2, lambda: layernorm(x45())),
    "conv2d + bias + relu": (
        1,
        lambda: conv2d(empty(2, 3, 6, 6), empty(4, 3, 3, 3), empty(4)),
    ),
    "mlp forward": (2, lambda: mlp(x45())),
    "transpose": (1, lambda: g.contiguous(g.permute(x45(), (1, 0)))),
    "transpose of a sum": (1, lambda: g.permute(total(empty(2, 3, 4), 2), (1, 0, 2))),
    "reshape of a buffer": (0, lambda: g.reshape(x45(), (20,))),
    "contiguous of a buffer": (0, lambda: g.contiguous(g.reshape(x45(), (20,)))),
    "detach of a buffer": (0, lambda: g.detach(x45())),
    "copy of a buffer": (0, lambda: g.copy(empty(4, 5, device="CPU"), "PYTHON")),
    "copy of a sum": (1, lambda: g.copy(total(empty(4, 5, device="CPU"), 1), "PYTHON")),
    "copy of a part": (
        1,
        lambda: g.copy(g.shrink(empty(4, 5, device="CPU"), ((0, 2), (1, 3))), "PYTHON"),
    ),
    "nothing": (0, lambda: total(empty(0, 5), 1)),
    "sum over nothing": (0, lambda: total(empty(5, 0), 1)),
    "constant": (0, lambda: g.full((4, 5), 2.0, F32)),
    "contiguous constant": (1, lambda: g.contiguous(g.full((4, 5), 2.0, F32))),
    "padded sum": (1, lambda: total(g.pad(x45(), ((1, 1), (0, 2))), 1)),
    "padded reciprocal": (1, lambda: g.pad(g.alu(Ops.RECIP, x45()), ((1, 1), (0, 2)))),
    "sum of two sums alike": (1, lambda: add(total(x45(), 1), total(x45(), 1))),
    "sum of two sums of other lengths": (
        2,
        lambda: add(total(x45(), 1), total(empty(4, 9), 1)),
    ),
    "sgd step": (1, sgd_step),
    "adam step": (1, adam_step),
    "sum of 65536": (2, lambda: total(empty(65536), 0)),
    "sum of 32767": (1, lambda: total(empty(32767), 0)),
    "row sums of 1000 x 65536": (1, lambda: total(empty(1000, 65536), 1)),
    "half matmul, cast up": (
        1,
        lambda: g.cast(total(empty(4, 5, dtype=dtypes.float16), 1), F32),
    ),
}


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


def test_the_table_is_large_and_names_each_program_once():
    names = [program.name for program in PROGRAMS]
    assert len(names) == len(set(names)) >= 60
    assert all(program.why for program in PROGRAMS)


def test_a_softmax_and_a_norm_keep_to_the_limits_of_the_design():
    counts = {program.name: program.kernels for program in PROGRAMS}
    assert counts["softmax"] <= 3
    assert counts["layernorm"] <= 2


@pytest.mark.parametrize("name", TABLE)
def test_program_has_exactly_this_many_kernels(machine, name):
    count, program = TABLE[name]
    assert machine.kernels(program()) == count


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
