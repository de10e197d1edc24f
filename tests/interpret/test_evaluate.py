"""Test the AST evaluator against literals: values of kernels and of views."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import ramp

from tinyref import Tensor
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate, size_value, view_elements
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.views import shape_tracker
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels.named import copied
from tinyref_spec.kernels.notation import kernel_of, load, shaped

f32 = dtypes.float32
i32 = dtypes.int32
index = dtypes.index


def total(values: np.ndarray, dtype: DType, op: Ops = Ops.ADD) -> np.generic:
    """Return `values` reduced to one element by a kernel."""
    count = values.size
    x = load(1, dtype, (count,))
    ast = kernel_of(build.reduce(op, x, (0,)), 1)
    return evaluate(ast, {0: np.zeros(1, numpy_dtype(dtype)), 1: values})[0][0]


def test_only_written_slots_come_back_and_inputs_stay() -> None:
    x = load(1, f32, (2,))
    out, data = np.zeros(2, np.float32), ramp(2)
    result = evaluate(kernel_of(build.add(x, 1.0), 2), {0: out, 1: data})
    assert list(result) == [0]
    assert list(result[0]) == [2, 3]
    assert list(out) == [0, 0]


def test_a_sum_rounds_once() -> None:
    # In float16, 2048 + 1 is 2048: a narrow accumulator would stay there.
    values = np.array([2048] + [1] * 64, np.float16)
    assert total(values, dtypes.float16) == 2112
    tenths = np.full(1000, 0.1, np.float32)
    assert total(tenths, f32) == np.float32(1000 * float(np.float32(0.1)))


def test_a_float64_sum_has_more_than_float64_inside() -> None:
    values = np.array([1e16, 1.0, 1.0, -1e16])
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("long double is float64 on this machine")
    assert total(values, dtypes.float64) == 2.0


def test_integer_sums_wrap() -> None:
    assert total(np.array([100, 100], np.int8), dtypes.int8) == -56
    assert total(np.array([2**32 - 1, 2], np.uint32), dtypes.uint32) == 1
    assert total(np.array([16, 16], np.uint8), dtypes.uint8, Ops.MUL) == 0


def test_iota_gives_the_numbers_of_elements_and_0_where_masked() -> None:
    tracker = shaped(2, 3).permute((1, 0)).pad(((1, 0), (0, 1)))
    numbers = build.iota(tracker)
    ast = kernel_of(numbers, 4, 3)
    (got,) = evaluate(ast, {0: np.full(12, 7, np.int32)}).values()
    assert got.dtype == np.int32
    assert got.tolist() == [0, 0, 0, 0, 3, 0, 1, 4, 0, 2, 5, 0]


@pytest.mark.table
@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats], ids=lambda d: d.name)
def test_maximum_of_negatives(dtype: DType) -> None:
    low = 0 if dtype.is_unsigned else -3
    values = np.array([low, low + 2, low + 1]).astype(numpy_dtype(dtype))
    assert total(values, dtype, Ops.MAX) == low + 2
    empty = total(values[:0], dtype, Ops.MAX)
    assert empty == dtype.minimum


def test_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    x = load(1, f32, (2,))
    ast = kernel_of(UOp(Ops.FDIV, f32, (build.const(f32, 1), x)), 2)
    result = evaluate(ast, {0: np.zeros(2, np.float32), 1: np.array([0, -0.0], np.float32)})
    assert list(result[0]) == [np.inf, -np.inf]
    assert not recwarn.list


def test_wrong_calls_are_refused() -> None:
    x = load(1, f32, (2,))
    ast = kernel_of(x, 2)
    with pytest.raises(UserError, match="no buffer for slot 1"):
        evaluate(ast, {0: ramp(2)})
    with pytest.raises(UserError, match="a view of slot 1 reaches from 0 to 1"):
        evaluate(ast, {0: ramp(2), 1: ramp(1)})
    lost = UOp(Ops.LOAD, f32, (build.define_global(1, f32, 2),))
    with pytest.raises(UserError, match="goes to a VIEW"):
        evaluate(kernel_of(lost, 2), {0: ramp(2), 1: ramp(2)})
    with pytest.raises(UserError, match="RANGE does not belong"):
        evaluate(build.sink(build.counter(3, 0, AxisKind.LOOP)), {})
    with pytest.raises(UserError, match="REDUCE over axes"):
        evaluate(build.sink(build.reduce(Ops.ADD, build.const(f32, 1), (0,))), {})
    n = build.variable("n", 1, 2)
    symbolic = kernel_of(build.const(f32, 1), n)
    with pytest.raises(UserError, match="n"):
        evaluate(symbolic, {0: ramp(2)})


N = build.variable("n", 1, 4)


def shown(tracker: ShapeTracker, indices: tuple[np.ndarray, ...] = (), **bindings: int) -> list:
    elements, valid = view_elements(tracker, bindings, indices)
    return np.where(valid, elements, -1).tolist()


def test_strides_offset_and_mask() -> None:
    # Two rows of a matrix of three columns, from the last to the first, with a column around them.
    view = View((2, 5), (-3, 1), 2, ((0, 2), (1, 4)))
    assert shown(ShapeTracker((View.contiguous((6,)), view))) == [
        [-1, 3, 4, 5, -1],
        [-1, 0, 1, 2, -1],
    ]


def test_a_view_of_a_view_is_row_major() -> None:
    turned = ShapeTracker.from_shape((2, 3)).permute((1, 0)).reshape((2, 3))
    assert len(turned.views) == 2
    assert shown(turned) == [[0, 3, 1], [4, 2, 5]]


def test_what_is_masked_inside_stays_so_outside() -> None:
    padded = ShapeTracker.from_shape((2,)).pad(((1, 1),)).reshape((2, 2)).permute((1, 0))
    assert shown(padded.reshape((4,))) == [-1, 1, 0, -1]


def test_computed_indices_are_positions_along_the_last_axes() -> None:
    indices = (np.array([2, 0, -1, 3]),)
    assert shown(ShapeTracker.from_shape((4, 3)), indices) == [2, 3, -1, -1]
    assert shown(ShapeTracker.from_shape((1, 3)), indices) == [2, 0, -1, -1]
    assert shown(ShapeTracker.from_shape((4, 0)), indices) == [-1, -1, -1, -1]


def test_symbolic_sizes_at_both_ends_through_two_views() -> None:
    rows = ShapeTracker.from_shape((4, 2)).shrink(((0, N), (0, 2))).flip((0,))
    turned = rows.permute((1, 0)).reshape((N * 2,))
    assert shown(turned, n=1) == [0, 1]
    assert shown(turned, n=4) == [6, 4, 2, 0, 7, 5, 3, 1]


def test_sizes_are_exact_and_truncate() -> None:
    seven = build.const(dtypes.index, 7)
    assert size_value(build.idiv(build.sub(N, seven), 2), {"n": 4}) == -1
    assert size_value(build.mod(build.sub(N, seven), 2), {"n": 4}) == -1
    for x, y, quotient, rest in (
        (-1, 1, -1, 0),
        (0, -3, 0, 0),
        (1, -1, -1, 0),
        (-7, -2, 3, -1),
        (7, -2, -3, 1),
        (5, 0, 0, 0),
        (-7, 7, -1, 0),
    ):
        sides = (build.add(N, x), build.add(N, y))
        sources = tuple(build.sub(side, N) for side in sides)
        assert size_value(UOp(Ops.IDIV, dtypes.index, sources), {"n": 4}) == quotient
        assert size_value(UOp(Ops.MOD, dtypes.index, sources), {"n": 4}) == rest
    assert size_value(build.mul(N, 1 << 62), {"n": 4}) == 1 << 64
    assert size_value(build.maximum(N, 3), {"n": 2}) == 3
    with pytest.raises(UserError, match="variable n has no value"):
        size_value(N, {})
    with pytest.raises(UserError, match="SQRT does not belong in a size"):
        size_value(UOp(Ops.SQRT, dtypes.float32, (build.const(dtypes.float32, 4.0),)), {})


def test_the_views_of_the_compiler_may_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    # The evaluator uses neither lowered views nor numpy_indices.
    tracker = ShapeTracker.from_shape((2, 3)).permute((1, 0)).reshape((2, 3))

    def wrong(*arguments: object) -> None:
        raise AssertionError("the compiler's reading of views is asked")

    for name in ("index_and_valid", "numpy_indices"):
        monkeypatch.setattr(ShapeTracker, name, wrong)
    monkeypatch.setattr(View, "numpy_indices_at", wrong)
    monkeypatch.setattr(shape_tracker, "value_of", wrong)
    assert shown(tracker) == [[0, 3, 1], [4, 2, 5]]


BYTES = np.array([0, 1, 2, 128, 255, 0], np.uint8)
WRITTEN = [0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_a_kernel_writes_one_for_any_byte_but_zero(device: str) -> None:
    source = Tensor(BYTES.view(np.bool_), device=device)
    assert source.flip(0).numpy().view(np.uint8).tolist() == WRITTEN[::-1]
    assert source.cast("int32").sum().item() == 4


def test_the_evaluator_writes_one_for_any_byte_but_zero() -> None:
    kernel = copied(dtypes.bool, shaped(6))
    written = evaluate(kernel, {0: np.zeros(6, np.bool_), 1: BYTES.view(np.bool_)})
    assert written[0].view(np.uint8).tolist() == WRITTEN
