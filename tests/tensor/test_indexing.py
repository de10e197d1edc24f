"""Indexing by integers, slices, None and Ellipsis, and assignment to such an index."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tinyref import Tensor
from tinyref.errors import UserError

GRID = np.arange(12, dtype=np.int32).reshape(3, 4)


@pytest.mark.parametrize(
    ("key", "elements"),
    [
        (0, [0, 1, 2, 3]),
        (-1, [8, 9, 10, 11]),
        ((1, 2), 6),
        ((-3, -1), 3),
        (np.int64(1), [4, 5, 6, 7]),
        ((slice(None), 1), [1, 5, 9]),
        ((slice(1, None), slice(None, 2)), [[4, 5], [8, 9]]),
        ((0, slice(None, None, 2)), [0, 2]),
        ((0, slice(None, None, 3)), [0, 3]),
        ((0, slice(1, None, 2)), [1, 3]),
        ((0, slice(None, None, -1)), [3, 2, 1, 0]),
        ((0, slice(None, None, -2)), [3, 1]),
        ((0, slice(2, 0, -1)), [2, 1]),
        ((0, slice(-2, -10, -3)), [2]),
        ((0, slice(10, 20)), []),
        ((0, slice(3, 1)), []),
        ((0, slice(-100, 100)), [0, 1, 2, 3]),
        ((slice(2, None), None, 0), [[8]]),
        (None, [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]]),
        ((Ellipsis, 0), [0, 4, 8]),
        ((0, Ellipsis), [0, 1, 2, 3]),
        (Ellipsis, GRID.tolist()),
        ((Ellipsis, None, 1, 1), [5]),
        ((), GRID.tolist()),
    ],
)
def test_reading(key: object, elements: object) -> None:
    assert Tensor(GRID)[key].tolist() == elements
    assert np.asarray(GRID[key]).tolist() == elements


def test_an_index_of_a_tensor_without_axes() -> None:
    assert Tensor(5)[...].item() == 5
    assert Tensor(5)[()].item() == 5
    assert Tensor(5)[None].tolist() == [5]


def test_iteration_goes_over_the_first_axis() -> None:
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    first, second = Tensor([1, 2])
    assert (first.item(), second.item()) == (1, 2)


@pytest.mark.long
@settings(max_examples=60)
@given(st.data())
def test_any_basic_index_agrees_with_numpy(data: st.DataObject) -> None:
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    key = data.draw(arrays.basic_indices(shape, allow_newaxis=True, max_dims=6))
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    assert (Tensor(array)[key].numpy() == array[key]).all()
    assert Tensor(array)[key].shape == array[key].shape
    written = array.copy()
    written[key] = -1
    tensor = Tensor(array)
    tensor[key] = -1
    assert (tensor.numpy() == written).all()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (0, 7),
        ((1, 2), 7),
        ((slice(None), slice(None, None, 2)), [[1, 2]]),
        ((slice(None, None, -2), 0), [5, 6]),
        ((Ellipsis, 3), np.array([7, 8, 9], np.int32)),
        (slice(3, 3), 1),
        (slice(None), GRID[::-1].copy()),
    ],
)
def test_writing(key: object, value: object) -> None:
    expected = GRID.copy()
    expected[key] = value
    tensor = Tensor(GRID)
    tensor[key] = value
    assert tensor.tolist() == expected.tolist()


def test_writing_to_a_tensor_writes_to_its_views_and_nothing_computed() -> None:
    tensor = Tensor([1, 2, 3])
    view = tensor[1:]
    doubled = tensor * 2
    tensor[1] = 9
    assert tensor.tolist() == [1, 9, 3]
    assert view.tolist() == [9, 3]
    assert doubled.tolist() == [2, 4, 6]
    view[0] = 5
    assert view.tolist() == [5, 3]
    assert tensor.tolist() == [1, 5, 3]


def test_writing_to_a_constant_and_to_a_graph() -> None:
    zeros = Tensor.zeros(3)
    zeros[1] = 2.5
    assert zeros.tolist() == [0.0, 2.5, 0.0]
    graph = Tensor([1.0, 2.0]) + 1
    graph[0] = Tensor([7.0])
    assert graph.tolist() == [7.0, 3.0]


def test_written_elements_carry_gradients() -> None:
    source = Tensor([1.0, 2.0], requires_grad=True)
    target = Tensor.zeros(3)
    target[1:] = source * 3
    (target * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [30.0, 300.0]


def _by_index(z: Tensor, x: Tensor) -> None:
    z[1:3] = x * 3


def _by_places(z: Tensor, x: Tensor) -> None:
    z[Tensor([1, 2])] = x * 3


def _through_a_view(z: Tensor, x: Tensor) -> None:
    part = z[1:]
    part[:2] = x * 3


def _in_place(z: Tensor, x: Tensor) -> None:
    z += (x * 3).pad((1, 1))


@pytest.mark.parametrize("is_computed", [False, True])
@pytest.mark.parametrize("write", [_by_index, _by_places, _through_a_view, _in_place])
def test_targets_need_no_mark_to_be_written(
    write: Callable[[Tensor, Tensor], None], is_computed: bool
) -> None:
    x, z = Tensor([5.0, 6.0]), Tensor.zeros(4).contiguous()
    if is_computed:
        z.realize()
    write(z, x)
    square = z * z
    z[1] = 1.0
    gradients = square.sum().gradient(x)[0], z.sum().gradient(x)[0]
    assert [gradient.tolist() for gradient in gradients] == [[90.0, 108.0], [0.0, 3.0]]
    assert z.tolist() == [0.0, 1.0, 18.0, 0.0]
    assert not z.requires_grad


def test_what_is_assigned_whole_is_computed_from_no_target() -> None:
    x, z = Tensor([5.0, 6.0]), Tensor.zeros(2).contiguous()
    z.assign(x * 3)
    with pytest.raises(UserError, match="not part of the computation"):
        z.sum().gradient(x)


def test_a_loop_that_writes_keeps_no_history() -> None:
    z = Tensor.zeros(2).contiguous()
    for _ in range(3):
        z[0] = Tensor([1.0])[0] * 2
        z.realize()
        assert z._value.record is None


def test_elements_are_not_deleted() -> None:
    for key in (0, slice(0, 1), [0], (0, ...)):
        with pytest.raises(TypeError, match="del: a tensor keeps its elements"):
            del Tensor(GRID)[key]
