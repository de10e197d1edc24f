"""TinyJit: what cannot be replayed is refused."""

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, Variable
from tinyref.errors import UserError


def test_one_variable_has_one_value():
    length = Variable("length", 1, 8)
    jitted = TinyJit(lambda a, b: a.sum() + b.sum())
    a, b = (Tensor.ones(8).contiguous().shrink(((0, length.bind(n)),)) for n in (3, 4))
    with pytest.raises(UserError, match="variable length is 4 here and 3"):
        jitted(a, b)


GOOD = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((Tensor(np.ones((3, 3), np.float32)), 1), r"argument x is .*\(3, 3\).*captured.*\(2, 3\)"),
        ((Tensor(np.ones((2, 3), np.int32)), 1), r"argument x is a int32 tensor"),
        ((Tensor(GOOD, device="CPU:1"), 1), r"argument x is .* on CPU:1"),
        ((Tensor(GOOD), 2), r"argument scale is 2, the captured call had 1"),
        ((Tensor(GOOD), 1.0), r"argument scale is 1.0, the captured call had 1"),
        ((Tensor(GOOD), Tensor([1])), r"argument scale is a int32 tensor"),
        (([Tensor(GOOD)], 1), r"argument x is a list of 1 items"),
        ((Tensor(GOOD),), r"argument scale is missing"),
        ((Tensor(GOOD), 1, 3), r"the captured call had no argument more"),
    ],
)
def test_calls_that_do_not_fit_are_refused(args, message):
    jitted = TinyJit(lambda x, scale=1, more=3: x * scale + 1)
    for _ in range(2):
        jitted(Tensor(GOOD), 1)
    with pytest.raises(UserError, match=message):
        jitted(*args)
    assert jitted(Tensor(GOOD), 1).tolist() == (GOOD + 1).tolist()


def read_inside(x):
    return x * (x.sum().item() + 1)


def replace_argument(x):
    x.replace((x * 2).sum(0), allow_shape_mismatch=True)
    return x + 1


def nothing(x):
    return 3


def return_object(x):
    return object()


def grad_of_argument(x):
    x.requires_grad_()
    (x * x).sum().backward()
    return x * 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (read_inside, "elements are read within the function"),
        (
            replace_argument,
            r"argument x to other memory, as a float32 tensor of shape \(3,\)",
        ),
        (nothing, "ran no kernel"),
        (return_object, "the result is a object: accepted are Tensors"),
        (grad_of_argument, "argument x gets a grad"),
    ],
)
def test_functions_that_cannot_be_replayed_are_refused(function, message):
    jitted = TinyJit(function)

    def call_twice():
        for _ in range(2):
            jitted(Tensor(GOOD).realize())

    with pytest.raises(UserError, match=message):
        call_twice()
    assert jitted.captured is None


def test_state_that_is_replaced_is_refused():
    class Model:
        hidden = Tensor([1.0]).realize()

        def step(self, x):
            self.hidden = (self.hidden + x).realize()
            return self.hidden * 2

    jitted = TinyJit(Model().step)
    jitted(Tensor([1.0]))
    with pytest.raises(UserError, match=r"replaces a float32 tensor of shape \(1,\).*assign"):
        jitted(Tensor([1.0]))


def test_gradients_that_add_up_are_refused():
    weight = Tensor([2.0]).requires_grad_()

    @TinyJit
    def step(x):
        (weight * x).sum().backward()
        return weight.grad * 1

    step(Tensor([1.0]))
    with pytest.raises(UserError, match="reads and replaces"):
        step(Tensor([1.0]))


def test_gradients_that_are_set_again_are_those_of_the_last_call():
    weight = Tensor([2.0]).requires_grad_()

    @TinyJit
    def step(x):
        weight.grad = None
        loss = (weight * x * x).sum()
        loss.backward()
        return loss

    for i in range(5):
        assert step(Tensor([float(i)])).item() == 2 * i * i
        assert weight.grad.item() == i * i


def test_arguments_with_a_history_of_gradients_are_refused():
    weight = Tensor([2.0]).requires_grad_()
    jitted = TinyJit(lambda x: x * 2)
    jitted(weight * 3)
    with pytest.raises(UserError, match=r"x\.detach\(\)"):
        jitted(weight * 3)


def test_results_have_no_gradients():
    weight = Tensor([2.0]).requires_grad_()
    jitted = TinyJit(lambda x: weight * x)
    for _ in range(4):
        assert not jitted(Tensor([1.0])).requires_grad


@pytest.mark.parametrize("value", [np.ones(3), {1, 2}, bytearray(b"x")])
def test_mutable_arguments_are_refused(value):
    jitted = TinyJit(lambda x, value: x)
    with pytest.raises(UserError, match=r"argument value is a .*pass a Tensor"):
        jitted(Tensor([1.0]), value)


def test_what_is_no_function_is_refused():
    with pytest.raises(UserError, match="fxn is a int: accepted is a function"):
        TinyJit(3)


def test_an_exception_during_the_capture_leaves_it_to_the_next_call():
    fails = False

    @TinyJit
    def add(x):
        if fails:
            raise ZeroDivisionError
        return x + 1

    add(Tensor([1]))
    fails = True
    with pytest.raises(ZeroDivisionError):
        add(Tensor([1]))
    fails = False
    assert [add(Tensor([i])).item() for i in range(3)] == [1, 2, 3]


def test_a_result_that_is_taken_from_a_list_is_refused():
    queue = [Tensor([float(i)]).realize() for i in range(3)]
    jitted = TinyJit(lambda x: (x + 1, queue.pop()))
    jitted(Tensor([0.0]))
    with pytest.raises(UserError, match="reads and replaces"):
        jitted(Tensor([0.0]))


def test_an_argument_that_contains_itself_is_refused():
    values: list[object] = []
    values.append(values)
    with pytest.raises(UserError, match="an argument contains itself"):
        TinyJit(lambda x: x)(values)


def test_a_damaged_pickle_is_refused():
    jitted = TinyJit(len)
    state = {**jitted.__getstate__()}
    del state["prune"]
    with pytest.raises(UserError, match="the pickle is damaged: it has no prune"):
        jitted.__setstate__(state)
