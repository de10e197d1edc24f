"""Shapes, axes, images: laziness, views and literals that no row has."""

import numpy as np
import pytest
import torch
from refusals import check_refusal

from tinyref import GlobalCounters, Tensor, Variable, dtypes


@pytest.mark.long
def test_many_tensors_are_joined_in_groups() -> None:
    parts = [np.full((2, 1 + position % 3), position, np.int32) for position in range(70)]
    tensors = [Tensor(part) for part in parts]
    before = GlobalCounters.kernel_count
    actual = tensors[0].cat(*tensors[1:], dim=1).numpy()
    assert (actual == np.concatenate(parts, axis=1)).all()
    # Five groups of at most 16, and those together.
    assert GlobalCounters.kernel_count - before == 6


def test_cat_of_storage_types() -> None:
    part = Tensor([1.0, -0.5]).cast("fp8e5m2")
    assert part.cat(part).float().tolist() == [1.0, -0.5, 1.0, -0.5]


def test_sizes_and_types_are_facts_of_the_graph() -> None:
    tensor = Tensor.zeros(2, 3, dtype="float16")
    assert (tensor.ndim, tensor.numel(), tensor.element_size(), tensor.nbytes()) == (2, 6, 2, 12)
    assert tensor.is_floating_point()
    assert (tensor.size(), tensor.size(-1)) == ((2, 3), 3)
    assert not tensor.bool().is_floating_point()
    assert tensor.dtype is dtypes.float16


# Images in another size


# Where the rounding of the scale decides, in both modes, and an infinity that stays where it is.
@pytest.mark.parametrize("pair", [(26, 22), (39, 33), (6, 37), (14, 23), (26, 11), (30, 29)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_places_are_those_of_torch(pair: tuple[int, int], mode: str) -> None:
    old, new = pair
    line = torch.arange(old, dtype=torch.float32).reshape(1, 1, old)
    theirs = torch.nn.functional.interpolate(line, new, mode=mode).reshape(-1)
    assert Tensor.arange(float(old)).interpolate((new,), mode).tolist() == theirs.tolist()


def test_types_of_images() -> None:
    infinite = Tensor([[np.inf, 1.0, 2.0, 3.0]]).interpolate((2,))
    assert infinite.tolist() == [[np.inf, 2.5]]
    assert Tensor([True, False]).interpolate((4,), "nearest").tolist() == [True, True, False, False]
    half = Tensor(np.array([1.0, 2.0], np.float16)).interpolate((4,))
    assert (half.dtype, half.tolist()) == (dtypes.float16, [1.0, 1.25, 1.75, 2.0])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_bytes_are_interpolated_as_torch_does_it(mode: str, align_corners: bool) -> None:
    rng = np.random.default_rng(align_corners)
    for _ in range(6):
        height, width, *size = rng.integers(1, 10, 4).tolist()
        image = rng.integers(0, 256, (1, 2, height, width)).astype(np.uint8)
        ours = Tensor(image).interpolate(size, mode, align_corners)
        theirs = torch.nn.functional.interpolate(
            torch.tensor(image), size, mode=f"bi{mode}", align_corners=align_corners
        )
        assert ours.dtype is dtypes.uint8
        assert ours.tolist() == theirs.tolist()


def test_bytes_along_one_axis() -> None:
    line = Tensor([[0, 255]], dtype="uint8")
    assert line.interpolate((4,)).tolist() == [[0, 64, 191, 255]]
    assert line.interpolate((2,)).tolist() == [[0, 255]]
    assert line.interpolate((5,), "cubic").tolist() == [[0, 21, 128, 234, 255]]


def test_diagonals_and_windows_are_views() -> None:
    x = Tensor(np.zeros((3, 4), np.int32))
    diagonal = x.diagonal(1)
    diagonal.assign(Tensor([7, 8, 9]))
    x.diagonal(-2)[0] = 5
    assert x.tolist() == [[0, 7, 0, 0], [0, 0, 8, 0], [5, 0, 0, 9]]
    x.assign(x * 2)
    assert diagonal.tolist() == [14, 16, 18]
    x.unfold(1, 2, 2)[1, 0] = Tensor([3, 4])
    assert x[1].tolist() == [3, 4, 16, 0]
    windows = x.unfold(1, 3, 1)
    x[0] = 1
    assert windows[0].tolist() == [[1, 1, 1], [1, 1, 1]]
    check_refusal(["expand", "clone"], windows.assign, windows + 1)


def test_symbolic_sizes() -> None:
    rows = Variable("rows", 1, 5).bind(3)
    whole = np.arange(1.0, 11.0).reshape(5, 2)
    x = Tensor(whole)[:rows]
    part = whole[:3]
    assert np.allclose(x.fmod(3).numpy(), np.fmod(part, 3))
    assert np.allclose(x.logaddexp(1.0).numpy(), np.logaddexp(part, 1))
    assert np.allclose(x.normalize().numpy(), part / np.hypot(*part.T)[:, None])
    assert x.nonzero().shape == (6, 2)
    for call in (x.diagonal, x.diag, x.argsort, lambda: x.roll(1), lambda: x.unfold(0, 2, 1)):
        check_refusal(["known sizes"], call)
