"""Convolutions and pooling: literals, the definition by loops, and bounds that are derived."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from tinyref import GlobalCounters, Tensor, Variable, dtypes
from tinyref.config import Context
from tinyref.errors import UserError
from tinyref.schedule.items import temporaries

INF = math.inf


def whole_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Small integers as floats: their sums of products are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def test_the_gradient_of_a_convolution_stores_no_products_of_windows() -> None:
    x = Tensor(whole_numbers(2, 4, 8, 8), requires_grad=True).realize()
    w = Tensor(whole_numbers(4, 4, 3, 3, seed=1)).realize()
    slope = Tensor(whole_numbers(2, 4, 6, 6, seed=2)).realize()
    x.conv2d(w).backward(slope)
    planned = x.grad.schedule()
    # One kernel reads the slope, without 9 products for each of its 36 places.
    assert not temporaries(planned.items, planned.results)


def test_gradients_of_convolutions_of_any_size_multiply_no_zeros() -> None:
    def slopes(size: int) -> list[float]:
        x = Tensor(np.ones((1, 1, size), np.float32), requires_grad=True)
        result = x.conv2d(Tensor([[[math.inf, 1.0, 1.0]]]))
        actual = result.gradient(x, gradient=Tensor.ones(*result.shape))[0].flatten().tolist()
        assert isinstance(actual, list)
        return actual

    assert slopes(3) == [math.inf, 1.0, 1.0]
    # Past the end the correlation reads zeros, which the infinite factor does not meet.
    assert slopes(6) == [math.inf, math.inf, math.inf, math.inf, 2.0, 1.0]


def test_gradients_of_strided_convolutions_multiply_only_elements_that_exist() -> None:
    def slopes(size: int, weight: list[float], stride: int) -> list[float]:
        x = Tensor(np.ones((1, 1, size), np.float32), requires_grad=True)
        result = x.conv2d(Tensor([[weight]]), stride=stride)
        rising = Tensor.arange(1, result.shape[2] + 1).float().reshape(result.shape)
        values = result.gradient(x, gradient=rising)[0].flatten().tolist()
        assert isinstance(values, list)
        return values

    # No window reads the last element. Zeros between the slopes would make NaNs.
    assert slopes(6, [1.0, 2.0, INF], 2) == [1.0, 2.0, INF, 4.0, INF, 0.0]
    # Strides 3 and 4 give two windows: the sizes alone do not tell them apart.
    assert slopes(8, [1.0, 2.0, 3.0, 4.0], 3) == [1.0, 2.0, 3.0, 6.0, 4.0, 6.0, 8.0, 0.0]
    assert slopes(8, [1.0, 2.0, 3.0, 4.0], 4) == [1.0, 2.0, 3.0, 4.0, 2.0, 4.0, 6.0, 8.0]


def test_pooling_of_integers_and_next_to_padding() -> None:
    image = Tensor(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
    assert (image - 20).max_pool2d(2, padding=1).max().item() == -5.0
    assert image.int().max_pool2d((2, 4)).tolist() == [[[[7], [15]]]]
    # The padding counts, what lies past it does not: (4 + 6 + 0) / 3, not / 4.
    padded = Tensor([1.0, 2.0, 3.0, 4.0, 6.0]).avg_pool2d((4,), padding=1, ceil_mode=True)
    assert padded.tolist() == pytest.approx([1.5, 10 / 3])


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding", "largest", "means"),
    [
        ((4,), 2, 1, 0, [3.0], [2.0]),
        ((5,), 3, 1, 0, [3.0], [2.0]),
        ((5,), 4, 1, 0, [3.0], [2.0]),
        ((8,), 4, 1, 1, [3.0], [1.2]),
        ((3,), 3, 2, 0, [3.0], None),
    ],
)
def test_a_window_may_reach_past_the_end_of_all_elements(
    kernel: tuple[int], stride: int, dilation: int, padding: int, largest: object, means: object
) -> None:
    """Clip a window that is too long by less than a stride, as torch does."""
    line = Tensor([1.0, 2.0, 3.0])
    position = (kernel, stride, dilation, padding, True)
    assert line.max_pool2d(*position).tolist() == largest
    if means is not None:
        assert line.avg_pool2d(*position).tolist() == pytest.approx(means)
    with pytest.raises(UserError, match="does not fit"):
        line.max_pool2d(*position[:4])


# The limit of Winograd's form, in roundings of the sum of magnitudes of all products: its matrices
# multiply by up to 8 and add 36 terms twice. The maximum in 40 random images was 121.
WINOGRAD_ROUNDINGS = 1024


@pytest.mark.parametrize(
    ("x", "w", "padding", "groups"),
    [
        ((1, 3, 9, 11), (2, 3, 3, 3), 1, 1),
        ((2, 4, 6, 6), (6, 2, 3, 3), 0, 2),
        ((1, 1, 3, 3), (1, 1, 3, 3), 0, 1),
    ],
)
def test_winograd_is_within_its_bound(x, w, padding, groups) -> None:  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(3)
    data, weight = (generator.standard_normal(shape).astype(np.float32) for shape in (x, w))
    a, b = (torch.tensor(array).double() for array in (data, weight))
    exact = functional.conv2d(a, b, padding=padding, groups=groups).numpy()
    sizes = functional.conv2d(a.abs(), b.abs(), padding=padding, groups=groups).numpy()
    with Context(WINO=1):
        actual = Tensor(data).conv2d(Tensor(weight), padding=padding, groups=groups).numpy()
    bound = WINOGRAD_ROUNDINGS * 2.0**-24 * sizes
    assert (np.abs(actual - exact) <= bound).all()
    # The bound is worth something: it does not pass what is a percent off.
    assert (np.abs(actual * 1.01 - exact) > bound).any()


@pytest.mark.slow
def test_winograd_is_used_where_it_fits_alone() -> None:
    """Show its roundings with thirds; whole numbers stay exact by definition."""
    image, square = Tensor(whole_numbers(1, 2, 8, 8)), Tensor(whole_numbers(1, 2, 3, 3, seed=1))
    wide = Tensor(whole_numbers(1, 2, 3, 2, seed=1))

    def differs(make) -> bool:  # type: ignore[no-untyped-def]
        with Context(WINO=1):
            filtered = make().numpy()
        return bool((filtered != make().numpy()).any())

    assert differs(lambda: (image * 1e3).conv2d(square / 7))
    assert not differs(lambda: image.conv2d(square, stride=2))
    assert not differs(lambda: image.conv2d(square, dilation=2))
    assert not differs(lambda: image.conv2d(wide))
    assert not differs(lambda: image.int().conv2d(square.int()))


def test_transposed_convolutions_read_only_elements_that_exist() -> None:
    x, w = Tensor([[[1.0, 2.0]]]), Tensor([[[1.0, math.inf]]])
    # An inserted zero times an infinite factor is no number.
    assert x.conv_transpose2d(w, stride=2).tolist() == [[[1.0, math.inf, 2.0, math.inf]]]
    far = Tensor([[[3.0]]]).conv_transpose2d(Tensor([[[2.0]]]), stride=4, output_padding=3)
    assert far.tolist() == [[[6.0, 0.0, 0.0, 0.0]]]
    # Of the elements nothing is left: the places that `output_padding` adds have the bias alone.
    tail = Tensor([[[3.0]]]).conv_transpose2d(
        Tensor([[[2.0]]]), Tensor([0.5]), stride=4, padding=(1, 0), output_padding=3
    )
    assert tail.tolist() == [[[0.5, 0.5, 0.5]]]
    GlobalCounters.reset()
    Tensor.ones(1, 4, 16, 16).contiguous().conv_transpose2d(
        Tensor.ones(4, 4, 4, 4).contiguous(), stride=2
    ).realize()
    # 4 x 4 channels, 17 x 17 positions of 2 x 2 residues, 2 x 2 elements. Each needs a product,
    # a sum, and a selection of products whose element exists.
    assert GlobalCounters.global_ops < 5 * 4 * 4 * 17 * 17 * 4 * 4


GROWN = {"stride": 2, "padding": 1, "output_padding": 1}


@pytest.mark.parametrize(
    ("x", "w", "options", "result", "slopes"),
    [
        # Of [3 inf, 4 inf + 6, 8] the middle is left.
        ([INF, 2], [3, 4], {"padding": 1}, [INF], ([4, 3], [2, INF])),
        ([5, 2], [INF, 4], {"padding": 1}, [INF], ([4, INF], [2, 5])),
        # Of [3, 4, 3 inf, 4 inf] the middle two.
        ([1, INF], [3, 4], {"stride": 2, "padding": 1}, [4, INF], ([4, 3], [INF, 1])),
        ([1, 2], [INF, 4], {"stride": 2, "padding": 1}, [4, INF], ([4, INF], [2, 1])),
        # Of [3, 3 inf, 4, 4 inf] the middle two.
        ([1, INF], [3, 4], {"dilation": 2, "padding": 1}, [INF, 4], ([4, 3], [INF, 1])),
        # Of [3 inf, 4 inf, 3, 4] all but the first.
        ([INF, 1], [3, 4], GROWN, [INF, 3, 4], ([4, 7], [1, INF])),
    ],
)
def test_results_that_padding_cuts_off_make_nothing_nan(x, w, options, result, slopes) -> None:  # type: ignore[no-untyped-def]
    data, kernels = (Tensor([[part]], dtype="float32", requires_grad=True) for part in (x, w))
    actual = data.conv_transpose2d(kernels, **options)
    assert actual.tolist() == [[result]]
    actual.sum().backward()
    assert [part.grad.tolist() for part in (data, kernels)] == [[[part]] for part in slopes]


def test_indices_of_pooling() -> None:
    minimum = Tensor([-128, -128], dtype="int8").max_pool2d((2,), 1, 1, 1, return_indices=True)
    assert (minimum[1].tolist(), minimum[1].dtype) == ([0, 0, 1], dtypes.int32)
    # Of several NaN the last is where the result comes from, as in torch.
    several = Tensor([np.nan, 1.0, np.nan, 2.0]).requires_grad_()
    values, indices = several.max_pool2d((4,), return_indices=True)
    assert indices.tolist() == [2]
    assert values.sum().gradient(several)[0].tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("size", "width", "dilation", "stride", "padding"),
    [(5, 7, 2, 1, 6), (1, 3, 1, 1, 1), (2, 5, 3, 2, 7), (3, 4, 5, 3, 9), (7, 3, 4, 2, 4)],
)
def test_ends_of_kernels_that_meet_only_padding(
    size: int, width: int, dilation: int, stride: int, padding: int
) -> None:
    arrays = whole_numbers(2, 3, size, size), whole_numbers(9, 3, width, width, seed=1)
    options = {"stride": stride, "dilation": dilation, "padding": padding}
    ours = [Tensor(array, requires_grad=True) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    result, expected = ours[0].conv2d(ours[1], **options), functional.conv2d(*theirs, **options)
    slope = whole_numbers(*expected.shape, seed=2)
    assert (result.numpy() == expected.detach().numpy()).all()
    slopes = torch.autograd.grad(expected, theirs, torch.tensor(slope))
    for gradient, other in zip(result.gradient(*ours, gradient=Tensor(slope)), slopes, strict=True):
        assert (gradient.numpy() == other.numpy()).all()


@pytest.mark.parametrize("seed", range(8))
def test_a_window_gives_its_gradient_to_the_element_that_it_chose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, stride, dilation = rng.integers(1, 4, (3, 2)).tolist()
    image = rng.integers(0, 3, (2, *rng.integers(7, 12, 2))).astype(np.float32)
    image[0, 2, 3] = np.nan
    x = Tensor(image, requires_grad=True)
    margins = [int(rng.integers((width + 1) // 2)) for width in kernel for _ in range(2)][::-1]
    options = (kernel, stride, dilation, margins, bool(seed % 2))
    largest, indices = x.max_pool2d(*options, return_indices=True)
    slope = rng.integers(-9, 9, largest.shape).astype(np.float32)
    slope[0, 0, 0] = np.inf
    expected = np.zeros((2, image[0].size), np.float32)
    for number in range(2):
        np.add.at(expected[number], indices.numpy()[number], slope[number])
    (gradient,) = largest.gradient(x, gradient=Tensor(slope))
    np.testing.assert_array_equal(gradient.numpy(), expected.reshape(image.shape))
    # The mean of each element alone is its share in each window.
    basis = Tensor.eye(image[0].size).reshape(-1, *image[0].shape)
    shares = basis.avg_pool2d(*options).numpy().reshape(image[0].size, -1)
    slope = rng.integers(-9, 9, largest.shape).astype(np.float32)
    (gradient,) = x.avg_pool2d(*options).gradient(x, gradient=Tensor(slope))
    expected = np.reshape(slope, (2, -1)) @ shares.T
    np.testing.assert_allclose(gradient.numpy(), expected.reshape(image.shape), atol=1e-5)


def test_windows_that_have_only_padding_pass_no_gradient_on() -> None:
    line = Tensor([[1.0, 2.0]], requires_grad=True)
    means = line.avg_pool2d((2,), 1, padding=(1, 4))
    assert means.tolist() == [[0.5, 1.5, 1.0, 0.0, 0.0, 0.0]]
    slope = Tensor([[2.0, 4.0, 8.0, INF, np.nan, 16.0]])
    assert means.gradient(line, gradient=slope)[0].tolist() == [[3.0, 6.0]]


@pytest.mark.parametrize("lead", [(), (1, 2), (99, 99), (0, 5)])
def test_batch_and_channels_of_a_size_to_unpool_to_are_not_read(lead: tuple[int, ...]) -> None:
    values, indices = Tensor(whole_numbers(1, 2, 5, 3)).max_pool2d(return_indices=True)
    assert values.max_unpool2d(indices, output_size=(*lead, 5, 3)).shape == (1, 2, 5, 3)
    with pytest.raises(UserError, match="sizes less than a stride"):
        values.max_unpool2d(indices, output_size=(*lead, 9, 3))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.avg_pool2d(3, 1, padding=1, count_include_pad=False),
        lambda x: x.conv2d(Tensor(whole_numbers(3, 2, 3, 3, seed=1)), stride=2, padding=1),
        lambda x: x.conv_transpose2d(Tensor(whole_numbers(2, 2, 3, 3, seed=1))),
        lambda x: x.max_pool2d(),
    ],
)
def test_windows_of_a_symbolic_batch(function) -> None:  # type: ignore[no-untyped-def]
    images = whole_numbers(8, 2, 6, 6)
    whole = Tensor(images).realize()
    for count in (1, 5):
        some = whole.shrink(((0, Variable("n", 1, 8).bind(count)), None, None, None))
        assert (function(some).numpy() == function(Tensor(images[:count])).numpy()).all()


def test_windows_of_nothing() -> None:
    assert Tensor.zeros(0, 2, 5, 5).conv2d(Tensor.ones(3, 2, 3, 3)).numpy().shape == (0, 3, 3, 3)
    assert Tensor.zeros(0, 2, 4, 4).conv_transpose2d(Tensor.ones(2, 1, 2, 2)).shape == (0, 1, 5, 5)
    nothing = Tensor.ones(1, 2, 3, 3, requires_grad=True)
    for stride in (1, 2):
        margins = (0, 0, stride + 1, stride + 1)
        result = nothing.conv_transpose2d(Tensor.ones(2, 3, 2, 2), stride=stride, padding=margins)
        assert result.numpy().shape == (1, 3, 0, 2 + 2 * stride)
        assert result.sum().gradient(nothing)[0].sum().item() == 0.0
    assert Tensor.zeros(0, 4, 4).max_pool2d(return_indices=True)[1].numpy().shape == (0, 2, 2)
    assert Tensor.zeros(0, 4, 4).avg_pool2d().numpy().shape == (0, 2, 2)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_negative_padding_cuts(device: str) -> None:
    x = Tensor.arange(25, device=device).reshape(1, 1, 5, 5)
    ones = Tensor.ones(1, 1, 2, 2, dtype="int32", device=device)
    # The sums of two by two elements of rows 1 to 3 and columns 1 to 3.
    assert x.conv2d(ones, padding=-1).tolist() == [[[[36, 40], [56, 60]]]]
    # Left 1 and right 2 are cut, and a row of zeros comes on top.
    actual = x.conv2d(ones, padding=(-1, -2, 1, -3))
    assert actual.tolist() == [[[[3], [16]]]]
    whole = Tensor([[[[1, 2], [3, 4]]]], device=device)
    one = Tensor([[[[1]]]], device=device)
    assert whole.conv_transpose2d(one, padding=-1).tolist() == [
        [[[0, 0, 0, 0], [0, 1, 2, 0], [0, 3, 4, 0], [0, 0, 0, 0]]]
    ]
