"""Losses, norms, attention, dropout and the training switch: literals, and what goes wrong."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from tinyref import Tensor, dtypes
from tinyref.errors import UserError

INF = math.inf


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Losses


def test_classes_that_do_not_exist_give_nan() -> None:
    logits = Tensor(numbers(3, 4))
    actual = logits.cross_entropy(Tensor([4, 1, -1]), "none").tolist()
    assert [math.isnan(loss) for loss in actual] == [True, False, True]
    actual = logits.nll_loss(Tensor([4, 1, -1]), reduction="none").tolist()
    assert [math.isnan(loss) for loss in actual] == [True, False, True]
    # Unless they are ignored.
    actual = logits.nll_loss(Tensor([-100, 1, -100]), ignore_index=-100, reduction="none").tolist()
    assert actual[0] == actual[2] == 0.0
    actual = logits.sparse_categorical_crossentropy(Tensor([-1, 1, -1]), reduction="none")
    assert actual.tolist()[0] == 0.0
    assert actual.tolist()[1] > 0


def test_ignored_classes_have_no_gradient() -> None:
    logits = Tensor(numbers(3, 4), requires_grad=True)
    logits.sparse_categorical_crossentropy(Tensor([-1, 1, -1])).backward()
    assert logits.grad is not None
    actual = logits.grad.numpy()
    assert (actual[[0, 2]] == 0).all()
    assert actual[1].sum() == pytest.approx(0, abs=1e-6)


def test_losses_of_masked_and_extreme_logits() -> None:
    masked = Tensor([[0.0, -math.inf, 0.0]], requires_grad=True)
    loss = masked.cross_entropy(Tensor([0]))
    assert loss.item() == pytest.approx(math.log(2))
    assert loss.gradient(masked)[0].tolist() == [[pytest.approx(-0.5), 0.0, pytest.approx(0.5)]]
    wide = Tensor([1e4, -1e4, 0.0], requires_grad=True)
    binary = wide.binary_crossentropy_logits(Tensor([0.0, 1.0, 0.5]), "none")
    assert binary.tolist() == pytest.approx([1e4, 1e4, math.log(2)])
    assert binary.sum().gradient(wide)[0].tolist() == [1.0, -1.0, 0.0]


def test_binary_crossentropy_of_sure_probabilities() -> None:
    """Limit the logarithm as torch does: a certain mistake costs 100, and has no gradient."""
    sure = Tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    losses = sure.binary_crossentropy(Tensor([0.0, 1.0, 1.0, 0.0]), "none")
    assert losses.tolist() == [0.0, 0.0, 100.0, 100.0]
    assert np.isfinite(losses.sum().gradient(sure)[0].numpy()).all()


def test_reductions_of_nothing() -> None:
    nothing, classes = Tensor.zeros(0, 3), Tensor([], dtype="int32")
    assert nothing.cross_entropy(classes, "none").tolist() == []
    assert nothing.cross_entropy(classes, "sum").item() == 0
    assert math.isnan(nothing.cross_entropy(classes).item())
    ignored = Tensor(numbers(2, 3)).nll_loss(Tensor([1, 1]), ignore_index=1)
    assert math.isnan(ignored.item())


# Norms


def test_norms_over_other_axes_and_of_other_types() -> None:
    assert Tensor([[1, 3], [5, 7]]).layernorm((0, 1), eps=0).shape == (2, 2)
    assert Tensor([1, 3]).layernorm().dtype is dtypes.float32
    big = Tensor(np.array([60000, 60002], np.float16)).layernorm()
    assert (big.dtype, np.isfinite(big.numpy()).all()) == (dtypes.float16, True)
    image = Tensor([[[1.0, 2.0], [3.0, 4.0]]])
    last = image.batchnorm(None, None, Tensor([1.0, 3.0]), Tensor([2.0, 1.0]), axis=-1)
    assert last.tolist() == [[[0.0, -1.0], [4.0, 1.0]]]
    both = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert image.batchnorm(None, None, both, both, axis=(1, 2)).tolist() == [[[0.0] * 2] * 2]


# Attention


def test_a_query_that_sees_nothing_gives_zeros() -> None:
    q, k, v = (numbers(*shape) for shape in ((2, 3), (4, 3), (4, 2)))
    mask = np.array([[True, False, True, True], [False] * 4])
    queries = Tensor(q, requires_grad=True)
    ours = queries.scaled_dot_product_attention(Tensor(k), Tensor(v), Tensor(mask))
    theirs = functional.scaled_dot_product_attention(*map(torch.tensor, (q, k, v, mask)))
    assert (ours[1] == 0).all().item()
    assert np.allclose(ours.numpy(), theirs.numpy(), atol=1e-6)
    assert np.isfinite(ours.sum().gradient(queries)[0].numpy()).all()
    added = Tensor(np.where(mask, 0, -np.inf).astype(np.float32))
    result = queries.scaled_dot_product_attention(Tensor(k), Tensor(v), added)
    assert np.allclose(result[0].numpy(), theirs[0].numpy(), atol=1e-6)


def test_attention_of_half_floats_sums_in_float32() -> None:
    """64 scores of 60000 are beyond float16 before they are scaled."""
    big = np.full((1, 2, 64), 30, np.float16)
    ours = Tensor(big).scaled_dot_product_attention(Tensor(big * 40), Tensor(big))
    assert ours.dtype is dtypes.float16
    assert ours.tolist()[0][0][0] == 30.0


# Dropout and the switch


def test_dropout_keeps_the_mean_and_its_gradient_has_the_same_mask() -> None:
    Tensor.manual_seed(3)
    ones = Tensor(np.ones(40_000, np.float32), requires_grad=True)
    with Tensor.train():
        actual = ones.dropout(0.25)
    gradient = actual.sum().gradient(ones)[0].numpy()
    values = actual.numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    # 40,000 trials have a deviation of 0.0022; five of them are never seen.
    assert abs((values == 0).mean() - 0.25) < 0.011
    assert (gradient == values).all()


def test_attention_drops_weights_in_training_alone() -> None:
    q = Tensor(numbers(1, 2, 4))
    plain = q.scaled_dot_product_attention(q, q)
    assert (q.scaled_dot_product_attention(q, q, dropout_p=1.0).numpy() == plain.numpy()).all()
    with Tensor.train():
        dropped = q.scaled_dot_product_attention(q, q, dropout_p=1.0)
    assert (dropped.numpy() == 0).all()


def test_a_training_switch_that_is_no_bool_is_refused_by_the_next_block_or_op() -> None:
    with Tensor.test():
        Tensor.training = "yes"
        with pytest.raises(UserError, match="'yes'"):
            Tensor([1.0]).dropout()
    assert Tensor.training is False


def test_training_is_a_switch() -> None:
    assert Tensor.training is False
    with Tensor.train():
        assert Tensor.training is True
        assert Tensor([1.0]).training is True
        with Tensor.train(False):
            assert Tensor.training is False
            Tensor.training = True  # for the rest of the block
            assert Tensor.training is True
        assert Tensor.training is True
        for mode in (True, False):
            with Tensor.test(mode):
                assert Tensor.training is True
    assert Tensor.training is False


def test_large_vectors_are_normalised() -> None:
    assert Tensor([[3e20, 4e20]]).normalize().tolist() == [pytest.approx([0.6, 0.8])]
    assert Tensor([[3, 4]]).normalize().tolist() == [pytest.approx([0.6, 0.8])]
    assert Tensor([[0.0, -0.0]]).normalize().tolist() == [[0.0, -0.0]]
    assert Tensor([3.0, -4.0], dtype="float16").normalize(dim=0).dtype is dtypes.float16
    assert Tensor(-5.0).normalize(dim=0).item() == -1
    assert Tensor.zeros(3, 0).normalize().shape == (3, 0)
    assert str(Tensor([[INF, 4.0]]).normalize().tolist()) == "[[nan, 0.0]]"


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_gradients_of_shared_operands_are_rounded_once(dtype: str, unit: float) -> None:
    """Use terms that cancel: they show a rounding before the addition."""
    shapes = {"x": (40, 1), "y": (5,), "q": (8, 3, 2), "k": (1, 3, 2), "v": (1, 3, 2)}
    shapes |= {"weights": (40, 5), "more": (8, 3, 2)}
    ours = {
        name: (Tensor(numbers(*shape, seed=seed)) * 3).cast(dtype).realize().requires_grad_()
        for seed, (name, shape) in enumerate(shapes.items())
    }
    exact = {
        name: torch.tensor(part.cast("float64").numpy(), requires_grad=True)
        for name, part in ours.items()
    }
    total = torch.logaddexp(exact["x"], exact["y"]) * exact["weights"]
    result = functional.scaled_dot_product_attention(
        exact["q"], exact["k"], exact["v"], enable_gqa=True
    )
    (total.sum() + (result * exact["more"]).sum()).backward()
    ours["x"].logaddexp(ours["y"]).backward(ours["weights"])
    q, k, v = (ours[name] for name in "qkv")
    q.scaled_dot_product_attention(k, v, enable_gqa=True).backward(ours["more"])
    for name in "xk":
        actual = ours[name].grad.cast("float64").numpy()
        np.testing.assert_allclose(actual, exact[name].grad, rtol=1.01 * unit, atol=1e-5)
