"""Elements chosen by an index, from tensors to what a device reads: kernels, bytes and values."""

import numpy as np
import pytest

from tinyref import Tensor
from tinyref.dtype import dtypes
from tinyref.engine.accounting import estimate
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.schedule import schedule
from tinyref.uops.ops import Ops


def kernels_of(tensor):
    return [item.ast for item in schedule([(tensor.node, tensor.device)]).kernels]


def loops_of(ast):
    return sum(node.op is Ops.REDUCE for node in fold_ranges(ast).toposort())


def rows(table, places):
    """Written as what a gather is made of."""
    here = Tensor.arange(table.shape[0]) == places.unsqueeze(-1)
    return here.unsqueeze(-1).where(table, 0).sum(-2)


TABLE = np.arange(35, dtype=np.float32).reshape(7, 5)
PLACES = np.array([[3, 0, 6], [6, 6, 1]], np.int32)


def put(array):
    return Tensor(array).realize()


PROGRAMS = {
    "rows": (rows, lambda t, i: t[i]),
    "indexing": (lambda t, i: t[i], lambda t, i: t[i]),
    "computed index": (lambda t, i: rows(t, 6 - i), lambda t, i: t[6 - i]),
    "computed table": (lambda t, i: rows(t * 2 + 1, i), lambda t, i: t[i] * 2 + 1),
    "gather then add": (lambda t, i: rows(t, i) + 1, lambda t, i: t[i] + 1),
    "padding": (
        lambda t, i: rows(t, i).pad(((1, 0), (0, 2), (0, 0))),
        lambda t, i: np.pad(t[i], ((1, 0), (0, 2), (0, 0))),
    ),
    "two": (lambda t, i: rows(t, i) + rows(t, 6 - i), lambda t, i: t[i] + t[6 - i]),
    "of a gather": (
        lambda t, i: rows(rows(t, Tensor.arange(7) * 0 + 2), i),
        lambda t, i: t[i * 0 + 2],
    ),
}
REDUCED = {
    "sum": (lambda t, i: rows(t, i).sum(1), lambda t, i: t[i].sum(1)),
    "sum of all": (lambda t, i: rows(t, i).sum(), lambda t, i: t[i].sum()),
    "maximum": (lambda t, i: rows(t, i).max(-1), lambda t, i: t[i].max(-1)),
    "product": (
        lambda t, i: rows(t, i) @ Tensor(TABLE[:2].T.copy()),
        lambda t, i: t[i] @ TABLE[:2].T,
    ),
    "squares": (lambda t, i: rows(t, i).square().sum(-1), lambda t, i: (t[i] ** 2).sum(-1)),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *REDUCED])
def test_a_gather_is_one_kernel_without_a_loop_of_its_own(name):
    build, reference = {**PROGRAMS, **REDUCED}[name]
    result = build(put(TABLE), put(PLACES))
    kernels = kernels_of(result)
    assert len(kernels) == 1
    assert (loops_of(kernels[0]) > 0) == (name in REDUCED)
    np.testing.assert_array_equal(result.numpy(), reference(TABLE, PLACES))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_indices_of_other_types(dtype):
    places = put(PLACES.astype(dtype))
    result = (Tensor.arange(7).cast(dtype) == places.unsqueeze(-1)).unsqueeze(-1)
    result = result.where(put(TABLE), 0).sum(-2)
    assert [loops_of(ast) for ast in kernels_of(result)] == [0]
    np.testing.assert_array_equal(result.numpy(), TABLE[PLACES])


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.uint8])
def test_sums_in_a_wider_type_fold_too(dtype):
    table = put(TABLE).cast(dtype).realize()
    result = rows(table, put(PLACES))
    assert [loops_of(ast) for ast in kernels_of(result)] == [0]
    np.testing.assert_array_equal(result.cast("float32").numpy(), TABLE[PLACES])


def test_an_embedding_reads_only_its_rows():
    """The table of a language model, of which nothing is in memory: this is only planned."""
    table = Tensor.empty(50257, 768)
    (ast,) = kernels_of(rows(table, Tensor.empty(16, dtype=dtypes.int32)))
    assert estimate(ast).nbytes == 4 * (16 + 2 * 16 * 768)


def test_a_gather_of_few_results_from_a_long_axis_is_not_split():
    line = put(np.arange(100_000, dtype=np.float32))
    here = Tensor.arange(100_000) == put(np.array([[99_999], [5], [-1]], np.int32))
    result = here.where(line, 0).sum(-1)
    assert [loops_of(ast) for ast in kernels_of(result)] == [0]
    assert result.tolist() == [99_999, 5, 0]


def test_masks_and_ranges_take_no_memory():
    x = put(np.ones((4, 4), np.float32))
    lower = Tensor.arange(4).unsqueeze(-1) >= Tensor.arange(4)
    (ast,) = kernels_of(lower.where(x, 0) * Tensor.arange(4))
    assert sum(node.op is Ops.DEFINE_GLOBAL for node in ast.toposort()) == 2
    assert kernels_of(lower.where(x, 0).sum()) != []


def test_a_product_with_a_one_hot_of_floats_stays_a_product():
    """0 * inf is NaN, which a choice would not see."""
    table = put(np.array([[1.0], [np.inf], [2.0]], np.float32))
    hot = (Tensor.arange(3) == put(np.array([[0], [2]], np.int32))).cast("float32")
    result = hot @ table
    assert [loops_of(ast) for ast in kernels_of(result)] == [1]
    assert np.isnan(result.numpy()).all()


def test_a_product_with_a_one_hot_of_integers_is_a_choice():
    table = put(np.array([[1], [5], [2]], np.int32))
    hot = (Tensor.arange(3) == put(np.array([[0], [2]], np.int32))).cast("int32")
    result = hot @ table
    assert [loops_of(ast) for ast in kernels_of(result)] == [0]
    assert result.tolist() == [[1], [2]]
