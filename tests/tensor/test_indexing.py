"""Indexing and assignment to an index: what numpy, and torch in the sweep, do not say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, Variable
from tinyref.engine import GlobalCounters
from tinyref.errors import UserError

GRID = np.arange(12, dtype=np.int32).reshape(3, 4)


def test_iteration_goes_over_the_first_axis() -> None:
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    first, second = Tensor([1, 2])
    assert (first.item(), second.item()) == (1, 2)


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


def test_elements_are_not_deleted() -> None:
    for key in (0, slice(0, 1), [0], (0, ...)):
        with pytest.raises(TypeError, match="del: elements cannot be deleted"):
            del Tensor(GRID)[key]


# Tensors, lists and masks as an index


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"])
def test_every_integer_type_is_an_index(name: str) -> None:
    index = Tensor([100, 3, 0], dtype=name)
    assert Tensor(np.arange(300))[index].tolist() == [100, 3, 0]
    # Bytes are integers and no mask.
    assert Tensor([5, 6, 7])[Tensor([1, 0, 1], dtype=name)].tolist() == [6, 5, 6]


SQUARE = [[0, 1], [2, 3]]


@pytest.mark.parametrize("key", [False, np.False_, np.array(False), Tensor(False), (True, False)])
def test_a_false_bool_without_axes_is_an_empty_axis(key: object) -> None:
    assert Tensor(SQUARE)[key].shape == (0, 2, 2)
    assert Tensor(1)[key].shape == (0,)
    written = Tensor(SQUARE)
    written[key] = 9
    assert written.tolist() == SQUARE


def test_writing_at_bools_without_axes() -> None:
    written = Tensor(SQUARE)
    written[True] = Tensor([[4, 5], [6, 7]])
    written[0, True] = 9
    written[Tensor(True), 1, [0]] = 8
    assert written.tolist() == [[9, 9], [8, 7]]


def test_empty_keys_and_axes() -> None:
    assert Tensor(GRID)[[]].shape == (0, 4)
    assert Tensor.zeros(0, 3)[[]].shape == (0, 3)
    assert Tensor.zeros(2, 0)[Tensor([1, 0, 1])].shape == (3, 0)
    assert Tensor.zeros(0)[Tensor([0, 1])].tolist() == [0.0, 0.0]


def test_a_symbolic_number_of_places() -> None:
    table = Tensor(GRID)
    rows = Tensor([2, 0, 1, 1])
    for count in (1, 3):
        some = rows[: Variable("count", 1, 4).bind(count)]
        assert table[some].tolist() == GRID[[2, 0, 1, 1]][:count].tolist()
        assert table[some, 1].tolist() == GRID[[2, 0, 1, 1], 1][:count].tolist()


def test_writing_within_a_capture() -> None:
    cache = Tensor.zeros(4, 2).contiguous().realize()

    @TinyJit
    def put(index: Tensor, value: Tensor) -> Tensor:
        cache[index] = value
        return cache.realize()

    for step in range(4):
        put(Tensor([step, 3 - step]).realize(), Tensor([[step + 1.0]] * 2).realize())
    # The last two steps write 3 to places 2 and 1, then 4 to places 3 and 0.
    assert cache.tolist() == [[4.0] * 2, [3.0] * 2, [3.0] * 2, [4.0] * 2]


def test_a_mask_is_not_read_within_a_capture() -> None:
    @TinyJit
    def positive(x: Tensor) -> Tensor:
        return x[x > 0].realize()

    def call_until_captured() -> None:
        for _ in range(3):
            positive(Tensor([1.0, -1.0]).realize())

    with pytest.raises(UserError, match="TinyJit"):
        call_until_captured()


# Writing


def test_the_last_of_several_values_for_one_place_counts() -> None:
    tensor = Tensor([0, 0, 0])
    tensor[Tensor([1, 1, 2, 1])] = Tensor([5, 6, 7, 8])
    assert tensor.tolist() == [0, 8, 7]


def test_places_outside_are_not_written() -> None:
    tensor = Tensor([1, 2, 3])
    tensor[Tensor([7, -4, -1])] = 9
    assert tensor.tolist() == [1, 2, 9]


def test_writing_what_is_read_from_the_same_memory() -> None:
    tensor = Tensor(GRID).realize()
    tensor[[0, 2]] = tensor[[2, 0]]
    tensor[Tensor([1])] += 100
    tensor[:, [0, 1]] = tensor[:, [1, 0]]
    expected = GRID[[2, 1, 0]] + np.array([[0], [100], [0]])
    assert tensor.tolist() == expected[:, [1, 0, 2, 3]].tolist()


MASKS_OF_ITSELF = {
    "row": (lambda x: x[0], lambda x: x > 1),
    "rows": (lambda x: x[1:], lambda x: x % 2 == 0),
    "by its first column": (lambda x: x, lambda x: x[:, 0] > 3),
    "by another row": (lambda x: x, lambda x: x[::-1] > 6),
    "turned": (lambda x: x.T, lambda x: x[:, ::-1] % 3 == 0),
    "by sums": (lambda x: x, lambda x: x > x[::-1].cumsum(0)),
}


@pytest.mark.parametrize("name", MASKS_OF_ITSELF)
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_mask_may_read_what_is_written_at_other_places(name: str, device: str) -> None:
    part, mask = MASKS_OF_ITSELF[name]
    tensor, array = Tensor(GRID, device=device).realize(), GRID.copy()
    for value in (-1, 8):
        for whole in (tensor, array):
            view = part(whole)
            view[mask(view)] = value
    assert tensor.tolist() == array.tolist()


@pytest.mark.parametrize("show", [lambda x: x, lambda x: x.flatten(), lambda x: x.T])
def test_a_mask_of_the_same_elements_is_in_the_kernel_that_writes(show) -> None:
    tensor = Tensor(GRID).realize()
    before = GlobalCounters.kernel_count
    view = show(tensor)
    view[view > 5] = 0
    tensor.realize()
    assert GlobalCounters.kernel_count == before + 1
    assert tensor.tolist() == [[0, 1, 2, 3], [4, 5, 0, 0], [0, 0, 0, 0]]


def test_a_captured_function_may_write_where_its_own_elements_say() -> None:
    @TinyJit
    def clear(x: Tensor) -> Tensor:
        x[x[:, 0] > 3] = 0
        return (x[1] > 0).realize()

    for number in range(4):
        tensor = Tensor(GRID + number - 2).realize()
        clear(tensor)
        expected = GRID + number - 2
        expected[expected[:, 0] > 3] = 0
        assert tensor.tolist() == expected.tolist()


def test_gradients_of_reading_and_writing() -> None:
    source = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    value = Tensor([5.0, 6.0], requires_grad=True)
    target = source * 2
    target[[0, 2]] = value * value
    (target[Tensor([0, 1, 1])] ** 2).sum().backward()
    assert source.grad is not None
    assert value.grad is not None
    # target is [v0 ** 2, 2 x1, v1 ** 2], the sum t0 ** 2 + 2 t1 ** 2.
    assert source.grad.tolist() == [0.0, 32.0, 0.0]
    assert value.grad.tolist() == [500.0, 0.0]
