"""Indexing by tensors, lists, ranges and arrays: random keys against numpy, and what is special."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, Variable
from tinyref.dtype import DType, dtypes
from tinyref.engine import GlobalCounters
from tinyref.errors import UserError
from tinyref_spec.bits import Array

GRID = np.arange(12, dtype=np.int32).reshape(3, 4)
Key = tuple[Any, ...]


# Random keys. Torch, and so tinyref, applies integers first and then places the axes of what is
# looked up; numpy counts integers among what is looked up. So numpy gets the key in two parts.


def _is_mask(item: object) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == np.bool_


def _is_integer(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


def _axes_taken(item: object) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and _is_mask(item) else 1


def in_two_parts(ndim: int, key: Key) -> tuple[Key, Key]:
    """The integers of a key, then the rest of it."""
    missing = [slice(None)] * (ndim - sum(map(_axes_taken, key)))
    spelled: list[object] = []
    for item in key if Ellipsis in [k for k in key if k is Ellipsis] else (*key, Ellipsis):
        spelled += missing if item is Ellipsis else [item]
    integers: list[Any] = []
    rest: list[Any] = []
    for item in spelled:
        if item is not None:
            integers += [item] if _is_integer(item) else [slice(None)] * _axes_taken(item)
        if not _is_integer(item):
            rest.append(item)
    return tuple(integers), tuple(rest)


class Draw:
    """Shapes, keys and values, seeded."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.generator = np.random.default_rng(seed)

    def array(self) -> Array:
        shape = tuple(self.choice.choice([1, 2, 3, 4]) for _ in range(self.choice.randint(1, 4)))
        return np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)

    def key(self, shape: tuple[int, ...]) -> Key:
        places = self.choice.choice([(2,), (3,), (2, 3), (0,)])
        items: list[object] = []
        axis = 0
        has_mask = False
        while axis < len(shape) and self.choice.random() < 0.9:
            kind = self.choice.choice("iissaaaanmb")
            if kind == "m" and has_mask:
                continue
            size = shape[axis]
            if kind == "i":
                items.append(self.choice.randrange(-size, size))
            elif kind == "s":
                items.append(self._slice(size))
            elif kind == "a":
                sizes = tuple(n if self.choice.random() < 0.8 else 1 for n in places)
                sizes = sizes[self.choice.randint(0, len(sizes) - 1) :]
                items.append(self.generator.integers(-size, size, sizes))
            elif kind == "n":
                items.append(None)
            elif kind == "b":
                items.append(self.choice.random() < 0.8)
            else:
                covered = shape[axis : axis + self.choice.randint(1, len(shape) - axis)]
                items.append(self.generator.random(covered) < 0.5)
                has_mask = True
            axis += _axes_taken(items[-1])
        if self.choice.random() < 0.2:
            # Only behind everything else: in front it would move the axes of what follows.
            items.append(Ellipsis)
        return tuple(items)

    def _slice(self, size: int) -> slice:
        begin, end = (
            self.choice.choice([None, self.choice.randint(-size - 1, size + 1)]) for _ in "ab"
        )
        step: int | None = self.choice.choice([None, 1, 2, -1, -2])
        return slice(begin, end, step)

    def dressed(self, key: Key) -> object:
        """The arrays of a key as tensors, lists, or arrays."""
        items = []
        for item in key:
            if isinstance(item, np.ndarray):
                form = self.choice.randrange(3)
                item = Tensor(item) if form == 0 or not item.size else item
                item = item.tolist() if form == 1 and isinstance(item, np.ndarray) else item
            items.append(item)
        return items[0] if len(items) == 1 and self.choice.random() < 0.5 else tuple(items)

    def value(self, shape: tuple[int, ...]) -> Array:
        """What broadcasts to a shape."""
        sizes = tuple(size if self.choice.random() < 0.7 else 1 for size in shape)
        sizes = sizes[self.choice.randint(0, len(sizes)) :] if sizes else sizes
        return -np.arange(1, np.prod(sizes) + 1, dtype=np.int32).reshape(sizes)


def compare_with_numpy(seed: int) -> bool:
    """Reads and writes at one random key; False where numpy refuses it."""
    draw = Draw(seed)
    array = draw.array()
    key = draw.key(array.shape)
    integers, rest = in_two_parts(array.ndim, key)
    try:
        expected = np.asarray(np.asarray(array[integers])[rest])
    except IndexError:
        return False
    dressed = draw.dressed(key)
    got = Tensor(array)[dressed]
    assert got.shape == expected.shape, (array.shape, key)
    assert (got.numpy() == expected).all(), (array.shape, key)
    value = draw.value(expected.shape)
    written = array.copy()
    part = np.array(written[integers])
    part[rest] = value
    written[integers] = part
    tensor = Tensor(array)
    tensor[dressed] = Tensor(value) if draw.choice.random() < 0.5 else value
    assert (tensor.numpy() == written).all(), (array.shape, key, value.shape)
    return True


@pytest.mark.long
def test_random_keys_agree_with_numpy() -> None:
    assert sum(compare_with_numpy(seed) for seed in range(12)) > 7


@pytest.mark.slow
def test_many_random_keys_agree_with_numpy() -> None:
    assert sum(compare_with_numpy(seed) for seed in range(100, 800)) > 500


# Reading


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"])
def test_every_integer_type_is_an_index(name: str) -> None:
    index = Tensor([100, 3, 0], dtype=name)
    assert Tensor(np.arange(300))[index].tolist() == [100, 3, 0]


def test_bytes_are_integers_and_no_mask() -> None:
    assert Tensor([5, 6, 7])[Tensor([1, 0, 1], dtype=dtypes.uint8)].tolist() == [6, 5, 6]


def test_places_outside_read_zero_where_they_are_not_known() -> None:
    index = Tensor(np.array([-1, -4, 2**32 + 1, -(2**40), 3], dtype=np.int64))
    assert Tensor([5, 6, 7])[index].tolist() == [7, 0, 0, 0, 0]
    both = Tensor([0, 3, 1]), Tensor([4, 0, -1])
    assert Tensor(GRID)[both].tolist() == [0, 0, 7]


def test_elements_that_are_not_chosen_do_not_leak() -> None:
    tensor = Tensor([float("nan"), 1.0, float("inf"), -2.0])
    assert tensor[Tensor([1, 3, 1])].tolist() == [1.0, -2.0, 1.0]
    assert np.isnan(tensor[Tensor([0])].numpy()).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_every_type_is_read_and_written_as_it_is(dtype: DType) -> None:
    tensor = Tensor([1, 0, 1, 1]).cast(dtype)
    assert tensor[Tensor([3, 1])].cast("int32").tolist() == [1, 0]
    assert tensor[Tensor([3, 1])].dtype is dtype
    tensor[[0, 2]] = Tensor([0, 1]).cast(dtype)
    assert tensor.cast("int32").tolist() == [0, 0, 1, 1]


def test_a_tensor_without_axes_takes_its_axis_away() -> None:
    grid = Tensor(GRID)
    assert grid[Tensor(1)].tolist() == GRID[1].tolist()
    assert grid[:, Tensor(-1)].tolist() == GRID[:, -1].tolist()
    assert grid[Tensor(2), Tensor(3)].item() == 11
    cube = Tensor(np.arange(24).reshape(2, 3, 4))
    assert cube[Tensor(1), :, [0, 2]].shape == (3, 2)


SQUARE = [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("key", "elements"),
    [
        (True, [SQUARE]),
        (np.True_, [SQUARE]),
        (np.array(True), [SQUARE]),
        (Tensor(True), [SQUARE]),
        ((True, True), [SQUARE]),
        ((None, True), [[SQUARE]]),
        ((True, 0), [[0, 1]]),
        ((0, Tensor(True)), [[0, 1]]),
        ((0, 0, True), [0]),
        ((slice(None), True), [[[0, 1]], [[2, 3]]]),
        ((..., True), [[[0], [1]], [[2], [3]]]),
        ((True, [1, 0]), [[2, 3], [0, 1]]),
        (([0, 1], slice(None), True), SQUARE),
        ((True, slice(None), [0, 1]), [[0, 2], [1, 3]]),
        ((Tensor([True, False]), True), [[0, 1]]),
    ],
)
def test_a_true_bool_without_axes_is_a_new_axis(key: object, elements: object) -> None:
    assert Tensor(SQUARE)[key].tolist() == elements


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


ENDS = Tensor([0, 1])


@pytest.mark.parametrize(
    ("key", "elements"),
    [
        ([ENDS], SQUARE),
        ([ENDS, Tensor([1, 0])], [1, 2]),
        ([Tensor(0), Tensor(1)], 1),
        ([1, Tensor(0)], 2),
        ([Tensor([True, False]), ENDS], [0, 1]),
        ([slice(0, 1), 1], [1]),
        ([None, 0], [[0, 1]]),
        ([..., 0], [0, 2]),
    ],
)
def test_a_list_that_holds_no_numbers_alone_is_a_tuple(key: list[Any], elements: object) -> None:
    assert Tensor(SQUARE)[key].tolist() == elements
    written = Tensor(SQUARE)
    written[key] = 7
    assert written[tuple(key)].eq(7).all().item()


def test_a_list_of_tensors_within_a_tuple_is_one_index() -> None:
    assert Tensor(SQUARE)[0, [Tensor(1), Tensor(0)]].tolist() == [1, 0]
    assert Tensor(SQUARE)[[ENDS, Tensor([1, 0])], 0].tolist() == [[0, 2], [2, 0]]


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


def test_reading_within_a_capture() -> None:
    table = Tensor(GRID).realize()

    @TinyJit
    def rows_of(index: Tensor) -> Tensor:
        return table[index].realize()

    for places in ([0, 1], [2, 2], [1, 0], [0, 2]):
        assert rows_of(Tensor(places).realize()).tolist() == GRID[places].tolist()


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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_lookups_of_tensors_on_several_devices(axis: int | None) -> None:
    devices = ("CPU:0", "CPU:1")
    tensor = Tensor(GRID[:2]).shard(devices, axis)
    index = Tensor([1, 0, 1]).shard(devices)
    assert tensor[index].tolist() == GRID[[1, 0, 1]].tolist()
    assert tensor[:, [3, 0]].tolist() == GRID[:2, [3, 0]].tolist()


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


def test_a_mask_with_one_value_is_one_kernel_and_is_not_read() -> None:
    tensor = Tensor(GRID).realize()
    before = GlobalCounters.kernel_count
    tensor[tensor > 5] = 0
    tensor[tensor.sum(1) == 6] = -1
    assert GlobalCounters.kernel_count == before
    assert tensor.tolist() == [[-1, -1, -1, -1], [4, 5, 0, 0], [0, 0, 0, 0]]


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
            shown = part(whole)
            shown[mask(shown)] = value
    assert tensor.tolist() == array.tolist()


@pytest.mark.parametrize("show", [lambda x: x, lambda x: x.flatten(), lambda x: x.T])
def test_a_mask_of_the_same_elements_is_in_the_kernel_that_writes(show) -> None:
    tensor = Tensor(GRID).realize()
    before = GlobalCounters.kernel_count
    shown = show(tensor)
    shown[shown > 5] = 0
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
        wanted = GRID + number - 2
        wanted[wanted[:, 0] > 3] = 0
        assert tensor.tolist() == wanted.tolist()


def test_what_was_computed_before_keeps_its_elements() -> None:
    tensor = Tensor([1, 2, 3]).realize()
    double = tensor * 2
    tensor[[0, 2]] = 7
    assert (double.tolist(), tensor.tolist()) == ([2, 4, 6], [7, 2, 7])


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


@pytest.mark.long
def test_second_gradients_of_reading() -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (first,) = (x[Tensor([0, 2, 2])] ** 3).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    assert first.tolist() == [3.0, 0.0, 54.0]
    assert second.tolist() == [6.0, 0.0, 36.0]


def test_a_leaf_that_wants_a_gradient_is_not_written() -> None:
    with pytest.raises(UserError, match="leaf"):
        Tensor([1.0], requires_grad=True)[[0]] = 1.0
    with Tensor.no_grad():
        leaf = Tensor([1.0, 2.0], requires_grad=True)
        leaf[[0]] = 5.0
    assert leaf.tolist() == [5.0, 2.0]


FAR = 3_000_000_000


@pytest.mark.parametrize(
    ("find", "elements"),
    [
        (lambda numbers: numbers[[FAR - 1, -1, 5]], [FAR - 1, FAR - 1, 5]),
        (lambda numbers: numbers[_far(FAR - 1, -2, FAR)], [FAR - 1, FAR - 2, 0]),
        (lambda numbers: numbers[_far(FAR - 1).cast("uint32")], [FAR - 1]),
        (lambda numbers: numbers[Tensor([-1, 2], dtype="int8")], [FAR - 1, 2]),
        (lambda numbers: numbers.gather(0, _far(FAR - 1, 3)), [FAR - 1, 3]),
        (lambda numbers: numbers.reshape(3, -1)[[2, 0], [-1, 7]], [FAR - 1, 7]),
        (lambda numbers: numbers.reshape(3, -1)[Tensor([2, 5]), Tensor([-1, 7])], [FAR - 1, 0]),
        (lambda numbers: _far(FAR - 1).one_hot(FAR)[0, -2:], [0, 1]),
    ],
)
def test_elements_that_int32_does_not_number_are_looked_up(
    find: Callable[[Tensor], Tensor], elements: list[int]
) -> None:
    numbers = Tensor.arange(FAR, dtype=dtypes.int64)
    assert find(numbers).tolist() == elements


def _far(*places: int) -> Tensor:
    return Tensor(list(places), dtype=dtypes.int64)


# What is refused: further calls are in the tables of the spec.
