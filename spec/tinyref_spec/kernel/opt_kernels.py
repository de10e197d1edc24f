"""The kernels of optimisations, in any type: the evaluator gives the expected values.

Data are small integers and, for integer types, extreme ones: sums are exact in every order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import Opt
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import VarArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref.views.view import View
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised, slots_of
from tinyref_spec.kernel.gathers import along, one_hot_reduce, repeated_load
from tinyref_spec.kernels import named
from tinyref_spec.kernels.notation import (
    kernel_of,
    largest,
    load,
    product,
    shaped,
    store,
    total,
)
from tinyref_spec.measure import run_exact


@dataclass(frozen=True)
class CheckedKernel:
    """A kernel, the contents of its slots (None for an output), and its outputs in order."""

    kernel: UOp
    inputs: Sequence[Array | None]
    expected: Sequence[Array]
    bindings: Mapping[str, int] = field(default_factory=dict)

    def measure(
        self, opts: Sequence[Opt] | None, case_id: str, device: DeviceUnderTest
    ) -> Measurement:
        """Run the kernel: its outputs must have exactly these bits.

        Args:
            opts: the optimisations; None for those of the rung.
        """
        kernel = self.kernel if opts is None else Optimised(self.kernel, tuple(opts))
        return run_exact(case_id, device, kernel, self.inputs, self.expected, self.bindings)


def evaluated(kernel: UOp, inputs: Sequence[Array] | None = None, limit: int = 3) -> CheckedKernel:
    """Return the kernel with data, and with the outputs that the evaluator of ASTs gives.

    Args:
        kernel: its variables are bound to three less than their largest values.
        inputs: what the slots after the outputs hold; drawn up to `limit` if it is not given.
    """
    slots = slots_of(kernel)
    bindings = {node.name: node.maximum - 3 for node in _variables(kernel)}
    # A slot keeps what the kernel does not write; if it is all written, it starts without contents.
    keeps = {build.slot_of(node) for node in kernel.toposort() if node.op is Ops.LOAD}
    array = [values.reshape(-1) for values in inputs or ()][::-1]
    contents: list[Array | None] = []
    for slot in slots:
        is_output = slot.is_written and slot.number not in keeps and not bindings
        drawn = small_and_extreme(slot.dtype, slot.size, slot.number + 1, limit)
        contents.append(None if is_output else array.pop() if array else drawn)
    before = {
        slot.number: np.zeros(slot.size, numpy_dtype(slot.dtype)) if data is None else data
        for slot, data in zip(slots, contents, strict=True)
    }
    written = evaluate(kernel, before, bindings)
    return CheckedKernel(
        kernel, contents, [written[number] for number in sorted(written)], bindings
    )


def _variables(kernel: UOp) -> list[VarArg]:
    views = [tracker_of(node) for node in kernel.toposort() if isinstance(node.arg, ViewArg)]
    variables = {node.arg for view in views for node in view.variables()}
    return [node for node in variables if isinstance(node, VarArg)]


# --- kernels --------------------------------------------------------------------------------------


def _plus(x: UOp, y: UOp) -> UOp:
    return build.either(x, y) if x.dtype.is_bool else build.add(x, y)


def _outer(dtype: DType) -> UOp:
    column = load(1, dtype, shaped(8, 1).expand((8, 12)))
    return kernel_of(build.mul(column, load(2, dtype, shaped(1, 12).expand((8, 12)))), 8, 12)


def _padded(dtype: DType) -> UOp:
    return kernel_of(build.add(load(1, dtype, shaped(5, 6).pad(((1, 2), (0, 2)))), 1), 8, 8)


def _multi_view(dtype: DType) -> UOp:
    view = shaped(6, 16).permute((1, 0)).reshape((8, 12))
    row = load(2, dtype, shaped(1, 12).expand((8, 12)))
    return kernel_of(build.add(load(1, dtype, view), row), 8, 12)


def _two_outputs(dtype: DType) -> UOp:
    x = load(2, dtype, (24,))
    return build.sink(store(0, build.add(x, 1), (24,)), store(1, build.mul(x, 2), (24,)))


def _smaller_output(dtype: DType) -> UOp:
    wide = load(2, dtype, shaped(6, 1).expand((6, 8)))
    columns = load(3, dtype, shaped(1, 8).expand((6, 8)))
    small = build.mul(load(2, dtype, (6, 1)), 2)
    return build.sink(store(0, build.add(wide, columns), (6, 8)), store(1, small, (6, 1)))


def _symbolic_rows(dtype: DType) -> UOp:
    extent = build.variable("n", 1, 16)
    row = load(2, dtype, shaped(1, 8).expand((extent, 8)))
    return kernel_of(build.add(load(1, dtype, (extent, 8)), row), extent, 8)


def _row_maxima(dtype: DType, columns: int = 12) -> UOp:
    """Return maxima of rows; of integers and floats, which are below zero."""
    x = load(1, dtype, (7, columns))
    below = x if dtype.is_bool or dtype.is_unsigned else build.sub(x, 4)
    return kernel_of(largest(below, 1), 7, 1)


def _product(dtype: DType, columns: int = 8) -> UOp:
    """Return products of odd integers, which keep bits of all of them."""
    return kernel_of(product(build.either(load(1, dtype, (5, columns)), 1), 1), 5, 1)


def _shifted_sum(dtype: DType) -> UOp:
    """Return sums whose terms are not zero where their loads are."""
    return kernel_of(total(build.add(load(1, dtype, (5, 11)), 1), 1), 5, 1)


def _convolution(dtype: DType) -> UOp:
    """Return windows of 3 along 8 elements, whose first and last one are padding."""
    rows = shaped(4, 6).pad(((0, 0), (1, 1)))
    windows = ShapeTracker((*rows.views, View((8, 6, 4, 3), (0, 1, 8, 1))))
    weights = load(2, dtype, shaped(8, 1, 4, 3).expand((8, 6, 4, 3)))
    return kernel_of(total(build.mul(load(1, dtype, windows), weights), 2, 3), 8, 6, 1, 1)


def _nested_sums(dtype: DType) -> UOp:
    inner = total(load(1, dtype, (4, 6, 8)), 2)
    return kernel_of(total(build.mul(inner, inner), 1), 4, 1, 1)


def _two_lengths(dtype: DType) -> UOp:
    maxima = largest(load(2, dtype, (5, 9)), 1)
    return kernel_of(build.sub(total(load(1, dtype, (5, 16)), 1), maxima), 5, 1)


def _softmax(dtype: DType) -> UOp:
    x = load(1, dtype, (4, 8))
    above = build.sub(x, largest(x, 1))
    return kernel_of(build.sub(above, total(above, 1)), 4, 8)


def _repeated_sum(dtype: DType) -> UOp:
    return named.reduced_view(Ops.ADD, dtype, shaped(1, 8).expand((6, 8)), 1)


def _repeated_nested(dtype: DType) -> UOp:
    inner = total(load(1, dtype, shaped(1, 1, 8).expand((4, 6, 8))), 2)
    return kernel_of(total(build.mul(load(2, dtype, (4, 6, 1)), inner), 1), 4, 1, 1)


def _scattered(op: Ops, dtype: DType) -> CheckedKernel:
    """Return reduces of the rows with one number; three have none, and two numbers are outside."""
    shape = (6, 8, 12)
    numbers = np.array((4, 0, 4, 4, 1, 9, 0, 1, 4, -1, 1, 4), np.int32)
    rows = shaped(12, 8).permute((1, 0)).reshape((1, 8, 12)).expand(shape)
    number, term = repeated_load(1, dtypes.int32, (2,), *shape), load(2, dtype, rows)
    value = one_hot_reduce(along(0, *shape), number, term, (2,), op)
    return evaluated(kernel_of(value, 6, 8, 1), [numbers])


def _largest_multiple(factor: int, dtype: DType) -> CheckedKernel:
    """Return the largest of three in any order, of either sign: GPUs have an instruction for it."""
    numbers = [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (-3, 0, 2)]
    x = np.array([*numbers, (-5, int(dtype.maximum), 7)]).astype(numpy_dtype(dtype))
    multiple = build.mul(load(1, dtype, x.shape), factor)
    return evaluated(kernel_of(largest(multiple, 1), len(x), 1), [x])


# A kernel, or one with data of its own.
Form = Callable[[DType], UOp | CheckedKernel]


@dataclass(frozen=True)
class OptKernel:
    """A kernel, the words for what it computes, and its axes."""

    sentence: str
    build: Form


_ADD, _MATMUL = Ops.ADD, named.matmul
KERNELS: Mapping[str, OptKernel] = {
    "add": OptKernel(
        "x[i] + y[i], of bools OR: axis 24.",
        lambda dtype: named.elementwise(_plus, (dtype, dtype), 24),
    ),
    "transpose": OptKernel("x[j, i]: axes 6, 8.", lambda dtype: named.transposed(dtype, 6, 8)),
    "prime": OptKernel("x[j, i]: axes 7, 13.", lambda dtype: named.transposed(dtype, 7, 13)),
    "outer": OptKernel("a[i] * b[j]: axes 8, 12.", _outer),
    "padded": OptKernel("x padded by masks, plus 1: axes 8, 8.", _padded),
    "multi_view": OptKernel("A view through a view plus a row: axes 8, 12.", _multi_view),
    "two_outputs": OptKernel("x + 1 and x * 2: axis 24.", _two_outputs),
    "smaller_output": OptKernel("r[i] + c[j] and r[i] * 2: axes 6, 8.", _smaller_output),
    "in_place": OptKernel("out[i] += x[i]: axis 24.", lambda dtype: named.add_in_place(dtype, 24)),
    "symbolic_rows": OptKernel("x[i, j] + b[j] for i < n: axes n, 8.", _symbolic_rows),
    "row_sum": OptKernel(
        "Sums of rows: axes 6, reduce 16.", lambda dtype: named.reduction(_ADD, dtype, (6, 16), 1)
    ),
    "all_sum": OptKernel(
        "A sum: axis reduce 64.", lambda dtype: named.reduction(_ADD, dtype, (64,), 0)
    ),
    "prime_sum": OptKernel(
        "Sums of rows: axes 5, reduce 11.", lambda dtype: named.reduction(_ADD, dtype, (5, 11), 1)
    ),
    "prime_max": OptKernel(
        "Maxima of rows: axes 7, reduce 11.", functools.partial(_row_maxima, columns=11)
    ),
    "prime_product": OptKernel(
        "Products of rows: axes 5, reduce 11.", functools.partial(_product, columns=11)
    ),
    "shifted_sum": OptKernel("Sums of x + 1: axes 5, reduce 11.", _shifted_sum),
    "row_max": OptKernel("Maxima of rows: axes 7, reduce 12.", _row_maxima),
    "product": OptKernel("Products of rows: axes 5, reduce 8.", _product),
    "masked_sum": OptKernel(
        "Sums of a masked view: axes 5, reduce 9.",
        lambda dtype: named.padded_sum(dtype, 5, 6, 1, 2),
    ),
    "matmul": OptKernel(
        "A product of matrices: axes 8, 12, reduce 16.", lambda dtype: _MATMUL(8, 12, 16, dtype)
    ),
    "prime_matmul": OptKernel(
        "A product of matrices: axes 5, 7, reduce 11.", lambda dtype: _MATMUL(5, 7, 11, dtype)
    ),
    "transposed_matmul": OptKernel(
        "A product by a transposed matrix: axes 8, 12, reduce 16.",
        lambda dtype: _MATMUL(8, 12, 16, dtype, is_transposed=True),
    ),
    "convolution": OptKernel("A convolution with a margin: axes 8, 6, reduce 4, 3.", _convolution),
    "nested": OptKernel(
        "Sums of maxima: axes 4, reduce 6, 8.", lambda dtype: named.sum_of_maxima(dtype, 4, 6, 8)
    ),
    "nested_sums": OptKernel("Sums of squares of sums: axes 4, reduce 6, 8.", _nested_sums),
    "two_lengths": OptKernel("A sum less a maximum: axes 5, reduce 16, 9.", _two_lengths),
    "softmax": OptKernel("e - sum(e), e = x - max(x): axes 4, 8, reduce 8, 8.", _softmax),
    "reduce_outputs": OptKernel(
        "Sums and maxima of rows: axes 6, reduce 16.",
        lambda dtype: named.sum_and_maximum(dtype, 6, 16),
    ),
    "repeated_sum": OptKernel("A sum for every i: axes 6, reduce 8.", _repeated_sum),
    "repeated_nested": OptKernel(
        "Sums of products by one sum: axes 4, reduce 6, 8.", _repeated_nested
    ),
    "symbolic_row_sums": OptKernel(
        "Sums of n rows: axes n, reduce 8.",
        lambda dtype: named.reduction(_ADD, dtype, (build.variable("n", 1, 16), 8), 1),
    ),
    "scattered_sum": OptKernel(
        "Sums of the rows with one number: axes 6, 8, reduce 12.",
        functools.partial(_scattered, _ADD),
    ),
    "scattered_max": OptKernel(
        "Maxima of the rows with one number: axes 6, 8, reduce 12.",
        functools.partial(_scattered, Ops.MAX),
    ),
    "negated_max": OptKernel(
        "Maxima of -x: axes 7, reduce 3.", functools.partial(_largest_multiple, -1)
    ),
    "scaled_max": OptKernel(
        "Maxima of -2 * x: axes 7, reduce 3.", functools.partial(_largest_multiple, -2)
    ),
}


@functools.lru_cache(maxsize=16)
def subject_of(kernel: str, dtype: DType) -> CheckedKernel:
    """Return the kernel of this name in a type."""
    made = KERNELS[kernel].build(dtype)
    return made if isinstance(made, CheckedKernel) else evaluated(made)
