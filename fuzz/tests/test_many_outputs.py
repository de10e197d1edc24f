"""Kernels that try many values: free expressions, neighbours of instances, chains, known ranges."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ViewArg
from tinyref_fuzz.campaign.cases import case_at
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.free import free_expression
from tinyref_fuzz.generate.kernel import Kernel
from tinyref_fuzz.generate.neighbours import neighbour
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import judge_of
from tinyref_fuzz.judge.oracles import oracle_for
from tinyref_fuzz.judge.ranges import wrong_range
from tinyref_spec.kernel_case import Array, Case
from tinyref_spec.kernels.notation import kernel_of, load

SEEDS = 150
MAX_CASES = 60


def x() -> UOp:
    return load(1, dtypes.int32, (4,))


# --- free expressions ----------------------------------------------------------------------------


def free(seed: int) -> UOp | None:
    kernel = Kernel.draw(Tape(seed=seed), POLICIES["rules"], judge_of("PYTHON").capabilities)
    axes = kernel.add_axes((8, 6), outer=True)
    found = free_expression(Expressions(kernel), kernel.shape(axes))
    return found.node if found is not None else None


def test_free_expressions_are_of_counters_and_of_values_and_all_is_specified() -> None:
    found = [node for node in map(free, range(SEEDS)) if node is not None]
    assert len(found) > SEEDS * 3 // 4
    ops: Counter[Ops] = Counter()
    for node in found:
        nodes = node.toposort()
        ops.update({each.op for each in nodes})
        assert node.dtype in (*dtypes.ints, dtypes.bool)
        for each in nodes:
            if each.op in (Ops.IDIV, Ops.MOD) and each.dtype is not dtypes.index:
                assert isinstance(each.src[1].arg, ConstArg)
                assert each.src[1].arg.value not in (0, -1)
    assert min(ops[op] for op in (Ops.LOAD, Ops.IOTA, Ops.MOD, Ops.CMPLT, Ops.MUL)) > SEEDS // 12


# --- neighbours ----------------------------------------------------------------------------------


def neighbours(node: UOp, seeds: int = SEEDS) -> set[UOp]:
    return {neighbour(node, Tape(seed=seed)) for seed in range(seeds)}


def test_a_neighbour_has_one_operand_changed() -> None:
    quotient = build.idiv(x(), 4)
    found = neighbours(quotient)
    assert build.idiv(build.add(x(), 1), 4) in found
    assert build.idiv(build.add(x(), -9), 4) in found
    assert build.idiv(build.unary(Ops.NEG, x()), 4) in found
    assert build.idiv(x(), 5) in found
    assert build.idiv(x(), -4) in found
    assert all(node.op is Ops.IDIV and node.src[1].op is Ops.CONST for node in found)


def test_a_neighbour_divides_by_nothing_that_is_not_specified() -> None:
    divisors = {node.src[1].arg.value for node in neighbours(build.mod(x(), 1))}
    assert {2, 3, 5} < divisors
    assert not {0, -1} & divisors


def test_an_operand_of_a_neighbour_may_be_made_by_another_op() -> None:
    found = neighbours(build.add(build.mod(x(), 4), 3), 10 * SEEDS)
    assert {Ops.MOD, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR} <= {node.src[0].op for node in found}


def test_a_computed_divisor_and_a_count_stay_as_they_are() -> None:
    divisor = build.add(build.both(x(), 7), 1)
    assert all(node.src[1] is divisor for node in neighbours(build.idiv(x(), divisor)))
    count = build.const(dtypes.int32, 3)
    assert all(
        node.src[1] is count for node in neighbours(UOp(Ops.SHL, dtypes.int32, (x(), count)))
    )


def test_a_condition_becomes_the_opposite_and_what_has_no_integer_stays() -> None:
    chosen = build.where(build.less(x(), 3), x(), 0)
    opposite = build.where(build.logical_not(build.less(x(), 3)), x(), 0)
    assert opposite in neighbours(chosen)
    zero = build.const(dtypes.float32, 0.0)
    difference = build.sub(load(1, dtypes.float32, (4,)), zero)
    assert build.sub(difference.src[0], -0.0) in neighbours(difference)
    root = build.unary(Ops.SQRT, load(1, dtypes.float32, (4,)))
    assert neighbours(root) == {root}


# --- chains of views -----------------------------------------------------------------------------


def test_chains_are_of_many_outputs_and_of_several_views() -> None:
    judge = judge_of("PYTHON")
    cases = [case_at(judge, 3, number, "views") for number in range(8)]
    assert all(10 <= len(case.ast.src) <= 18 for case in cases)
    trackers = [
        node.arg.tracker
        for case in cases
        for node in case.ast.toposort()
        if isinstance(node.arg, ViewArg)
    ]
    several = [len(tracker.views) for tracker in trackers]
    assert sum(count > 1 for count in several) > 20
    assert max(several) >= 3
    assert any(tracker.is_masked for tracker in trackers)


# --- known ranges --------------------------------------------------------------------------------


def choice(least: int) -> Case:
    """0, 1, and two numbers from `least` on, of which no rule asks anything."""
    small, large = build.both(x(), 3), build.add(build.both(x(), 1), least)
    ast = kernel_of(build.where(build.less(x(), 2), small, large), 4)
    return Case(ast, (np.zeros(4, np.int32), np.arange(4, dtype=np.int32)))


def test_ranges_are_asked_of_the_values_that_the_oracle_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = case_at(judge_of("PYTHON"), 3, 1, "rules")
    known = oracle_for(case).values
    values: dict[UOp, Array] = {}
    evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings, values)
    whole = [node for node in values if node.dtype.is_int or node.dtype.is_bool]
    assert len(whole) > 50
    for node in whole:
        np.testing.assert_array_equal(known[node], values[node])
    monkeypatch.delattr("tinyref_fuzz.judge.ranges.evaluate")
    assert wrong_range(case.ast, case.buffers, case.bindings, known) is None
