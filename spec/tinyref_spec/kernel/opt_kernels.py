"""The kernels that optimisations are checked on, each with its data and what it must give.

Data are small integers, so that every result is exact in every dtype whatever the order of a sum;
expected values are numpy's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.bits import Array
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.kernel import gathers
from tinyref_spec.kernel.padded_terms import OTHER_BEYOND, ZERO_BEYOND, Terms, values
from tinyref_spec.kernels import named
from tinyref_spec.kernels.named import (
    add_in_place,
    elementwise,
    maximum_minus_sum,
    multiplied,
    padded_sum,
    reduced_view,
    reduction,
    sum_and_maximum,
    sum_of_maxima,
    transposed,
)
from tinyref_spec.kernels.notation import (
    kernel_of,
    largest,
    left,
    load,
    right,
    shaped,
    store,
    total,
)


@dataclass(frozen=True)
class Subject:
    """A kernel, the contents of its slots (None for an output), and its outputs in order."""

    kernel: UOp
    inputs: list[Array | None]
    expected: list[Array]
    bindings: Mapping[str, int] = field(default_factory=dict)


Form = Callable[[DType], Subject]


def sample_values(dtype: DType, *shape: int, seed: int = 1, limit: int = 3) -> Array:
    """Small integers, and where the type is an integer extreme ones among them."""
    count = int(np.prod(shape))
    return small_and_extreme(dtype, count, seed, limit).reshape(shape)


def _plus(dtype: DType, x: UOp, y: UOp) -> UOp:
    return build.either(x, y) if dtype.is_bool else build.add(x, y)


def as_dtype(dtype: DType, values: Array) -> Array:
    """`values` as a buffer of `dtype` has them; integers wrap."""
    return np.ascontiguousarray(values.astype(numpy_dtype(dtype)))


# --- without reduces ------------------------------------------------------------------------------


def add(dtype: DType) -> Subject:
    """out[i] = x[i] + y[i]: axis global 24. Of bools it is OR."""
    x, y = sample_values(dtype, 24), sample_values(dtype, 24, seed=2)
    kernel = elementwise(functools.partial(_plus, dtype), (dtype, dtype), 24)
    return Subject(kernel, [None, x, y], [as_dtype(dtype, x + y)])


def transpose(dtype: DType) -> Subject:
    """out[i, j] = x[j, i]: axes global 6, global 8."""
    x = sample_values(dtype, 8, 6)
    return Subject(transposed(dtype, 6, 8), [None, x], [as_dtype(dtype, x.T)])


def prime(dtype: DType) -> Subject:
    """out[i, j] = x[j, i] of primes: axes global 7, global 13."""
    x = sample_values(dtype, 13, 7)
    return Subject(transposed(dtype, 7, 13), [None, x], [as_dtype(dtype, x.T)])


def outer(dtype: DType) -> Subject:
    """out[i, j] = a[i] * b[j]: axes global 8, global 12."""
    a, b = sample_values(dtype, 8), sample_values(dtype, 12, seed=2)
    column = load(1, dtype, shaped(8, 1).expand((8, 12)))
    row = load(2, dtype, shaped(1, 12).expand((8, 12)))
    kernel = kernel_of(build.mul(column, row), 8, 12)
    return Subject(kernel, [None, a, b], [as_dtype(dtype, np.outer(a, b))])


def padded(dtype: DType) -> Subject:
    """out = x padded by masks, plus 1: axes global 8, global 8."""
    x = sample_values(dtype, 5, 6)
    value = load(1, dtype, shaped(5, 6).pad(((1, 2), (0, 2))))
    expected = np.pad(x, ((1, 2), (0, 2))) + 1
    return Subject(kernel_of(build.add(value, 1), 8, 8), [None, x], [as_dtype(dtype, expected)])


def multi_view(dtype: DType) -> Subject:
    """out = a flattened transpose in rows of 12, plus a row: axes global 8, global 12."""
    x, row = sample_values(dtype, 6, 16), sample_values(dtype, 12, seed=2)
    view = shaped(6, 16).permute((1, 0)).reshape((8, 12))
    value = build.add(load(1, dtype, view), load(2, dtype, shaped(1, 12).expand((8, 12))))
    expected = x.T.reshape(8, 12) + row
    return Subject(kernel_of(value, 8, 12), [None, x, row], [as_dtype(dtype, expected)])


def two_outputs(dtype: DType) -> Subject:
    """out0 = x + 1 and out1 = x * 2: axis global 24."""
    x = sample_values(dtype, 24)
    value = load(2, dtype, (24,))
    kernel = build.sink(store(0, build.add(value, 1), (24,)), store(1, build.mul(value, 2), (24,)))
    return Subject(kernel, [None, None, x], [as_dtype(dtype, x + 1), as_dtype(dtype, x * 2)])


def smaller_output(dtype: DType) -> Subject:
    """out0[i, j] = r[i] + c[j] and out1[i] = r[i] * 2 in one kernel: axes global 6, global 8."""
    rows, columns = sample_values(dtype, 6), sample_values(dtype, 8, seed=2)
    r = load(2, dtype, (6, 1))
    wide = load(2, dtype, shaped(6, 1).expand((6, 8)))
    c = load(3, dtype, shaped(1, 8).expand((6, 8)))
    kernel = build.sink(store(0, build.add(wide, c), (6, 8)), store(1, build.mul(r, 2), (6, 1)))
    expected = [as_dtype(dtype, rows[:, None] + columns), as_dtype(dtype, rows * 2)]
    return Subject(kernel, [None, None, rows, columns], expected)


def in_place(dtype: DType) -> Subject:
    """out[i] += x[i]: axis global 24."""
    old, x = sample_values(dtype, 24, seed=3), sample_values(dtype, 24)
    return Subject(add_in_place(dtype, 24), [old, x], [as_dtype(dtype, old + x)])


def symbolic_rows(dtype: DType) -> Subject:
    """out[i, j] = x[i, j] + b[j] for i < n: axes global n, global 8."""
    extent, value = build.variable("n", 1, 16), 11
    old, x, b = (
        sample_values(dtype, 16, 8, seed=3),
        sample_values(dtype, 16, 8),
        sample_values(dtype, 8, seed=2),
    )
    row = load(2, dtype, shaped(1, 8).expand((extent, 8)))
    kernel = kernel_of(build.add(load(1, dtype, (extent, 8)), row), extent, 8)
    expected = old.copy()
    expected[:value] = x[:value] + b
    return Subject(kernel, [old, x, b], [as_dtype(dtype, expected)], {"n": value})


# --- with reduces ---------------------------------------------------------------------------------


def row_sum(dtype: DType) -> Subject:
    """out[i] = sum_k x[i, k]: axes global 6, reduce 16."""
    x = sample_values(dtype, 6, 16)
    return Subject(reduction(Ops.ADD, dtype, (6, 16), 1), [None, x], [as_dtype(dtype, x.sum(1))])


def column_sum(dtype: DType) -> Subject:
    """out[j] = sum_k x[k, j]: axes global 8, reduce 12."""
    x = sample_values(dtype, 12, 8)
    return Subject(reduction(Ops.ADD, dtype, (12, 8), 0), [None, x], [as_dtype(dtype, x.sum(0))])


def all_sum(dtype: DType) -> Subject:
    """out = sum_k x[k]: axis reduce 64."""
    x = sample_values(dtype, 64)
    kernel = reduction(Ops.ADD, dtype, (64,), 0)
    return Subject(kernel, [None, x], [as_dtype(dtype, x.sum(keepdims=True))])


def prime_sum(dtype: DType) -> Subject:
    """out[i] = sum_k x[i, k] of primes: axes global 5, reduce 11."""
    x = sample_values(dtype, 5, 11)
    return Subject(reduction(Ops.ADD, dtype, (5, 11), 1), [None, x], [as_dtype(dtype, x.sum(1))])


def row_max(dtype: DType) -> Subject:
    """out[i] = max_k x[i, k], all negative where the dtype allows: axes global 7, reduce 12."""
    x = sample_values(dtype, 7, 12)
    if not (dtype.is_bool or dtype.is_unsigned):
        x = as_dtype(dtype, x - 4)
    return Subject(reduction(Ops.MAX, dtype, (7, 12), 1), [None, x], [as_dtype(dtype, x.max(1))])


def _largest_multiple(factor: int, dtype: DType) -> Subject:
    """The largest of three in any order, of either sign: GPUs have an instruction for that."""
    numbers = [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (-3, 0, 2)]
    numbers.append((-5, int(dtype.maximum), 7))
    x = as_dtype(dtype, np.array(numbers))
    multiple = build.mul(load(1, dtype, x.shape), factor)
    expected = as_dtype(dtype, x.astype(np.int64) * factor).max(1)
    return Subject(kernel_of(largest(multiple, 1), len(numbers), 1), [None, x], [expected])


def negated_max(dtype: DType) -> Subject:
    """out[i] = max_k -x[i, k]: axes global 7, reduce 3."""
    return _largest_multiple(-1, dtype)


def scaled_max(dtype: DType) -> Subject:
    """out[i] = max_k -2 * x[i, k]: axes global 7, reduce 3."""
    return _largest_multiple(-2, dtype)


def product(dtype: DType) -> Subject:
    """out[i] = prod_k x[i, k]: axes global 5, reduce 8.

    Of floats they are ones and twos, of integers odd, whose product keeps bits of all of them.
    """
    x = sample_values(dtype, 5, 8)
    x = as_dtype(dtype, x | 1 if dtype.is_int else np.abs(x) % 2 + 1)
    return Subject(reduction(Ops.MUL, dtype, (5, 8), 1), [None, x], [as_dtype(dtype, x.prod(1))])


def _multiplied(dtype: DType, rows: int, columns: int, depth: int) -> Subject:
    a, b = sample_values(dtype, rows, depth), sample_values(dtype, depth, columns, seed=2)
    kernel = named.matmul(rows, columns, depth, dtype)
    wider = np.float64 if dtype.is_float else np.int64
    wide = a.astype(wider) @ b.astype(wider)
    return Subject(kernel, [None, a, b], [as_dtype(dtype, wide)])


def matmul(dtype: DType) -> Subject:
    """out[i, j] = sum_k a[i, k] * b[k, j]: axes global 8, global 12, reduce 16."""
    return _multiplied(dtype, 8, 12, 16)


def prime_matmul(dtype: DType) -> Subject:
    """The same of primes: axes global 5, global 7, reduce 11."""
    return _multiplied(dtype, 5, 7, 11)


def transposed_matmul(dtype: DType) -> Subject:
    """out[i, j] = sum_k a[i, k] * b[j, k]: axes global 8, global 12, reduce 16."""
    a, b = sample_values(dtype, 8, 16), sample_values(dtype, 12, 16, seed=2)
    kernel = named.matmul(8, 12, 16, dtype, is_transposed=True)
    wide = a.astype(np.float64) @ b.astype(np.float64).T
    return Subject(kernel, [None, a, b], [as_dtype(dtype, wide)])


def convolution(dtype: DType) -> Subject:
    """out[o, i] = sum over c, k of x[c, i + k - 1] * w[o, c, k], x 0 outside of its 6 elements.

    Axes global 8, global 6, reduce 4, reduce 3.
    """
    x, w = sample_values(dtype, 4, 6), sample_values(dtype, 8, 4, 3, seed=2)
    # Windows of 3 along 8 elements, of which the first and the last are padding.
    rows = shaped(4, 6).pad(((0, 0), (1, 1)))
    windows = ShapeTracker((*rows.views, View((8, 6, 4, 3), (0, 1, 8, 1))))
    weights = shaped(8, 1, 4, 3).expand((8, 6, 4, 3))
    terms = build.mul(load(1, dtype, windows), load(2, dtype, weights))
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1)))
    taps = np.stack([wide[:, k : k + 6] for k in range(3)], 2)
    expected = np.einsum("cik,ock->oi", taps, w.astype(np.float64))
    kernel = kernel_of(total(terms, 2, 3), 8, 6, 1, 1)
    return Subject(kernel, [None, x, w], [as_dtype(dtype, expected)])


def large_product(dtype: DType) -> Subject:
    """The same with a long reduce: axes global 16, global 16, reduce 256."""
    return _multiplied(dtype, 16, 16, 256)


def sum_beside_nothing(dtype: DType) -> Subject:
    """out[i] = sum_k x[i, k] + the product of nothing, 1: axes global 4, reduce 6."""
    x, nothing = sample_values(dtype, 4, 6), np.zeros(0, numpy_dtype(dtype))
    empty = build.reduce(Ops.MUL, load(2, dtype, (4, 1, 0)), (2,))
    value = build.add(total(load(1, dtype, (4, 6, 1)), 1), empty)
    kernel = kernel_of(value, 4, 1, 1)
    return Subject(kernel, [None, x, nothing], [as_dtype(dtype, x.sum(1) + 1)])


def sum_of_nothing(dtype: DType) -> Subject:
    """out[i] = sum_j (x[i, j] * the sum of nothing + 2): axes global 4, reduce 6."""
    x, nothing = sample_values(dtype, 4, 6), np.zeros(0, numpy_dtype(dtype))
    empty = total(load(2, dtype, (4, 6, 0)), 2)
    terms = build.add(build.mul(load(1, dtype, (4, 6, 1)), empty), 2)
    kernel = kernel_of(total(terms, 1), 4, 1, 1)
    return Subject(kernel, [None, x, nothing], [np.full(4, 12, numpy_dtype(dtype))])


def nested(dtype: DType) -> Subject:
    """out[i] = sum_j max_k x[i, j, k]: axes global 4, reduce 6, reduce 8."""
    x = sample_values(dtype, 4, 6, 8)
    return Subject(sum_of_maxima(dtype, 4, 6, 8), [None, x], [as_dtype(dtype, x.max(2).sum(1))])


def nested_sums(dtype: DType) -> Subject:
    """out[i] = sum_j (sum_k x[i, j, k]) ** 2: axes global 4, reduce 6, reduce 8."""
    x = sample_values(dtype, 4, 6, 8, limit=2)
    inner = total(load(1, dtype, (4, 6, 8)), 2)
    kernel = kernel_of(total(build.mul(inner, inner), 1), 4, 1, 1)
    return Subject(kernel, [None, x], [as_dtype(dtype, (x.sum(2) ** 2).sum(1))])


def sibling(dtype: DType) -> Subject:
    """out[i] = max_k x[i, k] - sum_k x[i, k] in one loop: axes global 6, reduce 16."""
    x = sample_values(dtype, 6, 16)
    expected = x.max(1) - x.sum(1)
    return Subject(maximum_minus_sum(dtype, 6, 16), [None, x], [as_dtype(dtype, expected)])


def two_lengths(dtype: DType) -> Subject:
    """out[i] = sum_k x[i, k] - max_l y[i, l]: axes global 5, reduce 16, reduce 9."""
    x, y = sample_values(dtype, 5, 16), sample_values(dtype, 5, 9, seed=2)
    value = build.sub(total(load(1, dtype, (5, 16)), 1), largest(load(2, dtype, (5, 9)), 1))
    return Subject(kernel_of(value, 5, 1), [None, x, y], [as_dtype(dtype, x.sum(1) - y.max(1))])


def softmax(dtype: DType) -> Subject:
    """out = e - sum(e) with e = x - max(x): axes global 4, global 8, reduce 8, reduce 8."""
    x = sample_values(dtype, 4, 8)
    value = load(1, dtype, (4, 8))
    above = build.sub(value, largest(value, 1))
    kernel = kernel_of(build.sub(above, total(above, 1)), 4, 8)
    e = x - x.max(1, keepdims=True)
    return Subject(kernel, [None, x], [as_dtype(dtype, e - e.sum(1, keepdims=True))])


def reduce_outputs(dtype: DType) -> Subject:
    """out0 = row sums and out1 = row maxima: axes global 6, reduce 16."""
    x = sample_values(dtype, 6, 16)
    expected = [as_dtype(dtype, x.sum(1)), as_dtype(dtype, x.max(1))]
    return Subject(sum_and_maximum(dtype, 6, 16), [None, None, x], expected)


def masked_sum(dtype: DType) -> Subject:
    """Row sums of a masked view: axes global 5, reduce 9."""
    x = sample_values(dtype, 5, 6)
    return Subject(padded_sum(dtype, 5, 6, 1, 2), [None, x], [as_dtype(dtype, x.sum(1))])


def chosen_sum(dtype: DType) -> Subject:
    """out[i] = sum_k (x[i, k] < 2 ? x[i, k] : 0): axes global 5, reduce 11."""
    x = sample_values(dtype, 5, 11)
    value = load(1, dtype, (5, 11))
    kept = build.where(build.less(value, 2), value, build.const(dtype, 0))
    expected = np.where(x < 2, x, 0).sum(1)
    return Subject(kernel_of(total(kept, 1), 5, 1), [None, x], [as_dtype(dtype, expected)])


def _sum_of(terms: Terms, dtype: DType) -> Subject:
    """out[i] = sum_k of the terms of x[i, k]: axes global 5, reduce 11."""
    x = values()
    node = terms.term(load(1, dtype, x.shape))
    kernel = kernel_of(total(node, 1), 5, 1)
    expected = terms.expected(x).sum(1).astype(numpy_dtype(node.dtype))
    return Subject(kernel, [None, as_dtype(dtype, x)], [expected])


def _sum_form(terms: Terms) -> Form:
    form = functools.partial(_sum_of, terms)
    form.__doc__ = terms.sentence
    return form


def repeated_sum(dtype: DType) -> Subject:
    """out[i] = sum_k x[k], the same for every i: axes global 6, reduce 8."""
    x = sample_values(dtype, 8)
    kernel = reduced_view(Ops.ADD, dtype, shaped(1, 8).expand((6, 8)), 1)
    return Subject(kernel, [None, x], [as_dtype(dtype, np.full(6, x.sum()))])


def repeated_nested(dtype: DType) -> Subject:
    """out[i] = sum_j y[i, j] * sum_k x[k], x repeated: axes global 4, reduce 6, reduce 8."""
    x, y = sample_values(dtype, 8), sample_values(dtype, 4, 6, seed=2)
    inner = total(load(1, dtype, shaped(1, 1, 8).expand((4, 6, 8))), 2)
    terms = build.mul(load(2, dtype, (4, 6, 1)), inner)
    kernel = kernel_of(total(terms, 1), 4, 1, 1)
    return Subject(kernel, [None, x, y], [as_dtype(dtype, y.sum(1) * x.sum())])


def repeated_twice(dtype: DType) -> Subject:
    """out[i] = sum_jk x[k], repeated along two axes: global 4, reduce 6, reduce 8."""
    x = sample_values(dtype, 8)
    value = total(load(1, dtype, shaped(1, 1, 8).expand((4, 6, 8))), 1, 2)
    expected = as_dtype(dtype, np.full(4, 6 * x.sum()))
    return Subject(kernel_of(value, 4, 1, 1), [None, x], [expected])


def shifted_sum(dtype: DType) -> Subject:
    """out[i] = sum_k (x[i, k] + 1), terms that are not 0 where x is: axes global 5, reduce 11."""
    x = sample_values(dtype, 5, 11)
    value = build.add(load(1, dtype, (5, 11)), 1)
    kernel = kernel_of(total(value, 1), 5, 1)
    return Subject(kernel, [None, x], [as_dtype(dtype, (x + 1).sum(1))])


def scaled_sum(dtype: DType) -> Subject:
    """out[i] = sum_k x[i, k] * s[i]: axes global 5, reduce 11. s may be infinite in a float."""
    x, s = sample_values(dtype, 5, 11), sample_values(dtype, 5, seed=2)
    # Past the end of x a padded loop would find 0 * s, which is NaN for an infinite s.
    value = build.mul(load(1, dtype, (5, 11)), load(2, dtype, (5, 1)))
    kernel = kernel_of(total(value, 1), 5, 1)
    return Subject(kernel, [None, x, s], [as_dtype(dtype, x.sum(1) * s)])


def sum_in_place(dtype: DType) -> Subject:
    """out[i] += sum_k x[i, k]: axes global 6, reduce 16."""
    old, x = sample_values(dtype, 6, seed=3), sample_values(dtype, 6, 16)
    sums = total(load(1, dtype, (6, 16)), 1)
    kernel = kernel_of(build.add(load(0, dtype, (6, 1)), sums), 6, 1)
    return Subject(kernel, [old, x], [as_dtype(dtype, old + x.sum(1))])


def square(dtype: DType) -> Subject:
    """out[i, j] = sum_k a[i, k] * a[j, k], two loads of a: axes global 8, global 8, reduce 8."""
    a = sample_values(dtype, 8, 8)
    rows, columns = left(8, 8, 8), right(8, 8, 8, is_transposed=True)
    value = multiplied(load(1, dtype, rows), load(1, dtype, columns))
    kernel = kernel_of(value, 8, 8, 1)
    return Subject(kernel, [None, a], [as_dtype(dtype, a @ a.T)])


def gathered_product(dtype: DType) -> Subject:
    """out[i, j] = sum_k a[p[i], k] * b[k, j]: axes global 4, global 6, reduce 8."""
    a, b = sample_values(dtype, 5, 8), sample_values(dtype, 8, 6, seed=2)
    places = np.array([4, 0, 2, 2], np.int32)
    sizes = (4, 6, 5, 8)
    index = gathers.repeated_load(2, dtypes.int32, (0,), *sizes)
    rows = gathers.one_hot_reduce(
        gathers.along(2, *sizes), index, gathers.repeated_load(1, dtype, (2, 3), *sizes), (2,)
    )
    columns = shaped(8, 6).permute((1, 0)).reshape((1, 6, 1, 8)).expand((4, 6, 1, 8))
    kernel = kernel_of(multiplied(rows, load(3, dtype, columns), 3), 4, 6, 1, 1)
    return Subject(kernel, [None, a, places, b], [as_dtype(dtype, a[places] @ b)])


def symbolic_row_sums(dtype: DType) -> Subject:
    """out[i] = sum_k x[i, k] for i < n: axes global n, reduce 8."""
    extent, value = build.variable("n", 1, 16), 13
    old, x = sample_values(dtype, 16, seed=3), sample_values(dtype, 16, 8)
    kernel = reduction(Ops.ADD, dtype, (extent, 8), 1)
    expected = old.copy()
    expected[:value] = x[:value].sum(1)
    return Subject(kernel, [old, x], [as_dtype(dtype, expected)], {"n": value})


def symbolic_columns(dtype: DType) -> Subject:
    """out[i] = sum_k x[k, i] for k < n: axes global 8, reduce n."""
    extent, value = build.variable("n", 1, 16), 5
    x = sample_values(dtype, 16, 8)
    kernel = reduction(Ops.ADD, dtype, (extent, 8), 0)
    return Subject(kernel, [None, x], [as_dtype(dtype, x[:value].sum(0))], {"n": value})


def symbolic_repeated(dtype: DType) -> Subject:
    """out[i] = sum_k x[k] for k < n, the same for every i: axes global 6, reduce n."""
    extent, value = build.variable("n", 1, 16), 9
    x = sample_values(dtype, 16)
    kernel = reduced_view(Ops.ADD, dtype, shaped(1, extent).expand((6, extent)), 1)
    return Subject(kernel, [None, x], [as_dtype(dtype, np.full(6, x[:value].sum()))], {"n": value})


_NAMED: dict[str, Form] = {
    form.__name__: form
    for form in (
        *(add, transpose, prime, outer, padded, multi_view, two_outputs, smaller_output),
        *(in_place, symbolic_rows, row_sum, column_sum, all_sum, prime_sum, row_max, product),
        *(negated_max, scaled_max),
        *(matmul, prime_matmul, transposed_matmul, convolution, large_product, nested),
        *(nested_sums, sibling, two_lengths),
        *(softmax, reduce_outputs, masked_sum, chosen_sum, repeated_sum, repeated_nested),
        repeated_twice,
        *(sum_beside_nothing, sum_of_nothing),
        *(shifted_sum, scaled_sum, sum_in_place, square, symbolic_row_sums, symbolic_columns),
        *(symbolic_repeated, gathered_product),
    )
}
_SUMS: dict[str, Form] = {terms.form: _sum_form(terms) for terms in (*ZERO_BEYOND, *OTHER_BEYOND)}
FORMS: dict[str, Form] = {**_NAMED, **_SUMS}
