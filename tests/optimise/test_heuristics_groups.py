"""Test the choices of the heuristics for GPUs: the axes of each choice, and its gain."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_cases import GRID

from tinyref import Tensor
from tinyref.codegen.compile import compile_kernel, plan_for
from tinyref.dtype import dtypes
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import parse_opts
from tinyref.optimise.plan import Plan
from tinyref.schedule import schedule
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.kernels import named
from tinyref_spec.kernels.notation import kernel_of, largest, load, total

f32 = dtypes.float32
GPU = dataclasses.replace(GRID, vector_lanes=(1, 2, 4), shared_bytes=48 << 10)


def first_kernel(x: Tensor) -> UOp:
    return schedule([(x.node, x.device)]).kernels[0].ast


def softmax(rows: int, columns: int) -> UOp:
    return first_kernel(Tensor(np.zeros((rows, columns), np.float32), device="PYTHON").softmax())


def axes(ast: UOp) -> str:
    return ", ".join(map(str, plan_for(ast, GPU).axes))


# --- reduces in groups ----------------------------------------------------------------------------


def test_both_reduces_of_a_softmax_are_shared_out_among_the_same_work_items() -> None:
    plan = plan_for(softmax(16, 4096), GPU)
    assert axes(softmax(16, 4096)) == (
        "global 16, group_reduce 128, group_reduce 128, reduce 8, reduce 8, unroll 4, unroll 4"
    )
    assert plan.group_size == 128
    assert compile_kernel(softmax(16, 4096), GPU).group == (128, 1, 1)


def test_no_reduce_is_shared_out_where_another_would_be_repeated_by_all() -> None:
    # The second length is 1,009 terms, a prime, so it cannot be split.
    two = two_lengths(1024, 1009)
    assert axes(two) == "local 4, reduce 256, reduce 1009, unroll 4"
    assert "group_reduce 64, group_reduce 64" in axes(two_lengths(1024, 2048))


def two_lengths(first: int, second: int) -> UOp:
    """Return row sums of one length plus row maxima of another length."""
    x, y = load(1, f32, (4, first)), load(2, f32, (4, second))
    return kernel_of(build.add(total(x, 1), largest(y, 1)), 4, 1)


# --- registers and occupancy ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "lanes"), [(dtypes.float32, 64), (dtypes.float64, 16), (dtypes.float16, 64)]
)
def test_the_copies_of_a_work_item_fit_registers(dtype, lanes: int) -> None:
    assert plan_for(named.matmul(1024, 1024, 1024, dtype), GPU).lanes == lanes


# --- the law, where it could break ----------------------------------------------------------------


def check_value(ast: UOp, opts: str) -> Plan:
    plan = Plan.of(ast, GPU).apply_all(parse_opts(opts))
    sizes = {node.arg.slot: node.dtype for node in ast.toposort() if node.op is Ops.DEFINE_GLOBAL}
    contents = [
        np.random.default_rng(slot).integers(-4, 5, sizes[slot].size).astype(np.float32)
        for slot in sorted(sizes)
    ]
    expected = evaluate(ast, dict(enumerate(contents)), {})
    run_program(compile_kernel(ast, GPU, opts=plan.opts), contents, {})
    for slot, values in expected.items():
        np.testing.assert_allclose(contents[slot], values, rtol=1e-6)
    return plan


def test_reduces_in_a_row_share_work_items_and_nested_ones_do_not(monkeypatch) -> None:
    nested = named.sum_of_maxima(f32, 4, 8, 12)
    assert check_value(softmax(4, 16), "GROUP(1, 4) GROUP(3, 4)").group_size == 4
    assert check_value(softmax(4, 16), "GROUP(1, 4) GROUP(3, 8)").group_size == 32
    assert check_value(nested, "GROUP(1, 4) GROUP(3, 4)").group_size == 16
    # If they shared, each would reduce the terms of others.
    monkeypatch.setattr(Plan, "_are_independent", lambda *_: True)
    with pytest.raises(AssertionError):
        check_value(nested, "GROUP(1, 4) GROUP(3, 4)")


@pytest.mark.parametrize(("functions", "copies"), [(1, 20), (4, 4)])
def test_a_value_of_much_work_has_few_copies(functions: int, copies: int) -> None:
    # Compilers of GPUs take more than twice as long for twice the straight-line code.
    value = load(1, dtypes.float64, (20,))
    for _ in range(functions):
        value = build.unary(Ops.EXP2, build.mul(value, value))
    assert plan_for(kernel_of(total(value, 0), 1), GPU).lanes == copies
