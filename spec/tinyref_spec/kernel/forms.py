"""Kernels without reduces: constants, one operation, views of every kind, several outputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import ConstType, DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec import oracles, samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row, sized_checks
from tinyref_spec.data_kinds import of_all_kinds
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernels.named import add_in_place, constant, copied, elementwise
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store
from tinyref_spec.measure import run_exact

EXACT = Ulp(0).sentence
# For kernels without loops and launch indices, which write their elements one by one.
STRAIGHT_SIZES = (1, 2, 3, 7, 16)
# Around powers of two, and a size that no vector or group divides.
SIZES = (1, 2, 3, 7, 31, 33, 127, 1000)
# Around multiples of 8, the most common number of lanes.
SCALAR_SIZES = (1, 7, 9, 15, 17, 33)
VIEW_DTYPES = (dtypes.float32, dtypes.int32, dtypes.uint8, dtypes.float64, dtypes.bool)
# Types whose scalars the quick profile adds.
SCALAR_DTYPES = (*dtypes.floats, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.int64)


def _constants(dtype: DType) -> list[ConstType]:
    if dtype.is_bool:
        return [True, False]
    if dtype in dtypes.storage_only:
        return [1.0, -2.0, 0.0, 0.5]
    if dtype.is_float:
        # Some languages lack literals for these; the last one has a digit for every bit.
        return [1.0, -2.0, 0.0, 0.5, 1 / 3, -0.0, math.inf, -math.inf, math.nan]
    return [1, 100, 0, int(dtype.maximum), int(dtype.minimum), int(dtype.maximum) // 3]


def _store_constant(
    dtype: DType, value: ConstType, size: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    kernel = constant(dtype, value, size)
    return run_exact(case_id, device, kernel, [None], [np.full(size, value, numpy_dtype(dtype))])


def _store_checks(dtype: DType) -> list[Check]:
    first = _constants(dtype)[0]
    sized = [(f"size:{size}", first, size) for size in STRAIGHT_SIZES]
    valued = [(f"value:{number}", v, 16) for number, v in enumerate(_constants(dtype))]
    return [
        Check(name, functools.partial(_store_constant, dtype, value, size))
        for name, value, size in (*sized, *valued)
    ]


def _copy(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    kernel = copied(dtype, shaped(size))
    data = samples.random_bits(dtype, size, size)
    return run_exact(case_id, device, kernel, [None, data], [data])


def _add(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    kernel = elementwise(build.add, (dtype, dtype), size)
    x, y = (samples.small_integers(dtype, size, seed, 50) for seed in (1, 2))
    return run_exact(case_id, device, kernel, [None, x, y], [(x + y).astype(x.dtype)])


def _add_scalar(
    side: int, size: int, dtype: DType, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Add one element of memory to each of many; `side` is its operand."""
    operands = [load(1, dtype, (size,)), load(2, dtype, shaped(1).expand((size,)))]
    value = UOp(Ops.ADD, dtype, tuple(operands if side else operands[::-1]))
    x, scalar = (samples.small_integers(dtype, count, count, 50) for count in (size, 1))
    expected = (x + scalar).astype(x.dtype)
    return run_exact(case_id, device, kernel_of(value, size), [None, x, scalar], [expected])


def _scalar_checks(dtype: DType) -> Iterator[Check]:
    for number, size in enumerate(SCALAR_SIZES):
        for side, name in enumerate(("first", "second")):
            # The sides take turns, so that every type meets a device that adds one of them wrongly.
            is_rare = (number + side + dtypes.all.index(dtype)) % 2 == 1
            yield Check(
                f"scalar.{name}:{size}",
                functools.partial(_add_scalar, side, size, dtype),
                full_only=is_rare or dtype not in SCALAR_DTYPES,
            )


def _multiply(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    kernel = elementwise(build.mul, (dtype, dtype), size)
    x, y = (samples.small_integers(dtype, size, seed, 7) for seed in (1, 2))
    return run_exact(case_id, device, kernel, [None, x, y], [(x * y).astype(x.dtype)])


def _fill(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    return _store_constant(dtype, _constants(dtype)[0], size, case_id, device)


def _element_checks(dtype: DType) -> list[Check]:
    """Return cases in which every element has its own launch index or iteration, for all sizes."""
    is_number = dtype in (*dtypes.ints, *dtypes.floats)
    added = sized_checks(_add, dtype, SIZES, "add") if is_number else []
    return [
        *sized_checks(_fill, dtype, SIZES, "store"),
        *sized_checks(_copy, dtype, SIZES, "copy"),
        *added,
        *(_scalar_checks(dtype) if is_number else ()),
    ]


Shape = tuple[int, ...]


# A movement: the name of a method of ShapeTracker, and its argument.
Move = tuple[str, tuple[Any, ...]]
_OF_ARRAYS: dict[str, Callable[[Array, tuple[Any, ...]], Array]] = {
    "permute": lambda x, axes: x.transpose(axes),
    "flip": np.flip,
    "shrink": lambda x, ends: x[tuple(slice(begin, end) for begin, end in ends)],
    "expand": np.broadcast_to,
    "reshape": np.reshape,
    "pad": np.pad,
}


@dataclass(frozen=True)
class ViewForm:
    """A kernel that reads its input through a view: `move` for trackers, `reference` for arrays."""

    name: str
    shape: Shape
    moves: tuple[Move, ...]

    def move(self, tracker: ShapeTracker) -> ShapeTracker:
        """Return the view of a buffer of `shape`."""
        for name, argument in self.moves:
            tracker = getattr(tracker, name)(argument)
        return tracker

    def reference(self, array: Array) -> Array:
        """Return the elements of an array of `shape` in the view."""
        for name, argument in self.moves:
            array = _OF_ARRAYS[name](array, argument)
        return array


def _form(name: str, shape: Shape, *moves: Move) -> ViewForm:
    return ViewForm(name, shape, moves)


# By the kind of view; the name of a form is the name of its case.
VIEW_FORMS: dict[str, tuple[ViewForm, ...]] = {
    "permute": (
        _form("5x7", (5, 7), ("permute", (1, 0))),
        _form("16x16", (16, 16), ("permute", (1, 0))),
        _form("3x1x2x5", (3, 1, 2, 5), ("permute", (3, 1, 0, 2))),
    ),
    "flip": (
        _form("9", (9,), ("flip", (0,))),
        _form("4x6.columns", (4, 6), ("flip", (1,))),
        _form("4x6.both", (4, 6), ("flip", (0, 1))),
    ),
    "shrink": (
        _form("6x8", (6, 8), ("shrink", ((1, 5), (3, 4)))),
        _form("tail", (33,), ("shrink", ((32, 33),))),
    ),
    "stride": (
        _form(
            "every_third_back",
            (12,),
            ("flip", (0,)),
            ("reshape", (4, 3)),
            ("shrink", ((0, 4), (0, 1))),
            ("reshape", (4,)),
        ),
    ),
    "expand": (
        _form("scalar", (1,), ("expand", (37,))),
        _form("rows", (1, 5), ("expand", (4, 5))),
        _form("middle", (2, 1, 3), ("expand", (2, 6, 3))),
    ),
    "reshape": (
        _form("2x3x2x2", (24,), ("reshape", (2, 3, 2, 2))),
        _form("scalar", (1,), ("reshape", ())),
    ),
    "chain": (
        _form("transpose_reshape", (4, 6), ("permute", (1, 0)), ("reshape", (8, 3))),
        _form(
            "flip_permute_reshape",
            (3, 4, 5),
            ("flip", (1,)),
            ("permute", (2, 0, 1)),
            ("reshape", (15, 4)),
        ),
    ),
    "pad": (
        _form("7", (7,), ("pad", ((2, 3),))),
        _form("4x5", (4, 5), ("pad", ((1, 0), (0, 3)))),
        _form(
            "pad_flip_pad_reshape",
            (3, 4),
            ("pad", ((1, 0), (0, 2))),
            ("flip", (1,)),
            ("pad", ((0, 1), (2, 0))),
            ("reshape", (8, 5)),
        ),
    ),
}


def _read_view(form: ViewForm, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy a view of the input to the output."""
    size = int(np.prod(form.shape))
    tracker = form.move(shaped(*form.shape))
    kernel = copied(dtype, tracker, size)
    data = samples.random_bits(dtype, size, size)
    expected = np.ascontiguousarray(form.reference(data.reshape(form.shape)))
    return run_exact(case_id, device, kernel, [None, data], [expected])


def _write_view(form: ViewForm, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy the input to a view of the output; elements outside of the view stay."""
    size = int(np.prod(form.shape))
    tracker = form.move(shaped(*form.shape))
    shape = tuple(int(extent) for extent in tracker.shape if isinstance(extent, int))
    count = int(np.prod(shape))
    kernel = build.sink(store(0, load(1, dtype, shape), tracker, size))
    data = samples.random_bits(dtype, count, count)
    expected = samples.random_bits(dtype, size, size + 9)
    positions = form.reference(np.arange(size).reshape(form.shape)).reshape(-1)
    written = expected.copy()
    written[positions] = data
    return run_exact(case_id, device, kernel, [expected, data], [written])


def _view_checks(kind: str, dtype: DType) -> list[Check]:
    ways: dict[str, Callable[..., Measurement]] = {"read": _read_view}
    if kind in ("permute", "flip", "shrink", "stride"):
        ways["write"] = _write_view
    return [
        Check(f"{way}.{form.name}", functools.partial(run, form, dtype))
        for way, run in ways.items()
        for form in VIEW_FORMS[kind]
    ]


def _two_outputs(case_id: str, device: DeviceUnderTest) -> Measurement:
    x, y = load(2, dtypes.int32, (40,)), load(3, dtypes.int32, (40,))
    kernel = build.sink(store(0, build.add(x, y), (40,)), store(1, build.mul(x, y), (40,)))
    a, b = (samples.small_integers(dtypes.int32, 40, seed, 90) for seed in (1, 2))
    return run_exact(case_id, device, kernel, [None, None, a, b], [a + b, a * b])


def _in_place(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Add the input to the output: a slot that is read and written."""
    kernel = add_in_place(dtypes.int32, 77)
    a, b = (samples.small_integers(dtypes.int32, 77, seed, 90) for seed in (3, 4))
    return run_exact(case_id, device, kernel, [a, b], [a + b])


def _padded_launch(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Add 23 elements by a launch of 24, in three dimensions: one work-item does nothing."""
    small = replace(device.capabilities, grid_limit=(4, 3, 2), has_groups=False)
    kernel = compile_kernel(add_in_place(dtypes.int32, 23), small, opts=())
    a, b = (samples.small_integers(dtypes.int32, 23, seed, 90) for seed in (5, 6))
    return run_exact(case_id, device, kernel, [a, b], [a + b])


def _scalar(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run a kernel of rank 0."""
    value = build.add(load(1, dtypes.int32, ()), 1)
    kernel = kernel_of(value)
    data = np.array([41], dtype=np.int32)
    return run_exact(case_id, device, kernel, [None, data], [data + 1])


def _cast_of_kinds(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run a comparison, a select, a cast and a product in one kernel."""
    a = of_all_kinds(dtypes.int32, 64)
    x = load(1, dtypes.int32, (64,))
    y = load(2, dtypes.float32, (64,))
    value = build.where(build.less(x, 0), build.mul(y, 2), build.cast(x, dtypes.float32))
    kernel = kernel_of(value, 64)
    # Small integers, because rounding of products belongs to another rung.
    b = samples.small_integers(dtypes.float32, 64, 2, 100)
    converted = oracles.cast(a, dtypes.int32, dtypes.float32).values
    return run_exact(case_id, device, kernel, [None, a, b], [np.where(a < 0, b * 2, converted)])


def _wrapped(values: Array) -> Array:
    """Return integers of any size, wrapped to int32."""
    return np.array([oracles.wrap(int(value), dtypes.int32) for value in values], np.int32)


def _compare_at_the_wrap(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Compare numbers that wrap: x + 1 < x of the largest integer, 2 * x, and x - y < 0.

    Exact integers would give other answers, as would a compiler that assumes no overflow.
    """
    x, y = load(4, dtypes.int32, (64,)), load(5, dtypes.int32, (64,))
    values = (
        build.less(build.add(x, 1), x),
        build.less(build.sub(x, y), 0),
        build.not_equal(build.mul(x, 2), build.mul(y, 2)),
        build.less(build.add(x, 1), build.add(y, 1)),
    )
    kernel = build.sink(*(store(slot, value, (64,)) for slot, value in enumerate(values)))
    a, b = of_all_kinds(dtypes.int32, 64), of_all_kinds(dtypes.int32, 64)[::-1].copy()
    wide, other = a.astype(object), b.astype(object)
    expected = [
        _wrapped(wide + 1) < a,
        _wrapped(wide - other) < 0,
        _wrapped(wide * 2) != _wrapped(other * 2),
        _wrapped(wide + 1) < _wrapped(other + 1),
    ]
    return run_exact(case_id, device, kernel, [None] * 4 + [a, b], expected)


def _select_of_kinds(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Select by a comparison of floats: WHERE gives the bits of the chosen side."""
    x, y = load(1, dtypes.float32, (60,)), load(2, dtypes.float32, (60,))
    kernel = kernel_of(build.where(build.less(x, y), x, y), 60)
    keeps = device.capabilities.keeps_subnormals
    a = of_all_kinds(dtypes.float32, 60, "each", keeps)
    b = np.roll(a, 7)
    expected = [np.where(a < b, a, b)]
    return run_exact(case_id, device, kernel, [None, a, b], expected)


def _valid(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Pad with 7: VALID distinguishes the padding from the zeros of the input."""
    tracker = shaped(6).pad(((2, 3),))
    inside = build.valid(tracker)
    value = build.where(inside, load(1, dtypes.int32, tracker), build.const(dtypes.int32, 7))
    kernel = kernel_of(value, 11)
    data = np.array([0, 5, 0, -1, 0, 2], dtype=np.int32)
    expected = np.pad(data, (2, 3), constant_values=7)
    return run_exact(case_id, device, kernel, [None, data], [expected])


def _far(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Read elements that are 2^30 + 1 apart in rows that repeat one element 2^29 + 2 times.

    A position along the way needs more than 32 bits, though every number in the kernel, and every
    element, needs fewer. In the repeated array, x[i] is at i * (2^29 + 2).
    """
    width, step = (1 << 29) + 2, (1 << 30) + 1
    repeated = shaped(8, 1).expand((8, width)).reshape((8 * width,))
    tracker = repeated.shrink(((0, 4 * step),)).reshape((4, step)).shrink(((0, 4), (0, 1)))
    data = samples.small_integers(dtypes.int32, 8, 11, 100)
    kernel = kernel_of(load(1, dtypes.int32, tracker, 8), 4, 1)
    # (2^30 + 1) / (2^29 + 2) is less than 2.
    return run_exact(case_id, device, kernel, [None, data], [data[[0, 1, 3, 5]]])


OTHER_FORMS = {
    "valid": _valid,
    "two_outputs": _two_outputs,
    "in_place": _in_place,
    "scalar": _scalar,
}
# On data of every kind: if all operations are right, a failure is due to the kernel.
FORMS_OF_KINDS = {
    "compare_at_the_wrap": _compare_at_the_wrap,
    "select": _select_of_kinds,
    "cast": _cast_of_kinds,
}


def _symbolic_sum_of_index(value: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store x[i] + n for a symbolic number of elements; the rest stays."""
    extent = build.variable("n", 1, 64)
    shape = (extent,)
    tracker = shaped(*shape)
    added = build.add(load(1, dtypes.int32, tracker), build.cast(extent, dtypes.int32))
    kernel = build.sink(store(0, added, tracker))
    old = samples.small_integers(dtypes.int32, 64, 5, 100)
    data = samples.small_integers(dtypes.int32, 64, 6, 100)
    expected = old.copy()
    expected[:value] = data[:value] + value
    return run_exact(case_id, device, kernel, [old, data], [expected], {"n": value})


ROWS: tuple[Row, ...] = (
    *(
        make_row(
            f"kernel.store.constant.{dtype.name}",
            f"A kernel writes a {dtype.name} constant to every element of a small output.",
            clauses=("isa.store", "isa.const", "kernel.sink", "kernel.global", "memory.red_zone"),
            rung=Rung.STORE,
            op="STORE",
            dtype=dtype,
            checks=functools.partial(_store_checks, dtype),
        )
        for dtype in dtypes.all
    ),
    *(
        make_row(
            f"kernel.copy.{dtype.name}",
            f"A kernel loads and stores {dtype.name} elements without changing their bits.",
            clauses=("isa.load", "isa.store"),
            rung=Rung.ONE_ALU,
            op="LOAD",
            dtype=dtype,
            checks=functools.partial(sized_checks, _copy, dtype, STRAIGHT_SIZES),
        )
        for dtype in dtypes.all
    ),
    *(
        make_row(
            f"kernel.elements.{dtype.name}",
            f"Each of many {dtype.name} elements is stored, copied and added once.",
            clauses=("kernel.index", "isa.load", "isa.store", "memory.red_zone"),
            rung=Rung.INDEX,
            op="STORE",
            dtype=dtype,
            checks=functools.partial(_element_checks, dtype),
            advice="look at the indices of the launch, and at its size",
        )
        for dtype in dtypes.all
    ),
    *(
        make_row(
            f"kernel.one_alu.{op}.{dtype.name}",
            f"A kernel {words} two {dtype.name} inputs of plain values.",
            clauses=(f"isa.{op}",),
            rung=Rung.ONE_ALU,
            op=op.upper(),
            dtype=dtype,
            checks=functools.partial(sized_checks, run, dtype, STRAIGHT_SIZES),
        )
        for dtype in (*dtypes.ints, *dtypes.floats)
        for op, words, run in (("add", "adds", _add), ("mul", "multiplies", _multiply))
    ),
    *(
        make_row(
            f"kernel.view.{kind}.{dtype.name}",
            f"Loads and stores of {dtype.name} through {kind} views reach the right elements.",
            clauses=("kernel.view", "kernel.index"),
            rung=Rung.GATE if kind == "pad" else Rung.INDEX,
            op="VIEW",
            dtype=dtype,
            checks=functools.partial(_view_checks, kind, dtype),
            advice="look at strides and offsets, and at the indices of the launch",
        )
        for kind in VIEW_FORMS
        for dtype in VIEW_DTYPES
    ),
    make_row(
        "kernel.form.int32",
        "Two outputs, an in-place update, rank 0, and padding that differs from zeros.",
        clauses=("kernel.sink", "kernel.global", "kernel.valid", "isa.where"),
        rung=Rung.INDEX,
        op="FORM",
        dtype=dtypes.int32,
        checks=OTHER_FORMS,
    ),
    make_row(
        "kernel.far.int32",
        "Positions with intermediate values of more than 32 bits lead to the right elements.",
        clauses=("kernel.view", "kernel.index"),
        rung=Rung.INDEX,
        op="FORM",
        dtype=dtypes.int32,
        features=("native:int64",),
        checks={"repeated": _far},
    ),
    make_row(
        "kernel.launch.int32",
        "A launch larger than its output: the index beyond the end reads and writes nothing.",
        clauses=("kernel.special", "kernel.global"),
        rung=Rung.INDEX,
        op="FORM",
        dtype=dtypes.int32,
        features=("grid", "grid:4x3x2"),
        checks={"in_place": _padded_launch},
    ),
    make_row(
        "kernel.kinds.int32",
        "Comparisons of wrapped numbers, selects and casts in kernels, on data of every kind.",
        clauses=("isa.cmplt", "isa.cmpne", "isa.where", "isa.cast"),
        rung=Rung.GATE,
        op="FORM",
        dtype=dtypes.int32,
        uses=(dtypes.int32, dtypes.float32, dtypes.bool),
        checks=FORMS_OF_KINDS,
    ),
    make_row(
        "kernel.symbolic.int32",
        "A symbolic extent takes the value of the launch, also inside expressions.",
        clauses=("kernel.variable",),
        rung=Rung.LOOP,
        op="DEFINE_VAR",
        dtype=dtypes.int32,
        checks={
            f"n:{value}": functools.partial(_symbolic_sum_of_index, value)
            for value in (1, 2, 31, 33, 63, 64)
        },
    ),
)


def rows() -> Iterator[Row]:
    """Yield rows of kernels without reduces."""
    yield from ROWS
