"""Losses, norms, attention, dropout and the training switch: literals, and what goes wrong."""

import math
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from refusals import check_refusal

from tinyref import Tensor, Variable, dtypes


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Losses


def test_cross_entropy_by_hand() -> None:
    even = Tensor([[0.0, 0.0], [0.0, 0.0]])
    classes = Tensor([0, 1])
    half = math.log(2)
    assert even.cross_entropy(classes).item() == pytest.approx(half)
    assert even.cross_entropy(classes, "sum").item() == pytest.approx(2 * half)
    assert even.cross_entropy(classes, "none").tolist() == pytest.approx([half, half])
    assert even.cross_entropy(Tensor([[1.0, 0.0], [0.5, 0.5]])).item() == pytest.approx(half)
    one = Tensor([1.0, 1.0, 1.0]).cross_entropy(Tensor(2))
    assert one.shape == ()
    assert one.item() == pytest.approx(math.log(3))
    assert even.half().cross_entropy(classes).dtype is dtypes.float16


def test_classes_that_do_not_exist_give_nan() -> None:
    logits = Tensor(numbers(3, 4))
    found = logits.cross_entropy(Tensor([4, 1, -1]), "none").tolist()
    assert [math.isnan(loss) for loss in found] == [True, False, True]
    found = logits.nll_loss(Tensor([4, 1, -1]), reduction="none").tolist()
    assert [math.isnan(loss) for loss in found] == [True, False, True]
    # Unless they are ignored.
    found = logits.nll_loss(Tensor([-100, 1, -100]), ignore_index=-100, reduction="none").tolist()
    assert found[0] == found[2] == 0.0
    found = logits.sparse_categorical_crossentropy(Tensor([-1, 1, -1]), reduction="none")
    assert found.tolist()[0] == 0.0
    assert found.tolist()[1] > 0


def test_ignored_classes_have_no_gradient() -> None:
    logits = Tensor(numbers(3, 4), requires_grad=True)
    logits.sparse_categorical_crossentropy(Tensor([-1, 1, -1])).backward()
    assert logits.grad is not None
    found = logits.grad.numpy()
    assert (found[[0, 2]] == 0).all()
    assert found[1].sum() == pytest.approx(0, abs=1e-6)


def test_losses_of_extreme_logits() -> None:
    logits = Tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]])
    assert logits.cross_entropy(Tensor([0, 1]), "none").tolist() == pytest.approx([0, math.log(2)])
    assert logits.cross_entropy(Tensor([1, 0]), "none").tolist() == pytest.approx(
        [2e4, 2e4 + math.log(2)]
    )
    masked = Tensor([[0.0, -math.inf, 0.0]], requires_grad=True)
    loss = masked.cross_entropy(Tensor([0]))
    assert loss.item() == pytest.approx(math.log(2))
    assert loss.gradient(masked)[0].tolist() == [[pytest.approx(-0.5), 0.0, pytest.approx(0.5)]]
    wide = Tensor([1e4, -1e4, 0.0], requires_grad=True)
    binary = wide.binary_crossentropy_logits(Tensor([0.0, 1.0, 0.5]), "none")
    assert binary.tolist() == pytest.approx([1e4, 1e4, math.log(2)])
    assert binary.sum().gradient(wide)[0].tolist() == [1.0, -1.0, 0.0]


def test_binary_crossentropy_of_sure_probabilities() -> None:
    """The logarithm is limited, as torch limits it: a sure mistake costs 100, and no gradient."""
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


def test_layernorm_by_hand() -> None:
    assert Tensor([1.0, 3.0]).layernorm(eps=0).tolist() == [-1.0, 1.0]
    assert Tensor([[1, 3], [5, 7]]).layernorm((0, 1), eps=0).shape == (2, 2)
    assert Tensor([1, 3]).layernorm().dtype is dtypes.float32
    assert Tensor([2.0, 2.0]).layernorm().tolist() == [0.0, 0.0]
    big = Tensor(np.array([60000, 60002], np.float16)).layernorm()
    assert big.dtype is dtypes.float16
    assert np.isfinite(big.numpy()).all()


def test_batchnorm_by_hand() -> None:
    image = Tensor([[[1.0, 2.0], [3.0, 4.0]]])
    mean, scale = Tensor([1.0, 3.0]), Tensor([2.0, 1.0])
    assert image.batchnorm(None, None, mean, scale).tolist() == [[[0.0, 2.0], [0.0, 1.0]]]
    affine = image.batchnorm(Tensor([1.0, 10.0]), Tensor([0.0, 5.0]), mean, scale)
    assert affine.tolist() == [[[0.0, 2.0], [5.0, 15.0]]]
    last = image.batchnorm(None, None, mean, scale, axis=-1)
    assert last.tolist() == [[[0.0, -1.0], [4.0, 1.0]]]
    both = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert image.batchnorm(None, None, both, both, axis=(1, 2)).tolist() == [[[0.0] * 2] * 2]
    assert image.half().batchnorm(None, None, mean, scale).dtype is dtypes.float16


# Attention


def attended(*tensors: np.ndarray, **settings: object) -> tuple[np.ndarray, np.ndarray]:
    """Ours and torch's."""
    ours = Tensor(tensors[0]).scaled_dot_product_attention(
        *map(Tensor, tensors[1:3]),
        **{key: Tensor(v) if isinstance(v, np.ndarray) else v for key, v in settings.items()},
    )
    theirs = functional.scaled_dot_product_attention(
        *map(torch.tensor, tensors),
        **{key: torch.tensor(v) if isinstance(v, np.ndarray) else v for key, v in settings.items()},
    )
    return ours.numpy(), theirs.numpy()


def test_a_query_that_sees_nothing_gives_zeros() -> None:
    q, k, v = numbers(2, 3), numbers(4, 3, seed=1), numbers(4, 2, seed=2)
    mask = np.array([[True, False, True, True], [False] * 4])
    ours, theirs = attended(q[None], k[None], v[None], attn_mask=mask)
    assert (ours[0, 1] == 0).all()
    assert (theirs[0, 1] == 0).all()
    assert np.allclose(ours, theirs, atol=1e-6)
    queries = Tensor(q, requires_grad=True)
    found = queries.scaled_dot_product_attention(Tensor(k), Tensor(v), Tensor(mask))
    assert np.isfinite(found.sum().gradient(queries)[0].numpy()).all()
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    ours, theirs = attended(q[None], k[None], v[None], attn_mask=added)
    assert np.allclose(ours, theirs, atol=1e-6)


def test_attention_of_half_floats_sums_in_float32() -> None:
    """64 scores of 60000 are beyond float16 before they are scaled."""
    big = np.full((1, 2, 64), 30, np.float16)
    ours = Tensor(big).scaled_dot_product_attention(Tensor(big * 40), Tensor(big))
    assert ours.dtype is dtypes.float16
    assert ours.tolist()[0][0][0] == 30.0


def test_attention_of_a_growing_cache() -> None:
    cache, query = numbers(1, 8, 4), numbers(1, 1, 4, seed=1)
    stored = Tensor(cache).realize()
    for count in (1, 5):
        keys = stored.shrink((None, (0, Variable("n", 1, 8).bind(count)), None))
        ours = Tensor(query).scaled_dot_product_attention(keys, keys).numpy()
        part = torch.tensor(cache[:, :count])
        theirs = functional.scaled_dot_product_attention(torch.tensor(query), part, part)
        assert np.allclose(ours, theirs.numpy(), atol=1e-6)


# Dropout and the switch


def test_dropout_keeps_the_mean_and_its_gradient_has_the_same_mask() -> None:
    Tensor.manual_seed(3)
    ones = Tensor(np.ones(40_000, np.float32), requires_grad=True)
    with Tensor.train():
        found = ones.dropout(0.25)
    gradient = found.sum().gradient(ones)[0].numpy()
    values = found.numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    # 40,000 trials have a deviation of 0.0022; five of them are never seen.
    assert abs((values == 0).mean() - 0.25) < 0.011
    assert (gradient == values).all()


def test_dropout_draws_anew_each_time() -> None:
    ones = Tensor(np.ones(64, np.float32))
    with Tensor.train():
        first, second = ones.dropout().numpy(), ones.dropout().numpy()
    assert (first != second).any()


def test_attention_drops_weights_in_training_alone() -> None:
    q = Tensor(numbers(1, 2, 4))
    plain = q.scaled_dot_product_attention(q, q)
    assert (q.scaled_dot_product_attention(q, q, dropout_p=1.0).numpy() == plain.numpy()).all()
    with Tensor.train():
        dropped = q.scaled_dot_product_attention(q, q, dropout_p=1.0)
    assert (dropped.numpy() == 0).all()


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


def test_training_set_without_a_block_holds_everywhere() -> None:
    seen: list[bool] = []
    Tensor.training = True
    try:
        thread = threading.Thread(target=lambda: seen.append(Tensor.training))
        thread.start()
        thread.join()
        with Tensor.train(False):
            assert Tensor.training is False
        assert Tensor.training is True
    finally:
        Tensor.training = False
    assert seen == [True]


def test_a_function_may_be_for_training() -> None:
    @Tensor.train()
    def step(depth: int) -> list[bool]:
        return [Tensor.training] + (step(depth - 1) if depth else [])

    assert step(2) == [True] * 3
    assert Tensor.training is False
    with pytest.raises(ZeroDivisionError), Tensor.train():
        raise ZeroDivisionError
    assert Tensor.training is False


def test_sequential() -> None:
    layers = [Tensor.relu, lambda x: x + 1, Tensor.sum]
    assert Tensor([-1.0, 2.0]).sequential(layers).item() == 4.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: x.cross_entropy(Tensor([0, 1]), "avg"), ["'avg'", "'mean', 'sum', 'none'"]),
        (lambda x: x.cross_entropy(Tensor([0])), ["cross_entropy", "(1,)", "(2,)"]),
        (lambda x: x.cross_entropy(Tensor([0.0, 1.0])), ["(2, 3)", "(2,)"]),
        (lambda x: x.cross_entropy([0, 1]), ["cross_entropy", "list", "Tensor"]),
        (lambda x: x.cross_entropy(Tensor([0, 1]), label_smoothing=2), ["label_smoothing 2"]),
        (lambda x: Tensor(1.0).cross_entropy(Tensor(0)), ["without axes"]),
        (lambda x: x.nll_loss(Tensor([0.0, 1.0])), ["nll_loss", "float32", "integers"]),
        (lambda x: x.nll_loss(Tensor([0, 1]), weight=Tensor([1.0])), ["(1,)", "3 classes"]),
        (lambda x: x.sparse_categorical_crossentropy(Tensor([0])), ["(1,)", "(2,)"]),
        (lambda x: x.binary_crossentropy(x[0]), ["(2, 3)", "(3,)", "equal"]),
        (lambda x: x.binary_crossentropy_logits(x[0]), ["(2, 3)", "(3,)", "equal"]),
        (lambda x: x.layernorm(2), ["layernorm", "axis 2"]),
        (lambda x: x.batchnorm(None, None, x[0], x[:, 0]), ["invstd", "(2,)", "(3,)"]),
        (lambda x: x.batchnorm(1.0, None, x[0], x[0]), ["weight", "float"]),
        (lambda x: x.dropout(2), ["dropout: p 2", "0 to 1"]),
        (lambda x: x.int().dropout(), ["dropout", "int32", "floats"]),
        (lambda x: x.sequential([1]), ["sequential", "item 0", "int"]),
        (lambda x: x.sequential(1), ["sequential", "ll", "int", "list"]),
        (lambda x: Tensor.train(1), ["train", "mode 1"]),
        (lambda x: Tensor.test(0), ["test", "mode 0"]),
        (lambda x: (setattr(Tensor, "no_grad", 1), x + 1), ["no_grad: 1", "True and False"]),
        (lambda x: Tensor.no_grad(True), ["no_grad: True", "function"]),
        (lambda x: Tensor.test()(Tensor), ["test: Tensor", "function"]),
        (lambda x: (setattr(Tensor, "training", "yes"), x.dropout()), ["training", "'yes'"]),
        (
            lambda x: x.scaled_dot_product_attention(x, x, x > 0, is_causal=True),
            ["attn_mask and is_causal"],
        ),
        (lambda x: x.scaled_dot_product_attention(x.T, x), ["(2, 3)", "(3, 2)", "last axes"]),
        (lambda x: x.scaled_dot_product_attention(x, x[:1]), ["(2, 3)", "(1, 3)", "as many"]),
        (lambda x: x.scaled_dot_product_attention(x, x, x.int()), ["int32", "bool"]),
        (lambda x: x[0].scaled_dot_product_attention(x, x), ["(3,)"]),
    ],
)
def test_errors_name_the_argument(make: Callable[..., object], words: list[str]) -> None:
    check_refusal(words, make, Tensor(numbers(2, 3)))
