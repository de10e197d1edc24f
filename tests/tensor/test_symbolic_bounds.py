"""Symbolic sizes that are possible for some values of their variables: looked at when bound."""

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, Variable
from tinyref.errors import UserError

ROWS = np.arange(1, 31, dtype=np.float32).reshape(10, 3)
WHOLE = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
DEVICES = ["CPU", "PYTHON"]


def tensor(array, device):
    return Tensor(array, device=device).realize()


# Expressions that numpy takes too, each with the values of v that it accepts, out of 0 to 10.
FORMS = {
    "x[:, :v] * 2": range(0, 9),
    "x[:, v:] * 2": range(0, 9),
    "x[:, v : v + 1] * 2": range(0, 8),
    "x[:, v] * 2": range(0, 8),
    "x[:, v - 3 :].sum(1)": range(3, 11),
    "x[:, : v - 2].sum(0)": range(2, 11),
    "x[:, : 2 * v].sum(1)": range(0, 5),
    "x[:, 1:7][:, v : v + 2] + 1": range(0, 5),
    "x.T[v : v + 3] * 2": range(0, 6),
    "x[:, :v].sum()": range(0, 9),
    "x[:, :v] @ x[:, :v].T": range(0, 9),
    "x[:, : 12 // v].sum(1)": range(2, 11),
    "x[:, : 20 % v].sum(1)": range(1, 11),
    "x[:, : v - 1] * (v - 1)": range(1, 10),
}
# What numpy means by a negative end is not tried; by 0 nothing is divided.
BEHIND = ("x[:, v - 3 :].sum(1)", "x[:, : v - 2].sum(0)")
DIVIDED = ("x[:, : 12 // v].sum(1)", "x[:, : 20 % v].sum(1)")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
def test_every_value_computes_what_numpy_does_or_is_refused(form, device):
    accepted = FORMS[form]
    v = Variable("v", 1 if form in DIVIDED else 0, 10)
    for value in range(v.minimum, 11):
        if value in accepted:
            actual = eval(form, {"x": tensor(WHOLE, device), "v": v.bind(value)}).numpy()
            expected = eval(form, {"x": WHOLE, "v": value})
            assert actual.shape == expected.shape
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
        elif form not in (*BEHIND, *DIVIDED):
            with pytest.raises(UserError, match=rf"v is {value}: accepted is"):
                eval(form, {"x": tensor(WHOLE, device), "v": v.bind(value)})


@pytest.mark.parametrize("device", DEVICES)
def test_pads_that_may_be_negative(device):
    v = Variable("v", 1, 10)
    for value in range(3, 9):
        size = v.bind(value)
        x = tensor(WHOLE, device)
        padded = x[:, :size].pad(((0, 0), (size - 3, 8 - size))) + 1
        expected = np.pad(WHOLE[:, :value], ((0, 0), (value - 3, 8 - value))) + 1
        np.testing.assert_array_equal(padded.numpy(), expected)
    with pytest.raises(UserError, match=r"pad: .*v is 2: accepted is v from 3 to 10"):
        tensor(WHOLE, device).pad(((0, 0), (v.bind(2) - 3, 0)))


@pytest.mark.parametrize("device", DEVICES)
def test_reshape_to_and_from_a_bound_size(device):
    v = Variable("v", 1, 10)
    for rows in (1, 4, 10):
        array = ROWS[:rows]
        x = tensor(array, device)
        shaped = x.reshape(v.bind(rows), 3)
        np.testing.assert_array_equal((shaped + 1).numpy(), array + 1)
        np.testing.assert_array_equal((shaped + 1).reshape(rows, 3).numpy(), array + 1)
        np.testing.assert_array_equal(shaped.sum(0).numpy(), array.sum(0))
        np.testing.assert_array_equal((shaped.T @ shaped).numpy(), array.T @ array)
        np.testing.assert_array_equal(x.reshape(v.bind(rows), -1).numpy(), array)
        np.testing.assert_array_equal(x.reshape(-1, v.bind(rows)).numpy(), array.reshape(3, rows))
        with pytest.raises(UserError, match=rf"{3 * rows} elements are not v={rows % 10 + 1}\*3"):
            x.reshape(v.bind(rows % 10 + 1), 3)


@pytest.mark.parametrize("device", DEVICES)
def test_two_variables_as_ends(device):
    v, w = Variable("v", 0, 10), Variable("w", 0, 12)
    for begin, end in [(0, 0), (0, 8), (2, 5), (8, 8), (7, 8)]:
        x = tensor(WHOLE, device)
        part = x[:, v.bind(begin) : w.bind(end)]
        np.testing.assert_array_equal((part * 2).numpy(), WHOLE[:, begin:end] * 2)
        np.testing.assert_allclose(part.sum(1).numpy(), WHOLE[:, begin:end].sum(1), rtol=1e-5)
        window = x.shrink(((0, 3), (v.bind(begin), v.bind(begin) + 8 - w.bind(end))))
        if begin + 8 - end <= 8:
            expected = WHOLE[:, begin : begin + 8 - end]
            np.testing.assert_array_equal((window * 2).numpy(), expected * 2)
    with pytest.raises(UserError, match=r"v is 5 and w is 4: accepted is v=5 <= w=4"):
        tensor(WHOLE, device)[:, v.bind(5) : w.bind(4)]


@pytest.mark.parametrize("device", DEVICES)
def test_ends_that_no_range_describes(device):
    v, w = Variable("v", 1, 10), Variable("w", 1, 10)
    step = TinyJit(lambda x, v, w: (x[:, : v * w].sum(1) * 2).realize())
    x = tensor(WHOLE, device)
    for first, second in [(1, 3), (2, 4), (8, 1)]:
        part = x[:, : v.bind(first) * w.bind(second)]
        np.testing.assert_array_equal((part + 1).numpy(), WHOLE[:, : first * second] + 1)
    for _ in range(3):
        actual = step(x, v.bind(2), w.bind(3)).numpy()
        np.testing.assert_allclose(actual, WHOLE[:, :6].sum(1) * 2, rtol=1e-5)
    with pytest.raises(UserError, match=r"v is 3 and w is 3: accepted is v=2\*w=3 <= 8"):
        step(x, v.bind(3), w.bind(3))
    # Possible, but a kernel whose accesses are proved for these values alone would go wrong.
    with pytest.raises(
        UserError, match="compiled for v=2 alone: v is 4: accepted is v from 1 to 2"
    ):
        step(x, v.bind(4), w.bind(2))


@pytest.mark.parametrize("device", DEVICES)
def test_assignments_at_symbolic_places(device):
    v = Variable("v", 0, 10)
    x = tensor(np.zeros((3, 8), np.float32), device)
    expected = np.zeros((3, 8), np.float32)
    for position in (0, 3, 6):
        x[:, v.bind(position) : v.bind(position) + 2] = Tensor.full(
            (3, 2), position + 1.0, device=device
        )
        x.realize()
        expected[:, position : position + 2] = position + 1
        np.testing.assert_array_equal(x.numpy(), expected)
    with pytest.raises(UserError, match=r"v is 7: accepted is v from 0 to 6"):
        x[:, v.bind(7) : v.bind(7) + 2] = 1.0


@pytest.mark.parametrize("device", DEVICES)
def test_movements_and_writes_of_a_part_that_most_values_leave(device):
    v = Variable("v", 1, 9)
    x = tensor(np.array([1, 2, 3, 4], np.int16), device)
    part = x[v.bind(2) - 1 :]
    assert (part * part.flip(0)).numpy().tolist() == [8, 9, 8]
    part += x[v.bind(2) - 1 :]
    assert x.numpy().tolist() == [1, 4, 6, 8]
    with pytest.raises(UserError, match=r"v is 6: accepted is v from 1 to 5"):
        x[v.bind(6) - 1 :].flip(0)


def test_an_element_outside_is_an_index_error():
    v = Variable("v", 0, 10)
    with pytest.raises(IndexError, match=r"index: v=8 in axis 1 .*v is 8: accepted is v"):
        Tensor(WHOLE)[:, v.bind(8)]
    w = Variable("w", 1, 8)
    assert Tensor(WHOLE)[0, -w.bind(6)].item() == WHOLE[0, 2]


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_of_a_bound_variable(device):
    v = Variable("v", 1, 10)
    assert Tensor(v.bind(7), device=device).item() == 7
    assert Tensor(v.bind(7), device=device).dtype.name == "int32"
    assert Tensor(v.bind(7) * 2 - 1, device=device, dtype="float32").item() == 13.0
    np.testing.assert_array_equal(
        (Tensor(ROWS, device=device) * Tensor(v.bind(2), device=device)).numpy(), ROWS * 2
    )


def test_one_element_is_one_for_the_value_that_is_bound():
    v = Variable("v", 1, 10)
    x = Tensor([5.0, 6.0]).realize()
    assert x[: v.bind(1)].item() == 5.0
    with pytest.raises(UserError, match="has 2 elements: accepted is exactly one"):
        x[: v.bind(2)].item()


# --- within TinyJit ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_a_replay_looks_at_its_values_again(device):
    v = Variable("v", 1, 10)
    cache = tensor(WHOLE, device)

    @TinyJit
    def step(at):
        return (cache[:, at : at + 2] * 2).realize()

    for value in (1, 3, 6, 2):
        expected = WHOLE[:, value : value + 2] * 2
        np.testing.assert_array_equal(step(v.bind(value)).numpy(), expected)
    with pytest.raises(UserError, match=r"v is 7: accepted is v from 1 to 6"):
        step(v.bind(7))
    np.testing.assert_array_equal(step(v.bind(5)).numpy(), WHOLE[:, 5:7] * 2)


def test_a_constant_of_an_excluded_size_is_refused_in_a_replay_too():
    v = Variable("v", 1, 10)
    x = tensor(np.float32(3), "CPU")
    step = TinyJit(lambda n: (Tensor.ones(8)[: n + 2].sum() * x).realize())
    assert [step(v.bind(n)).item() for n in (1, 2, 6)] == [9.0, 12.0, 24.0]
    with pytest.raises(UserError, match="v is 7: accepted is v from 1 to 6"):
        step(v.bind(7))


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_of_any_bound_size(device):
    """Reshape before and after, as users of similar libraries do."""
    v = Variable("v", 1, 10)
    step = TinyJit(lambda a, b: (a @ b).realize())
    for size in (1, 4, 2, 7):
        left, right = WHOLE[:, :size] if size < 8 else WHOLE, ROWS[:size]
        a = tensor(np.ascontiguousarray(left), device).reshape(3, v.bind(size))
        b = tensor(right, device).reshape(v.bind(size), 3)
        np.testing.assert_allclose(step(a, b).numpy(), left @ right, rtol=1e-5)
    grow = TinyJit(lambda a: (a + 1).realize())
    for size in (1, 4, 2, 7):
        a = tensor(ROWS[:size], device).reshape(v.bind(size), 3)
        np.testing.assert_array_equal(grow(a).reshape(size, 3).numpy(), ROWS[:size] + 1)


def test_a_reshape_within_is_possible_for_one_value():
    v = Variable("v", 1, 10)
    x = tensor(ROWS[:4], "CPU")
    step = TinyJit(lambda n: (x.reshape(n, 3) * 2).sum(0).realize())
    for _ in range(3):
        np.testing.assert_array_equal(step(v.bind(4)).numpy(), ROWS[:4].sum(0) * 2)
    with pytest.raises(UserError, match=r"reshape: .*v is 5: accepted is v from 1 to 4"):
        step(v.bind(5))
    with pytest.raises(UserError, match=r"reshape: .*v is 3: accepted is v from 4 to 10"):
        step(v.bind(3))


def test_a_variable_that_the_function_binds_keeps_its_value():
    v, w = Variable("v", 1, 10), Variable("w", 1, 10)
    step = TinyJit(lambda x, n: (x[:n, : v.bind(5)] * 2).realize())
    for rows in (1, 3, 2, 3):
        actual = step(tensor(WHOLE, "CPU"), w.bind(rows)).numpy()
        np.testing.assert_array_equal(actual, WHOLE[:rows, :5] * 2)


def test_parts_of_several_devices():
    """Compute the position in each part of a split axis as a maximum within a minimum."""
    v = Variable("v", 1, 10)
    for value in (1, 5, 8):
        x = tensor(ROWS[:8], "CPU").shard(("CPU:1", "CPU:2"), 0)
        part = x[: v.bind(value)]
        np.testing.assert_array_equal((part * 2).numpy(), ROWS[:value] * 2)
