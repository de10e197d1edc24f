"""Kernels in the shapes of real work, large enough that heuristics choose their fastest forms.

Data are small integers; expected values are numpy's, or loops by the definition.
"""

from __future__ import annotations

import numpy as np

from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.bits import Array
from tinyref_spec.kernel.opt_kernels import Form, Subject, as_dtype, sample_values
from tinyref_spec.kernel.ranges import iota
from tinyref_spec.kernels.named import multiplied, reduction
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

# --- sorting networks ---------------------------------------------------------------------------


def _exchanged(dtype: DType, shown: ShapeTracker, axes: tuple[int, ...]) -> UOp:
    """Compares neighbours along each of `axes`, of size 2, in turn: the smaller one goes first."""

    def value(steps: tuple[int, ...], flips: frozenset[int]) -> UOp:
        if not steps:
            return load(1, dtype, shown.flip(tuple(sorted(flips))))
        axis = steps[-1]
        mine, other = value(steps[:-1], flips), value(steps[:-1], flips ^ {axis})
        ones = tuple(2 if each == axis else 1 for each in range(len(shown.shape)))
        numbers = shaped(2).flip((0,)) if axis in flips else shaped(2)
        is_second = build.not_equal(iota(numbers.reshape(ones).expand(shown.shape)), 0)
        keeps = build.binary(Ops.CMPNE, build.less(mine, other), is_second)
        return build.where(keeps, mine, other)

    return value(axes, frozenset())


def exchange(dtype: DType) -> Subject:
    """Two steps of a sorting network, on axes read in both directions, beside vectors."""
    x = sample_values(dtype, 4, 2, 2, 16, limit=50)
    kernel = kernel_of(_exchanged(dtype, shaped(4, 2, 2, 16), (1, 2)), 4, 2, 2, 16)
    return Subject(kernel, [None, x], [as_dtype(dtype, np.sort(np.sort(x, 1), 2))])


def exchange_neighbours(dtype: DType) -> Subject:
    """The same on the last axes: what is exchanged are neighbours in the output."""
    x = sample_values(dtype, 2, 2, 32, limit=50)
    shown = shaped(2, 2, 32).permute((2, 0, 1))
    kernel = kernel_of(_exchanged(dtype, shown, (1, 2)), 32, 2, 2)
    expected = np.sort(np.sort(x.transpose(2, 0, 1), 1), 2)
    return Subject(kernel, [None, x], [as_dtype(dtype, expected)])


def mirrored(dtype: DType) -> Subject:
    """out[i, j, k] = x[i, j, k] + 7 * x[i, 3 - j, k]: four rows in both directions."""
    x = sample_values(dtype, 6, 4, 8)
    forward = shaped(6, 4, 8)
    there = build.mul(load(1, dtype, forward.flip((1,))), 7)
    kernel = kernel_of(build.add(load(1, dtype, forward), there), 6, 4, 8)
    return Subject(kernel, [None, x], [as_dtype(dtype, x + 7 * x[:, ::-1])])


# --- products -----------------------------------------------------------------------------------


def _wide_product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def _product(dtype: DType, rows: int, columns: int, inner: int) -> Subject:
    a, b = sample_values(dtype, rows, inner), sample_values(dtype, inner, columns, seed=2)
    sizes = (rows, columns, inner)
    value = multiplied(load(1, dtype, left(*sizes)), load(2, dtype, right(*sizes)))
    expected = [as_dtype(dtype, _wide_product(a, b))]
    return Subject(kernel_of(value, rows, columns, 1), [None, a, b], expected)


def panel_product(dtype: DType) -> Subject:
    """A product whose panel of the second operand is copied for all rows."""
    return _product(dtype, 64, 64, 128)


def thin_product(dtype: DType) -> Subject:
    """A product with as few columns as a classifier has classes."""
    return _product(dtype, 32, 10, 48)


def row_product(dtype: DType) -> Subject:
    """A row times a matrix."""
    return _product(dtype, 1, 48, 32)


def transposed_product(dtype: DType) -> Subject:
    """out[i, j] = sum_k a[i, k] * b[j, k]: lanes are rows of b, which are packed."""
    a, b = sample_values(dtype, 32, 24), sample_values(dtype, 32, 24, seed=2)
    sizes = (32, 32, 24)
    second = load(2, dtype, right(*sizes, is_transposed=True))
    value = multiplied(load(1, dtype, left(*sizes)), second)
    return Subject(
        kernel_of(value, 32, 32, 1), [None, a, b], [as_dtype(dtype, _wide_product(a, b.T))]
    )


def gradient_product(dtype: DType) -> Subject:
    """out[i, j] = sum_k a[k, i] * b[k, j], as the gradient of weights."""
    a, b = sample_values(dtype, 24, 32), sample_values(dtype, 24, 32, seed=2)
    sizes = (32, 32, 24)
    first = load(1, dtype, left(*sizes, is_transposed=True))
    value = multiplied(first, load(2, dtype, right(*sizes)))
    return Subject(
        kernel_of(value, 32, 32, 1), [None, a, b], [as_dtype(dtype, _wide_product(a.T, b))]
    )


def batched_product(dtype: DType) -> Subject:
    """Three products of other matrices."""
    a, b = sample_values(dtype, 3, 16, 12), sample_values(dtype, 3, 12, 16, seed=2)
    sizes = (3, 16, 16, 12)
    value = multiplied(load(1, dtype, left(*sizes)), load(2, dtype, right(*sizes)), 3)
    kernel = kernel_of(value, 3, 16, 16, 1)
    return Subject(kernel, [None, a, b], [as_dtype(dtype, _wide_product(a, b))])


def weighted_values(dtype: DType) -> Subject:
    """out[i, j] = sum_k max(s[i, k] - m[i], 0) * v[k, j]: weights computed where they are used."""
    scores, values = sample_values(dtype, 16, 24), sample_values(dtype, 24, 32, seed=2)
    limits = sample_values(dtype, 16, seed=3, limit=1)
    sizes = (16, 32, 24)
    limit = load(2, dtype, shaped(16, 1, 1).expand(sizes))
    weights = build.maximum(build.sub(load(1, dtype, left(*sizes)), limit), 0)
    value = total(build.mul(weights, load(3, dtype, right(*sizes))), 2)
    wanted = _wide_product(np.maximum(scores - limits[:, None], 0), values)
    return Subject(
        kernel_of(value, 16, 32, 1), [None, scores, limits, values], [as_dtype(dtype, wanted)]
    )


# --- convolutions -------------------------------------------------------------------------------


def _convolution(dtype: DType, groups: int, share: int, outputs: int, step: int) -> Subject:
    """3 by 3 over 8 by 8 elements with a margin of 1: `share` inputs, `outputs` of each group."""
    x = sample_values(dtype, groups, share, 8, 8)
    w = sample_values(dtype, groups, outputs, share, 3, 3, seed=2)
    size = 8 // step
    shape = (groups, outputs, size, size, share, 3, 3)
    margins = ((0, 0), (0, 0), (1, 1), (1, 1))
    image = shaped(groups, share, 8, 8).pad(margins)
    # Of the padded image, 10 by 10.
    strides = (100 * share, 0, 10 * step, step, 100, 10, 1)
    windows = ShapeTracker((*image.views, View(shape, strides)))
    taps = shaped(groups, outputs, 1, 1, share, 3, 3).expand(shape)
    value = total(build.mul(load(1, dtype, windows), load(2, dtype, taps)), 4, 5, 6)
    wide = np.pad(x.astype(np.float64), margins)
    expected = np.zeros((groups, outputs, size, size))
    for row in range(3):
        for column in range(3):
            part = wide[:, :, row : row + 8 : step, column : column + 8 : step]
            expected += np.einsum("gcij,goc->goij", part, w[..., row, column].astype(np.float64))
    kernel = kernel_of(value, groups, outputs, size, size, 1, 1, 1)
    return Subject(kernel, [None, x, w], [as_dtype(dtype, expected)])


def padded_convolution(dtype: DType) -> Subject:
    """A convolution with a margin: lanes are output channels, whose weights are packed."""
    return _convolution(dtype, 1, 4, 16, 1)


def strided_convolution(dtype: DType) -> Subject:
    """A convolution that takes every second place."""
    return _convolution(dtype, 1, 4, 16, 2)


def grouped_convolution(dtype: DType) -> Subject:
    """A convolution whose groups of channels have weights of their own."""
    return _convolution(dtype, 2, 2, 8, 1)


def depthwise_convolution(dtype: DType) -> Subject:
    """A convolution of each channel by itself."""
    return _convolution(dtype, 6, 1, 1, 1)


def transposed_convolution(dtype: DType) -> Subject:
    """out[r, o, i] = sum over c, t of x[c, i - t] * w[c, o, 2 t + r]: no inserted zero is read.

    Of a transposed convolution of stride 2 these are the elements 2 i + r.
    """
    inputs, outputs, size, taps = 3, 16, 16, 4
    x, w = sample_values(dtype, inputs, size), sample_values(dtype, inputs, outputs, taps, seed=2)
    shape = (2, outputs, size + 1, inputs, taps // 2)
    # One margin on either side: size + 2 elements, of which tap t takes the one before.
    row = shaped(inputs, size).pad(((0, 0), (1, 1)))
    windows = ShapeTracker((*row.views, View(shape, (0, 0, 1, size + 2, -1), 1)))
    kernels = shaped(inputs, outputs, 1, taps // 2, 2).permute((4, 1, 2, 0, 3)).expand(shape)
    value = total(build.mul(load(1, dtype, windows), load(2, dtype, kernels)), 3, 4)
    spread = np.zeros((outputs, 2 * size + 2))
    for place in range(size):
        for tap in range(taps):
            spread[:, 2 * place + tap] += x[:, place].astype(np.float64) @ w[:, :, tap]
    expected = spread.reshape(outputs, size + 1, 2).transpose(2, 0, 1)
    return Subject(
        kernel_of(value, 2, outputs, size + 1, 1, 1), [None, x, w], [as_dtype(dtype, expected)]
    )


# --- reduces and scans --------------------------------------------------------------------------


def column_sums(dtype: DType) -> Subject:
    """Sums over the first axis: lanes are columns."""
    x = sample_values(dtype, 24, 32)
    kernel = reduction(Ops.ADD, dtype, (24, 32), 0)
    return Subject(kernel, [None, x], [as_dtype(dtype, x.sum(0))])


def normalised_rows(dtype: DType) -> Subject:
    """The sums of what rows are beyond their maximum: lanes along both reduces."""
    x = sample_values(dtype, 6, 32)
    value = load(1, dtype, (6, 32))
    kernel = kernel_of(total(build.sub(value, largest(value, 1)), 1), 6, 1)
    expected = (x - x.max(1, keepdims=True)).sum(1)
    return Subject(kernel, [None, x], [as_dtype(dtype, expected)])


def shared_rows(dtype: DType) -> Subject:
    """out[i, j] = e[i, j] - sum_k e[i, k], e = 2 * (max - x) + 1: e is computed once, and kept."""
    x = sample_values(dtype, 6, 32)
    value = load(1, dtype, (6, 32))
    distances = build.add(build.mul(build.sub(largest(value, 1), value), 2), 1)
    kernel = kernel_of(build.sub(distances, total(distances, 1)), 6, 32)
    wide = 2 * (x.max(1, keepdims=True) - x) + 1
    return Subject(kernel, [None, x], [as_dtype(dtype, wide - wide.sum(1, keepdims=True))])


def pooled(dtype: DType) -> Subject:
    """The largest of each two by two elements: short loops, which are unrolled."""
    x = sample_values(dtype, 8, 24)
    shown = shaped(8, 24).reshape((4, 2, 12, 2))
    kernel = kernel_of(largest(load(1, dtype, shown), 1, 3), 4, 1, 12, 1)
    return Subject(kernel, [None, x], [as_dtype(dtype, x.reshape(4, 2, 12, 2).max((1, 3)))])


def _up_to(count: int, size: int) -> UOp:
    """For rows (count, size, size): where the last axis is no further than the one before."""
    rows = iota(shaped(1, size, 1).expand((count, size, size)))
    return build.at_least(rows, iota(shaped(1, 1, size).expand((count, size, size))))


def scanned_blocks(dtype: DType) -> Subject:
    """Running sums in blocks of 16, the first pass of a scan."""
    x = sample_values(dtype, 12, 16)
    terms = load(1, dtype, shaped(12, 1, 16).expand((12, 16, 16)))
    value = total(build.where(_up_to(12, 16), terms, build.const(dtype, 0)), 2)
    return Subject(
        kernel_of(value, 12, 16, 1), [None, x], [as_dtype(dtype, np.cumsum(x, 1, np.int64))]
    )


def carried_blocks(dtype: DType) -> Subject:
    """out[b, i] = x[b, i] + the last of the block before: the second pass of a scan."""
    x = sample_values(dtype, 12, 16)
    before = shaped(12, 16).shrink(((0, 11), (15, 16))).pad(((1, 0), (0, 0))).expand((12, 16))
    kernel = kernel_of(build.add(load(1, dtype, (12, 16)), load(1, dtype, before, 192)), 12, 16)
    expected = x + np.concatenate([np.zeros((1, 1), x.dtype), x[:-1, -1:]])
    return Subject(kernel, [None, x], [as_dtype(dtype, expected)])


# --- several outputs ----------------------------------------------------------------------------


def updated_in_place(dtype: DType) -> Subject:
    """A step of an optimiser: moments and parameters are read and written in one kernel."""
    w, m, v = (sample_values(dtype, 48, seed=seed) for seed in (1, 2, 3))
    g = sample_values(dtype, 48, seed=4)
    shape = (48,)
    weight, first, second = (load(slot, dtype, shape) for slot in range(3))
    gradient = load(3, dtype, shape)
    new_first = build.add(build.mul(first, 3), gradient)
    new_second = build.add(build.mul(second, 2), build.mul(gradient, gradient))
    new_weight = build.sub(weight, build.add(new_first, new_second))
    values = (new_weight, new_first, new_second)
    kernel = build.sink(*(store(slot, value, shape) for slot, value in enumerate(values)))
    wide_m, wide_v = m * 3 + g, v * 2 + g * g
    expected = [as_dtype(dtype, each) for each in (w - (wide_m + wide_v), wide_m, wide_v)]
    return Subject(kernel, [w, m, v, g], expected)


CHOSEN_FORMS: dict[str, Form] = {
    form.__name__: form
    for form in (
        *(exchange, exchange_neighbours, mirrored),
        *(panel_product, thin_product, row_product, transposed_product, gradient_product),
        *(batched_product, weighted_values),
        *(padded_convolution, strided_convolution, grouped_convolution, depthwise_convolution),
        *(transposed_convolution, column_sums, normalised_rows, shared_rows, pooled),
        *(scanned_blocks, carried_blocks, updated_in_place),
    )
}
