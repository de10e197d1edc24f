"""Matrix products and sums of products: literals, and numpy as the second opinion."""

import numpy as np
import pytest

from tinyref import GlobalCounters, Tensor, dtypes


def whole_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Small integers as floats: their sums of products are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def test_matmul_accumulates_wide() -> None:
    column, row = Tensor([[1.0], [2.0]]), Tensor([[3.0, 4.0]])
    assert row.matmul(column, reverse=True).tolist() == [[3.0, 4.0], [6.0, 8.0]]
    ones = Tensor(np.ones((1, 4096), np.float16))
    assert (ones @ ones.T).item() == 4096.0
    big = Tensor(np.full((1, 2), 300, np.float16))
    # Each product, 90000, is beyond float16; their difference is not.
    assert (big @ Tensor(np.array([[300], [-300]], np.float16))).item() == 0.0
    assert (ones.cast("bfloat16") @ ones.cast("bfloat16").T).dtype is dtypes.bfloat16
    assert ones.matmul(ones.T, dtype="float32").dtype is dtypes.float32


def products(x: Tensor) -> dict[str, Tensor]:
    """The sum of the squares of a row of two, by each function that multiplies and adds."""
    flat = x.reshape(2)
    return {
        "@": x @ x.T,
        "dot": flat.dot(flat),
        "linear": x.linear(x.T),
        "einsum": Tensor.einsum("i,i->", flat, flat),
        "conv2d": x.reshape(1, 2, 1, 1).conv2d(x.reshape(1, 2, 1, 1)),
        "conv_transpose2d": x.reshape(1, 2, 1, 1).conv_transpose2d(x.reshape(2, 1, 1, 1)),
    }


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_products_of_integers_are_of_their_type(device: str) -> None:
    """20,000 is 32 modulo 256, and 5,000,000,000 is 705,032,704 modulo 2**32."""
    for name, found in products(Tensor([[100, 100]], dtype="int8", device=device)).items():
        assert (name, found.dtype, found.item()) == (name, dtypes.int8, 32)
    for name, found in products(Tensor([[100, 100]], dtype="uint8", device=device)).items():
        assert (name, found.dtype, found.item()) == (name, dtypes.uint8, 32)
    for name, found in products(Tensor([[50_000, 50_000]], device=device)).items():
        assert (name, found.dtype, found.item()) == (name, dtypes.int32, 705_032_704)
    for name, found in products(Tensor([[True, True]], device=device)).items():
        assert (name, found.dtype, found.item()) == (name, dtypes.bool, True)
    mixed = Tensor([[100]], dtype="int8") @ Tensor([[200]], dtype="uint8")
    assert (mixed.dtype, mixed.item()) == (dtypes.int16, 20_000)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ii", [(3, 3)]),
        ("iji->j", [(3, 2, 3)]),
        ("iii->i", [(2, 2, 2)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (1, 3, 4)]),
        ("b...j,j...->...b", [(2, 4, 3), (3, 4)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("Ab,bA", [(2, 3), (3, 2)]),
        ("ba", [(2, 3)]),
        (" i j -> ", [(2, 3)]),
        (",->", [(), ()]),
        ("ij,ij,ij->i", [(2, 3), (1, 3), (2, 1)]),
        ("ij,jk,kl,lm,mn->in", [(2, 3), (3, 4), (4, 5), (5, 2), (2, 2)]),
        ("...i,...i", [(2, 3), (4, 2, 3)]),
        ("i...->...", [(2, 3, 4)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]),
    ],
)
def test_einsum_agrees_with_numpy(formula: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [whole_numbers(*shape, seed=number) for number, shape in enumerate(shapes)]
    operands = [Tensor(array) for array in arrays]
    # numpy sums over an ellipsis that is not in the result only where it is asked by letters.
    wanted = np.einsum(formula, *arrays)
    for found in (Tensor.einsum(formula, *operands), Tensor.einsum(formula, operands)):
        assert found.shape == wanted.shape
        assert (found.numpy() == wanted).all()


def test_einsum_sums_an_ellipsis_that_the_result_does_not_have() -> None:
    assert Tensor.einsum("...i->i", Tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [4.0, 6.0]


def test_einsum_multiplies_the_smallest_products_first() -> None:
    """(1, 50) (50, 50) (50, 1): 2,600 products by pairs of neighbours, 125,000 all at once."""
    ones = [Tensor(np.ones(shape, np.float32)) for shape in ((1, 50), (50, 50), (50, 1))]
    kernels, operations = GlobalCounters.kernel_count, GlobalCounters.global_ops
    assert Tensor.einsum("ij,jk,kl->il", *ones).item() == 2500
    assert GlobalCounters.kernel_count - kernels == 2
    assert GlobalCounters.global_ops - operations < 10_000
