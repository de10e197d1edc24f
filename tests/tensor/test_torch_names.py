"""Functions with the names that users of torch reach for, against torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from refusals import check_refusal

from tinyref import Tensor, TinyJit, Variable, dtypes
from tinyref.errors import UserStateError
from tinyref_spec.subjects.torch_library import TORCH_DTYPES, from_torch

F = torch.nn.functional
INF, NAN = math.inf, math.nan
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
ANY = (*FLOATS, *INTEGERS, "bool")
SPECIAL = (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3.5, -2.25, 1e-3, 100.0, -100.0, 7.0)
SHAPES = ((), (1,), (0,), (5,), (3, 4), (0, 3), (2, 1, 3))
# Roundings that the functions may differ by, as a part of the result.
ROUNDING = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}
# Ours, torch's, and the types that both take. An expression that torch refuses for a shape must be
# refused here.
VALUES = (
    ("x.fmod(y)", "torch.fmod(x, y)", (*FLOATS, *INTEGERS)),
    ("x.fmod(-3)", "torch.fmod(x, -3)", (*FLOATS, "int8", "int64")),
    ("x.fmod(2.5)", "torch.fmod(x, 2.5)", FLOATS),
    ("x.log10()", "torch.log10(x)", FLOATS),
    ("x.logaddexp(y)", "torch.logaddexp(x, y)", FLOATS),
    ("x.logsigmoid()", "F.logsigmoid(x)", FLOATS),
    ("x.softmin(0)", "F.softmin(x, 0)", FLOATS),
    ("x.softmin(-2)", "F.softmin(x, -2)", FLOATS),
    ("x.argsort()", "torch.argsort(x, stable=True).int()", ANY),
    ("x.argsort(0, True)", "torch.argsort(x, dim=0, descending=True, stable=True).int()", ANY),
    ("x.diag()", "torch.diag(x)", ANY),
    ("x.diag(-2)", "torch.diag(x, -2)", FLOATS),
    ("x.diag(9)", "torch.diag(x, 9)", ("float32",)),
    ("x.diagonal()", "torch.diagonal(x)", ANY),
    ("x.diagonal(1, -1, 0)", "torch.diagonal(x, 1, -1, 0)", FLOATS),
    ("x.diagonal(-1, 1, -1)", "torch.diagonal(x, -1, 1, -1)", FLOATS),
    ("x.diagonal(9)", "torch.diagonal(x, 9)", ("int32",)),
    ("x.nonzero()", "x.nonzero().int()", ANY),
    ("x.nonzero(True)", "tuple(places.int() for places in x.nonzero(as_tuple=True))", ANY),
    ("x.roll(1)", "x.roll(1)", ANY),
    ("x.roll((-7,))", "x.roll((-7,))", ("float32",)),
    ("x.roll((1, 2))", "x.roll((1, 2))", ("float32",)),
    ("x.unfold(0, 2, 1)", "x.unfold(0, 2, 1)", ANY),
    ("x.unfold(-1, 1, 2)", "x.unfold(-1, 1, 2)", FLOATS),
    ("x.unfold(-1, 2, 2)", "x.unfold(-1, 2, 2)", FLOATS),
    ("x.unfold(1, 3, 1)", "x.unfold(1, 3, 1)", FLOATS),
    ("x.unfold(0, 0, 1)", "x.unfold(0, 0, 1)", ("int32",)),
    ("x.bfloat16()", "x.bfloat16()", ANY),
    ("x.double()", "x.double()", ANY),
    ("(x != 1).long()", "(x != 1).long()", ANY),
    ("(x != 1).short()", "(x != 1).short()", ANY),
    # Torch has NaN for an infinity, where its kernel is vectorised.
    ("x.clamp(-99, 99).gelu('none')", "F.gelu(x.clamp(-99, 99))", FLOATS),
    ("x.allclose(y)", "torch.allclose(x, y)", (*FLOATS, *INTEGERS)),
    ("x.allclose(x, equal_nan=True)", "torch.allclose(x, x, equal_nan=True)", FLOATS),
)
SINGLE = ("float32", "float64")
# Without infinities, where torch has NaN in place of a slope.
GRADIENTS = (
    ("x.fmod(y)", "torch.fmod(x, y)"),
    ("x.fmod(-0.7)", "torch.fmod(x, -0.7)"),
    ("(x * x + 1).log10()", "(x * x + 1).log10()"),
    ("x.logaddexp(y)", "torch.logaddexp(x, y)"),
    ("(x * 40).logaddexp(y)", "torch.logaddexp(x * 40, y)"),
    ("(x * 40).logsigmoid()", "F.logsigmoid(x * 40)"),
    ("x.softmin(1)", "F.softmin(x, 1)"),
    ("x.cummin(1)", "torch.cummin(x, 1).values"),
    ("x.diagonal(1)", "x.diagonal(1)"),
    ("x[0].diag(-1)", "x[0].diag(-1)"),
    ("x.roll(5)", "x.roll(5)"),
    ("x.unfold(1, 3, 1)", "x.unfold(1, 3, 1)"),
    ("x.unfold(1, 1, 2)", "x.unfold(1, 1, 2)"),
    ("x.gelu(approximate='none')", "F.gelu(x)"),
    ("x.normalize()", "F.normalize(x)"),
    ("(x * 0).normalize()", "F.normalize(x * 0)"),
    ("x.normalize(1, 0)", "F.normalize(x, 1, 0)"),
    ("x.normalize(3)", "F.normalize(x, 3)"),
    ("x.relu().normalize(0.5)", "F.normalize(x.relu(), 0.5)"),
    ("x.normalize(float('inf'))", "F.normalize(x, float('inf'))"),
    ("x.normalize(eps=2.0)", "F.normalize(x, eps=2.0)"),
    ("x.binary_crossentropy_logits(z, pos_weight=z[0])", "bce(x, z, pos_weight=z[0])"),
    (
        "x.binary_crossentropy_logits(z, 'sum', z[:, :1])",
        "bce(x, z, None, None, None, 'sum', z[:, :1])",
    ),
)


def drawn(shape: Sequence[int], dtype: str, seed: int, is_special: bool = False) -> torch.Tensor:
    generator = np.random.default_rng([seed, *shape])
    values = generator.choice(SPECIAL, shape) if is_special else generator.normal(0, 3, shape)
    if dtype not in FLOATS:
        values = generator.integers(0 if dtype[0] == "u" else -4, 5, shape)
    return torch.tensor(values).to(TORCH_DTYPES[getattr(dtypes, dtype)])


def ours(tensor: torch.Tensor) -> Tensor:
    return Tensor(from_torch(tensor))


def elements(value: object) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        return from_torch(value)
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def check_equal(result: object, expected: object, rounding: float) -> None:
    pairs = (result, expected) if isinstance(expected, tuple) else ((result,), (expected,))
    for mine, theirs in zip(*pairs, strict=True):  # type: ignore[call-overload]
        left, right = elements(mine), elements(theirs)
        assert (left.shape, left.dtype) == (right.shape, right.dtype)
        left, right = left.astype(np.float64), right.astype(np.float64)
        np.testing.assert_allclose(left, right, rtol=rounding, atol=rounding / 2)
        is_zero = (left == 0) & (right == 0)
        assert np.array_equal(np.signbit(left[is_zero]), np.signbit(right[is_zero]))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("mine", "theirs", "dtype"),
    [(mine, theirs, dtype) for mine, theirs, types in VALUES for dtype in types],
)
def test_values_are_those_of_torch(mine: str, theirs: str, dtype: str) -> None:
    for number, shape in enumerate(SHAPES):
        x = drawn(shape, dtype, 1, is_special=number % 2 == 0)
        # Integers have no remainder by 0.
        y = drawn(shape[-1:], dtype, 2, is_special=True)
        y = torch.where(y == 0, 1, y).to(y.dtype) if dtype in INTEGERS else y
        names = {"x": ours(x), "y": ours(y), "Tensor": Tensor}
        try:
            expected = eval(theirs, {"torch": torch, "F": F, "x": x, "y": y})
        except (RuntimeError, IndexError):
            check_refusal((), eval, mine, names)
            continue
        check_equal(eval(mine, names), expected, ROUNDING.get(dtype, 0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", SINGLE)
@pytest.mark.parametrize(("mine", "theirs"), GRADIENTS, ids=[mine for mine, _ in GRADIENTS])
def test_gradients_are_those_of_torch(mine: str, theirs: str, dtype: str) -> None:
    x, y = (drawn((5, 4), dtype, seed).requires_grad_() for seed in (3, 4))
    z = drawn((5, 4), dtype, 5).sigmoid()
    result = eval(
        theirs,
        {"torch": torch, "F": F, "bce": F.binary_cross_entropy_with_logits},
        {"x": x, "y": y, "z": z},
    )
    weights = drawn(result.shape, dtype, 6)
    expected = torch.autograd.grad(result, [x, y], weights, allow_unused=True)
    names = {"x": ours(x), "y": ours(y), "z": ours(z)}
    actual = eval(mine, {}, names).gradient(
        names["x"], names["y"], gradient=ours(weights), materialize_grads=True
    )
    for one, other in zip(actual, expected, strict=True):
        if other is not None:
            limit = 50 * ROUNDING[dtype]
            np.testing.assert_allclose(elements(one), elements(other), rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logarithms_of_powers_of_ten_are_integers(dtype: str) -> None:
    largest = {"float16": 4, "float64": 308}.get(dtype, 37)
    exponents = list(range(-largest + (dtype == "float64"), largest + 1))
    powers = Tensor(np.array([float(f"1e{exponent}") for exponent in exponents])).cast(dtype)
    assert powers.log10().tolist() == exponents


def test_running_minima() -> None:
    x = Tensor([[3.0, 1.0, NAN, 0.0], [2.0, INF, -INF, 5.0]])
    assert str(x.cummin(1).tolist()) == "[[3.0, 1.0, nan, nan], [2.0, 2.0, -inf, -inf]]"
    assert x.cummin(-2)[1, :2].tolist() == [2.0, 1.0]
    assert Tensor(4).cummin().item() == 4
    assert Tensor.zeros(0, 3).cummin(1).shape == (0, 3)
    for name in ("int8", "uint8", "int64", "uint64"):
        ends = np.iinfo(name)
        numbers = np.array([ends.max, ends.min, ends.max], dtype=name)
        assert Tensor(numbers).cummin().tolist() == [ends.max, ends.min, ends.min]
    assert Tensor([True, False, True]).cummin().tolist() == [True, False, False]
    long = np.random.default_rng(0).integers(-(10**6), 10**6, 1000).astype(np.int32)
    assert np.array_equal(Tensor(long).cummin().numpy(), np.minimum.accumulate(long))


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_an_integer_remainder_by_zero_ends_no_program(device: str) -> None:
    for name in INTEGERS:
        x = Tensor([7, 1], dtype=name, device=device)
        assert x.fmod(Tensor([0, 0], dtype=name, device=device)).numpy().shape == (2,)


def test_remainders_of_far_apart_floats_are_exact() -> None:
    x, y = Tensor([1e12, -1e12, 5.0, -0.0]), Tensor([7.1, 7.1, -INF, 3.0])
    result = x.fmod(y).numpy()
    expected = np.fmod(x.numpy().astype(np.float64), y.numpy().astype(np.float64))
    assert np.array_equal(result, expected.astype(np.float32))
    assert math.copysign(1, result[3]) == -1


def test_logarithms_of_sums_and_sigmoids_do_not_overflow() -> None:
    x, y = Tensor([1e4, -INF, INF, -INF, 0.0]), Tensor([1e4, -INF, INF, 3.0, -30.0])
    result = x.logaddexp(y).numpy()
    expected = [10000.693359375, -INF, INF, 3.0, 9.357622968839299e-14]
    assert result == pytest.approx(expected, rel=1e-6)
    assert Tensor([-1e30, 1e30]).logsigmoid().tolist() == pytest.approx([-1e30, 0])
    assert Tensor([1, 0]).logaddexp(Tensor([1, 0])).dtype is dtypes.float32
    assert Tensor([3]).logsigmoid().item() == pytest.approx(-0.04858735)
    assert Tensor([1, 1], dtype="uint8").softmin().tolist() == [0.5, 0.5]
    assert Tensor([1.0, 2.0]).softmin(dtype="float64").dtype is dtypes.float64


def test_large_vectors_are_normalised() -> None:
    assert Tensor([[3e20, 4e20]]).normalize().tolist() == [pytest.approx([0.6, 0.8])]
    assert Tensor([[3, 4]]).normalize().tolist() == [pytest.approx([0.6, 0.8])]
    assert Tensor([[0.0, -0.0]]).normalize().tolist() == [[0.0, -0.0]]
    assert Tensor([3.0, -4.0], dtype="float16").normalize(dim=0).dtype is dtypes.float16
    assert Tensor(-5.0).normalize(dim=0).item() == -1
    assert Tensor.zeros(3, 0).normalize().shape == (3, 0)
    assert str(Tensor([[INF, 4.0]]).normalize().tolist()) == "[[nan, 0.0]]"
    for p in (0, 0.5, 1.5, 4, -1, -INF):
        x = drawn((3, 4), "float64", 7)
        check_equal(ours(x).normalize(p, 0), F.normalize(x, p, 0), 1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS)
def test_weighted_losses_are_those_of_torch(dtype: str) -> None:
    bce = F.binary_cross_entropy_with_logits
    for shape, weight in (((3, 4), (4,)), ((3, 4), (3, 1)), ((5,), ()), ((), ()), ((0, 2), (2,))):
        x, y = drawn(shape, dtype, 8), drawn(shape, dtype, 9).sigmoid()
        p = drawn(weight, dtype, 10).abs()
        for reduction in ("mean", "sum", "none"):
            result = ours(x).binary_crossentropy_logits(ours(y), reduction, ours(p))
            # Torch rounds each step of 16-bit floats.
            expected = bce(x.double(), y.double(), reduction=reduction, pos_weight=p.double())
            check_equal(result.cast("float64"), expected, 2 * ROUNDING[dtype])


def test_sure_losses_keep_their_digits() -> None:
    x, y = Tensor([30.0, -30.0, 200.0, -INF, INF]), Tensor([1.0, 0.0, 0.0, 1.0, 0.0])
    result = x.binary_crossentropy_logits(y, "none").tolist()
    assert result == pytest.approx([9.3576e-14, 9.3576e-14, 200.0, INF, INF], rel=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS)
def test_grouped_attention_is_that_of_torch(dtype: str) -> None:
    attention = F.scaled_dot_product_attention
    for q, k, v in (
        ((1, 4, 3, 2), (1, 2, 5, 2), (1, 2, 5, 3)),
        ((6, 3, 2), (3, 4, 2), (2, 4, 1)),
        ((2, 4, 3, 2), (2, 4, 3, 2), (2, 1, 3, 2)),
    ):
        operands = [drawn(shape, dtype, 11) for shape in (q, k, v)]
        for causal in (False, True):
            result = ours(operands[0]).scaled_dot_product_attention(
                *map(ours, operands[1:]), is_causal=causal, enable_gqa=True
            )
            expected = attention(*operands, is_causal=causal, enable_gqa=True)
            check_equal(result, expected, 4 * ROUNDING[dtype])


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_gradients_of_shared_operands_are_rounded_once(dtype: str, unit: float) -> None:
    """Terms that cancel show whether they were rounded before they were added."""
    attention = F.scaled_dot_product_attention
    x, y, q = drawn((40, 1), dtype, 12), drawn((5,), dtype, 13), drawn((8, 3, 2), dtype, 14)
    k, v = drawn((1, 3, 2), dtype, 15), drawn((1, 3, 2), dtype, 16)
    weights, more = drawn((40, 5), dtype, 17), drawn((8, 3, 2), dtype, 18)
    exact = [tensor.double().requires_grad_() for tensor in (x, k)]
    torch.logaddexp(exact[0], y.double()).backward(weights.double())
    attention(q.double(), exact[1], v.double(), enable_gqa=True).backward(more.double())
    shared = [ours(tensor).requires_grad_() for tensor in (x, k)]
    shared[0].logaddexp(ours(y)).backward(ours(weights))
    result = ours(q).scaled_dot_product_attention(shared[1], ours(v), enable_gqa=True)
    result.backward(ours(more))
    for mine, theirs in zip(shared, exact, strict=True):
        actual = elements(mine.grad).astype(np.float64)
        np.testing.assert_allclose(actual, elements(theirs.grad), rtol=1.01 * unit, atol=1e-5)


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


def test_functions_that_make_elements_of_their_own() -> None:
    x = Tensor(np.arange(9, dtype=np.int32).reshape(3, 3))
    for made in (x.diag(), x.roll(9), x.roll(1)):
        made += 100
    assert x.flatten().tolist() == list(range(9))


def test_places_are_an_index_and_are_read_at_once() -> None:
    x = Tensor([[0, 5], [7, 0]])
    assert x[x.nonzero(as_tuple=True)].tolist() == [5, 7]
    assert Tensor([NAN, -0.0]).nonzero().tolist() == [[0]]
    assert x.nonzero().dtype is dtypes.int32
    assert Tensor([1], device="PYTHON").nonzero().device == "PYTHON"
    assert Tensor([1, 0, 3], dtype="fp8e5m2").nonzero().tolist() == [[0], [2]]
    replayed = TinyJit(lambda x: x.nonzero())
    with pytest.raises(UserStateError, match="read"):
        list(map(replayed, [Tensor([1.0]).realize() for _ in range(3)]))


def test_closeness_is_a_bool_of_python() -> None:
    x = Tensor([1.0, 2.0])
    assert x.allclose(x + 1e-7) is True
    assert x.allclose(Tensor([1.0, 2.1]), atol=0.2) is True
    assert x.allclose(Tensor([1.0, 2.1])) is False
    assert x.allclose(Tensor([1.0, NAN])) is False
    assert Tensor([]).allclose(Tensor([])) is True
    assert Tensor([1.0]).allclose(1) is True
    assert Tensor([[1], [1]]).allclose(Tensor([1, 1])) is True
    replayed = TinyJit(lambda x: Tensor.ones(1) if x.allclose(1) else x)
    with pytest.raises(UserStateError, match="read"):
        list(map(replayed, [Tensor([1.0]).realize() for _ in range(3)]))


def test_unwritten_memory_like_a_tensor() -> None:
    x = Tensor([[1, 2]], dtype="int16", device="PYTHON")
    like = x.empty_like()
    assert (like.shape, like.dtype, like.device) == ((1, 2), dtypes.int16, "PYTHON")
    assert x.empty_like(dtype="float16", device="CPU:1").dtype is dtypes.float16
    parts = Tensor.zeros(4, 2).shard(("CPU:1", "CPU:2"), axis=0).empty_like()
    assert parts.device == ("CPU:1", "CPU:2")
    assert Tensor.zeros(0, 3).empty_like().numpy().shape == (0, 3)
    assert x.float().empty_like(requires_grad=True).requires_grad


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
