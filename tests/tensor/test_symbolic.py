"""Symbolic shapes: values against numpy, one compilation for all bindings, and what is refused."""

import copy
import pickle

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, Variable
from tinyref.algebra.evaluate import value_of
from tinyref.errors import UserError, VerifyError
from tinyref.runtimes import kernel

WHOLE = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)


@pytest.fixture
def compiled(monkeypatch):
    """Count the newly compiled kernels."""
    kernel.forget_kernels()
    actual = []
    compile_kernel = kernel.compile_kernel

    def counted(ast, *args, **kwargs):
        actual.append(ast)
        return compile_kernel(ast, *args, **kwargs)

    monkeypatch.setattr(kernel, "compile_kernel", counted)
    return actual


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# An expression of a tensor x and a size n that numpy takes too, or one for each of both.
FORMS = (
    ("x.shrink(((0, 3), (0, n))) + 1", "x[:, :n] + 1"),
    "x[1:, n - 1 :] * 2",
    "x[0, n - 1 : n] * 2",
    "x[:, n - 1] * 2",
    "x[:, :n][:, -1:] * 2",
    "x[:, :n][:, -1] * 2",
    "x[:, :n][[2, 0], -1] + 1",
    "x.T[:n][None, :, 1] * 2",
    "x[:, :n].sum(1)",
    "x[:, :n].max(1)",
    ("x[:, :n].var(1, correction=0)", "x[:, :n].var(1)"),
    ("x[:, :n].softmax()", "softmax(x[:, :n])"),
    "x[:, :n] @ x[:, :n].T",
    "x[:, :n].T @ x[:, :n]",
    "x[:, :n].reshape(n * 3) * 2",
    ("x[:, :n].pad(((0, 0), (1, 8 - n))) + 1", "np.pad(x[:, :n], ((0, 0), (1, 8 - n))) + 1"),
    ("x[:, :n].cat(x, x[:, :n], dim=1) * 2", "np.concatenate([x[:, :n], x, x[:, :n]], 1) * 2"),
    ("Tensor.ones(3, n) + x[:, :n]", "x[:, :n] + 1"),
    "x[:, :n] * (n + 1) - n",
    ("Tensor.arange(n - 1, 2 * n, device=x.device) * 2", "np.arange(n - 1, 2 * n) * 2"),
    "x.reshape(3, 2, 4)[:, :, : (n + 1) // 2].sum(2)",
)


@pytest.mark.parametrize("device", ["CPU", pytest.param("PYTHON", marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_kernels_are_compiled_once_for_all_bindings(form, device, compiled):
    ours, theirs = (form, form) if isinstance(form, str) else form
    n = Variable("n", 1, 8)
    counts = []
    for size in (5, 1, 8, 3):
        names = {"x": Tensor(WHOLE, device=device).realize(), "n": n.bind(size), "Tensor": Tensor}
        actual = eval(ours, names).numpy()
        expected = eval(theirs, {"x": WHOLE, "n": size, "np": np, "softmax": softmax})
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        counts.append(len(compiled))
    assert counts[0] > 0
    assert len(set(counts)) == 1


def attention(cache_k, cache_v, query, key, value, position):
    """Make one step with a cache: write at a symbolic position, read all positions so far."""
    cache_k[:, position : position + 1] = key
    cache_v[:, position : position + 1] = value
    keys, values = cache_k[:, : position + 1], cache_v[:, : position + 1]
    scores = (query @ keys.transpose(1, 2) * 0.5).softmax()
    return (scores @ values).realize(cache_k, cache_v)


@pytest.mark.long
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("device", ["CPU", "CLANG"])
def test_attention_with_a_growing_cache(jit, device, compiled, needs_device):
    needs_device(device)
    length, width = 6, 4
    generator = np.random.default_rng(1)
    keys, values, queries = generator.normal(size=(3, length, 2, 1, width)).astype(np.float32)
    caches = [Tensor(np.zeros((2, length, width), np.float32), device=device) for _ in range(2)]
    Tensor.realize(*caches)
    position = Variable("position", 0, length - 1)

    def step(query, key, value, at):
        return attention(*caches, query, key, value, at)

    run = TinyJit(step) if jit else step
    counts = []
    for at in range(length):
        now = [Tensor(part[at], device=device) for part in (queries, keys, values)]
        actual = run(*now, position.bind(at)).numpy()
        seen_k, seen_v = (part[: at + 1, :, 0].transpose(1, 0, 2) for part in (keys, values))
        scores = softmax(queries[at] @ seen_k.transpose(0, 2, 1) * np.float32(0.5))
        np.testing.assert_allclose(actual, scores @ seen_v, rtol=1e-5, atol=1e-6)
        counts.append(len(compiled))
    # The second call captures, and computes before that whatever else waits in this process.
    assert len(set(counts[1:] if jit else counts)) == 1
    np.testing.assert_array_equal(caches[0].numpy(), keys[:, :, 0].transpose(1, 0, 2))


def test_sizes_are_computed_with():
    n = Variable("n", 2, 8).bind(6)
    assert n + 1 is 1 + n
    assert n - n == 0
    assert (n + 3) * 2 - 6 is n * 2
    assert (n * 4) // 4 is n
    assert (n * 4 + 3) % 4 == 3
    x = Tensor(np.arange(40.0)).reshape(5, 8)
    assert x[:, : n // 2].sum(0).numpy().shape == (3,)
    assert x[:, : 8 - n].sum(0).numpy().shape == (2,)
    assert x[:, : n % 4 + 1].sum(0).numpy().shape == (3,)
    assert value_of(n // (n - 2), {"n": 6}) == 1
    small = Variable("n", 2, 8).bind(2)
    with pytest.raises(UserError, match=r"n=2//\(n=2\+-2\): n is 2: accepted is n from 3 to 8"):
        small // (small - 2)
    # Rounded down, as Python does it: (3 - 6) // 2 is -2.
    assert value_of((3 - n) // 2, {"n": 6}) == -2
    with pytest.raises(UserError, match=r"is an integer or an index expression, got 1\.5"):
        n + 1.5


def test_two_variables_of_one_name_are_refused():
    x = Tensor(WHOLE)
    one, other = Variable("n", 1, 8).bind(3), Variable("n", 1, 4).bind(3)
    with pytest.raises(VerifyError, match=r"tensor.variable.1: .*maximum=8.*maximum=4"):
        (x[:, :one].sum() + x[:, :other].sum()).realize()


def test_an_element_of_a_symbolic_axis_is_written_and_has_a_gradient():
    n = Variable("n", 1, 8)
    for size in (3, 8, 1):
        x = Tensor(WHOLE).realize()
        part = x[:, : n.bind(size)]
        part[:, 0] = 5
        part[:, -1] = Tensor([7.0, 8.0, 9.0])
        expected = WHOLE.copy()
        expected[:, 0] = 5
        expected[:, size - 1] = [7, 8, 9]
        np.testing.assert_array_equal(x.numpy(), expected)
        leaf = Tensor(WHOLE, requires_grad=True)
        (leaf[:, : n.bind(size)][:, -1] * Tensor([1.0, 2.0, 3.0])).sum().backward()
        expected = np.zeros_like(WHOLE)
        expected[:, size - 1] = [1, 2, 3]
        np.testing.assert_array_equal(leaf.grad.numpy(), expected)


def test_sizes_are_shown_by_name():
    n = Variable("n", 1, 8)
    part = Tensor(WHOLE)[:, : n.bind(3)]
    assert str(part.shape) == "(3, n=3)"
    assert repr(n.node) == "n"
    assert repr(n.bind(2) * 2 + 1) == "n=2*2+1"
    assert str(part.T.reshape(-1).shape) == str((part.numel(),)) == "(n=3*3,)"
    with pytest.raises(UserError, match=r"triu: diagonal: got n=3, accepted"):
        Tensor(WHOLE).triu(n.bind(3))
    assert repr(part.node).startswith("UOp(SHRINK, float32, 1 sources")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_variables_and_sizes_are_pickled_and_copied(protocol):
    n = Variable("n", 1, 8)
    holder = {"n": n, "size": n.bind(3), "twice": n.bind(3) * 2 + 1}
    pickled = pickle.loads(pickle.dumps(holder, protocol))
    for copied in (pickled, copy.deepcopy(holder), copy.copy(holder)):
        assert repr(copied) == "{'n': Variable('n', 1, 8), 'size': n=3, 'twice': n=3*2+1}"
        x = Tensor(WHOLE)[:, : copied["size"]]
        # It is the same variable: one value serves both.
        assert (x + Tensor(WHOLE)[:, : n.bind(3)]).shape == x.shape
        np.testing.assert_array_equal((x[:, : copied["n"].bind(3)] * 2).numpy(), WHOLE[:, :3] * 2)


def test_sizes_that_may_be_zero():
    n = Variable("n", 0, 8)
    for size in (0, 3, 8):
        x = Tensor(WHOLE)[:, : n.bind(size)]
        np.testing.assert_allclose(x.sum(1).numpy(), WHOLE[:, :size].sum(1), rtol=1e-5)
        np.testing.assert_array_equal((x * 2).numpy(), WHOLE[:, :size] * 2)
        padded = x.pad(((0, 0), (1, 1)))[:, : n.bind(size) + 1]
        expected = np.pad(WHOLE[:, :size], ((0, 0), (1, 1)))[:, : size + 1]
        np.testing.assert_array_equal((padded * 2).numpy(), expected * 2)


def test_a_causal_mask_of_symbolic_size():
    n = Variable("n", 1, 8)
    x = Tensor(WHOLE.reshape(1, 1, 3, 8)).transpose(2, 3)
    for size in (2, 8, 5):
        part = x[:, :, : n.bind(size)]
        actual = part.scaled_dot_product_attention(part, part, is_causal=True).numpy()[0, 0]
        rows = WHOLE.T[:size]
        scores = np.where(np.tri(size, dtype=bool), rows @ rows.T / np.sqrt(3), -np.inf)
        np.testing.assert_allclose(actual, softmax(scores) @ rows, rtol=1e-4, atol=1e-5)


# --- one variable with several values ------------------------------------------------------------


def grown(wrap, views, weight):
    """Sum a cache that is written at one position after the other; hold views of it."""
    position = Variable("position", 0, 7)
    cache = Tensor.zeros(2, 8).contiguous().realize()

    def add(x, at):
        cache[:, at : at + 1] = x @ weight
        return (cache[:, : at + 1] * 2).sum()

    add = wrap(add)
    sums = []
    for number in range(5):
        at = position.bind(number)
        sums.append(add(Tensor([[number + 1.0], [2.0]]), at).item())
        views.append(cache[:, : at + 1])
    return sums, cache


@pytest.mark.parametrize(
    ("wrap", "needs_gradient"),
    [(lambda add: add, False), (lambda add: add, True), (TinyJit, False)],
)
def test_views_with_older_values_keep_their_sizes(wrap, needs_gradient):
    stored = []
    weight = Tensor([[3.0]], requires_grad=needs_gradient)
    sums, cache = grown(wrap, stored, weight)
    expected = np.array([[3.0, 6.0, 9.0, 12.0, 15.0, 0.0, 0.0, 0.0], [6.0] * 5 + [0.0] * 3])
    assert sums == [2 * expected[:, : number + 1].sum() for number in range(5)]
    np.testing.assert_array_equal(cache.numpy(), expected)
    for number, view in enumerate(stored):
        np.testing.assert_array_equal(view.numpy(), expected[:, : number + 1])


def test_two_values_that_meet_in_one_size_are_refused():
    base, size = Tensor.arange(8).contiguous().realize(), Variable("size", 1, 8)
    both = base[: size.bind(2)].cat(base[: size.bind(3)])
    with pytest.raises(UserError, match="variable size: bound to 2 and to 3"):
        both.sum().item()
    # Where fixed sizes meet, each part is computed with its own value.
    assert (base[: size.bind(2)].sum() + base[: size.bind(4)].sum()).item() == 7


def test_outputs_may_bind_one_variable_to_values_of_their_own() -> None:
    x = Tensor([[1, 2], [3, 4]])
    parts = [x[Variable("rows", 1, 2).bind(value) - 1 :] for value in (1, 2)]
    doubled = [part + part for part in parts]
    Tensor.realize(*doubled)
    assert [part[:1].tolist() for part in doubled] == [[[2, 4]], [[6, 8]]]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (lambda x: x.sum().item(), {1: 9, 2: 20, 3: 21}),
        (lambda x: (x + 1).tolist(), {1: [[1], [4], [7]], 2: [[4, 5], [7, 8]], 3: [[7, 8, 9]]}),
        (lambda x: x.reshape(-1).max().item(), {1: 6, 2: 7, 3: 8}),
    ],
    ids=["sum", "each", "flattened"],
)
@pytest.mark.parametrize(("low", "high"), [(1, 3), (0, 3), (0, 9)])
def test_two_sizes_whose_product_may_be_negative_for_other_values(low, high, form, expected):
    """(4 - n) * n elements: where n may be 0 or 9 it is not known that they are 0 or more."""
    n = Variable("n", low, high)
    x = Tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8]]).realize()
    assert {k: form(x[n.bind(k) - 1 :][:, : n.bind(k)]) for k in expected} == expected
    if low == 0:
        with pytest.raises(UserError, match="n is 0: accepted is n from 1 to"):
            form(x[n.bind(0) - 1 :])
    jitted = TinyJit(lambda x, k: (x[k - 1 :][:, :k] * 2).sum())
    doubled = [jitted(x, n.bind(k)).item() for k in (3, 2, 1, 2, 3)]
    assert doubled == [42, 40, 18, 40, 42]


def test_parts_that_would_all_have_to_be_first_are_refused_with_advice():
    """Write rows for one number each; what they add is overwritten in between."""
    size, row = Variable("size", 1, 3), Variable("row", 1, 2)
    x = (Tensor([[1, 2], [3, 4], [5, 6]]).realize() + 1)[: size.bind(2)].reshape(1, 4)
    added = Tensor([[10]])
    x[:, 3:] = added
    added.assign(20)
    y = (x + added).reshape(2, 2)
    for number in (1, 2):
        y[row.bind(number) - 1 : row.bind(number)] = Tensor([[number, number]])
    with pytest.raises(
        UserError, match=r"call realize\(\) on the tensors that it is computed from"
    ):
        y.realize()
    assert x.tolist() == [[2, 3, 4, 10]]
    # The refused assignment is undone, and can be made again.
    assert y.tolist() == [[1, 1], [24, 30]]
    y[row.bind(2) - 1 : row.bind(2)] = Tensor([[2, 2]])
    assert y.tolist() == [[1, 1], [2, 2]]
