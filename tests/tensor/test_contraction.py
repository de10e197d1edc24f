"""Matrix products, convolutions and pooling: literals, and numpy as the second opinion."""

import itertools

import numpy as np
import pytest

from tinyref import Tensor, dtypes
from tinyref.errors import UserError


def whole_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Small integers as floats: their sums of products are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((1, 1), (1, 1)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
    ],
)
def test_matmul_agrees_with_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = whole_numbers(*left), whole_numbers(*right, seed=1)
    found = Tensor(x) @ Tensor(y)
    assert found.shape == (x @ y).shape
    assert (found.numpy() == x @ y).all()
    assert (Tensor(x).dot(Tensor(y)).numpy() == x @ y).all()
    assert (Tensor(y).matmul(Tensor(x), reverse=True).numpy() == x @ y).all()


def test_matmul_accumulates_wide() -> None:
    ones = Tensor(np.ones((1, 4096), np.float16))
    assert (ones @ ones.T).item() == 4096.0
    big = Tensor(np.full((1, 2), 300, np.float16))
    # Each product, 90000, is beyond float16; their difference is not.
    assert (big @ Tensor(np.array([[300], [-300]], np.float16))).item() == 0.0
    assert (ones.cast("bfloat16") @ ones.cast("bfloat16").T).dtype is dtypes.bfloat16
    assert ones.matmul(ones.T, dtype="float32").dtype is dtypes.float32
    small = Tensor([[100, 100]], dtype="int8")
    assert (small @ small.T).tolist() == [[20000]]
    assert (small @ small.T).dtype is dtypes.int32
    assert (Tensor([[True, True]]) @ Tensor([[True], [True]])).tolist() == [[2]]


def test_linear() -> None:
    x = Tensor([[1.0, 2.0]])
    weight = Tensor([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]])
    assert x.linear(weight, Tensor([10.0, 20.0, 30.0])).tolist() == [[11.0, 22.0, 41.0]]
    assert x.linear(weight).tolist() == [[1.0, 2.0, 11.0]]
    assert x.linear(Tensor([2.0, 3.0])).tolist() == [[2.0, 6.0]]


def convolution(x, w, stride, dilation, padding, groups):  # type: ignore[no-untyped-def]
    """The definition, by loops over the output."""
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    sizes = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    outputs, share = w.shape[:2]
    result = np.zeros((x.shape[0], outputs, *sizes))
    for channel in range(outputs):
        first = channel // (outputs // groups) * share
        for place in itertools.product(*(range(size) for size in sizes)):
            window = tuple(
                slice(p * s, p * s + d * (k - 1) + 1, d)
                for p, s, d, k in zip(place, stride, dilation, w.shape[2:], strict=True)
            )
            part = x[(slice(None), slice(first, first + share), *window)]
            axes = tuple(range(1, part.ndim))
            result[(slice(None), channel, *place)] = (part * w[channel]).sum(axes)
    return result


@pytest.mark.parametrize(
    ("x", "w", "stride", "dilation", "padding", "groups"),
    [
        ((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), (1, 1), (0, 0), 1),
        ((2, 3, 5, 6), (4, 3, 3, 2), (2, 1), (1, 2), (1, 0), 1),
        ((1, 4, 7, 7), (6, 2, 3, 3), (2, 3), (2, 1), (2, 1), 2),
        ((1, 4, 6, 6), (4, 1, 2, 2), (2, 2), (1, 1), (0, 0), 4),
        ((1, 1, 5, 5), (1, 1, 1, 1), (3, 3), (1, 1), (0, 0), 1),
        ((1, 1, 7, 7), (1, 1, 2, 2), (5, 4), (2, 1), (0, 0), 1),
        ((2, 2, 8), (3, 2, 3), (2,), (1,), (1,), 1),
        ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 1, 1), (1, 1, 1), (0, 1, 0), 1),
        ((1, 1, 3, 3), (1, 1, 3, 3), (1, 1), (1, 1), (0, 0), 1),
    ],
)
def test_convolution_agrees_with_its_definition(x, w, stride, dilation, padding, groups) -> None:  # type: ignore[no-untyped-def]
    data, weight = whole_numbers(*x), whole_numbers(*w, seed=1)
    found = Tensor(data).conv2d(Tensor(weight), None, groups, stride, dilation, padding)
    assert (found.numpy() == convolution(data, weight, stride, dilation, padding, groups)).all()


def test_convolution_by_hand() -> None:
    image = Tensor(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
    weight = Tensor([[[[1.0, 0.0], [0.0, -1.0]]]])
    assert image.conv2d(weight).tolist() == [[[[-4.0, -4.0], [-4.0, -4.0]]]]
    assert image.conv2d(weight, Tensor([0.5]), stride=2).tolist() == [[[[-3.5]]]]
    # (left, right, top, bottom): one column before, one row after.
    assert image.conv2d(weight, padding=(1, 0, 0, 1)).shape == (1, 1, 3, 3)
    assert image.conv2d(weight, padding=(0, 1)).shape == (1, 1, 2, 4)
    half = image.half().conv2d(weight.half())
    assert half.dtype is dtypes.float16
    assert image.int().conv2d(weight.int()).dtype is dtypes.int32


def test_pooling_by_hand() -> None:
    image = Tensor(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
    assert image.max_pool2d().tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]
    assert image.avg_pool2d().tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert image.max_pool2d(3, stride=1).tolist() == [[[[10.0, 11.0], [14.0, 15.0]]]]
    assert image.max_pool2d(2, padding=1).tolist()[0][0][0] == [0.0, 2.0, 3.0]
    assert (image - 20).max_pool2d(2, padding=1).max().item() == -5.0
    assert image.avg_pool2d(2, padding=1).tolist()[0][0][0] == [0.0, 0.75, 0.75]
    even = image.avg_pool2d(2, padding=1, count_include_pad=False)
    assert even.tolist()[0][0][0] == [0.0, 1.5, 3.0]
    assert image.max_pool2d(2, stride=1, dilation=2).tolist() == [[[[10.0, 11.0], [14.0, 15.0]]]]
    assert image.int().max_pool2d((2, 4)).tolist() == [[[[7], [15]]]]
    assert Tensor([1.0, 3.0, 2.0]).max_pool2d((2,), stride=1).tolist() == [3.0, 3.0]


def test_pooling_past_the_end() -> None:
    line = Tensor([1.0, 2.0, 3.0, 4.0, 6.0])
    assert line.max_pool2d((2,)).tolist() == [2.0, 4.0]
    assert line.max_pool2d((2,), ceil_mode=True).tolist() == [2.0, 4.0, 6.0]
    assert line.avg_pool2d((2,), ceil_mode=True).tolist() == [1.5, 3.5, 6.0]
    # The padding counts, what lies past it does not: (4 + 6 + 0) / 3, not / 4.
    padded = line.avg_pool2d((4,), padding=1, ceil_mode=True)
    assert padded.tolist() == pytest.approx([1.5, 10 / 3])
    # The window that would begin in the padding behind the end is left out.
    assert line.max_pool2d((2,), stride=3, padding=1, ceil_mode=True).tolist() == [1.0, 4.0]
    assert line.max_pool2d((1,), stride=6, padding=0, ceil_mode=True).tolist() == [1.0]
    assert (-line).max_pool2d((2,), ceil_mode=True).tolist() == [-1.0, -3.0, -6.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tensor([[1.0, 2.0]]) @ Tensor([[1.0, 2.0]]), ["matmul", "(1, 2)", "axis"]),
        (lambda: Tensor([1.0]) @ Tensor([1.0, 2.0]), ["matmul", "(1,)", "(2,)"]),
        (lambda: Tensor(1.0) @ Tensor([1.0]), ["matmul", "()", "one axis"]),
        (lambda: Tensor([1.0]) @ 2, ["matmul", "int", "Tensor"]),
        (lambda: Tensor.ones(2, 2, 2) @ Tensor.ones(3, 2, 2), ["matmul", "broadcast"]),
        (lambda: Tensor([1.0]).dot(Tensor([1.0]), dtype="x"), ["dot", "'x'"]),
        (lambda: Tensor([1.0]).dot(Tensor([1.0]), dtype="bool"), ["dot", "bool"]),
        (lambda: Tensor.ones(1, 2, 4, 4).conv2d(Tensor.ones(1, 3, 2, 2)), ["conv2d", "3"]),
        (lambda: Tensor.ones(1, 2, 4).conv2d(Tensor.ones(1, 2, 2, 2)), ["conv2d", "(1, 2, 4)"]),
        (lambda: Tensor.ones(1, 4).conv2d(Tensor.ones(1, 4)), ["conv2d", "spatial"]),
        (
            lambda: Tensor.ones(1, 4, 4, 4).conv2d(Tensor.ones(3, 2, 2, 2), groups=2),
            ["conv2d", "groups", "3"],
        ),
        (
            lambda: Tensor.ones(1, 1, 2, 2).conv2d(Tensor.ones(1, 1, 3, 3)),
            ["conv2d", "3", "2"],
        ),
        (
            lambda: Tensor.ones(1, 1, 4, 4).conv2d(Tensor.ones(1, 1, 2, 2), Tensor.ones(2)),
            ["conv2d", "bias", "(2,)", "(1,)"],
        ),
        (
            lambda: Tensor.ones(1, 1, 4, 4).conv2d(Tensor.ones(1, 1, 2, 2), stride=0),
            ["conv2d", "stride", "0", "1"],
        ),
        (
            lambda: Tensor.ones(1, 1, 4, 4).conv2d(Tensor.ones(1, 1, 2, 2), padding=-1),
            ["conv2d", "padding", "-1"],
        ),
        (
            lambda: Tensor.ones(1, 1, 4, 4).conv2d(Tensor.ones(1, 1, 2, 2), dilation=(1, 2, 3)),
            ["conv2d", "dilation", "(1, 2, 3)", "2"],
        ),
        (
            lambda: Tensor.ones(1, 1, 2, 2).conv2d(Tensor.ones(1, 1, 0, 1)),
            ["conv2d", "(1, 1, 0, 1)", "empty"],
        ),
        (lambda: Tensor.ones(4).max_pool2d(), ["max_pool2d", "(4,)", "2 axes"]),
        (lambda: Tensor.ones(4, 4).max_pool2d(5), ["max_pool2d", "5", "4"]),
        (lambda: Tensor.ones(4, 4).avg_pool2d(0), ["avg_pool2d", "kernel_size", "0"]),
    ],
)
def test_errors_name_the_argument(make: object, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        make()  # type: ignore[operator]
    for word in words:
        assert word in str(caught.value), str(caught.value)
