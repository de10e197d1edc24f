"""Test scatters: sums whose terms each go to one output have the bits of the sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_cases import LOOPS

from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import dtypes
from tinyref.interpret import run_program
from tinyref.optimise.choices import heuristic_plan
from tinyref.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.kernel.gathers import along, one_hot_reduce, repeated_load
from tinyref_spec.kernels.notation import kernel_of

F32, I32 = dtypes.float32, dtypes.int32
SCATTER = Opt(OptOp.SCATTER)
ROWS, TERMS = 300, 40


def sums_at(index: Callable[[UOp], UOp], axes: tuple[int, ...] = (1,)) -> UOp:
    """Return out[r] = the sum of x[t] where the index of t is r; `index` gets the LOAD of k[t]."""
    shape = (ROWS, TERMS)
    loaded = index(repeated_load(1, I32, axes, *shape))
    counter = build.cast(along(0, *shape), loaded.dtype)
    return kernel_of(one_hot_reduce(counter, loaded, repeated_load(2, F32, (1,), *shape)), ROWS, 1)


def refusal(kernel: UOp) -> str:
    with pytest.raises(KernelOptError) as caught:
        Plan.of(kernel, LOOPS).apply(SCATTER)
    return str(caught.value)


def wrapped(index: UOp) -> UOp:
    """Return the index from the end if it is negative."""
    return build.where(build.less(index, 0), build.add(index, ROWS), index)


POSITIONS = {
    "plain": (lambda index: index, lambda numbers: numbers),
    "wrapped": (wrapped, lambda numbers: np.where(numbers < 0, numbers + ROWS, numbers)),
    "reversed": (lambda index: build.sub(ROWS - 1, index), lambda numbers: ROWS - 1 - numbers),
    "wide": (lambda index: build.cast(index, dtypes.int64), lambda numbers: numbers),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_each_output_is_the_sum_of_its_terms_in_their_order(name: str) -> None:
    index, position_of = POSITIONS[name]
    draw = np.random.default_rng(3)
    numbers = draw.choice([*range(-4, 4), ROWS - 1, ROWS, ROWS + 7], TERMS).astype(np.int32)
    terms = draw.standard_normal(TERMS).astype(np.float32)
    terms[:4] = [np.inf, -0.0, np.nan, 1e30]
    expected = np.zeros(ROWS, np.float32)
    positions = position_of(numbers)
    is_inside = (positions >= 0) & (positions < ROWS)
    np.add.at(expected, positions[is_inside], terms[is_inside])
    kernel = sums_at(index)
    program = compile_kernel(kernel, LOOPS, opts=[SCATTER])
    actual = np.full(ROWS, 5, np.float32)
    run_program(program, [actual, numbers, terms])
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))
    assert [str(axis) for axis in Plan.of(kernel, LOOPS).apply(SCATTER).axes] == [f"loop {TERMS}"]


def test_the_positions_of_an_iota_are_accepted() -> None:
    shape = (ROWS, TERMS)
    every_third = build.add(build.mul(along(1, *shape), 3), 1)
    value = one_hot_reduce(along(0, *shape), every_third, repeated_load(1, F32, (1,), *shape))
    Plan.of(kernel_of(value, ROWS, 1), LOOPS).apply(SCATTER)


# Without these refusals, the load of an output could move out of the loop over the terms.
@pytest.mark.parametrize(
    "index",
    [
        lambda index: build.mul(index, 0),
        lambda index: build.where(build.less(index, 5), build.const(I32, 7), 7),
        lambda index: build.add(index, repeated_load(3, I32, (1,), ROWS, TERMS)),
        lambda index: build.add(index, along(1, ROWS, TERMS)),
    ],
    ids=["times zero", "either way", "two loads", "load and number"],
)
def test_an_index_that_may_be_constant_is_refused(index: Callable[[UOp], UOp]) -> None:
    assert "not computed from one loaded index for each term" in refusal(sums_at(index))


def test_an_index_for_all_terms_is_refused() -> None:
    assert "not computed from one loaded index" in refusal(sums_at(lambda index: index, axes=()))


def test_other_results_are_refused() -> None:
    (store,) = sums_at(lambda index: index).src
    doubled = build.sink(build.store(store.src[0], build.add(store.src[1], store.src[1])))
    assert "stores more than the result of one reduce" in refusal(doubled)
    counted = kernel_of(build.reduce(Ops.ADD, repeated_load(1, F32, (1,), 4, 8), (1,)), 4, 1)
    assert "several positions of each output axis" in refusal(counted)


def test_the_heuristics_take_the_faster_way() -> None:
    plan = Plan.of(sums_at(lambda index: index), LOOPS)
    assert heuristic_plan(plan, as_large=True).opts[0] == SCATTER
    few = one_hot_reduce(
        along(0, 3, 64), repeated_load(1, I32, (1,), 3, 64), repeated_load(2, F32, (1,), 3, 64)
    )
    chosen = heuristic_plan(Plan.of(kernel_of(few, 3, 1), LOOPS), as_large=True)
    assert SCATTER not in chosen.opts
