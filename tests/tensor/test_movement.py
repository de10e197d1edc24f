"""Shapes, axes, padding, joining, cutting: literals, and numpy where it has the same function."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from refusals import check_refusal

from tinyref import GlobalCounters, Tensor, dtypes
from tinyref.errors import UserError

GRID = np.arange(6, dtype=np.int32).reshape(2, 3)
BLOCK = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def grid() -> Tensor:
    return Tensor(GRID)


@pytest.mark.parametrize(
    ("result", "elements"),
    [
        (lambda: grid().reshape(3, 2), [[0, 1], [2, 3], [4, 5]]),
        (lambda: grid().reshape((3, -1)), [[0, 1], [2, 3], [4, 5]]),
        (lambda: grid().reshape(-1), [0, 1, 2, 3, 4, 5]),
        (lambda: grid().reshape(None, 1, 3), [[[0, 1, 2]], [[3, 4, 5]]]),
        (lambda: grid().view(6), [0, 1, 2, 3, 4, 5]),
        (lambda: grid().permute(1, 0), [[0, 3], [1, 4], [2, 5]]),
        (lambda: grid().permute((-1, 0)), [[0, 3], [1, 4], [2, 5]]),
        (lambda: grid().T, [[0, 3], [1, 4], [2, 5]]),
        (lambda: grid().transpose(0, -1), [[0, 3], [1, 4], [2, 5]]),
        (lambda: grid().flip(0), [[3, 4, 5], [0, 1, 2]]),
        (lambda: grid().flip((0, -1)), [[5, 4, 3], [2, 1, 0]]),
        (lambda: grid().flip(0, 1), [[5, 4, 3], [2, 1, 0]]),
        (lambda: grid().shrink(((0, 1), (1, 3))), [[1, 2]]),
        (lambda: grid().shrink((None, (1, 2))), [[1], [4]]),
        (lambda: grid().pad((1, 0)), [[0, 0, 1, 2], [0, 3, 4, 5]]),
        (lambda: grid().pad((0, 0, 0, 1)), [[0, 1, 2], [3, 4, 5], [0, 0, 0]]),
        (lambda: grid().pad(((1, 0), None), value=7), [[7, 7, 7], [0, 1, 2], [3, 4, 5]]),
        (lambda: grid().pad((-1, 1), value=-1), [[1, 2, -1], [4, 5, -1]]),
        (lambda: grid().pad((-1, -1)), [[1], [4]]),
        (lambda: grid().pad(()), [[0, 1, 2], [3, 4, 5]]),
        (lambda: Tensor([1.0]).pad((1, 1), value=-math.inf), [-math.inf, 1.0, -math.inf]),
        (lambda: Tensor([1.0]).pad((1, 0), value=-0.0), [-0.0, 1.0]),
        (lambda: Tensor([True]).pad((1, 0)), [False, True]),
        (lambda: Tensor([True]).pad((1, 0), value=True), [True, True]),
        (lambda: Tensor([1, 2]).expand(2, 2), [[1, 2], [1, 2]]),
        (lambda: Tensor([[1], [2]]).expand(-1, 3), [[1, 1, 1], [2, 2, 2]]),
        (lambda: Tensor(3).expand(2), [3, 3]),
        (lambda: Tensor([1]).expand(0), []),
        (lambda: Tensor([[[1], [2]]]).squeeze(), [1, 2]),
        (lambda: Tensor([[[1], [2]]]).squeeze(0), [[1], [2]]),
        (lambda: Tensor([[1, 2]]).squeeze(1), [[1, 2]]),
        (lambda: Tensor(1).squeeze(0), 1),
        (lambda: Tensor([1, 2]).unsqueeze(0), [[1, 2]]),
        (lambda: Tensor([1, 2]).unsqueeze(-1), [[1], [2]]),
        (lambda: Tensor(1).unsqueeze(0), [1]),
        (lambda: grid().flatten(), [0, 1, 2, 3, 4, 5]),
        (lambda: Tensor(1).flatten(), [1]),
        (lambda: grid().unflatten(1, (3, 1)), [[[0], [1], [2]], [[3], [4], [5]]]),
        (lambda: grid().flatten().unflatten(0, (-1, 2)), [[0, 1], [2, 3], [4, 5]]),
        (lambda: Tensor([1, 2]).repeat(2), [1, 2, 1, 2]),
        (lambda: Tensor([1, 2]).repeat(2, 2), [[1, 2, 1, 2], [1, 2, 1, 2]]),
        (lambda: Tensor([1, 2]).repeat(0), []),
        (lambda: Tensor([1]).cat(Tensor([2, 3])), [1, 2, 3]),
        (lambda: Tensor([1]).cat(Tensor([], dtype="int32"), Tensor([2])), [1, 2]),
        (lambda: Tensor([1]).cat(Tensor([2.5])), [1.0, 2.5]),
        (lambda: Tensor([[1], [2]]).cat(Tensor([[3], [4]]), dim=-1), [[1, 3], [2, 4]]),
        (lambda: Tensor.cat(Tensor([1]), Tensor([2]), dim=0), [1, 2]),
        (lambda: Tensor([True]).cat(Tensor([False])), [True, False]),
        (lambda: Tensor([1, 2]).stack(Tensor([3, 4])), [[1, 2], [3, 4]]),
        (lambda: Tensor([1, 2]).stack(Tensor([3, 4]), dim=-1), [[1, 3], [2, 4]]),
        (lambda: Tensor(1).stack(Tensor(2), Tensor(3)), [1, 2, 3]),
        (lambda: grid()[:, ::2], [[0, 2], [3, 5]]),
    ],
)
def test_movement(result: object, elements: object) -> None:
    assert result().tolist() == elements  # type: ignore[operator]


@pytest.mark.parametrize(
    ("mode", "padding", "elements"),
    [
        ("reflect", (-1, 2), [1, 2, 3, 2, 1]),
        ("reflect", (-3, 3), [3, 2, 1, 0]),
        ("reflect", (2, -1), [2, 1, 0, 1, 2]),
        ("reflect", (3, -4), [3, 2, 1]),
        ("replicate", (-1, 2), [1, 2, 3, 3, 3]),
        ("replicate", (-4, 3), [3, 3, 3]),
        ("replicate", (3, -3), [0, 0, 0, 0]),
        ("circular", (-1, 2), [1, 2, 3, 1, 2]),
        ("circular", (-2, 2), [2, 3, 2, 3]),
        ("circular", (2, -1), [1, 2, 0, 1, 2]),
        ("reflect", (-1, -1), [1, 2]),
        ("replicate", (-1, -1), [1, 2]),
        ("circular", (-1, -1), [1, 2]),
    ],
)
def test_padding_of_both_signs(mode: str, padding: tuple[int, int], elements: list[int]) -> None:
    """The elements are those of torch.nn.functional.pad."""
    assert Tensor([0, 1, 2, 3]).pad(padding, mode=mode).tolist() == elements
    turned = Tensor([[0], [1], [2], [3]]).pad((0, 0, *padding), mode=mode)
    assert turned.tolist() == [[element] for element in elements]


def test_padding_with_a_number_of_numpy() -> None:
    small = Tensor([1, 2], dtype="uint8")
    assert small.pad((1, 0), value=np.uint8(200)).tolist() == [200, 1, 2]
    assert Tensor([False]).pad((0, 1), value=np.True_).tolist() == [False, True]
    with pytest.raises(UserError, match="pad: value 256 has no place in uint8"):
        small.pad((1, 0), value=np.int64(256))


def test_padding_with_a_tensor_is_refused() -> None:
    """Its gradient would be lost: only a number is around the elements."""
    weight = Tensor(2.0, requires_grad=True)
    with pytest.raises(UserError, match="pad: value is a Tensor, accepted is a number"):
        Tensor([1.0]).pad((1, 1), value=weight)


def test_circular_padding_goes_round_what_is_left() -> None:
    with pytest.raises(ValueError, match="1 elements"):
        Tensor([0, 1, 2, 3]).pad((-3, 3), mode="circular")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tensor.zeros((2, 2), 2, 2),
        lambda: Tensor.ones((2, 2), 2),
        lambda: Tensor.empty((2,), 2),
        lambda: Tensor.rand((2, 2), 2),
        lambda: Tensor.randn([2], 2),
        lambda: Tensor.randint((2,), 2),
        lambda: grid().reshape((3,), 2),
        lambda: grid().view((3,), 2),
        lambda: grid().permute((1,), 0),
        lambda: grid().expand((2,), 3),
        lambda: grid().flip((0,), 1),
        lambda: grid().repeat((2,), 2),
    ],
)
def test_sizes_come_one_by_one_or_in_one_tuple(make: Callable[[], Tensor]) -> None:
    with pytest.raises(TypeError, match="or one tuple of them"):
        make()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_with_what_is_around(mode: str) -> None:
    named = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    for before, after in ((1, 2), (2, 0), (0, 0)):
        wanted = np.pad(BLOCK, ((0, 0), (2, 1), (before, after)), mode=named)  # type: ignore[call-overload]
        assert (Tensor(BLOCK).pad((before, after, 2, 1), mode=mode).numpy() == wanted).all()
    assert Tensor([True, False]).pad((0, 1), mode=mode).dtype is dtypes.bool


@pytest.mark.long
def test_many_tensors_are_joined_in_groups() -> None:
    parts = [np.full((2, 1 + place % 3), place, np.int32) for place in range(70)]
    tensors = [Tensor(part) for part in parts]
    before = GlobalCounters.kernel_count
    found = tensors[0].cat(*tensors[1:], dim=1).numpy()
    assert (found == np.concatenate(parts, axis=1)).all()
    # Five groups of at most 16, and those together.
    assert GlobalCounters.kernel_count - before == 6


@pytest.mark.slow
def test_the_gradient_of_many_joined_tensors() -> None:
    whole = Tensor(np.arange(20, dtype=np.float32), requires_grad=True)
    parts = whole.split(1)
    joined = parts[0].cat(*parts[1:])
    assert (joined * joined).sum().gradient(whole)[0].tolist() == [2.0 * x for x in range(20)]


def test_cat_keeps_signed_zeros_and_nan() -> None:
    found = Tensor([-0.0, math.nan]).cat(Tensor([-0.0])).numpy()
    assert np.signbit(found[[0, 2]]).all()
    assert math.isnan(found[1])


def test_cat_of_storage_types() -> None:
    part = Tensor([1.0, -0.5]).cast("fp8e5m2")
    assert part.cat(part).float().tolist() == [1.0, -0.5, 1.0, -0.5]


def test_split_and_chunk() -> None:
    tensor = Tensor([0, 1, 2, 3, 4])
    assert [part.tolist() for part in tensor.split(2)] == [[0, 1], [2, 3], [4]]
    assert [part.tolist() for part in tensor.split([1, 4])] == [[0], [1, 2, 3, 4]]
    assert [part.tolist() for part in tensor.chunk(2)] == [[0, 1, 2], [3, 4]]
    assert [part.shape for part in grid().split(1, dim=-1)] == [(2, 1)] * 3
    assert [part.shape for part in Tensor.zeros(0).chunk(2)] == [(0,), (0,)]


def test_long_chains_agree_with_numpy() -> None:
    found = Tensor(BLOCK).permute(2, 0, 1).flip(1).pad(((0, 0), (1, 0), (0, 2))).reshape(4, -1)
    padded = np.pad(np.flip(BLOCK.transpose(2, 0, 1), 1), ((0, 0), (1, 0), (0, 2)))
    assert (found.numpy() == padded.reshape(4, -1)).all()
    again = found.reshape(4, 3, 5).shrink(((1, 3), (0, 3), (0, 3)))[:, 1:, ::-2]
    assert (again.numpy() == padded[1:3, 1:, :3][:, :, ::-2]).all()


@pytest.mark.parametrize(
    ("given", "dtype", "elements"),
    [
        (Tensor([1.0]), "int32", [0x3F800000]),
        (Tensor([0x3F800000]), "float32", [1.0]),
        (Tensor([-1], dtype="int8"), "uint8", [255]),
        (Tensor([1.0]), "uint8", [0, 0, 0x80, 0x3F]),
        (Tensor([0, 0, 0x80, 0x3F], dtype="uint8"), "float32", [1.0]),
        (Tensor([[1, 2, 3, 4]], dtype="int16"), "uint64", [[0x0004000300020001]]),
        (Tensor([1.0], dtype="float64"), "float32", [0.0, 1.875]),
        (Tensor([1.0], dtype="bfloat16"), "uint16", [0x3F80]),
        (Tensor(1.0), "uint32", 0x3F800000),
        (Tensor([1.0]), "float32", [1.0]),
    ],
)
def test_bitcast(given: Tensor, dtype: str, elements: object) -> None:
    found = given.bitcast(dtype)
    assert found.dtype.name == dtype
    assert found.tolist() == elements


def test_moving_to_another_device() -> None:
    tensor = Tensor([[1.0, 2.0]])
    moved = tensor.T.to("PYTHON")
    assert moved.device == "PYTHON"
    assert (moved + 1).tolist() == [[2.0], [3.0]]
    assert moved.to("cpu:0").device == "CPU"
    assert tensor.to("CPU") is tensor
    assert tensor.to(None).device == "CPU"
    assert Tensor(1.0).to("PYTHON").device == "PYTHON"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: grid().reshape(4), ["reshape", "(2, 3)", "(4,)", "6", "4"]),
        (lambda: grid().reshape(4, -1), ["reshape", "(4, -1)", "6"]),
        (lambda: grid().reshape(-1, -1), ["reshape", "more than one -1"]),
        (lambda: grid().reshape(2, -3), ["reshape", "-3", "negative"]),
        (lambda: grid().reshape(2.0, 3), ["reshape", "2.0", "integer"]),
        (lambda: Tensor.zeros(0).reshape(0, -1), ["reshape", "-1"]),
        (lambda: grid().permute(0), ["permute", "(0,)", "2 axes"]),
        (lambda: grid().permute(0, 0), ["permute", "(0, 0)"]),
        (lambda: grid().permute(0, 2), ["permute", "2", "-2 to 1"]),
        (lambda: grid().transpose(0, 2), ["transpose", "2", "-2 to 1"]),
        (lambda: Tensor([1]).T, ["T", "(1,)"]),
        (lambda: grid().expand(4, 3), ["expand", "axis 0", "2", "4"]),
        (lambda: grid().expand(3), ["expand", "1 sizes", "2 axes"]),
        (lambda: grid().expand(2, -3), ["expand", "-3"]),
        (lambda: grid().flip(2), ["flip", "2", "-2 to 1"]),
        (lambda: grid().flip(0, -2), ["flip", "twice"]),
        (lambda: grid().shrink(((0, 1),)), ["shrink", "2 pairs"]),
        (lambda: grid().shrink(((0, 3), None)), ["shrink", "axis 0", "3"]),
        (lambda: grid().shrink(((1, 0), None)), ["shrink", "axis 0"]),
        (lambda: grid().shrink(((0, 1, 2), None)), ["shrink", "pair"]),
        (lambda: grid().pad((1,)), ["pad", "1 numbers"]),
        (lambda: grid().pad((1,) * 6), ["pad", "6 numbers", "2 axes"]),
        (lambda: grid().pad(((1, 1),)), ["pad", "1 pairs", "2 axes"]),
        (lambda: grid().pad(1), ["pad", "1"]),
        (lambda: grid().pad((-2, -2)), ["pad", "axis 1"]),
        (lambda: grid().pad((1, 1), mode="mirror"), ["pad", "mode", "'mirror'", "constant"]),
        (lambda: grid().pad((3, 0), mode="reflect"), ["pad", "(3, 0)", "3 elements", "than 2"]),
        (lambda: grid().pad((0, 4), mode="circular"), ["pad", "(0, 4)", "3 elements", "than 3"]),
        (lambda: Tensor.ones(0).pad((1, 0), mode="replicate"), ["pad", "0 elements", "than 0"]),
        (lambda: grid().pad((0.5, 1)), ["pad", "0.5"]),
        (lambda: grid().pad(((1, 1, 1), None)), ["pad", "(1, 1, 1)", "pair"]),
        (lambda: Tensor([1]).bitcast("void"), ["bitcast", "void"]),
        (lambda: grid().pad((1, 1), value=2.5), ["pad", "2.5", "int32"]),
        (lambda: grid().unsqueeze(3), ["unsqueeze", "3", "-3 to 2"]),
        (lambda: grid().squeeze(2), ["squeeze", "2"]),
        (lambda: Tensor(1).size(-1), ["size", "dim -1", "without axes"]),
        (lambda: grid().flatten(1, 0), ["flatten", "1", "0"]),
        (lambda: grid().unflatten(1, (2, 2)), ["unflatten", "3"]),
        (lambda: grid().unflatten(1, None), ["unflatten", "None", "sizes"]),
        (lambda: grid().shrink([1, (0, 2)]), ["shrink", "1", "(begin, end)"]),
        (lambda: grid().repeat(2), ["repeat", "1 counts", "2 axes"]),
        (lambda: grid().repeat(2, -1), ["repeat", "-1", "negative"]),
        (lambda: grid().cat(Tensor([[1]])), ["cat", "(1, 1)", "(2, 3)", "axis 0"]),
        (lambda: grid().cat(Tensor([1])), ["cat", "(1,)"]),
        (lambda: Tensor.cat([grid(), grid()]), ["cat", "list", "one argument each"]),
        (lambda: Tensor.stack([grid(), grid()]), ["stack", "list", "one argument each"]),
        (lambda: grid().pad((1, 1), value="a"), ["pad", "value", "str"]),
        (lambda: grid().pad((1, 1), value=None), ["pad", "value", "NoneType"]),
        (lambda: Tensor(1).cat(Tensor(2)), ["cat", "stack"]),
        (lambda: grid().cat(7), ["cat", "int", "Tensor"]),
        (lambda: grid().stack(Tensor([1])), ["stack", "(1,)", "(2, 3)"]),
        (lambda: grid().split([1, 3], dim=1), ["split", "(1, 3)", "3"]),
        (lambda: grid().split(0), ["split", "0", "1"]),
        (lambda: grid().chunk(0), ["chunk", "0"]),
        (lambda: Tensor(1).split(1), ["split"]),
        (lambda: Tensor([1, 2, 3], dtype="uint8").bitcast("int16"), ["bitcast", "3", "2"]),
        (lambda: Tensor(1.0).bitcast("int8"), ["bitcast", "float32", "int8"]),
        (lambda: Tensor([1]).bitcast("bool"), ["bitcast", "bool"]),
        (lambda: Tensor([1]).to("GPU"), ["device", "GPU", "CPU"]),
    ],
)
def test_errors_name_the_argument(make: Callable[..., object], words: list[str]) -> None:
    check_refusal(words, make)


def test_sizes_and_types_are_facts_of_the_graph() -> None:
    tensor = Tensor.zeros(2, 3, dtype="float16")
    assert (tensor.ndim, tensor.numel(), tensor.element_size(), tensor.nbytes()) == (2, 6, 2, 12)
    assert tensor.is_floating_point()
    assert (tensor.size(), tensor.size(-1)) == ((2, 3), 3)
    assert not tensor.bool().is_floating_point()
    assert tensor.dtype is dtypes.float16
