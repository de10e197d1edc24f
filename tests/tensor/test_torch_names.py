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
# Roundings that the functions may differ by, as a part of the result.
ROUNDING = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}


def drawn(shape: Sequence[int], dtype: str, seed: int) -> torch.Tensor:
    values = np.random.default_rng([seed, *shape]).normal(0, 3, shape)
    return torch.tensor(values).to(TORCH_DTYPES[getattr(dtypes, dtype)])


def ours(tensor: torch.Tensor) -> Tensor:
    return Tensor(from_torch(tensor))


def elements(value: object) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        return from_torch(value)
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def check_equal(result: object, expected: object, rounding: float) -> None:
    left, right = elements(result), elements(expected)
    assert (left.shape, left.dtype) == (right.shape, right.dtype)
    pair = left.astype(np.float64), right.astype(np.float64)
    np.testing.assert_allclose(*pair, rtol=rounding, atol=rounding / 2)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logarithms_of_powers_of_ten_are_integers(dtype: str) -> None:
    largest = {"float16": 4, "float64": 308}.get(dtype, 37)
    exponents = list(range(-largest + (dtype == "float64"), largest + 1))
    powers = Tensor(np.array([float(f"1e{exponent}") for exponent in exponents])).cast(dtype)
    assert powers.log10().tolist() == exponents


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_an_integer_remainder_by_zero_ends_no_program(device: str) -> None:
    for name in INTEGERS:
        x = Tensor([7, 1], dtype=name, device=device)
        assert x.fmod(Tensor([0, 0], dtype=name, device=device)).numpy().shape == (2,)


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
