"""Test that kernels know the user's functions that they compute."""

from tinyref.dtype import dtypes
from tinyref.lazy import graph as g
from tinyref.schedule import KernelItem
from tinyref.tensor import Tensor
from tinyref.tensor.core import from_node
from tinyref.tensor.naming import noting_lines


def data(*shape):
    return from_node(Tensor, g.new_buffer("CPU", shape, dtypes.float32), "CPU")


def names(*outputs):
    return [item.names for item in outputs[0].schedule(*outputs[1:]).kernels]


def test_a_kernel_names_the_functions_that_were_called():
    y = data(8, 16).linear(data(16, 4)).relu().softmax()
    assert names(y) == [("linear", "relu"), ("softmax",)]


def test_only_the_outermost_function_counts():
    # layernorm and attention call mean, rsqrt, softmax.
    assert names(data(4, 8).log_softmax()) == [("log_softmax",)]
    assert names(data(4, 8).var()) == [("var",)]


def test_operators_go_by_the_name_of_the_operation():
    x = data(4, 4)
    assert names(1 - x * 2) == [("mul", "sub")]
    assert names(x @ x) == [("matmul",)]


def test_sums_that_become_one_have_a_name():
    assert names((data(2, 3) * 2).sum(axis=1).sum()) == [("mul", "sum")]


def test_a_constructor_and_movement_are_named_where_nothing_else_is():
    assert names(data(4, 5).T.contiguous()) == [("T", "contiguous")]
    assert names(data(4, 5).T.contiguous() + 1) == [("T", "contiguous", "add")]


def test_a_kernel_that_computes_and_ends_in_a_movement_is_named_by_what_it_computes():
    x = data(4, 5)
    assert names((x * 2).T) == [("mul",)]
    assert names((x * 2).pad(((0, 1), (0, 0)))) == [("mul",)]
    assert names((x * 2).T, (x * 2).sum()) == [("mul",), ("mul", "sum")]


def test_gradients_say_what_they_are_the_gradient_of():
    x = data(4, 8).requires_grad_()
    gradient = x.exp().sum().gradient(x)[0]
    assert names(gradient.detach()) == [("exp", "backward exp")]
    # Afterwards functions have their own names again.
    assert names(data(4).sin()) == [("sin",)]


def test_a_gradient_of_a_gradient_is_called_backward_once():
    x = data(4).requires_grad_()
    first = x.sin().sum().gradient(x)[0]
    second = first.sum().gradient(x)[0]
    called = {name for kernel in names(second.detach()) for name in kernel}
    assert any(name.startswith("backward") for name in called)
    assert not any("backward backward" in name for name in called)


def test_names_outlast_computing_a_part():
    x = Tensor([1.0, 2.0])
    hidden = x.sin()
    result = hidden.exp()
    hidden.realize()
    assert names(result) == [("exp",)]


def test_a_schedule_prints_a_line_for_each_item():
    x = data(4, 5)
    text = str((x.sum() + 1).to("PYTHON").schedule())
    assert text.splitlines()[0].endswith("sum, add")
    assert text.splitlines()[1].startswith("2. copy")


def test_schedule_runs_nothing_and_takes_several_outputs():
    x = data(4, 5)
    planned = x.sum(0).schedule(x.sum(1))
    assert [type(item) for item in planned.items] == [KernelItem, KernelItem]
    assert planned.kernels[0].buffers[0] not in (x.node,)


def test_lines_are_noted_where_somebody_asks():
    x = data(4, 8)
    with noting_lines():
        y = x.log2()
        z = y.sum(1) * 3.0
    here = f"{__file__}:"
    (item,) = z.schedule().kernels
    first = test_lines_are_noted_where_somebody_asks.__code__.co_firstlineno
    assert item.names == ("log2", "sum", "mul")
    assert item.lines == (f"{here}{first + 3}", f"{here}{first + 4}")


def test_lines_are_not_noted_otherwise():
    (item,) = (data(4, 16).exp2() * 7.0).schedule().kernels
    assert item.lines == ()
