"""Test folded ranges: reduces that choose an element read only that element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import choices
import numpy as np
import pytest
from kernel_cases import GRID, LOOPS, agree

from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.lower import lower as lower_plan
from tinyref.config import Context
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.engine.accounting import estimate
from tinyref.interpret import Hooks, run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import AxisKind, RangeArg
from tinyref.uops.tiles import TILES
from tinyref.verify import verify
from tinyref_spec.kernel import gathers
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store

F32, I32 = dtypes.float32, dtypes.int32
GATHERS = gathers.INDICES | {
    name: make() for name, make in {**choices.EXPRESSIONS, **choices.TOGETHER}.items()
}
# Axes that still loop after the folding; every other gather has none.
LOOPS_LEFT = {
    "constant_value": 1,
    "summed": 1,
    "multiplied": 1,
    "of_a_sum": 1,
    "by_a_maximum": 1,
    # An index of 0 takes a whole row, not one element of it.
    "shown_in_one_row": 1,
}


def buffers_of(gather: gathers.Gather) -> dict[int, np.ndarray]:
    size = int(np.prod(gather.shape))
    output = np.zeros(size, numpy_dtype(gather.value.dtype))
    return dict(enumerate([output, *gathers.arrays_of(gather)]))


def expected_of(gather: gathers.Gather) -> np.ndarray:
    return np.array(list(gather.expected), numpy_dtype(gather.value.dtype))


def same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(actual, expected)
    if expected.dtype.kind == "f":
        real = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual[real]), np.signbit(expected[real]))


def count(root: UOp, op: Ops) -> int:
    return sum(node.op is op for node in root.toposort())


def iota(axis: int, *shape: int) -> UOp:
    return gathers.along(axis, *shape)


# --- folded reduces -------------------------------------------------------------------------------


@pytest.mark.table
@pytest.mark.parametrize("name", GATHERS)
def test_a_choice_is_no_loop_and_has_the_value_of_the_reduce(name: str) -> None:
    gather = GATHERS[name]
    ast = gather.kernel
    verify(Dialect.AST, ast)
    folded = fold_ranges(ast)
    if name in ("by_the_one_before", "by_the_one_after"):
        # The element chosen along one axis is the index on the other.
        folded = fold_ranges(folded)
    verify(Dialect.AST, folded)
    assert count(folded, Ops.REDUCE) == LOOPS_LEFT.get(name, 0)
    assert count(lower_plan(Plan.of(ast, LOOPS)), Ops.REDUCE) == LOOPS_LEFT.get(name, 0)
    for kernel in (ast, folded):
        got = evaluate(kernel, buffers_of(gather), gather.bindings)[0]
        same_bits(got, expected_of(gather))


def chosen_by(counter: Callable[[UOp, UOp], UOp], indices: list[int]) -> gathers.Gather:
    """Return elements of 11 to 14 at indices that are computed from the counter and 5."""
    shape = (len(indices), 4)
    added, index = (gathers.repeated_load(slot, I32, (0,), *shape) for slot in (1, 2))
    values = gathers.repeated_load(3, I32, (1,), *shape)
    value = gathers.one_hot_reduce(counter(iota(1, *shape), added), index, values)
    inputs = ((I32, [5] * len(indices)), (I32, indices), (I32, (11, 12, 13, 14)))
    return gathers.Gather(value, (len(indices), 1), inputs, ())


@pytest.mark.table
@pytest.mark.parametrize(
    ("counter", "indices", "expected", "loops"),
    [
        (lambda i, five: build.add(five, i), [5, 8, 4, 9], [11, 14, 0, 0], 0),
        (build.add, [5, 8, 4, 9], [11, 14, 0, 0], 0),
        (lambda i, five: build.sub(five, i), [5, 2, 6, 1], [11, 14, 0, 0], 0),
        (build.sub, [-5, -2, -6, -1], [11, 14, 0, 0], 0),
        (lambda i, five: build.unary(Ops.NEG, i), [0, -3, 1, -4], [11, 14, 0, 0], 0),
        (lambda i, five: build.unary(Ops.NEG, build.add(i, 2)), [-2, -5, 2], [11, 14, 0], 0),
        (lambda i, five: build.sub(build.const(I32, 9), i), [9, 6, 10, 5], [11, 14, 0, 0], 0),
        (lambda i, five: build.sub(i, build.const(I32, 9)), [-9, -6, 9], [11, 14, 0], 0),
        (lambda i, five: build.add(build.const(I32, 9), i), [9, 12, 8], [11, 14, 0], 0),
        (lambda i, five: build.sub(five, build.unary(Ops.NEG, i)), [5, 8, 4], [11, 14, 0], 0),
        # Twice the counter takes every other number, and no linear access does.
        (lambda i, five: build.add(i, i), [0, 6, 3], [11, 14, 0], 1),
        (lambda i, five: build.add(i, build.mul(i, five)), [0, 18, 5], [11, 14, 0], 1),
    ],
)
def test_what_is_added_to_a_counter_goes_to_the_other_side(
    counter: Callable[[UOp, UOp], UOp], indices: list[int], expected: list[int], loops: int
) -> None:
    gather = chosen_by(counter, indices)
    folded = fold_ranges(gather.kernel)
    assert count(folded, Ops.REDUCE) == loops
    for kernel in (gather.kernel, folded):
        assert evaluate(kernel, buffers_of(gather))[0].tolist() == expected


def test_every_access_of_a_gather_is_proved_to_be_inside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Context(CHECK_BOUNDS=1):
        for name in ("rows", "int64", "nested", "pair", "multiplied"):
            compile_kernel(GATHERS[name].kernel, GRID)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["rows", "nested", "int64", "symbolic.3"])
def test_no_index_of_a_gather_needs_64_bits(name: str) -> None:
    kinds = dtypes.int64, dtypes.uint64
    capabilities = replace(LOOPS, dtypes=frozenset(dtypes.all) - set(kinds))
    gather = GATHERS[name]
    if any(dtype in kinds for dtype, _ in gather.inputs):
        # Data of 64 bits are emulated by pairs of words.
        capabilities = replace(capabilities, dtypes=frozenset(dtypes.all))
    program = compile_kernel(gather.kernel, capabilities)
    ranges = [node for node in program.uops if isinstance(node.arg, RangeArg)]
    assert all(node.dtype is I32 for node in ranges)


# --- accessed elements ----------------------------------------------------------------------------


def touched(ast: UOp, contents: list[np.ndarray]) -> dict[str, list[int]]:
    """Map each memory to the elements that the loads of a kernel access, repeats included."""
    accesses: dict[str, list[int]] = {}

    def note(access: object) -> np.ndarray:
        index, active = np.broadcast_arrays(
            access.index, True if access.gate is None else access.gate
        )
        accesses.setdefault(access.memory, []).extend(index[active].tolist())
        return access.value

    with Context(NOOPT=1):
        program = compile_kernel(ast, LOOPS)
    run_program(program, contents, hooks=Hooks(load=note))
    return accesses


def test_only_the_rows_that_are_chosen_are_read() -> None:
    ast = gathers.row_wise((3, 9, 0, -1), range(100, 110), range(8)).kernel
    contents = [
        np.zeros(8, np.float32),
        np.array([3, 9, 0, -1], np.int32),
        np.arange(100, 110, dtype=np.float32),
    ]
    accesses = touched(ast, contents)
    assert sorted(accesses["slot 2"]) == [0, 1, 6, 7]
    assert sorted(set(accesses["slot 1"])) == [0, 1, 2, 3]
    assert contents[0].tolist() == [106, 107, 0, 0, 100, 101, 0, 0]


def test_an_estimate_counts_what_is_read() -> None:
    shape = (16, 50257, 768)
    index = load(1, I32, shaped(16, 1, 1).expand(shape))
    table = load(2, F32, shaped(1, 50257, 768).expand(shape))
    rows = gathers.one_hot_reduce(iota(1, *shape), index, table)
    ast = kernel_of(rows, 16, 1, 768)
    assert estimate(ast).nbytes == 4 * (16 * 768 * 2 + 16)
    # One addition of 0.0 for each element.
    assert estimate(ast).operations == 16 * 768


def test_a_gather_of_more_than_there_is_counts_the_whole_once() -> None:
    ast = gathers.row_wise((1,) * 50, (1.0, 2.0, 3.0, 4.0), (3.0, 4.0) * 50).kernel
    assert estimate(ast).nbytes == 4 * (100 + 50 + 4)


# --- reduces that stay ----------------------------------------------------------------------------

SHAPE = (3, 4)
INDEX = load(1, I32, shaped(3, 1).expand(SHAPE))
TABLE = load(2, F32, shaped(1, 4).expand(SHAPE))
ZERO = build.const(F32, 0)
HERE = build.equal(iota(1, *SHAPE), INDEX)
COUNTER = iota(1, *SHAPE)


MASKED = shaped(1, 4).expand((1, 4)).pad(((1, 1), (0, 0)))
MASKED_COUNTER = build.iota(MASKED)


def summed(value: UOp, op: Ops = Ops.ADD) -> UOp:
    return build.reduce(op, value, (1,))


LEFT_ALONE: dict[str, UOp] = {
    "another identity": summed(build.where(HERE, TABLE, 1.0)),
    "minus zero": summed(build.where(HERE, TABLE, -0.0)),
    "a maximum with 0": summed(build.where(HERE, TABLE, 0.0), Ops.MAX),
    "where they differ": summed(build.where(HERE, ZERO, TABLE)),
    "less": summed(build.where(build.less(COUNTER, INDEX), TABLE, 0.0)),
    "a float counter": summed(
        build.where(build.equal(build.cast(COUNTER, F32), build.cast(INDEX, F32)), TABLE, 0.0)
    ),
    "a product of floats": summed(build.mul(build.cast(HERE, F32), TABLE)),
    "every second place": summed(
        build.where(build.equal(build.mul(COUNTER, 2), INDEX), TABLE, 0.0)
    ),
    "one or the other": summed(
        build.where(build.either(HERE, build.less(INDEX, COUNTER)), TABLE, 0.0)
    ),
    "an index that counts too": summed(
        build.where(build.equal(COUNTER, build.sub(INDEX, COUNTER)), TABLE, 0.0)
    ),
    "an index read along the axis": summed(
        build.where(build.equal(COUNTER, load(1, I32, SHAPE)), TABLE, 0.0)
    ),
    "a counter of both axes": summed(
        build.where(build.equal(build.iota(shaped(*SHAPE)), INDEX), TABLE, 0.0)
    ),
    # Where the counter is masked it is always 0, so an index of 0 takes the whole row.
    "a counter that is masked": summed(build.where(build.equal(MASKED_COUNTER, INDEX), TABLE, 0.0)),
    "a bool counter": summed(
        build.where(
            build.equal(build.cast(COUNTER, dtypes.bool), build.cast(INDEX, dtypes.bool)),
            TABLE,
            0.0,
        )
    ),
}


@pytest.mark.table
@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_no_choice_stays_a_loop(name: str) -> None:
    ast = kernel_of(LEFT_ALONE[name], 3, 1)
    assert fold_ranges(ast) is ast
    indices = np.array([2, 0, 3] * 4, np.int32)[: 12 if "along" in name else 3]
    agree(ast, {0: np.zeros(3, np.float32), 1: indices, 2: np.array([1, 2, 4, 8], np.float32)})


def test_a_counter_that_wraps_is_no_choice() -> None:
    shape = (1, 300)
    index = load(1, dtypes.uint8, shaped(1, 1).expand(shape))
    counter = build.cast(iota(1, *shape), dtypes.uint8)
    value = gathers.one_hot_reduce(counter, index, load(2, I32, shape))
    ast = kernel_of(value, 1, 1)
    assert fold_ranges(ast) is ast
    data = {0: np.zeros(1, np.int32), 1: np.array([7], np.uint8), 2: np.arange(300, dtype=np.int32)}
    # Both index 7 and index 263.
    agree(ast, data, {0: [270]})


def test_indices_that_need_each_other_stay() -> None:
    shape = (3, 3)
    rows, columns = iota(0, *shape), iota(1, *shape)
    equal = build.both(build.equal(rows, build.add(columns, 1)), build.equal(columns, rows))
    value = build.where(equal, load(1, I32, shape), 0)
    ast = kernel_of(build.reduce(Ops.ADD, value, (0, 1)), 1, 1)
    assert count(fold_ranges(ast), Ops.REDUCE) == 1
    agree(ast, {0: np.zeros(1, np.int32), 1: np.arange(9, dtype=np.int32)}, {0: [0]})


def test_padding_around_a_choice_leaves_it_one() -> None:
    # The counter, index and table are 0 in the padding, and so is the choice.
    around = ((1, 1), (0, 0))
    index = load(1, I32, shaped(2, 1).expand((2, 4)).pad(around))
    table = load(2, F32, shaped(1, 4).expand((2, 4)).pad(around))
    counter = build.iota(shaped(1, 4).expand((2, 4)).pad(around))
    value = gathers.one_hot_reduce(counter, index, table)
    ast = kernel_of(value, 4, 1)
    assert count(fold_ranges(ast), Ops.REDUCE) == 0
    data = {0: np.zeros(4, np.float32), 1: np.array([2, 0], np.int32)}
    agree(ast, {**data, 2: np.array([1, 2, 4, 8], np.float32)}, {0: [0, 4, 1, 0]})
    # The choice is not 0 in the padding, so the reduce stays.
    plus_one = gathers.one_hot_reduce(counter, index, build.add(table, 1.0))
    ast = kernel_of(plus_one, 4, 1)
    assert fold_ranges(ast) is ast
    agree(ast, {**data, 2: np.array([1, 2, 4, 8], np.float32)}, {0: [4, 5, 2, 4]})


def test_a_choice_that_is_none_in_the_padding_stays() -> None:
    # In the padding the counter is 0, which is not chosen, and the element would be 1.
    around = ((1, 1), (0, 0))
    counter, table = (
        shaped(1, 4).expand((2, 4)).pad(around),
        load(1, F32, shaped(1, 4).expand((2, 4)).pad(around)),
    )
    third = build.equal(build.iota(counter), build.const(I32, 2))
    ast = kernel_of(summed(build.where(third, build.add(table, 1.0), 0.0)), 4, 1)
    assert fold_ranges(ast) is ast
    data = {0: np.zeros(4, np.float32), 1: np.array([1, 2, 4, 8], np.float32)}
    agree(ast, data, {0: [0, 5, 5, 0]})


# --- optimisations --------------------------------------------------------------------------------


def test_no_axis_of_a_plan_is_one_that_is_folded() -> None:
    plan = Plan.of(GATHERS["rows"].kernel, LOOPS)
    assert [axis.extent for axis in plan.axes] == [3, 2]
    plan = Plan.of(GATHERS["multiplied"].kernel, LOOPS)
    assert [(axis.kind, axis.extent) for axis in plan.axes] == [
        (AxisKind.GLOBAL, 2),
        (AxisKind.GLOBAL, 2),
        (AxisKind.REDUCE, 2),
    ]


def test_a_gather_may_be_an_operand_of_a_matrix_tile() -> None:
    # Fragments have positions of their own, and so have the indices in them.
    sizes = (8, 8, 5, 8)
    index = load(1, I32, shaped(8, 1, 1, 1).expand(sizes))
    table = load(2, F32, shaped(1, 1, 5, 8).expand(sizes))
    rows = gathers.one_hot_reduce(iota(2, *sizes), index, table, axes=(2,))
    matrix = shaped(8, 8).permute((1, 0)).reshape((1, 8, 1, 8)).expand((8, 8, 1, 8))
    product = build.mul(rows, load(3, F32, matrix))
    tracker = shaped(8, 8, 1, 1)
    ast = build.sink(store(0, build.reduce(Ops.ADD, product, (3,)), tracker))
    tile = TILES["apple_m8n8k8_float32_float32"]
    capabilities = replace(GRID, shared_bytes=1 << 14, matrix_tiles=(tile,))
    random = np.random.default_rng(3)
    indices = np.array([4, 0, -1, 2, 5, 1, 1, 3], np.int32)
    table_data, matrix_data = (
        random.integers(-3, 4, shape).astype(np.float32) for shape in ((5, 8), (8, 8))
    )
    chosen = np.where(((indices >= 0) & (indices < 5))[:, None], table_data[indices % 5], 0)
    for mode in (1, 2, 3):
        contents = [np.zeros(64, np.float32), indices, table_data.ravel(), matrix_data.ravel()]
        program = compile_kernel(ast, capabilities, opts=[Opt(OptOp.TC, 0, -1, 2, mode)])
        run_program(program, contents)
        np.testing.assert_array_equal(contents[0].reshape(8, 8), chosen @ matrix_data)
