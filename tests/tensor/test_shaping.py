"""Shapes by a formula and images in another size: literals, and torch for where elements lie."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from refusals import check_refusal

from tinyref import Tensor, Variable, dtypes
from tinyref.tensor.indexing import cubic_places, linear_places, nearest_places

GRID = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("formula", "sizes", "wanted"),
    [
        ("a b c -> c b a", {}, GRID.transpose(2, 1, 0)),
        ("a b c -> (a b) c", {}, GRID.reshape(6, 4)),
        ("a b (c d) -> a (d b) c", {"c": 2}, None),
        ("a ... -> ... a", {}, GRID.transpose(1, 2, 0)),
        ("... c -> c (...)", {}, GRID.reshape(6, 4).T),
        ("a b c->a 1 b () c", {}, GRID[:, None, :, None]),
        ("  a   b c -> a b c  ", {}, GRID),
        ("x_1 Y c2 -> (x_1 Y c2)", {}, GRID.reshape(-1)),
        ("a b (c d) -> a b c d", {"c": 2, "d": 2}, GRID.reshape(2, 3, 2, 2)),
        ("ß Größe 変数 -> (ß Größe) 変数", {"ß": 2}, GRID.reshape(6, 4)),
        ("a … -> … a", {}, GRID.transpose(1, 2, 0)),
    ],
)
def test_rearrange(formula: str, sizes: dict[str, int], wanted: np.ndarray | None) -> None:
    found = Tensor(GRID).rearrange(formula, **sizes).numpy()
    if wanted is None:
        wanted = GRID.reshape(2, 3, 2, 2).transpose(0, 3, 1, 2).reshape(2, 6, 2)
    assert found.shape == wanted.shape
    assert (found == wanted).all()


def test_rearrange_without_axes_and_of_nothing() -> None:
    assert Tensor(3).rearrange(" -> ").item() == 3
    assert Tensor(3).rearrange("-> 1 1").shape == (1, 1)
    assert Tensor([[5]]).rearrange("1 () ->").item() == 5
    assert Tensor.zeros(0, 4).rearrange("a (b c) -> b (a c)", c=2).shape == (2, 0)


def test_rearrange_of_a_symbolic_batch() -> None:
    whole = Tensor(GRID).realize()
    some = whole.shrink(((0, Variable("n", 1, 2).bind(1)), None, None))
    assert (
        some.rearrange("n a b -> n (b a)").numpy() == GRID[:1].swapaxes(1, 2).reshape(1, 12)
    ).all()


@pytest.mark.parametrize(
    ("formula", "sizes", "words"),
    [
        ("a b c", {}, ["'axes -> axes'"]),
        ("a b -> b a", {}, ["names 2 axes of 3"]),
        ("a b c d -> a b c d", {}, ["names 4 axes of 3"]),
        ("a b c -> a b", {}, ["both sides must name c"]),
        ("a b c -> a b c d", {}, ["both sides must name d"]),
        ("a b b -> a b b", {}, ["b twice"]),
        ("a b (c d) -> a b c d", {}, ["give c= or d="]),
        ("a b (c d) -> a b c d", {"c": 3}, ["(c d) of 3", "size 4"]),
        ("a b c -> a b c", {"c": 5}, ["(c) of 5", "size 4"]),
        ("a b c -> a b c", {"d": 5}, ["d= is no axis"]),
        ("a b c -> a b c", {"c": 4.0}, ["rearrange: c", "4.0", "integer"]),
        ("a b (c -> a b c", {}, ["not closed"]),
        ("a b c) -> a b c", {}, ["not open"]),
        ("a ((b)) c -> a b c", {}, ["brackets within brackets"]),
        ("a b 2 -> a b 2", {}, ["'2' is no axis"]),
        ("_a b c -> _a b c", {}, ["'_a' is no axis", "underscore"]),
        ("a b_ c -> a b_ c", {}, ["'b_' is no axis", "underscore"]),
        ("_ b c -> _ b c", {}, ["'_' is no axis", "underscore"]),
        ("a b 1c -> a b 1c", {}, ["'1c' is no axis", "identifiers"]),
        ("a b c² -> a b c²", {}, ["'c²' is no axis", "identifiers"]),
        ("a b-c -> a b-c", {}, ["'-c' is no axis"]),
        ("a (b ...) -> a b ...", {}, ["on the left"]),
        ("a ... -> a", {}, ["... must be on both sides"]),
        ("a b 1 -> a b", {}, ["size 4"]),
    ],
)
def test_rearrange_refuses(formula: str, sizes: dict[str, int], words: list[str]) -> None:
    check_refusal(["rearrange", *words], lambda: Tensor(GRID).rearrange(formula, **sizes))


@pytest.mark.parametrize("is_exact", [False, True])
def test_nearest_places_are_those_of_torch(is_exact: bool) -> None:
    """Where the rounding of the scale decides, too."""
    mode = "nearest-exact" if is_exact else "nearest"
    different = []
    for old in range(1, 41):
        line = torch.arange(old, dtype=torch.float32).reshape(1, 1, old)
        for new in range(1, 41):
            theirs = torch.nn.functional.interpolate(line, new, mode=mode).reshape(-1).int()
            if not (nearest_places(old, new, is_exact)[0] == theirs.numpy()).all():
                different.append((old, new))
    assert different == []


def test_weights_add_up_to_one() -> None:
    for find in (linear_places, cubic_places):
        for old, new, aligned in ((5, 8, False), (5, 8, True), (7, 3, False), (1, 4, False)):
            places, weights = find(old, new, aligned)
            assert places.shape == weights.shape
            assert ((places >= 0) & (places < old)).all()
            assert np.allclose(weights.sum(0), 1, atol=1e-15)


@pytest.mark.long
def test_interpolation_by_hand() -> None:
    line = Tensor([0.0, 10.0, 20.0])
    assert line.interpolate((5,), align_corners=True).tolist() == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert line.interpolate((6,)).tolist() == [0.0, 2.5, 7.5, 12.5, 17.5, 20.0]
    assert line.interpolate((1,), align_corners=True).tolist() == [0.0]
    assert line.interpolate((3,), "cubic").tolist() == [0.0, 10.0, 20.0]
    assert line.interpolate((5,), "nearest").tolist() == [0.0, 0.0, 10.0, 10.0, 20.0]
    assert line.interpolate((2,), "nearest-exact").tolist() == [0.0, 20.0]
    # An infinity stays where it is.
    infinite = Tensor([[np.inf, 1.0, 2.0, 3.0]]).interpolate((2,))
    assert infinite.tolist() == [[np.inf, 2.5]]
    whole = Tensor([[1, 2]], dtype="uint8").interpolate((2, 4), "nearest")
    assert whole.tolist() == [[1, 1, 2, 2]] * 2
    assert whole.dtype is dtypes.uint8
    assert Tensor([True, False]).interpolate((4,), "nearest").tolist() == [True, True, False, False]
    half = Tensor(np.array([1.0, 2.0], np.float16)).interpolate((4,))
    assert half.dtype is dtypes.float16
    assert half.tolist() == [1.0, 1.25, 1.75, 2.0]


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tensor([1.0]).interpolate(3), ["interpolate: size 3", "(1,)"]),
        (lambda: Tensor([1.0]).interpolate((3, 3)), ["(3, 3)", "(1,)"]),
        (lambda: Tensor([1.0]).interpolate((0,)), ["size 1 to 0", "positive"]),
        (lambda: Tensor([1.0]).interpolate((2**40,)), ["interpolate: 1099511627776", "2147483647"]),
        (lambda: Tensor([1.0]).interpolate((2.5,)), ["2.5", "integer"]),
        (lambda: Tensor([1.0]).interpolate((2,), "area"), ["'area'", "linear", "nearest"]),
        (lambda: Tensor([1]).interpolate((2,)), ["int32", "'linear'", "cast"]),
        (lambda: Tensor([True]).interpolate((2,), "cubic"), ["bool", "'cubic'", "cast"]),
        (lambda: Tensor([1], dtype="int8").interpolate((2,)), ["int8", "'linear'", "cast"]),
        (
            lambda: Tensor([1.0]).interpolate((2,), "nearest", align_corners=True),
            ["align_corners", "'nearest'"],
        ),
    ],
)
def test_interpolate_refuses(make: Callable[..., object], words: list[str]) -> None:
    check_refusal(words, make)
