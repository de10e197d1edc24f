"""Peeling: a loop over a padded axis and its last iteration compute what the plain kernel does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_cases import LOOPS

from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.lower import lower
from tinyref.dtype import dtypes
from tinyref.interpret import run_program
from tinyref.optimise.opt import parse_opts
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels import named
from tinyref_spec.kernels.notation import kernel_of, largest, left, load, right, total

HOST = dataclasses.replace(LOOPS, vector_lanes=(1, 2, 4, 8), shared_bytes=1 << 12, threads=2)
WIDE = dataclasses.replace(HOST, vector_lanes=(1, 2, 4, 8, 16))
# 13 rows and 11 columns: a block of 4 by 4 leaves one row and three columns.
ROWS, COLUMNS, DEPTH = 13, 11, 6
PACKED = "PADTO(1, 4) UPCAST(1, 4) PADTO(0, 4) UPCAST(0, 4) SWAP(0, 1) PACK(1, 2)"


def product() -> UOp:
    return named.matmul(ROWS, COLUMNS, DEPTH, dtypes.int32)


def planned(ast: UOp, text: str, capabilities: Capabilities = HOST) -> Plan:
    return Plan.of(ast, capabilities).apply_all(parse_opts(text))


def extents(root: UOp, kind: str = "loop") -> list[int]:
    """Return the extents of the loops of a kind; "loop" is the kind of outputs and copies."""
    ranges = [node for node in root.toposort() if node.op is Ops.RANGE]
    return sorted(
        node.src[0].arg.value
        for node in ranges
        if isinstance(node.src[0].arg, ConstArg) and node.arg.kind.value == kind
    )


def test_a_factor_that_padded_outputs_share_has_no_gate() -> None:
    """Gate the factors and results of 7 of 8 columns, and no factor of the rows."""
    plan = planned(named.matmul(3, 7, 5, dtypes.int32), "PADTO(1, 8) UPCAST(1, 8)")
    loads = [node for node in simplify(lower(plan)).toposort() if node.op is Ops.LOAD]
    assert {(build.slot_of(node), len(node.src) == 3) for node in loads} == {(1, False), (2, True)}


@pytest.mark.parametrize(
    ("opts", "loops"),
    [
        ("PADTO(1, 4)", [11, 13]),
        ("PADTO(1, 4) UPCAST(1, 4)", [2, 13]),
        ("PADTO(1, 4) UPCAST(1, 4) PADTO(0, 4) UPCAST(0, 4)", [2, 2, 3]),
        # Two iterations of rows have added positions alone, and the one of columns is the last.
        ("PADTO(0, 5) PADTO(1, 12) UPCAST(1, 12)", [13]),
        # Each copy of a panel is filled in a loop over the 6 terms.
        (PACKED, [2, 3, 3, 6, 6]),
        # Each thread has loops of 2 blocks; one thread's last block has added positions.
        ("PADTO(0, 4) UPCAST(0, 4) THREAD(0, 2)", [2, 11]),
    ],
)
def test_a_peeled_kernel_keeps_its_value(opts: str, loops: list[int]) -> None:
    ast = product()
    root = simplify(lower(planned(ast, opts)))
    assert extents(root) == loops
    generator = np.random.default_rng(1)
    shapes = [(ROWS, COLUMNS), (ROWS, DEPTH), (DEPTH, COLUMNS)]
    buffers = [generator.integers(-9, 9, shape).astype(np.int32).reshape(-1) for shape in shapes]
    # Expected by numpy, not by the evaluator.
    expected = buffers[1].reshape(shapes[1]) @ buffers[2].reshape(shapes[2])
    run_program(compile_kernel(ast, HOST, opts=parse_opts(opts)), buffers, {})
    np.testing.assert_array_equal(buffers[0].reshape(shapes[0]), expected)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@pytest.mark.parametrize(
    ("opts", "loops"),
    [
        # 13 terms: three blocks of 4 and one term.
        ("PADTO(1, 4) UNROLL(1, 4)", [3]),
        # One block of 8 is no loop, nor is one of 16 that is not whole.
        ("PADTO(1, 8) UNROLL(1, 8)", []),
        ("PADTO(1, 16) UNROLL(1, 16)", []),
        # The last of three blocks of 16 has no term.
        ("PADTO(1, 24) UNROLL(1, 8)", []),
        # The whole rows and the last one have a loop each.
        ("PADTO(1, 4) UNROLL(1, 4) PADTO(0, 4) UPCAST(0, 4)", [3, 3]),
    ],
)
def test_a_peeled_reduce_keeps_its_value(op: Ops, opts: str, loops: list[int]) -> None:
    ast = named.reduction(op, dtypes.int32, (5, 13), 1)
    program = compile_kernel(ast, WIDE, opts=parse_opts(opts))
    assert extents(simplify(lower(planned(ast, opts, WIDE))), "reduce") == loops
    assert all(len(node.src) < 3 for node in program.uops if node.op is Ops.LOAD)
    # A maximum of negative numbers shows an added zero, and a product one.
    data = -np.random.default_rng(2).integers(1, 9, (5, 13)).astype(np.int32)
    buffers = [np.zeros(5, np.int32), data.reshape(-1)]
    run_program(program, buffers, {})
    by_op = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}
    np.testing.assert_array_equal(buffers[0], by_op[op].reduce(data, 1, dtype=np.int32))


@pytest.mark.parametrize(
    ("opts", "loops", "reduces"),
    [
        # The loop of the sum, and the loop that stores its terms for the outputs.
        ("PADTO(2, 4) UNROLL(2, 4) PADTO(3, 4) UNROLL(3, 4) PACK(1, -1)", [2, 3, 11], [2, 2]),
        ("PACK(1, -1) PADTO(1, 4) UPCAST(1, 4)", [2, 3, 11], [11, 11]),
        ("PACK(1, -1) PADTO(3, 4) PADTO(1, 16) UPCAST(1, 16)", [3, 11], [11, 11]),
    ],
)
def test_loops_of_a_reused_value_are_peeled(
    opts: str, loops: list[int], reduces: list[int]
) -> None:
    x = load(1, dtypes.int32, (3, 11))
    above = build.sub(x, largest(x, 1))
    ast = kernel_of(build.sub(above, total(above, 1)), 3, 11)
    root = simplify(lower(planned(ast, opts, WIDE)))
    assert (extents(root), extents(root, "reduce")) == (loops, reduces)
    data = np.random.default_rng(3).integers(-9, 9, (3, 11)).astype(np.int32)
    buffers = [np.zeros(33, np.int32), data.reshape(-1)]
    run_program(compile_kernel(ast, WIDE, opts=parse_opts(opts)), buffers, {})
    moved = data - data.max(1, keepdims=True)
    expected = moved - moved.sum(1, keepdims=True)
    np.testing.assert_array_equal(buffers[0].reshape(3, 11), expected)


def test_a_loop_without_its_last_iteration_has_no_gates() -> None:
    block = "PADTO(1, 4) UPCAST(1, 4) PADTO(0, 4) UPCAST(0, 4)"
    program = compile_kernel(product(), HOST, opts=parse_opts(block))
    accesses = [node for node in program.uops if node.op in (Ops.LOAD, Ops.STORE)]
    assert all(len(node.src) < 3 for node in accesses if node.op is Ops.STORE)
    stored = sum(node.src[1].dtype.lanes for node in accesses if node.op is Ops.STORE)
    # The body of 4 x 4, its last columns, its last row, and the corner: no element is stored twice.
    assert stored == 16 + 4 * 3 + 1 * 4 + 1 * 3


def test_a_loop_without_iterations_that_are_whole_is_its_last_one() -> None:
    root = simplify(lower(planned(named.matmul(8, 4, 4, dtypes.int32), "PADTO(0, 16)")))
    assert extents(root) == [4, 8]


@pytest.mark.parametrize("opts", ["PADTO(0, 8) UPCAST(0, 8)", "PADTO(1, 4) UNROLL(1, 4)"])
def test_a_kernel_that_writes_nothing_has_nothing_to_peel(opts: str) -> None:
    nowhere = ShapeTracker((View((9, 1), (0, 0), 0, ((0, 0), (0, 1))),))
    memory = build.view(build.define_global(0, dtypes.int32, 9), nowhere)
    sums = total(load(1, dtypes.int32, (9, 13)), 1)
    ast = build.sink(build.store(memory, sums))
    assert not lower(planned(ast, opts)).src


def test_a_kernel_whose_scratch_memory_does_not_fit_twice_is_not_peeled() -> None:
    # A copy has 6 x 4 elements of 4 bytes. The last row uses the one of all rows.
    for size, loops in ((191, [3, 3, 6]), (192, [2, 3, 3, 6, 6])):
        capabilities = dataclasses.replace(HOST, shared_bytes=size)
        assert extents(simplify(lower(planned(product(), PACKED, capabilities)))) == loops


def test_the_operand_that_repeats_is_copied_where_a_matrix_is_both_operands() -> None:
    size = 13
    rows, columns = left(size, size, size), right(size, size, size)
    terms = build.mul(load(1, dtypes.int32, rows), load(1, dtypes.int32, columns))
    ast = kernel_of(total(terms, 2), size, size, 1)
    opts = "PADTO(1, 4) UPCAST(1, 4) SWAP(0, 1) PACK(1, 1)"
    plan = planned(ast, opts)
    (copied,) = plan.copied
    assert copied.src[0].arg == load(1, dtypes.int32, columns).src[0].arg
    matrix = np.arange(size * size, dtype=np.int32)
    buffers = [np.zeros_like(matrix), matrix]
    run_program(compile_kernel(ast, HOST, opts=parse_opts(opts)), buffers, {})
    square = matrix.reshape(size, size) @ matrix.reshape(size, size)
    np.testing.assert_array_equal(buffers[0].reshape(size, size), square)
